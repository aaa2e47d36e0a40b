"""Intervals of the gap of every class: its mean probability minus its frequency."""

import numpy as np

from calcli.metrics.losses import CARRYING
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray
from calcli.statistics.intervals import exact_intervals, t_quantile


def class_gap_intervals(
    table: RowTable, level: float
) -> tuple[FloatArray, FloatArray] | None:
    """Lower and upper ends, (k,) each, as ``losses.gap_interval`` has them for one
    class.

    From the sums by class and the probabilities of the labels: no second walk over all
    probabilities. None where the table has no class sums, fewer than two rows, weights
    or units.
    """
    stats = table.classes
    if stats is None or table.weight is not None or table.units is not None:
        return None
    n = table.n
    if n < 2:
        return None
    expected, labels, variance = stats.whole
    squares = expected - variance  # sum of p^2 = sum of p - sum of p (1 - p)
    at_labels = np.bincount(table.y, weights=np.exp(-table.nll), minlength=table.k)
    gap = (expected - labels) / n
    rate = labels / n

    reach = t_quantile(0.5 + level / 2.0, n - 1.0)
    squared_gaps = squares - 2.0 * at_labels + labels
    spread = reach * _standard_error(squared_gaps, gap, n)
    low = gap - spread
    high = gap + spread

    few = (labels < CARRYING) | (labels > n - CARRYING)
    if few.any():
        exact_low, exact_high = exact_intervals(
            labels[few], np.full(few.sum(), n), level
        )
        spread = reach * _standard_error(squares, expected / n, n)[few]
        low[few] = gap[few] - np.hypot(exact_high - rate[few], spread)
        high[few] = gap[few] + np.hypot(rate[few] - exact_low, spread)
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def _standard_error(squares: FloatArray, mean: FloatArray, n: int) -> FloatArray:
    """Standard errors of means, from sums of squares."""
    variance = np.maximum(squares / n - mean**2, 0.0)
    return np.sqrt(variance / (n - 1.0))
