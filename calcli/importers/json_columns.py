"""Columns of rows that are JSON objects: numbers, texts, lists of numbers."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain
from math import nan
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calcli.errors import DataError
from calcli.importers.names.array_names import parse_name
from calcli.importers.ragged import Parts, array_of_objects
from calcli.importers.table import Cells, Column, Record, Table, constant
from calcli.importers.text_cells import (
    FEWEST_DECIMALS,
    are_lists,
    held_column,
    read_lists,
    words,
)
from calcli.io.cells import is_number, text_of
from calcli.items import are_all, present
from calcli.numerics import AnyArray

CellKind = Literal["truth", "number", "text", "lists", "object"]


def table_of_rows(file: Path, format: str, rows: Sequence[Record]) -> Table:
    """Arrays of rows that are objects, as of ``columns_of_records``.

    The numbers were text: zeros among them may have been rounded.
    """
    return Table(file, format, columns_of_records(file, rows))


def rows_of_columns(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows of columns of one length, by their names."""
    rows = []
    for cells in zip(*columns.values(), strict=True):
        rows.append(dict(zip(columns, cells, strict=True)))
    return rows


def with_class_names(table: Table, names: Sequence[str]) -> Table:
    """The table with names of the classes, unless none are known or it has such."""
    if not names or "class_names" in table.columns:
        return table
    column = Column(table.file, "class_names", constant(np.array(names)))
    return replace(table, columns={**table.columns, "class_names": column})


def columns_of_records(file: Path, rows: Sequence[Record]) -> dict[str, Column]:
    """Columns of rows that are objects.

    Fields of inner objects get dotted names: ``output.logits``.
    """
    flat_rows = [fields_of(row, ".") for row in rows]
    cells_by_name = {}
    for name in dict.fromkeys(chain.from_iterable(flat_rows)):
        cells_by_name[name] = [row.get(name) for row in flat_rows]
    return columns_of_cells(file, cells_by_name)


def fields_of(record: Record, separator: str, parent: str = "") -> dict[str, Any]:
    """Fields of an object, those of inner objects by their path."""
    fields: dict[str, Any] = {}
    for key, cell in record.items():
        name = f"{parent}{key}"
        if isinstance(cell, Mapping):
            fields |= fields_of(cell, separator, f"{name}{separator}")
        else:
            fields[name] = cell
    return fields


def columns_of_cells(
    file: Path, cells_by_name: Mapping[str, Sequence[Any]]
) -> dict[str, Column]:
    """Columns of cells, by name."""
    columns = {}
    for name, cells in cells_by_name.items():
        columns[name] = column_of_cells(file, name, cells)
    return columns


def kind_of_cell(cell: Any) -> CellKind:
    """Type of one JSON value."""
    if isinstance(cell, bool):
        return "truth"
    if isinstance(cell, int | float):
        return "number"
    if isinstance(cell, str):
        return "text"
    return "lists" if isinstance(cell, list) else "object"


def column_of_cells(file: Path, name: str, cells: Sequence[Any]) -> Column:
    """Column of these cells: numbers, texts, or lists of numbers of one length.

    None is an empty cell.
    """
    written = constant(cells)
    empty_row = None
    if None in cells:
        empty_row = cells.index(None)
    kinds = set(map(kind_of_cell, present(cells)))
    if empty_row is not None:
        cells = _filled(kinds, cells)
    cell_type, parse = _reading_of(file, name, kinds, cells, empty_row)
    column = held_column(file, name, cells, cell_type, empty_row, parse)
    if cell_type in ("number", "lists"):
        return replace(column, written=written, decimals=FEWEST_DECIMALS)
    return replace(column, written=written)


def _reading_of(
    file: Path,
    name: str,
    kinds: Set[CellKind],
    cells: Sequence[Any],
    empty_row: int | None,
) -> tuple[Cells, Callable[[Sequence[Any]], AnyArray | Parts]]:
    """Type of a column, and the function that converts its cells."""
    if kinds == {"number"}:
        return "number", partial(_numbers, file, name)
    if kinds == {"lists"}:
        return "lists", partial(_lists, file, name)
    if not kinds or kinds & {"lists", "object"}:
        return "other", partial(_refuse, file, name)
    if kinds == {"truth"} and empty_row is None:
        return "truth", partial(np.array, dtype=bool)
    if kinds == {"text"} and empty_row is None and are_lists(cells):
        return "lists", partial(read_lists, file, name)
    if kinds == {"text"} and _are_scores_in_print(name, cells):
        return "number", _numbers_of_texts
    return _type_of_mixture(cells), _texts


def _filled(kinds: Set[CellKind], cells: Sequence[Any]) -> list[Any]:
    """Cells with NaN, or no text, in place of empty ones."""
    blank: Any = ""
    if kinds == {"number"}:
        blank = nan
    elif kinds == {"lists"}:
        first = present(cells)[0]
        blank = [nan] * len(first)
        if first and isinstance(first[0], list):
            blank = [[nan] * len(first[0])]
    filled = []
    for cell in cells:
        filled.append(blank if cell is None else cell)
    return filled


def _type_of_mixture(cells: Sequence[Any]) -> Cells:
    """Type of texts, or of texts among numbers."""
    n_numbers = list(map(kind_of_cell, cells)).count("number")
    return "number" if n_numbers > len(cells) / 2 else "text"


def _texts(cells: Sequence[Any]) -> AnyArray:
    return words(list(map(text_of, cells)))


def _are_scores_in_print(name: str, cells: Sequence[str]) -> bool:
    is_named = parse_name(name).role == "scores"
    return is_named and all(is_number(cell) for cell in cells if cell)


def _numbers_of_texts(cells: Sequence[Any]) -> AnyArray:
    """Numbers of texts, as ``json.dumps(…, default=str)`` writes those of NumPy."""
    return np.array([cell or nan for cell in cells], dtype=np.float64)


def _refuse(file: Path, name: str, cells: Sequence[Any]) -> AnyArray:
    raise DataError(
        f"{file}: {name!r} holds values of several types, expected numbers, texts or"
        " lists of numbers"
    )


def _numbers(file: Path, name: str, cells: Sequence[Any]) -> AnyArray:
    dtype = np.int64 if are_all(int, cells) else np.float64
    try:
        return np.array(cells, dtype=dtype)
    except OverflowError:
        raise DataError(f"{file}: {name!r} holds a number beyond 64 bits") from None


def _lists(file: Path, name: str, rows: Sequence[Any]) -> AnyArray | Parts:
    values = array_of_objects(rows, f"{file}: {name}")
    if isinstance(values, Parts):
        return values
    is_text = values.dtype.kind == "U"
    # json.dumps(…, default=str) writes NumPy's numbers as texts
    if values.dtype.kind in "biu" or (is_text and all(map(is_number, values.flat))):
        return values.astype(np.float64)
    are_words = is_text and are_all(str, rows[0])
    if values.dtype.kind != "f" and not are_words:
        raise DataError(
            f"{file}: the lists in {name!r} hold something that is no number"
        )
    return values
