"""Batches in order of time, a row each."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from calcli.evaluation.results import GroupSummary
from calcli.evaluation.scores import Score
from calcli.reporting.figures.marks import GapAxis
from calcli.reporting.gather import Part, Version
from calcli.reporting.number_format import (
    NONE,
    count,
    fixed,
    share,
    signed_points,
    span,
)
from calcli.reporting.views.room import Chapter


@dataclass(frozen=True)
class BatchRow:
    """One batch."""

    name: str
    samples: str
    accuracy: str
    marks: Markup
    gap: str
    interval: str
    ece: str
    expected_ece: str
    nll: str
    is_significant: bool


@dataclass(frozen=True)
class BatchTable:
    """Batches of one version; rows are None where there is no room for them."""

    number: int
    ident: str
    version: str
    is_in_focus: bool
    sentence: str
    rows: Sequence[BatchRow] | None


def batch_tables(chapter: Chapter) -> list[BatchTable]:
    """A table of batches per version."""
    tables = []
    for number, version in enumerate(chapter.model.versions):
        rows = None
        if chapter.is_shown(number):
            rows = _rows(version)
        tables.append(
            BatchTable(
                number=number,
                ident=chapter.ident("batches", number),
                version=version.name,
                is_in_focus=number == chapter.model.focus,
                sentence=_sentence(version.groups),
                rows=rows,
            )
        )
    return tables


def _sentence(parts: Sequence[Part]) -> str:
    n = sum(part.is_significant for part in parts)
    total = count(len(parts))
    if not n:
        return f"None of {total} batches is significantly miscalibrated."
    are = "is" if n == 1 else "are"
    return f"{count(n)} of {total} batches {are} significantly miscalibrated."


def _rows(version: Version) -> list[BatchRow]:
    lines = version.result.per_group or ()
    axis = GapAxis.of(version.groups)
    rows = []
    for line, part in zip(lines, version.groups, strict=True):
        rows.append(_row(line, part, axis))
    return rows


def _row(line: GroupSummary, part: Part, axis: GapAxis) -> BatchRow:
    ece = line.scores.get("ece")
    expected_ece = NONE
    if ece is not None and ece.null is not None:
        expected_ece = fixed(100 * ece.null.mean, 1)
    accuracy = _value(line.scores.get("accuracy"))
    return BatchRow(
        name=part.name,
        samples=count(part.n),
        accuracy=NONE if accuracy is None else share(accuracy),
        marks=axis.marks(part),
        gap=signed_points(part.gap),
        interval=span(part.low, part.high),
        ece=_points_text(ece),
        expected_ece=expected_ece,
        nll=fixed(_value(line.scores.get("nll"))),
        is_significant=part.is_significant,
    )


def _value(score: Score | None) -> float | None:
    return None if score is None else score.value


def _points_text(score: Score | None) -> str:
    value = _value(score)
    return NONE if value is None else fixed(100 * value, 1)
