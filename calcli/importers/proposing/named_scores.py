"""Which arrays of a source are its scores: those of the options, or of the names.

An array that is made of another one beside it is left out: the largest score of each
row, or the probabilities of logits.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.importers.evidence.blocks import blocks_beside
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import Name, matching, of_role
from calcli.importers.remarks import remark
from calcli.numerics import AnyArray, FloatArray, sigmoid, softmax
from calcli.rows import ScoreKind

MOST_PRECISE = ("logits", "log_probs", "probs")
"""Kinds of scores; a sure probability is rounded more than the logits behind it."""

MOST_APART = 1e-4
"""Difference of two probabilities that are the same but for rounding; in half
precision that of its digits."""

MOST_APART_IF_ROUNDED = 0.02
"""Difference of the largest probability in a column of its own, which may be rounded
more than those of all classes."""


def scores_by_name(arrays: Arrays, request: ImportRequest, where: str) -> list[Name]:
    """The arrays of scores: those named by the user, or those whose names say so.

    Raises UsageError for names that do not exist.
    """
    if request.scores:
        named = []
        for wanted in request.scores:
            named += matching(arrays.names, wanted, "scores array", where)
        return named
    scores = of_role(arrays.names, "scores")
    family = _family_of_columns(scores, arrays)
    if family is not None:
        return [family]
    kept = []
    for name in scores:
        origin = _origin(name, scores, arrays)
        if origin is None:
            kept.append(_with_columns_of_classes(name, arrays, where))
        else:
            remark(f"{where}: {name.path!r} {origin}")
    return kept


# ---- arrays that are made of another one


def _origin(name: Name, scores: Sequence[Name], arrays: Arrays) -> str | None:
    """What array beside it an array is made of, in words; None for none."""
    if not arrays.is_float(name.path):
        return None
    array = arrays.load(name.path)
    by_precision = sorted(scores, key=lambda other: MOST_PRECISE.index(other.kind))
    for other in by_precision:
        if other.place != name.place or not arrays.is_float(other.path):
            continue
        source = arrays.load(other.path)
        if _are_largest(array, source):
            return f"is the largest of each row of {other.path!r}"
        is_coarser = MOST_PRECISE.index(name.kind) > MOST_PRECISE.index(other.kind)
        if is_coarser and _are_same(array, name.kind, source):
            return f"holds the same scores as {other.path!r}, which is read"
    return None


def _are_largest(column: Any, matrix: Any) -> bool:
    """True for a column of the largest number of every row."""
    if column.ndim != 1 or matrix.ndim != 2 or len(matrix) != len(column):
        return False
    return all(
        np.allclose(block.max(axis=1), numbers)
        for block, numbers in blocks_beside(matrix, column)
    )


def _are_same(array: Any, kind: str, scores: Any) -> bool:
    """True if the probabilities of both are equal in every row."""
    if array.shape != scores.shape or array.ndim > 2:
        return False
    rounding = max(np.finfo(array.dtype).eps, np.finfo(scores.dtype).eps)
    most_apart = max(MOST_APART, float(rounding))
    for block, rows in blocks_beside(scores, array):
        exact = rows.astype(np.float64)
        probabilities = np.exp(exact) if kind == "log_probs" else exact
        difference = np.abs(_probabilities(block) - probabilities)
        if not (difference <= most_apart).all():
            return False
    return True


def _probabilities(logits: AnyArray) -> FloatArray:
    """Of logits (n, k), or of the log-odds of class 1, (n,) or (n, 1)."""
    exact = logits.astype(np.float64)
    if exact.ndim == 1 or exact.shape[1] == 1:
        return sigmoid(exact)
    with np.errstate(invalid="ignore"):  # rows of NaN are unequal
        return softmax(exact)


# ---- columns that are named like the classes


def _family_of_columns(scores: Sequence[Name], arrays: Arrays) -> Name | None:
    """The array of these columns, if they are one for each word of a label.

    ``cat_probability, dog_probability``, each of which could be an array of its own.
    """
    paths = {name.path for name in scores}
    kinds = {name.kind for name in scores}
    if len(kinds) != 1:
        return None
    for family in arrays.named_by_labels(are_complete=True):
        if arrays.columns[family.path].parts.keys() == paths:
            return replace(family, role="scores", kind=kinds.pop())
    return None


def _with_columns_of_classes(score: Name, arrays: Arrays, where: str) -> Name:
    """The columns of the classes that hold the same scores, or of which these are the
    largest of each row; else these.
    """
    array = arrays.load(score.path)
    if arrays.columns[score.path].parts or not arrays.is_float(score.path):
        return score
    for name in arrays.names:
        parts = arrays.columns[name.path].parts
        if name.role or not parts or score.path in parts:
            continue
        kind = _kind_with_largest(array, name.path, arrays)
        if kind is not None:
            shown = arrays.columns[name.path].shown
            remark(f"{where}: {score.path!r} is the largest of each row of {shown}")
            return replace(name, role="scores", kind=kind)
    for family in arrays.named_by_labels(are_complete=True):
        other = arrays.load(family.path)
        if other is None:  # a cell is no number
            continue
        if other.shape == array.shape and np.allclose(other, array):
            return replace(family, role="scores", kind=score.kind)
    return score


def _kind_with_largest(column: Any, path: str, arrays: Arrays) -> ScoreKind | None:
    """Kind of an array of columns whose largest probability in every row is a column.

    None if it is not, and where the largest is in the same place in every row: that is
    a copy of one of the columns.
    """
    if column.ndim != 1 or not (arrays.is_float(path) and arrays.is_wide(path)):
        return None
    kind = arrays.kind(path).kind
    matrix = arrays.load(path)
    if kind is None or matrix.ndim != 2 or len(matrix) != len(column):
        return None
    places: set[int] = set()
    for block, numbers in blocks_beside(matrix, column):
        probabilities = block if kind == "probs" else _probabilities(block)
        difference = np.abs(probabilities.max(axis=1) - numbers)
        if not (difference <= MOST_APART_IF_ROUNDED).all():
            return None
        places.update(probabilities.argmax(axis=1).tolist())
    return kind if len(places) > 1 else None
