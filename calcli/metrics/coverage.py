"""Accuracy of the most confident rows: the risk-coverage curve read at one point, with
intervals.
"""

from typing import Any

from calcli.errors import UsageError
from calcli.metrics.context import MetricContext
from calcli.metrics.registry import metric
from calcli.metrics.values import Value
from calcli.statistics.acceptance import AcceptanceCurve, Accepted
from calcli.statistics.intervals import Interval, exact_interval


@metric(
    "coverage:0.8 label:top", "accuracy_at_coverage", better="high", argument="coverage"
)
def accuracy_at(context: MetricContext, coverage: float = 0.8) -> Value:
    """Accuracy of the most confident share of the rows, 0.8 of them or accuracy_at_coverage(SHARE).

    errors among the fewest most confident rows that are at least this share
    Reference: El-Yaniv, Wiener (2010); interval: Clopper, Pearson (1934)
    In tables: accuracy of the most confident rows, so many of them
    """
    level = context.settings.level
    signature = {"coverage": f"{_share(coverage, 'coverage'):g}"}
    accepted = _curve_of(context).at_coverage(coverage)
    interval = None
    if context.has_plain_rows:
        low, high = exact_interval(accepted.right, accepted.accepted, level)
        interval = Interval(low, high, level, "clopper-pearson")
    return _value(context, accepted.accuracy, accepted, interval, signature)


@metric(
    "accuracy:0.95 label:top",
    "coverage_at_accuracy",
    better="high",
    argument="accuracy",
)
def coverage_at(context: MetricContext, accuracy: float = 0.95) -> Value:
    """Largest share of the rows, most confident first, of which 0.95 are right, or coverage_at_accuracy(SHARE).

    most rows / n whose accuracy is at least this, in the order of the confidence
    Reference: El-Yaniv, Wiener (2010); interval: inverted tests of Clopper, Pearson (1934)
    In tables: share of the rows, most confident first, that is so accurate
    """
    level = context.settings.level
    signature = {"accuracy": f"{_share(accuracy, 'accuracy'):g}"}
    curve = _curve_of(context)
    accepted = curve.at_accuracy(accuracy)
    share = 0.0 if accepted is None else accepted.coverage
    interval = None
    if context.has_plain_rows:
        low, high = curve.coverage_interval(accuracy, level)
        interval = Interval(low, high, level, "inverted clopper-pearson")
    return _value(context, share, accepted, interval, signature)


def _curve_of(context: MetricContext) -> AcceptanceCurve:
    """Rows by falling confidence."""
    t = context.table
    return AcceptanceCurve.of(t.confidence, t.correct, t.weight)


def _value(
    context: MetricContext,
    value: float,
    accepted: Accepted | None,
    interval: Interval | None,
    signature: dict[str, str],
) -> Value:
    """Value with its threshold and interval; no interval for rows in units, and neither
    with weights.
    """
    if context.table.weight is not None:
        return Value(value, signature=signature | {"share": "weight"})
    more: dict[str, Any] = {}
    if accepted is not None:
        more["threshold"] = accepted.threshold
        more["accepted"] = accepted.accepted
    if interval is None:
        more["ci_reason"] = (
            "its interval is exact for independent rows only: no interval with units"
        )
    return Value(value, interval=interval, signature=signature, more=more)


def _share(value: float, name: str) -> float:
    """Check a proportion. Raises UsageError."""
    if not 0 < value <= 1:
        raise UsageError(f"{name} is {value:g}, expected a number above 0, at most 1")
    return value
