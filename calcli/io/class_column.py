"""A class per row, labels or predictions, in memory or piece by piece from a file."""

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from calcli.io.hdf5 import read
from calcli.io.validate import check_labels
from calcli.numerics import IntArray

AT_ONCE = 1 << 20
"""Rows that are read and checked at once."""


class ClassColumn:
    """Classes of rows.

    Those of a dataset are checked when this is made and read again whenever they are asked for, unless they
    are kept, or lie in chunks so large that every reading would unpack them all. Raises DataError.
    """

    def __init__(self, source: "NDArray[Any] | h5py.Dataset", k: int, where: str, what: str = "label") -> None:
        self._type, self._where, self._kept = np.min_scalar_type(k - 1), where, None
        if isinstance(source, np.ndarray):
            self._kept = source.astype(self._type)
            return
        self._dataset, self.n = source, len(source)
        step = self.n if source.chunks is not None and source.chunks[0] > AT_ONCE else AT_ONCE
        for start in range(0, self.n, step):
            values = read(source, np.s_[start : start + step], where)
            values = check_labels(values, len(values), k, where, what=what, first_row=start)
            if step > AT_ONCE:
                self._kept = values.astype(self._type)

    def keep(self) -> None:
        """Read all of them once for all."""
        self._kept = self.all()

    def at(self, start: int, stop: int) -> IntArray:
        """Classes of some rows, (stop - start,) int64."""
        if self._kept is not None:
            return self._kept[start:stop].astype(np.int64)
        return np.asarray(read(self._dataset, np.s_[start:stop], self._where)).astype(np.int64)

    def all(self) -> NDArray[Any]:
        """Classes of all rows, in a small type."""
        if self._kept is not None:
            return self._kept
        found = np.empty(self.n, self._type)
        for start in range(0, self.n, AT_ONCE):
            found[start : start + AT_ONCE] = self.at(start, min(start + AT_ONCE, self.n))
        return found
