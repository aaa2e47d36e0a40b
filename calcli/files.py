"""Writing files so that nobody ever finds half of one, and nothing is overwritten by surprise."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calcli.errors import UsageError

__all__ = ["atomic_path", "check_output"]


def check_output(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse an output path before any work is done for it.

    Raises UsageError when the path exists (unless ``force``), is a folder, is one of the
    inputs, or lies in a folder that does not exist or cannot be written.
    """
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, expected a file name to write to")
    for source in inputs:
        if path.exists() and source.exists() and os.path.samefile(path, source):
            raise UsageError(f"{path}: is an input; inputs are never overwritten, choose another -o")
    if path.exists() and not force:
        raise UsageError(f"{path}: exists already; choose another name or pass --force to replace it")
    if not folder.is_dir():
        raise UsageError(f"{path}: folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{path}: folder {folder} is not writable")


@contextmanager
def atomic_path(path: Path, *, force: bool = False, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Give a temporary neighbour to write to; it takes the name ``path`` only if all went well.

    Any exception, an interruption included, removes the temporary file. Raises UsageError
    as ``check_output`` does, also when the file has appeared in the meantime.
    """
    check_output(path, force=force, inputs=inputs)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        if force:
            os.replace(temporary, path)
        else:
            _rename_to_new(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _rename_to_new(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike a rename it fails when the name is taken
    except FileExistsError:
        raise UsageError(f"{path}: appeared while it was being made; pass --force to replace it") from None
    except OSError:  # a file system without hard links
        os.replace(temporary, path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
