"""What experiments of ``levels.py`` share: rows that are calibrated, and verdicts on them."""

import math

import numpy as np
from _draws import draw_labels

from calcli.evaluation.evaluate_bundle import measured
from calcli.evaluation.levels import ERROR_METRICS
from calcli.evaluation.measure_facts import measure_facts, summarise_data
from calcli.evaluation.verdict import judge
from calcli.numerics import softmax

SPREAD_OF_LOGITS = {2: 2.0, 10: 3.0, 100: 4.5}
"""By number of classes; the accuracy is about .8 then."""

SPREAD_OF_RARE = {2: 1.5, 10: 3.0, 100: 4.5}
SHIFT_OF_RARE = {2: 6.2, 3: 9.0, 10: 8.0, 100: 3.0}
"""By number of classes; the last class has 1 % of the rows then."""


# ---- calibrated rows: logits (n, k), and labels drawn from their softmax


def calibrated(n, k, rng, spread=None):
    if spread is None:
        spread = SPREAD_OF_LOGITS.get(k, 3.0)
    z = rng.normal(size=(n, k)) * spread
    return z, draw_labels(softmax(z), rng)


def sure(n, k, rng):
    """Log-odds of 5 to 14 for one class."""
    margin = rng.uniform(5.0, 14.0, n)
    strong_class = rng.integers(0, k, n)
    z = np.zeros((n, k))
    z[np.arange(n), strong_class] = margin + math.log(k - 1)
    return z, draw_labels(softmax(z), rng)


def rare(n, k, rng):
    """The last class has 1 % of the rows."""
    z = rng.normal(size=(n, k)) * SPREAD_OF_RARE.get(k, 3.0)
    z[:, -1] -= SHIFT_OF_RARE.get(k, 6.0)
    return z, draw_labels(softmax(z), rng)


def noisy(n, k, rng):
    """One label in twenty is drawn at random, and the probabilities say so."""
    z, _ = calibrated(n, k, rng)
    p = 0.95 * softmax(z) + 0.05 / k
    return np.log(p), draw_labels(p, rng)


SCORES = {"plain": calibrated, "sure": sure, "rare": rare, "noisy": noisy}


# ---- verdicts


def judgement(context, kind, split):
    """The verdict on rows, on P(class 1) where they have two classes."""
    has_two_classes = context.table.k == 2
    names = ERROR_METRICS
    if not has_two_classes:
        names = [name for name in ERROR_METRICS if name != "ece_positive"]
    facts = measure_facts(
        summarise_data(kind, context),
        context,
        measured(context, names),
        positive=has_two_classes,
        split=split,
    )
    return judge(facts)
