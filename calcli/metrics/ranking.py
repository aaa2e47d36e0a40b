"""Metrics of order: does a higher score mean more often right? Blind to calibration."""

import math
from collections.abc import Callable

import numpy as np

from calcli.metrics.context import MetricContext, Value
from calcli.metrics.definition import TOP, metric
from calcli.metrics.means import Interval, normal_quantile
from calcli.numerics import FloatArray

__all__ = ["area_under_roc", "average_precision", "best_risk_coverage", "delong_se", "risk_coverage"]


class TieBlocks:
    """Rows sorted by score, equal scores together, each block's weight of right and wrong outcomes (b,)."""

    def __init__(self, scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None) -> None:
        w = np.ones(len(scores)) if weight is None else weight
        order = np.argsort(scores, kind="stable")
        right = (w * outcomes)[order]
        first = np.flatnonzero(np.concatenate([[True], np.diff(scores[order]) > 0]))
        self.right = np.add.reduceat(right, first)
        self.wrong = np.add.reduceat(w[order] - right, first)


def area_under_roc(scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None) -> float | None:
    """Probability that an outcome of 1 has a higher score than one of 0, ties count half.

    scores, outcomes : (n,). None when all outcomes are the same. Reference: Hanley, McNeil (1982).
    """
    blocks = TieBlocks(scores, outcomes, weight)
    pairs = float(blocks.right.sum() * blocks.wrong.sum())
    if pairs <= 0.0:
        return None
    return float(blocks.right @ (np.cumsum(blocks.wrong) - 0.5 * blocks.wrong)) / pairs


def delong_se(scores: FloatArray, outcomes: FloatArray) -> float:
    """Standard error of the area under the ROC curve, NaN with fewer than two rows of an outcome.

    Each row's share of pairs won, with mid-ranks for ties; the variance of the two means
    adds. Reference: DeLong, DeLong, Clarke-Pearson (1988); Sun, Xu (2014) for the ranks.
    """
    right, wrong = np.sort(scores[outcomes > 0]), np.sort(scores[outcomes <= 0])
    if min(len(right), len(wrong)) < 2:
        return math.nan

    def won(own: FloatArray, other: FloatArray) -> FloatArray:
        below, upto = np.searchsorted(other, own, side="left"), np.searchsorted(other, own, side="right")
        return np.asarray(0.5 * (below + upto) / len(other))

    return math.sqrt(sum(float(won(a, b).var(ddof=1)) / len(a) for a, b in ((right, wrong), (wrong, right))))


def average_precision(scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None) -> float | None:
    """Mean precision over the thresholds at which recall rises, weighted by the rise; ties are one threshold.

    scores, outcomes : (n,). None without an outcome of 1.
    """
    blocks = TieBlocks(scores, outcomes, weight)
    right, wrong = blocks.right[::-1], blocks.wrong[::-1]
    total = float(right.sum())
    if total <= 0.0:
        return None
    found = np.cumsum(right)
    seen = found + np.cumsum(wrong)
    precision = np.divide(found, seen, out=np.zeros_like(found), where=seen > 0)
    return float(right @ precision) / total


def risk_coverage(scores: FloatArray, correct: FloatArray, weight: FloatArray | None = None) -> float:
    """Area under the risk-coverage curve: the mean over k of the error rate of the k highest scores.

    scores, correct : (n,). Equal scores enter in random order: the expectation over it, not a
    draw. With weights coverage is a share of the weight and the area an integral.
    Reference: El-Yaniv, Wiener (2010); Geifman, Uziel, El-Yaniv (2019).
    """
    blocks = TieBlocks(scores, correct, weight)
    wrong, size = blocks.wrong[::-1], (blocks.right + blocks.wrong)[::-1]
    return _mean_risk(wrong[size > 0], size[size > 0], weight is not None)


def best_risk_coverage(correct: FloatArray, weight: FloatArray | None = None) -> float:
    """The least area under the risk-coverage curve at this accuracy: every error comes last."""
    w = np.ones(len(correct)) if weight is None else weight
    size = np.array([float(w @ correct), float(w @ (1.0 - correct))])
    return _mean_risk(np.array([0.0, size[1]])[size > 0], size[size > 0], weight is not None)


def _mean_risk(wrong: FloatArray, size: FloatArray, continuous: bool) -> float:
    """Mean error rate of the first m rows, m from 0 to all, of blocks (b,) in order, random inside.

    In a block with error rate r that begins after m rows with e errors the rate at m + j is
    (e + j r) / (m + j), whose sum over j is r size + (e - r m) (sum of 1 / (m + j)).
    """
    stop, errors = np.cumsum(size), np.cumsum(wrong)
    before, errors_before = stop - size, errors - wrong
    rate = wrong / size
    if continuous:
        inverse = np.log(np.divide(stop, before, out=np.ones_like(stop), where=before > 0))
    else:
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1.0, round(stop[-1]) + 1.0))])
        inverse = harmonic[np.rint(stop).astype(np.int64)] - harmonic[np.rint(before).astype(np.int64)]
    return float((rate * size + (errors_before - rate * before) * inverse).sum() / stop[-1])


@metric(
    "auroc",
    "How well confidence separates right rows from wrong ones",
    "P(c_right > c_wrong) + P(equal)/2",
    reference="Hanley, McNeil (1982)",
    better="high",
    signature=TOP,
    report="full",
)
def auroc(context: MetricContext) -> Value:
    t = context.table
    value = area_under_roc(t.confidence, t.correct, t.weight)
    if value is None:
        which = "right" if t.correct.any() else "wrong"
        return Value.undefined(f"every row is {which}: nothing to separate")
    return Value(value)


@metric(
    "roc_auc",
    "Area under the ROC curve: P(class 1) ranks the two classes; more classes: mean of one-vs-rest",
    "P(p_1 of a row of class 1 > p_1 of another) + P(equal)/2",
    reference="Hanley, McNeil (1982); interval: DeLong, DeLong, Clarke-Pearson (1988)",
    better="high",
    signature=(("label", "positive"),),
    aliases=("rocauc", "auc"),
    report="two classes",
    meaning="how well P(class 1) ranks the two classes",
    whole=True,
)
def roc_auc(context: MetricContext) -> Value:
    t = context.table
    if t.positive is None:
        return _one_vs_rest(context, area_under_roc)
    outcome = (t.y == 1).astype(np.float64)
    value = area_under_roc(t.positive, outcome, t.weight)
    if value is None:
        return Value.undefined("all labels are the same class: nothing to rank")
    se = delong_se(t.positive, outcome) if t.weight is None else math.nan
    if not math.isfinite(se):
        return Value(value)
    reach = normal_quantile(0.5 + context.settings.level / 2.0) * se
    interval = Interval(max(value - reach, 0.0), min(value + reach, 1.0), context.settings.level, "delong")
    return Value(value, se=se, interval=interval)


@metric(
    "average_precision",
    "Average precision of P(class 1); more classes: mean of one-vs-rest",
    "sum over thresholds of precision times the rise of recall",
    reference="Davis, Goadrich (2006)",
    better="high",
    signature=(("label", "positive"),),
    aliases=("ap", "auprc", "pr_auc"),
    whole=True,
)
def mean_average_precision(context: MetricContext) -> Value:
    t = context.table
    if t.positive is None:
        return _one_vs_rest(context, average_precision)
    value = average_precision(t.positive, (t.y == 1).astype(np.float64), t.weight)
    return Value.undefined("no row of class 1") if value is None else Value(value)


def _one_vs_rest(
    context: MetricContext, of: Callable[[FloatArray, FloatArray, FloatArray | None], float | None]
) -> Value:
    """Mean over the classes for which it is defined."""
    if context.columns is None:
        return Value.undefined("needs the probabilities of every class, which are not at hand here")
    t = context.table
    found = [of(p, (t.y == c).astype(np.float64), t.weight) for c, p in context.columns()]
    values = [value for value in found if value is not None]
    if not values:
        return Value.undefined("all labels are the same class: nothing to rank")
    return Value(float(np.mean(values)), signature={"label": "one-vs-rest"}, more={"classes": len(values)})


@metric(
    "aurc",
    "Area under the risk-coverage curve: error rate of the most confident rows, mean over their number",
    "mean_k (errors among the k most confident rows) / k",
    reference="Geifman, Uziel, El-Yaniv (2019)",
    signature=TOP,
    report="full",
)
def aurc(context: MetricContext) -> Value:
    t = context.table
    return Value(risk_coverage(t.confidence, t.correct, t.weight), signature=_coverage(context))


@metric(
    "eaurc",
    "Excess of the area under the risk-coverage curve over the least one at this accuracy",
    "aurc - aurc of an order with all errors last",
    reference="Geifman, Uziel, El-Yaniv (2019)",
    signature=TOP,
    aliases=("e_aurc",),
    report="full",
)
def eaurc(context: MetricContext) -> Value:
    t = context.table
    value = risk_coverage(t.confidence, t.correct, t.weight) - best_risk_coverage(t.correct, t.weight)
    return Value(max(value, 0.0), signature=_coverage(context))


def _coverage(context: MetricContext) -> dict[str, str]:
    return {} if context.table.weight is None else {"coverage": "weight"}
