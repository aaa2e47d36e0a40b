"""Test of a paired difference of mean losses that keeps its level where few rows carry the difference.

A t test of paired losses estimates the variance from the rows; where most of it comes from rare errors, few or
none of which are in the sample, the estimate is too small and the test rejects nearly always. Here variance and
skewness come from the observed losses and from the two sets of probabilities together.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calcli.numerics import FloatArray
from calcli.records import Sums

SHRINK = 10.0  # weight of the probabilities' second moment, in rows, beside the ``carrying`` rows of the observed
CONTINUITY = 0.75  # continuity correction in jumps: the usual one half is too little near certainty
FARTHEST = (
    2.0**6
)  # largest distance of an interval's end from the mean, in units of its scale
SMALL_JUMP = (
    0.002  # jump over standard deviation below which a normal approximation is used
)
_R, _J = np.arange(1, 5)[:, None], np.arange(5)
_COMBINATIONS = np.array(
    [[math.comb(r, j) for j in range(5)] for r in range(1, 5)], dtype=np.float64
)


class Tails(NamedTuple):
    """One-sided p-values: ``low`` is small where the difference is below the null's, ``high`` where above."""

    low: float
    high: float

    @property
    def both(self) -> float:
        return min(1.0, 2.0 * min(self.low, self.high))


@dataclass(frozen=True)
class PairedSums(Sums):
    """Sums over rows of powers of d, the loss of the first minus that of the second; they add.

    observed : (4, 5), at [r - 1, j] the sum of w^r d^j at the labels, w the weight of the row (1 without weights), so
    that rows of weight 0 do not count. expected : (2, 4, 5), as observed, with the expectation of d^j if the label
    were drawn from the first's or the second's probabilities; None where these are not known.
    """

    observed: FloatArray
    expected: FloatArray | None = None

    @classmethod
    def of(
        cls,
        d: FloatArray,
        weight: FloatArray | None = None,
        expected: FloatArray | None = None,
    ) -> "PairedSums":
        """Sum the powers of differences d (n,) at the labels."""
        return cls(_weights(len(d), weight) @ d[:, None] ** _J, expected)

    @property
    def mean(self) -> float:
        return float(self.observed[0, 1] / self.observed[0, 0])

    @property
    def signs(self) -> tuple[int, int] | None:
        """Counts of 1 and of -1 among differences that are -1, 0 or 1; None for weighted rows."""
        # Effective weights sum to the sum of their squares; those of 1 to all powers.
        weight, cube = self.observed[0, 0], self.observed[2, 0]
        if weight != cube:
            return None
        _, sign, square = self.observed[0, :3]
        return round((square + sign) / 2.0), round((square - sign) / 2.0)

    def student(self) -> tuple[float, float, float]:
        """Mean, its standard error and the effective number of rows; with weights by linearisation of the ratio."""
        total, n = (
            float(self.observed[0, 0]),
            float(self.observed[0, 0] ** 2 / self.observed[1, 0]),
        )
        spread = float(_about(self.observed, self.mean)[1]) / total**2
        return (
            self.mean,
            math.sqrt(max(spread, 0.0) * n / (n - 1.0)) if n > 1.0 else math.nan,
            n,
        )

    def tails(self, delta: float = 0.0) -> Tails:
        """P-values of the null "the mean difference is delta", by a Poisson distribution shifted to mean 0.

        The null is the mixture of the two sets of probabilities under which the difference is delta (the nearer
        of the two where there is none). Variance and third moment combine both sources, the observed one as it would
        be at the null. Moments are about delta, or about the farther of 0 and its mirror image at the mean where
        delta is beyond: a distant null does not inflate its own variance. For the
        NLL the difference is a log-likelihood ratio, so no test that holds at such nulls has more power against
        the two models themselves (Neyman, Pearson 1933).
        """
        if (
            self.expected is None
            or not self.observed[1, 2] + self.expected[0, 1, 2] > 0.0
        ):
            return Tails(1.0, 1.0)
        d = float(self.observed[0, 1] - delta * self.observed[0, 0])
        near = min(max(delta, min(0.0, 2.0 * self.mean)), max(0.0, 2.0 * self.mean))
        first, second = self.expected
        s, a, b, gap = (
            _about(x, near) for x in (self.observed, first, second, second - first)
        )
        t = float((delta * first[0, 0] - first[0, 1]) / gap[0]) if gap[0] > 0.0 else 0.5
        t = min(max(t, 0.0), 1.0)
        _, v, m3, m4 = (1.0 - t) * a + t * b
        slope = gap[1] / gap[0] if gap[0] > 0.0 else 0.0
        jump, carrying = (m3 + s[2]) / (v + s[1]), (s[1] + v) ** 2 / (s[3] + m4)
        moved = _second_moment_at_null(d, s[1], v, slope, jump)
        variance = max(moved, (carrying * moved + SHRINK * v) / (carrying + SHRINK))
        low, high = _poisson_tails(d, variance, jump)
        # A difference above the null is no evidence of one below, whatever the steps of the distribution.
        return Tails(
            max(low, 0.5) if d >= 0.0 else low, max(high, 0.5) if d <= 0.0 else high
        )

    def ends(self, level: float) -> tuple[float | None, float | None]:
        """Ends of the confidence interval, by inverting ``tails``; None for an end that is not found."""
        if self.expected is None:
            return None, None
        square = max(float(self.observed[1, 2]), float(self.expected[:, 1, 2].min()))
        step, beside = (
            math.sqrt(square) / float(self.observed[0, 0]),
            (1.0 - level) / 2.0,
        )
        low = _last(lambda reach: self.tails(self.mean - reach).high > beside, step)
        high = _last(lambda reach: self.tails(self.mean + reach).low > beside, step)
        return (
            None if low is None else self.mean - low,
            None if high is None else self.mean + high,
        )


def fair_signs(sums: PairedSums) -> float:
    """McNemar's mid-p test of "as often better as worse", two-sided, for differences that are -1, 0 or 1.

    Given the rows that differ, each is better with probability one half; weighted rows count by their effective
    number. Its level stays at the nominal one where the exact test's is far below (Fagerland, Lydersen, Laake 2013).
    """
    differ, square = float(sums.observed[0, 2]), float(sums.observed[1, 2])
    if not square > 0.0:
        return 1.0
    from scipy.special import betainc

    m = differ**2 / square
    few = m * (1.0 - abs(float(sums.observed[0, 1])) / differ) / 2.0
    below = float(betainc(m - few + 1.0, few, 0.5)) if few > 0.0 else 0.0
    return (
        min(1.0, float(betainc(m - few, few + 1.0, 0.5)) + below)
        if m - few > 0.0
        else 1.0
    )


def share_ends(sums: PairedSums, z: float) -> tuple[float, float]:
    """Score interval of a difference of paired shares (Tango 1998, section 3). z : normal quantile of its level.

    sums : of differences that are -1, 0 or 1; weighted rows count by their effective number.
    """
    total = float(sums.observed[0, 0])
    n = total**2 / float(sums.observed[1, 0])
    better, worse = (
        float(sums.observed[0, 2] + side * sums.observed[0, 1]) / total / 2.0
        for side in (1.0, -1.0)
    )

    def beyond(delta: float) -> bool:
        linear, constant = (
            (2.0 + worse - better) * delta - better - worse,
            -worse * delta * (1.0 - delta),
        )
        q = (math.sqrt(max(linear**2 - 8.0 * constant, 0.0)) - linear) / 4.0
        spread = max(2.0 * q + delta * (1.0 - delta), 0.0) / n
        return (better - worse - delta) ** 2 > z * z * spread

    mean = better - worse

    def reach(side: float) -> float:
        inside = _last(
            lambda far: abs(mean + side * far) < 1.0 and not beyond(mean + side * far),
            0.5 / n,
        )
        return mean + side * (inside or 0.0)

    return reach(-1.0), reach(1.0)


def _last(holds: Callable[[float], bool], step: float) -> float | None:
    """Largest value up to which a condition that holds at 0 still holds, by bisection; None beyond ``FARTHEST``."""
    inside, outside = 0.0, step
    while holds(outside):
        inside, outside = outside, 2.0 * outside
        if outside > FARTHEST * step:
            return None
    for _ in range(50):
        middle = (inside + outside) / 2.0
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return outside


def expected_powers(
    by_label: FloatArray,
    first: FloatArray,
    second: FloatArray,
    weight: FloatArray | None = None,
) -> FloatArray:
    """``PairedSums.expected``. by_label : (n, m) the difference for every label; first, second : probabilities."""
    square = by_label**2
    powers, weights = (
        [by_label, square, by_label * square, square**2],
        _weights(len(by_label), weight),
    )
    ones = np.ones(len(by_label))
    each = [
        [ones, *(np.einsum("ij,ij->i", p, power) for power in powers)]
        for p in (first, second)
    ]
    return np.stack([weights @ np.stack(moments, axis=1) for moments in each])


def _weights(n: int, weight: FloatArray | None) -> FloatArray:
    return np.ones((4, n)) if weight is None else weight**_R


def _about(sums: FloatArray, delta: float) -> FloatArray:
    """Sums of (w (d - delta))^r, r = 1..4, (4,)."""
    return np.asarray(
        (sums * _COMBINATIONS * (-delta) ** np.maximum(_R - _J, 0)).sum(axis=1)
    )


def _second_moment_at_null(
    d: float, square: float, v: float, slope: float, jump: float
) -> float:
    """Observed sum of squares, adjusted to a sum of differences d equal to its expectation under the null."""
    if d * jump < 0.0:  # fewer of the rare large differences than the null has
        return square + abs(d) * max(abs(slope), abs(jump))
    return square * v / (v + slope * d) if slope * d > 0.0 else square - slope * d


def _poisson_tails(d: float, variance: float, jump: float) -> tuple[float, float]:
    """P(D <= d) and P(D >= d) where D / jump is Poisson about its mean with this variance, corrected for steps."""
    sd = math.sqrt(variance)
    if abs(jump) < SMALL_JUMP * sd:
        low, high = (
            0.5 * math.erfc(side * d / sd / math.sqrt(2.0)) for side in (-1.0, 1.0)
        )
        return low, high
    from scipy.special import gammainc, gammaincc

    mean = variance / jump**2
    x = mean + d / jump
    below = float(gammaincc(x + CONTINUITY, mean)) if x + CONTINUITY > 0.0 else 0.0
    above = (
        float(gammainc(x + 1.0 - CONTINUITY, mean))
        if x + 1.0 - CONTINUITY > 0.0
        else 1.0
    )
    return (below, above) if jump > 0.0 else (above, below)
