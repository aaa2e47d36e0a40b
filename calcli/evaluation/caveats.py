"""Doubts about evaluated rows and about the fits of calibrators, as findings and
warnings.

Those of rows alone come from ``metrics/warnings.py``; those of fits are made here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.evaluation.findings import Finding
from calcli.evaluation.label_frequencies import label_shift_p_value
from calcli.evaluation.results import Result
from calcli.fitting.rows_of_fit import fitted_on
from calcli.io.artifact import Artifact
from calcli.io.dataset import DataSet
from calcli.io.provenance import NOT_HELD_OUT
from calcli.metrics.collect import CALIBRATED, collect
from calcli.metrics.long_context import LONG
from calcli.metrics.rowtable import RowTable
from calcli.metrics.running_sums import RunningSums
from calcli.metrics.warnings import (
    data_warnings,
    label_warnings,
    unit_warnings,
    zero_warnings,
)
from calcli.rows import ArrayRows

SHIFT_LEVEL = 1e-3
"""P-value below which label frequencies differ from those of a fit."""

SHIFTED = (
    "the label frequencies differ significantly from those of the calibrator's fit:"
    " expect its class probabilities to be off"
)


@dataclass(frozen=True)
class TriedArtifact:
    """A calibrator that was evaluated on rows, and doubts whether it fits them."""

    artifact: Artifact
    doubts: Sequence[str] = ()


def with_caveats(
    results: Sequence[Result],
    rows: DataSet,
    table: RowTable | RunningSums,
    tried: Sequence[TriedArtifact],
    bins: int,
) -> list[Result]:
    """The results with warnings about their rows and their calibrators' fits.

    In a judged result they are findings, too. table : of the uncalibrated scores. tried
    : the calibrators of the results but the first. bins : number that is asked for.
    """
    shared = _doubts(rows, table)
    changed = []
    for result in results:
        result = _with_doubts(result, [*shared, *_zero_warnings(result, rows)])
        limits = _limits(result, table, bins)
        changed.append(replace(result, warnings=[*result.warnings, *limits]))
    for number, one in enumerate(tried, start=1):
        of_fit = _fit_warnings(one.artifact, rows, table)
        changed[number] = _with_doubts(changed[number], [*one.doubts, *of_fit])
    # Notes are about the rows as they are stored, which only the first result is.
    return [_with_notes(changed[0], rows.notes), *changed[1:]]


def _with_doubts(result: Result, doubts: Sequence[str]) -> Result:
    report = result.report
    if report is not None:
        report = report.with_caveats(doubts)
    return replace(result, warnings=[*result.warnings, *doubts], report=report)


def _with_notes(result: Result, notes: Sequence[str]) -> Result:
    """The result with notes on its rows, which stand behind all other findings."""
    report = result.report
    if report is not None:
        findings = [Finding("note", {"words": words}) for words in notes]
        report = report.with_findings([*report.findings, *findings])
    return replace(result, warnings=[*result.warnings, *notes], report=report)


def _doubts(rows: DataSet, table: RowTable | RunningSums) -> list[str]:
    """Doubts about the rows that every version shares."""
    doubts = [*rows.doubts, *label_warnings(table, rows.class_names)]
    if rows.unit_name is not None:
        return doubts
    if isinstance(table, RowTable):
        return [*doubts, *unit_warnings(table)]
    first = rows.run(0, LONG)  # are rows independent? the first tell
    some = collect(ArrayRows(first.scores, first.labels, rows.kind))
    return [*doubts, *unit_warnings(some)]


def _limits(result: Result, table: RowTable | RunningSums, bins: int) -> list[str]:
    """Limits of what the rows can show."""
    is_binned = any("|bins:" in score.signature for score in result.scores.values())
    classes = int((table.label_counts > 0).sum()) if table.k > 1 else None
    return data_warnings(table.n, classes, table.spread, bins if is_binned else None)


def _fit_warnings(
    artifact: Artifact, rows: DataSet, table: RowTable | RunningSums
) -> list[str]:
    """Doubts about a calibrator whose fit saw other rows, or these."""
    warnings = []
    in_sample = not_held_out(artifact, rows)
    if in_sample is not None:
        warnings.append(in_sample)
    fit = artifact.fit
    counts = np.asarray(getattr(fit, "label_counts", []), dtype=np.float64)
    is_adapted = artifact.method.endswith("+prior")
    if len(counts) == table.k and not is_adapted:
        # Rows of a unit share labels: they are worth fewer independent ones.
        effect = table.label_effect
        fit_effect = getattr(fit, "label_effect", None) or effect
        label_counts = table.label_counts / effect
        if label_shift_p_value(counts / fit_effect, label_counts) < SHIFT_LEVEL:
            warnings.append(SHIFTED)
    return warnings


def not_held_out(artifact: Artifact | None, rows: DataSet) -> str | None:
    """Warning that a calibrator was fitted on these rows; None where it was not."""
    if artifact is None:
        return None
    rows_of_fit = fitted_on(artifact, rows)
    if rows_of_fit is None:
        return None
    return f"the calibrator was fitted on {rows_of_fit}: {NOT_HELD_OUT}"


def _zero_warnings(result: Result, rows: DataSet) -> list[str]:
    """Warning about an NLL that stored zeros at labels decide."""
    nll = result.scores.get("nll")
    if nll is None:
        return []
    zeros = rows.zeros
    if zeros is None or result.calibrator is not None:
        zeros = CALIBRATED
    return zero_warnings(
        int(nll.more.get("clipped", 0)),
        result.n,
        rows.kind,
        zeros.counts_as,
        nll.more.get("between"),
    )
