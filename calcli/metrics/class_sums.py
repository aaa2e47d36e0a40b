"""Sums over (class, width bin) of the probabilities of every class, gathered piece by piece."""

from collections.abc import Iterator

import numpy as np

from calcli.binning import bin_index, width_edges
from calcli.calibrator import Calibrator
from calcli.fast_dataclass import dataclass
from calcli.metrics.rowtable import ClassStats
from calcli.numerics import AnyArray, FloatArray, IntArray, softmax
from calcli.rows import Rows
from calcli.sums import Sums

PAIRS_AT_ONCE = 1 << 15
"""Pairs that wait before they are added up."""


@dataclass(frozen=True)
class Piece(Sums):
    """Sums of some rows. Adds.

    rows, weight, square : their number, weights and squared weights. expected, variance,
    labels : (k,). pairs : arrays (cell, p, weight, is it the label) of large p.
    """

    rows: int
    weight: float
    square: float
    expected: FloatArray
    variance: FloatArray
    labels: FloatArray
    pairs: list[tuple[AnyArray, ...]]

    @classmethod
    def of(
        cls, e: FloatArray, e2: FloatArray, norm: FloatArray, y: IntArray, weight: FloatArray | None, bins: int
    ) -> "Piece":
        """The sums of rows with p = e / norm and p^2 = e2 / norm^2."""
        k, edges = e.shape[1], width_edges(bins)
        w = np.ones(len(e)) if weight is None else weight
        expected = (w / norm) @ e
        variance = (expected if weight is None else (w**2 / norm) @ e) - (w**2 / norm**2) @ e2
        # One bound for the piece is cheaper than one per row and lets few too many through.
        row, c = np.divmod(np.flatnonzero(e > edges[1] * norm.min() * (1 - 1e-12)), k)
        p = e[row, c] / norm[row]
        keep = p > edges[1]
        row, c, p = row[keep], c[keep], p[keep]
        pairs = c * bins + bin_index(p, edges), p, w[row], c == y[row]
        labels: FloatArray = np.bincount(y, weights=w, minlength=k).astype(np.float64)
        return cls(len(e), float(w.sum()), float(w @ w), expected, variance, labels, [pairs])


class ClassSums:
    """Sums over (class, width bin).

    At most ``bins`` classes of a row lie above the first bin, so only those are binned
    one by one; the first bin is what remains of the column sums.
    """

    def __init__(self, k: int, bins: int) -> None:
        self.k, self.bins = k, bins
        self.count = np.zeros(k * bins, dtype=np.int64)
        self.score, self.outcome, self.weight, self.weight_square, self.variance = (
            np.zeros(k * bins) for _ in range(5)
        )
        self.rows, self.total, self.total_square = 0, 0.0, 0.0
        self.column, self.column_variance, self.labels = np.zeros(k), np.zeros(k), np.zeros(k)
        self.waiting: list[tuple[AnyArray, ...]] = []
        self.waiting_items = 0

    def take(self, piece: "Piece") -> None:
        """Add the sums of some rows."""
        self.rows += piece.rows
        self.total += piece.weight
        self.total_square += piece.square
        self.column += piece.expected
        self.column_variance += piece.variance
        self.labels += piece.labels
        self.waiting += piece.pairs
        self.waiting_items += sum(len(pairs[0]) for pairs in piece.pairs)
        if self.waiting_items > PAIRS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Add up the pairs that wait; one by one, piece by piece, would cost k x bins each."""
        if not self.waiting:
            return
        size = self.k * self.bins
        cell, p, w, label = (np.concatenate(part) for part in zip(*self.waiting, strict=True))
        self.waiting, self.waiting_items = [], 0
        self.count += np.bincount(cell, minlength=size)
        self.weight += np.bincount(cell, weights=w, minlength=size)
        self.weight_square += np.bincount(cell, weights=w * w, minlength=size)
        self.score += np.bincount(cell, weights=w * p, minlength=size)
        self.variance += np.bincount(cell, weights=w * w * p * (1.0 - p), minlength=size)
        self.outcome += np.bincount(cell[label], weights=w[label], minlength=size)

    def stats(self) -> ClassStats:
        """The sums with the first bin filled in."""
        self.flush()
        shape = self.k, self.bins

        def filled(sums: FloatArray, total: FloatArray | float) -> FloatArray:
            cells = sums.reshape(shape).copy()
            cells[:, 0] = np.maximum(total - cells[:, 1:].sum(axis=1), 0.0)
            return cells

        count = self.count.reshape(shape).copy()
        count[:, 0] = self.rows - count[:, 1:].sum(axis=1)
        return ClassStats(
            count,
            filled(self.score, self.column),
            filled(self.outcome, self.labels),
            filled(self.weight, self.total),
            filled(self.weight_square, self.total_square),
            filled(self.variance, self.column_variance),
        )


# ---- probabilities class by class, through a calibrator: for metrics that need every class's own bins


COLUMN_BYTES = 96 << 20
"""Columns held at once; more classes than fit mean more walks over the rows."""


def class_columns(
    rows: Rows, calibrator: Calibrator | None = None, *, raw: bool = False
) -> Iterator[tuple[int, FloatArray]]:
    """Walk over (class, probabilities (n,) float64), classes ascending, in bounded memory.

    raw : each class's own value, before a calibrator with one map per class divides by the row's sum.
    """
    width = max(1, min(rows.k, COLUMN_BYTES // (8 * rows.n)))
    needed = () if calibrator is None else calibrator.required_transforms
    wanted = [rows.transforms.index(spec) for spec in needed]
    held = np.empty((width, rows.n))
    for first in range(0, rows.k, width):
        last = min(first + width, rows.k)
        for block in rows.blocks(wanted):
            here = slice(block.start, block.start + len(block))
            if calibrator is not None and raw:
                p = calibrator.marginals(block)[:, first:last]
            elif calibrator is not None:
                p = np.exp(calibrator.apply(block).log_probs[:, first:last])
            elif block.kind == "probs":
                p = block.scores[:, first:last].astype(np.float64)
            else:
                p = softmax(block.z)[:, first:last]
            held[: last - first, here] = p.T
        for c in range(first, last):
            yield c, held[c - first]
