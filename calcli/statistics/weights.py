"""Sample weights in units of effective rows.

What a weight means is known only up to a constant: survey weights sum to a population,
importance weights to 1. Methods hold sums of weights against penalties, priors and
counts of rows. So all weights are brought to one scale where rows enter, and nowhere
else.
"""

import numpy as np

from calcli.numerics import FloatArray

LEAST_SHARE = 1e-70
"""Weight against the largest of all up to which a row does not count: nobody would see
it, and the fourth powers of weights, which tests take, would be 0.
"""


def effective_weights(raw: FloatArray) -> FloatArray | None:
    """Scale weights (n,) so that their sum is the effective number of rows.

    raw : finite numbers from 0. Kish's effective number is (sum w)^2 / sum w^2, which
    a constant factor does not change: the result is w times sum w / sum w^2. Weights
    that are all equal say nothing, and are None. Weights of 0 stay 0; the others do not
    depend on how many there are of them. Those below ``LEAST_SHARE`` become 0.

    Reference: Kish (1965), Survey Sampling, section 8.2.

    >>> effective_weights(np.array([10.0, 30.0]))
    array([0.4, 1.2])
    """
    counted = raw > LEAST_SHARE * raw.max(initial=0.0)
    positive = raw[counted]
    if len(positive) == 0:
        return raw
    if positive.min() == positive.max():
        return None if counted.all() else counted.astype(np.float64)
    weight = positive / positive.max()  # so that no square overflows
    ordered = np.sort(weight)  # rows in any order get the same digits
    weight *= ordered.sum() / (ordered @ ordered)
    if counted.all():
        return weight
    scaled = np.zeros(len(raw))
    scaled[counted] = weight
    return scaled


def effective_number(weight: FloatArray) -> float:
    """Kish's effective number of rows with weights (n,), not all 0.

    >>> effective_number(np.array([1.0, 3.0]))
    1.6
    """
    ordered = np.sort(weight)
    return float(ordered.sum()) ** 2 / float(ordered @ ordered)
