"""Rows with a name and an origin: one bundle, or several as one data set.

Blocks have the same rows wherever slabs and files end, so that what is computed from them
has the same bytes however the rows are cut into files.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import IntArray
from calcli.rows import BLOCK_BYTES, ArrayRows, Block, Rows, joined, sample_runs

if TYPE_CHECKING:
    from calcli.io.artifact import Link

__all__ = ["SLAB_BYTES", "DataSet", "compact"]

SLAB_BYTES = 4 << 20
"""How much of a file is read at once."""

HASHED_LABELS = 1 << 20
"""Labels hashed at once."""


class DataSet(Rows):
    """Labelled rows that a user can name.

    name : as the user writes it, ``logits.h5:test``. path : the (first) file. total : rows
    with those that are left out by label, ``ignored`` in number. dtype : of the scores.
    has_labels : whether there are labels. data_sha256 : hash of the scores and labels in the
    order of the rows, known after the first complete walk, unless ``hashed`` is false.
    """

    name: str
    path: Path
    total: int
    dtype: np.dtype[Any]
    has_labels: bool
    data_sha256: str | None = None
    hashed: bool = True

    @property
    def ignored(self) -> int:
        """Rows left out by their label."""
        return self.total - self.n

    @property
    def nbytes(self) -> int:
        """Size of all scores in memory."""
        return self.total * self.k * self.dtype.itemsize

    @property
    @abstractmethod
    def class_names(self) -> list[str] | None:
        """Names of the classes, or None."""

    @property
    @abstractmethod
    def source(self) -> Any:
        """Where the scores came from, as the file records it."""

    @property
    @abstractmethod
    def upstream(self) -> "tuple[Link, ...]":
        """The calibrators that the scores have been through, oldest first."""

    @property
    @abstractmethod
    def caveats(self) -> list[str]:
        """What every report of these rows must say, from what the file records of its making."""

    @abstractmethod
    def column(self, name: str) -> NDArray[Any] | None:
        """One value per kept row (``ids``, ``group``, ``prediction``), or None when there is none."""

    @abstractmethod
    def pieces(self, transforms: Sequence[int], rows: int) -> Iterator[Block]:
        """All rows in order, in pieces as they are read: of about ``rows`` rows, and multiples where possible."""

    @abstractmethod
    def run(self, start: int, stop: int) -> Block:
        """Consecutive rows."""

    @abstractmethod
    def compact_labels(self) -> NDArray[Any]:
        """All labels, (n,), in the smallest type that holds the number of classes."""

    @property
    @abstractmethod
    def weighted(self) -> bool:
        """Whether the rows have weights of their own."""

    def labels(self) -> IntArray:
        return self.compact_labels().astype(np.int64)

    def blocks(self, transforms: Sequence[int] = ()) -> Iterator[Block]:
        slab = max(1, SLAB_BYTES // ((1 + len(transforms)) * self.k * self.dtype.itemsize))
        step = max(1, BLOCK_BYTES // (8 * self.k))
        step = min(step, slab) if len(transforms) else step
        pieces = self.pieces(transforms, max(1, slab // step) * step)
        return _regular(self._watched(pieces), step)

    def _watched(self, pieces: Iterator[Block]) -> Iterator[Block]:
        """The pieces, hashed the first time that all of them go by."""
        if self.data_sha256 is not None or not self.hashed:
            yield from pieces
            return
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(np.ascontiguousarray(piece.scores).data)
            yield piece
        if self.has_labels:
            y = self.compact_labels()
            for at in range(0, len(y), HASHED_LABELS):
                digest.update(y[at : at + HASHED_LABELS].astype(np.int64).data)
        digest.update(f"{self.kind} {self.dtype.str} {self.n} {self.k}".encode())
        self.data_sha256 = digest.hexdigest()

    def sample(self, count: int) -> ArrayRows:
        drawn = joined([self.run(start, stop) for start, stop in sample_runs(self.n, count)])
        return ArrayRows(drawn.scores, drawn.labels, self.kind, weight=drawn.weight)


def compact(values: NDArray[Any], k: int) -> NDArray[Any]:
    """Classes 0..k-1 in the smallest unsigned type."""
    return values.astype(np.min_scalar_type(k - 1))


def _regular(pieces: Iterable[Block], step: int) -> Iterator[Block]:
    """The same rows in blocks of ``step`` rows, wherever pieces end; only what straddles an end is copied."""
    rest: list[Block] = []
    waiting = 0
    for piece in pieces:
        at = 0
        if rest:
            at = min(step - waiting, len(piece))
            rest.append(piece.cut(0, at))
            waiting += at
            if waiting < step:
                continue
            yield joined(rest)
            rest, waiting = [], 0
        for low in range(at, len(piece) - step + 1, step):
            yield piece.cut(low, low + step)
        left = (len(piece) - at) % step
        if left:
            rest, waiting = [piece.cut(len(piece) - left, len(piece))], left
    if rest:
        yield joined(rest)
