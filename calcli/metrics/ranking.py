"""Metrics of order: does a higher score mean more often right? Blind to calibration."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from calcli.metrics.context import MetricContext, Undefined, Value, metric
from calcli.metrics.intervals import Interval, t_quantile
from calcli.metrics.ties import Ranked, running
from calcli.numerics import FloatArray
from calcli.statistics.units import Units, uneven_error


def area_under_roc(ranked: Ranked) -> float | None:
    """Probability that an outcome of 1 has a higher score than one of 0, ties count half. None when all outcomes are
    the same. Reference: Hanley, McNeil (1982)."""
    pairs = ranked.right * ranked.wrong
    if pairs <= 0.0:
        return None
    won = (
        float(each.right @ (below + 0.5 * each.wrong))
        for each, _, below in running(ranked)
    )
    return math.fsum(won) / pairs


LEAST, LEAST_UNITS = 5.0, 8.0
"""Fewest rows, and fewest units, that must carry an area for it to have an interval."""


@dataclass(frozen=True)
class AreaSpread:
    """se : standard error of an area. carrying : rows that carry it, (sum l)^2 / sum l^2 of their shares l."""

    se: float
    carrying: float


def delong(ranked: Ranked, area: float) -> AreaSpread:
    """Spread of the area under the ROC curve; the rows that carry it are those of the outcome of which fewer do. Each
    row's share of pairs won, with mid-ranks for ties; the variance of the two means adds; NaN with fewer than two rows
    of an outcome. Reference: DeLong, DeLong, Clarke-Pearson (1988); Sun, Xu (2014) for the ranks."""
    right, wrong = ranked.right, ranked.wrong
    if min(right, wrong) < 2:
        return AreaSpread(math.nan, 0.0)
    squares, lost = np.zeros(2), 1.0 - area
    for each, below, wrong_below in running(ranked):
        by_right = 1.0 - (wrong_below + 0.5 * each.wrong) / wrong
        by_wrong = (below + 0.5 * each.right) / right
        squares += float(each.right @ by_right**2), float(each.wrong @ by_wrong**2)
    of_right, of_wrong = (
        float(squares[at]) - n * lost**2 for at, n in enumerate((right, wrong))
    )
    se = math.sqrt(
        max(of_right, 0.0) / (right - 1) / right
        + max(of_wrong, 0.0) / (wrong - 1) / wrong
    )
    sides = ((right, float(squares[0])), (wrong, float(squares[1])))
    return AreaSpread(
        se,
        min((n * lost) ** 2 / square if square > 0.0 else 0.0 for n, square in sides),
    )


def average_precision(ranked: Ranked) -> float | None:
    """Mean precision over the thresholds at which recall rises, weighted by the rise; ties are one threshold. None
    without an outcome of 1."""
    right, wrong = ranked.right, ranked.wrong
    if right <= 0.0:
        return None
    parts = []
    for each, below, wrong_below in running(ranked):
        found = right - below
        seen = found + (wrong - wrong_below)
        precision = np.divide(found, seen, out=np.zeros_like(found), where=seen > 0)
        parts.append(float(each.right @ precision))
    return math.fsum(parts) / right


def risk_coverage(ranked: Ranked) -> float:
    """Area under the risk-coverage curve: the mean over k of the error rate of the k highest scores. Equal scores enter
    in random order: the expectation over it, not a draw. With weights coverage is a share of the weight and the area an
    integral. Reference: El-Yaniv, Wiener (2010); Geifman, Uziel, El-Yaniv (2019)."""
    right, wrong = ranked.right, ranked.wrong
    parts = []
    for each, below, wrong_below in running(ranked):
        size, errors = each.right + each.wrong, each.wrong
        stop = np.maximum(right + wrong - below - wrong_below, size)
        parts.append(_risks(errors, size, stop, wrong - wrong_below, ranked.weighted))
    return math.fsum(parts) / (right + wrong)


def best_risk_coverage(right: float, wrong: float, weighted: bool = False) -> float:
    """The least area under the risk-coverage curve with so many right and wrong rows: every error comes last."""
    size, errors = np.array([right, wrong]), np.array([0.0, wrong])
    return _risks(errors, size, np.array([right, right + wrong]), errors, weighted) / (
        right + wrong
    )


def _risks(
    wrong: FloatArray,
    size: FloatArray,
    stop: FloatArray,
    errors: FloatArray,
    continuous: bool,
) -> float:
    """Sum of the error rates of the first m rows, over the m inside blocks (b,), random inside.

    stop, errors : rows, and errors, down to the block's end. In a block with error rate r that begins after m rows with
    e errors the rate at m + j is (e + j r) / (m + j), whose sum over j is r size + (e - r m) (sum of 1 / (m + j)).
    """
    held = size > 0
    wrong, size, stop, errors = wrong[held], size[held], stop[held], errors[held]
    before, rate = stop - size, wrong / size
    if continuous:
        before = np.where(before < 1e-12 * stop, 0.0, before)
        inverse = np.log(
            np.divide(stop, before, out=np.ones_like(stop), where=before > 0)
        )
    else:
        inverse = _inverses(np.rint(before), np.rint(stop))
    return float((rate * size + (errors - wrong - rate * before) * inverse).sum())


HARMONIC = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1.0, 65.0))])


def _inverses(low: FloatArray, high: FloatArray) -> FloatArray:
    """Sums of 1/m over low < m <= high, whole numbers (b,): from 64 on by Euler and Maclaurin's series."""
    out = 1.0 / high
    several = np.flatnonzero(high - low > 1.0)
    a, b = low[several], high[several]
    few, start = (
        HARMONIC[np.minimum(b, 64).astype(np.int64)]
        - HARMONIC[np.minimum(a, 64).astype(np.int64)],
        64.0,
    )
    a, b = np.maximum(a, start), np.maximum(b, start)

    def rest(m: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (2 * m) - 1.0 / (12 * m**2) + 1.0 / (120 * m**4))

    out[several] = few + np.log1p((b - a) / a) + rest(b) - rest(a)
    return np.asarray(out)


def risk_spread(ranked: Ranked) -> tuple[AreaSpread, AreaSpread]:
    """Spread of the area under the risk-coverage curve of rows without weights, and of its excess over the best.

    The area is E[-e ln S] with the error e of a row and the share S of rows at least as confident, so a
    row (c, e) moves it by -e ln S(c) - E[e' / S'; c' <= c] + E[e'] - area (the influence function, from which the
    jackknife differs by rounding); inside a block of ties both are means over its random order.
    The least area at an error rate r is r + (1 - r) ln(1 - r), its slope -ln(1 - r).
    """
    right, wrong = ranked.right, ranked.wrong
    n, rate = right + wrong, wrong / (right + wrong)
    slope = -math.log1p(-rate) if rate < 1.0 else 0.0
    sums, beneath = np.zeros(6), 0.0

    def area_to(rows: FloatArray) -> FloatArray:
        return np.asarray(rows * np.log(np.where(rows > 0.0, rows, n) / n))

    for each, below, wrong_below in running(ranked):
        size, errors = each.right + each.wrong, each.wrong
        before = np.rint(n - below - wrong_below - size)
        inverse = np.log(
            (before + size) / np.where(before > 0.0, before, before + size)
        )
        lifted = 1.0 - (area_to(before + size) - area_to(before)) / size
        passed = errors / size * inverse
        upto = beneath + np.cumsum(passed)
        beneath = float(upto[-1])
        moved = rate - (upto - passed) - errors / size * (1.0 - before / size * inverse)
        ones, zeros = lifted + moved, moved
        for at, (one, zero) in enumerate([(ones, zeros), (ones - slope, zeros)]):
            sums[2 * at] += errors @ one + each.right @ zero
            sums[2 * at + 1] += errors @ one**2 + each.right @ zero**2
        sums[4:] += errors @ lifted, errors @ lifted**2
    se, excess = (
        math.sqrt(max(sums[at + 1] / n - (sums[at] / n) ** 2, 0.0) / max(n - 1.0, 1.0))
        for at in (0, 2)
    )
    carrying = float(sums[4] ** 2 / sums[5]) if sums[5] > 0.0 else 0.0
    return AreaSpread(se, carrying), AreaSpread(excess, carrying)


@metric("label:top", better="high", report="full", reads="order")
def auroc(context: MetricContext) -> Value:
    """How well confidence separates right rows from wrong ones.

    P(c_right > c_wrong) + P(equal)/2
    Reference: Hanley, McNeil (1982); interval: DeLong, DeLong, Clarke-Pearson (1988)
    """
    ranked = context.labelled("top").ranked()
    value = area_under_roc(ranked)
    if value is None:
        which = "right" if ranked.right > 0 else "wrong"
        raise Undefined(f"every row is {which}: nothing to separate")
    return _with_delong(context, ranked, value)


@metric(
    "label:positive", better="high", report="two classes", whole=True, reads="order"
)
def roc_auc(context: MetricContext) -> Value:
    """Area under the ROC curve: P(class 1) ranks the two classes; more classes: mean of one-vs-rest.

    P(p_1 of a row of class 1 > p_1 of another) + P(equal)/2
    Reference: Hanley, McNeil (1982); interval: DeLong, DeLong, Clarke-Pearson (1988)
    Also called: rocauc, auc
    In tables: how well P(class 1) ranks the two classes
    """
    t = context.table
    if t.positive is None:
        return _one_vs_rest(context, area_under_roc)
    ranked = context.ranked_by_odds()
    value = area_under_roc(ranked)
    if value is None:
        raise Undefined("all labels are the same class: nothing to rank")
    return _with_delong(context, ranked, value, by_odds=True)


def delong_of_units(
    score: FloatArray, outcome: FloatArray, area: float, units: Units
) -> AreaSpread:
    """Spread of the area under the ROC curve where rows belong together: pairs won, and lost, summed by unit. score,
    outcome : (n,). Reference: Obuchowski (1997), Biometrics 53, 567-578."""
    up = outcome > 0
    right, wrong = np.sort(score[up]), np.sort(score[~up])

    def below(ordered: FloatArray, at: FloatArray) -> FloatArray:
        ends = (np.searchsorted(ordered, at, side=side) for side in ("left", "right"))
        return np.asarray(sum(ends) / (2.0 * len(ordered)))

    lost = np.where(up, 1.0 - below(wrong, score), below(right, score))
    part = (1.0 - area - lost) / np.where(up, len(right), len(wrong))
    sums = [units.sums(lost * side) for side in (up, ~up)]
    carrying = min(float(s.sum() ** 2 / (s @ s)) if s.any() else 0.0 for s in sums)
    return AreaSpread(uneven_error(part, units)[0], carrying)


def _with_delong(
    context: MetricContext, ranked: Ranked, value: float, by_odds: bool = False
) -> Value:
    """An area under the ROC curve with its interval. by_odds : of class 1 by its log-odds, else of the confidence."""
    t = context.table
    if t.units is None or ranked.weighted:
        return _with_interval(
            context, ranked, Value(value), "delong", lambda: delong(ranked, value)
        )
    score, outcome = (
        (t.log_odds, (t.y == 1).astype(np.float64))
        if by_odds
        else (t.confidence, t.correct)
    )
    assert score is not None
    spread = delong_of_units(score, outcome, value, t.units)
    return _with_interval(context, ranked, Value(value), "unit t", lambda: spread)


def _with_interval(
    context: MetricContext,
    ranked: Ranked,
    value: Value,
    method: str,
    spread_of: Callable[[], AreaSpread],
) -> Value:
    """An area with its interval: Student's on the scale of its log-odds, with one degree less than rows that carry it,
    or by ``unit t`` than units. None for weighted rows, and where fewer than ``LEAST`` rows or units carry the area."""
    area, by_unit = value.value, method == "unit t"
    assert area is not None
    if ranked.weighted or (context.table.units is not None and not by_unit):
        what = "weighted rows" if ranked.weighted else "rows that belong together"
        return replace(value, more={"ci_reason": f"no interval is computed for {what}"})
    spread, level = spread_of(), context.settings.level
    se = spread.se if math.isfinite(spread.se) else None
    if by_unit and context.few_wrong is not None:
        return replace(value, se=se, more={"ci_reason": context.few_wrong})
    few = spread.carrying < (LEAST_UNITS if by_unit else LEAST)
    if few or not 0.0 < area < 1.0 or se is None:
        of = (
            f"{context.table.units.n} units"
            if by_unit and context.table.units
            else f"{context.n} rows"
        )
        reason = f"about {spread.carrying:.0f} of {of} carry this area"
        if area in (0.0, 1.0) and not few:
            reason = f"the area is {area:g}, the end of its scale"
        return replace(value, se=se, more={"ci_reason": f"{reason}: no interval"})
    by = (
        t_quantile(0.5 + level / 2.0, spread.carrying - 1.0)
        * se
        / (area * (1.0 - area))
    )
    low, high = (
        1.0 / (1.0 + (1.0 - area) / area * math.exp(-side * by)) for side in (-1.0, 1.0)
    )
    return replace(value, se=se, interval=Interval(low, high, level, method))


@metric("label:positive", "average_precision", better="high", whole=True, reads="order")
def mean_average_precision(context: MetricContext) -> Value:
    """Average precision of P(class 1); more classes: mean of one-vs-rest.

    sum over thresholds of precision times the rise of recall
    Reference: Davis, Goadrich (2006)
    Also called: ap, auprc, pr_auc
    """
    t = context.table
    if t.positive is None:
        return _one_vs_rest(context, average_precision)
    value = average_precision(context.ranked_by_odds())
    if value is None:
        raise Undefined("no row of class 1")
    return Value(value)


def _one_vs_rest(context: MetricContext, of: Callable[[Ranked], float | None]) -> Value:
    """Mean of a one-vs-rest statistic over the classes for which it is defined."""
    found = [
        of(Ranked.of(p, outcome, context.table.weight))
        for _, p, outcome in context.each_class()
    ]
    values = [value for value in found if value is not None]
    if not values:
        raise Undefined("all labels are the same class: nothing to rank")
    return Value(
        float(np.mean(values)),
        signature={"label": "one-vs-rest"},
        more={"classes": len(values)},
    )


@metric("label:top", report="full", reads="order")
def aurc(context: MetricContext) -> Value:
    """Area under the risk-coverage curve: error rate of the most confident rows, mean over their number.

    mean_k (errors among the k most confident rows) / k
    Reference: Geifman, Uziel, El-Yaniv (2019); interval: by its influence function (Hampel 1974)
    """
    ranked = context.labelled("top").ranked()
    return _of_risks(context, ranked, risk_coverage(ranked), 0)


@metric("label:top", report="full", reads="order")
def eaurc(context: MetricContext) -> Value:
    """Excess of the area under the risk-coverage curve over the least one at this accuracy.

    aurc - aurc of an order with all errors last
    Reference: Geifman, Uziel, El-Yaniv (2019); interval: by its influence function (Hampel 1974)
    Also called: e_aurc
    """
    ranked = context.labelled("top").ranked()
    value = risk_coverage(ranked) - best_risk_coverage(
        ranked.right, ranked.wrong, ranked.weighted
    )
    return _of_risks(context, ranked, max(value, 0.0), 1)


def _of_risks(context: MetricContext, ranked: Ranked, area: float, which: int) -> Value:
    """An area under the risk-coverage curve (0), or its excess (1), with its interval."""
    value = Value(area, signature={"coverage": "weight"} if ranked.weighted else {})
    return _with_interval(
        context, ranked, value, "influence function", lambda: risk_spread(ranked)[which]
    )
