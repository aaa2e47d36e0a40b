"""Debiased squared calibration errors, and their interval."""

import math
from dataclasses import dataclass

import numpy as np

from calcli.binning import bin_index
from calcli.metrics.calibration import Bins, binned_error
from calcli.metrics.means import Interval, normal_quantile
from calcli.numerics import FloatArray

__all__ = [
    "SquaredError",
    "debiased_error",
    "plugin_square",
    "signed_root",
    "signed_square",
    "squared_error",
]


def plugin_square(bins: Bins) -> FloatArray:
    """Squared L2 calibration error of binned scores: sum_b share_b gap_b^2, biased upwards."""
    return np.asarray((bins.share * bins.gaps**2).sum(axis=-1))


def signed_square(bins: Bins) -> FloatArray:
    """Squared L2 calibration error without its sampling bias; may be negative.

    sum_b share_b [ (s_b - y_b)^2 - y_b (1 - y_b) / (n_b - 1) ], s_b and y_b the bin's mean
    score and outcome; bins with fewer than two rows contribute nothing. A negative value
    means: not distinguishable from 0.

    Reference: Kumar, Liang, Ma (2019), definition 5.1; Broecker (2012).
    """
    shape = bins.hits.shape
    enough = np.broadcast_to((bins.n >= 2) & (bins.mass > 0), shape)
    rate = np.divide(bins.hits, bins.mass, out=np.zeros(shape), where=enough)
    noise = np.divide(rate * (1.0 - rate), bins.n - 1.0, out=np.zeros(shape), where=enough)
    return np.asarray((bins.share * np.where(enough, bins.gaps**2 - noise, 0.0)).sum(axis=-1))


def signed_root(square: float) -> float:
    """Square root of what is left above 0."""
    return math.sqrt(max(square, 0.0))


def debiased_error(bins: Bins, norm: float, resamples: int, rng: np.random.Generator) -> float:
    """Debiased binned error of any norm: twice the plugin minus the mean of noisier copies.

    The copies draw every bin's rate from N(y_b, y_b (1 - y_b) / n_b). For norm 2 prefer
    ``signed_square``, which is exact. Reference: Kumar, Liang, Ma (2019), section 5 and
    their released code.
    """
    rate = np.divide(bins.hits, bins.mass, out=np.zeros(bins.hits.shape), where=bins.mass > 0)
    sd = np.sqrt(np.divide(rate * (1 - rate), bins.n, out=np.zeros(rate.shape), where=bins.n > 0))
    noisy = (rate + sd * rng.standard_normal((resamples, len(rate)))) * bins.mass
    return 2.0 * float(binned_error(bins, norm)) - float(binned_error(bins.with_hits(noisy), norm).mean())


@dataclass(frozen=True)
class SquaredError:
    """The squared L2 error by pairs of rows, and what its interval and test need.

    value : unbiased for the binned squared error. se : standard error away from 0.
    null_sd : standard deviation were the scores calibrated. lone : share of the rows that
    have their bin to themselves, about whose error nothing is known.
    """

    value: float
    se: float
    null_sd: float
    lone: float

    def interval(self, level: float) -> Interval:
        """Interval of the squared error (Sun et al. 2024), never below 0.

        Away from 0 it is value +- z se. Near 0 the lower end falls to 0 faster than the
        two-sided rule would, where the estimator is no longer normal.
        """
        two, one = normal_quantile(0.5 + level / 2.0), normal_quantile(level)
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
        high = max(value + two * self.se, self.value + two * self.null_sd, 0.0) + self.lone
        return Interval(max(low, 0.0), min(high, 1.0), level, "sun2024")

    @property
    def z(self) -> float:
        """Standard score under calibration; one-sided, large is bad."""
        return self.value / self.null_sd if self.null_sd > 0 else 0.0


def squared_error(scores: FloatArray, outcomes: FloatArray, edges: FloatArray) -> SquaredError:
    """Squared L2 error by pairs of rows within bins, with its two standard deviations.

    T = (1/N) sum_b [ (sum U)^2 - sum U^2 ] / (n_b - 1), U = y - score. With bin means u,
    second moments m and shares w, the variance away from 0 is
    sum w (4 u^2 m - 3 u^4) - (sum w u^2)^2 over N; under calibration it is
    sum_b 2 V_b^2 / (n_b (n_b - 1)) over N^2, V_b = sum score (1 - score).

    scores, outcomes : (n,). Reference: Sun, Chaudhari, Barnett, Dobriban (2024),
    arXiv 2408.08998; Lee, Huang, Hassani, Dobriban (2023) for the null.
    """
    n, b = len(scores), len(edges) - 1
    index = bin_index(scores, edges)
    u = outcomes - scores
    count = np.bincount(index, minlength=b).astype(np.float64)
    total = np.bincount(index, weights=u, minlength=b)
    square = np.bincount(index, weights=u * u, minlength=b)
    variance = np.bincount(index, weights=scores * (1.0 - scores), minlength=b)
    pairs = count >= 2
    c, s, q, v = count[pairs], total[pairs], square[pairs], variance[pairs]
    value = float(((s * s - q) / (c - 1.0)).sum()) / n
    mean, second, share = s / c, q / c, c / n
    spread = float((share * (4.0 * mean**2 * second - 3.0 * mean**4)).sum() - (share * mean**2).sum() ** 2)
    null = float((2.0 * v**2 / (c * (c - 1.0))).sum())
    lone = float((count == 1).sum()) / n
    return SquaredError(value, math.sqrt(max(spread, 0.0) / n), math.sqrt(null) / n, lone)
