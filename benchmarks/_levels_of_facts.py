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

import numpy as np

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


def drawn(p, rng):
    """Labels by probabilities (n, k)."""
    chance = rng.random((len(p), 1))
    return np.minimum((p.cumsum(axis=1) < chance).sum(axis=1), p.shape[1] - 1)


def nearly_sure(n, k, rng, low=1.5, high=5.0):
    """Probabilities: one class wrong with chance 10^-U(low, high), shared by the others."""
    wrong = 10.0 ** -rng.uniform(low, high, n)
    others = rng.dirichlet(np.ones(k - 1), n) * wrong[:, None]
    top = rng.integers(0, k, n)
    p = np.empty((n, k))
    p[np.arange(k) != top[:, None]] = others.ravel()
    p[np.arange(n), top] = 1.0 - wrong
    return p


def weighted(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([21, n, k, r])
    sure = cell["scores"] == "sure"
    p = nearly_sure(n, k, rng) if sure else softmax(rng.normal(size=(n, k)) * 2.5)
    y, weight = drawn(p, rng), rng.exponential(size=n)
    group = np.arange(n) % 5
    rows = ArrayRows(np.log(p), y, "log_probs", weight=weight)
    context = MetricContext(collect(rows, class_bins=15, group=group))
    parts = [MetricContext(t, context.settings) for t in context.table.groups()[1]]
    (gaps,) = group_gaps(parts, "top").values()
    found = {
        "classes": min(adjusted(class_p_values_of(context))),
        "groups": min(gap.p_adjusted for gap in gaps),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = calcli.evaluate(np.log(p), y, kind="log_probs", weights=weight, seed=r)
    report = told.to_dict()["results"][0]["report"]
    unclean = report["verdict_kind"] not in ("calibrated", "too_few")
    levels = {
        f"{name} {level}": float(p_value <= level)
        for name, p_value in found.items()
        for level in (0.05, 0.01)
    }
    return {"not clean": float(unclean), **levels}


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
    found = {}
    for name, score in measured(context, INTERVALS).items():
        scheme = INTERVALS[name]
        if name == "tce2" and context.discrete is not None:
            scheme = "values"
        index = bin_index(context.scores, context.edges(scheme))
        count = np.bincount(index)
        gap = np.bincount(index, weights=context.scores - (1.0 - wrong))
        true = np.abs(gap).sum() / n
        if name == "tce2":
            true = math.sqrt(float((gap**2 / np.maximum(count, 1)).sum()) / n)
        ends = score.interval
        found[f"{name} misses"] = float(not ends.low - 1e-12 <= true <= ends.high)
    if cell["temperature"] == 1.0:
        for name, score in measured(context, P_VALUES).items():
            for level in (0.05, 0.01):
                found[f"{name} {level}"] = float(score.p_value <= level)
    return found


def fold_truth(cell, made={}):  # noqa: B006
    """Mean difference in NLL of fits to four fifths of the rows, over fresh rows."""
    key = tuple(sorted(cell.items()))
    if key not in made:
        rng, n = np.random.default_rng([23, cell["rows"]]), cell["rows"] * 4 // 5
        z, y = fold_rows(50_000, cell, rng)
        at, differences = np.arange(len(y)), []
        for _ in range(200):
            rows = fold_rows(n, cell, rng)
            fits = [calcli.fit(*rows, name) for name in (richer(cell), "ts")]
            one, other = (-np.log(fit.predict_proba(z)[at, y]).mean() for fit in fits)
            differences.append(one - other)
        made[key] = float(np.mean(differences))
    return made[key]


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
    y = drawn(softmax(s), rng)
    z = 1.4 * s
    z[:, 0] += cell["bias"]
    return z, y


def folds(cell, r):
    rng = np.random.default_rng([24, cell["rows"], r])
    method = richer(cell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        true = fold_truth(cell)
        z, y = fold_rows(cell["rows"], cell, rng)
        found = calcli.compare(z, y, ["ts", method], seed=r)
    entries = [d for d in found["differences"] if d["method"] == method]
    ends = entries[0]["metrics"]["nll"].get("ci")
    if ends is None:
        return {"misses": 0.0, "no interval": 1.0}
    return {"misses": float(not ends[0] <= true <= ends[1]), "no interval": 0.0}


def normal_share(x):
    """P(Z <= x), (n,)."""
    return np.array([0.5 * math.erfc(-each / math.sqrt(2.0)) for each in x])


UNEVEN = ("nll", "brier_top", "accuracy", "auroc")


def uneven_rows(cell, rng):
    units = cell["units"]
    size = np.minimum(np.ceil(rng.pareto(cell["alpha"], units) + 1.0), 2000).astype(int)
    unit = np.repeat(np.arange(units), size)
    rho = cell["rho"]
    shared, own = rng.normal(size=units)[unit], rng.normal(size=len(unit))
    luck = normal_share(math.sqrt(rho) * shared + math.sqrt(1.0 - rho) * own)
    c = 0.5 + 0.5 * rng.beta(2, 1, len(unit))
    right = luck < c
    return ArrayRows(two_classes(c), 1 - right, "probs", units=Units.of(unit))


def two_classes(c):
    """Probabilities of two classes of which the first is predicted with confidence c."""
    return np.stack([c, 1.0 - c], axis=1)


def uneven_truth(made={}):  # noqa: B006
    if not made:
        rng = np.random.default_rng(25)
        c = 0.5 + 0.5 * rng.beta(2, 1, 400_000)
        rows = ArrayRows(two_classes(c), 1 - (rng.random(len(c)) < c), "probs")
        context = MetricContext(collect(rows), MetricSettings(interval="t"))
        made |= {name: measure(name, context).value for name in UNEVEN[1:]}
        made["nll"] = float(-(c * np.log(c) + (1 - c) * np.log1p(-c)).mean())
    return made


def uneven(cell, r):
    rng, truth = np.random.default_rng([26, cell["units"], r]), uneven_truth()
    rows = uneven_rows(cell, rng)
    context = MetricContext(collect(rows), MetricSettings(seed=r))
    found = {}
    for name in UNEVEN:
        ends = measure(name, context).interval
        known = ends is not None
        misses = known and not ends.low <= truth[name] <= ends.high
        found |= {f"{name} misses": float(misses), f"no {name}": float(not known)}
    return found


def together(cell, r):
    """Two samples of one population, and one of another with more of class 0; labels of
    calibrated units that are right or wrong as a whole, and with two names exchanged."""
    k, units, size = cell["classes"], cell["units"], cell["rows"]
    rng = np.random.default_rng([27, k, units, r])
    prior = rng.dirichlet(np.full(k, 2.0))
    other = prior + 0.5 * (np.arange(k) == 0)
    counts = []
    for share in (prior, prior, other / other.sum()):
        count = rng.integers(1, 2 * size, units)
        unit = np.repeat(np.arange(units), count)
        label = rng.choice(k, units, p=share)[unit]
        effect = label_effect(label, k, Units.of(unit))
        counts.append(np.bincount(label, minlength=k) / effect)
    found = {
        "frequencies differ": float(label_shift_p_value(*counts[:2]) < 1e-3),
        "other frequencies found": float(label_shift_p_value(*counts[::2]) < 1e-3),
    }
    unit = np.repeat(np.arange(units), size)
    z = (rng.normal(size=(units, k)) * 2.0)[unit] + 0.1 * rng.normal(
        size=(units * size, k)
    )
    luck = rng.random(units)[unit]
    y = np.minimum((softmax(z).cumsum(axis=1) < luck[:, None]).sum(axis=1), k - 1)
    first, second = np.argsort(np.bincount(z.argmax(axis=1), minlength=k))[:-3:-1]
    turned = np.where(y == first, second, np.where(y == second, first, y))
    for name, labels in (("doubt", y), ("exchange found", turned)):
        rows = ArrayRows(z, labels, units=Units.of(unit))
        doubts = label_doubts(collect(rows, class_bins=15), None)
        found[name] = float(bool(doubts))
    return found


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
    bars, held = curve.bins, curve.bins.count > 0
    low = bars.accuracy[held] < bars.null_low[held] - 1e-9
    high = bars.accuracy[held] > bars.null_high[held] + 1e-9
    return {
        "curve leaves": float(curve.outside > 0.0),
        "bars leave": float((low | high).any()),
        "rows outside": curve.outside,
    }


DOUBTS = ("labels", "too_good", "lacking", "sampled")


def findings(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([31, n, k, r])
    shares = rng.dirichlet(np.full(k, cell["evenness"]))
    z = rng.standard_t(4, size=(n, k)) * 1.3 + np.log(shares + 1e-4)
    p = softmax(z)
    y = drawn(p, rng)
    report = report_of(p, y, seed=r)
    said = {message["kind"] for message in report["messages"]}
    found = {kind: float(kind in said) for kind in DOUBTS}
    found["not clean"] = float(report["verdict_kind"] not in ("calibrated", "too_few"))
    context = MetricContext(collect(ArrayRows(p, y, "probs")), MetricSettings(seed=r))
    (squared,) = measured(context, ("tce2",)).values()
    found["tce2 0.05"] = float(squared.p_value <= 0.05)
    return found


def report_of(p, y, seed):
    """What ``evaluate`` says of probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = calcli.evaluate(p, y, kind="probs", seed=seed)
    return told.to_dict()["results"][0]["report"]


def gain(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([32, n, k, r])
    z = rng.standard_t(5, size=(n, k)) * 1.4
    true = softmax(z)
    stated = z * cell["slope"]
    stated[:, 0] += cell["bias"]
    p, y = softmax(stated), drawn(true, rng)
    largest = float((true * (np.log(true) - np.log(p))).sum(axis=1).mean())
    found = {
        "range misses": 0.0,
        "no range": 1.0,
        "bound above": 0.0,
        "estimate above": 0.0,
        "no gain": 1.0,
    }
    for message in report_of(p, y, seed=r)["messages"]:
        if message["kind"] == "range":
            c, right = p.max(axis=1), true[np.arange(n), p.argmax(axis=1)]
            if message["of_positive"]:
                c, right = p[:, 1], true[:, 1]
            inside = (c > message["low"]) & (c <= message["high"])
            frequency = right[inside].mean()
            held = message["observed_low"] <= frequency <= message["observed_high"]
            found |= {"range misses": float(not held), "no range": 0.0}
        if message["kind"] == "gain":
            found["bound above"] = float(message["at_least"] > largest)
            found["estimate above"] = float(message["nll"] > largest)
            found["no gain"] = 0.0
    return found


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
        found = calcli.evaluate(
            log_p[tested],
            y[tested],
            calibrator,
            kind="log_probs",
            units=None if units is None else units[tested],
            seed=r,
        )
    report = found.results[1].report
    return {
        "not clean": float(report.verdict.kind not in CLEAN),
        "exact": float(report.verdict.exact.kind not in CLEAN),
        "too few": float(report.verdict.kind == "too_few"),
    }


CLEAN = ("calibrated", "too_few")


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
