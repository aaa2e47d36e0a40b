"""Evaluate calibrators on the rows of one bundle: one walk over the file, then arithmetic."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np

from calcli.calibrator import Calibrator, Progress
from calcli.errors import DataError
from calcli.evaluation.cross_validation import cross_fitted_split, split_is_cheap
from calcli.evaluation.results import (
    ClassLine,
    Difference,
    GroupLine,
    Judgement,
    Paired,
    Ranks,
    Result,
    Score,
)
from calcli.evaluation.verdict_rules import (
    LEVEL,
    Given,
    advice_among,
    data_summary,
    judge,
)
from calcli.fast_dataclass import dataclass
from calcli.io.artifact import Link
from calcli.io.dataset import DataSet
from calcli.io.locate import Location
from calcli.io.provenance import in_sample, title_of
from calcli.metrics.binned_errors import per_class_errors
from calcli.metrics.catalog import (
    gathering,
    measure,
    metric,
    metric_names,
    report_metrics,
)
from calcli.metrics.collect import class_columns, collect_all
from calcli.metrics.context import Label, MetricContext, MetricSettings
from calcli.metrics.debiased import class_p_values_of
from calcli.metrics.friedman import Friedman, friedman
from calcli.metrics.intervals import (
    Interval,
    Mean,
    mean_of,
    normal_quantile,
    t_interval,
    t_p_value,
)
from calcli.metrics.losses import gap_interval, group_gaps, paired_columns, paired_sums
from calcli.metrics.out_of_core import (
    LONG,
    LongContext,
    RunningSums,
    long_contexts,
    measured_long,
)
from calcli.metrics.rowtable import RowTable
from calcli.metrics.significance import adjusted
from calcli.metrics.smooth import solve_together
from calcli.metrics.warnings import label_doubts
from calcli.numerics import AnyArray, FloatArray, IntArray, in_order
from calcli.parallel import check_memory
from calcli.rows import Rows
from calcli.statistics.paired import PairedSums, fair_signs, share_ends
from calcli.statistics.units import design_effect

MOST_DRAWS, FEWEST_DRAWS = 200_000, 200
"""Most resamples and draws under calibration for all groups together, and fewest per group: limits the run time."""

AT_ONCE = 64  # groups whose null distributions of bins are computed together

ROW_BYTES, TABLE_BYTES = 210, 130
"""Bytes of memory per row with units, and per row of each table: 300, 470 and 550 measured with one, two and three
tables of 2e6 rows."""

FEWER_OF_EACH = "calcli extract --sample N takes N rows of each unit"


@dataclass(frozen=True)
class Subject:
    """Rows to evaluate. name : for display. group : of every row, (n,). class_names : one per class. unit : name of the
    units, ``none`` where rows are declared independent. location : of the rows, for suggested commands. upstream :
    calibrators applied to the rows before."""

    rows: Rows
    name: str = ""
    group: AnyArray | None = None
    class_names: Sequence[str] | None = None
    unit: str | None = None
    location: Location = Location()
    upstream: Sequence[Link] = ()

    @classmethod
    def of(cls, rows: DataSet, group: AnyArray | None) -> "Subject":
        return cls(
            rows,
            rows.name,
            group,
            rows.class_names,
            rows.unit_name,
            rows.location,
            rows.upstream,
        )

    def counted(self) -> "Subject":
        """Copy without the rows of weight 0."""
        rows, weight, group = self.rows.counted(), self.rows.weights(), self.group
        if rows is self.rows or weight is None:
            return self
        return replace(
            self, rows=rows, group=None if group is None else group[weight > 0]
        )


@dataclass(frozen=True)
class Candidate:
    """Calibrator to evaluate. name : artifact as the user wrote it, None for uncalibrated scores. path : of its file,
    for suggested commands. fitted_on : rows of its fit as commands name them, if the file exists. seen : once the rows
    have been read, returns a description of those that it was fitted on."""

    name: str | None
    method: str
    calibrator: Calibrator | None
    path: str | None = None
    fitted_on: str = ""
    seen: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Plan:
    """Plan of an evaluation.

    metrics : names, in order; ``report`` adds those for two classes. report : compute the judgement too. split : the
    cross-fitted split of the losses; None: only if it is cheap. about : quantity judged, ``top`` or ``positive``;
    None: by the number of classes. per_class, per_group : lines by class and by group. ordered : groups are batches in
    order of time, judged by their overconfidence. tables : are row tables needed afterwards? limited : metrics with
    limits, which are kept even for rows on which they are undefined.
    """

    metrics: Sequence[str]
    settings: MetricSettings = field(default_factory=MetricSettings)
    report: bool = True
    split: bool | None = None
    about: Label | None = None
    per_class: bool = False
    per_group: bool = False
    ordered: bool = False
    tables: bool = False
    limited: Sequence[str] = ()

    def metrics_for(self, k: int) -> list[str]:
        """Names of the metrics for rows of k classes, in order."""
        if self.report and k == 1:
            return [
                name
                for name in self.metrics
                if not metric(name).whole or name in self.limited
            ]
        if not self.report or k != 2:
            return list(self.metrics)
        wanted = {*self.metrics, *report_metrics(k=k)}
        at_numbers = [name for name in self.metrics if name not in metric_names()]
        return [name for name in metric_names() if name in wanted] + at_numbers


@dataclass(frozen=True)
class Assessed:
    """Results of one bundle, with their row tables (none where running sums were enough). baseline : metrics of the
    baseline, if one was given. seen : table or sums of the uncalibrated rows."""

    results: list[Result]
    tables: list[RowTable]
    baseline: dict[str, Score] | None
    seen: RowTable | RunningSums


def assess(
    subject: Subject,
    candidates: Sequence[Candidate],
    plan: Plan,
    *,
    baseline: Candidate | None = None,
    progress: Progress | None = None,
) -> Assessed:
    """Evaluate candidates on rows. candidates : the uncalibrated scores first. baseline : reference of the
    differences, None for the first candidate. Raises DataError for calibrators that do not fit."""
    plan = replace(plan, settings=replace(plan.settings, unit=subject.unit))
    subject, tables = subject.counted(), list[RowTable]()
    rows, where = subject.rows, subject.location
    known = [
        each.fitted_on for each in candidates if each.fitted_on not in ("", where.name)
    ]
    if (
        known and not where.to_fit
    ):  # suggest the rows of a candidate's fit for fitting another method
        subject = replace(subject, location=replace(where, to_fit=known[0]))
    if rows.k == 1 and plan.per_class:
        lacks = "holds one confidence a row and no classes, which --per-class needs"
        raise DataError(f"{subject.name}: {lacks}; leave it out")
    asked = [*candidates] if baseline is None else [baseline, *candidates]
    names, results, doubts = plan.metrics_for(rows.k), list[Result](), list[str]()
    through = [link.method for link in subject.upstream]
    first, reference, against = None, None, None
    with _contexts(subject, [c.calibrator for c in asked], plan, progress) as contexts:
        for candidate, context in zip(asked, contexts, strict=True):
            scores, long = (
                scores_of(context, names, progress),
                isinstance(context, LongContext),
            )
            if plan.report and (long or candidate is not baseline):
                doubts = doubts or label_doubts(context.table, subject.class_names)
            if candidate is baseline:
                reference, against = context, scores
                continue
            own = [
                each.method
                for each in ([candidate] if candidate.calibrator else candidates)
                if each.calibrator
            ]
            result = _result(
                subject,
                candidate,
                context,
                plan,
                scores,
                doubts,
                [*through, *own],
                progress,
            )
            if reference is not None:
                if isinstance(context, LongContext):  # paired sums are already computed
                    changes = differences(context.tally.paired, context.settings.level)
                else:
                    changes = compared(context, reference)
                result = replace(
                    result,
                    paired=Paired(None if baseline is None else baseline.name, changes),
                )
            results.append(result)
            first, reference = first or context, reference or context
            tables += [] if long else [context.table]
    assert first is not None
    report = results[0].report
    if report is not None:
        beside = [*zip(results[1:], candidates[1:], strict=True)]
        if baseline is not None:
            losses = replace(
                plan,
                metrics=["accuracy"],
                report=False,
                per_class=False,
                per_group=False,
                tables=False,
            )
            again = assess(
                subject, [*candidates, baseline], losses, progress=progress
            ).results
            beside = _to_uncalibrated(beside, baseline, again[1:])
        given = [Given(r, c.path, c.seen()) for r, c in beside]
        advice = advice_among(
            report, given, subject.location, in_sample(subject.upstream)
        )
        results[0] = replace(results[0], report=replace(report, advice=advice))
    return Assessed(results, tables, against, first.table)


def _to_uncalibrated(
    beside: Sequence[tuple[Result, Candidate]],
    baseline: Candidate,
    again: Sequence[Result],
) -> list[tuple[Result, Candidate]]:
    """Results to advise on where differences are to a baseline, with differences to the uncalibrated scores from
    ``again`` (baseline last). These are the results significantly better than the baseline, else the baseline if it
    reduces the loss, so that the advice agrees with the differences shown; else all."""

    def reduces(result: Result) -> bool:
        change = result.loss
        return (
            change is not None
            and change.interval is not None
            and change.interval.high < 0.0
        )

    found = [
        (replace(r, paired=own.paired), c)
        for (r, c), own in zip(beside, again[:-1], strict=True)
    ]
    better = [each for each, (r, _) in zip(found, beside, strict=True) if reduces(r)]
    return better or ([(again[-1], baseline)] if reduces(again[-1]) else found)


@contextmanager
def _contexts(
    subject: Subject,
    calibrators: Sequence[Calibrator | None],
    plan: Plan,
    progress: Progress | None,
) -> Iterator[Iterator[MetricContext]]:
    """Metric contexts of the rows under every calibrator, from one walk; the first is the reference. More than ``LONG``
    rows are measured by running sums and sorted orders, without tables, where these suffice for all that is asked."""
    rows, s, names = subject.rows, plan.settings, plan.metrics_for(subject.rows.k)
    in_units = rows.units() is not None  # draws by unit need the rows in tables
    if in_units:
        needed = ROW_BYTES + TABLE_BYTES * len(calibrators)
        check_memory(
            rows.n * needed, f"tables of {rows.n} rows in units", FEWER_OF_EACH
        )
    beyond = in_units or plan.per_class or plan.per_group or plan.split or plan.tables
    beyond = beyond or (plan.report and subject.group is not None)
    if (
        rows.n > LONG
        and not beyond
        and measured_long(names, s, rows.k)
        and rows.weights() is None
    ):
        with long_contexts(
            rows, calibrators, names, s, report=plan.report, progress=progress
        ) as contexts:
            yield contexts
        return
    by_class, several = plan.report or plan.per_class, len(calibrators) > 1
    read = gathering(
        names, s, rows.k, by_class=by_class, all_columns=several or plan.per_group
    )
    against = 0 if several else None
    tables = collect_all(
        rows,
        calibrators,
        group=subject.group,
        progress=progress,
        against=against,
        **read,
    )
    walks = [partial(class_columns, rows, calibrator) for calibrator in calibrators]
    yield (
        MetricContext(table, s, walk, partial(walk, raw=True))
        for table, walk in zip(tables, walks, strict=True)
    )


def scores_of(
    context: MetricContext, names: Sequence[str], progress: Progress | None = None
) -> dict[str, Score]:
    """Compute metrics of one set of rows, by name."""
    scores = {}
    for done, name in enumerate(names):
        if progress is not None:
            progress("measuring", done, len(names))
        scores[name] = Score.of(name, measure(name, context), context.settings)
    return scores


def _result(
    subject: Subject,
    candidate: Candidate,
    context: MetricContext,
    plan: Plan,
    scores: dict[str, Score],
    doubts: Sequence[str],
    tried: Sequence[str],
    progress: Progress | None,
) -> Result:
    k, n, report = context.table.k, context.n, None
    if plan.report:
        split, known = None, k > 1 and not isinstance(context, LongContext)
        if known and (plan.split or (plan.split is None and split_is_cheap(n, k))):
            seed = plan.settings.seed
            split = cross_fitted_split(
                subject.rows, candidate.calibrator, context.table, seed, progress
            )
        data = data_summary(subject.rows.kind, context, subject.class_names)
        where, doubt = subject.location, " ".join(doubts)
        report = judge(
            data,
            context,
            split,
            about=plan.about,
            doubt=doubt,
            where=where,
            tried=tried,
            scores=scores,
        )
    counts, facts = (
        context.table.counts,
        (subject.name, candidate.name, candidate.method, n, k if k > 1 else None),
    )
    found: dict[str, Any] = {
        "counts": counts if any(counts.values()) else {},
        "report": report,
    }
    if plan.per_class:
        found["per_class"] = class_lines(context, subject.class_names, report)
    if plan.per_group:
        found["per_group"] = group_lines(context, list(scores), report, plan)
    return Result(
        *facts,
        scores,
        **found,
        units=units_of(context),
        given=title_of(subject.upstream),
    )


def units_of(context: MetricContext) -> dict[str, Any] | None:
    """Facts about the units of the rows, as JSON: number, size, design effect, effective rows; None without units."""
    t, name = context.table, context.settings.unit
    if t.units is None:
        return None if name is None else {"name": name}
    luck = context.labelled("top").luck
    assert luck is not None
    effect = design_effect(t.confidence - t.correct, t.units, t.weight)
    facts = {
        "name": name or "unit",
        "n": t.units.n,
        "largest": int(t.units.count.max()),
        "design_effect": effect,
    }
    return facts | {
        "effective_rows": t.n / effect,
        "luck": luck.estimate,
        "wrong_units": luck.wrong,
    }


def class_lines(
    context: MetricContext, names: Sequence[str] | None, report: Judgement | None = None
) -> list[ClassLine]:
    """Lines by class, most significant first: frequencies, gap, precision and recall, one-vs-all ECE."""
    table, stats = context.table, context.table.classes
    assert stats is not None
    (mean, labels, _), total = stats.whole, stats.weight.sum(axis=1)
    p_values = class_p_values_of(context)
    assert p_values is not None
    together = np.maximum(
        adjusted(p_values), 0.0 if report is None else report.gates["classes"]
    )
    errors = per_class_errors(context, "width", context.settings.norm)

    def counted(of: IntArray, weight: FloatArray | None = None) -> AnyArray:
        return np.bincount(of, weights=weight, minlength=table.k)

    def shares(of: AnyArray) -> list[float | None]:
        return [
            float(hits / held) if held > 0 else None
            for hits, held in zip(right, of, strict=True)
        ]

    y, predicted, weight = table.y, context.predicted, table.weights
    right = counted(y, weight * context.right)
    counts, p = (
        (counted(y), counted(predicted)),
        (p_values, together, together <= LEVEL),
    )
    columns = [
        column.tolist()
        for column in (
            *counts,
            labels / total,
            mean / total,
            (mean - labels) / total,
            *p,
        )
    ]
    columns += [
        shares(counted(predicted, weight)),
        shares(counted(y, weight)),
        errors.tolist(),
    ]
    called = [None] * table.k if names is None else names
    lines = [
        ClassLine(*line) for line in zip(range(table.k), called, *columns, strict=True)
    ]
    return sorted(
        lines,
        key=lambda line: (
            round(line.p_value, 12),
            -round(abs(line.gap), 12),
            line.index,
        ),
    )


def _class_1(table: RowTable) -> tuple[float | None, float | None]:
    """Frequency and mean probability of class 1 of two."""
    if table.positive is None:
        return None, None
    return mean_of((table.y == 1).astype(np.float64), table.weight).value, mean_of(
        table.positive, table.weight
    ).value


def group_lines(
    context: MetricContext,
    names: Sequence[str],
    report: Judgement | None = None,
    plan: Plan | None = None,
) -> list[GroupLine]:
    """Lines by group, most significant first, with the metrics that need no class sums. plan : determines the gap, as
    in the verdict of P(class 1) for two classes unless ``about`` says otherwise, and of the overconfidence for batches
    in order of time (``ordered``)."""
    ordered, about = (False, None) if plan is None else (plan.ordered, plan.about)
    table = context.table
    assert table.group is not None
    names = [name for name in names if not metric(name).needs]
    groups, tables = table.groups()
    draws = min(
        context.settings.resamples, max(FEWEST_DRAWS, MOST_DRAWS // len(groups))
    )
    parts = [
        MetricContext(each, replace(context.settings, resamples=draws))
        for each in tables
    ]
    for g, each in enumerate(parts):
        each.beside = parts[g - g % AT_ONCE :][:AT_ONCE]
    if "smece" in names and context.settings.compat is None:
        solve_together(parts)
    gate = 0.0 if report is None else report.gates["groups"]
    found = group_gaps(parts, "top" if ordered and about == "positive" else about, gate)
    asked: Label = "top" if ordered else next(iter(found))
    other = next((gaps for label, gaps in found.items() if label != asked), None)
    lines = []
    for g, (group, part, gap) in enumerate(
        zip(groups, parts, found[asked], strict=True)
    ):
        name, n = group.item() if hasattr(group, "item") else str(group), part.table.n
        p = gap.p_value, gap.p_adjusted, gap.p_adjusted <= LEVEL
        both = None if other is None or other[g].p_adjusted > LEVEL else other[g]
        interval, scores = gap_interval(part.labelled(asked)), scores_of(part, names)
        lines.append(
            GroupLine(
                name,
                n,
                gap.gap,
                gap.of_positive,
                *p,
                *_class_1(part.table),
                interval,
                scores,
                both,
            )
        )
    if ordered:
        return [lines[g] for g in np.searchsorted(groups, in_order(table.group))]
    return [
        lines[g] for g in sorted(range(len(lines)), key=lambda g: found[asked][g].rank)
    ]


# ---- differences between calibrators on the same rows, and ranks over several bundles


def differences(
    sums: Mapping[str, PairedSums],
    level: float,
    by_unit: Mapping[str, Mean] | None = None,
    few: str | None = None,
) -> dict[str, Difference]:
    """Mean paired differences, calibrator minus baseline, with interval and two-sided p-value.

    Losses: ``PairedSums.tails``, the interval at least as wide as Student's on both sides. Accuracy: McNemar's test,
    Tango's interval, which has a length without a differing row too. Quantities without labels: Student's. Losses
    that do not differ in any row give 0 with p = 1.

    by_unit : means with standard errors clustered by unit; p-value and interval are then the more conservative of
    Student's over units and of those for rows. few : why units have no intervals.
    """
    alone = {name: _difference(name, each, level) for name, each in sums.items()}
    return {
        name: _over_units(each, by_unit[name], level, few) if by_unit else each
        for name, each in alone.items()
    }


def compared(context: MetricContext, baseline: MetricContext) -> dict[str, Difference]:
    t, columns, few = (
        context.table,
        paired_columns(context, baseline),
        context.few_wrong or baseline.few_wrong,
    )
    means = (
        {}
        if t.units is None
        else {name: mean_of(d, t.weight, t.units) for name, d in columns.items()}
    )
    return differences(
        paired_sums(context, baseline), context.settings.level, means, few
    )


def _over_units(
    alone: Difference, mean: Mean, level: float, few: str | None
) -> Difference:
    """Adjust a difference of independent rows to sampling by unit."""
    own, rows = t_interval(mean, level), alone.interval
    if few is not None or own is None or alone.p_value is None:
        return replace(
            alone,
            se=mean.se,
            interval=None,
            p_value=None,
            reason=few or "one unit: no interval",
        )
    p = 1.0
    if alone.value != 0.0:
        t = mean.value / mean.reach if mean.reach > 0.0 else math.inf
        p = t_p_value(t, mean.freedom)
    if rows is not None:
        own = replace(own, low=min(own.low, rows.low), high=max(own.high, rows.high))
    return replace(
        alone,
        se=mean.se,
        interval=None if alone.reason else own,
        p_value=max(p, alone.p_value),
    )


def _difference(name: str, sums: PairedSums, level: float) -> Difference:
    mean = Mean(*sums.student())
    se = mean.se if math.isfinite(mean.se) else None
    student = t_interval(mean, level)
    answers = sums.signs if name == "accuracy" else None
    if not mean.n > 1.0:
        return Difference(mean.value, se, None, None, answers=answers)
    if name == "accuracy":
        low, high = share_ends(sums, normal_quantile(0.5 + level / 2.0))
        return Difference(
            mean.value,
            se,
            Interval(low, high, level, "Tango"),
            fair_signs(sums),
            answers=answers,
        )
    if not sums.observed[0, 2] > 0.0:
        return Difference(mean.value, se, student, 1.0, answers=answers)
    if sums.expected is None or student is None:
        p = t_p_value(mean.value / mean.se if mean.se else math.inf, mean.n - 1.0)
        return Difference(mean.value, se, student, p)
    ends = sums.ends(level)
    if ends[0] is None or ends[1] is None:
        return Difference(
            mean.value, se, None, sums.tails().both, "no bound: few rows carry the loss"
        )
    outer = Interval(
        min(ends[0], student.low), max(ends[1], student.high), level, "shifted Poisson"
    )
    return Difference(mean.value, se, outer, sums.tails().both)


def rank_table(
    bundles: Sequence[Sequence[Result]], labels: Sequence[str], metrics: Sequence[str]
) -> Ranks | None:
    """Average ranks of the calibrators over bundles, with the Friedman test, metric by metric. bundles : per bundle its
    results, in the order of ``labels``. Metrics without a better direction, or undefined in some result, are left out.
    None for fewer than two bundles or two calibrators."""
    if len(bundles) < 2 or len(labels) < 2:
        return None
    values = {
        name: [[result.scores[name].value for result in results] for results in bundles]
        for name in metrics
    }
    return Ranks(tuple(labels), len(bundles), tests_of(values))


def tests_of(
    values: Mapping[str, Sequence[Sequence[float | None]]],
) -> dict[str, Friedman]:
    """Friedman's test per metric of values (bundles, calibrators), where a direction is better and none is missing."""
    tests = {}
    for name, rows in values.items():
        better, whole = metric(name).better, np.array(rows, dtype=np.float64)
        if better in ("low", "high") and not np.isnan(whole).any():
            tests[name] = friedman(whole if better == "low" else -whole)
    return {name: test for name, test in tests.items() if test is not None}
