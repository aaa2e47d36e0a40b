"""bins: accuracy in bins of confidence, with intervals."""

from typing import Any

import numpy as np

from calcli.diagrams.curve import THIN, Curve
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.reliability import ReliabilityStyle, bin_cells, bin_points, diagonal
from calcli.diagrams.reliability_matplotlib import Pen
from calcli.diagrams.terminal import Canvas


class Bins(ReliabilityStyle):
    """Classical bars, each with its interval and the band of a calibrated model."""

    name = "bins"

    def curve(self, axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
        """Bars for a curve that is alone, points with intervals for several."""
        bins, used = curve.bins, np.flatnonzero(curve.bins.count > 0)
        if pen.alone:
            theme = paper.theme
            for b in used:
                thin = bins.thin[b]
                low, wide, hatch = bins.low[b], bins.high[b] - bins.low[b], "/////" if thin else None
                bar = {"color": theme.page if thin else theme.bar, "edgecolor": theme.main, "lw": 0.7, "zorder": 1}
                axes.bar(low, bins.accuracy[b], width=wide, align="edge", hatch=hatch, **bar)
                band = {"facecolor": "none" if thin else theme.muted, "edgecolor": theme.others if thin else "none"}
                ends, more = [low, bins.high[b]], {"alpha": 1 if thin else 0.4, "lw": 0, "zorder": 1.5}
                axes.fill_between(ends, bins.null_low[b], bins.null_high[b], hatch=hatch, **band, **more)
            bin_points(axes, curve, pen, paper)
            return
        x = bins.confidence[used]
        if pen.band:
            axes.fill_between(x, bins.null_low[used], bins.null_high[used], color=pen.colour, alpha=pen.tint, lw=0)
        axes.plot(x, bins.accuracy[used], color=pen.colour, ls=pen.line, lw=0.9, zorder=pen.order)
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
                    canvas.put(row, column, canvas.look.sign("band"), "band")
        diagonal(canvas)
        bin_cells(canvas, curve)

    def signs(self, level: str, thin: bool, sign: dict[str, str]) -> list[tuple[str, str]]:
        items = [(f"{sign['point']} accuracy of a bin", "curve"), (f"{sign['whisker']} its {level} interval", "curve")]
        return items + [(f"{sign['thin']} fewer than {THIN} samples", "curve")] * thin

    outside_sign = "point"
