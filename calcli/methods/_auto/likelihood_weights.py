"""Weights of a mixture of candidates, by its likelihood on held-out rows."""

import numpy as np

from calcli.numerics import FloatArray

LEAST_WEIGHT = 0.01  # below which a candidate is no member
# EM starts at equal weights, and few steps keep the result near them. The more rows,
# the less that is needed: one step for five rows, within these bounds.
LEAST_STEPS = 200
MOST_STEPS = 1000
ROWS_PER_STEP = 5


def effective_number_of_shares(share: FloatArray) -> float:
    """Kish's effective number of rows of shares (n,) that sum to 1."""
    if share.min() == share.max():
        return float(len(share))  # without rounding
    return 1.0 / float(share @ share)


def likelihood_weights(
    log_p: FloatArray, share: FloatArray, prior_rows: float = 0.0
) -> FloatArray:
    """Mixture weights (m,) by EM from equal ones, with prior weight on the first.

    log_p : (draws, n, m) held-out log-probabilities of the labels. share : (n,) row
    weights, sum 1. prior_rows : prior weight of the first candidate, in rows.
    """
    draws, rows, m = log_p.shape
    n_effective = effective_number_of_shares(share)
    likelihood = np.exp(log_p - log_p.max(axis=2, keepdims=True))
    likelihood = likelihood.reshape(draws * rows, m)
    share = np.tile(share / draws, draws)
    w = np.full(m, 1.0 / m)
    prior = np.eye(m)[0] * prior_rows
    steps = min(max(LEAST_STEPS, round(n_effective) // ROWS_PER_STEP), MOST_STEPS)
    for _ in range(steps):
        w = w * (likelihood.T @ (share / (likelihood @ w)))
        w = (n_effective * w + prior) / (n_effective + prior_rows)
    return np.asarray(w / w.sum())
