"""Outcomes under calibration of rows in units, which share their luck."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, IntArray, starts_of_runs
from calcli.statistics.units import Units, by_first_row

DRAW_ITEMS = 1 << 20  # uniform numbers drawn at once

ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)
"""Bits of every byte that are set."""


@dataclass(frozen=True)
class SharedOutcomes:
    """Simulated outcomes, drawn from the scores with shared luck.

    order : (n,) row numbers by ascending score, the order of the outcomes in a draw.
    bits : (draws, n / 8), eight outcomes per byte.
    """

    order: IntArray
    bits: NDArray[np.uint8]

    @classmethod
    def drawn(
        cls,
        score: FloatArray,
        units: Units,
        share: float,
        draws: int,
        rng: np.random.Generator,
        opposed: float = 0.0,
        drawn_with: Sequence[FloatArray] = (),
    ) -> "SharedOutcomes":
        """Draw outcomes from probabilities (n,).

        share : a^2 of ``SharedLuck``; a row takes its unit's number with chance a.
        opposed : b^2 of ``opposed_luck``; with chance b a row takes a second number of
        its unit, mirrored (1 - V) for probabilities below one half. drawn_with : what
        else the draws add up, (n,) each; it orders rows of equal scores.
        """
        order = _order_of_draws(score, units, drawn_with)
        n = len(order)
        code = by_first_row(units.code[order])
        c = score[order].astype(np.float32)
        # One number per row decides whether its luck is its own, and is then that luck.
        # Below ``unit_end`` it is the unit's, then the unit's second number, and from
        # ``second_end`` the row's own.
        unit_end = np.float32(math.sqrt(share))
        second_end = unit_end + np.float32(math.sqrt(opposed))
        right_end = second_end + (np.float32(1.0) - second_end) * c
        bits = np.empty((draws, -(-n // 8)), dtype=np.uint8)
        step = min(draws, max(1, DRAW_ITEMS // n))
        width = max(8, DRAW_ITEMS // step // 8 * 8)
        numbers = np.empty((step, n), dtype=np.float32)
        for start in range(0, draws, step):
            m = min(step, draws - start)
            rng.random((m, n), dtype=np.float32, out=numbers[:m])
            luck = rng.random((m, units.n), dtype=np.float32)
            if opposed > 0.0:
                second_luck = rng.random((m, units.n), dtype=np.float32)
            for first in range(0, n, width):
                rows = slice(first, first + width)
                number = numbers[:m, rows]
                chance = c[rows]
                by_unit = np.take(luck, code[rows], axis=1) < chance
                outcome = (number < right_end[rows]) & ((number >= unit_end) | by_unit)
                if opposed > 0.0:
                    second = np.take(second_luck, code[rows], axis=1)
                    mirrored = second >= np.float32(1.0) - chance
                    by_second = np.where(chance < 0.5, mirrored, second < chance)
                    takes_second = (number >= unit_end) & (number < second_end)
                    outcome = np.where(takes_second, by_second, outcome)
                packed = np.packbits(outcome, axis=1)
                bits[start : start + m, first // 8 : (first + width) // 8] = packed
        return cls(order, bits)

    def __len__(self) -> int:
        return len(self.bits)

    def some(
        self, draws: int | None = None
    ) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
        """Iterate over outcomes of the first draws, some draws at a time.

        Yields the slice of the draws and their outcomes, (m, n) 0 or 1 by ascending
        score.
        """
        n = len(self.order)
        most = len(self.bits)
        if draws is not None:
            most = min(draws, most)
        step = max(1, DRAW_ITEMS // n)
        for start in range(0, most, step):
            chunk = slice(start, min(start + step, most))
            yield chunk, np.unpackbits(self.bits[chunk], axis=1, count=n)

    def sums(self, columns: FloatArray, draws: int | None = None) -> FloatArray:
        """Sum columns (n, k) over the rows with outcome 1, (draws, k).

        The rows of the columns are in their original order.
        """
        ordered = columns[self.order]
        n = len(columns)
        # One buffer for all: allocating large arrays is slow.
        buffer = np.empty((max(1, DRAW_ITEMS // n), n))
        sums = []
        for _, drawn in self.some(draws):
            outcomes = np.multiply(drawn, 1.0, out=buffer[: len(drawn)])
            sums.append(outcomes @ ordered)
        return np.concatenate(sums)

    def by_bin(
        self, index: IntArray, bins: int, weight: FloatArray | None = None
    ) -> FloatArray:
        """Sum outcomes, weighted, per bin of the scores, (draws, bins).

        index : (n,) bins of the rows.
        """
        ordered = index[self.order]
        first = starts_of_runs(ordered)
        occupied = ordered[first]
        sums = np.zeros((len(self.bits), bins))
        if weight is None:
            right = self.right_before(np.append(first, len(ordered)))
            sums[:, occupied] = np.diff(right)
            return sums
        w = weight[self.order]
        for chunk, drawn in self.some():
            sums[chunk, occupied] = np.add.reduceat(drawn * w, first, axis=1)
        return sums

    def right_before(self, places: IntArray) -> IntArray:
        """Count outcomes 1 among the first ``places`` (m,) rows by score, (draws, m)."""
        whole, rest = np.divmod(places, 8)
        mask = (0xFF00 >> rest).astype(np.uint8)
        last = np.minimum(whole, self.bits.shape[1] - 1)
        counts = np.empty((len(self.bits), len(places)), dtype=np.int64)
        step = max(1, DRAW_ITEMS // len(self.order))
        for start in range(0, len(self.bits), step):
            chunk = self.bits[start : start + step]
            ones = np.cumsum(ONES[chunk], axis=1, dtype=np.int64)
            in_whole_bytes = np.where(whole > 0, ones[:, whole - 1], 0)
            in_last_byte = ONES[chunk[:, last] & mask]
            counts[start : start + step] = in_whole_bytes + in_last_byte
        return counts


def _order_of_draws(
    score: FloatArray, units: Units, drawn_with: Sequence[FloatArray]
) -> IntArray:
    """Order of the rows by ascending score, (n,); that of the file changes no draw.

    Rows with equal scores are in the order of the sums of their units: of scores, their
    squares and ``drawn_with``. Of units with the same sums one is before the other
    throughout.
    """
    by_score = np.argsort(score, kind="stable")
    ordered = score[by_score]
    if not (ordered[1:] == ordered[:-1]).any():
        return by_score
    # Sums of numbers in order are rounded alike, however the rows were stored.
    by_score = np.lexsort((*drawn_with, score))
    sorted_units = Units(units.code[by_score], units.count)
    sums = []
    for values in (score, score**2, *drawn_with):
        sums.append(sorted_units.sums(values[by_score])[units.code])
    # The first key of a lexsort is the last to decide.
    return np.lexsort((*drawn_with, units.code, *sums[::-1], score))
