"""Multiple choice: rows with different numbers of scores, a score per candidate."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.importers.import_request import ImportRequest
from calcli.importers.names import parse_name
from calcli.importers.ragged import Parts
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table
from calcli.numerics import IntArray

FOLDER = re.compile(r"^choices_\d+/")
"""Folder of the arrays with one number of choices."""

Arrange = Callable[[Table, ImportRequest], Table]


def by_number_of_choices(
    table: Table, request: ImportRequest, arrange: Arrange
) -> Table:
    """Arrays of a table; of several numbers of scores those of each, in ``choices_N``.

    arrange : makes the arrays of a table whose rows have one number of scores. With
    ``--choices`` only rows with so many scores are taken.
    """
    counts = _numbers_of_scores(table.columns, request)
    sizes = sorted(set(counts.tolist()))
    has_one_number = len(sizes) < 2 or sizes[0] < 2  # a single score is no choice
    if request.choices is None and has_one_number:
        return arrange(table, request)
    wanted = sizes if request.choices is None else [request.choices]
    columns: dict[str, Column] = {}
    descriptions = []
    for k in wanted:
        rows = np.flatnonzero(counts == k)
        if not len(rows):
            listing = ", ".join(map(str, sizes)) or "no"
            raise UsageError(
                f"--choices {k}: {table.file} has rows with {listing} scores"
            )
        descriptions.append(f"{len(rows)} with {k}")
        part = arrange(_with_rows(table, rows), request)
        folder = f"choices_{k}/" if request.choices is None else ""
        for name, column in part.columns.items():
            columns[folder + name] = replace(column, name=folder + name)
    message = f"rows have different numbers of scores ({', '.join(descriptions)})"
    message += ": a group for each number"
    if request.choices is not None:
        n_taken = int((counts == request.choices).sum())
        message = (
            f"{n_taken} of {len(counts)} rows, those with {request.choices} scores,"
        )
        message += " were taken (--choices)"
    remark(f"{table.file.name}: {message}")
    return replace(table, columns=columns, n_rows=None)


def _numbers_of_scores(columns: Columns, request: ImportRequest) -> IntArray:
    """Number of scores of every row; none without a column of lists of scores."""
    for name, column in columns.items():
        if column.cells != "lists" or not are_scores(name, request):
            continue
        values = column.rows_or_parts()
        if isinstance(values, Parts):
            if values.ndim == 2 and not _are_of_positions(values, columns):
                return np.array([shape[0] for shape in values.shapes])
        elif request.choices is not None and values.ndim == 2:
            return np.full(len(values), values.shape[1])
        return np.empty(0, dtype=np.int64)
    return np.empty(0, dtype=np.int64)


def are_scores(name: str, request: ImportRequest) -> bool:
    """True for a column that will be read as scores."""
    wanted = {FOLDER.sub("", name) for name in request.scores}
    return name in wanted if wanted else parse_name(name).role == "scores"


def _are_of_positions(scores: Parts, columns: Columns) -> bool:
    """True for scores of tokens: numbers beside as many labels in every row."""
    for name, column in columns.items():
        if parse_name(name).role != "labels" or column.cells != "lists":
            continue
        labels = column.rows_or_parts()
        if isinstance(labels, Parts) and labels.shapes == scores.shapes:
            return True
    return False


def _with_rows(table: Table, rows: IntArray) -> Table:
    """The table with some of its rows."""
    columns = {name: _taken(column, rows) for name, column in table.columns.items()}
    return replace(table, columns=columns, n_rows=len(rows))


def _taken(column: Column, rows: IntArray) -> Column:
    """Some rows of a column, empty cells included."""

    def get() -> Any:
        values = column.rows_or_parts()
        if isinstance(values, Parts):
            return _stacked([values.of(int(row)) for row in rows], values.where)
        return values[rows]

    def get_rows(which: slice) -> Any:
        return get()[which]

    empty_row = None
    if column.empty_row is not None:
        empty_row = _first_empty(get())
    taken = column.ordered(lambda array: array[rows])
    return replace(taken, get=get, get_rows=get_rows, empty_row=empty_row)


def _stacked(arrays: Sequence[Any], where: str) -> Any:
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    return Parts.held(arrays, where)


def _first_empty(values: Any) -> int | None:
    """The first row that is NaN or an empty word."""
    if isinstance(values, Parts):
        return None
    is_empty = values == "" if values.dtype.kind in "OU" else np.isnan(values)
    is_empty = is_empty.reshape(len(values), -1).any(axis=1)
    return int(np.argmax(is_empty)) if is_empty.any() else None
