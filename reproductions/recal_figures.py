"""Figure 2 of "Improving Classifier Confidence using Lossy Label-Invariant Transformations", and what ReCal gains.

Jang, Lee, Weimer (2021). For every transform the calibration rows fall into four groups (does the prediction
change? does the confidence fall?), whose calibration errors are ranked; the figure shows for each group the share
of transforms with each rank, on raw scores, as the paper does, and after one temperature. Beside it:

rounds   the calibration error after each round of the algorithm as printed (no guard, no temperature first, own
         class), which the paper says cannot rise; a line of values for each half and pool
halves   ECE, NLL, Brier score (divided by the number of classes, as in table 3) and that of the confidence over
         random halves, lists with one entry a half: ReCal as printed and after one temperature, and Hoki with
         transforms of the input

    python reproductions/recal_figures.py SCORES.npz -o FOLDER [--halves 12] [--rounds 25]

SCORES.npz holds ``logits`` (n, k), ``labels``, ``transformed_logits`` (m, n, k) and ``transforms``, their names.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import h5py
import numpy as np
from saved import half, measured, store

import calcli

STARTS = {"raw": "none", "after one temperature": "ts"}
PRINTED = {"init": "none", "conf_at": "own"}
METRICS = ("ece", "nll", "brier_mean", "brier_top")
FOLLOWED = 5
"""Halves whose rounds are followed."""


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


def rounds(path, pool, count):
    """ECE on the calibration rows before and after one, two, … rounds of the same draws, as printed."""
    each = [fitted(path, rounds=r, pool=pool, **PRINTED) for r in range(1, count + 1)]
    return [
        each[0].before["ece"],
        *(one.to_dict()["fit"]["details"]["ece"] for one in each),
    ]


def calibrators(path, families):
    """What table 2 and the sections on transforms compare, by name, fitted to a bundle."""
    yield "temperature scaling", fitted(path, "ts")
    for family in families:
        yield f"recal, {family}, as printed", fitted(path, pool=family, **PRINTED)
        yield f"recal, {family}, after one temperature", fitted(path, pool=family)
        yield f"hoki, {family}", fitted(path, "hoki", noise="transforms", pool=family)
    yield "hoki, gaussian", fitted(path, "hoki")
    yield (
        f"hoki, gaussian and {families[0]}",
        fitted(path, "hoki", mix=0.5, pool=families[0]),
    )


def halves(folder, data, families, count, rounds_of):
    """Scores of every calibrator on every half, {name: {metric: [a value for each half]}}, and the rounds' paths."""
    found, paths = {}, {family: [] for family in families}
    for seed in range(count):
        cal, test = (np.sort(part) for part in half(len(data["labels"]), seed))
        here, there = (
            bundle(folder, "cal", data, cal),
            bundle(folder, "test", data, test),
        )
        each = dict(calibrators(here, families))
        for name, row in zip(
            ("uncalibrated", *each),
            measured(there, None, list(each.values()), METRICS),
            strict=True,
        ):
            own = found.setdefault(name, {metric: [] for metric in METRICS})
            for metric, value in zip(METRICS, row, strict=True):
                own[metric].append(value)
        if seed < FOLLOWED:
            for family in families:
                paths[family].append(rounds(here, family, rounds_of))
    return found, paths


def draw(results, path):
    """A panel per family and start: for each group the shares of ranks 1 to 4."""
    from matplotlib.figure import Figure

    families = list(results["ranks"]["raw"])
    figure = Figure(figsize=(4.6, 5.6), layout="constrained")
    axes = figure.subplots(2, len(families), squeeze=False, sharey=True)
    for row, start in enumerate(STARTS):
        for column, family in enumerate(families):
            table = np.array(results["ranks"][start][family], dtype=float)
            share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
            left = np.zeros(4)
            for rank, colour in enumerate(("#08519c", "#4292c6", "#9ecae1", "#deebf7")):
                axes[row, column].barh(
                    range(4),
                    share[:, rank],
                    left=left,
                    color=colour,
                    label=f"rank {rank + 1}",
                )
                left += share[:, rank]
            axes[row, column].set(
                title=f"{family},\n{start}", yticks=range(4), xlim=(0, 1)
            )
            axes[row, column].set_yticklabels([f"group {g + 1}" for g in range(4)])
            axes[row, column].invert_yaxis()
    axes[-1, 0].set_xlabel("share of the transforms")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        fontsize=8,
    )
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, metavar="SCORES.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--halves", type=int, default=12, help="random halves (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=25,
        help="rounds that are followed (default: %(default)s)",
    )
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with np.load(given.source) as file:
        data = {
            name: file[name]
            for name in ("logits", "labels", "transformed_logits", "transforms")
        }
    specs = [str(spec) for spec in data["transforms"]]
    families = list(dict.fromkeys(spec.partition(":")[0] for spec in specs))
    with tempfile.TemporaryDirectory() as folder:
        first = bundle(folder, "first", data, slice(0, len(data["labels"]) // 2))
        found = {start: groups(first, specs, init) for start, init in STARTS.items()}
        scores, paths = halves(folder, data, families, given.halves, given.rounds)
    results = {
        "groups": found,
        "ranks": {
            start: {family: counts(each, family) for family in families}
            for start, each in found.items()
        },
        "ece_after_round": paths,
        "scores": scores,
    }
    store(results, given.output, "recal_figures")
    draw(results, given.output / "recal_ranks.png")
    for start, each in results["ranks"].items():
        for family, table in each.items():
            print(f"{family}, {start}: groups 1-4, how often of rank 1 2 3 4: {table}")
    for family, each in paths.items():
        print(
            f"ECE after each round, {family}:",
            " ".join(f"{value:.5f}" for value in each[0]),
        )
    for name, own in scores.items():
        print(
            f"{name:40}",
            *(f"{metric} {np.mean(values):.5f}" for metric, values in own.items()),
        )


if __name__ == "__main__":
    main()
