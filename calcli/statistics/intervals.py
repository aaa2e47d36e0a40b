"""Means over rows, their standard errors and confidence intervals; for per-row losses
only.

A bootstrap of a calibration error does not cover (its bins' noise is resampled along
with the signal), so nothing here is meant for one; means of losses are another matter.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from calcli.numerics import AnyArray, FloatArray, row_weights
from calcli.statistics.units import Units, uneven_error, unit_mean
from calcli.statistics.weights import effective_number

# rows times resamples up to which ``auto`` intervals are bootstrapped (a quarter
# second)
BOOTSTRAP_WORK = 5_000_000
RESAMPLED_ITEMS = 1 << 14  # rows times resamples that are drawn at once
# degrees of freedom beyond which Wallace's normal deviate is right to 1e-6, without
# SciPy
MANY_DEGREES = 200.0


@dataclass(frozen=True)
class Interval:
    """Confidence interval, its level (0..1) and method; where it has no ends (NaN), the
    method is the reason.
    """

    low: float
    high: float
    level: float
    method: str

    def __str__(self) -> str:
        return (
            f"[{self.low:z.4f}, {self.high:z.4f}]" if self.known else f"({self.method})"
        )

    @property
    def known(self) -> bool:
        """True where the interval has ends."""
        return math.isfinite(self.low)

    def holds(self, value: float) -> bool:
        """Test whether a value is inside, the ends included."""
        return self.low <= value <= self.high


def ends_of(interval: Interval | None) -> tuple[float | None, float | None]:
    """Lower and upper end; None each without an interval."""
    if interval is None:
        return None, None
    return interval.low, interval.high


def min_distance(interval: Interval) -> float:
    """Least absolute value in an interval."""
    return max(interval.low, -interval.high, 0.0)


def max_distance(interval: Interval) -> float:
    """Largest absolute value in an interval."""
    return max(abs(interval.low), abs(interval.high))


LEAST_FREEDOM = 1.0 - 1e-9
"""Degrees of freedom of two rows, but for the rounding of their weights."""


@dataclass(frozen=True)
class Mean:
    """Mean over rows with its standard error.

    n : effective number of rows, or number of units where rows have them. uneven : for
    units of different sizes, standard error and degrees of freedom of the interval.
    """

    value: float
    se: float
    n: float
    by_unit: bool = False
    uneven: tuple[float, float] | None = None

    @property
    def reach(self) -> float:
        """Standard error behind the interval."""
        return self.se if self.uneven is None else self.uneven[0]

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the interval."""
        return self.n - 1.0 if self.uneven is None else self.uneven[1]

    @property
    def lacks_rows(self) -> str | None:
        """Reason for no interval where fewer than two rows or units count; None of more.

        Student's t of less than one degree of freedom has ends of any size.
        """
        if self.freedom >= LEAST_FREEDOM:
            return None
        if self.by_unit:
            return f"few of {self.n:.0f} units hold most of the rows: no interval"
        return "weights leave fewer than two effective rows: no interval"


def normal_quantile(p: float) -> float:
    """Standard normal quantile, -inf and inf at 0 and 1."""
    if p <= 0.0 or p >= 1.0:
        return math.copysign(math.inf, p - 0.5)
    return NormalDist().inv_cdf(p)


def normal_p_value(z: float) -> float:
    """Two-sided p-value of a standard normal statistic."""
    return math.erfc(abs(z) / math.sqrt(2.0))


def normal_tail(z: float) -> float:
    """P(Z >= z) of a standard normal."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def t_to_normal(t: float, df: float) -> float:
    """Normal deviate with nearly the same tail area (Wallace 1959)."""
    return math.copysign(
        math.sqrt(df * math.log1p(t * t / df)) * (8 * df + 1) / (8 * df + 3), t
    )


def t_p_value(t: float, df: float) -> float:
    """Two-sided p-value of Student's t, any degrees of freedom > 0; beyond 200 by a
    normal deviate.
    """
    if not math.isfinite(t):
        return 0.0
    if df > MANY_DEGREES:
        return normal_p_value(t_to_normal(t, df))
    from scipy.special import stdtr

    return 2.0 * float(stdtr(df, -abs(t)))


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t for p in (0.5, 1), any degrees of freedom > 0."""
    if df > MANY_DEGREES:
        z = normal_quantile(p) * (8 * df + 3) / (8 * df + 1)
        return math.sqrt(df * math.expm1(z * z / df))
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def mean_of(
    values: FloatArray, weight: FloatArray | None = None, units: Units | None = None
) -> Mean:
    """Mean and standard error of values (n,); with weights by linearisation of the
    ratio, with units by their sums.
    """
    if units is not None:
        return _mean_of_units(values, weight, units)
    if weight is None:
        n = len(values)
        value = float(values.mean())
        return Mean(
            value, float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan, n
        )
    total = float(weight.sum())
    if total <= 0.0:
        return Mean(math.nan, math.nan, 0.0)
    value = float(weight @ values) / total
    effective = effective_number(weight)
    spread = float(weight**2 @ (values - value) ** 2) / total**2
    return Mean(
        value,
        math.sqrt(spread * effective / (effective - 1.0))
        if effective > 1.0
        else math.nan,
        effective,
    )


def _mean_of_units(values: FloatArray, weight: FloatArray | None, units: Units) -> Mean:
    value, se = unit_mean(values, units, weight)
    even = weight is None and units.count.min() == units.count.max()
    if even or units.n < 2:
        return Mean(value, se, units.n, by_unit=True)
    w = row_weights(weight, len(values))
    influence = w * (values - value) / float(w.sum())
    uneven = uneven_error(influence, units, weight)
    return Mean(value, se, units.n, by_unit=True, uneven=uneven)


def t_interval(mean: Mean, level: float) -> Interval | None:
    """Student's interval of a mean; None for fewer than two effective rows."""
    if mean.lacks_rows is not None or not math.isfinite(mean.se):
        return None
    reach = t_quantile(0.5 + level / 2.0, mean.freedom) * mean.reach
    return Interval(
        mean.value - reach, mean.value + reach, level, "unit t" if mean.by_unit else "t"
    )


def bootstrap_interval(
    values: FloatArray, level: float, resamples: int, rng: np.random.Generator
) -> list[Interval]:
    """Studentised bootstrap intervals of the means of columns, all from the same draws
    of places.

    values : (n, m). Rows are drawn with replacement; each resample's t-statistic uses
    its own standard error, which corrects the skewness of a loss (Efron, Tibshirani
    1993, section 12.5). With few rows each misses a skewed mean on one side, so an end
    is never nearer than Student's. A column without spread has an interval of no
    length. Each column is sorted first: its interval depends neither on the order of
    the rows nor on the other columns.
    """
    n, m = values.shape
    values = np.sort(values, axis=0)
    mean = values.mean(axis=0)
    se = values.std(axis=0, ddof=1) / math.sqrt(n)
    centred = values - mean
    both = np.hstack([centred, centred**2])
    t = np.empty((resamples, m))
    step = max(1, RESAMPLED_ITEMS // n)
    for start in range(0, resamples, step):
        part = slice(start, start + step)
        drawn = rng.integers(0, n, size=(min(step, resamples - start), n))
        cells = (drawn + n * np.arange(len(drawn))[:, None]).ravel()
        times = (
            np.bincount(cells, minlength=drawn.size)
            .reshape(drawn.shape)
            .astype(np.float64)
        )
        sums = times @ both / n
        spread = np.sqrt(np.maximum(sums[:, m:] - sums[:, :m] ** 2, 0.0) / (n - 1))
        t[part] = np.divide(
            sums[:, :m], spread, out=np.zeros(spread.shape), where=spread > 1e-12 * se
        )
    low, high = np.quantile(t, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
    student = (
        t_quantile(0.5 + level / 2.0, max(n - 1, MANY_DEGREES + 1.0)) if n > 1 else 0.0
    )
    low = np.minimum(low, -student)
    high = np.maximum(high, student)
    return [
        Interval(
            float(mean[j] - high[j] * se[j]),
            float(mean[j] - low[j] * se[j]),
            level,
            "bootstrap-t",
        )
        for j in range(m)
    ]


def exact_interval(count: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Two-sided Clopper-Pearson interval of a proportion."""
    low, high = exact_intervals(np.array([count]), np.array([n]), level)
    return float(low[0]), float(high[0])


def exact_intervals(
    count: AnyArray, n: AnyArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Two-sided Clopper-Pearson intervals of proportions count / n, (m,) each."""
    from scipy.special import betaincinv

    half = (1.0 - level) / 2.0
    low = np.where(
        count > 0, betaincinv(np.where(count > 0, count, 1), n - count + 1, half), 0.0
    )
    high = np.where(
        count < n,
        betaincinv(count + 1, np.where(count < n, n - count, 1), 1.0 - half),
        1.0,
    )
    return low, high


def wilson_interval(
    rate: FloatArray, n: FloatArray, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval of proportions (Wilson 1927): inside [0, 1], never of
    width 0. rate, n : (…,) observed proportion and number of rows (with weights the
    effective number), NaN results where it is 0.
    """
    z2 = normal_quantile(0.5 + level / 2.0) ** 2
    n = np.where(np.asarray(n) > 0, n, np.nan)
    centre = (rate + z2 / (2.0 * n)) / (1.0 + z2 / n)
    reach = np.sqrt(z2 * (rate * (1.0 - rate) / n + z2 / (4.0 * n * n))) / (
        1.0 + z2 / n
    )
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
