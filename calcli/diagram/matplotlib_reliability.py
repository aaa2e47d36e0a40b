"""Reliability diagrams in matplotlib: curves or bars, with their histogram beneath."""

from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from calcli.diagram.data import THIN, Curve, Diagram, Panel
from calcli.diagram.matplotlib import BLUE, GREY, INK, PALE, series
from calcli.diagram.words import column_widths, direction, p_value, short, squeeze

__all__ = ["draw_reliability"]


@dataclass(frozen=True)
class _Sheet:
    """Sizes in inches: panels in a grid with room for titles, labels and the legend."""

    panels: int
    columns: int
    side: float
    histogram: float
    legend: int
    heading: bool
    notes: int
    numbers: int

    left, right, gap, title, between, label = 0.62, 0.22, 0.42, 0.3, 0.09, 0.48

    @property
    def rows(self) -> int:
        return -(-self.panels // self.columns)

    @property
    def foot(self) -> float:
        return 0.2 * self.legend + 0.17 * self.notes + 0.08

    @property
    def cell(self) -> float:
        """Height of one panel with all that belongs to it."""
        return self.title + 0.11 * self.numbers + self.side + self.between + self.histogram + self.label

    @property
    def size(self) -> tuple[float, float]:
        width = self.left + self.columns * self.side + (self.columns - 1) * self.gap + self.right
        return width, (0.28 if self.heading else 0.0) + self.rows * self.cell + self.foot

    def axes(self, figure: Any, at: int) -> tuple[Any, Any]:
        """The axes of the curve and of the histogram of panel number ``at``."""
        width, height = self.size
        row, column = divmod(at, self.columns)
        x = self.left + column * (self.side + self.gap)
        top = height - (0.28 if self.heading else 0.0) - row * self.cell - self.title - 0.11 * self.numbers
        upper = (x / width, (top - self.side) / height, self.side / width, self.side / height)
        lower = (
            x / width,
            (top - self.side - self.between - self.histogram) / height,
            self.side / width,
            self.histogram / height,
        )
        return figure.add_axes(upper), figure.add_axes(lower)


def draw_reliability(diagram: Diagram) -> Any:
    """A figure of one or more panels: curve or bars above, histogram of confidences beneath."""
    from matplotlib.figure import Figure

    count = len(diagram.panels)
    columns = count if count <= 3 else 2 if count == 4 else min(4, int(np.ceil(np.sqrt(count))))
    small = count > 4
    side = {1: 3.9, 2: 3.5, 3: 3.2, 4: 3.2}.get(count, 2.2)
    names = _series_names(diagram)
    handles = _legend_handles(diagram, names)
    per_line = _fitting_columns([handle.get_label() for handle in handles], columns * (side + 0.42))
    notes = [line for note in diagram.notes for line in wrap(note, int(columns * (side + 0.42) * 17))]
    sheet = _Sheet(
        panels=count,
        columns=columns,
        side=side,
        histogram=0.5 if small else 0.75,
        legend=-(-len(handles) // per_line),
        heading=bool(diagram.title),
        notes=len(notes),
        numbers=max(len(_brief(panel)) for panel in diagram.panels) if small else 0,
    )
    figure = Figure(figsize=sheet.size)
    width, height = sheet.size
    if diagram.title:
        figure.text(
            0.5, 1 - 0.1 / height, squeeze(diagram.title, int(width * 10)), ha="center", va="top", fontsize=10.5
        )
    for at, panel in enumerate(diagram.panels):
        upper, lower = sheet.axes(figure, at)
        _draw_panel(upper, lower, panel, diagram.style, names)
        _title(upper, panel, sheet, small)
        if not small:
            _corner(upper, panel, diagram.style, sheet.side)
        for number, artist in enumerate(upper.lines):  # names the lines in an SVG
            artist.set_gid(f"panel{at + 1}-line{number}")
        if at % columns == 0:
            upper.set_ylabel("accuracy")
            lower.set_ylabel("rows")
            for axes in (upper, lower):
                axes.yaxis.set_label_coords(-0.42 / sheet.side, 0.5)
        lower.set_xlabel("confidence")
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, (0.06 + 0.17 * len(notes)) / height),
        ncols=per_line,
        columnspacing=1.6,
        handletextpad=0.6,
        borderpad=0,
        labelspacing=0.4,
    )
    for line, note in enumerate(reversed(notes)):
        figure.text(0.5, (0.08 + 0.17 * line) / height, note, ha="center", va="bottom", fontsize=7, color=GREY)
    return figure


def _series_names(diagram: Diagram) -> list[str]:
    """Labels of the curves, in the order of their colours; empty when no axes hold several."""
    if all(len(panel.curves) == 1 for panel in diagram.panels):
        return []
    return list(dict.fromkeys(curve.label for panel in diagram.panels for curve in panel.curves))


def _draw_panel(upper: Any, lower: Any, panel: Panel, style: str, names: list[str]) -> None:
    alone = not names
    upper.plot([0, 1], [0, 1], color=GREY, lw=0.8, ls=(0, (4, 2)), zorder=2)
    for at, curve in enumerate(panel.curves):
        colour, line, marker = (BLUE, "-", "o") if alone else series(names.index(curve.label))
        if style == "corp":
            _draw_corp(upper, curve, colour, line, alone)
        elif alone:
            _draw_bars(upper, curve)
        else:
            _draw_points(upper, curve, colour, line, marker, at - 0.5 * (len(panel.curves) - 1))
        _draw_histogram(lower, curve, colour, line, alone)
    for axes in (upper, lower):
        axes.set_xlim(-0.01, 1.01)
        axes.set_xticks(np.linspace(0, 1, 6))
    upper.set_ylim(-0.01, 1.01)
    upper.set_yticks(np.linspace(0, 1, 6))
    upper.tick_params(labelbottom=False)
    upper.grid(color="#ececec", lw=0.5, zorder=0)
    upper.set_axisbelow(True)
    _count_axis(lower, panel)


def _title(axes: Any, panel: Panel, sheet: _Sheet, small: bool) -> None:
    """The title, and in small panels the numbers beneath it, where they hide nothing."""
    axes.set_title(squeeze(panel.title, int(sheet.side * 14)), loc="left", pad=5 + 8 * sheet.numbers)
    if small:
        for at, text in enumerate(reversed(_brief(panel))):
            axes.annotate(text, (0, 1), (0, 4 + 8 * at), "axes fraction", "offset points", fontsize=6, color=INK)


def _draw_corp(axes: Any, curve: Curve, colour: str, line: Any, alone: bool) -> None:
    band = curve.band
    if len(band.x) > 1:
        axes.fill_between(
            band.x, band.low, band.high, color=PALE if alone else colour, alpha=1 if alone else 0.18, lw=0, zorder=1
        )
    else:  # one confidence only: the band has no width to fill
        axes.plot([band.x[0]] * 2, [band.low[0], band.high[0]], color=PALE, lw=6, solid_capstyle="butt", zorder=1)
    x, y = curve.isotonic.knots
    axes.plot(x, y, color=colour, ls=line, lw=1.7, zorder=4, solid_joinstyle="round")
    if len(x) == 1:
        axes.plot(x, y, "o", color=colour, ms=6, zorder=5, clip_on=False)


def _draw_bars(axes: Any, curve: Curve) -> None:
    bins = curve.bins
    used = np.flatnonzero(bins.count > 0)
    for b in used:
        axes.bar(
            bins.low[b],
            bins.accuracy[b],
            width=bins.high[b] - bins.low[b],
            align="edge",
            color="white" if bins.thin[b] else "#cfe4f2",
            edgecolor=BLUE,
            hatch="/////" if bins.thin[b] else None,
            lw=0.7,
            zorder=1,
        )
        axes.fill_between(
            [bins.low[b], bins.high[b]],
            bins.null_low[b],
            bins.null_high[b],
            facecolor="none" if bins.thin[b] else "#9a9a9a",
            edgecolor="#b0b0b0" if bins.thin[b] else "none",
            hatch="/////" if bins.thin[b] else None,
            alpha=1 if bins.thin[b] else 0.55,
            lw=0,
            zorder=1.5,
        )
    _whiskers(axes, bins.confidence[used], curve, used, INK, "o")


def _draw_points(axes: Any, curve: Curve, colour: str, line: Any, marker: str, shift: float) -> None:
    used = np.flatnonzero(curve.bins.count > 0)
    bins = curve.bins
    axes.fill_between(
        bins.confidence[used], bins.null_low[used], bins.null_high[used], color=colour, alpha=0.18, lw=0, zorder=1
    )
    axes.plot(bins.confidence[used], bins.accuracy[used], color=colour, ls=line, lw=0.9, zorder=3)
    _whiskers(axes, bins.confidence[used] + 0.003 * shift, curve, used, colour, marker)


def _whiskers(axes: Any, x: Any, curve: Curve, used: Any, colour: str, marker: str) -> None:
    bins = curve.bins
    y = bins.accuracy[used]
    reach = np.maximum([y - bins.accuracy_low[used], bins.accuracy_high[used] - y], 0)
    axes.errorbar(x, y, reach, fmt="none", ecolor=colour, elinewidth=0.9, capsize=1.8, capthick=0.9, zorder=4)
    face = [("white" if thin else colour) for thin in bins.thin[used]]
    axes.scatter(x, y, s=11, c=face, edgecolors=colour, linewidths=0.9, marker=marker, zorder=5, clip_on=False)


def _draw_histogram(axes: Any, curve: Curve, colour: str, line: Any, alone: bool) -> None:
    edges, count = curve.histogram.edges, curve.histogram.count
    height = np.where(count > 0, count, np.nan)
    if alone:
        axes.bar(edges[:-1], height, width=np.diff(edges), align="edge", color="#b9b9b9", edgecolor="white", lw=0.3)
        colour = INK
    else:
        axes.stairs(np.maximum(count, 0.1), edges, color=colour, ls=line, lw=1.0)
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


def _corner(axes: Any, panel: Panel, style: str, side: float) -> None:
    """The numbers, in the corner where they hide least; a thin halo keeps them legible."""
    from matplotlib.patheffects import withStroke

    several = len(panel.curves) > 1
    size, letter = (6.4, 0.61) if several else (7.0, 0.53)
    # The free corners are triangles: the long lines go where they are wide.
    top = _overlay_text(panel) if several else [line for block in _blocks(panel.curves[0], "   ") for line in block]
    bottom = top if several else [line for block in reversed(_blocks(panel.curves[0])) for line in block]
    step = size * 1.45 / 72 / side
    wide = size * letter / 72 / side

    def hidden_at_top() -> float:
        spots = ((0.0, len(line) * wide, 1 - (at + 1) * step, 1 - at * step) for at, line in enumerate(top))
        return sum(_hidden(panel, style, *spot) for spot in spots)

    def hidden_at_bottom() -> float:
        spots = ((1 - len(t) * wide, 1.0, at * step, (at + 1) * step) for at, t in enumerate(reversed(bottom)))
        return sum(_hidden(panel, style, *spot) for spot in spots)

    if hidden_at_top() <= hidden_at_bottom() + 0.3:
        x, y, ha, va, lines = 0.02, 0.985, "left", "top", top
    else:
        x, y, ha, va, lines = 0.985, 0.02, "right", "bottom", bottom
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
        path_effects=[withStroke(linewidth=2.2, foreground="white")],
    )


def _hidden(panel: Panel, style: str, left: float, right: float, low: float, high: float) -> float:
    """How much of the curves, and a little of the bands, lies in a rectangle."""
    lost = 0.0
    x = np.linspace(left, right, 40)
    for curve in panel.curves:
        bins = curve.bins
        if style == "bins":
            inside = (bins.confidence >= left) & (bins.confidence <= right)
            lost += float((inside & (bins.accuracy_high >= low) & (bins.accuracy_low <= high)).sum())
        knots, _ = curve.isotonic.knots
        within = x[(x >= knots[0]) & (x <= knots[-1])] if len(knots) > 1 else knots[(knots >= left) & (knots <= right)]
        y = curve.isotonic.at(within)
        lost += float(((y >= low) & (y <= high)).sum()) / len(x)
        shade = np.interp(x, curve.band.x, curve.band.high), np.interp(x, curve.band.x, curve.band.low)
        lost += 0.1 * float(((shade[0] >= low) & (shade[1] <= high) & (x >= curve.band.x[0])).mean())
    return lost


def _blocks(curve: Curve, indent: str = "") -> list[list[str]]:
    """The numbers of one curve, the longest lines first."""
    b = curve.brier
    return [
        [f"mean confidence {curve.mean_confidence:.4f} ({direction(curve)})"],
        [f"accuracy {curve.accuracy:.4f}, n = {curve.n}"],
        [f"ECE {curve.ece:.4f}, {p_value(curve)}", f"{indent}if calibrated {curve.ece_null_mean:.4f}"],
        [f"Brier {b.score:.4f}"],
        [f"MCB {b.miscalibration:.4f}", f"{indent}if calibrated {curve.mcb_null_mean:.4f}"],
        [f"DSC {b.discrimination:.4f}"],
        [f"UNC {b.uncertainty:.4f}"],
    ]


def _brief(panel: Panel) -> list[str]:
    """The numbers of a small panel, to stand between its title and its axes."""
    several = len(panel.curves) > 1
    return [
        (f"{squeeze(c.label, 14)}: " if several else f"n {c.n}, ")
        + f"ECE {c.ece:.3f} (if cal. {c.ece_null_mean:.3f})"
        + ("" if several else f", {p_value(c)}")
        for c in panel.curves
    ]


def _overlay_text(panel: Panel) -> list[str]:
    head = ["", "ECE", "(if cal.)", "MCB", "DSC", "UNC"]
    body = [
        [
            squeeze(c.label, 16),
            f"{c.ece:.4f}",
            f"({c.ece_null_mean:.4f})",
            f"{c.brier.miscalibration:.4f}",
            f"{c.brier.discrimination:.4f}",
            f"{c.brier.uncertainty:.4f}",
        ]
        for c in panel.curves
    ]
    widths = column_widths([head, *body])
    return [
        " ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in [head, *body]
    ]


def _legend_handles(diagram: Diagram, names: list[str]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    level = f"{100 * diagram.panels[0].curves[0].settings.level:g} %"
    bars = diagram.style == "bins"
    handles: list[Any] = []
    if names:
        for at, name in enumerate(names):
            colour, line, marker = series(at)
            handles.append(
                Line2D(
                    [], [], color=colour, ls=line, lw=1.7, marker=marker if bars else "", ms=4, label=squeeze(name, 40)
                )
            )
    elif not bars:
        handles.append(Line2D([], [], color=BLUE, lw=1.7, label="isotonic accuracy"))
    if bars:
        label = f"bin accuracy, {level} interval"
        handles.append(Line2D([], [], color=INK, marker="" if names else "o", ms=3, lw=0.9, label=label))
        if any(curve.bins.thin.any() for panel in diagram.panels for curve in panel.curves):
            label = f"fewer than {THIN} rows"
            if not names:
                handles.append(Patch(facecolor="white", edgecolor=GREY, hatch="/////", lw=0, label=label))
            else:
                handles.append(Line2D([], [], color=INK, marker="o", mfc="white", ms=4, lw=0, label=label))
    handles.append(Patch(facecolor="#c3c3c3" if bars else PALE, label=f"{level} band if calibrated"))
    handles.append(Line2D([], [], color=INK, lw=1.3, label="mean accuracy"))
    handles.append(Line2D([], [], color=INK, lw=1.3, ls=(0, (2, 1.2)), label="mean confidence"))
    return handles


def _fitting_columns(labels: list[str], width: float) -> int:
    """How many legend entries fit side by side into a width in inches."""
    for columns in range(len(labels), 1, -1):
        lines = -(-len(labels) // columns)
        columns_of = [labels[at : at + lines] for at in range(0, len(labels), lines)]  # filled downwards
        if sum(0.55 + 0.056 * max(map(len, column)) for column in columns_of) <= width:
            return columns
    return 1
