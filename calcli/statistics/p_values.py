"""P-values of sums of outcomes, whose level is known, and p-values as text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, row_weights
from calcli.statistics.intervals import normal_p_value, t_p_value
from calcli.statistics.nulls import EXACT_ROWS, poisson_binomial, reaching
from calcli.statistics.shared_luck import SharedLuck
from calcli.statistics.units import Units
from calcli.statistics.weighted_sums import (
    FEW_JUMPS,
    JumpSums,
    expected_jumps,
    jump_p_value,
)

FEW_OUTCOMES = 10.0  # variance of a count below which its law is not taken as normal


def vanishes(gap: float) -> bool:
    """Test whether a statistic without spread under calibration is 0, up to rounding.

    Certain scores that are all correct are calibrated; certain and wrong is impossible
    (p-value 0).
    """
    return abs(gap) <= 1e-12


@dataclass(frozen=True)
class MeanGap:
    """A mean gap with z = gap / sd, of its standard deviation under calibration.

    known_p_value : the p-value, where it is not that of z as a normal variable. draws :
    number of draws that it comes from, 0 where a formula gives it.
    """

    gap: float
    z: float
    known_p_value: float | None = None
    draws: int = 0

    @classmethod
    def of(cls, gap: float, sd: float) -> "MeanGap":
        """Make a mean gap with its z, from its standard deviation."""
        if sd > 0.0:
            return cls(gap, gap / sd)
        if vanishes(gap):
            return cls(gap, 0.0)
        return cls(gap, math.copysign(math.inf, gap))

    def in_units(self, effect: float, draws: FloatArray) -> "MeanGap":
        """Return the gap with z and p-value for rows in units.

        effect : their design effect. draws : (r,) of the gap under calibration.
        """
        wider = MeanGap(self.gap, self.z / math.sqrt(effect))
        return wider.with_draws(draws)

    @property
    def resamples(self) -> dict[str, int]:
        """The draws behind the p-value, as JSON has them.

        Empty where a formula gives it.
        """
        return {"resamples": self.draws} if self.draws else {}

    @property
    def p_value(self) -> float:
        """Two-sided p-value."""
        if self.known_p_value is None:
            return normal_p_value(self.z)
        return self.known_p_value

    def with_draws(self, draws: FloatArray) -> "MeanGap":
        """Return the gap with its p-value from draws (r,) under calibration."""
        p_value = (1 + reaching(np.abs(draws), abs(self.gap))) / (1 + len(draws))
        return MeanGap(self.gap, self.z, p_value, len(draws))


def average_gap(
    gap: FloatArray, variance: FloatArray, weight: FloatArray | None
) -> MeanGap:
    """Average gaps of rows (n,) that have these variances under calibration."""
    w = row_weights(weight, len(gap))
    total = float(w.sum())
    sd = math.sqrt(float(w**2 @ variance)) / total
    return MeanGap.of(float(w @ gap) / total, sd)


def luck_p_value(
    luck: SharedLuck,
    scores: FloatArray,
    outcomes: FloatArray,
    weight: FloatArray | None = None,
) -> float:
    """Compute the two-sided p-value of the sum of outcomes (n,) of rows in units.

    ``scores`` (n,) are their probabilities. The law is Student's with a degree of
    freedom fewer than units. Where few outcomes are expected for their variance, it is
    Poisson's of the rarer outcome in steps of as many rows as the variance grows by, or
    of weighted rows Skellam's in such steps. So too in one unit, which has no degree of
    freedom.
    """
    w = row_weights(weight, len(scores))
    expected = float(w @ scores)
    observed = float(w @ outcomes)
    if not luck.variance > 0.0:
        return float(vanishes(expected - observed))
    has_freedom = luck.units > 1
    t = (expected - observed) / math.sqrt(luck.variance)
    if weight is not None:
        jumps = JumpSums.of(scores, weight)
        many = expected_jumps(jumps) / luck.effect >= FEW_JUMPS
        if many and has_freedom:
            return t_p_value(t, luck.units - 1.0)
        return jump_p_value(observed - expected, jumps, luck.effect)
    if luck.independent_variance >= 10.0 * luck.effect and has_freedom:
        return t_p_value(t, luck.units - 1.0)
    n = len(scores)
    mean, count = min((expected, observed), (n - expected, n - observed))
    return _poisson_steps_p_value(mean / luck.effect, count / luck.effect)


def _poisson_steps_p_value(mean: float, count: float) -> float:
    """Compute the two-sided p-value of a count of steps, which may be no whole number."""
    from scipy.special import gammainc, gammaincc

    at_most = float(gammaincc(count + 1.0, mean))
    at_least = float(gammainc(count, mean)) if count > 0.0 else 1.0
    return min(1.0, 2.0 * min(at_least, at_most))


def sum_p_value(
    scores: FloatArray,
    outcomes: FloatArray,
    weight: FloatArray | None = None,
    units: Units | None = None,
) -> float:
    """Compute the two-sided p-value of the sum of outcomes (n,).

    ``scores`` (n,) are their probabilities. It is by the normal law of the sum, or
    where its variance is below 10 by its exact law; with weights by Skellam's law where
    few rows carry the sum (``jump_p_value``); for rows in units by ``luck_p_value``.
    """
    if units is not None:
        luck = SharedLuck.of(scores, outcomes, units, weight, both=True)
        return luck_p_value(luck, scores, outcomes, weight)
    if weight is not None:
        deviation = float(weight @ (outcomes - scores))
        return jump_p_value(deviation, JumpSums.of(scores, weight))
    variance = scores * (1.0 - scores)
    total = float(variance.sum())
    if total == 0.0 or total >= FEW_OUTCOMES:
        return average_gap(scores - outcomes, variance, weight).p_value
    count = round(float(outcomes.sum()))
    if len(scores) > EXACT_ROWS:
        return rarer_p_value(float(scores.sum()), count, len(scores))
    return exact_p_value(scores, count)


def rarer_p_value(mean: float, count: int, n: int) -> float:
    """Compute the two-sided p-value of a count of n outcomes.

    It is by Poisson's law of the rarer outcome, which is wider.
    """
    rarer_mean, rarer_count = min((mean, count), (n - mean, n - count))
    return poisson_p_value(round(rarer_count), rarer_mean)


def exact_p_value(scores: FloatArray, count: int) -> float:
    """Compute the two-sided p-value of ``count`` successes by their exact law.

    scores : (n,) chances of the trials.
    """
    law = poisson_binomial(scores)
    at_most = float(law[: count + 1].sum())
    at_least = float(law[count:].sum())
    return min(1.0, 2.0 * min(at_most, at_least))


def p_text(p: float, draws: float = 0) -> str:
    """Write a p-value, ``p = 0.61``.

    It is ``p < 0.001`` below a thousandth, or the least that the draws can give.
    """
    cell = p_cell(p, draws)
    if cell.startswith("<"):
        return f"p {cell}"
    if p >= 0.0995:
        return f"p = {p:.2f}"
    return f"p = {cell}"


def p_cell(p: float, draws: float = 0) -> str:
    """Write a p-value for the column of a table: ``0.613``, ``< 0.001``."""
    least = 1.0 / (1 + draws) if draws else 0.0
    if p < 0.001 or p <= least * (1.0 + 1e-9):
        thousandths = max(math.ceil(1000 * least - 1e-9), 1)
        return f"< {thousandths / 1000:.3f}"
    return f"{p:.3f}"


def spiegelhalter(
    scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None
) -> MeanGap:
    """Compute Spiegelhalter's z.

    It holds the Brier score of the scores against its expectation under calibration:
    z = sum (y - c)(1 - 2c) / sqrt(sum (1 - 2c)^2 c (1 - c)).

    Reference: Spiegelhalter (1986).
    """
    slope = 1.0 - 2.0 * scores
    gap = (outcomes - scores) * slope
    return average_gap(gap, slope**2 * scores * (1.0 - scores), weight)


def poisson_p_value(count: int, mean: float) -> float:
    """Compute the two-sided p-value of a count under Poisson's law."""
    if mean <= 0.0:
        return 1.0 if count == 0 else 0.0
    at_most = math.fsum(_poisson_chance(j, mean) for j in range(count + 1))
    if at_most <= 0.5:
        return 2.0 * at_most
    # Sum the upper tail itself: 1 minus the lower loses it to rounding where it is
    # small.
    upper = [_poisson_chance(count, mean)]
    while upper[-1] > 1e-17 * upper[0]:
        upper.append(upper[-1] * mean / (count + len(upper)))
    return min(1.0, 2.0 * min(at_most, math.fsum(upper)))


def _poisson_chance(count: int, mean: float) -> float:
    return math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))


def adjusted(p_values: FloatArray) -> FloatArray:
    """Adjust p-values for all m tests, min over j >= i of m p_(j) / j, (m,).

    Those at most a level are rejected at this false discovery rate (Benjamini, Hochberg
    1995); the least of them is that of all hypotheses together (Simes 1986).
    """
    order = np.argsort(p_values, kind="stable")[::-1]
    m = len(p_values)
    scaled = m * p_values[order] / np.arange(m, 0, -1)
    result = np.empty(m)
    result[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return result


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values, which control the family-wise error (Holm 1979)."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    steps = np.minimum(np.arange(len(p), 0, -1) * p[order], 1.0)
    return list(np.maximum.accumulate(steps)[np.argsort(order)].tolist())
