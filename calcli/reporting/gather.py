"""Numbers that a page shows of one bundle: aggregates only, never rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.calibrator import Progress
from calcli.diagrams.curve import Curve, CurveSettings, Quantity, measure_curve
from calcli.diagrams.panels import Measured, parts_of
from calcli.diagrams.style import Request
from calcli.diagrams.styles.gaps import Gap, gap_series
from calcli.diagrams.styles.risk import Coverage, coverage_curve, most_confident
from calcli.diagrams.styles.temperature import TemperatureSweep, sweep_temperature
from calcli.evaluation.evaluate_bundle import Assessed, Candidate, Plan, Subject, assess
from calcli.evaluation.results import Judgement, Result
from calcli.fast_dataclass import dataclass
from calcli.io.artifact import Artifact
from calcli.io.provenance import title_of
from calcli.methods._temperature import OneTemperature
from calcli.metrics.catalog import report_metrics
from calcli.metrics.intervals import wilson_interval
from calcli.metrics.rowtable import RowTable
from calcli.rows import ArrayRows, Rows

SWEEP_SCORES = 1_000_000  # rows times classes that a temperature sweep reads; of more rows, a sample


@dataclass(frozen=True)
class Threshold:
    """Rows with at least this confidence: coverage, accuracy with its interval, and mean confidence (promised)."""

    at: float
    n: int
    coverage: float
    right: float
    right_low: float
    right_high: float
    promised: float
    effective: float  # effective sample size: number of equally weighted rows


@dataclass(frozen=True)
class Version:
    """The uncalibrated scores, or those of one calibrator."""

    name: str
    file: tuple[str, Artifact] | None  # the path as the user wrote it, and the artifact
    result: Result
    top: Curve
    positive: Curve | None
    thresholds: tuple[Threshold, ...]
    coverage: Coverage
    classes: tuple[Gap, ...]
    groups: tuple[Gap, ...]
    groups_about: Quantity = "top"  # of two classes the gaps of groups are about P(class 1), unless they are batches

    @property
    def report(self) -> Judgement:
        assert self.result.report is not None
        return self.result.report


@dataclass(frozen=True)
class ModelResults:
    """One bundle and all versions of it, the uncalibrated scores first."""

    name: str
    n: int
    k: int
    data_sha256: str | None
    source: Any  # what the file records about its origin, as JSON has it, None where it records nothing
    versions: tuple[Version, ...]
    sweep: TemperatureSweep | None
    swept_rows: int
    typed: str  # the bundle as the user wrote it
    ordered: bool = False  # are groups batches in order of time?

    @property
    def focus(self) -> int:
        """Index of the version that a page opens with: the recommended one, else the uncalibrated scores."""
        best = self.versions[0].report.advice.calibrator
        return next(
            (
                at
                for at, v in enumerate(self.versions)
                if best and v.result.calibrator == best
            ),
            0,
        )


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

    candidates : the uncalibrated scores first. The caller, who opened the files, adds facts about them.
    """
    done = assess(subject, candidates, replace(plan, tables=True), progress=progress)
    rows, name, names = subject.rows, subject.name, subject.class_names
    settings = CurveSettings(
        bins=plan.settings.bins, level=plan.settings.level, seed=plan.settings.seed
    )
    methods = [c.method for c in candidates]
    calls = [
        c.method if methods.count(c.method) == 1 else f"{c.method} ({c.name})"
        for c in candidates[1:]
    ]
    calls.insert(
        0, title_of(subject.upstream)
    )  # readers know the others by method, with the file where two share one
    sets = [
        Measured(name, call, table)
        for call, table in zip(calls, done.tables, strict=True)
    ]
    classes: list[tuple[Gap, ...]] = [()] * len(sets)
    groups = classes
    if rows.k > 1:
        names = names or [f"class {c}" for c in range(rows.k)]
        classes = _gaps(Request(settings, sets, by="class", names=names))
    about: Quantity = "positive" if rows.k == 2 and not plan.ordered else "top"
    if subject.group is not None:
        gates = [
            0.0 if each.report is None else each.report.gates["groups"]
            for each in done.results
        ]
        groups = _gaps(Request(settings, sets, by="group", ordered=plan.ordered), gates)
    versions = []
    for at, (label, table, result) in enumerate(
        zip(calls, done.tables, done.results, strict=True)
    ):
        top = measure_curve(label, table, settings)
        positive = (
            measure_curve(label, table, settings, "positive") if rows.k == 2 else None
        )
        kept = (
            thresholds_of(table, settings.level),
            coverage_curve(label, table, settings.level),
        )
        versions.append(
            Version(
                label,
                None,
                result,
                top,
                positive,
                *kept,
                classes[at],
                groups[at],
                about,
            )
        )
        if progress is not None:
            progress("drawing", at + 1, len(sets))
    fitted = [(call, c.calibrator) for call, c in zip(calls, candidates, strict=True)]
    given = [
        (call, c.temperature) for call, c in fitted if isinstance(c, OneTemperature)
    ]
    sweep, swept = _sweep(rows, name, given, settings, progress)
    return ModelResults(
        name,
        rows.n,
        rows.k,
        None,
        None,
        tuple(versions),
        sweep,
        swept,
        name,
        plan.ordered,
    ), done


def thresholds_of(table: RowTable, level: float) -> tuple[Threshold, ...]:
    """Coverage, accuracy and mean confidence at a threshold of every whole percent."""
    c, sums = most_confident(table)
    at = np.arange(101) / 100
    n = np.searchsorted(-c, -at, side="right")
    mass, hits, said, square = sums[:, n]
    with np.errstate(invalid="ignore"):
        right, effective = (
            np.minimum(hits / mass, 1.0),
            n if table.weight is None else mass**2 / square,
        )
        low, high = wilson_interval(right, effective / table.accuracy_effect, level)
        columns = (
            at,
            n,
            mass / sums[0, -1],
            right,
            low,
            high,
            said / mass,
            effective / table.accuracy_effect,
        )
    none = 0, 0.0, np.nan, np.nan, np.nan, np.nan, 0.0
    rows = zip(mass > 0, *(column.tolist() for column in columns), strict=True)
    return tuple(
        Threshold(first, *(more if any_row else none)) for any_row, first, *more in rows
    )


def _gaps(
    request: Request, gates: Sequence[float] | None = None
) -> list[tuple[Gap, ...]]:
    parts = parts_of(request)
    return [
        gap_series(request, parts, at, gate)[0].gaps
        for at, gate in enumerate(gates or [0.0] * len(request.sets))
    ]


def _sweep(
    rows: Rows,
    name: str,
    given: list[tuple[str, float]],
    settings: CurveSettings,
    progress: Progress | None,
) -> tuple[TemperatureSweep | None, int]:
    """Temperature sweep of all rows, or a sample of very many, and their number; None for confidences alone."""
    if rows.k < 2:
        return None, 0
    most, weights = max(SWEEP_SCORES // rows.k, 500), rows.weights()
    if rows.n > most:
        index = np.sort(
            np.random.default_rng(settings.seed).choice(rows.n, most, replace=False)
        )
        z = np.concatenate([block.z for block in rows.take(index).blocks()])
        weights = None if weights is None else weights[index]
        rows = ArrayRows(z, rows.labels()[index], "logits", weight=weights)
    if weights is not None and not weights.any():
        return None, 0
    return sweep_temperature(
        rows, name, given=given, points=31, bins=settings.bins, progress=progress
    ), rows.n
