"""Differences between calibrators on the same rows, and ranks over several bundles."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calcli.evaluation.results import Difference, Ranks, Result
from calcli.metrics.catalog import metric
from calcli.metrics.context import MetricContext
from calcli.metrics.friedman import Friedman, friedman
from calcli.metrics.intervals import Interval, Mean, mean_of, normal_quantile, t_interval, t_p_value
from calcli.metrics.losses import paired_columns, paired_sums
from calcli.statistics.paired import PairedSums, fair_signs, share_ends


def differences(
    sums: Mapping[str, PairedSums], level: float, by_unit: Mapping[str, Mean] | None = None, few: str | None = None
) -> dict[str, Difference]:
    """Mean paired differences, this minus the baseline, with interval and two-sided p-value.

    Losses: ``PairedSums.tails``, the interval at least as wide as Student's on both sides. Accuracy: McNemar's test,
    Tango's interval. What no label decides: Student's. Rows that do not differ at all give 0 with p = 1.

    by_unit : the means with standard errors of rows that belong together; p-value and ends of the interval are then
    the farther ones of Student's over units and of those for rows. few : why units have no intervals.
    """
    alone = {name: _difference(name, each, level) for name, each in sums.items()}
    return {name: _over_units(each, by_unit[name], level, few) if by_unit else each for name, each in alone.items()}


def compared(context: MetricContext, baseline: MetricContext) -> dict[str, Difference]:
    """The differences between two sets of the same rows."""
    t, columns = context.table, paired_columns(context, baseline)
    means = {} if t.units is None else {name: mean_of(d, t.weight, t.units) for name, d in columns.items()}
    return differences(
        paired_sums(context, baseline), context.settings.level, means, context.few_wrong or baseline.few_wrong
    )


def _over_units(alone: Difference, mean: Mean, level: float, few: str | None) -> Difference:
    """A difference where units are drawn, from that of independent rows."""
    own, rows = t_interval(mean, level), alone.interval
    if few is not None or own is None or alone.p_value is None:
        return replace(alone, se=mean.se, interval=None, p_value=None, reason=few or "one unit: no interval")
    p = 1.0 if alone.value == 0.0 else t_p_value(mean.value / mean.se if mean.se > 0.0 else math.inf, mean.n - 1.0)
    if rows is not None:
        own = replace(own, low=min(own.low, rows.low), high=max(own.high, rows.high))
    return replace(alone, se=mean.se, interval=None if alone.reason else own, p_value=max(p, alone.p_value))


def _difference(name: str, sums: PairedSums, level: float) -> Difference:
    mean = Mean(*sums.student())
    se = mean.se if math.isfinite(mean.se) else None
    student = t_interval(mean, level)
    answers = sums.signs if name == "accuracy" else None
    if not mean.n > 1.0:
        return Difference(mean.value, se, None, None, answers=answers)
    if not sums.observed[0, 2] > 0.0:
        return Difference(mean.value, se, student, 1.0, answers=answers)
    if name == "accuracy":
        low, high = share_ends(sums, normal_quantile(0.5 + level / 2.0))
        return Difference(mean.value, se, Interval(low, high, level, "Tango"), fair_signs(sums), answers=answers)
    if sums.expected is None or student is None:
        p = t_p_value(mean.value / mean.se if mean.se else math.inf, mean.n - 1.0)
        return Difference(mean.value, se, student, p)
    ends = sums.ends(level)
    if ends[0] is None or ends[1] is None:
        return Difference(mean.value, se, None, sums.tails().both, "no bound: few rows carry the loss")
    outer = Interval(min(ends[0], student.low), max(ends[1], student.high), level, "shifted Poisson")
    return Difference(mean.value, se, outer, sums.tails().both)


def rank_table(bundles: Sequence[Sequence[Result]], labels: Sequence[str], metrics: Sequence[str]) -> Ranks | None:
    """Average ranks of the calibrators over bundles, with the Friedman test, metric by metric. bundles : per bundle its
    results, in the order of ``labels``. Metrics of which neither end is good, or that some result does not define, are
    left out. None for fewer than two bundles or two calibrators."""
    if len(bundles) < 2 or len(labels) < 2:
        return None
    values = {name: [[result.scores[name].value for result in results] for results in bundles] for name in metrics}
    return Ranks(tuple(labels), len(bundles), tests_of(values))


def tests_of(values: Mapping[str, Sequence[Sequence[float | None]]]) -> dict[str, Friedman]:
    """Friedman's test of each metric's values (bundles, calibrators), where one end is good and none is missing."""
    tests = {}
    for name, rows in values.items():
        better, whole = metric(name).better, np.array(rows, dtype=np.float64)
        if better in ("low", "high") and not np.isnan(whole).any():
            outcome = friedman(whole if better == "low" else -whole)
            if outcome is not None:
                tests[name] = outcome
    return tests
