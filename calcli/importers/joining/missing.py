"""``--drop-missing``: leave out rows, or positions, that lack a score or a label."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.roles import PER_ROW
from calcli.importers.ragged import Parts, cut_alike
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns
from calcli.io.cells import is_blank, is_null
from calcli.items import are_all, has_any
from calcli.numerics import AnyArray, BoolArray, IntArray


def without_missing(
    columns: Columns,
    paths: Sequence[str],
    where: str,
    used: Sequence[str] = (),
    probabilities: str | None = None,
) -> dict[str, Column]:
    """Drop rows, or positions, in which an array of ``paths`` is blank or NaN.

    used : columns of which a cell may be empty; such rows are dropped as well.
    probabilities : array whose rows of zeros only are dropped, too: they are no answer.
    Raises DataError if none is left.
    """
    loaded = {}
    for path in paths:
        loaded[path] = columns[path].load()
    if has_any(Parts, loaded.values()):
        return _without_missing_positions(columns, loaded, where)
    arrays = {}
    lengths = []
    for path, array in loaded.items():
        values = np.asarray(array[()])
        arrays[path] = values
        if values.ndim:
            lengths.append(len(values))
    n = min(lengths, default=0)
    is_missing = np.zeros(n, dtype=np.bool_)
    for path, values in arrays.items():
        words = columns[path].attributes.get("blank_words", ())
        is_missing |= _blank_rows(values[:n], words)
    what = "a score or a label"
    for path in used:
        cells = columns[path].written_cells()
        if len(cells) == n:  # else the shape is refused where the column is read
            is_missing |= _empty_cells(cells)
            what = "a score, a label or a value of a column in use"
    is_zero = np.zeros(n, dtype=np.bool_)
    if probabilities is not None:
        is_zero = _zero_rows(arrays[probabilities][:n]) & ~is_missing
    is_left_out = is_missing | is_zero
    if is_left_out.all():
        raise DataError(f"{where}: every row lacks {what}, nothing is left")
    n_missing = int(is_missing.sum())
    n_zero = int(is_zero.sum())
    if n_missing:
        remark(f"{where}: {n_missing} of {n} rows left out: they lack {what}")
    if n_zero:
        remark(
            f"{where}: {n_zero} of {n} rows left out: they hold zeros only, which is"
            " no answer"
        )
    return _with_rows(columns, np.flatnonzero(~is_left_out), n)


def _with_rows(columns: Columns, kept: IntArray, n: int) -> dict[str, Column]:
    """The arrays with some of their n rows, those that have a value per row."""
    return {path: in_order(path, column, kept, n) for path, column in columns.items()}


def in_order(
    path: str, column: Column, order: IntArray, n_rows: int | None = None
) -> Column:
    """An array with its rows in this order, if it has a value per row.

    n_rows : number of rows of the array, if the order selects some.
    """
    role = parse_name(path).role
    n = len(order) if n_rows is None else n_rows

    def pick(array: AnyArray) -> AnyArray:
        if role == "transformed" and array.ndim > 1 and array.shape[1] == n:
            return array[:, order]
        is_per_row = role in PER_ROW or role in ("", "scores")
        if is_per_row and array.ndim and len(array) == n:
            return array[order]
        return array

    return column.ordered(pick)


def _empty_cells(cells: Any) -> BoolArray:
    """Mask of the cells of a column that hold no value."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biu":
        return np.zeros(len(cells), dtype=np.bool_)
    return np.array(list(map(is_null, cells)), dtype=np.bool_)


def _zero_rows(array: AnyArray) -> BoolArray:
    """Mask of the rows of several numbers that are all 0."""
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] < 2:
        return np.zeros(len(array), dtype=np.bool_)
    return np.asarray((array == 0).all(axis=1))


def _blank_rows(array: AnyArray, words: Collection[str] = ()) -> BoolArray:
    """Mask of the rows that contain a blank or NaN. words : blanks that are words."""
    if not array.size:
        return np.zeros(len(array), np.bool_)
    is_blank = np.zeros(array.shape, dtype=np.bool_)
    if array.dtype.kind in "OSU":
        flat = [_is_blank(value, words) for value in array.ravel()]
        is_blank = np.array(flat, dtype=np.bool_)
    elif array.dtype.kind == "f":
        is_blank = np.isnan(array)
    return np.asarray(is_blank.reshape(len(array), -1).any(axis=1))


def _is_blank(value: Any, words: Collection[str]) -> bool:
    word = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return is_blank(word, words)


# ---- positions of sequences


def _without_missing_positions(
    columns: Columns, loaded: Mapping[str, Any], where: str
) -> dict[str, Column]:
    """``without_missing`` for sequences of different lengths; empty ones are dropped.

    Raises DataError for images.
    """
    both = list(loaded.values())
    arrays = []
    for array, other in zip(both, reversed(both), strict=True):
        arrays.append(cut_alike(array, other))
    has_pixels = max(map(np.ndim, arrays)) > 3
    if has_pixels or (len(arrays) > 1 and arrays[1].ndim > 2):
        raise DataError(
            f"{where}: --drop-missing leaves out rows and tokens, no pixels; for these"
            " --ignore-label",
            option=["--drop-missing"],
        )
    are_parts = are_all(Parts, arrays)
    if not are_parts or len(set(map(len, arrays))) > 1:
        return dict(columns)
    masks = []
    for unit in range(len(arrays[0])):
        mask = _kept_positions([_blank_rows(array.of(unit)) for array in arrays])
        if mask is None:
            return dict(columns)
        masks.append(mask)
    n_kept = list(map(np.count_nonzero, masks))
    kept = np.flatnonzero(n_kept)
    if not len(kept):
        raise DataError(
            f"{where}: every position lacks a score or a label, nothing is left"
        )
    total = sum(map(len, masks))
    n_left_out = total - sum(n_kept)
    if n_left_out:
        remark(
            f"{where}: {n_left_out} of {total} positions left out:"
            " they lack a score or a label"
        )
    made = _with_rows(columns, kept, len(masks))
    for path, array in zip(loaded, arrays, strict=True):
        made[path] = columns[path].having(_part(array, kept, masks))
    return made


def _kept_positions(blanks: Sequence[BoolArray]) -> BoolArray | None:
    """Mask of the positions of a unit that lack nothing; None where lengths differ.

    A unit that one array has nothing of is dropped.
    """
    if len(set(map(len, blanks))) == 1:
        return ~np.any(blanks, axis=0)
    if any(map(np.all, blanks)):
        return np.zeros(len(blanks[0]), np.bool_)
    return None


def _part(array: Parts, kept: IntArray, masks: Sequence[BoolArray]) -> Parts:
    shapes = []
    for unit in kept:
        n_positions = int(masks[unit].sum())
        shapes.append((n_positions, *array.shapes[unit][1:]))

    def of(number: int) -> AnyArray:
        unit = kept[number]
        return array.of(unit)[masks[unit]]

    return Parts(shapes, array.dtype, of, array.where)
