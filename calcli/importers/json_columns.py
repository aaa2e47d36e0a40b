"""Columns of rows that are JSON objects: numbers, texts, lists of numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calcli.errors import DataError
from calcli.importers.nested import flatten
from calcli.importers.ragged import Parts, array_of_objects
from calcli.importers.table import Cells, Column, Record, constant
from calcli.importers.text_cells import FEWEST_DECIMALS, are_lists, read_lists, words
from calcli.io.cells import is_number, text_of
from calcli.numerics import AnyArray

CellKind = Literal["truth", "number", "text", "lists", "object"]


def columns_of_records(file: Path, rows: Sequence[Record]) -> dict[str, Column]:
    """Columns of rows that are objects.

    Fields of inner objects get dotted names: ``output.logits``.
    """
    flat_rows = [_flat_record(file, row) for row in rows]
    names = dict.fromkeys(name for row in flat_rows for name in row)
    columns = {}
    for name in names:
        cells = [row.get(name) for row in flat_rows]
        columns[name] = column_of_cells(file, name, cells)
    return columns


def _flat_record(file: Path, row: Record) -> Record:
    if not any(isinstance(value, Mapping) for value in row.values()):
        return row
    return flatten(row, lambda value: True, file, separator=".", into=(Mapping,))


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
    kinds = {kind_of_cell(cell) for cell in cells if cell is not None}
    only_kind = next(iter(kinds)) if len(kinds) == 1 else None
    empty_row = None
    if None in cells:
        empty_row = cells.index(None)
        blank = _blank(only_kind, cells)
        cells = [blank if cell is None else cell for cell in cells]
    cell_type: Cells
    parse: Callable[[Sequence[Any]], AnyArray | Parts]
    if only_kind == "number":
        cell_type, parse = "number", partial(_numbers, file, name)
    elif only_kind == "lists":
        cell_type, parse = "lists", partial(_lists, file, name)
    elif only_kind == "truth" and empty_row is None:
        cell_type, parse = "truth", partial(np.array, dtype=bool)
    elif only_kind == "text" and empty_row is None and are_lists(cells):
        cell_type, parse = "lists", partial(read_lists, file, name)
    elif not kinds or not kinds.isdisjoint(("lists", "object")):
        cell_type, parse = "other", partial(_refuse, file, name)
    else:
        cell_type, parse = _type_of_mixture(cells), _texts

    def get() -> Any:
        return parse(cells)

    def get_rows(rows: slice) -> Any:
        return parse(cells[rows])

    column = Column(file, name, get, cell_type, get_rows, empty_row, written=written)
    if cell_type in ("number", "lists"):
        return replace(column, decimals=FEWEST_DECIMALS)
    return column


def _blank(kind: CellKind | None, cells: Sequence[Any]) -> Any:
    """Value of an empty cell among cells of one kind: NaN, or no text."""
    if kind == "number":
        return nan
    if kind != "lists":
        return ""
    first = next(cell for cell in cells if cell is not None)
    if first and isinstance(first[0], list):
        return [[nan] * len(first[0])]
    return [nan] * len(first)


def _type_of_mixture(cells: Sequence[Any]) -> Cells:
    """Type of texts, or of texts among numbers."""
    n_numbers = sum(kind_of_cell(cell) == "number" for cell in cells)
    return "number" if n_numbers > len(cells) / 2 else "text"


def _texts(cells: Sequence[Any]) -> AnyArray:
    return words([text_of(cell) for cell in cells])


def _refuse(file: Path, name: str, cells: Sequence[Any]) -> AnyArray:
    message = f"{name!r} holds values of several types"
    raise DataError(f"{file}: {message}, expected numbers, texts or lists of numbers")


def _numbers(file: Path, name: str, cells: Sequence[Any]) -> AnyArray:
    are_whole = all(isinstance(cell, int) for cell in cells)
    try:
        return np.array(cells, dtype=np.int64 if are_whole else np.float64)
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
    are_words = is_text and all(isinstance(word, str) for word in rows[0])
    if values.dtype.kind != "f" and not are_words:
        message = f"the lists in {name!r} hold something that is no number"
        raise DataError(f"{file}: {message}")
    return values
