"""Tables of text: CSV and its relatives. The standard library reads them, pyarrow large ones faster."""

import csv
import re
from collections.abc import Sequence
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
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.readers.parquet import arrow_columns
from calcli.zeros import written_decimals

SUFFIXES = (".csv", ".tsv", ".txt")
WIDE = 4096  # columns above which pyarrow takes 100 KiB for each
LARGE = 16 << 20  # bytes from which pyarrow is faster, its import included
MISSING = frozenset(
    {
        "",
        "NA",
        "N/A",
        "n/a",
        "#N/A",
        "#NA",
        "null",
        "NULL",
        "None",
        "nan",
        "NaN",
        "-nan",
        "-NaN",
    }
)
"""Cells of missing values, as pandas and pyarrow write them."""

TENSOR = re.compile(
    r"\s*tensor\(([^\[(),]+)(?:, [^)]*)?\)\s*"
)  # a single number as torch prints it: ``tensor(2)``
NO_ROW = re.compile(r"#|sep=.$")  # beginning of a line above a table
MOST_COMMENTS = 50
CELL_LIMIT = 1 << 30  # longest cell: a list of a vocabulary's scores has megabytes
COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
DECIMAL = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
NUMBERS = re.compile(r"[\[(]+\s*[-+]?\d*\.\d")
GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")


@reader(
    "csv",
    "tables of text: CSV, TSV, with or without column names, also gzipped",
    suffixes=SUFFIXES,
    sniff=lambda file: (
        file.is_text
        and not file.is_json
        and (file.suffix in SUFFIXES or any(c in file.head for c in b",;\t|"))
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
    remark(
        ""
        if ended
        else f"{path.name}: the last line has no line end; is the file complete?"
    )
    if opening.skip:
        lines = (
            "first line is no row"
            if opening.skip == 1
            else f"first {opening.skip} lines are no rows"
        )
        remark(
            f"{path.name}: the {lines}{', the names of the columns in it' * opening.above}"
        )
    named = [cell for cell in first if cell]
    counted = len(named) > 1 and named == [str(i) for i in range(len(named))]
    bare = _is_bare(first) and not counted
    names, columns, n = _columns(path, opening, None if bare else first, file.size)
    if counted:
        remark(
            f"{path.name}: the first line counts the columns, it was read as their names"
        )
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
    """Parse the first lines, skipping comments (``numpy.savetxt`` writes names in one) and Excel's ``sep=;``."""
    how = f"{path}: cannot be read as a table"
    with (
        blaming(how, advice="; expected UTF-8 text"),
        path.open(encoding="utf-8-sig") as file,
    ):
        lines = [line.rstrip("\r\n") for line in islice(file, MOST_COMMENTS)]

    def has_scores(line: str) -> bool:  # a row, not a comment: #tag,0.31,0.69
        return any(
            DECIMAL.fullmatch(cell.strip()) for cell in re.split(r"[,;\t|]", line)[1:]
        )

    skip = next(
        (
            i
            for i, line in enumerate(lines)
            if not NO_ROW.match(line) or has_scores(line)
        ),
        0,
    )
    first, then = lines[skip], "".join(lines[skip + 1 : skip + 2])
    if not first.strip():
        raise DataError(
            f"{path}: the first line is empty, expected the names of the columns"
        )
    separator = max(",;\t|", key=first.count)
    if separator not in first and len(spaced := _cells(first, " ")) > 1:
        below, is_number = _cells(then, " "), tables.is_number
        if all(map(is_number, spaced)) or (
            len(below) - len(spaced) in (0, 1) and any(map(is_number, below))
        ):
            separator = " "
    cells = _cells(first, separator)
    if skip and lines[skip - 1].startswith("#") and _is_bare(cells):
        named = [
            _cells(lines[skip - 1].lstrip("# "), by) for by in (separator, ",", " ")
        ]
        if above := next((names for names in named if len(names) == len(cells)), None):
            return Head(above, separator, skip, above=True)
    return Head(cells, separator, skip)


def _cells(line: str, separator: str) -> list[str]:
    if separator == " " and '"' not in line:
        return line.split()
    if separator == " ":
        return next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


def _is_bare(cells: Sequence[str]) -> bool:
    """True for a row of data, not of column names: only numbers, or any cell such as 0.31 or [0.3, 0.7]."""
    return all(map(tables.is_number, cells)) or any(
        DECIMAL.fullmatch(cell) or NUMBERS.match(cell) for cell in cells
    )


Read = tuple[list[str], dict[str, tables.Column], int]


def _columns(path: Path, opening: Head, header: list[str] | None, size: int) -> Read:
    """Names, columns and number of rows. header : the names; None to number the columns from 0."""
    plain = opening.separator != " " and not opening.skip and len(opening.cells) <= WIDE
    if (
        size >= LARGE
        and plain
        and (table := _by_pyarrow(path, opening.separator, header is None)) is not None
    ):
        tables.refuse_doubles(path, table.column_names)
        columns = {
            name: replace(column, decimals=0)
            for name, column in arrow_columns(path, table).items()
        }
        names = [str(i) for i in range(len(columns))] if header is None else header
        return names, dict(zip(names, columns.values(), strict=True)), table.num_rows
    cells = _rows(path, opening)
    names = header if header is not None else [str(i) for i in range(len(cells[0]))]
    inside = header is not None and not opening.above
    cells = cells[inside:]
    if inside and _have_names(cells, len(names)):
        names = ["", *names]
    for number, row in enumerate(cells, start=opening.skip + inside + 1):
        if len(row) != len(names):
            told = f"expected {len(names)}{'; is the first line a title? remove it' if len(names) == 1 else ''}"
            raise DataError(
                f"{path}: cannot be read as a table: row {number} of the file has {len(row)} cells, {told}"
            )
    by_column = list(zip(*cells, strict=True)) if cells else [()] * len(names)
    if opening.separator in ";\t":
        by_column = [
            _with_points(path, name, column)
            for name, column in zip(names, by_column, strict=True)
        ]
    return (
        names,
        {
            name: _column(path, name, column)
            for name, column in zip(names, by_column, strict=True)
        },
        len(cells),
    )


def _have_names(rows: Sequence[Sequence[str]], columns: int) -> bool:
    """True if every row has a row name that the header lacks, as in R's ``write.table``."""
    if (
        not rows
        or any(len(row) != columns + 1 for row in rows)
        or not any(row[-1].strip() for row in rows)
    ):
        return False
    names = [row[0] for row in rows]
    counted = any(
        names == [str(i) for i in range(start, len(rows) + start)] for start in (0, 1)
    )
    return counted or (
        len(set(names)) == len(names) and not any(map(tables.is_number, names))
    )


def _with_points(path: Path, name: str, cells: Sequence[str]) -> tuple[str, ...]:
    """Replace decimal commas by points, in tables with ; or tabs. Raises DataError if they may separate thousands."""
    commas = [cell for cell in cells if COMMA.fullmatch(cell)]
    whole = next((cell for cell in cells if cell.strip().lstrip("+-").isdigit()), None)
    if commas and whole is not None and all(GROUPED.fullmatch(cell) for cell in commas):
        told = f"{path}: column {name!r} has {commas[0]!r} beside {whole!r}: does the comma part thousands or decimals?"
        raise DataError(
            f"{told} Write numbers with a point and without separators of thousands"
        )
    return tuple(
        cell.replace(",", ".") if COMMA.fullmatch(cell) else cell for cell in cells
    )


def _rows(path: Path, opening: Head) -> list[list[str]]:
    """Cells of every non-empty line, from the column names on unless these are in a comment."""
    limit = csv.field_size_limit(CELL_LIMIT)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines, separator = islice(file, opening.skip, None), opening.separator
            by_space = (_cells(line, " ") for line in lines)
            rows = (
                by_space
                if separator == " "
                else csv.reader(lines, delimiter=separator, strict=True)
            )
            return [row for row in rows if row]
    finally:
        csv.field_size_limit(limit)


def _column(path: Path, name: str, cells: Sequence[str]) -> tables.Column:
    """Column of these cells, of the narrowest type that holds them all."""
    if cells and TENSOR.fullmatch(cells[0]):
        cells = [TENSOR.sub(r"\1", cell) for cell in cells]
    blank = [cell.strip() in MISSING for cell in cells]
    present = [cell for cell, gap in zip(cells, blank, strict=True) if not gap]
    refusal = (
        tables.refusal_of_empty(path, name, blank.index(True)) if any(blank) else ""
    )

    def floats(some: Sequence[str]) -> NDArray[Any]:
        return np.array(
            [np.nan if cell.strip() in MISSING else float(cell) for cell in some]
        )

    if not present:
        return tables.Column("other", floats, cells, refusal)
    if all(cell.strip().lower() in ("true", "false") for cell in cells):
        return tables.Column(
            "other",
            lambda some: np.array([cell.strip().lower() == "true" for cell in some]),
            cells,
        )
    try:
        whole = np.array([int(cell) for cell in present], dtype=np.int64)
        return tables.Column(
            "number", *((floats, cells, refusal) if refusal else (np.asarray, whole))
        )
    except (ValueError, OverflowError):
        pass
    try:
        numbers = floats(cells)
        zeros = [cells[row] for row in np.flatnonzero(numbers == 0.0).tolist()]
        return tables.Column(
            "number", np.asarray, numbers, decimals=written_decimals(zeros)
        )
    except ValueError:
        pass
    if tables.are_lists(present):
        return tables.Column("lists", partial(tables.read_lists, path, name), cells)
    mostly = sum(map(tables.is_number, present[:100])) > len(present[:100]) / 2
    return tables.Column("number" if mostly else "text", tables.words, cells, refusal)


# ---- large files


def _by_pyarrow(path: Path, separator: str, bare: bool) -> Any:
    """Table read by pyarrow; None if that is missing or fails: the standard library then raises the error."""
    with suppress(Exception):  # pyarrow has error types of its own
        from pyarrow import csv as arrow

        reading = arrow.ReadOptions(autogenerate_column_names=bare)
        parsing = arrow.ParseOptions(delimiter=separator, newlines_in_values=True)
        return arrow.read_csv(path, read_options=reading, parse_options=parsing)
    return None
