"""Tests of calibration whose level is known.

They are about direction, cumulative sums, classes, and bins of all sizes.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.metrics.context import MetricContext, Undefined, Value, made_once, metric
from calcli.metrics.intervals import normal_p_value, t_p_value
from calcli.metrics.nulls import (
    EXACT_ROWS,
    ROUNDING,
    Null,
    label_losses,
    poisson_binomial,
    reaching,
)
from calcli.metrics.rowtable import ClassStats, RowTable
from calcli.metrics.ties import Ranked
from calcli.numerics import FloatArray, IntArray
from calcli.statistics.units import Luck, Units
from calcli.statistics.weighted_sums import (
    FEW_JUMPS,
    JumpSums,
    expected_jumps,
    jump_p_value,
)

FEW_OUTCOMES = 10.0  # variance of a count below which its law is not taken as normal


def vanishes(gap: float) -> bool:
    """Test whether a statistic without spread under calibration is 0, up to rounding.

    Certain scores that are all correct are calibrated; certain and wrong is impossible
    (p-value 0).
    """
    return abs(gap) <= 1e-12


@dataclass(frozen=True)
class MeanGap:
    """A mean gap with z = gap / sd, of its standard deviation under calibration.

    known_p_value : the p-value, where it is not that of z as a normal variable. draws :
    number of draws that it comes from, 0 where a formula gives it.
    """

    gap: float
    z: float
    known_p_value: float | None = None
    draws: int = 0

    @classmethod
    def of(cls, gap: float, sd: float) -> "MeanGap":
        """Make a mean gap with its z, from its standard deviation."""
        if sd > 0.0:
            return cls(gap, gap / sd)
        if vanishes(gap):
            return cls(gap, 0.0)
        return cls(gap, math.copysign(math.inf, gap))

    def with_luck(self, context: MetricContext, draws: FloatArray) -> "MeanGap":
        """Return the gap with z and p-value for rows in units.

        draws : (r,) of the gap under calibration.
        """
        luck = context.luck
        assert luck is not None
        wider = MeanGap(self.gap, self.z / math.sqrt(luck.effect))
        return wider.with_draws(draws)

    @property
    def resamples(self) -> dict[str, int]:
        """The draws behind the p-value, as JSON has them.

        Empty where a formula gives it.
        """
        return {"resamples": self.draws} if self.draws else {}

    @property
    def p_value(self) -> float:
        """Two-sided p-value."""
        if self.known_p_value is None:
            return normal_p_value(self.z)
        return self.known_p_value

    def with_draws(self, draws: FloatArray) -> "MeanGap":
        """Return the gap with its p-value from draws (r,) under calibration."""
        p_value = (1 + reaching(np.abs(draws), abs(self.gap))) / (1 + len(draws))
        return MeanGap(self.gap, self.z, p_value, len(draws))


def _mean_gap(
    gap: FloatArray, variance: FloatArray, weight: FloatArray | None
) -> MeanGap:
    """Average gaps of rows (n,) that have these variances under calibration."""
    w = np.ones(len(gap)) if weight is None else weight
    total = float(w.sum())
    sd = math.sqrt(float(w**2 @ variance)) / total
    return MeanGap.of(float(w @ gap) / total, sd)


def direction(table: RowTable, name: str) -> MeanGap:
    """Compute a mean gap with the variance that calibration implies.

    ``confidence``: mean confidence minus accuracy. ``positive``: mean P(class 1) minus
    the frequency of class 1, for two classes. ``entropy``: mean NLL minus mean entropy,
    with the variance of -ln p_Y under Y ~ p; zero at the optimum of a temperature,
    positive for overconfident probabilities.
    """
    if name == "entropy":
        return _mean_gap(table.nll - table.entropy, table.varentropy, table.weight)
    if name == "positive":
        score = table.positive
        assert score is not None
        gap = score - (table.y == 1)
    else:
        score = table.confidence
        gap = score - table.correct
    return _mean_gap(gap, score * (1.0 - score), table.weight)


@made_once
def direction_of(context: MetricContext, name: str) -> MeanGap:
    """Compute the ``direction`` of the rows of a context, with its p-value.

    In units z allows for their design effect, and the p-value is from draws. Else the
    p-value of a gap of scores is that of their sum (``sum_p_value``); that of the entropy
    is from draws where few rows are wrong.
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
    return gap.with_luck(labelled, draws / total)


def entropy_columns(t: RowTable) -> FloatArray:
    """Compute the effects of a correct outcome, (n, 3).

    They are its weight, the change of summed -ln p_Y, and the label variance that it
    removes.
    """
    w = t.weights
    right, wrong, variance = label_losses(t.confidence, t.entropy, t.varentropy)
    return np.stack([w, w * (right - wrong), w**2 * variance], axis=1)


DRAWN_ROWS = 5_000_000
"""Rows times draws of the entropy gap up to which there are as many draws as are asked for."""


@made_once
def drawn_entropies(context: MetricContext) -> FloatArray:
    """Draw sums of NLL minus entropy under calibration of independent rows, (draws,)."""
    most_draws = max(context.heavy_draws, DRAWN_ROWS // context.n)
    draws = min(context.settings.resamples, most_draws)
    order = np.argsort(context.scores, kind="stable")
    columns = entropy_columns(context.table)[order]
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
    the luck of their unit as the outcomes do: P(both wrong) <= the root of the product of
    both chances.
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
    return np.asarray(float(w @ (wrong - t.entropy)) + sums[:, 1] + noise)


def luck_p_value(
    luck: Luck,
    scores: FloatArray,
    outcomes: FloatArray,
    weight: FloatArray | None = None,
) -> float:
    """Compute the two-sided p-value of the sum of outcomes (n,) of rows in units.

    ``scores`` (n,) are their probabilities. The law is Student's with a degree of freedom
    fewer than units. Where few outcomes are expected for their variance, it is Poisson's
    of the rarer outcome in steps of as many rows as the variance grows by, or of weighted
    rows Skellam's in such steps. So too in one unit, which has no degree of freedom.
    """
    w = np.ones(len(scores)) if weight is None else weight
    expected = float(w @ scores)
    observed = float(w @ outcomes)
    if not luck.variance > 0.0:
        return float(vanishes(expected - observed))
    has_freedom = luck.units > 1
    t = (expected - observed) / math.sqrt(luck.variance)
    if weight is not None:
        jumps = JumpSums.of(scores, weight)
        many = expected_jumps(jumps) / luck.effect >= FEW_JUMPS
        if many and has_freedom:
            return t_p_value(t, luck.units - 1.0)
        return jump_p_value(observed - expected, jumps, luck.effect)
    if luck.rows >= 10.0 * luck.effect and has_freedom:
        return t_p_value(t, luck.units - 1.0)
    n = len(scores)
    mean, count = min((expected, observed), (n - expected, n - observed))
    return _poisson_steps_p_value(mean / luck.effect, count / luck.effect)


def _poisson_steps_p_value(mean: float, count: float) -> float:
    """Compute the two-sided p-value of a count of steps, which may be no whole number."""
    from scipy.special import gammainc, gammaincc

    at_most = float(gammaincc(count + 1.0, mean))
    at_least = float(gammainc(count, mean)) if count > 0.0 else 1.0
    return min(1.0, 2.0 * min(at_least, at_most))


def sum_p_value(
    scores: FloatArray,
    outcomes: FloatArray,
    weight: FloatArray | None = None,
    units: Units | None = None,
) -> float:
    """Compute the two-sided p-value of the sum of outcomes (n,).

    ``scores`` (n,) are their probabilities. It is by the normal law of the sum, or where
    its variance is below 10 by its exact law; with weights by Skellam's law where few
    rows carry the sum (``jump_p_value``); for rows in units by ``luck_p_value``.
    """
    if units is not None:
        luck = Luck.of(scores, outcomes, units, weight, both=True)
        return luck_p_value(luck, scores, outcomes, weight)
    if weight is not None:
        deviation = float(weight @ (outcomes - scores))
        return jump_p_value(deviation, JumpSums.of(scores, weight))
    variance = scores * (1.0 - scores)
    total = float(variance.sum())
    if total == 0.0 or total >= FEW_OUTCOMES:
        return _mean_gap(scores - outcomes, variance, weight).p_value
    count = round(float(outcomes.sum()))
    if len(scores) > EXACT_ROWS:
        return rarer_p_value(float(scores.sum()), count, len(scores))
    return exact_p_value(scores, count)


def rarer_p_value(mean: float, count: int, n: int) -> float:
    """Compute the two-sided p-value of a count of n outcomes.

    It is by Poisson's law of the rarer outcome, which is wider.
    """
    rarer_mean, rarer_count = min((mean, count), (n - mean, n - count))
    return poisson_p_value(round(rarer_count), rarer_mean)


def exact_p_value(scores: FloatArray, count: int) -> float:
    """Compute the two-sided p-value of ``count`` successes by their exact law.

    scores : (n,) chances of the trials.
    """
    law = poisson_binomial(scores)
    at_most = float(law[: count + 1].sum())
    at_least = float(law[count:].sum())
    return min(1.0, 2.0 * min(at_most, at_least))


def p_text(p: float, draws: float = 0) -> str:
    """Write a p-value, ``p = 0.61``.

    It is ``p < 0.001`` below a thousandth, or the least that the draws can give.
    """
    cell = p_cell(p, draws)
    if cell.startswith("<"):
        return f"p {cell}"
    if p >= 0.0995:
        return f"p = {p:.2f}"
    return f"p = {cell}"


def p_cell(p: float, draws: float = 0) -> str:
    """Write a p-value for the column of a table: ``0.613``, ``< 0.001``."""
    least = 1.0 / (1 + draws) if draws else 0.0
    if p < 0.001 or p <= least * (1.0 + 1e-9):
        thousandths = max(math.ceil(1000 * least - 1e-9), 1)
        return f"< {thousandths / 1000:.3f}"
    return f"{p:.3f}"


def spiegelhalter(
    scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None
) -> MeanGap:
    """Compute Spiegelhalter's z.

    It holds the Brier score of the scores against its expectation under calibration:
    z = sum (y - c)(1 - 2c) / sqrt(sum (1 - 2c)^2 c (1 - c)).

    Reference: Spiegelhalter (1986).
    """
    slope = 1.0 - 2.0 * scores
    gap = (outcomes - scores) * slope
    return _mean_gap(gap, slope**2 * scores * (1.0 - scores), weight)


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


def max_brownian_tail(x: float) -> float:
    """Compute P(max |B(t)|, 0 <= t <= 1, is at least x) for Brownian motion B."""
    if x < 0.2:
        return 1.0
    inside = sum(
        (-1) ** j
        / (2 * j + 1)
        * math.exp(-((2 * j + 1) ** 2) * math.pi**2 / (8.0 * x * x))
        for j in range(40)
    )
    if x < 3.0:
        return min(1.0, max(0.0, 1.0 - 4.0 / math.pi * inside))
    # Far out the two crossings exclude each other, and the series above would cancel.
    return min(1.0, 2.0 * math.erfc(x / math.sqrt(2.0)))


def range_brownian_tail(x: float) -> float:
    """Compute P(max B - min B over 0 <= t <= 1 is at least x) for Brownian motion B.

    Reference: Feller (1951).
    """
    if x < 0.4:
        return 1.0
    terms = (
        (-1) ** (j - 1) * j * 0.5 * math.erfc(j * x / math.sqrt(2.0))
        for j in range(1, 101)
    )
    return min(1.0, max(0.0, 8.0 * math.fsum(terms)))


def scaled_tail(tail: Callable[[float], float], sigma: float, x: float) -> float:
    """Compute P(sigma X is at least x) where ``tail`` gives P(X >= x).

    Without a spread it is 1 where x vanishes, else 0.
    """
    return tail(x / sigma) if sigma > 0.0 else float(vanishes(x))


@dataclass(frozen=True)
class Cumulative:
    """Cumulative gaps of sorted scores. mad: largest |C_k|; kuiper: their range; sigma: null scale."""

    mad: float
    kuiper: float
    sigma: float


def cumulative_gaps(ranked: Ranked, variance: float) -> Cumulative:
    """Sum differences C_k = (1/N) sum_{i <= k} (y_i - c_i) in the order of the scores.

    Equal scores count at once, so the order of rows does not matter. ``mad`` is also the
    KS calibration error. variance : sum c (1 - c), weights squared; sigma is its root
    over N.

    Reference: Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu (2022), JMLR 23(351), sections
    2-3; Gupta et al. (2021) for KS.
    """
    total = ranked.right + ranked.wrong
    highest = 0.0
    lowest = 0.0
    largest = 0.0
    end = 0.0
    for block in ranked:
        size = block.right + block.wrong
        path = end + np.cumsum(block.right - size * block.score)
        highest = max(highest, float(path.max()))
        lowest = min(lowest, float(path.min()))
        largest = max(largest, float(np.abs(path).max()))
        end = float(path[-1])
    return Cumulative(
        mad=largest / total,
        kuiper=(highest - lowest) / total,
        sigma=math.sqrt(variance) / total,
    )


@dataclass(frozen=True)
class _Cut:
    """Scores in order cut into bins.

    first : (b,) first row of each bin. per_pair : (b,) 1 / (rows - 1), 0 for one row.
    sd : null standard deviation of the pairwise squared error.
    """

    first: IntArray
    per_pair: FloatArray
    sd: float

    @classmethod
    def of(cls, c: FloatArray, variance: FloatArray, bins: float) -> "_Cut":
        """Cut ordered scores (n,) of these variances into bins of equal width."""
        cell = np.minimum(np.ceil(c * bins), bins)
        first = np.flatnonzero(np.concatenate([[True], np.diff(cell) > 0]))
        count = np.diff(np.concatenate([first, [len(c)]])).astype(np.float64)
        per_pair = np.divide(
            1.0, count - 1.0, out=np.zeros_like(count), where=count > 1
        )
        v = np.add.reduceat(variance, first)
        sd = math.sqrt(float((2.0 * v**2 * per_pair / count).sum()))
        return cls(first, per_pair, sd)

    def statistics(self, residuals: FloatArray, squares: FloatArray) -> FloatArray:
        """Compute the squared error in units of ``sd`` of residuals (m, n), (m,)."""
        sums = np.add.reduceat(residuals, self.first, axis=1)
        square_sums = np.add.reduceat(squares, self.first, axis=1)
        pairs = sums**2 - square_sums
        return np.asarray(pairs @ self.per_pair / self.sd)


def adaptive_test(
    scores: FloatArray,
    outcomes: FloatArray,
    resamples: int,
    draws: Iterable[tuple[slice, NDArray[Any]]],
) -> tuple[float, float, int]:
    """Test over bins of all sizes: (statistic, p-value, levels).

    For 2^b width bins, b = 1..floor(2 log2(n / sqrt(ln n))) but no more than 20, this
    takes the pairwise squared error of ``debiased.squared_error`` in units of its null
    standard deviation; the statistic is the largest over b. Its p-value comes from
    outcomes drawn from the scores, so the level is exact; the paper splits the level over
    the b instead. Certain scores alone leave no spread: 0 where all are right, else
    infinite, with p-value 0.

    Reference: Lee, Huang, Hassani, Dobriban (2023), JMLR 24(335), section 4.
    """
    n = len(scores)
    levels = 1
    if n > 2:
        finest = int(2.0 * math.log2(n / math.sqrt(math.log(n))))
        levels = max(1, min(20, finest))
    order = np.argsort(scores, kind="stable")
    c = scores[order]
    y = outcomes[order]
    variance = c * (1.0 - c)
    cuts = [_Cut.of(c, variance, 2.0**b) for b in range(1, levels + 1)]
    cuts = [cut for cut in cuts if cut.sd > 0.0]
    if not cuts:
        if vanishes(float(np.abs(y - c).max())):
            return 0.0, 1.0, levels
        return math.inf, 0.0, levels

    def largest(residuals: FloatArray) -> FloatArray:
        squares = residuals * residuals
        statistics = [cut.statistics(residuals, squares) for cut in cuts]
        return np.max(statistics, axis=0)

    observed = float(largest((y - c)[None])[0])
    reached = sum(reaching(largest(drawn - c), observed) for _, drawn in draws)
    return observed, (1 + reached) / (1 + resamples), levels


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


def poisson_p_value(count: int, mean: float) -> float:
    """Compute the two-sided p-value of a count under Poisson's law."""
    if mean <= 0.0:
        return 1.0 if count == 0 else 0.0
    at_most = math.fsum(_poisson_chance(j, mean) for j in range(count + 1))
    if at_most <= 0.5:
        return 2.0 * at_most
    # Sum the upper tail itself: 1 minus the lower loses it to rounding where it is
    # small.
    upper = [_poisson_chance(count, mean)]
    while upper[-1] > 1e-17 * upper[0]:
        upper.append(upper[-1] * mean / (count + len(upper)))
    return min(1.0, 2.0 * min(at_most, math.fsum(upper)))


def _poisson_chance(count: int, mean: float) -> float:
    return math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))


def adjusted(p_values: FloatArray) -> FloatArray:
    """Adjust p-values for all m tests, min over j >= i of m p_(j) / j, (m,).

    Those at most a level are rejected at this false discovery rate (Benjamini, Hochberg
    1995); the least of them is that of all hypotheses together (Simes 1986).
    """
    order = np.argsort(p_values, kind="stable")[::-1]
    m = len(p_values)
    scaled = m * p_values[order] / np.arange(m, 0, -1)
    result = np.empty(m)
    result[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return result


@made_once
def _drawn_paths(context: MetricContext) -> FloatArray:
    """Draw the cumulative gaps under calibration, (2, draws).

    The first row has the largest gap of each draw, the second their range.
    """
    t = context.table
    shared = context.shared
    if shared is None:
        order = np.argsort(context.scores, kind="stable")
        outcomes = context.drawn("paths", context.heavy_draws)
    else:
        order = shared.order
        outcomes = shared.some()
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
        weight = context.table.weight
        if weight is not None:
            slope = slope * weight
        slope = slope / (len(slope) if weight is None else weight.sum())
        sums = context.shared.sums(slope[:, None])[:, 0]
        mean_gap = mean_gap.with_luck(context, sums - float(slope @ context.scores))
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
