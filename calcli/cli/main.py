"""Entry point of the command line: run a command and turn errors into one line and an
exit code.

Nothing heavy is imported before signals are caught: an interruption during an import
must end as quietly as any other.
"""

import atexit
import codecs
import errno
import gc
import io
import os
import signal
import sys
import warnings
from contextlib import suppress
from itertools import pairwise
from types import FrameType
from typing import Any, NoReturn, TextIO

from calcli.errors import (
    INTERRUPTED,
    CalcliError,
    DataError,
    ResourceError,
    UsageError,
)

SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
]

# Errors in the name of an input; ``io.atomic`` reports those of outputs.
UNREADABLE = (
    errno.ENAMETOOLONG,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
)

EXHAUSTED = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EMFILE,
    errno.ENFILE,
)
"""Errors of a system that has no room left: of a disk, a file's size, open files."""

COMPLETION = "_CALCLI_COMPLETE"
"""Environment variable by which a shell asks for what may come next."""

_stopped_by = 0  # the signal that has asked this process to stop


def main() -> NoReturn:
    """Run calcli on the process's arguments and exit."""
    debug = "--debug" in sys.argv[1:]
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    _open_streams()
    try:
        _catch_signals()
        _prepare(debug)
        code = run(arguments)
        sys.stdout.flush()
    except BaseException as error:
        if debug and isinstance(error, Exception) and not _stopped_by:
            raise
        from calcli.cli.render import fail  # after signals are caught

        code = fail(*_message_and_code(error))
    _forget_output()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # only Python's own teardown is left
    if _stopped_by:
        # A signal can come between the opening of an HDF5 file and the line that would
        # close it. HDF5 then closes the file after Python has gone, and crashes.
        atexit._run_exitfuncs()
        os._exit(code)
    # Python's teardown need not search for garbage: 40 ms of a small command.
    gc.freeze()
    sys.exit(code)


def _prepare(debug: bool) -> None:
    """Set what holds for the whole process: threads of BLAS, imports, garbage,
    warnings.
    """
    # On processors with AVX-512 the last digits of a product depend on how many threads OpenBLAS cuts it among, and
    # with them the bytes of an artifact. Our loops run side by side over blocks of rows; BLAS threads beside them gain
    # a tenth of the clock on large full matrices, and where a core is shared wait for each other 200 times longer.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # no interpreter that a library starts runs files of the working folder
    os.environ["PYTHONSAFEPATH"] = "1"
    gc.set_threshold(100_000)  # imports make many objects and no garbage
    if not debug:
        # calcli prints its own; those of libraries do not help its users
        warnings.simplefilter("ignore")


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code.

    Typer's own runner is not used: it would swallow interruptions and closed pipes.
    """
    import typer

    from calcli.cli.app import app
    from calcli.io.inputs import noting
    from calcli.parallel import same_threads

    for before, word in pairwise(["calcli", *arguments]):
        if not word.strip() or (word.startswith("--") and word.endswith("=")):
            raise UsageError(
                f"{word!r} after {before}: expected a value; is a variable of the"
                " script empty?"
            )
    command = typer.main.get_command(app)
    if COMPLETION in os.environ:
        return _complete(command, arguments)
    try:
        with (
            noting(),
            same_threads(),
            command.make_context("calcli", arguments or ["--help"]) as context,
        ):
            code = command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return code if isinstance(code, int) else 0


def _complete(command: Any, arguments: list[str]) -> int:
    """Print what may come next on a command line, for a shell."""
    try:
        command(arguments, prog_name="calcli", complete_var=COMPLETION)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _message_and_code(error: BaseException) -> tuple[str, int]:
    # a library may have turned the interruption into an error of its own
    if _stopped_by or isinstance(error, KeyboardInterrupt | SystemExit):
        return _stopped(), INTERRUPTED + (_stopped_by or signal.SIGINT)
    if isinstance(error, CalcliError):
        return str(error), error.exit_code
    # Typer exports no base class of its errors: those about the words have this method.
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        command = "calcli" if context is None else context.command_path
        message = error.format_message()
        sentence = (message[:1].lower() + message[1:]).rstrip(". ")
        return f"{sentence}; see {command} --help", UsageError.exit_code
    if isinstance(error, MemoryError):
        message = (
            "out of memory; use a method that streams (calcli methods) or fewer rows"
        )
        return message, ResourceError.exit_code
    if isinstance(error, OSError) and error.strerror:
        where = "reading or writing failed"
        if error.filename:
            where = os.fsdecode(error.filename)
        if isinstance(error.filename, str | bytes) and error.errno in UNREADABLE:
            message = (
                f"{where}: cannot be read: {error.strerror}; is it the right name?"
            )
            return message, DataError.exit_code
        if error.errno in EXHAUSTED:
            return f"{where}: {error.strerror}", ResourceError.exit_code
        return f"{where}: {error.strerror}; --debug shows more", CalcliError.exit_code
    message = f"internal error: {type(error).__name__}: {error}; --debug shows more"
    return message, CalcliError.exit_code


# ---- streams


def _open_streams() -> None:
    """Ensure that the three standard streams are open and accept any text.

    A closed one (``>&-``) leaves its number to the next file that is opened, and
    messages would go into that. Text that a stream's encoding lacks is written with
    backslashes, bytes of file names as they were.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # takes the lowest number that is free: this one
            os.open(os.devnull, os.O_RDWR)
    codecs.register_error("calcli", _spell_out)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(1, sys.stdout, "calcli")
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(2, sys.stderr, "backslashreplace")


class _Output(io.FileIO):
    """Output stream that ignores a closed pipe (``calcli … | head``): the work goes on, limits are checked."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return len(data)


def _stream(number: int, now: TextIO | None, errors: str) -> TextIO:
    encoding = "utf-8" if now is None else now.encoding
    raw = _Output(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding,
        errors,
        line_buffering=number == 2 or raw.isatty(),
    )


def _spell_out(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    if all("\udc80" <= c <= "\udcff" for c in text):
        return bytes(ord(c) - 0xDC00 for c in text), error.end
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def _forget_output() -> None:
    """Discard output that could not be written, or Python tries again as it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# ---- signals


def _catch_signals() -> None:
    """Turn signals into exceptions, so that temporary files are removed on the way out."""
    global _stopped_by
    _stopped_by = 0
    for number in SIGNALS:
        # as nohup and background jobs leave it
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    if hasattr(signal, "SIGCHLD"):
        # whoever started this one may have left it ignored
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.unraisablehook = _unraisable


def _stop(number: int, frame: FrameType | None) -> None:
    global _stopped_by
    if _stopped_by:
        _leave()
    _stopped_by = number
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(INTERRUPTED + number)


def _unraisable(event: Any) -> None:
    """Exit on an interruption in a destructor or callback, whose exceptions Python
    drops.
    """
    if _stopped_by:
        _leave()
    sys.__unraisablehook__(event)


def _stopped() -> str:
    """Message that a signal has stopped the command; nothing half-written is left then."""
    return (
        "interrupted"
        if _stopped_by in (0, signal.SIGINT)
        else f"stopped by {signal.Signals(_stopped_by).name}"
    )


def _leave() -> None:
    """End at once, without unwinding, yet leave no half-written file."""
    from calcli.io.atomic import discard_unfinished

    discard_unfinished()
    with suppress(OSError):
        # stderr itself may be in the middle of a line
        os.write(2, f"calcli: {_stopped()}\n".encode())
    os._exit(INTERRUPTED + _stopped_by)
