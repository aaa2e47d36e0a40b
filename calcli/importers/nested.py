"""Nested dicts, lists and tuples: their arrays by path, and lists of batches joined."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.ragged import Parts, join_arrays
from calcli.importers.remarks import remark
from calcli.items import are_all, has_any
from calcli.numerics import AnyArray

MOST_ARRAYS = 100_000
DEEPEST = 64
"""Limits on nesting: a few bytes of pickle can describe 2^40 containers."""

CONTAINERS = (Mapping, list, tuple)


Leaf = Callable[[Any, bool], Any]
Build = Callable[[Any, list[Any]], Any]
IsArray = Callable[[Any], bool]


def rebuilt(
    value: Any,
    build: Build,
    where: object,
    leaf: Leaf | None = None,
) -> Any:
    """Convert nested dicts, lists and tuples from the inside out.

    build : (container, its converted values or items) -> its replacement. leaf : (other
    object, True if it is within a list) -> its replacement; a container is then
    converted in turn. A container that occurs in several places is converted once.
    Raises DataError for containers that contain themselves or are nested too deeply.
    """
    known: dict[int, Any] = {}
    open_containers: set[int] = set()

    def walk(item: Any, depth: int, in_list: bool) -> Any:
        if not isinstance(item, CONTAINERS) and leaf is not None:
            item = leaf(item, in_list)
        if not isinstance(item, CONTAINERS):
            return item
        if id(item) in known:
            return known[id(item)]
        if depth > DEEPEST or id(item) in open_containers:
            raise DataError(
                f"{where}: its lists and dicts are nested too deeply; save a flat dict"
                " of arrays"
            )
        open_containers.add(id(item))
        inner: Iterable[Any] = item
        if isinstance(item, Mapping):
            inner = item.values()
        else:
            in_list = True
        parts = [walk(part, depth + 1, in_list) for part in inner]
        known[id(item)] = build(item, parts)
        open_containers.remove(id(item))
        return known[id(item)]

    return walk(value, 0, False)


class _ByPath(list[tuple[str, Any]]):
    """Arrays within a container: (path, array)."""


def flatten(value: Any, is_array: IsArray, where: object) -> dict[str, Any]:
    """Arrays in nested containers by path.

    List items are numbered from 0; a list of strings is an array. Raises DataError as
    ``rebuilt``, and for too many arrays.
    """

    def arrays_in(part: Any) -> Sequence[tuple[str, Any]]:
        if isinstance(part, _ByPath):
            return part
        return [("", part)] if is_array(part) else []

    def build(item: Any, parts: list[Any]) -> _ByPath:
        is_mapping = isinstance(item, Mapping)
        if not is_mapping and parts and are_all(str, item):
            return _ByPath([("", np.asarray(item))])
        keys: Iterable[Any] = range(len(parts))
        if is_mapping:
            keys = map(_key, item)
        by_path = _ByPath()
        for key, part in zip(keys, parts, strict=True):
            for path, array in arrays_in(part):
                by_path.append((f"{key}/{path}" if path else str(key), array))
            if len(by_path) > MOST_ARRAYS:
                raise DataError(
                    f"{where}: holds more than {MOST_ARRAYS} arrays; expected scores"
                    " and labels"
                )
        return by_path

    return dict(arrays_in(rebuilt(value, build, where)))


def _key(key: Any) -> str:
    if isinstance(key, str | int | float | bool | None):
        return str(key)
    return f"a {type(key).__name__}"


# ---- tuples of known layout


def with_known_names(content: Any) -> Any:
    """Name the arrays of ``(scores, labels)``, and of two of these; else unchanged.

    Two pairs are of validation and test, as the pickles of NN_calibration are
    published.
    """
    pair = content
    if isinstance(content, dict) and list(content) == ["0", "1"]:
        pair = tuple(content.values())  # batches of pairs, joined
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return content
    if _is_pair(pair):
        return _named_pair(pair)
    if pair is content and all(map(_is_pair, pair)):
        return {"val": _named_pair(pair[0]), "test": _named_pair(pair[1])}
    return content


def _is_pair(value: Any) -> bool:
    """True for (scores, labels): real numbers, and as many labels or one-hot rows."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    if not are_all(np.ndarray, value):
        return False
    scores, labels = value
    if scores.dtype.kind != "f" or scores.ndim != 2 or labels.ndim < 1:
        return False
    return len(labels) == len(scores)


def _named_pair(pair: Sequence[AnyArray]) -> dict[str, AnyArray]:
    return {"scores": pair[0], "labels": pair[1]}


# ---- lists of batches, lists of rows


def merge_batches(content: Any, path: Path, leaf: Leaf | None = None) -> Any:
    """Join lists of batches or rows: ``[{"logits": (b, k), "labels": (b,)}, …]``.

    Lists of dicts with the same keys, of tuples of the same length and of arrays are
    batches if the arrays in an item have the same length, else rows. All else is
    unchanged. leaf : see ``rebuilt``, also for the errors raised.
    """

    def build(item: Any, parts: list[Any]) -> Any:
        if isinstance(item, Mapping):
            return _merged_by_id(dict(zip(item, parts, strict=True)), path)
        return _merged(parts, path)

    return rebuilt(content, build, path, leaf)


def _merged(items: list[Any], path: Path) -> Any:
    """One dict of arrays, or one array, of a list of batches or rows."""
    if not items or _has_repeated_references(items):
        return items
    if are_all(int | float, items) and not has_any(bool, items):
        return np.array(items)
    if isinstance(items[0], np.ndarray):
        return _merged_arrays(items, path)
    fields = _fields_of(items)
    if fields is None:
        return items
    are_rows = _are_rows(fields)
    arrays = {}
    for key, values in fields.items():
        joined = _join(values, are_rows, path)
        if joined is not None:
            arrays[key] = joined
    are_whole = bool(arrays) and are_all(np.ndarray, arrays.values())
    if are_whole and len(items) > 1 and not are_rows:
        n_rows = len(next(iter(arrays.values())))
        remark(f"{path.name}: {len(items)} batches were joined to {n_rows} rows")
    return arrays or items


def _has_repeated_references(items: Sequence[Any]) -> bool:
    """Check for one array or container in several places.

    A few bytes of pickle could expand to any size.
    """
    if not isinstance(items[0], (*CONTAINERS, np.ndarray)):
        return False
    return len(set(map(id, items))) < len(items)


def _merged_arrays(items: list[Any], path: Path) -> Any:
    """One array of arrays with as many axes; any other list unchanged."""
    first = items[0]
    for item in items:
        if isinstance(item, np.ndarray) and item.ndim != first.ndim:
            return items
    is_row_of_scores = first.ndim == 1 and first.dtype.kind == "f"
    joined = _join(items, first.ndim == 0 or is_row_of_scores, path)
    if joined is None:
        return items
    if isinstance(joined, np.ndarray) and len(items) > 1:
        remark(f"{path.name}: {len(items)} parts were joined to {len(joined)} rows")
    return joined


def _fields_of(items: Sequence[Any]) -> dict[Any, list[Any]] | None:
    """Values by field of a list of dicts, or of tuples of one length; else None."""
    first = items[0]
    if isinstance(first, dict):
        if not _have_same_keys(items):
            return None
        fields = {}
        for key in first:
            fields[key] = [item[key] for item in items]
        return fields
    if len(items) < 2 or not all(map(_is_batch, items)):
        return None
    if len(set(map(len, items))) > 1:
        return None
    fields = {}
    for place, values in enumerate(zip(*items, strict=True)):
        fields[str(place)] = list(values)
    return fields


def _have_same_keys(items: Sequence[Any]) -> bool:
    """True for dicts that all have the keys of the first."""
    if not are_all(dict, items):
        return False
    return all(item.keys() == items[0].keys() for item in items)


def _merged_by_id(items: dict[Any, Any], path: Path) -> Any:
    """Join rows keyed by id: ``{"a.jpg": {"logits": (k,), "label": 2}, …}``.

    All else is unchanged.
    """
    rows = list(items.values())
    if len(rows) < 2 or not are_all(str | int, items):
        return items
    if not isinstance(rows[0], dict) or not _have_same_keys(rows):
        return items
    for row in rows:
        if set(map(np.ndim, row.values())) != {0, 1}:
            return items
    merged = _merged(rows, path)
    if not isinstance(merged, dict) or merged.keys() != rows[0].keys():
        return items
    return {"ids": np.array(list(map(str, items))), **merged}


def _is_batch(item: Any) -> bool:
    """True for a tuple of arrays and lists of words, with at least one array."""
    if not isinstance(item, list | tuple) or len(item) < 2:
        return False
    others = [part for part in item if not isinstance(part, np.ndarray)]
    return len(others) < len(item) and all(map(_are_words, others))


def _are_words(part: Any) -> bool:
    """True for a list of strings, as data loaders return paths or names."""
    if not isinstance(part, list | tuple) or not part:
        return False
    return are_all(str, part)


def _are_rows(fields: Mapping[Any, Sequence[Any]]) -> bool:
    """True if an item is one row.

    Its arrays then differ in length, or are beside single values.
    """
    for item in zip(*fields.values(), strict=True):
        arrays = [value for value in item if isinstance(value, np.ndarray)]
        dimensions = set(map(np.ndim, arrays))
        if 0 in dimensions or len(set(map(len, arrays))) > 1:
            return True
        if dimensions == {1} and has_any(str | int, item):
            return True
    return False


def _join(values: Sequence[Any], are_rows: bool, path: Path) -> AnyArray | Parts | None:
    """One array of all values: stacked rows or concatenated batches.

    None if they do not fit together.
    """
    if are_all(str, values) or are_all(int | float, values):
        return np.array(values)
    if all(map(_are_words, values)):
        return np.array(list(chain.from_iterable(values)))
    if not are_all(np.ndarray, values) or _has_repeated_references(values):
        return None
    if not are_rows:
        return join_arrays(values, str(path))
    if len(set(map(np.shape, values))) == 1:
        return _stacked(values)
    may_be_units = values[0].ndim > 1 or values[0].dtype.kind in "iu"
    if not may_be_units:
        return None
    return join_arrays(values, str(path), no_batches=True)


def _stacked(rows: Sequence[AnyArray]) -> AnyArray:
    """Rows as an array; rows of one number as (n,)."""
    stacked = np.stack(rows)
    if stacked.ndim == 2 and stacked.shape[1] == 1:
        return stacked[:, 0]
    return stacked
