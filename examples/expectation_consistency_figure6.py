"""Expectation consistency against temperature scaling where the truth is known: Figure 6.

Clarte, Loureiro, Krzakala, Zdeborova (2023), section 5: inputs x ~ N(0, I/d), a teacher
w* ~ N(0, I), labels with P(y = 1 | x) = s*(w*.x), s*(t) = (t + 1)/2 cut to [0, 1]; logistic
regression with ridge 1e-4 on n = 20 d rows. The model is misspecified, so the temperature of
the least loss and the one that makes confidence equal accuracy differ; the paper computes
both in the limit of large d. We fit at d = 200, save the scores of fresh rows, and let
calcli find the temperatures and the errors. The paper's ECE integrates over one class
only and is half of the usual one, so ours is halved.

    python examples/expectation_consistency_figure6.py [--runs 10] [--rows 200000]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COLUMNS = ("T_TS", "T_EC", "ECE/2 %", "with TS", "with EC")
PUBLISHED = (1.24, 1.35, 2.1, 1.2, 1.0)
"""Caption of Figure 6."""
DIMENSION, RATIO, RIDGE = 200, 20, 1e-4


def calcli(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "calcli", *map(str, words), "-q"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def teacher(t, rng):
    """Labels 0/1 with P(1) = (t + 1)/2 cut to [0, 1]."""
    return (rng.random(t.shape) < np.clip((t + 1) / 2, 0, 1)).astype(np.int64)


def trained(x, y):
    """Weights of the least sum of -log sigmoid(+-w.x) + ridge |w|^2 / 2, by damped Newton steps."""

    def loss(w):
        return np.logaddexp(0.0, -sign * (x @ w)).sum() + 0.5 * RIDGE * w @ w

    sign, w = 2.0 * y - 1.0, np.zeros(x.shape[1])
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-x @ w))
        gradient = x.T @ (p - y) + RIDGE * w
        hessian = (x.T * (p * (1.0 - p))) @ x + RIDGE * np.eye(len(w))
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step < 1e-16:
            return w
        size = 1.0
        while loss(w - size * step) > loss(w):
            size /= 2.0
        w = w - size * step
    raise SystemExit("the logistic regression did not converge")


def scores(rng, rows):
    """Scores w.x and labels of fresh rows, for a model trained on n = 20 d rows."""
    d = DIMENSION
    truth = rng.standard_normal(d)
    x = rng.standard_normal((RATIO * d, d)) / np.sqrt(d)
    w = trained(x, teacher(x @ truth, rng))
    # Fresh inputs enter only by w.x and truth.x, which are jointly Gaussian.
    both = np.array([[w @ w, w @ truth], [w @ truth, truth @ truth]]) / d
    z, t = np.linalg.cholesky(both) @ rng.standard_normal((2, rows))
    return z, teacher(t, rng)


def one_run(seed, rows):
    """The five numbers of one model."""
    with tempfile.TemporaryDirectory() as folder:
        z, y = scores(np.random.default_rng(seed), rows)
        np.savez(Path(folder) / "s.npz", logits=z, labels=y)
        calcli(folder, "extract", "s.npz", "-o", "s.h5", "--split", "cal=0.5", "--split", "test=0.5")
        found = []
        for method in ("ts", "ec"):
            calcli(folder, "fit", "--method", method, "s.h5", "-o", f"{method}.json")
            found.append(json.loads((Path(folder) / f"{method}.json").read_text())["params"]["temperature"])
        asked = ("-c", "ts.json", "-c", "ec.json", "-m", "ece", "--bins", 30, "--resamples", 1, "--json")
        results = json.loads(calcli(folder, "evaluate", "s.h5", *asked))["results"]
    return [*found, *(50 * result["metrics"]["ece"]["value"] for result in results)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=200_000, help="fresh rows: half calibrate, half test")
    given = parser.parse_args()
    runs = np.array([one_run(seed, given.rows) for seed in range(given.runs)])
    print(f"mean (sd) of {given.runs} models with d = {DIMENSION} / published for large d")
    for name, values, published in zip(COLUMNS, runs.T, PUBLISHED, strict=True):
        print(f"{name:8}  {values.mean():.3f} ({values.std():.3f}) / {published:g}")


if __name__ == "__main__":
    main()
