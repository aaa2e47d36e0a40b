"""Tables of text: the dialect of a file, its column names, its cells.

The dialects that people save were tried on readers of others, which lost the row names
of R, ragged rows and decimal commas; the standard library splits the lines.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from calcli.errors import DataError, blaming
from calcli.importers.names.roles import are_ours, is_counter, role_of
from calcli.importers.remarks import remark
from calcli.io.cells import is_blank, is_number
from calcli.items import counts_up, duplicates
from calcli.numerics import whole_number

MOST_COMMENTS = 50
LONGEST_CELL = 1 << 30
"""A list of a vocabulary's scores has megabytes."""

SEPARATORS = ",;\t|"
NOT_A_ROW = re.compile(r"#|sep=.$")
"""Beginning of a line above a table."""

DECIMAL = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
QUOTED = re.compile(r'"(?:[^"]|"")*"')
OPEN_QUOTE = re.compile(r'(?:^|[,;\t|])"')
"""Text in quotes, and the beginning of a cell whose quotes the line does not close."""

LIST_OF_NUMBERS = re.compile(r"[\[(]+\s*[-+]?\d*\.\d")

Cells = Sequence[str]

ENOUGH_ROW_NAMES = 10
"""Rows whose first cells, all different whole numbers, are names of these rows."""

NAME_OF_CLASS = re.compile(r"-?[0-9]+(\.0)?")
"""A number that may be the name of a class: 2, and 2.0, as pandas writes it."""


@dataclass(frozen=True)
class Opening:
    """Beginning of a table of text.

    cells : the names of the columns, or the first row. separator : " " is white space.
    n_skipped : lines before the first row or the names. has_names_above : the names
    stand in the last of these, behind a #. has_words_above_numbers : a word stands
    where the next line has a number, and numbers of the first line differ: 1.0, 2.0.
    """

    cells: list[str]
    separator: str
    n_skipped: int
    has_names_above: bool = False
    has_words_above_numbers: bool = False

    @property
    def counts_columns(self) -> bool:
        """True for names 0, 1, …, k-1, as pandas writes them; row names have none."""
        names = list(filter(None, self.cells))
        return len(names) > 1 and counts_up(names)

    @property
    def header(self) -> list[str] | None:
        """The names of the columns; None where the first line is a row of the table."""
        are_names = self.counts_columns or self.has_words_above_numbers
        if is_data(self.cells) and not are_names:
            return None
        return self.cells

    @property
    def has_names(self) -> bool:
        """True for names that say more than the place of a column."""
        if self.header is None:
            return False
        return "" in self.cells or not self.counts_columns


def refuse_doubles(path: Path, names: Sequence[str]) -> None:
    """Raise DataError when two columns have the same name."""
    twice = duplicates(names)
    if twice:
        raise DataError(
            f"{path}: two columns are named {twice[0]!r}; every column needs a name of"
            " its own (of pandas' levels make one: df.columns ="
            " df.columns.map('_'.join))"
        )


# ---- the beginning of a file


def read_opening(path: Path) -> Opening:
    """Parse the first lines, without comments and Excel's ``sep=;``.

    ``numpy.savetxt`` writes the names of the columns in a comment. Raises DataError.
    """
    message = f"{path}: cannot be read as a table"
    with (
        blaming(message, advice="; expected UTF-8 text"),
        path.open(encoding="utf-8-sig") as file,
    ):
        lines = [line.rstrip("\r\n") for line in islice(file, MOST_COMMENTS)]
    n_skipped = _count_skipped(lines)
    first = lines[n_skipped]
    second = "".join(lines[n_skipped + 1 : n_skipped + 2])
    if not first.strip():
        raise DataError(
            f"{path}: the first line is empty, expected the names of the columns"
        )
    for line in lines[n_skipped + 1 :]:
        if not OPEN_QUOTE.search(QUOTED.sub("", first)):
            break
        first = f"{first}\n{line}"  # a name that has several lines
    separator = _separator(first, second)
    cells = split_line(first, separator)
    if n_skipped and lines[n_skipped - 1].startswith("#") and is_data(cells):
        comment = lines[n_skipped - 1].lstrip("# ")
        for other in (separator, ",", " "):
            names = split_line(comment, other)
            if len(names) == len(cells):
                return Opening(names, separator, n_skipped, has_names_above=True)
    are_names = False
    if is_data(cells) and 0 < len(second) < csv.field_size_limit():
        are_names = _has_words_above_numbers(cells, split_line(second, separator))
    return Opening(cells, separator, n_skipped, has_words_above_numbers=are_names)


def _has_words_above_numbers(cells: Cells, below: Cells) -> bool:
    """True for names of columns some of which are numbers: ``1.0,2.0,label``.

    These are names of classes: whole numbers. Scores are a row of the table.
    """
    numbers = list(filter(is_number, cells))
    if len(cells) != len(below) or len(set(map(float, numbers))) < len(numbers):
        return False
    if not all(map(NAME_OF_CLASS.fullmatch, numbers)):
        return False
    for cell, cell_below in zip(cells, below, strict=True):
        is_word = cell[:1].isalpha() and not is_blank(cell)
        if is_word and not is_number(cell) and is_number(cell_below):
            return True
    return False


def remark_ends(path: Path, opening: Opening) -> None:
    """Remark on lines above the table, and on a last line that is cut off."""
    with path.open("rb") as file:
        file.seek(-1, 2)
        if file.read(1) not in b"\r\n":
            remark(f"{path.name}: the last line has no line end; is the file complete?")
    if not opening.n_skipped:
        return
    lines = "first line is no row"
    if opening.n_skipped > 1:
        lines = f"first {opening.n_skipped} lines are no rows"
    if opening.has_names_above:
        lines += ", the names of the columns in it"
    remark(f"{path.name}: the {lines}")


def _count_skipped(lines: Sequence[str]) -> int:
    """Number of lines above the table."""
    for number, line in enumerate(lines):
        if not NOT_A_ROW.match(line) or _has_scores(line):
            return number
    return 0


def _has_scores(line: str) -> bool:
    """True for a row of a table that begins like a comment: ``#tag,0.31,0.69``."""
    cells = map(str.strip, re.split(r"[,;\t|]", line)[1:])
    return any(map(DECIMAL.fullmatch, cells))


def _separator(first: str, second: str) -> str:
    """The commonest separator of the first line; white space between numbers."""
    unquoted = QUOTED.sub("", first)
    separator = max(SEPARATORS, key=unquoted.count)
    if separator in unquoted:
        return separator
    spaced = split_line(first, " ")
    if len(spaced) < 2:
        return separator
    below = split_line(second, " ")
    has_row_names = len(below) - len(spaced) in (0, 1) and any(map(is_number, below))
    return " " if has_row_names or all(map(is_number, spaced)) else separator


def split_line(line: str, separator: str) -> list[str]:
    """Cells of one line."""
    if separator != " ":
        lines = line.splitlines(keepends=True)
        cells = next(csv.reader(lines, delimiter=separator))
        stripped = list(map(str.strip, cells))
        return cells if are_ours(stripped) else stripped
    if '"' not in line:
        return line.split()
    return next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))


def is_data(cells: Cells) -> bool:
    """True for a row of data, not of column names.

    It has only numbers, or any cell such as 0.31 or [0.3, 0.7].
    """
    if all(map(is_number, cells)):
        return True
    return any(map(DECIMAL.fullmatch, cells)) or any(map(LIST_OF_NUMBERS.match, cells))


# ---- the rows


@dataclass(frozen=True)
class Grid:
    """Cells of a table by column, in the order of the names."""

    names: list[str]
    columns: list[Cells]
    n_rows: int


def read_grid(path: Path, opening: Opening, header: list[str] | None) -> Grid:
    """Read all cells. header : the names of the columns; None numbers them from 0.

    Row names that the header lacks, as R writes them, become a first column without a
    name. Raises DataError for rows of different lengths.
    """
    rows = _split_rows(path, opening)
    names = header
    first_row = opening.n_skipped + 1
    if names is None:
        names = list(map(str, range(len(rows[0]))))
    elif not opening.has_names_above:
        rows = rows[1:]
        first_row += 1
        is_quoted = _begins_with_quote(path, opening)
        if _have_row_names(rows, names, is_quoted):
            names = ["", *names]
    for number, row in enumerate(rows, start=first_row):
        if len(row) != len(names):
            expected = f"expected {len(names)}"
            if len(names) == 1:
                expected += "; is the first line a title? remove it"
            raise DataError(
                f"{path}: cannot be read as a table: row {number} of the file has"
                f" {len(row)} cells, {expected}"
            )
    columns: list[Cells] = [()] * len(names)
    if rows:
        columns = list(zip(*rows, strict=True))
    return Grid(_all_named(path, names, columns), columns, len(rows))


def _all_named(path: Path, names: list[str], columns: Sequence[Cells]) -> list[str]:
    """The names, with numbers for several columns that have none.

    R writes a matrix without names so, as ``cbind(scores, label)``. The first column
    may hold the names of rows, which have no name themselves.
    """
    places = [place for place, name in enumerate(names) if name == ""]
    if places and places[0] == 0 and _are_row_names(columns[0]):
        places = places[1:]
    if len(places) < 2 or not set(names).isdisjoint(map(str, range(len(places)))):
        return names
    named = list(names)
    for number, place in enumerate(places):
        named[place] = str(number)
    remark(f"{path.name}: the columns without names were numbered from 0")
    return named


def _are_row_names(cells: Cells) -> bool:
    """True for numbers that count the rows, and for words that are all different."""
    if counts_up(cells) or counts_up(cells, first=1):
        return True
    if len(set(cells)) < len(cells):
        return False
    return not any(is_number(cell.replace(",", ".")) for cell in cells)


def _split_rows(path: Path, opening: Opening) -> list[list[str]]:
    """Cells of every line that is not empty, from the column names on."""
    separator = opening.separator
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = islice(file, opening.n_skipped, None)
            if separator == " ":
                rows = [split_line(line, " ") for line in lines]
            else:
                rows = list(csv.reader(lines, delimiter=separator, strict=True))
    finally:
        csv.field_size_limit(limit)
    return list(filter(None, rows))


def _begins_with_quote(path: Path, opening: Opening) -> bool:
    """True if the first cell below the names of the columns is in quotes."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = filter(str.strip, islice(file, opening.n_skipped, None))
        first_rows = list(islice(lines, 2))
    return len(first_rows) > 1 and first_rows[1].lstrip().startswith('"')


def _have_row_names(
    rows: Sequence[Sequence[str]], header: Sequence[str], is_quoted: bool
) -> bool:
    """True if every row has a name that the header lacks, as in R's ``write.table``.

    is_quoted : whether these names are, as R writes them. Numbers in no order that are
    not may be a column, where it is the last one that has no name.
    """
    if not rows or any(len(row) != len(header) + 1 for row in rows):
        return False
    if not any(row[-1].strip() for row in rows):
        return False  # a separator at the end of every line
    names = [row[0] for row in rows]
    if counts_up(names) or counts_up(names, first=1):
        return True
    if len(set(names)) < len(names):
        return False
    are_whole = all(whole_number(name) is not None for name in names)
    if are_whole:  # rows of a data frame that were drawn from more
        has_ids = role_of(header[0]) == "ids" or is_counter(header[0])
        return is_quoted and len(names) >= ENOUGH_ROW_NAMES and not has_ids
    return not any(map(is_number, names))
