"""Row tables and score files that the metric tests share. Streams of RandomState never change."""

import numpy as np

from calcli.metrics.catalog import measure
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.rowtable import RowTable
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows


def top_label_table(confidence, correct, k=2, weight=None):
    """A row table that holds given confidences and correctness; the rest as for two classes."""
    c, right = np.asarray(confidence, float), np.asarray(correct, float)
    p = np.clip(c, 1e-12, 1 - 1e-12)
    entropy = -p * np.log(p) - (1 - p) * np.log1p(-p)
    return RowTable(
        k=k,
        confidence=c,
        correct=right,
        prediction=np.zeros(len(c), np.int64),
        y=(1 - right).astype(np.int64),
        nll=-np.log(np.where(right == 1, p, 1 - p)),
        brier=2 * (c - right) ** 2,
        entropy=entropy,
        varentropy=p * (1 - p) * np.log(p / (1 - p)) ** 2,
        weight=weight,
    )


def softmax(z):
    """Plain softmax of rows."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def draw_labels(p, rng):
    """One label per row of probabilities."""
    return np.minimum(
        (p.cumsum(axis=1) < rng.random_sample((len(p), 1))).sum(axis=1), p.shape[1] - 1
    )


def measured(p, y, name, kind="probs", **settings):
    """The value of one metric of scores (n, k) with labels."""
    rows = ArrayRows(np.asarray(p), np.asarray(y), kind)
    s = MetricSettings(**settings)
    table = collect(rows, class_bins=s.bins, tops=(2, 3, 5))
    return measure(
        name,
        MetricContext(
            table, s, lambda: class_columns(rows), lambda: class_columns(rows, raw=True)
        ),
    )


def edge_scores():
    """Probabilities that are multiples of 1/64, many of them on bin edges: (400, 5), labels."""
    rng = np.random.RandomState(7)
    p = softmax(rng.normal(size=(400, 5)) * 2)
    q = np.floor(p * 64)
    q[np.arange(400), p.argmax(1)] += 64 - q.sum(1)
    return q / 64, draw_labels(p, rng)


def plain_scores():
    """Overconfident probabilities without ties: (600, 4), labels."""
    rng = np.random.RandomState(11)
    z = rng.normal(size=(600, 4)) * 1.5
    return softmax(z), draw_labels(softmax(0.7 * z), rng)
