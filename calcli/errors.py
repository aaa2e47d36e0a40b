"""The errors that calcli raises on purpose, one exit code each.

A message is one line that says what was wrong, where, what was found, what was
expected and what to do next. Only ``calcli.cli.main.main`` turns them into exits.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from signal import SIGINT
from typing import NamedTuple, Self

LONG_WORD = re.compile(r"\S{1001,}")
"""What is a cell of a file, and neither a word nor a path."""


def _cut(word: re.Match[str]) -> str:
    return f"{word[0][:80]}…"


class CalcliError(Exception):
    """Base of the errors raised by calcli.

    advice : what to do, said where no command is suggested. no_command : why none is, as
    ``the file has to be corrected``. option : words of the one option of ``calcli
    extract`` that settles it, or that is advised against. commands : suggested commands
    in order, each a tuple of words.
    """

    exit_code = 1
    commands: tuple[tuple[str, ...], ...] = ()

    def __init__(
        self,
        message: str = "",
        *,
        advice: str = "",
        no_command: str = "",
        option: Sequence[str] = (),
    ) -> None:
        super().__init__(LONG_WORD.sub(_cut, message))
        self.advice = advice
        self.no_command = no_command
        self.option = tuple(option)

    def __str__(self) -> str:
        parts = [self.message]
        if self.commands:
            parts.append(f"to try: {' && '.join(map(shlex.join, self.commands))}")
        else:
            parts.append(self.advice)
            if self.no_command:
                parts.append(f"no command is proposed, as {self.no_command}")
        return "; ".join(filter(None, parts))

    @property
    def message(self) -> str:
        """The message without advice and suggested commands."""
        return super().__str__()

    def advising(
        self, *commands: Sequence[str], more: str = "", no_command: str = ""
    ) -> Self:
        """Copy of the error, its message extended by ``more``.

        commands, no_command : replace those of the error, if any are given.
        """
        made = type(self)(
            self.message + more,
            advice=self.advice,
            no_command=no_command or self.no_command,
            option=self.option,
        )
        made.commands = tuple(map(tuple, commands)) or self.commands
        return made

    def translated(self, change: Callable[[str], str]) -> Self:
        """Copy of the error with its words changed."""
        made = type(self)(
            change(self.message),
            advice=change(self.advice),
            no_command=self.no_command,
            option=self.option,
        )
        commands = [list(map(change, words)) for words in self.commands]
        return made.advising(*commands)


class UsageError(CalcliError):
    """The command line asks for something that does not exist or is not allowed."""

    exit_code = 2


class DataError(CalcliError):
    """An input file or an artifact is not what it must be."""

    exit_code = 3


class MissingFile(DataError):
    """An input file that is not there."""


class SaysHow(DataError):
    """An input that is not what it must be; the sentence ends with what to type."""


class NoHDF5(SaysHow):
    """An input file that was to be HDF5 and is not."""


class InvalidRows(DataError):
    """Scores, labels or weights of an input that break the rules of bundles."""


class NotToRead(DataError):
    """An input file that no command reads as it is."""


class FitError(CalcliError):
    """A calibrator cannot be fitted to these data."""

    exit_code = 4


class LimitCrossed(CalcliError):
    """A limit of --max, --min or --fail-on was crossed, or ``watch`` has its alarm on."""

    exit_code = 5


class ResourceError(CalcliError):
    """The system lacks what a command needs: room on a disk, memory, open files."""

    exit_code = 2


class WorkersLost(CalcliError):
    """Worker processes died before their work was done."""


INTERRUPTED = 128
"""The exit code of a command that a signal ended is this plus the signal's number."""


class ExitCode(NamedTuple):
    """An exit code: its meaning in two or three words, and what else it stands for."""

    number: int
    meaning: str
    more: str


EXIT_CODES = (
    ExitCode(0, "ok", ""),
    ExitCode(CalcliError.exit_code, "internal error", ""),
    ExitCode(
        UsageError.exit_code,
        "usage",
        "unknown name, bad option, output exists; also no room on a disk or in memory",
    ),
    ExitCode(DataError.exit_code, "bad input file or artifact", ""),
    ExitCode(
        FitError.exit_code,
        "fit failed",
        "with `--strict` also any status but `ok`; `threshold` found none; `adapt`: the"
        " rows are too few, or not what other class frequencies would make",
    ),
    ExitCode(
        LimitCrossed.exit_code,
        "a limit was crossed",
        "of `--max`, `--min` or `--fail-on`; `watch`: the alarm is on",
    ),
    ExitCode(INTERRUPTED + SIGINT, "interrupted", ""),
)
"""Exit codes, of which the help, README.md and docs/pipelines.md say the same.

Of several files all are tried, and the largest code is returned.
"""


def one_line(problem: BaseException, limit: int = 200) -> str:
    """The text of an exception on one line, not too long."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"


@contextmanager
def blaming(
    sentence: str, kind: type[Exception] = Exception, *, advice: str = ""
) -> Iterator[None]:
    """Turn an exception inside, other than calcli's own, into DataError. sentence : what could not be done."""
    try:
        yield
    except CalcliError:
        raise
    except kind as problem:
        raise DataError(f"{sentence}: {one_line(problem)}{advice}") from None


def check_choice(option: str, value: str | None, allowed: Iterable[str]) -> None:
    """Raise UsageError for a value of an option that is not allowed; None means that it was not given."""
    if value is not None and value not in allowed:
        raise UsageError(f"{option} {value}: expected one of {', '.join(allowed)}")


def has_file(package: str, name: str) -> bool:
    """Check whether a package has the module for a name as users write it (``-`` for ``_``), without listing all."""
    module = name.replace("-", "_")
    if not module.isidentifier() or module[0] == "_":
        return False
    spec = find_spec(f"{package}.{module}")
    return spec is not None and spec.submodule_search_locations is None


def unknown_name(
    what: str,
    name: str,
    valid: Iterable[str],
    aliases: Mapping[str, str] | None = None,
) -> UsageError:
    """Build the error for an unknown name: it suggests the nearest ones, then lists all.

    aliases : other names that are read, and the name that each stands for.
    """
    known = sorted(valid)
    aliases = aliases or {}
    matches = get_close_matches(name.lower(), [*known, *aliases], n=3, cutoff=0.5)
    near = []
    for match in matches:
        if match in aliases:
            near.append(f"{match} ({aliases[match]})")
        else:
            near.append(match)
    hint = f" did you mean {' or '.join(near)}?" if near else ""
    return UsageError(
        f"no {what} is named {name!r};{hint} valid names: {', '.join(known)}"
    )
