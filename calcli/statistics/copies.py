"""Rows that are copies of another row of their unit."""

import math

import numpy as np

from calcli.numerics import BoolArray, FloatArray, IntArray
from calcli.statistics.units import Units

LEAST_COPIES = 0.01
"""Share of the rows that are copies, below which they change no result much."""

BY_CHANCE = 0.05
"""Largest share of the equal pairs inside units that chance may explain. How often
scores repeat by chance is seen between units.
"""

FEWEST_CONTENTS = 20
"""Different rows from which on a common divisor of their numbers shows copies: numbers
of 2 and more, all even by chance, are a case in 2^20.
"""


MOST_ROWS = 1 << 22
"""Rows above which no copies are looked for: it would take longer than a walk."""

STEP = math.sqrt(2.0)
"""Distance of the keys of units, so that rows of two of them rarely have equal sums."""


def first_copies(keys: FloatArray, labels: IntArray, units: Units) -> IntArray | None:
    """Find the first of the copies of each row inside its unit, (n,) indices.

    keys : (n,) a number of each row's scores, equal for equal scores only. labels :
    (n,). None unless rows were copied. They were if every row of every unit occurs
    twice, or three times, and so on; or if equal scores are far more frequent inside
    units than between them and have one label, but for what chance explains.
    """
    n = len(keys)
    least = LEAST_COPIES * n
    if _equal_neighbours(keys + STEP * units.code) < least:
        return None
    # Sort equal rows of a unit next to each other, the first row first.
    order = np.lexsort((labels, units.code, keys))
    key, unit, label = keys[order], units.code[order], labels[order]
    same_scores = key[1:] == key[:-1]
    same_in_unit = same_scores & (unit[1:] == unit[:-1])
    same_row = same_in_unit & (label[1:] == label[:-1])
    if np.count_nonzero(same_row) < least:
        return None
    times = _run_lengths(same_row)
    begins = np.flatnonzero(np.concatenate([[True], ~same_row]))
    # Number the rows of each group of equal rows 0, 1, …; row 0 is kept.
    place = np.arange(n) - np.repeat(begins, times)
    divisor = int(np.gcd.reduce(times))
    all_are_copied = divisor > 1 and len(times) >= FEWEST_CONTENTS
    if all_are_copied:
        place %= divisor  # of a row that was there twice anyway both are kept
    elif not _are_copies(same_scores, same_in_unit, times, units):
        return None
    first = np.empty(n, dtype=np.int64)
    first[order] = order[np.arange(n) - place]
    if all_are_copied:
        return _first_of_some(first, keys, labels, units)
    return first


def _first_of_some(
    first: IntArray, keys: FloatArray, labels: IntArray, units: Units
) -> IntArray:
    """The first copies (n,) where some rows were copied before all of them were.

    first : the first copies of all rows. Other arguments are those of ``first_copies``.
    """
    kept = np.unique(first)
    units_kept = units.take(kept)
    if units_kept is None:
        return first
    earlier = first_copies(keys[kept], labels[kept], units_kept)
    if earlier is None:
        return first
    return kept[earlier][np.searchsorted(kept, first)]


def _equal_neighbours(values: FloatArray) -> int:
    """Number of values that another one equals and precedes, by one sort."""
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


def _are_copies(
    same_scores: BoolArray, same_in_unit: BoolArray, times: IntArray, units: Units
) -> bool:
    """Test whether chance cannot explain the equal rows of units.

    same_scores, same_in_unit : (n - 1,) whether sorted rows equal those before them.
    times : rows of each group with equal unit, scores and label.
    """
    in_unit = _pairs(_run_lengths(same_in_unit))
    between_units = _pairs(_run_lengths(same_scores)) - in_unit
    pairs_in_unit = _pairs(units.count)
    pairs_between = _pairs(np.array([len(units.code)])) - pairs_in_unit
    if pairs_between == 0.0:
        return False
    by_chance = pairs_in_unit * between_units / pairs_between
    with_other_labels = in_unit - _pairs(times)
    is_explained = with_other_labels <= by_chance + 3.0 * math.sqrt(by_chance)
    return is_explained and by_chance <= BY_CHANCE * in_unit


def _run_lengths(is_as_before: BoolArray) -> IntArray:
    """Lengths of the runs of equal entries.

    is_as_before : (n - 1,) whether each entry but the first equals the one before it.
    """
    last = np.flatnonzero(np.append(~is_as_before, True))
    return np.diff(last, prepend=-1)


def _pairs(sizes: IntArray) -> float:
    """Number of pairs within groups of these sizes."""
    count = sizes.astype(np.float64)
    return float((count * (count - 1.0)).sum() / 2.0)
