"""Statistics of rows that belong together: the rows of one unit (a patient, an image, a question) depend on each other.

The number that decides what can be said is not the number of rows or of units but ``wrong_units``: how many
units are expected to hold a wrong row. Where it is small, tests that only flip the signs of the units' sums
reject calibrated rows nearly always; the null by shared luck (``luck``) does not.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.cached import cached_property
from calcli.fast_dataclass import dataclass
from calcli.numerics import FloatArray, IntArray

DRAW_ITEMS = 1 << 20
"""Uniform numbers that are drawn at once."""


@dataclass(frozen=True)
class Units:
    """The unit of every row. code : (n,) 0..g-1. count : (g,) rows of each unit, none empty."""

    code: IntArray
    count: IntArray

    @classmethod
    def of(cls, names: NDArray[Any]) -> "Units":
        """Units of a column (n,) of names or numbers."""
        _, code, count = np.unique(names, return_inverse=True, return_counts=True)
        return cls(code.reshape(-1).astype(np.int64), count.astype(np.int64))

    @property
    def n(self) -> int:
        """Number of units."""
        return len(self.count)

    @property
    def single(self) -> bool:
        """Does every unit have one row? Then rows are independent, and nothing here is needed."""
        return self.n == len(self.code)

    @cached_property
    def order(self) -> IntArray:
        """Row numbers, unit by unit, (n,)."""
        return np.argsort(self.code, kind="stable")

    @cached_property
    def starts(self) -> IntArray:
        """Where each unit begins in ``order``, (g,)."""
        return np.concatenate([[0], np.cumsum(self.count)[:-1]])

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum of values (n,) over the rows of each unit, (g,)."""
        return np.asarray(np.bincount(self.code, weights=values, minlength=self.n), dtype=np.float64)

    def take(self, index: NDArray[Any]) -> "Units | None":
        """The units of some rows, in the order of ``index``; None where each then has one row."""
        units = Units.of(self.code[index])
        return None if units.single else units


def wrong_units(score: FloatArray, units: Units) -> float:
    """Expected number of units with a row whose outcome is 0, sum_g (1 - prod c), were rows independent.

    score : (n,) chances of the outcome 1. For P(class 1) take the smaller of this for p and for 1 - p.
    """
    return float((1.0 - np.multiply.reduceat(score[units.order], units.starts)).sum())


def luck(score: FloatArray, residual: FloatArray, units: Units, weight: FloatArray | None = None) -> float:
    """Share a^2 of the luck that rows of a unit have in common, 0..1.

    Outcomes are y_i = 1[V_i < c_i], where V_i is the unit's own uniform number with chance a and else the row's.
    Then P(y_i = 1) = c_i exactly and cov(y_i, y_j) = a^2 (min(c_i, c_j) - c_i c_j), so that a^2 is the sum of the
    products of residuals of pairs within units over what it would be if all luck were shared.

    score : (n,) chances c; residual : (n,) y - c; weight : (n,) or None.
    """
    w = np.ones(len(score)) if weight is None else weight
    shared = float((units.sums(w * residual) ** 2).sum() - (w**2 @ residual**2))
    order = np.lexsort((score, units.code))
    c, v = score[order], w[order]
    # w_j of the rows after each one in its unit: these have the larger score of the pair
    upto = np.cumsum(v)
    ends = units.starts + units.count - 1
    later = np.repeat(upto[ends], units.count) - upto
    pairs = 2.0 * float((c * v) @ later)
    pairs -= float((units.sums(w * score) ** 2).sum() - ((w * score) @ (w * score)))
    return min(1.0, max(0.0, shared / pairs)) if pairs > 0.0 else 0.0


def shared_uniforms(
    units: Units, share: float, resamples: int, rng: np.random.Generator
) -> Iterator[tuple[slice, FloatArray]]:
    """Uniform numbers V of every row under shared luck, some resamples at a time: (which, (m, n) float32).

    share : a^2 of ``luck``. A row takes its unit's number with chance a.
    """
    n, chance = len(units.code), math.sqrt(share)
    step = max(1, DRAW_ITEMS // max(n, 1))
    for at in range(0, resamples, step):
        m = min(step, resamples - at)
        own = rng.random((m, n), dtype=np.float32)
        together = rng.random((m, units.n), dtype=np.float32)[:, units.code]
        yield slice(at, at + m), np.where(rng.random((m, n), dtype=np.float32) < chance, together, own)


def unit_mean(values: FloatArray, units: Units, weight: FloatArray | None = None) -> tuple[float, float]:
    """Mean of values (n,) and its standard error when units, not rows, are drawn.

    SE^2 = G/(G-1) sum_g (sum_{i in g} w_i (x_i - mean))^2 / (sum w)^2; NaN for one unit.
    """
    w = np.ones(len(values)) if weight is None else weight
    total = float(w.sum())
    mean = float(w @ values) / total
    square = float((units.sums(w * (values - mean)) ** 2).sum()) / total**2
    return mean, math.sqrt(square * units.n / (units.n - 1)) if units.n > 1 else math.nan


def design_effect(residual: FloatArray, units: Units, weight: FloatArray | None = None) -> float:
    """Variance of the sum of residuals (n,) by units over that by rows, at least 1; rows / this are effective."""
    r = residual if weight is None else weight * residual
    rows = float(r @ r)
    return max(1.0, float((units.sums(r) ** 2).sum()) / rows) if rows > 0.0 else 1.0


@dataclass(frozen=True)
class AcceptedUnits:
    """Rows accepted at a threshold, by unit. m, right : rows and right rows; units : units with an accepted row.

    square, cross, right_square : sums over units of m_g^2, m_g right_g and right_g^2.
    """

    m: int
    right: int
    units: int
    square: float
    cross: float
    right_square: float

    @classmethod
    def of(cls, code: IntArray, correct: FloatArray) -> "AcceptedUnits":
        """Of the accepted rows: code (m,) their units, correct (m,) 0 or 1."""
        m = np.bincount(code).astype(np.float64)
        right = np.bincount(code, weights=correct)
        return cls(
            len(code),
            round(float(right.sum())),
            int((m > 0).sum()),
            float(m @ m),
            float(m @ right),
            float(right @ right),
        )

    def design_effect(self, accuracy: float) -> float:
        """Variance of the number right by units over the binomial's, centred at ``accuracy``; at least 1.

        Centred there and not at the rate that is seen, a set without a wrong row counts each unit as one draw.
        """
        by_unit = self.right_square - 2.0 * accuracy * self.cross + accuracy**2 * self.square
        by_row = self.right * (1.0 - accuracy) ** 2 + (self.m - self.right) * accuracy**2
        return max(1.0, by_unit / by_row)

    def effective(self, accuracy: float, alpha: float) -> float:
        """Effective number of accepted rows for a test at level ``alpha``; 0 for fewer than two units."""
        from scipy.special import ndtri, stdtrit

        if self.units < 2:
            return 0.0
        return self.m / self.design_effect(accuracy) * float(ndtri(1 - alpha) / stdtrit(self.units - 1, 1 - alpha)) ** 2

    def tail(self, accuracy: float, alpha: float) -> float:
        """Chance of at least so many right answers at this accuracy: the binomial at the effective number of rows.

        Reference: Korn, Graubard (1998), Survey Methodology 24, 193-201.
        """
        from scipy.special import betainc

        n = self.effective(accuracy, alpha)
        right = n * self.right / self.m
        return float(betainc(right, n - right + 1.0, accuracy)) if right > 0.0 else 1.0

    def lower(self, alpha: float) -> float:
        """The least accuracy that the test at ``alpha`` does not refuse, to 1e-9."""
        low, high = 0.0, self.right / self.m
        while high - low > 1e-9:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.tail(middle, alpha) <= alpha else (low, middle)
        return low
