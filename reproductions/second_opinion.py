"""What the pages on the papers call refuted, computed once more: NumPy only, nothing of calcli or of the other scripts.

bars       Li (2023), figures 1-4: how often the bootstrap's 90 % bar holds the true binned error (known truth)
rounds     Jang, Lee, Weimer (2021), section 5.2: rounds of algorithm 2 as printed that raise the ECE they calibrate on
levels     Clarte, Loureiro, Krzakala, Zdeborova (2023), section 5.3: where a student with 20 rows per dimension says
           less than is true (Delta < 0)

    python reproductions/second_opinion.py FOLDER [--sets 40] [--halves 5] [--rounds 25] [-o FOLDER]

FOLDER holds the ten-class files. Prints one JSON object, and keeps it in the folder of -o.
"""

import argparse
import json
from itertools import pairwise
from math import erf
from pathlib import Path

import numpy as np

TEN_CLASSES = (
    "cifar10_vgg16_verified",
    "cifar10_vgg16_bn",
    "cifar10_resnet20",
    "cifar10_resnet20_transformed",
)
MOVED = "cifar10_resnet20_transformed"
BARS = (2, 8, 32, 128, 512)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def logistic_curve(x, hits):
    """Intercept and slope of the most likely P(hit | x), by Fisher scoring."""
    design, w = np.column_stack([np.ones_like(x), x]), np.array([0.0, 0.5])
    for _ in range(200):
        p = sigmoid(design @ w)
        change = np.linalg.lstsq(
            design.T @ (design * (p * (1 - p))[:, None]),
            design.T @ (hits - p),
            rcond=None,
        )[0]
        w = w + change * min(1, 2 / max(abs(change)))
        if max(abs(change)) < 1e-11:
            return w
    raise RuntimeError("no logistic curve found")


# ---- bars


def top_log_odds(path):
    """Log-odds of the prediction, and whether it is right."""
    with np.load(path) as file:
        z = (
            np.log(np.maximum(file["probs"].astype(float), 1e-300))
            if "probs" in file
            else file["logits"].astype(float)
        )
        y = file["labels"]
    top = z.argmax(axis=1)
    rest = z.copy()
    rest[np.arange(len(y)), top] = -np.inf
    most = rest.max(axis=1)
    return z.max(axis=1) - most - np.log(np.exp(rest - most[:, None]).sum(axis=1)), (
        top == y
    ).astype(float)


def root_mean_square(bins, values, outcome, count):
    """The l2 calibration error over ``count`` bins."""
    rows = np.maximum(np.bincount(bins, minlength=count), 1e-9)
    gap = np.bincount(bins, values - outcome, count) / rows
    return np.sqrt((rows * gap**2).sum() / rows.sum())


def coverage(path, sets, resamples=100):
    """Proportion of data sets whose percentile bar holds the truth, for each number of bins."""
    odds, hits = top_log_odds(path)
    tenth, rng = len(odds) // 10, np.random.default_rng(7)
    intercept, slope = logistic_curve(odds[:tenth], hits[:tenth])
    g = sigmoid(intercept + slope * odds)
    edge_rows, g, hits = (
        np.sort(g[tenth : 2 * tenth]),
        g[2 * tenth :],
        hits[2 * tenth :],
    )
    x = -np.log(np.maximum(1 - g, 1e-12))
    chance = sigmoid(np.column_stack([np.ones_like(x), x]) @ logistic_curve(x, hits))
    held = []
    for count in BARS:
        parts = np.array_split(edge_rows, count)
        cuts = [(a[-1] + b[0]) / 2 for a, b in pairwise(parts)]
        bins = np.searchsorted(cuts, g)
        truth, inside = root_mean_square(bins, g, chance, count), 0
        for _ in range(sets):
            rows = rng.integers(0, len(g), len(g))
            outcome = (rng.random(len(g)) < chance[rows]).astype(float)
            again = (rng.integers(0, len(g), len(g)) for _ in range(resamples))
            bar = [
                root_mean_square(bins[rows[i]], g[rows[i]], outcome[i], count)
                for i in again
            ]
            inside += np.quantile(bar, 0.05) <= truth <= np.quantile(bar, 0.95)
        held.append(inside / sets)
    return held


# ---- rounds


def log_softmax(z):
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def width_ece(log_p, y):
    """ECE over 15 bins of equal width, closed on the right."""
    confidence, hits = np.exp(log_p.max(axis=1)), log_p.argmax(axis=1) == y
    bins = np.ceil(np.minimum(confidence, 1) * 15).astype(int) - 1
    return np.abs(np.bincount(bins, confidence - hits, 15)).sum() / len(y)


def best_multiplier(log_p, y):
    """beta in [.01, 100] of the least NLL of softmax(beta log p), by halving the sign of its slope."""
    if not len(y):
        return 1.0

    def slope(beta):
        p = np.exp(log_softmax(beta * log_p))
        return ((p * log_p).sum(axis=1) - log_p[np.arange(len(y)), y]).sum()

    low, high = np.log(0.01), np.log(100.0)
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(np.exp(middle)) < 0 else (low, middle)
    return float(np.exp((low + high) / 2))


def eces_of_rounds(z, y, moved, draws):
    """ECE before and after each round of algorithm 2: groups by label change and own confidence, equation 4."""
    a, b = log_softmax(z), {m: log_softmax(moved[m]) for m in set(draws)}
    out = [width_ece(a, y)]
    for m in draws:
        same = a.argmax(axis=1) == b[m].argmax(axis=1)
        group = 2 * same + (a.max(axis=1) >= b[m].max(axis=1))
        scale = np.ones(len(y))
        for k in range(4):
            own = group == k
            scale[own] = 1 + own.mean() * (best_multiplier(a[own], y[own]) - 1)
        a, b[m] = log_softmax(scale[:, None] * a), log_softmax(scale[:, None] * b[m])
        out.append(width_ece(a, y))
    return out


def rising_rounds(path, halves, rounds):
    """{family: [rounds that raise the ECE, rounds]} over halves; draws are those of a generator seeded 0."""
    with np.load(path) as file:
        z, y, moved = (
            file[name].astype(float)
            for name in ("logits", "labels", "transformed_logits")
        )
        families = [str(spec).partition(":")[0] for spec in file["transforms"]]
    out, y = {}, y.astype(int)
    for family in dict.fromkeys(families):
        pool, risen = [m for m, own in enumerate(families) if own == family], 0
        for seed in range(halves):
            rows = np.sort(
                np.array_split(np.random.default_rng(seed).permutation(len(y)), 2)[0]
            )
            draws = [
                pool[i]
                for i in np.random.default_rng(0).integers(len(pool), size=rounds)
            ]
            risen += int(
                (
                    np.diff(eces_of_rounds(z[rows], y[rows], moved[:, rows], draws)) > 0
                ).sum()
            )
        out[family] = [risen, halves * rounds]
    return out


# ---- levels


def normal_cdf(x):
    return 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def density(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def chance_and_slope(teacher, w, variance):
    """E s*(N(w, variance)) of the affine or constant teacher, and its derivative in w."""
    s = np.sqrt(variance)
    low, high = normal_cdf((-1 - w) / s), normal_cdf((1 - w) / s)
    if teacher == "constant":
        return 1 - (low + high) / 2, (density((-1 - w) / s) + density((1 - w) / s)) / (
            2 * s
        )
    inside = (w + 1) / 2 * (high - low) + s / 2 * (
        density((-1 - w) / s) - density((1 - w) / s)
    )
    return inside + 1 - high, (high - low) / 2


def modest_levels(teacher, alpha, ridge=1e-4):
    """{from, share, worst} of the levels above 1/2 where sigmoid(xi) < E[s* | xi], or None; state evolution."""
    t = np.linspace(-9, 9, 1801)
    weight = density(t) * (t[1] - t[0])
    m, q, v = 0.5, 1.0, 1.0
    for _ in range(5000):
        xi = np.sqrt(q) * t
        low, high = xi, xi + v  # xi + v sigmoid(-z) - z falls in z
        for _ in range(60):
            middle = (low + high) / 2
            above = xi + v * sigmoid(-middle) > middle
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        f = sigmoid(-(low + high) / 2)
        u = f * (1 - f)
        chance, slope = chance_and_slope(teacher, m * xi / q, 1 - m * m / q)
        mean, square, stiff = (
            2 * alpha * weight @ x
            for x in (slope * f, chance * f * f, chance * u / (1 + v * u))
        )
        after = np.array([mean, (square + mean**2) / (ridge + stiff), 1]) / (
            ridge + stiff
        )
        if np.abs(after / (m, q, v) - 1).max() < 1e-9:
            break
        m, q, v = 0.5 * (np.array([m, q, v]) + after)
    t = np.linspace(0, 9, 90_001)[1:]
    level = sigmoid(np.sqrt(q) * t)
    gap = level - chance_and_slope(teacher, m * t / np.sqrt(q), 1 - m * m / q)[0]
    below = (gap < -1e-9) & (level < 1 - 1e-9)
    if not below.any():
        return None
    share = float(2 * (density(t) * below).sum() * (t[1] - t[0]))
    return {
        "from": float(level[below].min()),
        "share": share,
        "worst": float(gap.min()),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--sets",
        type=int,
        default=40,
        help="data sets of the bars (default: %(default)s)",
    )
    parser.add_argument(
        "--halves",
        type=int,
        default=5,
        help="halves of the rounds (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=25,
        help="rounds that are followed (default: %(default)s)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    files = {name: given.folder / f"{name}.npz" for name in TEN_CLASSES}
    moved = files[MOVED]
    results = {
        "bars": {
            name: coverage(path, given.sets)
            for name, path in files.items()
            if path.exists()
        },
        "rounds": rising_rounds(moved, given.halves, given.rounds)
        if moved.exists()
        else {},
        "levels": {
            f"{name} {alpha}": modest_levels(name, alpha)
            for name in ("affine", "constant")
            for alpha in (5, 20)
        },
    }
    text = json.dumps(results, indent=1)
    print(text)
    if given.output:
        (given.output / "second_opinion.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
