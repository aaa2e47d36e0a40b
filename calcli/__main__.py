"""The command line's entry: runs a command and turns errors into one line and an exit code."""

import os
import signal
import sys
from types import FrameType

import typer

from calcli.errors import CalcliError

# Typer vendors Click; the base of its usage errors is reachable only through a public subclass.
_ClickError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")  # type: ignore[assignment]

INTERRUPTED = 130
TERMINATED = 143


def main() -> None:
    """Run calcli on the process's arguments and exit."""
    debug = "--debug" in sys.argv[1:]
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    signal.signal(signal.SIGTERM, _terminate)
    if not debug:
        import warnings

        warnings.simplefilter("ignore")  # ours are words of our own; a library's help nobody here
    try:
        code = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (`calcli … | head`): nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = fail("interrupted", INTERRUPTED)
    except CalcliError as error:
        if debug:
            raise
        code = fail(str(error), error.exit_code)
    except _ClickError as error:
        code = fail(f"{_sentence(error.format_message())}; see {_help_of(error)}", 2)  # type: ignore[attr-defined]
    except MemoryError:
        if debug:
            raise
        code = fail("out of memory; use a method that streams (calcli methods) or fewer rows", 1)
    except Exception as error:
        if debug:
            raise
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        code = fail(
            f"internal error: {where}{type(error).__name__}: {' '.join(str(what).split())}; --debug shows more", 1
        )
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit code it asks for.

    Typer's own runner is left out: it would swallow interruptions and closed pipes.
    """
    from calcli.commands import app

    command = typer.main.get_command(app)
    try:
        with command.make_context("calcli", arguments or ["--help"]) as context:
            code = command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return code if isinstance(code, int) else 0


def fail(message: str, code: int) -> int:
    """Write one line to stderr, and hand the exit code on."""
    print(f"calcli: {' '.join(message.split())}", file=sys.stderr)
    return code


def _sentence(message: str) -> str:
    return (message[:1].lower() + message[1:]).rstrip(". ")


def _help_of(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'calcli'} --help"


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)  # lets temporary files be removed


if __name__ == "__main__":
    main()
