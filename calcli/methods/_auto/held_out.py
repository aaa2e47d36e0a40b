"""Which rows of the calibration data are held out, and rows in memory."""

import math
from dataclasses import dataclass, replace

import numpy as np

from calcli.folds import content_order, sampled_folds
from calcli.free_memory import available_memory
from calcli.numerics import IntArray
from calcli.rows import ArrayRows, Rows, ScoreKind

REPEATED_ROWS = 1000
"""Most rows for which the folds are drawn twice: weights from one draw are half noise,
and few rows cost little.
"""
FOLDS = 5
FEWER_FOLDS = 3
"""Folds from ``MANY_SCORES`` scores on: costs .0001 nats at 100 classes and saves a
quarter of the time.
"""
MANY_SCORES = 1_000_000
CHEAP_SCORES = 2_000_000
"""Scores up to which every fold is held out in turn. Beyond, as many as give
``HELD_ROWS``.
"""
HELD_ROWS = 5000
KEPT_BYTES = 1 << 27  # logits in float64 up to this size are held in memory
# scores in their own precision up to this size are held in memory
SOURCE_BYTES = 1 << 29
SOME_CLASSES_SCORES = 500_000  # scores of the sample with fewer classes
FEWEST_CLASSES = 20  # that stand for all

Part = tuple[int, int]  # number of a draw of folds, and of the fold that is held out


def shuffled_in_memory(rows: Rows, seed: int) -> tuple[Rows, IntArray]:
    """Hold rows in memory, in a random order that their contents decide.

    What works on the first rows, or on rows at regular distances, then does not depend
    on the order of the source. Returns the rows, and the index of each in the source;
    rows that cannot be held in memory stay in their order.
    """
    held = in_memory(rows)
    if not isinstance(held, ArrayRows) or held is rows:
        return rows, np.arange(rows.n)
    order = content_order(rows, seed)
    return reordered(held, order), order


def in_memory(rows: Rows) -> Rows:
    """Hold rows in memory if they are small and have no transforms.

    Others are returned as they are. Logits in float64 where that is small, else the
    scores in their own precision.
    """
    kind: ScoreKind = rows.kind
    is_small = 8 * rows.n * rows.k <= KEPT_BYTES
    if rows.transforms or not (is_small or fits_in_memory(rows)):
        return rows
    blocks = list(rows.blocks())
    if kind == "confidence" or not is_small:
        scores = np.concatenate([block.scores for block in blocks])
    else:
        kind = "logits" if rows.kind == "logits" else "log_probs"
        scores = np.concatenate([block.z for block in blocks])
    in_place = ArrayRows(
        scores, rows.labels(), kind, weight=rows.weights(), units=rows.units()
    )
    if blocks[0].original is not None:
        predictions = [block.original_prediction for block in blocks]
        in_place.original = np.concatenate(predictions)
    return in_place.counting(rows.zeros)


def reordered(rows: ArrayRows, order: IntArray) -> ArrayRows:
    """Rows in memory in another order. order : (n,) indices."""
    weight = rows.weight
    units = rows.units()
    moved = ArrayRows(
        rows.scores[order],
        rows.labels()[order],
        rows.kind,
        weight=None if weight is None else weight[order],
        units=None if units is None else units.take(order),
    )
    if rows.original is not None:
        moved.original = rows.original[order]
    return moved.counting(rows.zeros)


def fits_in_memory(rows: Rows) -> bool:
    """Test whether scores may be held, and copied fold by fold, in free memory."""
    itemsize = next(iter(rows.blocks())).scores.itemsize
    size = itemsize * rows.n * rows.k
    free = available_memory()
    return size <= SOURCE_BYTES and (free is None or 4 * size <= free)


@dataclass(frozen=True)
class Plan:
    """Which rows are held out.

    fold : (draws, n) fold of every row in every draw. parts : what is held out, in
    order. index : (m,) rows that are held out, those of all folds or of some,
    ascending.
    """

    fold: IntArray
    parts: tuple[Part, ...]
    index: IntArray

    @classmethod
    def of(cls, rows: Rows, folds: int | None, seed: int) -> "Plan":
        """Draw folds; with many rows only some of them are held out.

        folds : their number; None for one that suits the number of scores.
        """
        scores = rows.n * rows.k
        if folds is None:
            folds = FEWER_FOLDS if MANY_SCORES <= scores <= CHEAP_SCORES else FOLDS
        folds = min(folds, rows.n)
        draws = 2 if rows.n <= REPEATED_ROWS else 1
        fold = [sampled_folds(rows, folds, seed, draw) for draw in range(draws)]
        parts = []
        n_held = []
        for draw, numbers in enumerate(fold):
            n_folds = int(numbers.max()) + 1
            if scores > CHEAP_SCORES:
                n_folds = min(n_folds, math.ceil(HELD_ROWS * n_folds / rows.n))
            n_held.append(n_folds)
            parts += [(draw, number) for number in range(n_folds)]
        index = np.flatnonzero(fold[0] < n_held[0])
        return cls(np.stack(fold), tuple(parts), index)

    def held(self, part: Part) -> IntArray:
        """Rows that a part holds out, ascending."""
        draw, number = part
        return np.flatnonzero(self.fold[draw] == number)

    def places(self, part: Part) -> IntArray:
        """Places of a part's rows in ``index``."""
        return np.searchsorted(self.index, self.held(part))

    def without(self, part: Part) -> "Plan":
        """The plan of the rows outside a part, for a single draw of folds."""
        index = np.setdiff1d(self.index, self.held(part))
        parts = tuple(other for other in self.parts if other != part)
        return replace(self, parts=parts, index=index)

    def split(self, rows: Rows, part: Part) -> tuple[Rows, Rows]:
        """Training rows and held-out rows of a part."""
        draw, number = part
        is_held = self.fold[draw] == number
        learn = in_memory(rows.take(np.flatnonzero(~is_held)))
        held_rows = in_memory(rows.take(np.flatnonzero(is_held)))
        return learn, held_rows


def rows_of_some_classes(rows: Rows, seed: int) -> Rows | None:
    """Take rows of some classes with the scores of these alone.

    There are as many of a class as there are. None where all classes together are few
    enough. The classes are drawn by the seed.
    """
    count = int(math.sqrt(SOME_CLASSES_SCORES * rows.k / rows.n))
    if count < FEWEST_CLASSES or 2 * count > rows.k:
        return None
    chosen = np.sort(np.random.default_rng(seed).permutation(rows.k)[:count])
    place = np.full(rows.k, -1, dtype=np.int64)
    place[chosen] = np.arange(count)
    y = rows.labels()
    index = np.flatnonzero(place[y] >= 0)
    some = rows.take(index)
    scores = np.concatenate([block.z[:, chosen] for block in some.blocks()])
    return ArrayRows(
        scores, place[y[index]], "logits", weight=some.weights(), units=some.units()
    )
