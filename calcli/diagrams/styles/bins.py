"""bins: accuracy in bins of confidence, with intervals."""

from typing import Any

import numpy as np

from calcli.diagrams.curve import THIN, Curve
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.reliability import ReliabilityStyle, bin_cells, bin_points, diagonal
from calcli.diagrams.reliability_matplotlib import Pen
from calcli.diagrams.terminal import BAND, HOLLOW, POINT, WHISKER, Canvas


class Bins(ReliabilityStyle):
    """Classical bars, each with its interval and the band of a calibrated model."""

    name = "bins"
    outside_sign = POINT

    def curve(self, axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
        """Bars for a curve that is alone, points with intervals for several."""
        bins, used, theme = curve.bins, np.flatnonzero(curve.bins.count > 0), paper.theme
        if not pen.alone:
            x = bins.confidence[used]
            if pen.band:
                axes.fill_between(x, bins.null_low[used], bins.null_high[used], color=pen.colour, alpha=pen.tint, lw=0)
            axes.plot(x, bins.accuracy[used], color=pen.colour, ls=pen.line, lw=0.9, zorder=pen.order)
        for b in used if pen.alone else ():
            thin, low, high = bins.thin[b], bins.low[b], bins.high[b]
            hatch = "/////" if thin else None
            bar = {"color": theme.page if thin else theme.bar, "edgecolor": theme.main, "lw": 0.7, "zorder": 1}
            axes.bar(low, bins.accuracy[b], width=high - low, align="edge", hatch=hatch, **bar)
            band = {"facecolor": "none" if thin else theme.muted, "edgecolor": theme.others if thin else "none"}
            more = {"hatch": hatch, "alpha": 1 if thin else 0.4, "lw": 0, "zorder": 1.5}
            axes.fill_between([low, high], bins.null_low[b], bins.null_high[b], **band, **more)
        if pen.band:
            bin_points(axes, curve, pen, paper)

    def key(self, level: str, thin: bool, several: bool) -> list[tuple[str, str]]:
        found = [("whisker" if several else "point", f"bin accuracy, {level} interval")]
        return found + [("hollow" if several else "hatch", f"fewer than {THIN} samples")] * thin

    def cells(self, canvas: Canvas, curve: Curve) -> None:
        bins = curve.bins
        for b in np.flatnonzero(bins.count > 0):
            for column in range(canvas.column(bins.low[b]), canvas.column(bins.high[b] - 1e-9) + 1):
                for row in range(canvas.row(bins.null_high[b]), canvas.row(bins.null_low[b]) + 1):
                    canvas.put(row, column, BAND, "band")
        diagonal(canvas)
        bin_cells(canvas, curve)

    def signs(self, level: str, thin: bool) -> list[tuple[str, str]]:
        items = [(f"{POINT} accuracy of a bin", "curve"), (f"{WHISKER} its {level} interval", "curve")]
        return items + [(f"{HOLLOW} fewer than {THIN} samples", "curve")] * thin
