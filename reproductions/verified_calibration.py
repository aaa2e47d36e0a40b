"""The figures of "Reproduction and Extension of Verified Uncertainty Calibration", each claim at every point.

Li (2023) repeats Kumar, Liang, Ma (2019). Four experiments on one file of probabilities:

figures 1-4    Platt scaling measured over 2 to 4096 bins, with the paper's bootstrap bars, and how often
               such bars hold the truth where it is known (they do not: a resample adds the bias once more)
figures 5, 6, 8  squared error over the bins, and against the squared difference, of histogram binning and of
               scaling-binning on several bases. 1000 rows drawn with replacement calibrate, all rows measure,
               as printed: about a tenth of the rows do both. "shared" takes all drawn rows for each of the three
               steps, as the authors' program does; "thirds" takes a third for each, as the text says
figure 7       the same over the number of rows that calibrate, 100 bins
figures 9-11   the plugin and the debiased estimate over resamples, of the top label and (10) class by class; the
               printed "truth" is the plugin of all rows

"marginal" are the values of each class before a row is divided by its sum, which is what the paper measures.
A claim is met, not met or undecided at each point by a 90 % interval of the paired difference.

    python reproductions/verified_calibration.py SCORES.npz -o FOLDER [--trials 40]
"""

import argparse
import json
from pathlib import Path

from verified import experiments, figures, measures
from verified.claims import claims, line


def without_draws(results):
    """The results without the values of every trial and resample, which fill megabytes."""
    if isinstance(results, dict):
        return {k: without_draws(v) for k, v in results.items() if k not in ("each", "values")}
    if isinstance(results, list):
        return [without_draws(each) for each in results]
    return float(f"{results:.6g}") if isinstance(results, float) else results


def listed(text):
    """Whole numbers with commas."""
    return tuple(map(int, text.split(",")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="SCORES.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--trials", type=int, default=40, help="random draws (default: %(default)s)")
    parser.add_argument("--resamples", type=int, default=1000, help="of a bar, a distribution (default: %(default)s)")
    parser.add_argument("--sets", type=int, default=100, help="data sets that coverage is counted on")
    parser.add_argument("--bins", type=listed, default=experiments.BINS, help="of figures 5, 6 and 8")
    parser.add_argument("--rows", type=listed, default=experiments.ROWS, help="of figure 7")
    given = parser.parse_args()
    if given.trials < 2:
        parser.error("--trials: intervals need at least 2")
    given.output.mkdir(parents=True, exist_ok=True)
    rows = measures.read(given.source)
    parts = experiments.partitions(rows)
    fifth = max(given.resamples // 5, 2)
    results = {
        "lower bound": {name: experiments.lower_bound(*each, given.resamples) for name, each in parts.items()},
        "coverage": experiments.coverage(*parts["three parts"], given.sets, fifth),
        "against bins": experiments.against_bins(rows, given.trials, given.bins),
        "against rows": experiments.against_rows(rows, given.trials, given.rows),
        "estimators": experiments.estimators(rows, given.resamples, 3 * len(rows.y) // 10),
    }
    results["claims"] = list(claims(results))
    kept = json.dumps(without_draws(results), indent=1)
    (given.output / "verified_calibration.json").write_text(kept + "\n", encoding="utf-8")
    for name, draw in figures.ALL.items():
        draw(results, given.output / f"{name}.png")
    for entry in results["claims"]:
        print(line(entry))


if __name__ == "__main__":
    main()
