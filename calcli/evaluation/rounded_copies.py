"""Rows of an earlier batch whose scores were rounded: float16, few digits.

Such rows have other hashes. But their scores and outcomes, counted by cells, are more
alike than those of independent rows could be (``calcli.statistics.copies_by_counts``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.statistics.copies_by_counts import (
    N_CELLS,
    N_OUTCOMES,
    cell_of,
    chance_of_alike,
    count_rows,
)

MOST_MISSING = 0.1
"""Proportion of rows by which a copy may be shorter or longer."""

Count = Annotated[int, msgspec.Meta(ge=0)]


class ScoreCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of rows by cell of their score, from the cell ``first`` on.

    wrong, right : of the rows of outcome 0 and 1.
    """

    first: Annotated[int, msgspec.Meta(ge=0, lt=N_CELLS)]
    wrong: Annotated[list[Count], msgspec.Meta(max_length=N_CELLS)]
    right: Annotated[list[Count], msgspec.Meta(max_length=N_CELLS)]

    @classmethod
    def of(cls, counts: IntArray) -> "ScoreCounts":
        """Keep the occupied range of counts, (2, N_CELLS)."""
        occupied = np.flatnonzero(counts.sum(axis=0))
        kept = slice(int(occupied[0]), int(occupied[-1]) + 1)
        wrong, right = counts[:, kept].tolist()
        return cls(first=kept.start, wrong=wrong, right=right)

    @property
    def counts(self) -> IntArray:
        """Counts of all cells, (2, N_CELLS)."""
        counts = np.zeros((N_OUTCOMES, N_CELLS + N_CELLS), dtype=np.int64)
        for row, numbers in zip(counts, (self.wrong, self.right), strict=True):
            row[self.first : self.first + len(numbers)] = numbers
        return counts[:, :N_CELLS]


@dataclass(frozen=True)
class CountedScores:
    """Rows of a batch by cell and outcome, in the order of the file, (n,) each.

    labels : their classes. is_design : the numbers of rows per class are no chance.
    """

    cells: IntArray
    outcomes: IntArray
    labels: IntArray
    is_design: bool

    @classmethod
    def of(
        cls, score: FloatArray, outcome: FloatArray, labels: IntArray, is_design: bool
    ) -> "CountedScores":
        return cls(cell_of(score), outcome.astype(np.int64), labels, is_design)

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, rows: slice) -> "CountedScores":
        return CountedScores(
            self.cells[rows], self.outcomes[rows], self.labels[rows], self.is_design
        )

    @property
    def counts(self) -> ScoreCounts:
        return ScoreCounts.of(count_rows(self.cells, self.outcomes))

    @property
    def part_by_chance(self) -> float:
        """Proportion of the variance of the counts that is left where the numbers of
        rows per class are given."""
        if not self.is_design:
            return 1.0
        of_cell = np.bincount(self.cells)
        variance = _variance_of_counts(of_cell)
        within = 0.0
        for label in np.unique(self.labels):
            cells = self.cells[self.labels == label]
            if len(cells) > 1:
                within += _variance_of_counts(np.bincount(cells))
            else:  # one row does not show how its class varies
                within += variance / len(self)
        return within / variance if variance else 0.0


def _variance_of_counts(counts: IntArray) -> float:
    """Sum of the variances of multinomial counts, estimated without bias."""
    n = int(counts.sum())
    return float(n - (counts.astype(np.float64) ** 2).sum() / n) * n / (n - 1.0)


def rows_of_earlier(
    batch: CountedScores, earlier: ScoreCounts, most: float
) -> int | None:
    """Number of the first rows of a batch that are an earlier one's, rounded.

    None where there are none, or where chance explains as much likeness: most is the
    largest chance that does not. A log that grows has new rows behind these.
    """
    counts = earlier.counts
    n = int(counts.sum())
    if n > (1.0 + MOST_MISSING) * len(batch):
        return None
    first = batch
    if n < (1.0 - MOST_MISSING) * len(batch):
        first = batch.take(slice(0, n))
    if len(first) < 2:
        return None
    chance = chance_of_alike(
        counts, count_rows(first.cells, first.outcomes), first.part_by_chance
    )
    return len(first) if chance <= most else None


def named_rows(rows: Sequence[int], n: int) -> str:
    """Words for the first rows of a file: all n of them, or the most."""
    most = max(rows)
    if most >= n:
        return "these rows, or rounded copies of them,"
    return f"the first {most} of {n} rows, or rounded copies of them,"
