"""The intervals that verdicts print, beside a bootstrap of the rows that shares no code with them.

python benchmarks/bootstrap.py [FOLDER] [--resamples 2000] [--record benchmarks/bootstrap.json]

Every array of scores of every ``.npz`` of a folder (``logits``, ``logits_…`` or ``probs``, with ``labels``) goes
through ``calcli.evaluate``; without a folder logits that are twice too large. Confidences, predictions and P(class 1)
are computed here again, rows are drawn with replacement, and the 95 % intervals of the mean gap are the quantiles of
its means. Printed: the width of what the verdict says over the width of the bootstrap's, the ends apart in widths.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import calcli


def sets_of(folder):
    """(name, scores, labels, kind) of every array of scores."""
    if folder is None:
        for k in (2, 10):
            rng = np.random.default_rng(k)
            z = rng.normal(size=(3000, k)) * 3.0
            yield (
                f"simulated, {k} classes",
                2 * z,
                (z + rng.gumbel(size=z.shape)).argmax(axis=1),
                "logits",
            )
        return
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            for name in file.files:
                kind = "probs" if name == "probs" else "logits"
                if name == kind or name.startswith("logits_"):
                    yield (
                        f"{path.stem}:{name}",
                        file[name].astype(np.float64),
                        file["labels"],
                        kind,
                    )


def gaps_of(scores, labels, kind):
    """Rows of mean confidence minus accuracy, and of two classes of P(class 1) minus its share."""
    p = (
        scores
        if kind == "probs"
        else np.exp(scores - scores.max(axis=1, keepdims=True))
    )
    p = p / p.sum(axis=1, keepdims=True)
    found = {"overconfidence": p.max(axis=1) - (p.argmax(axis=1) == labels)}
    return found | ({"positive": p[:, 1] - (labels == 1)} if p.shape[1] == 2 else {})


def quantiles(rows, resamples, rng):
    """The 95 % interval of a mean by its quantiles over sets of rows drawn with replacement."""
    means = [
        rows[rng.integers(0, len(rows), len(rows))].mean() for _ in range(resamples)
    ]
    return np.quantile(means, [0.025, 0.975])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--record", type=Path, help="JSON file for what was found")
    args = parser.parse_args()
    rng, record = np.random.default_rng(0), []
    for name, scores, labels, kind in sets_of(args.folder):
        report = calcli.evaluate(scores, labels, kind=kind).to_dict()["results"][0][
            "report"
        ]
        for what, rows in gaps_of(scores, labels, kind).items():
            said = np.array(report[what]["ci"])
            drawn = quantiles(rows, args.resamples, rng)
            width = float(np.diff(said)[0] / np.diff(drawn)[0])
            apart = float(np.abs(said - drawn).max() / np.diff(drawn)[0])
            record.append(
                {
                    "rows": name,
                    "gap": what,
                    "verdict": report["verdict_kind"],
                    "width": width,
                    "apart": apart,
                }
            )
            print(
                f"{name:45} {what:15} {said.round(5)} {drawn.round(5)} width x{width:.3f}, ends apart {apart:.3f}"
            )
    widths = np.array([each["width"] for each in record])
    least, most, mean = widths.min(), widths.max(), widths.mean()
    print(
        f"{len(record)} intervals: width over the bootstrap's {least:.3f} to {most:.3f}, mean {mean:.3f}"
    )
    if args.record:
        args.record.write_text(
            "[\n" + ",\n".join(json.dumps(each) for each in record) + "\n]\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
