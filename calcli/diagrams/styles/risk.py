"""risk: accuracy among the most confident rows against their share (risk-coverage)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import squeeze, table
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.terminal import AXIS, Canvas, Look, plot
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray
from calcli.records import as_json
from calcli.statistics.intervals import wilson_interval

POINTS = 200


@dataclass(frozen=True)
class Coverage:
    """Accuracy of the most confident rows against their proportion; all (g,), coverage rising.

    threshold : rows with at least this confidence are kept. coverage : their proportion. accuracy,
    low, high : of the kept rows, with Wilson's interval. promised : their mean confidence.
    n : number of all rows. aurc : mean error over all coverages (area under the risk-coverage curve).
    """

    label: str
    n: int
    aurc: float
    threshold: FloatArray
    coverage: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    promised: FloatArray


@dataclass(frozen=True)
class Risk(Figure):
    """Risk-coverage curves of several bundles and calibrators."""

    title: str
    level: float
    curves: tuple[Coverage, ...]
    notes: tuple[str, ...] = ()

    ignores = ("label", "arrange", "bins", "scheme")

    @classmethod
    def measure(cls, request: Request) -> Figure:
        level, named = (
            request.settings.level,
            zip(request.sets, request.labels, strict=True),
        )
        curves = tuple(
            coverage_curve(label, s.table, level)
            for s, label in named
            if s.table.weights.sum() > 0
        )
        return Risk(request.what, level, curves, tuple(request.notes))

    def draw(self, paper: Paper) -> Any:
        """Draw accuracy against coverage, with a band around each curve where there are at most four."""
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter

        theme, count, wide = paper.theme, len(self.curves), paper.width or 4.7
        shown = (
            self.curves if count <= 8 else sorted(self.curves, key=lambda c: c.aurc)[:5]
        )
        across = 1 if count > 4 or max(len(_key(c)) for c in shown) > 5.5 * wide else 2
        lines = (
            -(-(len(shown) + (count > 8)) // across) if count > 1 or paper.stats else 0
        )
        height = 3.5 + 0.19 * lines
        plot_ = Figure(figsize=(wide, height))
        axes = plot_.add_axes(
            (
                0.62 / wide,
                (0.58 + 0.19 * lines) / height,
                1 - 0.82 / wide,
                2.55 / height,
            )
        )
        for c in self.curves:
            if not any(c is s for s in shown):
                axes.plot(c.coverage, c.accuracy, color=theme.others, lw=0.8, zorder=2)
        for at, c in enumerate(shown):
            colour, line, _ = (theme.main, "-", "") if count == 1 else paper.series(at)
            if count <= 4:
                axes.fill_between(
                    c.coverage, c.low, c.high, color=colour, alpha=0.16, lw=0, zorder=1
                )
            axes.plot(
                c.coverage,
                c.accuracy,
                color=colour,
                ls=line,
                lw=1.6,
                zorder=4,
                label=_key(c),
            )
        if count > len(shown):
            axes.plot(
                [],
                [],
                color=theme.others,
                lw=0.8,
                label=f"the other {count - len(shown)}",
            )
        least = min(
            float(np.min(c.low[c.coverage > 0.05], initial=1.0)) for c in self.curves
        )
        bottom = max(0.0, np.floor(least * 20) / 20 - 0.02)
        label = "coverage: proportion of the samples" + (
            ", the most confident first" if wide >= 4 else ""
        )
        axes.set(
            xlim=(0, 1),
            ylim=(bottom, 1.0),
            xlabel=label,
            ylabel="accuracy of the covered samples",
        )
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{100 * value:g} %")
        )
        axes.grid(True)
        axes.set_title(squeeze(self.title, int(12 * wide)), loc="left", pad=6)
        if lines:
            plot_.legend(
                loc="lower center",
                ncols=across,
                bbox_to_anchor=(0.53, 0.05 / height),
                borderpad=0,
            )
        return plot_

    def text(self, width: int, look: Look) -> list[str]:
        """A plot per curve, and a table of the accuracy at some coverages."""
        inner = min(width, 76) - AXIS - 1
        lines = [look.paint(squeeze(self.title, width), "strong"), ""]
        ticks = {f"{20 * at} %" if at else "0": at / 5 for at in range(6)}
        shares = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
        for c in self.curves:
            bottom = max(
                0.0,
                float(
                    np.floor(np.min(c.low[c.coverage > 0.05], initial=1.0) * 20) / 20
                ),
            )
            canvas = Canvas(inner, 10, (0.0, 1.0), (min(bottom, 0.95), 1.0), look)
            canvas.area(c.coverage, c.low, c.high)
            canvas.line(c.coverage, c.accuracy)
            title = squeeze(f"{c.label}, n = {c.n}, AURC {c.aurc:.4f}: accuracy", width)
            lines += [*plot(title, canvas, (f"{bottom:.2f}", "1.00"), ticks), ""]
        rows = [["accuracy at coverage", *(f"{100 * s:g} %" for s in shares)]]
        for c in self.curves:
            rows.append(
                [
                    squeeze(c.label, 20),
                    *(f"{x:.3f}" for x in np.interp(shares, c.coverage, c.accuracy)),
                ]
            )
        lines += [line[:width] for line in table(rows)]
        return lines + [squeeze(note, width) for note in self.notes]

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        rows = []
        for label, _, _, *columns in (as_json(c).values() for c in self.curves):
            rows += [(label, *values) for values in zip(*columns, strict=True)]
        return ("curve", *list(as_json(self.curves[0]))[3:]), rows

    def describe(self) -> str:
        return (
            "Accuracy among the most confident samples against their proportion. "
            + " ".join(
                f"{c.label}: {float(np.interp(0.5, c.coverage, c.accuracy)):.4f} at half coverage,"
                f" {c.accuracy[-1]:.4f} on all, area under the risk-coverage curve {c.aurc:.4f}."
                for c in self.curves
            )
        )


def most_confident(table: RowTable) -> tuple[FloatArray, FloatArray]:
    """Confidences in falling order, and sums (4, n + 1) over the 0 to n most confident rows: weight, weight of correct
    rows, weighted confidence, squared weight."""
    order = np.argsort(-table.confidence, kind="stable")
    c, correct, w = (
        column[order] for column in (table.confidence, table.correct, table.weights)
    )
    sums = np.cumsum([w, w * correct, w * c, w**2], axis=1)
    return c, np.concatenate([np.zeros((4, 1)), sums], axis=1)


def coverage_curve(label: str, table: RowTable, level: float = 0.95) -> Coverage:
    """Measure the accuracy of the rows above every threshold; ties are kept or left out together.

    Reference: El-Yaniv, Wiener (2010), JMLR 11.
    """
    c, sums = most_confident(table)
    ends = np.append(
        np.flatnonzero(np.diff(c)), len(c) - 1
    )  # the last row of every distinct confidence
    ends = ends[sums[0, ends + 1] > 0]
    mass, hits, *_ = sums[:, ends + 1]
    errors = 1.0 - np.minimum(hits / mass, 1.0)
    area = float((errors * np.diff(mass, prepend=0.0)).sum() / mass[-1])
    if len(ends) > POINTS:
        places = np.searchsorted(mass, np.linspace(0, mass[-1], POINTS), side="left")
        ends = ends[np.unique(places.clip(0, len(mass) - 1))]
    mass, hits, promised, square = sums[:, ends + 1]
    accuracy = np.minimum(hits / mass, 1.0)
    low, high = wilson_interval(
        accuracy, mass**2 / square / table.accuracy_effect, level
    )
    return Coverage(
        label,
        len(c),
        area,
        c[ends],
        mass / mass[-1],
        accuracy,
        low,
        high,
        promised / mass,
    )


def _key(curve: Coverage) -> str:
    return f"{squeeze(curve.label, 34)}, AURC {curve.aurc:.4f}"
