"""Statistics of rows that belong together.

The rows of one unit (a patient, an image, a question) depend on each other. The
effective information is neither the number of rows nor of units but ``wrong_units``:
the expected number of units with a wrong row. Where it is small, tests that only flip
the signs of the units' sums reject calibrated rows nearly always; the null by shared
luck (``SharedLuck``) does not.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, IntArray, row_weights
from calcli.records import cached_property


@dataclass(frozen=True)
class Units:
    """The unit of every row.

    code : (n,) 0..g-1. count : (g,) rows of each unit, none empty.
    """

    code: IntArray
    count: IntArray

    @classmethod
    def of(cls, names: NDArray[Any]) -> "Units":
        """Build units from a column (n,) of names or numbers."""
        code = numbered(names)[1]
        return cls(code, np.bincount(code))

    @property
    def n(self) -> int:
        return len(self.count)

    @property
    def single(self) -> bool:
        """True if every unit has one row: rows are then independent."""
        return self.n == len(self.code)

    @cached_property
    def order(self) -> IntArray:
        """Row numbers, unit by unit, (n,)."""
        # the smallest integer type sorts fastest
        return np.argsort(self.code.astype(np.min_scalar_type(self.n)), kind="stable")

    @cached_property
    def starts(self) -> IntArray:
        """Start of each unit in ``order``, (g,)."""
        return np.concatenate([[0], np.cumsum(self.count)[:-1]])

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum values (n,) over the rows of each unit, (g,)."""
        sums = np.bincount(self.code, weights=values, minlength=self.n)
        return np.asarray(sums, dtype=np.float64)

    def take(self, index: NDArray[Any]) -> "Units | None":
        """Select the units of the rows at ``index``, in that order.

        None if each then has one row.
        """
        units = Units.of(self.code[index])
        return None if units.single else units

    def divided_by(self, code: IntArray) -> "Units":
        """The rows of each unit that have the same number, (n,) from 0, as a unit."""
        return Units.of(self.code * (int(code.max()) + 1) + code)


def numbered(names: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """Number unique names, ascending: the names, and the index of each row's, (n,).

    Close integers are counted rather than sorted.
    """
    if not _are_close_integers(names):
        unique, place = np.unique(names, return_inverse=True)
        return unique, place.reshape(-1).astype(np.int64)
    offset = names.astype(np.int64) - names.min().astype(np.int64)
    occurs = np.bincount(offset) > 0
    unique = np.flatnonzero(occurs).astype(names.dtype) + names.min()
    number = np.cumsum(occurs) - 1
    return unique, number[offset]


def _are_close_integers(names: NDArray[Any]) -> bool:
    """Test whether names are integers whose range is below four times their number."""
    if names.dtype.kind not in "iu" or not len(names):
        return False
    return int(names.max()) - int(names.min()) < 4 * len(names)


def by_first_row(code: IntArray) -> IntArray:
    """Units numbered in the order of their first rows, whatever their names."""
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[place]


def unit_mean(
    values: FloatArray, units: Units, weight: FloatArray | None = None
) -> tuple[float, float]:
    """Compute the mean of values (n,) and its standard error clustered by unit.

    SE^2 = G/(G-1) sum_g (sum_{i in g} w_i (x_i - mean))^2 / (sum w)^2; NaN for one
    unit.
    """
    w = row_weights(weight, len(values))
    total = float(w.sum())
    mean = float(w @ values) / total
    square = float((units.sums(w * (values - mean)) ** 2).sum()) / total**2
    if units.n < 2:
        return mean, math.nan
    return mean, math.sqrt(square * units.n / (units.n - 1))


def label_effect(labels: IntArray, k: int, units: Units) -> float:
    """Compute the design effect of the frequencies of k classes, at least 1.

    It is the mean over the classes of the variance of a class's count by units over
    that of independent rows, sum_g (n_gc - n_g p_c)^2 / (n p_c (1 - p_c)). Counts
    divided by it can be compared as if rows were independent.

    Reference: Rao, Scott (1981), Journal of the American Statistical Association 76,
    221-230.
    """
    n = len(labels)
    effects: list[float] = []
    for label, count in enumerate(np.bincount(labels, minlength=k).tolist()):
        if 0 < count < n:
            share = count / n
            by_unit = units.sums((labels == label) - share)
            effects.append(float(by_unit @ by_unit) / (n * share * (1.0 - share)))
    if not effects:
        return 1.0
    return max(1.0, sum(effects) / len(effects))


def uneven_error(
    influence: FloatArray, units: Units, weight: FloatArray | None = None
) -> tuple[float, float]:
    """Compute the jackknife error of a sum of influences, and its degrees of freedom.

    influence : (n,). A unit that holds a share h of the rows draws the mean towards
    itself: its sum S is treated as S / (1 - h), as without it. SE^2 = (G-1)/G sum_g
    (S_g / (1 - h_g))^2, with one degree of freedom less than Kish's effective number of
    units, 1 / sum h^2, at least 1. For units of one size these are the SE of
    ``unit_mean`` and G - 1.

    Reference: MacKinnon, White (1985), Journal of Econometrics 29, 305-325 (HC3, of
    clusters CR3); Kish (1965), section 8.2.
    """
    alone, share = _influences_alone(influence, units, weight)
    error = math.sqrt((units.n - 1) / units.n * float((alone**2).sum()))
    return error, max(1.0 / float(share @ share) - 1.0, 1.0)


def mean_skewness(
    influence: FloatArray, units: Units, weight: FloatArray | None = None
) -> float:
    """Compute the skewness of a mean over units from the influences of its rows, (n,)."""
    alone, _ = _influences_alone(influence, units, weight)
    spread = float((alone**2).sum())
    return float((alone**3).sum()) / spread**1.5 if spread > 0.0 else 0.0


def _influences_alone(
    influence: FloatArray, units: Units, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Influence of every unit as if the mean were without it, and its share, (g,) each."""
    sizes = units.sums(row_weights(weight, len(influence)))
    share = sizes / sizes.sum()
    return units.sums(influence) / np.maximum(1.0 - share, 1e-12), share


def design_effect(
    values: FloatArray, units: Units, weight: FloatArray | None = None
) -> float:
    """Compute the design effect of a mean of values (n,), at least 1.

    It is its variance by units over that by rows.
    """
    w = row_weights(weight, len(values))
    r = w * (values - np.average(values, weights=w))
    by_row = float(r @ r)
    if not by_row > 0.0:
        return 1.0
    by_unit = float((units.sums(r) ** 2).sum())
    return max(1.0, by_unit / by_row)
