"""Print the completion of commands, options and names for a shell.

\b
calcli completion bash > ~/.local/share/bash-completion/completions/calcli
calcli completion zsh >> ~/.zshrc
calcli completion fish > ~/.config/fish/completions/calcli.fish
"""

from collections.abc import Iterator
from shlex import quote
from typing import Literal

from calcli import __version__
from calcli.cli.app import COMMANDS, EPILOG, load
from calcli.cli.render import print_made
from calcli.fast_dataclass import dataclass
from calcli.metrics.catalog import metric_names
from calcli.options import REQUIRED, argument
from calcli.registry import method_names


@dataclass(frozen=True)
class CompletionArgs:
    shell: Literal["bash", "zsh", "fish"] = argument(
        REQUIRED, "The shell that is to complete.", "bash|zsh|fish"
    )


# ---- shell completion and the manual page, built from the same definitions as the help


@dataclass(frozen=True)
class Flag:
    """Option of a command: its names, the placeholder of its value ("" for none), help, and known values."""

    names: list[str]
    value: str
    help: str
    values: list[str]


def flags(command: str) -> list[Flag]:
    named = {"--method": [*method_names(), "all"], "--metric": list(metric_names())}
    found = []
    for option in (
        each for each in load(command).params if each.param_type_name == "option"
    ):
        choices = list(getattr(option.type, "choices", ()))
        value = "" if option.is_flag else option.metavar or "|".join(choices) or "VALUE"  # type: ignore[attr-defined]
        written = value.split("|") if "|" in value and value.islower() else []
        values = named.get(option.opts[0]) or choices or written
        found.append(
            Flag(
                [*option.opts, *option.secondary_opts],
                value,
                getattr(option, "help", None) or "",
                values,
            )
        )
    return found


def listed(command: str) -> tuple[str, ...]:
    """Known values of the argument of a command, if it is a name from a list."""
    return {
        "methods": method_names(),
        "metrics": tuple(metric_names()),
        "completion": tuple(SCRIPTS),
    }.get(command, ())


def bash() -> str:
    """Completion script for bash, to source or to put where bash-completion looks."""
    values, words = [], []
    for name in COMMANDS:
        own = flags(name)
        for flag in own:
            if flag.value:
                spelt = "|".join(quote(f"{name} {each}") for each in flag.names)
                values.append(f"    {spelt}) words={quote(' '.join(flag.values))} ;;")
        spelt = " ".join(
            each for flag in own for each in flag.names if each.startswith("--")
        )
        words.append(
            f"      {name}) if [[ $cur == -* ]]; then words={quote(spelt)}; else words="
        )
        words[-1] += f"{quote(' '.join(listed(name)))}; fi ;;"
    return BASH.format(
        values="\n".join(values),
        words="\n".join(words),
        commands=quote(" ".join(COMMANDS)),
    )


BASH = """\
_calcli() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} words=
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    *) case "${{COMP_WORDS[1]}}" in
{words}
    esac ;;
  esac
  if ((COMP_CWORD == 1)); then words={commands}; fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _calcli calcli
"""


def zsh() -> str:
    """Completion script for zsh, which runs that for bash."""
    return f"autoload -Uz bashcompinit && bashcompinit\n{bash()}"


def fish() -> str:
    """Completion script for fish, for ~/.config/fish/completions/calcli.fish."""
    lines = []
    for name, summary in COMMANDS.items():
        lines.append(
            f"complete -c calcli -f -n __fish_use_subcommand -a {name} -d {quote(summary)}"
        )
        here = f"complete -c calcli -n {quote(f'__fish_seen_subcommand_from {name}')}"
        if listed(name):
            lines.append(f"{here} -f -a {quote(' '.join(listed(name)))}")
        for flag in flags(name):
            spelt = " ".join(
                f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}"
                for n in flag.names
            )
            takes = (
                ""
                if not flag.value
                else f" -x -a {quote(' '.join(flag.values))}"
                if flag.values
                else " -r"
            )
            lines.append(f"{here} {spelt}{takes} -d {quote(flag.help)}")
    return "\n".join([*lines, ""])


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}


def manual() -> str:
    """Manual page calcli(1) in roff."""
    lines = [
        f'.TH CALCLI 1 "" "calcli {__version__}"',
        ".SH NAME",
        "calcli \\- calibrate classifiers on saved scores",
    ]
    lines += [
        ".SH SYNOPSIS",
        ".B calcli",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        lines += [f".SS calcli {name}", *_text(load(name).help or "")]
        for flag in flags(name):
            lines += [
                ".TP",
                f"\\fB{_roff(', '.join(flag.names))}\\fR {_roff(flag.value)}",
                _roff(flag.help) or "\\&",
            ]
        lines += [".PP", *_text(load(name).epilog or "")]
    return "\n".join([*lines, '.SH "EXIT STATUS"', *_text(EPILOG), ""])


def _text(text: str) -> Iterator[str]:
    """Yield paragraphs as lines of roff; those that the help does not wrap stay unwrapped."""
    for paragraph in text.strip().split("\n\n"):
        plain = paragraph.startswith("\b\n")
        yield ".PP"
        yield from [".nf"] * plain
        yield from map(_roff, paragraph.removeprefix("\b\n").split("\n"))
        yield from [".fi"] * plain


def _roff(line: str) -> str:
    safe = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def run(args: CompletionArgs) -> int:
    """Print the script; it contains all names, so that completing does not start calcli."""
    print_made(SCRIPTS[args.shell]())
    return 0
