"""Anytime-valid test of calibration with a tolerance: an e-process that may be checked
after every batch.

The null hypothesis: given everything before, the chance that a row is right differs
from its score by at most the tolerance. A row's factor compares an alternative with the
nearest chance that the null allows; its mean is at most 1 under the null, whatever the
alternative. Products of factors over units are therefore test martingales, and the
chance that the evidence ever reaches 1/level is at most ``level`` (Ville's inequality).

Most alternatives bend the log-odds of the score: sigmoid(a + b logit c). They hardly
move a score of 0 or 1, so that rows which are surer than 1 - 4.9e-6 would be no
evidence, however often they are wrong. Four more alternatives therefore keep the score
but cut it at some distance from 0 and 1: what is surer is only as often right as the
cut. Two of them cut what is nearly certain alone, as a softmax that rounds to 1.

Reference: Waudby-Smith, Ramdas (2024), JRSS B 86(1); Shin, Ramdas, Rinaldo (2024),
e-detectors; Arnold, Henzi, Ziegel (2023), JRSS B 85(4).
"""

import math
from dataclasses import dataclass
from itertools import product, starmap
from typing import NamedTuple

import numpy as np

from calcli.numerics import FloatArray
from calcli.statistics.units import Units


class Bend(NamedTuple):
    """Alternative: the log-odds of the score times ``slope``, plus ``shift``."""

    shift: float
    slope: float


class Cut(NamedTuple):
    """Alternative: the score, but no nearer to 0 and 1 than the tolerance plus
    ``margin``; of those alone that are nearer than ``nearest``."""

    margin: float
    nearest: float


SHIFTS = (0.0, 0.25, -0.25, 0.5, -0.5, 1.0, -1.0)
SLOPES = (0.4, 0.6, 0.8, 1.0, 1.25, 1.6)
CALIBRATED = Bend(0.0, 1.0)

BENDS = list(starmap(Bend, product(SHIFTS, SLOPES)))
BENDS.remove(CALIBRATED)
NEARLY_CERTAIN = 5e-6
"""Distance from 0 or 1 within which no bend moves a score by the default tolerance."""

CUTS = [
    Cut(0.03, 0.5),
    Cut(0.08, 0.5),
    Cut(0.03, NEARLY_CERTAIN),
    Cut(0.08, NEARLY_CERTAIN),
]

ALTERNATIVES: tuple[Bend | Cut, ...] = (*BENDS, *CUTS)
"""Equally weighted. State files hold a number for each, in this order: new ones are
added at the end (see ``Evidence.extended``)."""

LEAST = 1e-12
"""Probabilities are clipped this far from 0 and 1: no row is infinite evidence."""

ROWS_AT_ONCE = 1 << 13
PRODUCT = 16  # factors, each in [1e-12, 1e12], multiplied before a logarithm is taken


def factors(score: FloatArray, outcome: FloatArray, tolerance: float) -> FloatArray:
    """Betting factor of every row under every alternative, (n, 45). score : (n,) 0..1.
    outcome : (n,) 0 or 1."""
    c = np.clip(score, LEAST, 1.0 - LEAST)
    q = np.column_stack([_bent(c), _cut(c, tolerance)])
    q = np.clip(q, LEAST, 1.0 - LEAST)
    low = np.maximum(c - tolerance, LEAST)
    high = np.minimum(c + tolerance, 1.0 - LEAST)
    allowed = np.clip(q, low[:, None], high[:, None])
    wrong = outcome < 0.5
    q[wrong], allowed[wrong] = 1.0 - q[wrong], 1.0 - allowed[wrong]
    return np.divide(q, allowed, out=q)


def _bent(c: FloatArray) -> FloatArray:
    """Chance to be right under every alternative of ``BENDS``, (n, 41)."""
    log_odds = np.log(c / (1.0 - c))
    # odds of wrong to right, exp(-a) exp(-b log_odds), for every pair of a and b
    by_slope = np.exp(-log_odds[:, None] * np.array(SLOPES))
    by_shift = np.exp(-np.array(SHIFTS))
    odds = (by_shift[:, None] * by_slope[:, None, :]).reshape(len(c), -1)
    calibrated = SHIFTS.index(CALIBRATED.shift) * len(SLOPES)
    calibrated += SLOPES.index(CALIBRATED.slope)
    return 1.0 / (1.0 + np.delete(odds, calibrated, axis=1))


def _cut(c: FloatArray, tolerance: float) -> FloatArray:
    """Chance to be right under every alternative of ``CUTS``, (n, 4)."""
    columns = []
    for cut in CUTS:
        distance = min(tolerance + cut.margin, 0.5)
        is_cut = np.minimum(c, 1.0 - c) < cut.nearest
        columns.append(np.where(is_cut, np.clip(c, distance, 1.0 - distance), c))
    return np.column_stack(columns)


def batch_log_factors(
    score: FloatArray, outcome: FloatArray, tolerance: float, units: Units | None = None
) -> FloatArray:
    """Log factor of a batch under every alternative, (45,): product over rows, or over
    units of the mean of their rows.

    The mean is valid whatever the dependence within a unit.
    """
    total = np.zeros(len(ALTERNATIVES))
    if units is None or units.single:
        for start in range(0, len(score), ROWS_AT_ONCE):
            here = slice(start, start + ROWS_AT_ONCE)
            total += _log_product(factors(score[here], outcome[here], tolerance))
        return total
    ends = units.starts + units.count
    low = 0
    while low < units.n:
        first = int(units.starts[low])
        last = int(np.searchsorted(ends, first + ROWS_AT_ONCE, side="right"))
        high = max(low + 1, last)
        rows = units.order[first : ends[high - 1]]
        of_rows = factors(score[rows], outcome[rows], tolerance)
        unit_means = np.add.reduceat(of_rows, units.starts[low:high] - first, axis=0)
        total += _log_product(unit_means / units.count[low:high, None])
        low = high
    return total


def _log_product(factors: FloatArray) -> FloatArray:
    """Log of the product over the rows of an array (n, 45)."""
    starts = np.arange(0, len(factors), PRODUCT)
    products = np.multiply.reduceat(factors, starts, axis=0)
    return np.log(products).sum(axis=0)


@dataclass(frozen=True)
class Evidence:
    """Evidence against calibration after some batches, mixed over the unknown start of
    the change.

    log_sums : (45,) log of the sum over starts j of the product of factors since j,
    times 1/(j (j + 1)). log_best : (45,) the largest term of that sum. best_start :
    (45,) its start.
    """

    batches: int
    log_sums: FloatArray
    log_best: FloatArray
    best_start: FloatArray

    @classmethod
    def none(cls) -> "Evidence":
        """Evidence before the first batch."""
        nothing = np.full(len(ALTERNATIVES), -np.inf)
        return cls(0, nothing, nothing, np.zeros(len(ALTERNATIVES)))

    def extended(self) -> "Evidence":
        """The same evidence, of a program with fewer alternatives, for all of them.

        The sums of the former alternatives keep their weight; those of the new ones
        begin at the next batch. E does not change, and stays an e-process: only the
        weight that is reserved for changes in the future is distributed anew.
        """
        former = len(self.log_sums)
        now = len(ALTERNATIVES)
        if former == now:
            return self
        none = np.full(now - former, -np.inf)
        weight = math.log(now) - math.log(former)
        return Evidence(
            self.batches,
            np.append(self.log_sums + weight, none),
            np.append(self.log_best + weight, none),
            np.append(self.best_start, np.zeros(now - former)),
        )

    def after(self, log_factor: FloatArray) -> "Evidence":
        """Evidence after one more batch: S_j = (S_{j-1} + w_j) L_j."""
        j = self.batches + 1
        start = -math.log(j * (j + 1.0))
        fresh = start > self.log_best
        sums = np.logaddexp(self.log_sums, start)
        best = np.where(fresh, start, self.log_best)
        return Evidence(
            batches=j,
            log_sums=sums + log_factor,
            log_best=best + log_factor,
            best_start=np.where(fresh, j, self.best_start),
        )

    @property
    def log_e(self) -> float:
        """Log of the evidence E = mean_k S^k + 1/(j + 1), the last term for future
        changes; 0 before any batch."""
        log_mean = np.logaddexp.reduce(self.log_sums) - math.log(len(ALTERNATIVES))
        return float(np.logaddexp(log_mean, -math.log(self.batches + 1.0)))

    @property
    def since(self) -> int:
        """Estimated start of the change: the batch, counted from 1, whose start has
        most evidence."""
        return int(self.best_start[int(self.log_best.argmax())])
