"""Scores in chunks of so many rows that a few rows cannot be read by themselves: unpacked once, to a temporary file."""

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from calcli.io.hdf5 import read
from calcli.io.spool import Spool, check_room

TALL_BYTES = 32 << 20
"""Bytes of all rows that a chunk touches beyond which it is tall."""

HELD_BYTES = 48 << 20
"""Unpacked at once, or the columns of one chunk where they are more."""

WHY = (
    "scores in chunks of so many rows are unpacked there; name another folder with TMPDIR, or write the file in smaller"
    " chunks (h5repack -l CHUNK=…)"
)


def is_tall(scores: h5py.Dataset) -> bool:
    """Whether reading one row unpacks much more than that."""
    if scores.chunks is None or scores.ndim != 2:
        return False
    return bool(scores.chunks[0] * scores.shape[1] * scores.dtype.itemsize > TALL_BYTES)


class Unpacked:
    """All scores (n, k) on disk in groups of columns, each group row after row. Raises CalcliError."""

    def __init__(self, scores: h5py.Dataset, where: str) -> None:
        n, k = scores.shape
        wide, size = scores.chunks[1], scores.dtype.itemsize
        width = max(1, HELD_BYTES // (n * size) // wide) * wide
        check_room(n * k * size, WHY)
        self._spool = Spool(scores.dtype, WHY)
        self._ends = [*range(width, k, width), k]
        self.n, self.k = n, k
        height = max(scores.chunks[0], 1)
        for low, high in zip([0, *self._ends], self._ends, strict=False):
            for start in range(0, n, height):
                self._spool.add(read(scores, np.s_[start : start + height, low:high], where))

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Scores of some rows, (stop - start, k)."""
        out = np.empty((stop - start, self.k), self._spool.dtype)
        for low, high in zip([0, *self._ends], self._ends, strict=False):
            first, width = self.n * low, high - low
            values = self._spool.read(first + start * width, first + stop * width)
            out[:, low:high] = values.reshape(-1, width)
        return out
