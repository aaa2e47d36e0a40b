"""Metrics of P(class 1) of two classes, by the names that risk prediction has for them.

Calibration intercept and slope, observed over expected, errors of a smoothed curve
(ICI, E50, E90, Emax) and net benefit.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.registry import metric
from calcli.metrics.values import Undefined, Value
from calcli.numerics import joined_fields, starts_of_ties, tie_groups
from calcli.solvers import Slope
from calcli.statistics.decisions import benefit_interval, benefit_of_all, row_benefit
from calcli.statistics.event_ratio import EventSums
from calcli.statistics.intervals import (
    Interval,
    mean_of,
    normal_p_value,
    normal_quantile,
    t_p_value,
    t_quantile,
)
from calcli.statistics.inverse_temperature import fit_inverse_temperature
from calcli.statistics.lowess import Lowess, SmoothedErrors
from calcli.statistics.recalibration import (
    CERTAIN,
    Recalibration,
    deviance_of_calibration,
    deviance_of_intercept,
    deviance_of_slope,
    fit_intercept,
    fit_recalibration,
    profile_interval,
    sandwich_of_recalibration,
)
from calcli.statistics.recalibration_data import RecalibrationData
from calcli.statistics.sandwich import Sandwich, sandwich
from calcli.statistics.units import design_effect, numbered
from calcli.statistics.weights import effective_number

SMOOTHED_CELLS = 5000
"""Points up to which drawn outcomes are smoothed at their own P(class 1)."""

MOST_REACH = math.log(1000.0)
"""Largest factor, as its logarithm, to which an interval of a ratio goes."""

NO_SIGNATURE: Mapping[str, str] = MappingProxyType({})

ONE_UNIT = "one unit holds the information: no interval"


def _positive(context: MetricContext) -> MetricContext:
    """The context of P(class 1). Raises Undefined for other than two classes."""
    if context.table.positive is None:
        raise Undefined(f"for two classes only, {context.table.known}")
    return context.labelled("positive")


def _few_units(context: MetricContext) -> str | None:
    """Reason why units tell no spread of P(class 1), None where they do."""
    luck = _positive(context).luck
    if luck is None or luck.few_wrong is None:
        return None
    few = f"about {luck.few_wrong:.0f} of {luck.units} units"
    return f"{few} hold the rarer class: no interval"


# ---- logistic recalibration


@made_once
def recalibration_data(context: MetricContext) -> RecalibrationData:
    """Outcomes by their log-odds, of rows of two classes."""
    table = context.table
    assert table.log_odds is not None
    outcome = (table.y == 1).astype(np.float64)
    return RecalibrationData.of_rows(table.log_odds, outcome, table.weight)


@made_once
def _fit_in_cells(context: MetricContext) -> Recalibration:
    """Intercept and slope fitted together. Raises Undefined where none are finite."""
    data = recalibration_data(context)
    if data.ranges.why_no_slope is not None:
        raise Undefined(data.ranges.why_no_slope)
    return fit_recalibration(data.cells, data.ranges)


@made_once
def _joint_fit(context: MetricContext) -> Recalibration:
    """The same from the rows themselves. Raises Undefined where they do not tell it."""
    fit = _fit_in_cells(context)
    data = recalibration_data(context)
    if data.rows is not data.cells:
        fit = fit_recalibration(data.rows, data.ranges, start=fit)
    if not fit.tells_slope(data.ranges):
        raise Undefined(
            "P(class 1) of the two classes hardly overlaps: the slope is not determined"
        )
    return fit


def _sandwich_of(
    context: MetricContext, fit: Recalibration, with_slope: bool
) -> Sandwich | None:
    """Sandwich covariance of a fit, by unit; rows with weights alone are units of one.

    with_slope : of intercept and slope, else of the intercept alone.
    """
    table = context.table
    assert table.log_odds is not None
    used = np.flatnonzero(np.abs(table.log_odds) < CERTAIN)
    code = used if table.units is None else table.units.code[used]
    return sandwich_of_recalibration(
        table.log_odds[used],
        (table.y[used] == 1).astype(np.float64),
        table.weights[used],
        numbered(code)[1],
        fit,
        with_slope=with_slope,
    )


def _by_sandwich(
    context: MetricContext,
    estimate: float,
    covariance: Sandwich | None,
    *,
    neutral: float,
    parameter: int,
    few: str | None,
    more: Mapping[str, Any],
    signature: Mapping[str, str] = NO_SIGNATURE,
) -> Value:
    """An estimate with its sandwich error; Student's interval and test of ``neutral``.

    parameter : number of the estimate among those of ``covariance``. few : reason for
    no interval, None where there is one.
    """
    value = Value(estimate, signature=signature, more=more)
    if covariance is None:
        return replace(value, more={**more, "ci_reason": few or ONE_UNIT})
    value = replace(value, se=float(covariance.standard_errors[parameter]))
    if few is not None:
        return replace(value, more={**more, "ci_reason": few})
    level = context.settings.level
    error = float(covariance.cautious_errors[parameter])
    degrees = float(covariance.degrees[parameter])
    reach = t_quantile(0.5 + level / 2.0, degrees) * error
    method = "sandwich t" if context.table.units is None else "unit t"
    return replace(
        value,
        interval=Interval(estimate - reach, estimate + reach, level, method),
        p_value=t_p_value((estimate - neutral) / error, degrees),
    )


def _by_likelihood(
    context: MetricContext,
    estimate: float,
    neutral: float,
    standard_error: float,
    deviance: Slope,
    more: dict[str, Any],
) -> Value:
    """An estimate with its profile-likelihood interval and likelihood-ratio test."""
    level = context.settings.level
    critical = normal_quantile(0.5 + level / 2.0) ** 2
    low, high = profile_interval(deviance, estimate, standard_error, critical)
    return Value(
        estimate,
        se=standard_error,
        interval=Interval(low, high, level, "profile likelihood"),
        p_value=normal_p_value(math.sqrt(deviance(neutral)[0])),
        more=more,
    )


@metric(
    "model:logistic label:positive",
    better="one",
    report="two classes",
    whole=True,
    reads="order",
)
def slope(context: MetricContext) -> Value:
    """Calibration slope: 1 is calibrated, below 1 the probabilities are too extreme.

    b of logit P(y = 1) = a + b (z_1 - z_0); more classes: 1/T of the temperature T
    Reference: Cox (1958); Miller et al. (1993); Van Calster et al. (2019)
    Also called: calibration_slope
    In tables: calibration slope; below 1: risks too extreme
    """
    if context.table.positive is None:
        return _slope_of_many_classes(context)
    fit = _joint_fit(context)
    data = recalibration_data(context)
    if not context.has_plain_rows:
        covariance = _sandwich_of(context, fit, with_slope=True)
        few = _few_units(context)
        joint = _joint_test_by_sandwich(fit, None if few else covariance)
        return _by_sandwich(
            context,
            fit.slope,
            covariance,
            neutral=1.0,
            parameter=1,
            few=few,
            more=data.more | joint,
        )
    near = _fit_in_cells(context)
    deviance = deviance_of_calibration(data.cells, near)
    return _by_likelihood(
        context,
        estimate=fit.slope,
        neutral=1.0,
        standard_error=math.sqrt(fit.covariance[1, 1]),
        deviance=lambda b: deviance_of_slope(data.cells, data.ranges, near, b),
        more=data.more | _joint_test_by_likelihood(fit, deviance),
    )


@metric(
    "slope:1 model:logistic label:positive", better="zero", whole=True, reads="order"
)
def intercept(context: MetricContext) -> Value:
    """Calibration in the large: the calibration intercept with the slope fixed at 1.

    a of logit P(y = 1) = a + (z_1 - z_0); above 0 the probabilities are too low
    Reference: Cox (1958); Steyerberg (2019); Van Calster et al. (2019)
    Also called: calibration_in_the_large, calibration_intercept, citl
    In tables: calibration in the large; above 0: risks too low
    """
    _positive(context)
    data = recalibration_data(context)
    if data.ranges.why_no_intercept is not None:
        raise Undefined(data.ranges.why_no_intercept)
    near = fit_intercept(data.cells, data.ranges)
    fit = fit_intercept(data.rows, data.ranges, start=near.intercept)
    if not fit.tells_intercept():
        raise Undefined(
            "P(class 1) is 0 or 1 up to rounding: no intercept is determined"
        )
    if not context.has_plain_rows:
        return _by_sandwich(
            context,
            fit.intercept,
            _sandwich_of(context, fit, with_slope=False),
            neutral=0.0,
            parameter=0,
            few=_few_units(context),
            more=data.more,
        )
    return _by_likelihood(
        context,
        estimate=fit.intercept,
        neutral=0.0,
        standard_error=float(fit.likelihood.information[0, 0]) ** -0.5,
        deviance=lambda a: deviance_of_intercept(data.cells, near, a),
        more=data.more,
    )


def _joint_test_by_likelihood(fit: Recalibration, deviance: float) -> dict[str, Any]:
    """Facts about the intercept beside the slope, and the test of (0, 1) for both."""
    return {
        "joint_intercept": fit.intercept,
        "joint_intercept_se": math.sqrt(fit.covariance[0, 0]),
        "joint_chi2": deviance,
        "joint_p_value": math.exp(-deviance / 2.0),
        "joint_method": "likelihood ratio",
    }


def _joint_test_by_sandwich(
    fit: Recalibration, covariance: Sandwich | None
) -> dict[str, Any]:
    """The same by Hotelling's test with the sandwich covariance; no p without one."""
    facts: dict[str, Any] = {"joint_intercept": fit.intercept}
    if covariance is None:
        return facts
    apart = np.array([fit.intercept, fit.slope - 1.0])
    squared = float(apart @ np.linalg.solve(covariance.jackknife, apart))
    degrees = float(covariance.degrees.min())
    left = max(degrees - 1.0, 1.0)
    ratio = squared * left / (2.0 * degrees)
    return facts | {
        "joint_intercept_se": float(covariance.standard_errors[0]),
        # the tail of F with 2 and ``left`` degrees of freedom has this closed form
        "joint_p_value": (1.0 + 2.0 * ratio / left) ** (-left / 2.0),
        "joint_method": "Hotelling",
    }


def _slope_of_many_classes(context: MetricContext) -> Value:
    """1/T of the temperature fitted to these rows, with its sandwich error."""
    table = context.table
    fit = fit_inverse_temperature(context.each_class, table.weights)
    if isinstance(fit, str):
        raise Undefined(fit)
    covariance = sandwich(
        scores=fit.score[:, None],
        informations=fit.information[:, None, None],
        code=np.arange(table.n) if table.units is None else table.units.code,
        spread=np.array([[float(table.weights @ fit.information)]]),
    )
    return _by_sandwich(
        context,
        fit.slope,
        covariance,
        neutral=1.0,
        parameter=0,
        few=context.few_wrong,
        more={},
        signature={"model": "temperature", "label": "all"},
    )


# ---- observed over expected


def _ratio_interval(sums: EventSums, level: float) -> Interval | None:
    """Score interval of observed over expected; None where it has no upper end."""
    ends = sums.score_interval(normal_quantile(0.5 + level / 2.0))
    if ends is None:
        return None
    return Interval(*ends, level, "score")


@metric("label:positive", better="one", whole=True, reads="order")
def oe_ratio(context: MetricContext) -> Value:
    """Observed over expected number of rows of class 1: above 1 risks are too low.

    sum y / sum p_1
    Reference: Debray et al. (2017), BMJ 356, i6460; interval: score test (Wilson 1927)
    Also called: oe, o_e, observed_expected
    In tables: observed over predicted rows of class 1
    """
    positive = _positive(context)
    sums = reduce(add, map(EventSums.of_block, positive.ranked()))
    if not sums.expected > 0.0:
        raise Undefined("P(class 1) is 0 in all rows: no row of class 1 is expected")
    more = {"observed": sums.observed, "expected": sums.expected}
    if not context.has_plain_rows:
        return _ratio_of_dependent_rows(positive, sums.ratio, more)
    distance = 0.0
    if sums.variance > 0.0:
        distance = (sums.observed - sums.expected) / math.sqrt(sums.variance)
    return Value(
        sums.ratio,
        interval=_ratio_interval(sums, context.settings.level),
        p_value=normal_p_value(distance),
        more=more,
    )


def _ratio_of_dependent_rows(
    positive: MetricContext, ratio: float, more: dict[str, Any]
) -> Value:
    """The ratio with Student's interval of its logarithm, for rows of units or weights."""
    table = positive.table
    level = positive.settings.level
    residual = mean_of(
        positive.outcomes - ratio * positive.scores, table.weight, table.units
    )
    expected = mean_of(positive.scores, table.weight).value
    se = residual.se / expected
    few = _few_units(positive)
    if ratio == 0.0:
        few = "no row of class 1 was observed: no interval"
    if few is not None or not math.isfinite(se) or not residual.n > 1.0:
        return Value(ratio, more=more | {"ci_reason": few or ONE_UNIT})
    degrees = residual.n - 1.0
    reach = t_quantile(0.5 + level / 2.0, degrees) * se / ratio
    if reach > MOST_REACH:
        few = "these rows bound the ratio to no factor of 1000: no interval"
        return Value(ratio, se=se, more=more | {"ci_reason": few})
    method = "unit log t" if residual.by_unit else "log t"
    low = ratio * math.exp(-reach)
    high = ratio * math.exp(reach)
    return Value(
        ratio,
        se=se,
        interval=Interval(low, high, level, method),
        p_value=t_p_value(math.log(ratio) * ratio / se, degrees) if se > 0.0 else None,
        more=more,
    )


# ---- errors of a smoothed curve


@made_once
def _smoothed(context: MetricContext) -> SmoothedErrors:
    """Errors of the observed outcomes, at every distinct P(class 1)."""
    table = context.table
    points, place = tie_groups(context.scores, least=1.0)
    if len(points) < 2:
        raise Undefined("P(class 1) is the same in all rows: nothing to smooth")
    weight = np.bincount(place, table.weights).astype(np.float64)
    ones = np.bincount(place, table.weights * context.outcomes).astype(np.float64)
    smoothed = Lowess.of(points, weight).smooth(ones)
    return SmoothedErrors.of(np.abs(points - smoothed), weight)


@made_once
def _drawn_errors(context: MetricContext) -> SmoothedErrors:
    """The same of outcomes drawn from P(class 1), of many rows in cells."""
    table = context.table
    order = np.argsort(context.scores, kind="stable")
    scores = context.scores[order]
    weight = table.weights[order]
    first = starts_of_ties(scores, least=1.0)
    if len(first) > SMOOTHED_CELLS:
        cell = np.arange(len(scores)) * SMOOTHED_CELLS // len(scores)
        # equal scores stay together
        first = first[np.diff(cell[first], prepend=-1) > 0]
    mass = np.add.reduceat(weight, first)
    points = np.add.reduceat(weight * scores, first) / mass
    smoother = Lowess.of(points, mass)
    parts = []
    for _, drawn in context.drawn("lowess", context.heavy_draws):
        weighted = drawn if table.weight is None else drawn * weight
        ones = np.add.reduceat(weighted, first, axis=1, dtype=np.float64)
        errors = np.abs(points - smoother.smooth(ones))
        parts.append(SmoothedErrors.of(errors, mass))
    return joined_fields(parts)


def _smoothed_error(context: MetricContext, which: str) -> Value:
    """One summary of the smoothed errors, with what a calibrated model would show."""
    positive = _positive(context)
    value = float(getattr(_smoothed(positive), which))
    draws = getattr(_drawn_errors(positive), which)
    return Value(value, null=positive.null_of(value, draws))


SMOOTHER = "smoother:lowess span:2/3 label:positive"


@metric(SMOOTHER, whole=True)
def ici(context: MetricContext) -> Value:
    """Integrated calibration index: mean distance of P(class 1) from a smoothed curve.

    mean |p_1 - lowess(p_1)|, the curve of rms::val.prob
    Reference: Harrell (2015); Austin, Steyerberg (2019), Statistics in Medicine 38
    Also called: eavg, integrated_calibration_index
    """
    return _smoothed_error(context, "mean")


@metric(SMOOTHER, whole=True)
def e50(context: MetricContext) -> Value:
    """Median distance of P(class 1) from a smoothed calibration curve.

    median |p_1 - lowess(p_1)|
    Reference: Austin, Steyerberg (2019), Statistics in Medicine 38, 4051-4065
    """
    return _smoothed_error(context, "median")


@metric(SMOOTHER, whole=True)
def e90(context: MetricContext) -> Value:
    """90th percentile of the distance of P(class 1) from a smoothed calibration curve.

    90 % quantile of |p_1 - lowess(p_1)|
    Reference: Harrell (2015); Austin, Steyerberg (2019)
    """
    return _smoothed_error(context, "ninetieth")


@metric(SMOOTHER, whole=True)
def emax(context: MetricContext) -> Value:
    """Largest distance of P(class 1) from a smoothed calibration curve.

    max |p_1 - lowess(p_1)|
    Reference: Harrell (2015); Austin, Steyerberg (2019)
    """
    return _smoothed_error(context, "largest")


# ---- decisions


@metric(
    "threshold:0.5 label:positive",
    better="high",
    whole=True,
    reads="order",
    argument="threshold",
)
def net_benefit(context: MetricContext, threshold: float = 0.5) -> Value:
    """Net benefit of acting where P(class 1) is at least 0.5, or net_benefit(RISK).

    TP / n - (FP / n) t / (1 - t), with t the threshold
    Reference: Vickers, Elkin (2006); interval: Zou, Donner (2008)
    In tables: true positives less weighted false positives, per row
    """
    if not 0.0 < threshold < 1.0:
        raise UsageError(
            f"net_benefit({threshold:g}): expected a risk above 0 and below 1,"
            " e.g. net_benefit(0.2)"
        )
    positive = _positive(context)
    ranked = positive.ranked()
    hits = false_alarms = 0.0
    for block in ranked:
        acted_on = block.score >= threshold
        hits += float(block.right[acted_on].sum())
        false_alarms += float(block.wrong[acted_on].sum())
    rows = ranked.right + ranked.wrong
    odds = threshold / (1.0 - threshold)
    value = (hits - odds * false_alarms) / rows
    more: dict[str, Any] = {"treat_all": benefit_of_all(ranked.right / rows, threshold)}
    few = _few_units(context) if not context.has_plain_rows else None
    interval = None
    if few is None:
        level = context.settings.level
        low, high = benefit_interval(
            np.array(hits / rows),
            np.array(false_alarms / rows),
            np.array(odds),
            np.array(effective_rows(positive, threshold)),
            level,
        )
        interval = Interval(float(low), float(high), level, "Wilson, combined")
    else:
        more["ci_reason"] = few
    return Value(
        value,
        interval=interval,
        signature={"threshold": f"{threshold:g}"},
        more=more,
    )


def effective_rows(positive: MetricContext, threshold: float) -> float:
    """Number of independent rows that would tell the net benefit as well as these.

    Rows over the effect of their weights (Kish 1965) and over the design effect of
    their units, in Student's measure of as many degrees of freedom as units. positive :
    context of P(class 1).
    """
    table = positive.table
    if positive.has_plain_rows:
        return float(positive.n)
    rows = effective_number(table.weights)
    if table.units is None:
        return rows
    benefit = row_benefit(positive.scores, positive.outcomes, threshold)
    rows /= design_effect(benefit, table.units, table.weight)
    end = 0.5 + positive.settings.level / 2.0
    wider = t_quantile(end, table.units.n - 1.0) / normal_quantile(end)
    return rows / wider**2
