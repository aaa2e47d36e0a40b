"""Outcomes by their log-odds, as logistic recalibration reads them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.statistics.recalibration import (
    ClassRanges,
    OutcomeCounts,
    Sample,
    Uncertain,
)
from calcli.statistics.ties import Ranked

CELL = 3e-4
"""Width of the cells of log-odds in which very many rows are counted."""


@dataclass(frozen=True)
class RankedOutcomes:
    """Outcomes of rows that are ranked by their log-odds, some at a time."""

    ranked: Ranked

    def __iter__(self) -> Iterator[OutcomeCounts]:
        for block in self.ranked:
            yield OutcomeCounts(block.score, block.right, block.wrong)


@dataclass(frozen=True)
class RecalibrationData:
    """Outcomes by their log-odds, without rows whose P(class 1) is exactly 0 or 1.

    ranges : of the classes. rows : perhaps more than memory holds. cells : the same
    rows in memory, for what walks over them often.
    """

    ranges: ClassRanges
    rows: Sample
    cells: Sample

    @classmethod
    def of_rows(
        cls, log_odds: FloatArray, outcome: FloatArray, weight: FloatArray | None
    ) -> "RecalibrationData":
        """Rows with their log-odds and outcomes 0/1, (n,) each."""
        sample = [OutcomeCounts.of_rows(log_odds, outcome, weight)]
        rows = list(Uncertain(sample))
        return cls(ClassRanges.of(sample), rows, rows)

    @classmethod
    def of_ranked(cls, ranked: Ranked) -> "RecalibrationData":
        """Very many rows, ranked by their log-odds."""
        sample = RankedOutcomes(ranked)
        rows = Uncertain(sample)
        return cls(ClassRanges.of(sample), rows, counted_in_cells(rows))

    @property
    def more(self) -> dict[str, Any]:
        """Facts about the rows for the JSON output."""
        left_out = self.ranges.left_out
        return {"left_out": left_out} if left_out > 0.0 else {}


def counted_in_cells(sample: Sample) -> list[OutcomeCounts]:
    """Counts of ranked outcomes in cells of log-odds at most ``CELL`` wide.

    The rows of each class in a cell stand at their own mean, so that sums of log-odds
    are exact and those of probabilities are so to the square of ``CELL``.
    """
    cells = []
    for part in sample:
        number = np.floor(part.log_odds / CELL)
        first = np.flatnonzero(np.diff(number, prepend=-math.inf))
        ones, log_odds = _cell_means(part.ones, part.log_odds, first)
        cells.append(OutcomeCounts(log_odds, ones, np.zeros_like(ones)))
        zeros, log_odds = _cell_means(part.zeros, part.log_odds, first)
        cells.append(OutcomeCounts(log_odds, np.zeros_like(zeros), zeros))
    return cells


def _cell_means(
    count: FloatArray, log_odds: FloatArray, first: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Rows and mean log-odds of the cells that hold rows; each begins at ``first``."""
    if not len(first):
        return count, log_odds
    rows = np.add.reduceat(count, first)
    total = np.add.reduceat(count * log_odds, first)
    occupied = rows > 0.0
    return rows[occupied], total[occupied] / rows[occupied]
