"""Levels and coverage of single facts, by simulation: experiments of ``levels.py``.

weighted : verdicts on calibrated rows with exponential weights, near-certain scores among
them, and p-values of their classes, bins and groups. near : p-values and intervals of
metrics where scores are near-certain, error rates 10^-U(a, b); with a temperature, of
overconfident scores, where only the intervals are looked at. folds : intervals of the
difference of two methods in ``compare``. uneven : intervals of means and of the area under
the ROC curve where units have Pareto sizes. together : label frequencies and doubts about
labels of units whose rows are right or wrong together. band : curves that leave the band
anywhere. findings : what is said of calibrated rows whose labels and classes are in
order, each finding's share, and the level of ``tce2`` where a bin has three rows. gain :
of overconfident rows with a class bias, how often the range that is named misses the
frequency there, and how often the gain's lower bound, and its estimate, lie above the
largest possible gain. fitted : verdicts on a right method that was fitted to other rows
(the truth, then one temperature or a shared monotone map), up to the error of its fit and
by the exact test; where units have several rows, those of three units in five share the
draw of their label. Generators are not those that the tests were designed on.
"""

import math
import warnings
from functools import cache

import numpy as np
from _draws import draw_labels, normal_share, row_nll

import calcli
from calcli.binning import bin_index
from calcli.diagrams.curve import CurveSettings, measure_curve
from calcli.evaluation.evaluate_bundle import measured
from calcli.evaluation.label_frequencies import label_shift_p_value
from calcli.metrics.catalog import measure
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.debiased import class_p_values_of
from calcli.metrics.losses import group_gaps
from calcli.metrics.settings import MetricSettings
from calcli.metrics.warnings import label_doubts
from calcli.numerics import softmax
from calcli.rows import ArrayRows
from calcli.statistics.p_values import adjusted
from calcli.statistics.units import Units, label_effect

CLEAN = ("calibrated", "too_few")
LEVELS = (0.05, 0.01)


def nearly_sure(n, k, rng, low=1.5, high=5.0):
    """Probabilities: one class wrong with chance 10^-U(low, high), shared by the others."""
    wrong = 10.0 ** -rng.uniform(low, high, n)
    others = rng.dirichlet(np.ones(k - 1), n) * wrong[:, None]
    top = rng.integers(0, k, n)
    p = np.empty((n, k))
    p[np.arange(k) != top[:, None]] = others.ravel()
    p[np.arange(n), top] = 1.0 - wrong
    return p


def quiet_report(scores, y, **words):
    """What ``evaluate`` says of rows, as JSON, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = calcli.evaluate(scores, y, **words)
    return evaluation.to_dict()["results"][0]["report"]


def is_unclean(report):
    return float(report["verdict_kind"] not in CLEAN)


def rejections(p_values):
    """Whether each p-value, by name, rejects at 5 and at 1 %."""
    figures = {}
    for name, p_value in p_values.items():
        for level in LEVELS:
            figures[f"{name} {level}"] = float(p_value <= level)
    return figures


def misses(interval, true):
    """Whether an interval misses a true value; none misses nothing."""
    if interval is None:
        return 0.0
    return float(not interval.low <= true <= interval.high)


def weighted(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([21, n, k, r])
    if cell["scores"] == "sure":
        p = nearly_sure(n, k, rng)
    else:
        p = softmax(rng.normal(size=(n, k)) * 2.5)
    y = draw_labels(p, rng)
    weight = rng.exponential(size=n)
    rows = ArrayRows(np.log(p), y, "log_probs", weight=weight)
    table = collect(rows, class_bins=15, group=np.arange(n) % 5)
    context = MetricContext(table, MetricSettings(seed=r))
    _, tables = table.groups()
    parts = [MetricContext(part, context.settings) for part in tables]
    (gaps,) = group_gaps(parts, "top").values()
    p_values = {
        "classes": min(adjusted(class_p_values_of(context))),
        "groups": min(gap.p_adjusted for gap in gaps),
    }
    report = quiet_report(np.log(p), y, kind="log_probs", weights=weight, seed=r)
    return {"not clean": is_unclean(report), **rejections(p_values)}


P_VALUES = ("nll", "entropy_gap", "gap", "ks", "kuiper", "spiegelhalter")
INTERVALS = {"ece": "width", "ece_mass": "mass", "tce2": "mass"}


def near(cell, r):
    n, (low, high) = cell["rows"], cell["errors"]
    rng = np.random.default_rng([22, n, int(10 * low), r])
    wrong = 10.0 ** -rng.uniform(low, high, n)
    y = (rng.random(n) < wrong).astype(int)
    log_p = np.log(np.stack([1.0 - wrong, wrong], axis=1)) / cell["temperature"]
    rows = ArrayRows(log_p, y)
    context = MetricContext(collect(rows), MetricSettings(seed=r, resamples=200))
    figures = {}
    for name, score in measured(context, INTERVALS).items():
        true = true_error(name, context, 1.0 - wrong)
        ends = score.interval
        is_missed = not ends.low - 1e-12 <= true <= ends.high
        figures[f"{name} misses"] = float(is_missed)
    if cell["temperature"] == 1.0:
        scores = measured(context, P_VALUES)
        p_values = {name: score.p_value for name, score in scores.items()}
        figures |= rejections(p_values)
    return figures


def true_error(name, context, chance):
    """A binned error of the chances to be right, (n,), in the metric's own bins."""
    scheme = INTERVALS[name]
    if name == "tce2" and context.discrete is not None:
        scheme = "values"
    index = bin_index(context.scores, context.edges(scheme))
    gap = np.bincount(index, weights=context.scores - chance)
    if name == "tce2":
        count = np.maximum(np.bincount(index), 1)
        return math.sqrt(float((gap**2 / count).sum()) / len(chance))
    return np.abs(gap).sum() / len(chance)


@cache
def fold_truth(rows, spread, bias, classes):
    """Mean difference in NLL of fits to four fifths of the rows, over fresh rows."""
    cell = {"rows": rows, "spread": spread, "bias": bias, "classes": classes}
    rng = np.random.default_rng([23, rows])
    z, y = fold_rows(50_000, cell, rng)
    differences = []
    for _ in range(200):
        learned = fold_rows(rows * 4 // 5, cell, rng)
        nll = []
        for name in (richer(cell), "ts"):
            calibrator = calcli.fit(*learned, name)
            nll.append(row_nll(calibrator.predict_proba(z), y).mean())
        differences.append(nll[0] - nll[1])
    return float(np.mean(differences))


def richer(cell):
    """The method that has parameters which ``ts`` lacks."""
    return "vs" if cell.get("classes", 2) > 2 else "platt"


def fold_rows(n, cell, rng):
    """Logits that are too large, and too high for one class."""
    if cell.get("classes", 2) == 2:
        s = rng.normal(size=n) * cell["spread"]
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-s))).astype(int)
        return np.stack([np.zeros(n), 1.4 * s + cell["bias"]], axis=1), y
    s = rng.standard_t(6, size=(n, cell["classes"])) * cell["spread"]
    y = draw_labels(softmax(s), rng)
    z = 1.4 * s
    z[:, 0] += cell["bias"]
    return z, y


def folds(cell, r):
    rng = np.random.default_rng([24, cell["rows"], r])
    method = richer(cell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = cell.get("classes", 2)
        true = fold_truth(cell["rows"], cell["spread"], cell["bias"], classes)
        z, y = fold_rows(cell["rows"], cell, rng)
        comparison = calcli.compare(z, y, ["ts", method], seed=r)
    for difference in comparison["differences"]:
        if difference["method"] == method:
            ends = difference["metrics"]["nll"].get("ci")
    if ends is None:
        return {"misses": 0.0, "no interval": 1.0}
    return {"misses": float(not ends[0] <= true <= ends[1]), "no interval": 0.0}


UNEVEN = ("nll", "brier_top", "accuracy", "auroc")


def uneven_rows(cell, rng):
    n_units, rho = cell["units"], cell["rho"]
    size = np.ceil(rng.pareto(cell["alpha"], n_units) + 1.0)
    unit = np.repeat(np.arange(n_units), np.minimum(size, 2000).astype(int))
    shared = rng.normal(size=n_units)[unit]
    of_row = rng.normal(size=len(unit))
    luck = normal_share(math.sqrt(rho) * shared + math.sqrt(1.0 - rho) * of_row)
    c = 0.5 + 0.5 * rng.beta(2, 1, len(unit))
    is_wrong = ~(luck < c)
    return ArrayRows(two_classes(c), 1 * is_wrong, "probs", units=Units.of(unit))


def two_classes(c):
    """Probabilities of two classes of which the first is predicted with confidence c."""
    return np.stack([c, 1.0 - c], axis=1)


@cache
def uneven_truth():
    rng = np.random.default_rng(25)
    c = 0.5 + 0.5 * rng.beta(2, 1, 400_000)
    is_wrong = ~(rng.random(len(c)) < c)
    rows = ArrayRows(two_classes(c), 1 * is_wrong, "probs")
    context = MetricContext(collect(rows), MetricSettings(interval="t"))
    truth = {name: measure(name, context).value for name in UNEVEN[1:]}
    truth["nll"] = float(-(c * np.log(c) + (1 - c) * np.log1p(-c)).mean())
    return truth


def uneven(cell, r):
    truth = uneven_truth()
    rng = np.random.default_rng([26, cell["units"], r])
    context = MetricContext(collect(uneven_rows(cell, rng)), MetricSettings(seed=r))
    figures = {}
    for name in UNEVEN:
        interval = measure(name, context).interval
        figures[f"{name} misses"] = misses(interval, truth[name])
        figures[f"no {name}"] = float(interval is None)
    return figures


def together(cell, r):
    """Two samples of one population, and one of another with more of class 0; labels of
    calibrated units that are right or wrong as a whole, and with two names exchanged."""
    k, n_units, size = cell["classes"], cell["units"], cell["rows"]
    rng = np.random.default_rng([27, k, n_units, r])
    prior = rng.dirichlet(np.full(k, 2.0))
    other = prior + 0.5 * (np.arange(k) == 0)
    first = effective_counts(prior, n_units, size, rng)
    second = effective_counts(prior, n_units, size, rng)
    third = effective_counts(other / other.sum(), n_units, size, rng)
    z, y, unit = rows_right_together(k, n_units, size, rng)
    return {
        "frequencies differ": float(label_shift_p_value(first, second) < 1e-3),
        "other frequencies found": float(label_shift_p_value(first, third) < 1e-3),
        "doubt": has_doubts(z, y, unit),
        "exchange found": has_doubts(z, exchanged(z, y), unit),
    }


def effective_counts(shares, n_units, size, rng):
    """Label counts (k,) of units with one label each, over what the units cost."""
    k = len(shares)
    n_rows = rng.integers(1, 2 * size, n_units)
    unit = np.repeat(np.arange(n_units), n_rows)
    label = rng.choice(k, n_units, p=shares)[unit]
    return np.bincount(label, minlength=k) / label_effect(label, k, Units.of(unit))


def rows_right_together(k, n_units, size, rng):
    """Logits, labels and units: calibrated, and a unit has one luck."""
    unit = np.repeat(np.arange(n_units), size)
    of_unit = rng.normal(size=(n_units, k)) * 2.0
    z = of_unit[unit] + 0.1 * rng.normal(size=(len(unit), k))
    luck = rng.random(n_units)[unit][:, None]
    below = softmax(z).cumsum(axis=1) < luck
    return z, np.minimum(below.sum(axis=1), k - 1), unit


def exchanged(z, y):
    """Labels with the two classes exchanged that are predicted most often."""
    predictions = np.bincount(z.argmax(axis=1), minlength=z.shape[1])
    first, second = np.argsort(predictions)[:-3:-1]
    return np.select([y == first, y == second], [second, first], y)


def has_doubts(z, y, unit):
    rows = ArrayRows(z, y, units=Units.of(unit))
    return float(bool(label_doubts(collect(rows, class_bins=15), None)))


CURVES = {
    "uniform": lambda n, rng: rng.uniform(0.5, 1.0, n),
    "sure": lambda n, rng: 1.0 - 10.0 ** -rng.uniform(1.5, 5.0, n),
    "rounded": lambda n, rng: np.round(rng.uniform(0.5, 1.0, n), 1),
}


def band(cell, r):
    n = cell["rows"]
    rng = np.random.default_rng([29, n, r])
    c = CURVES[cell["scores"]](n, rng)
    weight = rng.exponential(size=n) if cell.get("weighted") else None
    y = (rng.random(n) < c).astype(int)
    table = collect(ArrayRows(c[:, None], y, "confidence", weight=weight))
    curve = measure_curve("", table, CurveSettings(seed=r))
    bars = curve.bins
    below = bars.accuracy < bars.null_low - 1e-9
    above = bars.accuracy > bars.null_high + 1e-9
    leaves = (below | above) & (bars.count > 0)
    return {
        "curve leaves": float(curve.outside > 0.0),
        "bars leave": float(leaves.any()),
        "rows outside": curve.outside,
    }


DOUBTS = ("labels", "too_good", "lacking", "sampled")


def findings(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([31, n, k, r])
    shares = rng.dirichlet(np.full(k, cell["evenness"]))
    z = rng.standard_t(4, size=(n, k)) * 1.3 + np.log(shares + 1e-4)
    p = softmax(z)
    y = draw_labels(p, rng)
    report = quiet_report(p, y, kind="probs", seed=r)
    kinds = {message["kind"] for message in report["messages"]}
    figures = {kind: float(kind in kinds) for kind in DOUBTS}
    figures["not clean"] = is_unclean(report)
    context = MetricContext(collect(ArrayRows(p, y, "probs")), MetricSettings(seed=r))
    (squared,) = measured(context, ("tce2",)).values()
    figures["tce2 0.05"] = float(squared.p_value <= 0.05)
    return figures


def gain(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([32, n, k, r])
    z = rng.standard_t(5, size=(n, k)) * 1.4
    true = softmax(z)
    stated = z * cell["slope"]
    stated[:, 0] += cell["bias"]
    p, y = softmax(stated), draw_labels(true, rng)
    report = quiet_report(p, y, kind="probs", seed=r)
    messages = {message["kind"]: message for message in report["messages"]}
    figures = {"range misses": 0.0, "no range": float("range" not in messages)}
    if "range" in messages:
        figures["range misses"] = range_misses(messages["range"], p, true)
    largest = float((true * (np.log(true) - np.log(p))).sum(axis=1).mean())
    figures["bound above"] = 0.0
    figures["estimate above"] = 0.0
    figures["no gain"] = float("gain" not in messages)
    if "gain" in messages:
        figures["bound above"] = float(messages["gain"]["at_least"] > largest)
        figures["estimate above"] = float(messages["gain"]["nll"] > largest)
    return figures


def range_misses(message, p, true):
    """Whether the range of scores that is named has another frequency than it says."""
    if message["of_positive"]:
        c, chance = p[:, 1], true[:, 1]
    else:
        c, chance = p.max(axis=1), true[np.arange(len(p)), p.argmax(axis=1)]
    is_inside = (c > message["low"]) & (c <= message["high"])
    frequency = chance[is_inside].mean()
    return float(not message["observed_low"] <= frequency <= message["observed_high"])


def true_scores(kind, n, rng):
    """Log-probabilities (n, k) of ten even classes, or of five uneven ones."""
    if kind == "five":
        return np.log(np.maximum(rng.dirichlet([0.9, 0.6, 0.3, 0.2, 0.1], n), 1e-12))
    z = 1.2 * rng.normal(size=(n, 10))
    z[np.arange(n), rng.integers(0, 10, n)] += rng.gamma(1.5, 3.0, n)
    return np.log(softmax(z))


def labels_by_unit(log_p, unit_rows, rng):
    """Labels drawn from the truth, and the unit of every row."""
    noise = rng.gumbel(size=log_p.shape)
    unit = np.arange(len(log_p)) // unit_rows
    shares_draw = rng.random(unit.max() + 1) < 0.6
    noise = np.where(shares_draw[unit][:, None], noise[unit * unit_rows], noise)
    return (log_p + noise).argmax(axis=1), unit


def fitted(cell, r):
    n, m = cell["fit"], cell["test"]
    unit_rows = cell.get("unit rows", 1)
    rng = np.random.default_rng([29, n, m, unit_rows, r])
    log_p = true_scores(cell["scores"], n + m, rng)
    y, unit = labels_by_unit(log_p, unit_rows, rng)
    learned, tested = slice(0, n), slice(n, None)
    units = unit if unit_rows > 1 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = calcli.fit(
            log_p[learned],
            y[learned],
            cell["method"],
            kind="log_probs",
            units=None if units is None else units[learned],
        )
        evaluation = calcli.evaluate(
            log_p[tested],
            y[tested],
            calibrator,
            kind="log_probs",
            units=None if units is None else units[tested],
            seed=r,
        )
    report = evaluation.results[1].report
    return {
        "not clean": float(report.verdict.kind not in CLEAN),
        "exact": float(report.verdict.exact.kind not in CLEAN),
        "too few": float(report.verdict.kind == "too_few"),
    }


EXPERIMENTS = {
    "weighted": weighted,
    "near": near,
    "folds": folds,
    "uneven": uneven,
    "together": together,
    "band": band,
    "findings": findings,
    "gain": gain,
    "fitted": fitted,
}
CELLS = {
    "weighted": [
        {"rows": n, "classes": k, "scores": scores}
        for n, k, scores in (
            (300, 100, "sure"),
            (1000, 10, "sure"),
            (1000, 2, "sure"),
            (300, 10, "plain"),
            (100, 3, "plain"),
        )
    ],
    "near": [
        {"rows": n, "errors": errors, "temperature": t}
        for n, errors, t in (
            (200, [1.5, 5], 1.0),
            (1000, [1.5, 5], 1.0),
            (5000, [3, 7], 1.0),
            (200, [1.5, 5], 0.6),
            (1000, [1.5, 5], 0.6),
            (5000, [3, 7], 0.6),
        )
    ],
    "folds": [
        {"rows": n, "spread": spread, "bias": bias}
        for n, spread, bias in ((300, 2.0, 0.0), (300, 2.0, 0.5), (1000, 1.5, 0.2))
    ]
    + [
        {"rows": 1000, "spread": 2.0, "bias": 0.1},
        {"rows": 500, "spread": 1.5, "bias": 0.2, "classes": 4},
    ],
    "uneven": [
        {"units": g, "alpha": alpha, "rho": rho}
        for g, alpha, rho in (
            (100, 1.0, 0.3),
            (100, 1.2, 0.9),
            (60, 1.2, 0.5),
            (100, 3.0, 0.5),
        )
    ],
    "together": [
        {"classes": k, "units": g, "rows": m}
        for k, g, m in ((10, 10, 20), (10, 30, 20), (100, 30, 20), (10, 100, 5))
    ],
    "band": [
        {"rows": n, "scores": scores, **more}
        for n, scores, more in (
            (200, "uniform", {}),
            (5000, "uniform", {}),
            (1000, "sure", {}),
            (1000, "rounded", {}),
            (500, "uniform", {"weighted": True}),
        )
    ],
    "findings": [
        {"rows": n, "classes": k, "evenness": evenness}
        for n, k, evenness in (
            (45, 4, 2.0),
            (300, 2, 2.0),
            (300, 12, 0.5),
            (1000, 30, 0.5),
        )
    ],
    "gain": [
        {"rows": n, "classes": k, "slope": slope, "bias": bias}
        for n, k, slope, bias in (
            (400, 2, 1.4, 0.2),
            (400, 3, 1.4, 0.2),
            (1500, 3, 1.2, 0.1),
            (1500, 10, 1.3, 0.5),
        )
    ],
    "fitted": [
        {"scores": scores, "fit": 3000, "test": m, "method": method, **units}
        for scores, method, units in (
            ("ten", "mono", {}),
            ("five", "mono", {}),
            ("ten", "mono", {"unit rows": 5}),
            ("ten", "ts", {}),
        )
        for m in (1500, 3000, 6000)
    ],
}
