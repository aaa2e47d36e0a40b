"""Bins of scores in [0, 1]: one edge rule for every method and every metric.

Bins are right-closed, (lo, hi], and a score of exactly 0 belongs to the first. What a
bin has seen is a value that adds: the statistics of two halves of a file sum to those
of the whole, in any order, with exact counts.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from calcli.numerics import FloatArray, IntArray

__all__ = ["BinStats", "bin_index", "mass_edges", "width_edges"]


def width_edges(bins: int) -> FloatArray:
    """Edges of equal-width bins on [0, 1], (bins + 1,) float64."""
    return np.linspace(0.0, 1.0, bins + 1)


def mass_edges(scores: FloatArray, bins: int) -> FloatArray:
    """Edges of bins that hold equally many of the scores.

    scores : (n,) in [0, 1]. The sorted scores are cut into ``bins`` chunks (sizes differ
    by at most one); an edge lies midway between neighbouring chunks; the outer edges are
    0 and 1. Ties can make edges coincide; those are merged, so there may be fewer bins:
    use ``len(edges) - 1``. (The rule of Kumar, Liang, Ma 2019, ``get_equal_bins``.)
    """
    chunks = [c for c in np.array_split(np.sort(scores), bins) if len(c)]
    inner = [0.5 * (a[-1] + b[0]) for a, b in pairwise(chunks)]
    edges = np.unique(np.asarray([*inner, 1.0]))
    return np.concatenate([[0.0], edges[edges > 0.0]])


def bin_index(scores: FloatArray, edges: FloatArray) -> IntArray:
    """Bin of every score, 0-based: right-closed bins, 0 in the first, above the last edge in the last."""
    return np.clip(np.searchsorted(edges, scores, side="left") - 1, 0, len(edges) - 2)


@dataclass(frozen=True)
class BinStats:
    """What the bins have seen. Adds.

    count : (bins,) int64 rows. score, hits : (bins,) float64 sums of the scores and of the
    0/1 outcomes. mass : (bins,) float64 sum of weights (equal to count without weights;
    score and hits are then weighted too).
    """

    count: IntArray
    score: FloatArray
    hits: FloatArray
    mass: FloatArray

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        outcomes: FloatArray,
        edges: FloatArray,
        weight: FloatArray | None = None,
    ) -> "BinStats":
        """Statistics of scores (n,) in [0, 1] with outcomes (n,) 0/1 over the given edges."""
        index, bins = bin_index(scores, edges), len(edges) - 1

        def sums(of: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(index, weights=of, minlength=bins), dtype=np.float64)

        count = np.bincount(index, minlength=bins)
        if weight is None:
            return cls(count, sums(scores), sums(outcomes), count.astype(np.float64))
        return cls(count, sums(scores * weight), sums(outcomes * weight), sums(weight))

    def __add__(self, other: "BinStats") -> "BinStats":
        return BinStats(
            self.count + other.count,
            self.score + other.score,
            self.hits + other.hits,
            self.mass + other.mass,
        )

    @property
    def gaps(self) -> FloatArray:
        """Mean score minus mean outcome per bin; 0 where a bin is empty."""
        return np.divide(self.score - self.hits, self.mass, out=np.zeros(len(self.mass)), where=self.mass > 0)

    @property
    def share(self) -> FloatArray:
        """Share of the rows (or of the weight) in each bin."""
        return self.mass / self.mass.sum()
