"""Calibration errors of a few values or of bins, and what a calibrator gives before it is normalised."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Log-probabilities (n, k) with labels (n,)."""

    z: np.ndarray
    y: np.ndarray

    def at(self, index):
        return Rows(self.z[index], self.y[index])


def log_sigmoid(s):
    return -np.logaddexp(0.0, -s)


def one_vs_rest(z):
    """Log-odds of each class, (n, k), without the detour over a probability that rounds to one."""
    columns = range(z.shape[1])
    return np.stack(
        [
            z[:, c] - np.logaddexp.reduce(np.delete(z, c, axis=1), axis=1)
            for c in columns
        ],
        axis=1,
    )


def top(calibrator, rows):
    """(n,) confidence in the predicted class, and whether it is right."""
    p, label = calibrator.predict_proba(rows.z), calibrator.predict(rows.z)
    return p[np.arange(len(label)), label], (label == rows.y).astype(float)


def own_values(calibrator, rows, odds=None):
    """(n, k) values of each class's bins before a row is divided by its sum, from the artifact's parameters.

    The paper measures these; ``predict_proba`` gives what a user gets. odds : ``one_vs_rest`` of the rows.
    """
    params = calibrator.params
    if params.get("temperature"):
        odds = one_vs_rest(rows.z / params["temperature"])
    elif odds is None:
        odds = one_vs_rest(rows.z)
    out = np.empty(odds.shape)
    for c, (edges, values) in enumerate(
        zip(params["edges"], params["values"], strict=True)
    ):
        s = odds[:, c]
        if "slope" in params:
            s = params["slope"][c] * s + params["intercept"][c]
        out[:, c] = (
            np.array(values)[places(np.exp(log_sigmoid(s)), edges)]
            if len(edges)
            else np.exp(log_sigmoid(s))
        )
    return out


def mass_edges(values, bins):
    """Edges of bins that hold equally many values, midway between neighbours; ties merge bins."""
    chunks = [chunk for chunk in np.array_split(np.sort(values), bins) if len(chunk)]
    inner = np.unique([*(0.5 * (a[-1] + b[0]) for a, b in pairwise(chunks)), 1.0])
    return np.concatenate([[0.0], inner[inner > 0.0]])


def places(values, edges):
    """Bin of each value; bins are closed on the right."""
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)


class Errors(NamedTuple):
    """l1 and l2 over bins, and the squared l2 without its sampling bias, which may be negative."""

    l1: np.ndarray
    l2: np.ndarray
    debiased: np.ndarray


def errors(count, score, hits):
    """``Errors`` from (…, bins) counts, summed scores and summed outcomes. Definitions 2.3 and 5.1 of the paper.

    Bins with fewer than two rows have no variance and leave the debiased error.
    """
    n = np.maximum(count, 1)
    share = count / count.sum(axis=-1, keepdims=True)
    gap = np.abs(score - hits) / n
    rate = hits / n
    unbiased = np.where(
        count > 1, gap**2 - rate * (1 - rate) / np.maximum(n - 1, 1), 0.0
    )
    return Errors(
        (share * gap).sum(-1),
        np.sqrt((share * gap**2).sum(-1)),
        (share * unbiased).sum(-1),
    )


def binned(values, hits, edges):
    """``Errors`` over bins of the values."""
    at, bins = places(values, edges), len(edges) - 1
    return errors(*(np.bincount(at, weights, bins) for weights in (None, values, hits)))


def distinct(values, hits):
    """``Errors`` where every distinct value is a bin: equations 7 and 8 for calibrators with few values."""
    _, at = np.unique(np.round(values, 12), return_inverse=True)
    return errors(*(np.bincount(at, weights) for weights in (None, values, hits)))


def marginal(values, labels):
    """Mean over classes of the debiased and plugin squared errors, and of the squared difference."""
    hits = (labels[:, None] == np.arange(values.shape[1])).astype(float)
    each = [distinct(v, h) for v, h in zip(values.T, hits.T, strict=True)]
    return (
        float(np.mean([e.debiased for e in each])),
        float(np.mean([e.l2**2 for e in each])),
        float(np.mean((values - hits) ** 2)),
    )
