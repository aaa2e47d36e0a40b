"""The four experiments of "Reproduction and Extension of Verified Uncertainty Calibration".

Li (2023) repeats Kumar, Liang, Ma (2019). The numbers come from the calcli
command line; three figures and a JSON file with what they show go to a folder, and each
claim of the paper is printed with whether it is met ("beyond": not the paper's).

1. Binning hides error: the error of a Platt-scaled model, measured over more and more
   bins, rises (l1 and l2). Rows are shuffled and shared out as in the authors' program: a
   tenth fits, the first two tenths choose the bins, the rest measures. On their CIFAR-10
   file the l2 series is theirs to 3e-5.
2. Scaling-binning against histogram binning: squared error against the number of bins,
   and against the rows that calibrate (means over random draws). We measure on rows that
   did not calibrate, without bias; the paper measures on all rows, with the plugin.
3. Debiased against plugin estimator: mean squared error of the estimate against the
   number of rows that evaluate. Samples are drawn with replacement from the rows that did
   not calibrate, so that the plugin error on all of those rows is the exact truth.
4. All of it for the top label and class by class (marginal). In experiment 2 the paper
   measures each class's calibrated value as it is; a user gets these values divided by
   their sum, and both are shown: the division takes away what histogram binning lost.

    python examples/verified_calibration.py SCORES.npz -o FOLDER [--trials 30]

SCORES.npz holds ``probs`` or ``logits`` with ``labels``, e.g. the probability file of a
CIFAR-10 network published with verified_calibration (10000 x 10).
"""

import argparse
import contextlib
import io
import json
import tempfile
from pathlib import Path

import h5py
import numpy as np

from calcli.binning import BinStats
from calcli.cli.main import run
from calcli.diagram.paper import Paper
from calcli.io.artifact import load
from calcli.metrics.debiased import signed_square
from calcli.rows import ArrayRows

BIN_SWEEP = (2, 4, 8, 16, 32, 64, 128)
CALIBRATOR_BINS = (10, 20, 40, 60, 80, 100)
FEW_BINS, MANY_BINS = 15, 100
MODES = ("top", "marginal")
MEASURED = {"top": "top label", "marginal": "marginal, as in the paper", "vector": "marginal, rows that sum to 1"}
NAMES = {"sb": "scaling-binning", "hb": "histogram binning", "plugin": "plugin", "debiased": "debiased"}
NINETY = 1.645
"""Reach of a normal 90 % interval in standard errors: the paper's error bars."""


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


def extract(source, target, *splits, how=()):
    parts = [word for split in splits for word in ("--split", split)]
    calcli("extract", source, "-o", target, *parts, *how, "--force", "-q")
    return target


def fit(method, bundle, target, *settings):
    options = [word for setting in settings for word in ("--set", setting)]
    calcli("fit", "--method", method, bundle, "-o", target, *options, "--force", "-q")
    return target


def rows_of(bundle):
    return json.loads(calcli("inspect", bundle, "--json"))["bundles"][0]["n"]


def shuffled(source, target, times):
    """The file in the order of the authors' programs, which shuffle it by one permutation, once or twice."""
    with np.load(source) as arrays:
        held = {name: arrays[name] for name in ("probs", "log_probs", "logits", "labels") if name in arrays}
    order = np.random.RandomState(0).permutation(len(held["labels"]))
    for _ in range(times):
        held = {name: array[order] for name, array in held.items()}
    np.savez(target, **held)
    return target


def error_against_bins(source, folder):
    """Experiment 1: a tenth fits Platt scaling, the first two tenths choose the bins, the rest measures."""
    order = shuffled(source, folder / "twice.npz", 2)
    tenth = rows_of(extract(order, folder / "all.h5")) // 10
    parts = extract(order, folder / "fit.h5", f"fit=0:{tenth}", "other=rest")
    measured = extract(order, folder / "measure.h5", f"edges=0:{2 * tenth}", "rest=rest")
    out = {}
    for mode in MODES:
        how = "mode=top" if mode == "top" else "mode=ova"
        artifact = fit("platt", f"{parts}:fit", folder / f"platt.{mode}.json", how)
        for norm in ("1", "2"):
            words = ["--bin-sweep", ",".join(map(str, BIN_SWEEP)), "--edges-from", f"{measured}:edges", "--norm", norm]
            words += ["--marginal"] * (mode == "marginal")
            sweep = evaluation(f"{measured}:rest", "-c", artifact, "-m", "ece", *words)[1]["bin_sweep"]
            out[f"{mode} l{norm}"] = {"bins": sweep["bins"], "plugin": sweep[mode]}
            if norm == "2":
                out[f"{mode} l2"]["debiased"] = sweep[f"{mode}_debiased"]
    return out


def squared_errors(bundle, artifacts, mode):
    """Unbiased squared error of several calibrators on the same rows, by calcli evaluate."""
    metric = "tce2" if mode == "top" else "marginal2"
    words = [word for artifact in artifacts for word in ("-c", artifact)]
    results = evaluation(bundle, *words, "-m", metric, "--bins", MANY_BINS, "--resamples", 1)[1:]
    return [result["metrics"][metric]["signed_square"] for result in results]


def squared_errors_of_own_values(path, group, artifacts):
    """The same, averaged over classes, of the values before they are divided by their sum: the paper's measure.

    No command shows these values, which no user gets: they come from the library.
    """
    with h5py.File(path) as file:
        kind = next(name for name in ("probs", "log_probs", "logits") if name in file[group])
        rows = ArrayRows(file[group][kind][()], file[group]["labels"][()], kind)
    found = []
    for artifact in artifacts:
        calibrator = load(str(artifact)).calibrator
        own = np.concatenate([calibrator.marginals(block) for block in rows.blocks()])
        squares = []
        for c, column in enumerate(own.T):
            values = np.unique(column)
            edges = np.array([0.0, *(values[:-1] + values[1:]) / 2, 1.0])
            squares.append(float(signed_square(BinStats.of(column, (rows.labels() == c).astype(float), edges))))
        found.append(np.mean(squares))
    return found


def scaling_against_histogram(source, folder, trials):
    """Experiment 2: over the bins with a tenth of the rows to calibrate, over the rows with many bins."""
    n = rows_of(extract(source, folder / "all.h5"))
    cells = [(n // 10, bins) for bins in CALIBRATOR_BINS]
    cells += [(int(n * share), MANY_BINS) for share in (0.03, 0.05, 0.2, 0.4)]
    found = {(mode, method): np.zeros((trials, len(cells))) for mode in MEASURED for method in ("sb", "hb")}
    for trial in range(trials):
        for rows in sorted({rows for rows, _ in cells}):
            bundle = extract(
                source, folder / "draw.h5", f"cal={rows}", "rest=rest", how=("--no-stratify", "--seed", trial)
            )
            here = [j for j, cell in enumerate(cells) if cell[0] == rows]
            for mode in MODES:
                for method in ("sb", "hb"):
                    form = "ova" if (method, mode) == ("hb", "marginal") else mode
                    artifacts = []
                    for j in here:
                        how = (f"mode={form}", f"bins={cells[j][1]}", "scheme=mass")
                        artifacts.append(fit(method, f"{bundle}:cal", folder / f"{method}.{j}.json", *how))
                    if mode == "top":
                        found["top", method][trial, here] = squared_errors(f"{bundle}:rest", artifacts, mode)
                        continue
                    own = squared_errors_of_own_values(bundle, "rest", artifacts)
                    found["marginal", method][trial, here] = own
                    found["vector", method][trial, here] = squared_errors(f"{bundle}:rest", artifacts, mode)
    over_bins = [j for j, (rows, _) in enumerate(cells) if rows == n // 10]
    over_rows = sorted((j for j, (_, bins) in enumerate(cells) if bins == MANY_BINS), key=lambda j: cells[j][0])
    out = {}
    for mode in MEASURED:
        for axis, chosen, at in (("bins", over_bins, 1), ("rows", over_rows, 0)):
            out[f"{mode} {axis}"] = {axis: [cells[j][at] for j in chosen]} | {
                method: summary(found[mode, method][:, chosen]) for method in ("sb", "hb")
            }
            out[f"{mode} {axis}"]["hb - sb"] = summary((found[mode, "hb"] - found[mode, "sb"])[:, chosen])
    return out


def summary(values):
    """Mean over trials with the reach of its 90 % interval, column by column."""
    reach = NINETY * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return {"mean": values.mean(axis=0).tolist(), "reach": reach.tolist()}


def debiased_against_plugin(source, folder, trials):
    """Experiment 3: three tenths calibrate; samples of the rest measure; all of the rest is the truth."""
    once = shuffled(source, folder / "once.npz", 1)
    n = rows_of(extract(once, folder / "all.h5"))
    bundle = extract(once, folder / "parts.h5", f"cal=0:{3 * n // 10}", "rest=rest")
    sizes = [n * twentieths // 20 for twentieths in (1, 2, 4, 6, 8, 10, 12, 14)]
    draws = [draw_samples(bundle, folder / f"draws.{size}.h5", size, trials) for size in sizes]
    out = {}
    for mode in MODES:
        debiased, plugin = ("tce2", "tce2_plugin") if mode == "top" else ("marginal2", "marginal2_plugin")
        for bins in (FEW_BINS, MANY_BINS):
            artifact = fit("sb", f"{bundle}:cal", folder / "sb.json", f"mode={mode}", f"bins={bins}")
            words = ("-c", artifact, "-m", debiased, "-m", plugin, "--bins", bins, "--resamples", 1)
            truth = evaluation(f"{bundle}:rest", *words)[1]["metrics"][plugin]["value"] ** 2
            errors = {"plugin": [], "debiased": []}
            for samples in draws:
                metrics = [result["metrics"] for result in evaluation(f"{samples}:*", *words)[1::2]]
                errors["plugin"].append([(m[plugin]["value"] ** 2 - truth) ** 2 for m in metrics])
                errors["debiased"].append([(m[debiased]["signed_square"] - truth) ** 2 for m in metrics])
            ours = {name: summary(np.array(squares).T) for name, squares in errors.items()}
            better = summary(np.array(errors["plugin"]).T - np.array(errors["debiased"]).T)
            out[f"{mode} B={bins}"] = {"rows": sizes, "truth": truth, **ours, "plugin - debiased": better}
    return out


def draw_samples(bundle, target, size, trials):
    """One file with ``trials`` bundles of ``size`` rows, drawn with replacement."""
    rng = np.random.default_rng(size)
    with h5py.File(bundle) as file, h5py.File(target, "w") as drawn:
        rest = file["rest"]
        held = {name: rest[name][()] for name in ("probs", "log_probs", "logits", "labels") if name in rest}
        for trial in range(trials):
            index = rng.integers(len(held["labels"]), size=size)
            for name, array in held.items():
                drawn[f"{trial:04d}/{name}"] = array[index]
    return target


def claims(results):
    """(sentence, met) for each claim of the paper, with the numbers that decide; met is None beyond the paper."""
    for name, r in results["error against bins"].items():
        first, last = r["plugin"][0], r["plugin"][-1]
        steps = np.diff(r["plugin"])
        text = (
            f"{name}: measured error rises with the bins, {first:.4f} at {r['bins'][0]} to {last:.4f} at"
            f" {r['bins'][-1]}, in {int((steps >= 0).sum())} of {len(steps)} doublings"
        )
        met = last > first
        if "debiased" in r:
            text += f"; without the plugin's bias {r['debiased'][0]:.4f} to {max(r['debiased']):.4f}"
            met = met and max(r["debiased"]) > r["debiased"][0]
        yield text, met
    for name, r in results["scaling against histogram"].items():
        mode, axis = name.split()
        mean, reach = np.array(r["hb - sb"]["mean"]), np.array(r["hb - sb"]["reach"])
        at = np.array(r[axis])
        hardest = -1 if axis == "bins" else 0
        ratio = r["hb"]["mean"][hardest] / r["sb"]["mean"][hardest]
        better, worse = at[mean > reach].tolist(), at[mean < -reach].tolist()
        yield (
            f"{MEASURED[mode]}: with {at[hardest]} {axis} histogram binning has the larger squared error"
            f" ({ratio:.1f} times); beyond chance at {better or 'none'}, the other way round at {worse or 'none'}",
            None if mode == "vector" else bool(mean[hardest] > reach[hardest]),
        )
    for name, r in results["debiased against plugin"].items():
        ratio = np.array(r["plugin"]["mean"]) / np.array(r["debiased"]["mean"])
        mean, reach = np.array(r["plugin - debiased"]["mean"]), np.array(r["plugin - debiased"]["reach"])
        yield (
            f"{name}: debiased estimator nearer the truth; plugin's mean squared error is"
            f" {', '.join(f'{v:.1f}' for v in ratio)} times its at {', '.join(map(str, r['rows']))} rows",
            bool((mean > -reach).all() and mean[0] > reach[0]),
        )


def panels_of(results):
    """Figure name -> (rows of panels); a panel is title, axis labels, scales and its lines."""
    first = [
        (name, "bins", "calibration error", "log", "linear", [(k, r["bins"], r[k], None) for k in r if k != "bins"])
        for name, r in results["error against bins"].items()
    ]
    second = []
    for name, r in results["scaling against histogram"].items():
        mode, axis = name.split()
        title = f"{MEASURED[mode]}{f'; {MANY_BINS} bins' if axis == 'rows' else ''}"
        lines = [(m, r[axis], 1e4 * np.array(r[m]["mean"]), 1e4 * np.array(r[m]["reach"])) for m in ("sb", "hb")]
        label, scale = ("bins", "linear") if axis == "bins" else ("rows that calibrate", "log")
        second.append((title, label, "squared error × 10000", scale, "linear", lines))
    third = [
        (
            name.replace(" B=", ", ") + " bins",
            "rows that evaluate",
            "mean squared error",
            "log",
            "log",
            [(k, r["rows"], np.array(r[k]["mean"]), np.array(r[k]["reach"])) for k in ("plugin", "debiased")],
        )
        for name, r in results["debiased against plugin"].items()
    ]
    return {"error_against_bins": first, "scaling_against_histogram": second, "debiased_against_plugin": third}


def draw(panels, path):
    """Panels two by two."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    deep = len(panels) // 2
    page = Figure(figsize=(6.8, 2.6 * deep), layout="constrained")
    for at, axes in enumerate(page.subplots(deep, 2).flat):
        title, xlabel, ylabel, xscale, yscale, lines = panels[at]
        for number, (name, x, y, reach) in enumerate(lines):
            colour, line, marker = Paper().series(number)
            # On a logarithmic axis a bar that reaches 0 ends at a third of the value.
            bars = None if reach is None else [np.minimum(reach, 2 / 3 * y) if yscale == "log" else reach, reach]
            style = {
                "color": colour,
                "ls": line,
                "marker": marker,
                "ms": 3.5,
                "lw": 1.2,
                "capsize": 2,
                "elinewidth": 0.8,
            }
            axes.errorbar(x, y, yerr=bars, label=NAMES[name], **style)
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
        if xscale == "log":
            ticks = [tick for j, tick in enumerate(lines[0][1]) if len(lines[0][1]) < 8 or j in (0, 1, 2, 3, 5, 7)]
            axes.xaxis.set_major_locator(FixedLocator(ticks))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        if yscale == "linear":
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.grid(color="#ececec", lw=0.5)
        axes.set_axisbelow(True)
        axes.legend(loc="best")
    page.savefig(path, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="SCORES.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--trials", type=int, default=30, help="random draws of experiments 2 and 3 (default 30)")
    given = parser.parse_args()
    if given.trials < 2:
        parser.error("--trials: intervals need at least 2")
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {
            "error against bins": error_against_bins(given.source, folder),
            "scaling against histogram": scaling_against_histogram(given.source, folder, given.trials),
            "debiased against plugin": debiased_against_plugin(given.source, folder, given.trials),
        }
    found = list(claims(results))
    results["claims"] = [{"claim": text, "met": met} for text, met in found]
    (given.output / "verified_calibration.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    with Paper().matplotlib():
        for name, panels in panels_of(results).items():
            draw(panels, given.output / f"{name}.png")
    for text, met in found:
        print(f"{ {True: 'met', False: 'NOT MET', None: 'beyond'}[met]:8} {text}")
    judged = [met for _, met in found if met is not None]
    print(f"{sum(judged)} of {len(judged)} claims met; figures and numbers in {given.output}/")


if __name__ == "__main__":
    main()
