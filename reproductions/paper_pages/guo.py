"""Guo, Pleiss, Sun, Weinberger (2017): values from guo_tables.json and temperatures.json."""

from collections import Counter

from paper_pages import Numbers, share, span


def values(n: Numbers) -> dict[str, object]:
    stored, temperatures = n["guo_tables"], n["temperatures"]
    files = stored["files"]
    of = {k: [own for own in files.values() if own["classes"] == k] for k in (10, 100)}
    out: dict[str, object] = {
        "networks": len(files),
        "ten": len(of[10]),
        "hundred": len(of[100]),
    }
    out |= {
        "halves": stored["halves"],
        "t_halves": temperatures["halves"],
        "t_networks": len(temperatures["files"]),
    }

    def ece(own: Numbers, name: str) -> float:
        return float(own["scores"][name]["ece"])

    def on(holds, some=None):  # the word and "k of n" for a sentence on networks
        return share(holds(own) for own in some or files.values())

    for k in of:
        for key, name in (("raw", "uncalibrated"), ("ts", "temperature")):
            out[f"{key}{k}"] = span([ece(own, name) for own in of[k]], ".1f", 100)
    out["lower_word"], out["lower"] = on(
        lambda own: ece(own, "temperature") < ece(own, "uncalibrated")
    )
    least = [
        min(own["seconds"], key=lambda name, own=own: ece(own, name))
        for own in files.values()
    ]
    out["best_word"], out["best"] = share(name == "temperature" for name in least)
    counts = Counter(name for name in least if name != "temperature")
    out["elsewhere"] = (
        ", ".join(f"{name} ({count})" for name, count in counts.items()) or "none"
    )
    binned = "histogram binning"
    out["over_isotonic"] = on(
        lambda own: ece(own, binned) < ece(own, "isotonic regression")
    )[1]
    out["over_bbq"] = on(lambda own: ece(own, binned) < ece(own, "BBQ"))[1]
    out["binning_word"], out["over_both"] = on(
        lambda own: (
            ece(own, binned) < min(ece(own, "BBQ"), ece(own, "isotonic regression"))
        )
    )
    out["vector_word"], out["vector"] = on(
        lambda own: ece(own, "vector") > 0.9 * ece(own, "temperature")
    )
    out["matrix_word"], out["matrix"] = on(
        lambda own: ece(own, "matrix") > ece(own, "uncalibrated"), of[100]
    )
    for key, name in (("matrix_error", "matrix"), ("raw_error", "uncalibrated")):
        out[key] = span([own["scores"][name]["error"] for own in of[100]], ".1f", 100)
    out["constant_word"], out["constant"] = on(
        lambda own: own["scale_variation"] < 0.25
    )
    out["variation"] = span([own["scale_variation"] for own in files.values()])
    each = [
        t for own in temperatures["files"].values() for t, _, _ in own["temperatures"]
    ]
    (out["above_word"], out["above"]), out["temperatures"] = (
        share(t > 1 for t in each),
        span(each),
    )
    one = files["cifar100_resnet20"]
    out["seconds"] = ", ".join(
        f"{name} {value:.2f}" for name, value in one["seconds"].items()
    )
    out["quick_word"] = share(
        one["seconds"]["temperature"] <= value for value in one["seconds"].values()
    )[0]
    return out | {"seconds_rows": one["rows"]}
