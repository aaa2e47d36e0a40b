"""The experiments on one network. Each returns plain values that go into the JSON."""

from itertools import pairwise

import numpy as np
import saved

from verified import measures

SWEEP = tuple(2**j for j in range(1, 13))
BINS = (10, 20, 50, 100)
FEW, MANY = 15, 100
DRAWN = 1000
"""Rows that calibrate in figures 5 to 8."""
NINETY = 1.645
"""Reach of a normal 90 % interval in standard errors."""

TOP = {
    "histogram binning": ("hb", {"scheme": "mass"}),
    "platt, shared": ("sb", {}),
    "platt, squared loss, shared": ("sb", {"loss": "brier"}),
    "temperature, shared": ("sb", {"base": "temperature"}),
    "dirichlet, shared": ("sb", {"base": "dirichlet"}),
    "platt, thirds": ("sb", {"split": "thirds"}),
    "platt, squared loss, thirds": ("sb", {"loss": "brier", "split": "thirds"}),
    "temperature, thirds": ("sb", {"base": "temperature", "split": "thirds"}),
    "dirichlet, thirds": ("sb", {"base": "dirichlet", "split": "thirds"}),
}
"""Top label: histogram binning and scaling-binning with a base, all rows for each step or a third (the text)."""

MARGINAL = {
    name: TOP[name] for name in ("histogram binning", "platt, shared", "platt, thirds")
}
"""Class by class, as far as the parameters give the values before the division."""


def fitted(rows, method, **options):
    """One calibrator of some rows."""
    return saved.fitted(rows.z, rows.y, method, **options)


def summary(values):
    """Mean over trials with its standard error, column by column."""
    values = np.asarray(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return {"mean": values.mean(axis=0).tolist(), "se": error.tolist()}


def lower_bound(rows, parts, resamples, sweep=SWEEP):
    """Figures 1-4: platt on the first part, bins from the second, the error of the third, with the paper's bars.

    parts : three slices. The bars are the 5 and 95 % points of the estimate over resamples of the third part;
    ``basic`` reflects them at the estimate, as the authors' program does.
    """
    platt = fitted(rows.at(parts[0]), "platt", mode="top")
    g2, (g3, hits) = (
        measures.top(platt, rows.at(parts[1]))[0],
        measures.top(platt, rows.at(parts[2])),
    )
    edges = [measures.mass_edges(g2, bins) for bins in sweep]
    again = resampled_l2(g3, hits, edges, resamples, np.random.default_rng(0))
    out = []
    for j, bins in enumerate(sweep):
        l1, l2, debiased = (float(v) for v in measures.binned(g3, hits, edges[j]))
        low, high = np.quantile(again[:, j], (0.05, 0.95)).tolist()
        row = {
            "asked": bins,
            "bins": len(edges[j]) - 1,
            "l1": l1,
            "l2": l2,
            "debiased_square": debiased,
        }
        out.append(
            row | {"percentile": [low, high], "basic": [2 * l2 - high, 2 * l2 - low]}
        )
    return out


def resampled_l2(values, hits, edges, resamples, rng):
    """(resamples, number of edge lists) l2 errors of rows drawn again: sums between edges of the sorted rows."""
    order = np.argsort(values, kind="stable")
    columns = np.stack([np.ones(len(order)), values[order], hits[order]])
    cuts = [np.searchsorted(values[order], each[1:-1], side="right") for each in edges]
    out = np.empty((resamples, len(edges)))
    for r in range(resamples):
        times = np.bincount(
            rng.integers(0, len(order), len(order)), minlength=len(order)
        )[order]
        sums = np.zeros((3, len(order) + 1))
        np.cumsum(columns * times, axis=1, out=sums[:, 1:])
        for j, cut in enumerate(cuts):
            out[r, j] = measures.errors(
                *np.diff(sums[:, [0, *cut, len(order)]], axis=1)
            ).l2
    return out


def coverage(rows, parts, sets, resamples, sweep=(2, 8, 32, 128, 512)):
    """How often the paper's bars hold the true binned error, where the truth is known.

    The calibrated confidences are the real ones; outcomes are drawn from a logistic truth that is fitted to the
    real outcomes (log-odds against -ln(1 - g)), so that the true error of every bin is known. Beside the two
    bars: a normal interval around the debiased squared error.
    """
    platt = fitted(rows.at(parts[0]), "platt", mode="top")
    g2, (g, hits) = (
        measures.top(platt, rows.at(parts[1]))[0],
        measures.top(platt, rows.at(parts[2])),
    )
    x = -np.log1p(-np.minimum(g, 1 - 1e-12))
    intercept, slope = logistic(x, hits)
    truth = 1 / (1 + np.exp(-(intercept + slope * x)))
    edges = [measures.mass_edges(g2, bins) for bins in sweep]
    true = np.array([measures.binned(g, truth, e).l2 for e in edges])
    rng, held, plugin = (
        np.random.default_rng(0),
        np.zeros((3, len(sweep))),
        np.zeros(len(sweep)),
    )
    for _ in range(sets):
        drawn = rng.integers(0, len(g), len(g))
        values, outcome = g[drawn], (rng.random(len(g)) < truth[drawn]).astype(float)
        low, high = np.quantile(
            resampled_l2(values, outcome, edges, resamples, rng), (0.05, 0.95), axis=0
        )
        found = [measures.binned(values, outcome, e) for e in edges]
        l2, square = (
            np.array([e.l2 for e in found]),
            np.array([e.debiased for e in found]),
        )
        reach = NINETY * np.array([debiased_error(values, outcome, e) for e in edges])
        plugin += l2
        held += [
            (low <= true) & (true <= high),
            (2 * l2 - high <= true) & (true <= 2 * l2 - low),
            np.abs(square - true**2) <= reach,
        ]
    shares = dict(
        zip(("percentile", "basic", "debiased"), (held / sets).tolist(), strict=True)
    )
    out = {
        "bins": list(sweep),
        "true": true.tolist(),
        "mean_plugin": (plugin / sets).tolist(),
    }
    return out | {"sets": sets, "resamples": resamples} | shares


def logistic(x, hits):
    """Intercept and slope of the most likely logistic curve, by Newton's method."""
    design, w = np.stack([np.ones_like(x), x], axis=1), np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ w))
        step = np.linalg.solve(
            (design.T * (p * (1 - p))) @ design, design.T @ (hits - p)
        )
        w = w + step
        if np.abs(step).max() < 1e-12:
            break
    return w


def debiased_error(values, outcome, edges):
    """Standard error of the debiased squared error: of its gaps, and of their noise."""
    at, bins = measures.places(values, edges), len(edges) - 1
    count, score, hits = (
        np.bincount(at, weights, bins) for weights in (None, values, outcome)
    )
    n = np.maximum(count, 2)
    rate, share = hits / np.maximum(count, 1), count / count.sum()
    noise = rate * (1 - rate)
    square = np.maximum(
        ((score - hits) / np.maximum(count, 1)) ** 2 - noise / (n - 1), 0.0
    )
    return np.sqrt(
        (share**2 * (4 * square * noise / n + 2 * noise**2 / (n * (n - 1)))).sum()
    )


def one_trial(rows, odds, trial, name, bins, mode):
    """(debiased squared error, squared difference) of one fit on 1000 drawn rows, on all rows, as printed."""
    chosen = np.random.default_rng(trial).integers(0, len(rows.y), DRAWN)
    method, options = TOP[name]
    if mode == "top":
        values, hits = measures.top(
            fitted(
                rows.at(chosen), method, mode="top", bins=bins, seed=trial, **options
            ),
            rows,
        )
        return float(measures.distinct(values, hits).debiased), float(
            np.mean((values - hits) ** 2)
        )
    form = "ova" if method == "hb" else "marginal"
    calibrator = fitted(
        rows.at(chosen), method, mode=form, bins=bins, seed=trial, **options
    )
    debiased, _, difference = measures.marginal(
        measures.own_values(calibrator, rows, odds), rows.y
    )
    return debiased, difference


def against_bins(rows, trials, bins=BINS):
    """Figures 5 to 8: error over the bins, and against the squared difference."""
    odds = measures.one_vs_rest(rows.z)
    out = {}
    for mode, names in (("top", TOP), ("marginal", MARGINAL)):
        for name in names:
            found = np.array(
                [
                    [one_trial(rows, odds, r, name, b, mode) for b in bins]
                    for r in range(trials)
                ]
            )
            out[f"{mode}: {name}"] = {
                "bins": list(bins),
                "error": summary(found[..., 0]),
                "difference": summary(found[..., 1]),
                "each": found[..., 0].tolist(),
            }
    return out


SIZES = (2000, 3000, 4000, 5000, 6000, 7000)


def estimators(rows, resamples, cal=3000, sizes=SIZES):
    """Figures 9, 10 and 11: plugin and debiased estimate over resamples, of the top label and class by class.

    The truth is, as printed, the plugin error of all rows that are resampled; scaling-binning with platt.
    """
    out = []
    for mode in ("top", "marginal"):
        rng = np.random.default_rng(0)
        for bins in (FEW, MANY):
            calibrator, rest = (
                fitted(rows.at(slice(0, cal)), "sb", mode=mode, bins=bins),
                rows.at(slice(cal, None)),
            )
            if mode == "top":
                drawn = of_the_top_label(*measures.top(calibrator, rest), rng)
            else:
                drawn = of_every_class(
                    measures.own_values(calibrator, rest), rest.y, rng
                )
            truth, truth_debiased = (float(np.mean(each)) for each in drawn(None))
            for size in (min(size, len(rest.y)) for size in sizes):
                plugin, debiased = drawn(size, resamples)
                row = {"mode": mode, "bins": bins, "rows": size}
                row |= {"truth": truth, "truth_debiased": truth_debiased}
                for name, each in (("plugin", plugin), ("debiased", debiased)):
                    row[name] = {
                        "mean": float(each.mean()),
                        "squared_error": summary((each - truth) ** 2),
                        "values": each.tolist(),
                    }
                row["plugin - debiased"] = summary(
                    (plugin - truth) ** 2 - (debiased - truth) ** 2
                )
                out.append(row)
    return out


def of_the_top_label(values, hits, rng):
    """A function of a number of rows and of resamples to both estimates; of None to those of the rows themselves.

    Rows with the same value and outcome are exchangeable, so a resample is one multinomial draw.
    """
    levels, at = np.unique(np.round(values, 12), return_inverse=True)
    cells = np.bincount(2 * at + hits.astype(np.int64), minlength=2 * len(levels))

    def estimates(size, resamples=1):
        drawn = (
            cells[None]
            if size is None
            else rng.multinomial(size, cells / len(hits), resamples)
        )
        drawn = drawn.reshape(len(drawn), -1, 2)
        count = drawn.sum(axis=2)
        found = measures.errors(count, count * levels, drawn[..., 1])
        return found.l2**2, found.debiased

    return estimates


def of_every_class(values, labels, rng):
    """As ``of_the_top_label``, means over classes: rows are drawn, since a row is in every class's bins."""
    n, k = values.shape
    hits = labels[:, None] == np.arange(k)
    own = [np.unique(np.round(values[:, c], 12), return_inverse=True) for c in range(k)]
    first = np.cumsum([0, *(len(levels) for levels, _ in own)])
    levels, at = (
        np.concatenate([levels for levels, _ in own]),
        np.stack([a for _, a in own], axis=1) + first[:-1],
    )
    hit_at = at[hits]  # the bin of each row's label

    def estimate(times):
        count = np.bincount(at.ravel(), np.repeat(times, k), first[-1])
        right = np.bincount(hit_at, times, first[-1])
        each = [
            measures.errors(count[i:j], count[i:j] * levels[i:j], right[i:j])
            for i, j in pairwise(first)
        ]
        return np.mean([e.l2**2 for e in each]), np.mean([e.debiased for e in each])

    def estimates(size, resamples=1):
        if size is None:
            return estimate(np.ones(n))
        drawn = (
            np.bincount(rng.integers(0, n, size), minlength=n) for _ in range(resamples)
        )
        return np.array([estimate(times) for times in drawn]).T

    return estimates


def known_truth(rows, sets, cal=3000, size=2000):
    """Figures 9 and 11 where the truth is known: mean squared error of both estimates of the top label's error.

    Inputs are those of the rows behind ``cal``; outcomes are drawn from a logistic curve in the log-odds of the
    prediction that is fitted to the real ones, so that the true error of every output value is known.
    """
    rest, rng, out = rows.at(slice(cal, None)), np.random.default_rng(0), []
    for bins in (FEW, MANY):
        values, hits = measures.top(
            fitted(rows.at(slice(0, cal)), "sb", mode="top", bins=bins), rest
        )
        x = measures.one_vs_rest(rest.z).max(axis=1)
        intercept, slope = logistic(x, hits)
        chance = 1 / (1 + np.exp(-(intercept + slope * x)))
        truth, found = measures.distinct(values, chance).l2 ** 2, []
        for _ in range(sets):
            drawn = rng.integers(0, len(x), size)
            e = measures.distinct(
                values[drawn], (rng.random(size) < chance[drawn]).astype(float)
            )
            found.append(((e.l2**2 - truth) ** 2, (e.debiased - truth) ** 2))
        plugin, debiased = np.array(found).T
        out.append(
            {
                "bins": bins,
                "rows": size,
                "sets": sets,
                "truth": float(truth),
                "plugin": summary(plugin),
                "debiased": summary(debiased),
                "plugin - debiased": summary(plugin - debiased),
            }
        )
    return out


def thirds_of_the_bound(rows):
    """The lower bound's three parts: a tenth fits, a tenth gives the edges, the rest measures."""
    tenth = len(rows.y) // 10
    return slice(0, tenth), slice(tenth, 2 * tenth), slice(2 * tenth, None)


def network(z, y, given):
    """All experiments on one network. given : trials, resamples, sets and bins."""
    rows = measures.Rows(z, y)
    parts = thirds_of_the_bound(rows)
    return {
        "lower bound": lower_bound(rows, parts, given.resamples),
        "coverage": coverage(rows, parts, given.sets, max(given.resamples // 5, 2)),
        "against bins": against_bins(rows, given.trials, given.bins),
        "estimators": estimators(rows, given.resamples, 3 * len(rows.y) // 10),
        "known truth": known_truth(rows, given.resamples, 3 * len(rows.y) // 10),
    }
