"""Arrays of scores whose classes are on the first axis (``--class-axis 0``)."""

from dataclasses import replace
from typing import Any

import numpy as np

from calcli.importers.table import Column, Table

CLASSES_FIRST = "classes_first"
"""Attribute of arrays that were turned to (rows, classes)."""


def with_classes_last(table: Table) -> Table:
    """The table, with numbers (classes, rows) as (rows, classes)."""
    columns = {}
    for path, column in table.columns.items():
        columns[path] = _turned(column)
    return replace(table, columns=columns)


def _turned(column: Column) -> Column:
    def get() -> Any:
        array = column.get()
        if not _is_matrix(array):
            return array
        return np.ascontiguousarray(np.asarray(array[()]).T)

    attributes = {**column.attributes, CLASSES_FIRST: True}
    return replace(column, get=get, attributes=attributes)


def _is_matrix(array: Any) -> bool:
    """True for numbers on two axes, neither of length 1."""
    shape = getattr(array, "shape", ())
    return len(shape) == 2 and min(shape) > 1 and np.dtype(array.dtype).kind in "biuf"
