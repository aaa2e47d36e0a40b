"""Classes and groups: predicted and observed, before and after in one row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from calcli.reporting.figures.marks import GapAxis
from calcli.reporting.gather import Part
from calcli.reporting.number_format import NONE, count, share, signed_points, span
from calcli.reporting.views.room import Chapter

Kind = Literal["classes", "groups"]


@dataclass(frozen=True)
class PartRow:
    """A class or a group.

    means : samples, observed, predicted before where there is a before, predicted.
    gap : in points, its interval, and of a class the number, the mean confidence and
    the accuracy of the samples that are predicted as it.
    """

    name: str
    means: Sequence[str]
    marks: Markup
    gap: Sequence[str]
    is_significant: bool
    is_margin: bool


@dataclass(frozen=True)
class PartTable:
    """Classes or groups of one version; rows are None where there is no room for them."""

    number: int
    ident: str
    version: str
    is_in_focus: bool
    sentence: str
    has_before: bool
    rows: Sequence[PartRow] | None


@dataclass(frozen=True)
class PartsView:
    """Classes or groups of all versions.

    says, happens : heads of the columns of the two means. low, high : ways to be wrong.
    """

    kind: Kind
    title: str
    head: str
    says: str
    happens: str
    low: str
    high: str
    uncalibrated: str
    tables: Sequence[PartTable]


@dataclass(frozen=True)
class GapWords:
    """Words for what scores say, for what happens, and for either direction of a gap."""

    says: str
    happens: str
    low: str
    high: str


OF_PROBABILITY = GapWords("Predicted", "Observed", "low", "high")
OF_CONFIDENCE = GapWords("Sure", "Right", "underconfident", "overconfident")


def parts_view(chapter: Chapter, kind: Kind) -> PartsView | None:
    """The view of classes or groups, None where there are fewer than two."""
    model = chapter.model
    first = parts_of(chapter, 0, kind)
    if len(first) < 2:
        return None
    is_of_probability = kind == "classes" or model.is_about_class_one
    words = OF_PROBABILITY if is_of_probability else OF_CONFIDENCE
    title = "Groups"
    head = "Group"
    if kind == "classes":
        title = "Classes"
        head = "Class"
    return PartsView(
        kind=kind,
        title=title,
        head=head,
        says=words.says,
        happens=words.happens,
        low=words.low,
        high=words.high,
        uncalibrated=model.versions[0].name,
        tables=[
            _table(chapter, number, kind, is_of_probability)
            for number in range(len(model.versions))
        ],
    )


def parts_of(chapter: Chapter, number: int, kind: Kind) -> tuple[Part, ...]:
    """Classes or groups of a version."""
    version = chapter.model.versions[number]
    return version.classes if kind == "classes" else version.groups


def _table(
    chapter: Chapter, number: int, kind: Kind, is_of_probability: bool
) -> PartTable:
    parts = parts_of(chapter, number, kind)
    rows = None
    sentence = ""
    if chapter.is_shown(number):
        kept = parts[: chapter.room.lines]
        high = "too high" if is_of_probability else "overconfident"
        sentence = counted(parts, kind, high)
        if len(kept) < len(parts):
            sentence = f"{sentence} The {len(kept)} furthest off are listed."
        rows = _rows(chapter, number, kind, kept)
    return PartTable(
        number=number,
        ident=chapter.ident(kind, number),
        version=chapter.model.versions[number].name,
        is_in_focus=number == chapter.model.focus,
        sentence=sentence,
        has_before=number > 0,
        rows=rows,
    )


def counted(parts: Sequence[Part], kind: Kind, high: str) -> str:
    """How many parts are significantly miscalibrated, and in which direction."""
    significant = [part for part in parts if part.is_significant]
    n = len(significant)
    total = len(parts)
    if not n:
        return f"None of {count(total)} {kind} is significantly miscalibrated."
    n_high = sum(part.gap > 0.0 for part in significant)
    are = "is" if n == 1 else "are"
    sentence = (
        f"{count(n)} of {count(total)} {kind} {are} significantly miscalibrated,"
        f" {count(n_high)} of them {high}."
    )
    if kind == "groups" and n > total / 2 and n_high in (0, n):
        return f"{sentence} That is the whole model rather than single groups."
    return sentence


def _rows(
    chapter: Chapter, number: int, kind: Kind, parts: Sequence[Part]
) -> list[PartRow]:
    """Rows of a table, with the gap of the uncalibrated scores beside each."""
    before: dict[str, Part] = {}
    if number > 0:
        before = {part.name: part for part in parts_of(chapter, 0, kind)}
    axis = GapAxis.of((*parts, *before.values()))
    return [_row(part, before.get(part.name), axis, kind) for part in parts]


def _row(part: Part, before: Part | None, axis: GapAxis, kind: Kind) -> PartRow:
    means = [count(part.n), share(part.observed)]
    if before is not None:
        means.append(share(before.predicted))
    means.append(share(part.predicted))
    gap = [signed_points(part.gap), span(part.low, part.high)]
    if kind == "classes":
        gap += _answers(part)
    return PartRow(
        name=part.name,
        means=means,
        marks=axis.marks(part, before),
        gap=gap,
        is_significant=part.is_significant,
        is_margin=part.is_margin,
    )


def _answers(part: Part) -> list[str]:
    """The samples that are predicted as a class: number, confidence, accuracy."""
    answers = part.answers
    if answers is None:
        return [NONE, NONE, NONE]
    return [count(answers.n), share(answers.confidence), share(answers.accuracy)]
