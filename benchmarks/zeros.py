"""What a zero among rounded probabilities should count as: temperature scaling after four answers.

python benchmarks/zeros.py [RUNS]

RUNS (10) times, logits of 2, 4, 20 and 77 options are drawn, labels from a truth that is
their softmax at T = 1.6, and the model's probabilities (T = 1) are rounded to two decimals.
A temperature is fitted to 600 rows and held against 2000 new ones. Printed for each number
of options: the share of labels whose probability is stored as 0, and how far the expected
NLL of the new rows lies above that of the truth without rounding, where the m zeros of a
row count as half a digit / (m + 1) each (calcli's rule, by ``calcli.fit``), and where each
counts as half a digit, as 1e-6 or as 1e-12.
"""

import sys
import warnings
from typing import NamedTuple

import numpy as np
from _draws import draw_labels

import calcli
from calcli.numerics import log_softmax, softmax

TRUE_TEMPERATURE = 1.6
DIGIT = 0.01
SPREAD = 3.0
FITTED, NEW = 600, 2000
OPTIONS = (2, 4, 20, 77)
FLOORS = {"half a digit": DIGIT / 2, "1e-6": 1e-6, "1e-12": 1e-12}
"""What every zero counts as, by name of the answer."""

COLUMNS = ("rule", *FLOORS)


class Rows(NamedTuple):
    """True and stated probabilities (n, k), and labels (n,)."""

    truth: np.ndarray
    labels: np.ndarray
    rounded: np.ndarray


def draw(rng: np.random.Generator, n: int, k: int) -> Rows:
    """Rows with labels drawn from the truth, without those that round to zeros only."""
    z = SPREAD * rng.normal(size=(n, k))
    truth = softmax(z / TRUE_TEMPERATURE)
    rounded = np.round(softmax(z), 2)
    labels = draw_labels(truth, rng)
    has_any = rounded.any(axis=1)
    return Rows(truth[has_any], labels[has_any], rounded[has_any])


def excess(truth: np.ndarray, log_p: np.ndarray) -> float:
    """Expected NLL above that of the truth."""
    return float((truth * (np.log(truth) - log_p)).sum(axis=1).mean())


def excess_with_floor(cal: Rows, new: Rows, floor: float) -> float:
    """Excess where smaller probabilities count as the floor."""
    log_p = np.log(np.maximum(cal.rounded, floor))
    fitted = calcli.fit(log_p, cal.labels, "ts", kind="logits")
    log_p = np.log(np.maximum(new.rounded, floor))
    return excess(new.truth, log_softmax(log_p / fitted.params["temperature"]))


def one_run(seed: int, k: int) -> dict[str, float]:
    """Share of labels with a stored zero, and the excess under each answer."""
    rng = np.random.default_rng([seed, k])
    cal = draw(rng, FITTED, k)
    new = draw(rng, NEW, k)
    by_rule = calcli.fit(cal.rounded, cal.labels, "ts", kind="probs")
    p_label = cal.rounded[np.arange(len(cal.labels)), cal.labels]
    figures = {
        "zeros": float((p_label == 0).mean()),
        "rule": excess(new.truth, np.log(by_rule.predict_proba(new.rounded))),
    }
    for name, floor in FLOORS.items():
        figures[name] = excess_with_floor(cal, new, floor)
    return figures


def main() -> None:
    n_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    warnings.simplefilter("ignore")
    print(f"{'options':>7} {'zeros':>6}", *(f"{name:>12}" for name in COLUMNS))
    for k in OPTIONS:
        runs = [one_run(seed, k) for seed in range(n_runs)]
        zeros = np.mean([run["zeros"] for run in runs])
        cells = []
        for name in COLUMNS:
            mean = np.mean([run[name] for run in runs])
            cells.append(f"{mean:+12.4f}")
        print(f"{k:7d} {zeros:6.3f}", *cells)


if __name__ == "__main__":
    main()
