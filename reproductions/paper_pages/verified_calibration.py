"""Li (2023), a reproduction of Kumar, Liang, Ma (2019)."""

from paper_pages import Numbers, Page, Row, judged, listed, verdicts


def page(n: Numbers) -> Page:
    """From verified_calibration.json."""
    v = n["verified_calibration"]
    claims = {(claim["figure"], claim["claim"]): claim for claim in v["claims"]}
    three = {row["asked"]: row for row in v["lower bound"]["three parts"]}
    cover, over, at = v["coverage"], v["against bins"], v["against bins"]["top: histogram binning"]["bins"]
    trials = over["top: histogram binning"]["trials"]

    def claim(start):
        return next(each for (_, text), each in claims.items() if text.startswith(start))

    def errors(name):
        return listed((value for value in over[name]["error"]["mean"]), ".1f", 1e4)

    def ends(name, what="difference"):
        mean = over[name][what]["mean"]
        return f"{mean[0]:.5f} to {mean[-1]:.5f}"

    def estimate(mode, bins, rows=2000):
        own = next(r for r in v["estimators"] if (r["mode"], r["bins"], r["rows"]) == (mode, bins, rows))
        return f"{own['debiased']['squared_error']['mean']:.1e} against {own['plugin']['squared_error']['mean']:.1e}"

    def row(item, start, text):
        own = claim(start)
        return Row(item, judged(own), f"{text} ({verdicts(own)})")

    top15 = next(r for r in v["estimators"] if (r["mode"], r["bins"]) == ("top", 15))
    some = [2, 16, 128, 4096]
    rows = [
        Row("equations 1-3, errors of two and more classes", "reproduced", "`tce2`, `marginal2`, their plugins, `mce`"),
        Row("section 1, any norm", "reproduced", "`--norm` 1 and more, or max"),
        Row(
            "equations 4, 5: histogram binning, temperature and Platt scaling",
            "reproduced",
            "`hb`, `ts`, `platt`; P(class 1) of two classes",
        ),
        Row(
            "equations 7, 8",
            "reproduced",
            "plugin and debiased errors are those of the authors' package to the printed digits",
        ),
        Row("scaling-binning, top label and marginal, thirds", "reproduced", "`sb`, `mode=marginal`, `split=thirds`"),
        Row(
            "g by the squared loss (section 3)",
            "reproduced",
            "`loss=brier` for every base. It is not convex: for class 6, marginal, a steep step (slope 47.8) has .00500 on the"
            " thousand rows that fit and .00670 on 7000 others, the minimum beside the log loss's optimum .00546 and .00570;"
            " we take the second",
        ),
        Row(
            "Dirichlet calibration as a base",
            "reproduced",
            "`base=dirichlet`; the paper states no penalty, ours is .01",
        ),
        Row(
            "figures 1 and 4, the measured error rises with the bins",
            judged(claim("the measured error rises with the bins (three parts)")),
            f"l2 at {listed(some, 'd')} bins {listed((three[b]['l2'] for b in some), '.4f')} (1000 rows allow 1000 bins). Without"
            f" bias {listed((max(three[b]['debiased_square'], 0) ** 0.5 for b in some), '.4f')}: growth beyond 32 bins is bias, as"
            " the paper suspects",
        ),
        Row(
            "figures 1-4, 90 % bars",
            "**refuted**",
            "a resample adds the plugin's bias a second time. At 128 bins the bar is"
            f" {three[128]['percentile'][0]:.4f} to {three[128]['percentile'][1]:.4f} and the estimate {three[128]['l2']:.4f}."
            f" Where the truth is known ({cover['sets']} data sets) the bars hold it in {listed(cover['percentile'], '.0f', 100)} %"
            f" at {listed(cover['bins'], 'd')} bins; reflected, as in the program, {listed(cover['basic'], '.0f', 100)} %; a normal"
            f" interval of the debiased square {listed(cover['debiased'], '.0f', 100)} %",
        ),
        Row("figures 2, 3: other networks", "impossible", "not public"),
        Row(
            "draws of 1000 rows with replacement",
            "reproduced",
            "`extract --draw 1000`; measured on all rows, as printed",
        ),
        row(
            "figures 5a, 5c, scaling-binning below histogram binning, the program's shared rows",
            "top: scaling-binning (shared) has a smaller",
            f"squared error × 10000 at {listed(at, 'd')} bins, {trials} trials: histogram binning"
            f" {errors('top: histogram binning')}; shared {errors('top: platt, shared')}",
        ),
        row(
            "the same with disjoint thirds, as the text says",
            "top: scaling-binning (thirds) has a smaller",
            f"{errors('top: platt, thirds')}",
        ),
        row(
            "figures 5b, 5d, more bins, lower squared difference",
            "top: scaling-binning's squared difference",
            f"{ends('top: platt, shared')}; histogram binning {ends('top: histogram binning')}",
        ),
        row(
            "figure 6a, marginal, shared rows",
            "marginal: scaling-binning (shared) has a smaller",
            f"values before division (`evaluate --unnormalized`): histogram binning {errors('marginal: histogram binning')};"
            f" shared {errors('marginal: platt, shared')}",
        ),
        row(
            "the same with thirds",
            "marginal: scaling-binning (thirds) has a smaller",
            errors("marginal: platt, thirds"),
        ),
        row(
            "figure 6b, marginal squared difference",
            "marginal: scaling-binning's squared difference",
            ends("marginal: platt, shared"),
        ),
        row(
            "figure 7a, 100 bins over rows that calibrate, shared",
            "with many bins scaling-binning (shared)",
            "fewer rows do",
        ),
        row("the same with thirds", "with many bins scaling-binning (thirds)", "fewer rows do"),
        Row("figure 7b-d, ImageNet", "impossible", "logits are not public"),
        row(
            "figure 8, platt slightly better than temperature, shared",
            "platt is a better base than temperature (shared)",
            f"temperature {errors('top: temperature, shared')}",
        ),
        row(
            "the same with thirds",
            "platt is a better base than temperature (thirds)",
            f"temperature {errors('top: temperature, thirds')}; platt {errors('top: platt, thirds')}",
        ),
        row(
            "figure 8, Dirichlet calibration is no good base",
            "Dirichlet calibration is no good base (shared)",
            f"{errors('top: dirichlet, shared')}; thirds {errors('top: dirichlet, thirds')}",
        ),
        row(
            "figures 9, 11, the debiased estimate is nearer the truth",
            "top, 100 bins: the debiased",
            f"mean squared error with 2000 rows: 15 bins {estimate('top', 15)}, 100 bins {estimate('top', 100)}",
        ),
        row(
            "figure 10, the same, marginal",
            "marginal, 100 bins: the debiased",
            f"15 bins {estimate('marginal', 15)}, 100 bins {estimate('marginal', 100)}",
        ),
        Row(
            "their notion of truth",
            "**refuted**",
            "the plugin of all rows is the population value of a resample, so that the debiased estimate hits it by"
            f" construction; the debiased error of those rows themselves is {top15['truth_debiased']:.1e}, not {top15['truth']:.1e}",
        ),
        Row("number of trials and sizes of resamples, figures 5-11", "impossible", "not stated"),
    ]
    return Page(
        "Verified uncertainty calibration, reproduced (Li 2023; Kumar, Liang, Ma 2019)",
        "Verified calibration",
        "`reproductions/verified_calibration.py cifar10_vgg16_verified.npz -o FOLDER` redraws figures 1-11 for the one network\n"
        "whose probabilities are public, and judges each claim at every point by the 90 % interval of the paired difference.\n"
        'A claim is reproduced where it is met at every point, "from N on" where it is met at every point from the first half\n'
        "on, undecided where points are undecided and none speaks against it.",
        rows,
        (
            ("lower_bounds.png", "Figures 1-4, with how often such bars hold the truth"),
            ("bins_and_difference.png", "Figures 5, 6 and 8"),
            ("rows_and_estimators.png", "Figures 7, 9 and 10"),
            ("distributions.png", "Figure 11"),
        ),
        "Trials draw 1000 rows with replacement and measure on all rows, as printed: about a tenth of the rows do both.\n"
        "`--trials 40` and all ten numbers of bins decide more points: a prototype of 40 trials found, for the top label with\n"
        "thirds, histogram binning the better one up to 20 bins and temperature a better base than platt inside the bars.",
    )
