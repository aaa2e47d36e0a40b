"""Unlinked temporary files for data larger than memory, such as unpacked scores in tall
chunks.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np

from calcli.errors import ResourceError
from calcli.io.hdf5 import read
from calcli.numerics import AnyArray


class Spool:
    """Unlinked temporary file of numbers of one type.

    why : its purpose and how to do without, for messages.
    """

    def __init__(self, dtype: "np.dtype[Any]", why: str) -> None:
        self.dtype = dtype
        self.count = 0
        self._why = why
        with self._naming_purpose():
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by its owner)

    def add(self, values: AnyArray) -> None:
        """Append numbers. Raises ResourceError."""
        data = (
            np.ascontiguousarray(values, dtype=self.dtype)
            .reshape(-1)
            .view(np.uint8)
            .data
        )
        with self._naming_purpose():
            self._file.seek(self.count * self.dtype.itemsize)
            while len(data):
                data = data[self._file.write(data) :]
        self.count += values.size

    def read(self, start: int, stop: int) -> AnyArray:
        """Read numbers start..stop-1."""
        with self._naming_purpose():
            self._file.seek(self.dtype.itemsize * start)
            values: AnyArray = np.fromfile(self._file, self.dtype, stop - start)
            if len(values) < stop - start:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return values

    def close(self) -> None:
        """Close the file, which deletes it."""
        self._file.close()

    @contextmanager
    def _naming_purpose(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise ResourceError(
                f"{folder()}: {problem.strerror}, and {self._why}"
            ) from None


def folder() -> str:
    """The folder for temporary files, or TMPDIR (for messages) if there is none."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return "TMPDIR"


def check_room(needed: int, why: str) -> None:
    """Raise ResourceError unless the temporary folder has room for ``needed`` bytes."""
    try:
        free = shutil.disk_usage(folder()).free
    except OSError:
        return
    if needed > free:
        message = (
            f"{free / 2**20:.0f} MiB are free for temporary files,"
            f" {needed / 2**20:.0f} MiB are needed"
        )
        raise ResourceError(f"{folder()}: {message}, and {why}")


TALL_BYTES = 32 << 20  # a chunk is tall if the rows that it spans exceed this size
HELD_BYTES = 48 << 20  # bytes unpacked at once, or the columns of one chunk if larger

WHY = (
    "scores in chunks of so many rows are unpacked there; name another folder with"
    " TMPDIR, or write the file in smaller"
    " chunks (h5repack -l CHUNK=…)"
)


def is_tall(scores: h5py.Dataset) -> bool:
    """Return True if reading one row unpacks much more than the row."""
    if scores.chunks is None or scores.ndim != 2:
        return False
    return bool(scores.chunks[0] * scores.shape[1] * scores.dtype.itemsize > TALL_BYTES)


class Unpacked:
    """Scores (n, k) unpacked on disk in groups of columns, each stored row by row.

    For chunks with so many rows that a few rows cannot be read alone. Raises
    ResourceError.
    """

    def __init__(self, scores: h5py.Dataset, where: str) -> None:
        n, k = scores.shape
        wide = scores.chunks[1]
        size = scores.dtype.itemsize
        width = max(1, HELD_BYTES // (n * size) // wide) * wide
        check_room(n * k * size, WHY)
        self._spool = Spool(scores.dtype, WHY)
        self._groups = [(low, min(low + width, k)) for low in range(0, k, width)]
        self.n = n
        self.k = k
        height = scores.chunks[0]
        for low, high in self._groups:
            for start in range(0, n, height):
                self._spool.add(
                    read(scores, np.s_[start : start + height, low:high], where)
                )

    def rows(self, start: int, stop: int) -> AnyArray:
        """Read scores of rows start..stop-1, (stop - start, k)."""
        out = np.empty((stop - start, self.k), self._spool.dtype)
        for low, high in self._groups:
            first = self.n * low
            width = high - low
            values = self._spool.read(first + start * width, first + stop * width)
            out[:, low:high] = values.reshape(-1, width)
        return out
