"""temperature: NLL, ECE and mean confidence against T."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.binning import bin_index, width_edges
from calcli.calibrator import Progress
from calcli.diagrams.caption_text import round_ticks, squeeze, table
from calcli.diagrams.matplotlib_theme import Paper, log_ticks
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.terminal import AXIS, BAND, DIAGONAL, MARK, Canvas, Look, plot
from calcli.errors import DataError
from calcli.kernels.numpy.temperature import TopMass, nll_curve
from calcli.numerics import FloatArray
from calcli.records import as_json
from calcli.rows import Rows
from calcli.solvers import find_root, halley

FINE = 24
"""Number of temperatures added around the least ECE."""

LOW, HIGH = 0.01, 100.0
"""Range of temperatures in which both are searched, as in the fits of calibrators."""

Given = Sequence[tuple[str, float]]
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
        """Sweep the temperature on the open bundle, with the calibrators' temperatures marked."""
        rows = request.rows
        assert rows is not None
        if rows.k < 2:
            raise DataError(
                "--style temperature needs the scores of all classes; these rows hold a confidence alone"
            )
        title = (
            f"{request.source}, n = {rows.n}"
            if request.title is None
            else request.title
        )
        bins = request.settings.bins
        return sweep_temperature(
            rows, title, given=request.given, bins=bins, progress=request.progress
        )

    def draw(self, paper: Paper) -> Any:
        """Draw NLL, ECE with its mean under calibration, and mean confidence, one above the other."""
        from matplotlib.figure import Figure

        theme, wide, t = paper.theme, paper.width or 4.7, self.temperature
        columns = 2 if wide >= 6 else 1
        foot = 0.5 + 0.15 * -(-len(self.marks) // columns)
        height = 0.2 + 3 * 1.95 + foot
        figure = Figure(figsize=(wide, height))
        box = (0.68 / wide, 1 - 0.84 / wide)
        axes = [
            figure.add_axes((box[0], (foot + 1.95 * i) / height, box[1], 1.72 / height))
            for i in (2, 1, 0)
        ]
        loss, error, trust = axes
        loss.plot(t, self.nll, color=theme.main, lw=1.6)
        loss.set_ylabel("NLL (nats)")
        positive = [v for v in (*self.ece, *self.ece_null_mean) if v > 1e-6] or [0.01]
        low, high = min(positive) / 1.3, max(positive) * 1.3
        floor = np.maximum(self.ece_null_mean, low)
        # Logarithmic: the ECE of a hot model is orders of magnitude above its mean under calibration.
        error.set(yscale="log", ylabel="ECE", ylim=(low, high))
        error.fill_between(
            t,
            low,
            floor,
            color=theme.band,
            lw=0,
            label="ECE expected under calibration",
        )
        error.plot(
            t,
            np.maximum(self.ece, low),
            color=theme.main,
            lw=1.6,
            label=f"ECE, {self.bins} bins",
        )
        trust.plot(
            t, self.mean_confidence, color=theme.main, lw=1.6, label="mean confidence"
        )
        trust.axhline(
            self.accuracy, color=theme.muted, lw=1.0, ls=(0, (4, 2)), label="accuracy"
        )
        trust.set(ylabel="mean confidence", ylim=(0, 1.02), xlabel="temperature T")
        for where in (error, trust):
            where.legend(
                loc="lower right", bbox_to_anchor=(1, 0.97), ncols=2, handlelength=1.8
            )
        log_ticks(error.yaxis, round_ticks(low, high))
        for at, where in enumerate(axes):
            where.set(xscale="log", xlim=(t[0], t[-1]))
            log_ticks(where.xaxis, round_ticks(t[0], t[-1]))
            where.tick_params(labelbottom=at == 2)
            where.grid(True)
        handles = _draw_marks(self, axes, paper, low)
        loss.set_title(squeeze(self.title, int(12 * wide)), loc="left", pad=6)
        room = {
            "bbox_to_anchor": (0.1 / wide, 0.05 / height),
            "borderpad": 0,
            "columnspacing": 1.2,
        }
        figure.legend(handles=handles, loc="lower left", ncols=columns, **room)
        return figure

    def text(self, width: int, look: Look) -> list[str]:
        """Plots of NLL, ECE and mean confidence, and a table of the marks."""
        inner = min(width, 76) - AXIS - 1
        x = np.log(self.temperature)
        span = (float(x[0]), float(x[-1]))
        ticks = {
            f"{t:g}": float(np.log(t))
            for t in round_ticks(self.temperature[0], self.temperature[-1])
        }
        lines = [look.paint(squeeze(self.title, width), "strong"), ""]
        tiny = 1e-6  # an ECE of exactly 0 has no logarithm
        error, floor = (
            np.log10(np.maximum(e, tiny)) for e in (self.ece, self.ece_null_mean)
        )
        bottom = float(min(error.min(), floor.min())) - 0.1
        of_error = (
            f"ECE, {self.bins} bins, logarithmic; {BAND} expected under calibration"
        )
        plots: list[tuple[str, FloatArray, float, float]] = [
            ("NLL (nats)", self.nll, float(self.nll.min()), float(self.nll.max())),
            (of_error, error, bottom, float(error.max()) + 0.05),
            (f"mean confidence; {DIAGONAL} accuracy", self.mean_confidence, 0.0, 1.0),
        ]
        for title, values, low, high in plots:
            canvas = Canvas(
                inner, 8, span, (low, high if high > low else low + 1.0), look
            )
            if values is error:
                canvas.area(x, np.full(len(x), low), floor)
            if values is self.mean_confidence:
                for column in range(inner):
                    canvas.put(canvas.row(self.accuracy), column, DIAGONAL, "diagonal")
            for mark in self.marks:
                canvas.vertical(
                    float(np.log(mark.temperature)), low, high, MARK, "other"
                )
            canvas.line(x, values)
            ends = (10**low, 10**high) if values is error else (low, high)
            lines += plot(title, canvas, (f"{ends[0]:.2g}", f"{ends[1]:.3g}"), ticks)
        lines.append(f"temperature T (logarithmic); {MARK} marks:")
        rows = [["", "T", "NLL", "ECE", "(expected)", "confidence"]]
        for m in self.marks:
            error_of, sure = (
                [f"{m.ece:.4f}", f"({m.ece_null_mean:.4f})"],
                f"{m.mean_confidence:.4f}",
            )
            rows.append(
                [
                    squeeze(m.name, 28),
                    f"{m.temperature:.4g}",
                    f"{m.nll:.4f}",
                    *error_of,
                    sure,
                ]
            )
        return lines + table(rows)

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        marks = [as_json(m) for m in self.marks]
        rows = [
            ("", *row)
            for row in zip(
                *(getattr(self, name) for name in list(marks[0])[1:]), strict=True
            )
        ]
        return list(marks[0]), rows + [tuple(m.values()) for m in marks]

    def describe(self) -> str:
        return (
            f"Loss, calibration error and mean confidence against temperature, {self.n} rows. "
            + " ".join(
                f"{m.name}: T {m.temperature:.4g}, NLL {m.nll:.4f}, ECE {m.ece:.4f}."
                for m in self.marks
            )
        )


def sweep_temperature(
    rows: Rows,
    title: str,
    *,
    given: Given = (),
    points: int = 81,
    bins: int = 15,
    progress: Progress | None = None,
) -> TemperatureSweep:
    """Evaluate softmax(z / T) over a geometric range of T, in two passes after the two fits.

    given : more temperatures to mark. The range is a factor of two around all marks. Two points are fitted to
    these very rows: what the best temperature could reach here, not what a calibrator fitted elsewhere does.
    Weighted rows count with their weight. Reference: Clarte, Loureiro, Krzakala, Zdeborova (2023), figure 2.
    """
    bracket = (float(np.log(1 / HIGH)), float(np.log(1 / LOW)), 0.0)
    named = [("T = 1", 1.0)]
    best = find_root(halley(nll_curve(rows)), *bracket)
    top_mass = TopMass(rows, 1)
    equal = find_root(halley(top_mass), *bracket, flat=1e-12)
    accuracy = top_mass.accuracy
    found = {"least NLL here": best, "confidence = accuracy here": equal}
    named += [
        (name, float(np.exp(-root.x)))
        for name, root in found.items()
        if root.status == "ok"
    ]
    named += given
    marked = np.array([t for _, t in named])
    coarse = np.unique(
        np.concatenate(
            [np.geomspace(marked.min() / 2, marked.max() * 2, points), marked]
        )
    )
    values = _evaluate(rows, coarse, bins, progress)
    # Near its minimum the ECE changes too sharply for the coarse steps.
    least = int(np.argmin(values[1]))
    around = np.geomspace(
        coarse[max(least - 1, 0)], coarse[min(least + 1, len(coarse) - 1)], FINE + 2
    )
    fine = np.setdiff1d(around, coarse)
    t = np.concatenate([coarse, fine])
    order = np.argsort(t)
    t, values = (
        t[order],
        np.concatenate([values, _evaluate(rows, fine, bins, progress)], axis=1)[
            :, order
        ],
    )
    at = values[:, np.searchsorted(t, marked)].T.tolist()
    marks = tuple(
        MarkedPoint(name, value, *rest)
        for (name, value), rest in zip(named, at, strict=True)
    )
    nll, ece, null, confidence = values
    return TemperatureSweep(
        title, rows.n, bins, accuracy, t, nll, ece, null, confidence, marks
    )


def _evaluate(
    rows: Rows, temperatures: FloatArray, bins: int, progress: Progress | None
) -> FloatArray:
    """NLL, ECE, its mean under calibration, and mean confidence, (4, t), at every temperature."""
    edges, t = width_edges(bins), len(temperatures)
    gap, variance = np.zeros((t, bins)), np.zeros((t, bins))
    nll, confidence, mass = np.zeros(t), np.zeros(t), 0.0
    for block in rows.blocks():
        d = block.z - block.z.max(axis=1, keepdims=True)
        weight = np.ones(len(d)) if block.weight is None else block.weight
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
    for at, mark in enumerate(sweep.marks):
        colour, line, marker = (
            (paper.theme.ink, "-", "o") if at == 0 else paper.series(at - 1)
        )
        look = {
            "color": colour,
            "ms": 5,
            "mec": paper.theme.page,
            "mew": 0.6,
            "zorder": 5,
        }
        look["label"] = (
            mark.name
            if at == 0
            else f"{squeeze(mark.name, 26)}, T = {mark.temperature:.4g}"
        )
        for where, value in zip(
            axes, (mark.nll, max(mark.ece, least), mark.mean_confidence), strict=True
        ):
            where.axvline(mark.temperature, color=colour, lw=0.9, ls=line, zorder=1.5)
            dots = where.plot([mark.temperature], [value], marker, **look)
        handles += dots
    return handles
