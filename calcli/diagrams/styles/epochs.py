"""epochs: NLL and error of several bundles in their order, as of a file with one bundle per epoch."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import squeeze, table
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.panels import Measured
from calcli.diagrams.style import Figure, Plotted, Request
from calcli.diagrams.terminal import AXIS, Canvas, Look, heading, plot
from calcli.errors import UsageError
from calcli.numerics import FloatArray
from calcli.records import as_json
from calcli.statistics.intervals import mean_of, normal_quantile, wilson_interval


@dataclass(frozen=True)
class Course:
    """Losses of the uncalibrated scores, or of a calibrator, over all bundles; tuples have one value per bundle.

    nll, error : means over the rows. *_low, *_high : normal and Wilson intervals.
    """

    label: str
    nll: tuple[float, ...]
    nll_low: tuple[float, ...]
    nll_high: tuple[float, ...]
    error: tuple[float, ...]
    error_low: tuple[float, ...]
    error_high: tuple[float, ...]

    def of(self, name: str) -> tuple[list[FloatArray], int]:
        """A loss with the ends of its interval, and the index of its minimum, the first
        of ties.
        """
        values = np.array(getattr(self, name))
        low = np.array(getattr(self, f"{name}_low"))
        high = np.array(getattr(self, f"{name}_high"))
        return [values, low, high], int(np.argmin(values))


@dataclass(frozen=True)
class Epochs(Figure):
    """Losses over training, a line per calibrator.

    at : (m,) the epoch of every bundle, read from the end of its name, else 1, 2, …. bundles : their names.
    Reference: Guo, Pleiss, Sun, Weinberger (2017), figure 3.
    """

    title: str
    level: float
    axis: str
    bundles: tuple[str, ...]
    at: tuple[float, ...]
    courses: tuple[Course, ...]

    ignores = ("label", "arrange", "bins", "scheme")

    @classmethod
    def measure(cls, request: Request) -> Figure:
        """Measure a line per calibrator.

        Raises UsageError for one bundle, or a calibrator not on all of them.
        """
        bundles = request.bundles
        if len(bundles) < 2:
            raise UsageError(
                "--style epochs draws bundles in their order: give two or more, e.g."
                " 'epochs.h5:*'"
            )
        labels = request.calibrators
        by = {(measured.bundle, measured.label): measured for measured in request.sets}
        if len(by) != len(bundles) * len(labels):
            raise UsageError(
                "--style epochs shows each calibrator on every bundle; leave --match"
                " out"
            )
        axis, positions = places(bundles)
        order = np.argsort(positions, kind="stable")
        bundles = [bundles[i] for i in order]
        level = request.settings.level
        courses = []
        for label in labels:
            sets = [by[bundle, label] for bundle in bundles]
            courses.append(course(label, sets, level))
        return Epochs(
            request.what,
            level,
            axis,
            tuple(bundles),
            tuple(positions[i] for i in order),
            tuple(courses),
        )

    def draw(self, paper: Paper) -> Any:
        """Draw both losses in axes of their own, with a ring at each minimum."""
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        are_many = len(self.courses) > 1
        wide = paper.width or 6.75
        are_abreast = wide >= 5
        height = (2.9 if are_abreast else 4.9) + 0.3 * are_many
        figure = Figure(figsize=(wide, height), layout="constrained")
        planes = figure.subplots(1, 2) if are_abreast else figure.subplots(2, 1)
        for axes, (name, title) in zip(planes, LOSSES.items(), strict=True):
            for number in range(len(self.courses)):
                self._draw_course(axes, number, name, paper)
            axes.margins(y=0.16)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel(self.axis)
            axes.set_title(title, loc="left", pad=4)
            axes.grid(True)
        if self.title:
            title = squeeze(self.title, int(12 * wide))
            figure.suptitle(title, x=0.02, ha="left", fontsize=9)
        if are_many:
            handles, labels = planes[0].get_legend_handles_labels()
            columns = min(len(labels), 4)
            figure.legend(handles, labels, loc="outside lower center", ncols=columns)
        return figure

    def _draw_course(self, axes: Any, number: int, name: str, paper: Paper) -> None:
        """Draw one loss of course ``number``."""
        drawn = self.courses[number]
        is_alone = len(self.courses) == 1
        colour, line, _ = paper.series(number)
        if is_alone:
            colour = paper.theme.main
            line = "-"
        (values, low, high), best = drawn.of(name)
        x = self.at
        axes.fill_between(x, low, high, color=colour, alpha=0.16, lw=0, zorder=1)
        label = squeeze(drawn.label, 30)
        axes.plot(x, values, color=colour, ls=line, lw=1.5, zorder=3, label=label)
        ring = {"mec": colour, "mfc": "none", "ms": 7, "zorder": 4}
        axes.plot([x[best]], [values[best]], "o", **ring)
        if not paper.stats or not is_alone:
            return  # the numbers of several lines would overlap
        side = "center"
        if best == 0:
            side = "left"
        elif best == len(values) - 1:
            side = "right"
        axes.annotate(
            f"{values[best]:.4g}",
            (x[best], values[best]),
            xytext=(0, -12),
            textcoords="offset points",
            ha=side,
            fontsize=6.5,
            color=paper.theme.muted,
        )

    def text(self, width: int, look: Look) -> list[str]:
        """A plot per line and loss, and a table of the minima."""
        inner = min(width, 76) - AXIS - 1
        x = np.array(self.at)
        ticks = {f"{self.at[0]:g}": self.at[0], f"{self.at[-1]:g}": self.at[-1]}
        lines = heading(self.title, width, look)
        for drawn in self.courses:
            for name, loss in LOSSES.items():
                (values, low, high), _ = drawn.of(name)
                bottom = float(low.min())
                top = float(high.max())
                reach = (bottom, max(top, bottom + 1e-9))
                canvas = Canvas(inner, 8, (self.at[0], self.at[-1]), reach, look)
                canvas.area(x, low, high)
                canvas.line(x, values)
                title = squeeze(f"{drawn.label}: {loss} over the {self.axis}s", width)
                labels = (f"{bottom:.3g}", f"{top:.3g}")
                lines += [*plot(title, canvas, labels, ticks), ""]
        head = [""]
        for name in LOSSES:
            head += [f"least {name}", f"at {self.axis}", "last"]
        rows = [head]
        for drawn in self.courses:
            row = [squeeze(drawn.label, 24)]
            for name in LOSSES:
                (values, *_), best = drawn.of(name)
                row.append(f"{values[best]:.4f}")
                row.append(f"{self.at[best]:g}")
                row.append(f"{values[-1]:.4f}")
            rows.append(row)
        return lines + [line[:width] for line in table(rows)]

    def table(self) -> Plotted:
        rows = []
        for drawn in self.courses:
            label, *columns = as_json(drawn).values()
            for values in zip(self.bundles, self.at, *columns, strict=True):
                rows.append((label, *values))
        return ("curve", "bundle", "epoch", *list(as_json(self.courses[0]))[1:]), rows

    def describe(self) -> str:
        words = [f"NLL and error over {len(self.at)} bundles."]
        for c in self.courses:
            for name, what in (("nll", "NLL"), ("error", "error")):
                (values, *_), best = c.of(name)
                place = f"{self.axis} {self.at[best]:g}"
                words.append(
                    f"{c.label}: {what} is least at {place}, {values[best]:.4f},"
                    f" and ends at {values[-1]:.4f}."
                )
        return " ".join(words)


LOSSES = {"nll": "negative log-likelihood", "error": "error"}


def places(bundles: Sequence[str]) -> tuple[str, list[float]]:
    """Unit of the axis, and position of each bundle: the numbers that end their names
    if all differ, else 1, 2, ….
    """
    numbers = []
    for bundle in bundles:
        match = re.search(r"(\d+)(?:\.\w+)?(?::[A-Za-z]+)?$", bundle)
        if match:
            numbers.append(float(match.group(1)))
    if len(set(numbers)) == len(bundles):
        return "epoch", numbers
    return "bundle", list(map(float, range(1, len(bundles) + 1)))


def course(label: str, sets: Sequence[Measured], level: float) -> Course:
    """Measure the losses of row tables, in their order."""
    quantile = normal_quantile(0.5 + level / 2)
    columns = []
    for measured in sets:
        t = measured.table
        nll = mean_of(t.nll, t.weight, t.units)
        reach = quantile * nll.se if np.isfinite(nll.se) else 0.0
        error = float(np.average(1.0 - t.correct, weights=t.weight))
        n = t.n if t.weight is None else t.weight.sum() ** 2 / (t.weight**2).sum()
        n_effective = np.array(n) / t.accuracy_effect
        low, high = wilson_interval(np.array(error), n_effective, level)
        of_nll = (nll.value, nll.value - reach, nll.value + reach)
        columns.append((*of_nll, error, float(low), float(high)))
    rows = [tuple(map(float, column)) for column in zip(*columns, strict=True)]
    return Course(label, *rows)
