"""Scores to compare on: saved files, and problems whose truth is known; and how they are split."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _draws import draw_labels_of_logits
from numpy.typing import NDArray

from calcli.rows import ArrayRows

Array = NDArray[Any]
Task = dict[str, Any]
"""What is stored of a split: ``data``, ``group``, ``rows``, ``seed``, and figures."""

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
"""Group of a file by how its name begins; the first that fits."""

FLOOR = 1e-30
"""What smaller probabilities count as, where their logarithms are the scores."""


class Problem(NamedTuple):
    """Logits (n, k), labels (n,), and the group in whose mean it counts."""

    name: str
    group: str
    logits: Array
    labels: Array


def log_of(p: Array) -> Array:
    return np.log(np.maximum(p, FLOOR))


# ---- saved scores


def saved(path: Path) -> Iterator[Problem]:
    """Scores of a file, one model after the other: arrays named logits*, or probs."""
    with np.load(path) as file:
        for array in file.files:
            if array == "probs":
                z = log_of(file[array].astype(float))
            elif array.startswith("logits"):
                z = file[array].astype(float)
            else:
                continue
            model = array.removeprefix("logits").removeprefix("probs")[1:]
            name = f"{path.stem}:{model}".rstrip(":")
            yield Problem(name, group_of(path, z.shape[1]), z, file["labels"])


def group_of(path: Path, n_classes: int) -> str:
    for start, group in GROUPS.items():
        if path.stem.startswith(start):
            return group
    return "two classes" if n_classes == 2 else "other fields"


# ---- scores of a known truth


def simulated(seed: int = 0) -> Iterator[Problem]:
    """Problems whose truth is known: labels are drawn from the softmax of true logits."""
    rng = np.random.default_rng(seed)
    rows = 10_000

    def problem(name: str, z: Array, true: Array) -> Problem:
        return Problem(name, "simulated", z, draw_labels_of_logits(true, rng))

    s = 3 * rng.standard_normal(rows)
    bent = 0.5 * s + 1.5 - 0.05 * s**2
    zeros = np.zeros(rows)
    z, true = np.stack([zeros, s], axis=1), np.stack([zeros, bent], axis=1)
    yield problem("two classes, bias and curvature", z, true)

    z = 2 * rng.standard_normal((rows, 4))
    absent = np.array([0.0, 0.5, -30.0, -30.0])
    yield problem("two of four classes absent", z, z + absent)

    strong_class = 12 * np.eye(10)[rng.integers(0, 10, rows)]
    z = strong_class + 2 * rng.standard_normal((rows, 10))
    yield problem("near-perfect accuracy", z, 0.8 * z)

    place = np.arange(50)
    z = 2 * rng.standard_normal((rows, 50)) - 0.1 * place
    yield problem("long tail", z, 0.6 * z - 0.05 * place)

    z = 2 * rng.standard_normal((rows, 1000))
    yield problem("1000 classes", z, 0.7 * z)


# ---- scores of models that are trained here


class Table(NamedTuple):
    """Features (n, m), labels (n,), and the number of rows to train on."""

    name: str
    features: Array
    labels: Array
    training_rows: int


def tables(seed: int = 1) -> Iterator[Table]:
    """Scikit-learn's own data, and made ones with few positives and with many classes.

    Where the name says noise, the labels of 15 or 20 % of the rows are drawn anew.
    """
    from sklearn.datasets import load_breast_cancer, load_digits, make_classification

    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    yield Table("digits", x, y, 500)
    is_noise = rng.random(len(y)) < 0.2
    noisy = np.where(is_noise, rng.integers(0, 10, len(y)), y)
    yield Table("digits, noise", x, noisy, 500)
    yield Table("digits, even", x, y % 2, 400)
    is_noise = rng.random(len(y)) < 0.15
    noisy = np.where(is_noise, rng.integers(0, 2, len(y)), y > 4)
    yield Table("digits, noise, above 4", x, noisy, 400)
    yield Table("digits, eights", x, (y == 8).astype(int), 400)
    yield Table("breast cancer", *load_breast_cancer(return_X_y=True), 150)
    for positive in (0.01, 0.06):
        made = make_classification(
            9000,
            20,
            n_informative=8,
            weights=[1 - positive],
            flip_y=0,
            random_state=seed,
        )
        yield Table(f"{100 * positive:.0f} % positive", *made, 3000)
    made = make_classification(
        9000, 20, n_informative=10, n_classes=5, flip_y=0.15, random_state=4
    )
    yield Table("five, noise", *made, 2000)
    made = make_classification(
        9000, 30, n_informative=15, n_classes=26, n_clusters_per_class=1, random_state=3
    )
    yield Table("26 classes", *made, 3000)


def models_of_tables(seed: int) -> dict[str, Any]:
    """Five kinds of model, by name."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC

    return {
        "forest": RandomForestClassifier(100, random_state=seed),
        "boosting": GradientBoostingClassifier(n_estimators=40, random_state=seed),
        "naive Bayes": GaussianNB(),
        "net": MLPClassifier((50,), max_iter=150, random_state=seed),
        "SVM": SVC(random_state=seed),
    }


def trained(seed: int = 1) -> Iterator[Problem]:
    """Scores of five kinds of model on the rows that they were not trained on."""
    from sklearn.preprocessing import StandardScaler

    for table in tables(seed):
        y = table.labels
        order = np.random.default_rng(seed).permutation(len(y))
        learn, rest = order[: table.training_rows], order[table.training_rows :]
        x = StandardScaler().fit(table.features[learn]).transform(table.features)
        for kind, model in models_of_tables(seed).items():
            if kind == "boosting" and y.max() > 10:
                continue  # a minute of training
            model.fit(x[learn], y[learn])
            z = scores_of(model, x[rest])
            group = "trained, two classes" if y.max() == 1 else "trained, more classes"
            name = f"{table.name}: {kind}"
            yield Problem(name, group, z, y[rest].astype(int))


def scores_of(model: Any, x: Array) -> Array:
    """Logits (n, k) of a model: its decision function, else the logarithms of its chances."""
    if hasattr(model, "predict_proba"):
        return log_of(model.predict_proba(x))
    z = model.decision_function(x)
    if z.ndim == 1:
        return np.stack([0 * z, z], axis=1)
    return z


def text(seed: int = 1) -> Iterator[Problem]:
    """Scores of models of documents: counts of words from twenty topics that share most words."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB

    rng = np.random.default_rng(seed)
    n_words, n_topics, n_documents, n_training = 1500, 20, 9000, 2000
    common = rng.dirichlet(np.full(n_words, 0.1))
    of_topic = rng.dirichlet(np.full(n_words, 0.05), n_topics)
    y = rng.integers(0, n_topics, n_documents)
    share = rng.beta(2.0, 6.0, n_documents)[:, None]
    length = rng.poisson(80, n_documents)
    chances = (1.0 - share) * common + share * of_topic[y]
    documents = zip(length, chances, strict=True)
    x = np.stack([rng.multinomial(words, chance) for words, chance in documents])
    models = {
        "naive Bayes": MultinomialNB(),
        "regression": LogisticRegression(max_iter=200),
        "forest": RandomForestClassifier(60, random_state=seed),
    }
    for kind, model in models.items():
        model.fit(x[:n_training], y[:n_training])
        z = scores_of(model, x[n_training:])
        yield Problem(f"documents: {kind}", "trained, documents", z, y[n_training:])


# ---- splits, and tasks made of them


def split(y: Array, rows: int, seed: int) -> tuple[Array, Array]:
    """Calibration and test rows: halves of every class, the first thinned evenly."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    is_first = np.arange(len(y)) % 2 == rng.integers(2)
    first, test = order[is_first], order[~is_first]
    places = np.linspace(0, len(first) - 1, min(rows, len(first)))
    chosen = np.unique(places.astype(int))
    return rng.permutation(first[chosen]), test


def has_rows(problem: Problem, rows: int) -> bool:
    """Whether half of a problem has so many rows, or nearly."""
    return 2 * rows <= 1.05 * len(problem.labels)


def key_of(task: Task) -> tuple[str, int, int]:
    """What tells a split from others."""
    return task["data"], task["rows"], task["seed"]


def new_task(problem: Problem, rows: int, seed: int) -> Task:
    """A split of which no calibrator is scored yet."""
    return {
        "data": problem.name,
        "group": problem.group,
        "rows": rows,
        "seed": seed,
        "scores": {},
    }


def mean_test_nll(calibrator: Any, z: Array, labels: Array) -> float:
    """Mean NLL of rows under a calibrator of calcli."""
    total = 0.0
    for block in ArrayRows(z, labels).blocks():
        log_p = calibrator.apply(block).log_probs
        total -= float(log_p[np.arange(len(block)), block.labels].sum())
    return total / len(labels)
