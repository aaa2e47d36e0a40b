"""Scores of every pixel of an image or token of a sequence.

Each position becomes a row (``Dense``), or the positions of a row become one
(``reduced_to_rows``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.arranging.token_confidences import reduced
from calcli.importers.building.class_axis import label_shapes
from calcli.importers.building.labels import to_labels
from calcli.importers.import_request import ImportRequest
from calcli.importers.ragged import Parts, Positions, Shape
from calcli.importers.remarks import remark
from calcli.io.validate import check_labels
from calcli.numerics import AnyArray, IntArray
from calcli.rows import ScoreKind

PIECE_BYTES = 4 << 20
"""Bytes of scores that are read at once, unless one unit has more."""

INDEX_BYTES = 8


# ---- positions as rows


class Dense:
    """Scores of positions as rows.

    The first axis is the unit, the others are positions and classes. scores, labels :
    arrays that are read by slices of the first axis. axis : of the classes. ignore :
    labels of positions to leave out. With ``--sample``, positions of each unit are
    drawn without replacement.
    """

    def __init__(
        self,
        scores: Any,
        labels: Any,
        axis: int,
        where: str,
        ignore: Any,
        request: ImportRequest,
    ) -> None:
        self._scores = scores
        self._labels = labels
        self._axis = axis
        whole = [label for label in ignore if float(label).is_integer()]
        self._ignore = np.asarray(whole, dtype=np.int64)
        self._sample = request.sample
        self._seed = request.seed
        shape = (*scores.shape, 1)[: max(len(scores.shape), axis + 1)]
        self.units = shape[0]
        self.k = shape[axis]
        self.positions = label_shapes(shape, axis)[0]
        if not prod(self.positions):
            raise DataError(
                f"{where}: has shape {shape}, expected at least one position"
            )
        counts = [prod(self.positions[1:])] * self.units
        if isinstance(scores, Parts):
            counts = _count_positions(scores, labels, axis)
        self._starts_of_units = _starts_of(counts)
        self._cut_into_pieces()
        if self.n == 0:
            raise DataError(
                f"{where}: every position has an ignored label, nothing is left"
            )
        self._remark(where, counts)

    def _cut_into_pieces(self) -> None:
        """Find the units of every piece, and the rows that are kept of it."""
        row_bytes = max(self.k * self._scores.dtype.itemsize, INDEX_BYTES)
        total = int(self._starts_of_units[-1])
        steps = np.arange(0, total, max(1, PIECE_BYTES // row_bytes))
        first_units = np.searchsorted(self._starts_of_units, steps, "right") - 1
        self._edges = np.unique([*first_units, self.units]).tolist()
        self._kept = lru_cache(2)(self._find_kept)
        n_pieces = len(self._edges) - 1
        self._starts = _starts_of([len(self._find_kept(i)) for i in range(n_pieces)])
        self.n = int(self._starts[-1])

    def _remark(self, where: str, counts: Sequence[int]) -> None:
        total = sum(counts)
        sizes = f"{min(counts)} to {max(counts)}"
        if min(counts) == max(counts):
            sizes = str(counts[0])
        left_out = ""
        if self.n < total:
            reason = "ignored labels"
            if self._sample:
                reason = "ignored labels and --sample"
            left_out = f", {self.n} of them taken ({reason})"
        remark(
            f"{where}: {self.units} x {sizes} positions became {total} rows{left_out};"
            " what lies together is a unit"
        )

    def _find_kept(self, piece: int) -> IntArray:
        """Indices, within a piece, of the positions that are kept."""
        low, high = self._edges[piece : piece + 2]
        start = self._starts_of_units[low]
        keep = np.ones(self._starts_of_units[high] - start, dtype=np.bool_)
        if self._labels is not None:
            labels = _flat(self._labels, low, high)
            keep = ~np.isin(labels, self._ignore)
            if labels.dtype.kind == "f":
                keep &= ~np.isnan(labels)
        if self._sample is not None:
            for unit in range(low, high):
                first = self._starts_of_units[unit] - start
                last = self._starts_of_units[unit + 1] - start
                self._draw(keep[first:last], unit, self._sample)
        return np.flatnonzero(keep)

    def _draw(self, keep: AnyArray, unit: int, most: int) -> None:
        """Leave at most ``most`` positions of a unit, in place."""
        kept = np.flatnonzero(keep)
        if len(kept) <= most:
            return
        rng = np.random.default_rng([self._seed, unit])
        drawn = rng.choice(kept, most, replace=False)
        keep[:] = False
        keep[drawn] = True

    def rows(self, values_of: Callable[[int, int], AnyArray]) -> Positions:
        """Lazy rows of the kept positions.

        values_of : (low, high) units -> their (positions,) or (positions, k) values.
        """

        def piece_of(piece: int) -> AnyArray:
            low, high = self._edges[piece : piece + 2]
            return values_of(low, high)[self._kept(piece)]

        return Positions(self._starts, piece_of)

    def scores(self) -> Positions:
        """Scores as rows."""

        def values_of(low: int, high: int) -> AnyArray:
            return _flat(self._scores, low, high, self._axis, self.k)

        return self.rows(values_of)

    def labels(self, where: str, names: Sequence[str] | None) -> Positions:
        """Labels (n,) in the smallest integer type, checked when read."""
        k = max(self.k, 2)

        def piece_of(piece: int) -> AnyArray:
            low, high = self._edges[piece : piece + 2]
            raw = _flat(self._labels, low, high)[self._kept(piece)]
            if raw.dtype.kind not in "biuf" and names is None:
                raise DataError(
                    f"{where}: has type {raw.dtype}, expected class indices, or words"
                    " of --class-names"
                )
            if raw.dtype.kind not in "biu":
                raw = to_labels(raw, len(raw), k, names, where).labels
            labels = check_labels(
                raw.astype(np.int64),
                len(raw),
                k,
                where,
                first_row=int(self._starts[piece]),
            )
            return labels.astype(np.min_scalar_type(k - 1))

        return Positions(self._starts, piece_of)

    def column(self, values: AnyArray) -> Any:
        """Make rows of a column of units or positions; words lie in memory."""
        starts = self._starts_of_units
        flat = values.reshape(-1)
        is_of_positions = self.is_of_positions(values)

        def values_of(low: int, high: int) -> AnyArray:
            if is_of_positions:
                return flat[starts[low] : starts[high]]
            return np.repeat(flat[low:high], np.diff(starts[low : high + 1]))

        rows = self.rows(values_of)
        return rows[:] if rows.dtype.kind in "OUS" else rows

    def is_of_positions(self, values: AnyArray) -> bool:
        """True for a column with a value per position, not per unit."""
        if tuple(values.shape) == self.positions:
            return True
        n_positions = self._starts_of_units[-1]
        return values.shape == (n_positions,) and n_positions != self.units


def _starts_of(counts: Sequence[int]) -> IntArray:
    """First row of every part, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _count_positions(scores: Parts, labels: Any, axis: int) -> list[int]:
    """Number of positions of each unit.

    Raises DataError for another number of labels or of classes.
    """
    k = (*scores.shape, 1)[axis]
    counts = []
    for shape in scores.shapes:
        counts.append(prod((*shape, 1)[: axis - 1]) * prod(shape[axis:]))
    if labels is None:
        label_counts = counts
    elif isinstance(labels, Parts):
        label_counts = list(map(prod, labels.shapes))
    else:
        label_counts = []
    if len(label_counts) != len(counts):
        n_labels = len(label_counts) or labels.shape
        raise DataError(
            f"{scores.where}: has {len(counts)} parts, its labels {n_labels}"
        )
    for unit, shape in enumerate(scores.shapes):
        n_labels = label_counts[unit]
        if (*shape, 1)[axis - 1] != k or counts[unit] != n_labels:
            raise DataError(
                f"{scores.where}: part {unit} has shape {shape} and {n_labels} labels,"
                f" expected {k} classes and a label for each position"
            )
    return counts


def _flat(
    array: Any, low: int, high: int, axis: int | None = None, k: int = 1
) -> AnyArray:
    """Values of units low to high by position.

    Returns (positions,), or (positions, k) if ``axis`` has k classes.
    """
    if isinstance(array, Parts):
        units = range(low, high)
        return np.concatenate(
            [_flat(array.of(unit)[None], 0, 1, axis, k) for unit in units]
        )
    values = np.asarray(array[low:high])
    if axis is None:
        return values.reshape(-1)
    if axis == values.ndim:
        values = values[..., None]
    return np.moveaxis(values, axis, -1).reshape(-1, k)


# ---- several scores of a row (tokens, prompts, crops, passes) reduced to one


@dataclass(frozen=True)
class RowScores:
    """Scores (n, k), or (n,), and their kind."""

    scores: Any
    kind: ScoreKind


def reduced_to_rows(
    row_scores: RowScores, labels: Any, how: str | None, where: str
) -> RowScores:
    """Reduce scores (rows, m, classes) or (m, rows, classes) to one per row.

    Reduced log_probs are logits, as they no longer normalise. how : ``--reduce``.
    labels : (rows,), by which the axis of rows is found. Raises DataError for such
    scores without a how, UsageError for one that does not fit.
    """
    scores, kind = row_scores.scores, row_scores.kind
    shape = tuple(scores.shape)
    if how is None:
        if len(shape) != 3:
            return row_scores
        raise DataError(
            f"{where}: has shape {shape}, expected (rows, classes); of several scores a"
            " row (tokens, crops) --reduce mean makes one, by labels"
        )
    axis = _axis_to_reduce(shape, labels)
    request = f"--reduce {how}: {where} has shape {shape}"
    if axis is None:
        raise UsageError(f"{request}, expected (rows, positions, classes)")
    has_wide_labels = labels is not None and labels.ndim > 1 and labels.shape[1] > 1
    if how == "none" or has_wide_labels:
        raise UsageError(
            f"{request}, labels {np.shape(labels)}, expected a label per position with"
            " none, one per row with others"
        )
    if how in ("sum", "min") and kind == "probs":
        raise UsageError(
            f"--reduce {how}: {where} holds probs, whose {how} is none; save log_probs,"
            " or --reduce mean"
        )
    if kind == "log_probs" and how != "first":
        kind = "logits"
    remark(f"{where}: {how} of {shape[axis]} positions ({kind})")
    values = reduced(np.asarray(scores[()], dtype=np.float64), how, axis=axis)
    return RowScores(values.astype(scores.dtype), kind)


def _axis_to_reduce(shape: Shape, labels: Any) -> int | None:
    """Axis of the positions: 1, unless the labels are as many as axis 1 has."""
    if len(shape) != 3:
        return None
    for axis, rows in ((1, 0), (0, 1)):
        if labels is None or len(labels) == shape[rows]:
            return axis
    return None
