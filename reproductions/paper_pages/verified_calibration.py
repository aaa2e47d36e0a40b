"""Li (2023), a reproduction of Kumar, Liang, Ma (2019): values from verified_calibration.json."""

from itertools import pairwise

from paper_pages import Numbers, judged, listed, share, span

SENTENCES = {
    "shared": "top: scaling-binning (shared) has a smaller error than histogram binning",
    "thirds": "top: scaling-binning (thirds) has a smaller error than histogram binning",
    "squared": "top: scaling-binning (thirds, squared) has a smaller error than histogram binning",
    "difference": "top: scaling-binning's squared difference falls as bins are added",
    "marginal": "marginal: scaling-binning (shared) has a smaller error than histogram binning",
    "marginal_thirds": "marginal: scaling-binning (thirds) has a smaller error than histogram binning",
    "marginal_difference": "marginal: scaling-binning's squared difference falls as bins are added",
    "platt": "top: platt is a better base than temperature (shared)",
    "platt_thirds": "top: platt is a better base than temperature (thirds)",
    "dirichlet": "top: Dirichlet calibration is no good base (shared)",
    "dirichlet_thirds": "top: Dirichlet calibration is no good base (thirds)",
    "known": "the debiased estimate is nearer the known truth than the plugin",
    "nearer15": "top, 15 bins: the debiased estimate is nearer the printed truth than the plugin",
    "nearer100": "top, 100 bins: the debiased estimate is nearer the printed truth than the plugin",
    "nearer_marginal15": "marginal, 15 bins: the debiased estimate is nearer the printed truth than the plugin",
    "nearer_marginal100": "marginal, 100 bins: the debiased estimate is nearer the printed truth than the plugin",
}
ERRORS = {
    "e_hb": "top: histogram binning",
    "e_shared": "top: platt, shared",
    "e_thirds": "top: platt, thirds",
    "e_squared": "top: platt, squared loss, thirds",
    "e_temperature": "top: temperature, shared",
    "e_dirichlet": "top: dirichlet, shared",
    "m_hb": "marginal: histogram binning",
    "m_shared": "marginal: platt, shared",
    "m_thirds": "marginal: platt, thirds",
}
SHOWN = (2, 16, 128, 512)
SIZE = 2000


def weaker(*words: str) -> str:
    """The word for a row of several claims."""
    return words[0] if len(set(words)) == 1 else "reproduced in part"


def values(n: Numbers) -> dict[str, object]:
    v = n["verified_calibration"]
    claims, networks = {claim["claim"]: claim for claim in v["claims"]}, v["networks"]
    first, own = next(iter(networks.items()))
    out: dict[str, object] = {
        "trials": v["trials"],
        "resamples": v["resamples"],
        "networks": len(networks),
    }
    for key, text in SENTENCES.items():
        out[f"{key}_word"], out[key] = judged(claims[text])
    out |= {
        key: listed(own["against bins"][name]["error"]["mean"], ".1f", 1e4)
        for key, name in ERRORS.items()
    }
    others = [name for name in networks if name != first]
    pairs = [judged(claims[SENTENCES[key]], others) for key in ("shared", "thirds")]
    out |= {
        "others": len(others),
        "others_shared": pairs[0][1],
        "others_thirds": pairs[1][1],
    }
    out["others_word"] = weaker(*(word for word, _ in pairs))
    out["dirichlet_word"] = weaker(out["dirichlet_word"], out["dirichlet_thirds_word"])
    out["nearer_word"] = weaker(out["nearer15_word"], out["nearer100_word"])
    out["nearer_marginal_word"] = weaker(
        out["nearer_marginal15_word"], out["nearer_marginal100_word"]
    )
    rises = [[each["l2"] for each in one["lower bound"]] for one in networks.values()]
    out["rises_word"], steps = share(
        b >= a for path in rises for a, b in pairwise(path)
    )
    out |= bound(own, networks) | {
        "first": first,
        "bins": listed(own["against bins"]["top: histogram binning"]["bins"], "d"),
        "rises": f"in {steps} steps",
        "size": SIZE,
    }
    second = zip(*n["second_opinion"]["bars"].values(), strict=True)
    out["second"] = ", ".join(span(each, ".0f", 100) for each in second)
    for bins in (15, 100):
        row = next(
            r
            for r in own["estimators"]
            if (r["mode"], r["bins"], r["rows"]) == ("top", bins, SIZE)
        )
        known = next(r for r in own["known truth"] if r["bins"] == bins)
        out[f"mse{bins}"] = listed(
            (row[name]["squared_error"]["mean"] for name in ("plugin", "debiased")),
            ".1e",
        )
        out[f"known{bins}"] = listed(
            (known[name]["mean"] for name in ("plugin", "debiased")), ".1e"
        )
    for name in ("shared", "hb"):
        mean = own["against bins"][ERRORS[f"e_{name}"]]["difference"]["mean"]
        out[f"d_{name}"] = f"{mean[0]:.5f} to {mean[-1]:.5f}"
    return out


def bound(own: Numbers, networks: Numbers) -> dict[str, object]:
    """What figures 1 to 4 say: errors of one network, and the coverage of the bars on all."""
    at = {row["asked"]: row for row in own["lower bound"]}
    covers = [one["coverage"] for one in networks.values()]
    out = {
        bar: ", ".join(
            span(each, ".0f", 100)
            for each in zip(*(cover[bar] for cover in covers), strict=True)
        )
        for bar in ("percentile", "basic", "debiased")
    }
    return out | {
        "sets": covers[0]["sets"],
        "bar_bins": listed(covers[0]["bins"], "d"),
        "bound_bins": listed(SHOWN, "d"),
        "bound_l2": listed((at[bins]["l2"] for bins in SHOWN), ".4f"),
        "bound_debiased": listed(
            (max(at[bins]["debiased_square"], 0) ** 0.5 for bins in SHOWN), ".4f"
        ),
        "estimate128": f"{at[128]['l2']:.4f}",
        "bar128": " to ".join(f"{each:.4f}" for each in at[128]["percentile"]),
    }
