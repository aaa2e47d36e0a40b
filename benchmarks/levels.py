"""Levels, power and coverage of what evaluate says, by simulation.

python benchmarks/levels.py level|power|split|coverage|areas|paired [--classes 2,10,100] [--rows 200,1000]
python benchmarks/levels.py … --record benchmarks/levels.json [--replicates 2000] [--seconds 480]
python benchmarks/levels.py units|promise [--replicates 400]
python benchmarks/levels.py weighted|near|folds|uneven|together|band|findings|gain [--replicates 200]
(the last line: see _levels_of_facts.py)
python benchmarks/levels.py table benchmarks/levels.json

level : share of verdicts on calibrated rows that are anything but clean, and of each of its tests; with --scores
sure, rare or noisy of near-certain scores, of a class with 1 % of the rows (and two classes: class 1), and of labels
of which 5 % are drawn at random, which the scores know.
power : the same where the stated logits are z / T (T < 1: overconfident), and where one class has a bias; with --rows
at fixed departures of every number of classes. split : calibration part of the log loss of calibrated rows. coverage
: of the 95 % intervals of row means, where the logits are twice too large and the losses skewed. areas : the same of
auroc, aurc and eaurc, of rows drawn from --pool where one is given, and how often there is none. paired : two maps of
known scores (--pool FILE.npz: of its logits), labels from a known truth: how often the paired test and Student's find
the first better or worse at 2.5 % each, how often their intervals miss, and how often there is none.

units : the verdict and its tests, by unit, on calibrated rows that depend on each other within units. promise : how
often a threshold by unit breaks its promise; flat: where no threshold keeps it.

Replicate r of a cell draws from the seed (experiment, n, k, r) and goes through the code of evaluate,
split included. With --record sums are kept in a file, from which the next run goes on, so that a
long simulation can be made in pieces. Called without a word it is a short ``level``.
"""

import argparse
import json
import math
import sys
import time
from functools import partial
from pathlib import Path

import _levels_of_facts
import numpy as np

from calcli.evaluation.cross_validation import cross_fitted_split
from calcli.evaluation.differences import differences
from calcli.evaluation.evaluate_bundle import measured
from calcli.evaluation.levels import ERROR_METRICS, LEVEL, TEST_LEVELS
from calcli.evaluation.measure_facts import measure_facts, summarise_data
from calcli.evaluation.scores import Score
from calcli.evaluation.selective_threshold import ThresholdSearch
from calcli.evaluation.verdict import judge
from calcli.metrics.catalog import measure
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import gap_interval
from calcli.metrics.settings import MetricSettings
from calcli.numerics import log_softmax, softmax
from calcli.rows import ArrayRows
from calcli.statistics.intervals import Mean, normal_tail, t_interval, t_p_value
from calcli.statistics.paired import PairedSums, expected_powers
from calcli.statistics.units import Units

LOSSES = ("nll", "brier", "brier_top", "accuracy", "mean_confidence")
TRUTH_ROWS = 400_000
ALARM = 1.645
"""One-sided 5 % point of a normal."""


def calibrated(n, k, rng, spread=None):
    """Logits (n, k) and labels drawn from their softmax; accuracy about .8 whatever k."""
    spread = spread or {2: 2.0, 10: 3.0, 100: 4.5}.get(k, 3.0)
    z = rng.normal(size=(n, k)) * spread
    return z, drawn(softmax(z), rng)


def drawn(p, rng):
    """Labels by probabilities (n, k)."""
    return np.minimum(
        (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1), p.shape[1] - 1
    )


def sure(n, k, rng):
    """Log-odds of 5 to 14 for one class."""
    z = np.zeros((n, k))
    z[np.arange(n), rng.integers(0, k, n)] = rng.uniform(5.0, 14.0, n) + math.log(k - 1)
    return z, drawn(softmax(z), rng)


def rare(n, k, rng):
    """The last class has 1 % of the rows."""
    z = rng.normal(size=(n, k)) * {2: 1.5, 10: 3.0, 100: 4.5}.get(k, 3.0)
    z[:, -1] -= {2: 6.2, 3: 9.0, 10: 8.0, 100: 3.0}.get(k, 6.0)
    return z, drawn(softmax(z), rng)


def noisy(n, k, rng):
    """One label in twenty is drawn at random, and the probabilities say so."""
    p = 0.95 * softmax(calibrated(n, k, rng)[0]) + 0.05 / k
    return np.log(p), drawn(p, rng)


SCORES = {"plain": calibrated, "sure": sure, "rare": rare, "noisy": noisy}


def verdict(z, y, seed, with_split=True):
    """What the default report decides: 1.0 where it says anything but clean, and where each test does."""
    rows = ArrayRows(z, y)
    table = collect(rows, class_bins=15)
    context = MetricContext(table, MetricSettings(seed=seed, interval="t"))
    split = cross_fitted_split(rows, None, table, seed) if with_split else None
    report = judged(context, rows.kind, split)
    parts = {"not clean": float(report.p_overall <= LEVEL)}
    parts["joint test"] = float("confidence" in report.significant)
    for clause in ("classes", "bins", "errors", "split"):
        parts[clause] = float(clause in report.significant)
    return parts


def judged(context, kind, split):
    """The verdict on rows, on P(class 1) where they have two classes."""
    facts = measure_facts(
        summarise_data(kind, context),
        context,
        measured(context, error_metrics(context)),
        positive=context.table.k == 2,
        split=split,
    )
    return judge(facts)


def error_metrics(context):
    """Calibration errors of the default report, for so many classes."""
    if context.table.k == 2:
        return ERROR_METRICS
    return [name for name in ERROR_METRICS if name != "ece_positive"]


def level(cell, r):
    n, k = cell["rows"], cell["classes"]
    made = SCORES[cell.get("scores", "plain")]
    return verdict(
        *made(n, k, np.random.default_rng([1, n, k, r])), r, cell.get("split", True)
    )


def normal_share(x):
    """P(Z <= x), (n,)."""
    return np.array([0.5 * math.erfc(-each / math.sqrt(2.0)) for each in x])


UNIT_SCORES = {
    "wide": lambda n, rng: 0.5 + 0.5 * rng.beta(2, 1, n),
    "mixed": lambda n, rng: rng.uniform(0.5, 1.0, n),
    "near": lambda n, rng: (
        1.0 - np.exp(rng.uniform(math.log(0.001), math.log(0.05), n))
    ),
    "nearer": lambda n, rng: (
        1.0 - np.exp(rng.uniform(math.log(0.0001), math.log(0.01), n))
    ),
    "threshold": lambda n, rng: 1.0 / (1.0 + np.exp(-rng.normal(1.6, 1.6, n))),
}
"""Confidences of the cells of units, by name."""


def in_units(cell, rng):
    """Units of rows, and a uniform number for each: marginally independent of the score, alike within the unit.

    A Gaussian copula with correlation rho, which is not the law of the null that is tested.
    """
    size, g, rho = cell["rows"], cell["units"], cell.get("rho", 0.0)
    if size == "exponential":
        count = np.maximum(1, np.rint(rng.exponential(cell["mean"], g)).astype(int))
    else:
        count = (
            rng.integers(size[0], size[1] + 1, g)
            if isinstance(size, list)
            else np.full(g, size)
        )
    unit = np.repeat(np.arange(g), count)
    both = math.sqrt(rho) * rng.normal(size=g)[unit] + math.sqrt(
        1.0 - rho
    ) * rng.normal(size=len(unit))
    return Units.of(unit), normal_share(both)


def units(cell, r):
    """Calibrated rows in units: how often the verdict and each test of it, by unit, finds them anything else."""
    rng, k = np.random.default_rng([9, cell["units"], r]), cell.get("classes", 1)
    known, v = in_units(cell, rng)
    if k == 1:
        c = UNIT_SCORES[cell["scores"]](len(v), rng)
        rows = ArrayRows(
            c[:, None], (v < c).astype(np.int64), "confidence", units=known
        )
    else:
        z, _ = calibrated(len(v), k, rng)
        top, p = z.argmax(axis=1), softmax(z)
        if (
            cell.get("luck") == "class"
        ):  # units are lucky to be of a class, not to be right
            top = np.zeros(len(v), dtype=np.int64)
        here = np.arange(len(v))
        p[here, top] = 0.0
        left = np.maximum(v - softmax(z)[here, top], 0.0)[
            :, None
        ]  # the prediction first, then the other classes
        y = np.where(
            v < softmax(z)[here, top],
            top,
            np.minimum((p.cumsum(axis=1) <= left).sum(axis=1), k - 1),
        )
        rows = ArrayRows(z, y, units=known)
    context = MetricContext(
        collect(rows, class_bins=15 if k > 1 else 0),
        MetricSettings(seed=r),
        partial(class_columns, rows, None),
    )
    split = cross_fitted_split(rows, None, context.table, r) if k > 1 else None
    report = judged(context, rows.kind, split)
    found = {"not clean": float(report.p_overall <= LEVEL or report.p_value <= LEVEL)}
    found |= {
        name: float(name in report.significant)
        for name in ("confidence", "classes", "bins", "split")
    }
    for name in ("gap", "ece", "ece_mass", "tce2", "smece", "ks"):
        found[name] = float(
            Score.of(name, measure(name, context), context.settings).p_value <= 0.05
        )
    over = gap_interval(context.labelled("top"))
    found["no interval"], found["misses 0"] = (
        float(not over.known),
        float(over.low > 0.0 or over.high < 0.0),
    )
    return found


def promise(cell, r):
    """The promise of threshold by unit, and as if rows were independent: how often it is broken, and the coverage."""
    rng, accuracy = np.random.default_rng([8, cell["units"], r]), cell["accuracy"]
    known, v = in_units(cell, rng)
    c, many = (UNIT_SCORES["threshold"](n, rng) for n in (len(v), 200_000))
    right = (v < (accuracy if cell.get("flat") else c)).astype(np.float64)
    found = {}
    for name, together in (("", known), (", rows", None)):
        best = ThresholdSearch.of(c, right, together).choose(accuracy).best
        held = many[many >= best.threshold] if best is not None else many[:0]
        broken = len(held) > 0 and (
            bool(cell.get("flat")) or float(held.mean()) < accuracy
        )
        found[f"broken{name}"], found[f"coverage{name}"] = (
            float(broken),
            len(held) / len(many),
        )
    return found


def power(cell, r):
    n, k = cell["rows"], cell["classes"]
    z, y = calibrated(n, k, np.random.default_rng([2, n, k, r]), cell.get("spread"))
    stated = z / cell.get("temperature", 1.0)
    stated[:, 0] += cell.get("bias", 0.0)
    return verdict(stated, y, r, cell.get("split", True))


def split(cell, r):
    n, k = cell["rows"], cell["classes"]
    z, y = calibrated(n, k, np.random.default_rng([3, n, k, r]))
    rows = ArrayRows(z, y)
    part = cross_fitted_split(rows, None, collect(rows), r)
    return {
        "log loss": part.nll.calibration,
        "alarms": float(part.nll.z > ALARM),
        "Brier score": part.brier.calibration,
        "Brier alarms": float(part.brier.z > ALARM),
        "in the verdict": float(normal_tail(part.nll.z) <= TEST_LEVELS["split"]),
    }


def truth_of(k, made={}):  # noqa: B006
    """Means over so many rows that their own noise does not matter."""
    if k not in made:
        rng, step = np.random.default_rng([4, k]), 20_000
        sums = dict.fromkeys(LOSSES, 0.0)
        for _ in range(TRUTH_ROWS // step):
            z, y = calibrated(step, k, rng)
            context = MetricContext(
                collect(ArrayRows(2 * z, y)), MetricSettings(interval="t")
            )
            for name in LOSSES:
                sums[name] += measure(name, context).value * step / TRUTH_ROWS
        made[k] = sums
    return made[k]


def coverage(cell, r):
    n, k = cell["rows"], cell["classes"]
    truth = truth_of(k)
    z, y = calibrated(n, k, np.random.default_rng([4, n, k, r]))
    context = MetricContext(collect(ArrayRows(2 * z, y)), MetricSettings(seed=r))
    intervals = {name: measure(name, context).interval for name in LOSSES}
    return {
        name: float(i.low <= truth[name] <= i.high) for name, i in intervals.items()
    }


AREAS = ("auroc", "aurc", "eaurc")


def areas(cell, r, truths={}):  # noqa: B006
    n, kind = cell["rows"], cell["scores"]
    if kind not in truths:
        whole = MetricContext(
            collect(ArrayRows(*area_rows(kind, 200_000, np.random.default_rng(7))))
        )
        truths[kind] = {name: measure(name, whole).value for name in AREAS}
    context = MetricContext(
        collect(ArrayRows(*area_rows(kind, n, np.random.default_rng([7, n, r]))))
    )
    found = {}
    for name in AREAS:
        i, true = measure(name, context).interval, truths[kind][name]
        found |= {
            f"{name} misses": float(i is not None and not i.low <= true <= i.high),
            f"no {name}": float(i is None),
        }
    return found


def area_rows(kind, n, rng, pools={}):  # noqa: B006
    """Rounded logits, so that many confidences tie, with labels; or rows of a file of both, all where n is larger."""
    if kind == "tied":
        z, y = calibrated(n, 10, rng)
        return np.round(z), y
    if kind not in pools:
        pools[kind] = np.load(kind)
        pools[kind] = pools[kind]["logits"].astype(np.float64), pools[kind]["labels"]
    z, y = pools[kind]
    chosen = slice(None) if n > len(y) else rng.integers(0, len(y), n)
    return z[chosen], y[chosen]


def scores_of(kind, n, rng, pools={}):  # noqa: B006
    """Logits (n, k) of a generator, or rows of a file of logits."""
    if kind == "c10":
        return rng.normal(size=(n, 10)) * 4.0
    if kind == "60 % right":
        return rng.normal(size=(n, 10)) * 1.7
    if kind == "1 % positive":
        return np.stack([np.zeros(n), rng.normal(size=n) * 1.8 - 6.2], axis=1)
    if kind == "near-certain":
        return rng.permuted(
            np.hstack([9 + 1.5 * rng.normal(size=(n, 1)), np.zeros((n, 9))]), axis=1
        )
    if kind not in pools:
        pools[kind] = np.load(kind)["logits"].astype(np.float64)
    return pools[kind][rng.integers(0, len(pools[kind]), n)]


def mapped(z, slope_and_bias):
    """Log-probabilities under a slope, and a bias of class 0."""
    slope, bias = slope_and_bias
    return log_softmax(z * slope + bias * (np.arange(z.shape[1]) == 0))


def chances(z, truth):
    """Probabilities of the labels: a slope, a bias of class 0 and a share of labels at random."""
    return (1.0 - truth[2]) * np.exp(mapped(z, truth[:2])) + truth[2] / z.shape[1]


def expected_loss(kind, loss, truth, stated, made={}):  # noqa: B006
    """Mean loss of a map over so many scores that their own noise is the same for all."""
    key = (kind, loss, truth, stated)
    if key not in made:
        z = scores_of(kind, 20_000, np.random.default_rng(5))
        made[key] = float(
            (chances(z, truth) * losses_by_label(mapped(z, stated), loss))
            .sum(axis=1)
            .mean()
        )
    return made[key]


def losses_by_label(log_p, loss):
    p = np.exp(log_p)
    return -log_p if loss == "nll" else (p * p).sum(axis=1, keepdims=True) - 2.0 * p


def rival_of(cell):
    """Truth, first map and rival; where none is given the sharper one that loses as much as the first map."""
    truth, first = (1.0, 0.0, cell.get("noise", 0.0)), tuple(cell["first"])
    if "rival" in cell:
        return truth, first, tuple(cell["rival"])
    high, goal = 5.0, expected_loss(cell["scores"], cell["loss"], truth, first)
    steps = np.linspace(
        first[0], 1.5, 13
    )  # the least loss in between, behind which it rises
    low = float(
        min(
            steps,
            key=lambda slope: expected_loss(
                cell["scores"], cell["loss"], truth, (float(slope), 0.0)
            ),
        )
    )
    for _ in range(30):
        middle = (low + high) / 2
        less = expected_loss(cell["scores"], cell["loss"], truth, (middle, 0.0)) < goal
        low, high = (middle, high) if less else (low, middle)
    return truth, first, (low, 0.0)


def paired(cell, r):
    n, kind, loss = cell["rows"], cell["scores"], cell["loss"]
    truth, first, rival = rival_of(cell)
    rng = np.random.default_rng([6, n, r])
    z = scores_of(kind, n, rng)
    y = drawn(chances(z, truth), rng)
    a, b = mapped(z, first), mapped(z, rival)
    by_label = losses_by_label(a, loss) - losses_by_label(b, loss)
    sums = PairedSums.of(
        by_label[np.arange(n), y], None, expected_powers(by_label, np.exp(a), np.exp(b))
    )
    mean, se, _ = sums.student()
    t = mean / se if se else math.copysign(math.inf, mean)
    found, found_t = differences({loss: sums}, 0.95)[loss], t_p_value(t, n - 1)
    true = expected_loss(kind, loss, truth, first) - expected_loss(
        kind, loss, truth, rival
    )
    student, held = t_interval(Mean(mean, se, n), 0.95), found.interval
    return {
        "better": float(found.p_value <= 0.05 and mean < 0),
        "worse": float(found.p_value <= 0.05 and mean > 0),
        "t better": float(found_t <= 0.05 and mean < 0),
        "t worse": float(found_t <= 0.05 and mean > 0),
        "no interval": float(held is None),
        "misses": float(held is not None and not held.low <= true <= held.high),
        "t misses": float(not student.low <= true <= student.high),
    }


EXPERIMENTS = {
    "units": units,
    "promise": promise,
    "paired": paired,
    "areas": areas,
    "level": level,
    "power": power,
    "split": split,
    "coverage": coverage,
    **_levels_of_facts.EXPERIMENTS,
}
GRID = {"classes": [2, 3, 10, 100], "rows": [50, 200, 1000, 10000]}
SHIFTS = [
    {"rows": 10000, "classes": 10, "temperature": 0.95},
    {"rows": 1000, "classes": 10, "temperature": 0.85},
    {"rows": 10000, "classes": 10, "bias": 0.3},
]
DEPARTURES = [
    {"temperature": 0.77},
    {"temperature": 1.1},
    {"temperature": 1.3},
    {"bias": 0.5},
]


GENERATORS = ["c10", "1 % positive", "60 % right"]
RIVALS = [
    ((0.6, 0.0), (1.0, 0.0)),
    ((1.5, 0.0), (1.0, 0.0)),
    ((1.0, 1.0), (1.0, 0.0)),
    ((2.0, 0.0), (1.4, 0.0)),
]


def paired_cells(args):
    """Nulls (two maps of equal loss), labels at random among them, and pairs of which the first is worse."""
    cells = []
    for n in args.rows or [100, 500]:
        for kind in args.pool or GENERATORS:
            cells += [
                {"rows": n, "scores": kind, "loss": loss, "first": (0.9, 0.0)}
                for loss in ("nll", "brier")
            ]
            cells.append(
                {"rows": n, "scores": kind, "loss": "nll", "first": (0.6, 0.0)}
            )
            cells += [
                {"rows": n, "scores": kind, "loss": "nll", "first": a, "rival": b}
                for a, b in RIVALS
            ]
        if not args.pool:
            cells.append(
                {
                    "rows": n,
                    "scores": "near-certain",
                    "loss": "nll",
                    "first": (0.9, 0.0),
                }
            )
            cells.append(
                {
                    "rows": n,
                    "scores": "c10",
                    "loss": "nll",
                    "first": (0.9, 0.0),
                    "noise": 0.01,
                }
            )
    return [
        json.loads(json.dumps(cell)) for cell in cells
    ]  # tuples as a record has them


UNIT_CELLS = [
    *(
        ("nearer", 30, 1, 0.0),
        ("nearer", 100, [1, 5], 0.9),
        ("nearer", 1000, 1, 0.0),
        ("nearer", 1000, [1, 5], 0.9),
    ),
    *(
        ("near", 30, [1, 5], 0.9),
        ("near", 100, [1, 5], 0.3),
        ("near", 100, 5, 0.9),
        ("near", 300, [1, 5], 0.9),
    ),
    *(("near", 1000, [1, 5], 0.9), ("near", 3000, [1, 5], 0.9), ("near", 30, 50, 0.3)),
    *(
        ("wide", 30, 1, 0.0),
        ("wide", 30, 50, 0.3),
        ("wide", 100, 50, 0.3),
        ("wide", 400, 5, 0.3),
    ),
    *(("wide", 400, 5, 0.9), ("wide", 200, 50, 0.05), ("wide", 200, 50, 0.3)),
    *(
        ("mixed", 12, 20, 0.3),
        ("mixed", 30, 50, 0.3),
        ("mixed", 100, [1, 5], 0.9),
        ("mixed", 1000, [1, 5], 0.9),
    ),
]
CLASS_CELLS = [
    (2, 100, 10, 0.3),
    (2, 30, 20, 0.9),
    (10, 100, 10, 0.3),
    (10, 30, 20, 0.3),
    (100, 200, 10, 0.3),
]
PROMISES = [
    (400, 5, 0.9),
    (200, 50, 0.3),
    (60, 20, 0.3),
    (30, 50, 0.3),
    (400, "exponential", 0.9),
]
FLAT = [(400, 5, 0.9), (60, 20, 0.3), (60, 20, 0.99), (200, 20, 0.99)]


def unit_cells(what):
    """Units of few and many rows that are hardly and nearly alike, of scores that are wide and nearly certain."""
    if what == "units":
        cells = [
            {"scores": s, "units": g, "rows": m, "rho": rho}
            for s, g, m, rho in UNIT_CELLS
        ]
        cells += [
            {"classes": k, "units": g, "rows": m, "rho": rho}
            for k, g, m, rho in CLASS_CELLS
        ]
        return cells + [
            {"classes": k, "units": 30, "rows": 20, "rho": 0.9, "luck": "class"}
            for k in (2, 10)
        ]
    mean = {"exponential": {"mean": 5}}
    return [
        {"units": g, "rows": m, "rho": rho, "accuracy": a, **mean.get(m, {}), **flat}
        for cells, flat in ((PROMISES, {}), (FLAT, {"flat": True}))
        for g, m, rho in cells
        for a in (0.8, 0.9, 0.95)
    ]


def cells_of(args):
    """The cells of an experiment, with what tells them apart."""
    if args.what in _levels_of_facts.CELLS:
        return _levels_of_facts.CELLS[args.what]
    if args.what in ("units", "promise"):
        return unit_cells(args.what)
    if args.what == "paired":
        return paired_cells(args)
    if args.what == "areas":
        return [
            {"rows": n, "scores": kind}
            for kind in args.pool or ["tied"]
            for n in args.rows or [100, 300, 1000, 5000]
        ]
    without = {"split": False} if args.without_split else {}
    if args.what == "power":
        spreads = [
            {} if spread is None else {"spread": spread} for spread in args.spread
        ]
        sizes = [
            {"rows": n, "classes": k}
            for k in args.classes or GRID["classes"]
            for n in args.rows or []
        ]
        shifts = [
            {**size, **departure} for size in sizes for departure in DEPARTURES
        ] or SHIFTS
        return [
            {**shift, **spread, **without} for spread in spreads for shift in shifts
        ]
    default = (
        {"classes": [100], "rows": [500, 1000, 2000, 5000]}
        if args.what == "split"
        else GRID
    )
    if args.what == "coverage":
        default = {"classes": [2, 10, 100], "rows": [200, 1000]}
    kinds = [
        {} if kind == "plain" else {"scores": kind} for kind in args.scores or ["plain"]
    ]
    return [
        {"rows": n, "classes": k, **kind, **without}
        for kind in kinds
        for k in args.classes or default["classes"]
        for n in args.rows or default["rows"]
    ]


def simulate(args, record):
    """Run every cell to its number of replicates, or until the time is up; sums go into the record."""
    end = time.monotonic() + args.seconds
    for cell in cells_of(args):
        kept = next(
            (e for e in record if e["experiment"] == args.what and e["cell"] == cell),
            None,
        )
        if kept is None:
            kept = {"experiment": args.what, "cell": cell, "replicates": 0, "sums": {}}
            record.append(kept)
        while kept["replicates"] < args.replicates and time.monotonic() < end:
            for name, value in EXPERIMENTS[args.what](cell, kept["replicates"]).items():
                first, second = kept["sums"].get(name, (0.0, 0.0))
                kept["sums"][name] = [first + value, second + value**2]
            kept["replicates"] += 1
        if kept["replicates"]:
            print(line_of(kept), flush=True)


def line_of(kept):
    """One cell in a line: every mean with its standard error."""
    count = kept["replicates"]
    words = [f"{name} {value}" for name, value in kept["cell"].items()]
    for name, (first, second) in kept["sums"].items():
        mean = first / count
        words.append(
            f"{name} {mean:.4f} ±{math.sqrt(max(second / count - mean**2, 0.0) / count):.4f}"
        )
    return f"{kept['experiment']} ({count}): " + ", ".join(words)


def save(record, path):
    """One cell a line, so that a change can be read."""
    path.write_text(
        "[\n" + ",\n".join(json.dumps(each) for each in record) + "\n]\n",
        encoding="utf-8",
    )


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*EXPERIMENTS, "table"])
    parser.add_argument(
        "file", nargs="?", type=Path, help="record whose lines table prints"
    )
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--classes", type=numbers)
    parser.add_argument("--rows", type=numbers)
    parser.add_argument(
        "--scores",
        action="append",
        choices=list(SCORES),
        help="whose level (default plain)",
    )
    parser.add_argument(
        "--pool",
        action="append",
        help="file of logits that paired and areas draw from, an .npz",
    )
    parser.add_argument(
        "--spread",
        type=float,
        action="append",
        help="standard deviation of the true logits",
    )
    parser.add_argument(
        "--without-split",
        action="store_true",
        help="leave out the split, nearly all the time of large cells",
    )
    parser.add_argument(
        "--record", type=Path, help="JSON file of sums, from which the next run goes on"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="time after which no replicate is begun",
    )
    args = parser.parse_args(
        sys.argv[1:]
        or ["level", "--replicates", "50", "--rows", "200,1000", "--seconds", "120"]
    )
    args.spread = args.spread or [None]
    path = args.file if args.what == "table" else args.record
    record = (
        json.loads(path.read_text(encoding="utf-8"))
        if path is not None and path.exists()
        else []
    )
    if args.what == "table":
        print(*map(line_of, record), sep="\n")
        return
    try:
        simulate(args, record)
    finally:
        if path is not None:
            save(record, path)


if __name__ == "__main__":
    main()
