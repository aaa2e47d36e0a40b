"""Levels and power of the comparison of two maps of the same rows: ``levels.py paired``.

The scores are known, the labels are drawn from a known truth. Counted is how often the
paired test and Student's find the first map better or worse, and how often their intervals
miss the true difference.
"""

import json
import math
from functools import cache

import numpy as np
from _draws import draw_labels

from calcli.evaluation.differences import differences
from calcli.numerics import log_softmax
from calcli.statistics.intervals import Mean, t_interval, t_p_value
from calcli.statistics.paired import PairedSums, expected_powers

MANY = 20_000
"""Rows of which the mean losses are; their own noise is the same for all maps."""

GENERATORS = ("c10", "1 % positive", "60 % right")
SIZES = (100, 500)
RIVALS = (
    ((0.6, 0.0), (1.0, 0.0)),
    ((1.5, 0.0), (1.0, 0.0)),
    ((1.0, 1.0), (1.0, 0.0)),
    ((2.0, 0.0), (1.4, 0.0)),
)
"""Two maps, each a slope and a bias of class 0."""


# ---- scores, maps and losses


@cache
def pool_of(path):
    with np.load(path) as file:
        return file["logits"].astype(np.float64)


def scores_of(kind, n, rng):
    """Logits (n, k) of a generator, or rows of a file of logits."""
    if kind == "c10":
        return rng.normal(size=(n, 10)) * 4.0
    if kind == "60 % right":
        return rng.normal(size=(n, 10)) * 1.7
    if kind == "1 % positive":
        return np.stack([np.zeros(n), rng.normal(size=n) * 1.8 - 6.2], axis=1)
    if kind == "near-certain":
        strong_class = 9 + 1.5 * rng.normal(size=(n, 1))
        return rng.permuted(np.hstack([strong_class, np.zeros((n, 9))]), axis=1)
    pool = pool_of(kind)
    return pool[rng.integers(0, len(pool), n)]


def mapped(z, slope_and_bias):
    """Log-probabilities under a slope, and a bias of class 0."""
    slope, bias = slope_and_bias
    is_first_class = np.arange(z.shape[1]) == 0
    return log_softmax(z * slope + bias * is_first_class)


def chances(z, truth):
    """Probabilities of the labels: a slope, a bias of class 0, a share of labels at random."""
    slope, bias, random_share = truth
    p = np.exp(mapped(z, (slope, bias)))
    return (1.0 - random_share) * p + random_share / z.shape[1]


def losses_by_label(log_p, loss):
    """Loss (n, k) of every row for every label; of the Brier score without the 1."""
    if loss == "nll":
        return -log_p
    p = np.exp(log_p)
    return (p * p).sum(axis=1, keepdims=True) - 2.0 * p


@cache
def expected_loss(kind, loss, truth, stated):
    """Mean loss of a map."""
    z = scores_of(kind, MANY, np.random.default_rng(5))
    losses = losses_by_label(mapped(z, stated), loss)
    return float((chances(z, truth) * losses).sum(axis=1).mean())


def slope_of_equal_loss(kind, loss, truth, first):
    """Slope of the sharper map that loses as much as the first map."""
    goal = expected_loss(kind, loss, truth, first)

    def loss_at(slope):
        return expected_loss(kind, loss, truth, (slope, 0.0))

    # In between lies the least loss, behind which it rises.
    steps = np.linspace(first[0], 1.5, 13).tolist()
    low, high = min(steps, key=loss_at), 5.0
    for _ in range(30):
        middle = (low + high) / 2
        if loss_at(middle) < goal:
            low = middle
        else:
            high = middle
    return low


def maps_of(cell):
    """Truth, first map and rival; where none is given, the rival loses as much."""
    truth = (1.0, 0.0, cell.get("noise", 0.0))
    first = tuple(cell["first"])
    if "rival" in cell:
        return truth, first, tuple(cell["rival"])
    slope = slope_of_equal_loss(cell["scores"], cell["loss"], truth, first)
    return truth, first, (slope, 0.0)


# ---- the experiment


def paired(cell, r):
    n, kind, loss = cell["rows"], cell["scores"], cell["loss"]
    truth, first, rival = maps_of(cell)
    rng = np.random.default_rng([6, n, r])
    z = scores_of(kind, n, rng)
    y = draw_labels(chances(z, truth), rng)
    log_p, log_p_rival = mapped(z, first), mapped(z, rival)
    by_label = losses_by_label(log_p, loss) - losses_by_label(log_p_rival, loss)
    powers = expected_powers(by_label, np.exp(log_p), np.exp(log_p_rival))
    sums = PairedSums.of(by_label[np.arange(n), y], None, powers)
    true = expected_loss(kind, loss, truth, first)
    true -= expected_loss(kind, loss, truth, rival)
    difference = differences({loss: sums}, 0.95)[loss]
    interval = difference.interval
    mean, error, _ = sums.student()
    t = mean / error if error else math.copysign(math.inf, mean)
    student_p_value = t_p_value(t, n - 1)
    student = t_interval(Mean(mean, error, n), 0.95)
    has_interval = interval is not None
    is_missed = has_interval and not interval.low <= true <= interval.high
    return {
        "better": float(difference.p_value <= 0.05 and mean < 0),
        "worse": float(difference.p_value <= 0.05 and mean > 0),
        "t better": float(student_p_value <= 0.05 and mean < 0),
        "t worse": float(student_p_value <= 0.05 and mean > 0),
        "no interval": float(not has_interval),
        "misses": float(is_missed),
        "t misses": float(not student.low <= true <= student.high),
    }


def cells_of(args):
    """Nulls (two maps of equal loss), labels at random among them, and unequal maps."""
    cells = []
    for n in args.rows or SIZES:
        for kind in args.pool or GENERATORS:
            nll = {"rows": n, "scores": kind, "loss": "nll"}
            brier = {"rows": n, "scores": kind, "loss": "brier"}
            cells.append({**nll, "first": (0.9, 0.0)})
            cells.append({**brier, "first": (0.9, 0.0)})
            cells.append({**nll, "first": (0.6, 0.0)})
            for first, rival in RIVALS:
                cells.append({**nll, "first": first, "rival": rival})
        if not args.pool:
            null = {"loss": "nll", "first": (0.9, 0.0)}
            cells.append({"rows": n, "scores": "near-certain", **null})
            cells.append({"rows": n, "scores": "c10", **null, "noise": 0.01})
    # A record has lists where these cells have tuples.
    return json.loads(json.dumps(cells))


EXPERIMENTS = {"paired": paired}
