"""Files that a job keeps beside its output until it is done: its own, never somebody else's."""

import errno
import os
import stat
from io import FileIO
from pathlib import Path

from calcli.errors import CalcliError, UsageError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}
"""Errors of which the name that was given is not the reason."""


def stamp(path: Path) -> tuple[int, ...]:
    """What tells a file from others, and from itself after a change: device, number, size, times of change.

    Of these no program can set the last one. Raises OSError.
    """
    about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


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

    Closed only, a file stays locked while a process lives that was forked meanwhile.
    """
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


def remove(file: FileIO, path: Path) -> None:
    """Close a file and delete it, not another that has its name by now."""
    if _has_name(file.fileno(), path):  # before the lock goes with the descriptor, or it may be another's by then
        path.unlink(missing_ok=True)
    file.close()
