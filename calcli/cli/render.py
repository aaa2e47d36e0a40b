"""Write to users: messages on stderr, tables and JSON on stdout, progress."""

import csv
import json
import math
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any, NamedTuple, TextIO
from unicodedata import east_asian_width

from calcli.io.harmless import HIDDEN, finite, harmless_cell
from calcli.items import has_any

LONGEST_LINE = 2000
"""Characters of an error; what a file or a user wrote may be far longer."""

WIDTH = 100
"""Columns of an output that is not a terminal."""


def has_width(stream: TextIO) -> bool:
    """True where lines should fit: on a terminal, and where ``COLUMNS`` is set."""
    return stream.isatty() or "COLUMNS" in os.environ


def width_of_output() -> int:
    """Columns to fill: those of the terminal or of ``COLUMNS``, at most ``WIDTH``."""
    if has_width(sys.stdout):
        return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    return WIDTH


def wrapped(text: str, indent: str = "", hanging: str = "    ") -> list[str]:
    """A sentence in lines that fit, those after the first indented by ``hanging``."""
    lines = textwrap.wrap(
        _with_second_columns(plain(text)),
        width_of_output(),
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(SECOND_COLUMN, "") for line in lines]


SECOND_COLUMN = "\uffff"
"""Second column of a wide character while lines are measured; no text has it."""


def _with_second_columns(text: str) -> str:
    """The text, as many characters long as it takes columns on a terminal."""
    if text.isascii():
        return text
    return "".join(
        character + SECOND_COLUMN * (columns_of(character) - 1) for character in text
    )


def fail(message: str, code: int) -> int:
    """Print an error as one line on stderr; returns the exit code."""
    text = " ".join(message.split())
    if len(text) > LONGEST_LINE:
        text = f"{text[: LONGEST_LINE // 2]} … {text[-LONGEST_LINE // 2 :]}"
    with suppress(OSError):  # if stderr is on a full disk too, the exit code remains
        print("calcli:", plain(text), file=sys.stderr)
    return code


class Rate(NamedTuple):
    """When a step began, what was done then, and what is done now."""

    begun: float
    first: int
    done: int


class Console:
    """Messages to the user on stderr; silent with ``quiet``."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.n_lines = 0  # lines said so far
        self._rates: dict[str, Rate] = {}
        self._due = 0.0
        self._drawn = False
        self._step = ""
        self._kept: dict[str, list[str]] = {}

    def say(self, text: str = "") -> None:
        """Print a message: one line in a log, which can be searched for it; where
        lines should fit, as many as it takes."""
        if self.quiet:
            return
        self._close()
        lines = [plain(text)]
        if has_width(sys.stderr) and len(lines[0]) > width_of_output():
            lines = wrapped(text)
        self.n_lines += len(lines)
        for line in lines:
            print(line, file=sys.stderr)

    def warn(self, text: str, about: str = "") -> None:
        """Print a warning. With ``about``, one of several things, it is kept until
        ``tell_warnings``, which joins equal ones."""
        if about:
            self._kept.setdefault(text, []).append(about)
        else:
            self.say(f"warning: {text}")

    def tell_warnings(self) -> None:
        """Write the warnings that were kept.

        Equal ones become one line, as do many that differ in numbers alone.
        """
        alike: dict[str, list[str]] = {}
        for text in self._kept:
            without_numbers = re.sub(r"\d[\d.]*", "0", text)
            alike.setdefault(without_numbers, []).append(text)
        for texts in alike.values():
            if len(texts) > ALIKE:
                self._tell_warning(texts)
                continue
            for text in texts:
                self._tell_warning([text])
        self._kept = {}

    def _tell_warning(self, texts: Sequence[str]) -> None:
        """Write warnings that say the same as one line, with the first one's text."""
        things: list[str] = []
        for text in texts:
            things += self._kept[text]
        shown = ", ".join(things[:3])
        if len(things) > 3:
            shown += f" and {len(things) - 3} more"
        note = ""
        if len(texts) > 1:
            note = " (numbers of the first)"
        self.say(f"warning: {shown}: {texts[0]}{note}")

    def step(self, text: str) -> None:
        """Show in the line of progress which step begins."""
        self._step = text
        self._draw(text, sys.stderr.isatty())

    def progress(self, what: str, done: int, total: int) -> None:
        """Report progress. total : 0 if unknown."""
        now = time.monotonic()
        rate = self._rates.get(what, Rate(now, done, done))
        if done < rate.done:  # it begins again, as passes over rows do
            rate = Rate(now, done, done)
        self._rates[what] = rate._replace(done=done)
        elapsed = now - rate.begun
        text = f"{what}: {done}, {_clock(elapsed)}"
        if total:
            text = f"{what}: {done}/{total} ({done / total:.0%})"
        newly_done = done - rate.first
        if total and newly_done > 0:  # else no speed is known yet
            speed = float(f"{newly_done / max(elapsed, 1e-9):.3g}")
            left = elapsed * (total - done) / newly_done
            text += f", {speed:.9g}/s, {_clock(left)} left"
        self._draw(f"{self._step} {text}".strip())

    def _draw(self, text: str, at_once: bool = False) -> None:
        """Write the line of progress when due.

        On a terminal it comes after the first second, and is rewritten in place.
        Elsewhere there is a line a minute.
        """
        now = time.monotonic()
        is_terminal = sys.stderr.isatty()
        if not self._due:
            self._due = now + (1.0 if is_terminal else 60.0)
        if self.quiet or (now < self._due and not at_once):
            return
        self._drawn = is_terminal
        if is_terminal:
            self._due = now + 0.1
            columns = shutil.get_terminal_size((WIDTH, 24)).columns
            # A line that the terminal folds is not erased as a whole.
            line = f"{ERASE}{plain(text)[: columns - 1]}"
        else:
            self._due = now + 60.0
            line = f"{plain(text)}\n"
        print(line, end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line of progress; the step is over."""
        self._close()
        self._step = ""
        self._rates = {}

    def _close(self) -> None:
        if self._drawn:
            print(ERASE, end="", file=sys.stderr, flush=True)
        self._drawn = False


ERASE = "\r\x1b[K"
ALIKE = 3
"""Kept warnings that differ in numbers alone are joined where there are more."""


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def print_line(text: str = "", file: TextIO | None = None) -> None:
    """Print a line for people on stdout, or to ``file``. Whatever files and users have
    named is made harmless; a line end at the beginning is kept."""
    begin = "\n" if text.startswith("\n") else ""
    print(begin + plain(text.removeprefix("\n")), file=file or sys.stdout)


def print_sentence(text: str) -> None:
    """Print a sentence in as many lines as it takes."""
    for line in wrapped(text):
        print_line(line)


def print_made(text: str) -> None:
    """Print tables, drawings and scripts, whose makers have made names harmless."""
    print(text, end="")


def print_folded(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of words, the last column in as many lines as it takes."""
    left = list(range(len(head)))
    for line in table_lines(folded([head, *rows]), left):
        print_line(line)


def reflowed(text: str) -> str:
    """A text whose paragraphs fit the output; formulas and signatures keep their lines."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        if any(columns_of(line) > width_of_output() for line in lines):
            lines = _reflowed_lines(lines)
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def _reflowed_lines(lines: Sequence[str]) -> list[str]:
    """Lines of a paragraph that fit the output: of prose, of a list, or of facts."""
    is_list = any(map(LIST_ITEM.match, lines))
    is_formula = not is_list and any(line.startswith(" ") for line in lines)
    items: list[str] = []
    for line in lines:
        is_first = not items or FACT.match(line) or LIST_ITEM.match(line)
        if is_first or is_formula:
            items.append(line)
        else:
            items[-1] += f" {line.strip()}"
    fitting = []
    for item in items:
        if item.startswith("signature:"):
            fitting.append(item)
        elif len(items) > 1:
            fitting += wrapped(item, hanging="   ")
        else:
            fitting += wrapped(item, hanging="")
    return fitting


FACT = re.compile(r"(formula|direction|reference|signature): ")
"""Beginning of a line that is a fact of its own."""

LIST_ITEM = re.compile(r"\d+\. ")
"""Beginning of an item of a numbered list."""


def print_path(path: object) -> None:
    """Print the path of an output.

    Unchanged for a program, without control characters on a terminal.
    """
    text = str(path)
    if sys.stdout.isatty():
        text = plain(text)
    print(text, flush=True)


def print_json(value: Any) -> None:
    """Write one JSON object to stdout; a number that is not finite becomes null."""
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    if not is_utf8 or _has_lone_surrogates(text):
        text = json.dumps(finite(value), allow_nan=False)
    print(text.translate(IN_JSON))


def _has_lone_surrogates(text: str) -> bool:
    all_bytes = text.encode(errors="surrogatepass")
    return len(text.encode(errors="ignore")) < len(all_bytes)


def _escapes(codes: Iterable[int], form: str) -> dict[int, str]:
    """Escape of every character, by its code."""
    return {code: form.format(code) for code in codes}


IN_JSON = _escapes((*range(127, 160), *HIDDEN), "\\u{:04x}")
"""Escapes of characters that JSON allows and a terminal obeys.

They are in strings only, as all else is ASCII.
"""


# ---- tables, and their formats


Cell = str | float | int | None
CONTROL = _escapes((*range(32), *range(127, 160)), "\\x{:02x}")
CONTROL |= _escapes(HIDDEN, "\\u{:04x}")
# Bytes of a file's name that are no UTF-8.
CONTROL |= {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)}
NAMED = {
    "\\": "backslash",
    "~": "asciitilde",
    "^": "asciicircum",
    "|": "bar",
    "<": "less",
    ">": "greater",
}
LATEX = {character: f"\\{character}" for character in "&%$#_{}"}
LATEX |= {character: rf"\text{name}{{}}" for character, name in NAMED.items()}
LATEX["±"] = r"$\pm$"
# At the start of a row, [ and * would be arguments of the line end before.
LATEX |= {"[": "{[}", "*": "{*}"}
MARKDOWN = re.compile(r"[\\|`*<>\[\]&$~]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning in Markdown; an underscore inside a word has none."""


def plain(text: str) -> str:
    """Escape characters that would control a terminal or break a line."""
    return text.translate(CONTROL)


@dataclass(frozen=True)
class Column:
    """Column of a table with a row for every item.

    cell : what it shows of an item. drop_order : place among the columns that go where
    there is no room, from 1; 0 for one that stays. title : of several columns, above
    the head of the first.
    """

    head: str
    cell: Callable[[Any], Cell]
    drop_order: int = 0
    title: str = ""


def narrowing(columns: Sequence[Column]) -> Iterator[Sequence[Column]]:
    """All columns, then without those that go first where there is no room, and so on
    to those that stay.
    """
    left = list(columns)
    yield left
    for order in sorted({column.drop_order for column in columns} - {0}):
        left = [column for column in left if column.drop_order != order]
        yield left


class Table(NamedTuple):
    """Named columns and rows of cells: words, numbers, or None for nothing.

    A column whose cells are all numbers is aligned right.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def right(self) -> list[bool]:
        """True for every column of numbers alone, which is aligned right."""
        aligned = []
        for column in range(len(self.columns)):
            cells = [row[column] for row in self.rows]
            aligned.append(not has_any(str, cells))
        return aligned

    @property
    def width(self) -> int:
        """Characters in a line of the table as text."""
        return table_width(self.lines)

    @property
    def lines(self) -> list[list[str]]:
        """Names of the columns, then the rows, as text with rounded numbers."""
        lines = []
        for row in (self.columns, *self.rows):
            lines.append([plain(number(cell)) for cell in row])
        return lines

    @classmethod
    def of(cls, columns: Sequence[Column], items: Iterable[Any]) -> "Table":
        """The table with a row for every item."""
        rows = []
        for item in items:
            rows.append([column.cell(item) for column in columns])
        return cls([column.head for column in columns], rows)

    @classmethod
    def fitting(cls, columns: Sequence[Column], items: Sequence[Any]) -> "Table":
        """The table for the width of the output, with as many columns as fit."""
        for left in narrowing(columns):
            table = cls.of(left, items)
            if table.width <= width_of_output():
                break
        return table

    def only(self, places: Sequence[int]) -> "Table":
        """The table with some columns only."""
        rows = []
        for row in self.rows:
            rows.append([row[place] for place in places])
        return Table([self.columns[place] for place in places], rows)


ROUNDING = 1e-12  # a smaller number in a table is a rounding error of 0


def number(value: Any) -> str:
    """Format a number for a table.

    Four decimals, or significant digits where it is small or large.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, str | bool | int):
        return str(value)
    if abs(value) >= 1e6 or ROUNDING < abs(value) < 1e-4:
        return f"{value:.3e}"
    return f"{value:.4f}"


def print_table(
    head: Sequence[str], body: Sequence[Sequence[Cell]], *, file: TextIO | None = None
) -> None:
    """Write a table: plain text, or with colour where ``file`` is a terminal.

    file : stdout, where none is named.
    """
    out = file or sys.stdout
    table = Table(head, body)
    is_drawn = out.isatty() and not os.environ.get("CALCLI_PLAIN")
    text = _rich(table, out) if is_drawn else _text(table)
    print(text, end="", file=out)


def table_width(lines: Sequence[Sequence[str]]) -> int:
    """Characters in a line of a printed table."""
    return sum(width + 2 for width in _widths(lines)) - 2


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(columns_of, column)) for column in zip(*lines, strict=True)]


def columns_of(text: str) -> int:
    """Columns that a text takes on a terminal: characters of East Asia take two."""
    if text.isascii():
        return len(text)
    return len(text) + sum(east_asian_width(character) in "WF" for character in text)


def folded(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """Lines of cells, the words of the last column in as many lines as they take."""
    room = width_of_output() - sum(width + 2 for width in _widths(lines)[:-1])
    made = []
    for *cells, words in lines:
        first, *further = textwrap.wrap(words, max(room, 20)) or [""]
        made.append([*cells, first])
        made += [[*[""] * len(cells), part] for part in further]
    return made


def _text(table: Table) -> str:
    left = [place for place, right in enumerate(table.right) if not right]
    return "\n".join([*table_lines(table.lines, left), ""])


def _rich(table: Table, out: TextIO) -> str:
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    head, *lines = table.lines
    least = 0
    widths = _widths([head, *lines])
    # Words may be folded, numbers not: rather too wide than cut in two.
    for name, right, width in zip(head, table.right, widths, strict=True):
        if right:
            drawn.add_column(name, justify="right", no_wrap=True, overflow="fold")
            least += 2 + width
        else:
            drawn.add_column(name, justify="left", no_wrap=False, overflow="fold")
            least += 2 + min(width, 12)
    for line in lines:
        drawn.add_row(*line)
    # Names are not markup.
    console = Console(file=out, markup=False, emoji=False, highlight=False)
    console.width = max(console.width, least)
    with console.capture() as drawing:
        console.print(drawn)
    return drawing.get()


def _markdown(table: Table) -> str:
    rule = []
    for right in table.right:
        rule.append("---:" if right else "---")
    head, *body = table.lines
    lines = [_markdown_row(map(_in_markdown, head)), _markdown_row(rule)]
    for row in body:
        lines.append(_markdown_row(map(_in_markdown, row)))
    return "\n".join([*lines, ""])


def _in_markdown(cell: str) -> str:
    return MARKDOWN.sub(r"\\\g<0>", cell)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex(table: Table) -> str:
    """LaTeX tabular for the package booktabs."""
    escapes = str.maketrans(LATEX)
    lines = []
    for line in table.lines:
        cells = [cell.translate(escapes) for cell in line]
        lines.append(" & ".join(cells) + r" \\")
    columns = ""
    for right in table.right:
        columns += "r" if right else "l"
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
    """CSV with all digits of numbers and empty cells for missing values.

    No text in it is a formula.
    """
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (table.columns, *table.rows):
        writer.writerow(map(_csv_cell, row))
    return text.getvalue()


def _csv_cell(cell: Cell) -> Cell:
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if isinstance(cell, str):
        return harmless_cell(plain(cell))
    return cell


TEXTS: dict[str, Callable[[Table], str]] = {
    "table": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
"""Name of a format -> function that writes a table in it."""


def table_lines(
    lines: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> Iterator[str]:
    """Lines of cells; columns in ``left`` are aligned left, the others right."""
    widths = _widths(lines)
    for line in lines:
        cells = []
        for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
            if column in left:
                cells.append(cell + " " * (width - columns_of(cell)))
            else:
                cells.append(" " * (width - columns_of(cell)) + cell)
        yield "  ".join(cells).rstrip()
