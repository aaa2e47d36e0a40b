"""Evaluate calibrators on the rows of one bundle: one walk over the file, then
arithmetic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from calcli.calibrator import Calibrator, Progress
from calcli.errors import DataError
from calcli.evaluation.class_lines import class_lines
from calcli.evaluation.cross_validation import decomposed_loss, decomposition_is_cheap
from calcli.evaluation.differences import compared, differences
from calcli.evaluation.facts import Difference, LossDecomposition, Paired
from calcli.evaluation.findings import effect_finding, find
from calcli.evaluation.group_remedy import (
    best_by_group,
    choices_of,
    is_affordable,
    remedy_finding,
    too_expensive,
    with_remedy,
)
from calcli.evaluation.groups import (
    TestedGroup,
    fit_factor,
    gaps_of_groups,
    group_lines,
)
from calcli.evaluation.measure_facts import measure_facts, summarise_data
from calcli.evaluation.next_step import GroupMaps, Tried, next_step
from calcli.evaluation.overlapping_fits import over_folds
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.evaluation.results import Judgement, Result, UnitFacts
from calcli.evaluation.scores import Score, measured
from calcli.evaluation.verdict import judge
from calcli.free_memory import check_memory
from calcli.io.dataset import DataSet
from calcli.io.provenance import title_of
from calcli.metrics.catalog import (
    gathering,
)
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect_all
from calcli.metrics.context import MetricContext
from calcli.metrics.long_context import LONG, LongContext, long_contexts, measured_long
from calcli.metrics.rowtable import RowTable
from calcli.metrics.running_sums import RunningSums
from calcli.metrics.settings import MetricSettings
from calcli.metrics.warnings import label_doubts
from calcli.registry import is_by_group
from calcli.rows import Rows
from calcli.statistics.units import design_effect

ROW_BYTES = 210
"""Bytes of memory per row with units."""

TABLE_BYTES = 130
"""Bytes of memory per row of each table: 300, 470 and 550 bytes a row in all were
measured with one, two and three tables of 2e6 rows."""

FEWER_OF_EACH = "calcli extract --sample N takes N rows of each unit"


@dataclass(frozen=True)
class Assessed:
    """Results of one bundle, with their row tables (none where sums were enough).

    baseline : metrics of the baseline, if one was given. uncalibrated : table or sums
    of the uncalibrated rows.
    """

    results: list[Result]
    tables: list[RowTable]
    baseline: dict[str, Score] | None
    uncalibrated: RowTable | RunningSums


def assess(
    subject: Subject,
    candidates: Sequence[Candidate],
    plan: Plan,
    *,
    baseline: Candidate | None = None,
    progress: Progress | None = None,
) -> Assessed:
    """Evaluate candidates on rows.

    candidates : the uncalibrated scores first. baseline : reference of the differences,
    None for the first candidate. Raises DataError for calibrators that do not fit.
    """
    ordered = plan.settings.ordered_levels or subject.rows.ordered
    subject = _with_place_to_fit(subject.counted(), candidates)
    settings = replace(plan.settings, unit=subject.unit, ordered_levels=ordered)
    plan = replace(plan, settings=settings)
    if subject.rows.k == 1 and plan.per_class:
        raise DataError(
            f"{subject.name}: holds one confidence a row and no classes, which"
            " --per-class needs; leave it out"
        )
    assessed = _measure_all(subject, candidates, plan, baseline, progress)
    if not plan.report:
        return assessed
    assessed = _with_group_remedy(subject, assessed, candidates, plan, progress)
    tried = list(zip(assessed.results[1:], candidates[1:], strict=True))
    if baseline is not None:
        tried = _compared_to_uncalibrated(
            subject, candidates, plan, baseline, tried, progress
        )
    return replace(assessed, results=_advised(subject, assessed.results, tried))


def _with_place_to_fit(subject: Subject, candidates: Sequence[Candidate]) -> Subject:
    """Name the rows of a candidate's fit for fitting another method."""
    where = subject.location
    if where.to_fit:
        return subject
    for candidate in candidates:
        if candidate.fitted_on and candidate.fitted_on != where.name:
            place = replace(where, to_fit=candidate.fitted_on)
            return replace(subject, location=place)
    return subject


def _measure_all(
    subject: Subject,
    candidates: Sequence[Candidate],
    plan: Plan,
    baseline: Candidate | None,
    progress: Progress | None,
) -> Assessed:
    """Measure every candidate, with its differences to the baseline."""
    names = plan.metrics_for(subject.rows.k)
    asked = [*candidates] if baseline is None else [baseline, *candidates]
    calibrators = [candidate.calibrator for candidate in asked]
    results: list[Result] = []
    tables: list[RowTable] = []
    doubts: list[str] = []
    first: MetricContext | None = None
    reference: MetricContext | None = None
    baseline_scores: dict[str, Score] | None = None
    contexts = _contexts(subject, calibrators, plan, progress)
    for candidate, context in zip(asked, contexts, strict=True):
        scores = measured(context, names, progress)
        if candidate is baseline:
            reference = context
            baseline_scores = scores
            continue
        if plan.report and not doubts:
            doubts = label_doubts(context.table, subject.class_names)
        result = _result(subject, candidate, context, plan, scores, doubts, progress)
        if reference is not None:
            name = None if baseline is None else baseline.name
            changes = _changes(context, reference)
            changes = over_folds(changes, candidate.n_folds, context)
            paired = Paired(name, changes)
            n_changed = predictions_changed(context, reference)
            result = _with_paired(result, paired, n_changed)
        results.append(result)
        if first is None:
            first = context
        if reference is None:
            reference = context
        if not isinstance(context, LongContext):
            tables.append(context.table)
    assert first is not None
    return Assessed(results, tables, baseline_scores, first.table)


def _with_group_remedy(
    subject: Subject,
    assessed: Assessed,
    candidates: Sequence[Candidate],
    plan: Plan,
    progress: Progress | None,
) -> Assessed:
    """The results, with what a calibrator by group would do for miscalibrated groups.

    It is measured once for all versions, and only where one has such groups.
    """
    concerned = []
    for number, result in enumerate(assessed.results):
        if _may_need_group_maps(result, candidates[number]):
            concerned.append(number)
    rows = subject.rows
    group = subject.group
    if plan.ordered or group is None or not concerned:
        return assessed
    is_of_options = isinstance(rows, DataSet) and rows.n_options is not None
    if is_of_options or len(assessed.tables) != len(assessed.results):
        return assessed
    choices = choices_of(subject.group_name, group, subject.margins)
    trial = None
    if is_affordable(rows, len(choices)):
        trial = best_by_group(rows, choices, plan.settings, progress)
        if trial is None:
            return assessed
    results = list(assessed.results)
    for number in concerned:
        report = results[number].report
        assert report is not None
        if trial is None:
            remedy = too_expensive(rows, choices)
        else:
            version = MetricContext(assessed.tables[number], plan.settings)
            remedy = remedy_finding(trial, version)
        findings = with_remedy(report.findings, remedy)
        results[number] = replace(
            results[number], report=report.with_findings(findings)
        )
    return replace(assessed, results=results)


def _may_need_group_maps(result: Result, candidate: Candidate) -> bool:
    """True for miscalibrated groups, unless the calibrator is by group already."""
    if result.report is None or is_by_group(candidate.method):
        return False
    return any(finding.kind == "groups" for finding in result.report.findings)


def _changes(context: MetricContext, reference: MetricContext) -> dict[str, Difference]:
    if isinstance(context, LongContext):  # paired sums are already computed
        return differences(context.tally.paired, context.settings.level)
    return compared(context, reference)


def predictions_changed(context: MetricContext, reference: MetricContext) -> int | None:
    """Rows whose prediction differs from the reference's; None where it is not kept."""
    if isinstance(context, LongContext) or isinstance(reference, LongContext):
        return None
    return int((context.table.prediction != reference.table.prediction).sum())


def _with_paired(result: Result, paired: Paired, n_changed: int | None) -> Result:
    """The result with its differences, and with what they say of the calibrator.

    n_changed : predictions that differ from the baseline's, if known.
    """
    result = replace(result, paired=paired)
    report = result.report
    if report is None:
        return result
    counts = dict(result.counts)
    if n_changed is not None:
        counts["predictions_changed"] = n_changed
    effect = effect_finding(paired.differences, result.loss_name, counts)
    if effect is None:
        return result
    return replace(result, report=report.with_findings([*report.findings, effect]))


def _compared_to_uncalibrated(
    subject: Subject,
    candidates: Sequence[Candidate],
    plan: Plan,
    baseline: Candidate,
    tried: Sequence[tuple[Result, Candidate]],
    progress: Progress | None,
) -> list[tuple[Result, Candidate]]:
    """Results to advise on where differences are to a baseline.

    They get differences to the uncalibrated scores. They are the results significantly
    better than the baseline, else the baseline if it reduces the loss, so that the
    advice agrees with the differences shown; else all.
    """
    losses = replace(
        plan,
        metrics=["accuracy"],
        report=False,
        per_class=False,
        per_group=False,
        tables=False,
    )
    again = assess(subject, [*candidates, baseline], losses, progress=progress)
    *others, of_baseline = again.results[1:]
    results = []
    better = []
    for (result, candidate), other in zip(tried, others, strict=True):
        to_uncalibrated = replace(result, paired=other.paired)
        results.append((to_uncalibrated, candidate))
        if _reduces_loss(result):
            better.append((to_uncalibrated, candidate))
    if better:
        return better
    if _reduces_loss(of_baseline):
        return [(of_baseline, baseline)]
    return results


def _reduces_loss(result: Result) -> bool:
    change = result.loss_change
    if change is None or change.interval is None:
        return False
    return change.interval.high < 0.0


def _advised(
    subject: Subject,
    results: list[Result],
    tried: Sequence[tuple[Result, Candidate]],
) -> list[Result]:
    """The results, the first with the next step after all of them."""
    report = results[0].report
    assert report is not None
    evaluated = []
    for result, candidate in tried:
        maps = _group_maps_of(result)
        fitted_on = candidate.fitted_rows_here()
        of_log = candidate.takes_whole_logs
        evaluated.append(Tried(result, candidate.path, fitted_on, maps, of_log))
    upstream = [link.method for link in subject.upstream]
    step = next_step(
        report.verdict,
        subject.location,
        evaluated,
        upstream,
        _group_maps_of(results[0]),
    )
    return [replace(results[0], report=replace(report, next_step=step)), *results[1:]]


def _group_maps_of(result: Result) -> GroupMaps | None:
    """The calibrator by group that would help a version of the scores."""
    if result.report is None:
        return None
    for finding in result.report.findings:
        if finding.kind == "by_group" and finding.numbers["helps"]:
            return GroupMaps(finding.numbers["method"], tuple(finding.numbers["by"]))
    return None


# ---- contexts


def _contexts(
    subject: Subject,
    calibrators: Sequence[Calibrator | None],
    plan: Plan,
    progress: Progress | None,
) -> Iterator[MetricContext]:
    """Metric contexts of the rows under every calibrator, from one walk.

    The first is the reference. More than ``LONG`` rows are measured by running sums and
    sorted orders, without tables, where these suffice for all that is asked.
    """
    rows = subject.rows
    settings = plan.settings
    names = plan.metrics_for(rows.k)
    if rows.units() is not None:  # draws by unit need the rows in tables
        needed = ROW_BYTES + TABLE_BYTES * len(calibrators)
        check_memory(
            rows.n * needed, f"tables of {rows.n} rows in units", FEWER_OF_EACH
        )
    if rows.n > LONG and _sums_suffice(subject, plan, names):
        yield from long_contexts(
            rows, calibrators, names, settings, report=plan.report, progress=progress
        )
        return
    several = len(calibrators) > 1
    read = gathering(
        names,
        settings,
        rows.k,
        by_class=plan.report or plan.per_class,
        all_columns=several or plan.per_group,
    )
    tables = collect_all(
        rows,
        calibrators,
        group=subject.group,
        progress=progress,
        against=0 if several else None,
        **read,
    )
    for calibrator, table in zip(calibrators, tables, strict=True):
        yield _context(rows, calibrator, table, settings)


def _context(
    rows: Rows,
    calibrator: Calibrator | None,
    table: RowTable,
    settings: MetricSettings,
) -> MetricContext:
    walk = partial(class_columns, rows, calibrator)
    return MetricContext(table, settings, walk, partial(walk, raw=True))


def _sums_suffice(subject: Subject, plan: Plan, names: Sequence[str]) -> bool:
    """True if running sums and orders give all that is asked for."""
    rows = subject.rows
    if rows.units() is not None or rows.weights() is not None:
        return False
    if plan.per_class or plan.per_group or plan.decomposition or plan.tables:
        return False
    if plan.report and subject.group is not None:
        return False
    return measured_long(names, plan.settings, rows.k)


# ---- one result


def _result(
    subject: Subject,
    candidate: Candidate,
    context: MetricContext,
    plan: Plan,
    scores: dict[str, Score],
    doubts: Sequence[str],
    progress: Progress | None,
) -> Result:
    k = context.table.k
    groups = _tested_groups(subject, candidate, context, plan)
    report = None
    if plan.report:
        decomposition = _decomposition(subject, candidate, context, plan, progress)
        report = _judgement(
            subject, candidate, context, plan, scores, doubts, decomposition, groups
        )
    gates = {} if report is None else report.verdict.gates
    per_class = None
    if plan.per_class:
        names = None if subject.class_names is None else list(subject.class_names)
        gate = gates.get("classes", 0.0)
        factor = fit_factor(context, context, candidate.fit_size)
        per_class = class_lines(context, names, gate, factor)
    per_group = None
    if plan.per_group:
        order = context.table.group if plan.ordered else None
        gate = gates.get("groups", 0.0)
        per_group = group_lines(groups, list(scores), gate, order)
    counts = context.table.counts
    return Result(
        bundle=subject.name,
        calibrator=candidate.name,
        method=candidate.method,
        n=context.n,
        n_classes=k if k > 1 else None,
        scores=scores,
        counts=counts if any(counts.values()) else {},
        report=report,
        per_class=per_class,
        per_group=per_group,
        units=unit_facts(context),
        given_name=title_of(subject.upstream),
    )


def _is_about_class_one(context: MetricContext, plan: Plan) -> bool:
    return context.table.k == 2 and plan.about != "top"


def _tested_groups(
    subject: Subject, candidate: Candidate, context: MetricContext, plan: Plan
) -> list[TestedGroup]:
    if not plan.report and not plan.per_group:
        return []
    margins = {} if plan.ordered else subject.margins
    positive = _is_about_class_one(context, plan) and not plan.ordered
    return gaps_of_groups(context, margins, positive, candidate.fit_size)


def _decomposition(
    subject: Subject,
    candidate: Candidate,
    context: MetricContext,
    plan: Plan,
    progress: Progress | None,
) -> LossDecomposition | None:
    """Cross-fitted decomposition of the losses, if asked for or cheap."""
    k = context.table.k
    n = context.n
    if k == 1 or isinstance(context, LongContext):
        return None
    wanted = plan.decomposition
    if wanted is None:
        wanted = decomposition_is_cheap(n, k)
    if not wanted:
        return None
    return decomposed_loss(
        subject.rows,
        candidate.calibrator,
        context.table,
        plan.settings.seed,
        progress,
    )


def _judgement(
    subject: Subject,
    candidate: Candidate,
    context: MetricContext,
    plan: Plan,
    scores: Mapping[str, Score],
    doubts: Sequence[str],
    decomposition: LossDecomposition | None,
    groups: Sequence[TestedGroup],
) -> Judgement:
    facts = measure_facts(
        summarise_data(subject.rows.kind, context, subject.class_names),
        context,
        scores,
        positive=_is_about_class_one(context, plan),
        decomposition=decomposition,
        fit=candidate.fit_size,
        groups=groups,
        doubts=() if candidate.is_cross_fitted else doubts,
    )
    if candidate.is_cross_fitted:
        facts = replace(facts, too_good=False)
    verdict = judge(facts)
    findings = tuple(find(facts, verdict))
    if candidate.calibrator is not None:
        return Judgement(facts, verdict, findings)
    methods = [link.method for link in subject.upstream]
    step = next_step(verdict, subject.location, upstream=methods)
    return Judgement(facts, verdict, findings, step)


def unit_facts(context: MetricContext) -> UnitFacts | None:
    """Facts about the units of the rows, None without units."""
    table = context.table
    name = context.settings.unit
    if table.units is None:
        return None if name is None else UnitFacts(name)
    luck = context.labelled("top").luck
    assert luck is not None
    effect = design_effect(table.confidence - table.correct, table.units, table.weight)
    return UnitFacts(
        name=name or "unit",
        n=table.units.n,
        largest=int(table.units.count.max()),
        design_effect=effect,
        effective_rows=table.n / effect,
        luck=luck.estimate,
        wrong_units=luck.expected_wrong,
    )
