"""Columns that are no classes among those of classes."""

import re
from collections.abc import Sequence
from shlex import quote

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.family import numbers_of
from calcli.importers.names.column_options import option_for, some_of
from calcli.importers.table import Columns, Table
from calcli.numerics import AnyArray


def are_numbered_from_1(names: Sequence[str]) -> bool:
    """True for two or more columns whose last numbers are 1, 2, 3, …"""
    numbers = []
    for name in names:
        digits = re.findall(r"[0-9]{1,18}", name)
        if digits:
            numbers.append(int(digits[-1]))
    k = len(names)
    return k > 1 and numbers == list(range(1, k + 1))


def refuse_strange(
    table: Table,
    columns: Columns,
    names: Sequence[str],
    numbered: Sequence[str],
    has_word_labels: bool,
) -> None:
    """Refuse left-over columns that some, but not all, look like no class."""
    strange = []
    for name in names:
        values = numbers_of(table, columns[name], name)
        if len(values) > 2 and _counts(values):
            strange.append(name)
    reason = "holds whole numbers beside columns of real ones"
    if numbered and not has_word_labels:
        strange = [name for name in names if name not in numbered]
        reason = f"is none of the numbered {some_of(numbered)}"
    if not 0 < len(strange) < len(names):
        return
    others = [name for name in names if name not in strange]
    option = option_for(list(columns), numbered) if numbered else ",".join(others)
    raise DataError(
        f"{table.file}: column {strange[0]!r} {reason}: is it a class? name the"
        f" columns of the classes: --scores {quote(option)}",
        option=["--scores", option],
    )


def _counts(values: AnyArray) -> bool:
    """True for whole numbers >= 0; of real numbers only with more than two values."""
    if values.dtype.kind in "iu":
        return bool(values.min() >= 0)
    if values.ndim != 1 or not (values >= 0).all():
        return False
    if not (values == np.floor(values)).all():
        return False
    return len(np.unique(values[:1000])) > 2
