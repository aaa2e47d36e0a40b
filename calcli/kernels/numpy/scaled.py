"""Probabilities at one temperature, in the type in which they will be written."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, IntArray, store

__all__ = ["softmax_at"]

TILE_ITEMS = 1 << 15
"""Scores worked on at once: the buffer (256 KiB) stays in a core's L2."""


def softmax_at(
    scores: NDArray[Any], beta: float, label: IntArray | None, dtype: np.dtype[Any]
) -> tuple[NDArray[Any], FloatArray, IntArray]:
    """softmax(beta z) of logits or log-probabilities, and the probability of one class of every row.

    scores : (b, k). label : (b,) that class, None for the largest. Computed in float64, row by row the
    same whatever the rows beside. Returns (b, k) ``dtype``, (b,) float64, (b,) classes.
    """
    n, k = scores.shape
    out, confidence = np.empty((n, k), dtype), np.empty(n)
    top = scores.argmax(axis=1)
    label = top if label is None else label
    step = max(1, TILE_ITEMS // k)
    room = np.empty((min(step, n), k))
    for at in range(0, n, step):
        some = slice(at, min(at + step, n))
        z = scores[some]
        here = np.arange(len(z))
        e = room[: len(z)]
        e[...] = z
        e -= e[here, top[some]][:, None]
        e *= beta
        np.exp(e, out=e)
        norm = e.sum(axis=1)
        e /= norm[:, None]
        confidence[some] = e[here, label[some]]
        store(out[some], e)
    return out, np.minimum(confidence, 1.0, out=confidence), label
