"""How often cross-fitting finds fault with a method that is right.

    python benchmarks/cross_fitting.py --sets 200 --rows 1000

Logits of ten classes are drawn, labels from their softmax, and the logits are multiplied by
1.5: temperature scaling is then right. The rows are judged as ``calcli run FILE`` does, and a
second set of as many rows judges the calibrator that was fitted to all rows.
Printed are the shares of ``calibrated``, and how the cross-fitted gap varies.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from calcli.calibrator import Calibrator, Context
from calcli.evaluation.cross_fitting import cross_fitted
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.subjects import Candidate, Plan, Subject
from calcli.importers.open_any_file import open_rows
from calcli.io.dataset import DataSet
from calcli.numerics import softmax
from calcli.registry import method, parse_options

CLASSES = 10
FACTOR = 1.5
FITTED = (("ts", {}), ("mono", {}), ("svs", {}))


def draw(path: Path, rows: int, rng: np.random.Generator) -> None:
    """Write overconfident logits with labels."""
    z = rng.normal(size=(rows, CLASSES)) * 1.5
    z[np.arange(rows), rng.integers(0, CLASSES, rows)] += rng.gamma(2.0, 2.0, rows)
    p = softmax(z)
    y = (p.cumsum(axis=1) > rng.random(rows)[:, None]).argmax(axis=1)
    np.savez(path, logits=FACTOR * z, labels=y)


def judged(rows: DataSet, calibrator: Calibrator) -> tuple[str, float]:
    """Kind of the exact verdict on a calibrator, and the gap."""
    candidates = [
        Candidate(None, "uncalibrated", None),
        Candidate("of the benchmark", "any", calibrator),
    ]
    plan = Plan(metrics=("nll",), split=False)
    report = assess(Subject.of(rows, None), candidates, plan).results[1].report
    assert report is not None
    return report.verdict.kind, report.facts.overconfidence.value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1000)
    args = parser.parse_args()
    kinds: dict[tuple[str, str], Counter[str]] = {}
    gaps: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder, "one.npz"), Path(folder, "other.npz")
        for seed in range(args.sets):
            rng = np.random.default_rng(seed)
            draw(one, args.rows, rng)
            draw(other, args.rows, rng)
            with open_rows(str(one)) as rows, open_rows(str(other)) as new:
                for name, settings in FITTED:
                    options = parse_options(name, settings)
                    whole = method(name).fit(rows, options, Context()).calibrator
                    crossed = cross_fitted(name, options, rows, Context())
                    for how, judge in (
                        ("cross-fitted", judged(rows, crossed)),
                        ("second set", judged(new, whole)),
                    ):
                        kinds.setdefault((name, how), Counter())[judge[0]] += 1
                        gaps.setdefault((name, how), []).append(judge[1])
    for (name, how), counts in kinds.items():
        calibrated = counts["calibrated"] / args.sets
        spread = float(np.std(gaps[name, how]))
        print(f"{name:6} {how:14} calibrated {calibrated:.3f}  sd of gap {spread:.4f}")
        print(f"       {dict(counts)}")


if __name__ == "__main__":
    main()
