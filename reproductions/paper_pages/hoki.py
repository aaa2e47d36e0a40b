"""Jang, Ivanov, Lee, Weimer (2021): values from hoki_tables.json and recal_figures.json."""

import numpy as np
from scipy.stats import spearmanr

from paper_pages import Numbers, listed, share, span


def least(own: Numbers, at: int) -> bool:
    """Whether Hoki has the least ECE with one number of bins."""
    return min(own["ece"], key=lambda method: own["ece"][method][at]) == "hoki"


def values(n: Numbers) -> dict[str, object]:
    stored = n["hoki_tables"]
    files, bins = stored["files"], stored["bins"]
    of = {k: [own for own in files.values() if own["classes"] == k] for k in (10, 100)}
    each = [one for own in files.values() for one in own["halves"]]
    out: dict[str, object] = {
        "networks": len(files),
        "ten": len(of[10]),
        "hundred": len(of[100]),
    }
    out |= {
        "halves": stored["halves"],
        "seeds": stored["seeds"],
        "rounds": span([o["rounds"] for o in each], "d"),
    }
    out["ends_word"], out["ends"] = share(one["converged"] for one in each)
    out["fixed_point"] = (
        f"{max(one['ece_of_calibration'] for one in each if one['converged']):.0e}"
    )
    out["bound_holds"] = share(one["ece"] <= one["bounds"][0] for one in each)[1]
    out["bound_ece"] = span([one["ece"] for one in each], ".4f")
    out["bound_printed"], out["bound_repaired"] = (
        span([one["bounds"][i] for one in each]) for i in (0, 1)
    )
    found = {k: [one["noise"] for own in of[k] for one in own["halves"]] for k in of}
    right = (
        [noise == "uniform" for noise in found[10]],
        [noise == "gaussian" for noise in found[100]],
    )
    out["family_word"] = share([*right[0], *right[1]])[0]
    out["uniform"], out["gaussian"] = (share(one)[1] for one in right)
    for k in of:
        out[f"spread{k}"] = span(
            [one["criterion"] for own in of[k] for one in own["halves"]], ".4f"
        )
    out["best_word"], out["best"] = share(
        least(own, bins.index(15)) for own in files.values()
    )
    for name, column in (("brier_behind", 0), ("nll_behind", 2)):
        out[name] = share(
            own["scores"]["hoki"][column] > own["scores"]["ts"][column]
            for own in files.values()
        )[1]
    at = [j for j, size in enumerate(bins) if size != 15]
    out["bins_word"] = share(least(own, j) for own in files.values() for j in at)[0]
    out["bins_best"] = ", ".join(
        str(sum(least(own, j) for own in files.values())) for j in at
    )
    out |= (
        times(files)
        | starts(each)
        | tracking(files)
        | rows(files, stored["sizes"])
        | moved(n["recal_figures"]["scores"])
    )
    return out


def times(files: Numbers) -> dict[str, object]:
    """Table 3."""
    seconds = [
        {name: value[0] for name, value in own["seconds"].items()}
        for own in files.values()
    ]
    word, quicker = share(
        own["hoki"] < min(own["ms-odir"], own["dir-odir"]) for own in seconds
    )
    ratio = span([own["hoki"] / own["ts"] for own in seconds], ".0f")
    return {
        "seconds_word": "reproduced in part" if word == "reproduced" else word,
        "quicker": quicker,
        "ratio": ratio,
    }


def starts(each: list[Numbers]) -> dict[str, object]:
    """Table 9."""
    word, k = share(one["ece"] < one["ece_from_confidence"] for one in each)
    mean = [
        np.mean([one[key] for one in each]) for key in ("ece", "ece_from_confidence")
    ]
    return {
        "start_word": word,
        "start": k,
        "start_accuracy": f"{mean[0]:.4f}",
        "start_confidence": f"{mean[1]:.4f}",
    }


def tracking(files: Numbers) -> dict[str, object]:
    """Does the ECE go with the difference of the halves' accuracies?"""
    pairs = [
        [
            (o["ece"], abs(o["accuracies"][0] - o["accuracies"][1]))
            for o in own["halves"]
        ]
        for own in files.values()
    ]
    found = spearmanr(*np.concatenate(pairs).T)
    within = float(np.mean([spearmanr(*np.transpose(one)).statistic for one in pairs]))
    seen = found.statistic > 0 and found.pvalue < 0.05 and within > 0
    word = (
        "reproduced"
        if seen and within > 0.5
        else "reproduced in part"
        if seen
        else "not seen here"
    )
    return {
        "tracks_word": word,
        "spearman": f"{found.statistic:.2f}",
        "spearman_p": f"{found.pvalue:.2g}",
        "spearman_within": f"{within:.2f}",
    }


def rows(files: Numbers, sizes: list[int]) -> dict[str, object]:
    """The ECE after calibration on fewer rows."""
    mean = np.array(
        [
            np.mean([one["ece_by_rows"] for one in own["halves"]], axis=0)
            for own in files.values()
        ]
    )
    word, k = share(mean[:, -1] < mean[:, 0])
    return {
        "rows_word": word,
        "rows": k,
        "sizes": listed(sizes, "d"),
        "by_rows": listed(mean.mean(axis=0), ".2f", 100),
    }


def moved(scores: Numbers) -> dict[str, object]:
    """Transforms of the input."""
    names = {
        "zoom": "hoki, zoom",
        "gaussian": "hoki, gaussian",
        "mix": "hoki, gaussian and zoom",
        "raw": "uncalibrated",
        "ts": "temperature scaling",
    }
    out: dict[str, object] = {"moved_trials": len(scores["uncalibrated"]["ece"])}
    for key, name in names.items():
        out[f"{key}_ece"], out[f"{key}_brier"] = (
            f"{np.mean(scores[name][metric]):.4f}" for metric in ("ece", "brier_top")
        )
    return out
