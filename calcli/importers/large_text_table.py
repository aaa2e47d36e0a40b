"""Large tables of text, read by pyarrow: the cells as text only where that is asked."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from calcli.importers.arrow_columns import columns_of_arrow
from calcli.importers.names.roles import are_ours
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.text_cells import FEWEST_DECIMALS, words_of
from calcli.importers.text_table import Opening, refuse_doubles
from calcli.io.cells import cells_of_text

WIDE = 4096
"""Columns above which pyarrow takes 100 KiB for each."""

LARGE = 16 << 20
"""Bytes from which pyarrow is faster, its import included."""


def read_large_table(file: SourceFile, opening: Opening) -> Table | None:
    """The table read by pyarrow, if it is large and plain; else None."""
    header = opening.header
    is_plain = opening.separator != " " and not opening.n_skipped
    if header is not None and header.count("") > 1:
        is_plain = False  # pyarrow finds columns by their names
    if file.size < LARGE or not is_plain or len(opening.cells) > WIDE:
        return None
    table = _by_pyarrow(file.path, opening.separator, header is None)
    if table is None:
        return None
    refuse_doubles(file.path, table.column_names)
    names = header or list(map(str, range(table.num_columns)))
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
    return cells_of_text(reread().column(0).to_pylist(), words_of(is_ours))


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
