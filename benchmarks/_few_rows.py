"""Problems with few calibration rows: near-perfect scores, and rare positives.

Those of saved files are made by taking classes apart: one class against all others, or a
few classes among themselves. Those of known truth draw labels from it, so that tens of
thousands of test rows tell small differences.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _draws import draw_labels_of_logits
from _problems import Array, Problem

ROWS = 40_000  # of a problem whose truth is known
RARE = "rare positives, files"
PERFECT = "near-perfect, files"
RARE_DRAWN = "rare positives, drawn"
PERFECT_DRAWN = "near-perfect, drawn"

FILES_OF_HUNDRED = ("cifar100_resnet20", "cifar100_vgg19_bn", "cifar100_repvgg_a2")
FILES_OF_TEN = ("cifar10_resnet20", "cifar10_vgg16_bn")
RARE_CLASSES = (11, 53, 97)
"""Of a hundred classes; each is held against all others."""

EASY_CLASSES = ((1, 6, 8), (0, 1, 6, 7, 8, 9), (3, 6, 9), (1, 7))
"""Of ten classes; hardly any rows of these are mistaken for each other."""


def log_sum(z: Array) -> Array:
    """Logarithm of the sum of exponentials of every row."""
    return np.logaddexp.reduce(z, axis=1)


def read(path: Path) -> tuple[Array, Array]:
    """Logits and labels of a file."""
    with np.load(path) as file:
        return file["logits"].astype(float), file["labels"]


def of_files(folder: Path) -> Iterator[Problem]:
    """Problems made of the public files of image networks."""
    for stem in FILES_OF_HUNDRED:
        z, y = read(folder / f"{stem}.npz")
        for label in RARE_CLASSES:
            others = log_sum(np.delete(z, label, axis=1))
            pair = np.stack([others, z[:, label]], axis=1)
            is_label = (y == label).astype(int)
            yield Problem(f"{stem}, {label}", RARE, pair, is_label)
    for stem in FILES_OF_TEN:
        z, y = read(folder / f"{stem}.npz")
        for classes in EASY_CLASSES:
            is_among = np.isin(y, classes)
            labels = np.searchsorted(classes, y[is_among])
            logits = z[is_among][:, list(classes)]
            name = f"{stem}, {len(classes)} of ten: {classes[-1]}"
            yield Problem(name, PERFECT, logits, labels)


def sigmoid(log_odds: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-log_odds))


def rare(seed: int = 5) -> Iterator[Problem]:
    """Two classes, one of them rare; the scores err in ways of real models."""
    rng = np.random.default_rng(seed)
    zeros = np.zeros(ROWS)
    for share in (0.01, 0.03, 0.1):
        base = np.log(share / (1.0 - share))
        true = base + 1.5 * rng.standard_t(4, ROWS)
        chance = sigmoid(true)
        votes_of_twenty_trees = rng.binomial(20, chance)
        scores = {
            "calibrated": true,
            "doubled": 2.0 * true,  # as naive Bayes
            "balanced": true - base,  # of a balanced training set
            "votes": np.log(
                (votes_of_twenty_trees + 0.5) / (20.5 - votes_of_twenty_trees)
            ),
            "noise": true + 1.5 * rng.standard_normal(ROWS),
        }
        labels = (rng.random(ROWS) < chance).astype(int)
        for name, log_odds in scores.items():
            title = f"{100 * share:.0f} % positive, {name}"
            logits = np.stack([zeros, log_odds], axis=1)
            yield Problem(title, RARE_DRAWN, logits, labels)


def near_perfect(seed: int = 6) -> Iterator[Problem]:
    """Scores that are right on all but one row in a hundred, or fewer."""
    rng = np.random.default_rng(seed)
    rows = np.arange(ROWS)
    for k in (2, 3, 10, 40):
        margin = rng.gamma(3.0, 3.5, ROWS) + np.log(k)
        true = rng.standard_normal((ROWS, k))
        true[rows, rng.integers(0, k, ROWS)] += margin
        labels = draw_labels_of_logits(true, rng)
        has_wrong_label = rng.random(ROWS) < 0.01
        noisy = np.where(has_wrong_label, rng.integers(0, k, ROWS), labels)
        scores = {
            "overconfident": (2.0 * true, labels),
            "underconfident": (0.4 * true, labels),
            "wrong labels": (true, noisy),
        }
        for name, (logits, stored_labels) in scores.items():
            title = f"{k} classes, {name}"
            yield Problem(title, PERFECT_DRAWN, logits, stored_labels)


def few_row_problems(folder: Path) -> Iterator[Problem]:
    yield from of_files(folder)
    yield from rare()
    yield from near_perfect()
