"""Exact retention probability under uniform noise."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from calcli.numerics import TINY, FloatArray, IntArray

NEGLIGIBLE = 24.0
"""Where the product of the factors is below exp(-24), the integral stops: its logarithm is
concave, so its slope there is at least 24, and less than exp(-24) / 24 = 2e-12 is left out."""

NODES = ((0.1, 3), (0.5, 4), (2.0, 6), (8.0, 10), (np.inf, 18))
"""(log variation of the integrand over a piece, Gauss-Legendre nodes). For exp(-v t) on
[0, 1] these leave a relative error below 3e-12; pieces that vary by more than
exp(-NEGLIGIBLE) are shortened first."""


def uniform_retention(d: FloatArray, widths: Sequence[float]) -> FloatArray:
    """Exact retention when every logit gets independent uniform noise, for some widths.

    d : (b, k) gaps, infinite for the top class itself. Returns (b, widths) float64.
    """
    near = max(1, int((d < max(widths)).sum(axis=1).max(initial=0)))
    nearest = np.partition(d, near - 1, axis=1)[:, :near] if near < d.shape[1] else d
    # Classes lie along the first axis: products over them run down contiguous rows of samples.
    ascending = np.ascontiguousarray(np.sort(nearest, axis=1).T)
    return np.stack([_one_width(ascending, width) for width in widths], axis=1)


def _one_width(ascending: FloatArray, width: float) -> FloatArray:
    """Retention of rows whose gaps (near, b) ascend along the first axis, (b,).

    gamma = integral over u in (0, 1) of prod_c min(u + d_c / width, 1). Between
    neighbouring kinks 1 - d_c / width the integrand is a polynomial: the j classes that
    are nearest have factors below 1. We go from u = 1 downwards, kink by kink, all rows
    together, and stop where what is left cannot matter. j factors need (j + 1) / 2
    Gauss-Legendre nodes to be exact; fewer do where the integrand varies little.
    """
    near = int((ascending < width).sum(axis=0).max(initial=0))
    delta = np.minimum(ascending[: max(1, near)] / width, 1.0)
    out = np.array(delta[0])
    rows = np.arange(len(out))
    log_high = np.zeros(len(out))
    factors = _Factors(delta)
    for j in range(1, near + 1):
        high = 1.0 - factors.delta[j - 1]
        low = 1.0 - factors.delta[j] if j < near else np.zeros(len(rows))
        # The next class enters with a factor of 1: the product is continuous at the kink.
        log_low = np.log(np.maximum(factors.product(factors.delta[:j], low), TINY))
        still = (log_high > -NEGLIGIBLE) & (high > 0.0)
        out[rows] += _piece(factors, j, low, high, np.where(still, log_high - log_low, np.nan))
        log_high = log_low
        if 4 * np.count_nonzero(still) < 3 * len(rows):
            rows, log_high = rows[still], log_high[still]
            if not len(rows):
                break
            factors = _Factors(np.ascontiguousarray(factors.delta[:, still]))
    return np.minimum(out, 1.0, out=out)


class _Factors:
    """u + delta_c of the nearest classes, and room for them: memory is taken once, not at every node.

    delta : (classes, rows), ascending.
    """

    def __init__(self, delta: FloatArray) -> None:
        self.delta, self._some, self._room = delta, np.empty(delta.size), np.empty(delta.size)

    def pick(self, j: int, rows: IntArray) -> FloatArray:
        """delta of the j nearest classes of some rows, (j, rows)."""
        if len(rows) == self.delta.shape[1]:
            return self.delta[:j]
        out = self._some[: j * len(rows)].reshape(j, len(rows))
        return np.take(self.delta[:j], rows, axis=1, out=out, mode="clip")

    def at(self, delta: FloatArray, u: FloatArray) -> FloatArray:
        """The factors at u (rows,)."""
        return np.add(delta, u, out=self._room[: delta.size].reshape(delta.shape))

    def product(self, delta: FloatArray, u: FloatArray) -> FloatArray:
        """Their product at u, (rows,)."""
        product: FloatArray = np.multiply.reduce(self.at(delta, u), axis=0)
        return product


def _piece(factors: _Factors, j: int, low: FloatArray, high: FloatArray, variation: FloatArray) -> FloatArray:
    """Integral over (low, high) of the product of j factors; all (rows,).

    variation : of its logarithm, NaN where the integral is not wanted. It alone decides how
    many nodes a row gets: never what the other rows need.
    """
    exact = (j + 2) // 2
    total = np.zeros(len(high))
    least = -np.inf
    for most, nodes in NODES:
        rows = np.flatnonzero((variation > least) & (variation <= most))
        least = most
        if not len(rows):
            continue
        delta, start, end = factors.pick(j, rows), low[rows], high[rows]
        if most == np.inf:
            # log prod is concave: its slope below ``high`` is at least the slope there.
            start = np.maximum(start, end - NEGLIGIBLE / (1.0 / factors.at(delta, end)).sum(axis=0))
        middle, half = 0.5 * (end + start), 0.5 * (end - start)
        part = np.zeros(len(rows))
        for x, w in _legendre(min(nodes, exact)):
            part += w * factors.product(delta, middle + half * x)
        total[rows] = part * half
    return total


@lru_cache
def _legendre(nodes: int) -> tuple[tuple[float, float], ...]:
    at, weight = np.polynomial.legendre.leggauss(nodes)
    return tuple(zip(at.tolist(), weight.tolist(), strict=True))
