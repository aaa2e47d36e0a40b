"""Levels, power and coverage of what evaluate says, by simulation.

python benchmarks/levels.py level [--replicates 2000] [--classes 2,10,100] [--rows 200,1000,10000] [--split]
python benchmarks/levels.py power [--replicates 500]
python benchmarks/levels.py split [--replicates 200]
python benchmarks/levels.py coverage [--replicates 2000]

level : share of verdicts on calibrated rows that are anything but clean, and of each part.
Called without a word it is a short ``level``: 50 replicates of 200 and 1000 rows.
power : the same where the logits were divided by a temperature. split : calibration part of
the loss of calibrated rows. coverage : of the 95 % intervals of row means.
"""

import argparse
import math
import sys

import numpy as np

from calcli.evaluation.joint import joint_test
from calcli.evaluation.judge import CLAUSE, LEVEL, MAIN, data_summary, judge
from calcli.evaluation.refine import cross_fitted_split
from calcli.metrics.catalog import measure
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext, MetricSettings
from calcli.numerics import softmax
from calcli.rows import ArrayRows


def calibrated(n, k, rng, spread=None):
    """Logits (n, k) and labels drawn from their softmax; accuracy about .8 whatever k."""
    spread = spread or {2: 2.0, 10: 3.0, 100: 4.5}.get(k, 3.0)
    z = rng.normal(size=(n, k)) * spread
    p = softmax(z)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return z, np.minimum(y, k - 1)


def verdict(z, y, seed, with_split):
    """p-value of the whole report, of its joint test, and of its classes."""
    rows = ArrayRows(z, y)
    table = collect(rows, class_bins=15)
    context = MetricContext(table, MetricSettings(seed=seed))
    split = cross_fitted_split(rows, None, table, seed) if with_split else None
    report = judge(data_summary("logits", table), context, split)
    return report.p_overall, joint_test(context).p_value, report.classwise.p_value


def level(args):
    print("share of verdicts that are not clean on calibrated rows, with its standard error; shares of the parts")
    for k in args.classes:
        for n in args.rows:
            rng = np.random.default_rng([n, k])
            p = np.array([verdict(*calibrated(n, k, rng), r, args.split) for r in range(args.replicates)])
            share = (p[:, 0] <= LEVEL).mean()
            se = math.sqrt(share * (1 - share) / len(p))
            print(
                f"K {k:4} n {n:6}: {share:.4f} ±{se:.4f}; joint {(p[:, 1] <= MAIN).mean():.4f},"
                f" classes {(p[:, 2] <= CLAUSE).mean():.4f}",
                flush=True,
            )


def power(args):
    print("share of verdicts that are not clean where the stated logits are z / T")
    for temperature, n, k in ((0.95, 10000, 10), (0.85, 1000, 10)):
        rng = np.random.default_rng(1)
        found = []
        for r in range(args.replicates):
            z, y = calibrated(n, k, rng, args.spread)
            found.append(verdict(z / temperature, y, r, args.split)[:2])
        p = np.array(found)
        print(
            f"T {temperature} n {n} K {k}: {(p[:, 0] <= LEVEL).mean():.4f}, joint {(p[:, 1] <= MAIN).mean():.4f}",
            flush=True,
        )


def split(args):
    print("calibration part of the NLL of calibrated rows: mean, standard error, alarms at 5 % and in the verdict")
    for k in args.classes:
        for n in args.rows:
            rng = np.random.default_rng([n, k, 2])
            parts = []
            for r in range(args.replicates):
                z, y = calibrated(n, k, rng)
                rows = ArrayRows(z, y)
                parts.append(cross_fitted_split(rows, None, collect(rows), r).nll)
            value, score = (np.array([getattr(part, name) for part in parts]) for name in ("calibration", "z"))
            print(
                f"K {k:4} n {n:6}: {value.mean():+.5f} ±{value.std() / math.sqrt(len(value)):.5f},"
                f" {(score > 1.645).mean():.3f}, {(score > 2.652).mean():.3f}",
                flush=True,
            )


def coverage(args):
    names = ("nll", "brier", "brier_top", "accuracy", "mean_confidence")
    print("coverage of 95 % intervals, logits twice too large:", *names)
    for k in args.classes:
        big = collect(ArrayRows(*(lambda z, y: (2 * z, y))(*calibrated(400_000 // k, k, np.random.default_rng(9)))))
        truth = {name: measure(name, MetricContext(big, MetricSettings(interval="t"))).value for name in names}
        for n in args.rows:
            rng = np.random.default_rng([n, k, 3])
            inside = dict.fromkeys(names, 0)
            for r in range(args.replicates):
                z, y = calibrated(n, k, rng)
                context = MetricContext(collect(ArrayRows(2 * z, y)), MetricSettings(seed=r))
                for name in names:
                    i = measure(name, context).interval
                    inside[name] += i.low <= truth[name] <= i.high
            print(f"K {k:4} n {n:6}:", *(f"{inside[name] / args.replicates:.3f}" for name in names), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["level", "power", "split", "coverage"])
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--classes", type=lambda text: [int(x) for x in text.split(",")], default=[2, 10, 100])
    parser.add_argument("--rows", type=lambda text: [int(x) for x in text.split(",")], default=[200, 1000, 10000])
    parser.add_argument(
        "--split", action="store_true", help="with the cross-fitted split, which takes most of the time"
    )
    parser.add_argument("--spread", type=float, default=None, help="standard deviation of the true logits")
    words = sys.argv[1:] or ["level", "--replicates", "50", "--rows", "200,1000"]
    args = parser.parse_args(words)
    {"level": level, "power": power, "split": split, "coverage": coverage}[args.what](args)


if __name__ == "__main__":
    main()
