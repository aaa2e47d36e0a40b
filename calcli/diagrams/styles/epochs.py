"""epochs: NLL and error of several bundles in their order, as of a file with one bundle per epoch."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import squeeze, table
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.panels import Measured
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.terminal import AXIS, Canvas, Look, plot
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
        """A loss with the ends of its interval, and the index of its minimum, the first of ties."""
        values, low, high = (
            np.array(getattr(self, each))
            for each in (name, f"{name}_low", f"{name}_high")
        )
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
        """Measure a line per calibrator. Raises UsageError for one bundle, or a calibrator not on all of them."""
        bundles = list(dict.fromkeys(s.bundle for s in request.sets))
        if len(bundles) < 2:
            raise UsageError(
                "--style epochs draws bundles in their order: give two or more, e.g. 'epochs.h5:*'"
            )
        labels = list(dict.fromkeys(s.label for s in request.sets))
        by = {(s.bundle, s.label): s for s in request.sets}
        if len(by) != len(bundles) * len(labels):
            raise UsageError(
                "--style epochs shows each calibrator on every bundle; leave --match out"
            )
        axis, at = places(bundles)
        order = np.argsort(at, kind="stable")
        bundles, at = [bundles[i] for i in order], [at[i] for i in order]
        courses = tuple(
            course(label, [by[b, label] for b in bundles], request.settings.level)
            for label in labels
        )
        return Epochs(
            request.what,
            request.settings.level,
            axis,
            tuple(bundles),
            tuple(at),
            courses,
        )

    def draw(self, paper: Paper) -> Any:
        """Draw both losses in axes of their own, with a ring at each minimum."""
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        theme, many, wide = paper.theme, len(self.courses) > 1, paper.width or 6.75
        beside = wide >= 5
        drawn = Figure(
            figsize=(wide, (2.9 if beside else 4.9) + 0.3 * many), layout="constrained"
        )
        planes = drawn.subplots(1, 2) if beside else drawn.subplots(2, 1)
        for axes, (name, what) in zip(planes, LOSSES.items(), strict=True):
            for i, c in enumerate(self.courses):
                colour, line, _ = paper.series(i) if many else (theme.main, "-", "")
                (values, low, high), best = c.of(name)
                axes.fill_between(
                    self.at, low, high, color=colour, alpha=0.16, lw=0, zorder=1
                )
                axes.plot(
                    self.at,
                    values,
                    color=colour,
                    ls=line,
                    lw=1.5,
                    zorder=3,
                    label=squeeze(c.label, 30),
                )
                axes.plot(
                    [self.at[best]],
                    [values[best]],
                    "o",
                    mec=colour,
                    mfc="none",
                    ms=7,
                    zorder=4,
                )
                if (
                    paper.stats and not many
                ):  # the numbers of several lines would overlap
                    side = (
                        "left"
                        if best == 0
                        else "right"
                        if best == len(values) - 1
                        else "center"
                    )
                    look = {
                        "textcoords": "offset points",
                        "ha": side,
                        "fontsize": 6.5,
                        "color": theme.muted,
                    }
                    axes.annotate(
                        f"{values[best]:.4g}",
                        (self.at[best], values[best]),
                        xytext=(0, -12),
                        **look,
                    )
            axes.margins(y=0.16)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel(self.axis)
            axes.set_title(what, loc="left", pad=4)
            axes.grid(True)
        if self.title:
            drawn.suptitle(
                squeeze(self.title, int(12 * wide)), x=0.02, ha="left", fontsize=9
            )
        if many:
            handles, labels = planes[0].get_legend_handles_labels()
            drawn.legend(
                handles, labels, loc="outside lower center", ncols=min(len(labels), 4)
            )
        return drawn

    def text(self, width: int, look: Look) -> list[str]:
        """A plot per line and loss, and a table of the minima."""
        inner, at = min(width, 76) - AXIS - 1, self.at
        lines = [look.paint(squeeze(self.title, width), "strong"), ""]
        for c in self.courses:
            for name, what in LOSSES.items():
                (values, low, high), _ = c.of(name)
                ends = float(low.min()), float(high.max())
                canvas = Canvas(
                    inner,
                    8,
                    (at[0], at[-1]),
                    (ends[0], max(ends[1], ends[0] + 1e-9)),
                    look,
                )
                canvas.area(np.array(at), low, high)
                canvas.line(np.array(at), values)
                title = squeeze(f"{c.label}: {what} over the {self.axis}s", width)
                labels = (f"{ends[0]:.3g}", f"{ends[1]:.3g}")
                lines += [
                    *plot(
                        title,
                        canvas,
                        labels,
                        {f"{each:g}": each for each in (at[0], at[-1])},
                    ),
                    "",
                ]
        rows = [
            [
                "",
                *(
                    word
                    for what in LOSSES
                    for word in (f"least {what}", f"at {self.axis}", "last")
                ),
            ]
        ]
        for c in self.courses:
            rows.append([squeeze(c.label, 24)])
            for name in LOSSES:
                (values, *_), best = c.of(name)
                rows[-1] += [
                    f"{values[best]:.4f}",
                    f"{at[best]:g}",
                    f"{values[-1]:.4f}",
                ]
        return lines + [line[:width] for line in table(rows)]

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        rows = []
        for label, *columns in (as_json(c).values() for c in self.courses):
            rows += [
                (label, *values)
                for values in zip(self.bundles, self.at, *columns, strict=True)
            ]
        return ("curve", "bundle", "epoch", *list(as_json(self.courses[0]))[1:]), rows

    def describe(self) -> str:
        words = [f"NLL and error over {len(self.at)} bundles."]
        for c in self.courses:
            for name, what in (("nll", "NLL"), ("error", "error")):
                (values, *_), best = c.of(name)
                least = f"{what} is least at {self.axis} {self.at[best]:g}, {values[best]:.4f}"
                words.append(f"{c.label}: {least}, and ends at {values[-1]:.4f}.")
        return " ".join(words)


LOSSES = {"nll": "negative log-likelihood", "error": "error"}


def places(bundles: Sequence[str]) -> tuple[str, list[float]]:
    """Unit of the axis, and position of each bundle: the numbers that end their names if all differ, else 1, 2, …."""
    found = [
        re.search(r"(\d+)(?:\.\w+)?(?::[A-Za-z]+)?$", bundle) for bundle in bundles
    ]
    numbers = [float(match.group(1)) for match in found if match]
    if len(set(numbers)) == len(bundles):
        return "epoch", numbers
    return "bundle", [float(i) for i in range(1, len(bundles) + 1)]


def course(label: str, sets: Sequence[Measured], level: float) -> Course:
    """Measure the losses of row tables, in their order."""
    reach, columns = normal_quantile(0.5 + level / 2), []
    for s in sets:
        t = s.table
        nll = mean_of(t.nll, t.weight, t.units)
        error = float(np.average(1.0 - t.correct, weights=t.weight))
        n = t.n if t.weight is None else t.weight.sum() ** 2 / (t.weight**2).sum()
        low, high = wilson_interval(
            np.array(error), np.array(n) / t.accuracy_effect, level
        )
        far = reach * nll.se if np.isfinite(nll.se) else 0.0
        columns.append(
            (
                nll.value,
                nll.value - far,
                nll.value + far,
                error,
                float(low),
                float(high),
            )
        )
    return Course(
        label, *(tuple(map(float, column)) for column in zip(*columns, strict=True))
    )
