"""Columns side by side that sum to 1 in every row: the probabilities of all classes.

So do the exponentials of their logarithms.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from calcli.errors import DataError
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.table import Column, Columns
from calcli.numerics import FloatArray
from calcli.rounding import MOST_TOLERANCE, SUM_TOLERANCE

ROWS_SEEN = 1000
"""Rows whose sums are looked at. All rows are, where the columns are read."""

FEWEST_ROWS = 10
"""Fewer rows may sum to 1 by chance."""

MOST_COLUMNS_SEARCHED = 100
"""Probabilities and other numbers in [0, 1] side by side, in which some are searched."""


def summing_columns(columns: Columns, names: Sequence[str]) -> list[str]:
    """The only columns of real numbers, side by side, that sum to 1 in every row.

    names : those that may be scores. Columns of other meanings stand between them. An
    empty list where there are none, or several such (scores of two models).
    """
    probabilities: dict[str, FloatArray] = {}
    from_logarithms: dict[str, FloatArray] = {}
    for name in names:
        numbers = _numbers_of(columns[name])
        if numbers is None:
            continue
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
    for are_fractions, group in groupby(columns, values.__contains__):
        together = list(group)
        if not are_fractions or len(together) < 2:
            continue
        numbers = np.stack([values[name] for name in together], axis=1)
        numbers = numbers[~np.isnan(numbers).any(axis=1)]
        if len(numbers) < FEWEST_ROWS:
            continue
        for start, stop in _runs(numbers):
            families.append(together[start:stop])
    return families


def _numbers_of(column: Column) -> FloatArray | None:
    """The first values of a column of numbers; None for any other."""
    if column.cells != "number":
        return None
    try:
        values = column.rows(slice(ROWS_SEEN))
    except DataError:
        return None
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        return None
    return values.astype(np.float64)


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
    if k > MOST_COLUMNS_SEARCHED:
        return
    sums = np.concatenate([np.zeros((len(numbers), 1)), numbers.cumsum(axis=1)], axis=1)
    start = 0
    while start < k - 1:
        missed = np.abs(sums[:, start + 2 :] - sums[:, [start]] - 1.0).max(axis=0)
        stops = start + 2 + np.flatnonzero(missed <= MOST_TOLERANCE)
        stop = _last_of_distributions(numbers, start, stops.tolist())
        if stop is not None:
            yield start, stop
        start = start + 1 if stop is None else stop


def _last_of_distributions(
    numbers: FloatArray, start: int, stops: Sequence[int]
) -> int | None:
    """The last end up to which columns are distributions; None for none."""
    for stop in reversed(stops):
        if _are_distributions(numbers[:, start:stop]):
            return stop
    return None


def _are_distributions(numbers: FloatArray) -> bool:
    """True for probabilities of classes, of which the outer ones are not always 0."""
    are_one_hot = bool(np.isin(numbers, (0.0, 1.0)).all())
    has_empty_end = not (numbers[:, 0].any() and numbers[:, -1].any())
    if are_one_hot or has_empty_end:
        return False
    return kind_of_scores(numbers).kind == "probs"
