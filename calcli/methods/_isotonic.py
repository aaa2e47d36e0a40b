"""Isotonic regression of 0/1 outcomes that need not be sorted, nor be in memory at once.

Sorted by score, a block of the isotonic fit can only begin at a score that has a
positive outcome: anywhere else the next outcome is no larger than the one before and the
two are pooled. It is therefore enough to know, for every distinct score of a positive,
how much negative weight lies between it and the next one, and where that stretch ends.
These sums are exact, add over blocks of rows, and are as many as there are positives:
one map over all n x k pairs needs no sort of n x k numbers.
"""

import numpy as np

from calcli.numerics import FloatArray


class PooledOutcomes:
    """Sums between the scores of positives.

    positive : (m,) scores of the positive outcomes, any order; weight : (m,) or None (1 each).
    Add the negatives with ``add_negative``, in any order and any number of calls.
    """

    def __init__(self, positive: FloatArray, weight: FloatArray | None = None) -> None:
        self.start, which = np.unique(positive, return_inverse=True)
        ones = np.bincount(which, weights=weight, minlength=len(self.start))
        # Group 0 holds the negatives below every positive; group j + 1 starts at start[j].
        self.ones = np.concatenate([[0.0], ones])
        self.zeros = np.zeros(len(self.start) + 1)
        self.end = np.concatenate([[-np.inf], self.start])
        self.least = np.inf

    def add_negative(self, scores: FloatArray, weight: FloatArray | None = None) -> None:
        """Take in negative outcomes. scores : (m,); weight : (m,) or None (1 each)."""
        if not len(scores):
            return
        group = np.searchsorted(self.start, scores, side="right")
        self.zeros += np.bincount(group, weights=weight, minlength=len(self.zeros))
        np.maximum.at(self.end, group, scores)
        self.least = min(self.least, float(scores.min()))

    def knots(self) -> tuple[FloatArray, FloatArray]:
        """Scores and values of the fit, (m,) each, strictly increasing scores.

        Every block of pooled outcomes gives its first and its last score (once, if they
        are equal). There is at least one outcome.
        """
        stack: list[tuple[float, float, float, float]] = []  # ones, mass, first score, last score
        first = np.concatenate([[self.least], self.start])
        groups = zip(self.ones.tolist(), self.zeros.tolist(), first.tolist(), self.end.tolist(), strict=True)
        for ones, zeros, low, high in groups:
            mass = ones + zeros
            if mass <= 0:
                continue  # no negatives below the first positive
            # Cross products compare the means without the rounding of a division.
            while stack and stack[-1][0] * mass >= ones * stack[-1][1]:
                left = stack.pop()
                ones, mass, low = ones + left[0], mass + left[1], left[2]
            stack.append((ones, mass, low, high))
        x: list[float] = []
        y: list[float] = []
        for ones, mass, low, high in stack:
            x += [low] if low == high else [low, high]
            y += [ones / mass] if low == high else [ones / mass] * 2
        return np.array(x), np.array(y)


def fit_isotonic(scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Knots (scores, values) of the isotonic regression of 0/1 outcomes, ties merged first.

    scores, outcomes, weight : (n,), n >= 1. Values lie in [0, 1] and increase.
    """
    hit = outcomes > 0
    pooled = PooledOutcomes(scores[hit], None if weight is None else weight[hit])
    pooled.add_negative(scores[~hit], None if weight is None else weight[~hit])
    return pooled.knots()
