"""Assignment of rows to the folds of a cross-validation, by what the rows hold.

The same rows get the same folds in any order and in any shards: folds follow a hash of
each row's scores and label, never its position. Units follow the hashes of their rows,
so that other names of the units change nothing either.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calcli.block import Block
from calcli.numerics import (
    BoolArray,
    FloatArray,
    IntArray,
    in_column,
    joined_fields,
    row_max,
)
from calcli.rows import Rows
from calcli.statistics.units import Units

Hashes = NDArray[np.uint64]

LOWER_TAIL = 3.09  # normal quantile at 0.999

CONFLICTS = 0.02
"""Share of the rows with repeated scores whose label differs from most others of the
same scores. Above it, scores repeat because they are coarse, not because rows were
copied.
"""

ODD = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
LABEL = np.uint64(0xD6E8FEB86659FD93)
COPY = np.uint64(0xA0761D6478BD642F)


# ---- hashes of rows


def scrambled(values: Hashes) -> Hashes:
    """Mix the bits of integers (splitmix64: Steele, Lea and Flood, 2014)."""
    x = values + ODD
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class RowHashes:
    """Hashes of the contents of rows, (n,) each.

    scores : hash of the scores. whole : of scores and label. level : largest score,
    which ``scores`` does not hold. Relabelling the classes, or adding a constant to a
    row's logits, leaves ``scores`` and ``whole`` as they were.
    """

    scores: Hashes
    whole: Hashes
    level: FloatArray

    @classmethod
    def of(cls, rows: Rows) -> "RowHashes":
        """Hash all rows, in one walk over them; those with the scores of another row
        twice.

        The first walk takes a row's scores for a set. Rows that are alike by it may
        differ in which class has which score, which the second walk tells.
        """
        hashes = joined_fields(list(rows.each(hashes_of_block)))
        repeated = np.flatnonzero(is_repeated(hashes.scores))
        if rows.kind == "confidence" or len(repeated) == 0:
            return hashes
        total = np.zeros(rows.k, dtype=np.uint64)
        np.add.at(total, rows.labels(), scrambled(hashes.whole))
        work = partial(hashes_of_block, class_keys=scrambled(total))
        by_class = joined_fields(list(rows.take(repeated).each(work)))
        hashes.scores[repeated] = by_class.scores
        hashes.whole[repeated] = by_class.whole
        return hashes


def is_repeated(hashes: Hashes) -> BoolArray:
    """Mask of the hashes that occur more than once, (n,)."""
    _, code, count = np.unique(hashes, return_inverse=True, return_counts=True)
    return count[code] > 1


def hashes_of_block(block: Block, class_keys: Hashes | None = None) -> RowHashes:
    """Hash the rows of a block.

    Every class counts by its distance to the largest score, in float32, so that the
    rounding of a constant added to the row does not show. Sums do not depend on the
    order of the classes. A confidence counts as it is. class_keys : (k,) hashes of the
    classes' own rows, which tell the classes apart whatever their numbers.
    """
    if block.kind == "confidence":
        level = block.scores[:, 0].astype(np.float64) + 0.0  # -0.0 becomes 0.0
        scores = scrambled(level.view(np.uint64))
        label = scrambled(block.labels.astype(np.uint64))
        return RowHashes(scores, scrambled(scores + LABEL * label), level)
    level = row_max(block.z)
    # distances beyond float32 become infinite, which hashes like any other number
    with np.errstate(over="ignore"):
        distance = (level[:, None] - block.z).astype(np.float32)
    classes = scrambled(distance.view(np.uint32).astype(np.uint64))
    if class_keys is not None:
        classes = scrambled(classes ^ class_keys)
    label = in_column(classes, block.labels)
    scores = scrambled(classes.sum(axis=1, dtype=np.uint64))
    return RowHashes(scores, scrambled(scores + LABEL * label), level)


def keyed(hashes: Hashes, seed: int, draw: int = 0) -> Hashes:
    """Hashes that also depend on a seed and on the number of the draw."""
    key = (seed * 0x9E3779B97F4A7C15 + draw * 0xD6E8FEB86659FD93 + 1) % 2**64
    return scrambled(hashes ^ scrambled(np.array([key], dtype=np.uint64)))


def copy_numbers(hashes: Hashes, *ties: NDArray[np.generic]) -> IntArray:
    """Number of each entry among those of the same hash, from 0.

    ties : further columns that order equal hashes, the most important last.
    """
    order = np.lexsort((*ties, hashes))
    ordered = hashes[order]
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(is_first)
    sizes = np.diff(np.append(starts, len(hashes)))
    numbers = np.empty(len(hashes), dtype=np.int64)
    numbers[order] = np.arange(len(hashes)) - np.repeat(starts, sizes)
    return numbers


def content_order(rows: Rows, seed: int) -> IntArray:
    """Random order of the rows, (n,) indices, that depends on their contents alone.

    For methods that shuffle or cut rows.
    """
    hashes = RowHashes.of(rows)
    return np.lexsort((*ties_of(rows, hashes), keyed(hashes.whole, seed)))


def ties_of(rows: Rows, hashes: RowHashes) -> tuple[NDArray[np.generic], ...]:
    """Columns (n,) that order rows of the same hash: groups, weights and levels."""
    weight = rows.weights()
    weights = () if weight is None else (weight,)
    return (*rows.group_codes(), *weights, hashes.level)


# ---- folds


def content_folds(rows: Rows, folds: int, seed: int, draw: int = 0) -> IntArray:
    """Fold of every row, (n,), at random but decided by the contents of the rows.

    Folds are numbered from 0 on and none is empty; there are fewer than asked for where
    there is too little to deal. Sizes are nearly equal. Rows of a unit stay together,
    and so do exact copies of a row or of a unit, which would otherwise tell a fit what
    it is tested on. draw : another number gives other folds.

    The training rows carry no information about the held-out labels. With stratified
    folds they do: a method that learns class frequencies finds exactly those of the
    held-out rows, and looks better than it is on new ones.
    """
    hashes = RowHashes.of(rows)
    units = rows.units()
    if units is None:
        cluster, key = clusters_of_rows(rows, hashes, folds)
    else:
        ties = ties_of(rows, hashes)
        cluster, key = clusters_of_units(units, hashes, folds, ties)
    fold = dealt(keyed(key, seed, draw), np.bincount(cluster), folds)
    return fold[cluster]


def sampled_folds(rows: Rows, folds: int, seed: int, draw: int = 0) -> IntArray:
    """Fold of every row, (n,), by the sampling design: stratified where it is even by
    class.

    If rows were drawn evenly by design, random folds would charge a method that learns
    class frequencies with noise that its final fit does not have: a class rare among
    the training rows is frequent among those held out.
    """
    y = rows.labels()
    if rows.units() is not None or not even_by_design(y, rows.k):
        return content_folds(rows, folds, seed, draw)
    return stratified_folds(rows, y, folds, seed, draw)


def stratified_folds(
    rows: Rows, label: IntArray, folds: int, seed: int, draw: int = 0
) -> IntArray:
    """Fold of every row, (n,), by contents, each class spread evenly over the folds.

    label : (n,) class of each row, from 0 on. Copies of a row stay together.
    """
    cluster, key = clusters_of_rows(rows, RowHashes.of(rows), folds)
    of_cluster = np.zeros(len(key), dtype=np.int64)
    np.maximum.at(of_cluster, cluster, label)
    order = np.lexsort((keyed(key, seed, draw), of_cluster))
    fold = np.empty(len(key), dtype=np.int64)
    fold[order] = np.arange(len(key)) % folds
    return fold[cluster]


def clusters_of_rows(
    rows: Rows, hashes: RowHashes, folds: int
) -> tuple[IntArray, Hashes]:
    """Cluster of every row, (n,), and hash of every cluster.

    Copies of a row are one cluster. Rows that are alike because their scores are coarse
    (rounded, votes) are not: their copy numbers differ. So are rows of scores
    that fill more than a fold.
    """
    _, code, count = np.unique(hashes.scores, return_inverse=True, return_counts=True)
    together = (count > 1) & (count <= len(code) / folds)
    if is_coarse(hashes, code, count):
        together[:] = False
    copies = copy_numbers(hashes.whole, *ties_of(rows, hashes))
    alone = scrambled(hashes.whole + COPY * copies.astype(np.uint64))
    content = np.where(together[code], hashes.scores, alone)
    key, cluster = np.unique(content, return_inverse=True)
    return cluster, key


def is_coarse(hashes: RowHashes, code: IntArray, count: IntArray) -> bool:
    """Detect scores that repeat because they take few values: equal ones have other
    labels.

    code : (n,) number of each row's scores. count : rows of each.
    """
    repeated = count[code] > 1
    n_repeated = int(repeated.sum())
    if n_repeated == 0:
        return False
    whole, size = np.unique(hashes.whole[repeated], return_counts=True)
    of_whole = np.searchsorted(whole, hashes.whole[repeated])
    commonest = np.zeros(len(count), dtype=np.int64)
    np.maximum.at(commonest, code[repeated], size[of_whole])
    agreeing = int(commonest[count > 1].sum())
    return n_repeated - agreeing > CONFLICTS * n_repeated


def clusters_of_units(
    units: Units,
    hashes: RowHashes,
    folds: int,
    ties: tuple[NDArray[np.generic], ...],
) -> tuple[IntArray, Hashes]:
    """Cluster of every row, (n,), and hash of every cluster, where rows have units.

    Copies of a unit are one cluster, unless they fill more than a fold, or scores are
    so coarse that units are alike by chance. Then the other columns of their rows
    order them (``ties``, (n,) each).
    """
    content = hashes_of_units(units, hashes.whole)
    with_ties = hashes.whole
    for column in ties:
        # Ranks, as the last bits of weights depend on the order of the rows.
        rank = np.unique(column, return_inverse=True)[1].astype(np.uint64)
        with_ties = scrambled(with_ties ^ scrambled(rank))
    order = hashes_of_units(units, with_ties)
    _, kind = np.unique(content, return_inverse=True)
    n_rows = np.bincount(kind, weights=units.count)[kind]
    together = n_rows <= len(units.code) / folds
    _, code, count = np.unique(hashes.scores, return_inverse=True, return_counts=True)
    if is_coarse(hashes, code, count):
        together[:] = False
    copies = copy_numbers(content, order).astype(np.uint64)
    alone = scrambled(content + COPY * copies)
    key, cluster = np.unique(np.where(together, content, alone), return_inverse=True)
    return np.asarray(cluster[units.code]), key


def hashes_of_units(units: Units, hashes: Hashes) -> Hashes:
    """Hash of every unit, (g,), of those of its rows (n,) in any order."""
    total = np.zeros(units.n, dtype=np.uint64)
    np.add.at(total, units.code, scrambled(hashes))
    return scrambled(total)


def dealt(key: Hashes, size: IntArray, folds: int) -> IntArray:
    """Fold of every cluster, in the order of their keys.

    The clusters are laid end to end and cut into equal parts; a cluster goes to the
    part that holds its middle row. If a part stays empty, clusters go to the folds in
    turn instead. size : rows of each cluster.
    """
    order = np.argsort(key, kind="stable")
    ordered = size[order]
    middle = (np.cumsum(ordered) - ordered / 2.0) / ordered.sum()
    part = np.minimum((middle * folds).astype(np.int64), folds - 1)
    if len(np.unique(part)) < folds:
        part = np.arange(len(key)) % folds
    fold = np.empty(len(key), dtype=np.int64)
    fold[order] = part
    return fold


def even_by_design(y: IntArray, k: int) -> bool:
    """Detect rows sampled evenly by class, whose counts are more even than chance makes
    them.

    Counts of the k classes in y (n,) then differ by at most two, and are more even by
    chi-square than all but one in a thousand uniform draws; fewer than four classes
    never are. The counts of a random half of an even set lie further apart.

    Reference: Wilson, Hilferty (1931), the normal approximation.
    """
    count = np.bincount(y, minlength=k)
    mean = len(y) / k
    freedom = max(1, k - 1)
    spread = 2.0 / (9.0 * freedom)
    chance = float(((count - mean) ** 2).sum() / mean / freedom) ** (1 / 3)
    return int(np.ptp(count)) <= 2 and chance < 1.0 - spread - LOWER_TAIL * spread**0.5
