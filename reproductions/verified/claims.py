"""The paper's sentences, judged on every network at every point of their figures: met, not met, or undecided."""

from itertools import pairwise

import numpy as np

from verified.experiments import NINETY

BETTER = "has a smaller error than histogram binning"
ERRORS = (
    (
        "5",
        "top",
        f"scaling-binning (shared) {BETTER}",
        "histogram binning",
        "platt, shared",
    ),
    (
        "5",
        "top",
        f"scaling-binning (thirds) {BETTER}",
        "histogram binning",
        "platt, thirds",
    ),
    (
        "5",
        "top",
        f"scaling-binning (thirds, squared) {BETTER}",
        "histogram binning",
        "platt, squared loss, thirds",
    ),
    (
        "6",
        "marginal",
        f"scaling-binning (shared) {BETTER}",
        "histogram binning",
        "platt, shared",
    ),
    (
        "6",
        "marginal",
        f"scaling-binning (thirds) {BETTER}",
        "histogram binning",
        "platt, thirds",
    ),
    (
        "8",
        "top",
        "platt is a better base than temperature (shared)",
        "temperature, shared",
        "platt, shared",
    ),
    (
        "8",
        "top",
        "platt is a better base than temperature (thirds)",
        "temperature, thirds",
        "platt, thirds",
    ),
    (
        "8",
        "top",
        "Dirichlet calibration is no good base (shared)",
        "dirichlet, shared",
        "platt, shared",
    ),
    (
        "8",
        "top",
        "Dirichlet calibration is no good base (thirds)",
        "dirichlet, thirds",
        "platt, thirds",
    ),
)
"""figure, mode, sentence, what has the larger error, what has the smaller one"""


def judged(mean, error):
    """``met`` where a difference is above zero beyond its 90 % interval, ``not met`` below, else ``undecided``."""
    mean, reach = np.asarray(mean), NINETY * np.asarray(error)
    return np.select(
        [mean > reach, mean < -reach], ["met", "not met"], "undecided"
    ).tolist()


def difference(one, other):
    """Verdicts on ``one`` being larger than ``other``, trial by trial on the same draws."""
    gap = np.array(one["each"]) - np.array(other["each"])
    return judged(gap.mean(axis=0), gap.std(axis=0, ddof=1) / np.sqrt(len(gap)))


def of_one_network(results):
    """(figure, sentence, axis, points, verdicts) of one network."""
    over = results["against bins"]
    at = over["top: histogram binning"]["bins"]
    for figure, mode, text, larger, smaller in ERRORS:
        verdicts = difference(over[f"{mode}: {larger}"], over[f"{mode}: {smaller}"])
        yield figure, f"{mode}: {text}", "bins", at, verdicts
    for mode, figure in (("top", "5"), ("marginal", "6")):
        own = over[f"{mode}: platt, shared"]["difference"]
        # Successive points share their draws; their standard errors are taken as independent, which is the safe side.
        found = judged(-np.diff(own["mean"]), np.hypot(own["se"][1:], own["se"][:-1]))
        yield (
            figure,
            f"{mode}: scaling-binning's squared difference falls as bins are added",
            "bins",
            at[1:],
            found,
        )
    for mode, bins in sorted(
        {(row["mode"], row["bins"]) for row in results["estimators"]}, reverse=True
    ):
        own = [
            row
            for row in results["estimators"]
            if (row["mode"], row["bins"]) == (mode, bins)
        ]
        gap = [row["plugin - debiased"] for row in own]
        text = f"{mode}, {bins} bins: the debiased estimate is nearer the printed truth than the plugin"
        figure, found = (
            "9" if mode == "top" else "10",
            judged([g["mean"] for g in gap], [g["se"] for g in gap]),
        )
        yield figure, text, "rows", [row["rows"] for row in own], found
    gap = [row["plugin - debiased"] for row in results["known truth"]]
    found = judged([g["mean"] for g in gap], [g["se"] for g in gap])
    text = "the debiased estimate is nearer the known truth than the plugin"
    yield "9", text, "bins", [row["bins"] for row in results["known truth"]], found
    series = results["lower bound"]
    found = ["met" if b["l2"] >= a["l2"] else "not met" for a, b in pairwise(series)]
    yield (
        "1",
        "the measured error rises with the bins",
        "bins",
        [row["asked"] for row in series[1:]],
        found,
    )
    cover = results["coverage"]
    for bar in ("percentile", "basic", "debiased"):
        share = np.array(cover[bar])
        error = np.sqrt(np.maximum(share * (1 - share), 0.09) / cover["sets"])
        # An interval is as good as its name where it misses ninety per cent by no more than chance.
        found = np.where(share - 0.9 < -NINETY * error, "not met", "met").tolist()
        yield (
            "1",
            f"the {bar} bar holds the true binned error nine times in ten",
            "bins",
            cover["bins"],
            found,
        )


def claims(networks):
    """One entry for each sentence: the figure, the axis with its points, and each network's verdicts."""
    out = {}
    for name, results in networks.items():
        for figure, text, axis, at, verdicts in of_one_network(results):
            entry = out.setdefault(
                text, {"claim": text, "figure": figure, axis: list(at), "verdicts": {}}
            )
            entry["verdicts"][name] = verdicts
    return list(out.values())


def line(entry):
    """One claim as a line of text: how many networks meet it at each point."""
    at, verdicts = (
        entry["bins" if "bins" in entry else "rows"],
        list(entry["verdicts"].values()),
    )
    met = ", ".join(
        f"{point}: {sum(each[j] == 'met' for each in verdicts)}"
        for j, point in enumerate(at)
    )
    return f"figure {entry['figure']:3} {entry['claim']}: met on how many of {len(verdicts)}, {met}"
