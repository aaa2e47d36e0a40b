"""Net benefit of acting where P(class 1) reaches a threshold: decision curves.

Whoever acts from a risk of t on weighs a needless action as t / (1 - t) of a missed
one. Net benefit counts in rows of class 1 that are acted on, per row: TP / n - (FP / n)
t / (1 - t). "Treat all" acts on every row, "treat none" on no row and has net benefit 0.

Reference: Vickers, Elkin (2006), Medical Decision Making 26, 565-574.
"""

import numpy as np

from calcli.fast_dataclass import dataclass
from calcli.numerics import FloatArray


def row_benefit(risk: FloatArray, outcome: FloatArray, threshold: float) -> FloatArray:
    """Contribution of every row to the net benefit, (n,): its mean is the net benefit.

    risk : (n,) P(class 1). outcome : (n,) 0 or 1.
    """
    odds = threshold / (1.0 - threshold)
    return np.where(risk >= threshold, outcome - odds * (1.0 - outcome), 0.0)


def benefit_of_all(frequency: float, threshold: float) -> float:
    """Net benefit of acting on every row. frequency : of class 1."""
    return frequency - (1.0 - frequency) * threshold / (1.0 - threshold)


@dataclass(frozen=True)
class DecisionCurve:
    """Net benefit at some thresholds, (t,) each, with that of treating all rows.

    frequency : of class 1.
    """

    threshold: FloatArray
    benefit: FloatArray
    treat_all: FloatArray
    frequency: float


def decision_curve(
    risk: FloatArray,
    outcome: FloatArray,
    thresholds: FloatArray,
    weight: FloatArray | None = None,
) -> DecisionCurve:
    """Net benefit at every threshold. risk, outcome : (n,). thresholds : within (0, 1)."""
    w = np.ones(len(risk)) if weight is None else weight
    order = np.argsort(risk, kind="stable")
    ones = np.concatenate([[0.0], np.cumsum((w * outcome)[order])])
    rows = np.concatenate([[0.0], np.cumsum(w[order])])
    below = np.searchsorted(risk[order], thresholds)  # rows that are not acted on
    true_positives = (ones[-1] - ones[below]) / rows[-1]
    acted_on = (rows[-1] - rows[below]) / rows[-1]
    odds = thresholds / (1.0 - thresholds)
    frequency = float(ones[-1] / rows[-1])
    return DecisionCurve(
        threshold=thresholds,
        benefit=true_positives - odds * (acted_on - true_positives),
        treat_all=frequency - (1.0 - frequency) * odds,
        frequency=frequency,
    )
