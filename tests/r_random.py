"""R's default random numbers, so that examples which R packages publish can be redone.

Mersenne Twister with R's own seeding, normal deviates by inversion, and one trial of
``rbinom``. Reference: R Core Team, help page ``Random``.
"""

import numpy as np
from scipy.special import ndtri

STEP = 2.3283064365386963e-10  # 2^-32, which R multiplies its words by
MARGIN = 2.328306437080797e-10  # 1 / (2^32 - 1), the margin that R keeps from 0 and 1
LARGE = 134217728.0  # 2^27, of which R makes the first digits of a normal deviate


class RRandom:
    """The stream of random numbers after ``set.seed(seed)`` in R 3.6 and later."""

    def __init__(self, seed):
        word = seed
        for _ in range(50):
            word = (69069 * word + 1) % 2**32
        words = []
        for _ in range(625):
            word = (69069 * word + 1) % 2**32
            words.append(word)
        self.stream = np.random.RandomState()
        # the first word is the position in the stream, which R sets to its end
        self.stream.set_state(("MT19937", np.array(words[1:], np.uint32), 624))

    def runif(self, n):
        words = self.stream.randint(0, 2**32, size=n, dtype=np.uint32)
        uniform = words.astype(float) * STEP
        return np.clip(uniform, 0.5 * MARGIN, 1.0 - 0.5 * MARGIN)

    def rnorm(self, n):
        first, second = self.runif(2 * n).reshape(n, 2).T
        return ndtri((np.floor(LARGE * first) + second) / LARGE)

    def rbinom_once(self, probability):
        """``rbinom(n, 1, probability)``, by inversion of the smaller probability."""
        uniform = self.runif(len(probability))
        hit = uniform >= 1.0 - np.minimum(probability, 1.0 - probability)
        return np.where(probability > 0.5, ~hit, hit).astype(int)
