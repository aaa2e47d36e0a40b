"""The law of a weighted sum of few outcomes.

The outcomes y of rows with chances p are summed with weights w. Where few rows carry
the sum it is no normal variable: it moves in jumps, up where a row of small chance has
y = 1, down where a row of large chance has y = 0. The jumps are of different sizes, and
are replaced by jumps of one size c that have the same variance and fourth cumulant:

    c^2 = sum w^4 v / sum w^2 v,  v = p (1 - p)

so that the sum is c times the difference of two Poisson counts (Skellam 1946).
"""

import math
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, row_weights
from calcli.records import Sums

FEW_JUMPS = 30.0  # expected jumps from which a sum is taken as normal
REACH = 12.0  # standard deviations of a count, beyond which its chances are left out


@dataclass(frozen=True)
class JumpSums(Sums):
    """Sums over rows that give the law of sum w (y - p). They add.

    variance : sum w^2 v. fourth : sum w^4 v. rising : the part of the variance of the
    rows with p < 1/2.
    """

    variance: float
    fourth: float
    rising: float

    @classmethod
    def of(cls, chance: FloatArray, weight: FloatArray | None = None) -> "JumpSums":
        """Sums over rows with chances and weights (n,)."""
        spread = chance * (1.0 - chance)
        w = row_weights(weight, len(chance))
        square = w**2 * spread
        fourth = w**4 * spread
        rising = float(square[chance < 0.5].sum())
        return cls(float(square.sum()), float(fourth.sum()), rising)


def jump_p_value(deviation: float, sums: JumpSums, clustering: float = 1.0) -> float:
    """Two-sided p-value of sum w (y - p), by Skellam's law or, of many jumps, normal.

    Between two counts the tails are interpolated. clustering : design effect, by which
    rows that belong together jump in larger steps and more rarely.
    """
    variance = sums.variance * clustering
    if not variance > 0.0:
        return float(abs(deviation) <= 1e-12)
    jumps = expected_jumps(sums) / clustering
    if jumps >= FEW_JUMPS:
        return math.erfc(abs(deviation) / math.sqrt(2.0 * variance))
    rise = jumps * min(sums.rising / sums.variance, 1.0)
    step = clustering * math.sqrt(sums.fourth / sums.variance)
    count = deviation / step + 2.0 * rise - jumps
    below, above = skellam_tails(rise, jumps - rise, count)
    return min(1.0, 2.0 * min(below, above))


def expected_jumps(sums: JumpSums) -> float:
    """Expected number of jumps of one size; infinite where nothing varies."""
    if not sums.fourth > 0.0:
        return math.inf
    return sums.variance * (sums.variance / sums.fourth)  # its square may underflow


def skellam_tails(rise: float, fall: float, count: float) -> tuple[float, float]:
    """P(N <= count) and P(N >= count) of the difference N of two Poisson counts.

    rise, fall : their means, below about 1000. count : any number; the tails of its two
    neighbours are interpolated.
    """
    most = math.ceil(rise + fall + REACH * math.sqrt(rise + fall)) + 30
    law = np.convolve(_poisson(rise, most), _poisson(fall, most)[::-1])  # from -most on
    at_most = np.cumsum(law)
    at_least = np.cumsum(law[::-1])[::-1]
    place = min(max(count + most, 0.0), 2.0 * most)
    nearest = round(place)
    if abs(place - nearest) < 1e-9:  # a whole number but for rounding
        place = float(nearest)
    low = math.floor(place)
    part = place - math.floor(place)
    high = min(low + 1, 2 * most)
    below = (1.0 - part) * at_most[low] + part * at_most[high]
    above = (1.0 - part) * at_least[low] + part * at_least[high]
    return float(below), float(above)


def _poisson(mean: float, most: int) -> FloatArray:
    """Chances of the counts 0 to ``most``."""
    if mean <= 0.0:
        return np.eye(1, most + 1)[0]
    steps = math.log(mean) - np.log(np.arange(1.0, most + 1.0))
    return np.exp(np.concatenate([[0.0], np.cumsum(steps)]) - mean)
