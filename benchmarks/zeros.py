"""What a zero among rounded probabilities should count as: temperature scaling after each of four answers.

``python benchmarks/zeros.py [RUNS]``: RUNS (10) times, logits of 2, 4, 20 and 77 options
are drawn, labels from a truth that is their softmax at T = 1.6, and the model's
probabilities (T = 1) are rounded to two decimals. A temperature is fitted to 600 rows and
held against 2000 new ones. Printed for each number of options: the share of labels whose
probability is stored as 0, and how far the expected NLL of the new rows lies above that of
the truth without rounding, where the m zeros of a row count as half a digit / (m + 1) each
(calcli's rule, by ``calcli.fit``), and where each counts as half a digit, as 1e-6 or as
1e-12.
"""

import sys
import warnings

import numpy as np

import calcli
from calcli.numerics import log_softmax, softmax

TRUE_TEMPERATURE, STEP, SPREAD = 1.6, 0.01, 3.0
FITTED, NEW = 600, 2000
OPTIONS = (2, 4, 20, 77)
EACH = {"half a digit": STEP / 2, "1e-6": 1e-6, "1e-12": 1e-12}


def draw(
    rng: np.random.Generator, n: int, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True probabilities, labels drawn from them, and the model's rounded probabilities. Rows that round to zeros only
    are left out."""
    z = SPREAD * rng.normal(size=(n, k))
    truth = softmax(z / TRUE_TEMPERATURE)
    rounded = np.round(softmax(z), 2)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    kept = rounded.any(axis=1)
    return truth[kept], labels[kept], rounded[kept]


def excess(truth: np.ndarray, log_p: np.ndarray) -> float:
    """Expected NLL above that of the truth."""
    return float((truth * (np.log(truth) - log_p)).sum(axis=1).mean())


def one_run(seed: int, k: int) -> dict[str, float]:
    """Share of labels with a stored zero, and the excess under each answer."""
    rng = np.random.default_rng([seed, k])
    _, labels, rounded = draw(rng, FITTED, k)
    truth, _, new = draw(rng, NEW, k)
    by_rule = calcli.fit(rounded, labels, "ts", kind="probs")
    found = {
        "zeros": float((rounded[np.arange(len(labels)), labels] == 0).mean()),
        "rule": excess(truth, np.log(by_rule.predict_proba(new))),
    }
    for name, value in EACH.items():
        floored, floored_new = (np.log(np.maximum(p, value)) for p in (rounded, new))
        fitted = calcli.fit(floored, labels, "ts", kind="logits")
        temperature = fitted.params["temperature"]
        found[name] = excess(truth, log_softmax(floored_new / temperature))
    return found


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    warnings.simplefilter("ignore")
    print(f"{'options':>7} {'zeros':>6}", *(f"{name:>12}" for name in ("rule", *EACH)))
    for k in OPTIONS:
        found = [one_run(seed, k) for seed in range(runs)]
        zeros = np.mean([run["zeros"] for run in found])
        means = [np.mean([run[name] for run in found]) for name in ("rule", *EACH)]
        print(f"{k:7d} {zeros:6.3f}", *(f"{mean:+12.4f}" for mean in means))


if __name__ == "__main__":
    main()
