"""Everything a page shows of one bundle, as numbers: aggregates only, never rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.calibrator import Progress
from calcli.diagrams.curve import Curve, CurveSettings, Quantity, measure_curve
from calcli.diagrams.panels import Measured, parts_of, quantities
from calcli.diagrams.style import Request
from calcli.diagrams.styles.gaps import Gap, gap_series
from calcli.diagrams.styles.risk import Coverage, coverage_curve
from calcli.diagrams.styles.temperature import TemperatureSweep, sweep_temperature
from calcli.evaluation.evaluate_bundle import Assessed, Candidate, Plan, Subject, assess
from calcli.evaluation.results import Result
from calcli.fast_dataclass import dataclass
from calcli.io.artifact import Artifact
from calcli.methods._temperature import OneTemperature
from calcli.metrics.catalog import report_metrics
from calcli.metrics.intervals import wilson_interval
from calcli.metrics.rowtable import RowTable
from calcli.rows import ArrayRows, Rows

SWEEP_SCORES = 1_000_000
"""Rows times classes that a temperature sweep reads; of more rows, a sample."""


@dataclass(frozen=True)
class Threshold:
    """The rows with at least this confidence: their share, how many are right, and what is promised.

    effective : number of equally weighted rows that are worth as much.
    """

    at: float
    n: int
    coverage: float
    right: float
    right_low: float
    right_high: float
    promised: float
    effective: float


@dataclass(frozen=True)
class CalibratorFacts:
    """Where a calibrator comes from. path : as the user wrote it."""

    path: str
    method: str
    options: dict[str, Any]
    source: str | None
    data_sha256: str | None
    n: int


@dataclass(frozen=True)
class Version:
    """The uncalibrated scores, or those of one calibrator.

    groups_about : what the gaps of the groups are about: of two classes P(class 1), but of batches in order of time.
    """

    name: str
    facts: CalibratorFacts | None
    result: Result
    top: Curve
    positive: Curve | None
    thresholds: tuple[Threshold, ...]
    coverage: Coverage
    classes: tuple[Gap, ...]
    groups: tuple[Gap, ...]
    groups_about: Quantity = "top"


@dataclass(frozen=True)
class ModelResults:
    """One bundle and all versions of it, the uncalibrated scores first. typed : the bundle as the user wrote it.

    source : what the file records about its origin, as JSON has it, None where it records nothing.
    ordered : groups are batches in order of time.
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
    ordered: bool = False


def metrics_of_page(more: Sequence[str] = ()) -> tuple[str, ...]:
    """The metrics of a page, with those that limits need."""
    return tuple(dict.fromkeys((*report_metrics(), "gap", "aurc", "auroc", *more)))


def facts_of(path: str, artifact: Artifact) -> CalibratorFacts:
    """Where a calibrator comes from."""
    fit = artifact.fit
    return CalibratorFacts(path, artifact.method, artifact.options, fit.source, fit.data_sha256, fit.n)


def gather(
    subject: Subject, candidates: Sequence[Candidate], plan: Plan, progress: Progress | None = None
) -> tuple[ModelResults, Assessed]:
    """Evaluate candidates on rows and measure what the figures need.

    candidates : the uncalibrated scores first. Facts about files are added by who opened them.
    """
    done = assess(subject, candidates, replace(plan, tables=True), progress=progress)
    rows, name, names = subject.rows, subject.name, subject.class_names
    settings = CurveSettings(bins=plan.settings.bins, level=plan.settings.level, seed=plan.settings.seed)
    calls = _calls(candidates)
    sets = [Measured(name, call, table) for call, table in zip(calls, done.tables, strict=True)]
    classes: list[tuple[Gap, ...]] = [() for _ in sets]
    if rows.k > 1:
        classes = _gaps(sets, settings, "class", names or [f"class {c}" for c in range(rows.k)])
    about: Quantity = "positive" if rows.k == 2 and not plan.ordered else "top"
    groups: list[tuple[Gap, ...]] = [() for _ in sets]
    if subject.group is not None:
        gates = [0.0 if each.report is None else each.report.gates["groups"] for each in done.results]
        groups = _gaps(sets, settings, "group", None, gates, plan.ordered)
    versions = []
    for at, (each, result) in enumerate(zip(sets, done.results, strict=True)):
        table = each.table
        columns = each.columns("top")
        positive = None
        if rows.k == 2:
            positive = measure_curve(each.label, *each.columns("positive"), settings, "positive", each.units())
        versions.append(
            Version(
                each.label,
                None,
                result,
                measure_curve(each.label, *columns, settings, units=each.units()),
                positive,
                thresholds_of(table, settings.level),
                coverage_curve(each.label, *columns, settings.level, table.accuracy_effect),
                classes[at],
                groups[at],
                about,
            )
        )
        if progress is not None:
            progress("drawing", at + 1, len(sets))
    sweep, swept = _sweep(rows, name, candidates, calls, settings, progress)
    found = ModelResults(name, rows.n, rows.k, None, None, tuple(versions), sweep, swept, name, plan.ordered)
    return found, done


def _calls(candidates: Sequence[Candidate]) -> list[str]:
    """What readers call the versions: methods, with the file where two share one."""
    methods = [c.method for c in candidates]
    return [
        "uncalibrated" if c.name is None else c.method if methods.count(c.method) == 1 else f"{c.method} ({c.name})"
        for c in candidates
    ]


def thresholds_of(table: RowTable, level: float) -> tuple[Threshold, ...]:
    """What a threshold of every whole percent leaves, and how good that is."""
    order = np.argsort(-table.confidence, kind="stable")
    c = table.confidence[order]
    w = np.ones(table.n) if table.weight is None else table.weight[order]
    sums = [np.concatenate([[0.0], np.cumsum(v)]) for v in (w, w * table.correct[order], w * c, w**2)]
    found = []
    for percent in range(101):
        n = int(np.searchsorted(-c, -percent / 100, side="right"))
        mass, hits, said, square = (float(s[n]) for s in sums)
        if not mass > 0:
            found.append(Threshold(percent / 100, 0, 0.0, np.nan, np.nan, np.nan, np.nan, 0.0))
            continue
        right = min(hits / mass, 1.0)
        effective = n if table.weight is None else mass**2 / square
        effective /= table.accuracy_effect
        low, high = wilson_interval(np.array([right]), np.array([effective]), level)
        share = mass / float(sums[0][-1])
        found.append(Threshold(percent / 100, n, share, right, float(low[0]), float(high[0]), said / mass, effective))
    return tuple(found)


def _gaps(
    sets: Sequence[Measured],
    settings: CurveSettings,
    by: Any,
    names: Sequence[str] | None,
    gates: Sequence[float] = (),
    ordered: bool = False,
) -> list[tuple[Gap, ...]]:
    request = Request(settings, sets, by=by, names=names, ordered=ordered)
    parts, wanted, gate = parts_of(request), quantities(request), dict(enumerate(gates))
    return [gap_series(s, parts, at, settings, wanted, gate.get(at, 0.0), by)[0].gaps for at, s in enumerate(sets)]


def _sweep(
    rows: Rows,
    name: str,
    candidates: Sequence[Candidate],
    calls: Sequence[str],
    settings: CurveSettings,
    progress: Progress | None,
) -> tuple[TemperatureSweep | None, int]:
    """The temperature sweep of all rows, or of a sample of very many; None of a confidence alone."""
    if rows.k < 2:
        return None, 0
    given = [
        (call, c.calibrator.temperature)
        for call, c in zip(calls, candidates, strict=True)
        if isinstance(c.calibrator, OneTemperature)
    ]
    chosen, silent = rows, (lambda what, done, total: None)
    most = max(SWEEP_SCORES // rows.k, 500)
    if rows.n > most:
        chosen = _sample(rows, most, settings.seed)
    weights = chosen.weights()
    if weights is not None and not weights.any():
        return None, 0
    told = progress or silent
    return sweep_temperature(chosen, name, given=given, points=31, bins=settings.bins, progress=told), chosen.n


def _sample(rows: Rows, n: int, seed: int) -> ArrayRows:
    """Some rows, drawn without replacement, in their order."""
    index = np.sort(np.random.default_rng(seed).choice(rows.n, n, replace=False))
    z, weight = np.concatenate([block.z for block in rows.take(index).blocks()]), rows.weights()
    return ArrayRows(z, rows.labels()[index], "logits", weight=None if weight is None else weight[index])
