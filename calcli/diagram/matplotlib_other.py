"""The temperature sweep, and confidence variance against calibration error, in matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.diagram.matplotlib import BLUE, GREY, INK, PALE, series
from calcli.diagram.scatter import Scatter
from calcli.diagram.temperature_sweep import Sweep
from calcli.diagram.words import round_ticks, squeeze

__all__ = ["draw_scatter", "draw_sweep"]


def draw_sweep(sweep: Sweep) -> Any:
    """NLL, ECE over its floor, and mean confidence against T, one above the other."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    marks = sweep.marks
    foot = 0.62 + 0.2 * -(-len(marks) // 2)
    height = 0.2 + 3 * 1.95 + foot
    figure = Figure(figsize=(4.7, height))
    axes = [figure.add_axes((0.145, (foot + 1.95 * i) / height, 0.82, 1.82 / height)) for i in (2, 1, 0)]
    t = sweep.temperature
    loss, error, trust = axes
    loss.plot(t, sweep.nll, color=BLUE, lw=1.6)
    loss.set_ylabel("NLL (nats)")
    error.set_yscale("log")  # the floor and the ECE of a hot model differ by orders of magnitude
    low, high = _positive_range([*sweep.ece, *sweep.ece_null_mean])
    error.fill_between(t, low, np.maximum(sweep.ece_null_mean, low), color=PALE, lw=0, label="mean ECE if calibrated")
    error.plot(t, sweep.ece, color=BLUE, lw=1.6, label=f"ECE, {sweep.bins} bins")
    error.set_ylabel("ECE")
    error.set_ylim(low, high)
    error.yaxis.set_major_locator(FixedLocator(round_ticks(low, high)))
    error.yaxis.set_minor_locator(NullLocator())
    error.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    trust.plot(t, sweep.mean_confidence, color=BLUE, lw=1.6, label="mean confidence")
    trust.axhline(sweep.accuracy, color=GREY, lw=1.0, ls=(0, (4, 2)), label="accuracy")
    trust.set_ylabel("mean confidence")
    trust.set_ylim(0, 1.02)
    trust.set_xlabel("temperature T")
    for where in (error, trust):
        where.legend(loc="best", handlelength=1.8)
    ticks = round_ticks(float(t[0]), float(t[-1]))
    for at, where in enumerate(axes):
        where.set_xscale("log")
        where.set_xlim(t[0], t[-1])
        where.xaxis.set_major_locator(FixedLocator(ticks))
        where.xaxis.set_minor_locator(NullLocator())
        where.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        where.tick_params(labelbottom=at == 2)
        where.grid(color="#ececec", lw=0.5)
        where.set_axisbelow(True)
    handles = []
    for at, mark in enumerate(marks):
        colour, line, marker = (INK, "-", "o") if at == 0 else series(at - 1)
        for where, value in zip(axes, (mark.nll, mark.ece, mark.mean_confidence), strict=True):
            where.axvline(mark.temperature, color=colour, lw=0.9, ls=line, zorder=1.5)
            (dot,) = where.plot([mark.temperature], [value], marker, color=colour, ms=5, mec="white", mew=0.6, zorder=5)
        label = mark.name if at == 0 else f"{squeeze(mark.name, 26)}, T = {mark.temperature:.4g}"
        dot.set_label(label)
        handles.append(dot)
    loss.set_title(squeeze(f"{sweep.title}, n = {sweep.n}", 60), loc="left", pad=6)
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=2,
        bbox_to_anchor=(0.53, 0.05 / height),
        borderpad=0,
        columnspacing=1.2,
    )
    return figure


def _positive_range(values: Sequence[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis around values of which some may be 0."""
    positive = [v for v in values if v > 1e-6] or [0.01]
    return min(positive) / 1.3, max(positive) * 1.3


def draw_scatter(scatter: Scatter) -> Any:
    """A marker per bundle and method; a thin line leads to the ECE of a calibrated model."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    methods = list(dict.fromkeys(p.method for p in scatter.points))
    bundles = list(dict.fromkeys(p.bundle for p in scatter.points))
    named = len(bundles) if len(bundles) > 1 else 0
    lines = -(-(len(methods) + 1) // 3) + -(-named // 2)
    height = 3.9 + 0.2 * lines
    figure = Figure(figsize=(5.2, height))
    axes = figure.add_axes((0.12, (0.62 + 0.2 * lines) / height, 0.85, 2.95 / height))
    floor = 1e-6  # an ECE of exactly 0 has no logarithm
    for p in scatter.points:
        colour, _, marker = series(methods.index(p.method))
        x, null = max(p.ece, floor), max(p.ece_null_mean, floor)
        axes.plot([null, x], [p.variance] * 2, color=GREY, lw=0.7, zorder=2)
        axes.plot([null], [p.variance], "|", color=GREY, ms=7, zorder=2)
        axes.plot([x], [p.variance], marker, color=colour, ms=6, mec="white", mew=0.5, zorder=4)
        if len(bundles) > 1:
            number = str(bundles.index(p.bundle) + 1)
            axes.annotate(number, (x, p.variance), (5, 2), textcoords="offset points", fontsize=6.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(0.1)
    axes.set_ylim(bottom=0)
    axes.grid(color="#ececec", lw=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel("ECE (logarithmic)")
    axes.set_ylabel("variance of the confidence")
    axes.set_title(squeeze(scatter.title, 70), loc="left", pad=6)
    handles = []
    for at, method in enumerate(methods):
        colour, _, marker = series(at)
        handles.append(Line2D([], [], color=colour, marker=marker, lw=0, label=squeeze(method, 24)))
    handles.append(Line2D([], [], color=GREY, marker="|", ms=7, lw=0.7, label="mean ECE if calibrated"))
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=3,
        bbox_to_anchor=(0.54, (0.06 + 0.2 * -(-named // 2)) / height),
        borderpad=0,
    )
    for at in range(named):
        row, column = divmod(at, 2)
        x, y = 0.12 + 0.44 * column, (0.1 + 0.2 * (-(-named // 2) - 1 - row)) / height
        figure.text(x, y, f"{at + 1}  {squeeze(bundles[at], 36)}", fontsize=7)
    return figure
