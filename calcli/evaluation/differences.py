"""Paired differences between calibrators on the same rows, and ranks over bundles."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calcli.evaluation.facts import Difference
from calcli.evaluation.results import Ranks, Result
from calcli.metrics.catalog import metric
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import paired_columns, paired_sums
from calcli.statistics.friedman import Friedman, friedman
from calcli.statistics.intervals import (
    Interval,
    Mean,
    mean_of,
    normal_quantile,
    t_interval,
    t_p_value,
)
from calcli.statistics.paired import PairedSums, fair_signs, share_ends

NO_BOUND = "no bound: few rows carry the loss"
ROUNDING = 1e-13
"""Losses whose root-mean-square difference is below this differ by rounding alone."""


def compared(context: MetricContext, baseline: MetricContext) -> dict[str, Difference]:
    """Differences of the rows' losses to those under a baseline, by metric."""
    table = context.table
    by_unit = {}
    if table.units is not None:
        columns = paired_columns(context, baseline)
        by_unit = {
            name: mean_of(column, table.weight, table.units)
            for name, column in columns.items()
        }
    few = context.few_wrong or baseline.few_wrong
    sums = paired_sums(context, baseline)
    return differences(sums, context.settings.level, by_unit, few)


def differences(
    sums: Mapping[str, PairedSums],
    level: float,
    by_unit: Mapping[str, Mean] | None = None,
    few: str | None = None,
) -> dict[str, Difference]:
    """Mean paired differences with interval and two-sided p-value, by metric.

    Losses: ``PairedSums.tails``, the interval at least as wide as Student's on both
    sides and the p-value at least Student's. Accuracy: McNemar's test, Tango's
    interval, which has a length without a differing row too. Quantities without labels:
    Student's. Losses that differ by no more than rounding (``ROUNDING``) have p = 1.

    by_unit : means with standard errors clustered by unit; p-value and interval are
    then the more conservative of Student's over units and of those for rows. few : why
    units have no intervals.
    """
    changes = {}
    for name, of_loss in sums.items():
        difference = _difference(name, of_loss, level)
        if by_unit:
            difference = _over_units(difference, by_unit[name], level, few)
        changes[name] = difference
    return changes


def _difference(name: str, sums: PairedSums, level: float) -> Difference:
    """Difference of independent rows."""
    mean = Mean(*sums.student())
    answers = sums.signs if name == "accuracy" else None
    plain = Difference(
        value=mean.value,
        se=mean.se if math.isfinite(mean.se) else None,
        answers=answers,
    )
    if not mean.n > 1.0:
        return plain
    student = t_interval(mean, level)
    if name == "accuracy":
        low, high = share_ends(sums, normal_quantile(0.5 + level / 2.0))
        interval = Interval(low, high, level, "Tango")
        return replace(plain, interval=interval, p_value=fair_signs(sums))
    if not sums.observed[0, 2] > ROUNDING**2 * sums.observed[0, 0]:  # no row differs
        reason = None if student is not None else mean.lacks_rows
        return replace(plain, interval=student, p_value=1.0, reason=reason)
    if student is None:
        return replace(plain, reason=mean.lacks_rows)
    if sums.expected is None:
        return replace(plain, interval=student, p_value=_student_p_value(mean))
    low_end, high_end = sums.ends(level)
    p_value = max(sums.tails().both, _student_p_value(mean))
    if low_end is None or high_end is None:
        return replace(plain, p_value=p_value, reason=NO_BOUND)
    interval = Interval(
        min(low_end, student.low),
        max(high_end, student.high),
        level,
        "shifted Poisson",
    )
    return replace(plain, interval=interval, p_value=p_value)


def _student_p_value(mean: Mean) -> float:
    t = mean.value / mean.reach if mean.reach > 0.0 else math.inf
    return t_p_value(t, mean.freedom)


def _over_units(
    alone: Difference, mean: Mean, level: float, few: str | None
) -> Difference:
    """Adjust a difference of independent rows to sampling by unit."""
    interval = t_interval(mean, level)
    if few is not None or interval is None or alone.p_value is None:
        reason = few or "one unit: no interval"
        if few is None and mean.n > 1.0 and mean.lacks_rows is not None:
            reason = mean.lacks_rows
        return replace(alone, se=mean.se, interval=None, p_value=None, reason=reason)
    p_value = 1.0 if alone.value == 0.0 else _student_p_value(mean)
    if alone.interval is not None:
        interval = replace(
            interval,
            low=min(interval.low, alone.interval.low),
            high=max(interval.high, alone.interval.high),
        )
    return replace(
        alone,
        se=mean.se,
        interval=None if alone.reason else interval,
        p_value=max(p_value, alone.p_value),
    )


# ---- ranks over several bundles


def rank_table(
    bundles: Sequence[Sequence[Result]], labels: Sequence[str], metrics: Sequence[str]
) -> Ranks | None:
    """Average ranks of the calibrators over bundles, with the Friedman test by metric.

    bundles : per bundle its results, in the order of ``labels``. Metrics without a
    better direction, or undefined in some result, are left out. None for fewer than
    two bundles or two calibrators.
    """
    if len(bundles) < 2 or len(labels) < 2:
        return None

    def value_of(name: str, bundle: int, version: int) -> float | None:
        return bundles[bundle][version].scores[name].value

    shape = (len(bundles), len(labels))
    return Ranks(tuple(labels), len(bundles), friedman_tests(metrics, shape, value_of))


def friedman_tests(
    names: Sequence[str],
    shape: tuple[int, int],
    value_of: Callable[[str, int, int], float | None],
) -> dict[str, Friedman]:
    """Friedman's test per metric of a table of bundles and calibrators.

    shape : numbers of bundles and calibrators. value_of : by name, bundle and
    calibrator. Metrics without a better direction, or with a missing value, are left
    out.
    """
    tests = {}
    for name in names:
        better = metric(name).better
        if better not in ("low", "high"):
            continue
        values = np.full(shape, np.nan)
        for bundle, version in np.ndindex(shape):
            value = value_of(name, bundle, version)
            if value is not None:
                values[bundle, version] = value
        if np.isnan(values).any():
            continue
        if better == "high":
            values = -values
        test = friedman(values)
        if test is not None:
            tests[name] = test
    return tests
