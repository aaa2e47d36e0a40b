"""temperature: NLL, ECE and mean confidence against T."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.binning import bin_index, width_edges
from calcli.calibrator import Progress
from calcli.diagrams.caption_text import round_ticks, squeeze, table
from calcli.diagrams.matplotlib_theme import Paper, log_ticks
from calcli.diagrams.style import Figure, Plotted, Request
from calcli.diagrams.terminal import (
    AXIS,
    BAND,
    DIAGONAL,
    MARK,
    Canvas,
    Look,
    heading,
    plot,
)
from calcli.errors import DataError
from calcli.kernels.numpy.temperature import TopMass, nll_curve
from calcli.numerics import FloatArray, row_weights
from calcli.records import as_json
from calcli.rows import Rows
from calcli.solvers import find_root, halley

FINE = 24
"""Number of temperatures added around the least ECE."""

LOW = 0.01
HIGH = 100.0
"""Range of temperatures in which both are searched, as in the fits of calibrators."""

Named = Sequence[tuple[str, float]]
"""Names and temperatures of calibrators."""


@dataclass(frozen=True)
class MarkedPoint:
    """Marked temperature, with the values of the curves there. name : its label."""

    name: str
    temperature: float
    nll: float
    ece: float
    ece_null_mean: float
    mean_confidence: float


@dataclass(frozen=True)
class TemperatureSweep(Figure):
    """Metrics of softmax(z / T) against the temperature T, all (t,).

    nll : nats. ece : L1 over ``bins`` equal-width bins. ece_null_mean : mean of the ECE under calibration with these
    confidences. accuracy : does not depend on T. marks : T = 1, the minimum of the NLL, the T at which mean
    confidence equals accuracy, and temperatures of given calibrators; they are points of the curves.
    """

    title: str
    n: int
    bins: int
    accuracy: float
    temperature: FloatArray
    nll: FloatArray
    ece: FloatArray
    ece_null_mean: FloatArray
    mean_confidence: FloatArray
    marks: tuple[MarkedPoint, ...]

    needs_scores = True
    many = False
    ignores = ("label", "arrange", "scheme", "level", "no_stats")

    @classmethod
    def measure(cls, request: Request) -> Figure:
        """Sweep the temperature on the open bundle, with the calibrators' temperatures
        marked.
        """
        rows = request.rows
        assert rows is not None
        if rows.k < 2:
            raise DataError(
                "--style temperature needs the scores of all classes; these rows hold a"
                " confidence alone"
            )
        title = request.title
        if title is None:
            title = f"{request.source}, n = {rows.n}"
        return sweep_temperature(
            rows,
            title,
            calibrators=request.temperatures,
            bins=request.settings.bins,
            progress=request.progress,
        )

    def draw(self, paper: Paper) -> Any:
        """Draw NLL, ECE with its mean under calibration, and mean confidence, one above
        the other.
        """
        from matplotlib.figure import Figure

        t = self.temperature
        wide = paper.width or 4.7
        columns = 2 if wide >= 6 else 1
        foot = 0.5 + 0.15 * -(-len(self.marks) // columns)
        height = 0.2 + 3 * 1.95 + foot
        figure = Figure(figsize=(wide, height))
        left = 0.68 / wide
        right = 1 - 0.84 / wide
        axes = []
        for row in (2, 1, 0):
            bottom = (foot + 1.95 * row) / height
            axes.append(figure.add_axes((left, bottom, right, 1.72 / height)))
        loss, error, trust = axes
        loss.plot(t, self.nll, color=paper.theme.main, lw=1.6)
        loss.set_ylabel("NLL (nats)")
        least_error = self._draw_error(error, paper)
        self._draw_confidence(trust, paper)
        for plot_axes in (error, trust):
            plot_axes.legend(
                loc="lower right", bbox_to_anchor=(1, 0.97), ncols=2, handlelength=1.8
            )
        for plot_axes in axes:
            plot_axes.set(xscale="log", xlim=(t[0], t[-1]))
            log_ticks(plot_axes.xaxis, round_ticks(t[0], t[-1]))
            plot_axes.tick_params(labelbottom=plot_axes is trust)
            plot_axes.grid(True)
        handles = _draw_marks(self, axes, paper, least_error)
        loss.set_title(squeeze(self.title, int(12 * wide)), loc="left", pad=6)
        figure.legend(
            handles=handles,
            loc="lower left",
            ncols=columns,
            bbox_to_anchor=(0.1 / wide, 0.05 / height),
            borderpad=0,
            columnspacing=1.2,
        )
        return figure

    def _draw_error(self, axes: Any, paper: Paper) -> float:
        """Draw the ECE over its mean under calibration; returns the least value shown.

        Logarithmic: the ECE of a hot model is orders of magnitude above that mean.
        """
        t = self.temperature
        errors = np.concatenate([self.ece, self.ece_null_mean])
        positive = errors[errors > 1e-6]
        if not len(positive):
            positive = np.array([0.01])
        low = float(positive.min()) / 1.3
        high = float(positive.max()) * 1.3
        axes.set(yscale="log", ylabel="ECE", ylim=(low, high))
        expected = np.maximum(self.ece_null_mean, low)
        look = {"color": paper.theme.band, "label": "ECE expected under calibration"}
        axes.fill_between(t, low, expected, lw=0, **look)
        look = {"color": paper.theme.main, "label": f"ECE, {self.bins} bins"}
        axes.plot(t, np.maximum(self.ece, low), lw=1.6, **look)
        log_ticks(axes.yaxis, round_ticks(low, high))
        return low

    def _draw_confidence(self, axes: Any, paper: Paper) -> None:
        """Draw the mean confidence and the accuracy."""
        look = {"color": paper.theme.main, "label": "mean confidence"}
        axes.plot(self.temperature, self.mean_confidence, lw=1.6, **look)
        look = {"color": paper.theme.muted, "label": "accuracy"}
        axes.axhline(self.accuracy, lw=1.0, ls=(0, (4, 2)), **look)
        axes.set(ylabel="mean confidence", ylim=(0, 1.02), xlabel="temperature T")

    def text(self, width: int, look: Look) -> list[str]:
        """Plots of NLL, ECE and mean confidence, and a table of the marks."""
        inner = min(width, 76) - AXIS - 1
        x = np.log(self.temperature)
        span = (float(x[0]), float(x[-1]))
        ticks = {}
        for tick in round_ticks(self.temperature[0], self.temperature[-1]):
            ticks[f"{tick:g}"] = float(np.log(tick))
        lines = heading(self.title, width, look)
        tiny = 1e-6  # an ECE of exactly 0 has no logarithm
        error = np.log10(np.maximum(self.ece, tiny))
        expected = np.log10(np.maximum(self.ece_null_mean, tiny))
        bottom = float(min(error.min(), expected.min())) - 0.1
        of_error = (
            f"ECE, {self.bins} bins, logarithmic; {BAND} expected under calibration"
        )
        plots: list[tuple[str, FloatArray, float, float]] = [
            ("NLL (nats)", self.nll, float(self.nll.min()), float(self.nll.max())),
            (of_error, error, bottom, float(error.max()) + 0.05),
            (f"mean confidence; {DIAGONAL} accuracy", self.mean_confidence, 0.0, 1.0),
        ]
        for title, values, low, high in plots:
            top = high if high > low else low + 1.0
            canvas = Canvas(inner, 8, span, (low, top), look)
            ends = (low, high)
            if values is error:
                canvas.area(x, np.full(len(x), low), expected)
                ends = (10**low, 10**high)
            if values is self.mean_confidence:
                for column in range(inner):
                    canvas.put(canvas.row(self.accuracy), column, DIAGONAL, "diagonal")
            for mark in self.marks:
                place = float(np.log(mark.temperature))
                canvas.vertical(place, low, high, MARK, "other")
            canvas.line(x, values)
            lines += plot(title, canvas, (f"{ends[0]:.2g}", f"{ends[1]:.3g}"), ticks)
        lines.append(f"temperature T (logarithmic); {MARK} marks:")
        rows = [["", "T", "NLL", "ECE", "(expected)", "confidence"]]
        for mark in self.marks:
            rows.append(
                [
                    squeeze(mark.name, 28),
                    f"{mark.temperature:.4g}",
                    f"{mark.nll:.4f}",
                    f"{mark.ece:.4f}",
                    f"({mark.ece_null_mean:.4f})",
                    f"{mark.mean_confidence:.4f}",
                ]
            )
        return lines + table(rows)

    def table(self) -> Plotted:
        columns = list(as_json(self.marks[0]))
        curves = [getattr(self, name) for name in columns[1:]]
        rows: list[tuple[Any, ...]] = []
        for values in zip(*curves, strict=True):
            rows.append(("", *values))
        rows += [tuple(as_json(mark).values()) for mark in self.marks]
        return columns, rows

    def describe(self) -> str:
        sentences = []
        for mark in self.marks:
            sentences.append(
                f"{mark.name}: T {mark.temperature:.4g}, NLL {mark.nll:.4f},"
                f" ECE {mark.ece:.4f}."
            )
        return (
            "Loss, calibration error and mean confidence against temperature,"
            f" {self.n} rows. " + " ".join(sentences)
        )


def sweep_temperature(
    rows: Rows,
    title: str,
    *,
    calibrators: Named = (),
    points: int = 81,
    bins: int = 15,
    progress: Progress | None = None,
) -> TemperatureSweep:
    """Evaluate softmax(z / T) over a geometric range of T, in two passes after the two
    fits.

    calibrators : more temperatures to mark. The range is a factor of two around all
    marks. Two points are fitted to these very rows: what the best temperature could
    reach here, not what a calibrator fitted elsewhere does. Weighted rows count with
    their weight. Reference: Clarte, Loureiro, Krzakala, Zdeborova (2023), figure 2.
    """
    bracket = (float(np.log(1 / HIGH)), float(np.log(1 / LOW)), 0.0)
    named = [("T = 1", 1.0)]
    best = find_root(halley(nll_curve(rows)), *bracket)
    top_mass = TopMass(rows, 1)
    equal = find_root(halley(top_mass), *bracket, flat=1e-12)
    accuracy = top_mass.accuracy
    roots = {"least NLL here": best, "confidence = accuracy here": equal}
    for name, root in roots.items():
        if root.status == "ok":
            named.append((name, float(np.exp(-root.x))))
    named += calibrators
    marked = np.array([temperature for _, temperature in named])
    grid = np.geomspace(marked.min() / 2, marked.max() * 2, points)
    coarse = np.unique(np.concatenate([grid, marked]))
    of_coarse = _evaluate(rows, coarse, bins, progress)
    # Near its minimum the ECE changes too sharply for the coarse steps.
    least = int(np.argmin(of_coarse[1]))
    before = coarse[max(least - 1, 0)]
    after = coarse[min(least + 1, len(coarse) - 1)]
    fine = np.setdiff1d(np.geomspace(before, after, FINE + 2), coarse)
    of_fine = _evaluate(rows, fine, bins, progress)
    t = np.concatenate([coarse, fine])
    order = np.argsort(t)
    t = t[order]
    values = np.concatenate([of_coarse, of_fine], axis=1)[:, order]
    marks = []
    for name, temperature in named:
        at_mark = values[:, np.searchsorted(t, temperature)].tolist()
        marks.append(MarkedPoint(name, temperature, *at_mark))
    nll, ece, null, confidence = values
    return TemperatureSweep(
        title, rows.n, bins, accuracy, t, nll, ece, null, confidence, tuple(marks)
    )


def _evaluate(
    rows: Rows, temperatures: FloatArray, bins: int, progress: Progress | None
) -> FloatArray:
    """NLL, ECE, its mean under calibration, and mean confidence, (4, t), at every
    temperature.
    """
    edges = width_edges(bins)
    t = len(temperatures)
    gap = np.zeros((t, bins))
    variance = np.zeros((t, bins))
    nll = np.zeros(t)
    confidence = np.zeros(t)
    mass = 0.0
    for block in rows.blocks():
        d = block.z - block.z.max(axis=1, keepdims=True)
        weight = row_weights(block.weight, len(d))
        here = np.arange(len(d))
        d_y = d[here, block.labels]
        correct = d.argmax(axis=1) == block.labels
        mass += float(weight.sum())
        for j, temperature in enumerate(temperatures):
            total = np.exp(d / temperature).sum(axis=1)
            c = 1.0 / total  # the largest logit has gap 0
            nll[j] += weight @ (np.log(total) - d_y / temperature)
            confidence[j] += weight @ c
            index = bin_index(c, edges)
            gap[j] += np.bincount(index, weights=weight * (c - correct), minlength=bins)
            variance[j] += np.bincount(
                index, weights=weight**2 * c * (1 - c), minlength=bins
            )
        if progress is not None:
            progress("sweeping the temperature", block.start + len(block), rows.n)
    # A bin's gap under calibration is a sum of independent terms, nearly normal: E|N(0, V)| = sqrt(2 V / pi).
    null = np.sqrt(2 * variance / np.pi).sum(axis=1) / mass
    return np.array(
        [nll / mass, np.abs(gap).sum(axis=1) / mass, null, confidence / mass]
    )


def _draw_marks(
    sweep: TemperatureSweep, axes: Sequence[Any], paper: Paper, least: float
) -> list[Any]:
    """Draw lines and dots at the marked temperatures; returns their legend entries."""
    handles = []
    for number, mark in enumerate(sweep.marks):
        # The first mark is T = 1, whose name says its temperature.
        colour = paper.theme.ink
        line = "-"
        marker = "o"
        label = mark.name
        if number > 0:
            colour, line, marker = paper.series(number - 1)
            label = f"{squeeze(mark.name, 26)}, T = {mark.temperature:.4g}"
        look = {"color": colour, "mec": paper.theme.page, "mew": 0.6, "label": label}
        values = (mark.nll, max(mark.ece, least), mark.mean_confidence)
        for plot_axes, value in zip(axes, values, strict=True):
            plot_axes.axvline(
                mark.temperature, color=colour, lw=0.9, ls=line, zorder=1.5
            )
            point = ([mark.temperature], [value], marker)
            dots = plot_axes.plot(*point, ms=5, zorder=5, **look)
        handles += dots
    return handles
