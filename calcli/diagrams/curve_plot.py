"""Base of styles that draw curves with bands in one pair of axes, a legend beneath."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.caption_text import table as text_table
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.style import Figure, Plotted
from calcli.diagrams.terminal import AXIS, Canvas, Look, heading
from calcli.numerics import FloatArray
from calcli.records import as_json

MOST_WITH_BANDS = 4
"""Largest number of curves that are drawn with their bands."""


class CurvePlot(Figure):
    """Curves of one or more versions over the same axis.

    curves : dataclasses with a label and arrays (t,), the columns of ``table``; ``low``
    and ``high`` are the band. notes : lines for the reader, beneath all.
    """

    curves: tuple[Any, ...]
    notes: tuple[str, ...]

    @abstractmethod
    def legend_grid(self, paper: Paper) -> tuple[int, int]:
        """Columns and lines of the legend."""

    @abstractmethod
    def draw_curves(self, axes: Any, paper: Paper) -> None:
        """Draw all curves, and set limits and labels of the axes."""

    @abstractmethod
    def plots(self, width: int, look: Look) -> list[list[str]]:
        """A terminal drawing of every curve."""

    @abstractmethod
    def numbers(self) -> list[list[str]]:
        """Rows of the table beneath the terminal drawings."""

    def draw(self, paper: Paper) -> Any:
        """Draw the curves in one pair of axes, with bands of up to four."""
        from matplotlib.figure import Figure as MatplotlibFigure

        wide = inches_wide(paper)
        across, lines = self.legend_grid(paper)
        height = 3.5 + 0.19 * lines
        picture = MatplotlibFigure(figsize=(wide, height))
        bottom = (0.58 + 0.19 * lines) / height
        axes = picture.add_axes((0.62 / wide, bottom, 1 - 0.82 / wide, 2.55 / height))
        self.draw_curves(axes, paper)
        axes.grid(True)
        axes.set_title(squeeze(self.title, int(12 * wide)), loc="left", pad=6)
        if lines:
            picture.legend(
                loc="lower center",
                ncols=across,
                bbox_to_anchor=(0.53, 0.05 / height),
                borderpad=0,
            )
        return picture

    def draw_curve(
        self,
        axes: Any,
        number: int,
        points: Sequence[FloatArray],
        name: str,
        paper: Paper,
    ) -> None:
        """Draw a curve with its band.

        number : of the curve, which gives it its colour. points : x, y, and both ends
        of the band. name : in the legend.
        """
        x, y, low, high = points
        colour, line, _ = paper.series(number)
        if len(self.curves) == 1:
            colour = paper.theme.main
            line = "-"
        if len(self.curves) <= MOST_WITH_BANDS:
            axes.fill_between(x, low, high, color=colour, alpha=0.16, lw=0, zorder=1)
        axes.plot(x, y, color=colour, ls=line, lw=1.6, zorder=4, label=name)

    def text(self, width: int, look: Look) -> list[str]:
        """A plot of every curve, a table of numbers, and the notes."""
        lines = heading(self.title, width, look)
        for drawn in self.plots(width, look):
            lines += [*drawn, ""]
        lines += [line[:width] for line in text_table(self.numbers())]
        return lines + [squeeze(note, width) for note in self.notes]

    def table(self) -> Plotted:
        rows = []
        for curve in self.curves:
            columns = arrays_of(curve)
            for values in zip(*columns.values(), strict=True):
                rows.append((curve.label, *values))
        return ("curve", *arrays_of(self.curves[0])), rows


def arrays_of(curve: Any) -> dict[str, list[float]]:
    """The arrays among the fields of a curve, as lists."""
    fields = as_json(curve)
    return {name: value for name, value in fields.items() if isinstance(value, list)}


def inches_wide(paper: Paper) -> float:
    """Inches of a picture with one pair of axes."""
    return paper.width or 4.7


def canvas_of(
    width: int, x: tuple[float, float], y: tuple[float, float], look: Look
) -> Canvas:
    """A canvas for a curve on a terminal of so many characters."""
    return Canvas(min(width, 76) - AXIS - 1, 10, x, y, look)
