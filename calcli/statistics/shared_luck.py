"""Shared luck: how much the outcomes of the rows of a unit depend on each other."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, IntArray, row_weights
from calcli.statistics.units import Units

FEW_WRONG = 12.0
"""Expected units with a wrong row below which their spread cannot be estimated."""

FEWEST_UNITS = 8  # units below which calibration is not judged


def wrong_units(score: FloatArray, units: Units, both: bool = False) -> float:
    """Compute the expected number of units with a row whose outcome is 0.

    It is sum_g (1 - prod c), as if rows were independent. score : (n,) probabilities c
    of outcome 1. both : take the smaller of this for c and for 1 - c, as for P(class
    1).
    """
    ordered = score[units.order]

    def expected(chance: FloatArray) -> float:
        none_wrong = np.multiply.reduceat(chance, units.starts)
        return float((1.0 - none_wrong).sum())

    if both:
        return min(expected(ordered), expected(1.0 - ordered))
    return expected(ordered)


def _observed_units(outcome: FloatArray, units: Units, both: bool) -> int:
    """Count the units with a row whose outcome is 0; arguments as ``wrong_units``."""

    def observed(rows: NDArray[np.bool_]) -> int:
        in_unit = np.bincount(units.code[rows], minlength=units.n)
        return int(np.count_nonzero(in_unit))

    if both:
        return min(observed(outcome < 0.5), observed(outcome > 0.5))
    return observed(outcome < 0.5)


@dataclass(frozen=True)
class SharedLuck:
    """Dependence of outcomes within units, and the variance of their sum.

    Outcomes are y_i = 1[V_i < c_i], where V_i is the unit's uniform number with
    probability a, else the row's own. Then P(y_i = 1) = c_i exactly and
    cov(y_i, y_j) = a^2 (min(c_i, c_j) - c_i c_j). So a^2 is estimated by the sum of
    products of residuals of pairs within units over its expectation if all luck were
    shared.

    estimate : a^2, 0 to 1. expected_wrong : expected number of units with a row of the
    rarer outcome. observed_wrong : number of such units here. share : a^2 as used, the
    estimate times ``fewer_than_expected``, or 1 where too few units are wrong. units :
    their number.
    independent_variance : of the sum of outcomes, weights squared, of independent rows.
    variance : the same with shared luck.
    """

    estimate: float
    expected_wrong: float
    observed_wrong: int
    share: float
    units: int
    independent_variance: float
    variance: float

    @classmethod
    def of(
        cls,
        score: FloatArray,
        outcome: FloatArray,
        units: Units,
        weight: FloatArray | None = None,
        both: bool = False,
    ) -> "SharedLuck":
        """Estimate from probabilities and outcomes (n,).

        both : treat both outcomes alike, as for P(class 1).
        """
        w = row_weights(weight, len(score))
        residual = w * (outcome - score)
        spread = w**2 * score * (1.0 - score)
        # Are there enough units with a wrong row to estimate from?
        wrong = wrong_units(score, units, both)
        observed = _observed_units(outcome, units, both)
        few_expected = wrong < FEW_WRONG and wrong < units.n / 2
        few_observed = observed < FEWEST_UNITS and observed < units.n / 2
        few = few_expected or few_observed
        # Hold the products of residuals of pairs against what shared luck makes them.
        together = float((units.sums(residual) ** 2).sum() - residual @ residual)
        pairs = 0.0
        if few or together > 0.0:
            pairs = pair_covariance(score, units, weight)
        estimate = 0.0
        if pairs > 0.0:
            estimate = min(1.0, max(0.0, together / pairs))
        share = 1.0
        if not few:
            share = min(1.0, estimate * fewer_than_expected(score, outcome, w))
        independent = float(spread.sum())
        return cls(
            estimate=estimate,
            expected_wrong=wrong,
            observed_wrong=observed,
            share=share,
            units=units.n,
            independent_variance=independent,
            variance=independent + share * pairs,
        )

    @property
    def few_wrong(self) -> float | None:
        """Units with a row of the rarer outcome, None where they tell their spread."""
        is_enough = self.expected_wrong >= FEW_WRONG
        if is_enough and self.observed_wrong >= FEWEST_UNITS:
            return None
        return min(self.expected_wrong, self.observed_wrong)

    @property
    def effect(self) -> float:
        """Design effect: variance of the sum over that of independent rows."""
        if self.independent_variance > 0.0:
            return self.variance / self.independent_variance
        return 1.0


def effects_of_bins(
    score: FloatArray,
    outcome: FloatArray,
    index: IntArray,
    bins: int,
    units: Units | None,
    weight: FloatArray | None,
) -> FloatArray:
    """Compute the design effect of the number of outcomes 1 in every bin, (bins,).

    It is at least 1.
    """
    effect = np.ones(bins)
    if units is None:
        return effect
    for b in np.unique(index).tolist():
        rows = index == b
        bin_units = units.take(rows)
        if bin_units is None:
            continue
        bin_weight = None if weight is None else weight[rows]
        effect[b] = SharedLuck.of(
            score[rows], outcome[rows], bin_units, bin_weight
        ).effect
    return effect


def pair_covariance(
    score: FloatArray, units: Units, weight: FloatArray | None
) -> float:
    """Sum w_i w_j (min(c_i, c_j) - c_i c_j) over the ordered pairs within units."""
    if weight is None:
        # Sort scores within units, by one sort of numbers whose integer part is the
        # unit.
        c = np.sort(units.code + score) - np.repeat(np.arange(units.n), units.count)
        w = np.ones(len(c))
        mass = score
    else:
        order = np.lexsort((score, units.code))
        c = score[order]
        w = weight[order]
        mass = weight * score
    # Weigh each row by the later rows in the unit: theirs is the larger score of the
    # pair.
    weight_to_row = np.cumsum(w)
    weight_to_end = weight_to_row[units.starts + units.count - 1]
    later = np.repeat(weight_to_end, units.count) - weight_to_row
    smaller = np.add.reduceat(c * w * later, units.starts)
    products = units.sums(mass) ** 2 - units.sums(mass**2)
    covariance = float((2.0 * smaller - products).sum())
    # Of scores near 0 and 1 that is a difference of like numbers. No covariance is below
    # 0 or above the root of both variances.
    spread = np.sqrt(score * (1.0 - score))
    if weight is not None:
        spread = weight * spread
    most = float((units.sums(spread) ** 2).sum() - spread @ spread)
    return max(0.0, min(covariance, most))


def fewer_than_expected(
    score: FloatArray, outcome: FloatArray, weight: FloatArray
) -> float:
    """Compare the variance of an outcome at the mean score and at the observed rate.

    Returns their ratio, at least 1. Shared luck shows in units with many wrong rows. A
    sample that lacks them by chance has both few wrong rows and little visible luck:
    with wrong rows in clusters, S^2 grows with their number. Without this correction,
    too few wrong rows were read as underconfidence in up to .27 of samples.
    """
    total = float(weight @ np.ones(len(score)))
    expected = float(weight @ score)
    observed = float(weight @ outcome)
    at_rate = max(observed * (total - observed), 1e-9 * total**2, 1e-300)
    return max(1.0, expected * (total - expected) / at_rate)


def opposed_luck(
    score: FloatArray,
    outcome: FloatArray,
    units: Units,
    weight: FloatArray | None = None,
) -> list[float]:
    """Estimate two kinds of luck of P(class 1) that rows of a unit share.

    They are that of being class 1, and that of being as predicted. The second moves
    rows above and below one half apart, so that it hardly affects their sum, but does
    affect a slope or a smooth error. With r the residuals, pairs on the same side have
    sum r r' = (a^2 + b^2) sum cov, those on opposite sides a^2 sum cov - b^2 sum cov',
    where cov is as of ``SharedLuck`` and cov' that of being as predicted. Returns a^2
    and b^2, which are such that a + b <= 1.
    """
    side = score >= 0.5
    turned = np.where(side, score, 1.0 - score)
    halves = Units.of(2 * units.code + side)  # rows of a unit on the same side
    w = row_weights(weight, len(score))
    # Sum the products of residuals of pairs on the same side, and on opposite sides.
    residual = w * (outcome - score)
    half_squares = (halves.sums(residual) ** 2).sum()
    same = float(half_squares - residual @ residual)
    opposite = float((units.sums(residual) ** 2).sum()) - float(half_squares)
    # Sum the covariances of the same pairs.
    cov_same = pair_covariance(score, halves, weight)
    cov_class = pair_covariance(score, units, weight) - cov_same
    cov_turned = pair_covariance(turned, units, weight) - cov_same
    if not cov_same > 0.0:
        return [0.0, 0.0]
    both = same / cov_same
    if not cov_class + cov_turned > 0.0:
        return [min(1.0, max(0.0, both)), 0.0]
    # Solve for the two, and correct each for the wrong rows that a sample lacks.
    of_class = (opposite + both * cov_turned) / (cov_class + cov_turned)
    of_prediction = both - max(of_class, 0.0)
    right = np.where(side, outcome, 1.0 - outcome)
    class_luck = max(0.0, min(of_class, both))
    class_luck *= fewer_than_expected(score, outcome, w)
    prediction_luck = max(0.0, of_prediction)
    prediction_luck *= fewer_than_expected(turned, right, w)
    total = max(1.0, math.sqrt(class_luck) + math.sqrt(prediction_luck))
    return [class_luck / total**2, prediction_luck / total**2]
