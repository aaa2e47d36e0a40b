"""Cumulative gaps of sorted scores, and their law under calibration."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calcli.statistics.p_values import vanishes
from calcli.statistics.ties import Ranked


def max_brownian_tail(x: float) -> float:
    """Compute P(max |B(t)|, 0 <= t <= 1, is at least x) for Brownian motion B."""
    if x < 0.2:
        return 1.0
    terms = []
    for j in range(40):
        odd = 2 * j + 1
        term = math.exp(-(odd**2) * math.pi**2 / (8.0 * x * x))
        terms.append((-1) ** j / odd * term)
    inside = sum(terms)
    if x < 3.0:
        return min(1.0, max(0.0, 1.0 - 4.0 / math.pi * inside))
    # Far out the two crossings exclude each other, and the series above would cancel.
    return min(1.0, 2.0 * math.erfc(x / math.sqrt(2.0)))


def range_brownian_tail(x: float) -> float:
    """Compute P(max B - min B over 0 <= t <= 1 is at least x) for Brownian motion B.

    Reference: Feller (1951).
    """
    if x < 0.4:
        return 1.0
    terms = (
        (-1) ** (j - 1) * j * 0.5 * math.erfc(j * x / math.sqrt(2.0))
        for j in range(1, 101)
    )
    return min(1.0, max(0.0, 8.0 * math.fsum(terms)))


def scaled_tail(tail: Callable[[float], float], sigma: float, x: float) -> float:
    """Compute P(sigma X is at least x) where ``tail`` gives P(X >= x).

    Without a spread it is 1 where x vanishes, else 0.
    """
    return tail(x / sigma) if sigma > 0.0 else float(vanishes(x))


@dataclass(frozen=True)
class Cumulative:
    """Cumulative gaps of sorted scores. mad: largest |C_k|; kuiper: their range; sigma:
    null scale.
    """

    mad: float
    kuiper: float
    sigma: float


def cumulative_gaps(ranked: Ranked, variance: float) -> Cumulative:
    """Sum differences C_k = (1/N) sum_{i <= k} (y_i - c_i) in the order of the scores.

    Equal scores count at once, so the order of rows does not matter. ``mad`` is also
    the KS calibration error. variance : sum c (1 - c), weights squared; sigma is its
    root over N.

    Reference: Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu (2022), JMLR 23(351), sections
    2-3; Gupta et al. (2021) for KS.
    """
    total = ranked.right + ranked.wrong
    highest = 0.0
    lowest = 0.0
    largest = 0.0
    end = 0.0
    for block in ranked:
        size = block.right + block.wrong
        path = end + np.cumsum(block.right - size * block.score)
        highest = max(highest, float(path.max()))
        lowest = min(lowest, float(path.min()))
        largest = max(largest, float(np.abs(path).max()))
        end = float(path[-1])
    return Cumulative(
        mad=largest / total,
        kuiper=(highest - lowest) / total,
        sigma=math.sqrt(variance) / total,
    )
