"""The figures of "Reproduction and Extension of Verified Uncertainty Calibration", each claim at every point.

Li (2023) repeats Kumar, Liang, Ma (2019). For each file of scores:

figures 1-4    Platt scaling measured over 2 to 4096 bins, with the paper's bootstrap bars, and how often
               such bars hold the truth where it is known (they do not: a resample adds the bias once more)
figures 5-8    squared error over the bins, and against the squared difference, of histogram binning and of
               scaling-binning on several bases. 1000 rows drawn with replacement calibrate, all rows measure,
               as printed: about a tenth of the rows do both. "shared" takes all drawn rows for each of the three
               steps, as the authors' program does; "thirds" takes a third for each, as the text says
figures 9-11   the plugin and the debiased estimate over resamples, of the top label and (10) class by class; the
               printed "truth" is the plugin of all rows. Beside it: the same where the truth is known

"marginal" are the values of each class before a row is divided by its sum, which is what the paper measures.
A claim is met, not met or undecided on each network at each point by a 90 % interval of the paired difference.

    python reproductions/verified_calibration.py SCORES.npz … -o FOLDER [--trials 100]
"""

from saved import each_file, parser, store
from verified import experiments, figures
from verified.claims import claims, line


def without_draws(results):
    """The results without the values of every trial and resample, which fill megabytes."""
    if isinstance(results, dict):
        return {
            k: without_draws(v)
            for k, v in results.items()
            if k not in ("each", "values")
        }
    return (
        [without_draws(each) for each in results]
        if isinstance(results, list)
        else results
    )


def listed(text):
    """Whole numbers with commas."""
    return tuple(map(int, text.split(",")))


def main():
    counts = {
        "trials": (100, "random draws"),
        "resamples": (1000, "of a bar, a distribution"),
        "sets": (100, "data sets that coverage is counted on"),
    }
    options = parser(__doc__, **counts)
    options.add_argument(
        "--bins", type=listed, default=experiments.BINS, help="of figures 5 to 8"
    )
    given = options.parse_args()
    if given.trials < 2:
        options.error("--trials: intervals need at least 2")
    networks = each_file(experiments.network, given.sources, given)
    found = claims(networks)
    kept = without_draws(networks)
    runs = {"trials": given.trials, "resamples": given.resamples, "claims": found}
    store(runs | {"networks": kept}, given.output, "verified_calibration")
    for name, draw in figures.ALL.items():
        draw(networks, given.output / f"{name}.png")
    for entry in found:
        print(line(entry))


if __name__ == "__main__":
    main()
