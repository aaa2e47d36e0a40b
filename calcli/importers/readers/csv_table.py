"""Tables of text: CSV and its relatives. The standard library reads them, pyarrow large ones faster."""

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.importers.archive import Archive, one_line
from calcli.importers.ask import Ask
from calcli.importers.columns import Column, is_number, refuse_doubles, table_archive
from calcli.importers.formats import reader
from calcli.importers.headerless import headerless_archive
from calcli.importers.source_file import SourceFile

__all__ = ["read_csv"]

SUFFIXES = (".csv", ".tsv", ".txt")
LARGE = 16 << 20
"""Bytes from which pyarrow is faster, its import included."""

MISSING = frozenset({"", "NA", "N/A", "n/a", "#N/A", "#NA", "null", "NULL", "None", "nan", "NaN", "-nan", "-NaN"})
"""Cells that hold nothing, as pandas and pyarrow write them."""

CELL_LIMIT = 1 << 30
"""Longest cell: a list of a vocabulary's scores has megabytes."""

COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
DECIMAL = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")

NUMPY_GAP = re.compile(r"(?<=[\d.])\s+(?=[-+\d.])")
"""What stands between the numbers of a printed NumPy array."""


def _is_csv(file: SourceFile) -> bool:
    if not file.is_text or file.is_json:
        return False
    return file.suffix in SUFFIXES or any(c in file.head for c in b",;\t|")


@reader(
    "csv",
    "tables of text: CSV, TSV, with or without column names, also gzipped",
    suffixes=SUFFIXES,
    sniff=_is_csv,
    order=9,
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
def read_csv(file: SourceFile, stack: ExitStack, ask: Ask) -> Archive:
    """Read a table of text, separated by commas, semicolons, tabs or bars.

    A file without column names, numbers only, is one loose array with the name of the
    file; ``--scores 0:9 --labels 10`` take its columns by number. A first line 0, 1, …,
    k-1 counts the columns, as pandas writes it.
    """
    path = file.path
    first, separator, ended = _first_line(path)
    notes = [] if ended else [f"{path.name}: the last line has no line end; is the file complete?"]
    named = [cell for cell in first if cell]
    counted = len(named) > 1 and named == [str(i) for i in range(len(named))]
    # a cell such as 0.31 is no column's name, whatever words stand beside it
    bare = (all(map(is_number, first)) and not counted) or any(DECIMAL.fullmatch(cell.strip()) for cell in first)
    names, columns, n = _columns(path, separator, None if bare else first, file.size)
    if counted:
        notes.append(f"{path.name}: the first line counts the columns, it was taken as their names")
    if not (bare or (counted and first == named)):
        refuse_doubles(path, names)
        return table_archive(path, "csv", columns, n, ask, notes)
    return headerless_archive(path, columns, n, ask, notes)


def _first_line(path: Path) -> tuple[list[str], str, bool]:
    """The cells of the first line, what separates them, and whether the last line has its end."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline().rstrip("\r\n")
        with path.open("rb") as raw:
            raw.seek(-1, 2)
            ended = raw.read(1) in b"\r\n"
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: cannot be read as a table: {one_line(problem)}; expected UTF-8 text") from None
    if not first.strip():
        raise DataError(f"{path}: the first line is empty, expected the names of the columns")
    separator = max(",;\t|", key=first.count)
    return next(csv.reader([first], delimiter=separator)), separator, ended


def _columns(
    path: Path, separator: str, header: list[str] | None, size: int
) -> tuple[list[str], dict[str, Column], int]:
    """Names, columns and number of rows. header : the names; None counts the columns from 0."""
    if size >= LARGE and (table := _by_pyarrow(path, separator, header is None)) is not None:
        columns = _arrow_columns(path, table)
        names = [str(i) for i in range(len(columns))] if header is None else list(columns)
        return names, dict(zip(names, columns.values(), strict=True)), table.num_rows
    rows = _rows(path, separator)
    names = header if header is not None else [str(i) for i in range(len(rows[0]))]
    cells = rows if header is None else rows[1:]
    for number, row in enumerate(cells, start=1 if header is None else 2):
        if len(row) != len(names):
            raise DataError(
                f"{path}: cannot be read as a table: row {number} of the file has {len(row)} cells, expected"
                f" {len(names)}"
            )
    if separator == ";":  # where a comma parts the digits, a semicolon parts the cells
        cells = [[cell.replace(",", ".") if COMMA.fullmatch(cell) else cell for cell in row] for row in cells]
    by_column = zip(*cells, strict=True) if cells else [()] * len(names)
    return names, {name: _column(path, name, column) for name, column in zip(names, by_column, strict=True)}, len(cells)


def _rows(path: Path, separator: str) -> list[list[str]]:
    limit = csv.field_size_limit(CELL_LIMIT)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [row for row in csv.reader(file, delimiter=separator, strict=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise DataError(f"{path}: cannot be read as a table: {one_line(problem)}") from None
    finally:
        csv.field_size_limit(limit)


def _column(path: Path, name: str, cells: Sequence[str]) -> Column:
    """The column of these cells, of the narrowest type that holds them all."""
    present = [cell for cell in cells if cell.strip() not in MISSING]
    if present and all(cell.strip().lower() in ("true", "false") for cell in present):
        return Column(
            "other", _complete(path, name, cells, lambda: np.array([c.strip().lower() == "true" for c in cells]))
        )
    try:
        whole = np.array([int(cell) for cell in present], dtype=np.int64)
        if present:
            return Column("number", _complete(path, name, cells, lambda: whole))
    except (ValueError, OverflowError):
        pass
    try:
        values = np.array([np.nan if cell.strip() in MISSING else float(cell) for cell in cells])
        return Column(
            "number" if present else "other", _complete(path, name, cells if not present else (), lambda: values)
        )
    except ValueError:
        pass
    if all(cell.strip().startswith("[") for cell in present):
        return Column("lists", lambda: _lists(path, name, cells))
    mostly = sum(map(is_number, present[:100])) > len(present[:100]) / 2
    return Column("number" if mostly else "text", _complete(path, name, cells, lambda: np.array(cells)))


def _complete(
    path: Path, name: str, cells: Sequence[str], load: Callable[[], NDArray[Any]]
) -> Callable[[], NDArray[Any]]:
    """A loader that refuses cells without a value."""

    def checked() -> NDArray[Any]:
        row = next((i for i, cell in enumerate(cells) if cell.strip() in MISSING), None)
        if row is not None:
            raise DataError(f"{path}: column {name!r} is empty in row {row}, expected a value")
        return load()

    return checked


def _lists(path: Path, name: str, cells: Sequence[str]) -> NDArray[Any]:
    """Rows of ``[0.1, 0.9]``, or as NumPy prints them, ``[0.1 0.9]``, over several lines or not."""
    if all("'" in cell for cell in cells):
        return np.array([re.findall(r"'([^']*)'", cell) for cell in cells])
    rows = []
    for number, cell in enumerate(cells):
        inside = cell.strip().removeprefix("[").removesuffix("]")
        pieces = NUMPY_GAP.sub(",", inside.strip()).split(",")
        try:
            rows.append([float(piece) for piece in pieces])
        except ValueError:
            raise DataError(
                f"{path}: column {name!r} has {one_line(ValueError(cell), 40)!r} in row {number}, expected numbers"
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise DataError(
                f"{path}: the lists in column {name!r} have different lengths ({len(rows[0])} in row 0,"
                f" {len(rows[-1])} in row {number}), expected one number per class"
            )
    return np.array(rows)


# ---- large files


def _by_pyarrow(path: Path, separator: str, bare: bool) -> Any:
    """The table as pyarrow reads it; None when it is not here or will not: the other way then says why."""
    try:
        from pyarrow import csv as arrow
    except ImportError:
        return None
    try:
        return arrow.read_csv(
            path,
            read_options=arrow.ReadOptions(autogenerate_column_names=bare),
            parse_options=arrow.ParseOptions(delimiter=separator, newlines_in_values=True),
        )
    except Exception:  # pyarrow's own family
        return None


def _arrow_columns(path: Path, table: Any) -> dict[str, Column]:
    from calcli.importers.readers.parquet import arrow_columns

    refuse_doubles(path, [str(name) for name in table.column_names])
    found = arrow_columns(path, table)
    for name, column in found.items():
        if column.kind == "text" and str(table.column(name)[0].as_py()).startswith("["):
            found[name] = _column(path, name, [str(cell) for cell in table.column(name).to_pylist()])
    return found
