"""Scores of every pixel of an image, every token of a sequence: each position a row, read piece by piece."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.importers.labels import to_labels
from calcli.importers.remarks import remark
from calcli.io.validate import check_labels
from calcli.numerics import IntArray

PIECE_BYTES = 4 << 20
"""How much of the scores is read at once, unless one unit has more."""


class Positions:
    """What looks like an array of rows, (n,) or (n, k), and is made piece by piece when it is sliced.

    starts : (pieces + 1,) first row of each piece. of : gives the rows of one.
    """

    def __init__(self, starts: IntArray, of: Callable[[int], NDArray[Any]]) -> None:
        self._starts, self._of = starts, lru_cache(1)(of)
        first = of(0)
        self.dtype, self.shape, self.ndim = first.dtype, (int(starts[-1]), *first.shape[1:]), first.ndim

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        if not isinstance(rows, slice):
            return self[:] if rows in ((), ...) else self[:][rows]
        first, last, _ = rows.indices(len(self))
        begin = int(np.searchsorted(self._starts, first, "right")) - 1
        end = max(int(np.searchsorted(self._starts, last)), begin + 1)
        parts = []
        for piece in range(begin, min(end, len(self._starts) - 1)):
            start = int(self._starts[piece])
            parts.append(self._of(piece)[max(first - start, 0) : max(last - start, 0)])
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else self._of(0)[:0]


def class_axis_of(scores: Any, labels: Any, asked: int | None, where: str) -> int | None:
    """Which axis of scores of positions the classes are, None for scores of rows or of views.

    The one without which the shape is that of the labels, which may have a 1 in its place. Where both have one shape
    of three axes, a binary model's scores have none: it is behind the last then. asked : ``--class-axis``. Raises
    UsageError where it is open, DataError where the labels are not those of the positions.
    """
    shape, truth = tuple(scores.shape), None if labels is None else tuple(labels.shape)
    if asked is not None:
        axis = asked + len(shape) if asked < 0 else asked
        if len(shape) < 3 or not 0 < axis < len(shape):
            raise UsageError(
                f"--class-axis {asked}: {where} has shape {shape}, expected an axis from 1 of three or more"
            )
        expected = (*shape[:axis], *shape[axis + 1 :])
        if truth not in (None, expected, (*shape[:axis], 1, *shape[axis + 1 :])):
            raise DataError(
                f"{where}: has shape {shape}, its classes on axis {axis}; labels have {truth}, not {expected}"
            )
        return axis
    if shape == truth and len(shape) == 3 and not ((np.asarray(labels[:1]) == 1).sum(axis=-1) == 1).all():
        return 3  # with a single 1 in every last axis the labels are one-hot
    both = None if truth is None else len(truth) - len(shape)
    if truth is None or len(shape) < 3 or both not in (0, -1) or prod(truth[1:]) < 2:
        if len(shape) > 3:
            raise DataError(
                f"{where}: has shape {shape}, expected (rows, classes), or positions such as (images, classes, height,"
                f" width) with a label each, (images, height, width)"
                + ("; name them with --labels, or say --class-axis 1" if truth is None else f"; labels have {truth}")
            )
        return None
    one = (1,) * (both == 0)
    axes = [axis for axis in range(1, len(shape)) if (*shape[:axis], *one, *shape[axis + 1 :]) == truth]
    if len(axes) > 1 and len(shape) > 3:
        which = " or ".join(map(str, axes))
        raise UsageError(f"{where}: has shape {shape}: which axis are the classes? --class-axis {which}")
    if not axes and len(shape) > 3:
        raise DataError(f"{where}: has shape {shape}, labels have {truth}: expected a label per position")
    return axes[-1] if axes else None  # of sequences the classes stand last


class Dense:
    """Scores with an axis of classes among those of positions, as rows; the first axis are the units.

    scores, labels : arrays that are read by slices of the first axis. axis : of the classes. ignore : labels of
    positions to leave out. sample : so many of each unit, drawn without replacement by the seed; None for all.
    """

    def __init__(
        self, scores: Any, labels: Any, axis: int, where: str, *, ignore: Sequence[int], sample: int | None, seed: int
    ) -> None:
        self._scores, self._labels, self._axis, self._where = scores, labels, axis, where
        self._ignore, self._sample, self._seed = np.asarray(ignore, dtype=np.int64), sample, seed
        shape = (*scores.shape, 1)[: max(len(scores.shape), axis + 1)]
        self.units, self.k, self.each = shape[0], shape[axis], prod(shape[1:]) // max(shape[axis], 1)
        if self.units == 0 or self.each == 0:
            raise DataError(f"{where}: has shape {shape}, expected at least one position")
        self.positions = (*shape[:axis], *shape[axis + 1 :])
        self._step = max(1, PIECE_BYTES // (self.each * max(self.k, 1) * scores.dtype.itemsize))
        self._places = lru_cache(1)(self._kept)
        counts = [len(self._kept(piece)) for piece in range(-(-self.units // self._step))]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.n = int(self._starts[-1])
        if self.n == 0:
            raise DataError(f"{where}: every position has an ignored label, nothing is left")
        total = self.units * self.each
        left = f", {self.n} of them taken (ignored labels{' and --sample' if sample else ''})" if self.n < total else ""
        remark(f"{where}: {self.units} x {self.each} positions became {total} rows{left}; what lies together is a unit")

    def _bounds(self, piece: int) -> tuple[int, int]:
        return piece * self._step, min((piece + 1) * self._step, self.units)

    def _kept(self, piece: int) -> IntArray:
        """Which positions of a piece stay, as they lie in it."""
        low, high = self._bounds(piece)
        keep = np.ones((high - low, self.each), dtype=np.bool_)
        if len(self._ignore) and self._labels is not None:
            keep = ~np.isin(np.asarray(self._labels[low:high]), self._ignore).reshape(high - low, -1)
        for unit in range(low, high) if self._sample else ():
            here = np.flatnonzero(keep[unit - low])
            if len(here) > self._sample:  # type: ignore[operator]
                drawn = np.random.default_rng([self._seed, unit]).choice(here, self._sample, replace=False)
                keep[unit - low] = False
                keep[unit - low, drawn] = True
        return np.flatnonzero(keep)

    def rows(self, of: Callable[[int, int], NDArray[Any]]) -> Positions:
        """Rows of what a slice of units holds for each of their positions, (positions,) or (positions, k)."""
        return Positions(self._starts, lambda piece: of(*self._bounds(piece))[self._places(piece)])

    def scores(self) -> Positions:
        """The scores, (n, k)."""

        def of(low: int, high: int) -> NDArray[Any]:
            units = np.asarray(self._scores[low:high])
            return np.moveaxis(units.reshape(*units.shape, *(1,) * (self._axis == units.ndim)), self._axis, -1).reshape(
                -1, self.k
            )

        return self.rows(of)

    def labels(self, where: str) -> IntArray:
        """Their labels, (n,), in a type as small as they allow. Raises DataError."""
        k = max(self.k, 2)
        found = np.empty(self.n, np.min_scalar_type(k - 1))
        lazy = self.rows(lambda low, high: np.asarray(self._labels[low:high]).reshape(-1))
        for start, stop in zip(self._starts[:-1].tolist(), self._starts[1:].tolist(), strict=True):
            raw = lazy[start:stop]
            if raw.dtype.kind not in "biuf":
                raise DataError(f"{where}: has type {raw.dtype}, expected the class index of every position")
            raw = to_labels(raw, len(raw), k, None, where).values if raw.dtype.kind == "f" else raw
            found[start:stop] = check_labels(raw.astype(np.int64), len(raw), k, where, first_row=start)
        return found

    def column(self, values: NDArray[Any]) -> Any:
        """A column of units, or of positions, as one of rows; words in memory, numbers piece by piece."""
        each = 1 if tuple(values.shape) == self.positions else self.each
        made = self.rows(lambda low, high: np.repeat(values[low:high].reshape(-1), each))
        return made[:] if made.dtype.kind in "OUS" else made
