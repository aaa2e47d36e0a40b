"""Tests of calibration whose level is known.

They are about direction, cumulative sums, classes, and bins of all sizes.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.registry import metric
from calcli.metrics.rowtable import ClassStats, RowTable
from calcli.metrics.values import Undefined, Value
from calcli.numerics import FloatArray
from calcli.statistics.adaptive_test import adaptive_test
from calcli.statistics.cumulative_gaps import (
    cumulative_gaps,
    max_brownian_tail,
    range_brownian_tail,
    scaled_tail,
)
from calcli.statistics.nulls import ROUNDING, Null, label_losses
from calcli.statistics.p_values import (
    FEW_OUTCOMES,
    MeanGap,
    average_gap,
    poisson_p_value,
    spiegelhalter,
    sum_p_value,
)
from calcli.statistics.weighted_sums import JumpSums, jump_p_value


def direction(table: RowTable, name: str) -> MeanGap:
    """Compute a mean gap with the variance that calibration implies.

    ``confidence``: mean confidence minus accuracy. ``positive``: mean P(class 1) minus
    the frequency of class 1, for two classes. ``entropy``: mean NLL minus mean entropy,
    with the variance of -ln p_Y under Y ~ p; zero at the optimum of a temperature,
    positive for overconfident probabilities.
    """
    if name == "entropy":
        return average_gap(table.nll - table.entropy, table.varentropy, table.weight)
    if name == "positive":
        score = table.positive
        assert score is not None
        gap = score - (table.y == 1)
    else:
        score = table.confidence
        gap = score - table.correct
    return average_gap(gap, score * (1.0 - score), table.weight)


@made_once
def direction_of(context: MetricContext, name: str) -> MeanGap:
    """Compute the ``direction`` of the rows of a context, with its p-value.

    In units z allows for their design effect, and the p-value is from draws. Else the
    p-value of a gap of scores is that of their sum (``sum_p_value``); that of the
    entropy is from draws where few rows are wrong.
    """
    t = context.table
    gap = direction(t, name)
    labelled = context.labelled("positive" if name == "positive" else "top")
    total = float(t.weights.sum())
    if t.units is None:
        if name != "entropy":
            p_value = sum_p_value(labelled.scores, labelled.outcomes, t.weight)
            return MeanGap(gap.gap, gap.z, p_value)
        if labelled.few_jumps:
            return gap.with_draws(drawn_entropies(labelled) / total)
        return gap
    if name == "entropy":
        _, draws = shared_entropies(labelled)
    else:
        scores = labelled.scores
        expected = float(scores.sum() if t.weight is None else t.weight @ scores)
        outcomes = labelled.null_outcomes("width").sum(axis=1)
        draws = np.asarray(expected - outcomes)
    assert labelled.luck is not None
    return gap.in_units(labelled.luck.effect, draws / total)


def entropy_columns(t: RowTable) -> FloatArray:
    """Compute the effects of a correct outcome, (n, 3).

    They are its weight, the change of summed -ln p_Y, and the label variance that it
    removes.
    """
    w = t.weights
    right, wrong, variance = label_losses(t.confidence, t.entropy, t.varentropy)
    return np.stack([w, w * (right - wrong), w**2 * variance], axis=1)


DRAWN_ROWS = 5_000_000
"""Rows times draws of the entropy gap up to which there are as many draws as are asked
for.
"""


@made_once
def drawn_entropies(context: MetricContext) -> FloatArray:
    """Draw sums of NLL minus entropy under calibration of independent rows, (draws,)."""
    most_draws = max(context.heavy_draws, DRAWN_ROWS // context.n)
    draws = min(context.settings.resamples, most_draws)
    columns = entropy_columns(context.table)[context.rows_by_score]
    sums = [outcomes @ columns for _, outcomes in context.drawn("nll", draws)]
    return entropy_draws(context, np.concatenate(sums))


@made_once
def shared_entropies(context: MetricContext) -> tuple[FloatArray, FloatArray]:
    """Draw sums for rows in units.

    They are those of ``entropy_columns`` over correct rows, and ``entropy_draws`` from
    them.
    """
    assert context.shared is not None
    sums = context.shared.sums(entropy_columns(context.table), context.heavy_draws)
    return sums, entropy_draws(context, sums)


def entropy_draws(context: MetricContext, sums: FloatArray) -> FloatArray:
    """Draw sums of NLL minus entropy under calibration, (draws,).

    sums : (draws, 3) of ``entropy_columns`` over right rows. The NLL of the labels of
    wrong rows is drawn normal. In units its variance is at most that of rows that share
    the luck of their unit as the outcomes do: P(both wrong) <= the root of the product
    of both chances.
    """
    t = context.table
    w = t.weights
    _, wrong, variance = label_losses(t.confidence, t.entropy, t.varentropy)
    # The variance of the labels of the rows that are wrong in each draw.
    whole = float(w**2 @ variance)
    wrong_variance = whole - sums[:, 2]
    some_row_is_wrong = wrong_variance > ROUNDING * whole
    wrong_variance = np.where(some_row_is_wrong, wrong_variance, 0.0)
    luck = context.luck
    if luck is not None and t.units is not None:
        by_row = w**2 * (1.0 - t.confidence) * variance
        alone = float(by_row.sum())
        together = float((t.units.sums(np.sqrt(by_row)) ** 2).sum())
        if alone > 0.0:
            wrong_variance *= 1.0 + luck.share * (together / alone - 1.0)
    normal = context.rng("joint").standard_normal(len(sums))
    noise = normal * np.sqrt(wrong_variance)
    return float(w @ (wrong - t.entropy)) + sums[:, 1] + noise


@made_once
def spiegelhalter_of(context: MetricContext) -> MeanGap:
    """Compute Spiegelhalter's z of the rows of a context.

    Where few rows carry it, its p-value is by Skellam's law.
    """
    scores = context.scores
    outcomes = context.outcomes
    mean_gap = spiegelhalter(scores, outcomes, context.table.weight)
    # Every row steps by |1 - 2c| where the outcome is the less probable one.
    step = np.abs(1.0 - 2.0 * scores) * context.table.weights
    surprise = np.where(scores < 0.5, outcomes - scores, scores - outcomes)
    jumps = JumpSums.of(np.minimum(scores, 1.0 - scores), step)
    p_value = jump_p_value(float(step @ surprise), jumps)
    return MeanGap(mean_gap.gap, mean_gap.z, p_value)


def class_p_values(stats: ClassStats) -> FloatArray:
    """Compute the p-value of every class's count, (k,).

    A count is expected as its summed probability. The p-value is by the normal law, or
    where the variance sum p (1 - p) < 10 by the Poisson law, which is wider. Sums of
    weighted rows are no counts: their p-values are those of ``jump_p_value``.
    """
    expected, labels, variance = stats.whole
    p_values = np.ones(len(expected))
    for c in range(len(p_values)):
        gap = float(labels[c] - expected[c])
        if stats.jumps is not None:
            fourth, rising = stats.jumps[:, c].tolist()
            jumps = JumpSums(float(variance[c]), fourth, rising)
            p_values[c] = jump_p_value(gap, jumps)
        elif variance[c] >= FEW_OUTCOMES:
            p_values[c] = MeanGap.of(gap, math.sqrt(variance[c])).p_value
        else:
            count = round(float(labels[c]))
            p_values[c] = poisson_p_value(count, float(expected[c]))
    return p_values


@made_once
def _drawn_paths(context: MetricContext) -> FloatArray:
    """Draw the cumulative gaps under calibration, (2, draws).

    The first row has the largest gap of each draw, the second their range.
    """
    t = context.table
    order = context.rows_by_score
    if context.shared is None:
        outcomes = context.drawn("paths", context.heavy_draws)
    else:
        outcomes = context.shared.some()
    c = context.scores[order]
    w = t.weights[order]
    last = np.append(np.flatnonzero(np.diff(c) > 0), t.n - 1)  # of equal scores
    chunks = []
    for _, drawn in outcomes:
        path = np.cumsum(w * (drawn - c), axis=1)[:, last] / w.sum()
        high = np.maximum(path.max(axis=1), 0.0)
        low = np.minimum(path.min(axis=1), 0.0)
        chunks.append([np.maximum(high, -low), high - low])
    return np.concatenate(chunks, axis=1)


IMPOSSIBLE = "the confidences are certain, and wrong somewhere"


def _of_path(
    context: MetricContext,
    which: int,
    tail: Callable[[float], float],
    mean: float,
    q95: float,
) -> Value:
    """Measure the largest cumulative gap (0) or their range (1).

    tail, mean, q95 : of that of Brownian motion.
    """
    path = context.once(
        ("gaps",), lambda: cumulative_gaps(context.ranked(), context.variance)
    )
    value = (path.mad, path.kuiper)[which]
    if context.shared is not None or context.few_jumps:
        draws = _drawn_paths(context)[which]
        return Value(value, null=context.null_of(value, draws))
    above = partial(scaled_tail, tail, path.sigma)
    null = Null(
        mean=mean * path.sigma,
        q95=q95 * path.sigma,
        p_value=above(value),
        resamples=0,
        above=above,
    )
    return Value(value, null=null)


@metric("label", report="full", reads="order")
def ks(context: MetricContext) -> Value:
    """Kolmogorov-Smirnov calibration error: largest cumulative gap.

    max_k |sum_{i<=k} (y_i - c_i)| / n, rows sorted by confidence
    Reference: Gupta et al. (2021)
    """
    return _of_path(
        context, 0, max_brownian_tail, math.sqrt(math.pi / 2.0), 2.241402728
    )


@metric("label", report="full", reads="order")
def kuiper(context: MetricContext) -> Value:
    """Range of the cumulative gaps (ECCE-R).

    max_k C_k - min_k C_k, C_k = sum_{i<=k} (y_i - c_i)/n, C_0 = 0
    Reference: Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu (2022)
    """
    return _of_path(
        context, 1, range_brownian_tail, 2.0 * math.sqrt(2.0 / math.pi), 2.497672161
    )


@metric("label", "spiegelhalter", better="zero", report="full", reads="sums")
def spiegelhalter_z(context: MetricContext) -> Value:
    """Spiegelhalter's z of the confidences.

    sum (y - c)(1 - 2c) / sqrt(sum (1 - 2c)^2 c (1 - c))
    Reference: Spiegelhalter (1986)
    """
    mean_gap = spiegelhalter_of(context)
    if context.shared is not None:
        slope = 1.0 - 2.0 * context.scores
        weights = context.table.weights
        slope = slope * weights / weights.sum()
        sums = context.shared.sums(slope[:, None])[:, 0]
        assert context.luck is not None
        draws = sums - float(slope @ context.scores)
        mean_gap = mean_gap.in_units(context.luck.effect, draws)
    if not math.isfinite(mean_gap.z):
        raise Undefined(IMPOSSIBLE)
    return Value(mean_gap.z, p_value=mean_gap.p_value, more=mean_gap.resamples)


@metric("bins:2^b label", report="full")
def tcal(context: MetricContext) -> Value:
    """Adaptive test of calibration over bins of all sizes: its statistic, with p-value.

    max over 2^b bins of the pairwise squared error in null standard deviations
    Reference: Lee, Huang, Hassani, Dobriban (2023)
    """
    if context.table.weight is not None:
        raise Undefined("not defined for weighted rows")
    statistic, p_value, levels = adaptive_test(
        context.scores,
        context.outcomes,
        context.heavy_draws,
        context.drawn("tcal", context.heavy_draws),
    )
    if math.isinf(statistic):
        raise Undefined(IMPOSSIBLE)
    return Value(
        statistic,
        p_value=p_value,
        more={"levels": levels, "resamples": context.heavy_draws},
    )
