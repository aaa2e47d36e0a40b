"""What ``calcli adapt`` gains under label shift, what it costs without, and whether it refuses shifts of the inputs.

``python benchmarks/adapt.py [RUNS] [DATA.npz …] [--quapy PYTHON]``: per file (else simulated logits), 2000 labelled
rows fit svs, then RUNS (20) sets of 200 and 2000 unlabelled rows without shift and with class shares from
Dirichlet(1) and Dirichlet(0.1). Printed: mean change of the NLL in 1e-3 nats against svs, by EM without prior and
gate, by QuaPy's EMQ on the same probabilities (where a Python that has quapy is named), by adapt, and with the true
shares; how often adapt changes the calibrator and how often it refuses.
Transforms in a file are shifts of the inputs: how often they are refused.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import calcli
from calcli.adapt import OPEN, REFUSED, RESAMPLES
from calcli.numerics import softmax
from calcli.statistics.label_shift import Source, class_shares, estimate_shift


def simulated() -> dict[str, np.ndarray]:
    """Logits of ten classes, overconfident."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 20_000)
    z = 1.5 * (rng.normal(size=(len(y), 10)) + 3.5 * np.eye(10)[y])
    return {"logits": z, "labels": y}


def nll(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-300)).mean())


def moved(p: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    q = p * (target / source)
    return q / q.sum(axis=1, keepdims=True)


def cross_fitted(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    fold, p = np.arange(len(y)) % 5, np.empty(z.shape)
    for f in range(5):
        p[fold == f] = calcli.fit(z[fold != f], y[fold != f], "svs").predict_proba(z[fold == f])
    return p


def by_quapy(python: str, source: np.ndarray, sets: list[np.ndarray]) -> list[list[float]]:
    """The shares that QuaPy finds in each set."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/sets.npz", source=source, **{f"p{i}": p for i, p in enumerate(sets)})
        command = [python, str(Path(__file__).with_name("peers") / "quapy_em.py"), f"{folder}/sets.npz"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("data", nargs="*")
    parser.add_argument("--quapy", metavar="PYTHON")
    args = parser.parse_args()
    runs, files = args.runs, {Path(path).stem: np.load(path) for path in args.data} or {"simulated": simulated()}
    head = ("file", "shares", "N", "EM alone", "QuaPy EMQ", "adapt", "true shares", "changed", "refused")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for name, file in files.items():
        z, y = file["logits"].astype(float), file["labels"]
        k, rng = z.shape[1], np.random.default_rng(1)
        order = rng.permutation(len(y))
        cal, rest = order[:2000], order[2000:]
        svs = calcli.fit(z[cal], y[cal], "svs")
        raw = softmax(z)
        source = Source(cross_fitted(z[cal], y[cal]), y[cal], raw[cal])
        p, before = svs.predict_proba(z), source.shares
        for shares, alpha in (("as before", None), ("Dirichlet(1)", 1.0), ("Dirichlet(0.1)", 0.1)):
            for n in (200, 2000):
                if n < 5 * k:
                    continue
                found, sets = [], []
                for _ in range(runs):
                    q = np.bincount(y[rest], minlength=k) / len(rest)
                    if alpha is not None:
                        q = rng.dirichlet(np.full(k, alpha))
                    weight = (q / np.bincount(y[rest], minlength=k))[y[rest]]
                    rows = rng.choice(rest, n, p=weight / weight.sum())
                    shift = estimate_shift(p[rows], raw[rows], source, RESAMPLES, rng)
                    base = nll(p[rows], y[rows])
                    changed, refused = shift.ratio_p <= OPEN, shift.distance_p <= REFUSED
                    ours = moved(p[rows], before, shift.shares) if changed and not refused else p[rows]
                    alone = moved(p[rows], before, class_shares(p[rows], before, 0.0))
                    true = moved(p[rows], before, np.maximum(q, 1e-6))
                    changes = [nll(each, y[rows]) - base for each in (alone, ours, true)]
                    found.append([*changes, changed, refused])
                    sets.append(rows)
                means = np.mean(found, axis=0)
                cells = [f"{1e3 * value:+.1f}" for value in means[:3]] + [f"{value:.2f}" for value in means[3:]]
                theirs = "not run"
                if args.quapy:
                    shares_found = by_quapy(args.quapy, before, [p[rows] for rows in sets])
                    each = zip(sets, map(np.array, shares_found), strict=True)
                    gains = [nll(moved(p[r], before, q), y[r]) - nll(p[r], y[r]) for r, q in each]
                    theirs = f"{1e3 * np.mean(gains):+.1f}"
                cells.insert(1, theirs)
                print(f"| {name} | {shares} | {n} | " + " | ".join(cells) + " |", flush=True)
        for i, spec in enumerate(file.get("transforms", ())):
            z_moved = file["transformed_logits"][i].astype(float)
            refused = []
            for _ in range(max(3, runs // 4)):
                rows = rng.choice(rest, 500, replace=False)
                shift = estimate_shift(svs.predict_proba(z_moved[rows]), softmax(z_moved[rows]), source, RESAMPLES, rng)
                refused.append(shift.distance_p <= REFUSED)
            print(f"| {name} | {spec} | 500 | | | | | | {np.mean(refused):.2f} |", flush=True)


if __name__ == "__main__":
    main()
