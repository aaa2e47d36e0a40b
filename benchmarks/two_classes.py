"""Which method suits two classes: candidates on models of scikit-learn, and on files of data.

python benchmarks/two_classes.py [ROWS ...] [DATA.npz ...]

ROWS are numbers of calibration rows (100 and 1000), the files have two classes, with logits
and labels. Every model learns 2000 rows of each problem; all rows but those of the
calibration are new. Printed for models that never say 0 or 1, and for those that do: mean
NLL on new rows minus that of temperature scaling, in 1e-3 nats, the largest such difference
in brackets, and the mean of |mean confidence - accuracy|.
"""

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from _draws import mean_nll

import calcli

METHODS = ("identity", "ts", "platt", "mline", "beta", "ir", "venn-abers")
LEARNT, NEW = 2000, 3000
SIZES = (100, 1000)
FLOOR = 1e-12  # what smaller probabilities count as
WIDTH = 22  # of a column


class Scores(NamedTuple):
    """P(class 1) and labels of new rows."""

    p: np.ndarray
    labels: np.ndarray

    @property
    def are_certain_somewhere(self) -> bool:
        return bool(((self.p == 0) | (self.p == 1)).any())


def problems() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Features and labels: even classes, rare ones, and two dimensions."""
    from sklearn.datasets import make_classification, make_hastie_10_2, make_moons

    made = {"n_samples": 9000, "n_features": 20, "n_informative": 8, "n_redundant": 6}
    yield make_classification(**made, flip_y=0.1, class_sep=0.7, random_state=0)
    rare = {"flip_y": 0.02, "class_sep": 0.8, "weights": [0.93]}
    yield make_classification(**made, **rare, random_state=1)
    yield make_hastie_10_2(9000, random_state=2)
    yield make_moons(9000, noise=0.35, random_state=3)


def models() -> list:
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

    return [
        GaussianNB(),
        RandomForestClassifier(30, random_state=0),
        HistGradientBoostingClassifier(random_state=0),
        AdaBoostClassifier(random_state=0),
        KNeighborsClassifier(15),
        LogisticRegression(max_iter=500, class_weight="balanced"),
        MLPClassifier(alpha=0, random_state=0),
    ]


def sources(paths: list[str]) -> Iterator[Scores]:
    for x, y in problems():
        for model in models():
            model.fit(x[:LEARNT], y[:LEARNT])
            p = model.predict_proba(x[LEARNT:])[:, 1]
            yield Scores(p, (y[LEARNT:] > 0).astype(int))
    for path in paths:
        with np.load(path) as file:
            z = file["logits"].astype(float)
            yield Scores(1 / (1 + np.exp(z[:, 0] - z[:, 1])), file["labels"])


def measure(scores: Scores, n: int) -> dict[str, tuple[float, float]]:
    """NLL and |mean confidence - accuracy| of every method that is fitted to n rows."""
    p, labels = scores
    order = np.random.default_rng(n).permutation(len(labels))
    cal, new = order[:n], order[n : n + NEW]
    figures = {}
    for name in METHODS:
        calibrator = calcli.fit(p[cal], labels[cal], method=name, kind="probs")
        q = calibrator.predict_proba(p[new])
        accuracy = (q.argmax(axis=1) == labels[new]).mean()
        gap = abs(q.max(axis=1).mean() - accuracy)
        figures[name] = mean_nll(q, labels[new], FLOOR), gap
    return figures


def print_table(
    sizes: list[int], runs_of_size: dict[int, list[dict[str, tuple[float, float]]]]
) -> None:
    """Print a line for every number of calibration rows."""
    print("rows   " + "".join(f"{name:>{WIDTH}}" for name in METHODS))
    for n in sizes:
        runs = runs_of_size[n]
        if not runs:
            continue
        nll_of_ts = np.array([run["ts"][0] for run in runs])
        cells = []
        for name in METHODS:
            nll, gap = np.array([run[name] for run in runs]).T
            more = 1e3 * (nll - nll_of_ts)
            cells.append(f"{more.mean():+.1f} ({more.max():+.1f}) {gap.mean():.3f}")
        print(f"{n:<7}" + "".join(f"{cell:>{WIDTH}}" for cell in cells))


def main() -> None:
    warnings.simplefilter("ignore")
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or list(SIZES)
    paths = [word for word in sys.argv[1:] if not word.isdigit()]
    certain = defaultdict(list)
    others = defaultdict(list)
    for scores in sources(paths):
        runs_of_size = certain if scores.are_certain_somewhere else others
        for n in sizes:
            runs_of_size[n].append(measure(scores, n))
    for runs_of_size, words in (
        (others, "never say 0 or 1"),
        (certain, "say 0 or 1 somewhere"),
    ):
        print(f"{len(runs_of_size[sizes[0]])} models that {words}")
        print_table(sizes, runs_of_size)


if __name__ == "__main__":
    main()
