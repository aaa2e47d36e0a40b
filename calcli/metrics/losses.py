"""Losses and mean gaps: means over rows, and their paired differences."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from calcli.metrics.context import SHARED_LUCK, MetricContext, made_once
from calcli.metrics.registry import METRICS, metric
from calcli.metrics.row_means import (
    bootstrap_of,
    column,
    finite,
    mean_named,
    registered_mean,
    resampled,
    row_mean,
    score_error,
)
from calcli.metrics.settings import Label
from calcli.metrics.significance import direction, direction_of
from calcli.metrics.values import Undefined, Value
from calcli.numerics import FloatArray
from calcli.solvers import halved
from calcli.statistics.intervals import (
    Interval,
    Mean,
    exact_interval,
    mean_of,
    normal_quantile,
    t_interval,
    t_quantile,
    wilson_interval,
)
from calcli.statistics.nulls import Null
from calcli.statistics.p_values import MeanGap, adjusted, sum_p_value
from calcli.statistics.paired import PairedSums

Rows = TypeVar("Rows", bound=Callable[[MetricContext], FloatArray])


def paired_columns(
    context: MetricContext, baseline: MetricContext
) -> dict[str, FloatArray]:
    """Differences to the baseline, this minus that, row by row, of the means over rows
    of the default report.
    """
    columns = {}
    for name, measure in METRICS.items():
        is_known = context.table.k > 1 or not measure.whole
        if measure.report == "default" and is_known and measure.rows is not None:
            columns[name] = measure.rows(context) - measure.rows(baseline)
    return columns


def paired_sums(
    context: MetricContext, baseline: MetricContext
) -> dict[str, PairedSums]:
    """Sums of the differences of ``paired_columns``."""
    columns = paired_columns(context, baseline)
    t = context.table
    return {
        name: PairedSums.of(d, t.weight, t.expected.get(name))
        for name, d in columns.items()
    }


def mean_over_rows(signature: str, **facts: Any) -> Callable[[Rows], Rows]:
    """Register the mean of the column that the decorated function finds, and nothing
    more.
    """

    def register(rows: Rows) -> Rows:
        name = rows.__name__
        metric(signature, name, rows.__doc__ or "", rows=rows, reads="sums", **facts)(
            lambda context: registered_mean(context, name)
        )
        return rows

    return register


@metric(better="high", report="default", rows=lambda c: c.right, reads="sums")
def accuracy(context: MetricContext) -> Value:
    """Proportion of samples whose predicted class is the label.

    mean 1[argmax p = y], ties to the lowest index; with --threshold T, 1[(p_1 > T) = y]
    Also called: acc
    In tables: proportion of right predictions
    """
    mean = mean_named(context, "accuracy")
    level = context.settings.level
    if mean.by_unit:
        value = registered_mean(context, "accuracy")
        interval = _reaching(
            value.interval, share_of_units(mean.value, mean, level), 0.0
        )
    else:
        low, high = wilson_interval(np.array(mean.value), np.array(mean.n), level)
        value = row_mean(mean, None)
        interval = Interval(float(low), float(high), level, "wilson")
    return replace(value, interval=interval, signature=context.threshold_signature)


@metric(
    "log:e zeros:digit",
    report="default",
    rows=lambda c: c.table.nll,
    whole=True,
    reads="sums",
)
def nll(context: MetricContext) -> Value:
    """Negative log-likelihood of the labels, natural logarithm.

    mean -ln p_y; m zeros of a row count as half of the last digit / (m + 1) each, and those at labels are counted
    Reference: Good (1952)
    Also called: log_loss, logloss, cross_entropy, ce
    In tables: log loss: mean -ln of the label's probability
    """
    value = registered_mean(context, "nll")
    direction = direction_of(context, "entropy")
    assert value.value is not None
    expected = value.value - direction.gap
    sd = 0.0
    if direction.z and math.isfinite(direction.z):
        sd = direction.gap / direction.z
    how = None if context.table.units is None else SHARED_LUCK
    null = Null(
        expected,
        expected + normal_quantile(0.95) * abs(sd),
        direction.p_value,
        direction.draws,
        how,
    )
    more = {**value.more, "clipped": context.table.clipped}
    between = nll_between(context, value.value)
    if between is not None:
        more["between"] = between
    return replace(value, null=null, more=more)


# share of the labels above which their stored zeros make the NLL a range
MANY_ZEROS = 0.01


def nll_between(context: MetricContext, nll: float) -> list[float] | None:
    """Range of the NLL as zeros at labels count as half of the last digit, or as a
    twentieth of that; None where at most 1 % of the labels have one.
    """
    table = context.table
    lower, higher = table.zero_shifts.tolist()
    if table.clipped <= MANY_ZEROS * table.n or lower == 0.0:
        return None
    total = float(table.n if table.weight is None else table.weight.sum())
    return [nll - lower / total, nll + higher / total]


@mean_over_rows("classes:sum", report="default", whole=True)
def brier(context: MetricContext) -> FloatArray:
    """Squared error of the probability vector, summed over classes.

    mean sum_c (p_c - 1[y = c])^2, 0..2; other programs divide by k or by 2
    Reference: Brier (1950)
    Also called: brier_score
    In tables: squared error of all probabilities
    """
    return context.table.brier


@mean_over_rows("label:top", report="default")
def brier_top(context: MetricContext) -> FloatArray:
    """Squared error of the confidence.

    mean (confidence - 1[prediction = y])^2
    Reference: Brier (1950)
    In tables: squared error of the confidence
    """
    return context.table.brier_top


@mean_over_rows("label:top", better=None, report="default")
def mean_confidence(context: MetricContext) -> FloatArray:
    """Mean probability of the predicted class.

    mean p_prediction
    Also called: confidence
    In tables: mean probability of the prediction
    """
    return context.table.confidence


@mean_over_rows("classes:mean", whole=True)
def brier_mean(context: MetricContext) -> FloatArray:
    """Squared error of the probability vector, mean over classes.

    brier / k
    Reference: Brier (1950); Kull et al. (2019); Jang, Lee, Weimer (2021)
    """
    return context.table.brier / context.table.k


@metric("label:top", better=None, report="full", reads="sums")
def confidence_variance(context: MetricContext) -> Value:
    """Population variance of the confidence.

    mean (c - mean c)^2
    Reference: Jang, Ivanov, Lee, Weimer (2021)
    """
    return Value(variance_of_confidence(context))


@made_once
def variance_of_confidence(context: MetricContext) -> float:
    """Population variance of the confidence."""
    t = context.table
    mean = mean_of(t.confidence, t.weight).value
    return mean_of((t.confidence - mean) ** 2, t.weight).value


def _reaching(
    interval: Interval | None, ends: Sequence[float], least: float
) -> Interval | None:
    """Interval widened to hold ``ends`` too, within ``least`` and 1."""
    if interval is None:
        return None
    ends = [interval.low, interval.high, *ends]
    return replace(interval, low=max(min(ends), least), high=min(max(ends), 1.0))


def share_of_units(rate: float, mean: Mean, level: float) -> list[float]:
    """Ends of Wilson's interval of a proportion of rows in units, where few independent
    rows would be right, or wrong.

    rate : the proportion. mean : of which it is a part, with its standard error by
    unit. As of so many independent rows as have this error, in Student's measure of as
    many degrees as units; one of 0 or 1 has one row a unit. Student's own interval is
    short where by chance few rows are wrong, and missed so in up to .22 of samples.
    Reference: Korn, Graubard (1998), Survey Methodology 24, 193-201.
    """
    spread = rate * (1.0 - rate)
    n = mean.n
    if spread > 0.0 and mean.reach > 0.0:
        upper = 0.5 + level / 2.0
        wider = normal_quantile(upper) / t_quantile(upper, mean.freedom)
        n = spread / mean.reach**2 * wider**2
    if CARRYING <= rate * n <= n - CARRYING:
        return []
    return list(map(float, wilson_interval(np.array(rate), np.array(n), level)))


FEW = 30
CARRYING = 10
"""Rows below which no verdict is given, and right or wrong rows below which these do
not tell a rate's own spread.
"""


def gap_interval(context: MetricContext, level: float | None = None) -> Interval:
    """Interval of the mean score minus the share of outcomes, of what ``--label`` says,
    within -1..1.

    Student's. Where fewer than ten rows are right, or wrong, they do not tell their own
    spread: that of the share is Clopper and Pearson's, to which Student's of the mean
    score is added, the roots of the sums of squares (Zou, Donner 2008, Statistics in
    Medicine 27, 1693-1702). Over units it is Student's (see ``share_of_units``); NaN,
    with the reason as its method, where too few are wrong.
    """
    if level is None:
        level = context.settings.level
    mean = mean_named(context, "score gap")
    student = t_interval(mean, level)
    rate = outcome_rate(context)
    if mean.by_unit:
        if context.few_wrong is not None or student is None:
            return Interval(math.nan, math.nan, level, context.few_wrong or "one unit")
        ends = [mean.value + rate - end for end in share_of_units(rate, mean, level)]
        return _reaching(student, ends, -1.0) or student
    interval = student
    if student is None or not CARRYING <= rate * mean.n <= mean.n - CARRYING:
        low, high = exact_interval(rate * mean.n, mean.n, level)
        reach = 0.0  # of the mean score, which one row does not tell
        if student is not None:
            quantile = t_quantile(0.5 + level / 2.0, mean.n - 1.0)
            reach = quantile * score_error(context)
        below = math.hypot(high - rate, reach)
        above = math.hypot(rate - low, reach)
        interval = Interval(
            mean.value - below, mean.value + above, level, "clopper-pearson"
        )
    assert interval is not None
    low = interval.low if math.isfinite(interval.low) else -1.0
    high = interval.high if math.isfinite(interval.high) else 1.0
    return replace(interval, low=max(low, -1.0), high=min(high, 1.0))


def outcome_rate(context: MetricContext) -> float:
    """Share of outcomes of 1, NaN where all weights are 0."""
    bins = context.bins("width")
    total = float(bins.weight.sum())
    if not total > 0.0:
        return math.nan
    return min(float(bins.outcome.sum()) / total, 1.0)


MOST_ROWS = 1e9
"""Most rows that are ever asked for."""


def rows_for_half_width(rate: float, half: float) -> float:
    """Number of rows whose Wilson interval about a rate reaches ``half`` to a side.

    It is wider than the normal interval where few rows are right, or wrong, and falls
    faster than the root of their number.
    """

    def is_wider(rows: float) -> bool:
        low, high = wilson_interval(np.array(rate), np.array(rows))
        return bool(high - low > 2.0 * half)

    return halved(is_wider, 1.0, MOST_ROWS, width=1.0)[1]


RESOLVED = 1e-12  # P-value below which rounding decides: smaller ones count as equal


@dataclass(frozen=True)
class GroupGap:
    """Mean gap of one group of rows: mean confidence minus accuracy, or mean P(class 1)
    minus the frequency of class 1. p_adjusted : the p-value that decides, of all gaps
    that were considered together.
    """

    gap: float
    p_value: float
    of_positive: bool
    p_adjusted: float

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key, least for the most significant gap; equal for gaps that differ by
        rounding.
        """
        return max(self.p_value, RESOLVED), -round(abs(self.gap), 12)


def _gap_p_value(context: MetricContext) -> float:
    """P-value under calibration; where the 95 % interval holds 0, that of the interval:
    a star is never beside it.
    """
    table = context.table
    p_value = sum_p_value(context.scores, context.outcomes, table.weight, table.units)
    level = 0.95
    if p_value > 1.0 - level or not gap_interval(context, level).holds(0.0):
        return p_value

    def is_without_0(some_level: float) -> bool:
        return not gap_interval(context, some_level).holds(0.0)

    lowest_with_0 = halved(is_without_0, 0.0, level, width=1e-6)[1]
    return 1.0 - lowest_with_0


def group_gaps(
    groups: Sequence[MetricContext], about: Label | None
) -> dict[Label, list[GroupGap]]:
    """Gaps of every group by label, with p-values adjusted for all of them.

    about : ``top`` or ``positive`` for one quantity alone; else two classes have both,
    P(class 1) first. Raises UsageError for P(class 1) of more than two classes.
    """
    wanted: list[Label] = ["positive", "top"]
    if about in ("top", "positive"):
        wanted = [about]
    elif groups[0].table.positive is None:
        wanted = ["top"]
    labelled = []
    for label in wanted:
        labelled += [(label, group.labelled(label)) for group in groups]
    p_values = [_gap_p_value(context) for _, context in labelled]
    together = adjusted(np.array(p_values)).tolist()
    gaps: dict[Label, list[GroupGap]] = {label: [] for label in wanted}
    for (label, context), p_value, p_adjusted in zip(
        labelled, p_values, together, strict=True
    ):
        positive = label == "positive"
        mean_gap = direction(context.table, "positive" if positive else "confidence")
        gaps[label].append(GroupGap(mean_gap.gap, p_value, positive, p_adjusted))
    return gaps


def interval_of_test(
    context: MetricContext, level: float, *, is_significant: bool
) -> Interval:
    """Interval of the gap that holds 0 unless the adjusted test finds it significant.

    level : of the interval, 1 - 0.05 R / m where R of m tests are significant
    (Benjamini, Yekutieli 2005, Journal of the American Statistical Association 100,
    71-81). Its test and the one under calibration may part near 0: the level then moves
    as far as they agree.
    """
    interval = gap_interval(context, level)
    if math.isnan(interval.low) or interval.holds(0.0) is not is_significant:
        return interval
    # a significant gap has a 95 % interval without 0 (see ``_gap_p_value``)
    outside, inside = (0.95, level) if is_significant else (level, 1.0 - 1e-9)
    while inside - outside > 1e-6 * (1.0 - outside):
        middle = (outside + inside) / 2.0
        if gap_interval(context, middle).holds(0.0):
            inside = middle
        else:
            outside = middle
    return gap_interval(context, outside if is_significant else inside)


@metric(
    "label:top",
    better="zero",
    report="full",
    rows=lambda c: c.table.confidence - c.table.correct,
    reads="sums",
)
def gap(context: MetricContext) -> Value:
    """Mean confidence minus accuracy: positive is overconfident.

    mean (c - 1[prediction = y])
    Reference: Clarte et al. (2023)
    Also called: overconfidence
    """
    interval = gap_interval(context.labelled("top"))
    known = interval if math.isfinite(interval.low) else None
    value = replace(registered_mean(context, "gap"), interval=known)
    return _tested(context, value, direction_of(context, "confidence"))


@metric(
    "log:e",
    better="zero",
    report="full",
    rows=lambda c: c.table.nll - c.table.entropy,
    whole=True,
    reads="sums",
)
def entropy_gap(context: MetricContext) -> Value:
    """Mean NLL minus mean predictive entropy: positive is overconfident.

    mean (-ln p_y - H(p)); 0 at the optimum of a temperature
    Reference: Guo et al. (2017), appendix S1
    """
    return _tested(
        context,
        registered_mean(context, "entropy_gap"),
        direction_of(context, "entropy"),
    )


def _tested(context: MetricContext, value: Value, direction: MeanGap) -> Value:
    """A mean gap with its z and p-value, and how that was drawn where rows belong
    together.
    """
    more = {**value.more, "z": finite(direction.z), **direction.resamples}
    if context.table.units is not None:
        more["null_method"] = SHARED_LUCK
    return replace(value, p_value=direction.p_value, more=more)


def _top_gap(context: MetricContext, j: int) -> Value:
    t = context.table
    if j >= t.k:
        raise Undefined(f"there are only {t.k} classes")
    if j not in t.tops:
        raise Undefined("the largest classes were not gathered here")
    gap = mean_named(context, f"top{j} gap")
    mass = mean_named(context, f"top{j} mass")
    accuracy = mean_named(context, f"top{j} accuracy")
    interval = None
    if context.few_wrong is None:
        interval = t_interval(gap, context.settings.level)
    if resampled(context):
        interval = bootstrap_of(context, column(context, f"top{j} gap")[:, None])[0]
    return replace(
        row_mean(gap, interval), more={"mass": mass.value, "accuracy": accuracy.value}
    )


for _j in (2, 3, 5):
    _text = f"""\
Mean probability of the {_j} largest classes together minus top-{_j} accuracy.

        mean (sum of {_j} largest p) - share of labels among them
        Reference: Clarte et al. (2023), top-n variant
        """
    _facts: dict[str, Any] = {
        "better": "zero",
        "needs": "tops",
        "reads": "sums",
        "report": "full",
    }
    metric(f"label:top-{_j}", f"top{_j}_gap", _text, **_facts)(
        lambda context, j=_j: _top_gap(context, j)
    )
