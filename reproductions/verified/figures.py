"""The figures, narrow enough for a telephone: a column of panels, a line for each kind of calibrator."""

import numpy as np

from verified.experiments import NINETY

WIDTH = 4.6
LOOKS = {
    "histogram binning": ("#000000", "-"),
    "platt, shared": ("#0072b2", "-"),
    "platt, thirds": ("#0072b2", ":"),
    "temperature, shared": ("#d55e00", "-"),
    "temperature, thirds": ("#d55e00", ":"),
}
BARS = {"percentile": "#d55e00", "basic": "#e69f00", "debiased": "#0072b2"}
ESTIMATES = {"plugin": "#d55e00", "debiased": "#0072b2"}


def column(panels, height=2.6):
    """A figure and its panels, one below the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height * panels), layout="constrained")
    return figure, np.atleast_1d(figure.subplots(panels, 1))


def save(figure, path):
    figure.savefig(path, dpi=100, metadata={"Software": None})


def first(networks):
    """The name and results of the first network."""
    return next(iter(networks.items()))


def lower_bounds(networks, path):
    """Figures 1-4 on the first network, and how often such bars hold the truth on all of them."""
    name, own = first(networks)
    figure, (above, below) = column(2, 3)
    rows = own["lower bound"]
    bins = [row["bins"] for row in rows]
    bar = zip(*(row["percentile"] for row in rows), strict=True)
    above.fill_between(
        bins, *bar, alpha=0.25, color=BARS["percentile"], label="90 % bar, percentile"
    )
    above.plot(bins, [row["l2"] for row in rows], "k.-", label="l2, plugin")
    square = [np.sqrt(max(row["debiased_square"], 0.0)) for row in rows]
    above.plot(bins, square, ".--", color=BARS["debiased"], label="l2, debiased")
    above.set(title=name, xlabel="bins", ylabel="calibration error", xscale="log")
    for number, results in enumerate(networks.values()):
        cover = results["coverage"]
        for bar, colour in BARS.items():
            below.plot(
                cover["bins"],
                cover[bar],
                ".-",
                color=colour,
                lw=1,
                label=bar if number == 0 else None,
            )
    below.axhline(0.9, color="grey", lw=0.8)
    title = f"how often a bar holds the truth, {len(networks)} networks"
    below.set(
        title=title,
        xlabel="bins",
        ylabel="proportion",
        xscale="log",
        ylim=(-0.03, 1.03),
    )
    for panel in (above, below):
        panel.legend(fontsize=8)
    save(figure, path)


def error_over_bins(networks, path):
    """Figures 5, 7 and 8: the top label's error over the bins, a panel for each network."""
    figure, axes = column(len(networks))
    for panel, (name, results) in zip(axes, networks.items(), strict=True):
        lines(panel, results["against bins"], "top")
        panel.set(title=name, ylabel="error × 10000")
    axes[-1].set_xlabel("bins")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        fontsize=8,
    )
    save(figure, path)


def lines(panel, over, mode, across="bins"):
    """Squared error with 90 % intervals over the bins, or over the squared difference."""
    for name, (colour, style) in LOOKS.items():
        if own := over.get(f"{mode}: {name}"):
            y, reach = (
                1e4 * np.array(own["error"]["mean"]),
                1e4 * NINETY * np.array(own["error"]["se"]),
            )
            x = own["bins"] if across == "bins" else own["difference"]["mean"]
            panel.errorbar(
                x,
                y,
                reach,
                color=colour,
                ls=style,
                marker=".",
                lw=1.2,
                elinewidth=0.7,
                label=name,
            )
            if across != "bins":
                for at in (0, -1):
                    place = {
                        "xytext": (3, 3),
                        "textcoords": "offset points",
                        "fontsize": 8,
                    }
                    panel.annotate(str(own["bins"][at]), (x[at], y[at]), **place)
    panel.set_yscale("log")


def marginal_and_difference(networks, path):
    """Figure 6, and figure 5's error against the squared difference, on the first network."""
    name, own = first(networks)
    figure, (above, below) = column(2, 3)
    lines(above, own["against bins"], "marginal")
    above.set(title=f"{name}, marginal", xlabel="bins", ylabel="error × 10000")
    lines(below, own["against bins"], "top", "difference")
    below.set(
        title="top label (10 and 100 bins named)",
        xlabel="squared difference",
        ylabel="error × 10000",
    )
    for panel in (above, below):
        panel.legend(fontsize=8)
    save(figure, path)


def estimators(networks, path):
    """Figure 9 on the first network: mean squared error of the two estimates over the rows that measure."""
    name, own = first(networks)
    kinds = sorted({row["bins"] for row in own["estimators"]})
    figure, axes = column(len(kinds))
    for panel, bins in zip(axes, kinds, strict=True):
        rows = [
            row
            for row in own["estimators"]
            if (row["mode"], row["bins"]) == ("top", bins)
        ]
        for estimate, colour in ESTIMATES.items():
            y = [row[estimate]["squared_error"]["mean"] for row in rows]
            reach = [NINETY * row[estimate]["squared_error"]["se"] for row in rows]
            panel.errorbar(
                [row["rows"] for row in rows],
                y,
                reach,
                color=colour,
                fmt=".-",
                label=estimate,
            )
        panel.set(
            title=f"{name}, {bins} bins", ylabel="mean squared error", yscale="log"
        )
        panel.legend(fontsize=8)
    axes[-1].set_xlabel("rows that measure")
    save(figure, path)


def distributions(networks, path):
    """Figure 11: what the two estimators give over resamples of all rows, the truth as a line."""
    _, results = first(networks)
    most = max(row["rows"] for row in results["estimators"])
    own = [
        row
        for row in results["estimators"]
        if row["rows"] == most and row["mode"] == "top"
    ]
    figure, axes = column(len(own))
    for panel, row in zip(axes, own, strict=True):
        both = [1e4 * np.array(row[name]["values"]) for name in ESTIMATES]
        cuts = np.linspace(min(map(np.min, both)), max(map(np.max, both)), 41)
        for values, (name, colour) in zip(both, ESTIMATES.items(), strict=True):
            panel.hist(values, cuts, color=colour, alpha=0.5, label=name)
        panel.axvline(1e4 * row["truth"], color="k", label="plugin of all rows")
        panel.axvline(
            1e4 * row["truth_debiased"],
            color="k",
            ls="--",
            label="debiased of all rows",
        )
        panel.set(
            title=f"{row['bins']} bins, {row['rows']} rows",
            xlabel="squared calibration error × 10000",
        )
        panel.legend(fontsize=8)
    save(figure, path)


ALL = {
    "lower_bounds": lower_bounds,
    "error_over_bins": error_over_bins,
    "marginal_and_difference": marginal_and_difference,
    "estimators": estimators,
    "distributions": distributions,
}
