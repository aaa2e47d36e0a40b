"""Base class of reliability diagrams: panels, numbers, table and description; a style
adds its curve.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calcli.diagrams.caption_text import (
    direction,
    p_value,
    printable,
    recalibration_parts,
    short,
    squeeze,
)
from calcli.diagrams.curve import Curve
from calcli.diagrams.matplotlib_theme import Paper, Theme
from calcli.diagrams.panels import Panel, by_part, parts_of, whole
from calcli.diagrams.reliability_matplotlib import Pen, draw_reliability
from calcli.diagrams.style import Figure, Plotted, Request, style
from calcli.diagrams.terminal import (
    AXIS,
    BAND,
    Canvas,
    Look,
    base_line,
    beside,
    eighths,
    flow,
    heading,
    scale,
    with_axis,
)

MOST_PANELS = 12
"""Largest number of classes or groups with axes of their own; more are lines of one dot
plot.
"""

NARROW = 38
"""Least width of terminal panels in characters; narrower ones go below one another."""

COLUMNS = (
    "panel",
    "curve",
    "element",
    "x",
    "x_low",
    "x_high",
    "y",
    "y_low",
    "y_high",
    "count",
)

SUMMARY = (
    "accuracy",
    "mean_confidence",
    "ece",
    "ece_null_mean",
    "ece_null_q95",
    "ece_p",
    "outside",
    "mcb_null_mean",
)


@dataclass(frozen=True)
class Diagram(Figure):
    """Outcome against forecast in one or more panels, with the histogram of the
    forecasts beneath.

    notes : lines for the reader, below all. outside_mark : character that is coloured
    where a curve leaves its band.
    """

    panels: tuple[Panel, ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    by_part = True
    outside_mark: ClassVar[str]

    @abstractmethod
    def curve(self, axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
        """Draw one curve into matplotlib axes."""

    @abstractmethod
    def key(self, theme: Theme, several: bool) -> list[Any]:
        """Legend entries in matplotlib, in addition to those of several curves."""

    @abstractmethod
    def cells(self, canvas: Canvas, curve: Curve) -> None:
        """Draw one curve in characters."""

    @abstractmethod
    def marks(self) -> list[tuple[str, str]]:
        """Legend of the characters: (text, role)."""

    @classmethod
    def measure(cls, request: Request) -> Figure:
        """Panels of curves; the dot plot of gaps where there are more parts than fit as
        panels.
        """
        if request.by is None:
            return cls(*whole(request))
        parts = parts_of(request)
        limit = MOST_PANELS if request.panels is None else request.panels
        if limit > MOST_PANELS or (request.panels is None and len(parts) > MOST_PANELS):
            return style("gaps").measure(request)
        return cls(*by_part(request, parts, limit))

    @property
    def in_panels(self) -> list[tuple[Panel, Curve]]:
        """All curves, each with its panel."""
        in_panels = []
        for panel in self.panels:
            in_panels += [(panel, curve) for curve in panel.curves]
        return in_panels

    @property
    def curves(self) -> list[Curve]:
        return [curve for _, curve in self.in_panels]

    @property
    def level(self) -> str:
        """Level of bands and intervals, in words."""
        return f"{100 * self.curves[0].settings.level:g} %"

    @property
    def has_thin_bins(self) -> bool:
        """True if some bins hold few rows."""
        return any(curve.bins.thin.any() for curve in self.curves)

    draw = draw_reliability

    def text(self, width: int, look: Look) -> list[str]:
        """Panels side by side as far as they fit, one for every curve, as overlaid
        characters are illegible.
        """
        columns = max(1, min(len(self.curves), (width + 2) // (NARROW + 2), 3))
        panel_width = min((width - 2 * (columns - 1)) // columns, 66)
        blocks = []
        for panel, curve in self.in_panels:
            title = panel.title
            if len(panel.curves) > 1:
                title = f"{panel.title}: {curve.label}"
            blocks.append(_panel(title, curve, self, panel_width, look))
        lines = []
        if self.title:
            lines += heading(self.title, width, look)
        for start in range(0, len(blocks), columns):
            lines += [*beside(blocks[start : start + columns], panel_width), ""]
        lines += flow(_legend(self, look), width, look)
        for note in self.notes:
            words = [(word, "faint") for word in printable(note).split()]
            lines += flow(words, width, look, " ")
        return lines

    def table(self) -> Plotted:
        """Columns ``panel curve element x x_low x_high y y_low y_high count``.

        Element ``summary`` (its name in ``x``, its value in ``y``), ``curve`` (points
        of the polyline), ``band`` (x, y_low, y_high), ``bin`` (edges, mean forecast and
        outcome with its interval), ``bin_band`` and ``histogram`` (edges and count).
        """
        rows: list[tuple[Any, ...]] = []
        for panel, curve in self.in_panels:
            for values in _curve_rows(curve):
                rows.append((panel.title, curve.label, *values))
        return COLUMNS, rows

    def describe(self) -> str:
        sentences = []
        for panel, c in self.in_panels:
            x, y = c.words
            name = panel.title
            if not name.endswith(f", {c.label}"):
                name = f"{name}, {c.label}"
            sentences.append(
                f"{name}: {y} {c.accuracy:.4f}, mean {x} {c.mean_confidence:.4f}"
                f" ({direction(c)}), ECE {c.ece:.4f} (expected under calibration"
                f" {c.ece_null_mean:.4f}, {p_value(c)}), {c.n} rows."
            )
        return "Reliability diagram. " + " ".join(sentences)


def _curve_rows(curve: Curve) -> Iterable[tuple[Any, ...]]:
    """Table rows (element, x, x_low, x_high, y, y_low, y_high, count) of everything
    drawn of a curve.
    """
    none = None
    for name in SUMMARY:
        yield "summary", name, none, none, getattr(curve, name), none, none, curve.n
    for split in (curve.brier, curve.log):
        for name in ("score", "miscalibration", "discrimination", "uncertainty"):
            yield (
                "summary",
                f"{split.kind}_{name}",
                none,
                none,
                getattr(split, name),
                none,
                none,
                curve.n,
            )
    for name, ranged in (("slope", curve.slope), ("intercept", curve.intercept)):
        if ranged is not None:
            ends = ranged.low, ranged.high
            yield "summary", name, none, none, ranged.value, *ends, curve.n
    for x, y in zip(*curve.isotonic.knots, strict=True):
        yield "curve", x, none, none, y, none, none, none
    for x, low, high in zip(curve.band.x, curve.band.low, curve.band.high, strict=True):
        yield "band", x, none, none, none, low, high, none
    bins = curve.bins
    for b in range(len(bins.count)):
        place = (bins.confidence[b], bins.low[b], bins.high[b])
        interval = (bins.accuracy_low[b], bins.accuracy_high[b])
        band = (bins.null_low[b], bins.null_high[b])
        yield "bin", *place, bins.accuracy[b], *interval, bins.count[b]
        yield "bin_band", *place, none, *band, bins.count[b]
    h = curve.histogram
    for low, high, count in zip(h.edges[:-1], h.edges[1:], h.count, strict=True):
        yield "histogram", none, low, high, none, none, none, count


def _panel(
    title: str, curve: Curve, diagram: Diagram, width: int, look: Look
) -> list[str]:
    inner = width - AXIS - 1
    # a character is about twice as tall as wide
    height = min(max(round(inner / 2.5), 8), 20)
    canvas = Canvas(inner, height, (0.0, 1.0), (0.0, 1.0), look)
    diagram.cells(canvas, curve)
    lines = [look.paint(squeeze(title, width), "strong")]
    lines += with_axis(canvas, {0: "1.0", height // 2: "0.5", height - 1: "0.0"})
    # Marks of accuracy and mean confidence on the axis of confidences.
    a = canvas.column(curve.accuracy)
    c = canvas.column(curve.mean_confidence)
    marks = [" "] * inner
    marks[a] = "▲"
    marks[c] = "△"
    if a == c:
        marks[a] = "◆"
    lines.append(" " * (AXIS + 1) + "".join(marks))
    # The histogram, logarithmic; its base line is half a row.
    edges = curve.histogram.edges
    count = curve.histogram.count
    columns = np.searchsorted(edges, canvas.centres()) - 1
    columns = np.clip(columns, 0, len(count) - 1)
    top = np.log10(max(int(count.max()), 3) / 0.5)
    heights = np.where(count > 0, np.log10(np.maximum(count, 1) / 0.5) / top, 0.0)
    axis = [
        f"{short(int(count.max())):>{AXIS}}┤",
        f"{'rows':>{AXIS}}│",
        f"{'(log)':>{AXIS}}│",
    ]
    bars = eighths(heights[columns], 3, look)
    for left, line in zip(axis, bars, strict=True):
        lines.append(left + look.paint(line, "band"))
    lines.append(base_line(inner))
    fifths = (0, 0.2, 0.4, 0.6, 0.8, 1)
    labels = [f"{fifth:g}" for fifth in fifths]
    lines.append(" " * (AXIS + 1) + scale(inner, labels, fifths))
    return lines + [line[:width] for line in _numbers(curve, width)]


def _numbers(curve: Curve, width: int) -> list[str]:
    """Numbers under a terminal panel: three lines, or more where they are too long."""
    b = curve.brier
    (x, y) = curve.words
    rows = f"n = {curve.n}"
    about = f"{y} {curve.accuracy:.4f}"
    means = [f", mean {x} {curve.mean_confidence:.4f}", f" ({direction(curve)})"]
    apart = width < 50 and curve.quantity == "top"
    parts = [[rows], [about, *means]] if apart else [[rows, f", {about}", *means]]
    ece = [
        f"ECE {curve.ece:.4f}",
        f" (expected {curve.ece_null_mean:.4f}, {p_value(curve)})",
    ]
    brier = [
        f"Brier {b.score:.4f} =",
        f" MCB {b.miscalibration:.4f}",
        f" − DSC {b.discrimination:.4f}",
    ]
    brier += [
        f" + UNC {b.uncertainty:.4f}",
        f" (expected MCB {curve.mcb_null_mean:.4f})",
    ]
    shown = [*parts, ece, brier]
    recalibration = recalibration_parts(curve)
    if recalibration:
        shown.append([recalibration[0], *(f", {part}" for part in recalibration[1:])])
    lines = []
    for first, *others in shown:
        lines.append(first)
        for part in others:
            if len(lines[-1] + part) > width:
                lines.append("  " + part.lstrip(", "))
            else:
                lines[-1] += part
    return lines


def _legend(diagram: Diagram, look: Look) -> list[tuple[str, str]]:
    band = f"{2 * BAND} {diagram.level} band under calibration"
    items = [*diagram.marks(), (band, "band")]
    if look.colour:
        items.append((f"{diagram.outside_mark} outside it", "outside"))
    words = dict.fromkeys(curve.words for curve in diagram.curves)
    x, y = next(iter(words)) if len(words) == 1 else ("forecast", "outcome")
    return [*items, (f"▲ {y}", ""), (f"△ mean {x}", "")]
