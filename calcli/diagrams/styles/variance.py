"""variance: variance of the confidence against ECE, a point per bundle and calibrator."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import cos, pi, sin
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import round_ticks, squeeze, table
from calcli.diagrams.curve import measure_curve
from calcli.diagrams.matplotlib_theme import Paper, log_ticks
from calcli.diagrams.style import Figure, Plotted, Request
from calcli.diagrams.terminal import AXIS, DIAGONAL, MARK, Canvas, Look, plot
from calcli.numerics import FloatArray
from calcli.records import as_json

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
FLOOR = 1e-6  # an ECE of exactly 0 has no logarithm


@dataclass(frozen=True)
class Point:
    """Variance of the confidence and ECE of one bundle under one calibrator.

    bundle, method : names of the two. variance : population variance of the confidence.
    ece, ece_null_mean : as in ``Curve``.
    """

    bundle: str
    method: str
    n: int
    variance: float
    ece: float
    ece_null_mean: float


@dataclass(frozen=True)
class Scatter(Figure):
    """Scatter plot of variance against ECE, of several bundles and calibrators.

    A constant confidence equal to the accuracy has no calibration error, but is useless: good calibrators lie on the
    left and high up. Reference: Jang, Ivanov, Lee, Weimer (2021), figure 3.
    """

    title: str
    points: tuple[Point, ...]

    ignores = ("label", "arrange", "level", "no_stats")

    @classmethod
    def measure(cls, request: Request) -> Figure:
        points = []
        for measured in request.sets:
            rows = measured.table
            if rows.weights.sum() <= 0:
                continue
            mean = np.average(rows.confidence, weights=rows.weight)
            squares = (rows.confidence - mean) ** 2
            curve = measure_curve(measured.label, rows, request.settings)
            point = Point(
                bundle=measured.bundle,
                method=measured.label,
                n=curve.n,
                variance=float(np.average(squares, weights=rows.weight)),
                ece=curve.ece,
                ece_null_mean=curve.ece_null_mean,
            )
            points.append(point)
        return Scatter(request.what, tuple(points))

    @property
    def bundles(self) -> list[str]:
        """Names of the bundles, each once."""
        return list(dict.fromkeys(point.bundle for point in self.points))

    @property
    def methods(self) -> list[str]:
        """Names of the calibrators, each once."""
        return list(dict.fromkeys(point.method for point in self.points))

    def draw(self, paper: Paper) -> Any:
        """Draw a marker per point, with a thin line to its ECE expected under
        calibration.
        """
        from matplotlib.figure import Figure

        bundles = self.bundles
        numbered = bundles if len(bundles) > 1 else []
        are_many = len(numbered) > 8
        wide = paper.width or (6.75 if are_many else 5.2)
        plane = 4.4 if are_many else 2.95
        keys_abreast = 3 if wide > 4 else 2
        foot = -(-len(numbered) // 2)
        lines = -(-(len(self.methods) + 1) // keys_abreast) + foot
        height = plane + 0.95 + 0.2 * lines
        figure = Figure(figsize=(wide, height))
        bottom = (0.62 + 0.2 * lines) / height
        axes = figure.add_axes((0.78 / wide, bottom, 1 - 0.96 / wide, plane / height))
        self._draw_points(axes, paper)
        axes.set_title(squeeze(self.title, int(13 * wide)), loc="left", pad=6)
        if numbered:
            marks = []
            for point in self.points:
                number = str(numbered.index(point.bundle) + 1)
                marks.append((max(point.ece, FLOOR), point.variance, number))
            theme = paper.theme
            place(axes, marks, size=6.5, colour=theme.ink, line=theme.muted)
        figure.legend(
            handles=self._handles(paper),
            loc="lower center",
            ncols=keys_abreast,
            bbox_to_anchor=(0.54, (0.06 + 0.2 * foot) / height),
            borderpad=0,
        )
        for index, bundle in enumerate(numbered):
            column, row = divmod(index, foot)  # downwards, as one reads a list
            x = (0.2 + (wide - 0.3) / 2 * column) / wide
            y = (0.1 + 0.2 * (foot - 1 - row)) / height
            name = squeeze(bundle, int(wide * 7))
            figure.text(x, y, f"{index + 1}  {name}", fontsize=7)
        return figure

    def _draw_points(self, axes: Any, paper: Paper) -> None:
        """Draw the markers and their lines, and set the axes."""
        theme = paper.theme
        methods = self.methods
        errors = []
        for point in self.points:
            colour, _, marker = paper.series(methods.index(point.method))
            x = max(point.ece, FLOOR)
            y = point.variance
            expected = max(point.ece_null_mean, FLOOR)
            errors += [x, expected]
            axes.plot([expected, x], [y] * 2, color=theme.others, lw=0.6, zorder=2)
            axes.plot([expected], [y], "|", color=theme.muted, ms=6, zorder=2)
            look = {"color": colour, "mec": theme.page, "mew": 0.5, "zorder": 4}
            axes.plot([x], [y], marker, ms=5.5, **look)
        low = min(errors) / 1.3
        high = max(errors) * 1.3
        top = 1.12 * max(point.variance for point in self.points) or 1.0
        axes.set(xscale="log", xlim=(low, high), xlabel="ECE (logarithmic)")
        axes.set(ylim=(0, top), ylabel="variance of the confidence")
        log_ticks(axes.xaxis, round_ticks(low, high))
        axes.grid(True)

    def _handles(self, paper: Paper) -> list[Any]:
        """Entries of the legend."""
        from matplotlib.lines import Line2D

        handles = []
        for number, method in enumerate(self.methods):
            colour, _, marker = paper.series(number)
            label = squeeze(method, 24)
            handles.append(
                Line2D([], [], color=colour, marker=marker, lw=0, label=label)
            )
        look: dict[str, Any] = {"color": paper.theme.muted, "marker": "|", "ms": 7}
        label = "ECE expected under calibration"
        return [*handles, Line2D([], [], lw=0.7, label=label, **look)]

    def text(self, width: int, look: Look) -> list[str]:
        """A plot with a letter per point, and a table of the points."""
        inner = min(width, 76) - AXIS - 1
        ece = _log10([point.ece for point in self.points])
        expected = _log10([point.ece_null_mean for point in self.points])
        variance = np.array([point.variance for point in self.points])
        low = float(np.minimum(ece, expected).min()) - 0.1
        high = float(np.maximum(ece, expected).max()) + 0.1
        top = float(variance.max()) * 1.08 or 1.0
        canvas = Canvas(inner, 16, (low, high), (0.0, top), look)
        for x, floor, y in zip(ece, expected, variance, strict=True):
            row = canvas.row(y)
            canvas.put(row, canvas.column(floor), MARK, "band")
            first, last = sorted((canvas.column(floor), canvas.column(x)))
            for column in range(first + 1, last):
                canvas.put(row, column, DIAGONAL, "band")
        names = LETTERS.ljust(len(ece), "+")[: len(ece)]
        for name, x, y in zip(names, ece, variance, strict=True):
            canvas.put(canvas.row(y), canvas.column(x), name, "curve")
        ticks = {}
        for tick in round_ticks(10**low, 10**high):
            ticks[f"{tick:g}"] = float(np.log10(tick))
        title = squeeze(f"{self.title}: variance of the confidence against ECE", width)
        lines = plot(title, canvas, ("0", f"{top:.3g}"), ticks)
        lines.append(f"ECE, logarithmic; {MARK} ECE expected under calibration")
        rows = [["", "", "n", "variance", "ECE", "(expected)"]]
        for name, point in zip(names, self.points, strict=True):
            rows.append(
                [
                    f"{name} {squeeze(point.bundle, 30)}",
                    squeeze(point.method, 16),
                    str(point.n),
                    f"{point.variance:.4f}",
                    f"{point.ece:.4f}",
                    f"({point.ece_null_mean:.4f})",
                ]
            )
        return lines + table(rows)

    def table(self) -> Plotted:
        rows = [list(as_json(point).values()) for point in self.points]
        return list(as_json(self.points[0])), rows

    def describe(self) -> str:
        sentences = []
        for point in self.points:
            sentences.append(
                f"{point.bundle}, {point.method}: variance {point.variance:.4f},"
                f" ECE {point.ece:.4f}."
            )
        return "Variance of the confidence against ECE. " + " ".join(sentences)


def _log10(values: Sequence[float]) -> FloatArray:
    """Logarithms, those of 0 of the floor."""
    return np.log10(np.maximum(values, FLOOR))


Box = tuple[float, float, float, float]
"""Left, bottom, right and top edge in pixels."""

RADII = (7.0, 12.0, 18.0, 26.0, 36.0)


def overlap(a: Box, b: Box) -> bool:
    """True if two boxes share more than an edge."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def place(
    axes: Any,
    points: Sequence[tuple[float, float, str]],
    *,
    size: float,
    colour: str,
    line: str,
) -> list[Box]:
    """Annotate (x, y, text) in free places nearby, farther ones with a leader line;
    returns the boxes taken.

    Axis limits must be final. A label that finds no free place within half an inch is
    left out: the table beneath still names its point.
    """
    scale = axes.figure.dpi / 72.0
    spots = [axes.transData.transform((x, y)) for x, y, _ in points]
    window = axes.get_window_extent()
    frame = (window.x0, window.y0, window.x1, window.y1)
    dots: list[Box] = []
    for x, y in spots:
        dots.append(_box(x, y, 8 * scale, 8 * scale))
    labels: list[Box] = []
    look = {
        "textcoords": "offset points",
        "fontsize": size,
        "color": colour,
        "ha": "center",
        "va": "center",
    }
    leader = {"arrowstyle": "-", "color": line, "lw": 0.4, "shrinkA": 1, "shrinkB": 3}
    for number, (point_x, point_y, text) in enumerate(points):
        x, y = spots[number]
        wide = 0.65 * size * len(text) * scale
        tall = size * scale
        obstacles = [*dots[:number], *dots[number + 1 :], *labels]
        for radius, step in product(RADII, range(16)):
            angle = pi / 4 - step * pi / 8
            label_x = x + (radius * scale + wide / 2) * cos(angle)
            label_y = y + radius * scale * sin(angle)
            box = _box(label_x, label_y, wide, tall)
            is_inside = (
                frame[0] < box[0]
                and box[2] < frame[2]
                and frame[1] < box[1]
                and box[3] < frame[3]
            )
            if not is_inside or any(overlap(box, other) for other in obstacles):
                continue
            axes.annotate(
                text,
                (point_x, point_y),
                ((label_x - x) / scale, (label_y - y) / scale),
                arrowprops=leader if radius > RADII[0] else None,
                zorder=6,
                **look,
            )
            labels.append(box)
            break
    return labels


def _box(x: float, y: float, width: float, height: float) -> Box:
    """A box around a point."""
    return (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
