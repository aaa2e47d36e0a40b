"""decision: net benefit of acting on P(class 1) against the threshold (decision curve)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.curve_plot import CurvePlot, canvas_of
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.terminal import Look, plot
from calcli.errors import UsageError
from calcli.metrics.context import MetricContext
from calcli.metrics.risk import effective_rows
from calcli.metrics.rowtable import RowTable
from calcli.metrics.settings import MetricSettings
from calcli.numerics import FloatArray, IntArray
from calcli.statistics.decisions import DecisionCurve, benefit_interval

POINTS = 100  # thresholds of a curve
RARE = 0.001  # share of the rows whose P(class 1) may lie beyond the last threshold
LEAST_RANGE = 2.0  # last threshold, in frequencies of class 1, at least
LAST = 0.99  # largest threshold
BENEATH = 0.25  # depth of the axes below 0, in frequencies of class 1
LEAST_DEPTH = 0.01  # depth of the axes below 0 without an event, at least
SHOWN = 6  # thresholds of the table under a terminal drawing


@dataclass(frozen=True)
class Benefit:
    """Net benefit of one set of rows against the threshold; all (t,), threshold rising.

    benefit, low, high : of acting on the rows whose P(class 1) is at least the
    threshold, with its interval. treat_all : of acting on every row. n : rows.
    frequency : of class 1.
    """

    label: str
    n: int
    frequency: float
    threshold: FloatArray
    benefit: FloatArray
    low: FloatArray
    high: FloatArray
    treat_all: FloatArray


@dataclass(frozen=True)
class Decision(CurvePlot):
    """Decision curves of one bundle under some calibrators. what : name of class 1."""

    title: str
    level: float
    what: str
    curves: tuple[Benefit, ...]
    notes: tuple[str, ...] = ()

    many = False
    ignores = ("label", "arrange", "bins", "scheme", "resamples")

    @classmethod
    def measure(cls, request: Request) -> Figure:
        labelled = []
        for measured, label in zip(request.sets, request.labels, strict=True):
            if measured.table.positive is None:
                raise UsageError(
                    f"--style decision is for two classes, {measured.table.known};"
                    " --style risk draws any number"
                )
            if measured.table.weights.sum() > 0:
                labelled.append((label, measured.table))
        thresholds = decision_thresholds([row_table for _, row_table in labelled])
        level = request.settings.level
        curves = []
        for label, row_table in labelled:
            curves.append(decision_curve(label, row_table, thresholds, level))
        what = request.names[1] if request.names else "class 1"
        notes = tuple(request.notes)
        return Decision(request.what, level, what, tuple(curves), notes)

    @property
    def range(self) -> tuple[float, float]:
        """Least and largest net benefit of the axes."""
        return benefit_range(self.curves)

    def legend_grid(self, paper: Paper) -> tuple[int, int]:
        """Columns and lines of the legend, which has "treat all" and "treat none"."""
        count = len(self.curves)
        across = 1 if count > 2 else 2
        return across, -(-(count + 2) // across)

    def draw_curves(self, axes: Any, paper: Paper) -> None:
        """Draw the curves with "treat all" and "treat none"."""
        for place, curve in enumerate(self.curves):
            points = (curve.threshold, curve.benefit, curve.low, curve.high)
            self.draw_curve(axes, place, points, squeeze(curve.label, 34), paper)
        first = self.curves[0]
        grey = paper.theme.muted
        axes.plot(
            first.threshold,
            first.treat_all,
            color=grey,
            lw=1.0,
            ls=(0, (4, 2)),
            zorder=3,
            label="treat all",
        )
        axes.axhline(0.0, color=grey, lw=1.0, zorder=2, label="treat none")
        axes.set(
            xlim=(0, float(first.threshold[-1])),
            ylim=self.range,
            xlabel=f"threshold: risk of {squeeze(self.what, 24)} from which one acts",
            ylabel="net benefit",
        )

    def plots(self, width: int, look: Look) -> list[list[str]]:
        """A plot of every curve, with "treat all" and "treat none"."""
        last = float(self.curves[0].threshold[-1])
        ticks = {f"{share * last:.2g}": share * last for share in (0, 0.25, 0.5, 0.75)}
        ticks[f"{last:.2g}"] = last
        bottom, top = self.range
        drawn = []
        for curve in self.curves:
            canvas = canvas_of(width, (0.0, last), (bottom, top), look)
            canvas.area(curve.threshold, curve.low, curve.high)
            inside = curve.treat_all >= bottom
            canvas.line(
                curve.threshold[inside], curve.treat_all[inside], role="diagonal"
            )
            canvas.line(np.array([0.0, last]), np.zeros(2), role="diagonal")
            canvas.line(curve.threshold, curve.benefit)
            title = f"{curve.label}, n = {curve.n}: net benefit against the threshold"
            ends = (f"{bottom:.2f}", f"{top:.2f}")
            drawn.append(plot(squeeze(title, width), canvas, ends, ticks))
        return drawn

    def numbers(self) -> list[list[str]]:
        """The net benefit at some thresholds, beside "treat all"."""
        shown = shown_thresholds()
        thresholds = self.curves[0].threshold[shown]
        head = [f"{threshold:.3g}" for threshold in thresholds]
        rows = [["net benefit at threshold", *head]]
        for curve in self.curves:
            rows.append(_benefit_row(curve.label, curve.benefit[shown]))
        rows.append(_benefit_row("treat all", self.curves[0].treat_all[shown]))
        return rows

    def describe(self) -> str:
        sentences = []
        for curve in self.curves:
            better = curve.benefit > np.maximum(curve.treat_all, 0.0)
            where = "at no threshold"
            if better.any():
                ends = curve.threshold[better][[0, -1]]
                where = f"at thresholds within {ends[0]:.3g} to {ends[1]:.3g}"
            sentences.append(
                f"{curve.label}: better than treating all or none {where}."
            )
        return "Net benefit against the threshold. " + " ".join(sentences)


def _benefit_row(label: str, benefits: FloatArray) -> list[str]:
    return [squeeze(label, 24), *(f"{benefit:.3f}" for benefit in benefits)]


def benefit_range(curves: Sequence[Benefit]) -> tuple[float, float]:
    """Least and largest net benefit of axes that hold these curves."""
    frequency = max(curve.frequency for curve in curves)
    highest = max(float(curve.benefit.max()) for curve in curves)
    if frequency > 0.0:
        return -BENEATH * frequency, 1.05 * max(highest, frequency)
    lowest = min(float(curve.benefit.min()) for curve in curves)
    depth = min(max(-lowest, LEAST_DEPTH), BENEATH)
    return -depth, 0.05 * depth  # no event: acting never has a benefit


def shown_thresholds() -> IntArray:
    """Indices of the thresholds of a table, among those of a curve."""
    return np.linspace(0, POINTS, SHOWN + 1)[1:].astype(np.int64) - 1


def decision_thresholds(tables: Sequence[RowTable]) -> FloatArray:
    """Thresholds of curves that are drawn together, rising, (POINTS,)."""
    last = max(map(last_threshold, tables), default=LAST)
    return last * np.arange(1, POINTS + 1) / POINTS


def last_threshold(table: RowTable) -> float:
    """Threshold beyond which hardly any row is acted on."""
    assert table.positive is not None
    highest = float(np.quantile(table.positive, 1.0 - RARE))
    frequency = float(np.average(table.y == 1, weights=table.weight))
    return min(max(highest, LEAST_RANGE * frequency, 1e-6), LAST)


def decision_curve(
    label: str, table: RowTable, thresholds: FloatArray, level: float
) -> Benefit:
    """Measure the net benefit at every threshold, with pointwise intervals."""
    context = MetricContext(table, MetricSettings(label="positive", level=level))
    curve = DecisionCurve.of(context.scores, context.outcomes, thresholds, table.weight)
    rows = [effective_rows(context, cut) for cut in thresholds.tolist()]
    low, high = benefit_interval(
        curve.true_positives,
        curve.false_positives,
        curve.odds,
        np.array(rows),
        level,
    )
    return Benefit(
        label=label,
        n=table.n,
        frequency=curve.frequency,
        threshold=thresholds,
        benefit=curve.benefit,
        low=low,
        high=high,
        treat_all=curve.treat_all,
    )
