"""What the terminal drawings of all styles share."""

from collections.abc import Sequence

from calcli.diagrams.canvas import Canvas, Look
from calcli.diagrams.style import Figure, style

AXIS = 6
"""Characters that the y axis takes: a number and a tick."""


def draw(figure: Figure, width: int = 80, look: Look = Look()) -> str:  # noqa: B008 (frozen)
    """The figure as lines of text, at most ``width`` characters wide (at least 30)."""
    lines = style(figure.style).text(figure, max(width, 30), look)
    text = "\n".join(line.rstrip() for line in lines)
    return text if look.unicode else _ascii(text)


def _ascii(text: str) -> str:
    for sign, plain in {"…": "~", "−": "-", "–": "-"}.items():
        text = text.replace(sign, plain)
    return text.encode("ascii", "replace").decode()


def with_axis(canvas: Canvas, look: Look, ticks: dict[int, str]) -> list[str]:
    tick, plain = ("┤", "│") if look.unicode else ("+", "|")
    return [
        (f"{ticks[at]:>{AXIS}}{tick}" if at in ticks else " " * AXIS + plain) + line
        for at, line in enumerate(canvas.lines())
    ]


def base_line(width: int, look: Look) -> str:
    return " " * AXIS + ("└" + "─" * width if look.unicode else "+" + "-" * width)


def scale(width: int, labels: Sequence[str], places: Sequence[float]) -> str:
    """Labels under an axis, each centred at its share of the width where that fits."""
    text = [" "] * width
    for label, place in zip(labels, places, strict=True):
        start = min(max(round(place * width - len(label) / 2), 0), width - len(label))
        if all(c == " " for c in text[max(start - 1, 0) : start + len(label) + 1]):
            text[start : start + len(label)] = label
    return "".join(text)


def flow(items: Sequence[tuple[str, str]], width: int, look: Look | None = None, gap: str = "   ") -> list[str]:
    """Fill lines with items (shown, plain), or (plain, role) when a look is given to paint them."""
    lines, length = [""], 0
    for first, second in items:
        plain, shown = (first, look.paint(first, second)) if look else (second, first)
        if length and length + len(gap) + len(plain) > width:
            lines.append("")
            length = 0
        lines[-1] += (gap if length else "") + shown
        length += (len(gap) if length else 0) + len(plain)
    return lines


def plot(
    title: str, canvas: Canvas, look: Look, y_labels: tuple[str, str], x_labels: Sequence[str], places: Sequence[float]
) -> list[str]:
    axis = {0: y_labels[1], canvas.height - 1: y_labels[0]}
    return [
        look.paint(title, "strong"),
        *with_axis(canvas, look, axis),
        base_line(canvas.width, look),
        " " * (AXIS + 1) + scale(canvas.width, x_labels, places),
    ]
