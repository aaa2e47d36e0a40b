"""From calibrated probabilities of single classes to rows of log-probabilities."""

import numpy as np

from calcli.calibrator import Prediction
from calcli.numerics import TINY, FloatArray, IntArray, floored_log, log_softmax


def logs(q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithms of q and of 1 - q, floored."""
    return floored_log(q), floored_log(1.0 - q)


def share_rest(
    z: FloatArray, label: IntArray, log_q: FloatArray, log_rest: FloatArray
) -> FloatArray:
    """Give q to the label and share 1 - q among the others.

    The shares have softmax's proportions. z : (b, k) logits, label : (b,), log_q and
    log_rest : (b,) logarithms of q and 1 - q. The shares are taken among the other
    classes alone, so they stay exact where 1 - p has no digits left.
    """
    here = np.arange(len(z))
    rest = z.copy()
    rest[here, label] = -np.inf
    out = log_softmax(rest)
    out += log_rest[:, None]
    out[here, label] = log_q
    return out


def normalize(q: FloatArray, z: FloatArray, label: IntArray) -> Prediction:
    """Divide rows of probabilities (b, k) by their sums.

    Rows of zeros become softmax(z) with prediction label.
    """
    total = q.sum(axis=1)
    zero = total < TINY
    log_probs = floored_log(q) - np.log(np.where(zero, 1.0, total))[:, None]
    if not zero.any():
        return Prediction(log_probs, q.argmax(axis=1), {"zero_rows": 0}, floored=True)
    log_probs[zero] = log_softmax(z[zero])
    prediction = np.where(zero, label, q.argmax(axis=1))
    counts = {"zero_rows": int(zero.sum())}
    return Prediction(log_probs, prediction, counts, floored=True)
