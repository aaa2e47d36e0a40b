"""Risk and coverage: accuracy of the most confident samples against their proportion."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from calcli.diagrams.styles.risk import Coverage
from calcli.reporting.figures.reliability import LEFT, SIDE, TICKS, WIDTH
from calcli.reporting.figures.svg import (
    Axes,
    element,
    figure,
    label,
    line_class,
    thinned,
)
from calcli.reporting.number_format import share

HEIGHT = 300.0

LEAST_COVERAGE = 0.05
"""Coverage below which so few samples are left that their accuracy sets no axis."""


def risk_figure(curves: Sequence[Coverage], ident: str) -> Markup:
    """Accuracy against coverage of all versions; the script moves the cursor."""
    axes, ticks = _axes(curves)
    parts = []
    for tick in ticks:
        parts.append(axes.horizontal(tick, "grid"))
        parts.append(axes.y_label(tick, f"{100 * tick:.0f}%"))
    for tick in TICKS:
        parts.append(axes.x_label(tick, f"{100 * tick:.0f}%"))
    middle = axes.left + axes.width / 2
    parts.append(
        label(middle, axes.bottom + 44.0, "coverage: proportion of the samples")
    )
    parts.append(label(8.0, 20.0, "accuracy of the covered samples", "start"))
    words = []
    for number, curve in enumerate(curves):
        kept = thinned(len(curve.coverage))
        line = axes.polyline(
            curve.coverage[kept],
            curve.accuracy[kept],
            f"curve {line_class(number)}",
            data_curve=number,
        )
        parts.append(line)
        half = float(np.interp(0.5, curve.coverage, curve.accuracy))
        words.append(f"{curve.label}: {share(half)} right at half coverage")
    cursor = f"M0 {axes.top}V{axes.bottom}"
    parts.append(element("path", d=cursor, class_="cursor off", data_cursor=""))
    return figure(
        WIDTH,
        axes.bottom + 56.0,
        f"Risk and coverage. {'; '.join(words)}",
        parts,
        ident,
        data_left=f"{LEFT:g}",
        data_side=f"{SIDE:g}",
    )


def _axes(curves: Sequence[Coverage]) -> tuple[Axes, list[float]]:
    """Axes from a round accuracy below all curves up to 1, and ticks."""
    least = 1.0
    for curve in curves:
        covered = curve.low[curve.coverage > LEAST_COVERAGE]
        least = min(least, float(np.min(covered, initial=1.0)))
    step = 0.1 if least >= 0.5 else 0.2
    bottom = max(0.0, float(np.floor(least / step + 1e-9) * step))
    bottom = min(bottom, 1.0 - 2.0 * step)
    n_ticks = round((1.0 - bottom) / step) + 1
    axes = Axes(LEFT, 38.0, SIDE, HEIGHT, y_low=bottom)
    return axes, np.linspace(bottom, 1.0, n_ticks).tolist()
