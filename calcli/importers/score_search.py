"""Which arrays of a source are its scores: those of the options, or of the names."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.importers.array_names import Name, is_generated, matching, of_role
from calcli.importers.evidence import blocks
from calcli.importers.import_request import ImportRequest
from calcli.importers.remarks import remark
from calcli.importers.scores_stored_twice import without_repeated
from calcli.importers.source_arrays import Arrays


def proven_scores(arrays: Arrays, request: ImportRequest, where: str) -> list[Name]:
    """The arrays of scores: those named by the user, or those whose names say so.

    Raises UsageError for names that do not exist.
    """
    if request.scores:
        named = []
        for wanted in request.scores:
            named += matching(arrays.names, wanted, "scores array")
        return named
    scores = of_role(arrays.names, "scores")
    family = _family_of_columns(scores, arrays)
    if family is not None:
        return [family]
    scores = _without_largest(scores, arrays, where)
    scores = without_repeated(scores, arrays.load, where)
    return [_with_named_columns(name, arrays) for name in scores]


# ---- columns that hold the largest score of each row


def _without_largest(scores: Sequence[Name], arrays: Arrays, where: str) -> list[Name]:
    """The scores without columns of the largest of every row of another array."""
    kept = []
    for name in scores:
        matrix = _matrix_of_largest(name, scores, arrays)
        if matrix is None:
            kept.append(name)
        else:
            remark(
                f"{where}: {name.path!r} is the largest of each row of {matrix.path!r}"
            )
    return kept


def _matrix_of_largest(
    name: Name, scores: Sequence[Name], arrays: Arrays
) -> Name | None:
    """The array whose largest score of every row is the number of a column."""
    column = arrays.load(name.path)
    if not arrays.is_float(name.path) or column.ndim != 1:
        return None
    for other in scores:
        if (other.folder, other.split) != (name.folder, name.split):
            continue
        matrix = arrays.load(other.path)
        if not arrays.is_float(other.path) or matrix.ndim != 2:
            continue
        if len(matrix) == len(column) and _are_largest(column, matrix):
            return other
    return None


def _are_largest(column: Any, matrix: Any) -> bool:
    """True if every number is the largest of its row, block by block."""
    start = 0
    for block in blocks(matrix):
        numbers = np.asarray(column[start : start + len(block)])
        if not np.allclose(block.max(axis=1), numbers):
            return False
        start += len(block)
    return True


# ---- columns that are named like the classes


def _family_of_columns(scores: Sequence[Name], arrays: Arrays) -> Name | None:
    """The array of these columns, if they are one for each word of a label.

    ``cat_probability, dog_probability``, each of which could be an array of its own.
    """
    paths = {name.path for name in scores}
    kinds = {name.kind for name in scores}
    if len(kinds) != 1:
        return None
    for family in _complete_families(arrays):
        if arrays.columns[family.path].parts.keys() == paths:
            return replace(family, role="scores", kind=kinds.pop())
    return None


def _with_named_columns(score: Name, arrays: Arrays) -> Name:
    """The columns, named like the classes, that hold the same scores; else these."""
    array = arrays.load(score.path)
    if arrays.columns[score.path].parts or not arrays.is_float(score.path):
        return score
    for family in _complete_families(arrays):
        other = arrays.load(family.path)
        if other.shape == array.shape and np.allclose(other, array):
            return replace(family, role="scores", kind=score.kind)
    return score


def _complete_families(arrays: Arrays) -> Iterator[Name]:
    """Arrays of a column for each class, some of which are words of a label."""
    for name in arrays.names:
        if is_generated(name) and arrays.has(name.path, "is_complete"):
            yield name
