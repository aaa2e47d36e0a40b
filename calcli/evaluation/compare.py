"""Differences between calibrators on the same rows, and ranks over several bundles."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calcli.metrics.catalog import metric
from calcli.metrics.context import Scope
from calcli.metrics.friedman import friedman
from calcli.metrics.losses import resampled
from calcli.metrics.means import bootstrap_interval, mean_of, t_interval, t_p_value
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray

__all__ = ["LOSSES", "differences", "rank_table"]

LOSSES = ("accuracy", "nll", "brier", "brier_top", "mean_confidence")
"""What is compared row by row."""


def _losses(table: RowTable) -> dict[str, FloatArray]:
    return {
        "accuracy": table.correct,
        "nll": table.nll,
        "brier": table.brier,
        "brier_top": table.brier_top,
        "mean_confidence": table.confidence,
    }


def differences(table: RowTable, baseline: RowTable, scope: Scope) -> dict[str, dict[str, Any]]:
    """Mean paired differences, this minus the baseline, with interval and two-sided p-value.

    Rows whose losses do not differ at all give 0 with p = 1. Intervals are bootstrap-t or
    t as for the losses themselves; p-values are those of the paired t-test.
    """
    own, other = _losses(table), _losses(baseline)
    columns = np.stack([own[name] - other[name] for name in LOSSES], axis=1)
    level = scope.settings.level
    if resampled(scope):
        intervals = list(bootstrap_interval(columns, level, scope.settings.resamples, scope.rng("paired")))
    else:
        intervals = []
    out: dict[str, dict[str, Any]] = {}
    for j, name in enumerate(LOSSES):
        mean = mean_of(columns[:, j], table.weight)
        interval = intervals[j] if intervals else t_interval(mean, level)
        out[name] = {"value": mean.value, "se": mean.se if np.isfinite(mean.se) else None}
        if interval is not None:
            out[name] |= {"ci": [interval.low, interval.high], "ci_level": level, "ci_method": interval.method}
        if mean.n > 1:
            same = not columns[:, j].any()
            out[name]["p_value"] = 1.0 if same else t_p_value(mean.value / mean.se if mean.se else np.inf, mean.n - 1)
    return out


def rank_table(
    bundles: Sequence[Sequence[Mapping[str, Any]]], labels: Sequence[str], metrics: Sequence[str]
) -> dict[str, Any] | None:
    """Average ranks of the calibrators over bundles, with the Friedman test, metric by metric.

    bundles : per bundle its results, in the order of ``labels``. Metrics that are not
    losses, or that some result does not define, are left out. None for fewer than two
    bundles or two calibrators.
    """
    if len(bundles) < 2 or len(labels) < 2:
        return None
    tests = {}
    for name in metrics:
        better = metric(name).better
        values = [[result["metrics"][name]["value"] for result in results] for results in bundles]
        if better is None or any(v is None for row in values for v in row):
            continue
        outcome = friedman(np.array(values) * (1.0 if better == "low" else -1.0))
        if outcome is None:
            continue
        tests[name] = {
            "ranks": outcome.ranks.tolist(),
            "chi2": outcome.chi2,
            "p_value": outcome.p_value,
            "iman_davenport_f": outcome.f,
            "iman_davenport_p_value": outcome.f_p_value,
        }
    return {"calibrators": list(labels), "n_bundles": len(bundles), "metrics": tests}
