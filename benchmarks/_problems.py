"""Scores to compare on: saved files, and problems whose truth is known; and how they are split."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SAFE_IN_TWO_CLASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "venn-abers": ("venn-abers", {}),
    "smoothed sigmoid": ("platt", {"smooth": True}),
}
"""Method and options of what is safe with few rows of two classes, by name of an entry."""

GROUPS = {
    "cifar100": "CIFAR-100 nets",
    "cifar10": "ten-class nets",
    "vlm": "vision-language",
}


class Problem(NamedTuple):
    """Logits (n, k), labels (n,), and the group in whose mean it counts."""

    name: str
    group: str
    logits: Array
    labels: Array


def saved(path: Path) -> Iterator[Problem]:
    """Scores of a file, one model after the other: arrays named logits*, or probs."""
    with np.load(path) as file:
        for array in file.files:
            if not array.startswith("logits") and array != "probs":
                continue
            z = file[array].astype(float)
            z = np.log(np.maximum(z, 1e-30)) if array == "probs" else z
            other = "two classes" if z.shape[1] == 2 else "other fields"
            group = next(
                (
                    group
                    for start, group in GROUPS.items()
                    if path.stem.startswith(start)
                ),
                other,
            )
            yield Problem(
                f"{path.stem}:{array[7:]}".rstrip(":"), group, z, file["labels"]
            )


def simulated(seed: int = 0) -> Iterator[Problem]:
    """Problems whose truth is known: labels are drawn from softmax of ``true``."""
    rng = np.random.default_rng(seed)

    def drawn(name: str, z: Array, true: Array) -> Problem:
        return Problem(
            name, "simulated", z, (true + rng.gumbel(size=true.shape)).argmax(axis=1)
        )

    s = 3 * rng.standard_normal(10_000)
    bent = 0.5 * s + 1.5 - 0.05 * s**2
    yield drawn(
        "two classes, bias and curvature",
        np.stack([0 * s, s], 1),
        np.stack([0 * s, bent], 1),
    )
    z = 2 * rng.standard_normal((10_000, 4))
    yield drawn("two of four classes absent", z, z + np.array([0.0, 0.5, -30.0, -30.0]))
    z = 12 * np.eye(10)[rng.integers(0, 10, 10_000)] + 2 * rng.standard_normal(
        (10_000, 10)
    )
    yield drawn("near-perfect accuracy", z, 0.8 * z)
    z = 2 * rng.standard_normal((10_000, 50)) - 0.1 * np.arange(50)
    yield drawn("long tail", z, 0.6 * z - 0.05 * np.arange(50))
    z = 2 * rng.standard_normal((10_000, 1000))
    yield drawn("1000 classes", z, 0.7 * z)


def tables(seed: int = 1) -> Iterator[tuple[str, Array, Array, int]]:
    """Name, features, labels and training rows: scikit-learn's own data, and made ones with few positives and many
    classes; labels drawn anew for 15 or 20 % of the rows where the name says noise."""
    from sklearn.datasets import load_breast_cancer, load_digits, make_classification

    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    yield "digits", x, y, 500
    yield (
        "digits, noise",
        x,
        np.where(rng.random(len(y)) < 0.2, rng.integers(0, 10, len(y)), y),
        500,
    )
    yield "digits, even", x, y % 2, 400
    yield (
        "digits, noise, above 4",
        x,
        np.where(rng.random(len(y)) < 0.15, rng.integers(0, 2, len(y)), y > 4),
        400,
    )
    yield "digits, eights", x, (y == 8).astype(int), 400
    yield "breast cancer", *load_breast_cancer(return_X_y=True), 150
    for positive in (0.01, 0.06):
        made = make_classification(
            9000,
            20,
            n_informative=8,
            weights=[1 - positive],
            flip_y=0,
            random_state=seed,
        )
        yield f"{100 * positive:.0f} % positive", *made, 3000
    yield (
        "five, noise",
        *make_classification(
            9000, 20, n_informative=10, n_classes=5, flip_y=0.15, random_state=4
        ),
        2000,
    )
    many = make_classification(
        9000, 30, n_informative=15, n_classes=26, n_clusters_per_class=1, random_state=3
    )
    yield "26 classes", *many, 3000


def trained(seed: int = 1) -> Iterator[Problem]:
    """Scores of five kinds of model on the rows that they were not trained on."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    for name, x, y, count in tables(seed):
        order = np.random.default_rng(seed).permutation(len(y))
        learn, rest = order[:count], order[count:]
        x = StandardScaler().fit(x[learn]).transform(x)
        models = {
            "forest": RandomForestClassifier(100, random_state=seed),
            "boosting": GradientBoostingClassifier(n_estimators=40, random_state=seed),
            "naive Bayes": GaussianNB(),
            "net": MLPClassifier((50,), max_iter=150, random_state=seed),
            "SVM": SVC(random_state=seed),
        }
        for kind, model in models.items():
            if kind == "boosting" and y.max() > 10:
                continue  # a minute of training
            model.fit(x[learn], y[learn])
            if kind == "SVM":
                z = model.decision_function(x[rest])
                z = np.stack([0 * z, z], axis=1) if z.ndim == 1 else z
            else:
                z = np.log(np.maximum(model.predict_proba(x[rest]), 1e-30))
            group = "trained, two classes" if y.max() == 1 else "trained, more classes"
            yield Problem(f"{name}: {kind}", group, z, y[rest].astype(int))


def text(seed: int = 1) -> Iterator[Problem]:
    """Scores of models of documents: counts of words from twenty topics that share most words."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB

    rng = np.random.default_rng(seed)
    words, topics, documents = 1500, 20, 9000
    common = rng.dirichlet(np.full(words, 0.1))
    own = rng.dirichlet(np.full(words, 0.05), topics)
    y = rng.integers(0, topics, documents)
    share = rng.beta(2.0, 6.0, documents)
    length = rng.poisson(80, documents)
    chances = (1.0 - share[:, None]) * common + share[:, None] * own[y]
    x = np.stack([rng.multinomial(n, p) for n, p in zip(length, chances, strict=True)])
    models = {
        "naive Bayes": MultinomialNB(),
        "regression": LogisticRegression(max_iter=200),
        "forest": RandomForestClassifier(60, random_state=seed),
    }
    learn = slice(0, 2000)
    for kind, model in models.items():
        model.fit(x[learn], y[learn])
        z = np.log(np.maximum(model.predict_proba(x[2000:]), 1e-30))
        yield Problem(f"documents: {kind}", "trained, documents", z, y[2000:])


def split(y: Array, rows: int, seed: int) -> tuple[Array, Array]:
    """Calibration and test rows: halves of every class, the first thinned evenly."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    side = np.arange(len(y)) % 2 == rng.integers(2)
    first, test = order[side], order[~side]
    kept = np.unique(np.linspace(0, len(first) - 1, min(rows, len(first))).astype(int))
    return rng.permutation(first[kept]), test
