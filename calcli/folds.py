"""Assignment of rows to the folds of a cross-validation."""

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.statistics.units import Units

LOWER_TAIL = 3.09  # normal quantile at 0.999


def random_folds(
    n: int, folds: int, rng: np.random.Generator, units: Units | None = None
) -> IntArray:
    """Fold of every row, (n,), at random; sizes differ by at most one.

    Where rows belong together whole units are assigned (see ``unit_folds``).

    The training rows then carry no information about the held-out labels. With stratified folds they do: a method that
    learns class frequencies finds exactly those of the held-out rows, and looks better than it is on new ones.
    """
    if units is not None:
        return unit_folds(units, folds, rng)
    return rng.permutation(np.arange(n, dtype=np.int64) % folds)


def unit_folds(units: Units, folds: int, rng: np.random.Generator) -> IntArray:
    """Fold of every row, (n,), by units: units are assigned whole and at random, to folds of nearly equal size. The
    shuffled units are laid end to end and cut into equal parts; a unit goes to the part that holds its middle row.
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


def by_content(units: Units, loss: FloatArray) -> Units:
    """The same units in an order that does not depend on their names: by their number
    of rows, then by their total loss. loss : (n,)."""
    by_loss = np.argsort(loss, kind="stable")  # sums do not depend on the rows' order
    total = np.bincount(units.code[by_loss], weights=loss[by_loss])
    order = np.lexsort((total, units.count))
    place = np.empty(units.n, dtype=np.int64)
    place[order] = np.arange(units.n)
    return Units(place[units.code], units.count[order])


def stratified_folds(y: IntArray, folds: int, rng: np.random.Generator) -> IntArray:
    """Fold of every row, (n,), each class spread evenly over the folds. y : (n,) labels."""
    shuffled, fold = rng.permutation(len(y)), np.empty(len(y), dtype=np.int64)
    fold[shuffled[np.argsort(y[shuffled], kind="stable")]] = np.arange(len(y)) % folds
    return fold


def even_by_design(y: IntArray, k: int) -> bool:
    """Detect rows sampled evenly by class: counts of the k classes in y (n,) differ by at most two, and not by chance.

    Not by chance: more even by chi-square than all but one in a thousand uniform draws; fewer than four classes never
    are. The counts of a random half of an even set lie further apart.

    Reference: Wilson, Hilferty (1931), the normal approximation.
    """
    count, mean, freedom = np.bincount(y, minlength=k), len(y) / k, max(1, k - 1)
    spread = 2.0 / (9.0 * freedom)
    chance = float(((count - mean) ** 2).sum() / mean / freedom) ** (1 / 3)
    return int(np.ptp(count)) <= 2 and chance < 1.0 - spread - LOWER_TAIL * spread**0.5


def sampled_folds(
    y: IntArray,
    k: int,
    folds: int,
    rng: np.random.Generator,
    units: Units | None = None,
) -> IntArray:
    """Fold of every row, (n,), by the sampling design of the rows: random, or stratified if even by class.

    y : (n,) labels of k classes. Where rows belong together whole units are assigned at random.
    If rows were drawn evenly by design,
    random folds would charge a method that learns class frequencies with noise that its final fit does not have: a
    class rare among the training rows is frequent among those held out.
    """
    even = units is None and even_by_design(y, k)
    return (
        stratified_folds(y, folds, rng)
        if even
        else random_folds(len(y), folds, rng, units)
    )


def content_folds(
    y: IntArray,
    loss: FloatArray,
    folds: int,
    rng: np.random.Generator,
    units: Units | None = None,
) -> IntArray:
    """Fold of every row, (n,), at random but independent of the order of rows and classes, so that a fit is so too. y :
    (n,) labels; loss : (n,). Rows are sorted by class and by loss within a class before the random assignment. Units
    are assigned whole, by what they hold (``by_content``)."""
    if units is not None:
        return unit_folds(by_content(units, loss), folds, rng)
    count = np.bincount(y)
    mean = np.bincount(y, weights=loss) / np.maximum(count, 1)
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.lexsort((loss, mean[y], count[y]))] = random_folds(len(y), folds, rng)
    return fold
