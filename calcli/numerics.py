"""Small numerical tools that several methods and metrics share. NumPy only."""

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NLL_FLOOR",
    "TINY",
    "FloatArray",
    "IntArray",
    "floored_log",
    "log_normalizer",
    "log_softmax",
    "mixed_with_uniform",
    "row_max",
    "softmax",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TINY = float(np.finfo(np.float64).tiny)
"""Floor under probabilities before a logarithm is taken: the smallest normal float64."""

NLL_FLOOR = 1e-12
"""Floor under the probability of the label in the NLL *metric* only."""


def floored_log(p: FloatArray) -> FloatArray:
    """Logarithm of probabilities with a floor, so that a zero stays finite (-708.4)."""
    return np.log(np.maximum(p, TINY))


FEW_COLUMNS = 32
"""Columns up to which a maximum per row is taken column by column, many times as fast."""


def row_max(z: FloatArray) -> FloatArray:
    """Largest entry of each row. z : (n, k), k >= 1. Returns (n,), exactly ``z.max(axis=1)``."""
    if z.shape[1] > FEW_COLUMNS:
        return np.asarray(z.max(axis=1))
    top: FloatArray = z[:, 0].copy()
    for c in range(1, z.shape[1]):
        np.maximum(top, z[:, c], out=top)
    return top


def log_normalizer(z: FloatArray) -> FloatArray:
    """Logarithm of the sum of exponentials of each row, safe for logits of any size.

    z : (n, k) float64 logits. Returns (n,) float64.
    """
    top = row_max(z)
    shifted = z - top[:, None]
    np.exp(shifted, out=shifted)
    return np.log(shifted.sum(axis=1)) + top


def log_softmax(z: FloatArray) -> FloatArray:
    """Log-probabilities of each row of logits.

    z : (n, k) float64 logits, natural log, any constant per row. Returns (n, k) float64.
    """
    shifted = z - row_max(z)[:, None]
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def softmax(z: FloatArray) -> FloatArray:
    """Probabilities of each row of logits. z : (n, k) float64. Returns (n, k) float64."""
    p = z - row_max(z)[:, None]
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def mixed_with_uniform(log_p: FloatArray, share: float) -> FloatArray:
    """log((1 - share) p + share / k): no probability is below share / k. log_p : (n, k), overwritten."""
    if share > 0:
        log_p += np.log1p(-share)
        np.logaddexp(log_p, np.log(share / log_p.shape[1]), out=log_p)
    return log_p
