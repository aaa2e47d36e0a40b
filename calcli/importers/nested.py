"""Nested dicts, lists and tuples: their arrays by path; lists of batches, as loops save them, made one array each."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import remark
from calcli.importers.positions import Parts, joined
from calcli.numerics import AnyArray

MOST_ARRAYS = 100_000
DEEPEST = 64
"""Limits for containers within containers: a few bytes of pickle can describe 2^40 of them."""


def rebuilt(
    value: Any,
    made: Callable[[Any, list[Any]], Any],
    where: object,
    leaf: Callable[[Any, bool], Any] = lambda item, listed: item,
    into: Any = (Mapping, list, tuple),
) -> Any:
    """What nested dicts, lists and tuples become, from the inside out: the one walk over them.

    made : what becomes of a container, given it and what its values or items have become. leaf : what
    takes the place of anything else, given whether it lies within a list; a container is then walked
    through. into : what counts as a container. One that occurs in several places is walked through
    once. where : the file, for messages. Raises DataError for containers within themselves or nested too deeply.
    """
    known: dict[int, Any] = {}
    visiting: set[int] = set()

    def walk(item: Any, depth: int, listed: bool) -> Any:
        if not isinstance(item, into):
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
    """The arrays within a container."""


def flatten(
    value: Any,
    is_array: Callable[[Any], bool],
    where: object,
    by: str = "/",
    into: Any = (Mapping, list, tuple),
) -> dict[str, Any]:
    """The arrays in nested containers by their path; lists are counted from 0.

    Anything that is neither a container nor an array is passed over; a list of texts is an array.
    by : what stands between the parts of a path. Raises DataError as ``rebuilt``, and for too many arrays.
    """

    def of(part: Any) -> Sequence[tuple[str, Any]]:
        return part if isinstance(part, _ByPath) else [("", part)] if is_array(part) else []

    def made(item: Any, parts: list[Any]) -> _ByPath:
        if not isinstance(item, Mapping) and item and all(isinstance(part, str) for part in item):
            return _ByPath([("", np.asarray(item))])
        found = _ByPath()
        for key, part in zip(
            map(_key, item) if isinstance(item, Mapping) else map(str, range(len(item))), parts, strict=True
        ):
            found += [(f"{key}{by}{path}" if path else key, array) for path, array in of(part)]
            if len(found) > MOST_ARRAYS:
                raise DataError(f"{where}: holds more than {MOST_ARRAYS} arrays; expected scores and labels")
        return found

    return dict(of(rebuilt(value, made, where, into=into)))


def _key(key: Any) -> str:
    return str(key) if isinstance(key, str | int | float | bool | None) else f"a {type(key).__name__}"


# ---- lists of batches, lists of rows


def merge_batches(content: Any, path: Path, leaf: Callable[[Any, bool], Any] = lambda item, listed: item) -> Any:
    """Join what a list holds again and again: ``[{"logits": (b, k), "labels": (b,)}, …]``.

    content : nested dicts, lists, tuples with arrays and plain values. Lists of dicts with
    the same keys, of tuples of the same length and of arrays are batches if the arrays in
    an item share their length, else rows. Everything else stays as it is. leaf : see ``rebuilt``,
    which says what it raises.
    """

    def made(item: Any, parts: list[Any]) -> Any:
        if not isinstance(item, Mapping):
            return _merged(parts, path)
        return _merged_by_id(dict(zip(item, parts, strict=True)), path)

    return rebuilt(content, made, path, leaf)


def _merged(items: list[Any], path: Path) -> Any:
    first: Any = items[0] if items else None
    if isinstance(first, (dict, list, tuple, np.ndarray)) and len({id(item) for item in items}) < len(items):
        return items  # one thing referred to several times: a few bytes of pickle would join to any size
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
    """Rows by their ids, ``{"a.jpg": {"logits": (k,), "label": 2}, …}``, as arrays; anything else as it is."""
    rows = list(items.values())
    if len(rows) < 2 or not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        return items
    deep = [[np.ndim(value) for value in row.values()] for row in rows]
    if not all(isinstance(key, (str, int)) for key in items) or any(sorted(set(d)) != [0, 1] for d in deep):
        return items
    merged = _merged(rows, path)
    if not isinstance(merged, dict) or merged.keys() != rows[0].keys():
        return items
    return {"ids": np.array([str(key) for key in items]), **merged}


def _is_batch(item: Any) -> bool:
    if not isinstance(item, (list, tuple)) or len(item) < 2:
        return False
    arrays = [isinstance(part, np.ndarray) for part in item]
    return any(arrays) and all(array or _are_words(part) for array, part in zip(arrays, item, strict=True))


def _are_words(part: Any) -> bool:
    """Whether this is what a loader makes of paths or names: a list of texts."""
    return isinstance(part, (list, tuple)) and len(part) > 0 and all(isinstance(word, str) for word in part)


def _are_rows(fields: Mapping[str, Sequence[Any]]) -> bool:
    """Whether each item is one row: arrays in it differ in length, or stand beside single values."""
    for item in zip(*fields.values(), strict=True):
        arrays = [value for value in item if isinstance(value, np.ndarray)]
        if any(array.ndim == 0 for array in arrays) or len({len(array) for array in arrays}) > 1:
            return True
        if arrays and all(array.ndim == 1 for array in arrays) and any(isinstance(v, (str, int)) for v in item):
            return True
    return False


def _join(values: Sequence[Any], rows: bool, path: Path) -> AnyArray | Parts | None:
    """One array of all values, or None for what does not fit together."""
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
