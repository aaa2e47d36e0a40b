"""Bins of scores in [0, 1]: one edge rule for every method and every metric.

Bins are right-closed, (lo, hi], and a score of exactly 0 belongs to the first.
Statistics of bins add: those of two halves of a file sum to those of the whole, in any
order, with exact counts.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calcli.numerics import FloatArray, IntArray, ends_of_runs, ratio, starts_of_ties
from calcli.records import Sums


def width_edges(bins: int) -> FloatArray:
    """Edges of equal-width bins on [0, 1], (bins + 1,) float64."""
    return np.linspace(0.0, 1.0, bins + 1)


def ends(*, log_odds: bool) -> tuple[float, float]:
    """Outer edges of bins of probabilities, or of their log-odds."""
    most = float(np.finfo(np.float64).max)
    return (-most, most) if log_odds else (0.0, 1.0)


def mass_edges(
    scores: FloatArray,
    bins: int,
    weight: FloatArray | None = None,
    *,
    log_odds: bool = False,
) -> FloatArray:
    """Edges of equal-mass bins: each holds equally many scores, or equal weight.

    scores : (n,) in [0, 1], or log-odds. The sorted scores are cut into ``bins`` chunks
    (sizes differ by at most one); an edge lies midway between neighbouring chunks, or
    where the cut falls among tied scores (equal but for rounding, see ``numerics.TIE``)
    on the largest of them, so that ties stay together below it. The outer edges are 0
    and 1 (``ends``). Edges that coincide are merged, so there may be fewer bins: use
    ``len(edges) - 1``. An inner edge of exactly 0 stays: the scores of 0 are a bin.
    (The rule of Kumar, Liang, Ma 2019, ``get_equal_bins``.)

    weight : (n,) >= 0, of any scale. A multiple w of the smallest counts as w equal
    scores; where one is no multiple the weight is cut into equal parts, and a score
    that holds a cut belongs below it. Weights of 0 are absent.
    """
    if weight is None:
        ordered = np.sort(scores)
        # the first ``longer`` chunks have a row more
        size, longer = divmod(len(ordered), min(bins, len(ordered)))
        chunk = np.arange(1, min(bins, len(ordered)))
        above = chunk * size + np.minimum(chunk, longer)
        below = above - 1
    else:
        ordered, below, above = _weighted_cuts(scores, bins, weight)
    least, most = ends(log_odds=log_odds)
    first = starts_of_ties(ordered, least=float(log_odds))
    last = ends_of_runs(first, len(ordered))
    run = np.searchsorted(first, below, side="right") - 1  # of ties, of each cut
    end_of_run = last[run]
    is_tied = above <= end_of_run
    midway = 0.5 * (ordered[below] + ordered[above])
    edges = np.where(is_tied, ordered[end_of_run], midway)
    return np.concatenate([[least], np.unique(np.append(edges, most))])


def cell_of(scores: FloatArray, cells: int) -> IntArray:
    """Index of the cell of every score in 0..1, closed to the left; 1 is in the last."""
    return np.minimum((scores * cells).astype(np.int64), cells - 1)


SAME_WEIGHT = 1e-12  # share of the weight up to which two sums of weights are equal


def _weighted_cuts(
    scores: FloatArray, bins: int, weight: FloatArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Sorted scores of positive weight, and the indices of those just below and above
    each cut into equal weights.
    """
    order = np.argsort(scores, kind="stable")
    order = order[weight[order] > 0]
    copies = weight[order] / weight[order].min()
    whole = np.rint(copies)
    rounding = SAME_WEIGHT * float(copies.sum())
    if np.abs(copies - whole).max() <= rounding:  # as if rows were copied so often
        copies = whole
        size, longer = divmod(copies.sum(), bins)
        cuts = np.arange(1, bins) * size + np.minimum(np.arange(1, bins), longer)
    else:
        cuts = np.arange(1, bins) * (copies.sum() / bins)
    upto = np.cumsum(copies)
    cuts = cuts[(cuts > 0) & (cuts < upto[-1])]
    below = np.searchsorted(upto, cuts - rounding, side="left")
    above = np.searchsorted(upto, cuts + rounding, side="right")
    return scores[order], below, np.minimum(above, len(order) - 1)


def bin_index(scores: FloatArray, edges: FloatArray) -> IntArray:
    """Bin of every score, 0-based: right-closed bins, 0 in the first, above the last
    edge in the last.
    """
    return edges_below(scores, edges[1:-1])


# edges up to which, and scores from which, each edge is compared with all scores
FEW_EDGES = 64
MANY_SCORES = 500


def edges_below(scores: FloatArray, edges: FloatArray) -> IntArray:
    """Number of ascending edges below every score, in the shape of the scores."""
    if len(edges) > FEW_EDGES or scores.size < MANY_SCORES:
        return np.searchsorted(edges, scores, side="left")
    # as a search compares; NumPy 1 would round the edges to float32
    scores = np.asarray(scores, dtype=np.float64)
    below = np.zeros(scores.shape, dtype=np.uint8)  # ten times as fast as a search
    for edge in edges:
        below += scores > edge
    return below.astype(np.intp)


@dataclass(frozen=True)
class BinStats(Sums):
    """Sums of scores and outcomes per bin; they add.

    The last axis is the bins, others may be classes or draws.

    count : (…, bins) int64 rows. score, outcome : (…, bins) float64 weighted sums of
    the scores and of the 0/1 outcomes. weight, weight_square : (…, bins) float64 sums
    of the rows' weights and of their squares, both the count where there are no
    weights.
    """

    count: IntArray
    score: FloatArray
    outcome: FloatArray
    weight: FloatArray
    weight_square: FloatArray

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        outcomes: FloatArray,
        edges: FloatArray,
        weight: FloatArray | None = None,
    ) -> Self:
        """Statistics of scores (n,) in [0, 1] with outcomes (n,) 0/1 over the given
        edges.
        """
        return cls.at(
            bin_index(scores, edges), len(edges) - 1, scores, outcomes, weight
        )

    @classmethod
    def at(
        cls,
        index: IntArray,
        bins: int,
        scores: FloatArray,
        outcomes: FloatArray,
        weight: FloatArray | None = None,
    ) -> Self:
        """Statistics of scores (n,) and outcomes (n,) whose bins, (n,) in 0..bins - 1,
        are known.
        """

        def sums(of: FloatArray) -> FloatArray:
            return np.asarray(
                np.bincount(index, weights=of, minlength=bins), dtype=np.float64
            )

        count = np.bincount(index, minlength=bins)
        if weight is None:
            rows = count.astype(np.float64)
            return cls(count, sums(scores), sums(outcomes), rows, rows)
        return cls(
            count,
            sums(scores * weight),
            sums(outcomes * weight),
            sums(weight),
            sums(weight**2),
        )

    def with_outcomes(self, outcome: FloatArray) -> "BinStats":
        """Replace the sums of outcomes, (…, bins)."""
        return BinStats(
            self.count, self.score, outcome, self.weight, self.weight_square
        )

    @property
    def effective(self) -> FloatArray:
        """Kish's effective number of rows, (sum w)^2 / sum w^2; the count where there
        are no weights.
        """
        return ratio(self.weight**2, self.weight_square)

    @property
    def gaps(self) -> FloatArray:
        """Mean score minus mean outcome per bin; 0 where a bin is empty."""
        return ratio(self.score - self.outcome, self.weight)

    @property
    def share(self) -> FloatArray:
        """Share of the rows (or of the weight) in each bin."""
        return self.weight / self.weight.sum(axis=-1, keepdims=True)


def binned_error(bins: BinStats, norm: float = 1.0) -> FloatArray:
    """Calibration error of binned scores: (sum_b share_b |gap_b|^p)^(1/p); p = inf the
    largest gap.

    Returns the leading shape of ``bins``. p = 1 is the expected calibration error, p =
    inf the maximum calibration error over bins that hold anything.

    Reference: Naeini, Cooper, Hauskrecht (2015); Guo et al. (2017), equations 3 and 5.
    """
    gap = np.abs(bins.gaps)
    if np.isinf(norm):
        return gap.max(axis=-1)
    return (bins.share * gap**norm).sum(axis=-1) ** (1.0 / norm)
