"""bins: accuracy in bins of confidence, with intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.diagrams.curve import THIN, Bars, Curve
from calcli.diagrams.matplotlib_theme import Paper, Theme
from calcli.diagrams.reliability import Diagram
from calcli.diagrams.reliability_matplotlib import Pen
from calcli.diagrams.terminal import BAND, HOLLOW, POINT, WHISKER, Canvas


@dataclass(frozen=True)
class Bins(Diagram):
    """Accuracy per bin of confidence, with its interval and the consistency band."""

    outside_mark = POINT

    def curve(self, axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
        """Draw bars for a curve that is alone, points with intervals for several."""
        bins = curve.bins
        theme = paper.theme
        used = np.flatnonzero(bins.count > 0)
        if pen.alone:
            for b in used:
                _draw_bar(axes, bins, int(b), theme)
        else:
            x = bins.confidence[used]
            if pen.band:
                axes.fill_between(
                    x,
                    bins.null_low[used],
                    bins.null_high[used],
                    color=pen.colour,
                    alpha=pen.tint,
                    lw=0,
                )
            axes.plot(
                x,
                bins.accuracy[used],
                color=pen.colour,
                ls=pen.line,
                lw=0.9,
                zorder=pen.order,
            )
        if pen.band:
            bin_points(axes, curve, pen, paper)

    def key(self, theme: Theme, several: bool) -> list[Any]:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        few = f"fewer than {THIN} samples"
        label = f"bin accuracy, {self.level} interval"
        look: dict[str, Any]
        dot = "" if several else "o"
        handles: list[Any] = [
            Line2D([], [], color=theme.ink, lw=0.9, marker=dot, ms=3, label=label)
        ]
        if several and self.has_thin_bins:
            look = {"color": theme.ink, "marker": "o", "mfc": theme.page, "ms": 4}
            handles.append(Line2D([], [], lw=0, label=few, **look))
        elif self.has_thin_bins:
            look = {"facecolor": theme.page, "edgecolor": theme.muted}
            handles.append(Patch(hatch="/////", lw=0, label=few, **look))
        return handles

    def cells(self, canvas: Canvas, curve: Curve) -> None:
        bins = curve.bins
        for b in np.flatnonzero(bins.count > 0):
            left = canvas.column(bins.low[b])
            right = canvas.column(bins.high[b] - 1e-9)
            top = canvas.row(bins.null_high[b])
            bottom = canvas.row(bins.null_low[b])
            for column in range(left, right + 1):
                for row in range(top, bottom + 1):
                    canvas.put(row, column, BAND, "band")
        canvas.diagonal()
        bin_cells(canvas, curve)

    def marks(self) -> list[tuple[str, str]]:
        items = [
            (f"{POINT} accuracy of a bin", "curve"),
            (f"{WHISKER} its {self.level} interval", "curve"),
        ]
        if self.has_thin_bins:
            items.append((f"{HOLLOW} fewer than {THIN} samples", "curve"))
        return items


def bin_points(axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
    """Draw the bins of a curve as points with their intervals, in matplotlib axes."""
    bins = curve.bins
    used = np.flatnonzero(bins.count > 0)
    colour = pen.colour
    marker = pen.marker
    if pen.alone:
        colour = paper.theme.ink
        marker = "o"
    x = bins.confidence[used] + 0.003 * pen.shift
    y = bins.accuracy[used]
    reach = np.maximum([y - bins.accuracy_low[used], bins.accuracy_high[used] - y], 0)
    axes.errorbar(
        x,
        y,
        reach,
        fmt="none",
        ecolor=colour,
        elinewidth=0.9,
        capsize=1.8,
        capthick=0.9,
        zorder=4,
    )
    face = np.where(bins.thin[used], paper.theme.page, colour).tolist()
    axes.scatter(
        x,
        y,
        s=11,
        c=face,
        edgecolors=colour,
        linewidths=0.9,
        marker=marker,
        zorder=5,
        clip_on=False,
    )


def _draw_bar(axes: Any, bins: Bars, b: int, theme: Theme) -> None:
    """Draw the bar of a bin, and its band; hatched where few samples are in it."""
    edges = [bins.low[b], bins.high[b]]
    hatch = None
    band = {"facecolor": theme.muted, "edgecolor": "none", "alpha": 0.4}
    if bins.thin[b]:
        hatch = "/////"
        band = {"facecolor": "none", "edgecolor": theme.others, "alpha": 1}
    axes.bar(
        bins.low[b],
        bins.accuracy[b],
        width=bins.high[b] - bins.low[b],
        align="edge",
        hatch=hatch,
        facecolor="none",
        edgecolor=theme.main,
        lw=0.7,
        zorder=1,
    )
    axes.fill_between(
        edges,
        bins.null_low[b],
        bins.null_high[b],
        hatch=hatch,
        lw=0,
        zorder=1.5,
        **band,
    )


def bin_cells(canvas: Canvas, curve: Curve) -> None:
    """Draw the bins of a curve as points with their intervals, in characters."""
    bins = curve.bins
    for b in np.flatnonzero(bins.count > 0):
        low = bins.null_low[b] - 1e-12
        high = bins.null_high[b] + 1e-12
        role = "curve" if low <= bins.accuracy[b] <= high else "outside"
        mark = HOLLOW if bins.thin[b] else POINT
        x = float(bins.confidence[b])
        canvas.vertical(x, bins.accuracy_low[b], bins.accuracy_high[b], WHISKER, role)
        canvas.put(canvas.row(bins.accuracy[b]), canvas.column(x), mark, role)
