"""The figures: lower bounds with bars, error against bins and squared difference, rows, estimators."""

import numpy as np

from verified.experiments import NINETY

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#8b4513")


def page(rows, columns, size):
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, np.atleast_1d(figure.subplots(rows, columns)).ravel()


def save(figure, path):
    figure.savefig(path, dpi=100, metadata={"Software": None})


def lower_bounds(results, path):
    """Figures 1-4, with how often such bars hold the truth beside them."""
    series = results["lower bound"]
    figure, axes = page(1, len(series) + 1, (3.4 * (len(series) + 1), 3.2))
    for panel, (name, rows) in zip(axes, series.items(), strict=False):
        bins = [row["bins"] for row in rows]
        estimate = np.array([row["l2"] for row in rows])
        panel.fill_between(
            bins, *zip(*(row["percentile"] for row in rows), strict=True), alpha=0.2, label="bar, percentile"
        )
        panel.fill_between(bins, *zip(*(row["basic"] for row in rows), strict=True), alpha=0.2, label="bar, basic")
        panel.plot(bins, estimate, "k.-", label="l2, plugin")
        panel.plot(bins, [row["l1"] for row in rows], "k.:", label="l1, plugin")
        square = [np.sqrt(max(row["debiased_square"], 0.0)) for row in rows]
        panel.plot(bins, square, ".--", color=COLOURS[2], label="l2, debiased")
        panel.set(title=name, xlabel="bins", ylabel="calibration error", xscale="log")
        panel.legend(fontsize=6)
    cover = results["coverage"]
    for colour, name in zip(COLOURS, ("percentile", "basic", "debiased"), strict=False):
        axes[-1].plot(cover["bins"], cover[name], ".-", color=colour, label=name)
    axes[-1].axhline(0.9, color="grey", lw=0.8)
    axes[-1].set(title="how often the bar holds the truth", xlabel="bins", xscale="log", ylim=(-0.03, 1.03))
    axes[-1].legend(fontsize=6)
    save(figure, path)


def bins_and_difference(results, path):
    """Figures 5, 6 and 8: the error over the bins, and against the squared difference, points labelled by bins."""
    figure, axes = page(2, 2, (10, 7.6))
    over = results["against bins"]
    for row, mode in enumerate(("top", "marginal")):
        left, right = axes[2 * row : 2 * row + 2]
        own = {name: each for name, each in over.items() if name.startswith(mode)}
        for colour, (name, each) in zip(COLOURS, own.items(), strict=False):
            y, se = 1e4 * np.array(each["error"]["mean"]), 1e4 * np.array(each["error"]["se"])
            x = each["difference"]["mean"]
            look = {"color": colour, "fmt": ".-", "lw": 1, "elinewidth": 0.6, "label": name.partition(": ")[2]}
            left.errorbar(each["bins"], y, NINETY * se, **look)
            right.errorbar(x, y, NINETY * se, **look)
            for at in (0, -1):
                right.annotate(
                    str(each["bins"][at]), (x[at], y[at]), fontsize=6, xytext=(2, 2), textcoords="offset points"
                )
        left.set(title=mode, xlabel="bins", ylabel="squared calibration error × 10000", yscale="log")
        right.set(title=mode, xlabel="squared difference of confidence and outcome", yscale="log")
        left.legend(fontsize=6)
    save(figure, path)


def rows_and_estimators(results, path):
    """Figures 7, 9 and 10."""
    kinds = sorted({(row["mode"], row["bins"]) for row in results["estimators"]}, reverse=True)
    figure, axes = page(1, 1 + len(kinds), (3.4 * (1 + len(kinds)), 3.3))
    for colour, (name, each) in zip(COLOURS, results["against rows"].items(), strict=False):
        y, se = 1e4 * np.array(each["error"]["mean"]), 1e4 * np.array(each["error"]["se"])
        axes[0].errorbar(each["rows"], y, NINETY * se, color=colour, fmt=".-", label=name)
    axes[0].set(
        xlabel="rows that calibrate", ylabel="squared error × 10000", xscale="log", yscale="log", title="100 bins"
    )
    for panel, kind in zip(axes[1:], kinds, strict=True):
        own = [row for row in results["estimators"] if (row["mode"], row["bins"]) == kind]
        for colour, name in zip(COLOURS, ("plugin", "debiased"), strict=False):
            y = [row[name]["squared_error"]["mean"] for row in own]
            reach = [NINETY * row[name]["squared_error"]["se"] for row in own]
            panel.errorbar([row["rows"] for row in own], y, reach, color=colour, fmt=".-", label=name)
        panel.set(
            xlabel="rows that evaluate", ylabel="mean squared error", yscale="log", title=f"{kind[0]}, {kind[1]} bins"
        )
    for panel in axes:
        panel.legend(fontsize=6)
    save(figure, path)


def distributions(results, path):
    """Figure 11: what the two estimators give over resamples of all rows, the truth as a line."""
    most = max(row["rows"] for row in results["estimators"])
    own = [row for row in results["estimators"] if row["rows"] == most and row["mode"] == "top"]
    figure, axes = page(1, len(own), (5 * len(own), 3.2))
    for panel, row in zip(axes, own, strict=True):
        both = [1e4 * np.array(row[name]["values"]) for name in ("plugin", "debiased")]
        cuts = np.linspace(min(map(np.min, both)), max(map(np.max, both)), 41)
        for values, colour, name in zip(both, COLOURS, ("plugin", "debiased"), strict=False):
            panel.hist(values, cuts, color=colour, alpha=0.5, label=name)
        panel.axvline(1e4 * row["truth"], color=COLOURS[2], label="plugin of all rows")
        panel.axvline(1e4 * row["truth_debiased"], color=COLOURS[2], ls="--", label="debiased of all rows")
        panel.set(title=f"{row['bins']} bins, {row['rows']} rows", xlabel="squared calibration error × 10000")
        panel.legend(fontsize=6)
    save(figure, path)


ALL = {
    "lower_bounds": lower_bounds,
    "bins_and_difference": bins_and_difference,
    "rows_and_estimators": rows_and_estimators,
    "distributions": distributions,
}
