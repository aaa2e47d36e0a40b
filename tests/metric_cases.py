"""Row tables and score files that the metric tests share. Streams of RandomState never change."""

from functools import partial

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
    confidence = np.asarray(confidence, float)
    correct = np.asarray(correct, float)
    p = np.clip(confidence, 1e-12, 1 - 1e-12)
    p_label = np.where(correct == 1, p, 1 - p)
    return RowTable(
        k=k,
        confidence=confidence,
        correct=correct,
        prediction=np.zeros(len(confidence), np.int64),
        y=(1 - correct).astype(np.int64),
        nll=-np.log(p_label),
        brier=2 * (confidence - correct) ** 2,
        entropy=-p * np.log(p) - (1 - p) * np.log1p(-p),
        varentropy=p * (1 - p) * np.log(p / (1 - p)) ** 2,
        weight=weight,
    )


def softmax(z):
    """Plain softmax of rows."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def draw_labels(p, rng):
    """One label per row of probabilities."""
    chance = rng.random_sample((len(p), 1))
    label = (p.cumsum(axis=1) < chance).sum(axis=1)
    return np.minimum(label, p.shape[1] - 1)


def measured(p, y, name, kind="probs", **settings):
    """The value of one metric of scores (n, k) with labels."""
    rows = ArrayRows(np.asarray(p), np.asarray(y), kind)
    chosen = MetricSettings(**settings)
    table = collect(rows, class_bins=chosen.bins, tops=(2, 3, 5))
    columns = partial(class_columns, rows)
    raw_columns = partial(class_columns, rows, raw=True)
    return measure(name, MetricContext(table, chosen, columns, raw_columns))


def edge_scores():
    """Probabilities that are multiples of 1/64, many of them on bin edges: (400, 5), labels."""
    rng = np.random.RandomState(7)
    p = softmax(rng.normal(size=(400, 5)) * 2)
    parts = np.floor(p * 64)
    parts[np.arange(400), p.argmax(axis=1)] += 64 - parts.sum(axis=1)
    return parts / 64, draw_labels(p, rng)


def plain_scores():
    """Overconfident probabilities without ties: (600, 4), labels."""
    rng = np.random.RandomState(11)
    z = rng.normal(size=(600, 4)) * 1.5
    return softmax(z), draw_labels(softmax(0.7 * z), rng)
