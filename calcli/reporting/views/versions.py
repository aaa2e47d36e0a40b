"""Versions, a row each, and all findings on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

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
class VersionRow:
    """A row of the table of versions. folds : of cross-fitting, if there was one."""

    name: str
    folds: str
    sample: Markup
    is_recommended: bool
    state: State
    says: Cell
    happens: Cell
    gap: Cell
    slope: Cell
    error: Cell
    loss: Cell
    change: Cell
    brier: Cell
    accuracy: Cell
    changed: Cell


@dataclass(frozen=True)
class FindingLine:
    """A finding on a version. is_doubt : about the data, to be read first."""

    version: str
    text: str
    is_doubt: bool


@dataclass(frozen=True)
class VersionsView:
    """The table of versions and their findings.

    about_class_one : says and happens are of P(class 1), else of the confidence.
    """

    ident: str
    about_class_one: bool
    has_changes: bool
    has_slope: bool
    loss_name: str
    has_brier: bool
    rows: Sequence[VersionRow]
    findings: Sequence[FindingLine]
    are_several: bool


def versions_view(chapter: Chapter) -> VersionsView:
    """The versions of a model, and their findings."""
    model = chapter.model
    rows = [_row(model, number) for number in range(len(model.versions))]
    first = model.versions[0].result
    return VersionsView(
        ident=chapter.ident("versions"),
        about_class_one=model.is_about_class_one,
        has_changes=any(row.change is not EMPTY for row in rows),
        has_slope=any(row.slope is not EMPTY for row in rows),
        loss_name="NLL" if first.n_classes is not None else "squared error",
        has_brier=first.n_classes is not None,
        rows=rows,
        findings=findings_of(model.versions),
        are_several=len(model.versions) > 1,
    )


def _row(model: ModelResults, number: int) -> VersionRow:
    version = model.versions[number]
    result = version.result
    facts = version.report.facts
    one = facts.class_one
    right = _accuracy_cell(result)
    says = facts.confidence
    happens = right
    gap = facts.overconfidence
    if model.is_about_class_one and one is not None:
        right = replace(right, small="")
        says = one.predicted
        gap = one.gap
        happens = Cell(share(one.observed), raw=repr(one.observed))
    changed = EMPTY
    if number:
        changed = _changed_cell(version.n_changed, model.n)
    if number and model.is_about_class_one:
        right = replace(right, small=f"{changed.text} change")
    return VersionRow(
        name=version.name,
        folds=f"cross-fitted, {result.n_folds} folds" if result.n_folds else "",
        sample=line_sample(number),
        is_recommended=number == model.recommended,
        state=state_of(version.report),
        says=Cell(share(says), raw=repr(says)),
        happens=happens,
        gap=Cell(
            signed_points(gap.value),
            span(gap.interval.low, gap.interval.high),
            repr(gap.value),
        ),
        slope=_number_cell(result, "slope", 2),
        error=_error_cell(result),
        loss=_number_cell(result, result.loss_name, 4),
        change=_change_cell(result),
        brier=_number_cell(result, "brier", 4),
        accuracy=right,
        changed=changed,
    )


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
