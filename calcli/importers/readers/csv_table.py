"""Tables of text: CSV and its relatives.

The standard library reads them, pyarrow large ones faster.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from calcli.importers.arrow_columns import columns_of_arrow
from calcli.importers.formats import reader
from calcli.importers.names import are_ours
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.text_cells import FEWEST_DECIMALS, text_column
from calcli.importers.text_table import (
    Opening,
    is_data,
    read_grid,
    read_opening,
    refuse_doubles,
)
from calcli.io.cells import cells_of_text

SUFFIXES = (".csv", ".tsv", ".txt")
WIDE = 4096
"""Columns above which pyarrow takes 100 KiB for each."""

LARGE = 16 << 20
"""Bytes from which pyarrow is faster, its import included."""


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
def read_csv(file: SourceFile) -> Table:
    """Read a table of text, separated by commas, semicolons, tabs or bars.

    A first line 0, 1, …, k-1 counts the columns, as pandas writes it.
    """
    path = file.path
    opening = read_opening(path)
    _remark_ends(file, opening)
    cells = list(filter(None, opening.cells))
    counts = len(cells) > 1 and cells == list(map(str, range(len(cells))))
    is_bare = is_data(opening.cells) and not counts
    header = None if is_bare else opening.cells
    table = _large_table(file, opening, header)
    if table is None:
        table = _small_table(path, opening, header)
    if counts:
        remark(
            f"{path.name}: the first line counts the columns, it was read as their"
            " names"
        )
    has_no_names = is_bare or (counts and opening.cells == cells)
    return replace(table, has_header=not has_no_names)


def _small_table(path: Path, opening: Opening, header: list[str] | None) -> Table:
    """The table read by the standard library."""
    grid = read_grid(path, opening, header)
    refuse_doubles(path, grid.names)
    has_commas = opening.separator in ";\t"
    is_ours = are_ours(header or ())
    columns = {}
    for name, texts in zip(grid.names, grid.columns, strict=True):
        columns[name] = text_column(
            path, name, texts, has_commas=has_commas, is_ours=is_ours
        )
    return Table(path, "csv", columns, grid.n_rows)


def _remark_ends(file: SourceFile, opening: Opening) -> None:
    """Remark on lines above the table, and on a last line that is cut off."""
    name = file.path.name
    with file.path.open("rb") as opened:
        opened.seek(-1, 2)
        if opened.read(1) not in b"\r\n":
            remark(f"{name}: the last line has no line end; is the file complete?")
    if not opening.n_skipped:
        return
    lines = "first line is no row"
    if opening.n_skipped > 1:
        lines = f"first {opening.n_skipped} lines are no rows"
    if opening.has_names_above:
        lines += ", the names of the columns in it"
    remark(f"{name}: the {lines}")


def _large_table(
    file: SourceFile, opening: Opening, header: list[str] | None
) -> Table | None:
    """The table read by pyarrow, if it is large and plain; else None."""
    is_plain = opening.separator != " " and not opening.n_skipped
    if file.size < LARGE or not is_plain or len(opening.cells) > WIDE:
        return None
    table = _by_pyarrow(file.path, opening.separator, header is None)
    if table is None:
        return None
    refuse_doubles(file.path, table.column_names)
    names = header or [str(place) for place in range(table.num_columns)]
    refuse_doubles(file.path, names)
    columns = columns_of_arrow(file.path, table.rename_columns(names))
    is_ours = are_ours(header or ())
    for arrow_name, name in zip(table.column_names, names, strict=True):
        reread = partial(
            _by_pyarrow, file.path, opening.separator, header is None, arrow_name
        )
        columns[name] = replace(
            columns[name],
            written=partial(_written_texts, reread, is_ours),
            decimals=FEWEST_DECIMALS,
        )
    return Table(file.path, "csv", columns, table.num_rows)


def _written_texts(reread: Callable[[], Any], is_ours: bool) -> list[str | None]:
    """Cells of the one column that is read again as texts."""
    return cells_of_text(reread().column(0).to_pylist(), blanks=is_ours)


def _by_pyarrow(
    path: Path, separator: str, is_bare: bool, only: str | None = None
) -> Any:
    """Table read by pyarrow; None if that is missing or fails.

    The standard library then raises the error. only : read this column alone, as texts.
    """
    with suppress(Exception):  # pyarrow has error types of its own
        import pyarrow as pa
        from pyarrow import csv as arrow

        reading = arrow.ReadOptions(autogenerate_column_names=is_bare)
        parsing = arrow.ParseOptions(delimiter=separator, newlines_in_values=True)
        converting = arrow.ConvertOptions()
        if only is not None:
            converting.column_types = {only: pa.string()}
            converting.include_columns = [only]
        return arrow.read_csv(path, reading, parsing, converting)
    return None
