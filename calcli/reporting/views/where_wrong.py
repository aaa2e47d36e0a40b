"""Where it is wrong: reliability curves, a slider over them, and the table of bins."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from calcli.diagrams.caption_text import fall_words
from calcli.diagrams.curve import Curve, Quantity
from calcli.metrics.confidence_bins import ConfidenceBin
from calcli.reporting.figures.marks import line_sample
from calcli.reporting.figures.reliability import DrawnCurve, reliability_figure
from calcli.reporting.gather import Version
from calcli.reporting.number_format import (
    count,
    points,
    share,
    share_span,
    signed_points,
    typeset,
)
from calcli.reporting.views.room import Chapter


@dataclass(frozen=True)
class Switch:
    """The switch of a version: its number, its name, a sample of its line."""

    number: int
    name: str
    sample: Markup
    is_in_focus: bool


def switches(chapter: Chapter) -> list[Switch]:
    """A switch per version that is drawn."""
    made = []
    for number, version in enumerate(chapter.model.versions):
        in_focus = number == chapter.model.focus
        made.append(Switch(number, version.name, line_sample(number), in_focus))
    return made


@dataclass(frozen=True)
class BinRow:
    """A bin with samples. number : of all bins, which the script finds it by."""

    number: int
    bounds: str
    samples: str
    says: str
    happens: str
    interval: str
    gap: str
    verdict: str
    is_significant: bool


@dataclass(frozen=True)
class BinTable:
    """The bins of one version; rows are None where there is no room for them."""

    number: int
    ident: str
    version: str
    is_in_focus: bool
    rows: Sequence[BinRow] | None


@dataclass(frozen=True)
class Reading:
    """Curves of one quantity, with the tables of their bins.

    says, happens : heads of the columns. note : on curves that hide a fall.
    """

    quantity: Quantity
    title: str
    slider: str
    says: str
    happens: str
    figure: Markup
    figure_ident: str
    tables: Sequence[BinTable]
    notes: Sequence[str]


def readings(chapter: Chapter) -> list[Reading]:
    """Of two classes P(class 1) and the confidence, else the confidence alone."""
    if chapter.model.k == 2:
        return [_reading(chapter, "positive"), _reading(chapter, "top")]
    return [_reading(chapter, "top")]


def _reading(chapter: Chapter, quantity: Quantity) -> Reading:
    model = chapter.model
    name = "confidence"
    says = "Sure"
    happens = "Right"
    figure_name = "reliability"
    if quantity == "positive":
        name = "P(class 1)"
        says = "Predicted"
        happens = "Observed"
        figure_name = "reliability-class1"
    ident = chapter.ident(figure_name)
    curves = []
    notes = []
    for number, version in enumerate(model.versions):
        curve = _curve(version, quantity)
        curves.append(DrawnCurve(curve, number))
        words = fall_words(curve, "the crosses show bins")
        if words:
            notes.append(f"{curve.label}: {typeset(words)}.")
    return Reading(
        quantity=quantity,
        title=name[0].upper() + name[1:],
        slider=name,
        says=says,
        happens=happens,
        figure=reliability_figure(curves, model.focus, ident),
        figure_ident=ident,
        tables=[
            _bin_table(chapter, number, quantity)
            for number in range(len(model.versions))
        ],
        notes=notes,
    )


def _curve(version: Version, quantity: Quantity) -> Curve:
    if quantity == "positive":
        assert version.positive is not None
        return version.positive
    return version.top


def bins_of(version: Version, quantity: Quantity) -> Sequence[ConfidenceBin]:
    """All bins of a quantity, those without samples too."""
    return version.positive_bins if quantity == "positive" else version.bins


def _bin_table(chapter: Chapter, number: int, quantity: Quantity) -> BinTable:
    version = chapter.model.versions[number]
    what = "ranges-class1" if quantity == "positive" else "ranges"
    rows = None
    if chapter.is_shown(number):
        rows = []
        for place, bin_ in enumerate(bins_of(version, quantity)):
            if bin_.n:
                rows.append(_bin_row(place, bin_, quantity))
    return BinTable(
        number=number,
        ident=chapter.ident(what, number),
        version=version.name,
        is_in_focus=number == chapter.model.focus,
        rows=rows,
    )


def _bin_row(number: int, bin_: ConfidenceBin, quantity: Quantity) -> BinRow:
    verdict = "not significant"
    if bin_.significant:
        sign = "▲" if bin_.gap > 0.0 else "▼"
        verdict = f"{sign} {gap_words(bin_.gap, quantity)}"
    return BinRow(
        number=number,
        bounds=f"{100 * bin_.low:.0f}–{100 * bin_.high:.0f}%",
        samples=count(bin_.n),
        says=share(bin_.confidence),
        happens=share(bin_.accuracy),
        interval=share_span(bin_.accuracy_low, bin_.accuracy_high),
        gap=signed_points(bin_.gap),
        verdict=verdict,
        is_significant=bin_.significant,
    )


def gap_words(gap: float, quantity: Quantity) -> str:
    """A gap in words, ``2.1 points overconfident`` or ``2.1 points too high``."""
    high = "overconfident"
    low = "underconfident"
    if quantity == "positive":
        high = "too high"
        low = "too low"
    direction = high if gap > 0.0 else low
    return f"{points(gap)} points {direction}"
