"""Accuracy of the most confident rows: the risk-coverage curve read at one point, with intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.metrics.context import MetricContext, Value, metric
from calcli.metrics.intervals import Interval, exact_interval, exact_intervals
from calcli.numerics import AnyArray, FloatArray, starts_of_ties


@dataclass(frozen=True)
class Accepted:
    """Rows accepted at a confidence threshold: their number out of n, and how many are correct; or sums of weights."""

    threshold: float
    n: float
    accepted: float
    right: float

    @property
    def coverage(self) -> float:
        """Proportion of the rows that are accepted."""
        return self.accepted / self.n

    @property
    def accuracy(self) -> float:
        """Proportion of the accepted rows that are correct."""
        return self.right / self.accepted

    def tail(self, accuracy: float, alpha: float) -> float:
        """Binomial P(X >= right) at an accuracy of ``accuracy``; ``alpha`` is not used."""
        from scipy.special import bdtrc

        return (
            float(bdtrc(self.right - 1, self.accepted, accuracy)) if self.right else 1.0
        )

    def lower(self, alpha: float) -> float:
        """Lower end of the one-sided exact interval of the accuracy at level 1 - ``alpha`` (Clopper, Pearson 1934)."""
        from scipy.special import betaincinv

        return (
            float(betaincinv(self.right, self.accepted - self.right + 1, alpha))
            if self.right
            else 0.0
        )


@dataclass(frozen=True)
class AcceptanceCurve:
    """Distinct confidences as thresholds, highest first, with the numbers of rows accepted and correct at each, (g,);
    sums of weights where the rows have them."""

    threshold: FloatArray
    accepted: AnyArray
    right: AnyArray

    @classmethod
    def of(
        cls,
        confidence: FloatArray,
        correct: FloatArray,
        weight: FloatArray | None = None,
    ) -> "AcceptanceCurve":
        """Curve of rows with confidence, correct and weight (n,)."""
        order = np.argsort(-confidence, kind="stable")
        c = confidence[order]
        ends = (len(c) - 1 - starts_of_ties(c[::-1]))[
            ::-1
        ]  # last row of every distinct confidence
        if weight is None:
            return cls(
                c[ends], ends + 1, np.cumsum(correct[order] > 0, dtype=np.int64)[ends]
            )
        return cls(
            c[ends],
            np.cumsum(weight[order])[ends],
            np.cumsum((weight * correct)[order])[ends],
        )

    def at(self, j: int) -> Accepted:
        """Counts at threshold ``j``."""
        n, accepted, right = (
            self.accepted[-1].item(),
            self.accepted[j].item(),
            self.right[j].item(),
        )
        return Accepted(float(self.threshold[j]), n, accepted, right)

    def at_coverage(self, coverage: float) -> Accepted:
        """Counts at the highest threshold that has at least this coverage; ties are accepted together."""
        # a share such as 0.07 times 100 rows is 7.000000000000001
        return self.at(
            int(
                np.searchsorted(
                    self.accepted,
                    coverage * self.accepted[-1] * (1 - 1e-12),
                    side="left",
                )
            )
        )

    def at_accuracy(self, accuracy: float) -> Accepted | None:
        """Counts at the lowest threshold with this accuracy on these rows (no guarantee for others); None for none."""
        good = np.flatnonzero(self.right >= accuracy * self.accepted)
        return self.at(int(good[-1])) if len(good) else None

    def coverage_interval(
        self, accuracy: float, level: float = 0.95
    ) -> tuple[float, float]:
        """Confidence interval of the coverage of ``at_accuracy``, by inverting exact tests of the accuracy.

        Where the accuracy of the accepted crosses the target once, the test at the true coverage
        errs with probability 1 - level, so the set of coverages not rejected holds it with ``level``;
        returned is the part of that set around the estimate, from 0 where no coverage has the accuracy.
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


@metric(
    "coverage:0.8 label:top", "accuracy_at_coverage", better="high", argument="coverage"
)
def accuracy_at(context: MetricContext, coverage: float = 0.8) -> Value:
    """Accuracy of the most confident share of the rows, 0.8 of them or accuracy_at_coverage(SHARE).

    errors among the fewest most confident rows that are at least this share
    Reference: El-Yaniv, Wiener (2010); interval: Clopper, Pearson (1934)
    In tables: accuracy of the most confident rows, so many of them
    """
    t, level, signature = (
        context.table,
        context.settings.level,
        {"coverage": f"{_share(coverage, 'coverage'):g}"},
    )
    found = AcceptanceCurve.of(t.confidence, t.correct, t.weight).at_coverage(coverage)
    interval = None
    if t.weight is None and t.units is None:
        interval = Interval(
            *exact_interval(found.right, found.accepted, level),
            level,
            "clopper-pearson",
        )
    return _value(context, found.accuracy, found, interval, signature)


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
    t, level, signature = (
        context.table,
        context.settings.level,
        {"accuracy": f"{_share(accuracy, 'accuracy'):g}"},
    )
    curve = AcceptanceCurve.of(t.confidence, t.correct, t.weight)
    found, interval = curve.at_accuracy(accuracy), None
    if t.weight is None and t.units is None:
        interval = Interval(
            *curve.coverage_interval(accuracy, level), level, "inverted clopper-pearson"
        )
    return _value(
        context, 0.0 if found is None else found.coverage, found, interval, signature
    )


def _value(
    context: MetricContext,
    value: float,
    found: Accepted | None,
    interval: Interval | None,
    signature: dict[str, str],
) -> Value:
    """Value with its threshold and interval; no interval for rows in units, and neither with weights."""
    if context.table.weight is not None:
        return Value(value, signature=signature | {"share": "weight"})
    more: dict[str, Any] = (
        {}
        if found is None
        else {"threshold": found.threshold, "accepted": found.accepted}
    )
    if interval is None:
        more["ci_reason"] = (
            "its interval is exact for independent rows only: no interval with units"
        )
    return Value(value, interval=interval, signature=signature, more=more)
