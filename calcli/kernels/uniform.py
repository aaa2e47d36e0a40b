"""Exact retention probability under uniform noise."""

from functools import lru_cache

import numpy as np

from calcli.numerics import TINY, FloatArray

__all__ = ["uniform_retention"]

NEGLIGIBLE = 30.0
"""Where the product of the factors is below exp(-30), the integral stops."""

NODES = ((0.01, 2), (0.1, 3), (0.5, 5), (2.0, 7), (8.0, 12), (np.inf, 24))
"""(log variation of the integrand over a piece, Gauss-Legendre nodes). For exp(-v t) on
[0, 1] these leave a relative error below 3e-12; pieces that vary by more than
exp(-NEGLIGIBLE) are shortened first."""


def uniform_retention(d: FloatArray, width: float) -> FloatArray:
    """Exact retention when every logit gets independent uniform noise of this width.

    d : (b, k) gaps, infinite for the top class itself. Returns (b,) float64.

    gamma = integral over u in (0, 1) of prod_c min(u + d_c / width, 1). Between
    neighbouring kinks 1 - d_c / width the integrand is a polynomial: the j classes that
    are nearest have factors below 1. We go from u = 1 downwards, kink by kink, all rows
    together, and stop where what is left cannot matter. j factors need (j + 1) / 2
    Gauss-Legendre nodes to be exact; fewer do where the integrand varies little.
    """
    near = int((d < width).sum(axis=1).max(initial=0))
    if not near:
        return np.ones(len(d))
    nearest = np.partition(d, near - 1, axis=1)[:, :near] if near < d.shape[1] else d
    # Classes lie along the first axis: products over them run down contiguous rows of samples.
    delta = np.ascontiguousarray(np.minimum(np.sort(nearest, axis=1).T / width, 1.0))
    out = np.array(delta[0])
    rows = np.arange(len(d))
    log_high = np.zeros(len(d))
    for j in range(1, near + 1):
        factors = delta[:j]
        high = 1.0 - delta[j - 1]
        low = 1.0 - delta[j] if j < near else np.zeros(len(rows))
        # The next class enters with a factor of 1: the product is continuous at the kink.
        log_low = np.log(np.maximum((low + factors).prod(axis=0), TINY))
        still = log_high > -NEGLIGIBLE
        out[rows] += _piece(factors, low, high, np.where(still, log_high - log_low, np.nan))
        log_high = log_low
        if 4 * np.count_nonzero(still) < 3 * len(rows):
            rows, log_high, delta = rows[still], log_high[still], np.ascontiguousarray(delta[:, still])
            if not len(rows):
                break
    return np.minimum(out, 1.0, out=out)


def _piece(factors: FloatArray, low: FloatArray, high: FloatArray, variation: FloatArray) -> FloatArray:
    """Integral of prod_i (u + factors_i) over (low, high); factors (j, r), the others (r,)."""
    exact = (len(factors) + 2) // 2
    total = np.zeros(len(high))
    least = -np.inf
    for most, nodes in NODES:
        rows = np.flatnonzero((variation > least) & (variation <= most))
        least = most
        if len(rows):
            part = factors if len(rows) == len(high) else factors[:, rows]
            start = low[rows]
            if most == np.inf:
                # log prod is concave: its slope below ``high`` is at least the slope there.
                slope = (1.0 / (high[rows] + part)).sum(axis=0)
                start = np.maximum(start, high[rows] - NEGLIGIBLE / slope)
            total[rows] = _gauss(part, start, high[rows], min(nodes, exact))
    return total


def _gauss(factors: FloatArray, low: FloatArray, high: FloatArray, nodes: int) -> FloatArray:
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    total = np.zeros(len(high))
    for x, w in _legendre(nodes):
        total += w * ((middle + half * x) + factors).prod(axis=0)
    return total * half


@lru_cache
def _legendre(nodes: int) -> tuple[tuple[float, float], ...]:
    at, weight = np.polynomial.legendre.leggauss(nodes)
    return tuple(zip(at.tolist(), weight.tolist(), strict=True))
