"""The four experiments of "Reproduction and Extension of Verified Uncertainty Calibration".

Li (2023) repeats Kumar, Liang, Ma (2019). Every number comes from the calcli command
line; the figures and a JSON file with the plotted numbers go to a folder.

1. Binned calibration error of a Platt-scaled model against the number of bins: binning
   hides error, so the measured error grows with the bins (l1 and l2).
2. Scaling-binning against histogram binning: squared error against the number of bins
   when few rows calibrate (means over random draws).
3. Debiased against plugin estimator: mean squared error of the estimate against the
   number of rows that evaluate, the calibrator being a scaling-binning one whose error on
   all the remaining rows stands in for the truth. (As in the paper the stand-in is the
   plugin, itself biased upwards: samples nearly as large as the rest flatter the plugin.)
4. All of it for the top label and class by class (marginal).

    python examples/paper001.py SCORES.npz -o FOLDER [--trials 10]

SCORES.npz holds ``probs`` or ``logits`` with ``labels``, e.g. the probability file of a
CIFAR-10 network published with verified_calibration (10000 x 10).
"""

import argparse
import contextlib
import io
import json
import tempfile
from pathlib import Path

import numpy as np

from calcli.__main__ import run

BIN_SWEEP = (2, 4, 8, 16, 32, 64, 128)
CALIBRATOR_BINS = (10, 20, 40, 60, 80, 100)
MODES = ("top", "marginal")


def calcli(*words):
    """Run one calcli command, the way its process would, and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = run([str(word) for word in words])
    if code:
        raise SystemExit(f"calcli {' '.join(map(str, words))} ended with {code}")
    return printed.getvalue()


def evaluation(*words):
    return json.loads(calcli("evaluate", *words, "--json", "-q"))["results"]


def split(source, target, seed, *sizes):
    parts = [word for size in sizes for word in ("--split", size)]
    calcli("extract", source, "-o", target, *parts, "--no-stratify", "--seed", seed, "--force", "-q")


def fit(method, bundle, target, *settings):
    options = [word for setting in settings for word in ("--set", setting)]
    calcli("fit", "--method", method, bundle, "-o", target, *options, "--force", "-q")


def error_against_bins(source, folder):
    """Experiment 1: 1000 rows fit Platt scaling, 1000 choose the bins, the rest measure."""
    bundle = folder / "thirds.h5"
    split(source, bundle, 0, "fit=1000", "bins=1000", "rest=rest")
    out = {}
    for mode in MODES:
        fit("platt", f"{bundle}:fit", folder / f"platt.{mode}.json", f"mode={'top' if mode == 'top' else 'ova'}")
        for norm in ("1", "2"):
            words = ("--bin-sweep", ",".join(map(str, BIN_SWEEP)), "--edges-from", f"{bundle}:bins", "--norm", norm)
            extra = ("--marginal",) if mode == "marginal" else ()
            results = evaluation(f"{bundle}:rest", "-c", folder / f"platt.{mode}.json", "-m", "ece", *words, *extra)
            sweep = results[1]["bin_sweep"]
            out[f"{mode} l{norm}"] = {"bins": sweep["bins"], "plugin": sweep[mode]}
            if norm == "2":
                out[f"{mode} l2"]["debiased"] = sweep[f"{mode}_debiased"]
    return out


def scaling_against_histogram(source, folder, trials):
    """Experiment 2: 1000 rows calibrate with B bins, the rest measure the squared error."""
    out = {}
    for mode in MODES:
        metric = "tce2" if mode == "top" else "marginal2"
        found = {method: np.zeros((trials, len(CALIBRATOR_BINS))) for method in ("sb", "hb")}
        for trial in range(trials):
            bundle = folder / "draw.h5"
            split(source, bundle, trial, "cal=1000", "rest=rest")
            artifacts = []
            for method in found:
                how = mode if method == "sb" or mode == "top" else "ova"
                for bins in CALIBRATOR_BINS:
                    artifacts.append(folder / f"{method}.{bins}.json")
                    fit(method, f"{bundle}:cal", artifacts[-1], f"mode={how}", f"bins={bins}", "scheme=mass")
            words = [word for artifact in artifacts for word in ("-c", artifact)]
            results = evaluation(f"{bundle}:rest", *words, "-m", metric, "--resamples", 1)[1:]
            squares = [r["metrics"][metric]["signed_square"] for r in results]
            for j, method in enumerate(found):
                found[method][trial] = squares[j * len(CALIBRATOR_BINS) : (j + 1) * len(CALIBRATOR_BINS)]
        # 90 % intervals of the mean over trials, as in the paper.
        reach = 1.645 / np.sqrt(trials)
        out[mode] = {
            method: {
                "bins": list(CALIBRATOR_BINS),
                "mean": values.mean(axis=0).tolist(),
                "reach": (reach * values.std(axis=0)).tolist(),
            }
            for method, values in found.items()
        }
    return out


def debiased_against_plugin(source, folder, trials):
    """Experiment 3: 3000 rows calibrate; samples of the rest measure; all of the rest is the truth."""
    bundle = folder / "parts.h5"
    split(source, bundle, 0, "cal=3000", "rest=rest")
    n = json.loads(calcli("inspect", f"{bundle}:rest", "--json"))["bundles"][0]["n"]
    sizes = [size for size in (500, 1000, 2000, 3000, 4000, 5000, 6000) if size < n]
    out = {}
    for mode in MODES:
        debiased, plugin = ("tce2", "tce2_plugin") if mode == "top" else ("marginal2", "marginal2_plugin")
        for bins in (15, 100):
            artifact = folder / f"sb.{mode}.{bins}.json"
            fit("sb", f"{bundle}:cal", artifact, f"mode={mode}", f"bins={bins}")
            words = ("-c", artifact, "-m", debiased, "-m", plugin, "--bins", bins, "--resamples", 1)
            truth = evaluation(f"{bundle}:rest", *words)[1]["metrics"][plugin]["value"] ** 2
            errors = {name: [] for name in ("debiased", "plugin")}
            for size in sizes:
                found = []
                for trial in range(trials):
                    sample = folder / "sample.h5"
                    some = ("--group", "rest", "--split", f"s={size}", "--split", "other=rest")
                    calcli("extract", bundle, "-o", sample, *some, "--no-stratify", "--seed", trial, "--force", "-q")
                    metrics = evaluation(f"{sample}:s", *words)[1]["metrics"]
                    found.append((metrics[debiased]["signed_square"], metrics[plugin]["value"] ** 2))
                mean = ((np.array(found) - truth) ** 2).mean(axis=0)
                errors["debiased"].append(float(mean[0]))
                errors["plugin"].append(float(mean[1]))
            out[f"{mode} B={bins}"] = {"rows": sizes, "truth": truth, **errors}
    return out


def draw(results, folder):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    def figure(name, panels, xlabel, log=True):
        page = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
        FigureCanvasAgg(page)
        for axes, (title, lines) in zip(page.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            for (label, x, y, reach), mark in zip(lines, "os^v", strict=False):
                axes.errorbar(x, y, yerr=reach, marker=mark, label=label, capsize=2, linewidth=1.2)
            axes.set(title=title, xlabel=xlabel)
            if log:
                axes.set_xscale("log", base=2)
            axes.legend(frameon=False)
            axes.spines[["top", "right"]].set_visible(False)
        page.savefig(folder / f"{name}.png", dpi=150)

    one = results["error against bins"]
    figure(
        "error_against_bins",
        {name: [(k, r["bins"], r[k], None) for k in ("plugin", "debiased") if k in r] for name, r in one.items()},
        "bins",
    )
    two = results["scaling against histogram"]
    names = {"sb": "scaling-binning", "hb": "histogram binning"}
    figure(
        "scaling_against_histogram",
        {
            f"{mode}: squared error": [(names[m], r["bins"], r["mean"], r["reach"]) for m, r in by.items()]
            for mode, by in two.items()
        },
        "bins",
        log=False,
    )
    three = results["debiased against plugin"]
    figure(
        "debiased_against_plugin",
        {
            f"{name}: mean squared error": [(k, r["rows"], r[k], None) for k in ("plugin", "debiased")]
            for name, r in three.items()
        },
        "rows that evaluate",
        log=False,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=10)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {
            "error against bins": error_against_bins(given.source, folder),
            "scaling against histogram": scaling_against_histogram(given.source, folder, given.trials),
            "debiased against plugin": debiased_against_plugin(given.source, folder, given.trials),
        }
    (given.output / "paper001.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    draw(results, given.output)
    report(results)


def report(results):
    for name, r in results["error against bins"].items():
        print(f"{name:12} bins {r['bins']}\n{'':12} plugin {[round(v, 4) for v in r['plugin']]}")
    for mode, by in results["scaling against histogram"].items():
        for method, r in by.items():
            print(f"{mode} {method}: squared error x 1e4 at B={r['bins']}: {[round(1e4 * v, 2) for v in r['mean']]}")
    for name, r in results["debiased against plugin"].items():
        better = [p / d for p, d in zip(r["plugin"], r["debiased"], strict=True)]
        print(f"{name}: plugin's mean squared error over debiased's at n={r['rows']}: {[round(v, 2) for v in better]}")


if __name__ == "__main__":
    main()
