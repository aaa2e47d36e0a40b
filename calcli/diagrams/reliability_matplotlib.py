"""Reliability diagrams in matplotlib: curves or bars, with their histogram beneath."""

from collections.abc import Sequence
from dataclasses import field
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from calcli.diagrams.caption_text import printable, short, squeeze
from calcli.diagrams.curve import Curve
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.panels import Diagram, Panel
from calcli.diagrams.reliability_numbers import brief, falling, listing, rising, sentences
from calcli.fast_dataclass import dataclass

if TYPE_CHECKING:
    from calcli.diagrams.reliability import Key, Pen, ReliabilityStyle

IN_COLOUR = 8
"""Curves that the eye can follow in one pair of axes; of more, the best five are coloured."""

BEST = 5
NOTE = 0.17  # inches that a line of small text takes


@dataclass(frozen=True)
class Grid:
    """Sizes in inches: panels in a grid with room for titles, labels, numbers and the legend."""

    panels: int
    columns: int
    side: float
    histogram: float
    legend: int
    heading: bool
    notes: int
    numbers: int
    beside: float = 0.0

    left, right, gap, title, between, label = 0.62, 0.22, 0.42, 0.3, 0.09, 0.48

    @property
    def cell(self) -> float:
        """Height of one panel with all that belongs to it."""
        return self.title + 0.125 * self.numbers + self.side + self.between + self.histogram + self.label

    @property
    def size(self) -> tuple[float, float]:
        """Of the whole figure."""
        width = self.left + self.columns * (self.side + self.beside) + (self.columns - 1) * self.gap + self.right
        rows = -(-self.panels // self.columns)
        foot = 0.17 * self.legend + NOTE * self.notes + 0.08
        return width, (0.28 if self.heading else 0.0) + rows * self.cell + foot

    def axes(self, figure: Any, at: int) -> tuple[Any, Any]:
        """The axes of the curve and of the histogram of panel number ``at``."""
        width, height = self.size
        row, column = divmod(at, self.columns)
        x = self.left + column * (self.side + self.beside + self.gap)
        top = height - (0.28 if self.heading else 0.0) - row * self.cell - self.title - 0.125 * self.numbers
        low = top - self.side - self.between - self.histogram
        upper = (x / width, (top - self.side) / height, self.side / width, self.side / height)
        lower = (x / width, low / height, self.side / width, self.histogram / height)
        return figure.add_axes(upper), figure.add_axes(lower)


@dataclass(frozen=True)
class Drawing:
    """What drawing one figure needs to know. names : of the curves, in the order of their colours;

    empty when no axes hold several. coloured : those of them that are not grey.
    """

    diagram: Diagram
    style: "ReliabilityStyle"
    paper: Paper
    names: Sequence[str] = field(default=())
    coloured: Sequence[str] = field(default=())

    def pen(self, panel: Panel, at: int) -> "Pen":
        """How curve number ``at`` of a panel is drawn."""
        from calcli.diagrams.reliability import Pen

        name = panel.curves[at].label
        if not self.names:
            return Pen(self.paper.theme.main, alone=True)
        if name not in self.coloured:
            return Pen(self.paper.theme.others, band=False, width=0.9, order=2.5)
        few = len(self.names) == len(self.coloured)
        colour, line, marker = self.paper.series(list(self.coloured).index(name))
        curves = len(panel.curves)
        tint = min(Pen.tint, 1 - 0.55 ** (1 / curves))  # bands over each other stay below half
        return Pen(colour, line, marker, band=few, shift=at - 0.5 * (curves - 1), tint=tint)


def draw_reliability(diagram: Diagram, style: "ReliabilityStyle", paper: Paper) -> Any:
    """A figure of one or more panels: curve or bars above, histogram of the forecasts beneath."""
    from matplotlib.figure import Figure

    job = Drawing(diagram, style, paper, names := _series_names(diagram), _coloured(diagram, names))
    columns, side, small, beside = _grid(job)
    wide = columns * (side + beside + Grid.gap)
    handles = _legend(job)
    per_line = _fitting_columns([handle.get_label() for handle in handles], wide - 0.4)
    notes = [line for note in diagram.notes for line in wrap(printable(note), int(wide * 17))]
    above, corner = _numbers(job, side, small)
    sheet = Grid(
        panels=len(diagram.panels),
        columns=columns,
        side=side,
        histogram=0.5 if small else 0.75,
        legend=-(-len(handles) // per_line),
        heading=bool(diagram.title),
        notes=len(notes),
        numbers=max(map(len, above), default=0),
        beside=beside,
    )
    figure = Figure(figsize=sheet.size)
    width, height = sheet.size
    if diagram.title:
        text = squeeze(diagram.title, int(width * 10))
        figure.text(0.5, 1 - 0.1 / height, text, ha="center", va="top", fontsize=10.5)
    for at, panel in enumerate(diagram.panels):
        upper, lower = sheet.axes(figure, at)
        _draw_panel(upper, lower, panel, job, first=at % columns == 0)
        upper.set_title(squeeze(panel.title, int(side * 13)), loc="left", pad=5 + 9 * sheet.numbers)
        family = "DejaVu Sans Mono" if len(panel.curves) > 1 and not small else None  # a table
        for line, text in enumerate(reversed(above[at])):
            where = (0, 4 + 9 * line)
            upper.annotate(text, (0, 1), where, "axes fraction", "offset points", fontsize=6.2, family=family)
        if (free := corner[at]) is not None:
            _write_corner(upper, *free, several=len(panel.curves) > 1, paper=paper)
        if beside:
            _write_beside(upper, panel, job)
        for number, artist in enumerate(upper.lines):  # names the lines in an SVG
            artist.set_gid(f"panel{at + 1}-line{number}")
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
    for line, note in enumerate(reversed(notes)):
        y = (0.08 + NOTE * line) / height
        figure.text(0.5, y, note, ha="center", va="bottom", fontsize=7, color=paper.theme.muted)
    return figure


def _grid(job: Drawing) -> tuple[int, float, bool, float]:
    """Columns, side of the axes, whether panels are small, and the width of a table beside them."""
    count, width = len(job.diagram.panels), job.paper.width
    columns = count if count <= 3 else 2 if count == 4 else min(4, int(np.ceil(np.sqrt(count))))
    side = {1: 3.9, 2: 3.5, 3: 3.2, 4: 3.2}.get(count, 2.2)
    crowded = len(job.names) > len(job.coloured)
    table = 0.0545 * (max(map(len, listing(job.diagram.panels[0], True))) + 5) if crowded and job.paper.stats else 0.0
    if crowded:
        columns = 1
    if width is not None:
        columns = max(1, min(columns, int((width - Grid.left - Grid.right + Grid.gap) / (1.7 + Grid.gap + table))))
        side = (width - Grid.left - Grid.right - (columns - 1) * Grid.gap) / columns - table
        if side < 1.2:  # no room for the table
            side, table = side + table, 0.0
        side = min(side, 6.0)
    return columns, side, side < 2.9, table


def _series_names(diagram: Diagram) -> list[str]:
    """Labels of the curves, in the order of their colours; empty when no axes hold several."""
    if all(len(panel.curves) == 1 for panel in diagram.panels):
        return []
    return list(dict.fromkeys(curve.label for panel in diagram.panels for curve in panel.curves))


def _coloured(diagram: Diagram, names: Sequence[str]) -> list[str]:
    """All curves, or of very many the uncalibrated one and those of least Brier score."""
    if len(names) <= IN_COLOUR:
        return list(names)
    curves = [c for panel in diagram.panels for c in panel.curves]
    score = {n: float(np.mean([c.brier.score for c in curves if c.label == n])) for n in names}
    best = sorted(names, key=lambda n: score[n])[:BEST]
    return [n for n in names if n in best or n == "uncalibrated"]


def _draw_panel(upper: Any, lower: Any, panel: Panel, job: Drawing, first: bool) -> None:
    theme = job.paper.theme
    upper.plot([0, 1], [0, 1], color=theme.muted, lw=0.8, ls=(0, (4, 2)), zorder=2)
    for at, curve in enumerate(panel.curves):
        pen = job.pen(panel, at)
        job.style.curve(upper, curve, pen, job.paper)
        _draw_histogram(lower, curve, pen, job.paper)
    for axes in (upper, lower):
        axes.set_xlim(0.0, 1.0)
        axes.set_xticks(np.linspace(0, 1, 6))
    upper.set_ylim(0.0, 1.0)
    upper.set_yticks(np.linspace(0, 1, 6))
    upper.tick_params(labelbottom=False)
    upper.grid(True, zorder=0)
    lower.set_axisbelow("line")  # ticks lie over the bars
    _count_axis(lower, panel)
    x, y = panel.curves[0].words
    if first or len({p.curves[0].words for p in job.diagram.panels}) > 1:
        upper.set_ylabel(y, labelpad=2)
    if first:
        lower.set_ylabel("samples")
        for axes in (upper, lower):
            axes.yaxis.set_label_coords(-0.42 / (upper.figure.get_figwidth() * upper.get_position().width), 0.5)
    lower.set_xlabel(x)


def _draw_histogram(axes: Any, curve: Curve, pen: "Pen", paper: Paper) -> None:
    edges, count = curve.histogram.edges, curve.histogram.count
    height = np.where(count > 0, count, np.nan)
    colour = pen.colour
    if pen.alone:
        page = paper.theme.page
        axes.bar(
            edges[:-1], height, width=np.diff(edges), align="edge", color=paper.theme.others, edgecolor=page, lw=0.3
        )
        colour = paper.theme.ink
    else:
        axes.stairs(np.maximum(count, 0.1), edges, color=colour, ls=pen.line, lw=min(1.0, pen.width))
    if pen.alone or pen.band:
        axes.axvline(curve.accuracy, color=colour, lw=1.3, ls="-", zorder=3)
        axes.axvline(curve.mean_confidence, color=colour, lw=1.3, ls=(0, (2, 1.2)), zorder=3)


def _count_axis(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    tallest = max(int(curve.histogram.count.max()) for curve in panel.curves)
    top = max(tallest * 1.6, 3)
    axes.set_yscale("log")
    axes.set_ylim(0.6, top)  # a single row is still a visible bar
    decades = int(np.log10(top))
    axes.yaxis.set_major_locator(FixedLocator([10.0**d for d in range(0, decades + 1, 1 if decades < 4 else 2)]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


Corner = tuple[bool, list[str], float]


def _numbers(job: Drawing, side: float, small: bool) -> tuple[list[list[str]], list[Corner | None]]:
    """Per panel: lines above its axes, and what is written into a free corner of them.

    Where a panel is small, or its corners are not free, the numbers stand above the axes.
    """
    panels = job.diagram.panels
    nothing: list[list[str]] = [[] for _ in panels]
    if not job.paper.stats or len(job.names) > len(job.coloured):
        return nothing, [None] * len(panels)
    if small:
        return [brief(panel, side) for panel in panels], [None] * len(panels)
    corners = [_corner(panel, job.style, side) for panel in panels]
    if all(corner is not None for corner in corners):
        return nothing, list(corners)
    lines = int(side * 72 / 6.2 / 0.56)
    return [
        listing(p) if len(p.curves) > 1 else [part for line in sentences(p.curves[0]) for part in wrap(line, lines)]
        for p in panels
    ], [None] * len(panels)


def _corner(panel: Panel, style: "ReliabilityStyle", side: float) -> Corner | None:
    """Text for the upper left or the lower right corner, whichever is free; None where neither is."""
    several = len(panel.curves) > 1
    size, letter = (6.4, 0.61) if several else (7.0, 0.55)
    top = bottom = listing(panel)
    if not several:
        # The free corners are triangles: the long lines go where they are wide.
        top, bottom = falling(panel.curves[0]), rising(panel.curves[0])
    step, wide = size * 1.45 / 72 / side, size * letter / 72 / side

    def hidden(lines: Sequence[str], at_top: bool) -> float:
        lost = 0.0
        for at, line in enumerate(lines):
            low = 0.98 - (at + 1) * step if at_top else 0.02 + (len(lines) - 1 - at) * step
            left, right = (0.0, 0.02 + len(line) * wide) if at_top else (0.98 - len(line) * wide, 1.0)
            lost += sum(style.hides(curve, left, right, low, low + step) for curve in panel.curves)
        return lost

    losses = hidden(top, True), hidden(bottom, False)
    if min(losses) > 0.6:
        return None
    return (True, top, size) if losses[0] <= losses[1] else (False, bottom, size)


def _write_corner(axes: Any, at_top: bool, lines: Sequence[str], size: float, *, several: bool, paper: Paper) -> None:
    """A thin halo keeps the numbers legible over the grid."""
    from matplotlib.patheffects import withStroke

    x, y, ha, va = (0.02, 0.985, "left", "top") if at_top else (0.985, 0.02, "right", "bottom")
    axes.text(
        x,
        y,
        "\n".join(lines),
        transform=axes.transAxes,
        ha=ha,
        va=va,
        multialignment="left" if several else ha,
        fontsize=size,
        linespacing=1.45,
        family="DejaVu Sans Mono" if several else None,
        zorder=6,
        path_effects=[withStroke(linewidth=2.2, foreground=paper.theme.page)],
    )


def _write_beside(axes: Any, panel: Panel, job: Drawing) -> None:
    """The table of all curves, best first, those in colour in their colour."""
    lines, size = listing(panel, by_score=True), 6.4
    order = sorted(panel.curves, key=lambda c: c.brier.score)
    for at, line in enumerate(lines):
        colour, weight = job.paper.theme.ink, "normal"
        if at and order[at - 1].label in job.coloured:
            colour, weight = job.pen(panel, panel.curves.index(order[at - 1])).colour, "bold"
        axes.annotate(
            line,
            (1, 1),
            (10, -size * 1.45 * (at + 1)),
            "axes fraction",
            "offset points",
            fontsize=size,
            family="DejaVu Sans Mono",
            color=colour,
            weight=weight,
        )


def _legend(job: Drawing) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    theme, panels = job.paper.theme, job.diagram.panels
    level = f"{100 * panels[0].curves[0].settings.level:g} %"
    thin = any(curve.bins.thin.any() for panel in panels for curve in panel.curves)
    several, bars = bool(job.names), job.style.outside_sign == "point"
    handles: list[Any] = []
    for at, name in enumerate(job.coloured):
        colour, line, marker = job.paper.series(at)
        mark = marker if bars else ""
        handles.append(Line2D([], [], color=colour, ls=line, lw=1.7, marker=mark, ms=4, label=squeeze(name, 40)))
    if len(job.names) > len(job.coloured):
        others = f"the other {len(job.names) - len(job.coloured)}"
        handles.append(Line2D([], [], color=theme.others, lw=0.9, label=others))
    looks: dict[str, Any] = {
        "line": {"color": theme.main, "lw": 1.7},
        "point": {"color": theme.ink, "marker": "o", "ms": 3, "lw": 0.9},
        "whisker": {"color": theme.ink, "lw": 0.9},
        "hollow": {"color": theme.ink, "marker": "o", "mfc": theme.page, "ms": 4, "lw": 0},
    }

    def made(key: "Key") -> Any:
        if key.mark == "hatch":
            return Patch(facecolor=theme.page, edgecolor=theme.muted, hatch="/////", lw=0, label=key.text)
        return Line2D([], [], **looks[key.mark], label=key.text)

    if len(job.names) == len(job.coloured):
        words = dict.fromkeys(curve.words for panel in panels for curve in panel.curves)
        x, y = (" or ".join(each) for each in zip(*words, strict=True))
        handles += map(made, job.style.key(level, thin, several))
        handles.append(Patch(facecolor=theme.band, label=f"{level} band if calibrated"))
        handles.append(Line2D([], [], color=theme.ink, lw=1.3, label=y))
        handles.append(Line2D([], [], color=theme.ink, lw=1.3, ls=(0, (2, 1.2)), label=f"mean {x}"))
    return handles


def _fitting_columns(labels: Sequence[str], width: float) -> int:
    """How many legend entries fit side by side into a width in inches."""
    for columns in range(len(labels), 1, -1):
        columns_of = np.array_split([len(label) for label in labels], columns)  # as a legend is filled
        if sum(0.62 + 0.06 * max(column) for column in columns_of) <= width:
            return columns
    return 1
