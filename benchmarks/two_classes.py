"""Which method suits two classes: candidates on models of scikit-learn, and on files of data.

``python benchmarks/two_classes.py [ROWS …] [DATA.npz …]``: calibration rows (100, 1000), and files of two classes with
logits and labels. Every model learns 2000 rows of each problem; all rows but those of the calibration are new. Printed
for models that never say 0 or 1, and for those that do: mean NLL on new rows minus that of temperature scaling, in
1e-3 nats, the largest such difference in brackets, and the mean of |mean confidence - accuracy|.
"""

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

import calcli

METHODS = ("identity", "ts", "platt", "mline", "beta", "ir", "venn-abers")
LEARNT, NEW = 2000, 3000


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Made ones: even classes, rare ones, and two dimensions."""
    from sklearn.datasets import make_classification, make_hastie_10_2, make_moons

    made = {"n_samples": 9000, "n_features": 20, "n_informative": 8, "n_redundant": 6}
    yield (
        "even",
        *make_classification(**made, flip_y=0.1, class_sep=0.7, random_state=0),
    )
    yield (
        "rare",
        *make_classification(
            **made, flip_y=0.02, class_sep=0.8, weights=[0.93], random_state=1
        ),
    )
    yield "hastie", *make_hastie_10_2(9000, random_state=2)
    yield "moons", *make_moons(9000, noise=0.35, random_state=3)


def models() -> dict[str, object]:
    """Classifiers as people use them."""
    from sklearn.ensemble import (
        AdaBoostClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
    )
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier

    return {
        "naive Bayes": GaussianNB(),
        "forest": RandomForestClassifier(30, random_state=0),
        "boosting": HistGradientBoostingClassifier(random_state=0),
        "AdaBoost": AdaBoostClassifier(random_state=0),
        "neighbours": KNeighborsClassifier(15),
        "logistic, balanced": LogisticRegression(max_iter=500, class_weight="balanced"),
        "network": MLPClassifier(alpha=0, random_state=0),
    }


def sources(paths: list[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """P(class 1) and labels of new rows."""
    for _, x, y in problems():
        for model in models().values():
            model.fit(x[:LEARNT], y[:LEARNT])
            yield model.predict_proba(x[LEARNT:])[:, 1], (y[LEARNT:] > 0).astype(int)
    for path in paths:
        with np.load(path) as file:
            z = file["logits"].astype(float)
            yield 1 / (1 + np.exp(z[:, 0] - z[:, 1])), file["labels"]


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or [100, 1000]
    found: dict[tuple[bool, int, str], list[tuple[float, float]]] = defaultdict(list)
    for p, y in sources([word for word in sys.argv[1:] if not word.isdigit()]):
        certain = bool(((p == 0) | (p == 1)).any())
        for n in sizes:
            order = np.random.default_rng(n).permutation(len(y))
            cal, new = order[:n], order[n : n + NEW]
            for name in METHODS:
                q = calcli.fit(p[cal], y[cal], method=name, kind="probs").predict_proba(
                    p[new]
                )
                loss = -np.log(np.maximum(q[np.arange(len(new)), y[new]], 1e-12)).mean()
                off = abs(q.max(axis=1).mean() - (q.argmax(axis=1) == y[new]).mean())
                found[certain, n, name].append((loss, off))
    for certain in (False, True):
        runs = len(found.get((certain, sizes[0], "ts"), ()))
        print(
            f"{runs} models that {'say 0 or 1 somewhere' if certain else 'never say 0 or 1'}"
        )
        print("rows   " + "".join(f"{name:>22}" for name in METHODS))
        for n in sizes if runs else ():
            table = {name: np.array(found[certain, n, name]) for name in METHODS}
            more = {name: 1e3 * (table[name] - table["ts"])[:, 0] for name in METHODS}
            cells = (
                f"{more[m].mean():+.1f} ({more[m].max():+.1f}) {table[m][:, 1].mean():.3f}"
                for m in METHODS
            )
            print(f"{n:<7}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
