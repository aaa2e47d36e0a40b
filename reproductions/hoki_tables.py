"""Tables 1 to 9 of Jang, Ivanov, Lee, Weimer (2021), their structure, for any files of scores.

ece         tables 2 and 4-8: calibration error of every method over 5 to 100 bins
scores      what a low error costs: Brier score of the confidence, confidence variance, NLL (figures 3-6)
seconds     table 3: seconds of CPU of each fit
halves      table 1, the family that the search chooses; table 9, the start; theorems 1 and 2; the error beside the
            difference of the halves' accuracies; the error after calibration on fewer rows

Half of each file, drawn by seed, calibrates; the other half measures. Gaussian and uniform noise compete, as printed:
on whole-numbered scales (on thirteen for fewer rows). Numbers are means over the seeds, those of
``halves`` lists with one entry a seed.

    python reproductions/hoki_tables.py SCORES.npz … -o FOLDER [--methods hoki,ts,…] [--seeds 2] [--halves 8]
"""

import time

import numpy as np
from saved import each_file, fitted, half, measured, parser, store

BINS = (5, 10, 15, 30, 50, 100)
SIZES = (500, 1000, 2000, 5000)
METHODS = "ts,vs,ms-odir,dir-odir,ets,irm,irova-ts,hoki"
FAMILIES = {"noise": "auto", "families": "gaussian,uniform"}
PRINTED = {"hoki": FAMILIES | {"grid": "printed"}}
SCORES = ("brier_top", "confidence_variance", "nll")


def timed(z, y, method):
    """A calibrator and the seconds of CPU that its fit took."""
    start = time.process_time()
    calibrator = fitted(z, y, method, **PRINTED.get(method, {}))
    return calibrator, time.process_time() - start


def all_methods(z, y, seed, methods):
    """Tables 2 to 8 of one file and one seed."""
    cal, test = half(len(y), seed)
    for method in methods:
        fitted(
            z[cal[:200]], y[cal[:200]], method
        )  # what a first fit imports is not timed
    fits = {method: timed(z[cal], y[cal], method) for method in methods}
    names, calibrators = ["uncalibrated", *fits], [each for each, _ in fits.values()]
    error = {
        bins: measured(z[test], y[test], calibrators, ("ece",), bins) for bins in BINS
    }
    return {
        "ece": {
            name: [error[bins][i][0] for bins in BINS] for i, name in enumerate(names)
        },
        "scores": dict(
            zip(names, measured(z[test], y[test], calibrators, SCORES), strict=True)
        ),
        "seconds": {method: [seconds] for method, (_, seconds) in fits.items()},
    }


def hoki_alone(z, y, seed):
    """What the tables and sentences say of Hoki itself, on one half."""
    cal, test = half(len(y), seed)
    best = fitted(z[cal], y[cal], "hoki", **PRINTED["hoki"])
    chosen = {"noise": best.params["noise"], "scale": best.params["scale"]}
    again = fitted(z[cal], y[cal], "hoki", init="confidence", **chosen)
    fewer = [fitted(z[cal[:size]], y[cal[:size]], "hoki", **FAMILIES) for size in SIZES]
    error = [
        row[0] for row in measured(z[test], y[test], [best, again, *fewer], ("ece",))
    ]
    printed, repaired = measured(
        z[test], y[test], [best], ("bound_printed", "bound_repaired")
    )[1]
    accuracy = [
        float((z[part].argmax(axis=1) == y[part]).mean()) for part in (cal, test)
    ]
    record = best.to_dict()["fit"]
    return chosen | {
        "families": record["details"]["families"],
        "criterion": max(record["details"]["criterion"]),
        "rounds": record["details"]["rounds"],
        "converged": record["status"] == "ok",
        "ece_of_calibration": record["details"]["ece_width"],
        "ece": error[1],
        "ece_from_confidence": error[2],
        "ece_by_rows": error[3:],
        "accuracies": accuracy,
        "bounds": [printed, repaired],
    }


def mean(halves, table):
    """Means over seeds of one table."""
    return {
        name: np.mean([one[table][name] for one in halves], axis=0).tolist()
        for name in halves[0][table]
    }


def draw(files, path):
    """Figures 3-6: confidence variance against ECE, every method, a panel for each of two files."""
    from matplotlib.figure import Figure

    shown = [
        name for name in ("cifar10_resnet20", "cifar100_resnet20") if name in files
    ] or list(files)[:1]
    figure = Figure(figsize=(4.6, 3.4 * len(shown)), layout="constrained")
    for axes, name in zip(
        np.atleast_1d(figure.subplots(len(shown), 1)), shown, strict=True
    ):
        own = files[name]
        for method, marker in zip(own["ece"], "Xov^<>sPD*", strict=False):
            at = 100 * own["ece"][method][BINS.index(15)], own["scores"][method][1]
            axes.plot(*at, marker, ms=8, ls="", label=method)
        axes.set(title=name, xlabel="ECE, %", ylabel="confidence variance")
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def show(title, table, columns, factor=1.0, digits=4):
    print(f"\n{title}")
    print(f"{'':16}", *(f"{column!s:>12}" for column in columns))
    for name, row in table.items():
        print(f"{name:16}", *(f"{factor * value:12.{digits}f}" for value in row))


def one_file(z, y, given):
    """All tables of one file."""
    halves = [
        all_methods(z, y, seed, given.methods.split(",")) for seed in range(given.seeds)
    ]
    own = {table: mean(halves, table) for table in ("ece", "scores", "seconds")}
    return {
        "classes": z.shape[1],
        **own,
        "halves": [hoki_alone(z, y, seed) for seed in range(given.halves)],
    }


def main():
    options = parser(
        __doc__,
        seeds=(2, "halves for all methods"),
        halves=(8, "halves for Hoki alone"),
    )
    options.add_argument("--methods", default=METHODS, help="default: %(default)s")
    given = options.parse_args()
    files = each_file(one_file, given.sources, given)
    for name, own in files.items():
        show(
            f"{name}: ECE in % over the number of bins (tables 2, 4-8)",
            own["ece"],
            BINS,
            100.0,
            2,
        )
        show("other scores", own["scores"], ("brier_top", "variance", "nll"))
        show("seconds of CPU (table 3)", own["seconds"], ("seconds",), 1.0, 2)
        print(
            "\nnoise chosen (table 1):",
            *(f"{one['noise']} {one['scale']:g}" for one in own["halves"]),
            sep="  ",
        )
    runs = {
        "seeds": given.seeds,
        "halves": given.halves,
        "bins": list(BINS),
        "sizes": list(SIZES),
    }
    store(runs | {"files": files}, given.output, "hoki_tables")
    draw(files, given.output / "variance.png")


if __name__ == "__main__":
    main()
