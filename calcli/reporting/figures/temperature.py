"""NLL and calibration error against the temperature that scores are divided by."""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from calcli.diagrams.caption_text import round_ticks
from calcli.diagrams.styles.temperature import TemperatureSweep
from calcli.reporting.figures.reliability import LEFT, SIDE, WIDTH
from calcli.reporting.figures.svg import Axes, element, figure, label
from calcli.reporting.number_format import fixed

HEIGHT = 130.0
APART = 52.0
"""Distance of two marks, each of which has its own text."""


def temperature_figure(sweep: TemperatureSweep, ident: str) -> Markup:
    """NLL above and calibration error beneath; lines at the marked temperatures."""
    log_t = np.log(sweep.temperature)
    low = float(log_t[0])
    high = float(log_t[-1])
    least = float(sweep.nll.min())
    most = float(sweep.nll.max())
    if most == least:
        most = least + 1.0
    largest = float(max(sweep.ece.max(), sweep.ece_null_mean.max())) or 1.0
    loss = Axes(LEFT, 46.0, SIDE, HEIGHT, low, high, least, most)
    error = Axes(LEFT, 220.0, SIDE, HEIGHT, low, high, 0.0, largest)
    parts = [
        loss.polyline(log_t, sweep.nll, "curve v1"),
        loss.horizontal(least, "axis"),
        label(8.0, 30.0, "NLL", "start"),
        loss.y_label(most, fixed(most, 2)),
        loss.y_label(least, fixed(least, 2)),
        error.polyline(log_t, sweep.ece_null_mean, "curve chance"),
        error.polyline(log_t, sweep.ece, "curve v0"),
        error.horizontal(0.0, "axis"),
        label(8.0, 204.0, "ECE in points; dotted: expected under calibration", "start"),
        error.y_label(largest, f"{100 * largest:.1f}"),
        error.y_label(0.0, "0"),
    ]
    parts += _marks(loss, error, sorted(mark.temperature for mark in sweep.marks))
    for tick in round_ticks(float(sweep.temperature[0]), float(sweep.temperature[-1])):
        parts.append(error.x_label(math.log(tick), f"{tick:g}"))
    middle = LEFT + SIDE / 2
    parts.append(label(middle, error.bottom + 44.0, "temperature (logarithmic)"))
    return figure(WIDTH, error.bottom + 56.0, _title(sweep), parts, ident)


def _title(sweep: TemperatureSweep) -> str:
    words = []
    for mark in sweep.marks:
        values = f"NLL {mark.nll:.3f}, ECE {100 * mark.ece:.1f} points"
        words.append(f"{mark.name}: T {mark.temperature:.3g}, {values}")
    return f"NLL and calibration error against temperature. {'; '.join(words)}"


def _marks(loss: Axes, error: Axes, temperatures: Sequence[float]) -> list[Markup]:
    """A line at each temperature; of those that stand close together one has a text."""
    parts = []
    last_x = -math.inf
    last_words = ""
    for temperature in temperatures:
        x = loss.x(math.log(temperature))
        path = f"M{x:.1f} {loss.top}V{error.bottom}"
        parts.append(element("path", d=path, class_="mark"))
        words = f"{temperature:.2f}"
        if x <= last_x + APART or words == last_words:
            continue
        last_x = x
        last_words = words
        if x > loss.right - APART:
            parts.append(label(x - 6.0, loss.top + 14.0, words, "end"))
        else:
            parts.append(label(x + 6.0, loss.top + 14.0, words, "start"))
    return parts
