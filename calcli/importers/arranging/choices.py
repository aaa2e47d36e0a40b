"""Multiple choice: rows with different numbers of scores, a score per candidate.

They become one array whose columns are the options of the row, not classes.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calcli.block import PADDING
from calcli.errors import UsageError
from calcli.importers.arranging.padded_options import attributes_of_options
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import parse_name
from calcli.importers.ragged import Parts
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table
from calcli.io.option_columns import is_padding, log_probabilities
from calcli.numerics import IntArray

ROUNDED = 0.06
"""How far a row of ten probabilities with two decimals may miss a sum of 1."""


def by_number_of_choices(table: Table, request: ImportRequest) -> Table:
    """The table, with rows of different numbers of scores as one padded array.

    With ``--choices`` only rows with so many scores are taken.
    """
    counts = _numbers_of_scores(table.columns, request)
    if request.choices is not None:
        return _with_number(table, counts, request.choices)
    sizes = sorted(set(counts.tolist()))
    if len(sizes) < 2 or sizes[0] < 2:  # a single score is no choice
        return table
    columns = {}
    for name, column in table.columns.items():
        if column.cells == "lists" and are_scores(name, request):
            values = column.rows_or_parts()
            if isinstance(values, Parts) and values.ndim == 2:
                column = _padded(column, values)
                name = column.name
        columns[name] = column
    remark(
        f"{table.file.name}: rows have {sizes[0]} to {sizes[-1]} scores: columns are"
        " the options of their row, not classes (--choices N takes the rows with N)"
    )
    return replace(table, columns=columns)


def _with_number(table: Table, counts: IntArray, wanted: int) -> Table:
    """The rows with so many scores. Raises UsageError where there are none."""
    return _with_rows(table, rows_with_number(table.file, counts, wanted))


def rows_with_number(
    file: Path, counts: IntArray, wanted: int, what: str = "scores"
) -> IntArray:
    """The rows of which there are so many scores, or choices: what the counts are of.

    Raises UsageError where there are none.
    """
    rows = np.flatnonzero(counts == wanted)
    if not len(rows):
        sizes = sorted(set(counts.tolist()))
        listing = ", ".join(map(str, sizes)) or "no"
        raise UsageError(f"--choices {wanted}: {file} has rows with {listing} {what}")
    remark(
        f"{file.name}: {len(rows)} of {len(counts)} rows, those with {wanted} {what},"
        " were taken (--choices)"
    )
    return rows


def _padded(column: Column, values: Parts) -> Column:
    """Scores of rows with different numbers, padded with ``PADDING``.

    Probabilities become logarithms, whose padding is no zero that was rounded.
    """
    lists = [np.asarray(part, dtype=np.float64) for part in values.lists()]
    n_options = np.array([len(part) for part in lists])
    scores = np.zeros((len(lists), int(n_options.max())))
    padding = is_padding(n_options, scores.shape[1])
    scores[~padding] = np.concatenate(lists)
    name = column.name
    is_probability = bool((scores >= 0.0).all())
    if is_probability and np.allclose(scores.sum(axis=1), 1.0, atol=ROUNDED):
        scores = log_probabilities(scores, n_options)
        if parse_name(name).kind == "probs":
            name = "log_probs"
    scores[padding] = PADDING
    return replace(
        column.having(scores), name=name, attributes=attributes_of_options(column)
    )


def _numbers_of_scores(columns: Columns, request: ImportRequest) -> IntArray:
    """Number of scores of every row; none without a column of lists of scores."""
    none = np.empty(0, dtype=np.int64)
    for name, column in columns.items():
        if column.cells != "lists" or not are_scores(name, request):
            continue
        values = column.rows_or_parts()
        if not isinstance(values, Parts):
            if request.choices is None or values.ndim != 2:
                return none
            return np.full(len(values), values.shape[1])
        if values.ndim != 2 or _are_of_positions(values, columns):
            return none
        return np.array([length for (length,) in values.shapes])
    return none


def are_scores(name: str, request: ImportRequest) -> bool:
    """True for a column that will be read as scores."""
    if request.scores:
        return name in request.scores
    return parse_name(name).role == "scores"


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
    columns = {name: taken(column, rows) for name, column in table.columns.items()}
    return replace(table, columns=columns, n_rows=len(rows))


def taken(column: Column, rows: IntArray) -> Column:
    """Some rows of a column, empty cells included."""

    def get() -> Any:
        values = column.rows_or_parts()
        if not isinstance(values, Parts):
            return values[rows]
        arrays = [values.of(int(row)) for row in rows]
        if len({array.shape for array in arrays}) == 1:
            return np.stack(arrays)
        return Parts.held(arrays, values.where)

    empty_row = None
    if column.empty_row is not None:
        empty_row = _first_empty(get())
    some_rows = column.ordered(lambda array: array[rows])
    return replace(
        some_rows, get=get, get_rows=lambda which: get()[which], empty_row=empty_row
    )


def _first_empty(values: Any) -> int | None:
    """The first row that is NaN or an empty word."""
    if isinstance(values, Parts):
        return None
    is_empty = values == "" if values.dtype.kind in "OU" else np.isnan(values)
    rows = np.flatnonzero(is_empty.reshape(len(values), -1).any(axis=1))
    return int(rows[0]) if len(rows) else None
