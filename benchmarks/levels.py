"""Levels, power and coverage of what evaluate says, by simulation.

python benchmarks/levels.py level|power|split|coverage|areas|paired [--classes 2,10,100] [--rows 200,1000]
python benchmarks/levels.py … --record benchmarks/levels.json [--replicates 2000] [--seconds 480]
python benchmarks/levels.py units|promise [--replicates 400]
python benchmarks/levels.py weighted|near|folds|uneven|together|band|findings|gain|fitted [--replicates 200]
(the line above: see _levels_of_facts.py)
python benchmarks/levels.py soft|direction [--replicates 200] (see _levels_of_words.py)
python benchmarks/levels.py crossed [--replicates 150] (see _levels_of_cross_fits.py)
python benchmarks/levels.py asked [--replicates 100] (see _levels_of_logs.py)
python benchmarks/levels.py table benchmarks/levels.json

level : share of verdicts on calibrated rows that are anything but clean, and of each of its
tests; with --scores sure, rare or noisy of near-certain scores, of a class with 1 % of the
rows (and two classes: class 1), and of labels of which 5 % are drawn at random, which the
scores know.
power : the same where the stated logits are z / T (T < 1: overconfident), and where one
class has a bias; with --rows at fixed departures of every number of classes.
split : calibration part of the log loss of calibrated rows.
coverage : of the 95 % intervals of row means, where the logits are twice too large and the
losses skewed.
areas : the same of auroc, aurc and eaurc, of rows drawn from --pool where one is given, and
how often there is none.
paired : two maps of known scores (--pool FILE.npz: of its logits), labels from a known
truth: how often the paired test and Student's find the first better or worse at 2.5 % each,
how often their intervals miss, and how often there is none (_levels_of_pairs.py).
units : the verdict and its tests, by unit, on calibrated rows that depend on each other
within units. promise : how often a threshold by unit breaks its promise; flat: where no
threshold keeps it (_levels_of_units.py).

Replicate r of a cell draws from the seed (experiment, n, k, r) and goes through the code of
evaluate, split included. With --record sums are kept in a file, from which the next run
goes on, so that a long simulation can be made in pieces. Called without a word it is a
short ``level``.
"""

import math
import sys
import time
from functools import cache
from pathlib import Path

import _levels_of_cross_fits
import _levels_of_facts
import _levels_of_logs
import _levels_of_pairs
import _levels_of_units
import _levels_of_words
import numpy as np
from _levels_shared import SCORES, calibrated, judgement
from _measure import parser_of
from _stored import read_entries, write_entries

from calcli.evaluation.cross_validation import decomposed_loss
from calcli.evaluation.levels import LEVEL, TEST_LEVELS
from calcli.metrics.catalog import measure
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows
from calcli.statistics.intervals import normal_tail

LOSSES = ("nll", "brier", "brier_top", "accuracy", "mean_confidence")
AREAS = ("auroc", "aurc", "eaurc")
TRUTH_ROWS = 400_000
TRUTH_STEP = 20_000
POPULATION = 200_000
"""Rows of which the true areas are."""

ALARM = 1.645
"""One-sided 5 % point of a normal."""


# ---- verdicts on calibrated rows, and on rows that are not


def level(cell, r):
    n, k = cell["rows"], cell["classes"]
    draw = SCORES[cell.get("scores", "plain")]
    z, y = draw(n, k, np.random.default_rng([1, n, k, r]))
    return verdict(z, y, r, cell.get("split", True))


def power(cell, r):
    n, k = cell["rows"], cell["classes"]
    rng = np.random.default_rng([2, n, k, r])
    z, y = calibrated(n, k, rng, cell.get("spread"))
    stated = z / cell.get("temperature", 1.0)
    stated[:, 0] += cell.get("bias", 0.0)
    return verdict(stated, y, r, cell.get("split", True))


def verdict(z, y, seed, with_split):
    """What the default report says: 1.0 where it is not clean, and where each test is not."""
    rows = ArrayRows(z, y)
    table = collect(rows, class_bins=15)
    context = MetricContext(table, MetricSettings(seed=seed, interval="t"))
    split = decomposed_loss(rows, None, table, seed) if with_split else None
    report = judgement(context, rows.kind, split)
    figures = {"not clean": float(report.p_overall <= LEVEL)}
    figures["joint test"] = float("confidence" in report.significant)
    for clause in ("classes", "bins", "errors", "split"):
        figures[clause] = float(clause in report.significant)
    return figures


def split(cell, r):
    n, k = cell["rows"], cell["classes"]
    z, y = calibrated(n, k, np.random.default_rng([3, n, k, r]))
    rows = ArrayRows(z, y)
    part = decomposed_loss(rows, None, collect(rows), r)
    p_value = normal_tail(part.nll.z)
    return {
        "log loss": part.nll.calibration,
        "alarms": float(part.nll.z > ALARM),
        "Brier score": part.brier.calibration,
        "Brier alarms": float(part.brier.z > ALARM),
        "in the verdict": float(p_value <= TEST_LEVELS["split"]),
    }


# ---- coverage of intervals


@cache
def true_losses(k):
    """Means over so many rows that their own noise does not matter."""
    rng = np.random.default_rng([4, k])
    means = dict.fromkeys(LOSSES, 0.0)
    for _ in range(TRUTH_ROWS // TRUTH_STEP):
        z, y = calibrated(TRUTH_STEP, k, rng)
        table = collect(ArrayRows(2 * z, y))
        context = MetricContext(table, MetricSettings(interval="t"))
        for name in LOSSES:
            means[name] += measure(name, context).value * TRUTH_STEP / TRUTH_ROWS
    return means


def coverage(cell, r):
    n, k = cell["rows"], cell["classes"]
    truth = true_losses(k)
    z, y = calibrated(n, k, np.random.default_rng([4, n, k, r]))
    context = MetricContext(collect(ArrayRows(2 * z, y)), MetricSettings(seed=r))
    figures = {}
    for name in LOSSES:
        interval = measure(name, context).interval
        figures[name] = float(interval.low <= truth[name] <= interval.high)
    return figures


@cache
def pool_of(path):
    """Logits and labels of a file."""
    with np.load(path) as file:
        return file["logits"].astype(np.float64), file["labels"]


def area_rows(kind, n, rng):
    """Rows with rounded logits, so that many confidences tie; or rows of a file.

    All rows of the file where n is larger.
    """
    if kind == "tied":
        z, y = calibrated(n, 10, rng)
        return ArrayRows(np.round(z), y)
    z, y = pool_of(kind)
    if n > len(y):
        return ArrayRows(z, y)
    chosen = rng.integers(0, len(y), n)
    return ArrayRows(z[chosen], y[chosen])


@cache
def true_areas(kind):
    rows = area_rows(kind, POPULATION, np.random.default_rng(7))
    context = MetricContext(collect(rows))
    return {name: measure(name, context).value for name in AREAS}


def areas(cell, r):
    n, kind = cell["rows"], cell["scores"]
    truth = true_areas(kind)
    rows = area_rows(kind, n, np.random.default_rng([7, n, r]))
    context = MetricContext(collect(rows))
    figures = {}
    for name in AREAS:
        interval = measure(name, context).interval
        has_interval = interval is not None
        is_missed = has_interval and not interval.low <= truth[name] <= interval.high
        figures[f"{name} misses"] = float(is_missed)
        figures[f"no {name}"] = float(not has_interval)
    return figures


EXPERIMENTS = {
    **_levels_of_units.EXPERIMENTS,
    **_levels_of_pairs.EXPERIMENTS,
    "areas": areas,
    "level": level,
    "power": power,
    "split": split,
    "coverage": coverage,
    **_levels_of_facts.EXPERIMENTS,
    **_levels_of_words.EXPERIMENTS,
    **_levels_of_cross_fits.EXPERIMENTS,
    **_levels_of_logs.EXPERIMENTS,
}
"""Experiment by name: a function of a cell and the number of the replicate."""


# ---- cells: what tells the runs of an experiment apart

SHIFTS = (
    {"rows": 10000, "classes": 10, "temperature": 0.95},
    {"rows": 1000, "classes": 10, "temperature": 0.85},
    {"rows": 10000, "classes": 10, "bias": 0.3},
)
DEPARTURES = (
    {"temperature": 0.77},
    {"temperature": 1.1},
    {"temperature": 1.3},
    {"bias": 0.5},
)
CLASSES = (2, 3, 10, 100)
SIZES = {
    "level": {"classes": CLASSES, "rows": (50, 200, 1000, 10000)},
    "split": {"classes": (100,), "rows": (500, 1000, 2000, 5000)},
    "coverage": {"classes": (2, 10, 100), "rows": (200, 1000)},
}
"""Classes and rows where none are asked for."""

ROWS_OF_AREAS = (100, 300, 1000, 5000)


def cells_of(args):
    """The cells of an experiment."""
    modules = (_levels_of_facts, _levels_of_units, _levels_of_words)
    for module in (*modules, _levels_of_cross_fits, _levels_of_logs):
        if args.experiment in module.CELLS:
            return module.CELLS[args.experiment]
    if args.experiment == "paired":
        return _levels_of_pairs.cells_of(args)
    if args.experiment == "areas":
        return cells_of_areas(args)
    if args.experiment == "power":
        cells = cells_of_power(args)
    else:
        cells = cells_of_sizes(args)
    if args.without_split:
        return [{**cell, "split": False} for cell in cells]
    return cells


def cells_of_areas(args):
    cells = []
    for kind in args.pool or ["tied"]:
        for n in args.rows or ROWS_OF_AREAS:
            cells.append({"rows": n, "scores": kind})
    return cells


def cells_of_power(args):
    """Each departure at the rows asked for; else three shifts."""
    shifts = []
    for k in args.classes or CLASSES:
        for n in args.rows or ():
            for departure in DEPARTURES:
                shifts.append({"rows": n, "classes": k, **departure})
    cells = []
    for spread in args.spread or [None]:
        for shift in shifts or SHIFTS:
            cells.append(dict(shift))
            if spread is not None:
                cells[-1]["spread"] = spread
    return cells


def cells_of_sizes(args):
    default = SIZES[args.experiment]
    cells = []
    for kind in args.scores or ["plain"]:
        for k in args.classes or default["classes"]:
            for n in args.rows or default["rows"]:
                cells.append({"rows": n, "classes": k})
                if kind != "plain":
                    cells[-1]["scores"] = kind
    return cells


# ---- the run


def entry_of(record, experiment, cell):
    """The entry of a cell in the record, a new one where it has none."""
    for entry in record:
        if entry["experiment"] == experiment and entry["cell"] == cell:
            return entry
    entry = {"experiment": experiment, "cell": cell, "replicates": 0, "sums": {}}
    record.append(entry)
    return entry


def add_replicate(entry):
    """Add sums and sums of squares of one more replicate."""
    figures = EXPERIMENTS[entry["experiment"]](entry["cell"], entry["replicates"])
    for name, value in figures.items():
        total, total_of_squares = entry["sums"].get(name, (0.0, 0.0))
        entry["sums"][name] = [total + value, total_of_squares + value**2]
    entry["replicates"] += 1


def simulate(args, record):
    """Run every cell to its number of replicates, or until the time is up."""
    end = time.monotonic() + args.seconds
    for cell in cells_of(args):
        entry = entry_of(record, args.experiment, cell)
        while entry["replicates"] < args.replicates and time.monotonic() < end:
            add_replicate(entry)
        if entry["replicates"]:
            print(line_of(entry), flush=True)


def line_of(entry):
    """One cell in a line: every mean with its standard error."""
    count = entry["replicates"]
    words = [f"{name} {value}" for name, value in entry["cell"].items()]
    for name, (first, second) in entry["sums"].items():
        mean = first / count
        variance = max(second / count - mean**2, 0.0)
        words.append(f"{name} {mean:.4f} ±{math.sqrt(variance / count):.4f}")
    return f"{entry['experiment']} ({count}): " + ", ".join(words)


def numbers(text):
    return [int(word) for word in text.split(",")]


SHORT = ["level", "--replicates", "50", "--rows", "200,1000", "--seconds", "120"]
"""What runs without a word."""


def parsed():
    parser = parser_of(__doc__)
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "table"])
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
    return parser.parse_args(sys.argv[1:] or SHORT)


def main():
    args = parsed()
    if args.experiment == "table":
        for entry in read_entries(args.file):
            print(line_of(entry))
        return
    record = read_entries(args.record)
    try:
        simulate(args, record)
    finally:
        if args.record is not None:
            write_entries(args.record, record)


if __name__ == "__main__":
    main()
