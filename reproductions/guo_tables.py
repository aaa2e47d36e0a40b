"""Tables and figures of "On Calibration of Modern Neural Networks", for any files of scores.

Guo, Pleiss, Sun, Weinberger (2017). The first half of a file calibrates, the second measures:

scores     tables 1, S2-S4: error, ECE over 15 bins, MCE and NLL of histogram binning, isotonic regression and BBQ
           (one class against the rest), temperature, vector and matrix scaling
seconds    CPU of each fit, and the passes that temperature scaling needs
scales     how nearly constant vector scaling's entries are (standard deviation over mean)
reliability  figure 4: bars over ten bins, as they are and with each kind of scaling

    python reproductions/guo_tables.py SCORES.npz … -o FOLDER

Figure 3, NLL and error over the epochs, is ``calcli diagram 'epochs.h5:*' --style epochs``.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import calcli

METHODS = {
    "histogram binning": ("hb", {"mode": "ova"}),
    "isotonic regression": ("ir", {"mode": "ova"}),
    "BBQ": ("bbq", {"mode": "ova"}),
    "temperature": ("ts", {}),
    "vector": ("vs", {"ridge": 0}),
    "matrix": ("ms", {}),
}
METRICS = ("error", "ece", "mce", "nll")


def read(path):
    with np.load(path) as file:
        labels = file["labels"].astype(np.int64)
        if "logits" in file:
            return file["logits"].astype(float), labels
        return np.log(np.maximum(file["probs"].astype(float), np.finfo(float).tiny)), labels


def one_file(path, output):
    """All tables of one file, and its reliability diagrams."""
    z, y = read(path)
    half = len(y) // 2
    fits, seconds = {}, {}
    for name, (method, options) in METHODS.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits[name] = calcli.fit(z[:half], y[:half], method, **options)
        seconds[name] = time.process_time() - start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = ["accuracy", "ece", "mce", "nll"]
        found = calcli.evaluate(z[half:], y[half:], list(fits.values()), metrics=asked, resamples=1).results
        drawn = calcli.diagram(
            z[half:], y[half:], [fits["temperature"], fits["vector"]], style="bins", bins=10, title=path.stem
        )
    drawn.save(str(output / f"reliability_{path.stem}.png"), force=True)
    scores = {}
    for name, result in zip(("uncalibrated", *METHODS), found, strict=True):
        own = {key: score.value for key, score in result.scores.items()}
        scores[name] = {"error": 1 - own.pop("accuracy"), **own}
    scale = np.array(fits["vector"].params["scale"])
    return {
        "rows": [half, len(y) - half],
        "classes": z.shape[1],
        "scores": scores,
        "seconds": seconds,
        "status": {name: fit.status for name, fit in fits.items()},
        "temperature": fits["temperature"].params["temperature"],
        "scale_variation": float(scale.std() / scale.mean()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, metavar="SCORES.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    results = {}
    for source in given.sources:
        own = results[source.stem] = one_file(source, given.output)
        print(f"\n{source.stem}, {own['classes']} classes, {own['rows'][0]} rows to calibrate")
        print(f"{'':20}", *(f"{name:>10}" for name in (*METRICS, "seconds")))
        for name, row in own["scores"].items():
            seconds = own["seconds"].get(name)
            cells = [f"{row[key]:10.4f}" for key in METRICS] + ([] if seconds is None else [f"{seconds:10.2f}"])
            print(f"{name:20}", *cells)
        print(f"vector scaling: standard deviation over mean of the scales {own['scale_variation']:.3f}")
    text = json.dumps(results, indent=1)
    (given.output / "guo_tables.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
