"""Accuracy of the most confident rows, by the threshold that accepts them."""

from dataclasses import dataclass

import numpy as np

from calcli.numerics import AnyArray, FloatArray, starts_of_ties
from calcli.statistics.intervals import exact_intervals


@dataclass(frozen=True)
class Accepted:
    """Rows accepted at a confidence threshold: their number out of n, and how many are
    correct; or sums of weights.
    """

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
        """Lower end of the one-sided exact interval of the accuracy at level 1 -
        ``alpha`` (Clopper, Pearson 1934).
        """
        from scipy.special import betaincinv

        return (
            float(betaincinv(self.right, self.accepted - self.right + 1, alpha))
            if self.right
            else 0.0
        )


@dataclass(frozen=True)
class AcceptanceCurve:
    """Distinct confidences as thresholds, highest first, with the numbers of rows
    accepted and correct at each, (g,); sums of weights where the rows have them.
    """

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
        # last row of every distinct confidence
        ends = (len(c) - 1 - starts_of_ties(c[::-1]))[::-1]
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
        n = self.accepted[-1].item()
        accepted = self.accepted[j].item()
        right = self.right[j].item()
        return Accepted(float(self.threshold[j]), n, accepted, right)

    def at_coverage(self, coverage: float) -> Accepted:
        """Counts at the highest threshold that has at least this coverage; ties are
        accepted together.
        """
        # a share such as 0.07 times 100 rows is 7.000000000000001
        least = coverage * self.accepted[-1] * (1 - 1e-12)
        return self.at(int(np.searchsorted(self.accepted, least, side="left")))

    def at_accuracy(self, accuracy: float) -> Accepted | None:
        """Counts at the lowest threshold with this accuracy on these rows (no guarantee
        for others); None for none.
        """
        last = self._last_good(accuracy)
        return None if last is None else self.at(last)

    def _last_good(self, accuracy: float) -> int | None:
        """Index of the lowest threshold with this accuracy on these rows."""
        good = np.flatnonzero(self.right >= accuracy * self.accepted)
        return int(good[-1]) if len(good) else None

    def coverage_interval(
        self, accuracy: float, level: float = 0.95
    ) -> tuple[float, float]:
        """Confidence interval of the coverage of ``at_accuracy``, by inverting exact
        tests of the accuracy.

        Where the accuracy of the accepted crosses the target once, the test at the true
        coverage errs with probability 1 - level, so the set of coverages not rejected
        holds it with ``level``; returned is the part of that set around the estimate,
        from 0 where no coverage has the accuracy.
        """
        low, high = exact_intervals(self.right, self.accepted, level)
        refused = (low > accuracy) | (high < accuracy)
        # Coverage 0 comes before that of the first threshold.
        share = np.concatenate([[0.0], self.accepted / self.accepted[-1]])
        last = self._last_good(accuracy)
        n_good = 0 if last is None else last + 1
        refused_below = np.flatnonzero(refused[:n_good])
        refused_above = np.flatnonzero(refused[n_good:])
        start = 0
        if len(refused_below):
            start = int(refused_below[-1]) + 1
        end = len(refused)
        if len(refused_above):
            end = n_good + int(refused_above[0])
        return float(share[start]), float(share[end])
