"""Cells of a table that are objects in print, as of JSON or Python's ``str``.

``{"class": "cat", "probability": {"cat": 0.9, …}}`` in a column of a CSV file, and two
columns of printed lists, one of classes and one of their scores. Lists of objects,
``[{"label": "cat", "score": 0.9}, …]``, in print or as Parquet has them.
"""

import ast
import json
from dataclasses import replace
from typing import Any

from calcli.importers.arranging.column_values import ROWS_SEEN, numbers_in
from calcli.importers.arranging.distributions import NUMBER_LISTS, WORD_LISTS
from calcli.importers.arranging.records import with_columns
from calcli.importers.import_request import ImportRequest
from calcli.importers.json_columns import rows_of_columns
from calcli.importers.names.roles import role_of
from calcli.importers.table import Column, Table
from calcli.importers.text_cells import LIST_OF_OBJECTS
from calcli.io.cells import is_blank
from calcli.items import without


def with_printed_objects(table: Table, request: ImportRequest) -> Table:
    """Make columns of the fields of printed objects."""
    named = {*request.scores, *request.labels, *request.pieces}
    for names in request.named.values():
        named.update(names)
    printed: dict[str, list[Any]] = {}
    for name in [*_objects(table), *_lists_of_classes(table)]:
        cells = None if name in named else _parsed(table.columns[name])
        if cells is not None:
            printed[name] = cells
    if not printed:
        return table
    printed |= _numbered_labels(table, request)
    printed_rows = rows_of_columns(printed)
    made = with_columns(replace(table, records=printed_rows, columns={}), request)
    others = without(table.columns, printed)
    return replace(table, columns={**others, **made.columns})


def _objects(table: Table) -> list[str]:
    """Columns whose first cell is an object, or a list of them.

    Lists of objects beside columns of fractions are something else than the scores, as
    boxes or alternatives.
    """
    names = []
    n_fractions = sum(map(_are_fractions, table.columns.values()))
    for name, column in table.columns.items():
        first = _first_cell(column) if column.cells == "text" else ""
        is_list = column.cells == "objects" or LIST_OF_OBJECTS.match(first)
        if (is_list and n_fractions < 2) or first.startswith("{"):
            names.append(name)
    return names


def _are_fractions(column: Column) -> bool:
    """True for a column of numbers that are not whole."""
    if column.empty_row is not None:
        return False
    return numbers_in(column, "f", first=ROWS_SEEN) is not None


def _numbered_labels(table: Table, request: ImportRequest) -> dict[str, list[Any]]:
    """Columns of labels that are numbers, which tell no order of printed classes."""
    labels: dict[str, list[Any]] = {}
    for name, column in table.columns.items():
        is_label = name in request.labels
        if not request.labels:
            is_label = role_of(name) == "labels"
        values = numbers_in(column, "iu") if is_label else None
        if values is not None:
            labels[name] = values.tolist()
    return labels


def _lists_of_classes(table: Table) -> list[str]:
    """Two columns of lists, the classes and their scores."""
    lists = {}
    for name, column in table.columns.items():
        if column.cells == "lists":
            lists[name.lower()] = name
    for words in WORD_LISTS:
        for numbers in NUMBER_LISTS:
            if words not in lists or numbers not in lists:
                continue
            if "'" in _first_cell(table.columns[lists[words]]).replace('"', "'"):
                return [lists[words], lists[numbers]]
    return []


def _first_cell(column: Column) -> str:
    cells = column.written_cells()
    return str(cells[0]).strip() if len(cells) else ""


def _parsed(column: Column) -> list[Any] | None:
    """Objects or lists in print, None for empty cells; None if a cell is anything else."""
    cells: list[Any] = []
    for written in column.written_cells():
        if written is None or is_blank(str(written)):
            cells.append(None)
            continue
        cell = written if isinstance(written, list) else _object_of(str(written))
        if cell is None:
            return None
        cells.append(cell)
    return cells


def _object_of(text: str) -> Any:
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        return value if isinstance(value, dict | list) else None
    return None
