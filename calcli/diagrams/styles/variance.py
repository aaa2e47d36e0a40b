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
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.terminal import AXIS, DIAGONAL, MARK, Canvas, Look, plot
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
        for s in request.sets:
            if s.table.weights.sum() > 0:
                c, weight = s.table.confidence, s.table.weight
                curve = measure_curve(s.label, s.table, request.settings)
                variance = float(
                    np.average((c - np.average(c, weights=weight)) ** 2, weights=weight)
                )
                points.append(
                    Point(
                        s.bundle,
                        s.label,
                        curve.n,
                        variance,
                        curve.ece,
                        curve.ece_null_mean,
                    )
                )
        return Scatter(request.what, tuple(points))

    def draw(self, paper: Paper) -> Any:
        """Draw a marker per point, with a thin line to its ECE expected under calibration."""
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        theme = paper.theme
        bundles = list(dict.fromkeys(p.bundle for p in self.points))
        methods = list(dict.fromkeys(p.method for p in self.points))
        named = len(bundles) if len(bundles) > 1 else 0
        wide = paper.width or (5.2 if named <= 8 else 6.75)
        across, foot = 3 if wide > 4 else 2, -(-named // 2)
        lines = -(-(len(methods) + 1) // across) + foot
        plane = 2.95 if named <= 8 else 4.4
        height = plane + 0.95 + 0.2 * lines
        figure = Figure(figsize=(wide, height))
        axes = figure.add_axes(
            (
                0.78 / wide,
                (0.62 + 0.2 * lines) / height,
                1 - 0.96 / wide,
                plane / height,
            )
        )
        marks = []
        for p in self.points:
            colour, _, marker = paper.series(methods.index(p.method))
            x, null = max(p.ece, FLOOR), max(p.ece_null_mean, FLOOR)
            axes.plot([null, x], [p.variance] * 2, color=theme.others, lw=0.6, zorder=2)
            axes.plot([null], [p.variance], "|", color=theme.muted, ms=6, zorder=2)
            axes.plot(
                [x],
                [p.variance],
                marker,
                color=colour,
                ms=5.5,
                mec=theme.page,
                mew=0.5,
                zorder=4,
            )
            marks.append(
                (x, p.variance, str(bundles.index(p.bundle) + 1) if named else "")
            )
        reach = [max(v, FLOOR) for p in self.points for v in (p.ece, p.ece_null_mean)]
        low, high = min(reach) / 1.3, max(reach) * 1.3
        top = 1.12 * max(p.variance for p in self.points) or 1.0
        axes.set(xscale="log", xlim=(low, high), xlabel="ECE (logarithmic)")
        axes.set(ylim=(0, top), ylabel="variance of the confidence")
        log_ticks(axes.xaxis, round_ticks(low, high))
        axes.grid(True)
        axes.set_title(squeeze(self.title, int(13 * wide)), loc="left", pad=6)
        if named:
            place(axes, marks, size=6.5, colour=theme.ink, line=theme.muted)
        handles = []
        for at, method in enumerate(methods):
            colour, _, marker = paper.series(at)
            handles.append(
                Line2D(
                    [], [], color=colour, marker=marker, lw=0, label=squeeze(method, 24)
                )
            )
        tick: dict[str, Any] = {"color": theme.muted, "marker": "|", "ms": 7, "lw": 0.7}
        handles.append(Line2D([], [], **tick, label="ECE expected under calibration"))
        anchor = (0.54, (0.06 + 0.2 * foot) / height)
        figure.legend(
            handles=handles,
            loc="lower center",
            ncols=across,
            bbox_to_anchor=anchor,
            borderpad=0,
        )
        for at in range(named):
            column, row = divmod(at, foot)  # downwards, as one reads a list
            x, y = (
                (0.2 + (wide - 0.3) / 2 * column) / wide,
                (0.1 + 0.2 * (foot - 1 - row)) / height,
            )
            figure.text(
                x, y, f"{at + 1}  {squeeze(bundles[at], int(wide * 7))}", fontsize=7
            )
        return figure

    def text(self, width: int, look: Look) -> list[str]:
        """A plot with a letter per point, and a table of the points."""
        inner = min(width, 76) - AXIS - 1
        ece, null = np.log10(
            np.maximum([(p.ece, p.ece_null_mean) for p in self.points], FLOOR)
        ).T
        variance = np.array([p.variance for p in self.points])
        span = (
            float(np.minimum(ece, null).min()) - 0.1,
            float(np.maximum(ece, null).max()) + 0.1,
        )
        top = float(variance.max()) * 1.08 or 1.0
        canvas = Canvas(inner, 16, span, (0.0, top), look)
        names = [LETTERS[at] if at < len(LETTERS) else "+" for at in range(len(ece))]
        for x, floor, y in zip(ece, null, variance, strict=True):
            canvas.put(canvas.row(y), canvas.column(floor), MARK, "band")
            first, last = sorted((canvas.column(floor), canvas.column(x)))
            for column in range(first + 1, last):
                canvas.put(canvas.row(y), column, DIAGONAL, "band")
        for name, x, y in zip(names, ece, variance, strict=True):
            canvas.put(canvas.row(y), canvas.column(x), name, "curve")
        ticks = {
            f"{t:g}": float(np.log10(t))
            for t in round_ticks(10 ** span[0], 10 ** span[1])
        }
        title = squeeze(f"{self.title}: variance of the confidence against ECE", width)
        lines = plot(title, canvas, ("0", f"{top:.3g}"), ticks)
        lines.append(f"ECE, logarithmic; {MARK} ECE expected under calibration")
        rows = [["", "", "n", "variance", "ECE", "(expected)"]]
        for name, p in zip(names, self.points, strict=True):
            called = f"{name} {squeeze(p.bundle, 30)}", squeeze(p.method, 16), str(p.n)
            rows.append(
                [
                    *called,
                    f"{p.variance:.4f}",
                    f"{p.ece:.4f}",
                    f"({p.ece_null_mean:.4f})",
                ]
            )
        return lines + table(rows)

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return list(as_json(self.points[0])), [
            list(as_json(p).values()) for p in self.points
        ]

    def describe(self) -> str:
        return "Variance of the confidence against ECE. " + " ".join(
            f"{p.bundle}, {p.method}: variance {p.variance:.4f}, ECE {p.ece:.4f}."
            for p in self.points
        )


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
    """Annotate (x, y, text) in free places nearby, farther ones with a leader line; returns the boxes taken.

    Axis limits must be final. A label that finds no free place within half an inch is left
    out: the table beneath still names its point.
    """
    scale = axes.figure.dpi / 72.0
    spots = [axes.transData.transform((x, y)) for x, y, _ in points]
    frame = axes.get_window_extent()
    taken: list[Box] = [
        (x - 4 * scale, y - 4 * scale, x + 4 * scale, y + 4 * scale) for x, y in spots
    ]
    dots = list(taken)
    look = {
        "textcoords": "offset points",
        "fontsize": size,
        "color": colour,
        "ha": "center",
        "va": "center",
    }
    for (x, y), dot, (px, py, text) in zip(spots, dots, points, strict=True):
        wide, tall = 0.65 * size * len(text) * scale, size * scale
        for radius, step in product(RADII, range(16)):
            angle = pi / 4 - step * pi / 8
            cx, cy = (
                x + (radius * scale + wide / 2) * cos(angle),
                y + radius * scale * sin(angle),
            )
            box = (cx - wide / 2, cy - tall / 2, cx + wide / 2, cy + tall / 2)
            inside = (
                frame.x0 < box[0]
                and box[2] < frame.x1
                and frame.y0 < box[1]
                and box[3] < frame.y1
            )
            if inside and not any(
                overlap(box, other) for other in taken if other is not dot
            ):
                far = (
                    {
                        "arrowstyle": "-",
                        "color": line,
                        "lw": 0.4,
                        "shrinkA": 1,
                        "shrinkB": 3,
                    }
                    if radius > 7
                    else None
                )
                shift = ((cx - x) / scale, (cy - y) / scale)
                axes.annotate(text, (px, py), shift, arrowprops=far, zorder=6, **look)
                taken.append(box)
                break
    return taken[len(dots) :]
