"""Drawing in characters: a plane to plot on, and what the drawings of all styles have around it.

Lines are braille dots and areas are shades, or both are plain ASCII.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from re import sub

import numpy as np

from calcli.diagrams.style import Figure, style
from calcli.fast_dataclass import dataclass
from calcli.numerics import FloatArray

SHADES = {"band": "░", "diagonal": "·", "point": "●", "thin": "○", "whisker": "│", "mark": "┊"}
ASCII = {"band": ":", "diagonal": ".", "point": "O", "thin": "o", "whisker": "|", "mark": "|"}
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bits of the braille dots of a cell, four rows of two (Unicode block 2800)."""

NEAR = str.maketrans("…−–", "~--")
"""What stands in ASCII for signs that are near it."""

SGR = {"curve": "1;36", "outside": "1;31", "band": "90", "diagonal": "37", "strong": "1", "faint": "2", "other": "33"}


@dataclass(frozen=True)
class Look:
    """What the terminal can show. unicode : braille and block characters. colour : ANSI codes."""

    unicode: bool = True
    colour: bool = False

    def paint(self, text: str, role: str) -> str:
        """The text in the colour of its role, if it has one, or as it is."""
        return f"\x1b[{SGR[role]}m{text}\x1b[0m" if self.colour and role and text.strip() else text

    def sign(self, name: str) -> str:
        """The character for a kind of mark."""
        return (SHADES if self.unicode else ASCII)[name]


@dataclass
class Canvas:
    """width x height character cells over the ranges x = (low, high) and y = (low, high).

    Later areas and signs cover earlier ones; lines cover everything.
    """

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    look: Look
    cells: list[list[tuple[str, str]]] = field(init=False)

    def __post_init__(self) -> None:
        self.cells = [[(" ", "")] * self.width for _ in range(self.height)]
        self.dots = np.zeros((4 * self.height, 2 * self.width), dtype=np.bool_)
        self.roles: dict[tuple[int, int], str] = {}

    def column(self, x: float) -> int:
        """The cell column of a value, clipped to the canvas."""
        share = (x - self.x[0]) / (self.x[1] - self.x[0])
        return min(max(int(share * self.width), 0), self.width - 1)

    def row(self, y: float) -> int:
        """The cell row of a value, 0 on top, clipped to the canvas."""
        share = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.height - 1 - min(max(int(share * self.height), 0), self.height - 1)

    def centres(self) -> FloatArray:
        """The x value at the middle of every cell column."""
        step = (self.x[1] - self.x[0]) / self.width
        return np.asarray(self.x[0] + step * (np.arange(self.width) + 0.5), dtype=np.float64)

    def put(self, row: int, column: int, sign: str, role: str) -> None:
        self.cells[row][column] = (sign, role)

    def area(self, x: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Shade between two lines, at least one cell high wherever x reaches."""
        for column, at in enumerate(self.centres()):
            half = 0.5 * (self.x[1] - self.x[0]) / self.width
            if at + half < x[0] or at - half > x[-1]:
                continue
            bottom, top = self.row(float(np.interp(at, x, low))), self.row(float(np.interp(at, x, high)))
            for row in range(top, bottom + 1):
                self.put(row, column, self.look.sign("band"), "band")

    def vertical(self, x: float, low: float, high: float, name: str, role: str) -> None:
        for row in range(self.row(high), self.row(low) + 1):
            self.put(row, self.column(x), self.look.sign(name), role)

    def line(self, x: FloatArray, y: FloatArray, role: Sequence[str] | str = "curve") -> None:
        """A polyline in braille dots, or in asterisks; ``role`` for all or per segment."""
        height, width = self.dots.shape if self.look.unicode else (self.height, self.width)
        u = (np.asarray(x) - self.x[0]) / (self.x[1] - self.x[0]) * width
        v = (np.asarray(y) - self.y[0]) / (self.y[1] - self.y[0]) * height
        for at in range(max(len(u) - 1, 1)):
            end = min(at + 1, len(u) - 1)
            steps = int(max(abs(u[end] - u[at]), abs(v[end] - v[at]), 1)) * 2
            colour = role if isinstance(role, str) else role[at]
            for part in np.linspace(0, 1, steps + 1):
                c = int(min(max(u[at] + part * (u[end] - u[at]), 0), width - 1))
                r = height - 1 - int(min(max(v[at] + part * (v[end] - v[at]), 0), height - 1))
                if self.look.unicode:
                    self.dots[r, c] = True
                    self.roles[r // 4, c // 2] = colour
                else:
                    self.put(r, c, "*", colour)

    def lines(self) -> list[str]:
        """The canvas as text, one line per row, colours included."""
        out = []
        for r, cells in enumerate(self.cells):
            text, run, current = "", "", ""
            for c, (sign, role) in enumerate(cells):
                bits = int((DOTS * self.dots[4 * r : 4 * r + 4, 2 * c : 2 * c + 2]).sum())
                if bits:
                    sign, role = chr(0x2800 + bits), self.roles[r, c]
                if role != current:
                    text, run, current = text + self.look.paint(run, current), "", role
                run += sign
            out.append(text + self.look.paint(run, current))
        return out


def eighths(heights: FloatArray, rows: int, look: Look) -> list[str]:
    """Vertical bars as ``rows`` lines of block characters. heights : shares 0..1 of the full height."""
    lines = []
    for row in range(rows - 1, -1, -1):
        level = np.clip(heights * rows - row, 0, 1)
        if look.unicode:
            lines.append("".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * share))] for share in level))
        else:
            lines.append("".join("#" if share > 0.25 or (share > 0 and row == 0) else " " for share in level))
    return lines


def beside(blocks: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Blocks of lines next to each other; widths do not count colour codes."""
    out = []
    for at in range(max(map(len, blocks))):
        line = ""
        for block, width in zip(blocks, widths, strict=True):
            text = block[at] if at < len(block) else ""
            line += text + " " * (width + 2 - len(sub("\x1b\\[[0-9;]*m", "", text)))
        out.append(line.rstrip())
    return out


AXIS = 6
"""Characters that the y axis takes: a number and a tick."""


def draw(figure: Figure, width: int = 80, look: Look = Look()) -> str:  # noqa: B008 (frozen)
    """The figure as lines of text, at most ``width`` characters wide (at least 30)."""
    lines = style(figure.style).text(figure, max(width, 30), look)
    text = "\n".join(line.rstrip() for line in lines)
    return text if look.unicode else text.translate(NEAR).encode("ascii", "replace").decode()


def with_axis(canvas: Canvas, ticks: dict[int, str]) -> list[str]:
    tick, plain = ("┤", "│") if canvas.look.unicode else ("+", "|")
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


def flow(items: Iterable[tuple[str, str]], width: int, look: Look, gap: str = "   ") -> list[str]:
    """Fill lines with items (text, role)."""
    lines, length = [""], 0
    for text, role in items:
        if length and length + len(gap) + len(text) > width:
            lines.append("")
            length = 0
        lines[-1] += (gap if length else "") + look.paint(text, role)
        length += (len(gap) if length else 0) + len(text)
    return lines


def plot(
    title: str, canvas: Canvas, y_labels: tuple[str, str], x_labels: Sequence[str], places: Sequence[float]
) -> list[str]:
    """A canvas with its title and labels on both axes."""
    return [
        canvas.look.paint(title, "strong"),
        *with_axis(canvas, {0: y_labels[1], canvas.height - 1: y_labels[0]}),
        base_line(canvas.width, canvas.look),
        " " * (AXIS + 1) + scale(canvas.width, x_labels, places),
    ]
