"""Arrays that hold labels beside their scores, in the first or the last column."""

from pathlib import Path

import numpy as np

from calcli.importers.table import Column, Table
from calcli.importers.text_cells import held_column
from calcli.numerics import AnyArray

FEWEST_LABELLED = 30
"""Rows of an array in which a column of whole numbers is no chance."""

FEWEST_COLUMNS = 3


def has_labels(array: AnyArray) -> bool:
    """True where one column, at an end, holds classes of which the others are scores.

    So ``np.column_stack([probs, labels])`` makes them. Scores are no whole numbers.
    """
    if array.ndim != 2 or array.dtype.kind != "f" or len(array) < FEWEST_LABELLED:
        return False
    n_columns = array.shape[1]
    if n_columns < FEWEST_COLUMNS:
        return False
    is_first = _are_classes(array[:, 0], n_columns - 1)
    is_last = _are_classes(array[:, -1], n_columns - 1)
    if is_first == is_last:
        return False
    scores = array[:, 1:] if is_first else array[:, :-1]
    return bool((scores != np.floor(scores)).any(axis=0).all())


def _are_classes(column: AnyArray, k: int) -> bool:
    """True for places of k classes, of which two and more occur."""
    if column[0] != np.floor(column[0]):
        return False  # as nearly all scores are
    values = np.unique(column)
    are_places = (values == np.floor(values)) & (values >= 0) & (values < k)
    return len(values) > 1 and bool(are_places.all())


def table_of_columns(path: Path, format: str, array: AnyArray) -> Table:
    """The columns of an array by their numbers, as of a table without names."""
    columns: dict[str, Column] = {}
    for place in range(array.shape[1]):
        values = np.ascontiguousarray(array[:, place])
        columns[str(place)] = held_column(path, str(place), values, "number")
    return Table(path, format, columns, len(array), has_header=False)
