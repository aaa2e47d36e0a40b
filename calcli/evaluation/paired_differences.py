"""Differences between calibrators on the same rows, and ranks over several bundles."""

from collections.abc import Mapping, Sequence

import numpy as np

from calcli.evaluation.results import Difference, Ranks, Result
from calcli.metrics.catalog import metric
from calcli.metrics.context import MetricContext
from calcli.metrics.friedman import Friedman, friedman
from calcli.metrics.intervals import Mean, bootstrap_interval, mean_of, t_interval, t_p_value
from calcli.metrics.losses import compared_losses, resampled
from calcli.metrics.out_of_core import LongContext


def differences(context: MetricContext, baseline: MetricContext) -> dict[str, Difference]:
    """Mean paired differences, this minus the baseline, with interval and two-sided p-value.

    Rows whose losses do not differ at all give 0 with p = 1. Intervals are bootstrap-t or
    t as for the losses themselves; p-values are those of the paired t-test.
    """
    losses = compared_losses(context.table.k)
    columns = np.stack([rows(context) - rows(baseline) for rows in losses.values()], axis=1)
    s = context.settings
    intervals = bootstrap_interval(columns, s.level, s.resamples, context.rng("paired")) if resampled(context) else []
    out = {}
    for j, name in enumerate(losses):
        mean = mean_of(columns[:, j], context.table.weight)
        p = _p_value(mean, same=not columns[:, j].any()) if mean.n > 1 else None
        interval = intervals[j] if intervals else t_interval(mean, s.level)
        out[name] = Difference(mean.value, mean.se if np.isfinite(mean.se) else None, interval, p)
    return out


def differences_of(context: LongContext) -> dict[str, Difference]:
    """The same to the first set of rows, of so many that intervals and p-values are those of the paired t-test."""
    out = {}
    for name, moments in context.tally.paired.items():
        mean = moments.as_mean
        p = _p_value(mean, same=mean.value == 0 and mean.se == 0)
        out[name] = Difference(mean.value, mean.se, t_interval(mean, context.settings.level), p)
    return out


def _p_value(mean: Mean, same: bool) -> float:
    """Of the paired t-test; 1 where no row differs."""
    return 1.0 if same else t_p_value(mean.value / mean.se if mean.se else np.inf, mean.n - 1)


def rank_table(bundles: Sequence[Sequence[Result]], labels: Sequence[str], metrics: Sequence[str]) -> Ranks | None:
    """Average ranks of the calibrators over bundles, with the Friedman test, metric by metric.

    bundles : per bundle its results, in the order of ``labels``. Metrics of which neither
    end is good, or that some result does not define, are left out. None for fewer than two
    bundles or two calibrators.
    """
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
