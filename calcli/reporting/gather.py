"""Numbers that a page shows of one bundle: aggregates only, never rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.calibrator import Progress
from calcli.diagrams.curve import Curve, CurveSettings, measure_curve
from calcli.diagrams.styles.decision import (
    Benefit,
    decision_curve,
    decision_thresholds,
)
from calcli.diagrams.styles.risk import Coverage, coverage_curve, most_confident
from calcli.diagrams.styles.temperature import TemperatureSweep, sweep_temperature
from calcli.evaluation.evaluate_bundle import Assessed, assess
from calcli.evaluation.groups import gaps_of_groups, group_lines
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.evaluation.results import (
    GroupSummary,
    Judgement,
    Result,
    focus,
    recommended,
)
from calcli.io.artifact import Artifact
from calcli.io.dataset import DataSet
from calcli.io.provenance import title_of
from calcli.methods._temperature import OneTemperature
from calcli.metrics.catalog import report_metrics
from calcli.metrics.class_intervals import class_gap_intervals
from calcli.metrics.confidence_bins import ConfidenceBin, confidence_bins
from calcli.metrics.context import MetricContext
from calcli.metrics.rowtable import RowTable
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows, Rows
from calcli.statistics.intervals import wilson_interval

SWEEP_SCORES = 1_000_000
"""Rows times classes that a temperature sweep reads; of more rows it takes a sample."""

FEWEST_SWEPT = 500
"""Rows that a temperature sweep reads, however many classes there are."""


@dataclass(frozen=True)
class Threshold:
    """Rows with at least this confidence: how many, and what they are like.

    coverage : their share. right : their accuracy, with its interval. promised : their
    mean confidence. effective : number of equally weighted, independent rows.
    """

    threshold: float
    n: int
    coverage: float
    right: float
    right_low: float
    right_high: float
    promised: float
    effective: float


@dataclass(frozen=True)
class PredictedAs:
    """Rows that are predicted as a class: how many, mean confidence, accuracy."""

    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Part:
    """A class or a group of rows: predicted minus observed is its gap.

    Of a class these are its mean probability and its frequency. Of a group they are
    mean confidence and accuracy, or of two classes mean P(class 1) and the frequency of
    class 1. low, high : interval of the gap, NaN where there is none. is_margin : a
    group of one column where there are several. answers : of a class.
    """

    name: str
    n: int
    predicted: float
    observed: float
    gap: float
    low: float
    high: float
    is_significant: bool
    is_margin: bool = False
    answers: PredictedAs | None = None


@dataclass(frozen=True)
class Version:
    """The uncalibrated scores, or those of one calibrator.

    name : for people. file : of the calibrator, as the user wrote it, and the artifact.
    top, positive : curves of the confidence, and of P(class 1) of two classes.
    positive_bins, benefit : of P(class 1); benefit is the decision curve. n_changed :
    predictions that differ from the uncalibrated ones.
    """

    name: str
    file: tuple[str, Artifact] | None
    result: Result
    top: Curve
    positive: Curve | None
    positive_bins: tuple[ConfidenceBin, ...]
    thresholds: tuple[Threshold, ...]
    coverage: Coverage
    classes: tuple[Part, ...]
    groups: tuple[Part, ...]
    benefit: Benefit | None = None
    n_changed: int = 0

    @property
    def report(self) -> Judgement:
        assert self.result.report is not None
        return self.result.report

    @property
    def bins(self) -> tuple[ConfidenceBin, ...]:
        """Bins of the confidence, with their significance as the verdict has it."""
        return self.report.verdict.bins


@dataclass(frozen=True)
class ModelResults:
    """One bundle and all versions of it, the uncalibrated scores first.

    source : what the file records about its origin, as JSON has it. swept_rows : rows
    of the temperature sweep. typed : the bundle as the user wrote it. ordered : are
    groups batches in order of time?
    """

    name: str
    n: int
    k: int
    data_sha256: str | None
    source: Any
    versions: tuple[Version, ...]
    sweep: TemperatureSweep | None
    swept_rows: int
    typed: str
    ordered: bool

    @property
    def results(self) -> list[Result]:
        return [version.result for version in self.versions]

    @property
    def recommended(self) -> int | None:
        """Index of the recommended calibrator, None if there is none."""
        return recommended(self.results)

    @property
    def focus(self) -> int:
        """Index of the version that the page speaks of."""
        return focus(self.results)

    @property
    def is_about_class_one(self) -> bool:
        """True if the verdict is on P(class 1) of two classes, not on the confidence."""
        return self.versions[0].report.facts.is_about_class_one


def metrics_of_page(more: Sequence[str] = ()) -> tuple[str, ...]:
    """The metrics of a page, with those that limits need."""
    return tuple(dict.fromkeys((*report_metrics(), "gap", "aurc", "auroc", *more)))


def gather(
    subject: Subject,
    candidates: Sequence[Candidate],
    plan: Plan,
    progress: Progress | None = None,
) -> tuple[ModelResults, Assessed]:
    """Evaluate candidates on rows and measure what the figures need.

    candidates : the uncalibrated scores first. The caller, who opened the files, adds
    facts about them.
    """
    rows = subject.rows
    by_class = rows.k > 1
    wanted = replace(plan, tables=True, per_class=by_class or plan.per_class)
    assessed = assess(subject, candidates, wanted, progress=progress)
    settings = CurveSettings(
        bins=plan.settings.bins, level=plan.settings.level, seed=plan.settings.seed
    )
    names = _version_names(subject, candidates)
    counted = subject.counted()
    benefits = _benefits(names, assessed.tables, settings)
    versions = []
    for number, candidate in enumerate(candidates):
        table = assessed.tables[number]
        result = assessed.results[number]
        groups = _groups(counted, candidate, result, table, plan)
        version = _version(names[number], result, table, settings, groups)
        moved = table.prediction != assessed.tables[0].prediction
        version = replace(version, benefit=benefits[number], n_changed=int(moved.sum()))
        versions.append(version)
        if progress is not None:
            progress("drawing", number + 1, len(candidates))
    sweep, swept_rows = _sweep(counted, candidates, names, settings, progress)
    model = ModelResults(
        name=subject.name,
        n=counted.rows.n,
        k=rows.k,
        data_sha256=None,
        source=None,
        versions=tuple(versions),
        sweep=sweep,
        swept_rows=swept_rows,
        typed=subject.name,
        ordered=plan.ordered,
    )
    if not plan.per_class:  # lines by class would make the JSON of a page too large
        results = [replace(result, per_class=None) for result in assessed.results]
        assessed = replace(assessed, results=results)
    return model, assessed


def with_results(
    model: ModelResults,
    results: Sequence[Result],
    files: Sequence[tuple[str, Artifact]],
    rows: DataSet,
) -> ModelResults:
    """The model with the finished results of its versions, and where these come from.

    files : the calibrators, as for ``Version``. rows : that have been read completely.
    """
    uncalibrated, *calibrated = model.versions
    versions = [replace(uncalibrated, result=results[0])]
    for version, result, file in zip(calibrated, results[1:], files, strict=True):
        versions.append(replace(version, result=result, file=file))
    return replace(
        model,
        versions=tuple(versions),
        data_sha256=rows.data_sha256,
        source=rows.source,
    )


def _benefits(
    names: Sequence[str], tables: Sequence[RowTable], settings: CurveSettings
) -> list[Benefit | None]:
    """Decision curves of all versions, at common thresholds; None but for two classes."""
    if tables[0].positive is None:
        return [None] * len(tables)
    thresholds = decision_thresholds(tables)
    curves: list[Benefit | None] = []
    for name, table in zip(names, tables, strict=True):
        curves.append(decision_curve(name, table, thresholds, settings.level))
    return curves


def _version_names(subject: Subject, candidates: Sequence[Candidate]) -> list[str]:
    """Names for people: of the method, with its file where two share one."""
    methods = [candidate.method for candidate in candidates[1:]]
    names = [title_of(subject.upstream)]
    for candidate in candidates[1:]:
        if methods.count(candidate.method) == 1:
            names.append(candidate.method)
        else:
            names.append(f"{candidate.method} ({candidate.name})")
    return names


def _version(
    name: str,
    result: Result,
    table: RowTable,
    settings: CurveSettings,
    groups: tuple[Part, ...],
) -> Version:
    """Measure the curves and parts of one version."""
    positive = None
    positive_bins: tuple[ConfidenceBin, ...] = ()
    if table.k == 2:
        positive = measure_curve(name, table, settings, "positive")
        positive_bins = _positive_bins(result, table, settings)
    return Version(
        name=name,
        file=None,
        result=result,
        top=measure_curve(name, table, settings),
        positive=positive,
        positive_bins=positive_bins,
        thresholds=thresholds_of(table, settings.level),
        coverage=coverage_curve(name, table, settings.level),
        classes=_classes(result, table, settings.level),
        groups=groups,
    )


# ---- bins and thresholds


def _positive_bins(
    result: Result, table: RowTable, settings: CurveSettings
) -> tuple[ConfidenceBin, ...]:
    """Bins of P(class 1), significant only where the verdict finds a miscalibration."""
    context = MetricContext(table, MetricSettings(level=settings.level))
    bins = confidence_bins(context, "positive")
    report = result.report
    if report is not None and "confidence" in report.verdict.significant:
        return bins
    return tuple(replace(bin_, significant=False) for bin_ in bins)


def thresholds_of(table: RowTable, level: float) -> tuple[Threshold, ...]:
    """The rows at or above a threshold of every whole percent."""
    confidence, sums = most_confident(table)
    grid = np.arange(101) / 100
    n_rows = np.searchsorted(-confidence, -grid, side="right")
    thresholds = []
    for threshold, n in zip(grid.tolist(), n_rows.tolist(), strict=True):
        mass, hits, promised, squares = sums[:, n].tolist()
        if not mass > 0.0:
            nan = float("nan")
            thresholds.append(Threshold(threshold, 0, 0.0, nan, nan, nan, nan, 0.0))
            continue
        right = min(hits / mass, 1.0)
        independent = n if table.weight is None else mass**2 / squares
        effective = independent / table.accuracy_effect
        low, high = wilson_interval(np.array(right), np.array(effective), level)
        thresholds.append(
            Threshold(
                threshold=threshold,
                n=n,
                coverage=mass / float(sums[0, -1]),
                right=right,
                right_low=float(low),
                right_high=float(high),
                promised=promised / mass,
                effective=effective,
            )
        )
    return tuple(thresholds)


# ---- classes and groups


def _classes(result: Result, table: RowTable, level: float) -> tuple[Part, ...]:
    """Every class with its gap, and the rows that are predicted as it."""
    lines = result.per_class
    if lines is None:
        return ()
    intervals = class_gap_intervals(table, level)
    weights = table.weights
    weight_of = np.bincount(table.prediction, weights=weights, minlength=table.k)
    confidence = weights * table.confidence
    confidence_of = np.bincount(table.prediction, weights=confidence, minlength=table.k)
    parts = []
    for line in lines:
        c = line.index
        low = high = float("nan")
        if intervals is not None:
            low = float(intervals[0][c])
            high = float(intervals[1][c])
        answers = None
        if line.precision is not None and weight_of[c] > 0.0:
            mean = float(confidence_of[c] / weight_of[c])
            answers = PredictedAs(line.predicted, mean, line.precision)
        parts.append(
            Part(
                name=f"class {c}" if line.name is None else line.name,
                n=line.n,
                predicted=line.mean_probability,
                observed=line.share,
                gap=line.gap,
                low=low,
                high=high,
                is_significant=line.significant,
                answers=answers,
            )
        )
    return tuple(sorted(parts, key=_by_size))


def _by_size(part: Part) -> tuple[bool, bool, float]:
    """Order of a table: groups of one column, then what is significant, then by size."""
    return not part.is_margin, not part.is_significant, -abs(part.gap)


def _groups(
    subject: Subject, candidate: Candidate, result: Result, table: RowTable, plan: Plan
) -> tuple[Part, ...]:
    """Every group with its gap; batches keep their order in time.

    The evaluation has judged them; its lines are not in the JSON of a page, where they
    would take too much room.
    """
    lines = result.per_group
    if lines is None:
        lines = _group_lines(subject, candidate, result, table, plan)
    parts = []
    for line in lines:
        interval = line.interval
        parts.append(
            Part(
                name=_text(line.group),
                n=line.n,
                predicted=line.predicted,
                observed=line.observed,
                gap=line.gap,
                low=interval.low,
                high=interval.high,
                is_significant=line.significant,
                is_margin=line.margin,
            )
        )
    if plan.ordered:
        return tuple(parts)
    return tuple(sorted(parts, key=_by_size))


def _group_lines(
    subject: Subject, candidate: Candidate, result: Result, table: RowTable, plan: Plan
) -> Sequence[GroupSummary]:
    """Lines by group without further metrics, as ``evaluate --per-group`` has them."""
    report = result.report
    if table.group is None or report is None:
        return []
    context = MetricContext(table, replace(plan.settings, unit=subject.unit))
    positive = report.facts.is_about_class_one
    tested = gaps_of_groups(context, subject.margins, positive, candidate.fit_size)
    return group_lines(tested, [], report.verdict.gates["groups"])


def _text(group: Any) -> str:
    """Name of a group, which HDF5 may hold as bytes."""
    return group.decode() if isinstance(group, bytes) else str(group)


# ---- the temperature


def _sweep(
    subject: Subject,
    candidates: Sequence[Candidate],
    names: Sequence[str],
    settings: CurveSettings,
    progress: Progress | None,
) -> tuple[TemperatureSweep | None, int]:
    """Temperature sweep of all rows, or of a sample of very many, and their number.

    None for confidences alone, and where the sample has no weight.
    """
    if subject.rows.k < 2:
        return None, 0
    rows = _sampled(subject.rows, settings.seed)
    weights = rows.weights()
    if weights is not None and not weights.any():
        return None, 0
    temperatures = []
    for name, candidate in zip(names, candidates, strict=True):
        if isinstance(candidate.calibrator, OneTemperature):
            temperatures.append((name, candidate.calibrator.temperature))
    sweep = sweep_temperature(
        rows,
        subject.name,
        calibrators=temperatures,
        points=31,
        bins=settings.bins,
        progress=progress,
    )
    return sweep, rows.n


def _sampled(rows: Rows, seed: int) -> Rows:
    """The rows, or so many of them as a sweep reads."""
    most = max(SWEEP_SCORES // rows.k, FEWEST_SWEPT)
    if rows.n <= most:
        return rows
    rng = np.random.default_rng(seed)
    index = np.sort(rng.choice(rows.n, most, replace=False))
    z = rows.take(index).z()
    weights = rows.weights()
    return ArrayRows(
        z,
        rows.labels()[index],
        "logits",
        weight=None if weights is None else weights[index],
    )
