"""Isotonic regression of 0/1 outcomes on scores, for calibrators and diagrams."""

from dataclasses import dataclass

import numpy as np

from calcli.numerics import (
    TIE,
    BoolArray,
    FloatArray,
    IntArray,
    ends_of_runs,
    tie_groups,
)

_PASSES = 60  # vectorised pooling passes before the linear-time loop takes over


def pool_adjacent_violators(
    total: FloatArray, mass: FloatArray, begins: BoolArray | None = None
) -> IntArray:
    """First index of every block of the isotonic (non-decreasing) least-squares fit.

    total : (n,) weighted sums of the response. mass : (n,) weights, all > 0. begins : (n,) True where a new,
    independent sequence starts: many sequences laid end to end are fitted in one call. Returns (blocks,) int64; a
    block's fitted value is its sum of ``total`` over its sum of ``mass``.

    Whole non-increasing runs are pooled at once, all sequences together: the order in which violators are pooled does
    not change the fit, and a dozen passes over shrinking arrays replace a loop over all rows. Sequences that would need
    many passes are finished by the usual stack in linear time.

    Reference: Barlow, Bartholomew, Bremner, Brunk (1972), section 1.2.

    >>> pool_adjacent_violators(np.array([0., 1., 0., 1.]), np.ones(4)).tolist()
    [0, 1, 3]
    """
    start = np.arange(len(total), dtype=np.int64)
    fresh = np.zeros(len(total), dtype=np.bool_) if begins is None else begins
    for _ in range(_PASSES):
        # Cross products compare the means without the rounding of a division.
        violates = total[:-1] * mass[1:] >= total[1:] * mass[:-1]
        violates &= ~fresh[1:]
        if not violates.any():
            return start
        first = np.flatnonzero(np.concatenate([[True], ~violates]))
        total = np.add.reduceat(total, first)
        mass = np.add.reduceat(mass, first)
        start = start[first]
        fresh = fresh[first]
    stack: list[tuple[int, float, float]] = []
    for begin, s, m, new in zip(
        start.tolist(), total.tolist(), mass.tolist(), fresh.tolist(), strict=True
    ):
        while not new and stack and stack[-1][1] * m >= s * stack[-1][2]:
            begin, s_left, m_left = stack.pop()
            s += s_left
            m += m_left
            new = begins is not None and bool(begins[begin])
        stack.append((begin, s, m))
    return np.array([block[0] for block in stack], dtype=np.int64)


@dataclass(frozen=True)
class IsotonicFit:
    """Blocks of constant fitted accuracy, from the least to the most confident.

    low, high : (b,) smallest and largest confidence in the block. value : (b,) fitted
    accuracy, increasing. weight : (b,) (the number of rows without weights).
    """

    low: FloatArray
    high: FloatArray
    value: FloatArray
    weight: FloatArray

    @property
    def knots(self) -> tuple[FloatArray, FloatArray]:
        """The curve as a polyline (x, y): flat on each block, straight from one block
        to the next.
        """
        x = np.stack([self.low, self.high], axis=1).ravel()
        y = np.repeat(self.value, 2)
        keep = np.concatenate([[True], (np.diff(x) > 0) | (np.diff(y) > 0)])
        return x[keep], y[keep]

    def at(self, confidence: FloatArray) -> FloatArray:
        """Fitted accuracy at confidences, linear between blocks, constant beyond the
        ends.
        """
        return np.interp(confidence, *self.knots)


def fit_isotonic(
    confidence: FloatArray,
    correct: FloatArray,
    weight: FloatArray | None = None,
    least: float = 0.0,
) -> IsotonicFit:
    """Isotonic regression of 0/1 outcomes on confidences: the CORP reliability curve.

    confidence : (n,) in [0, 1]. correct : (n,) 0/1. weight : (n,) >= 0 or None.
    Confidences equal but for rounding (see ``numerics.starts_of_ties``, of least) are
    one point. Rows of weight 0 do not count. Reference: Dimitriadis, Gneiting, Jordan
    (2021), PNAS 118(8), equation 2.
    """
    if weight is not None:
        used = weight > 0
        confidence = confidence[used]
        correct = correct[used]
        weight = weight[used]
    x, index = tie_groups(confidence, least)
    mass = np.bincount(index, weights=weight, minlength=len(x)).astype(np.float64)
    right = np.asarray(
        correct if weight is None else correct * weight, dtype=np.float64
    )
    hits = np.bincount(index, weights=right, minlength=len(x)).astype(np.float64)
    return _pooled(x, x, hits, mass)


def _pooled(
    low: FloatArray, high: FloatArray, hits: FloatArray, mass: FloatArray
) -> IsotonicFit:
    """Isotonic fit to ascending intervals of scores [low, high] with total weight
    ``mass``, ``hits`` of it right.
    """
    first = pool_adjacent_violators(hits, mass)
    last = ends_of_runs(first, len(low))
    block_mass = np.add.reduceat(mass, first)
    value = np.minimum(np.add.reduceat(hits, first) / block_mass, 1.0)
    return IsotonicFit(low[first], high[last], value, block_mass)


class PooledOutcomes:
    """Streaming isotonic regression of 0/1 outcomes: neither sorted nor in memory at
    once.

    Sorted by score, a block of the fit can only begin at a score that has a positive
    outcome: anywhere else the next outcome is no larger than the one before and the two
    are pooled. It is therefore enough to know, for every distinct score of a positive,
    how much negative weight lies between it and the next one, and where that stretch
    ends. These sums are exact, add over blocks of rows, and are as many as there are
    positives: one map over all n x k pairs needs no sort of n x k numbers.

    positive : (m,) scores of the positive outcomes, >= 0, any order; weight : (m,) or
    None (1 each). Add the negatives with ``add_negative``, in any order and any number
    of calls.
    """

    def __init__(self, positive: FloatArray, weight: FloatArray | None = None) -> None:
        self.start, which = tie_groups(positive)
        ones = np.bincount(which, weights=weight, minlength=len(self.start))
        # Group 0 holds the negatives below every positive; group j + 1 starts at start[j].
        self.ones = np.concatenate([[0.0], ones])
        self.zeros = np.zeros(len(self.start) + 1)
        self.end = np.concatenate([[-np.inf], self.start])
        self.least = np.inf

    def add_negative(
        self, scores: FloatArray, weight: FloatArray | None = None
    ) -> None:
        """Add negative outcomes. scores : (m,); weight : (m,) or None (1 each)."""
        if not len(scores):
            return
        group = np.searchsorted(self.start - TIE * self.start, scores, side="right")
        self.zeros += np.bincount(group, weights=weight, minlength=len(self.zeros))
        np.maximum.at(self.end, group, scores)
        self.least = min(self.least, float(scores.min()))

    def fit(self) -> IsotonicFit:
        """Fit to all outcomes added, at least one."""
        mass = self.ones + self.zeros
        used = mass > 0  # there need be no negatives below the first positive
        low = np.concatenate([[self.least], self.start])[used]
        return _pooled(low, self.end[used], self.ones[used], mass[used])
