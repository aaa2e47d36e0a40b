"""Evaluate calibrators on the rows of one bundle: one walk over the file, then arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.calibrator import Calibrator, Progress
from calcli.evaluation.bin_sweep import bin_sweep
from calcli.evaluation.compare import differences
from calcli.evaluation.judge import Judgement, data_line, judge
from calcli.evaluation.refine import Split, cross_fitted_split, split_is_cheap
from calcli.metrics.catalog import class_bins_needed, measure, metric, signature, tops_needed
from calcli.metrics.columns import class_columns
from calcli.metrics.context import Scope, Settings, Value
from calcli.metrics.families import per_class_errors
from calcli.metrics.nulls import Null
from calcli.metrics.rowtable import RowTable, collect_all
from calcli.metrics.significance import benjamini_hochberg, class_p_values
from calcli.rows import Rows

__all__ = ["Candidate", "Plan", "assess", "value_json"]


@dataclass(frozen=True)
class Candidate:
    """A calibrator to evaluate. name : artifact as the user wrote it, None for uncalibrated scores."""

    name: str | None
    method: str
    calibrator: Calibrator | None


@dataclass(frozen=True)
class Plan:
    """What to compute.

    metrics : names, in order. report : the judgement beside the metrics. split : the
    cross-fitted split of the losses, None where it is cheap. per_class, per_group : extra
    rows. sweep : numbers of bins for the binned lower bound; ``sweep_marginal`` per class.
    """

    metrics: Sequence[str]
    settings: Settings = field(default_factory=Settings)
    report: bool = True
    split: bool | None = None
    per_class: bool = False
    per_group: bool = False
    sweep: Sequence[int] = ()
    sweep_marginal: bool = False


@dataclass(frozen=True)
class Assessed:
    """The results of one bundle, and the row tables they came from."""

    results: list[dict[str, Any]]
    tables: list[RowTable]
    baseline: RowTable


def assess(
    rows: Rows,
    candidates: Sequence[Candidate],
    plan: Plan,
    *,
    baseline: Candidate | None = None,
    group: NDArray[Any] | None = None,
    class_names: Sequence[str] | None = None,
    edge_rows: Rows | None = None,
    progress: Progress | None = None,
) -> Assessed:
    """Evaluate candidates on rows.

    candidates : the uncalibrated scores first. baseline : what differences are taken to,
    None for the first candidate. edge_rows : rows that choose the bins of a sweep.
    Raises DataError for calibrators that do not fit.
    """
    s = plan.settings
    compared = candidates if baseline is None else [*candidates, baseline]
    bins = class_bins_needed(plan.metrics, s)
    if plan.report or plan.per_class:
        bins = s.bins
    tables = collect_all(
        rows,
        [c.calibrator for c in compared],
        class_bins=bins,
        tops=tops_needed(plan.metrics),
        group=group,
        progress=progress,
    )
    reference = tables[0] if baseline is None else tables[-1]
    tables = tables[: len(candidates)]
    results = []
    for candidate, table in zip(candidates, tables, strict=True):
        scope = Scope(table, s, partial(class_columns, rows, candidate.calibrator))
        result = _result(rows, candidate, table, scope, plan, reference, baseline, class_names, progress)
        if plan.sweep:
            result["bin_sweep"] = bin_sweep(
                rows, candidate.calibrator, table, plan.sweep, s.norm, edge_rows, plan.sweep_marginal
            )
        results.append(result)
    return Assessed(results, tables, reference)


def _result(
    rows: Rows,
    candidate: Candidate,
    table: RowTable,
    scope: Scope,
    plan: Plan,
    reference: RowTable,
    baseline: Candidate | None,
    class_names: Sequence[str] | None,
    progress: Progress | None,
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "calibrator": candidate.name,
        "method": candidate.method,
        "n": table.n,
        "n_classes": table.k,
    }
    values = {}
    for done, name in enumerate(plan.metrics):
        if progress is not None:
            progress("measuring", done, len(plan.metrics))
        values[name] = measure(name, scope)
    result["metrics"] = {name: value_json(name, value, plan.settings) for name, value in values.items()}
    if table is not reference:
        result["paired"] = {
            "baseline": None if baseline is None else baseline.name,
            "differences": differences(table, reference, scope),
        }
    if any(table.counts.values()):
        result["counts"] = dict(table.counts)
    if plan.report:
        split = None
        if plan.split or (plan.split is None and split_is_cheap(table.n, table.k)):
            split = cross_fitted_split(rows, candidate.calibrator, table, plan.settings.seed, progress)
        judgement = judge(scope, values, split)
        result["report"] = _report_json(rows, table, judgement, split)
    if plan.per_class:
        result["per_class"] = _per_class(scope, class_names)
    if plan.per_group:
        result["per_group"] = _per_group(table, plan)
    return result


def value_json(name: str, value: Value, settings: Settings) -> dict[str, Any]:
    """A measured value with the keys of the JSON output; ``reason`` where there is no value."""
    out: dict[str, Any] = {"value": value.value, "signature": signature(name, settings, value.pins.items())}
    if value.reason is not None:
        out["reason"] = value.reason
    if value.se is not None:
        out["se"] = value.se
    if value.interval is not None:
        i = value.interval
        out |= {"ci": [i.low, i.high], "ci_level": i.level, "ci_method": i.method}
    if value.null is not None:
        out |= _null_json(value.null)
    if value.p_value is not None:
        out["p_value"] = value.p_value
    return out | dict(value.more)


def _null_json(null: Null) -> dict[str, Any]:
    return {"null_mean": null.mean, "null_q95": null.q95, "p_value": null.p_value}


def _report_json(rows: Rows, table: RowTable, judgement: Judgement, split: Split | None) -> dict[str, Any]:
    return {
        "data": data_line(rows.kind, table),
        "direction": judgement.direction,
        "classwise": judgement.classwise,
        "split": None if split is None else split.as_json(),
        "verdict": judgement.verdict,
    }


def _per_class(scope: Scope, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """One line per class: shares, gap with p-value, recall, one-vs-all ECE."""
    table, stats = scope.table, scope.table.classes
    assert stats is not None
    mass, mean, labels = stats.mass.sum(axis=1), stats.score.sum(axis=1), stats.hits.sum(axis=1)
    p_values = class_p_values(mean, stats.square.sum(axis=1), labels)
    significant = set(benjamini_hochberg(p_values).tolist())
    errors = per_class_errors(scope, "width", scope.settings.norm)
    count = np.bincount(table.y, minlength=table.k)
    right = np.bincount(table.y, weights=table.correct, minlength=table.k)
    predicted = np.bincount(table.prediction, minlength=table.k)
    lines = []
    for c in range(table.k):
        lines.append(
            {
                "class": c,
                "name": None if names is None else names[c],
                "n": int(count[c]),
                "predicted": int(predicted[c]),
                "share": float(labels[c] / mass[c]),
                "mean_probability": float(mean[c] / mass[c]),
                "gap": float((mean[c] - labels[c]) / mass[c]),
                "p_value": float(p_values[c]),
                "significant": c in significant,
                "recall": float(right[c] / count[c]) if count[c] else None,
                "ece": float(errors[c]),
            }
        )
    return lines


def _per_group(table: RowTable, plan: Plan) -> list[dict[str, Any]]:
    """The metrics on the rows of every group, those that need no class sums."""
    assert table.group is not None
    names = [name for name in plan.metrics if not metric(name).needs]
    lines = []
    for group in np.unique(table.group):
        part = table.take(table.group == group)
        scope = Scope(part, plan.settings)
        lines.append(
            {
                "group": group.item() if hasattr(group, "item") else str(group),
                "n": part.n,
                "metrics": {name: value_json(name, measure(name, scope), plan.settings) for name in names},
            }
        )
    return lines
