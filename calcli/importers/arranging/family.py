"""A family of columns, and the array that columns make."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from calcli.errors import DataError
from calcli.importers.table import Column, Columns, Table, most_decimals
from calcli.importers.text_cells import not_a_number
from calcli.numerics import AnyArray

Origin = Literal["named", "numbered", "classes", "summing", "left over", "listed"]


@dataclass(frozen=True)
class Family:
    """Columns that make one array.

    name : of the array. origin : by what they belong together. prefix : the part of
    their names that is none of the classes' names. classes : names of the classes,
    where the words of a column, label, tell them. is_proven : by the words of a label
    and by all values; what the names of its columns mean elsewhere does not count.
    """

    name: str
    columns: list[str]
    origin: Origin
    prefix: str = ""
    classes: list[str] | None = None
    label: str | None = None
    is_proven: bool = False

    @property
    def members(self) -> frozenset[str]:
        """Its columns, in any order."""
        return frozenset(self.columns)


def stacked(table: Table, columns: Columns, names: Sequence[str]) -> AnyArray:
    """Columns of numbers as an array (n, columns), (n,) or lists for one."""
    values = [numbers_of(table, columns[name], name) for name in names]
    if len(values) > 1:
        for name, array in zip(names, values, strict=True):
            if array.ndim != 1:
                raise DataError(
                    f"{table.file}: column {name!r} holds lists, expected one number"
                    " per row"
                )
    real = np.dtype(np.float64)
    types = []
    for array in values:
        types.append(array.dtype if array.dtype.kind == "f" else real)
    dtype = np.result_type(*types)
    if len(values) == 1:
        return values[0].astype(dtype, copy=False)
    return np.stack(values, axis=1, dtype=dtype)


def numbers_of(table: Table, column: Column, name: str) -> AnyArray:
    """The numbers of a column. Raises DataError for words."""
    values = column.load()
    if values.dtype.kind in "OUS":
        raise not_a_number(table.file, name, values.tolist())
    return values


def matrix_of(
    table: Table, columns: Columns, names: list[str], path: str | None = None
) -> Column:
    """Columns as an array (n, columns) of the widest type, (n,) for one."""

    @cache
    def get() -> AnyArray:
        return stacked(table, columns, names)

    decimals = most_decimals(columns[name] for name in names)
    return Column(table.file, path or table.file.stem, get, decimals=decimals)
