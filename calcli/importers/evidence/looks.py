"""What a column looks like by its name and first values: a guess, for advice."""

import re
from typing import Literal

import numpy as np

from calcli.errors import DataError
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.opposites import in_order_of_pair
from calcli.importers.names.roles import (
    is_counter,
    is_never_unit,
    is_prediction,
    is_unit,
    is_weight,
    may_be_percent,
    says_correct,
)
from calcli.importers.table import Column
from calcli.importers.text_cells import LONGEST_WORD
from calcli.numerics import AnyArray

Look = Literal[
    "",
    "scores",
    "probabilities",
    "percentages",
    "log_probs",
    "logits",
    "log-odds",
    "labels",
    "classes",
    "predictions",
    "class names",
    "ids",
    "units",
    "groups",
    "weights",
    "splits",
    "dates",
]
"""A guess at the role of an array; "" for none."""

KIND_OF_LOOK: dict[Look, str] = {
    "probabilities": "probs",
    "percentages": "probs",
    "logits": "logits",
    "log_probs": "log_probs",
    "log-odds": "logits",
}
"""Looks of scores -> their kind, the surest first."""

LOOK_OF_KIND: dict[str, Look] = {
    "probs": "probabilities",
    "log_probs": "log_probs",
    "logits": "logits",
}
"""Kinds of arrays of scores -> their look."""

VALUES_SEEN = 10_000
"""Rows that are looked at."""

MOST_GROUPS = 50
"""Most distinct words of groups; more are units."""

FEW_CLASSES = 30
"""Whole numbers from 0 below this look like classes."""

ROWS_OF_CARRIED = 1000
"""Rows whose words decide whether an unused column is kept."""

DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([T ].*)?")


def looks_like(path: str, column: Column) -> Look:
    """Guess the role of an array."""
    try:
        values = column.rows(slice(VALUES_SEEN))
    except (DataError, MemoryError):
        return ""
    if not values.size or values.ndim > 2 or values.dtype.kind not in "biufUM":
        return ""
    values = without_empty(values)
    if not values.size:
        return ""
    name = parse_name(path)
    if name.role == "labels":
        return "labels"
    if name.role == "class_names":
        return "class names"
    if values.ndim == 2 and values.shape[1] > 1:
        return _look_of_matrix(name.kind, values)
    return _look_of_column(path, values.reshape(-1))


def without_empty(values: AnyArray) -> AnyArray:
    """Values or rows without the empty ones: NaN, or no text."""
    if values.dtype.kind == "f":
        is_empty = np.isnan(values)
        return values[~is_empty.reshape(len(values), -1).any(axis=1)]
    if values.dtype.kind == "U" and values.ndim == 1:
        return values[values != ""]
    return values


def is_single_value(column: Column) -> bool:
    """True for an array of one value, which is no column."""
    if column.get_rows is not None:
        return False
    try:
        return np.shape(column.load()) in ((), (1,))
    except DataError:
        return False


def _look_of_matrix(kind: str, values: AnyArray) -> Look:
    if values.dtype.kind in "biuf" and np.isin(values, (0, 1)).all():  # one-hot
        return "labels"
    if values.dtype.kind != "f":
        return ""
    are_negative = bool((values < 0).any())
    if kind and not (kind == "probs" and are_negative):
        return LOOK_OF_KIND[kind]
    proof = kind_of_scores(values)
    if proof.are_percentages:
        return "percentages"
    return "" if proof.kind is None else LOOK_OF_KIND[proof.kind]


def _look_of_column(path: str, values: AnyArray) -> Look:
    role = parse_name(path).role
    if values.dtype.kind == "f" and not (values % 1).any():  # NaN is not whole
        values = values.astype(np.int64)
    distinct = np.unique(values)
    if role in ("ids", "unit") or is_counter(path) or is_unit(path):
        look = _look_of_names(path, role, values, distinct)
        if look is not None:
            return look
    if role == "weights" or is_weight(path):
        return "weights"
    if role == "split":
        return "splits"
    if is_prediction(path) and values.dtype.kind != "f":
        return "predictions"
    if values.dtype.kind in "UM":
        return _look_of_words(distinct, len(values))
    return _look_of_numbers(path, values, distinct)


def _look_of_names(
    path: str, role: str, values: AnyArray, distinct: AnyArray
) -> Look | None:
    """Ids if all differ, else units; None for words of groups, such as a subject."""
    if len(distinct) == len(values) and role != "unit":
        return "ids"
    if is_never_unit(path) or len(distinct) < 2:
        return ""
    are_words = values.dtype.kind == "U" and not _has_digits(distinct)
    if are_words and not role and len(distinct) <= MOST_GROUPS:
        return None
    return "units"


def _has_digits(words: AnyArray) -> bool:
    return any(re.search(r"\d", word) for word in words.tolist())


def _look_of_words(distinct: AnyArray, n_rows: int) -> Look:
    words = list(map(str, distinct.tolist()))
    if all(map(DATE.fullmatch, words)):
        return "dates"
    if len(words) == n_rows:
        return "ids"
    if in_order_of_pair(words) is not None:
        return "labels"
    if len(words) > MOST_GROUPS:
        return "units"
    return "groups" if len(words) > 1 else ""


def _look_of_numbers(path: str, values: AnyArray, distinct: AnyArray) -> Look:
    lowest, highest = distinct[0], distinct[-1]
    if may_be_percent(path) and lowest >= 0 and 1 < highest <= 100:
        return "percentages"
    if values.dtype.kind != "f":
        if says_correct(path) or len(distinct) < 2:
            return ""
        if len(distinct) < 3 and highest <= 1:
            return "labels"
        is_dense = lowest == 0 and highest < len(distinct) < FEW_CLASSES
        return "classes" if is_dense else ""
    if len(distinct) < 3:
        return ""
    if lowest >= 0 and highest <= 1:
        return "probabilities"
    return "log-odds" if lowest < 0 else ""


def goes_along(name: str, values: AnyArray) -> bool:
    """True for an unused column that ``apply`` writes again: short words, or ids."""
    if values.ndim != 1:
        return False
    if values.dtype.kind in "iu":
        return is_counter(name) or parse_name(name).role in ("ids", "unit")
    if values.dtype.kind not in "OUSmM":
        return False
    longest = max((len(str(word)) for word in values.tolist()), default=0)
    return longest <= LONGEST_WORD
