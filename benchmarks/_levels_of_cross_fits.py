"""Levels of what ``run FILE`` says of its own fit: experiments of ``levels.py``.

crossed : a method that is right, fitted to all rows and judged on them by
cross-fitting: how often it is not called calibrated, up to the error of the fits and by
the exact test, and how often the interval of the mean confidence minus the accuracy
misses that of the kept calibrator on endless rows. Of two classes also the gap of
P(class 1), which their headline states.

Stated are the logits of the truth times 1.5, plus a bias by class where the cell has
one. Rows of a unit share the draw of their label in three units of five.
"""

import warnings
from functools import cache

import numpy as np
from _levels_of_facts import labels_by_unit
from _levels_shared import SCORES

from calcli.calibrator import Context
from calcli.evaluation.cross_fitting import cross_fitted
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.requests import (
    UNCALIBRATED,
    Plan,
    Subject,
    cross_fitted_candidate,
)
from calcli.io.memory import bundle_in_memory
from calcli.numerics import softmax
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

FACTOR = 1.5
NEW_ROWS = 20_000
CLEAN = ("calibrated", "too_few")


# ---- rows whose truth is known: log-probabilities (n, k)


def few_errors(n, k, rng):
    """One wrong answer in a hundred, most of them in one row of ten."""
    is_hard = rng.random(n) < 0.1
    wrong = np.where(
        is_hard, rng.uniform(0.0, 0.2, n), 10.0 ** -rng.uniform(2.5, 5.0, n)
    )
    p = rng.dirichlet(np.full(k - 1, 0.5), n) * wrong[:, None]
    p = np.hstack([1.0 - wrong[:, None], np.maximum(p, 1e-9)])
    return np.log(rng.permuted(p, axis=1))


def skewed(n, k, rng):
    """Classes of which each is half as frequent as the one before."""
    z = rng.standard_t(5, size=(n, k)) * 1.5
    return z - np.log(2.0) * np.arange(k)


def true_logits(kind, n, k, rng):
    if kind in SCORES:
        return SCORES[kind](n, k, rng)[0]
    return {"few errors": few_errors, "skewed": skewed}[kind](n, k, rng)


def stated(z, cell):
    bias = cell.get("bias", 0.0)
    return FACTOR * z + np.linspace(-bias, bias, z.shape[1])


# ---- one file


def crossed(cell, r):
    n, k, unit_rows = cell["rows"], cell["classes"], cell.get("unit rows", 1)
    rng = np.random.default_rng([35, n, k, unit_rows, r])
    z = true_logits(cell["scores"], n, k, rng)
    y, unit = labels_by_unit(np.log(softmax(z)), unit_rows, rng)
    unit = unit if unit_rows > 1 else None
    name = cell["method"]
    options = parse_options(name, {})
    with (
        warnings.catch_warnings(),
        bundle_in_memory(stated(z, cell), y, "logits", units=unit) as rows,
    ):
        warnings.simplefilter("ignore")
        fit = method(name).fit(rows, options, Context())
        fits = cross_fitted(name, options, rows, Context(), fit.cross_fits)
        fitted = cross_fitted_candidate("kept.json", name, fits, len(fits.parts), rows)
        plan = Plan(metrics=("nll",), decomposition=False)
        result = assess(Subject.of(rows, None), [UNCALIBRATED, fitted], plan).results[1]
    kept = gaps_of_kept(fit.calibrator, cell)
    return figures_of(result.report, kept)


def figures_of(report, kept):
    verdict, facts = report.verdict, report.facts
    figures = {
        "not clean": float(verdict.kind not in CLEAN),
        "exact": float(verdict.exact.kind not in CLEAN),
        "too few": float(verdict.kind == "too_few"),
    }
    estimates = {"gap": (facts.overconfidence, kept[0])}
    if facts.class_one is not None:
        estimates["gap of class 1"] = (facts.class_one.gap, kept[1])
    for name, (estimate, truth) in estimates.items():
        interval = estimate.interval
        is_missed = interval.known and not interval.low <= truth <= interval.high
        figures[f"{name} misses"] = float(is_missed)
        figures[f"no {name}"] = float(not interval.known)
    return figures


@cache
def new_logits(scores, k):
    return true_logits(scores, NEW_ROWS, k, np.random.default_rng([36, k]))


def gaps_of_kept(calibrator, cell):
    """Gap of the confidence, and of P(class 1), of a calibrator on endless rows."""
    z = new_logits(cell["scores"], cell["classes"])
    p = softmax(z)
    gap = gap_of_one = 0.0
    for block in ArrayRows(stated(z, cell), None, "logits").blocks():
        q = np.exp(calibrator.apply(block).log_probs)
        true = p[block.start : block.start + len(q)]
        rows = np.arange(len(q))
        top = q.argmax(axis=1)
        gap += float((q[rows, top] - true[rows, top]).sum())
        gap_of_one += float((q[:, 1] - true[:, 1]).sum())
    return gap / NEW_ROWS, gap_of_one / NEW_ROWS


EXPERIMENTS = {"crossed": crossed}
CELLS = {
    "crossed": [
        {"scores": scores, "rows": n, "classes": k, "method": name, **units}
        for scores, n, k, name, units in (
            ("plain", 1000, 10, "ts", {}),
            ("plain", 10_000, 10, "mono", {}),
            ("plain", 2000, 10, "mono", {"unit rows": 5}),
            ("plain", 1000, 2, "platt", {"unit rows": 5}),
            ("few errors", 1000, 5, "mono", {}),
            ("skewed", 1000, 4, "mono", {}),
            ("rare", 1000, 2, "platt", {}),
            ("few errors", 200, 5, "ts", {}),
            ("few errors", 2500, 5, "auto", {}),
        )
    ],
}
