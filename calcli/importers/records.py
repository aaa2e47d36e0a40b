"""Rows as JSON objects: which fields are columns, and what their cells hold."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.array_names import parse_name
from calcli.importers.columns import Column, are_lists, is_number, read_lists, words
from calcli.importers.import_request import ImportRequest
from calcli.importers.nested import flatten
from calcli.importers.positions import Parts, objects
from calcli.io.locate import natural
from calcli.numerics import AnyArray


def record_columns(path: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """Columns of rows that are objects; fields of inner objects by dotted names: ``output.logits``."""
    flat = [_dotted(path, row) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: value_column(path, name, [row.get(name) for row in flat]) for name in names}


def _dotted(path: Path, row: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = any(isinstance(value, Mapping) for value in row.values())
    return flatten(row, lambda value: True, path, ".", into=(Mapping,)) if inner else row


def in_one_order(rows: Sequence[Mapping[str, Any]], ask: ImportRequest, where: str) -> list[dict[str, Any]]:
    """Rows whose objects of scores by class, ``{"cat": 0.9, "dog": 0.1}``, all have the classes in one order.

    That of the first row where all have it, else that of ``--class-names``, else that of
    their names. Raises DataError where labels are numbers then.
    """
    made = [dict(row) for row in rows]
    for key in [key for key, cell in made[0].items() if _is_scores(cell)]:
        cells = [row.get(key) for row in made]
        orders = {tuple(cell) if isinstance(cell, Mapping) and _is_scores(cell) else () for cell in cells}
        if len(orders) < 2 or len({frozenset(order) for order in orders}) > 1:
            continue
        names = sorted(made[0][key], key=natural)
        if set(ask.class_names) == set(names):
            names = list(ask.class_names)
        elif not all(re.search(r"\d$", name) for name in names) and any(
            isinstance(cell, int) for row in made for other, cell in row.items() if parse_name(other).role == "labels"
        ):
            raise DataError(
                f"{where}: {key!r} has its classes in another order in every row, and the labels are numbers: name the"
                f" classes in the order of the numbers: --class-names {','.join(names) if len(names) < 9 else 'A,B,…'}"
            )
        for row in made:
            row[key] = {name: row[key][name] for name in names}
    return made


def _is_scores(cell: Any) -> bool:
    """Whether this is an object of numbers by the names of classes."""
    return (
        isinstance(cell, Mapping)
        and len(cell) > 1
        and all(_kind(value) == "number" for value in cell.values())
        and not any(parse_name(str(name)).role for name in cell)
    )


def value_column(path: Path, name: str, cells: Sequence[Any]) -> Column:
    """The column of these cells: numbers, texts, or lists of numbers of one length; None is a gap."""
    column = _column(path, name, cells)
    first = next((cell for cell in cells if cell is not None), None)
    if first is None or None not in cells:
        return column
    width = len(first[0]) if isinstance(first, list) and first and isinstance(first[0], list) else 0
    blank: Any = "" if isinstance(first, str) else nan
    if isinstance(first, list):
        blank = [[nan] * width] if width else [nan] * len(first)
    filled = _column(path, name, [blank if cell is None else cell for cell in cells])
    return Column(column.kind, lambda _: _refuse(path, name, cells), filled.cells, filled.read)


def _column(path: Path, name: str, cells: Sequence[Any]) -> Column:
    kinds = {_kind(cell) for cell in cells if cell is not None}
    if kinds == {"number"}:
        return Column("number", partial(_numbers, path, name), cells)
    if kinds == {"truth"}:
        return Column("other", partial(np.array, dtype=bool), cells)
    if kinds == {"lists"}:
        return Column("lists", partial(_lists, path, name), cells)
    if "lists" in kinds or "object" in kinds or not kinds:
        return Column("other", lambda _: _refuse(path, name, cells), cells)
    if kinds == {"text"} and None not in cells and are_lists(cells):
        return Column("lists", partial(read_lists, path, name), cells)
    mostly = sum(_kind(cell) == "number" for cell in cells) > len(cells) / 2
    return Column("number" if mostly else "text", lambda some: words(list(map(str, some))), cells)


def _kind(cell: Any) -> str:
    if isinstance(cell, bool):
        return "truth"
    if isinstance(cell, (int, float)):
        return "number"
    if isinstance(cell, str):
        return "text"
    return "lists" if isinstance(cell, list) else "object"


def _refuse(path: Path, name: str, cells: Sequence[Any]) -> AnyArray:
    if None in cells:
        raise DataError(f"{path}: {name!r} has no value in row {cells.index(None)}, expected one in every row")
    raise DataError(f"{path}: {name!r} holds values of several types, expected numbers, texts or lists of numbers")


def _numbers(path: Path, name: str, cells: Sequence[Any]) -> AnyArray:
    whole = all(isinstance(cell, int) for cell in cells)
    try:
        return np.array(cells, dtype=np.int64 if whole else np.float64)
    except OverflowError:
        raise DataError(f"{path}: {name!r} holds a number beyond 64 bits") from None


def _lists(path: Path, name: str, rows: Sequence[Any]) -> Any:
    values = objects(rows, f"{path}: {name}")
    if isinstance(values, Parts):
        return values
    if values.dtype.kind in "biu" or (values.dtype.kind == "U" and all(map(is_number, values.flat))):
        values = values.astype(np.float64)  # json.dumps(…, default=str) makes texts of NumPy's numbers
    if values.dtype.kind not in "fU" or (values.dtype.kind == "U" and not all(isinstance(x, str) for x in rows[0])):
        raise DataError(f"{path}: the lists in {name!r} hold something that is no number")
    return values
