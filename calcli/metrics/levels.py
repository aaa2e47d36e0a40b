"""Metrics of ordered classes: levels 0 to k - 1 from low to high, as of a rating or a
grade.

Bundles say with the attribute ``ordered`` = 1 that their classes are levels.
"""

import math
from dataclasses import dataclass

import numpy as np

from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.registry import metric
from calcli.metrics.row_means import student_mean
from calcli.metrics.values import Undefined, Value
from calcli.numerics import FloatArray
from calcli.statistics.intervals import (
    Interval,
    mean_of,
    normal_p_value,
    t_p_value,
    wilson_interval,
)


@dataclass(frozen=True)
class LevelColumns:
    """What every row says of its level, (n,) each.

    ranked : ranked probability score. expected, variance : of the level, by the
    probabilities of the row.
    """

    ranked: FloatArray
    expected: FloatArray
    variance: FloatArray


@made_once
def level_columns(context: MetricContext) -> LevelColumns:
    """Columns of all rows. Raises Undefined where the classes are not ordered."""
    table = context.table
    if not context.settings.ordered_levels:
        raise Undefined(
            "the classes are not said to be ordered:"
            " the attribute ordered = 1 of the bundle says so"
        )
    ranked = np.zeros(table.n)
    below = np.zeros(table.n)
    expected = np.zeros(table.n)
    square = np.zeros(table.n)
    for level, probability, _ in context.each_class():
        expected += level * probability
        square += level**2 * probability
        below += probability
        if level < table.k - 1:
            ranked += (below - (table.y <= level)) ** 2
    variance = np.maximum(square - expected**2, 0.0)
    return LevelColumns(ranked / (table.k - 1), expected, variance)


def _mean_value(context: MetricContext, column: FloatArray) -> Value:
    """Mean of a column (n,) with its standard error and Student's interval."""
    mean = mean_of(column, context.table.weight, context.table.units)
    if context.few_wrong is not None:
        return Value(mean.value, more={"ci_reason": context.few_wrong})
    return student_mean(mean, context.settings.level)


@metric("label:levels", report="ordered levels", whole=True)
def rps(context: MetricContext) -> Value:
    """Ranked probability score of ordered levels.

    mean sum_j (P(level at most j) - 1[y at most j])^2 / (k - 1), j below k - 1
    Reference: Epstein (1969), Journal of Applied Meteorology 8, 985-987; Murphy (1971)
    Also called: ranked_probability_score
    In tables: squared error of the cumulative probabilities of levels
    """
    return _mean_value(context, level_columns(context).ranked)


@metric("label:levels", better="zero", report="ordered levels", whole=True)
def level_bias(context: MetricContext) -> Value:
    """Mean expected level minus mean level: positive levels are stated too high.

    mean (sum_j j p_j - y)
    Reference: Murphy, Winkler (1987), Monthly Weather Review 115, 1330-1338
    In tables: expected minus true level
    """
    columns = level_columns(context)
    table = context.table
    gap = columns.expected - table.y
    value = _mean_value(context, gap)
    if value.interval is None:
        return value
    if table.units is None:
        # under calibration the variance of every level is known
        spread = math.sqrt(float(table.weights**2 @ columns.variance))
        p_value = 1.0
        if spread > 0.0:
            p_value = normal_p_value(float(table.weights @ gap) / spread)
    else:
        mean = mean_of(gap, table.weight, table.units)
        p_value = 1.0
        if mean.se > 0.0:
            p_value = t_p_value(mean.value / mean.se, mean.n - 1.0)
    return Value(value.value, se=value.se, interval=value.interval, p_value=p_value)


@metric("label:levels", report="ordered levels", whole=True)
def level_error(context: MetricContext) -> Value:
    """Mean absolute difference of the expected level and the level.

    mean |sum_j j p_j - y|
    Reference: Willmott, Matsuura (2005), Climate Research 30, 79-82
    In tables: distance of the expected from the true level
    """
    columns = level_columns(context)
    return _mean_value(context, np.abs(columns.expected - context.table.y))


@metric("label:levels", better="high", report="ordered levels", whole=True)
def within_one(context: MetricContext) -> Value:
    """Proportion of samples whose predicted level is at most one from the level.

    mean 1[|argmax p - y| at most 1]
    Reference: Gaudette, Japkowicz (2009), Advances in Artificial Intelligence, 207-212
    In tables: proportion of predictions at most one level off
    """
    level_columns(context)  # raises Undefined where classes are not ordered
    table = context.table
    near = (np.abs(context.predicted - table.y) <= 1).astype(np.float64)
    if table.units is not None:
        return _mean_value(context, near)
    mean = mean_of(near, table.weight)
    level = context.settings.level
    low, high = wilson_interval(np.array(mean.value), np.array(mean.n), level)
    interval = Interval(float(low), float(high), level, "wilson")
    return Value(mean.value, se=mean.se, interval=interval)
