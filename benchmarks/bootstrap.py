"""The intervals that verdicts print, beside a bootstrap of the rows that shares no code with them.

python benchmarks/bootstrap.py [FOLDER] [--resamples 2000] [--record benchmarks/bootstrap.json]

Every array of scores of every ``.npz`` of a folder (``logits``, ``logits_…`` or ``probs``,
with ``labels``) goes through ``calcli.evaluate``; without a folder logits that are twice
too large. Confidences, predictions and P(class 1) are computed here again, rows are drawn
with replacement, and the 95 % intervals of the mean gap are the quantiles of its means.
Printed: the width of what the verdict says over the width of the bootstrap's, and how far
their ends lie apart, in widths.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from _draws import draw_labels_of_logits
from _measure import parser_of
from _stored import write_entries

import calcli


class Scores(NamedTuple):
    """Scores of one model, (n, k). kind : of the scores, as calcli names it."""

    name: str
    values: np.ndarray
    labels: np.ndarray
    kind: str


def simulated():
    """Logits that are twice too large."""
    for k in (2, 10):
        rng = np.random.default_rng(k)
        z = rng.normal(size=(3000, k)) * 3.0
        labels = draw_labels_of_logits(z, rng)
        yield Scores(f"simulated, {k} classes", 2 * z, labels, "logits")


def of_folder(folder):
    """Every array of scores of a folder."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            for array in file.files:
                if array == "probs":
                    kind = "probs"
                elif array == "logits" or array.startswith("logits_"):
                    kind = "logits"
                else:
                    continue
                values = file[array].astype(np.float64)
                yield Scores(f"{path.stem}:{array}", values, file["labels"], kind)


def probabilities(scores):
    if scores.kind == "probs":
        p = scores.values
    else:
        p = np.exp(scores.values - scores.values.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def gaps_of(scores):
    """Gap of every row by what it is of.

    ``overconfidence`` is confidence minus whether the prediction is right, ``positive``
    that of P(class 1), for two classes.
    """
    p = probabilities(scores)
    is_right = p.argmax(axis=1) == scores.labels
    gaps = {"overconfidence": p.max(axis=1) - is_right}
    if p.shape[1] == 2:
        gaps["positive"] = p[:, 1] - (scores.labels == 1)
    return gaps


def bootstrap_interval(gaps, resamples, rng):
    """The 95 % interval of a mean by its quantiles over rows drawn with replacement."""
    means = []
    for _ in range(resamples):
        rows = rng.integers(0, len(gaps), len(gaps))
        means.append(gaps[rows].mean())
    return np.quantile(means, [0.025, 0.975])


def compare(scores, report, name, gaps, resamples, rng):
    """Print the intervals of one mean gap; returns the entry of the record."""
    stated = np.array(report[name]["ci"])
    drawn = bootstrap_interval(gaps, resamples, rng)
    drawn_width = np.diff(drawn)[0]
    width = float(np.diff(stated)[0] / drawn_width)
    apart = float(np.abs(stated - drawn).max() / drawn_width)
    intervals = f"{stated.round(5)} {drawn.round(5)}"
    print(f"{scores.name:45} {name:15} {intervals}", end=" ")
    print(f"width x{width:.3f}, ends apart {apart:.3f}")
    return {
        "rows": scores.name,
        "gap": name,
        "verdict": report["verdict_kind"],
        "width": width,
        "apart": apart,
    }


def main():
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--record", type=Path, help="JSON file for what was found")
    args = parser.parse_args()
    sources = simulated() if args.folder is None else of_folder(args.folder)
    rng = np.random.default_rng(0)
    record = []
    for scores in sources:
        evaluation = calcli.evaluate(scores.values, scores.labels, kind=scores.kind)
        report = evaluation.to_dict()["results"][0]["report"]
        for name, gaps in gaps_of(scores).items():
            entry = compare(scores, report, name, gaps, args.resamples, rng)
            record.append(entry)
    widths = np.array([entry["width"] for entry in record])
    reach = f"{widths.min():.3f} to {widths.max():.3f}, mean {widths.mean():.3f}"
    print(f"{len(record)} intervals: width over the bootstrap's {reach}")
    if args.record:
        write_entries(args.record, record)


if __name__ == "__main__":
    main()
