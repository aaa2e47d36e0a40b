"""Maps of a probability that are lists of numbers: steps, and straight lines between knots."""

import numpy as np

from calcli.calibrator import Prediction
from calcli.errors import DataError
from calcli.numerics import TINY, FloatArray, IntArray, floored_log, log_softmax, overridable, sigmoid

EMPTY = np.empty(0)  # edges, values or knots of the map that changes nothing


@overridable
def step(p: FloatArray, edges: FloatArray, values: FloatArray) -> FloatArray:
    """Value of the right-closed bin of each score; no bins at all is the identity."""
    if not len(edges):
        return p
    found: FloatArray = values[np.searchsorted(edges[1:-1], p, side="left")]
    return found


def line(p: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Straight lines between knots, constant beyond the ends; no knots are the identity."""
    if not len(x):
        return p
    # Knots a denormal apart make a slope that overflows: keep the range whatever happens.
    return np.clip(np.interp(p, x, y), 0.0, 1.0)


def check_steps(edges: FloatArray, values: FloatArray, log_odds: FloatArray | None = None) -> None:
    """Raise DataError unless edges (and their log-odds) rise from 0 to 1 with one value per bin between."""
    if len(edges) == len(values) == 0 and log_odds is None:
        return
    if len(edges) != len(values) + 1 or len(edges) < 2:
        raise DataError(f"there are {len(edges)} edges and {len(values)} values, expected one edge more than values")
    rising = (np.diff(edges) > 0).all() if log_odds is None else are_log_odds(log_odds, edges[1:-1])
    if not (edges[0] == 0.0 and edges[-1] == 1.0 and rising):
        raise DataError("edges do not rise from 0 to 1")


def check_line(x: FloatArray, y: FloatArray, log_odds: FloatArray | None = None) -> None:
    """Raise DataError unless knots have rising scores (and log-odds of these) and as many values."""
    if len(x) != len(y):
        raise DataError(f"there are {len(x)} scores and {len(y)} values, expected as many")
    if not ((np.diff(x) > 0).all() if log_odds is None else are_log_odds(log_odds, x)):
        raise DataError("scores of the knots do not rise")


def are_log_odds(s: FloatArray, p: FloatArray) -> bool:
    """Whether s rises and is of these probabilities."""
    return len(s) == len(p) and bool((np.diff(s) > 0).all()) and np.allclose(sigmoid(s), p, rtol=1e-9, atol=0)


# ---- from calibrated probabilities of single classes to rows of log-probabilities


def logs(q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithms of q and of 1 - q, floored."""
    return floored_log(q), floored_log(1.0 - q)


def share_rest(z: FloatArray, label: IntArray, log_q: FloatArray, log_rest: FloatArray) -> FloatArray:
    """Log-probabilities with q on the label and the rest shared in softmax's proportions.

    z : (b, k) logits, label : (b,), log_q and log_rest : (b,) logarithms of q and 1 - q. The shares are taken among the
    other classes alone, so they stay exact where 1 - p has no digits left.
    """
    at = np.arange(len(z))
    rest = z.copy()
    rest[at, label] = -np.inf
    out = log_softmax(rest)
    out += log_rest[:, None]
    out[at, label] = log_q
    return out


def normalize(q: FloatArray, z: FloatArray, label: IntArray) -> Prediction:
    """Rows of probabilities (b, k) divided by their sums; rows of zeros stay as logits z and predictions label say."""
    total = q.sum(axis=1)
    zero = total < TINY
    log_probs = floored_log(q) - np.log(np.where(zero, 1.0, total))[:, None]
    if not zero.any():
        return Prediction(log_probs, q.argmax(axis=1), {"zero_rows": 0}, floored=True)
    log_probs[zero] = log_softmax(z[zero])
    counts = {"zero_rows": int(zero.sum())}
    return Prediction(log_probs, np.where(zero, label, q.argmax(axis=1)), counts, floored=True)
