"""Net benefit of acting where P(class 1) reaches a threshold: decision curves.

Whoever acts from a risk of t on weighs a needless action as t / (1 - t) of a missed
one. Net benefit counts in rows of class 1 that are acted on, per row: TP / n - (FP / n)
t / (1 - t). "Treat all" acts on every row, "treat none" on no row and has net benefit
0.

Reference: Vickers, Elkin (2006), Medical Decision Making 26, 565-574.
"""

from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, row_weights
from calcli.statistics.intervals import wilson_interval


def row_benefit(risk: FloatArray, outcome: FloatArray, threshold: float) -> FloatArray:
    """Contribution of every row to the net benefit, (n,): its mean is the net benefit.

    risk : (n,) P(class 1). outcome : (n,) 0 or 1.
    """
    odds = threshold / (1.0 - threshold)
    return np.where(risk >= threshold, outcome - odds * (1.0 - outcome), 0.0)


def benefit_of_all(frequency: float, threshold: float) -> float:
    """Net benefit of acting on every row. frequency : of class 1."""
    return frequency - (1.0 - frequency) * threshold / (1.0 - threshold)


def _sums_from(values: FloatArray) -> FloatArray:
    """Sums of the values (n,) from each place on, and of none, (n + 1,).

    Added from the end: a difference of sums may round to less than 0.
    """
    return np.concatenate([np.cumsum(values[::-1])[::-1], [0.0]])


@dataclass(frozen=True)
class DecisionCurve:
    """Shares of rows that are acted on rightly and wrongly at thresholds, (t,) each.

    true_positives, false_positives : of all rows, by weight. frequency : of class 1.
    """

    threshold: FloatArray
    true_positives: FloatArray
    false_positives: FloatArray
    frequency: float

    @classmethod
    def of(
        cls,
        risk: FloatArray,
        outcome: FloatArray,
        thresholds: FloatArray,
        weight: FloatArray | None = None,
    ) -> "DecisionCurve":
        """Measure rows. risk, outcome : (n,). thresholds : (t,) within (0, 1)."""
        w = row_weights(weight, len(risk))
        order = np.argsort(risk, kind="stable")
        ones = _sums_from((w * outcome)[order])
        zeros = _sums_from((w * (1.0 - outcome))[order])
        total = ones[0] + zeros[0]
        first = np.searchsorted(risk[order], thresholds)
        return cls(
            threshold=thresholds,
            true_positives=ones[first] / total,
            false_positives=zeros[first] / total,
            frequency=float(ones[0] / total),
        )

    @property
    def odds(self) -> FloatArray:
        """Weight of a needless action, in missed ones, (t,)."""
        return self.threshold / (1.0 - self.threshold)

    @property
    def benefit(self) -> FloatArray:
        """Net benefit at every threshold, (t,)."""
        return self.true_positives - self.odds * self.false_positives

    @property
    def treat_all(self) -> FloatArray:
        """Net benefit of acting on every row, (t,)."""
        return self.frequency - (1.0 - self.frequency) * self.odds


SMALLEST_SHARE = 1e-300  # of a share that is not 0


def benefit_interval(
    hits: FloatArray,
    false_alarms: FloatArray,
    odds: FloatArray,
    rows: FloatArray,
    level: float,
) -> tuple[FloatArray, FloatArray]:
    """Ends of the interval of the net benefit hits - odds * false_alarms, (…,) each.

    hits, false_alarms : shares of ``rows`` rows. From Wilson's intervals of both, with
    their correlation as of a multinomial.
    Reference: Zou, Donner (2008), Statistics in Medicine 27, 1693-1702.
    """
    value = hits - odds * false_alarms
    hits_low, hits_high = wilson_interval(hits, rows, level)
    alarms_low, alarms_high = wilson_interval(false_alarms, rows, level)
    others = np.maximum((1.0 - hits) * (1.0 - false_alarms), hits * false_alarms)
    correlation = -np.sqrt(hits * false_alarms / np.maximum(others, SMALLEST_SHARE))

    def reach(of_hits: FloatArray, of_alarms: FloatArray) -> FloatArray:
        joint = 2.0 * correlation * of_hits * of_alarms
        return np.sqrt(of_hits**2 + of_alarms**2 - joint)

    low = value - reach(hits - hits_low, odds * (alarms_high - false_alarms))
    high = value + reach(hits_high - hits, odds * (false_alarms - alarms_low))
    return low, high
