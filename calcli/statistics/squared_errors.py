"""Squared calibration errors of binned scores without their sampling bias."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.binning import BinStats, bin_index, binned_error
from calcli.numerics import AnyArray, FloatArray, IntArray, ratio
from calcli.statistics.intervals import Interval, normal_quantile
from calcli.statistics.units import Units, numbered


def plugin_square(bins: BinStats) -> FloatArray:
    """Squared L2 calibration error of binned scores: sum_b share_b gap_b^2, biased
    upwards.
    """
    return (bins.share * bins.gaps**2).sum(axis=-1)


def signed_square(bins: BinStats) -> FloatArray:
    """Squared L2 calibration error without its sampling bias; may be negative.

    sum_b share_b [ (s_b - y_b)^2 - y_b (1 - y_b) / (n_b - 1) ], s_b and y_b the bin's
    mean score and outcome, n_b its number of rows (with weights the effective one);
    bins with fewer than two rows contribute nothing. A negative value means: not
    distinguishable from 0.

    Reference: Kumar, Liang, Ma (2019), definition 5.1; Broecker (2012).
    """
    shape = bins.outcome.shape
    n = bins.effective
    enough = np.broadcast_to((bins.count >= 2) & (n > 1.0), shape)
    rate = np.divide(bins.outcome, bins.weight, out=np.zeros(shape), where=enough)
    noise = np.divide(rate * (1.0 - rate), n - 1.0, out=np.zeros(shape), where=enough)
    return (bins.share * np.where(enough, bins.gaps**2 - noise, 0.0)).sum(axis=-1)


def signed_root(square: float) -> float:
    """Square root of the positive part."""
    return math.sqrt(max(square, 0.0))


def debiased_error(
    bins: BinStats, norm: float, resamples: int, rng: np.random.Generator
) -> float:
    """Debiased binned error of any norm: twice the plugin minus the mean of noisier
    copies. The copies draw every bin's rate from N(y_b, y_b (1 - y_b) / n_b). For norm
    2 prefer ``signed_square``, which is exact. Reference: Kumar, Liang, Ma (2019),
    section 5 and their released code.
    """
    rate = ratio(bins.outcome, bins.weight)
    sd = np.sqrt(ratio(rate * (1 - rate), bins.effective))
    noisy = (rate + sd * rng.standard_normal((resamples, len(rate)))) * bins.weight
    return 2.0 * float(binned_error(bins, norm)) - float(
        binned_error(bins.with_outcomes(noisy), norm).mean()
    )


@dataclass(frozen=True)
class SquaredError:
    """Squared L2 error by pairs of rows, with what its interval and test need.

    value : unbiased for the binned squared error. se : standard error away from 0.
    null_sd : standard deviation under calibration. lone : proportion of rows that are
    alone in their bin, whose error is unknown.
    """

    value: float
    se: float
    null_sd: float
    lone: float

    @classmethod
    def of_sums(cls, parts: Iterable[Sequence[FloatArray]]) -> "SquaredError":
        """Error from sums over bins (bins,), some bins at a time: rows, u = y - score,
        u^2 and score (1 - score).
        """
        sums = np.zeros(6)
        for count, total, square, variance in parts:
            pairs = count >= 2
            c = count[pairs]
            s = total[pairs]
            q = square[pairs]
            v = variance[pairs]
            mean = s / c
            second = q / c
            squares = (s * s - q) / (c - 1.0)
            powers = c * (4.0 * mean**2 * second - 3.0 * mean**4)
            under = 2.0 * v**2 / (c * (c - 1.0))
            alone = count == 1
            sums += (
                count.sum(),
                squares.sum(),
                powers.sum(),
                (c * mean**2).sum(),
                under.sum(),
                alone.sum(),
            )
        n, gaps, fourth, second_of_means, null, lone = sums.tolist()
        spread = float(fourth / n - (second_of_means / n) ** 2)
        return cls(
            gaps / n, math.sqrt(max(spread, 0.0) / n), math.sqrt(null) / n, lone / n
        )

    def interval(self, level: float) -> Interval:
        """Interval of the squared error (Sun et al. 2024), never below 0.

        Away from 0 it is value +- z se. Near 0 the lower end falls to 0 faster than the
        two-sided rule would, where the estimator is no longer normal.
        """
        two = normal_quantile(0.5 + level / 2.0)
        one = normal_quantile(level)
        value = max(self.value, 0.0)
        if value >= 2.0 * two * self.se:
            low = value - two * self.se
        elif value >= 2.0 * one * self.se:
            low = value / 2.0
        else:
            low = value - one * self.se
        # Where calibration is not rejected, 0 belongs to the interval; the spread of the
        # null keeps the upper end open when the standard error itself vanishes.
        if self.value <= one * self.null_sd:
            low = 0.0
        high = (
            max(value + two * self.se, self.value + two * self.null_sd, 0.0) + self.lone
        )
        return Interval(max(low, 0.0), min(high, 1.0), level, "sun2024")


def squared_error(
    scores: FloatArray, outcomes: FloatArray, edges: FloatArray
) -> SquaredError:
    """Squared L2 error by pairs of rows within bins, with its two standard deviations.

    T = (1/N) sum_b [ (sum U)^2 - sum U^2 ] / (n_b - 1), U = y - score. With bin means
    u, second moments m and shares w, the variance away from 0 is sum w (4 u^2 m - 3
    u^4) - (sum w u^2)^2 over N; under calibration it is sum_b 2 V_b^2 / (n_b (n_b - 1))
    over N^2, V_b = sum score (1 - score).

    scores, outcomes : (n,). Reference: Sun, Chaudhari, Barnett, Dobriban (2024),
    arXiv 2408.08998; Lee, Huang, Hassani, Dobriban (2023) for the null.
    """
    b = len(edges) - 1
    index = bin_index(scores, edges)
    u = outcomes - scores
    count = np.bincount(index, minlength=b).astype(np.float64)

    def sums(values: FloatArray) -> FloatArray:
        return np.bincount(index, values, b).astype(np.float64)

    variance = sums(scores * (1.0 - scores))
    return SquaredError.of_sums([(count, sums(u), sums(u * u), variance)])


@dataclass(frozen=True)
class UnitPairs:
    """Squared L2 error of binned rows by pairs of rows of different units.

    T = sum_b (W_b / W) [(sum r)^2 - sum_g (sum of r in g and b)^2] / (W_b^2 - sum_g
    W_gb^2), with r = w (y - score) and W the sums of weights: what rows of a unit have
    in common does not count as error. Bins of one unit contribute nothing. cell : (n,)
    its (unit, bin) pair; bin_of : (cells,) its bin; share : (bins,) W_b / W over the
    last term.
    """

    cell: IntArray
    bin_of: IntArray
    share: FloatArray

    @classmethod
    def of(
        cls, index: IntArray, bins: int, units: Units, weight: FloatArray | None = None
    ) -> "UnitPairs":
        """Pairs of rows with bins ``index`` (n,)."""
        pair, cell = numbered(index * units.n + units.code)
        bin_of = pair // units.n
        mass = np.bincount(cell, weights=weight, minlength=len(bin_of)).astype(
            np.float64
        )
        whole = np.bincount(bin_of, weights=mass, minlength=bins)
        pairs = whole**2 - np.bincount(bin_of, weights=mass**2, minlength=bins)
        share = np.divide(
            whole / mass.sum(), pairs, out=np.zeros(bins), where=pairs > 1e-9 * whole**2
        )
        return cls(cell, bin_of, share)

    @property
    def has_any(self) -> bool:
        """True if a bin holds rows of two units."""
        return bool(self.share.any())

    def square(self, residual: FloatArray) -> float:
        """Squared error from residuals w (y - score), (n,); may be negative."""
        return self.of_sums(
            np.bincount(self.cell, weights=residual, minlength=len(self.bin_of))
        )

    def of_sums(self, sums: AnyArray) -> float:
        """Squared error from sums of residuals by cell, (cells,); may be negative."""
        bins = len(self.share)
        whole = np.bincount(self.bin_of, weights=sums, minlength=bins)
        of_units = np.bincount(self.bin_of, weights=sums**2, minlength=bins)
        return float((whole**2 - of_units) @ self.share)
