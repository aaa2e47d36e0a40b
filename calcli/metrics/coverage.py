"""Accuracy of the most confident rows: the risk-coverage curve read at one point, with intervals."""

from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.metrics.context import TOP, MetricContext, Value, metric
from calcli.metrics.intervals import Interval, exact_interval, exact_intervals
from calcli.numerics import AnyArray, FloatArray, starts_of_ties


@dataclass(frozen=True)
class Accepted:
    """The rows of at least this confidence: how many of n, and how many of them are right."""

    threshold: float
    n: int
    accepted: int
    right: int

    @property
    def coverage(self) -> float:
        """Share of the rows that are accepted."""
        return self.accepted / self.n

    @property
    def accuracy(self) -> float:
        """Share of the accepted that are right."""
        return self.right / self.accepted


@dataclass(frozen=True)
class AcceptanceCurve:
    """Every distinct confidence as a threshold, the highest first; rows accepted and right at each, (g,), or where they
    have weights the sums of these."""

    threshold: FloatArray
    accepted: AnyArray
    right: AnyArray

    @classmethod
    def of(cls, confidence: FloatArray, correct: FloatArray, weight: FloatArray | None = None) -> "AcceptanceCurve":
        """The curve of rows, confidence, correct and weight (n,)."""
        order = np.argsort(-confidence, kind="stable")
        c = confidence[order]
        ends = (len(c) - 1 - starts_of_ties(c[::-1]))[::-1]  # the last place of every distinct confidence
        if weight is None:
            return cls(c[ends], ends + 1, np.cumsum(correct[order] > 0, dtype=np.int64)[ends])
        return cls(c[ends], np.cumsum(weight[order])[ends], np.cumsum((weight * correct)[order])[ends])

    def at(self, j: int) -> Accepted:
        """One threshold."""
        n = int(self.accepted[-1])
        return Accepted(float(self.threshold[j]), n, int(self.accepted[j]), int(self.right[j]))


def accuracy_at_coverage(confidence: FloatArray, correct: FloatArray, coverage: float) -> Accepted:
    """The fewest of the most confident rows that are at least this share; ties are accepted together."""
    curve = AcceptanceCurve.of(confidence, correct)
    # a share such as 0.07 times 100 rows is 7.000000000000001
    return curve.at(int(np.searchsorted(curve.accepted, coverage * len(confidence) - 1e-9, side="left")))


def coverage_at_accuracy(confidence: FloatArray, correct: FloatArray, accuracy: float) -> Accepted | None:
    """The most rows whose accuracy, on these rows, is at least this; without any guarantee for others."""
    curve = AcceptanceCurve.of(confidence, correct)
    good = np.flatnonzero(curve.right >= accuracy * curve.accepted)
    return curve.at(int(good[-1])) if len(good) else None


def coverage_interval(
    confidence: FloatArray, correct: FloatArray, accuracy: float, level: float = 0.95
) -> tuple[float, float]:
    """The coverages around ``coverage_at_accuracy`` at which an exact test does not refuse this accuracy.

    Where the accuracy of the accepted crosses the target once, the test at the true coverage
    errs with chance 1 - level, so that the set of those not refused holds it with ``level``;
    of that set the piece around the estimate is given, 0 to something where no coverage has it.
    """
    curve = AcceptanceCurve.of(confidence, correct)
    low, high = exact_intervals(curve.right, curve.accepted, level)
    good = np.flatnonzero(curve.right >= accuracy * curve.accepted)
    share = curve.accepted / len(confidence)
    refused = (low > accuracy) | (high < accuracy)
    here = int(good[-1]) if len(good) else -1
    below = np.flatnonzero(refused[: here + 1])
    above = np.flatnonzero(refused[here + 1 :])
    start = float(share[below[-1]]) if len(below) else 0.0
    end = here + int(above[0]) if len(above) else len(share) - 1
    return start, float(share[end]) if end >= 0 else 0.0


def _share(value: float, name: str) -> float:
    if not 0 < value <= 1:
        raise UsageError(f"{name} is {value:g}, expected a number above 0, at most 1")
    return value


@metric(
    "accuracy_at_coverage",
    "Accuracy of the most confident share of the rows, 0.8 of them or accuracy_at_coverage(SHARE)",
    "errors among the fewest most confident rows that are at least this share",
    reference="El-Yaniv, Wiener (2010); interval: Clopper, Pearson (1934)",
    better="high",
    signature=(("coverage", "0.8"), *TOP),
    argument="coverage",
    meaning="accuracy of the most confident rows, so many of them",
)
def accuracy_at(context: MetricContext, coverage: float = 0.8) -> Value:
    t, signature = context.table, {"coverage": f"{_share(coverage, 'coverage'):g}"}
    if t.weight is not None:
        curve = AcceptanceCurve.of(t.confidence, t.correct, t.weight)
        j = np.searchsorted(curve.accepted, coverage * curve.accepted[-1] * (1 - 1e-12), side="left")
        return Value(float(curve.right[j] / curve.accepted[j]), signature=signature | {"share": "weight"})
    found, level = accuracy_at_coverage(t.confidence, t.correct, coverage), context.settings.level
    interval = None
    if t.units is None:
        interval = Interval(*exact_interval(found.right, found.accepted, level), level, "clopper-pearson")
    return _value(found.accuracy, found, interval, signature)


@metric(
    "coverage_at_accuracy",
    "Largest share of the rows, most confident first, of which 0.95 are right, or coverage_at_accuracy(SHARE)",
    "most rows / n whose accuracy is at least this, in the order of the confidence",
    reference="El-Yaniv, Wiener (2010); interval: inverted tests of Clopper, Pearson (1934)",
    better="high",
    signature=(("accuracy", "0.95"), *TOP),
    argument="accuracy",
    meaning="share of the rows, most confident first, that is so accurate",
)
def coverage_at(context: MetricContext, accuracy: float = 0.95) -> Value:
    t, signature = context.table, {"accuracy": f"{_share(accuracy, 'accuracy'):g}"}
    if t.weight is not None:
        curve = AcceptanceCurve.of(t.confidence, t.correct, t.weight)
        good = curve.accepted[curve.right >= accuracy * curve.accepted]
        value = float(good[-1] / curve.accepted[-1]) if len(good) else 0.0
        return Value(value, signature=signature | {"share": "weight"})
    found, level = coverage_at_accuracy(t.confidence, t.correct, accuracy), context.settings.level
    interval = None
    if t.units is None:
        ends_at = coverage_interval(t.confidence, t.correct, accuracy, level)
        interval = Interval(*ends_at, level, "inverted clopper-pearson")
    return _value(0.0 if found is None else found.coverage, found, interval, signature)


def _value(value: float, found: Accepted | None, interval: Interval | None, signature: dict[str, str]) -> Value:
    """What was found, and at which threshold; without an interval of rows in units."""
    more: dict[str, Any] = {} if found is None else {"threshold": found.threshold, "accepted": found.accepted}
    if interval is None:
        more["ci_reason"] = "its interval is exact for independent rows only: no interval with units"
    return Value(value, interval=interval, signature=signature, more=more)
