"""External sort of the scores of more rows than memory holds.

Sorted runs are written to an unlinked temporary file as the rows arrive, and merged into one. A row takes 8 bytes: the
bits of a score in [0, 1], which sort as the score does, shifted left by one to make room for the outcome.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calcli.io.spool import Spool
from calcli.numerics import FloatArray, sigmoid, starts_of_ties
from calcli.statistics.ties import Ranked, TieBlocks

Keys = NDArray[np.uint64]

AT_ONCE = 1 << 18  # sorted rows that are read at once
RUN = 1 << 20  # rows of a run
MERGED = 1 << 21  # rows of all runs together in memory during the merge
FEWEST = 1 << 10  # fewest rows of a run that are read at once


def keys_of(scores: FloatArray, outcomes: FloatArray) -> Keys:
    """Sort keys of scores in [0, 1] with outcomes 0/1, (n,) each."""
    bits = np.ascontiguousarray(scores + 0.0).view(np.uint64)  # + 0.0 makes -0.0 a 0.0
    return np.asarray((bits << np.uint64(1)) | (outcomes > 0).astype(np.uint64))


SIGN, LAST = np.uint64(1 << 63), np.uint64(1)


def keys_of_odds(odds: FloatArray, outcomes: FloatArray) -> Keys:
    """Sort keys of numbers of either sign with outcomes 0/1, (n,) each; the last bit of a number is lost."""
    bits = np.ascontiguousarray(odds + 0.0).view(np.uint64)
    ordered = np.where(bits & SIGN, ~bits, bits | SIGN)
    return np.asarray((ordered & ~LAST) | (outcomes > 0).astype(np.uint64))


def odds_of(keys: Keys) -> FloatArray:
    """Numbers of the keys that ``keys_of_odds`` makes."""
    ordered = keys & ~LAST
    return np.where(ordered & SIGN, ordered ^ SIGN, ~ordered).view(np.float64)


WHY = (
    "the order of so many rows is made there; name another folder with TMPDIR, or ask for metrics that need no order,"
    " e.g. --metric ece --metric nll"
)


class Runs:
    """Sorted runs on disk, deleted when closed."""

    def __init__(self) -> None:
        self._spool = Spool(np.dtype(np.uint64), WHY)
        self.close = self._spool.close
        self._ends: list[int] = []
        self._waiting: list[Keys] = []

    def take(self, keys: Keys) -> None:
        """Append rows in any order."""
        self._waiting.append(keys)
        if sum(map(len, self._waiting)) >= RUN:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            run = np.concatenate(self._waiting)
            run.sort()
            self._waiting = []
            self._spool.add(run)
            self._ends.append(self._spool.count)

    def merged(self, odds: bool = False) -> "SortedRows":
        """Merge the runs into all rows in order, and delete them. odds : the keys are of log-odds."""
        self._flush()
        out = SortedRows(odds)
        try:
            for keys in self._in_order():
                out.take(keys)
        except BaseException:
            out.close()
            raise
        self.close()
        return out

    def _in_order(self) -> Iterator[Keys]:
        ends = np.array(self._ends)
        at = np.concatenate([[0], ends[:-1]])
        size = max(FEWEST, MERGED // max(1, len(ends)))
        held: list[Keys] = [np.empty(0, np.uint64)] * len(ends)
        while True:
            for r in np.flatnonzero(at < ends).tolist():
                if not len(held[r]):
                    stop = min(int(at[r]) + size, int(ends[r]))
                    held[r] = self._spool.read(int(at[r]), stop)
                    at[r] = stop
            # Keys up to the least of the last keys held of unfinished runs are final: no unread key precedes them.
            unfinished = [held[r][-1] for r in np.flatnonzero(at < ends).tolist()]
            limit = min(unfinished, default=None)
            counts = [
                len(keys)
                if limit is None
                else int(np.searchsorted(keys, limit, side="right"))
                for keys in held
            ]
            merged = np.concatenate(
                [keys[:count] for keys, count in zip(held, counts, strict=True)]
            )
            merged.sort()
            yield merged
            if limit is None:
                return
            held = [keys[count:] for keys, count in zip(held, counts, strict=True)]


class SortedRows:
    """Rows in the order of their scores, on disk. odds : they are kept as log-odds."""

    def __init__(self, odds: bool = False) -> None:
        self.odds = odds
        self._spool = Spool(np.dtype(np.uint64), WHY)
        self.close = self._spool.close
        self._right = 0
        self.distinct, self._last = 0, -1.0

    def take(self, keys: Keys) -> None:
        """Append keys in order, none below those already there."""
        if not len(keys):
            return
        self._spool.add(keys)
        self._right += int((keys & np.uint64(1)).sum())
        score = self._score_of(keys)
        self.distinct += len(starts_of_ties(np.append(self._last, score))) - 1
        self._last = float(score[-1])

    @property
    def n(self) -> int:
        return self._spool.count

    def _score_of(self, keys: Keys) -> FloatArray:
        return (
            sigmoid(odds_of(keys))
            if self.odds
            else (keys >> np.uint64(1)).view(np.float64)
        )

    def scores(self, start: int, stop: int) -> FloatArray:
        """Scores of the given ranks."""
        return self._score_of(self._spool.read(start, stop))

    def edge(self, rank: int) -> float:
        """Bin edge between the scores of rank - 1 and rank, as ``binning.mass_edges`` sets it."""
        below, above = self.scores(rank - 1, rank + 1).tolist()
        if len(starts_of_ties(np.array([below, above]))) > 1:
            return 0.5 * (below + above)
        for start in range(rank, self.n, AT_ONCE):
            scores = np.append(below, self.scores(start, min(start + AT_ONCE, self.n)))
            ends = starts_of_ties(scores)[1:2]
            below = float(scores[ends[0] - 1 if len(ends) else -1])
            if len(ends):
                break
        return below

    def slabs(
        self, score_of: Callable[[Keys], FloatArray] | None = None
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Iterate over scores and outcomes in order, some rows at a time. score_of : maps keys to scores."""
        for start in range(0, self.n, AT_ONCE):
            keys = self._spool.read(start, min(start + AT_ONCE, self.n))
            yield (
                (score_of or self._score_of)(keys),
                (keys & np.uint64(1)).astype(np.float64),
            )

    def ranked(self, by_odds: bool = False) -> Ranked:
        """Rows ranked by score, or by log-odds, of which more are distinct."""
        walk = partial(
            self._tie_blocks, odds_of if by_odds else self._score_of, float(by_odds)
        )
        return Ranked(float(self._right), float(self.n - self._right), walk)

    def _tie_blocks(
        self, score_of: Callable[[Keys], FloatArray], least: float
    ) -> Iterator[TieBlocks]:
        """Tie blocks by the scores that ``score_of`` makes of keys; least : as for ``numerics.starts_of_ties``."""
        waiting: TieBlocks | None = None  # the last score, which more rows may have
        for scores, outcomes in self.slabs(score_of):
            first = starts_of_ties(scores, least)
            right = np.add.reduceat(outcomes, first)
            size = np.diff(np.append(first, len(scores))).astype(np.float64)
            found = TieBlocks(
                scores[np.append(first[1:], len(scores)) - 1], right, size - right
            )
            if waiting is not None:
                if (
                    len(starts_of_ties(np.array([waiting.score[0], scores[0]]), least))
                    == 1
                ):
                    found.right[0] += waiting.right[0]
                    found.wrong[0] += waiting.wrong[0]
                else:
                    yield waiting
            if len(first) > 1:
                yield TieBlocks(found.score[:-1], found.right[:-1], found.wrong[:-1])
            waiting = TieBlocks(found.score[-1:], found.right[-1:], found.wrong[-1:])
        if waiting is not None:
            yield waiting

    def sums(self, ranks: NDArray[np.int64]) -> FloatArray:
        """Sums of scores between neighbouring ranks, (len(ranks) - 1,); ranks ascending from 0 to n."""
        total = np.zeros(len(ranks))
        for start in range(0, self.n, AT_ONCE):
            part = self.scores(start, min(start + AT_ONCE, self.n))
            which = (
                np.searchsorted(
                    ranks, np.arange(start, start + len(part)), side="right"
                )
                - 1
            )
            total += np.bincount(which, weights=part, minlength=len(ranks))
        return total[:-1]
