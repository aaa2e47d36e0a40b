"""Reliability diagrams in matplotlib: curves or bars, with their histogram beneath."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from calcli.diagrams.caption_text import (
    direction,
    p_value,
    printable,
    recalibration_parts,
    short,
    squeeze,
    table,
)
from calcli.diagrams.curve import Curve
from calcli.diagrams.matplotlib_theme import Paper, log_ticks
from calcli.diagrams.panels import Panel
from calcli.diagrams.terminal import POINT
from calcli.numerics import FloatArray

if TYPE_CHECKING:
    from calcli.diagrams.reliability import Diagram

IN_COLOUR = 8
"""Largest number of coloured curves in one pair of axes; of more, the best five are
coloured.
"""

BEST = 5
LEFT = 0.62
RIGHT = 0.22
GAP = 0.42
TITLE = 0.3
NUMBER = 0.125
BETWEEN = 0.09
LABEL = 0.48
NOTE = 0.17
"""Inches: margins, gap of panels, title, line of numbers, gap above the histogram, axis
labels below it, note.
"""
MONO = "DejaVu Sans Mono"

SMALL = 2.9
"""Side of axes in inches, below which their numbers are shortened."""


@dataclass(frozen=True)
class Pen:
    """Style of one curve.

    alone : no other curve in any axes. band : whether its band is drawn.

    shift : its position among the curves of the axes, 0 in the middle. order : z-order.
    tint : opacity of its band.
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


class Drawing:
    """Diagram, paper and coloured curves of one figure.

    names : of the curves, in the order of their colours; empty when no axes hold
    several. coloured : those not grey: all, or of more than ``IN_COLOUR`` the
    uncalibrated one and those of least Brier score. crowded : some are grey.
    """

    def __init__(self, diagram: "Diagram", paper: Paper) -> None:
        self.diagram = diagram
        self.paper = paper
        curves = diagram.curves
        self.names: list[str] = []
        if any(len(panel.curves) > 1 for panel in diagram.panels):
            self.names = list(dict.fromkeys(curve.label for curve in curves))
        self.coloured = self.names
        self.crowded = len(self.names) > IN_COLOUR
        if self.crowded:
            scores: dict[str, list[float]] = {name: [] for name in self.names}
            for curve in curves:
                scores[curve.label].append(curve.brier.score)
            best = sorted(self.names, key=lambda name: float(np.mean(scores[name])))
            shown = {"uncalibrated", *best[:BEST]}
            self.coloured = [name for name in self.names if name in shown]

    def pen(self, panel: Panel, place: int) -> Pen:
        """Style of curve number ``place`` of a panel."""
        name = panel.curves[place].label
        if not self.names:
            return Pen(self.paper.theme.main, alone=True)
        if name not in self.coloured:
            return Pen(self.paper.theme.others, band=False, width=0.9, order=2.5)
        look = self.paper.series(self.coloured.index(name))
        n_curves = len(panel.curves)
        # Overlaid bands stay below half opacity.
        tint = min(Pen.tint, 1 - 0.55 ** (1 / n_curves))
        shift = place - 0.5 * (n_curves - 1)
        return Pen(*look, band=not self.crowded, shift=shift, tint=tint)


@dataclass(frozen=True)
class PageLayout:
    """Where everything stands, in inches.

    columns : of panels. side : of the axes. listing : width of a table beside them, 0
    without. gap : between panels. numbers : lines of numbers above each panel. head,
    foot : heights above and below all panels.
    """

    columns: int
    side: float
    listing: float
    gap: float
    numbers: int
    head: float
    foot: float
    n_panels: int

    @property
    def is_small(self) -> bool:
        return self.side < SMALL

    @property
    def histogram(self) -> float:
        """Height of the histogram."""
        return 0.5 if self.is_small else 0.75

    @property
    def width(self) -> float:
        panels = self.columns * (self.side + self.listing)
        return LEFT + panels + (self.columns - 1) * self.gap + RIGHT

    @property
    def cell(self) -> float:
        """Height of a panel with all that belongs to it."""
        above = TITLE + NUMBER * self.numbers
        return above + self.side + BETWEEN + self.histogram + LABEL

    @property
    def height(self) -> float:
        n_rows = -(-self.n_panels // self.columns)
        return self.head + n_rows * self.cell + self.foot

    def axes_of(self, place: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Boxes of a panel's axes and of its histogram, as fractions of the figure."""
        row, column = divmod(place, self.columns)
        x = (LEFT + column * (self.side + self.listing + self.gap)) / self.width
        top = self.height - self.head - row * self.cell - TITLE - NUMBER * self.numbers
        wide = self.side / self.width
        bottom = top - self.side
        beneath = bottom - BETWEEN - self.histogram
        upper = (x, bottom / self.height, wide, self.side / self.height)
        lower = (x, beneath / self.height, wide, self.histogram / self.height)
        return upper, lower


def draw_reliability(diagram: "Diagram", paper: Paper) -> Any:
    """Draw one or more panels: curve or bars above, histogram of the forecasts beneath."""
    from matplotlib.figure import Figure

    job = Drawing(diagram, paper)
    columns, side, listing_width = _grid(job)
    gap = GAP + (0.2 if _axes_differ(diagram) else 0.0)
    usable = columns * (side + listing_width + gap)
    handles = _legend(job)
    labels = [handle.get_label() for handle in handles]
    per_line = _fitting_columns(labels, usable - 0.4)
    notes = []
    for note in diagram.notes:
        notes += wrap(printable(note), int(usable * 17))
    numbers: list[list[str]] = [[] for _ in diagram.panels]
    if paper.stats and not job.crowded:
        numbers = [above_axes(panel, side) for panel in diagram.panels]
    legend_lines = -(-len(handles) // per_line)
    layout = PageLayout(
        columns,
        side,
        listing_width,
        gap,
        numbers=max(map(len, numbers), default=0),
        head=0.28 if diagram.title else 0.0,
        foot=0.17 * legend_lines + NOTE * len(notes) + 0.08,
        n_panels=len(diagram.panels),
    )
    width = layout.width
    height = layout.height
    figure = Figure(figsize=(width, height))
    if diagram.title:
        text = squeeze(diagram.title, int(width * 10))
        figure.text(0.5, 1 - 0.1 / height, text, ha="center", va="top", fontsize=10.5)
    for place in range(len(diagram.panels)):
        _place_panel(figure, place, numbers[place], job, layout)
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, (0.06 + NOTE * len(notes)) / height),
        ncols=per_line,
        columnspacing=1.6,
        handletextpad=0.6,
        borderpad=0,
        labelspacing=0.4,
    )
    look: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 7}
    look["color"] = paper.theme.muted
    for line, note in enumerate(reversed(notes)):
        figure.text(0.5, (0.08 + NOTE * line) / height, note, **look)
    return figure


def _place_panel(
    figure: Any, place: int, numbers: Sequence[str], job: Drawing, layout: PageLayout
) -> None:
    """Draw a panel at its place: axes, histogram, title, and numbers between these."""
    panel = job.diagram.panels[place]
    upper_box, lower_box = layout.axes_of(place)
    upper = figure.add_axes(upper_box)
    lower = figure.add_axes(lower_box)
    is_first_column = place % layout.columns == 0
    _draw_panel(upper, lower, panel, job, is_first_column)
    title = squeeze(panel.title, int(layout.side * 13))
    upper.set_title(title, loc="left", pad=5 + 9 * layout.numbers)
    is_table = len(panel.curves) > 1 and not layout.is_small
    for line, text in enumerate(numbers):
        upper.annotate(
            text,
            (0, 1),
            (0, 4 + 9 * (layout.numbers - 1 - line)),
            "axes fraction",
            "offset points",
            fontsize=6.2,
            family=MONO if is_table else None,
        )
    if layout.listing:
        _write_beside(upper, panel, job)
    for number, artist in enumerate(upper.lines):  # names the lines in an SVG
        artist.set_gid(f"panel{place + 1}-line{number}")


def _grid(job: Drawing) -> tuple[int, float, float]:
    """Number of columns, and in inches the side of the axes and the width of a table
    beside them.
    """
    count = len(job.diagram.panels)
    few = {1: (1, 3.9), 2: (2, 3.5), 3: (3, 3.2), 4: (2, 3.2)}
    columns, side = few.get(count, (min(4, int(np.ceil(np.sqrt(count)))), 2.2))
    if columns > 1 and _axes_differ(job.diagram):
        columns += columns % 2  # P(class 1) and confidence of one curve side by side
    listing_width = 0.0
    if job.crowded:
        columns = 1
        if job.paper.stats:
            lines = listing(job.diagram.panels[0], by_score=True)
            listing_width = 0.0545 * (max(map(len, lines)) + 5)
    width = job.paper.width
    if width is not None:
        inner = width - LEFT - RIGHT
        fitting = int((inner + GAP) / (1.7 + GAP + listing_width))
        columns = max(1, min(columns, fitting))
        side = (inner - (columns - 1) * GAP) / columns - listing_width
        if side < 1.2:  # no room for the table
            side = side + listing_width
            listing_width = 0.0
        side = min(side, 6.0)
    return columns, side, listing_width


def draw_into(diagram: "Diagram", axes: Any) -> None:
    """Draw the curves of the first panel into matplotlib axes, with a legend."""
    job = Drawing(diagram, Paper(stats=False))
    panel = diagram.panels[0]
    _draw_curves(axes, panel, job)
    x, y = panel.curves[0].words
    axes.set(xlabel=x, ylabel=y)
    handles = _legend(job, has_histogram=False)
    axes.legend(handles=handles, loc="upper left", fontsize="small")


def _draw_curves(axes: Any, panel: Panel, job: Drawing) -> None:
    """Draw the diagonal and the curves of a panel with their bands."""
    muted = job.paper.theme.muted
    axes.plot([0, 1], [0, 1], color=muted, lw=0.8, ls=(0, (4, 2)), zorder=2)
    for place, curve in enumerate(panel.curves):
        job.diagram.curve(axes, curve, job.pen(panel, place), job.paper)
    fifths = np.linspace(0, 1, 6)
    axes.set(xlim=(0, 1), xticks=fifths, ylim=(0, 1), yticks=fifths)
    axes.grid(True, zorder=0)


def _draw_panel(
    upper: Any, lower: Any, panel: Panel, job: Drawing, is_first_column: bool
) -> None:
    """Draw the curves of a panel and their histogram; labels of y in the first column."""
    _draw_curves(upper, panel, job)
    for place, curve in enumerate(panel.curves):
        _draw_histogram(lower, curve, job.pen(panel, place), job.paper)
    left, ticks = _reach_of_x(panel, job.diagram)
    upper.set(xlim=(left, 1), xticks=ticks)
    upper.tick_params(labelbottom=False)
    top = max(1.6 * max(int(curve.histogram.count.max()) for curve in panel.curves), 3)
    decades = int(np.log10(top))
    lower.set_axisbelow("line")  # ticks lie over the bars
    # From 0.6 on, a single row is still a visible bar.
    lower.set(xlim=(left, 1), xticks=ticks, yscale="log", ylim=(0.6, top))
    step = 1 if decades < 4 else 2
    powers = [10.0**decade for decade in range(0, decades + 1, step)]
    log_ticks(lower.yaxis, powers, short)
    x, y = panel.curves[0].words
    if is_first_column or _axes_differ(job.diagram):
        upper.set_ylabel(y, labelpad=2)
    if is_first_column:
        lower.set_ylabel("samples")
        width = upper.figure.get_figwidth() * upper.get_position().width
        for axes in (upper, lower):
            axes.yaxis.set_label_coords(-0.42 / width, 0.5)
    lower.set_xlabel(x)


def _axes_differ(diagram: "Diagram") -> bool:
    """Return True if panels have different quantities on their axes."""
    return len({panel.curves[0].words for panel in diagram.panels}) > 1


HALF = 0.48
"""Left end of the axis of confidences that all lie above one half: the lower edge of
the histogram's bin of 0.5.
"""


def _reach_of_x(panel: Panel, diagram: "Diagram") -> tuple[float, FloatArray]:
    """Left end and ticks of the x axis: confidences above one half leave no empty half."""
    least = 1.0
    for curve in diagram.curves:
        if curve.words == panel.curves[0].words:
            used = curve.histogram.edges[:-1][curve.histogram.count > 0]
            least = min(least, float(used.min()))
    if panel.curves[0].quantity == "top" and least >= HALF - 1e-9:
        return HALF, np.linspace(0.5, 1, 6)
    return 0.0, np.linspace(0, 1, 6)


def _draw_histogram(axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
    """Draw how many rows lie where, with accuracy and mean confidence as lines."""
    edges = curve.histogram.edges
    count = curve.histogram.count
    if pen.alone:
        colour = paper.theme.ink
        axes.bar(
            edges[:-1],
            np.where(count > 0, count, np.nan),
            width=np.diff(edges),
            align="edge",
            color=paper.theme.others,
            edgecolor=paper.theme.page,
            lw=0.3,
        )
    else:
        colour = pen.colour
        width = min(1.0, pen.width)
        axes.stairs(np.maximum(count, 0.1), edges, color=colour, ls=pen.line, lw=width)
    if pen.alone or pen.band:
        look = {"color": colour, "lw": 1.3, "zorder": 3}
        axes.axvline(curve.accuracy, ls="-", **look)
        axes.axvline(curve.mean_confidence, ls=(0, (2, 1.2)), **look)


def _write_beside(axes: Any, panel: Panel, job: Drawing) -> None:
    """Write the table of all curves beside the axes, best first, coloured curves in
    their colour.
    """
    size = 6.4
    by_score = sorted(panel.curves, key=lambda curve: curve.brier.score)
    for line, text in enumerate(listing(panel, by_score=True)):
        colour = job.paper.theme.ink
        weight = "normal"
        if line > 0:  # below the line of heads
            curve = by_score[line - 1]
            if curve.label in job.coloured:
                colour = job.pen(panel, panel.curves.index(curve)).colour
                weight = "bold"
        axes.annotate(
            text,
            (1, 1),
            (10, -size * 1.45 * (line + 1)),
            "axes fraction",
            "offset points",
            fontsize=size,
            family=MONO,
            color=colour,
            weight=weight,
        )


def _legend(job: Drawing, has_histogram: bool = True) -> list[Any]:
    """Entries of the legend: coloured curves, what the style adds, lines of all."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    theme = job.paper.theme
    diagram = job.diagram
    has_points = diagram.outside_mark == POINT
    handles: list[Any] = []
    for place, name in enumerate(job.coloured):
        colour, line, marker = job.paper.series(place)
        look = {"color": colour, "ls": line, "lw": 1.7, "ms": 4}
        look["marker"] = marker if has_points else ""
        handles.append(Line2D([], [], label=squeeze(name, 40), **look))
    if job.crowded:
        others = f"the other {len(job.names) - len(job.coloured)}"
        return [*handles, Line2D([], [], color=theme.others, lw=0.9, label=others)]
    handles += diagram.key(theme, several=bool(job.names))
    words = dict.fromkeys(curve.words for curve in diagram.curves)
    x = " or ".join(pair[0] for pair in words)
    y = " or ".join(pair[1] for pair in words)
    handles.append(
        Patch(facecolor=theme.band, label=f"{diagram.level} band under calibration")
    )
    if has_histogram:
        look = {"color": theme.ink, "lw": 1.3}
        handles.append(Line2D([], [], label=y, **look))
        handles.append(Line2D([], [], label=f"mean {x}", ls=(0, (2, 1.2)), **look))
    return handles


def _fitting_columns(labels: Sequence[str], width: float) -> int:
    """Number of legend entries that fit side by side into a width in inches."""
    for columns in range(len(labels), 1, -1):
        # As matplotlib fills a legend.
        columns_of = np.array_split(list(map(len, labels)), columns)
        if sum(0.62 + 0.06 * max(column) for column in columns_of) <= width:
            return columns
    return 1


# ---- the numbers above or beside the axes, as lines of text that fit


def above_axes(panel: Panel, side: float) -> list[str]:
    """Lines of numbers between the title and the axes of a panel.

    side : of the axes in inches.
    """
    is_small = side < SMALL
    n_characters = int((side + 0.3 * is_small) * 72 / 6.2 / 0.56)
    if len(panel.curves) > 1 and not is_small:
        return listing(panel)
    if len(panel.curves) > 1:
        lines = []
        for curve in panel.curves:
            lines.append(f"{squeeze(curve.label, 14)}: {_short_ece(curve)}")
    elif is_small:
        curve = panel.curves[0]
        lines = [f"n {curve.n}, {_short_ece(curve)}, {p_value(curve)}"]
    else:
        lines = _numbers_of(panel.curves[0], n_characters)
    wrapped = []
    for line in lines:
        wrapped += wrap(line, n_characters)
    return wrapped


def _short_ece(curve: Curve) -> str:
    return f"ECE {curve.ece:.3f} (expected {curve.ece_null_mean:.3f})"


def _numbers_of(curve: Curve, n_characters: int) -> list[str]:
    """Lines of the numbers of one curve, the Brier score's within so many characters."""
    brier = curve.brier
    x, y = curve.words
    means = f"{y} {curve.accuracy:.4f}, mean {x} {curve.mean_confidence:.4f}"
    if curve.quantity != "top":
        means = f"observed {curve.accuracy:.4f}, predicted {curve.mean_confidence:.4f}"
    expected = f" (expected {curve.mcb_null_mean:.4f})"
    parts = (
        f"Brier {brier.score:.4f} = MCB {brier.miscalibration:.4f}{expected}"
        f" − DSC {brier.discrimination:.4f} + UNC {brier.uncertainty:.4f}"
    )
    if len(parts) > n_characters:
        parts = parts.replace(expected, "")
    lines = [
        f"n {curve.n}, {means} ({direction(curve)})",
        f"ECE {curve.ece:.4f} (expected {curve.ece_null_mean:.4f}), {p_value(curve)}",
        parts,
    ]
    recalibration = recalibration_parts(curve)
    if recalibration:
        lines.append(", ".join(recalibration))
    return lines


def listing(panel: Panel, by_score: bool = False) -> list[str]:
    """Table of the numbers of several curves.

    by_score : sorted by Brier score, which is a column, too.
    """
    curves: Sequence[Curve] = panel.curves
    head = ["", "ECE", "(expected)", "MCB", "DSC", "UNC"]
    if by_score:
        curves = sorted(panel.curves, key=lambda curve: curve.brier.score)
        head.append("Brier")
    rows = [head]
    for curve in curves:
        brier = curve.brier
        row = [
            squeeze(curve.label, 24 if by_score else 16),
            f"{curve.ece:.4f}",
            f"({curve.ece_null_mean:.4f})",
            f"{brier.miscalibration:.4f}",
            f"{brier.discrimination:.4f}",
            f"{brier.uncertainty:.4f}",
        ]
        if by_score:
            row.append(f"{brier.score:.4f}")
        rows.append(row)
    return table(rows, " ")
