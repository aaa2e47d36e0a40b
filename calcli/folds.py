"""Folds of a cross-validation: which part each row is held out in."""

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.statistics.units import Units

LOWER_TAIL = 3.09  # normal deviate that one draw in a thousand falls below


def random_folds(n: int, folds: int, rng: np.random.Generator, units: Units | None = None) -> IntArray:
    """Fold of every row, (n,), at random; sizes differ by at most one.

    Where rows belong together whole units are assigned (see ``unit_folds``).

    The training rows then say nothing about which labels were held out. Stratified folds do: a method that learns class
    frequencies finds exactly those of the held-out rows, and looks better than it is on new ones.
    """
    if units is not None:
        return unit_folds(units, folds, rng)
    return rng.permutation(np.arange(n, dtype=np.int64) % folds)


def unit_folds(units: Units, folds: int, rng: np.random.Generator) -> IntArray:
    """Fold of every row, (n,), all rows of a unit in one: units at random, in folds of about as many rows. The shuffled
    units are laid end to end and the line is cut into equal parts; a unit goes to the part that holds its middle row.
    If a part stays empty, units go to the folds in turn instead."""
    shuffled = rng.permutation(units.n)
    count = units.count[shuffled]
    middle = (np.cumsum(count) - count / 2.0) / count.sum()
    dealt = np.minimum((middle * folds).astype(np.int64), folds - 1)
    if len(np.unique(dealt)) < min(folds, units.n):
        dealt = np.arange(units.n) % folds
    fold = np.empty(units.n, dtype=np.int64)
    fold[shuffled] = dealt
    return np.asarray(fold[units.code])


def stratified_folds(y: IntArray, folds: int, rng: np.random.Generator) -> IntArray:
    """Fold of every row, (n,), each class spread evenly over the folds. y : (n,) labels."""
    shuffled, fold = rng.permutation(len(y)), np.empty(len(y), dtype=np.int64)
    fold[shuffled[np.argsort(y[shuffled], kind="stable")]] = np.arange(len(y)) % folds
    return fold


def even_by_design(y: IntArray, k: int) -> bool:
    """Whether the k classes of labels y (n,) were drawn evenly: their counts differ by two at most, and not by chance.

    By chance: more even by chi-square than one in a thousand uniform draws, which fewer than four classes
    never are. The counts of a random half of an even set lie further apart.

    Reference: Wilson, Hilferty (1931), the normal approximation.
    """
    count, mean, freedom = np.bincount(y, minlength=k), len(y) / k, max(1, k - 1)
    spread = 2.0 / (9.0 * freedom)
    chance = float(((count - mean) ** 2).sum() / mean / freedom) ** (1 / 3)
    return int(np.ptp(count)) <= 2 and chance < 1.0 - spread - LOWER_TAIL * spread**0.5


def sampled_folds(y: IntArray, k: int, folds: int, rng: np.random.Generator, units: Units | None = None) -> IntArray:
    """Folds, (n,), that repeat how the rows were sampled: at random, or evenly by class where they were.

    y : (n,) labels of k classes. Where rows belong together whole units are assigned at random.
    Of rows drawn evenly by design the held-out counts are known beforehand, and random
    folds would hold against a method that learns class frequencies a noise which its final fit does not have: a class
    short among the training rows is long among those held out.
    """
    even = units is None and even_by_design(y, k)
    return stratified_folds(y, folds, rng) if even else random_folds(len(y), folds, rng, units)


def content_folds(
    y: IntArray, loss: FloatArray, folds: int, rng: np.random.Generator, units: Units | None = None
) -> IntArray:
    """Random folds, (n,), that depend on what the rows hold and not on how they or the classes are ordered. y : (n,)
    labels; loss : (n,). The rows are lined up class by class and by loss within a class, and given random folds along
    the line: so a fit does not depend on the order either. Units are assigned in the order of their names."""
    if units is not None:
        return unit_folds(units, folds, rng)
    count = np.bincount(y)
    mean = np.bincount(y, weights=loss) / np.maximum(count, 1)
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.lexsort((loss, mean[y], count[y]))] = random_folds(len(y), folds, rng)
    return fold
