"""Are two sets of scores more alike than independent ones could be?

Scores and outcomes are counted by cells of the log-odds, which rounding leaves alone
but near their edges. Of two sets of one source the rows of a cell are split by chance:
given the counts of both, those of the first are hypergeometric, and the sum of squared
standardised differences is about its degrees of freedom. For a copy it is near 0.
"""

import math
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.records import cached_property

CELL_WIDTH = 0.25  # of the log-odds
LARGEST_CELL = 64  # log-odds of 16: float32 has no surer score
N_OUTCOMES = 2
N_CELLS = 2 * LARGEST_CELL + 1

MERGED = (
    (1, LARGEST_CELL),
    (1, 28),
    (1, 20),
    (2, 20),
    (2, 12),
)
"""How cells are merged: so many neighbours into one, and all from a cell on.

Scores with few digits have one value near certainty.
"""

MOST_DIFFERENT = 0.35
"""Sum of squares, in degrees of freedom, of a copy whose rows have crossed edges."""

CHANCE_OF_OUTCOME = 0.01
"""Chance that either outcome alone is split as evenly, above which it is no copy."""

STEEPNESS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # of the bounds for a tail

MOST_DEVIATIONS = 8.0  # of a count: beyond them is chance 1e-15


def cell_of(score: FloatArray) -> IntArray:
    """Cell of each probability, (n,)."""
    with np.errstate(divide="ignore"):
        log_odds = np.log(score) - np.log1p(-score)
    cells = np.clip(np.rint(log_odds / CELL_WIDTH), -LARGEST_CELL, LARGEST_CELL)
    return cells.astype(np.int64) + LARGEST_CELL


def count_rows(cells: IntArray, outcomes: IntArray) -> IntArray:
    """Count the rows of each outcome and cell, (2, N_CELLS). outcomes : (n,) 0 or 1."""
    counts = np.zeros((N_OUTCOMES, N_CELLS), dtype=np.int64)
    np.add.at(counts, (outcomes, cells), 1)
    return counts


def chance_of_alike(
    first: IntArray, second: IntArray, part_by_chance: float = 1.0
) -> float:
    """Bound for the chance that independent rows of one source are as much alike.

    first, second : counts as ``count_rows`` gives them. part_by_chance : proportion of
    their variance that is left to chance; stratified sets have less. 1 where they are
    not as much alike as a copy is.
    """
    most_different = MOST_DIFFERENT * part_by_chance
    chance = 1.0
    for neighbours, largest in MERGED:
        splits = _splits(first, second, neighbours, largest)
        if splits and all(split.is_of_copy(most_different) for split in splits):
            of_splits = math.prod(split.chance for split in splits)
            chance = min(chance, of_splits**part_by_chance)
    return min(len(MERGED) * chance, 1.0)


@dataclass(frozen=True)
class _Split:
    """Rows of one outcome, by cell, in the first set and in both, (m,) each."""

    first: IntArray
    both: IntArray

    @cached_property
    def share(self) -> float:
        """Proportion of the rows that are in the first set."""
        return float(self.first.sum() / self.both.sum())

    @cached_property
    def distance(self) -> float:
        """Sum of squared standardised differences."""
        differences = self.first - self.share * self.both
        variance = self.both * self.share * (1.0 - self.share)
        return float((differences**2 / variance).sum())

    def is_of_copy(self, most_different: float) -> bool:
        """True where the counts are as near to each other as those of a copy.

        Both outcomes must be: the same scores with other labels are new rows.
        most_different : largest sum of squares of a copy, in degrees of freedom.
        """
        if self.distance > most_different * (len(self.both) - 1):
            return False
        return self.chance <= CHANCE_OF_OUTCOME or self._cannot_tell

    @property
    def _cannot_tell(self) -> bool:
        """True where even the most even split of so few rows is not significant."""
        least = sum(
            many * float(square.squares.min()) for square, many in self._squares
        )
        return self._chance_up_to(least) > CHANCE_OF_OUTCOME

    @cached_property
    def chance(self) -> float:
        """Bound for the chance of a sum of squares up to this one."""
        return self._chance_up_to(self.distance)

    def _chance_up_to(self, distance: float) -> float:
        """Chernoff's bound for the chance of a sum of squares.

        Counts of cells are binomial given their sum, which has a probability by which
        the bound for independent counts is divided.
        """
        smallest = math.inf
        for steepness in STEEPNESS:
            log_bound = steepness * distance
            for square, many in self._squares:
                log_bound += many * square.log_mean(steepness)
            smallest = min(smallest, log_bound)
        n_first, n_both = int(self.first.sum()), int(self.both.sum())
        log_sum = _log_binomial(n_first, n_both, self.share)
        return math.exp(min(smallest - log_sum, 0.0))

    @cached_property
    def _squares(self) -> list[tuple["_Square", int]]:
        """Law of the square of each number of rows that cells have, and how many do."""
        sizes, times = np.unique(self.both, return_counts=True)
        squares = [_Square.of(size, self.share) for size in sizes.tolist()]
        return list(zip(squares, times.tolist(), strict=True))


def _splits(
    first: IntArray, second: IntArray, neighbours: int, largest: int
) -> list[_Split]:
    """Merge cells; the outcomes that both sets have."""
    steps = np.arange(N_CELLS) - LARGEST_CELL
    merged = np.minimum(np.abs(steps), largest) + neighbours // 2
    merged = np.sign(steps) * (merged // neighbours) + LARGEST_CELL
    splits = []
    for of_first, of_second in zip(first, second, strict=True):
        in_first = _merge(of_first, merged)
        in_both = in_first + _merge(of_second, merged)
        if in_first.sum() in (0, in_both.sum()):
            continue
        is_occupied = in_both > 0
        splits.append(_Split(in_first[is_occupied], in_both[is_occupied]))
    return splits


def _merge(counts: IntArray, merged: IntArray) -> IntArray:
    return np.bincount(merged, weights=counts, minlength=N_CELLS).astype(np.int64)


@dataclass(frozen=True)
class _Square:
    """Squared standardised difference of one binomial count, and its chances."""

    squares: FloatArray
    chances: FloatArray

    @classmethod
    def of(cls, m: int, share: float) -> "_Square":
        """m : rows of the cell. share : chance of each to be of the first set."""
        variance = m * share * (1.0 - share)
        width = MOST_DEVIATIONS * math.sqrt(variance) + 4.0
        low = max(0, math.floor(m * share - width))
        high = min(m, math.ceil(m * share + width))
        counts = np.arange(low, high + 1, dtype=np.float64)
        odds = share / (1.0 - share)
        ratios = (m - counts[:-1]) / counts[1:] * odds
        log_chances = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
        chances = np.exp(log_chances - log_chances.max())
        squares = (counts - share * m) ** 2 / variance
        return cls(squares, chances / chances.sum())

    def log_mean(self, steepness: float) -> float:
        """Logarithm of the mean of exp(-steepness times the square)."""
        return math.log(float(self.chances @ np.exp(-steepness * self.squares)))


def _log_binomial(k: int, n: int, share: float) -> float:
    """Logarithm of a binomial probability."""
    log_ways = math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)
    return log_ways + k * math.log(share) + (n - k) * math.log1p(-share)
