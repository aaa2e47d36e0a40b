"""Levels where rows depend on each other within units: experiments of ``levels.py``.

units : the verdict and its tests, by unit, on calibrated rows. promise : how often a
threshold by unit, and one as if rows were independent, breaks its promise.
"""

import math
from functools import partial

import numpy as np
from _draws import normal_share
from _levels_shared import calibrated, judgement

from calcli.evaluation.cross_validation import decomposed_loss
from calcli.evaluation.levels import LEVEL
from calcli.evaluation.scores import Score
from calcli.evaluation.threshold_search import ThresholdSearch
from calcli.metrics.catalog import measure
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import gap_interval
from calcli.metrics.settings import MetricSettings
from calcli.numerics import softmax
from calcli.rows import ArrayRows
from calcli.statistics.units import Units

TESTS = ("confidence", "classes", "bins", "split")
METRICS = ("gap", "ece", "ece_mass", "tce2", "smece", "ks")
ENDLESS = 200_000  # rows on which a promise is held against the truth


def near_certain(n, rng, lowest, highest):
    """Confidences whose error rates are between these, evenly in their logarithms."""
    log_error = rng.uniform(math.log(lowest), math.log(highest), n)
    return 1.0 - np.exp(log_error)


CONFIDENCES = {
    "wide": lambda n, rng: 0.5 + 0.5 * rng.beta(2, 1, n),
    "mixed": lambda n, rng: rng.uniform(0.5, 1.0, n),
    "near": lambda n, rng: near_certain(n, rng, 0.001, 0.05),
    "nearer": lambda n, rng: near_certain(n, rng, 0.0001, 0.01),
    "threshold": lambda n, rng: 1.0 / (1.0 + np.exp(-rng.normal(1.6, 1.6, n))),
}
"""Confidences of the cells, by name."""


def sizes_of(cell, rng):
    """Rows of every unit."""
    n_units, size = cell["units"], cell["rows"]
    if size == "exponential":
        sizes = np.rint(rng.exponential(cell["mean"], n_units)).astype(int)
        return np.maximum(1, sizes)
    if isinstance(size, list):
        lowest, highest = size
        return rng.integers(lowest, highest + 1, n_units)
    return np.full(n_units, size)


def units_with_luck(cell, rng):
    """Units of rows, and a uniform number for each row, alike within the unit.

    It is independent of the score. A Gaussian copula with correlation rho, which is not
    the law of the null that is tested.
    """
    rho = cell.get("rho", 0.0)
    unit = np.repeat(np.arange(cell["units"]), sizes_of(cell, rng))
    shared = rng.normal(size=cell["units"])[unit]
    of_row = rng.normal(size=len(unit))
    luck = normal_share(math.sqrt(rho) * shared + math.sqrt(1.0 - rho) * of_row)
    return Units.of(unit), luck


# ---- verdicts by unit


def rows_with_confidences(cell, rng):
    known, luck = units_with_luck(cell, rng)
    c = CONFIDENCES[cell["scores"]](len(luck), rng)
    is_right = (luck < c).astype(np.int64)
    return ArrayRows(c[:, None], is_right, "confidence", units=known)


def rows_with_classes(cell, k, rng):
    """Rows whose lucky units are right, or, as the cell says, all of class 0."""
    known, luck = units_with_luck(cell, rng)
    n = len(luck)
    z, _ = calibrated(n, k, rng)
    p = softmax(z)
    here = np.arange(n)
    lucky_class = z.argmax(axis=1)
    if cell.get("luck") == "class":
        lucky_class = np.zeros(n, dtype=np.int64)
    p_lucky = p[here, lucky_class]
    # The lucky class first, then the other classes in their order.
    p[here, lucky_class] = 0.0
    rest = np.maximum(luck - p_lucky, 0.0)[:, None]
    other_class = np.minimum((p.cumsum(axis=1) <= rest).sum(axis=1), k - 1)
    y = np.where(luck < p_lucky, lucky_class, other_class)
    return ArrayRows(z, y, units=known)


def units(cell, r):
    """How often the verdict and each test of it, by unit, finds fault with calibrated rows."""
    rng = np.random.default_rng([9, cell["units"], r])
    k = cell.get("classes", 1)
    split = None
    settings = MetricSettings(seed=r)
    if k == 1:
        rows = rows_with_confidences(cell, rng)
        table = collect(rows)
    else:
        rows = rows_with_classes(cell, k, rng)
        table = collect(rows, class_bins=15)
        split = decomposed_loss(rows, None, table, r)
    context = MetricContext(table, settings, partial(class_columns, rows, None))
    report = judgement(context, rows.kind, split)
    is_clean = report.p_overall > LEVEL and report.p_value > LEVEL
    figures = {"not clean": float(not is_clean)}
    for name in TESTS:
        figures[name] = float(name in report.significant)
    for name in METRICS:
        score = Score.of(name, measure(name, context), context.settings)
        figures[name] = float(score.p_value <= 0.05)
    over = gap_interval(context.labelled("top"))
    figures["no interval"] = float(not over.known)
    figures["misses 0"] = float(over.low > 0.0 or over.high < 0.0)
    return figures


# ---- promises by unit


def promise(cell, r):
    """How often a threshold breaks its promise, and its coverage. flat : none keeps it."""
    rng = np.random.default_rng([8, cell["units"], r])
    demanded = cell["accuracy"]
    is_flat = bool(cell.get("flat"))
    known, luck = units_with_luck(cell, rng)
    draw = CONFIDENCES["threshold"]
    c = draw(len(luck), rng)
    endless = draw(ENDLESS, rng)
    chance = demanded if is_flat else c
    is_right = (luck < chance).astype(np.float64)
    figures = {}
    for ending, search_units in (("", known), (", rows", None)):
        best = ThresholdSearch.of(c, is_right, search_units).choose(demanded).best
        accepted = endless[:0]
        if best is not None:
            accepted = endless[endless >= best.threshold]
        is_broken = False
        if len(accepted):
            is_broken = is_flat or float(accepted.mean()) < demanded
        figures[f"broken{ending}"] = float(is_broken)
        figures[f"coverage{ending}"] = len(accepted) / ENDLESS
    return figures


# ---- cells: units of few and many rows that are hardly and nearly alike

CONFIDENCE_CELLS = (
    ("nearer", 30, 1, 0.0),
    ("nearer", 100, [1, 5], 0.9),
    ("nearer", 1000, 1, 0.0),
    ("nearer", 1000, [1, 5], 0.9),
    ("near", 30, [1, 5], 0.9),
    ("near", 100, [1, 5], 0.3),
    ("near", 100, 5, 0.9),
    ("near", 300, [1, 5], 0.9),
    ("near", 1000, [1, 5], 0.9),
    ("near", 3000, [1, 5], 0.9),
    ("near", 30, 50, 0.3),
    ("wide", 30, 1, 0.0),
    ("wide", 30, 50, 0.3),
    ("wide", 100, 50, 0.3),
    ("wide", 400, 5, 0.3),
    ("wide", 400, 5, 0.9),
    ("wide", 200, 50, 0.05),
    ("wide", 200, 50, 0.3),
    ("mixed", 12, 20, 0.3),
    ("mixed", 30, 50, 0.3),
    ("mixed", 100, [1, 5], 0.9),
    ("mixed", 1000, [1, 5], 0.9),
)
"""Scores, units, rows of a unit (or the fewest and the most) and correlation."""

CLASS_CELLS = (
    (2, 100, 10, 0.3),
    (2, 30, 20, 0.9),
    (10, 100, 10, 0.3),
    (10, 30, 20, 0.3),
    (100, 200, 10, 0.3),
)
"""Classes, units, rows of a unit and correlation."""

PROMISES = (
    (400, 5, 0.9),
    (200, 50, 0.3),
    (60, 20, 0.3),
    (30, 50, 0.3),
    (400, "exponential", 0.9),
)
FLAT_PROMISES = ((400, 5, 0.9), (60, 20, 0.3), (60, 20, 0.99), (200, 20, 0.99))
"""Units, rows of a unit and correlation."""

ACCURACIES = (0.8, 0.9, 0.95)
MEAN_OF_EXPONENTIAL = 5


def unit_cells():
    cells = []
    for scores, n_units, size, rho in CONFIDENCE_CELLS:
        cell = {"scores": scores, "units": n_units, "rows": size, "rho": rho}
        cells.append(cell)
    for k, n_units, size, rho in CLASS_CELLS:
        cells.append({"classes": k, "units": n_units, "rows": size, "rho": rho})
    for k in (2, 10):
        alike = {"units": 30, "rows": 20, "rho": 0.9, "luck": "class"}
        cells.append({"classes": k, **alike})
    return cells


def promise_cells():
    cells = []
    for n_units, size, rho in PROMISES:
        cell = {"units": n_units, "rows": size, "rho": rho}
        for accuracy in ACCURACIES:
            cells.append({**cell, "accuracy": accuracy})
            if size == "exponential":
                cells[-1]["mean"] = MEAN_OF_EXPONENTIAL
    for n_units, size, rho in FLAT_PROMISES:
        cell = {"units": n_units, "rows": size, "rho": rho}
        for accuracy in ACCURACIES:
            cells.append({**cell, "accuracy": accuracy, "flat": True})
    return cells


EXPERIMENTS = {"units": units, "promise": promise}
CELLS = {"units": unit_cells(), "promise": promise_cells()}
