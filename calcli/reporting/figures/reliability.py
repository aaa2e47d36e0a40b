"""Reliability diagrams: curves, the band of one of them, and histograms beneath."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.curve import Curve
from calcli.numerics import FloatArray
from calcli.reporting.figures.svg import (
    POINTS,
    Axes,
    element,
    figure,
    label,
    line_class,
    thinned,
)
from calcli.reporting.number_format import plain, share, span

WIDTH = 560.0
LEFT = 64.0
SIDE = 478.0
"""Width and height of the square that curves are drawn in."""

HISTOGRAM = 54.0
"""Height of the histograms."""

TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

FEW = 30
"""Samples below which a step of a curve is thin and pale.

It looks dramatic and means little.
"""

KEY_LINE = 34.0
KEY_LETTER = 10.5
KEY_LETTERS = 36


@dataclass(frozen=True)
class DrawnCurve:
    """A curve with the number of its version, which its line and switches go by."""

    curve: Curve
    number: int


def reliability_figure(curves: Sequence[DrawnCurve], focus: int, ident: str) -> Markup:
    """Curves of versions, the band of the one in focus, and a cursor for the script.

    focus : number of the version in focus.
    """
    key, key_height = _key(curves)
    axes = Axes(LEFT, 38.0 + key_height, SIDE, SIDE)
    foot = axes.bottom + 14.0 + HISTOGRAM
    says, happens = _axis_words(curves[0].curve)
    parts: list[Markup] = [*key, *_frame(axes, happens)]
    parts += [_band(axes, drawn, is_shown=drawn.number == focus) for drawn in curves]
    diagonal = f"M{axes.point(0, 0)}L{axes.point(1, 1)}"
    parts.append(element("path", d=diagonal, class_="diagonal"))
    for drawn in curves:
        parts += _lines(axes, drawn)
    parts += _sides(axes, curves[0].curve)
    for drawn in curves:
        parts += _recalibration(axes, drawn, is_shown=drawn.number == focus)
    parts += _histograms(axes, foot, curves)
    parts += [axes_label(axes, tick, foot) for tick in TICKS]
    parts.append(
        label(LEFT + SIDE / 2, foot + 42.0, f"{says}; outlines: samples (square root)")
    )
    cursor = f"M0 {axes.top}V{foot}"
    parts.append(element("path", d=cursor, class_="cursor off", data_cursor=""))
    return figure(
        WIDTH,
        foot + 50.0,
        _title(curves),
        parts,
        ident,
        data_left=f"{LEFT:g}",
        data_side=f"{SIDE:g}",
        data_width=f"{WIDTH:g}",
    )


def axes_label(axes: Axes, tick: float, foot: float) -> Markup:
    """A tick of the horizontal axis, beneath the histograms."""
    return label(axes.x(tick), foot + 20.0, f"{100 * tick:.0f}%")


def _axis_words(curve: Curve) -> tuple[str, str]:
    """Words beside the horizontal and the vertical axis."""
    if curve.quantity == "positive":
        return "P(class 1)", "frequency of class 1"
    return "confidence", "accuracy"


def _title(curves: Sequence[DrawnCurve]) -> str:
    """The finding in words, for those who cannot see the figure."""
    says, happens = _axis_words(curves[0].curve)
    parts = []
    for drawn in curves:
        curve = drawn.curve
        means = f"mean {says} {share(curve.mean_confidence)}"
        parts.append(f"{curve.label}: {means}, {happens} {share(curve.accuracy)}")
    return f"Reliability diagram. {'; '.join(parts)}"


def _key(curves: Sequence[DrawnCurve]) -> tuple[list[Markup], float]:
    """A sample of every line with its name, in rows, and the height of the rows."""
    parts = []
    x = LEFT
    y = 12.0
    for drawn in curves:
        words = squeeze(drawn.curve.label, KEY_LETTERS)
        width = KEY_LINE + 8.0 + KEY_LETTER * len(words)
        if x > LEFT and x + width > LEFT + SIDE:
            x = LEFT
            y = y + 20.0
        line = element(
            "path",
            d=f"M{x:.0f} {y:.0f}h{KEY_LINE:.0f}",
            class_=f"curve {line_class(drawn.number)}",
            data_curve=drawn.number,
        )
        parts.append(line)
        parts.append(label(x + KEY_LINE + 6.0, y + 5.0, words, "start"))
        x += width + 16.0
    return parts, y + 12.0


def _frame(axes: Axes, happens: str) -> list[Markup]:
    """Grid and the vertical axis."""
    parts = []
    for tick in TICKS:
        parts.append(axes.horizontal(tick, "grid"))
        parts.append(axes.vertical(tick, "grid"))
        parts.append(axes.y_label(tick, f"{100 * tick:.0f}%"))
    parts.append(label(8.0, axes.top - 18.0, happens, "start"))
    return parts


def _sides(axes: Axes, curve: Curve) -> list[Markup]:
    """What it means to lie above or below the diagonal."""
    above = "above: underconfident ▲"
    below = "below: overconfident ▼"
    if curve.quantity == "positive":
        above = "above: too low ▲"
        below = "below: too high ▼"
    return [
        label(axes.left + 10.0, axes.top + 22.0, above, "start"),
        label(axes.right - 8.0, axes.bottom - 12.0, below, "end"),
    ]


def _recalibration(axes: Axes, drawn: DrawnCurve, is_shown: bool) -> list[Markup]:
    """Calibration slope and intercept of a curve of P(class 1), in the upper corner."""
    named = {"slope": drawn.curve.slope, "intercept": drawn.curve.intercept}
    parts = []
    y = axes.top + 22.0
    for name, value in named.items():
        if value is None:
            continue
        y += 21.0
        ends = span(value.low, value.high, scale=1.0, digits=2)
        text = element(
            "text",
            f"{name} {plain(value.value, 2)} ({ends})",
            x=f"{axes.left + 10.0:.1f}",
            y=f"{y:.1f}",
            text_anchor="start",
            class_=None if is_shown else "off",
            data_band=drawn.number,
        )
        parts.append(text)
    return parts


def _band(axes: Axes, drawn: DrawnCurve, is_shown: bool) -> Markup:
    """The band of a curve; that of the version in focus is visible."""
    band = drawn.curve.band
    kept = thinned(len(band.x))
    x = np.append(band.x[kept], band.x[kept][::-1])
    y = np.append(band.high[kept], band.low[kept][::-1])
    return element(
        "polygon",
        points=axes.points(x, y, digits=0),
        class_="band" if is_shown else "band off",
        data_band=drawn.number,
    )


def _lines(axes: Axes, drawn: DrawnCurve) -> list[Markup]:
    """A curve: all of it thin and pale, and over it, in full, the steps of many
    samples.
    """
    pen = line_class(drawn.number)
    x, y = _knots(drawn.curve)
    parts = [axes.polyline(x, y, f"curve few {pen}", data_curve=drawn.number)]
    path = _full_steps(axes, drawn.curve)
    if path:
        attributes = {"class_": f"curve {pen}", "data_curve": drawn.number}
        parts.append(element("path", d=path, **attributes))
    if drawn.curve.fall is not None:
        parts += _crosses(axes, drawn)
    return parts


def _knots(curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Points of a curve; a single one becomes a short dash, so that it is seen."""
    x, y = curve.isotonic.knots
    if len(x) == 1:
        ends = np.array([max(x[0] - 0.008, 0.0), min(x[0] + 0.008, 1.0)])
        return ends, np.repeat(y, 2)
    if len(x) <= 3 * POINTS:
        return x, y
    kept = thinned(len(x))
    return x[kept], y[kept]


def _full_steps(axes: Axes, curve: Curve) -> str:
    """Path of the steps of ``FEW`` samples or more, and of the rises between these."""
    fit = curve.isotonic
    has_many = fit.weight >= FEW
    places = axes.points(fit.low, fit.value).split(" ")
    ends = (axes.left + axes.width * fit.high).tolist()
    steps = []
    for number in np.flatnonzero(has_many).tolist():
        follows = number > 0 and has_many[number - 1]
        pen = "L" if follows else "M"
        steps.append(f"{pen}{places[number]}H{ends[number]:.1f}")
    return "".join(steps)


def _crosses(axes: Axes, drawn: DrawnCurve) -> list[Markup]:
    """The bins with their intervals, where the curve hides that the outcome falls."""
    bins = drawn.curve.bins
    parts = []
    for number in np.flatnonzero(bins.count > 0).tolist():
        x = axes.x(bins.confidence[number])
        high = axes.y(bins.accuracy_high[number])
        low = axes.y(bins.accuracy_low[number])
        middle = axes.y(bins.accuracy[number])
        path = f"M{x:.1f} {high:.1f}V{low:.1f}M{x - 4:.1f} {middle:.1f}h8"
        pen = f"curve few {line_class(drawn.number)}"
        parts.append(element("path", d=path, class_=pen, data_curve=drawn.number))
    return parts


def _tallest(curves: Sequence[DrawnCurve]) -> int:
    """Samples under the highest bar of all histograms."""
    return max(int(drawn.curve.histogram.count.max()) for drawn in curves)


def _histograms(axes: Axes, foot: float, curves: Sequence[DrawnCurve]) -> list[Markup]:
    """Outlines of the histograms; heights are square roots, so that few are seen."""
    tallest = max(_tallest(curves), 1)
    parts = []
    for drawn in curves:
        histogram = drawn.curve.histogram
        tops = foot - HISTOGRAM * np.sqrt(histogram.count / tallest)
        rights = axes.left + axes.width * histogram.edges[1:]
        steps = [f"M{axes.x(histogram.edges[0]):.1f} {foot:.0f}"]
        for right, top in zip(rights.tolist(), tops.tolist(), strict=True):
            steps.append(f"V{top:.1f}H{right:.1f}")
        steps.append(f"V{foot:.0f}")
        pen = f"histogram {line_class(drawn.number)}"
        path = "".join(steps)
        parts.append(element("path", d=path, class_=pen, data_curve=drawn.number))
    parts.append(element("path", d=f"M{axes.left} {foot}H{axes.right}", class_="axis"))
    return parts
