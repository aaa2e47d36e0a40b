"""Tables and figures of "On Calibration of Modern Neural Networks", for any files of scores.

Guo, Pleiss, Sun, Weinberger (2017). Random halves of a file calibrate and measure:

scores     tables 1, S2-S4: error, ECE over 15 bins, MCE and NLL of histogram binning, isotonic regression and BBQ
           (one class against the rest), temperature, vector and matrix scaling; means, and the ECE of every half
seconds    CPU of each fit
scales     how nearly constant vector scaling's entries are (standard deviation over mean)
reliability  figure 4: bars over ten bins, as they are and with each kind of scaling

    python reproductions/guo_tables.py SCORES.npz … -o FOLDER [--halves 3] [--draw NAME,NAME]

Figure 3, NLL and error over the epochs, is ``calcli diagram 'epochs.h5:*' --style epochs``.
"""

import time

import numpy as np
from saved import each_file, fitted, half, measured, parser, read, store

METHODS = {
    "histogram binning": ("hb", {"mode": "ova"}),
    "isotonic regression": ("ir", {"mode": "ova"}),
    "BBQ": ("bbq", {"mode": "ova"}),
    "temperature": ("ts", {}),
    "vector": ("vs", {"ridge": 0}),
    "matrix": ("ms", {}),
}
METRICS = ("error", "ece", "mce", "nll")


def one_half(z, y, seed):
    """Scores and seconds of every method, and how vector scaling's entries vary, on one half."""
    cal, test = half(len(y), seed)
    fits, seconds = {}, []
    for name, (method, options) in METHODS.items():
        start = time.process_time()
        fits[name] = fitted(z[cal], y[cal], method, **options)
        seconds.append(time.process_time() - start)
    found = np.array(
        measured(z[test], y[test], list(fits.values()), ("accuracy", *METRICS[1:]))
    )
    found[:, 0] = 1 - found[:, 0]
    scale = np.array(fits["vector"].params["scale"])
    return found, seconds, scale.std() / scale.mean()


def one_file(z, y, given):
    """Means over halves of all tables of one file."""
    scores, seconds, scales = zip(
        *(one_half(z, y, seed) for seed in range(given.halves)), strict=True
    )
    names, mean = ("uncalibrated", *METHODS), np.mean(scores, axis=0)
    return {
        "rows": len(y) - len(y) // 2,
        "classes": z.shape[1],
        "scores": {
            name: dict(zip(METRICS, row, strict=True))
            for name, row in zip(names, mean.tolist(), strict=True)
        },
        "ece": dict(zip(names, np.array(scores)[:, :, 1].T.tolist(), strict=True)),
        "seconds": dict(zip(METHODS, np.mean(seconds, axis=0).tolist(), strict=True)),
        "scale_variation": float(np.mean(scales)),
    }


def reliability(z, y, title, path):
    """Figure 4 on the first half: accuracy in ten bins, as it is, after temperature and after vector scaling."""
    from matplotlib.figure import Figure

    cal, test = half(len(y), 0)
    kinds = {"uncalibrated": None, "temperature scaling": "ts", "vector scaling": "vs"}
    figure = Figure(figsize=(4.6, 8.4), layout="constrained")
    for axes, (name, method) in zip(
        figure.subplots(3, 1, sharex=True), kinds.items(), strict=True
    ):
        p = (
            softmax(z[test])
            if method is None
            else fitted(z[cal], y[cal], method).predict_proba(z[test])
        )
        sure, hits = p.max(axis=1), p.argmax(axis=1) == y[test]
        bins = np.minimum((10 * sure).astype(int), 9)
        rows = np.bincount(bins, minlength=10)
        rate, mean = (
            np.bincount(bins, values, 10) / np.maximum(rows, 1)
            for values in (hits, sure)
        )
        middle = (np.arange(10) + 0.5) / 10
        axes.bar(
            middle, rate, 0.1, color="#9ecae1", edgecolor="#08519c", label="accuracy"
        )
        axes.plot(mean[rows > 0], rate[rows > 0], "k.", label="at the mean confidence")
        axes.plot([0, 1], [0, 1], "--", color="grey", lw=1)
        axes.set(title=f"{title}, {name}", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
        axes.legend(fontsize=8, loc="upper left")
    axes.set_xlabel("confidence")
    figure.savefig(path, dpi=100, metadata={"Software": None})


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def main():
    options = parser(__doc__, halves=(3, "random halves"))
    options.add_argument(
        "--draw",
        default="",
        metavar="NAMES",
        help="files to draw reliability diagrams of",
    )
    given = options.parse_args()
    files = each_file(one_file, given.sources, given)
    store({"halves": given.halves, "files": files}, given.output, "guo_tables")
    for source in given.sources:
        if source.stem in given.draw.split(","):
            reliability(
                *read(source),
                source.stem,
                given.output / f"reliability_{source.stem}.png",
            )
    for name, own in files.items():
        print(f"\n{name}, {own['classes']} classes, {own['rows']} rows to calibrate")
        print(f"{'':20}", *(f"{metric:>10}" for metric in (*METRICS, "seconds")))
        for method, row in own["scores"].items():
            seconds = own["seconds"].get(method)
            cells = [f"{row[key]:10.4f}" for key in METRICS] + (
                [] if seconds is None else [f"{seconds:10.2f}"]
            )
            print(f"{method:20}", *cells)
        print(
            f"vector scaling: standard deviation over mean of the scales {own['scale_variation']:.3f}"
        )


if __name__ == "__main__":
    main()
