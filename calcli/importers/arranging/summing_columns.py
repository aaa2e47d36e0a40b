"""Columns side by side that sum to 1 in every row: the probabilities of all classes.

So do the exponentials of their logarithms.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from calcli.importers.arranging.column_values import (
    ROWS_SEEN,
    ends_of_sum_1,
    numbers_in,
    side_by_side,
)
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.table import Columns
from calcli.numerics import FloatArray
from calcli.rounding import MOST_TOLERANCE, SUM_TOLERANCE

FEWEST_ROWS = 10
"""Fewer rows may sum to 1 by chance."""


def summing_columns(columns: Columns, names: Sequence[str]) -> list[str]:
    """The only columns of real numbers, side by side, that sum to 1 in every row.

    names : those that may be scores. Columns of other meanings stand between them. An
    empty list where there are none, or several such (scores of two models).
    """
    probabilities: dict[str, FloatArray] = {}
    from_logarithms: dict[str, FloatArray] = {}
    for name in names:
        values = numbers_in(columns[name], first=ROWS_SEEN)
        if values is None:
            continue
        numbers = values.astype(np.float64)
        present = numbers[~np.isnan(numbers)]
        if _are_fractions(present):
            probabilities[name] = numbers
        elif (present <= SUM_TOLERANCE).all():
            from_logarithms[name] = np.exp(numbers)
    families = _summing_among(columns, probabilities)
    families += _summing_among(columns, from_logarithms)
    return families[0] if len(families) == 1 else []


def _summing_among(
    columns: Columns, values: Mapping[str, FloatArray]
) -> list[list[str]]:
    """Columns side by side whose values sum to 1. values : of those that may do so."""
    families = []
    for together, numbers in side_by_side(columns, values):
        whole_rows = numbers[~np.isnan(numbers).any(axis=1)]
        if len(whole_rows) < FEWEST_ROWS:
            continue
        for start, stop in _runs(whole_rows):
            families.append(together[start:stop])
    return families


def _are_fractions(numbers: FloatArray) -> bool:
    return bool((numbers >= 0).all() and (numbers <= 1 + SUM_TOLERANCE).all())


def _runs(numbers: FloatArray) -> Iterator[tuple[int, int]]:
    """Start and end of the columns whose rows are distributions, not of one-hot rows.

    All columns, else the first such from each start, none of which overlap.
    """
    k = numbers.shape[1]
    if _are_distributions(numbers):
        yield 0, k
        return
    end_of_last = 0
    for start, stops in ends_of_sum_1(numbers, MOST_TOLERANCE):
        if start < end_of_last:
            continue
        for stop in stops:
            if _are_distributions(numbers[:, start:stop]):
                yield start, stop
                end_of_last = stop
                break


def _are_distributions(numbers: FloatArray) -> bool:
    """True for probabilities of classes, of which the outer ones are not always 0."""
    are_one_hot = bool(np.isin(numbers, (0.0, 1.0)).all())
    has_empty_end = not (numbers[:, 0].any() and numbers[:, -1].any())
    if are_one_hot or has_empty_end:
        return False
    return kind_of_scores(numbers).kind == "probs"
