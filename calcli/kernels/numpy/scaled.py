"""Probabilities at one temperature, in the type in which they will be written."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, IntArray, store, tile_rows


def softmax_at(
    scores: NDArray[Any], beta: float, label: IntArray | None, dtype: np.dtype[Any]
) -> tuple[NDArray[Any], FloatArray, IntArray]:
    """softmax(beta z) of logits or log-probabilities, and the probability of one class of every row.

    scores : (b, k). label : (b,) that class, None for the largest. Computed in float64, row by row the
    same whatever the rows beside. Returns (b, k) ``dtype``, (b,) float64, (b,) classes.
    """
    n, k = scores.shape
    out, confidence, top = np.empty((n, k), dtype), np.empty(n), np.empty(n, dtype=np.int64)
    step = tile_rows(k)
    room = np.empty((min(step, n), k))
    for at in range(0, n, step):
        some = slice(at, min(at + step, n))
        z = scores[some]
        here = np.arange(len(z))
        e = room[: len(z)]
        e[...] = z
        top[some] = e.argmax(axis=1)
        e -= e[here, top[some]][:, None]
        e *= beta
        np.exp(e, out=e)
        norm = e.sum(axis=1)
        e /= norm[:, None]
        confidence[some] = e[here, top[some] if label is None else label[some]]
        store(out[some], e)
    return out, np.minimum(confidence, 1.0, out=confidence), top if label is None else label
