"""Writing files so that nobody ever finds half of one, and nothing is overwritten unasked.

Every output of every command goes through ``new_file``: a temporary neighbour is written, synced and read back before
it takes its name. A full disk, or any other error of the system, is an error that names the output (``_blaming``).
"""

import errno
import io
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, NoReturn

from calcli.errors import CalcliError, UsageError
from calcli.io.inputs import PIECE, is_read

_unfinished: set[Path] = set()  # temporary files of this process


def check_output(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse an output path before any work is done for it.

    inputs : every file that is known to be read; links are followed. What the command has opened meanwhile
    (``io.inputs``) is one of them. Raises UsageError when the path exists (unless ``force``), is a folder, is one of
    the inputs, or lies in a folder that does not exist or cannot be written. A pipe or a device may be written to.
    """
    try:
        if path.is_dir():
            raise UsageError(f"{path}: is a folder, expected a file name to write to, e.g. -o {path / 'NAME'}")
        if path.is_symlink():
            with suppress(FileNotFoundError):
                path.stat()  # raises where links go round in circles
        refuse_input(path, inputs)
        if is_stream(path):
            return
        if os.path.lexists(path) and not force:
            raise UsageError(f"{path}: exists already; choose another name or pass --force to replace it")
        folder = real_place(path).parent
        if not folder.is_dir():
            raise UsageError(f"{path}: folder {folder} does not exist; create it first")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"{path}: folder {folder} is not writable; choose another -o")
    except OSError as problem:  # a name too long, a folder that may not be entered
        raise UsageError(f"{path}: cannot be written: {problem.strerror}; choose another -o") from None


def refuse_input(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse an output that is one of these files, or one that is read. Raises UsageError."""
    if path.exists() and (is_read(path) or any(s.exists() and os.path.samefile(path, s) for s in inputs)):
        raise UsageError(f"{path}: is an input; inputs are never overwritten, choose another -o")


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device: written to as it is, never replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def make_folder(path: Path) -> None:
    """Make a folder and those above it. Raises UsageError when that cannot be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"{path}: folder cannot be made: {problem.strerror}; choose another -o") from None


def refuse(path: Path, reason: str | None) -> NoReturn:
    """Say that an output could not be written. Raises CalcliError."""
    raise CalcliError(f"{path}: cannot be written: {reason}; no part of it was kept") from None


class NewFile(io.RawIOBase):
    """A file in the making: bytes are appended at once, and their number and checksum are kept.

    path : the name that it will take. temporary : the name that it has now. Writing raises CalcliError that names the
    file. Who writes by ``descriptor`` instead sets ``checked`` and reads back what was written by other means.
    """

    def __init__(self, path: Path, temporary: Path, descriptor: int) -> None:
        self.path, self.temporary, self.descriptor = path, temporary, descriptor
        self.size, self.crc = 0, 0
        self.checked = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with _blaming(self.path):
            done = 0
            while done < len(view):
                done += os.write(self.descriptor, view[done:])
        self.size += len(view)
        self.crc = zlib.crc32(view, self.crc)
        return len(view)

    def sync(self) -> None:
        """Bring what was written to the disk. Raises CalcliError."""
        with _blaming(self.path):
            os.fsync(self.descriptor)

    def read_back(self) -> None:
        """Compare the file under its present name with what was written. Raises CalcliError."""
        size = crc = 0
        with _blaming(self.path), self.temporary.open("rb", buffering=0) as file:
            while piece := file.read(PIECE):
                size += len(piece)
                crc = zlib.crc32(piece, crc)
        if (size, crc) != (self.size, self.crc):
            refuse(self.path, f"{size} bytes read back differ from the {self.size} written (is the disk failing?)")


@contextmanager
def new_file(path: Path, *, force: bool = False, inputs: Iterable[Path] = ()) -> Iterator[NewFile]:
    """A file to write bytes to, which appears under its name only when all of it is on the disk.

    Whatever goes wrong, an interruption included, leaves no part behind and an old file as it was. A symbolic link is
    followed. A pipe or a device is written to as it is. Raises UsageError as ``check_output`` does, also when the file
    has appeared in the meantime, and CalcliError when writing fails.
    """
    check_output(path, force=force, inputs=inputs)
    if is_stream(path):
        with _blaming(path):
            descriptor = os.open(path, os.O_WRONLY)
        try:
            yield NewFile(path, path, descriptor)
        finally:
            os.close(descriptor)
        return
    place = real_place(path)
    # Part of the name: the longest that a file system takes has a neighbour too.
    temporary = place.with_name(f".{place.name[:40]}.{os.urandom(6).hex()}.tmp")
    _unfinished.add(temporary)
    descriptor = -1
    try:
        with _blaming(path):
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        in_use(descriptor, "LOCK_SH")  # until it is closed: no file that was abandoned
        file = NewFile(path, temporary, descriptor)
        yield file
        file.sync()
        if not file.checked:
            file.read_back()
        refuse_input(path)  # it may have been opened since
        with _blaming(path):
            os.replace(temporary, place) if force else _rename_to_new(temporary, place)
        with suppress(OSError):  # where the file system knows how
            folder = os.open(place.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        with suppress(OSError):
            temporary.unlink()
        if descriptor >= 0:
            in_use(descriptor, "LOCK_UN")
            with suppress(OSError):
                os.close(descriptor)
        _unfinished.discard(temporary)


def write_bytes(path: Path, data: bytes | str, *, force: bool = False) -> None:
    """Write a whole file at once (see ``new_file``); text is UTF-8."""
    with new_file(path, force=force) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def discard_unfinished() -> None:
    """Remove every temporary file, for an end without unwinding."""
    for path in list(_unfinished):
        with suppress(OSError):
            path.unlink()


def discard_abandoned(path: Path) -> None:
    """Remove what a process that was killed has left of a file, or of one whose name begins alike."""
    place = real_place(path)
    for left in place.parent.glob(f".{escape(place.name[:40])}.????????????.tmp"):
        with suppress(OSError), left.open("r+b") as file:
            if not in_use(file.fileno(), "LOCK_EX"):
                left.unlink()


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Say of an error of the system which output it hit. Raises CalcliError."""
    try:
        yield
    except OSError as problem:
        refuse(path, problem.strerror)


def real_place(path: Path) -> Path:
    """Where a file really is: a symbolic link stays, what it points to is replaced."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _rename_to_new(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike a rename it fails when the name is taken
    except FileExistsError:
        raise UsageError(f"{path}: appeared while it was being made; pass --force to replace it") from None
    except OSError:  # a file system without hard links
        os.replace(temporary, path)


# ---- files that a job keeps beside its output until it is done: its own, never somebody else's


NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}
"""Errors of which the name that was given is not the reason."""


def open_job_file(path: Path, mode: int = 0o666) -> int:
    """A descriptor of an ordinary file, no link, made when there is none. Raises UsageError, CalcliError."""
    try:
        # A pipe would make a plain open wait for somebody at its other end.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), mode)
    except OSError as problem:
        if os.path.lexists(path):
            what = "a symbolic link" if path.is_symlink() else problem.strerror
            raise UsageError(f"{path}: is in the way ({what}); move it or choose another -o") from None
        kind = CalcliError if problem.errno in NO_ROOM else UsageError
        raise kind(f"{path}: cannot be written: {problem.strerror}; choose another name") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path}: is in the way (no ordinary file); move it or choose another -o")
    return descriptor


def lock(descriptor: int, path: Path) -> None:
    """Keep a second process off the file, where the system can. Raises UsageError where another is at it."""
    # Without a name the other has ended in between: removed it, or put a new one in its place.
    if in_use(descriptor, "LOCK_EX") or not _has_name(descriptor, path):
        raise UsageError(f"{path}: another calcli is writing it; wait for it or choose another -o")


def in_use(descriptor: int, how: str) -> bool:
    """Lock an open file, or unlock it, where the system can (see ``flock``); whether the lock of another forbids it.
    Closed only, a file stays locked while a process lives that was forked meanwhile."""
    try:
        import fcntl

        fcntl.flock(descriptor, getattr(fcntl, how) | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # a system, or a file system, without locks
        pass
    return False


def _has_name(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def remove(file: io.FileIO, path: Path) -> None:
    """Close a file and delete it, not another that has its name by now."""
    if _has_name(file.fileno(), path):  # before the lock goes with the descriptor, or it may be another's by then
        path.unlink(missing_ok=True)
    file.close()
