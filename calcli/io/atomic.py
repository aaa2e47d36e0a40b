"""Writing files so that nobody ever finds half of one, and nothing is overwritten by surprise."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calcli.errors import CalcliError, UsageError

__all__ = ["atomic_path", "check_output", "discard_unfinished", "is_stream", "make_folder"]

_unfinished: set[Path] = set()
"""Temporary files of this process."""


def check_output(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse an output path before any work is done for it.

    Raises UsageError when the path exists (unless ``force``), is a folder, is one of the
    inputs, or lies in a folder that does not exist or cannot be written. A pipe or a
    device may be written to.
    """
    try:
        _check(path, force, inputs)
    except OSError as problem:  # a name too long, a folder that may not be entered
        raise UsageError(f"{path}: cannot be written: {problem.strerror}; choose another -o") from None


def _check(path: Path, force: bool, inputs: Iterable[Path]) -> None:
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, expected a file name to write to, e.g. -o {path / 'NAME'}")
    for source in inputs:
        if path.exists() and source.exists() and os.path.samefile(path, source):
            raise UsageError(f"{path}: is an input; inputs are never overwritten, choose another -o")
    if is_stream(path):
        return
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path}: exists already; choose another name or pass --force to replace it")
    folder = _place(path).parent
    if not folder.is_dir():
        raise UsageError(f"{path}: folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{path}: folder {folder} is not writable; choose another -o")


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device: written to as it is, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def make_folder(path: Path) -> None:
    """Make a folder and those above it. Raises UsageError when that cannot be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"{path}: folder cannot be made: {problem.strerror}; choose another -o") from None


@contextmanager
def atomic_path(path: Path, *, force: bool = False, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Give a temporary neighbour to write to; it takes the name ``path`` only if all went well.

    Any exception, an interruption included, removes the temporary file. A symbolic link
    is followed. Raises UsageError as ``check_output`` does, also when the file has
    appeared in the meantime, and CalcliError when writing fails.
    """
    check_output(path, force=force, inputs=inputs)
    if is_stream(path):
        yield path
        return
    place = _place(path)
    # Part of the name: the longest that a file system takes has a neighbour too.
    temporary = place.with_name(f".{place.name[:40]}.{os.urandom(6).hex()}.tmp")
    _unfinished.add(temporary)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield temporary
        if force:
            os.replace(temporary, place)
        else:
            _rename_to_new(temporary, place)
    except OSError as problem:
        if problem.errno is None:  # what h5py says of a file that is read here
            raise
        raise CalcliError(f"{path}: cannot be written: {problem.strerror}; no part of it was kept") from None
    finally:
        with suppress(OSError):
            temporary.unlink()
        _unfinished.discard(temporary)


def discard_unfinished() -> None:
    """Remove every temporary file, for an end without unwinding."""
    for path in list(_unfinished):
        with suppress(OSError):
            path.unlink()


def _place(path: Path) -> Path:
    """Where a file really is: a symbolic link stays, what it points to is replaced."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _rename_to_new(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike a rename it fails when the name is taken
    except FileExistsError:
        raise UsageError(f"{path}: appeared while it was being made; pass --force to replace it") from None
    except OSError:  # a file system without hard links
        os.replace(temporary, path)
