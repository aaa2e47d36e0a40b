"""Arrays inside .npz archives: mapped where they lie in one piece, else unpacked."""

import io
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.pickled import load_arrays
from calcli.importers.ragged import Parts, array_of_objects
from calcli.importers.source_file import SourceFile, seek_member
from calcli.importers.table import Mapped
from calcli.io.validate import refuse_bomb
from calcli.items import duplicates
from calcli.numerics import AnyArray, bfloat16_to_float32, is_bfloat16

MAPPED_BYTES = 16 << 20
"""Size from which an array stays in its file."""

UNPACKED_BYTES = 256 << 20
"""Size from which a packed array is unpacked to a temporary file, if there is room."""

HIDDEN = re.compile(r"(.*/)?(\.|__MACOSX/).*")
"""Files that file managers add to a zip: .DS_Store, __MACOSX/._logits.npy."""

COPIED_BYTES = 1 << 20


@dataclass(frozen=True)
class NpyHeader:
    """What the header of a .npy file says."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool


def read_header(file: IO[bytes]) -> NpyHeader | None:
    """Header of a .npy file, left positioned at its data; None for a broken one."""
    from numpy.lib import format as npy

    readers = {
        (1, 0): npy.read_array_header_1_0,
        (2, 0): npy.read_array_header_2_0,
    }
    try:
        shape, is_fortran, dtype = readers[npy.read_magic(file)](file)
    except Exception:  # a header is a Python expression that may be broken in any way
        return None
    return NpyHeader(dtype, shape, is_fortran)


class NpzArrays:
    """The arrays of a .npz file, open until the import ends. Raises DataError."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.path = file.path
        opened = file.keep_open(self.path.open("rb"))  # NumPy leaves it open
        self._archive = file.keep_open(np.load(opened, allow_pickle=False))

    def loaders(self) -> dict[str, Callable[[], Any]]:
        """Function that returns each array, by name."""
        members = self.file.members or []
        for member in duplicates(members):
            name = member.removesuffix(".npy")
            if member.endswith(".npy"):
                raise DataError(
                    f"{self.path}: holds two arrays named {name!r}; keep the right one"
                )
        loaders: dict[str, Callable[[], Any]] = {}
        for member in members:
            name = member.removesuffix(".npy")
            if member.endswith(".npy") and not HIDDEN.fullmatch(name):
                loaders[name] = partial(self._load, name)
        return loaders

    def _load(self, name: str) -> Any:
        member = self._archive.zip.getinfo(f"{name}.npy")
        refuse_bomb(
            f"{self.path}: array {name!r}",
            member.file_size,
            member.compress_size,
            "save it with numpy.savez",
        )
        open_map = self._map_of(member)
        if open_map is not None:
            return Mapped(open_map, self.path, name)
        try:
            # by its full name: a member may be called like the array
            values = self._archive[f"{name}.npy"]
        except ValueError as problem:
            if "allow_pickle" not in str(problem):
                raise
            return self._plain_objects(name, self._archive.zip.read(member))
        if not isinstance(values, np.ndarray):  # NumPy returns bytes of other members
            raise DataError(f"{self.path}: {name!r} is no array; was the file damaged?")
        return bfloat16_to_float32(values) if is_bfloat16(values.dtype) else values

    def _map_of(self, member: zipfile.ZipInfo) -> Callable[[], Any] | None:
        """Function that maps a large array; None for others.

        A very large packed one is mapped from a temporary file.
        """
        is_packed = member.compress_type != zipfile.ZIP_STORED
        if member.file_size < (UNPACKED_BYTES if is_packed else MAPPED_BYTES):
            return None
        if is_packed and not _has_room(member.file_size):
            return None
        with self._open(member, is_packed) as file:
            header, start = read_header(file), file.tell()
        if header is None or header.dtype.hasobject or header.is_fortran:
            return None
        place = self._unpacked(member) if is_packed else self.path
        return partial(
            np.memmap, place, header.dtype, "r", offset=start, shape=header.shape
        )

    def _open(self, member: zipfile.ZipInfo, is_packed: bool) -> IO[bytes]:
        """Open a member; one that is stored as it is at its place in the archive."""
        if is_packed:
            return self._archive.zip.open(member)
        file = self.path.open("rb")
        seek_member(file, member.header_offset)
        return file

    def _unpacked(self, member: zipfile.ZipInfo) -> Path:
        """A temporary file with the content of a member."""
        folder = tempfile.TemporaryDirectory(prefix="calcli-")
        place = Path(self.file.keep_open(folder)) / "array.npy"
        with self._archive.zip.open(member) as packed, place.open("wb") as whole:
            shutil.copyfileobj(packed, whole, COPIED_BYTES)
        return place

    def _plain_objects(self, name: str, data: bytes) -> AnyArray | Parts:
        """Numbers, words or rows of an array of Python objects. Raises DataError."""
        file = io.BytesIO(data)
        header = read_header(file)
        content = None
        if header is not None:
            content = load_arrays(file.read(), f"{self.path}: array {name!r}")
        values = array_of_objects(content, f"{self.path}: {name}")
        if isinstance(values, Parts):
            return values
        n_objects = -1 if header is None else np.prod(header.shape)
        if header is not None and values.ndim == 1 and values.size == n_objects:
            values = values.reshape(header.shape)
        if values.dtype.kind not in "biufUS" or not len(values):
            raise DataError(
                f"{self.path}: array {name!r} holds Python objects of several kinds,"
                " expected numbers or words"
            )
        return values


def _has_room(n_bytes: int) -> bool:
    """True if the folder of temporary files has room for so many bytes."""
    return shutil.disk_usage(tempfile.gettempdir()).free >= n_bytes
