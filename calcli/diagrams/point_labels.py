"""Labels beside points that cover neither each other nor the points."""

from collections.abc import Sequence
from math import cos, pi, sin
from typing import Any

Box = tuple[float, float, float, float]
"""left, low, right, high in pixels."""

RADII = (7.0, 12.0, 18.0, 26.0, 36.0)


def overlap(a: Box, b: Box) -> bool:
    """Do two boxes share more than an edge?"""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def place(axes: Any, points: Sequence[tuple[float, float, str]], *, size: float, colour: str, line: str) -> list[Box]:
    """Annotate (x, y, text) in free places nearby, farther ones with a leader; the boxes taken.

    Axis limits must be final. A label that finds no free place within half an inch is left
    out: the table beneath still names its point.
    """
    scale = axes.figure.dpi / 72.0
    spots = [axes.transData.transform((x, y)) for x, y, _ in points]
    frame = axes.get_window_extent()
    taken: list[Box] = [(x - 4 * scale, y - 4 * scale, x + 4 * scale, y + 4 * scale) for x, y in spots]
    dots, boxes = list(taken), []
    for (x, y), dot, (px, py, text) in zip(spots, dots, points, strict=True):
        wide, tall = 0.65 * size * len(text) * scale, size * scale
        for radius in RADII:
            found = None
            for step in range(16):
                angle = pi / 4 - step * pi / 8
                cx, cy = x + (radius * scale + wide / 2) * cos(angle), y + radius * scale * sin(angle)
                box = (cx - wide / 2, cy - tall / 2, cx + wide / 2, cy + tall / 2)
                inside = frame.x0 < box[0] and box[2] < frame.x1 and frame.y0 < box[1] and box[3] < frame.y1
                if inside and not any(overlap(box, other) for other in taken if other is not dot):
                    found = (box, cx, cy)
                    break
            if found:
                box, cx, cy = found
                far = {"arrowstyle": "-", "color": line, "lw": 0.4, "shrinkA": 1, "shrinkB": 3} if radius > 7 else None
                axes.annotate(
                    text,
                    (px, py),
                    ((cx - x) / scale, (cy - y) / scale),
                    textcoords="offset points",
                    fontsize=size,
                    color=colour,
                    ha="center",
                    va="center",
                    arrowprops=far,
                    zorder=6,
                )
                taken.append(box)
                boxes.append(box)
                break
    return boxes
