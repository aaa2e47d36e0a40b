"""Scores of many rows in order, with their outcomes, in 8 bytes a row.

A row is one sort key: the bits of its score, which sort as the score does, with the
outcome in the last place.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, ends_of_runs, sigmoid, starts_of_ties
from calcli.records import cached_property
from calcli.statistics.ties import Ranked, TieBlocks

Keys = NDArray[np.uint64]

AT_ONCE = 1 << 18  # rows whose scores are unpacked at once
KEY_BYTES = 8

SIGN = np.uint64(1 << 63)
LAST = np.uint64(1)


def keys_of(scores: FloatArray, outcomes: FloatArray) -> Keys:
    """Make sort keys of scores in [0, 1] with outcomes 0/1, (n,) each."""
    bits = np.ascontiguousarray(scores + 0.0).view(np.uint64)  # + 0.0 makes -0.0 a 0.0
    return (bits << LAST) | (outcomes > 0).astype(np.uint64)


def keys_of_odds(odds: FloatArray, outcomes: FloatArray) -> Keys:
    """Make sort keys of numbers of either sign with outcomes 0/1, (n,) each.

    The last bit of a number is lost.
    """
    bits = np.ascontiguousarray(odds + 0.0).view(np.uint64)
    ordered = np.where(bits & SIGN, ~bits, bits | SIGN)
    return (ordered & ~LAST) | (outcomes > 0).astype(np.uint64)


def odds_of(keys: Keys) -> FloatArray:
    """Return the numbers of the keys that ``keys_of_odds`` makes."""
    ordered = keys & ~LAST
    return np.where(ordered & SIGN, ordered ^ SIGN, ~ordered).view(np.float64)


class KeyCollector:
    """Sort keys of n rows, which arrive some at a time. odds : they are of log-odds."""

    def __init__(self, n: int, odds: bool) -> None:
        self._keys = np.empty(n, dtype=np.uint64)
        self._odds = odds
        self._count = 0

    def take(self, keys: Keys) -> None:
        """Append rows in any order."""
        stop = self._count + len(keys)
        self._keys[self._count : stop] = keys
        self._count = stop

    def in_order(self) -> "SortedRows":
        """Sort the rows where they lie."""
        assert self._count == len(self._keys)
        self._keys.sort()
        return SortedRows(self._keys, self._odds)


class SortedRows:
    """Rows in the order of their scores. keys : (n,) ascending. odds : of log-odds."""

    def __init__(self, keys: Keys, odds: bool = False) -> None:
        self._keys = keys
        self.odds = odds

    @property
    def n(self) -> int:
        return len(self._keys)

    @cached_property
    def distinct(self) -> int:
        """Number of distinct scores."""
        count = 0
        last = -1.0
        for score, _ in self.slabs():
            count += len(starts_of_ties(np.append(last, score))) - 1
            last = float(score[-1])
        return count

    @cached_property
    def _right(self) -> int:
        return sum(int(outcomes.sum()) for _, outcomes in self.slabs())

    def _score_of(self, keys: Keys) -> FloatArray:
        if self.odds:
            return sigmoid(odds_of(keys))
        return (keys >> LAST).view(np.float64)

    def scores(self, start: int, stop: int) -> FloatArray:
        """Return the scores of the given ranks."""
        return self._score_of(self._keys[start:stop])

    def edge(self, rank: int) -> float:
        """Set the bin edge between the scores of rank - 1 and rank as
        ``binning.mass_edges`` does.
        """
        below, above = self.scores(rank - 1, rank + 1).tolist()
        if len(starts_of_ties(np.array([below, above]))) > 1:
            return 0.5 * (below + above)
        # The cut falls among tied scores: find the largest of them.
        for start in range(rank, self.n, AT_ONCE):
            scores = np.append(below, self.scores(start, start + AT_ONCE))
            first = starts_of_ties(scores)
            if len(first) > 1:
                return float(scores[first[1] - 1])
            below = float(scores[-1])
        return below

    def slabs(
        self, score_of: Callable[[Keys], FloatArray] | None = None
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Iterate over scores and outcomes in order, some rows at a time.

        score_of : maps keys to scores.
        """
        for start in range(0, self.n, AT_ONCE):
            keys = self._keys[start : start + AT_ONCE]
            scores = self._score_of(keys) if score_of is None else score_of(keys)
            yield scores, (keys & LAST).astype(np.float64)

    def ranked(self, by_odds: bool = False) -> Ranked:
        """Rank rows by score, or by log-odds, of which more are distinct."""
        score_of = odds_of if by_odds else self._score_of
        walk = partial(self._tie_blocks, score_of, float(by_odds))
        return Ranked(float(self._right), float(self.n - self._right), walk)

    def _tie_blocks(
        self, score_of: Callable[[Keys], FloatArray], least: float
    ) -> Iterator[TieBlocks]:
        """Iterate over tie blocks. least : as for ``numerics.starts_of_ties``."""
        waiting: TieBlocks | None = None  # the last score, which more rows may have
        for scores, outcomes in self.slabs(score_of):
            first = starts_of_ties(scores, least)
            right = np.add.reduceat(outcomes, first)
            size = np.diff(np.append(first, len(scores))).astype(np.float64)
            last = ends_of_runs(first, len(scores))
            blocks = TieBlocks(scores[last], right, size - right)
            if waiting is not None:
                neighbours = np.array([waiting.score[0], scores[0]])
                if len(starts_of_ties(neighbours, least)) == 1:
                    blocks.right[0] += waiting.right[0]
                    blocks.wrong[0] += waiting.wrong[0]
                else:
                    yield waiting
            if len(first) > 1:
                yield TieBlocks(blocks.score[:-1], blocks.right[:-1], blocks.wrong[:-1])
            waiting = TieBlocks(blocks.score[-1:], blocks.right[-1:], blocks.wrong[-1:])
        if waiting is not None:
            yield waiting

    def sums(self, ranks: NDArray[np.int64]) -> FloatArray:
        """Sum scores between neighbouring ranks, (len(ranks) - 1,); ranks ascending
        from 0 to n.
        """
        total = np.zeros(len(ranks))
        for start in range(0, self.n, AT_ONCE):
            part = self.scores(start, start + AT_ONCE)
            rank = np.arange(start, start + len(part))
            which = np.searchsorted(ranks, rank, side="right") - 1
            total += np.bincount(which, weights=part, minlength=len(ranks))
        return total[:-1]
