"""Labels drawn from a known truth, and the losses of rows."""

import math

import numpy as np


def draw_labels(p, rng):
    """Labels drawn from probabilities (n, k)."""
    chance = rng.random((len(p), 1))
    label = (p.cumsum(axis=1) < chance).sum(axis=1)
    return np.minimum(label, p.shape[1] - 1)


def draw_labels_of_logits(logits, rng):
    """Labels drawn from the softmax of logits (n, k), by Gumbel noise."""
    noise = rng.gumbel(size=logits.shape)
    return (logits + noise).argmax(axis=1)


def row_nll(p, labels, floor=1e-300):
    """NLL of every row, (n,). floor : what smaller probabilities count as."""
    p_label = p[np.arange(len(labels)), labels]
    return -np.log(np.maximum(p_label, floor))


def mean_nll(p, labels, floor=1e-300):
    """Mean NLL of rows."""
    return float(row_nll(p, labels, floor).mean())


def normal_share(values):
    """P(Z <= value) of a standard normal Z, for every value."""
    shares = [0.5 * math.erfc(-value / math.sqrt(2.0)) for value in values]
    return np.array(shares)
