"""Lowess: local linear regression over the nearest share of the rows.

The smoother of ``rms::val.prob``, R's ``lowess(p, y, iter = 0)``: tricube weights over
the nearest two thirds of the rows, no robustness iterations, fitted at points a
hundredth of the range apart and linear between them. Without these iterations the curve
is linear in the outcomes, so outcomes drawn under calibration are smoothed at once.

Reference: Cleveland (1979), Journal of the American Statistical Association 74,
829-836; Cleveland (1981), The American Statistician 35, 54.
"""

import math
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, IntArray

SPAN = 2.0 / 3.0  # share of the rows that a local regression sees
STEP = 0.01  # distance of fitted points, as a share of the range
FLAT = 0.001  # spread of a window, as a share of the range, below which it has no slope
NEARLY_AT = 0.001
NEARLY_OUT = 0.999  # distances, in half windows, of weight 1 and 0


@dataclass(frozen=True)
class Lowess:
    """Smoother of outcomes at distinct points, ascending.

    x : (u,) points. weight : (u,) weight of the rows at each. fitted_at : (a,) indices
    of the points with a regression of their own, the first and the last among them.
    """

    x: FloatArray
    weight: FloatArray
    fitted_at: IntArray

    @classmethod
    def of(cls, x: FloatArray, weight: FloatArray) -> "Lowess":
        """Choose the fitted points. x : (u,) ascending, no two equal."""
        return cls(x, weight, _points_apart(x, STEP * float(x[-1] - x[0])))

    def smooth(self, ones: FloatArray) -> FloatArray:
        """Smoothed frequency of outcome 1 at every point, (…, u).

        ones : (…, u) weight of the rows with outcome 1 at each point.
        """
        cumulative = np.concatenate([[0.0], np.cumsum(self.weight)])
        # as R counts rows: a little more, so that rounding loses none
        nearest = SPAN * cumulative[-1] + 1e-7
        if (self.weight == np.rint(self.weight)).all():
            nearest = max(np.floor(nearest), 2.0)
        fitted = np.stack(
            [
                self._fit_at(index, nearest, cumulative, ones)
                for index in self.fitted_at.tolist()
            ],
            axis=-1,
        )
        return _interpolated(self.x, self.fitted_at, fitted)

    def _fit_at(
        self, index: int, nearest: float, cumulative: FloatArray, ones: FloatArray
    ) -> FloatArray:
        """Local linear regression at one point, (…,)."""
        centre = self.x[index]
        width = _half_width(self.x, cumulative, index, nearest)
        low = int(np.searchsorted(self.x, centre - width))
        high = int(np.searchsorted(self.x, centre + width, side="right"))
        window = slice(low, high)
        distance = np.abs(self.x[window] - centre)
        kernel = (1.0 - (distance / width) ** 3) ** 3 if width > 0.0 else 1.0
        kernel = np.where(distance <= NEARLY_AT * width, 1.0, kernel)
        kernel = np.where(distance <= NEARLY_OUT * width, kernel, 0.0)
        share = kernel / float(kernel @ self.weight[window])

        row_share = share * self.weight[window]
        mean = float(row_share @ self.x[window])
        variance = float(row_share @ (self.x[window] - mean) ** 2)
        if np.sqrt(variance) > FLAT * float(self.x[-1] - self.x[0]):
            slope = (centre - mean) / variance
            share = share * (1.0 + slope * (self.x[window] - mean))
        return ones[..., window] @ share


def _points_apart(x: FloatArray, step: float) -> IntArray:
    """Indices of the first point, and each time of the last within ``step`` of the one
    before, or the next where there is none."""
    chosen = [0]
    while chosen[-1] < len(x) - 1:
        farthest = int(np.searchsorted(x, x[chosen[-1]] + step, side="right")) - 1
        chosen.append(max(farthest, chosen[-1] + 1))
    return np.array(chosen, dtype=np.int64)


def _half_width(
    x: FloatArray, cumulative: FloatArray, index: int, nearest: float
) -> float:
    """Distance from a point within which rows of weight ``nearest`` lie.

    cumulative : (u + 1,) weight of the points before each. The window of consecutive
    points with that weight whose farther end is nearest is found by bisection: as it
    moves up, its lower end comes nearer and its upper end goes away.
    """
    low = 0
    high = int(np.searchsorted(cumulative, cumulative[-1] - nearest, side="right")) - 1
    high = min(max(high, 0), index)

    def ends(first: int) -> tuple[float, float]:
        last = int(np.searchsorted(cumulative, cumulative[first] + nearest)) - 1
        last = min(max(last, index), len(x) - 1)
        return x[index] - x[first], x[last] - x[index]

    while low < high:
        middle = (low + high) // 2
        below, above = ends(middle)
        if below > above:
            low = middle + 1
        else:
            high = middle
    candidates = [max(ends(first)) for first in (low - 1, low) if first >= 0]
    return float(min(candidates))


def _interpolated(x: FloatArray, knots: IntArray, values: FloatArray) -> FloatArray:
    """Linear interpolation of values (…, a) at the points ``knots`` to all points."""
    if len(knots) == 1:
        return np.repeat(values, len(x), axis=-1)
    piece = np.searchsorted(knots, np.arange(len(x)), side="right") - 1
    piece = np.minimum(piece, len(knots) - 2)
    left = x[knots[piece]]
    right = x[knots[piece + 1]]
    share = (x - left) / (right - left)
    return values[..., piece] * (1.0 - share) + values[..., piece + 1] * share


# ---- distance of probabilities from their smoothed curve


@dataclass(frozen=True)
class SmoothedErrors:
    """|p - smoothed frequency| of the rows: mean, median, 90 % quantile and maximum.

    Each is a number, or (draws,) of many outcomes of the same rows.
    """

    mean: FloatArray
    median: FloatArray
    ninetieth: FloatArray
    largest: FloatArray

    @classmethod
    def of(cls, errors: FloatArray, weight: FloatArray) -> "SmoothedErrors":
        """Summarise errors (…, u) of points with weight (u,)."""
        return cls(
            mean=errors @ weight / weight.sum(),
            median=row_quantile(errors, weight, 0.5),
            ninetieth=row_quantile(errors, weight, 0.9),
            largest=errors.max(axis=-1),
        )


def row_quantile(errors: FloatArray, weight: FloatArray, share: float) -> FloatArray:
    """Quantile over rows of errors (…, u) of points that stand for ``weight`` rows.

    Of whole weights the one that R and NumPy have by default: linear between the two
    rows about it. Of others the smallest error up to which rows have that share.
    """
    order = np.argsort(errors, axis=-1)
    ordered = np.take_along_axis(errors, order, axis=-1)
    upto = np.cumsum(weight[order], axis=-1)
    last = len(weight) - 1

    def at(rank: float) -> FloatArray:
        place = np.minimum((upto <= rank).sum(axis=-1), last)
        return np.take_along_axis(ordered, place[..., None], axis=-1)[..., 0]

    total = float(weight.sum())
    if (weight != np.rint(weight)).any():
        # a little less, so that rounding passes no error by
        return at(share * total * (1.0 - 1e-12))
    rank = share * (total - 1.0)
    below = math.floor(rank)
    part = rank - below
    return at(below) * (1.0 - part) + at(below + 1.0) * part
