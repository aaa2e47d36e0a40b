"""corp: isotonic accuracy curve over the confidence, no bins to choose."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import fall_words
from calcli.diagrams.curve import Curve
from calcli.diagrams.matplotlib_theme import Paper, Theme
from calcli.diagrams.reliability import Diagram
from calcli.diagrams.reliability_matplotlib import Pen
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.styles.bins import bin_cells, bin_points
from calcli.diagrams.terminal import LINE, POINT, Canvas


@dataclass(frozen=True)
class Corp(Diagram):
    """CORP reliability curve, with its consistency band.

    Reference: Dimitriadis, Gneiting, Jordan (2021), PNAS 118(8).
    """

    outside_mark = LINE

    @classmethod
    def measure(cls, request: Request) -> Figure:
        """Measure, and note every significant fall of the outcome, which an isotonic
        curve hides.
        """
        figure = super().measure(request)
        if not isinstance(figure, Corp):
            return figure
        notes = list(figure.notes)
        for panel, curve in figure.in_panels:
            words = fall_words(curve)
            if not words:
                continue
            if len(panel.curves) > 1:
                words = f"{panel.title}, {curve.label}: {words}"
            elif len(figure.curves) > 1:
                words = f"{panel.title}: {words}"
            notes.append(words)
        return replace(figure, notes=tuple(notes))

    def curve(self, axes: Any, curve: Curve, pen: Pen, paper: Paper) -> None:
        """Draw band and polyline; a single confidence is a point with a bar behind it."""
        band = curve.band
        if pen.band and len(band.x) > 1:
            colour = pen.colour
            alpha = pen.tint
            if pen.alone:
                colour = paper.theme.band
                alpha = 1
            axes.fill_between(
                band.x, band.low, band.high, color=colour, alpha=alpha, lw=0, zorder=1
            )
        elif pen.band:
            axes.plot(
                [band.x[0]] * 2,
                [band.low[0], band.high[0]],
                color=paper.theme.band,
                lw=6,
                solid_capstyle="butt",
            )
        x, y = curve.isotonic.knots
        axes.plot(
            x,
            y,
            color=pen.colour,
            ls=pen.line,
            lw=pen.width,
            zorder=pen.order,
            solid_joinstyle="round",
        )
        if len(x) == 1:
            axes.plot(x, y, "o", color=pen.colour, ms=6, zorder=5, clip_on=False)
        if curve.fall is not None:
            bin_points(axes, curve, pen, paper)

    def key(self, theme: Theme, several: bool) -> list[Any]:
        from matplotlib.lines import Line2D

        if several:
            return []
        return [Line2D([], [], color=theme.main, lw=1.7, label="isotonic accuracy")]

    def cells(self, canvas: Canvas, curve: Curve) -> None:
        """Draw band and curve in characters; the part outside the band has a role of
        its own.
        """
        canvas.area(curve.band.x, curve.band.low, curve.band.high)
        canvas.diagonal()
        x, y = curve.isotonic.knots
        # Short pieces, so that the part outside the band can have another colour.
        fine = np.unique(
            np.concatenate([x, np.linspace(x[0], x[-1], 4 * canvas.width)])
        )
        middle = 0.5 * (fine[:-1] + fine[1:]) if len(fine) > 1 else fine
        inside = curve.band.contains(middle, np.interp(middle, x, y))
        roles = np.where(inside, "curve", "outside").tolist()
        if len(x) == 1:
            canvas.put(canvas.row(y[0]), canvas.column(x[0]), POINT, roles[0])
        else:
            canvas.line(fine, np.interp(fine, x, y), roles)
        if curve.fall is not None:
            bin_cells(canvas, curve)

    def marks(self) -> list[tuple[str, str]]:
        return [(f"{LINE} isotonic accuracy", "curve")]
