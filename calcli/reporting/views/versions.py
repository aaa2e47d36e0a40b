"""Versions, a row each, and all findings on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from calcli.evaluation.facts import Estimate
from calcli.evaluation.findings import DOUBTS
from calcli.evaluation.results import Result
from calcli.evaluation.scores import Score
from calcli.evaluation.words import finding_line
from calcli.reporting.figures.marks import line_sample
from calcli.reporting.gather import ModelResults, Version
from calcli.reporting.number_format import (
    NONE,
    count,
    fixed,
    share,
    share_span,
    signed,
    signed_points,
    span,
    typeset,
)
from calcli.reporting.views.room import Chapter
from calcli.reporting.views.states import State, state_of


@dataclass(frozen=True)
class Cell:
    """A number with smaller text beneath it. raw : the number itself, for downloads."""

    text: str
    small: str = ""
    raw: str = ""


EMPTY = Cell(NONE)


@dataclass(frozen=True)
class VersionColumn:
    """A column of numbers of the table of versions.

    head : its words, empty for those of its term. term : of the glossary. unit : behind
    the head. has_interval : does the smaller text give an interval? cells : a version
    each.
    """

    head: str
    cells: Sequence[Cell]
    term: str = ""
    unit: str = ""
    has_interval: bool = False


@dataclass(frozen=True)
class VersionRow:
    """A row of the table of versions. folds : of cross-fitting, if there was one."""

    name: str
    folds: str
    sample: Markup
    is_recommended: bool
    state: State
    cells: Sequence[Cell]


@dataclass(frozen=True)
class FindingLine:
    """A finding on a version. is_doubt : about the data, to be read first."""

    version: str
    text: str
    is_doubt: bool


@dataclass(frozen=True)
class VersionsView:
    """The table of versions and their findings.

    about_class_one : is the table about P(class 1), not the confidence?
    """

    ident: str
    about_class_one: bool
    columns: Sequence[VersionColumn]
    rows: Sequence[VersionRow]
    findings: Sequence[FindingLine]
    are_several: bool


def versions_view(chapter: Chapter) -> VersionsView:
    """The versions of a model, and their findings."""
    model = chapter.model
    columns = version_columns(model)
    rows = []
    for number, version in enumerate(model.versions):
        n_folds = version.result.n_folds
        rows.append(
            VersionRow(
                name=version.name,
                folds=f"cross-fitted, {n_folds} folds" if n_folds else "",
                sample=line_sample(number),
                is_recommended=number == model.recommended,
                state=state_of(version.report),
                cells=[column.cells[number] for column in columns],
            )
        )
    return VersionsView(
        ident=chapter.ident("versions"),
        about_class_one=model.is_about_class_one,
        columns=columns,
        rows=rows,
        findings=findings_of(model.versions),
        are_several=len(model.versions) > 1,
    )


def version_columns(model: ModelResults) -> list[VersionColumn]:
    """Columns of numbers in their order, without those that have none."""
    results = [version.result for version in model.versions]
    has_classes = results[0].n_classes is not None
    change = f"Change in {'NLL' if has_classes else 'squared error'}"
    errors = [_error_cell(result) for result in results]
    losses = [_number_cell(result, result.loss_name, 4) for result in results]
    changes = [_change_cell(result) for result in results]
    briers = [EMPTY] * len(results)
    if has_classes:
        briers = [_number_cell(result, "brier", 4) for result in results]
    columns = _columns_of_confidence(model)
    if model.is_about_class_one:
        columns = _columns_of_class_one(model)
    columns.append(VersionColumn("ECE", errors, "ece", unit="points"))
    if has_classes:
        columns.append(VersionColumn("NLL", losses, "loss"))
    else:
        columns.append(VersionColumn("Squared error", losses))
    columns.append(VersionColumn(change, changes))
    columns.append(VersionColumn("Brier", briers, "brier"))
    changed = _changed_cells(model)
    if model.is_about_class_one:
        accuracies = _accuracies_with_changes(model, changed)
        columns.append(VersionColumn("", accuracies, "accuracy"))
    else:
        columns.append(VersionColumn("Predictions changed", changed))
    return [column for column in columns if _has_numbers(column)]


def _has_numbers(column: VersionColumn) -> bool:
    return any(cell is not EMPTY for cell in column.cells)


def _columns_of_confidence(model: ModelResults) -> list[VersionColumn]:
    """Mean confidence, accuracy and their gap."""
    confidences = []
    accuracies = []
    gaps = []
    for version in model.versions:
        facts = version.report.facts
        confidences.append(_share_cell(facts.confidence))
        accuracies.append(_accuracy_cell(version.result))
        gaps.append(_gap_cell(facts.overconfidence))
    return [
        VersionColumn("Sure", confidences, "confidence"),
        VersionColumn("Right", accuracies, "accuracy"),
        VersionColumn("", gaps, "overconfidence", unit="points", has_interval=True),
    ]


def _columns_of_class_one(model: ModelResults) -> list[VersionColumn]:
    """Mean P(class 1), frequency of class 1, their gap, and the slope."""
    predicted = []
    observed = []
    gaps = []
    slopes = []
    for version in model.versions:
        one = version.report.facts.class_one
        assert one is not None
        predicted.append(_share_cell(one.predicted))
        observed.append(_share_cell(one.observed))
        gaps.append(_gap_cell(one.gap))
        slopes.append(_number_cell(version.result, "slope", 2))
    return [
        VersionColumn("Predicted", predicted, "predicted"),
        VersionColumn("Observed", observed),
        VersionColumn("Gap", gaps, unit="points", has_interval=True),
        VersionColumn("Slope", slopes, "slope"),
    ]


def _share_cell(value: float) -> Cell:
    return Cell(share(value), raw=repr(value))


def _gap_cell(gap: Estimate) -> Cell:
    return Cell(
        signed_points(gap.value),
        span(gap.interval.low, gap.interval.high),
        repr(gap.value),
    )


def _changed_cells(model: ModelResults) -> list[Cell]:
    """How many predictions every calibrator changes; the first version is unchanged."""
    cells = [EMPTY]
    for version in model.versions[1:]:
        cells.append(_changed_cell(version.n_changed, model.n))
    return cells


def _accuracies_with_changes(
    model: ModelResults, changed: Sequence[Cell]
) -> list[Cell]:
    """Accuracies, and how many predictions change in place of the interval."""
    cells = []
    for version, change in zip(model.versions, changed, strict=True):
        small = "" if change is EMPTY else f"{change.text} change"
        cells.append(replace(_accuracy_cell(version.result), small=small))
    return cells


def _changed_cell(n_changed: int, n: int) -> Cell:
    """How many predictions change."""
    if n_changed == 0:
        return Cell("none")
    return Cell(count(n_changed), f"of {count(n)}", str(n_changed))


def _number_cell(result: Result, name: str, digits: int) -> Cell:
    score = result.scores.get(name)
    if score is None or score.value is None:
        return EMPTY
    small = ""
    if name == "slope" and score.interval is not None:
        small = span(score.interval.low, score.interval.high, 1.0, digits)
    elif score.no_interval is not None:
        small = score.no_interval
    return Cell(fixed(score.value, digits), small, repr(score.value))


def _error_cell(result: Result) -> Cell:
    """The calibration error in points, with its expected value."""
    score = result.scores.get("ece_positive") or result.scores["ece"]
    value = fixed(100 * (score.value or 0.0), 1)
    return Cell(value, _expected(score), repr(score.value))


def _expected(score: Score) -> str:
    if score.null is None:
        return "no expected value"
    return f"expected {fixed(100 * score.null.mean, 1)}"


def _change_cell(result: Result) -> Cell:
    change = result.loss_change
    if change is None:
        return EMPTY
    ends = change.reason or "no interval"
    if change.interval is not None:
        ends = span(change.interval.low, change.interval.high, 1.0, 3)
    return Cell(signed(change.value, 3), ends, repr(change.value))


def _accuracy_cell(result: Result) -> Cell:
    score = result.scores["accuracy"]
    value = float("nan") if score.value is None else score.value
    ends = ""
    if score.interval is not None:
        ends = share_span(score.interval.low, score.interval.high)
    return Cell(share(value), ends, repr(score.value))


def findings_of(versions: Sequence[Version]) -> list[FindingLine]:
    """All findings, doubts first; a doubt that several versions share is said once."""
    doubts: dict[str, list[str]] = {}
    others = []
    for version in versions:
        for finding in version.report.findings:
            if finding.kind in DOUBTS:
                text = str(finding.numbers.get("words", finding_line(finding)))
                doubts.setdefault(typeset(text), []).append(version.name)
            else:
                line = typeset(finding_line(finding))
                others.append(FindingLine(version.name, line, is_doubt=False))
    lines = []
    for text, names in doubts.items():
        about = "" if len(names) == len(versions) else ", ".join(names)
        lines.append(FindingLine(about, text, is_doubt=True))
    return [*lines, *others]
