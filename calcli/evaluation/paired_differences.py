"""Differences between calibrators on the same rows, and ranks over several bundles."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from calcli.evaluation.results import Difference, Ranks, Result
from calcli.metrics.catalog import metric
from calcli.metrics.friedman import Friedman, friedman
from calcli.metrics.intervals import Interval, Mean, normal_quantile, t_interval, t_p_value
from calcli.statistics.paired import PairedSums, fair_signs, share_ends

FEW = "no bound: few rows carry the loss"


def differences(sums: Mapping[str, PairedSums], level: float) -> dict[str, Difference]:
    """Mean paired differences, this minus the baseline, with interval and two-sided p-value.

    Of losses by ``PairedSums.tails``, an end of the interval never nearer than Student's; of the accuracy McNemar's
    test and Tango's interval; of what no label decides Student's. Rows that do not differ at all give 0 with p = 1.
    """
    return {name: _difference(name, each, level) for name, each in sums.items()}


def _difference(name: str, sums: PairedSums, level: float) -> Difference:
    mean = Mean(*sums.student())
    se = mean.se if math.isfinite(mean.se) else None
    student = t_interval(mean, level)
    if not mean.n > 1.0:
        return Difference(mean.value, se, None, None)
    if not sums.observed[0, 2] > 0.0:
        return Difference(mean.value, se, student, 1.0)
    if name == "accuracy":
        low, high = share_ends(sums, normal_quantile(0.5 + level / 2.0))
        return Difference(mean.value, se, Interval(low, high, level, "Tango"), fair_signs(sums))
    if sums.expected is None or student is None:
        p = t_p_value(mean.value / mean.se if mean.se else math.inf, mean.n - 1.0)
        return Difference(mean.value, se, student, p)
    ends = sums.ends(level)
    if ends[0] is None or ends[1] is None:
        return Difference(mean.value, se, None, sums.tails().both, FEW)
    outer = Interval(min(ends[0], student.low), max(ends[1], student.high), level, "shifted Poisson")
    return Difference(mean.value, se, outer, sums.tails().both)


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
