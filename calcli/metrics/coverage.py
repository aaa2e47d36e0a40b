"""Accuracy of the most confident rows: the risk-coverage curve read at one point, with intervals."""

from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.metrics.context import MetricContext, Value, metric
from calcli.metrics.intervals import Interval, exact_interval, exact_intervals
from calcli.numerics import AnyArray, FloatArray, starts_of_ties


@dataclass(frozen=True)
class Accepted:
    """The rows of at least this confidence: how many of n, and how many of them are right, or the weights of these."""

    threshold: float
    n: float
    accepted: float
    right: float

    @property
    def coverage(self) -> float:
        """Share of the rows that are accepted."""
        return self.accepted / self.n

    @property
    def accuracy(self) -> float:
        """Share of the accepted that are right."""
        return self.right / self.accepted

    def tail(self, accuracy: float, alpha: float) -> float:
        """Chance of at least so many right answers when each has the chance ``accuracy``; it depends on no level."""
        from scipy.special import bdtrc

        return float(bdtrc(self.right - 1, self.accepted, accuracy)) if self.right else 1.0

    def lower(self, alpha: float) -> float:
        """The least accuracy that a one-sided exact test at ``alpha`` does not refuse (Clopper, Pearson 1934)."""
        from scipy.special import betaincinv

        return float(betaincinv(self.right, self.accepted - self.right + 1, alpha)) if self.right else 0.0


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
        n, accepted, right = self.accepted[-1].item(), self.accepted[j].item(), self.right[j].item()
        return Accepted(float(self.threshold[j]), n, accepted, right)

    def at_coverage(self, coverage: float) -> Accepted:
        """The fewest of the most confident rows that are at least this share; ties are accepted together."""
        # a share such as 0.07 times 100 rows is 7.000000000000001
        return self.at(int(np.searchsorted(self.accepted, coverage * self.accepted[-1] * (1 - 1e-12), side="left")))

    def at_accuracy(self, accuracy: float) -> Accepted | None:
        """The most rows whose accuracy, on these rows, is at least this; without any guarantee for others."""
        good = np.flatnonzero(self.right >= accuracy * self.accepted)
        return self.at(int(good[-1])) if len(good) else None

    def coverage_interval(self, accuracy: float, level: float = 0.95) -> tuple[float, float]:
        """The coverages around ``at_accuracy`` at which an exact test does not refuse this accuracy.

        Where the accuracy of the accepted crosses the target once, the test at the true coverage
        errs with chance 1 - level, so that the set of those not refused holds it with ``level``;
        of that set the piece around the estimate is given, 0 to something where no coverage has it.
        """
        low, high = exact_intervals(self.right, self.accepted, level)
        good = np.flatnonzero(self.right >= accuracy * self.accepted)
        share = self.accepted / self.accepted[-1]
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


@metric("coverage:0.8 label:top", "accuracy_at_coverage", better="high", argument="coverage")
def accuracy_at(context: MetricContext, coverage: float = 0.8) -> Value:
    """Accuracy of the most confident share of the rows, 0.8 of them or accuracy_at_coverage(SHARE).

    errors among the fewest most confident rows that are at least this share
    Reference: El-Yaniv, Wiener (2010); interval: Clopper, Pearson (1934)
    In tables: accuracy of the most confident rows, so many of them
    """
    t, level, signature = context.table, context.settings.level, {"coverage": f"{_share(coverage, 'coverage'):g}"}
    found = AcceptanceCurve.of(t.confidence, t.correct, t.weight).at_coverage(coverage)
    interval = None
    if t.weight is None and t.units is None:
        interval = Interval(*exact_interval(found.right, found.accepted, level), level, "clopper-pearson")
    return _value(context, found.accuracy, found, interval, signature)


@metric("accuracy:0.95 label:top", "coverage_at_accuracy", better="high", argument="accuracy")
def coverage_at(context: MetricContext, accuracy: float = 0.95) -> Value:
    """Largest share of the rows, most confident first, of which 0.95 are right, or coverage_at_accuracy(SHARE).

    most rows / n whose accuracy is at least this, in the order of the confidence
    Reference: El-Yaniv, Wiener (2010); interval: inverted tests of Clopper, Pearson (1934)
    In tables: share of the rows, most confident first, that is so accurate
    """
    t, level, signature = context.table, context.settings.level, {"accuracy": f"{_share(accuracy, 'accuracy'):g}"}
    curve = AcceptanceCurve.of(t.confidence, t.correct, t.weight)
    found, interval = curve.at_accuracy(accuracy), None
    if t.weight is None and t.units is None:
        interval = Interval(*curve.coverage_interval(accuracy, level), level, "inverted clopper-pearson")
    return _value(context, 0.0 if found is None else found.coverage, found, interval, signature)


def _value(
    context: MetricContext, value: float, found: Accepted | None, interval: Interval | None, signature: dict[str, str]
) -> Value:
    """What was found, and at which threshold; without an interval of rows in units, nor either with weights."""
    if context.table.weight is not None:
        return Value(value, signature=signature | {"share": "weight"})
    more: dict[str, Any] = {} if found is None else {"threshold": found.threshold, "accepted": found.accepted}
    if interval is None:
        more["ci_reason"] = "its interval is exact for independent rows only: no interval with units"
    return Value(value, interval=interval, signature=signature, more=more)
