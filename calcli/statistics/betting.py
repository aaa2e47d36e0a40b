"""Anytime-valid test of calibration with a tolerance: an e-process that may be checked after every batch.

The null hypothesis: given everything before, the chance that a row is right differs from its score by at most the
tolerance. A row's factor compares an alternative, sigmoid(a + b logit c), with the nearest chance that the null
allows; its mean is at most 1 under the null. Products of factors over units are therefore test
martingales, and the chance that the evidence ever reaches 1/level is at most ``level`` (Ville's inequality).

Reference: Waudby-Smith, Ramdas (2024), JRSS B 86(1); Shin, Ramdas, Rinaldo (2024), e-detectors; Arnold, Henzi,
Ziegel (2023), JRSS B 85(4).
"""

import math

import numpy as np

from calcli.fast_dataclass import dataclass
from calcli.numerics import FloatArray
from calcli.statistics.units import Units

SHIFTS = (0.0, 0.25, -0.25, 0.5, -0.5, 1.0, -1.0)
SLOPES = (0.4, 0.6, 0.8, 1.0, 1.25, 1.6)
PAIRS = [(a, b) for a in SHIFTS for b in SLOPES]
KEPT = np.array([i for i, pair in enumerate(PAIRS) if pair != (0.0, 1.0)])
ALTERNATIVES = np.array(PAIRS)[
    KEPT
]  # shifts a and slopes b of log-odds of calibrated scores, (41, 2); equal weights
LEAST = 1e-12  # probabilities are clipped this far from 0 and 1, so that no row is infinite evidence
ROWS_AT_ONCE = 1 << 13
PRODUCT = 16  # factors, each in [1e-12, 1e12], multiplied before a logarithm is taken


def factors(score: FloatArray, outcome: FloatArray, tolerance: float) -> FloatArray:
    """Betting factor of every row under every alternative, (n, 41). score : (n,) 0..1. outcome : (n,) 0 or 1."""
    c = np.clip(score, LEAST, 1.0 - LEAST)
    log_odds = np.log(c / (1.0 - c))
    # odds of wrong to right under the alternative, exp(-a) exp(-b log_odds)
    by_slope = np.exp(-log_odds[:, None] * np.array(SLOPES))
    odds = (np.exp(-np.array(SHIFTS))[:, None] * by_slope[:, None, :]).reshape(
        len(c), -1
    )[:, KEPT]
    q = np.clip(1.0 / (1.0 + odds), LEAST, 1.0 - LEAST)
    low, high = np.maximum(c - tolerance, LEAST), np.minimum(c + tolerance, 1.0 - LEAST)
    allowed = np.clip(q, low[:, None], high[:, None])
    wrong = outcome < 0.5
    q[wrong], allowed[wrong] = 1.0 - q[wrong], 1.0 - allowed[wrong]
    return np.divide(q, allowed, out=q)


def batch_log_factors(
    score: FloatArray, outcome: FloatArray, tolerance: float, units: Units | None = None
) -> FloatArray:
    """Log factor of a batch under every alternative, (41,): product over rows, or over units of the mean of their rows.

    The mean is valid whatever the dependence within a unit.
    """
    total = np.zeros(len(ALTERNATIVES))
    if units is None or units.single:
        for at in range(0, len(score), ROWS_AT_ONCE):
            here = slice(at, at + ROWS_AT_ONCE)
            total += _log_product(factors(score[here], outcome[here], tolerance))
        return total
    ends = units.starts + units.count
    low = 0
    while low < units.n:
        first = int(units.starts[low])
        high = max(
            low + 1, int(np.searchsorted(ends, first + ROWS_AT_ONCE, side="right"))
        )
        rows = units.order[first : ends[high - 1]]
        each = np.add.reduceat(
            factors(score[rows], outcome[rows], tolerance),
            units.starts[low:high] - first,
            axis=0,
        )
        total += _log_product(each / units.count[low:high, None])
        low = high
    return total


def _log_product(each: FloatArray) -> FloatArray:
    """Log of the product over the rows of an array (n, 41)."""
    return np.asarray(
        np.log(
            np.multiply.reduceat(each, np.arange(0, len(each), PRODUCT), axis=0)
        ).sum(axis=0)
    )


@dataclass(frozen=True)
class Evidence:
    """Evidence against calibration after some batches, mixed over the unknown start of the change."""

    batches: int
    log_sums: FloatArray  # (41,) log of sum over starts j of the product of factors since j, times 1/(j (j + 1))
    log_best: FloatArray  # (41,) the largest term of that sum
    best_start: FloatArray  # (41,) its start

    @classmethod
    def none(cls) -> "Evidence":
        """Evidence before the first batch."""
        nothing = np.full(len(ALTERNATIVES), -np.inf)
        return cls(0, nothing, nothing, np.zeros(len(ALTERNATIVES)))

    def after(self, log_factor: FloatArray) -> "Evidence":
        """Evidence after one more batch: S_j = (S_{j-1} + w_j) L_j."""
        j = self.batches + 1
        start = -math.log(j * (j + 1.0))
        fresh = start > self.log_best
        sums, best = (
            np.logaddexp(self.log_sums, start),
            np.where(fresh, start, self.log_best),
        )
        return Evidence(
            j, sums + log_factor, best + log_factor, np.where(fresh, j, self.best_start)
        )

    @property
    def log_e(self) -> float:
        """Log of the evidence E = mean_k S^k + 1/(j + 1), the last term for future changes; 0 before any batch."""
        k = len(ALTERNATIVES)
        return float(
            np.logaddexp(
                np.logaddexp.reduce(self.log_sums) - math.log(k),
                -math.log(self.batches + 1.0),
            )
        )

    @property
    def since(self) -> int:
        """Estimated start of the change: the batch, counted from 1, whose start has most evidence."""
        return int(self.best_start[int(self.log_best.argmax())])
