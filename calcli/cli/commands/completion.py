"""Print the completion of commands, options and names for a shell.

\b
calcli completion bash > ~/.local/share/bash-completion/completions/calcli
calcli completion zsh >> ~/.zshrc
calcli completion fish > ~/.config/fish/completions/calcli.fish
"""

from calcli.cli.man_and_completion import SCRIPTS
from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.flags import REQUIRED, argument

ORDER = 90


@dataclass(frozen=True)
class CompletionArgs:
    shell: str = argument(REQUIRED, "The shell that is to complete.", "bash|zsh|fish")

    def __post_init__(self) -> None:
        if self.shell not in SCRIPTS:
            raise UsageError(f"{self.shell}: expected one of {', '.join(SCRIPTS)}")


def run(args: CompletionArgs) -> int:
    """Print the script, which names everything and so starts no calcli when it completes."""
    print(SCRIPTS[args.shell](), end="")
    return 0
