"""Columns of a table as they are taken: without an index, percentages as numbers."""

import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

from calcli.errors import DataError
from calcli.importers.arranging.class_words import as_words
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.roles import is_index, role_of
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table
from calcli.importers.text_cells import without_percent_signs

PANDAS_LEVELS = re.compile(r"\('(\w+)', '([^']+)'\)")
"""A column name of two levels, as pandas writes it to Parquet."""


def plain_columns(table: Table, request: ImportRequest) -> dict[str, Column]:
    """The columns, percentages as numbers; cells may be empty if asked."""
    columns = {}
    for name, column in table.columns.items():
        if request.drop_missing:
            column = replace(column, empty_row=None)
        plain = without_percent_signs(column, as_fractions=not request.percent)
        plain_name = PANDAS_LEVELS.sub(r"\1_\2", name)
        columns[plain_name] = replace(plain, name=plain_name)
    return columns


def take_out_index(columns: dict[str, Column], table: Table) -> None:
    """Remove the row index of pandas; one that is not 0, 1, … becomes the ids."""
    for name in list(filter(is_index, columns)):
        index = columns.pop(name)
        what = f"the column {name!r}" if name else "the first column, without a name,"
        reading = "looks like an index and was left out"
        names = _names_of_index(index)
        if names == list(range(table.n_rows or 0)):
            reading = "counts the rows and was left out"
        elif names is not None and _are_new_ids(names, columns):
            columns["ids"] = replace(index, name="ids")
            reading = "was read as the ids of the rows"
        remark(f"{table.file.name}: {what} {reading}")


def _names_of_index(index: Column) -> list[Any] | None:
    """Names of the rows; None for lists and other cells that are none."""
    if index.cells not in ("number", "text"):
        return None
    with suppress(DataError):
        return index.names("ids").tolist()
    return None


def _are_new_ids(names: list[Any], columns: Columns) -> bool:
    """True for distinct names in a table without ids."""
    if any(role_of(name) == "ids" for name in columns):
        return False
    return len(set(names)) == len(names)


def labels_as_words(columns: dict[str, Column]) -> None:
    """Read labels that ``apply`` wrote as words, even if they look like numbers."""
    for name, column in columns.items():
        if role_of(name) == "labels":
            columns[name] = as_words(column)
