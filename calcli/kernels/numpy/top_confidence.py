"""The summary of rows whose prediction has a confidence of its own, without their probabilities being made."""

from functools import partial

import numpy as np

from calcli.fit_summary import Summary
from calcli.numerics import LOG_ZERO, NLL_OF_ZERO, FloatArray, floored_log, tile_rows
from calcli.rows import Block, Rows


def summary_of_confidences(rows: Rows, q: FloatArray) -> Summary:
    """The summary of rows where the prediction has probability q and the others share the rest as softmax does.

    q : (n,) in 0..1. Of two classes or more. Its ``entropy_gap`` is NaN.
    """
    return rows.sum(partial(_of_block, rows.k), q)


def _of_block(k: int, block: Block, q: FloatArray) -> Summary:
    step = tile_rows(k)
    log_share, collision = np.concatenate([_among_others(block.cut(at, at + step)) for at in range(0, len(q), step)], 1)
    right = block.prediction == block.labels
    log_p = np.where(right, floored_log(q), floored_log(1.0 - q) + log_share)
    brier = q**2 + (1.0 - q) ** 2 * collision - 2.0 * np.exp(log_p) + 1.0
    nll = np.where(log_p <= LOG_ZERO, NLL_OF_ZERO, np.maximum(-log_p, 0.0))
    losses = nll, np.maximum(brier, 0.0), np.full(len(q), np.nan)
    return Summary.of(q, right.astype(np.float64), losses, block.labels, k, block.weight)


def _among_others(some: Block) -> FloatArray:
    """Of the classes beside the prediction: log of the label's share (-inf where it is it), and the sum of squares."""
    here = np.arange(len(some))
    rest = np.array(some.z)
    rest[here, some.prediction] = -np.inf
    rest -= rest.max(axis=1, keepdims=True)
    own = rest[here, some.labels]
    np.exp(rest, out=rest)
    norm = rest.sum(axis=1)
    return np.stack([own - np.log(norm), np.einsum("ij,ij->i", rest, rest) / norm**2])
