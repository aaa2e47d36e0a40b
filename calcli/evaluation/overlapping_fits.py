"""Intervals and p-values of differences between methods that were fitted to folds.

Each fold's rows are scored by a fit to the others, so the fits share most of their
rows, and their errors are alike in all folds. Rows taken as independent do not show
this: their intervals are too short. The correction adds the variance of the fits, in
the proportion of the rows that are scored to those that are fitted to.

Where a method estimates its extra parameter as nothing, its rows hardly differ from the
baseline's, however much another sample of rows would have moved it. The fits therefore
err by at least as much as likelihood-ratio intervals of one parameter do.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from calcli.evaluation.differences import NO_BOUND
from calcli.evaluation.facts import Difference
from calcli.metrics.context import MetricContext
from calcli.metrics.row_means import FARTHEST
from calcli.statistics.intervals import Interval, normal_p_value, normal_quantile
from calcli.statistics.units import design_effect

QUADRATIC_LOSSES = ("nll", "brier")
"""Losses that grow with the square of a fit's error, so that ``least_error_of_fits``
holds for them.

The Brier score grows at most as the NLL: the Hessian of its logits is at most that of
the NLL, as p (1 - p) is at most 1/4.
"""


def overlap_factor(folds: int) -> float:
    """Factor of a standard error over folds that were each scored by a fit to the others.

    The variance 1/J of J folds becomes 1/J + n_test / n_train = 1/J + 1/(J - 1); for five
    folds the factor is 1.5. For a single split it is 1.

    Reference: Nadeau, Bengio (2003), Machine Learning 52, 239-281, equation 7.

    >>> overlap_factor(5)
    1.5
    """
    if folds < 2:
        return 1.0
    return math.sqrt(1.0 + folds / (folds - 1.0))


def least_error_of_fits(context: MetricContext) -> float:
    """Least standard error of a difference in NLL of two methods that were fitted.

    Where a parameter is estimated as 0, its likelihood-ratio interval at 95 % holds
    values that would gain up to 1.96^2 / (2 n) nats a row, 1.96 times about 1 / n.
    n : effective number of rows. Reference: Wilks (1938), Ann. Math. Statist. 9, 60-62.
    """
    table = context.table
    if table.units is None:
        return 1.0 / context.effective_n
    gap = table.confidence - table.correct
    effect = design_effect(gap, table.units, table.weight)
    return effect / context.effective_n


def over_folds(
    differences: Mapping[str, Difference], folds: int, context: MetricContext
) -> dict[str, Difference]:
    """Differences with intervals and p-values that allow for the fits to folds.

    context : of the rows that were scored. A single split stays as it is.
    """
    if folds < 2:
        return dict(differences)
    factor = overlap_factor(folds)
    least_error = least_error_of_fits(context)
    changes = {}
    for name, difference in differences.items():
        error_of_fits = least_error if name in QUADRATIC_LOSSES else 0.0
        changes[name] = widened(difference, factor, error_of_fits)
    return changes


def widened(difference: Difference, overlap: float, error_of_fits: float) -> Difference:
    """A difference of larger standard error, with interval and p-value.

    overlap : factor of its standard error over rows. error_of_fits : standard error
    that is added to it, in quadrature, unless the difference is 0 in all rows.

    Where rows hardly differ, the error of the fits is many times theirs. If then an end
    of the interval allows for rare rows that are not among these, it lies far out for
    another reason, and no multiple of it says where it belongs: there is no interval.
    """
    se = difference.se
    factor = overlap
    if se is not None and se > 0.0:
        factor = math.hypot(overlap, error_of_fits / se)
        if error_of_fits > overlap * se and _is_far(difference):
            difference = replace(difference, interval=None, reason=NO_BOUND)
    interval = difference.interval
    p_value = difference.p_value
    return replace(
        difference,
        se=None if se is None else se * factor,
        interval=None if interval is None else _wider(interval, difference, factor),
        p_value=None if p_value is None else _larger(p_value, factor),
    )


def _is_far(difference: Difference) -> bool:
    """True for an interval of ``FARTHEST`` times the length of the normal one."""
    interval = difference.interval
    if interval is None or difference.se is None:
        return False
    normal = 2.0 * normal_quantile(0.5 + interval.level / 2.0) * difference.se
    return interval.high - interval.low > FARTHEST * normal


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
