"""Problems with few calibration rows: near-perfect scores, and rare positives.

Those of saved files are made by taking classes apart: one class against all others, or a
few classes among themselves. Those of known truth draw labels from it, so that tens of
thousands of test rows tell small differences.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _problems import Array, Problem

ROWS = 40_000  # of a problem whose truth is known
RARE = "rare positives, files"
PERFECT = "near-perfect, files"
RARE_DRAWN = "rare positives, drawn"
PERFECT_DRAWN = "near-perfect, drawn"


def log_sum(z: Array) -> Array:
    """Logarithm of the sum of exponentials of every row."""
    return np.logaddexp.reduce(z, axis=1)


def of_files(folder: Path) -> Iterator[Problem]:
    """Problems made of the public files of image networks."""
    for stem in ("cifar100_resnet20", "cifar100_vgg19_bn", "cifar100_repvgg_a2"):
        with np.load(folder / f"{stem}.npz") as file:
            z, y = file["logits"].astype(float), file["labels"]
        for c in (11, 53, 97):
            rest = log_sum(np.delete(z, c, axis=1))
            pair = np.stack([rest, z[:, c]], axis=1)
            yield Problem(f"{stem}, {c}", RARE, pair, (y == c).astype(int))
    for stem in ("cifar10_resnet20", "cifar10_vgg16_bn"):
        with np.load(folder / f"{stem}.npz") as file:
            z, y = file["logits"].astype(float), file["labels"]
        for classes in ((1, 6, 8), (0, 1, 6, 7, 8, 9), (3, 6, 9), (1, 7)):
            rows = np.isin(y, classes)
            labels = np.searchsorted(classes, y[rows])
            name = f"{stem}, {len(classes)} of ten: {classes[-1]}"
            yield Problem(name, PERFECT, z[rows][:, list(classes)], labels)


def labels_of(true: Array, rng: np.random.Generator) -> Array:
    """Labels drawn from softmax of ``true``."""
    return (true + rng.gumbel(size=true.shape)).argmax(axis=1)


def rare(seed: int = 5) -> Iterator[Problem]:
    """Two classes, one of them rare; the scores err in ways of real models."""
    rng = np.random.default_rng(seed)
    for share in (0.01, 0.03, 0.1):
        base = np.log(share / (1.0 - share))
        heavy = base + 1.5 * rng.standard_t(4, ROWS)
        # scores: as they are, doubled (naive Bayes), of a balanced training set,
        # votes of twenty trees, and with noise
        votes = rng.binomial(20, 1.0 / (1.0 + np.exp(-heavy)))
        scores = {
            "calibrated": heavy,
            "doubled": 2.0 * heavy,
            "balanced": heavy - base,
            "votes": np.log((votes + 0.5) / (20.5 - votes)),
            "noise": heavy + 1.5 * rng.standard_normal(ROWS),
        }
        y = (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-heavy))).astype(int)
        for name, s in scores.items():
            title = f"{100 * share:.0f} % positive, {name}"
            yield Problem(title, RARE_DRAWN, np.stack([0 * s, s], axis=1), y)


def near_perfect(seed: int = 6) -> Iterator[Problem]:
    """Scores that are right on all but one row in a hundred, or fewer."""
    rng = np.random.default_rng(seed)
    for k in (2, 3, 10, 40):
        margin = rng.gamma(3.0, 3.5, ROWS) + np.log(k)
        true = rng.standard_normal((ROWS, k))
        true[np.arange(ROWS), rng.integers(0, k, ROWS)] += margin
        y = labels_of(true, rng)
        wrong_label = rng.random(ROWS) < 0.01
        noisy = np.where(wrong_label, rng.integers(0, k, ROWS), y)
        yield Problem(f"{k} classes, overconfident", PERFECT_DRAWN, 2.0 * true, y)
        yield Problem(f"{k} classes, underconfident", PERFECT_DRAWN, 0.4 * true, y)
        yield Problem(f"{k} classes, wrong labels", PERFECT_DRAWN, true, noisy)


def few_row_problems(folder: Path) -> Iterator[Problem]:
    yield from of_files(folder)
    yield from rare()
    yield from near_perfect()
