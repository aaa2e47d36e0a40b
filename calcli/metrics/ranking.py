"""Metrics of order: does a higher score mean more often right? Blind to calibration."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from calcli.metrics.context import COPIED, MetricContext
from calcli.metrics.registry import metric
from calcli.metrics.values import Undefined, Value
from calcli.statistics.areas import (
    LEAST,
    LEAST_UNITS,
    AreaSpread,
    area_under_roc,
    average_precision,
    best_risk_coverage,
    delong,
    delong_of_units,
    risk_coverage,
    risk_spread,
)
from calcli.statistics.intervals import Interval, t_quantile
from calcli.statistics.ties import Ranked


@metric("label:top", better="high", report="full", reads="order")
def auroc(context: MetricContext) -> Value:
    """How well confidence separates right rows from wrong ones.

    P(c_right > c_wrong) + P(equal)/2
    Reference: Hanley, McNeil (1982); interval: DeLong, DeLong, Clarke-Pearson (1988)
    """
    ranked = context.labelled("top").ranked()
    value = area_under_roc(ranked)
    if value is None:
        outcome = "right" if ranked.right > 0 else "wrong"
        raise Undefined(f"every row is {outcome}: nothing to separate")
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


def _with_delong(
    context: MetricContext, ranked: Ranked, value: float, by_odds: bool = False
) -> Value:
    """Give an area under the ROC curve its interval.

    by_odds : the area is of class 1 by its log-odds, else of the confidence.
    """
    t = context.table
    if t.units is None or ranked.weighted:
        return _with_interval(
            context, ranked, Value(value), "delong", lambda: delong(ranked, value)
        )
    if by_odds:
        assert t.log_odds is not None
        outcome = (t.y == 1).astype(np.float64)
        spread = delong_of_units(t.log_odds, outcome, value, t.units)
    else:
        spread = delong_of_units(t.confidence, t.correct, value, t.units)
    return _with_interval(context, ranked, Value(value), "unit t", lambda: spread)


def _with_interval(
    context: MetricContext,
    ranked: Ranked,
    value: Value,
    method: str,
    spread_of: Callable[[], AreaSpread],
) -> Value:
    """Give an area its interval, Student's on the scale of its log-odds.

    It has one degree of freedom less than rows that carry the area, or by ``unit t``
    than units. There is none for weighted rows, and where fewer than ``LEAST`` rows or
    ``LEAST_UNITS`` units carry the area; rows that are copies of each other count once.
    """
    area = value.value
    assert area is not None
    by_unit = method == "unit t"
    reason = None
    if ranked.weighted:
        reason = "no interval is computed for weighted rows"
    elif context.table.units is not None and not by_unit:
        reason = "no interval is computed for rows that belong together"
    if reason is not None:
        return replace(value, more={"ci_reason": reason})
    spread = spread_of()
    se = spread.se if math.isfinite(spread.se) else None
    carrying = spread.carrying
    if not by_unit and carrying < COPIED * LEAST:
        carrying /= context.copies
    reason = _without_interval(context, area, spread, carrying, by_unit)
    if reason is not None or se is None:
        return replace(value, se=se, more={"ci_reason": reason})
    level = context.settings.level
    quantile = t_quantile(0.5 + level / 2.0, carrying - 1.0)
    low, high = _interval_by_log_odds(area, quantile * se)
    return replace(value, se=se, interval=Interval(low, high, level, method))


def _without_interval(
    context: MetricContext,
    area: float,
    spread: AreaSpread,
    carrying: float,
    by_unit: bool,
) -> str | None:
    """Why an area has no interval, None where it has one.

    carrying : rows that carry the area, or units ``by_unit``, copies counted once.
    """
    if by_unit and context.few_wrong is not None:
        return context.few_wrong
    has_few = carrying < (LEAST_UNITS if by_unit else LEAST)
    is_known = 0.0 < area < 1.0 and math.isfinite(spread.se)
    if is_known and not has_few:
        return None
    if not has_few and area in (0.0, 1.0):
        return f"the area is {area:g}, the end of its scale: no interval"
    whole = f"{context.n} rows"
    units = context.table.units
    if by_unit and units is not None:
        whole = f"{units.n} units"
    elif carrying < spread.carrying:
        whole = f"{context.n / context.copies:.0f} distinct rows of {context.n}"
    return f"about {carrying:.0f} of {whole} carry this area: no interval"


def _interval_by_log_odds(area: float, reach: float) -> tuple[float, float]:
    """Ends of area +- reach, taken on the scale of the area's log-odds."""
    reach_in_log_odds = reach / (area * (1.0 - area))
    odds_against = (1.0 - area) / area
    low = 1.0 / (1.0 + odds_against * math.exp(reach_in_log_odds))
    high = 1.0 / (1.0 + odds_against * math.exp(-reach_in_log_odds))
    return low, high


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


def _one_vs_rest(
    context: MetricContext, statistic: Callable[[Ranked], float | None]
) -> Value:
    """Average a one-vs-rest statistic over the classes for which it is defined."""
    values = []
    for _, p, outcome in context.each_class():
        value = statistic(Ranked.of(p, outcome, context.table.weight))
        if value is not None:
            values.append(value)
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
    return _of_risks(context, ranked, risk_coverage(ranked), excess=False)


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
    return _of_risks(context, ranked, max(value, 0.0), excess=True)


def _of_risks(
    context: MetricContext, ranked: Ranked, area: float, excess: bool
) -> Value:
    """Give an area under the risk-coverage curve, or its excess, its interval."""

    def spread() -> AreaSpread:
        of_area, of_excess = risk_spread(ranked)
        return of_excess if excess else of_area

    signature = {"coverage": "weight"} if ranked.weighted else {}
    value = Value(area, signature=signature)
    return _with_interval(context, ranked, value, "influence function", spread)
