"""One representation of a table, and the texts made of it."""

import csv
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, NamedTuple, TextIO

from calcli.io.cells import HIDDEN, harmless_cell

Cell = str | float | int | None
CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
CONTROL |= {code: f"\\u{code:04x}" for code in HIDDEN}
CONTROL |= {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)}  # bytes of a file's name that are no UTF-8
NAMED = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "|": "bar", "<": "less", ">": "greater"}
LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {c: rf"\text{name}{{}}" for c, name in NAMED.items()}
LATEX |= {"±": r"$\pm$", "[": "{[}", "*": "{*}"}  # [, * at the beginning of a row are distances to the one before
MARKDOWN = re.compile(r"[\\|`*<>\[\]&$~]|(?<![^\W_])_|_(?![^\W_])")
"""What would not stand for itself; an underscore inside a word does."""


def plain(text: str) -> str:
    """Text from a file in which nothing steers a terminal or breaks a line."""
    return text.translate(CONTROL)


class Table(NamedTuple):
    """Named columns and rows of cells: words, numbers, or None where there is nothing. A column whose cells are all
    numbers is aligned right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def right(self) -> list[bool]:
        """Which columns hold numbers only."""
        return [all(not isinstance(row[j], str) for row in self.rows) for j in range(len(self.columns))]

    @property
    def lines(self) -> list[list[str]]:
        """The names of the columns, and the cells for people, numbers rounded."""
        return [[plain(number(cell)) for cell in row] for row in (self.columns, *self.rows)]


ROUNDING = 1e-12  # a number of a table that is smaller is what rounding left of 0


def number(value: Any) -> str:
    """A number for a table: four decimals, or significant digits when it is small or large."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, str | bool | int):
        return str(value)
    return f"{value:.3e}" if abs(value) >= 1e6 or ROUNDING < abs(value) < 1e-4 else f"{value:.4f}"


def print_table(head: Sequence[str], body: Sequence[Sequence[Cell]], *, file: TextIO | None = None) -> None:
    """Write a table: plain text, or with rules and colour when ``file`` (stdout) is a terminal."""
    out, table = file or sys.stdout, Table(head, body)
    print(_rich(table, out) if out.isatty() and not os.environ.get("CALCLI_PLAIN") else _text(table), end="", file=out)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _text(table: Table) -> str:
    lines, right = table.lines, table.right
    widths, text = _widths(lines), ""
    for line in lines:
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True))
        text += "  ".join(cells).rstrip() + "\n"
    return text


def _rich(table: Table, out: TextIO) -> str:
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    head, *lines = table.lines
    least = 0
    for name, right, width in zip(head, table.right, _widths([head, *lines]), strict=True):
        drawn.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
        least += 2 + (width if right else min(width, 12))
    for line in lines:
        drawn.add_row(*line)
    # Names are not markup. Words may be folded, numbers not: rather too wide than cut in two.
    console = Console(file=out, markup=False, emoji=False, highlight=False)
    console.width = max(console.width, least)
    with console.capture() as drawing:
        console.print(drawn)
    return drawing.get()


def _markdown(table: Table) -> str:
    rule = ["---:" if right else "---" for right in table.right]
    cells = [[MARKDOWN.sub(r"\\\g<0>", cell) for cell in line] for line in table.lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in [cells[0], rule, *cells[1:]])


def _latex(table: Table) -> str:
    """A tabular for the package booktabs."""
    lines = [" & ".join("".join(LATEX.get(c, c) for c in cell) for cell in line) + r" \\" for line in table.lines]
    columns = "".join("r" if right else "l" for right in table.right)
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([*parts, r"\end{tabular}", ""])


def _csv(table: Table) -> str:
    """Numbers with all their digits, nothing where there is no value, no word that is a formula."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (table.columns, *table.rows):
        cells = [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in row]
        writer.writerow([harmless_cell(plain(cell)) if isinstance(cell, str) else cell for cell in cells])
    return text.getvalue()


TEXTS: dict[str, Callable[[Table], str]] = {"table": _text, "markdown": _markdown, "latex": _latex, "csv": _csv}
"""How a table is written, by the name of the format."""
