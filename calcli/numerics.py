"""Small numerical tools that several methods and metrics share. NumPy only."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NLL_FLOOR",
    "TINY",
    "FloatArray",
    "IntArray",
    "Root",
    "find_root",
    "floored_log",
    "log_normalizer",
    "log_softmax",
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


def log_normalizer(z: FloatArray) -> FloatArray:
    """Logarithm of the sum of exponentials of each row, safe for logits of any size.

    z : (n, k) float64 logits. Returns (n,) float64.
    """
    top = z.max(axis=1)
    shifted = z - top[:, None]
    np.exp(shifted, out=shifted)
    return np.log(shifted.sum(axis=1)) + top


def log_softmax(z: FloatArray) -> FloatArray:
    """Log-probabilities of each row of logits.

    z : (n, k) float64 logits, natural log, any constant per row. Returns (n, k) float64.
    """
    shifted = z - z.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def softmax(z: FloatArray) -> FloatArray:
    """Probabilities of each row of logits. z : (n, k) float64. Returns (n, k) float64."""
    p = z - z.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


class Root(NamedTuple):
    """Where an increasing function crosses zero, and how the search ended."""

    x: float
    value: float
    evaluations: int
    status: Literal["ok", "at_low", "at_high", "not_converged"]


def find_root(
    f: Callable[[float], tuple[float, float]],
    low: float,
    high: float,
    start: float,
    *,
    step: float = 1e-10,
    flat: float = 0.0,
    limit: int = 100,
) -> Root:
    """Find the root of a non-decreasing function by Newton steps kept inside a bracket.

    f returns its value and its derivative. The bracket shrinks with the sign of every
    value; a Newton step that leaves it, or that shrinks it too slowly, becomes a
    bisection. The ends are evaluated only when the search runs into them, which saves
    two passes over the data in the ordinary case.

    The search stops when a step is at most ``step`` (absolute, in the units of x) or
    when \\|f\\| <= ``flat``; ``at_low`` / ``at_high`` say that f has no sign change inside.
    """
    lo, hi = low, high
    seen_low = seen_high = False  # has f been seen negative (below the root) / positive?
    x = min(max(start, low), high)
    last_width = hi - lo
    for evaluations in range(1, limit + 1):
        value, slope = f(x)
        if abs(value) <= flat:
            # A flat stretch at zero outside the data's range is not a root found by chance.
            return Root(x, value, evaluations, "ok")
        if value < 0:
            if x >= high:
                return Root(high, value, evaluations, "at_high")
            lo, seen_low = x, True
        else:
            if x <= low:
                return Root(low, value, evaluations, "at_low")
            hi, seen_high = x, True
        newton = x - value / slope if slope > 0 else np.inf * -value
        if lo < newton < hi:
            following = newton
        elif not (seen_low and seen_high):
            # One side only is known: look at the end itself before halving towards it.
            following = high if value < 0 else low
        else:
            following = 0.5 * (lo + hi)
        if seen_low and seen_high:
            width = hi - lo
            if evaluations > 8 and width > 0.5 * last_width and abs(newton - x) > step:
                following = 0.5 * (lo + hi)
            last_width = width
        if abs(following - x) <= step:
            return Root(following, value, evaluations, "ok")
        x = following
    return Root(x, value, limit, "not_converged")
