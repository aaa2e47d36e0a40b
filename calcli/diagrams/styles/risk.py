"""risk: accuracy among the most confident rows against their share (risk-coverage)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.curve_plot import CurvePlot, canvas_of, inches_wide
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.terminal import Look, plot
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray
from calcli.statistics.intervals import wilson_interval

POINTS = 200  # of a curve
IN_COLOUR = 8  # largest number of curves that are all coloured
BEST = 5  # coloured curves of more


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
class Risk(CurvePlot):
    """Risk-coverage curves of several bundles and calibrators."""

    title: str
    level: float
    curves: tuple[Coverage, ...]
    notes: tuple[str, ...] = ()

    ignores = ("label", "arrange", "bins", "scheme")

    @classmethod
    def measure(cls, request: Request) -> Figure:
        level = request.settings.level
        curves = []
        for measured, label in zip(request.sets, request.labels, strict=True):
            if measured.table.weights.sum() > 0:
                curves.append(coverage_curve(label, measured.table, level))
        return Risk(request.what, level, tuple(curves), tuple(request.notes))

    def legend_grid(self, paper: Paper) -> tuple[int, int]:
        """Columns and lines of the legend, which one curve has only with its numbers."""
        coloured = self.coloured
        count = len(self.curves)
        longest = max(len(_key(curve)) for curve in coloured)
        across = 2
        if count > 4 or longest > 5.5 * inches_wide(paper):
            across = 1
        if count == 1 and not paper.stats:
            return across, 0
        entries = len(coloured)
        if count > len(coloured):
            entries += 1
        return across, -(-entries // across)

    def draw_curves(self, axes: Any, paper: Paper) -> None:
        """Draw accuracy against coverage; of many curves all but the best are grey."""
        from matplotlib.ticker import FuncFormatter

        coloured = self.coloured
        others = [curve for curve in self.curves if not _is_one_of(curve, coloured)]
        grey: dict[str, Any] = {"color": paper.theme.others, "lw": 0.8}
        for curve in others:
            axes.plot(curve.coverage, curve.accuracy, zorder=2, **grey)
        for place, curve in enumerate(coloured):
            points = (curve.coverage, curve.accuracy, curve.low, curve.high)
            self.draw_curve(axes, place, points, _key(curve), paper)
        if others:
            axes.plot([], [], label=f"the other {len(others)}", **grey)
        least = min(map(_least_accuracy, self.curves))
        label = "coverage: proportion of the samples"
        if inches_wide(paper) >= 4:
            label += ", the most confident first"
        axes.set(
            xlim=(0, 1),
            ylim=(max(0.0, np.floor(least * 20) / 20 - 0.02), 1.0),
            xlabel=label,
            ylabel="accuracy of the covered samples",
        )
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{100 * value:g} %")
        )

    @property
    def coloured(self) -> Sequence[Coverage]:
        """The curves that are not grey: all, or of many the best."""
        if len(self.curves) <= IN_COLOUR:
            return self.curves
        return sorted(self.curves, key=lambda curve: curve.aurc)[:BEST]

    def plots(self, width: int, look: Look) -> list[list[str]]:
        """A plot of every curve."""
        ticks = {"0": 0.0, "20 %": 0.2, "40 %": 0.4, "60 %": 0.6, "80 %": 0.8}
        ticks["100 %"] = 1.0
        drawn = []
        for curve in self.curves:
            bottom = max(0.0, float(np.floor(_least_accuracy(curve) * 20) / 20))
            canvas = canvas_of(width, (0.0, 1.0), (min(bottom, 0.95), 1.0), look)
            canvas.area(curve.coverage, curve.low, curve.high)
            canvas.line(curve.coverage, curve.accuracy)
            title = f"{curve.label}, n = {curve.n}, AURC {curve.aurc:.4f}: accuracy"
            ends = (f"{bottom:.2f}", "1.00")
            drawn.append(plot(squeeze(title, width), canvas, ends, ticks))
        return drawn

    def numbers(self) -> list[list[str]]:
        """The accuracy at some coverages."""
        coverages = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
        head = [f"{100 * coverage:g} %" for coverage in coverages]
        rows = [["accuracy at coverage", *head]]
        for curve in self.curves:
            accuracies = np.interp(coverages, curve.coverage, curve.accuracy)
            cells = [f"{accuracy:.3f}" for accuracy in accuracies]
            rows.append([squeeze(curve.label, 20), *cells])
        return rows

    def describe(self) -> str:
        sentences = []
        for curve in self.curves:
            at_half = float(np.interp(0.5, curve.coverage, curve.accuracy))
            sentences.append(
                f"{curve.label}: {at_half:.4f} at half coverage,"
                f" {curve.accuracy[-1]:.4f} on all, area under the risk-coverage curve"
                f" {curve.aurc:.4f}."
            )
        return (
            "Accuracy among the most confident samples against their proportion. "
            + " ".join(sentences)
        )


def _is_one_of(curve: Coverage, curves: Sequence[Coverage]) -> bool:
    return any(curve is other for other in curves)


def _least_accuracy(curve: Coverage) -> float:
    """Lower end of the intervals, beyond the first rows, whose intervals are wide."""
    return float(np.min(curve.low[curve.coverage > 0.05], initial=1.0))


def most_confident(table: RowTable) -> tuple[FloatArray, FloatArray]:
    """Confidences in falling order, and sums (4, n + 1) over the 0 to n most confident
    rows.

    Sums of: weight, weight of correct rows, weighted confidence, squared weight.
    """
    order = np.argsort(-table.confidence, kind="stable")
    confidence = table.confidence[order]
    correct = table.correct[order]
    weight = table.weights[order]
    columns = [weight, weight * correct, weight * confidence, weight**2]
    sums = np.cumsum(columns, axis=1)
    return confidence, np.concatenate([np.zeros((4, 1)), sums], axis=1)


def coverage_curve(label: str, table: RowTable, level: float = 0.95) -> Coverage:
    """Measure the accuracy of the rows above every threshold; ties are kept or left out
    together.

    Reference: El-Yaniv, Wiener (2010), JMLR 11.
    """
    confidence, sums = most_confident(table)
    # The last row of every distinct confidence.
    ends = np.append(np.flatnonzero(np.diff(confidence)), len(confidence) - 1)
    ends = ends[sums[0, ends + 1] > 0]
    mass, hits, *_ = sums[:, ends + 1]
    errors = 1.0 - np.minimum(hits / mass, 1.0)
    area = float((errors * np.diff(mass, prepend=0.0)).sum() / mass[-1])
    if len(ends) > POINTS:
        places = np.searchsorted(mass, np.linspace(0, mass[-1], POINTS), side="left")
        ends = ends[np.unique(places.clip(0, len(mass) - 1))]
    mass, hits, promised, square = sums[:, ends + 1]
    accuracy = np.minimum(hits / mass, 1.0)
    n_effective = mass**2 / square / table.accuracy_effect
    low, high = wilson_interval(accuracy, n_effective, level)
    return Coverage(
        label=label,
        n=len(confidence),
        aurc=area,
        threshold=confidence[ends],
        coverage=mass / mass[-1],
        accuracy=accuracy,
        low=low,
        high=high,
        promised=promised / mass,
    )


def _key(curve: Coverage) -> str:
    return f"{squeeze(curve.label, 34)}, AURC {curve.aurc:.4f}"
