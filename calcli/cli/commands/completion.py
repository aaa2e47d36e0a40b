"""Print the completion of commands, options and names for a shell.

\b
calcli completion bash > ~/.local/share/bash-completion/completions/calcli
calcli completion zsh >> ~/.zshrc
calcli completion fish > ~/.config/fish/completions/calcli.fish
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from calcli.cli.main import COMPLETION
from calcli.cli.render import print_made


@dataclass(frozen=True, kw_only=True)
class CompletionArgs:
    shell: Annotated[
        Literal["bash", "zsh", "fish"],
        typer.Argument(metavar="bash|zsh|fish", help="The shell that is to complete."),
    ]


def run(args: CompletionArgs) -> int:
    """Print Typer's script, which asks calcli for what may come next."""
    script = get_completion_script(
        prog_name="calcli", complete_var=COMPLETION, shell=args.shell
    )
    print_made(f"{script}\n")
    return 0
