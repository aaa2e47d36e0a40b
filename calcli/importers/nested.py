"""Nested dicts, lists and tuples: find their arrays by path, join lists of batches, read rows that are objects."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import constant, remark
from calcli.importers.array_names import parse_name
from calcli.importers.columns import (
    Column,
    are_lists,
    read_lists,
    refusal_of_empty,
    words,
)
from calcli.importers.import_request import ImportRequest
from calcli.importers.positions import Parts, joined, objects
from calcli.io.cells import is_number, text_of
from calcli.io.locate import natural
from calcli.numerics import AnyArray

MOST_ARRAYS = 100_000
DEEPEST = 64  # limits on nesting: a few bytes of pickle can describe 2^40 containers
CONTAINERS = (Mapping, list, tuple)
Leaf = Callable[[Any, bool], Any]
Rows = Sequence[Mapping[str, Any]]
Made = Callable[[Any, list[Any]], Any]
IsArray = Callable[[Any], bool]


def rebuilt(value: Any, made: Made, where: object, leaf: Leaf | None = None, into: Any = CONTAINERS) -> Any:
    """Convert nested dicts, lists and tuples from the inside out. made : (container, converted values or items) -> its
    replacement. leaf : (other object, True if it is within a list) -> its replacement; a container is then converted in
    turn. into : types of containers. A container that occurs in several places is converted once. Raises DataError for
    containers that contain themselves or are nested too deeply."""
    known: dict[int, Any] = {}
    visiting: set[int] = set()

    def walk(item: Any, depth: int, listed: bool) -> Any:
        if not isinstance(item, into) and leaf is not None:
            item = leaf(item, listed)
        if not isinstance(item, into):
            return item
        if id(item) not in known:
            if depth > DEEPEST or id(item) in visiting:
                raise DataError(f"{where}: its lists and dicts are nested too deeply; save a flat dict of arrays")
            visiting.add(id(item))
            inside = item.values() if isinstance(item, Mapping) else item
            listed = listed or not isinstance(item, Mapping)
            known[id(item)] = made(item, [walk(inner, depth + 1, listed) for inner in inside])
            visiting.remove(id(item))
        return known[id(item)]

    return walk(value, 0, False)


class _ByPath(list[tuple[str, Any]]):
    """Arrays within a container: (path, array)."""


def flatten(value: Any, is_array: IsArray, where: object, by: str = "/", into: Any = CONTAINERS) -> dict[str, Any]:
    """Arrays in nested containers by path; list items are numbered from 0, a list of strings is an array. by :
    separator of the parts of a path. Raises DataError as ``rebuilt``, and for too many arrays."""

    def of(part: Any) -> Sequence[tuple[str, Any]]:
        return part if isinstance(part, _ByPath) else [("", part)] if is_array(part) else []

    def made(item: Any, parts: list[Any]) -> _ByPath:
        if not isinstance(item, Mapping) and item and all(isinstance(part, str) for part in item):
            return _ByPath([("", np.asarray(item))])
        found = _ByPath()
        keys = map(_key, item) if isinstance(item, Mapping) else map(str, range(len(item)))
        for key, part in zip(keys, parts, strict=True):
            found += [(f"{key}{by}{path}" if path else key, array) for path, array in of(part)]
            if len(found) > MOST_ARRAYS:
                raise DataError(f"{where}: holds more than {MOST_ARRAYS} arrays; expected scores and labels")
        return found

    return dict(of(rebuilt(value, made, where, into=into)))


def _key(key: Any) -> str:
    return str(key) if isinstance(key, str | int | float | bool | None) else f"a {type(key).__name__}"


# ---- lists of batches, lists of rows


def merge_batches(content: Any, path: Path, leaf: Leaf | None = None) -> Any:
    """Join lists of batches or rows: ``[{"logits": (b, k), "labels": (b,)}, …]``. Lists of dicts with the same keys, of
    tuples of the same length and of arrays are batches if the arrays in an item have the same length, else rows. All
    else is unchanged. leaf : see ``rebuilt``, also for the errors raised."""

    def made(item: Any, parts: list[Any]) -> Any:
        mapped = isinstance(item, Mapping)
        return _merged_by_id(dict(zip(item, parts, strict=True)), path) if mapped else _merged(parts, path)

    return rebuilt(content, made, path, leaf)


def _merged(items: list[Any], path: Path) -> Any:
    first: Any = items[0] if items else None
    if isinstance(first, (dict, list, tuple, np.ndarray)) and len({id(item) for item in items}) < len(items):
        return items  # repeated references: a few bytes of pickle could expand to any size
    if isinstance(first, dict) and all(isinstance(item, dict) and item.keys() == first.keys() for item in items):
        fields = {key: [item[key] for item in items] for key in first}
    elif _is_batch(first) and len(items) > 1 and all(_is_batch(item) and len(item) == len(first) for item in items):
        fields = {str(place): [item[place] for item in items] for place in range(len(first))}
    elif isinstance(first, np.ndarray) and len({item.ndim for item in items if isinstance(item, np.ndarray)}) == 1:
        made = _join(items, first.ndim == 0 or (first.ndim == 1 and first.dtype.kind == "f"), path)
        if isinstance(made, np.ndarray) and len(items) > 1:
            remark(f"{path.name}: {len(items)} parts were joined to {len(made)} rows")
        return items if made is None else made
    elif items and all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in items):
        return np.array(items)
    else:
        return items
    rows = _are_rows(fields)
    arrays = {key: made for key, values in fields.items() if (made := _join(values, rows, path)) is not None}
    whole = [made for made in arrays.values() if isinstance(made, np.ndarray)]
    if len(whole) == len(arrays) > 0 and len(items) > 1 and not rows:
        remark(f"{path.name}: {len(items)} batches were joined to {len(whole[0])} rows")
    return arrays or items


def _merged_by_id(items: dict[Any, Any], path: Path) -> Any:
    """Join rows keyed by id, ``{"a.jpg": {"logits": (k,), "label": 2}, …}``, to arrays; leave all else unchanged."""
    rows = list(items.values())
    if len(rows) < 2 or not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        return items
    flat = all({np.ndim(value) for value in row.values()} == {0, 1} for row in rows)
    merged = _merged(rows, path) if flat and all(isinstance(key, (str, int)) for key in items) else None
    if not isinstance(merged, dict) or merged.keys() != rows[0].keys():
        return items
    return {"ids": np.array([str(key) for key in items]), **merged}


def _is_batch(item: Any) -> bool:
    if not isinstance(item, (list, tuple)) or len(item) < 2:
        return False
    arrays = [isinstance(part, np.ndarray) for part in item]
    return any(arrays) and all(array or _are_words(part) for array, part in zip(arrays, item, strict=True))


def _are_words(part: Any) -> bool:
    """True for a list of strings, as data loaders return paths or names."""
    return isinstance(part, (list, tuple)) and len(part) > 0 and all(isinstance(word, str) for word in part)


def _are_rows(fields: Mapping[str, Sequence[Any]]) -> bool:
    """True if each item is one row: its arrays differ in length, or are beside single values."""
    for item in zip(*fields.values(), strict=True):
        arrays = [value for value in item if isinstance(value, np.ndarray)]
        if any(array.ndim == 0 for array in arrays) or len({len(array) for array in arrays}) > 1:
            return True
        if arrays and all(array.ndim == 1 for array in arrays) and any(isinstance(v, (str, int)) for v in item):
            return True
    return False


def _join(values: Sequence[Any], rows: bool, path: Path) -> AnyArray | Parts | None:
    """One array of all values (stacked rows or concatenated batches); None if they do not fit together."""
    if all(isinstance(value, str) for value in values) or all(isinstance(value, (int, float)) for value in values):
        return np.array(values)
    if all(_are_words(value) for value in values):
        return np.array([word for value in values for word in value])
    if not all(isinstance(value, np.ndarray) for value in values) or len({id(v) for v in values}) < len(values):
        return None
    if rows:
        if len({value.shape for value in values}) != 1:
            units = values[0].ndim > 1 or values[0].dtype.kind in "iu"
            return joined(values, str(path), sure=True) if units else None
        stacked = np.stack(values)
        return stacked[:, 0] if stacked.ndim == 2 and stacked.shape[1] == 1 else stacked
    return joined(values, str(path))


# ---- rows as JSON objects: their columns and the types of these


def record_columns(path: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """Columns of rows that are objects; fields of inner objects get dotted names: ``output.logits``."""
    flat = [_dotted(path, row) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: value_column(path, name, [row.get(name) for row in flat]) for name in names}


def _dotted(path: Path, row: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = any(isinstance(value, Mapping) for value in row.values())
    return flatten(row, lambda value: True, path, ".", into=(Mapping,)) if inner else row


def in_one_order(rows: Sequence[Mapping[str, Any]], ask: ImportRequest, where: str) -> list[dict[str, Any]]:
    """Reorder objects of scores by class, ``{"cat": 0.9, "dog": 0.1}``, to the same order of classes in every row: that
    of the first row if all have it, else that of ``class_order``."""
    made = [dict(row) for row in rows]
    for key in [key for key, cell in made[0].items() if _is_scores(cell)]:
        orders = {tuple(row[key]) if _is_scores(row.get(key)) else () for row in made}
        if len(orders) < 2 or len({frozenset(order) for order in orders}) > 1:
            continue
        names = class_order(made[0][key], made, ask, f"{where}: {key!r}")
        for row in made:
            row[key] = {name: row[key][name] for name in names}
    return made


def class_order(classes: Collection[str], rows: Rows, ask: ImportRequest, where: str) -> list[str]:
    """Order of classes that rows list in different orders: that of ``--class-names``, else sorted by name. Raises
    DataError if labels are numbers in the latter case, unless all names end in numbers."""
    if set(ask.class_names) == set(classes):
        return list(ask.class_names)
    names = sorted(classes, key=natural)
    truths = [cell for row in rows for key, cell in row.items() if parse_name(key).role == "labels"]
    if any(isinstance(truth, int) for truth in truths) and not all(re.search(r"\d$", name) for name in names):
        told = "has its classes in another order in every row, and the labels are numbers: name the classes in order"
        raise DataError(f"{where} {told}: --class-names {','.join(names) if len(names) < 9 else 'A,B,…'}")
    return names


def _is_scores(cell: Any) -> bool:
    """True for an object of numbers by the names of classes."""
    if not isinstance(cell, Mapping) or len(cell) < 2:
        return False
    return all(kind_of_cell(cell[name]) == "number" and not parse_name(str(name)).role for name in cell)


def value_column(path: Path, name: str, cells: Sequence[Any]) -> Column:
    """Column of these cells: numbers, texts, or lists of numbers of one length; None
    is a missing value."""
    column = _value_column(path, name, cells)
    return replace(column, written=constant(cells))


def _value_column(path: Path, name: str, cells: Sequence[Any]) -> Column:
    kinds = [kind_of_cell(cell) for cell in cells if cell is not None]
    kind = kinds[0] if len(set(kinds)) == 1 else ""
    refusal = ""
    if len(kinds) < len(cells):
        refusal = refusal_of_empty(path, name, cells.index(None))
        cells = _with_blanks(cells, kind)
    if kind == "number":
        return Column("number", partial(_numbers, path, name), cells, refusal)
    if kind == "lists":
        return Column("lists", partial(_lists, path, name), cells, refusal)
    if kind == "truth" and not refusal:
        return Column("other", partial(np.array, dtype=bool), cells)
    if kind == "text" and not refusal and are_lists(cells):
        return Column("lists", partial(read_lists, path, name), cells)
    if not kinds or not {"lists", "object"}.isdisjoint(kinds):
        return Column("other", partial(_refuse, path, name), cells, refusal)
    mostly = kinds.count("number") > len(cells) / 2
    return Column("number" if mostly else "text", _words, cells, refusal)


def _with_blanks(cells: Sequence[Any], kind: str) -> list[Any]:
    """Cells with NaN, or a blank word, in place of None."""
    blank: Any = nan if kind == "number" else ""
    if kind == "lists":
        first = next(cell for cell in cells if cell is not None)
        is_deep = bool(first) and isinstance(first[0], list)
        blank = [[nan] * len(first[0])] if is_deep else [nan] * len(first)
    return [blank if cell is None else cell for cell in cells]


def _words(cells: Sequence[Any]) -> AnyArray:
    return words([text_of(cell) for cell in cells])


def kind_of_cell(cell: Any) -> str:
    if isinstance(cell, bool):
        return "truth"
    if isinstance(cell, (int, float)):
        return "number"
    if isinstance(cell, str):
        return "text"
    return "lists" if isinstance(cell, list) else "object"


def _refuse(path: Path, name: str, cells: Sequence[Any]) -> AnyArray:
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
        values = values.astype(np.float64)  # json.dumps(…, default=str) writes NumPy's numbers as strings
    if values.dtype.kind not in "fU" or (values.dtype.kind == "U" and not all(isinstance(x, str) for x in rows[0])):
        raise DataError(f"{path}: the lists in {name!r} hold something that is no number")
    return values
