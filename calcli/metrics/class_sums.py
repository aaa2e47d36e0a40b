"""Sums over (class, width bin) of the probabilities of every class, gathered piece by
piece.
"""

from dataclasses import dataclass

import numpy as np

from calcli.binning import bin_index, width_edges
from calcli.metrics.rowtable import ClassStats
from calcli.numerics import AnyArray, FloatArray, IntArray, row_weights
from calcli.records import Sums

PAIRS_AT_ONCE = 1 << 15  # pairs that are buffered before they are added up


@dataclass(frozen=True)
class Piece(Sums):
    """Class sums of some rows.

    Adds. totals : (6, k) sums of ``ClassStats`` of each class over all bins. pairs :
    arrays (cell, p, weight, is it the label) of the p above the first bin. jumps : of
    ``ClassStats``.
    """

    totals: FloatArray
    pairs: list[tuple[AnyArray, ...]]
    jumps: FloatArray | None

    @classmethod
    def of(
        cls,
        e: FloatArray,
        e2: FloatArray,
        norm: FloatArray,
        y: IntArray,
        weight: FloatArray | None,
        bins: int,
    ) -> "Piece":
        """The sums of rows with p = e / norm and p^2 = e2 / norm^2."""
        k = e.shape[1]
        edges = width_edges(bins)
        w = row_weights(weight, len(e))
        ones = np.ones(k)
        expected = (w / norm) @ e
        squares = expected if weight is None else (w**2 / norm) @ e
        variance = squares - (w**2 / norm**2) @ e2
        # One bound for the piece is cheaper than one per row and lets few too many through.
        row, c = np.divmod(np.flatnonzero(e > edges[1] * norm.min() * (1 - 1e-12)), k)
        p = e[row, c] / norm[row]
        keep = p > edges[1]
        row = row[keep]
        c = c[keep]
        p = p[keep]
        pairs = c * bins + bin_index(p, edges), p, w[row], c == y[row]
        labels = np.bincount(y, weights=w, minlength=k)
        totals = [
            len(e) * ones,
            expected,
            labels,
            float(w.sum()) * ones,
            float(w @ w) * ones,
            variance,
        ]
        jumps = None
        if weight is not None:
            jumps = _jumps_of_classes(e, e2, norm, weight, variance)
        return cls(np.array(totals, dtype=np.float64), [pairs], jumps)


def _jumps_of_classes(
    e: FloatArray,
    e2: FloatArray,
    norm: FloatArray,
    weight: FloatArray,
    variance: FloatArray,
) -> FloatArray:
    """``ClassStats.jumps`` of rows with p = e / norm.

    variance : (k,) sums of w^2 p (1 - p).
    """
    fourth = (weight**4 / norm) @ e - (weight**4 / norm**2) @ e2
    row, c = np.nonzero(e >= 0.5 * norm[:, None])  # at most two of a row
    p = e[row, c] / norm[row]
    falling = np.bincount(c, weight[row] ** 2 * p * (1.0 - p), minlength=e.shape[1])
    return np.stack([np.maximum(fourth, 0.0), np.maximum(variance - falling, 0.0)])


class ClassSums:
    """Sums over (class, width bin).

    At most ``bins`` classes of a row lie above the first bin, so only those are binned
    one by one; the first bin is what remains of the column sums.
    """

    def __init__(self, k: int, bins: int) -> None:
        self.totals, self.cells = np.zeros((6, k)), np.zeros((6, k * bins))
        self.jumps: FloatArray | None = None
        self.waiting: list[tuple[AnyArray, ...]] = []

    def take(self, piece: Piece) -> None:
        """Add the sums of some rows."""
        self.totals += piece.totals
        if piece.jumps is not None:
            before = np.zeros_like(piece.jumps) if self.jumps is None else self.jumps
            self.jumps = before + piece.jumps
        self.waiting += piece.pairs
        if sum(len(pairs[0]) for pairs in self.waiting) > PAIRS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Add up the buffered pairs; doing so for every piece would cost k x bins each
        time.
        """
        if not self.waiting:
            return
        columns = zip(*self.waiting, strict=True)
        cell, p, w, label = map(np.concatenate, columns)
        self.waiting = []
        variance = w * w * p * (1.0 - p)
        statistics = (None, w * p, w * label, w, w * w, variance)
        for sums, values in zip(self.cells, statistics, strict=True):
            sums += np.bincount(cell, values, len(sums))

    def stats(self) -> ClassStats:
        """The sums with the first bin filled in."""
        self.flush()
        cells = self.cells.reshape(*self.totals.shape, -1).copy()
        cells[:, :, 0] = np.maximum(self.totals - cells[:, :, 1:].sum(axis=2), 0.0)
        count, score, outcome, weight, weight_square, variance = cells
        return ClassStats(
            count.astype(np.int64),
            score,
            outcome,
            weight,
            weight_square,
            variance,
            self.jumps,
        )
