"""Expectation consistency, Table 1 (CIFAR-100 rows), through the command line.

Clarte, Loureiro, Krzakala, Zdeborova (2023) split the CIFAR-100 test set of four public
networks into a calibration and a test half and print nine numbers for each. The split is
not published, so we draw many random, unstratified halves (the paper does not stratify)
and print our mean and standard deviation beside the published value. The ECE is that of
the authors' code: 15 bins of equal mass (the paper does not say).

    python reproductions/expectation_consistency_table1.py FOLDER [--halves 40] [--only cifar100_resnet20]

FOLDER holds cifar100_resnet20.npz, … with arrays ``logits`` and ``labels`` (10000 x 100).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COLUMNS = ("err", "T_TS", "T_EC", "ECE", "ECE_TS", "ECE_EC", "BS", "BS_TS", "BS_EC")
# Clarte et al. (2023), Table 1: per cent, except the temperatures.
PUBLISHED = {
    "cifar100_resnet20": (31.0, 1.44, 1.44, 10.2, 1.7, 1.7, 44.3, 42.5, 42.5),
    "cifar100_resnet56": (27.3, 1.73, 1.79, 14.0, 2.6, 2.2, 41.0, 38.0, 38.0),
    "cifar100_vgg19_bn": (26.4, 2.14, 2.28, 19.9, 5.3, 4.8, 44.8, 37.2, 36.9),
    "cifar100_repvgg_a2": (22.5, 1.07, 1.16, 5.3, 4.6, 4.4, 32.1, 31.9, 32.0),
}


def calcli(folder, *words):
    command = [sys.executable, "-m", "calcli", *map(str, words), "-q"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def one_half(source, seed):
    """The nine numbers of one random half, every one from a calcli command."""
    with tempfile.TemporaryDirectory() as folder:
        halves = (
            "--split",
            "cal=0.5",
            "--split",
            "test=0.5",
            "--no-stratify",
            "--seed",
            seed,
        )
        calcli(folder, "extract", source, "-o", "z.h5", *halves)
        for method in ("ts", "ec"):
            calcli(folder, "fit", "--method", method, "z.h5", "-o", f"{method}.json")
        fitted = [
            json.loads((Path(folder) / f"{m}.json").read_text())["params"][
                "temperature"
            ]
            for m in ("ts", "ec")
        ]
        metrics = [
            w for name in ("accuracy", "ece_mass", "brier") for w in ("--metric", name)
        ]
        both = ("--calibrator", "ts.json", "--calibrator", "ec.json")
        results = json.loads(
            calcli(folder, "evaluate", "z.h5", *both, *metrics, "--json")
        )["results"]
    value = [{name: m["value"] for name, m in r["metrics"].items()} for r in results]
    return (
        100 * (1 - value[0]["accuracy"]),
        *fitted,
        *(100 * v["ece_mass"] for v in value),
        *(100 * v["brier"] for v in value),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--halves", type=int, default=40)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FOLDER",
        help="also write the numbers as JSON",
    )
    parser.add_argument(
        "--only", choices=PUBLISHED, action="append", help="only this row (repeatable)"
    )
    arguments = parser.parse_args()
    chosen = arguments.only or list(PUBLISHED)
    print(f"mean (sd) of {arguments.halves} random halves / published")
    print("row".ljust(20), *(c.rjust(22) for c in COLUMNS))
    outside, kept = 0, {}
    for name in chosen:
        source = (arguments.folder / f"{name}.npz").resolve()
        with ThreadPoolExecutor(2) as pool:
            halves = list(
                pool.map(
                    lambda seed, source=source: one_half(source, seed),
                    range(arguments.halves),
                )
            )
        cells = []
        for j, target in enumerate(PUBLISHED[name]):
            column = [half[j] for half in halves]
            mean, sd = statistics.mean(column), statistics.stdev(column)
            outside += abs(mean - target) > 2 * sd
            digits = 3 if j in (1, 2) else 2
            cells.append(f"{mean:.{digits}f} ({sd:.{digits}f}) / {target:g}".rjust(22))
        print(name.ljust(20), *cells)
        columns = list(zip(*halves, strict=True))
        spreads = {
            "mean": [statistics.mean(c) for c in columns],
            "sd": [statistics.stdev(c) for c in columns],
        }
        kept[name] = {"published": PUBLISHED[name], **spreads}
    cells = len(chosen) * len(COLUMNS)
    print(
        f"cells further than two standard deviations from the published value: {outside} of {cells}"
    )
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        numbers = {
            "halves": arguments.halves,
            "columns": COLUMNS,
            "rows": kept,
            "outside": outside,
            "cells": cells,
        }
        text = json.dumps(numbers, indent=1)
        (arguments.output / "expectation_consistency_table1.json").write_text(
            text + "\n", encoding="utf-8"
        )
    return outside > 0


if __name__ == "__main__":
    sys.exit(main())
