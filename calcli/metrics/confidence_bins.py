"""Accuracy by bins of confidence that people ask about, each with the p-value of its
gap.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calcli.binning import BinStats, bin_index
from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.settings import Label
from calcli.numerics import FloatArray
from calcli.statistics.intervals import wilson_interval
from calcli.statistics.nulls import EXACT_ROWS
from calcli.statistics.p_values import (
    FEW_OUTCOMES,
    MeanGap,
    adjusted,
    exact_p_value,
    rarer_p_value,
    sum_p_value,
)
from calcli.statistics.shared_luck import effects_of_bins

# tens of percent, and the last one by itself
EDGES = np.array([*np.arange(0, 10) / 10, 0.99, 1.0])


@dataclass(frozen=True)
class ConfidenceBin:
    """Rows whose confidence lies in (low, high], 0 in the first.

    confidence : mean. accuracy, accuracy_low, accuracy_high : with its interval
    (Wilson's). p_adjusted : of their difference, all bins considered (Benjamini and
    Hochberg); significant : as the verdict decides. chosen_low, chosen_high : interval
    of the accuracy if this bin is chosen for its gap: all bins hold theirs together
    (Bonferroni). NaN where n is 0.
    """

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    p_adjusted: float
    significant: bool
    chosen_low: float
    chosen_high: float

    @property
    def gap(self) -> float:
        """Overconfidence: mean confidence minus accuracy."""
        return self.confidence - self.accuracy


def bin_p_values(
    bins: BinStats, variance: FloatArray, scores: Callable[[int], FloatArray]
) -> FloatArray:
    """P-values of the number of correct rows in every bin, (bins,), under calibration.

    variance : of the numbers of outcomes under calibration. scores : the confidences of
    a bin. By the normal law; where the variance is below 10 by the exact law, or of
    very many rows by Poisson's, which is wider.
    """
    out = np.ones(len(bins.count))
    for b in np.flatnonzero(bins.weight > 0).tolist():
        expected = float(bins.score[b])
        right = float(bins.outcome[b])
        n = int(bins.count[b])
        if variance[b] >= FEW_OUTCOMES:
            out[b] = MeanGap.of(expected - right, math.sqrt(variance[b])).p_value
        elif n <= EXACT_ROWS:
            out[b] = exact_p_value(scores(b), round(right))
        else:
            out[b] = rarer_p_value(expected, round(right), n)
    return out


def confidence_bins(
    context: MetricContext, label: Label = "top"
) -> tuple[ConfidenceBin, ...]:
    """The bins of the confidence, or of P(class 1); significance at a false discovery
    rate of 5 %.
    """
    bins, p_values, effect = binned(context.labelled(label))
    with np.errstate(invalid="ignore", divide="ignore"):
        confidence = bins.score / bins.weight
        accuracy = np.minimum(bins.outcome / bins.weight, 1.0)
    level = context.settings.level
    rows = bins.effective / effect
    low, high = wilson_interval(accuracy, rows, level)
    occupied = bins.count > 0
    n_held = max(int(occupied.sum()), 1)
    alone = 1.0 - (1.0 - level) / n_held
    chosen_low, chosen_high = wilson_interval(accuracy, rows, alone)
    together = np.ones(len(p_values))
    together[occupied] = adjusted(p_values[occupied])
    return tuple(
        ConfidenceBin(
            low=float(EDGES[b]),
            high=float(EDGES[b + 1]),
            n=int(bins.count[b]),
            confidence=float(confidence[b]),
            accuracy=float(accuracy[b]),
            accuracy_low=float(low[b]),
            accuracy_high=float(high[b]),
            p_adjusted=float(together[b]),
            significant=bool(together[b] <= 0.05),
            chosen_low=float(chosen_low[b]),
            chosen_high=float(chosen_high[b]),
        )
        for b in range(len(EDGES) - 1)
    )


@made_once
def binned(context: MetricContext) -> tuple[BinStats, FloatArray, FloatArray]:
    """Sums over the bins, the p-value of each, and by how much its variance grows as
    rows belong together.
    """
    t = context.table
    c = context.scores
    y = context.outcomes
    index = bin_index(c, EDGES)
    size = len(EDGES) - 1
    bins = BinStats.at(index, size, c, y, t.weight)
    if context.has_plain_rows:
        variance = np.bincount(index, c * (1.0 - c), size).astype(np.float64)
        p_values = bin_p_values(bins, variance, lambda b: c[index == b])
        return bins, p_values, np.ones(size)
    p_values = np.ones(size)
    for b in np.unique(index).tolist():
        here = index == b
        part = t.take(here)
        p_values[b] = sum_p_value(c[here], y[here], part.weight, part.units)
    return bins, p_values, effects_of_bins(c, y, index, size, t.units, t.weight)
