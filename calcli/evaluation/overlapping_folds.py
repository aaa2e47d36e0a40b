"""Intervals and p-values of differences between methods that were fitted to folds.

Each fold's rows are scored by a fit to the others, so the fits share most of their rows, and
their errors are alike in all folds. Rows taken as independent do not show this: their
intervals are too short. The correction counts the errors of the fits as often as the rows
that are scored stand against those that are fitted to.
"""

import math
from dataclasses import replace

from calcli.evaluation.facts import Difference
from calcli.statistics.intervals import Interval, normal_p_value, normal_quantile


def overlap_factor(folds: int) -> float:
    """Factor of a standard error over folds that were each scored by a fit to the others.

    The variance 1/J of J folds becomes 1/J + n_test / n_train = 1/J + 1/(J - 1); for five
    folds the factor is 1.5. A single split has none.

    Reference: Nadeau, Bengio (2003), Machine Learning 52, 239-281, equation 7.

    >>> overlap_factor(5)
    1.5
    """
    if folds < 2:
        return 1.0
    return math.sqrt(1.0 + folds / (folds - 1.0))


def widened(difference: Difference, factor: float) -> Difference:
    """A difference whose standard error is larger by a factor, with interval and p-value."""
    if factor == 1.0:
        return difference
    se, interval, p_value = difference.se, difference.interval, difference.p_value
    return replace(
        difference,
        se=None if se is None else se * factor,
        interval=None if interval is None else _wider(interval, difference, factor),
        p_value=None if p_value is None else _larger(p_value, factor),
    )


def _wider(interval: Interval, difference: Difference, factor: float) -> Interval:
    centre = difference.value
    low = centre - factor * (centre - interval.low)
    high = centre + factor * (interval.high - centre)
    return replace(interval, low=low, high=high, method=f"{interval.method}, folds")


def _larger(p_value: float, factor: float) -> float:
    """The p-value of the same normal deviate over a factor."""
    if not 0.0 < p_value < 1.0:
        return p_value
    return normal_p_value(normal_quantile(p_value / 2.0) / factor)
