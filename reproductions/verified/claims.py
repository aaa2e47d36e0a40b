"""The paper's sentences, judged at every point of their figures: met, not met, or undecided."""

import numpy as np

from verified.experiments import NINETY


def judged(mean, error):
    """``met`` where a difference is above zero beyond its 90 % interval, ``not met`` below, else ``undecided``."""
    mean, reach = np.asarray(mean), NINETY * np.asarray(error)
    return np.select([mean > reach, mean < -reach], ["met", "not met"], "undecided").tolist()


def difference(one, other):
    """Verdicts on ``one`` being larger than ``other``, trial by trial on the same draws."""
    one, other = np.array(one["each"]), np.array(other["each"])
    count = min(len(one), len(other))
    gap = one[:count] - other[:count]
    mean, error = gap.mean(axis=0), gap.std(axis=0, ddof=1) / np.sqrt(count)
    return {"mean": mean.tolist(), "se": error.tolist(), "verdicts": judged(mean, error)}


def claim(text, figure, axis, at, found):
    return {"claim": text, "figure": figure, axis: list(at), **found}


def claims(results):
    """One entry for each sentence of the paper, with the difference, its standard error and a verdict per point."""
    over = results["against bins"]
    at = over["top: histogram binning"]["bins"]
    for mode, figure in (("top", "5a"), ("marginal", "6a")):
        for split in ("shared", "thirds"):
            found = difference(over[f"{mode}: histogram binning"], over[f"{mode}: platt, {split}"])
            text = f"{mode}: scaling-binning ({split}) has a smaller error than histogram binning"
            yield claim(text, figure, "bins", at, found)
    for split in ("shared", "thirds"):
        platt = over[f"top: platt, {split}"]
        yield claim(
            f"platt is a better base than temperature ({split})",
            "8",
            "bins",
            at,
            difference(over[f"top: temperature, {split}"], platt),
        )
        yield claim(
            f"Dirichlet calibration is no good base ({split})",
            "8",
            "bins",
            at,
            difference(over[f"top: dirichlet, {split}"], platt),
        )
    for mode, figure in (("top", "5b/d"), ("marginal", "6b")):
        own = over[f"{mode}: platt, shared"]["difference"]
        # Successive points share their draws; their standard errors are taken as independent, which is the safe side.
        gap, error = -np.diff(own["mean"]), np.hypot(own["se"][1:], own["se"][:-1])
        found = {"mean": gap.tolist(), "se": error.tolist(), "verdicts": judged(gap, error)}
        yield claim(
            f"{mode}: scaling-binning's squared difference falls as bins are added", figure, "bins", at[1:], found
        )
    rows = results["against rows"]
    for split in ("shared", "thirds"):
        found = difference(rows["histogram binning"], rows[f"platt, {split}"])
        text = f"with many bins scaling-binning ({split}) needs fewer rows"
        yield claim(text, "7", "rows", rows["histogram binning"]["rows"], found)
    for mode, bins in sorted({(row["mode"], row["bins"]) for row in results["estimators"]}, reverse=True):
        own = [row for row in results["estimators"] if (row["mode"], row["bins"]) == (mode, bins)]
        gap = [row["plugin - debiased"] for row in own]
        mean, error = [g["mean"] for g in gap], [g["se"] for g in gap]
        found = {"mean": mean, "se": error, "verdicts": judged(mean, error)}
        text = f"{mode}, {bins} bins: the debiased estimate is nearer the truth than the plugin"
        yield claim(text, "9" if mode == "top" else "10", "rows", [row["rows"] for row in own], found)
    for name, series in results["lower bound"].items():
        gap = np.diff([row["l2"] for row in series])
        verdicts = ["met" if g >= 0 else "not met" for g in gap]
        found = {"mean": gap.tolist(), "se": [0.0] * len(gap), "verdicts": verdicts}
        yield claim(
            f"the measured error rises with the bins ({name})", "1-4", "bins", [r["asked"] for r in series[1:]], found
        )
    cover = results["coverage"]
    for bar in ("percentile", "basic", "debiased"):
        share = np.array(cover[bar])
        error = np.sqrt(np.maximum(share * (1 - share), 0.09) / cover["sets"])
        gap = share - 0.9
        # An interval is as good as its name where it misses ninety per cent by no more than chance.
        verdicts = np.where(gap < -NINETY * error, "not met", "met").tolist()
        found = {"mean": share.tolist(), "se": error.tolist(), "verdicts": verdicts}
        yield claim(f"the {bar} bar holds the true binned error nine times in ten", "1-4", "bins", cover["bins"], found)


def line(entry):
    """One claim as a line of text: counts, and where it is not met."""
    axis = "bins" if "bins" in entry else "rows"
    verdicts = entry["verdicts"]
    places = [str(at) for at, verdict in zip(entry[axis], verdicts, strict=True) if verdict == "not met"]
    counts = ", ".join(f"{word} {verdicts.count(word)}" for word in ("met", "not met", "undecided") if word in verdicts)
    where = f" (not at {', '.join(places)} {axis})" if places else ""
    return f"figure {entry['figure']:5} {entry['claim']}: {counts}{where}"
