"""Tables of text: CSV and its relatives. The standard library reads them, pyarrow large ones faster."""

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, blaming
from calcli.fast_dataclass import dataclass
from calcli.importers import columns as tables
from calcli.importers.archive import Archive, SourceFile, remark
from calcli.importers.array_names import role_of
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.readers.parquet import arrow_columns
from calcli.io.cells import (
    cells_of_text,
    is_blank,
    is_number,
    real_numbers,
    whole_numbers,
)

SUFFIXES = (".csv", ".tsv", ".txt")
WIDE = 4096  # columns above which pyarrow takes 100 KiB for each
LARGE = 16 << 20  # bytes from which pyarrow is faster, its import included
TENSOR = re.compile(r"\s*tensor\(([^\[(),]+)(?:, [^)]*)?\)\s*")  # a single number as torch prints it: ``tensor(2)``
NO_ROW = re.compile(r"#|sep=.$")  # beginning of a line above a table
MOST_COMMENTS = 50
CELL_LIMIT = 1 << 30  # longest cell: a list of a vocabulary's scores has megabytes
COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
DECIMAL = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
NUMBERS = re.compile(r"[\[(]+\s*[-+]?\d*\.\d")
GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")
QUOTED = re.compile(r'"(?:[^"]|"")*"')
OPEN_QUOTE = re.compile(r'(?:^|[,;\t|])"')
"""Text in quotes, and the beginning of a cell whose quotes the line does not close."""


@reader(
    "csv",
    "tables of text: CSV, TSV, with or without column names, also gzipped",
    suffixes=SUFFIXES,
    sniff=lambda file: (
        file.is_text and not file.is_json and (file.suffix in SUFFIXES or any(c in file.head for c in b",;\t|"))
    ),
    order=9,
    general=True,
    examples=[
        ("logits_and_label.csv", ""),
        ("predict_proba.csv", "--labels target --kind probs"),
        ("answers.csv", "--scores A,B,C,D --labels answer --kind probs"),
        ("headerless.csv", "--scores 0:9 --labels 10 --kind logits"),
        ("probs_and_label.csv.gz", ""),
        ("top5.csv", "--classes 1000 --gold truth.csv"),
        ("top5.csv", "--confidence prob_0 --correct index_0=label"),
    ],
)
def read_csv(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Read a table of text, separated by commas, semicolons, tabs or bars. ``--scores 0:9 --labels 10`` take columns
    without names by number. A first line 0, 1, …, k-1 counts the columns, as pandas writes it."""
    path = file.path
    opening = _opening(path)
    first = opening.cells
    with path.open("rb") as raw:
        raw.seek(-1, 2)
        ended = raw.read(1) in b"\r\n"
    remark("" if ended else f"{path.name}: the last line has no line end; is the file complete?")
    if opening.skip:
        lines = "first line is no row" if opening.skip == 1 else f"first {opening.skip} lines are no rows"
        remark(f"{path.name}: the {lines}{', the names of the columns in it' * opening.above}")
    named = [cell for cell in first if cell]
    counted = len(named) > 1 and named == [str(i) for i in range(len(named))]
    bare = _is_bare(first) and not counted
    names, columns, n = _columns(path, opening, None if bare else first, file.size)
    if counted:
        remark(f"{path.name}: the first line counts the columns, it was read as their names")
    if not (bare or (counted and first == named)):
        tables.refuse_doubles(path, names)
        return tables.table_archive(path, "csv", columns, n, ask)
    return tables.headerless_archive(path, columns, n, ask)


@dataclass(frozen=True)
class Head:
    """Beginning of a table of text. cells : the names of the columns, or the first row. separator : " " is white space.
    skip : lines before the first row or the names. above : the names stand in the last of these, behind a #."""

    cells: list[str]
    separator: str
    skip: int
    above: bool = False


def _opening(path: Path) -> Head:
    """Parse the first lines, skipping comments (``numpy.savetxt`` writes names in one)
    and Excel's ``sep=;``."""
    how = f"{path}: cannot be read as a table"
    with (
        blaming(how, advice="; expected UTF-8 text"),
        path.open(encoding="utf-8-sig") as file,
    ):
        lines = [line.rstrip("\r\n") for line in islice(file, MOST_COMMENTS)]
    skip = 0
    for number, line in enumerate(lines):
        if not NO_ROW.match(line) or _has_scores(line):
            skip = number
            break
    first, below = _first_row(lines[skip:])
    if not first.strip():
        told = "the first line is empty, expected the names of the columns"
        raise DataError(f"{path}: {told}")
    separator = _separator(first, below)
    cells = _cells(first, separator)
    if skip and lines[skip - 1].startswith("#") and _is_bare(cells):
        comment = lines[skip - 1].lstrip("# ")
        for by in (separator, ",", " "):
            names = _cells(comment, by)
            if len(names) == len(cells):
                return Head(names, separator, skip, above=True)
    return Head(cells, separator, skip)


def _has_scores(line: str) -> bool:
    """True for a row, not a comment: #tag,0.31,0.69."""
    cells = re.split(r"[,;\t|]", line)[1:]
    return any(DECIMAL.fullmatch(cell.strip()) for cell in cells)


def _first_row(lines: Sequence[str]) -> tuple[str, str]:
    """The first row, which has several lines where a name has, and the line below."""
    first, *others = lines
    while others and OPEN_QUOTE.search(QUOTED.sub("", first)):
        first = f"{first}\n{others.pop(0)}"
    return first, others[0] if others else ""


def _separator(first: str, below: str) -> str:
    """Separator of the cells of the first row: the most frequent outside of quotes,
    or white space."""
    unquoted = QUOTED.sub("", first)
    separator = max(",;\t|", key=unquoted.count)
    if separator in unquoted:
        return separator
    spaced, then = _cells(first, " "), _cells(below, " ")
    if len(spaced) < 2:
        return separator
    is_row = all(map(is_number, spaced))
    is_header = len(then) - len(spaced) in (0, 1) and any(map(is_number, then))
    return " " if is_row or is_header else separator


def _cells(line: str, separator: str) -> list[str]:
    if separator == " " and '"' not in line:
        return line.split()
    if separator == " ":
        return next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))
    lines = line.splitlines(keepends=True)
    cells = next(csv.reader(lines, delimiter=separator))
    stripped = [cell.strip() for cell in cells]
    return cells if _are_ours(stripped) else stripped


def _are_ours(header: Sequence[str]) -> bool:
    """True for the names of the columns of a table that calcli has written."""
    return any(role_of(name) == "calibrated_by" for name in header)


def _is_bare(cells: Sequence[str]) -> bool:
    """True for a row of data, not of column names: only numbers, or any cell such as 0.31 or [0.3, 0.7]."""
    return all(map(is_number, cells)) or any(DECIMAL.fullmatch(cell) or NUMBERS.match(cell) for cell in cells)


Read = tuple[list[str], dict[str, tables.Column], int]


def _columns(path: Path, opening: Head, header: list[str] | None, size: int) -> Read:
    """Names, columns and number of rows. header : the names; None to number the
    columns from 0."""
    ours = _are_ours(header or ())
    plain = opening.separator != " " and not opening.skip
    if size >= LARGE and plain and len(opening.cells) <= WIDE:
        large = _by_pyarrow(path, opening.separator, header is None)
        if large is not None:
            return _large_columns(path, opening.separator, header, large, ours)
    rows = _rows(path, opening)
    names = header
    if names is None:
        names = [str(i) for i in range(len(rows[0]))]
    inside = header is not None and not opening.above
    rows = rows[inside:]
    if inside and _have_names(rows, len(names)):
        names = ["", *names]
    for place, row in enumerate(rows, start=opening.skip + inside + 1):
        if len(row) != len(names):
            told = f"row {place} of the file has {len(row)} cells"
            expected = f"expected {len(names)}"
            if len(names) == 1:
                expected += "; is the first line a title? remove it"
            raise DataError(f"{path}: cannot be read as a table: {told}, {expected}")
    by_column = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    has_commas = opening.separator in ";\t"
    columns = {
        name: _column(path, name, texts, decimal_commas=has_commas, ours=ours)
        for name, texts in zip(names, by_column, strict=True)
    }
    return names, columns, len(rows)


def _have_names(rows: Sequence[Sequence[str]], columns: int) -> bool:
    """True if every row has a row name that the header lacks, as in R's ``write.table``."""
    if not rows or any(len(row) != columns + 1 for row in rows) or not any(row[-1].strip() for row in rows):
        return False
    names = [row[0] for row in rows]
    counted = any(names == [str(i) for i in range(start, len(rows) + start)] for start in (0, 1))
    return counted or (len(set(names)) == len(names) and not any(map(is_number, names)))


def _with_points(texts: Sequence[str]) -> list[str]:
    """Cells with a point in place of a decimal comma."""
    return [t.replace(",", ".") if COMMA.fullmatch(t) else t for t in texts]


def _refusal_of_commas(path: Path, name: str, texts: Sequence[str]) -> str:
    """Error message for a column whose commas may part thousands; "" for others."""
    commas = [text for text in texts if COMMA.fullmatch(text)]
    whole = next((t for t in texts if t.strip().lstrip("+-").isdigit()), None)
    if not commas or whole is None or not all(map(GROUPED.fullmatch, commas)):
        return ""
    told = f"{path}: column {name!r} has {commas[0]!r} beside {whole!r}"
    asked = "does the comma part thousands or decimals?"
    advice = "Write numbers with a point and without separators of thousands"
    return f"{told}: {asked} {advice}"


def _rows(path: Path, opening: Head) -> list[list[str]]:
    """Cells of every non-empty line, from the column names on unless these are in a comment."""
    limit = csv.field_size_limit(CELL_LIMIT)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines, separator = islice(file, opening.skip, None), opening.separator
            by_space = (_cells(line, " ") for line in lines)
            rows = by_space if separator == " " else csv.reader(lines, delimiter=separator, strict=True)
            return [row for row in rows if row]
    finally:
        csv.field_size_limit(limit)


def _column(
    path: Path, name: str, texts: Sequence[str], *, decimal_commas: bool, ours: bool
) -> tables.Column:
    """Column of these cells, of the narrowest type that holds them all.

    decimal_commas : 0,5 is a number, as in tables with ; or tabs. ours : written by
    calcli, where every text of a word is meant.
    """
    if texts and TENSOR.fullmatch(texts[0]):
        texts = [TENSOR.sub(r"\1", text) for text in texts]
    written = partial(cells_of_text, texts, blanks=ours)
    cells = texts
    unclear = ""
    if decimal_commas:
        cells = _with_points(texts)
        unclear = _refusal_of_commas(path, name, texts)
    present = [cell for cell in cells if not is_blank(cell)]
    refusal = ""
    if len(present) < len(cells):
        row = next(row for row, cell in enumerate(cells) if is_blank(cell))
        refusal = tables.refusal_of_empty(path, name, row)
    numbers = real_numbers(cells)
    if not present:
        return tables.Column("other", np.asarray, numbers, refusal, written)
    if all(cell.strip().lower() in ("true", "false") for cell in cells):
        return tables.Column("other", _truths, cells, written=written)
    whole = whole_numbers(present)
    if whole is not None and not refusal:
        said = all(str(value) == text for value, text in zip(whole, texts, strict=True))
        return tables.Column(
            "number", np.asarray, whole, written=None if said else written
        )
    if whole is not None:
        return tables.Column("number", np.asarray, numbers, refusal, written)
    if numbers is not None:  # a missing score is NaN
        return tables.Column("number", np.asarray, numbers, unclear, written)
    if tables.are_lists(present):
        lists = partial(tables.read_lists, path, name)
        return tables.Column("lists", lists, cells, refusal, written)
    if sum(map(is_number, present[:100])) > len(present[:100]) / 2:
        return tables.Column("number", tables.words, cells, refusal, written)
    return tables.Column("text", tables.words, texts, "" if ours else refusal, written)


def _truths(texts: Sequence[str]) -> NDArray[Any]:
    return np.array([text.strip().lower() == "true" for text in texts])


# ---- large files


def _by_pyarrow(path: Path, separator: str, bare: bool, only: str | None = None) -> Any:
    """Table read by pyarrow; None if that is missing or fails: the standard library
    then raises the error. only : read this column alone, as texts."""
    with suppress(Exception):  # pyarrow has error types of its own
        import pyarrow as pa
        from pyarrow import csv as arrow

        reading = arrow.ReadOptions(autogenerate_column_names=bare)
        parsing = arrow.ParseOptions(delimiter=separator, newlines_in_values=True)
        converting = arrow.ConvertOptions()
        if only is not None:
            converting.column_types = {only: pa.string()}
            converting.include_columns = [only]
        return arrow.read_csv(path, reading, parsing, converting)
    return None


def _large_columns(
    path: Path, separator: str, header: list[str] | None, table: Any, ours: bool
) -> Read:
    """Names, columns and number of rows of a table that pyarrow has read."""
    tables.refuse_doubles(path, table.column_names)
    found = arrow_columns(path, table)
    names = [str(i) for i in range(len(found))] if header is None else header
    columns = {}
    for name, (arrow_name, column) in zip(names, found.items(), strict=True):
        reread = partial(_by_pyarrow, path, separator, header is None, arrow_name)
        columns[name] = replace(column, written=partial(_written_texts, reread, ours))
    return names, columns, table.num_rows


def _written_texts(reread: Callable[[], Any], ours: bool) -> list[str | None]:
    """Cells of the one column that is read again as texts."""
    return cells_of_text(reread().column(0).to_pylist(), blanks=ours)
