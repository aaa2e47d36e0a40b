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
"""Largest number of coloured curves in one pair of axes; of more, the best five are coloured."""

BEST = 5
LEFT, RIGHT, GAP, TITLE, NUMBER, BETWEEN, LABEL, NOTE = (
    0.62,
    0.22,
    0.42,
    0.3,
    0.125,
    0.09,
    0.48,
    0.17,
)
"""Inches: margins, gap of panels, title, line of numbers, gap above the histogram, axis labels below it, note."""
MONO = "DejaVu Sans Mono"


@dataclass(frozen=True)
class Pen:
    """Style of one curve. alone : no other curve in any axes. band : whether its band is drawn.

    shift : its position among the curves of the axes, 0 in the middle. order : z-order. tint : opacity of its band.
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

    names : of the curves, in the order of their colours; empty when no axes hold several. coloured : those not grey:
    all, or of more than ``IN_COLOUR`` the uncalibrated one and those of least Brier score. crowded : some are grey.
    """

    def __init__(self, diagram: "Diagram", paper: Paper) -> None:
        self.diagram, self.paper = diagram, paper
        curves = [c for _, c in diagram.curves]
        several = any(len(panel.curves) > 1 for panel in diagram.panels)
        self.names = self.coloured = (
            list(dict.fromkeys(c.label for c in curves)) if several else []
        )
        self.crowded = len(self.names) > IN_COLOUR
        if self.crowded:
            score = {
                n: float(np.mean([c.brier.score for c in curves if c.label == n]))
                for n in self.names
            }
            best = sorted(self.names, key=lambda n: score[n])[:BEST]
            self.coloured = [n for n in self.names if n in best or n == "uncalibrated"]

    def pen(self, panel: Panel, at: int) -> Pen:
        """Style of curve number ``at`` of a panel."""
        name = panel.curves[at].label
        if not self.names:
            return Pen(self.paper.theme.main, alone=True)
        if name not in self.coloured:
            return Pen(self.paper.theme.others, band=False, width=0.9, order=2.5)
        look, curves = self.paper.series(self.coloured.index(name)), len(panel.curves)
        tint = min(
            Pen.tint, 1 - 0.55 ** (1 / curves)
        )  # overlaid bands stay below half opacity
        return Pen(
            *look, band=not self.crowded, shift=at - 0.5 * (curves - 1), tint=tint
        )


def draw_reliability(diagram: "Diagram", paper: Paper) -> Any:
    """Draw one or more panels: curve or bars above, histogram of the forecasts beneath."""
    from matplotlib.figure import Figure

    job = Drawing(diagram, paper)
    columns, side, beside = _grid(job)
    small = side < 2.9
    gap = GAP + (0.2 if _axes_differ(diagram) else 0.0)
    wide = columns * (side + beside + gap)
    handles = _legend(job)
    per_line = _fitting_columns([handle.get_label() for handle in handles], wide - 0.4)
    notes = [
        line for note in diagram.notes for line in wrap(printable(note), int(wide * 17))
    ]
    stated = paper.stats and not job.crowded
    above = [
        above_axes(panel, side, small) if stated else [] for panel in diagram.panels
    ]
    numbers = max(map(len, above), default=0)
    head, histogram = 0.28 if diagram.title else 0.0, 0.5 if small else 0.75
    cell = TITLE + NUMBER * numbers + side + BETWEEN + histogram + LABEL
    width = LEFT + columns * (side + beside) + (columns - 1) * gap + RIGHT
    foot = 0.17 * -(-len(handles) // per_line) + NOTE * len(notes) + 0.08
    height = head + -(-len(diagram.panels) // columns) * cell + foot
    figure = Figure(figsize=(width, height))
    if diagram.title:
        text = squeeze(diagram.title, int(width * 10))
        figure.text(0.5, 1 - 0.1 / height, text, ha="center", va="top", fontsize=10.5)
    for at, panel in enumerate(diagram.panels):
        row, column = divmod(at, columns)
        x = (LEFT + column * (side + beside + gap)) / width
        top = height - head - row * cell - TITLE - NUMBER * numbers
        upper = figure.add_axes((x, (top - side) / height, side / width, side / height))
        lower = figure.add_axes(
            (
                x,
                (top - side - BETWEEN - histogram) / height,
                side / width,
                histogram / height,
            )
        )
        _draw_panel(upper, lower, panel, job, first=column == 0)
        upper.set_title(
            squeeze(panel.title, int(side * 13)), loc="left", pad=5 + 9 * numbers
        )
        family = (
            MONO if len(panel.curves) > 1 and not small else None
        )  # columns of a table
        for line, text in enumerate(above[at]):
            where = (0, 4 + 9 * (numbers - 1 - line))
            upper.annotate(
                text,
                (0, 1),
                where,
                "axes fraction",
                "offset points",
                fontsize=6.2,
                family=family,
            )
        if beside:
            _write_beside(upper, panel, job)
        for number, artist in enumerate(upper.lines):  # names the lines in an SVG
            artist.set_gid(f"panel{at + 1}-line{number}")
    anchor = (0.5, (0.06 + NOTE * len(notes)) / height)
    gaps = {
        "columnspacing": 1.6,
        "handletextpad": 0.6,
        "borderpad": 0,
        "labelspacing": 0.4,
    }
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=anchor,
        ncols=per_line,
        **gaps,
    )
    for line, note in enumerate(reversed(notes)):
        y = (0.08 + NOTE * line) / height
        figure.text(
            0.5, y, note, ha="center", va="bottom", fontsize=7, color=paper.theme.muted
        )
    return figure


def _grid(job: Drawing) -> tuple[int, float, float]:
    """Number of columns, and in inches the side of the axes and the width of a table beside them."""
    count, width = len(job.diagram.panels), job.paper.width
    several = (min(4, int(np.ceil(np.sqrt(count)))), 2.2)
    columns, side = {1: (1, 3.9), 2: (2, 3.5), 3: (3, 3.2), 4: (2, 3.2)}.get(
        count, several
    )
    if columns > 1 and _axes_differ(job.diagram):
        columns += columns % 2  # P(class 1) and confidence of one curve side by side
    beside = 0.0
    if job.crowded:
        columns = 1
        if job.paper.stats:
            beside = 0.0545 * (max(map(len, listing(job.diagram.panels[0], True))) + 5)
    if width is not None:
        columns = max(
            1, min(columns, int((width - LEFT - RIGHT + GAP) / (1.7 + GAP + beside)))
        )
        side = (width - LEFT - RIGHT - (columns - 1) * GAP) / columns - beside
        if side < 1.2:  # no room for the table
            side, beside = side + beside, 0.0
        side = min(side, 6.0)
    return columns, side, beside


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
    for at, curve in enumerate(panel.curves):
        job.diagram.curve(axes, curve, job.pen(panel, at), job.paper)
    fifths = np.linspace(0, 1, 6)
    axes.set(xlim=(0, 1), xticks=fifths, ylim=(0, 1), yticks=fifths)
    axes.grid(True, zorder=0)


def _draw_panel(
    upper: Any, lower: Any, panel: Panel, job: Drawing, first: bool
) -> None:
    _draw_curves(upper, panel, job)
    for at, curve in enumerate(panel.curves):
        _draw_histogram(lower, curve, job.pen(panel, at), job.paper)
    left, ticks = _reach_of_x(panel, job.diagram)
    upper.set(xlim=(left, 1), xticks=ticks)
    upper.tick_params(labelbottom=False)
    top = max(1.6 * max(int(curve.histogram.count.max()) for curve in panel.curves), 3)
    decades = int(np.log10(top))
    lower.set_axisbelow("line")  # ticks lie over the bars
    lower.set(
        xlim=(left, 1), xticks=ticks, yscale="log", ylim=(0.6, top)
    )  # a single row is still a visible bar
    log_ticks(
        lower.yaxis,
        [10.0**d for d in range(0, decades + 1, 1 if decades < 4 else 2)],
        short,
    )
    x, y = panel.curves[0].words
    if first or _axes_differ(job.diagram):
        upper.set_ylabel(y, labelpad=2)
    if first:
        lower.set_ylabel("samples")
        for axes in (upper, lower):
            axes.yaxis.set_label_coords(
                -0.42 / (upper.figure.get_figwidth() * upper.get_position().width), 0.5
            )
    lower.set_xlabel(x)


def _axes_differ(diagram: "Diagram") -> bool:
    """Return True if panels have different quantities on their axes."""
    return len({panel.curves[0].words for panel in diagram.panels}) > 1


HALF = 0.48
"""Left end of the axis of confidences that all lie above one half: the lower edge of the histogram's bin of 0.5."""


def _reach_of_x(panel: Panel, diagram: "Diagram") -> tuple[float, FloatArray]:
    """Left end and ticks of the x axis: confidences above one half leave no empty half."""
    least = 1.0
    for _, curve in diagram.curves:
        if curve.words == panel.curves[0].words:
            used = curve.histogram.edges[:-1][curve.histogram.count > 0]
            least = min(least, float(used.min()))
    if panel.curves[0].quantity == "top" and least >= HALF - 1e-9:
        return HALF, np.linspace(0.5, 1, 6)
    return 0.0, np.linspace(0, 1, 6)


def _draw_histogram(axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
    edges, count = curve.histogram.edges, curve.histogram.count
    colour = paper.theme.ink if pen.alone else pen.colour
    if pen.alone:
        look = {"color": paper.theme.others, "edgecolor": paper.theme.page, "lw": 0.3}
        axes.bar(
            edges[:-1],
            np.where(count > 0, count, np.nan),
            width=np.diff(edges),
            align="edge",
            **look,
        )
    else:
        axes.stairs(
            np.maximum(count, 0.1),
            edges,
            color=colour,
            ls=pen.line,
            lw=min(1.0, pen.width),
        )
    if pen.alone or pen.band:
        axes.axvline(curve.accuracy, color=colour, lw=1.3, ls="-", zorder=3)
        axes.axvline(
            curve.mean_confidence, color=colour, lw=1.3, ls=(0, (2, 1.2)), zorder=3
        )


def _write_beside(axes: Any, panel: Panel, job: Drawing) -> None:
    """Write the table of all curves beside the axes, best first, coloured curves in their colour."""
    lines, size = listing(panel, by_score=True), 6.4
    order = sorted(panel.curves, key=lambda c: c.brier.score)
    for at, line in enumerate(lines):
        colour, weight = job.paper.theme.ink, "normal"
        if at and order[at - 1].label in job.coloured:
            colour, weight = (
                job.pen(panel, panel.curves.index(order[at - 1])).colour,
                "bold",
            )
        font = {"fontsize": size, "family": MONO, "color": colour, "weight": weight}
        axes.annotate(
            line,
            (1, 1),
            (10, -size * 1.45 * (at + 1)),
            "axes fraction",
            "offset points",
            **font,
        )


def _legend(job: Drawing, has_histogram: bool = True) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    theme, curves = job.paper.theme, [c for _, c in job.diagram.curves]
    level = f"{100 * curves[0].settings.level:g} %"
    thin = any(c.bins.thin.any() for c in curves)
    bars = job.diagram.outside_sign == POINT
    handles: list[Any] = []
    for at, name in enumerate(job.coloured):
        colour, line, marker = job.paper.series(at)
        mark = marker if bars else ""
        handles.append(
            Line2D(
                [],
                [],
                color=colour,
                ls=line,
                lw=1.7,
                marker=mark,
                ms=4,
                label=squeeze(name, 40),
            )
        )
    if job.crowded:
        others = f"the other {len(job.names) - len(job.coloured)}"
        return [*handles, Line2D([], [], color=theme.others, lw=0.9, label=others)]
    handles += job.diagram.key(theme, level, thin, bool(job.names))
    words = dict.fromkeys(c.words for c in curves)
    x, y = (" or ".join(each) for each in zip(*words, strict=True))
    handles.append(Patch(facecolor=theme.band, label=f"{level} band under calibration"))
    if not has_histogram:
        return handles
    handles.append(Line2D([], [], color=theme.ink, lw=1.3, label=y))
    handles.append(
        Line2D([], [], color=theme.ink, lw=1.3, ls=(0, (2, 1.2)), label=f"mean {x}")
    )
    return handles


def _fitting_columns(labels: Sequence[str], width: float) -> int:
    """Number of legend entries that fit side by side into a width in inches."""
    for columns in range(len(labels), 1, -1):
        columns_of = np.array_split(
            [len(label) for label in labels], columns
        )  # as matplotlib fills a legend
        if sum(0.62 + 0.06 * max(column) for column in columns_of) <= width:
            return columns
    return 1


# ---- the numbers above or beside the axes, as lines of text that fit


def above_axes(panel: Panel, side: float, small: bool) -> list[str]:
    """Lines of numbers between the title and the axes of a panel. side : of the axes in inches."""
    several = len(panel.curves) > 1
    c = panel.curves[0]
    if small and several:
        lines = [
            f"{squeeze(c.label, 14)}: ECE {c.ece:.3f} (expected {c.ece_null_mean:.3f})"
            for c in panel.curves
        ]
    elif small:
        lines = [
            f"n {c.n}, ECE {c.ece:.3f} (expected {c.ece_null_mean:.3f}), {p_value(c)}"
        ]
    elif several:
        return listing(panel)
    else:
        b, (x, y) = c.brier, c.words
        means = f"{y} {c.accuracy:.4f}, mean {x} {c.mean_confidence:.4f}"
        if c.quantity != "top":
            means = f"observed {c.accuracy:.4f}, predicted {c.mean_confidence:.4f}"
        expected = f" (expected {c.mcb_null_mean:.4f})"
        brier = (
            f"Brier {b.score:.4f} = MCB {b.miscalibration:.4f}{expected}"
            f" − DSC {b.discrimination:.4f} + UNC {b.uncertainty:.4f}"
        )
        if len(brier) > _characters(side, small):
            brier = brier.replace(expected, "")
        lines = [
            f"n {c.n}, {means} ({direction(c)})",
            f"ECE {c.ece:.4f} (expected {c.ece_null_mean:.4f}), {p_value(c)}",
            brier,
        ]
        lines += [", ".join(recalibration_parts(c))] if recalibration_parts(c) else []
    fitting = _characters(side, small)
    return [part for line in lines for part in wrap(line, fitting)]


def _characters(side: float, small: bool) -> int:
    """Characters of the numbers' font that fit above axes. side : of the axes in inches."""
    return int((side + 0.3 * small) * 72 / 6.2 / 0.56)


def listing(panel: Panel, by_score: bool = False) -> list[str]:
    """Table of the numbers of several curves. by_score : sorted by Brier score, which is a column, too."""
    rows = [["", "ECE", "(expected)", "MCB", "DSC", "UNC", "Brier"]]
    for c in (
        sorted(panel.curves, key=lambda c: c.brier.score) if by_score else panel.curves
    ):
        b = c.brier
        parts = (
            f"{each:.4f}"
            for each in (b.miscalibration, b.discrimination, b.uncertainty, b.score)
        )
        rows.append(
            [
                squeeze(c.label, 24 if by_score else 16),
                f"{c.ece:.4f}",
                f"({c.ece_null_mean:.4f})",
                *parts,
            ]
        )
    return table(rows if by_score else [row[:-1] for row in rows], " ")
