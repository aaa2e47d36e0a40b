"""Test of a paired difference of mean losses.

It keeps its level where few rows carry the difference. A t test of paired losses
estimates the variance from the rows. Where most of it comes from rare errors, few or
none of which are in the sample, the estimate is too small and the test rejects nearly
always. Here variance and skewness come from the observed losses and from the two sets
of probabilities together.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calcli.numerics import FloatArray, row_weights
from calcli.records import Sums
from calcli.solvers import halved

SHRINK = 10.0
"""Weight of the probabilities' second moment, in rows; the observed one has
``carrying``.
"""

CONTINUITY = 0.75
"""Continuity correction in jumps: the usual one half is too little near certainty."""

FARTHEST = 2.0**6
"""Largest distance of an interval's end from the mean, in units of its scale."""

SMALL_JUMP = 0.002
"""Jump over standard deviation below which a normal approximation is used."""

_R = np.arange(1, 5)[:, None]
_J = np.arange(5)
# binomial coefficients of _R over _J
_COMBINATIONS = np.array(
    [[1, 1, 0, 0, 0], [1, 2, 1, 0, 0], [1, 3, 3, 1, 0], [1, 4, 6, 4, 1]],
    dtype=np.float64,
)


class Tails(NamedTuple):
    """One-sided p-values of a difference.

    ``low`` is small where it is below the null's, ``high`` where above.
    """

    low: float
    high: float

    @property
    def both(self) -> float:
        return min(1.0, 2.0 * min(self.low, self.high))


@dataclass(frozen=True)
class PairedSums(Sums):
    """Sums over rows of powers of d, the loss of the first minus that of the second;
    they add.

    observed : (4, 5), at [r - 1, j] the sum of w^r d^j at the labels, w the weight of
    the row (1 without weights), so that rows of weight 0 do not count. expected : (2,
    4, 5), as observed, with the expectation of d^j if the label were drawn from the
    first's or the second's probabilities; None where these are not known.
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
        return cls(row_weights(weight, len(d)) ** _R @ d[:, None] ** _J, expected)

    @property
    def mean(self) -> float:
        return float(self.observed[0, 1] / self.observed[0, 0])

    @property
    def signs(self) -> tuple[int, int] | None:
        """Counts of 1 and of -1 among differences that are -1, 0 or 1.

        None for weighted rows.
        """
        # Effective weights sum to the sum of their squares; those of 1 to all powers.
        if self.observed[0, 0] != self.observed[2, 0]:
            return None
        _, sign, square = self.observed[0, :3]
        return round((square + sign) / 2.0), round((square - sign) / 2.0)

    def student(self) -> tuple[float, float, float]:
        """Compute the mean, its standard error and the effective number of rows.

        With weights they are by linearisation of the ratio.
        """
        total = float(self.observed[0, 0])
        n = float(self.observed[0, 0] ** 2 / self.observed[1, 0])
        spread = float(_about(self.observed, self.mean)[1]) / total**2
        se = math.nan
        if n > 1.0:
            se = math.sqrt(max(spread, 0.0) * n / (n - 1.0))
        return self.mean, se, n

    def tails(self, delta: float = 0.0) -> Tails:
        """Compute the p-values of the null "the mean difference is delta".

        They are by a Poisson distribution shifted to mean 0. The null is the mixture of
        the two sets of probabilities under which the difference is delta (the nearer of
        the two where there is none). Variance and third moment combine both sources,
        the observed one as it would be at the null. For the NLL the difference is a
        log-likelihood ratio, so no test that holds at such nulls has more power against
        the two models themselves (Neyman, Pearson 1933).
        """
        if self.expected is None:
            return Tails(1.0, 1.0)
        if not self.observed[1, 2] + self.expected[0, 1, 2] > 0.0:
            return Tails(1.0, 1.0)
        d = float(self.observed[0, 1] - delta * self.observed[0, 0])
        # Take moments about delta, or about the farther of 0 and its mirror image at the
        # mean where delta is beyond: a distant null does not inflate its own variance.
        mirror = 2.0 * self.mean
        centre = min(max(delta, min(0.0, mirror)), max(0.0, mirror))
        first, second = self.expected
        s = _about(self.observed, centre)
        a = _about(first, centre)
        b = _about(second, centre)
        gap = _about(second - first, centre)
        # Mix the two so that the difference is delta.
        t = 0.5
        slope = 0.0
        if gap[0] > 0.0:
            t = float((delta * first[0, 0] - first[0, 1]) / gap[0])
            slope = gap[1] / gap[0]
        t = min(max(t, 0.0), 1.0)
        _, v, m3, m4 = (1.0 - t) * a + t * b
        # Combine the moments of the mixture with the observed ones.
        jump = (m3 + s[2]) / (v + s[1])
        carrying = (s[1] + v) ** 2 / (s[3] + m4)
        moved = _second_moment_at_null(d, s[1], v, slope, jump)
        variance = max(moved, (carrying * moved + SHRINK * v) / (carrying + SHRINK))
        low, high = _poisson_tails(d, variance, jump)
        # A difference above the null is no evidence of one below, whatever the steps of
        # the distribution.
        if d >= 0.0:
            low = max(low, 0.5)
        if d <= 0.0:
            high = max(high, 0.5)
        return Tails(low, high)

    def ends(self, level: float) -> tuple[float | None, float | None]:
        """Compute the ends of the confidence interval, by inverting ``tails``.

        None for an end that is too far away. Both are the mean where no row differs and
        neither set of probabilities has a label for which the losses would.
        """
        if self.expected is None:
            return None, None
        by_label = self.expected[:, 1, 2]
        square = max(float(self.observed[1, 2]), float(by_label.min()))
        if not square > 0.0:
            return (None, None) if by_label.max() > 0.0 else (self.mean, self.mean)
        step = math.sqrt(square) / float(self.observed[0, 0])
        alpha = (1.0 - level) / 2.0
        below = _last(lambda reach: self.tails(self.mean - reach).high > alpha, step)
        above = _last(lambda reach: self.tails(self.mean + reach).low > alpha, step)
        low = None if below is None else self.mean - below
        high = None if above is None else self.mean + above
        return low, high


def fair_signs(sums: PairedSums) -> float:
    """Test "as often better as worse" by McNemar's mid-p test, two-sided.

    sums : of differences that are -1, 0 or 1. Given the rows that differ, each is
    better with probability one half; weighted rows count by their effective number. The
    level stays at the nominal one where the exact test's is far below (Fagerland,
    Lydersen, Laake 2013).
    """
    differ = float(sums.observed[0, 2])
    square = float(sums.observed[1, 2])
    if not square > 0.0:
        return 1.0
    from scipy.special import betainc

    m = differ**2 / square
    rarer = m * (1.0 - abs(float(sums.observed[0, 1])) / differ) / 2.0
    if not m - rarer > 0.0:
        return 1.0
    below = float(betainc(m - rarer + 1.0, rarer, 0.5)) if rarer > 0.0 else 0.0
    at_most = float(betainc(m - rarer, rarer + 1.0, 0.5))
    return min(1.0, at_most + below)


def share_ends(sums: PairedSums, z: float) -> tuple[float, float]:
    """Compute the score interval of a difference of paired shares.

    z : normal quantile of its level. sums : of differences that are -1, 0 or 1;
    weighted rows count by their effective number.

    Reference: Tango (1998), section 3.
    """
    total = float(sums.observed[0, 0])
    n = total**2 / float(sums.observed[1, 0])
    better = float(sums.observed[0, 2] + sums.observed[0, 1]) / total / 2.0
    worse = float(sums.observed[0, 2] - sums.observed[0, 1]) / total / 2.0
    mean = better - worse

    def is_inside(delta: float) -> bool:
        if not abs(delta) < 1.0:
            return False
        linear = (2.0 + worse - better) * delta - better - worse
        constant = -worse * delta * (1.0 - delta)
        q = (math.sqrt(max(linear**2 - 8.0 * constant, 0.0)) - linear) / 4.0
        spread = max(2.0 * q + delta * (1.0 - delta), 0.0) / n
        return not (better - worse - delta) ** 2 > z * z * spread

    def end(side: float) -> float:
        reach = _last(lambda reach: is_inside(mean + side * reach), 0.5 / n)
        return mean + side * (reach or 0.0)

    return end(-1.0), end(1.0)


def _last(holds: Callable[[float], bool], step: float) -> float | None:
    """Find the largest value up to which a condition that holds at 0 still holds.

    None beyond ``FARTHEST`` steps, which are positive.
    """
    if not step > 0.0:
        raise ValueError(f"a step of {step:g} leads nowhere")
    inside = 0.0
    outside = step
    while holds(outside):
        inside = outside
        outside = 2.0 * outside
        if outside > FARTHEST * step:
            return None
    return halved(holds, inside, outside, halvings=50)[1]


def expected_powers(
    by_label: FloatArray,
    first: FloatArray,
    second: FloatArray,
    weight: FloatArray | None = None,
) -> FloatArray:
    """Compute ``PairedSums.expected``.

    by_label : (n, m) the difference for every label. first, second : (n, m)
    probabilities.
    """
    n = len(by_label)
    square = by_label**2
    powers = [by_label, square, by_label * square, square**2]
    weights = row_weights(weight, n) ** _R
    sums = []
    for p in (first, second):
        moments = [np.ones(n)]
        for power in powers:
            moments.append(np.einsum("ij,ij->i", p, power))
        sums.append(weights @ np.stack(moments, axis=1))
    return np.stack(sums)


def _about(sums: FloatArray, delta: float) -> FloatArray:
    """Sum (w (d - delta))^r, r = 1..4, (4,)."""
    powers = (-delta) ** np.maximum(_R - _J, 0)
    return (sums * _COMBINATIONS * powers).sum(axis=1)


def _second_moment_at_null(
    d: float, square: float, v: float, slope: float, jump: float
) -> float:
    """Adjust the observed sum of squares to what it would be under the null.

    There the sum of differences d equals its expectation.
    """
    if d * jump < 0.0:  # fewer of the rare large differences than the null has
        return square + abs(d) * max(abs(slope), abs(jump))
    if slope * d > 0.0:
        return square * v / (v + slope * d)
    return square - slope * d


def _poisson_tails(d: float, variance: float, jump: float) -> tuple[float, float]:
    """Compute P(D <= d) and P(D >= d), corrected for steps.

    D / jump is Poisson about its mean, and D has this variance.
    """
    sd = math.sqrt(variance)
    if abs(jump) < SMALL_JUMP * sd:
        z = d / sd / math.sqrt(2.0)
        return 0.5 * math.erfc(-z), 0.5 * math.erfc(z)
    from scipy.special import gammainc, gammaincc

    mean = variance / jump**2
    x = mean + d / jump
    at_most = x + CONTINUITY
    at_least = x + 1.0 - CONTINUITY
    below = float(gammaincc(at_most, mean)) if at_most > 0.0 else 0.0
    above = float(gammainc(at_least, mean)) if at_least > 0.0 else 1.0
    return (below, above) if jump > 0.0 else (above, below)
