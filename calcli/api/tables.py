"""Tables as arguments: what the names of their columns and rows say.

Scores, labels, weights, units and groups may come as DataFrames, Series or Arrow
tables. They are read by place; names that contradict the places are refused.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.fitting.compatibility import comparable_names, moved_class
from calcli.importers.building.contradictions import is_reversed_pair
from calcli.importers.building.word_labels import names_inside
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.names.column_options import some_of
from calcli.importers.names.common_text import differing_parts
from calcli.importers.names.opposites import opposite_words
from calcli.importers.names.roles import is_counter, is_index, role_of
from calcli.importers.names.spellings import class_of_each_word
from calcli.io.cells import is_null
from calcli.io.memory import as_array, as_names
from calcli.items import counts_up, duplicates, present
from calcli.numerics import AnyArray, whole_number

FITTED_TO = "the calibrator was fitted to"
"""What the class names of a calibrator are, before these."""


# ---- columns


def is_data_frame(scores: Any) -> bool:
    """True for a DataFrame of pandas, which need not be installed."""
    return type(scores).__name__ == "DataFrame" and hasattr(scores, "iloc")


def column_names(table: Any) -> list[str] | None:
    """Names of the columns of a DataFrame of pandas or polars, or of an Arrow table.

    None of anything else.
    """
    kind = type(table).__name__
    if kind == "DataFrame" and hasattr(table, "columns"):
        return list(map(str, table.columns))
    if kind in ("Table", "RecordBatch") and hasattr(table, "column_names"):
        return list(map(str, table.column_names))
    return None


def name_of_column(scores: Any) -> str | None:
    """Name of a Series, or of the one column of a table; None of anything else."""
    columns = column_names(scores)
    if columns is not None:
        return columns[0] if len(columns) == 1 else None
    name = getattr(scores, "name", None)
    return name if isinstance(name, str) else None


def refuse_other_columns(
    scores: Any, class_names: Sequence[str] | None, of_whom: str
) -> None:
    """Raise DataError for a table whose columns name the classes in another order.

    The names of the columns may have text around those of the classes: ``p_cat``.
    of_whom : words before the class names. Columns that are numbered are places.
    """
    columns = column_names(scores)
    if columns is None or class_names is None or counts_up(columns):
        return
    names = list(map(str, class_names))
    if _are_numbers(columns) and sorted(columns) != sorted(names):
        return
    if columns == names or moved_class(names, columns) is None:
        return
    message = (
        f"scores: have the columns {some_of(columns)}, {of_whom}"
        f" {some_of(names)}, in this order"
    )
    in_order = in_order_of(names, columns)
    if in_order is None:
        raise DataError(
            f"{message}; pass the scores of these classes, in the same order"
        )
    raise DataError(f"{message}; reorder them: scores[{in_order}]")


def in_order_of(names: Sequence[str], columns: Sequence[str]) -> list[str] | None:
    """The columns in the order of the names of all classes; None if they are others.

    Compared as the classes of a fit and of other rows are.
    """
    words, words_of_columns = comparable_names(names, columns)
    if sorted(words) != sorted(words_of_columns) or duplicates(words):
        return None
    return [columns[words_of_columns.index(word)] for word in words]


def _are_numbers(names: Sequence[str]) -> bool:
    return all(whole_number(name.lstrip("-")) is not None for name in names)


def _are_numbered(columns: Sequence[str]) -> bool:
    """True for columns whose names differ in the numbers 0 to k - 1, or 1 to k."""
    numbers = present(map(whole_number, differing_parts(columns)))
    if len(numbers) < len(columns):
        return False
    first = min(numbers)
    counted = list(range(first, first + len(numbers)))
    return first in (0, 1) and sorted(numbers) == counted


def refuse_extra_columns(table: Any, scores: AnyArray) -> None:
    """Raise DataError for columns of labels, ids or counters among those of the scores,
    which alone are probabilities.

    table : with the names of the columns. scores : its numbers (n, k).
    """
    columns = column_names(table)
    if columns is None or scores.ndim != 2 or kind_of_scores(scores).kind != "logits":
        return
    extra = [name for name in columns if _is_beside_scores(name)]
    kept = [place for place, name in enumerate(columns) if name not in extra]
    if not extra or len(kept) < 2:
        return
    if kind_of_scores(scores[:, kept]).kind in ("probs", "log_probs"):
        raise DataError(
            f"scores: have a column {extra[0]!r}, without which the rows are"
            f" probabilities; leave it out: scores.drop(columns={extra})"
        )


def _is_beside_scores(name: str) -> bool:
    """True for the name of a column of labels, ids, weights or a counter."""
    has_other_role = role_of(name) in ("labels", "ids", "weights")
    return has_other_role or is_index(name) or is_counter(name)


# ---- labels


def refuse_missing_labels(labels: Any) -> None:
    """Raise DataError for a label that is missing: None, NaN, NA of pandas, a null."""
    cells = labels
    if not isinstance(labels, list | tuple):
        if labels is None:
            return
        array = as_array(labels, "labels")
        if array.dtype != object:
            return  # NaN among numbers is refused as no whole number
        cells = array.ravel()
    for row, cell in enumerate(cells):
        if is_null(cell):
            raise DataError(
                f"labels: row {row} has none, expected one for every row; leave such"
                " rows out"
            )


# ---- labels beside columns


def named_by_columns(
    scores: Any, labels: Any, class_names: Sequence[str] | None
) -> tuple[Sequence[str] | None, Any]:
    """Class names and labels, by the names of the columns of both.

    Labels that are names of columns are compared by value, so that 1, 1.0 and True name
    the same column, and become words; columns of one-hot labels are looked up among
    those of the scores. The columns name the classes unless they are numbered; labels
    that are no such names stay as they are. Raises DataError where the names of the
    columns contradict the places that the labels count.
    """
    if labels is None:
        return class_names, labels
    columns = column_names(scores)
    if columns is not None and (counts_up(columns) or len(columns) < 2):
        columns = None
    names = columns if class_names is None else list(map(str, class_names))
    columns_of_labels = column_names(labels)
    values = as_array(labels, "labels")
    if columns_of_labels is not None and len(columns_of_labels) > 1:
        return class_names, _by_their_columns(values, columns_of_labels, names)
    if columns is None or class_names is not None:
        return class_names, labels
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "OUSiufb":
        return None, labels
    if values.dtype.kind == "S":
        values = as_names(values, "labels", "label")
    return _named(columns, values)


def _named(
    columns: Sequence[str], values: AnyArray
) -> tuple[Sequence[str] | None, AnyArray]:
    """Class names and labels (n,) beside columns that may be named by the classes."""
    words = list(map(str, values.tolist()))
    distinct = list(dict.fromkeys(words))
    places = class_of_each_word(distinct, columns)
    if (places >= 0).all():
        name_of = {}
        for word, place in zip(distinct, places.tolist(), strict=True):
            name_of[word] = columns[place]
        return columns, np.array([name_of[word] for word in words], dtype="U")
    if values.dtype.kind in "OU":
        are_known = names_inside(distinct, columns) is not None
        is_contradicted = opposite_words(columns) is not None
        return columns if are_known or is_contradicted else None, values
    if duplicates(columns):
        return None, values
    in_order = _in_order_of_labels(columns, values)
    if in_order is not None:
        label = 1 if len(columns) == 2 else 0
        raise DataError(
            f"scores: have the columns {some_of(columns)} in this order, so that label"
            f" {label} would be {columns[label]!r}; reorder them: scores[{in_order}],"
            f" or pass class_names={list(columns)} to take them as they are"
        )
    has_numbers = _are_numbers(columns) or _are_numbered(columns)
    return None if has_numbers else columns, values


def _in_order_of_labels(columns: Sequence[str], values: AnyArray) -> list[str] | None:
    """The columns in the order of the numbers that are labels; None if they are so."""
    if is_reversed_pair(columns, values):
        return list(reversed(columns))
    if not _are_numbered(columns):
        return None
    parts = list(map(int, differing_parts(columns)))
    in_order = [columns[parts.index(number)] for number in sorted(parts)]
    return None if in_order == list(columns) else in_order


def _by_their_columns(
    values: AnyArray, columns: Sequence[str], names: Sequence[str] | None
) -> AnyArray:
    """One-hot labels (n, j) in the order of the classes, looked up by name.

    As they are where no column is named by a class. Raises DataError where only some are.
    """
    if names is None or counts_up(columns) or values.ndim != 2:
        return values
    places = class_of_each_word(columns, names)
    if (places < 0).all():
        words, words_of_columns = comparable_names(names, columns)
        places = class_of_each_word(words_of_columns, words)
    if (places < 0).all():
        return values
    if (places < 0).any() or duplicates(places.tolist()):
        unknown = columns[int(np.argmin(places))]
        raise DataError(
            f"labels: have a column {unknown!r}, expected the classes {some_of(names)}"
        )
    in_order = np.zeros((len(values), len(names)), dtype=values.dtype)
    in_order[:, places] = values
    return in_order


# ---- rows


def check_index(**arguments: Any) -> list[str]:
    """Hold the rows of all arguments that have an index, as in pandas, against the
    first that has one. arguments : by name.

    Returns warnings about other names of rows, where neither index counts the rows.
    Raises DataError for the same names in another order: rows are taken by place.
    """
    warnings = []
    first_name, first = "", None
    for name, values in arguments.items():
        index = _index_of(values)
        if index is None:
            continue
        if first is None:
            first_name, first = name, index
            continue
        if len(index) != len(first) or index == first:
            continue
        if Counter(index) == Counter(first):
            raise DataError(
                f"{name}: have the index of {first_name} in another order, and rows are"
                f" taken by place; pass {name}.loc[{first_name}.index], or"
                f" {name}.reset_index(drop=True) where they are in the same order"
            )
        n = len(index)
        if index != list(range(n)) and first != list(range(n)):
            warnings.append(
                f"{name}: have another index than {first_name}; rows are taken by place"
            )
    return warnings


def _index_of(values: Any) -> list[Any] | None:
    """Names of the rows of a DataFrame or Series of pandas; None of anything else."""
    if not hasattr(values, "iloc") or not hasattr(values, "index"):
        return None
    return list(values.index)
