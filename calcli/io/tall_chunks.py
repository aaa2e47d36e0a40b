"""Scores in chunks of so many rows that a few rows cannot be read alone."""

import h5py
import numpy as np

from calcli.io.hdf5 import read
from calcli.io.scratch_numbers import ScratchNumbers, check_room
from calcli.numerics import AnyArray

TALL_BYTES = 32 << 20  # a chunk is tall if the rows that it spans exceed this size
HELD_BYTES = 48 << 20  # bytes unpacked at once, or the columns of one chunk if larger

WHY = (
    "scores in chunks of so many rows are unpacked there; name another folder with"
    " TMPDIR, or write the file in smaller chunks (h5repack -l CHUNK=…)"
)


def is_tall(scores: h5py.Dataset) -> bool:
    """Return True if reading one row unpacks much more than the row."""
    if scores.chunks is None or scores.ndim != 2:
        return False
    return bool(scores.chunks[0] * scores.shape[1] * scores.dtype.itemsize > TALL_BYTES)


class UnpackedScores:
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
        self._scratch = ScratchNumbers(scores.dtype, WHY)
        self._groups = [(low, min(low + width, k)) for low in range(0, k, width)]
        self.n = n
        self.k = k
        height = scores.chunks[0]
        for low, high in self._groups:
            for start in range(0, n, height):
                self._scratch.add(
                    read(scores, np.s_[start : start + height, low:high], where)
                )

    def rows(self, start: int, stop: int) -> AnyArray:
        """Read scores of rows start..stop-1, (stop - start, k)."""
        out = np.empty((stop - start, self.k), self._scratch.dtype)
        for low, high in self._groups:
            first = self.n * low
            width = high - low
            values = self._scratch.read(first + start * width, first + stop * width)
            out[:, low:high] = values.reshape(-1, width)
        return out
