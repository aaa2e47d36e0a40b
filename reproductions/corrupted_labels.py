"""Calibration when labels are wrong: appendix C of Clarte, Loureiro, Krzakala, Zdeborova (2023).

The labels of the first tenth of the classes are made random, in the calibration and in the test
half (the published errors leave no other reading); temperature scaling (TS) and expectation
consistency (EC) are fitted and judged on these labels. Printed: means and standard deviations over
seeds, each one split and one corruption, beside the published numbers.

    python reproductions/corrupted_labels.py FOLDER [--seeds 40] [--only NAME]

FOLDER holds cifar100_resnet20.npz and the like with ``logits`` and ``labels``.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import calcli

COLUMNS = ("error", "T_TS", "T_EC", "ECE", "ECE_TS", "ECE_EC", "BS", "BS_TS", "BS_EC")
PUBLISHED = {
    "cifar100_resnet20": (38.1, 2.04, 1.70, 16.5, 9.6, 5.9, 57.0, 54.9, 53.9),
    "cifar100_resnet56": (34.8, 2.27, 2.10, 21.7, 7.6, 7.3, 56.0, 50.6, 50.4),
    "cifar100_vgg19_bn": (35.5, 2.6, 2.1, 28.34, 5.2, 5.1, 61.8, 50.1, 50.1),
    "cifar100_repvgg_a2": (30.5, 1.44, 1.40, 13.7, 11.6, 11.7, 47.2, 47.1, 47.0),
}
"""Table 1 of the appendix, CIFAR-100 rows, in per cent but for the temperatures."""
SHARE = 0.1


def one_seed(z, y, seed):
    """The nine numbers of one split and one corruption."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    classes = z.shape[1]
    low = np.flatnonzero(y < SHARE * classes)
    y = y.copy()
    y[low] = rng.integers(0, classes, len(low))
    cal, test = np.split(order, [len(y) // 2])
    fitted = [calcli.fit(z[cal], y[cal], method) for method in ("ts", "ec")]
    found = calcli.evaluate(
        z[test], y[test], fitted, metrics=["accuracy", "ece", "brier"], resamples=1
    )
    scores = [
        [100 * result.scores[name].value for result in found.results]
        for name in ("accuracy", "ece", "brier")
    ]
    temperatures = (each.params["temperature"] for each in fitted)
    return [100 - scores[0][0], *temperatures, *scores[1], *scores[2]]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--seeds",
        type=int,
        default=40,
        help="splits and corruptions (default: %(default)s)",
    )
    parser.add_argument("--only", metavar="NAME", help="one of the files")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FOLDER",
        help="also write the numbers as JSON",
    )
    given = parser.parse_args()
    near, cells, kept = 0, 0, {}
    print(f"{'':20}", *(f"{name:>14}" for name in COLUMNS))
    for name, published in PUBLISHED.items():
        path = given.folder / f"{name}.npz"
        if (given.only and given.only != name) or not path.exists():
            continue
        data = np.load(path)
        runs = np.array(
            [
                one_seed(data["logits"], data["labels"], seed)
                for seed in range(given.seeds)
            ]
        )
        mean, spread = (
            runs.mean(axis=0),
            runs.std(axis=0, ddof=1) if given.seeds > 1 else np.full(9, np.nan),
        )
        print(
            f"{name:20}",
            *(f"{m:7.3f}({s:.3f})" for m, s in zip(mean, spread, strict=True)),
        )
        print(f"{'published':20}", *(f"{value:>14g}" for value in published))
        near += int((np.abs(mean - published) <= 2 * spread).sum())
        cells += len(published)
        kept[name] = {
            "published": published,
            "mean": mean.tolist(),
            "sd": spread.tolist(),
        }
    if given.output:
        given.output.mkdir(parents=True, exist_ok=True)
        numbers = {
            "seeds": given.seeds,
            "columns": COLUMNS,
            "rows": kept,
            "near": near,
            "cells": cells,
        }
        text = json.dumps(numbers, indent=1)
        (given.output / "corrupted_labels.json").write_text(
            text + "\n", encoding="utf-8"
        )
    print(f"published values within two standard deviations: {near} of {cells}")


if __name__ == "__main__":
    main()
