"""Logistic recalibration: calibration intercept and slope of P(class 1) of two classes.

The model is logit P(Y = 1) = intercept + slope * l, where l is the log-odds that the
scores give to class 1. A calibrated model has intercept 0 and slope 1. Two fits have
names of their own:

- calibration in the large: the intercept with the slope fixed at 1 (l is an offset);
- the calibration slope: the slope of both fitted together.

Rows come as counts of both outcomes at some log-odds, some at a time, so that they may
be more than memory holds. A probability of exactly 0 or 1 has infinite log-odds: where
it is right it is as likely at every slope above 0, and is left out; where it is wrong,
no intercept and no slope is finite.

Reference: Cox (1958), Biometrika 45, 562-565; Miller, Langefeld, Tierney, Hui,
McDonald (1993), Medical Decision Making 13, 49-58; Van Calster, McLernon, van Smeden,
Wynants, Steyerberg (2019), BMC Medicine 17, 230.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Annotated

import numpy as np

from calcli.numerics import (
    LOG_ZERO,
    BoolArray,
    FloatArray,
    IntArray,
    row_weights,
    sigmoid,
)
from calcli.records import Sums
from calcli.solvers import Slope, find_root, minimise_box
from calcli.statistics.sandwich import Sandwich, sandwich

CERTAIN = -LOG_ZERO  # log-odds from which a probability is one of exactly 0 or 1
# of log-odds, as a share of the largest, below which they are equal
LEAST_SPREAD = 1e-6
GRADIENT = 1e-14  # largest gradient at the optimum, per row of the rarer class
LEAST_INFORMATION = 1e-6  # about an intercept or standardised slope that tells anything
SMALLEST = 1e-300  # a weight that is not 0
INTERCEPT_GRADIENT = 1e-15  # of an intercept alone, whose last step is not Newton's
PROFILE_GRADIENT = 1e-8  # the same along a profile, whose height hardly depends on it
LONGEST_STEP = 8.0  # of a Newton step, in standard deviations of the log-odds
END_PRECISION = 1e-6  # of the ends of an interval, in standard errors


@dataclass(frozen=True)
class OutcomeCounts:
    """Outcomes at some log-odds, (b,) each.

    ones, zeros : total weight of the rows of class 1, and of class 0, at each log-odds.
    """

    log_odds: FloatArray
    ones: FloatArray
    zeros: FloatArray

    @classmethod
    def of_rows(
        cls, log_odds: FloatArray, outcome: FloatArray, weight: FloatArray | None = None
    ) -> "OutcomeCounts":
        """Count rows with log-odds and outcomes 0 or 1, (n,) each."""
        w = row_weights(weight, len(outcome))
        return cls(log_odds, w * outcome, w * (1.0 - outcome))

    def where(self, rows: BoolArray) -> "OutcomeCounts":
        """Counts at the log-odds of a mask (b,)."""
        return OutcomeCounts(self.log_odds[rows], self.ones[rows], self.zeros[rows])


Sample = Iterable[OutcomeCounts]
"""Counts of all rows, part by part; can be walked over again and again."""


@dataclass(frozen=True)
class Uncertain:
    """A sample without its probabilities of exactly 0 or 1."""

    sample: Sample

    def __iter__(self) -> Iterator[OutcomeCounts]:
        for part in self.sample:
            certain = np.abs(part.log_odds) >= CERTAIN
            yield part.where(~certain) if certain.any() else part


@dataclass(frozen=True)
class ClassRanges(Sums):
    """Weight and range of log-odds of the rows of each class, and the moments of all.

    left_out : weight of the rows with a probability of exactly 0 or 1, of which nothing
    else here knows. wrong : of those among them whose outcome is the other one.
    """

    ones: float
    zeros: float
    lowest_one: Annotated[float, min]
    highest_one: Annotated[float, max]
    lowest_zero: Annotated[float, min]
    highest_zero: Annotated[float, max]
    first_moment: float
    second_moment: float
    left_out: float
    wrong: float

    @classmethod
    def of(cls, sample: Sample) -> "ClassRanges":
        """Measure a sample."""
        return reduce(add, map(cls._of_part, sample))

    @classmethod
    def _of_part(cls, part: OutcomeCounts) -> "ClassRanges":
        certain = np.abs(part.log_odds) >= CERTAIN
        sure = part.where(certain)
        above = sure.log_odds > 0.0
        part = part.where(~certain)
        weight = part.ones + part.zeros
        of_ones = part.log_odds[part.ones > 0]
        of_zeros = part.log_odds[part.zeros > 0]
        return cls(
            ones=float(part.ones.sum()),
            zeros=float(part.zeros.sum()),
            lowest_one=float(of_ones.min(initial=math.inf)),
            highest_one=float(of_ones.max(initial=-math.inf)),
            lowest_zero=float(of_zeros.min(initial=math.inf)),
            highest_zero=float(of_zeros.max(initial=-math.inf)),
            first_moment=float(weight @ part.log_odds),
            second_moment=float(weight @ part.log_odds**2),
            left_out=float(sure.ones.sum() + sure.zeros.sum()),
            wrong=float(sure.zeros[above].sum() + sure.ones[~above].sum()),
        )

    @property
    def mean(self) -> float:
        """Mean of the log-odds."""
        return self.first_moment / max(self.ones + self.zeros, SMALLEST)

    @property
    def spread(self) -> float:
        """Standard deviation of the log-odds."""
        square = self.second_moment / max(self.ones + self.zeros, SMALLEST)
        return math.sqrt(max(square - self.mean**2, 0.0))

    @property
    def lowest(self) -> float:
        return min(self.lowest_one, self.lowest_zero)

    @property
    def highest(self) -> float:
        return max(self.highest_one, self.highest_zero)

    @property
    def rarer(self) -> float:
        """Weight of the rows of the rarer class."""
        return min(self.ones, self.zeros)

    @property
    def prior_log_odds(self) -> float:
        """Log-odds of class 1 among all rows."""
        return math.log(self.ones / self.zeros)

    @property
    def why_no_intercept(self) -> str | None:
        """Reason why no intercept is finite, None where there is one."""
        if self.wrong > 0.0:
            return (
                "some P(class 1) of exactly 0 or 1 are wrong: infinitely overconfident"
            )
        if self.rarer > 0.0:
            return None
        if self.ones == 0.0 and self.zeros == 0.0:
            return "P(class 1) is exactly 0 or 1 in all rows: they have no log-odds"
        only = "class 0" if self.ones == 0.0 else "class 1"
        if self.left_out > 0.0:
            return f"all labels are {only} where P(class 1) is not exactly 0 or 1"
        return f"all labels are {only}: rows of both classes are needed"

    @property
    def why_no_slope(self) -> str | None:
        """Reason why no slope is finite, None where there is one.

        The likelihood has a maximum exactly where the log-odds of the two classes
        overlap. Reference: Albert, Anderson (1984), Biometrika 71, 1-10.
        """
        if self.why_no_intercept is not None:
            return self.why_no_intercept
        if self.spread <= LEAST_SPREAD * max(abs(self.lowest), abs(self.highest), 1.0):
            return "P(class 1) is the same in all rows: they have no slope"
        separated = self.highest_zero <= self.lowest_one
        reversed_order = self.highest_one <= self.lowest_zero
        if separated or reversed_order:
            return "P(class 1) separates the classes perfectly: the slope is not finite"
        return None


@dataclass(frozen=True)
class Likelihood:
    """Log-likelihood at an intercept and a slope, its gradient (2,) and information."""

    value: float
    gradient: FloatArray
    information: FloatArray


def likelihood(sample: Sample, intercept: float, slope: float) -> Likelihood:
    """Log-likelihood of logit P(Y = 1) = intercept + slope * log-odds."""
    value = 0.0
    gradient = np.zeros(2)
    information = np.zeros((2, 2))
    for part in sample:
        log_odds = part.log_odds
        predictor = intercept + slope * log_odds
        decay = np.exp(-np.abs(predictor))
        probability = np.where(predictor >= 0.0, 1.0, decay) / (1.0 + decay)
        # -log(1 - p) and -log p without cancellation
        loss_of_zero = np.maximum(predictor, 0.0) + np.log1p(decay)
        loss_of_one = loss_of_zero - predictor
        weight = part.ones + part.zeros
        residual = part.ones - weight * probability
        variance = weight * decay / (1.0 + decay) ** 2
        value -= float(part.ones @ loss_of_one + part.zeros @ loss_of_zero)
        gradient += residual.sum(), residual @ log_odds
        cross = variance @ log_odds
        information += [
            [variance.sum(), cross],
            [cross, variance @ log_odds**2],
        ]
    return Likelihood(value, gradient, information)


@dataclass(frozen=True)
class Recalibration:
    """Intercept and slope of greatest likelihood, and what the likelihood is there."""

    intercept: float
    slope: float
    likelihood: Likelihood

    @property
    def covariance(self) -> FloatArray:
        """Inverse of the information, (2, 2)."""
        return np.asarray(np.linalg.inv(self.likelihood.information))

    def tells_intercept(self) -> bool:
        """Test whether the rows tell an intercept at this slope."""
        return bool(self.likelihood.information[0, 0] > LEAST_INFORMATION)

    def tells_slope(self, ranges: ClassRanges) -> bool:
        """Test whether the rows tell the slope. ranges : of these rows."""
        if not self.tells_intercept():
            return False
        information = self.likelihood.information
        # information about the slope that the intercept does not take
        of_slope = information[1, 1] - information[0, 1] ** 2 / information[0, 0]
        return bool(of_slope * ranges.spread**2 > LEAST_INFORMATION)


@dataclass(frozen=True)
class Standardised:
    """A sample whose log-odds have mean 0 and standard deviation 1."""

    sample: Sample
    mean: float
    spread: float

    def __iter__(self) -> Iterator[OutcomeCounts]:
        for part in self.sample:
            log_odds = (part.log_odds - self.mean) / self.spread
            yield OutcomeCounts(log_odds, part.ones, part.zeros)


def fit_recalibration(
    sample: Sample, ranges: ClassRanges, start: Recalibration | None = None
) -> Recalibration:
    """Fit intercept and slope together.

    ranges : of the sample, with classes that overlap. start : a fit near the result.
    """
    mean = ranges.mean
    spread = ranges.spread
    standardised = Standardised(sample, mean, spread)

    def loss(x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        point = likelihood(standardised, float(x[0]), float(x[1]))
        scale = -1.0 / ranges.rarer
        return point.value * scale, point.gradient * scale, -point.information * scale

    first = np.array([ranges.prior_log_odds, 0.0])
    if start is not None:
        first = np.array([start.intercept + start.slope * mean, start.slope * spread])
    optimum = minimise_box(loss, first, tolerance=GRADIENT, longest=LONGEST_STEP)
    slope = float(optimum.x[1]) / spread
    intercept = float(optimum.x[0]) - slope * mean
    return Recalibration(intercept, slope, likelihood(sample, intercept, slope))


def fit_intercept(
    sample: Sample,
    ranges: ClassRanges,
    slope: float = 1.0,
    start: float | None = None,
    gradient: float = INTERCEPT_GRADIENT,
) -> Recalibration:
    """Fit the intercept with the slope fixed: with slope 1 calibration in the large.

    ranges : of the sample, which has rows of both classes. start : near the result.
    gradient : per row of the rarer class, at which the search ends.
    """

    def excess(intercept: float) -> tuple[float, float]:
        point = likelihood(sample, intercept, slope)
        return -float(point.gradient[0]), float(point.information[0, 0])

    # with one of these intercepts every probability is too low, or too high
    ends = [
        ranges.prior_log_odds - slope * ranges.lowest,
        ranges.prior_log_odds - slope * ranges.highest,
    ]
    if start is None:
        start = ranges.prior_log_odds - slope * ranges.mean
    flat = gradient * ranges.rarer
    root = find_root(excess, min(ends), max(ends), start, flat=flat)
    return Recalibration(root.x, slope, likelihood(sample, root.x, slope))


# ---- likelihood ratios, for independent rows


def deviance_of_intercept(
    sample: Sample, best: Recalibration, intercept: float
) -> tuple[float, float]:
    """Likelihood ratio of an intercept at the slope of ``best``, and its derivative."""
    null = likelihood(sample, intercept, best.slope)
    return _deviance(best, null), -2.0 * float(null.gradient[0])


def deviance_of_slope(
    sample: Sample, ranges: ClassRanges, best: Recalibration, slope: float
) -> tuple[float, float]:
    """Likelihood ratio of a slope with its own best intercept, and its derivative."""
    information = best.likelihood.information
    change = -(slope - best.slope) * information[0, 1] / information[0, 0]
    start = best.intercept + float(change)
    null = fit_intercept(sample, ranges, slope, start, PROFILE_GRADIENT).likelihood
    return _deviance(best, null), -2.0 * float(null.gradient[1])


def deviance_of_calibration(sample: Sample, best: Recalibration) -> float:
    """Likelihood ratio of intercept 0 and slope 1 together, two degrees of freedom."""
    return _deviance(best, likelihood(sample, 0.0, 1.0))


def _deviance(best: Recalibration, null: Likelihood) -> float:
    """Twice the log-likelihood ratio, at least 0."""
    return max(2.0 * (best.likelihood.value - null.value), 0.0)


def profile_interval(
    deviance: Slope,
    best: float,
    standard_error: float,
    critical: float,
) -> tuple[float, float]:
    """Values of a parameter whose deviance is at most ``critical``.

    deviance : maps a value to its likelihood ratio, a convex function that is 0 at
    ``best``, and to its derivative. standard_error : from which the search starts.
    """
    low, high = (
        best + side * _reach(deviance, best, side, standard_error, critical)
        for side in (-1.0, 1.0)
    )
    return low, high


def _reach(
    deviance: Slope,
    best: float,
    side: float,
    standard_error: float,
    critical: float,
) -> float:
    """Distance from ``best`` at which the deviance is ``critical``, on one side."""

    def excess(distance: float) -> tuple[float, float]:
        value, derivative = deviance(best + side * distance)
        return value - critical, side * derivative

    start = math.sqrt(critical) * standard_error
    farthest = start
    while excess(farthest)[0] < 0.0:
        farthest *= 2.0
    step = END_PRECISION * standard_error
    return find_root(excess, 0.0, farthest, farthest, step=step).x


# ---- the sandwich, for rows with weights or in units


def sandwich_of_recalibration(
    log_odds: FloatArray,
    outcome: FloatArray,
    weight: FloatArray,
    code: IntArray,
    fit: Recalibration,
    *,
    with_slope: bool,
) -> Sandwich | None:
    """Sandwich covariance of a fit to rows (n,).

    code : (n,) unit of each row. with_slope : of intercept and slope, (2, 2); else of
    the intercept alone, (1, 1).
    """
    columns = np.ones((len(log_odds), 1))
    if with_slope:
        columns = np.stack([columns[:, 0], log_odds], axis=1)
    probability = sigmoid(fit.intercept + fit.slope * log_odds)
    variance = probability * (1.0 - probability)
    squares = columns[:, :, None] * columns[:, None, :]
    return sandwich(
        scores=(weight * (outcome - probability))[:, None] * columns,
        informations=(weight * variance)[:, None, None] * squares,
        code=code,
        spread=np.einsum("n,nij->ij", weight**2 * variance, squares),
    )
