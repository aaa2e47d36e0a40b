"""Evidence of a watched calibrator above, and its overconfidence beneath, by batch."""

import math

import numpy as np
from markupsafe import Markup

from calcli.evaluation.watch_state import State
from calcli.numerics import FloatArray
from calcli.reporting.figures.reliability import LEFT, SIDE, WIDTH
from calcli.reporting.figures.svg import POINTS, Axes, element, figure, label
from calcli.reporting.number_format import count, signed_points

HEIGHT = 150.0

LARGEST_EVIDENCE = 1e6
"""Evidence at the top of its axis, at most; what is larger is drawn there."""

POWERS = ((1e6, "10⁶"), (1e3, "1000"), (1e4, "10⁴"), (100.0, "100"), (10.0, "10"))
"""Ticks of the evidence, in the order in which they get room."""

MOST_TICKS = 10
"""Ticks of the axis of batches."""


def evidence_figure(state: State, sentence: str, ident: str) -> Markup:
    """Both panels over all batches, with a line where the evidence was reset.

    sentence : the finding, for those who cannot see the figure.
    """
    n = len(state.batches)
    log_e = np.array([batch.log_e for batch in state.batches])
    gaps = np.array([batch.overconfidence for batch in state.batches])
    evidence = _evidence_axes(state, log_e)
    overconfidence = _overconfidence_axes(state, gaps)
    tolerance = state.settings.tolerance
    parts = [
        *_evidence_frame(state, evidence, log_e),
        *_overconfidence_frame(overconfidence, tolerance),
        *_batch_ticks(overconfidence, n),
        *_episodes(state, evidence, log_e, "curve v0"),
        *_episodes(state, overconfidence, gaps, "curve v1"),
        *_alarm(state, evidence, overconfidence),
    ]
    title = f"Evidence and overconfidence over {count(n)} batches. {sentence}"
    return figure(WIDTH, overconfidence.bottom + 58.0, title, parts, ident)


def _evidence_axes(state: State, log_e: FloatArray) -> Axes:
    """Axis of log E: from 1, or the least, to a power of ten above all, or the largest."""
    alarm = -math.log(state.settings.level)
    most = min(max(float(log_e.max()), 1.2 * alarm), math.log(LARGEST_EVIDENCE))
    high = max(most, 1.2 * alarm)
    low = min(float(log_e.min()), 0.0)
    n = len(log_e)
    return Axes(LEFT, 46.0, SIDE, HEIGHT, 0.5, n + 0.5, low, high)


def _overconfidence_axes(state: State, gaps: FloatArray) -> Axes:
    reach = float(max(1.2 * state.settings.tolerance, np.abs(gaps).max(), 0.01))
    n = len(gaps)
    return Axes(LEFT, 256.0, SIDE, HEIGHT, 0.5, n + 0.5, -reach, reach)


def _evidence_frame(state: State, axes: Axes, log_e: FloatArray) -> list[Markup]:
    """Axis and ticks of the evidence, and the line of the alarm."""
    alarm_at = 1.0 / state.settings.level
    ticks = [(1.0, "1"), (alarm_at, f"{alarm_at:.3g}")]
    for power, words in POWERS:
        is_inside = math.log(power) <= axes.y_high + 1e-9
        height = axes.y(math.log(power))
        is_free = all(abs(height - axes.y(math.log(tick))) > 26.0 for tick, _ in ticks)
        if is_inside and is_free:
            ticks.append((power, words))
    parts = [
        label(8.0, 24.0, "evidence (logarithmic); dotted: alarm", "start"),
        axes.horizontal(0.0, "axis"),
    ]
    for tick, words in ticks:
        if tick not in (1.0, alarm_at):
            parts.append(axes.horizontal(math.log(tick), "grid"))
        parts.append(axes.y_label(math.log(tick), words))
    parts.append(axes.horizontal(math.log(alarm_at), "diagonal"))
    if log_e.max() > axes.y_high + 1e-9:
        parts.append(label(axes.left + 8.0, axes.top + 5.0, "or more ▲", "start"))
    return parts


def _overconfidence_frame(axes: Axes, tolerance: float) -> list[Markup]:
    """Axis and ticks of the overconfidence, and the band that is tolerated."""
    top = axes.y(tolerance)
    bottom = axes.y(-tolerance)
    band = element(
        "rect",
        x=f"{axes.left:g}",
        y=f"{top:.1f}",
        width=f"{axes.width:g}",
        height=f"{bottom - top:.1f}",
        class_="band",
    )
    head = f"overconfidence, points; grey: tolerated, {100 * tolerance:g}"
    parts = [band, label(8.0, 234.0, head, "start"), axes.horizontal(0.0, "axis")]
    for value in (axes.y_high, 0.0, axes.y_low):
        parts.append(axes.y_label(value, signed_points(value)))
    return parts


def _batch_ticks(axes: Axes, n: int) -> list[Markup]:
    """Round numbers of batches beneath the figure, the first and the last among them."""
    step = 1
    for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5):
        if n <= step * MOST_TICKS:
            break
    ticks = [1]
    for tick in range(step, n, step):
        if tick - ticks[-1] >= 0.75 * step and n - tick >= 0.75 * step:
            ticks.append(tick)
    if n > 1:
        ticks.append(n)
    parts = [axes.x_label(tick, count(tick)) for tick in ticks]
    parts.append(label(axes.left + axes.width / 2, axes.bottom + 44.0, "batch"))
    return parts


def _episodes(state: State, axes: Axes, values: FloatArray, pen: str) -> list[Markup]:
    """A line through the batches of every episode, and one down where a reset was."""
    x = np.arange(1, len(values) + 1, dtype=np.float64)
    episodes = np.array([batch.episode for batch in state.batches])
    parts = []
    for episode in np.unique(episodes).tolist():
        members = np.flatnonzero(episodes == episode)
        parts.append(axes.polyline(x[members], values[members], pen))
        first = int(members[0])
        if first > 0:
            parts.append(axes.vertical(x[first] - 0.5, "axis"))
    if len(values) <= POINTS:
        for place, value in zip(x.tolist(), values.tolist(), strict=True):
            cx = f"{axes.x(place):.1f}"
            cy = f"{axes.y(value):.1f}"
            parts.append(element("circle", cx=cx, cy=cy, r=4, class_="ring"))
    return parts


def _alarm(state: State, evidence: Axes, overconfidence: Axes) -> list[Markup]:
    """A line through both panels at the batch that raised the alarm."""
    if state.current.alarm_at is None:
        return []
    n_before = len(state.batches) - len(state.current_batches)
    x = evidence.x(n_before + state.current.alarm_at)
    path = f"M{x:.1f} {evidence.top}V{overconfidence.bottom}"
    mark = element("path", d=path, class_="mark")
    if x > LEFT + SIDE / 2:
        return [mark, label(x - 4.0, evidence.bottom + 18.0, "alarm", "end")]
    return [mark, label(x + 4.0, evidence.bottom + 18.0, "alarm", "start")]
