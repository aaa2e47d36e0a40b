"""Test of calibration over bins of all sizes."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, IntArray, ratio, starts_of_runs
from calcli.statistics.nulls import reaching
from calcli.statistics.p_values import vanishes


@dataclass(frozen=True)
class _Cut:
    """Scores in order cut into bins.

    first : (b,) first row of each bin. per_pair : (b,) 1 / (rows - 1), 0 for one row.
    sd : null standard deviation of the pairwise squared error.
    """

    first: IntArray
    per_pair: FloatArray
    sd: float

    @classmethod
    def of(cls, c: FloatArray, variance: FloatArray, bins: float) -> "_Cut":
        """Cut ordered scores (n,) of these variances into bins of equal width."""
        cell = np.minimum(np.ceil(c * bins), bins)
        first = starts_of_runs(cell)
        count = np.diff(np.concatenate([first, [len(c)]])).astype(np.float64)
        per_pair = ratio(1.0, count - 1.0)
        v = np.add.reduceat(variance, first)
        sd = math.sqrt(float((2.0 * v**2 * per_pair / count).sum()))
        return cls(first, per_pair, sd)

    def statistics(self, residuals: FloatArray, squares: FloatArray) -> FloatArray:
        """Compute the squared error in units of ``sd`` of residuals (m, n), (m,)."""
        sums = np.add.reduceat(residuals, self.first, axis=1)
        square_sums = np.add.reduceat(squares, self.first, axis=1)
        pairs = sums**2 - square_sums
        return pairs @ self.per_pair / self.sd


def adaptive_test(
    scores: FloatArray,
    outcomes: FloatArray,
    resamples: int,
    draws: Iterable[tuple[slice, NDArray[Any]]],
) -> tuple[float, float, int]:
    """Test over bins of all sizes: (statistic, p-value, levels).

    For 2^b width bins, b = 1..floor(2 log2(n / sqrt(ln n))) but no more than 20, this
    takes the pairwise squared error of ``debiased.squared_error`` in units of its null
    standard deviation; the statistic is the largest over b. Its p-value comes from
    outcomes drawn from the scores, so the level is exact; the paper splits the level
    over the b instead. Certain scores alone leave no spread: 0 where all are right,
    else infinite, with p-value 0.

    Reference: Lee, Huang, Hassani, Dobriban (2023), JMLR 24(335), section 4.
    """
    n = len(scores)
    levels = 1
    if n > 2:
        finest = int(2.0 * math.log2(n / math.sqrt(math.log(n))))
        levels = max(1, min(20, finest))
    order = np.argsort(scores, kind="stable")
    c = scores[order]
    y = outcomes[order]
    variance = c * (1.0 - c)
    cuts = []
    for b in range(1, levels + 1):
        cut = _Cut.of(c, variance, 2.0**b)
        if cut.sd > 0.0:
            cuts.append(cut)
    if not cuts:
        if vanishes(float(np.abs(y - c).max())):
            return 0.0, 1.0, levels
        return math.inf, 0.0, levels

    def largest(residuals: FloatArray) -> FloatArray:
        squares = residuals * residuals
        statistics = [cut.statistics(residuals, squares) for cut in cuts]
        return np.max(statistics, axis=0)

    observed = float(largest((y - c)[None])[0])
    reached = sum(reaching(largest(drawn - c), observed) for _, drawn in draws)
    return observed, (1 + reached) / (1 + resamples), levels
