"""Means of per-row losses as metrics, with their standard errors and intervals."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calcli.metrics.context import Scope, Value
from calcli.metrics.means import (
    BOOTSTRAP_WORK,
    Interval,
    bootstrap_interval,
    mean_of,
    normal_quantile,
    t_interval,
    wilson_interval,
)
from calcli.metrics.nulls import Null
from calcli.metrics.rowtable import RowTable
from calcli.metrics.significance import confidence_direction, entropy_direction
from calcli.numerics import FloatArray


def row_mean(scope: Scope, name: str, values: FloatArray) -> Value:
    """Mean of one number per row, with its interval."""
    mean = mean_of(values, scope.table.weight)
    interval = row_interval(scope, name, values)
    return Value(mean.value, se=_finite(mean.se), interval=interval)


def row_interval(scope: Scope, name: str, values: FloatArray) -> Interval | None:
    """Interval of the mean of one number per row: bootstrap-t, or Student's t when that is as good.

    ``auto`` resamples up to five million rows x resamples; beyond, the means are normal.
    Weighted means always take t.
    """
    if not resampled(scope):
        return t_interval(mean_of(values, scope.table.weight), scope.settings.level)
    if name not in USUAL:
        return _bootstrap(scope, values[:, None])[0]
    # The usual losses share their resamples, which cost more than the sums.
    shared = scope.once(
        ("bootstrap",), lambda: _bootstrap(scope, np.stack([column(scope.table) for column in USUAL.values()], axis=1))
    )
    interval: Interval = shared[list(USUAL).index(name)]
    return interval


def resampled(scope: Scope) -> bool:
    """Are the intervals of row means bootstrapped?"""
    s, n = scope.settings, scope.table.n
    wanted = s.interval == "bootstrap" or (s.interval == "auto" and n * s.resamples <= BOOTSTRAP_WORK)
    return n > 2 and wanted and scope.table.weight is None and s.resamples > 1


def _bootstrap(scope: Scope, columns: FloatArray) -> list[Interval]:
    return bootstrap_interval(columns, scope.settings.level, scope.settings.resamples, scope.rng("bootstrap"))


USUAL: dict[str, Callable[[RowTable], FloatArray]] = {
    "nll": lambda t: t.nll,
    "brier": lambda t: t.brier,
    "brier_top": lambda t: t.brier_top,
    "mean_confidence": lambda t: t.confidence,
    "gap": lambda t: t.confidence - t.correct,
    "entropy_gap": lambda t: t.nll - t.entropy,
}
"""Losses that nearly every report asks for."""


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def accuracy(scope: Scope) -> Value:
    t = scope.table
    mean = mean_of(t.correct, t.weight)
    return Value(mean.value, se=_finite(mean.se), interval=wilson_interval(mean.value, mean.n, scope.settings.level))


def nll(scope: Scope) -> Value:
    t = scope.table
    value = row_mean(scope, "nll", t.nll)
    direction = entropy_direction(t)
    assert value.value is not None
    expected = value.value - direction.gap
    sd = direction.gap / direction.z if direction.z and math.isfinite(direction.z) else 0.0
    null = Null(expected, expected + normal_quantile(0.95) * abs(sd), direction.p_value, 0)
    more: dict[str, Any] = {"clipped": t.clipped}
    return Value(value.value, se=value.se, interval=value.interval, null=null, more=more)


def brier(scope: Scope) -> Value:
    return row_mean(scope, "brier", scope.table.brier)


def brier_top(scope: Scope) -> Value:
    return row_mean(scope, "brier_top", scope.table.brier_top)


def mean_confidence(scope: Scope) -> Value:
    return row_mean(scope, "mean_confidence", scope.table.confidence)


def confidence_variance(scope: Scope) -> Value:
    t = scope.table
    mean = mean_of(t.confidence, t.weight).value
    return Value(mean_of((t.confidence - mean) ** 2, t.weight).value)


def confidence_gap(scope: Scope) -> Value:
    t = scope.table
    value = row_mean(scope, "gap", t.confidence - t.correct)
    direction = confidence_direction(t)
    return Value(
        value.value, se=value.se, interval=value.interval, p_value=direction.p_value, more={"z": _finite(direction.z)}
    )


def entropy_gap(scope: Scope) -> Value:
    t = scope.table
    value = row_mean(scope, "entropy_gap", t.nll - t.entropy)
    direction = entropy_direction(t)
    return Value(
        value.value, se=value.se, interval=value.interval, p_value=direction.p_value, more={"z": _finite(direction.z)}
    )


def top_gap(j: int) -> Callable[[Scope], Value]:
    """Mean mass of the j largest classes minus top-j accuracy."""

    def measured(scope: Scope) -> Value:
        t = scope.table
        if j >= t.k:
            return Value.undefined(f"there are only {t.k} classes")
        if j not in t.tops:
            return Value.undefined("the largest classes were not gathered here")
        mass, hit = t.tops[j]
        value = row_mean(scope, f"top{j}", mass - hit)
        more = {"mass": mean_of(mass, t.weight).value, "accuracy": mean_of(hit, t.weight).value}
        return Value(value.value, se=value.se, interval=value.interval, more=more)

    return measured
