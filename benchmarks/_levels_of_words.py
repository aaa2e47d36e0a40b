"""Levels of the words of a verdict, by simulation: experiments of ``levels.py``.

soft : of accurate models with soft confidences and right labels, how often these are
doubted, and how often cross-fitted temperature scaling, which helps, is said to raise the
NLL. direction : of models whose mean confidence is off, how often the words deny it
(``miscalibrated in places``) or name the other direction.
"""

import warnings

import numpy as np
from _draws import draw_labels
from _levels_of_facts import quiet_report

import calcli
from calcli.calibrator import Context
from calcli.evaluation.cross_fitting import cross_fitted
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.facts import FitSize
from calcli.evaluation.requests import UNCALIBRATED, Candidate, Plan, Subject
from calcli.io.memory import bundle_in_memory
from calcli.numerics import softmax
from calcli.registry import parse_options


def soft(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([33, n, k, r])
    p, y = soft_rows(n, k, cell["smoothing"], rng)
    report = quiet_report(p, y, kind="probs", seed=r)
    said = {message["kind"] for message in report["messages"]}
    counts = {
        "labels doubted": float(report["verdict_kind"] == "check_labels"),
        "doubt found": float("labels" in said),
        "underconfident": float(report["verdict_kind"] == "underconfident"),
        "overconfident": float(report["verdict_kind"] == "overconfident"),
    }
    change = change_by_temperature(p, y)
    fresh, labels = soft_rows(20_000, k, cell["smoothing"], rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrated = calcli.fit(np.log(p), y, "ts", kind="log_probs")
    rows = np.arange(len(labels))
    truth = -np.log(calibrated.predict_proba(np.log(fresh))[rows, labels]).mean()
    truth += np.log(fresh[rows, labels]).mean()
    counts["ts helps"] = float(truth < 0.0)
    is_raised = change.interval is not None and change.interval.low > 0.0
    counts["said to raise, though it helps"] = float(is_raised and truth < 0.0)
    return counts


def change_by_temperature(p, y):
    """Cross-fitted difference in NLL that ``calcli run FILE`` shows."""
    with bundle_in_memory(np.log(p), y, "log_probs") as rows:
        crossed = cross_fitted("ts", parse_options("ts", {}), rows, Context())
        n_folds = len(crossed.parts)
        n = int(rows.n * (1.0 - 1.0 / n_folds))
        fit_size = FitSize(n=n, units=None, by_group=False)
        fitted = Candidate("ts", "ts", crossed, fit_size=fit_size, n_folds=n_folds)
        candidates = [UNCALIBRATED, fitted]
        plan = Plan(metrics=("nll",), decomposition=False)
        results = assess(Subject.of(rows, None), candidates, plan).results
    return results[1].paired.differences["nll"]


def soft_rows(n, k, smoothing, rng):
    """Stated probabilities that share ``smoothing`` among the other classes, and labels
    of which 7 in 1000 are not the prediction."""
    top = rng.integers(0, k, n)
    wrong = 10.0 ** -rng.uniform(1.5, 3.5, n)
    is_wrong = rng.random(n) < wrong
    y = np.where(is_wrong, (top + rng.integers(1, k, n)) % k, top)
    missing = smoothing * rng.uniform(0.7, 1.3, n)
    p = np.repeat((missing / (k - 1))[:, None], k, axis=1)
    p[np.arange(n), top] = 1.0 - missing
    return p, y


OTHER_WAY = {"overconfident": "underconfident", "underconfident": "overconfident"}


def direction(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([34, n, k, r])
    z = rng.standard_t(6, size=(n, k)) * cell["spread"]
    true = softmax(z)
    y = draw_labels(true, rng)
    report = quiet_report(softmax(z * cell["slope"]), y, kind="probs", seed=r)
    kind = report["verdict_kind"]
    right_way = "overconfident" if cell["slope"] > 1.0 else "underconfident"
    return {
        "direction": float(kind == right_way),
        "wrong direction": float(kind == OTHER_WAY[right_way]),
        "gap denied": float(kind == "mixed"),
        "calibrated": float(kind in ("calibrated", "too_few")),
    }


EXPERIMENTS = {"soft": soft, "direction": direction}
CELLS = {
    "soft": [
        {"rows": n, "classes": k, "smoothing": smoothing}
        for n, k, smoothing in (
            (100, 5, 0.1),
            (300, 5, 0.1),
            (300, 2, 0.05),
            (800, 20, 0.1),
        )
    ],
    "direction": [
        {"rows": n, "classes": k, "slope": slope, "spread": spread}
        for n, k, slope, spread in (
            (300, 3, 1.35, 1.5),
            (300, 10, 1.4, 2.0),
            (1000, 5, 0.8, 1.2),
            (1000, 2, 1.3, 1.6),
        )
    ],
}
