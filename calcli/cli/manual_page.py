"""The manual page calcli(1), from the same definitions as the help."""

from collections.abc import Iterator
from dataclasses import dataclass

from calcli import __version__
from calcli.cli.app import COMMANDS, EPILOG, load


@dataclass(frozen=True)
class Flag:
    """Option of a command: its names, the placeholder of its value, and its help."""

    names: list[str]
    value: str
    help: str


def flags(command: str) -> list[Flag]:
    """Options of a command."""
    listed = []
    for option in load(command).params:
        if option.param_type_name != "option":
            continue
        value = ""
        if not option.is_flag:  # type: ignore[attr-defined]
            choices = "|".join(getattr(option.type, "choices", ()))
            value = option.metavar or choices or "VALUE"
        names = [*option.opts, *option.secondary_opts]
        listed.append(Flag(names, value, getattr(option, "help", None) or ""))
    return listed


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
        lines += [f".SS calcli {name}", *_text(_whole_help(name))]
        for flag in flags(name):
            lines += [
                ".TP",
                f"\\fB{_roff(', '.join(flag.names))}\\fR {_roff(flag.value)}",
                _roff(flag.help) or "\\&",
            ]
        lines += [".PP", *_text(load(name).epilog or "")]
    return "\n".join([*lines, '.SH "EXIT STATUS"', *_text(EPILOG), ""])


def _text(text: str) -> Iterator[str]:
    """Yield paragraphs as lines of roff; those that the help does not wrap stay
    unwrapped.
    """
    for paragraph in text.strip().split("\n\n"):
        plain = paragraph.startswith("\b\n")
        yield ".PP"
        yield from [".nf"] * plain
        yield from map(_roff, paragraph.removeprefix("\b\n").split("\n"))
        yield from [".fi"] * plain


def _roff(line: str) -> str:
    safe = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def _whole_help(command: str) -> str:
    """The help of a command, details included."""
    return (load(command).help or "").replace("\f", "")
