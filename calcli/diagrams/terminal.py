"""Drawing in characters: a canvas to plot on, and the axes, labels and legends around
it.

Lines are braille dots and areas are shades. On a terminal of ASCII alone, they are
replaced at the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import itemgetter
from re import sub

import numpy as np

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.style import Figure
from calcli.numerics import FloatArray

BAND, DIAGONAL, POINT, HOLLOW, WHISKER, MARK, LINE = *"░·●○│┊", "⠤⠒"
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bits of the braille dots of a cell, four rows of two (Unicode block 2800)."""

ASCII = str.maketrans("…−–░·●○│┊┤└─┄▲△◆⠤⠒", "~--:.Oo||++-.ACX**")
"""Replacements of other characters on a terminal that shows ASCII alone."""

SGR = {
    "curve": "1;36",
    "outside": "1;31",
    "band": "90",
    "diagonal": "37",
    "strong": "1",
    "faint": "2",
    "other": "33",
}


@dataclass(frozen=True)
class Look:
    """Capabilities of a terminal.

    unicode : braille and block characters. colour : ANSI codes.
    """

    unicode: bool = True
    colour: bool = False

    def paint(self, text: str, role: str) -> str:
        """Colour a text by its role; unchanged where colours are off or it has no role."""
        if not self.colour or not role or not text.strip():
            return text
        return f"\x1b[{SGR[role]}m{text}\x1b[0m"


class Canvas:
    """Grid of width x height character cells over the ranges x = (low, high) and y =
    (low, high).

    Later areas and characters cover earlier ones; lines cover everything.
    """

    def __init__(
        self,
        width: int,
        height: int,
        x: tuple[float, float],
        y: tuple[float, float],
        look: Look,
    ) -> None:
        self.width = width
        self.height = height
        self.x = x
        self.y = y
        self.look = look
        self.cells = [[(" ", "")] * width for _ in range(height)]
        self.dots = np.zeros((4 * height, 2 * width), dtype=np.bool_)
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
        return np.asarray(
            self.x[0] + step * (np.arange(self.width) + 0.5), dtype=np.float64
        )

    def put(self, row: int, column: int, character: str, role: str) -> None:
        self.cells[row][column] = (character, role)

    def diagonal(self) -> None:
        """Draw the line on which outcome and forecast agree."""
        for column, x in enumerate(self.centres()):
            self.put(self.row(x), column, DIAGONAL, "diagonal")

    def area(self, x: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Shade between two lines, at least one cell high wherever x reaches."""
        centres = self.centres()
        half = 0.5 * (self.x[1] - self.x[0]) / self.width
        bottom = np.interp(centres, x, low)
        top = np.interp(centres, x, high)
        is_reached = (centres + half >= x[0]) & (centres - half <= x[-1])
        for column in np.flatnonzero(is_reached).tolist():
            for row in range(self.row(top[column]), self.row(bottom[column]) + 1):
                self.put(row, column, BAND, "band")

    def vertical(
        self, x: float, low: float, high: float, character: str, role: str
    ) -> None:
        for row in range(self.row(high), self.row(low) + 1):
            self.put(row, self.column(x), character, role)

    def line(
        self, x: FloatArray, y: FloatArray, role: Sequence[str] | str = "curve"
    ) -> None:
        """Draw a polyline in braille dots, or in asterisks; ``role`` for all or per
        segment.
        """
        height = self.height
        width = self.width
        if self.look.unicode:
            height, width = self.dots.shape
        u = (np.asarray(x) - self.x[0]) / (self.x[1] - self.x[0]) * width
        v = (np.asarray(y) - self.y[0]) / (self.y[1] - self.y[0]) * height
        for start in range(max(len(u) - 1, 1)):
            end = min(start + 1, len(u) - 1)
            right = u[end] - u[start]
            up = v[end] - v[start]
            steps = int(max(abs(right), abs(up), 1)) * 2
            colour = role if isinstance(role, str) else role[start]
            for part in np.linspace(0, 1, steps + 1):
                c = int(min(max(u[start] + part * right, 0), width - 1))
                r = height - 1 - int(min(max(v[start] + part * up, 0), height - 1))
                if self.look.unicode:
                    self.dots[r, c] = True
                    self.roles[r // 4, c // 2] = colour
                else:
                    self.put(r, c, "*", colour)

    def lines(self) -> list[str]:
        """The canvas as text, one line per row, colours included."""
        bits = np.einsum(
            "rhcw,hw->rc", self.dots.reshape(self.height, 4, self.width, 2), DOTS
        )
        for r, c in zip(*np.nonzero(bits), strict=True):
            self.put(r, c, chr(0x2800 + bits[r, c]), self.roles[r, c])
        out = []
        for row in self.cells:
            line = ""
            for role, run in groupby(row, itemgetter(1)):
                line += self.look.paint(
                    "".join(character for character, _ in run), role
                )
            out.append(line)
        return out


def eighths(heights: FloatArray, rows: int, look: Look) -> list[str]:
    """Vertical bars as ``rows`` lines of block characters.

    heights : fractions of the full height.
    """
    lines = []
    for row in range(rows - 1, -1, -1):
        characters = " ▁▂▃▄▅▆▇█"
        if not look.unicode:
            # The lowest cell shows any height, the others three eighths and more.
            characters = "   ######" if row else " ########"
        levels = np.ceil(8 * np.clip(heights * rows - row, 0, 1)).astype(np.int64)
        lines.append("".join(characters[level] for level in levels))
    return lines


def beside(blocks: Sequence[Sequence[str]], width: int) -> list[str]:
    """Join blocks of lines side by side, each padded to a width that does not count
    colour codes.
    """
    lines = []
    for row in zip_longest(*blocks, fillvalue=""):
        cells = []
        for cell in row:
            shown = sub("\x1b\\[[0-9;]*m", "", cell)
            cells.append(cell + " " * (width - len(shown)))
        lines.append("  ".join(cells).rstrip())
    return lines


AXIS = 6
"""Characters left of the y axis, for its numbers."""


def draw(figure: Figure, width: int = 80, look: Look = Look()) -> str:
    """Draw a figure as lines of text, at most ``width`` characters wide (at least 30)."""
    text = "\n".join(line.rstrip() for line in figure.text(max(width, 30), look))
    if look.unicode:
        return text
    return text.translate(ASCII).encode("ascii", "replace").decode()


def with_axis(canvas: Canvas, ticks: dict[int, str]) -> list[str]:
    """Lines of a canvas, its y axis with labels at some rows, and the line of its x
    axis.
    """
    lines = []
    for row, line in enumerate(canvas.lines()):
        side = " " * AXIS + "│"
        if row in ticks:
            side = f"{ticks[row]:>{AXIS}}┤"
        lines.append(side + line)
    return [*lines, base_line(canvas.width)]


def base_line(width: int) -> str:
    return " " * AXIS + "└" + "─" * width


def scale(width: int, labels: Sequence[str], places: Sequence[float]) -> str:
    """Line of labels under an axis, each centred at its fraction of the width where it
    fits.
    """
    text = [" "] * width
    for label, place in zip(labels, places, strict=True):
        start = min(max(round(place * width - len(label) / 2), 0), width - len(label))
        if all(c == " " for c in text[max(start - 1, 0) : start + len(label) + 1]):
            text[start : start + len(label)] = label
    return "".join(text)


def flow(
    items: Iterable[tuple[str, str]], width: int, look: Look, gap: str = "   "
) -> list[str]:
    """Fill lines with items (text, role), separated by ``gap``."""
    lines = [""]
    length = 0
    for text, role in items:
        if length and length + len(gap) + len(text) > width:
            lines.append("")
            length = 0
        lines[-1] += (gap if length else "") + look.paint(text, role)
        length += (len(gap) if length else 0) + len(text)
    return lines


def heading(title: str, width: int, look: Look) -> list[str]:
    """The title of a figure, and an empty line."""
    return [look.paint(squeeze(title, width), "strong"), ""]


def plot(
    title: str, canvas: Canvas, ends: tuple[str, str], ticks: Mapping[str, float]
) -> list[str]:
    """Lines of a canvas with its title, labels at the ends of its y axis, and ticks
    (label -> x) on its x axis.
    """
    (low, high) = canvas.x
    left = " " * (AXIS + 1)
    places = [(x - low) / (high - low) for x in ticks.values()]
    body = with_axis(canvas, {0: ends[1], canvas.height - 1: ends[0]})
    return [
        canvas.look.paint(title, "strong"),
        *body,
        left + scale(canvas.width, list(ticks), places),
    ]
