"""Arrays that hold labels beside their scores, in the first or the last column."""

from pathlib import Path

import numpy as np

from calcli.importers.evidence.blocks import blocks
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.evidence.label_evidence import label_evidence
from calcli.importers.table import Column, Table
from calcli.importers.text_cells import held_column
from calcli.numerics import AnyArray, IntArray

FEWEST_LABELLED = 30
"""Rows of an array in which a column of whole numbers is no chance."""

FEWEST_COLUMNS = 3


def has_labels(array: AnyArray) -> bool:
    """True where one column, at an end, holds the classes that the others score.

    So ``np.column_stack([probs, labels])`` makes them. Scores are no whole numbers,
    and labels follow them, as a fold, a group or one more score does not.
    """
    if array.ndim != 2 or array.dtype.kind != "f" or len(array) < FEWEST_LABELLED:
        return False
    n_columns = array.shape[1]
    if n_columns < FEWEST_COLUMNS:
        return False
    is_first = _are_classes(array[:, 0], n_columns - 1)
    is_last = _are_classes(array[:, -1], n_columns - 1)
    if is_first == is_last:
        return False
    scores = array[:, 1:] if is_first else array[:, :-1]
    column = array[:, 0] if is_first else array[:, -1]
    return _are_scores(scores) and _follow(column.astype(np.int64), scores)


def _are_scores(values: AnyArray) -> bool:
    """True where no column holds whole numbers alone."""
    has_fraction = np.zeros(values.shape[1], dtype=np.bool_)
    for block in blocks(values):
        has_fraction |= (block != np.floor(block)).any(axis=0)
    return bool(has_fraction.all())


def _follow(classes: IntArray, scores: AnyArray) -> bool:
    """True for classes that are surely the labels of these scores.

    Rows without an answer, which are NaN, prove nothing.
    """
    is_answer = np.isfinite(scores.sum(axis=1))
    answers = scores[is_answer]
    kind = kind_of_scores(answers).kind
    evidence = label_evidence(answers, classes[is_answer], kind)
    return evidence is not None and evidence.is_proven


def _are_classes(column: AnyArray, k: int) -> bool:
    """True for places of k classes, of which two and more occur."""
    if column[0] != np.floor(column[0]):
        return False  # as nearly all scores are
    values = np.unique(column)
    are_places = (values == np.floor(values)) & (values >= 0) & (values < k)
    return len(values) > 1 and bool(are_places.all())


def table_of_columns(path: Path, format: str, array: AnyArray) -> Table:
    """The columns of an array by their numbers, as of a table without names."""
    columns: dict[str, Column] = {}
    for place in range(array.shape[1]):
        values = np.ascontiguousarray(array[:, place])
        columns[str(place)] = held_column(path, str(place), values, "number")
    return Table(path, format, columns, len(array), has_header=False)
