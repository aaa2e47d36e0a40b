"""NumPy's own files: .npz archives and single .npy arrays. Objects in them are never unpickled."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import Archive, Mapped, reading

__all__ = ["read_npy", "read_npz"]


def read_npy(path: Path, stack: ExitStack) -> Archive:
    """Map a .npy file into memory; the array goes by the name of the file."""

    def load() -> Any:
        try:
            return Mapped(lambda: np.load(path, mmap_mode="r", allow_pickle=False), path, path.stem)
        except ValueError as problem:
            raise _explained(path, path.stem, problem) from None

    return Archive.of(path, "npy", {path.stem: load}, loose=True)


def read_npz(path: Path, stack: ExitStack) -> Archive:
    """Open a .npz file; each array is read when asked for."""
    import zipfile
    import zlib

    broken = (zipfile.BadZipFile, zlib.error)
    with reading(path, "the npz archive", also=broken):
        file = stack.enter_context(path.open("rb"))  # NumPy would leave it open when it fails
        archive = stack.enter_context(np.load(file, allow_pickle=False))

    def loader(name: str) -> Any:
        def load() -> Any:
            with reading(path, f"array {name!r}", also=broken):
                try:
                    return archive[name]
                except ValueError as problem:
                    raise _explained(path, name, problem) from None

        return load

    # np.savez names the arrays it is given without a name arr_0, arr_1, …
    return Archive.of(path, "npz", {name: loader(name) for name in archive.files})


def _explained(path: Path, name: str, problem: ValueError) -> Exception:
    if "allow_pickle" in str(problem):
        return DataError(
            f"{path}: array {name!r} holds Python objects, which only a pickle that may run code could give;"
            " save numbers, and words as fixed-width strings: np.asarray(names, dtype='U')"
        )
    return problem
