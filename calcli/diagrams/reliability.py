"""What all reliability diagrams share: panels, numbers, table, words; a style adds its curve."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from calcli.diagrams.caption_text import direction, p_value
from calcli.diagrams.curve import Curve
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.panels import Diagram, by_part, parts_of, whole
from calcli.diagrams.style import Figure, Request, Style, style
from calcli.diagrams.terminal import Canvas, Look
from calcli.fast_dataclass import dataclass

MOST_PANELS = 12
"""Classes or groups that get axes of their own; more are lines of one dot plot."""

COLUMNS = ("panel", "curve", "element", "x", "x_low", "x_high", "y", "y_low", "y_high", "count")

SUMMARY = ("accuracy", "mean_confidence", "ece", "ece_null_mean", "ece_null_q95", "ece_p", "outside", "mcb_null_mean")


@dataclass(frozen=True)
class Pen:
    """How one curve is drawn. alone : no other curve in any axes. band : draw its band too.

    shift : its place among the curves of the axes, 0 in the middle. order : above or below. tint : of its band.
    """

    colour: str
    line: Any = "-"
    marker: str = "o"
    alone: bool = False
    band: bool = True
    width: float = 1.7
    shift: float = 0.0
    order: float = 4
    tint: float = 0.18


@dataclass(frozen=True)
class Key:
    """A legend entry. mark : line, point, whisker, hollow or hatch."""

    mark: str
    text: str


class ReliabilityStyle(Style[Diagram]):
    """Outcome against forecast, with the histogram of the forecasts beneath.

    name : of the style. outside_sign : the character that is painted where a curve leaves its band.
    """

    parts = True
    name: ClassVar[str]
    outside_sign: ClassVar[str]

    @abstractmethod
    def curve(self, axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
        """Draw one curve into matplotlib axes."""

    @abstractmethod
    def key(self, level: str, thin: bool, several: bool) -> list[Key]:
        """Legend entries beside the curves' own. thin : some bins hold few rows."""

    @abstractmethod
    def hides(self, curve: Curve, left: float, right: float, low: float, high: float) -> float:
        """How much of a curve text in this rectangle would cover; about 1 is a whole line of it."""

    @abstractmethod
    def cells(self, canvas: Canvas, curve: Curve) -> None:
        """Draw one curve in characters."""

    @abstractmethod
    def signs(self, level: str, thin: bool, sign: dict[str, str]) -> list[tuple[str, str]]:
        """Legend of the characters: (text, role)."""

    def measure(self, request: Request) -> Figure:
        """Panels of curves; the dot plot of gaps where there are more parts than fit as panels."""
        if request.by is None:
            return whole(request, self.name)
        parts = parts_of(request)
        limit = MOST_PANELS if request.panels is None else request.panels
        if limit > MOST_PANELS or (request.panels is None and len(parts) > MOST_PANELS):
            return style("gaps").measure(request)
        return by_part(request, self.name, parts, limit)

    def draw(self, figure: Diagram, paper: Paper) -> Any:
        """A grid of panels."""
        from calcli.diagrams.reliability_matplotlib import draw_reliability

        return draw_reliability(figure, self, paper)

    def text(self, figure: Diagram, width: int, look: Look) -> list[str]:
        """Panels beside each other as far as they fit."""
        from calcli.diagrams.reliability_text import reliability_text

        return reliability_text(figure, self, width, look)

    def table(self, figure: Diagram) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Columns ``panel curve element x x_low x_high y y_low y_high count``.

        Element ``summary`` (its name in ``x``, its value in ``y``), ``curve`` (points of the
        polyline), ``band`` (x, y_low, y_high), ``bin`` (edges, mean forecast and outcome with
        its interval), ``bin_band`` and ``histogram`` (edges and count).
        """
        rows = [
            (panel.title, curve.label, *values)
            for panel in figure.panels
            for curve in panel.curves
            for values in _curve_rows(curve)
        ]
        return COLUMNS, rows

    def describe(self, figure: Diagram) -> str:
        """One sentence per curve."""
        found = []
        for panel in figure.panels:
            for c in panel.curves:
                x, y = c.words
                found.append(
                    f"{panel.title}, {c.label}: {y} {c.accuracy:.4f}, mean {x} {c.mean_confidence:.4f}"
                    f" ({direction(c)}), ECE {c.ece:.4f} where a calibrated model would show"
                    f" {c.ece_null_mean:.4f} ({p_value(c)}), {c.n} rows."
                )
        return "Reliability diagram. " + " ".join(found)


def diagonal(canvas: Canvas) -> None:
    """The line on which outcome and forecast agree."""
    for column, x in enumerate(canvas.centres()):
        canvas.put(canvas.row(float(x)), column, canvas.look.sign("diagonal"), "diagonal")


def bin_points(axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
    """The bins of a curve as points with their intervals, in matplotlib axes."""
    bins, used = curve.bins, np.flatnonzero(curve.bins.count > 0)
    colour, marker = (paper.theme.ink, "o") if pen.alone else (pen.colour, pen.marker)
    x, y = bins.confidence[used] + 0.003 * pen.shift, bins.accuracy[used]
    reach = np.maximum([y - bins.accuracy_low[used], bins.accuracy_high[used] - y], 0)
    axes.errorbar(x, y, reach, fmt="none", ecolor=colour, elinewidth=0.9, capsize=1.8, capthick=0.9, zorder=4)
    face = [(paper.theme.page if thin else colour) for thin in bins.thin[used]]
    axes.scatter(x, y, s=11, c=face, edgecolors=colour, linewidths=0.9, marker=marker, zorder=5, clip_on=False)


def bin_cells(canvas: Canvas, curve: Curve) -> None:
    """The same in characters."""
    bins = curve.bins
    for b in np.flatnonzero(bins.count > 0):
        outside = not bins.null_low[b] - 1e-12 <= bins.accuracy[b] <= bins.null_high[b] + 1e-12
        role = "outside" if outside else "curve"
        x = float(bins.confidence[b])
        canvas.vertical(x, bins.accuracy_low[b], bins.accuracy_high[b], "whisker", role)
        sign = canvas.look.sign("thin" if bins.thin[b] else "point")
        canvas.put(canvas.row(bins.accuracy[b]), canvas.column(x), sign, role)


def _curve_rows(curve: Curve) -> Iterable[tuple[Any, ...]]:
    """(element, x, x_low, x_high, y, y_low, y_high, count) of everything drawn of a curve."""
    none = None
    for name in SUMMARY:
        yield "summary", name, none, none, getattr(curve, name), none, none, curve.n
    for split in (curve.brier, curve.log):
        for name in ("score", "miscalibration", "discrimination", "uncertainty"):
            yield "summary", f"{split.kind}_{name}", none, none, getattr(split, name), none, none, curve.n
    for x, y in zip(*curve.isotonic.knots, strict=True):
        yield "curve", x, none, none, y, none, none, none
    for x, low, high in zip(curve.band.x, curve.band.low, curve.band.high, strict=True):
        yield "band", x, none, none, none, low, high, none
    b = curve.bins
    for at in range(len(b.count)):
        edges = b.low[at], b.high[at]
        yield "bin", b.confidence[at], *edges, b.accuracy[at], b.accuracy_low[at], b.accuracy_high[at], b.count[at]
        yield "bin_band", b.confidence[at], *edges, none, b.null_low[at], b.null_high[at], b.count[at]
    h = curve.histogram
    for low, high, count in zip(h.edges[:-1], h.edges[1:], h.count, strict=True):
        yield "histogram", none, low, high, none, none, none, count
