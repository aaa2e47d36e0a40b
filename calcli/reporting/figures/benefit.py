"""Decision curves: net benefit of acting on P(class 1) against the threshold."""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from calcli.diagrams.styles.decision import Benefit, benefit_range
from calcli.numerics import FloatArray
from calcli.reporting.figures.reliability import LEFT, SIDE, WIDTH
from calcli.reporting.figures.svg import (
    Axes,
    element,
    figure,
    label,
    line_class,
    thinned,
)
from calcli.reporting.number_format import MINUS

HEIGHT = 260.0
MOST_TICKS = 6


def benefit_figure(curves: Sequence[Benefit], class_1: str, ident: str) -> Markup:
    """Net benefit of all versions, of treating all, and of treating none."""
    low, high = benefit_range(curves)
    last = float(curves[0].threshold[-1])
    axes = Axes(LEFT, 38.0, SIDE, HEIGHT, x_high=last, y_low=low, y_high=high)
    parts = []
    for tick in _round_ticks(low, high):
        parts.append(axes.horizontal(tick, "grid"))
        parts.append(axes.y_label(tick, f"{tick:z.3g}".replace("-", MINUS)))
    for tick in _round_ticks(0.0, last):
        parts.append(axes.x_label(tick, f"{100 * tick:.3g}%"))
    parts.append(label(8.0, 20.0, "net benefit", "start"))
    about = f"threshold: risk of {class_1} from which one acts"
    parts.append(label(axes.left + axes.width / 2, axes.bottom + 44.0, about))
    parts += _two_policies(axes, curves[0], low)
    for number, curve in enumerate(curves):
        class_ = f"curve {line_class(number)}"
        for threshold, benefit in _inside(curve.threshold, curve.benefit, low):
            kept = thinned(len(threshold))
            line = axes.polyline(
                threshold[kept], benefit[kept], class_, data_curve=number
            )
            parts.append(line)
    names = ", ".join(curve.label for curve in curves)
    title = f"Decision curves of {names}, beside treating all and treating none"
    return figure(WIDTH, axes.bottom + 56.0, title, parts, ident)


def _round_ticks(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within an axis, few of them."""
    power = 10.0 ** math.floor(math.log10(high - low))
    steps = [power / 10.0 * factor for factor in (1.0, 2.0, 5.0, 10.0, 20.0)]
    step = next(step for step in steps if (high - low) / step < MOST_TICKS)
    first = math.ceil(low / step)
    last = math.floor(high / step)
    return [number * step for number in range(first, last + 1)]


def _two_policies(axes: Axes, curve: Benefit, low: float) -> list[Markup]:
    """The lines of treating all and of treating none, each with its name."""
    treat_none = f"M{axes.left} {axes.y(0.0):.1f}H{axes.right}"
    parts = [element("path", d=treat_none, class_="axis")]
    parts.append(label(axes.right - 6.0, axes.y(0.0) - 8.0, "treat none", "end"))
    for threshold, benefit in _inside(curve.threshold, curve.treat_all, low):
        parts.append(axes.polyline(threshold, benefit, "diagonal"))
        end = axes.x(float(threshold[-1]))
        parts.append(label(end + 8.0, axes.bottom - 8.0, "treat all", "start"))
    return parts


def _inside(
    threshold: FloatArray, benefit: FloatArray, low: float
) -> list[tuple[FloatArray, FloatArray]]:
    """The pieces of a curve that do not lie below the axes."""
    is_inside = benefit >= low
    changes = np.flatnonzero(is_inside[1:] != is_inside[:-1]) + 1
    pieces = []
    for rows in np.split(np.arange(len(benefit)), changes):
        if is_inside[rows[0]]:
            pieces.append((threshold[rows], benefit[rows]))
    return pieces
