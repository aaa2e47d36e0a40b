"""Figure 2 of "Improving Classifier Confidence using Lossy Label-Invariant Transformations", and what ReCal gains.

Jang, Lee, Weimer (2021). For every transform the calibration rows fall into four groups (does the prediction
change? does the confidence fall?), whose calibration errors are ranked; the figure shows for each group the share
of transforms with each rank, on raw scores, as the paper does, and after one temperature. Beside it:

rounds   the calibration error after each round, which the paper says cannot rise
halves   ECE, NLL and Brier score (divided by the number of classes, as in table 3) over random halves

    python reproductions/recal_figures.py SCORES.npz -o FOLDER [--halves 5] [--pool zoom]

SCORES.npz holds ``logits`` (n, k), ``labels``, ``transformed_logits`` (m, n, k) and ``transforms``, their names.
"""

import argparse
import json
import tempfile
import warnings
from pathlib import Path

import h5py
import numpy as np

import calcli

ROUNDS = 10
STARTS = {"raw": "none", "after one temperature": "ts"}


def bundle(folder, name, data, rows):
    """The path of a bundle of some rows with their transforms."""
    path = Path(folder) / f"{name}.h5"
    with h5py.File(path, "w") as file:
        file["logits"], file["labels"] = data["logits"][rows], data["labels"][rows]
        file["transforms/logits"] = data["transformed_logits"][:, rows]
        file["transforms/specs"] = [str(spec) for spec in data["transforms"]]
    return str(path)


def fitted(path, method="recal", **options):
    """A calibrator; what a fit says of few rows is not the subject here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calcli.fit(path, method=method, **options)


def groups(path, specs, init):
    """Rows, ECE and ranks of the four groups under every transform; an empty group has no rank."""
    found = {}
    for spec in specs:
        only = fitted(path, init=init, conf_at="own", rounds=1, pool=spec)
        one = only.to_dict()["fit"]["details"]["groups"][0]
        filled = [g for g in range(4) if one["rows"][g]]
        order = sorted(filled, key=lambda g: one["ece_before"][g])
        ranks = [order.index(g) + 1 if g in order else None for g in range(4)]
        found[spec] = {"rows": one["rows"], "ece": one["ece_before"], "ranks": ranks}
    return found


def counts(found, family):
    """How often each group has each rank among the transforms of a family, 4 x 4."""
    table = np.zeros((4, 4), dtype=int)
    for spec, one in found.items():
        if spec.partition(":")[0] == family:
            for group, rank in enumerate(one["ranks"]):
                if rank is not None:
                    table[group, rank - 1] += 1
    return table.tolist()


def rounds(path, pool):
    """ECE on the calibration rows after one, two, … rounds of the same draws."""
    each = (fitted(path, conf_at="original", rounds=r, pool=pool) for r in range(1, ROUNDS + 1))
    return [one.to_dict()["fit"]["details"]["ece"] for one in each]


def halves(folder, data, count, pool):
    """What temperature scaling and ReCal, started from it, give on the other half; mean over random halves."""
    out = []
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(len(data["labels"]))
        cal, test = (np.sort(part) for part in np.array_split(order, 2))
        here, there = bundle(folder, f"cal{seed}", data, cal), bundle(folder, f"test{seed}", data, test)
        both = [fitted(here, "ts"), fitted(here, pool=pool)]
        results = calcli.evaluate(there, calibrators=both, metrics=["ece", "nll", "brier_mean"], resamples=1).results
        out.append([[score.value for score in result.scores.values()] for result in results])
    names = ("uncalibrated", "ts", "recal")
    mean = np.mean(out, axis=0).tolist()
    better = int(sum(one[2][2] < one[1][2] for one in out))
    table = {
        name: dict(zip(("ece", "nll", "brier_mean"), row, strict=True)) for name, row in zip(names, mean, strict=True)
    }
    return {"halves": count, "recal_has_less_brier": better, **table}


def draw(results, path):
    """A panel per family and start: for each group the shares of ranks 1 to 4."""
    from matplotlib.figure import Figure

    families = list(results["ranks"]["raw"])
    figure = Figure(figsize=(3.2 * len(families), 5.2), layout="constrained")
    axes = figure.subplots(2, len(families), squeeze=False, sharey=True)
    for row, start in enumerate(STARTS):
        for column, family in enumerate(families):
            table = np.array(results["ranks"][start][family], dtype=float)
            share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
            left = np.zeros(4)
            for rank, colour in enumerate(("#08519c", "#4292c6", "#9ecae1", "#deebf7")):
                axes[row, column].barh(range(4), share[:, rank], left=left, color=colour, label=f"rank {rank + 1}")
                left += share[:, rank]
            axes[row, column].set(title=f"{family}, {start}", yticks=range(4), xlim=(0, 1))
            axes[row, column].set_yticklabels([f"group {g + 1}" for g in range(4)])
            axes[row, column].invert_yaxis()
    axes[-1, 0].set_xlabel("share of the transforms")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="SCORES.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--halves", type=int, default=5, help="random halves (default: %(default)s)")
    parser.add_argument("--pool", default="all", help="transforms that rounds draw from (default: %(default)s)")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    data = np.load(given.source)
    data = {name: data[name] for name in ("logits", "labels", "transformed_logits", "transforms")}
    specs = [str(spec) for spec in data["transforms"]]
    families = list(dict.fromkeys(spec.partition(":")[0] for spec in specs))
    with tempfile.TemporaryDirectory() as folder:
        first = bundle(folder, "first", data, slice(0, len(data["labels"]) // 2))
        found = {start: groups(first, specs, init) for start, init in STARTS.items()}
        results = {
            "groups": found,
            "ranks": {start: {family: counts(each, family) for family in families} for start, each in found.items()},
            "ece_after_round": rounds(first, given.pool),
            "scores": halves(folder, data, given.halves, given.pool),
        }
    (given.output / "recal_figures.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    draw(results, given.output / "recal_ranks.png")
    for start, each in results["ranks"].items():
        for family, table in each.items():
            print(f"{family}, {start}: groups 1-4, how often of rank 1 2 3 4: {table}")
    print("ECE after each round:", " ".join(f"{value:.5f}" for value in results["ece_after_round"]))
    for name in ("uncalibrated", "ts", "recal"):
        print(f"{name:13}", *(f"{key} {value:.5f}" for key, value in results["scores"][name].items()))


if __name__ == "__main__":
    main()
