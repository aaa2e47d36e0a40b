"""Output to users: messages on stderr, tables and JSON on stdout, progress on a terminal."""

import csv
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import StringIO
from typing import Any, NamedTuple, TextIO

from calcli.io.harmless import HIDDEN, finite, harmless_cell

LONGEST_LINE = (
    2000  # characters of an error; what a file or a user wrote may be far longer
)


def fail(message: str, code: int) -> int:
    """Print an error as one line on stderr; returns the exit code."""
    text = " ".join(message.split())
    text = (
        text
        if len(text) <= LONGEST_LINE
        else f"{text[: LONGEST_LINE // 2]} … {text[-LONGEST_LINE // 2 :]}"
    )
    with suppress(OSError):  # if stderr is on a full disk too, the exit code remains
        print("calcli:", plain(text), file=sys.stderr)
    return code


class Console:
    """Messages to the user on stderr; silent with ``quiet``."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.n_lines = 0  # lines said so far
        self._rates: dict[
            str, tuple[float, int, int]
        ] = {}  # (start time, done at the start, done now)
        self._due, self._drawn, self._step = 0.0, False, ""
        self._kept: dict[str, list[str]] = {}

    def say(self, text: str = "") -> None:
        if not self.quiet:
            self._close()
            self.n_lines += 1
            print(plain(text), file=sys.stderr)

    def warn(self, text: str, about: str = "") -> None:
        """Print a warning as one line, so that logs can be searched for it. With ``about``, one of several things, it
        is kept until ``tell_warnings``, which joins equal ones."""
        if about:
            self._kept.setdefault(text, []).append(about)
        else:
            self.say(f"warning: {text}")

    def tell_warnings(self) -> None:
        """Write the warnings that were kept: equal ones, and many that differ in numbers alone, as one line."""
        alike: dict[str, list[str]] = {}
        for text in self._kept:
            alike.setdefault(re.sub(r"\d[\d.]*", "0", text), []).append(text)
        for texts in alike.values():
            joined = [texts] if len(texts) > ALIKE else [[text] for text in texts]
            for text, *others in joined:
                things = [
                    thing for each in (text, *others) for thing in self._kept[each]
                ]
                shown = ", ".join(things[:3]) + (
                    f" and {len(things) - 3} more" if len(things) > 3 else ""
                )
                self.say(
                    f"warning: {shown}: {text}{' (numbers of the first)' if others else ''}"
                )
        self._kept = {}

    def step(self, text: str) -> None:
        """Show in the line of progress which step begins."""
        self._step = text
        self._draw(text, sys.stderr.isatty())

    def progress(self, what: str, done: int, total: int) -> None:
        """Report progress. total : 0 if unknown."""
        now = time.monotonic()
        begun, first, before = self._rates.get(what, (now, done, done))
        if done < before:  # it begins again, as passes over rows do
            begun, first = now, done
        self._rates[what] = begun, first, done
        text = (
            f"{what}: {done}/{total} ({done / total:.0%})"
            if total
            else f"{what}: {done}, {_clock(now - begun)}"
        )
        if total and done > first:  # else no speed is known yet
            speed, left = (
                (done - first) / max(now - begun, 1e-9),
                (now - begun) * (total - done) / (done - first),
            )
            text += f", {float(f'{speed:.3g}'):.9g}/s, {_clock(left)} left"
        self._draw(f"{self._step} {text}".strip())

    def _draw(self, text: str, at_once: bool = False) -> None:
        """Write the line of progress when due: on a terminal after the first second, and rewritten in place; elsewhere
        a line a minute."""
        now, terminal = time.monotonic(), sys.stderr.isatty()
        self._due = self._due or now + (1.0 if terminal else 60.0)
        if self.quiet or (now < self._due and not at_once):
            return
        self._due, self._drawn = now + (0.1 if terminal else 60.0), terminal
        print(
            f"{ERASE}{plain(text)}" if terminal else f"{plain(text)}\n",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def clear(self) -> None:
        """Remove the line of progress; the step is over."""
        self._close()
        self._step, self._rates = "", {}

    def _close(self) -> None:
        if self._drawn:
            print(ERASE, end="", file=sys.stderr, flush=True)
        self._drawn = False


ERASE = "\r\x1b[K"
ALIKE = 3  # kept warnings that differ in numbers alone are joined where there are more than this


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def print_line(text: str = "", file: TextIO | None = None) -> None:
    """Print a line for people on stdout, or to ``file``. Whatever files and users have
    named is made harmless; a line end at the beginning is kept."""
    begin = "\n" * text.startswith("\n")
    print(begin + plain(text.removeprefix("\n")), file=file or sys.stdout)


def print_made(text: str) -> None:
    """Print tables, drawings and scripts, whose makers have made names harmless."""
    print(text, end="")


def print_path(path: object) -> None:
    """Print the path of an output: unchanged for a program, without control characters on a terminal."""
    print(plain(str(path)) if sys.stdout.isatty() else path, flush=True)


def print_json(value: Any) -> None:
    """Write one JSON object to stdout; a number that is not finite becomes null."""
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    if not unicode or len(text.encode(errors="ignore")) < len(
        text.encode(errors="surrogatepass")
    ):  # lone surrogates
        text = json.dumps(finite(value), allow_nan=False)
    print(text.translate(IN_JSON))


IN_JSON = {code: f"\\u{code:04x}" for code in (*range(127, 160), *HIDDEN)}
"""Escapes of characters that JSON allows and a terminal obeys; they are in strings only, as all else is ASCII."""


# ---- tables, and their formats


Cell = str | float | int | None
CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
CONTROL |= {code: f"\\u{code:04x}" for code in HIDDEN}
CONTROL |= {
    0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)
}  # bytes of a file's name that are no UTF-8
NAMED = {
    "\\": "backslash",
    "~": "asciitilde",
    "^": "asciicircum",
    "|": "bar",
    "<": "less",
    ">": "greater",
}
LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    c: rf"\text{name}{{}}" for c, name in NAMED.items()
}
LATEX |= {
    "±": r"$\pm$",
    "[": "{[}",
    "*": "{*}",
}  # at the start of a row, [ and * are arguments of the line end before
MARKDOWN = re.compile(r"[\\|`*<>\[\]&$~]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning in Markdown; an underscore inside a word has none."""


def plain(text: str) -> str:
    """Escape characters in text from a file that would control a terminal or break a line."""
    return text.translate(CONTROL)


class Table(NamedTuple):
    """Named columns and rows of cells: words, numbers, or None where there is nothing. A column whose cells are all
    numbers is aligned right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def right(self) -> list[bool]:
        """True for every column of numbers alone, which is aligned right."""
        return [
            all(not isinstance(row[j], str) for row in self.rows)
            for j in range(len(self.columns))
        ]

    @property
    def lines(self) -> list[list[str]]:
        """Names of the columns, then the rows, as text for people with rounded numbers."""
        return [
            [plain(number(cell)) for cell in row] for row in (self.columns, *self.rows)
        ]


ROUNDING = 1e-12  # a smaller number in a table is a rounding error of 0


def number(value: Any) -> str:
    """Format a number for a table: four decimals, or significant digits when it is small or large."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, str | bool | int):
        return str(value)
    return (
        f"{value:.3e}"
        if abs(value) >= 1e6 or ROUNDING < abs(value) < 1e-4
        else f"{value:.4f}"
    )


def print_table(
    head: Sequence[str], body: Sequence[Sequence[Cell]], *, file: TextIO | None = None
) -> None:
    """Write a table: plain text, or with rules and colour when ``file`` (stdout) is a terminal."""
    out, table = file or sys.stdout, Table(head, body)
    print(
        _rich(table, out)
        if out.isatty() and not os.environ.get("CALCLI_PLAIN")
        else _text(table),
        end="",
        file=out,
    )


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _text(table: Table) -> str:
    lines, right = table.lines, table.right
    widths, text = _widths(lines), ""
    for line in lines:
        cells = (
            c.rjust(w) if r else c.ljust(w)
            for c, w, r in zip(line, widths, right, strict=True)
        )
        text += "  ".join(cells).rstrip() + "\n"
    return text


def _rich(table: Table, out: TextIO) -> str:
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    head, *lines = table.lines
    least = 0
    for name, right, width in zip(
        head, table.right, _widths([head, *lines]), strict=True
    ):
        drawn.add_column(
            name, justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
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
    """LaTeX tabular for the package booktabs."""
    lines = [
        " & ".join("".join(LATEX.get(c, c) for c in cell) for cell in line) + r" \\"
        for line in table.lines
    ]
    columns = "".join("r" if right else "l" for right in table.right)
    parts = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        lines[0],
        r"\midrule",
        *lines[1:],
        r"\bottomrule",
    ]
    return "\n".join([*parts, r"\end{tabular}", ""])


def _csv(table: Table) -> str:
    """CSV with all digits of numbers, empty cells for missing values, and no text that is a formula."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (table.columns, *table.rows):
        cells = [
            None if isinstance(cell, float) and math.isnan(cell) else cell
            for cell in row
        ]
        writer.writerow(
            [
                harmless_cell(plain(cell)) if isinstance(cell, str) else cell
                for cell in cells
            ]
        )
    return text.getvalue()


TEXTS: dict[str, Callable[[Table], str]] = {
    "table": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
"""Name of a format -> function that writes a table in it."""
