"""Files that a job keeps beside its output until it is done: its own, never somebody else's."""

import os
import stat
from io import FileIO
from pathlib import Path

from calcli.errors import CalcliError, UsageError


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
        raise CalcliError(f"{path}: cannot be written: {problem.strerror}; choose another -o") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path}: is in the way (no ordinary file); move it or choose another -o")
    return descriptor


def lock(descriptor: int, path: Path) -> None:
    """Keep a second process off the file, where the system can."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{path}: another calcli is writing it; wait for it or choose another -o") from None
    except OSError:  # a file system without locks
        return


def remove(file: FileIO, path: Path) -> None:
    """Close a file and delete it, not another that has its name by now."""
    try:
        own = os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        own = False
    file.close()
    if own:
        path.unlink(missing_ok=True)
