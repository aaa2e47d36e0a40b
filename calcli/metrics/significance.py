"""Tests of calibration whose level is known: direction, cumulative sums, classes, bins of all sizes."""

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
    """Test whether a statistic without spread under calibration is 0, up to rounding. Certain scores that are all
    correct are calibrated; certain and wrong is impossible (p-value 0)."""
    return abs(gap) <= 1e-12


@dataclass(frozen=True)
class MeanGap:
    """A mean gap with its standard deviation under calibration, and z = gap / sd. known_p_value : the p-value, where it
    is not that of z as a normal variable; from ``draws`` draws, or 0 where a formula gives it."""

    gap: float
    z: float
    known_p_value: float | None = None
    draws: int = 0

    @classmethod
    def of(cls, gap: float, sd: float) -> "MeanGap":
        """Mean gap with its z, from its standard deviation."""
        return cls(
            gap,
            gap / sd
            if sd > 0.0
            else 0.0
            if vanishes(gap)
            else math.copysign(math.inf, gap),
        )

    def with_luck(self, context: MetricContext, draws: FloatArray) -> "MeanGap":
        """Mean gap with z and p-value for rows in units. draws : of the gap under calibration, (draws,)."""
        luck = context.luck
        assert luck is not None
        wider = MeanGap(self.gap, self.z / math.sqrt(luck.effect))
        return wider.with_draws(draws)

    @property
    def resamples(self) -> dict[str, int]:
        """The draws behind the p-value, as JSON has them; empty where a formula gives it."""
        return {"resamples": self.draws} if self.draws else {}

    @property
    def p_value(self) -> float:
        """Two-sided p-value."""
        if self.known_p_value is None:
            return normal_p_value(self.z)
        return self.known_p_value

    def with_draws(self, draws: FloatArray) -> "MeanGap":
        """Mean gap with its p-value from draws (r,) of the gap under calibration."""
        p_value = (1 + reaching(np.abs(draws), abs(self.gap))) / (1 + len(draws))
        return MeanGap(self.gap, self.z, p_value, len(draws))


def _direction(
    gap: FloatArray, variance: FloatArray, weight: FloatArray | None
) -> MeanGap:
    w = np.ones(len(gap)) if weight is None else weight
    total = float(w.sum())
    return MeanGap.of(float(w @ gap) / total, math.sqrt(float(w**2 @ variance)) / total)


def direction(table: RowTable, name: str) -> MeanGap:
    """A mean gap with the variance that calibration implies.

    ``confidence``: mean confidence minus accuracy. ``positive``: mean P(class 1) minus the frequency of class 1, for
    two classes. ``entropy``: mean NLL minus mean entropy, with the variance of -ln p_Y under Y ~ p; zero at the
    optimum of a temperature, positive for overconfident probabilities.
    """
    if name == "entropy":
        return _direction(table.nll - table.entropy, table.varentropy, table.weight)
    score, outcome = (
        (table.positive, table.y == 1)
        if name == "positive"
        else (table.confidence, table.correct)
    )
    assert score is not None
    return _direction(score - outcome, score * (1.0 - score), table.weight)


@made_once
def direction_of(context: MetricContext, name: str) -> MeanGap:
    """``direction`` of the rows of a context. In units z allows for their design effect, the p-value is from draws.

    Else the p-value of a gap of scores is that of their sum (``sum_p_value``); that of the
    entropy is from draws where few rows are wrong.
    """
    t, found = context.table, direction(context.table, name)
    own = context.labelled("positive" if name == "positive" else "top")
    total = float(t.weights.sum())
    if t.units is None and name == "entropy":
        if not own.few_jumps:
            return found
        return found.with_draws(drawn_entropies(own) / total)
    if t.units is None:
        p_value = sum_p_value(own.scores, own.outcomes, t.weight)
        return MeanGap(found.gap, found.z, p_value)
    if name == "entropy":
        draws = shared_entropies(own)[1]
    else:
        said = float(own.scores.sum() if t.weight is None else t.weight @ own.scores)
        draws = np.asarray(said - own.null_outcomes("width").sum(axis=1))
    return found.with_luck(own, draws / total)


def entropy_columns(t: RowTable) -> FloatArray:
    """Effects of a correct outcome, (n, 3): its weight, change of summed -ln p_Y, and label variance it removes."""
    w = t.weights
    right, wrong, variance = label_losses(t.confidence, t.entropy, t.varentropy)
    return np.stack([w, w * (right - wrong), w**2 * variance], axis=1)


DRAWN_ROWS = 5_000_000
"""Rows times draws of the entropy gap up to which there are as many draws as are asked for."""


@made_once
def drawn_entropies(context: MetricContext) -> FloatArray:
    """Sums of NLL minus entropy under calibration of independent rows, (draws,)."""
    settings, n = context.settings, context.n
    draws = min(settings.resamples, max(context.heavy_draws, DRAWN_ROWS // n))
    order = np.argsort(context.scores, kind="stable")
    columns = entropy_columns(context.table)[order]
    sums = [outcomes @ columns for _, outcomes in context.drawn("nll", draws)]
    return entropy_draws(context, np.concatenate(sums))


@made_once
def shared_entropies(context: MetricContext) -> tuple[FloatArray, FloatArray]:
    """Draws for rows in units: sums of ``entropy_columns`` over correct rows, and ``entropy_draws`` from them."""
    assert context.shared is not None
    sums = context.shared.sums(entropy_columns(context.table), context.heavy_draws)
    return sums, entropy_draws(context, sums)


def entropy_draws(context: MetricContext, sums: FloatArray) -> FloatArray:
    """Sums of NLL minus entropy under calibration, (draws,). sums : (draws, 3) of ``entropy_columns`` over right rows.
    The NLL of the labels of wrong rows is drawn normal. In units its variance is at most that of rows that share the
    luck of their unit as the outcomes do: P(both wrong) <= the root of the product of both chances."""
    t = context.table
    w = t.weights
    _, wrong, variance = label_losses(t.confidence, t.entropy, t.varentropy)
    whole, luck = float(w**2 @ variance), context.luck
    left = whole - sums[:, 2]
    left = np.where(
        left > ROUNDING * whole, left, 0.0
    )  # no row is wrong but for rounding
    if luck is not None and t.units is not None:
        apart = w**2 * (1.0 - t.confidence) * variance
        alone = float(apart.sum())
        together = float((t.units.sums(np.sqrt(apart)) ** 2).sum())
        left *= 1.0 + luck.share * (together / alone - 1.0) if alone > 0.0 else 1.0
    noise = context.rng("joint").standard_normal(len(sums)) * np.sqrt(left)
    return np.asarray(float(w @ (wrong - t.entropy)) + sums[:, 1] + noise)


def luck_p_value(
    luck: Luck,
    scores: FloatArray,
    outcomes: FloatArray,
    weight: FloatArray | None = None,
) -> float:
    """Two-sided p-value of the sum of outcomes (n,) of rows in units, with ``scores`` (n,) as their probabilities. By
    Student's law with a degree of freedom fewer than units. Where few outcomes are expected for their variance, by
    Poisson's of the rarer outcome in steps of as many rows as the variance grows by, or of weighted rows by Skellam's
    in such steps; so too in one unit, which has no degree of freedom."""
    w = np.ones(len(scores)) if weight is None else weight
    said, found = float(w @ scores), float(w @ outcomes)
    if not luck.variance > 0.0:
        return float(vanishes(said - found))
    alone = luck.units == 1
    student = partial(
        t_p_value, (said - found) / math.sqrt(luck.variance), luck.units - 1.0
    )
    if weight is not None:
        jumps = JumpSums.of(scores, weight)
        many = expected_jumps(jumps) / luck.effect >= FEW_JUMPS
        if many and not alone:
            return student()
        return jump_p_value(found - said, jumps, luck.effect)
    mean, count = min((said, found), (len(scores) - said, len(scores) - found))
    if luck.rows >= 10.0 * luck.effect and not alone:
        return student()
    from scipy.special import gammainc, gammaincc

    step = luck.effect
    at_least = float(gammainc(count / step, mean / step)) if count > 0.0 else 1.0
    return min(
        1.0, 2.0 * min(at_least, float(gammaincc(count / step + 1.0, mean / step)))
    )


def sum_p_value(
    scores: FloatArray,
    outcomes: FloatArray,
    weight: FloatArray | None = None,
    units: Units | None = None,
) -> float:
    """Two-sided p-value of the sum of outcomes (n,), with ``scores`` (n,) as their probabilities. By the normal law of
    the sum, or where its variance is below 10 by its exact law; with weights by Skellam's law where few rows carry the
    sum (``jump_p_value``); for rows in units by ``luck_p_value``."""
    if units is not None:
        return luck_p_value(
            Luck.of(scores, outcomes, units, weight, both=True),
            scores,
            outcomes,
            weight,
        )
    if weight is not None:
        deviation = float(weight @ (outcomes - scores))
        return jump_p_value(deviation, JumpSums.of(scores, weight))
    variance = scores * (1.0 - scores)
    total = float(variance.sum())
    if total == 0.0 or total >= FEW_OUTCOMES:
        return _direction(scores - outcomes, variance, weight).p_value
    count = round(float(outcomes.sum()))
    if len(scores) > EXACT_ROWS:
        return rarer_p_value(float(scores.sum()), count, len(scores))
    return exact_p_value(scores, count)


def rarer_p_value(mean: float, count: int, n: int) -> float:
    """Two-sided p-value of a count of n outcomes, by Poisson's law of the rarer outcome, which is wider."""
    rarer, seen = min((mean, count), (n - mean, n - count))
    return poisson_p_value(round(seen), rarer)


def exact_p_value(scores: FloatArray, count: int) -> float:
    """Two-sided p-value of ``count`` successes of trials with the chances ``scores`` (n,), by their exact law."""
    law = poisson_binomial(scores)
    return min(1.0, 2.0 * min(float(law[: count + 1].sum()), float(law[count:].sum())))


def p_text(p: float, draws: float = 0) -> str:
    """Text of a p-value, ``p = 0.61``; ``p < 0.001`` below a thousandth, or the least that the draws can give."""
    cell = p_cell(p, draws)
    return (
        f"p {cell}"
        if cell.startswith("<")
        else f"p = {p:.2f}"
        if p >= 0.0995
        else f"p = {cell}"
    )


def p_cell(p: float, draws: float = 0) -> str:
    """Text of a p-value for the column of a table: ``0.613``, ``< 0.001``."""
    least = 1.0 / (1 + draws) if draws else 0.0
    if p < 0.001 or p <= least * (1.0 + 1e-9):
        return f"< {max(math.ceil(1000 * least - 1e-9), 1) / 1000:.3f}"
    return f"{p:.3f}"


def spiegelhalter(
    scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None
) -> MeanGap:
    """Spiegelhalter's z: the Brier score of the scores against its expectation under calibration.

    z = sum (y - c)(1 - 2c) / sqrt(sum (1 - 2c)^2 c (1 - c)). Reference: Spiegelhalter (1986).
    """
    slope = 1.0 - 2.0 * scores
    return _direction(
        (outcomes - scores) * slope, slope**2 * scores * (1.0 - scores), weight
    )


@made_once
def spiegelhalter_of(context: MetricContext) -> MeanGap:
    """``spiegelhalter`` of the rows of a context; where few rows carry it, with its p-value by Skellam's law."""
    scores, outcomes, weight = context.scores, context.outcomes, context.table.weight
    found = spiegelhalter(scores, outcomes, weight)
    # Every row steps by |1 - 2c| where the outcome is the less probable one.
    step = np.abs(1.0 - 2.0 * scores) * context.table.weights
    deviation = float(
        step @ np.where(scores < 0.5, outcomes - scores, scores - outcomes)
    )
    jumps = JumpSums.of(np.minimum(scores, 1.0 - scores), step)
    return MeanGap(found.gap, found.z, jump_p_value(deviation, jumps))


def max_brownian_tail(x: float) -> float:
    """P(max |B(t)|, 0 <= t <= 1, is at least x) for Brownian motion B."""
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
    """P(max B - min B over 0 <= t <= 1 is at least x) for Brownian motion B (Feller 1951)."""
    if x < 0.4:
        return 1.0
    terms = (
        (-1) ** (j - 1) * j * 0.5 * math.erfc(j * x / math.sqrt(2.0))
        for j in range(1, 101)
    )
    return min(1.0, max(0.0, 8.0 * math.fsum(terms)))


def scaled_tail(tail: Callable[[float], float], sigma: float, x: float) -> float:
    """P(sigma X is at least x) where ``tail`` gives P(X >= x); without a spread 1 where x vanishes, else 0."""
    return tail(x / sigma) if sigma > 0.0 else float(vanishes(x))


@dataclass(frozen=True)
class Cumulative:
    """Cumulative gaps of sorted scores. mad: largest |C_k|; kuiper: their range; sigma: null scale."""

    mad: float
    kuiper: float
    sigma: float


def cumulative_gaps(ranked: Ranked, variance: float) -> Cumulative:
    """Cumulative differences C_k = (1/N) sum_{i <= k} (y_i - c_i) in the order of the scores.

    Equal scores count at once, so the order of rows does not matter. ``mad`` is also the
    KS calibration error. variance : sum c (1 - c), weights squared; sigma is its root over N.

    Reference: Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu (2022), JMLR 23(351), sections 2-3;
    Gupta et al. (2021) for KS.
    """
    highest = lowest = path = 0.0
    mad, total = 0.0, ranked.right + ranked.wrong
    for each in ranked:
        steps = path + np.cumsum(each.right - (each.right + each.wrong) * each.score)
        highest, lowest = (
            max(highest, float(steps.max())),
            min(lowest, float(steps.min())),
        )
        mad, path = max(mad, float(np.abs(steps).max())), float(steps[-1])
    return Cumulative(
        mad / total, (highest - lowest) / total, math.sqrt(variance) / total
    )


def adaptive_test(
    scores: FloatArray,
    outcomes: FloatArray,
    resamples: int,
    draws: Iterable[tuple[slice, NDArray[Any]]],
) -> tuple[float, float, int]:
    """Adaptive test over bins of all sizes: (statistic, p-value, levels).

    For 2^b width bins, b = 1..floor(2 log2(n / sqrt(ln n))) but no more than 20, the pairwise squared error of
    ``debiased.squared_error`` in units of its null standard deviation; the statistic is the largest over b. Its p-value
    comes from outcomes drawn from the scores, so the level is exact; the paper splits the level over the b instead.
    Certain scores alone leave no spread: 0 where all are right, else infinite, with p-value 0.

    Reference: Lee, Huang, Hassani, Dobriban (2023), JMLR 24(335), section 4.
    """
    n = len(scores)
    levels = (
        max(1, min(20, int(2.0 * math.log2(n / math.sqrt(math.log(n))))))
        if n > 2
        else 1
    )
    order = np.argsort(scores, kind="stable")
    c, y = scores[order], outcomes[order]
    variance = c * (1.0 - c)
    cuts: list[tuple[IntArray, FloatArray, float]] = []
    for b in range(1, levels + 1):
        cell = np.minimum(np.ceil(c * 2.0**b), 2.0**b)
        first = np.flatnonzero(np.concatenate([[True], np.diff(cell) > 0]))
        count = np.diff(np.concatenate([first, [n]])).astype(np.float64)
        per_pair = np.divide(
            1.0, count - 1.0, out=np.zeros_like(count), where=count > 1
        )
        v = np.add.reduceat(variance, first)
        sd = math.sqrt(float((2.0 * v**2 * per_pair / count).sum()))
        if sd > 0.0:
            cuts.append((first, per_pair, sd))
    if not cuts:
        right = vanishes(float(np.abs(y - c).max()))
        return (0.0, 1.0, levels) if right else (math.inf, 0.0, levels)

    def largest(u: FloatArray) -> FloatArray:
        added, square = partial(np.add.reduceat, axis=1), u * u
        return np.max(
            [
                (added(u, at) ** 2 - added(square, at)) @ per_pair / sd
                for at, per_pair, sd in cuts
            ],
            axis=0,
        )

    observed = float(largest((y - c)[None])[0])
    reached = sum(reaching(largest(drawn - c), observed) for _, drawn in draws)
    return observed, (1 + reached) / (1 + resamples), levels


def class_p_values(stats: ClassStats) -> FloatArray:
    """P-values of every class's count, expected as its summed probability, (k,). By the normal law, or where the
    variance sum p (1 - p) < 10 by the Poisson law, which is wider. Sums of weighted rows are no counts: their p-values
    are those of ``jump_p_value``."""
    expected, labels, variance = stats.whole
    out = np.ones(len(expected))
    for c in range(len(out)):
        if stats.jumps is not None:
            fourth, rising = stats.jumps[:, c].tolist()
            jumps = JumpSums(float(variance[c]), fourth, rising)
            out[c] = jump_p_value(float(labels[c] - expected[c]), jumps)
        elif variance[c] >= FEW_OUTCOMES:
            out[c] = MeanGap.of(
                float(labels[c] - expected[c]), math.sqrt(variance[c])
            ).p_value
        else:
            out[c] = poisson_p_value(round(float(labels[c])), float(expected[c]))
    return out


def poisson_p_value(count: int, mean: float) -> float:
    """Two-sided p-value of a count under Poisson's law."""
    if mean <= 0.0:
        return 1.0 if count == 0 else 0.0
    at_most = math.fsum(_poisson_chance(j, mean) for j in range(count + 1))
    if at_most <= 0.5:
        return 2.0 * at_most
    # The upper tail itself, which 1 minus the lower would lose to rounding where it is small.
    upper = [_poisson_chance(count, mean)]
    while upper[-1] > 1e-17 * upper[0]:
        upper.append(upper[-1] * mean / (count + len(upper)))
    return min(1.0, 2.0 * min(at_most, math.fsum(upper)))


def _poisson_chance(count: int, mean: float) -> float:
    return math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))


def adjusted(p_values: FloatArray) -> FloatArray:
    """P-values adjusted for all m tests, min over j >= i of m p_(j) / j, (m,). Those at most a level are rejected at
    this false discovery rate (Benjamini, Hochberg 1995); the least of them is that of all hypotheses together (Simes
    1986)."""
    order = np.argsort(p_values, kind="stable")[::-1]
    m = len(p_values)
    out = np.empty(m)
    out[order] = np.minimum(
        np.minimum.accumulate(m * p_values[order] / np.arange(m, 0, -1)), 1.0
    )
    return out


@made_once
def _drawn_paths(context: MetricContext) -> FloatArray:
    """Largest cumulative gap, and range of the cumulative gaps, under calibration, (2, draws)."""
    t, shared = context.table, context.shared
    if shared is None:
        order = np.argsort(context.scores, kind="stable")
        outcomes = context.drawn("paths", context.heavy_draws)
    else:
        order, outcomes = shared.order, shared.some()
    c, w = context.scores[order], t.weights[order]
    last, found = np.append(np.flatnonzero(np.diff(c) > 0), t.n - 1), []
    for _, drawn in outcomes:
        path = np.cumsum(w * (drawn - c), axis=1)[:, last] / w.sum()
        high, low = np.maximum(path.max(axis=1), 0.0), np.minimum(path.min(axis=1), 0.0)
        found.append([np.maximum(high, -low), high - low])
    return np.concatenate(found, axis=1)


IMPOSSIBLE = "the confidences are certain, and wrong somewhere"


def _of_path(
    context: MetricContext,
    which: int,
    tail: Callable[[float], float],
    mean: float,
    q95: float,
) -> Value:
    """Value of the largest cumulative gap (0) or their range (1). tail, mean, q95 : of that of Brownian motion."""
    path = context.once(
        ("gaps",), lambda: cumulative_gaps(context.ranked(), context.variance)
    )
    value = (path.mad, path.kuiper)[which]
    if context.shared is not None or context.few_jumps:
        return Value(value, null=context.null_of(value, _drawn_paths(context)[which]))
    above = partial(scaled_tail, tail, path.sigma)
    return Value(
        value,
        null=Null(mean * path.sigma, q95 * path.sigma, above(value), 0, above=above),
    )


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
    direction = spiegelhalter_of(context)
    if context.shared is not None:
        slope, w = 1.0 - 2.0 * context.scores, context.table.weight
        slope = slope / len(slope) if w is None else slope * w / w.sum()
        draws = context.shared.sums(slope[:, None])[:, 0] - float(
            slope @ context.scores
        )
        direction = direction.with_luck(context, draws)
    if not math.isfinite(direction.z):
        raise Undefined(IMPOSSIBLE)
    return Value(direction.z, p_value=direction.p_value, more=direction.resamples)


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
