"""Values of the columns of a table, looked at before columns become arrays.

Every function returns None for a column of anything else, and for one that cannot be
read: it may not be needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby

import numpy as np

from calcli.errors import DataError
from calcli.importers.table import Column, Columns
from calcli.numerics import AnyArray

ROWS_SEEN = 1000
"""Rows that are looked at first. All rows are, before columns become something else."""

MOST_COLUMNS_SEARCHED = 100
"""Columns side by side in which some are searched."""


def numbers_in(
    column: Column, types: str = "iuf", first: int | None = None
) -> AnyArray | None:
    """The numbers (n,) of a column, or the first of them with NaN for empty cells.

    types : kinds of NumPy's types that they may have.
    """
    if column.cells != "number":
        return None
    return _values_in(column, types, first)


def marks_in(column: Column, first: int | None = None) -> AnyArray | None:
    """Zeros and ones (n,) of a column without empty cells, or the first of them."""
    if column.cells not in ("number", "truth") or column.empty_row is not None:
        return None
    values = _values_in(column, "biuf", first)
    if values is None or not ((values == 0) | (values == 1)).all():
        return None
    return values.astype(np.int64)


def _values_in(column: Column, types: str, first: int | None) -> AnyArray | None:
    with suppress(DataError):
        values = column.values() if first is None else column.rows(slice(first))
        if values.ndim == 1 and values.dtype.kind in types:
            return values
    return None


def matrix_in(
    columns: Columns, names: Sequence[str], first: int | None = None
) -> AnyArray | None:
    """Columns of numbers as an array (n, columns)."""
    arrays = []
    for name in names:
        values = numbers_in(columns[name], first=first)
        if values is None:
            return None
        arrays.append(values)
    return np.stack(arrays, axis=1)


# ---- columns side by side whose rows sum to 1


def side_by_side(
    columns: Columns, values: Mapping[str, AnyArray]
) -> Iterator[tuple[list[str], AnyArray]]:
    """Two or more columns side by side that have values, with these (n, columns)."""
    for has_values, group in groupby(columns, values.__contains__):
        names = list(group)
        if has_values and len(names) > 1:
            yield names, np.stack([values[name] for name in names], axis=1)


def ends_of_sum_1(
    numbers: AnyArray, tolerance: float = 0.0
) -> Iterator[tuple[int, list[int]]]:
    """From each column on the ends of two or more whose rows sum to 1, longest first.

    None where there are more columns than are searched.
    """
    n, k = numbers.shape
    if k > MOST_COLUMNS_SEARCHED:
        return
    sums = np.concatenate([np.zeros((n, 1)), numbers.cumsum(axis=1)], axis=1)
    for start in range(k - 1):
        missed = np.abs(sums[:, start + 2 :] - sums[:, [start]] - 1.0).max(axis=0)
        stops = start + 2 + np.flatnonzero(missed <= tolerance)
        yield start, stops[::-1].tolist()
