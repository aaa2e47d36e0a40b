"""Tables 1 to 9 of Jang, Ivanov, Lee, Weimer (2021), their structure, for any files of scores.

noise       tables 1: the family and scale that the search chooses, with alpha, beta and the criterion
ece         tables 2 and 4-8: calibration error of every method over 5 to 100 bins
scores      what a low error costs: Brier score of the confidence, confidence variance, NLL (figures 3-6)
seconds     table 3: seconds of CPU of each fit
start       table 9: error of Hoki started at the accuracy and at the confidence

Half of each file, drawn by seed, calibrates; the other half measures. Numbers are means over the seeds.

    python reproductions/hoki_tables.py SCORES.npz … -o FOLDER [--methods hoki,ts,…] [--seeds 3]
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import calcli

BINS = (5, 10, 15, 30, 50, 100)
METHODS = "ts,vs,ms-odir,dir-odir,ets,irm,irova-ts,hoki"
NOISES = ("gaussian", "uniform", "auto")
STARTS = ("accuracy", "confidence")


def read(path):
    with np.load(path) as file:
        labels = file["labels"]
        if "logits" in file:
            return file["logits"].astype(float), labels
        return np.log(np.maximum(file["probs"].astype(float), np.finfo(float).tiny)), labels


def timed(z, y, method, **options):
    """A calibrator and the seconds of CPU that its fit took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        calibrator = calcli.fit(z, y, method, **options)
        return calibrator, time.process_time() - start


def measured(z, y, calibrators, bins=15, metrics=("ece",)):
    """(calibrators + 1) rows of metrics, the uncalibrated scores first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calcli.evaluate(z, y, calibrators, metrics=list(metrics), bins=bins, resamples=1)
    return [[result.scores[name].value for name in metrics] for result in found.results]


def one_half(z, y, seed, methods):
    """All tables of one file and one seed."""
    order = np.random.default_rng(seed).permutation(len(y))
    cal, test = np.array_split(order, 2)
    fits = {method: timed(z[cal], y[cal], method) for method in methods}
    names, calibrators = ["uncalibrated", *fits], [each for each, _ in fits.values()]
    error = {bins: measured(z[test], y[test], calibrators, bins) for bins in BINS}
    scores = measured(z[test], y[test], calibrators, metrics=("brier_top", "confidence_variance", "nll"))
    noises = [timed(z[cal], y[cal], "hoki", noise=noise)[0] for noise in NOISES]
    starts = [timed(z[cal], y[cal], "hoki", init=init)[0] for init in STARTS]
    return {
        "ece": {name: [error[bins][i][0] for bins in BINS] for i, name in enumerate(names)},
        "scores": dict(zip(names, scores, strict=True)),
        "seconds": {method: [seconds] for method, (_, seconds) in fits.items()},
        "noise": {n: [row[0]] for n, row in zip(NOISES, measured(z[test], y[test], noises)[1:], strict=True)},
        "start": {s: [row[0]] for s, row in zip(STARTS, measured(z[test], y[test], starts)[1:], strict=True)},
    }, [chosen(each) for each in noises]


def chosen(calibrator):
    """What the search for the noise chose: family, scale, and the first round's parameters."""
    details = calibrator.to_dict()["fit"]["details"]
    params = calibrator.params
    return {
        "noise": params.get("noise", calibrator.options["noise"]),
        "scale": params.get("scale"),
        "criterion": max(details["criterion"]),
    }


def mean(halves, table):
    """Means over seeds of one table."""
    return {name: np.mean([half[table][name] for half in halves], axis=0).tolist() for name in halves[0][table]}


def show(title, table, columns, factor=1.0, digits=4):
    print(f"\n{title}")
    print(f"{'':16}", *(f"{column!s:>12}" for column in columns))
    for name, row in table.items():
        print(f"{name:16}", *(f"{factor * value:12.{digits}f}" for value in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, metavar="SCORES.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--methods", default=METHODS, help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=3, help="halves of each file (default: %(default)s)")
    given = parser.parse_args()
    methods, results = given.methods.split(","), {}
    for source in given.sources:
        z, y = read(source)
        halves, searched = zip(*(one_half(z, y, seed, methods) for seed in range(given.seeds)), strict=True)
        own = {table: mean(halves, table) for table in ("ece", "scores", "seconds", "noise", "start")}
        results[source.stem] = {"bins": list(BINS), **own, "search": dict(zip(NOISES, searched[0], strict=True))}
        show(f"{source.stem}: ECE in % over the number of bins (tables 2, 4-8)", own["ece"], BINS, 100.0, 2)
        show("other scores", own["scores"], ("brier_top", "variance", "nll"))
        show("ECE in % by family of noise (table 1)", own["noise"], ("ece",), 100.0, 2)
        for name, row in results[source.stem]["search"].items():
            print(f"  {name}: {row['noise']} of scale {row['scale']:.4g}, criterion {row['criterion']:.5f}")
        show("ECE in % by start (table 9)", own["start"], ("ece",), 100.0, 2)
        show("seconds of CPU (table 3)", own["seconds"], ("seconds",), 1.0, 2)
    given.output.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"seeds": given.seeds, "files": results}, indent=1)
    (given.output / "hoki_tables.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
