"""How often cross-fitting finds fault with a method that is right, and what its gap says.

    python benchmarks/cross_fitting.py --sets 200 --rows 1000
    python benchmarks/cross_fitting.py --sets 100 --rows 500 --truth dirichlet --unit-rows 5
    python benchmarks/cross_fitting.py --sets 200 --rows 3000 --truth two --methods ts,mono

Logits are drawn, labels from their softmax, and the logits are multiplied by 1.5:
temperature scaling is then right. The rows are judged as ``calcli run FILE`` does, up to the
error of the fits, and by the exact test, which knows nothing of it. Printed are, for each
method, the share of ``calibrated`` by both; how the cross-fitted gap varies; half the
width of its interval over 1.96; and how often the interval holds the gap that the kept
calibrator, fitted to all rows, has on endless new rows, which is known because the truth is.
The line ``truth`` is of the true probabilities of the same rows, whose gap is 0.
Rows of a unit share the draw of their label in three units of five.
"""

import argparse
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calcli.calibrator import Calibrator, Context
from calcli.evaluation.cross_fitting import CrossFitted, cross_fitted
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.facts import FitSize
from calcli.evaluation.subjects import Candidate, Plan, Subject
from calcli.importers.open_any_file import open_rows
from calcli.io.dataset import DataSet
from calcli.methods.ts import TemperatureScaling
from calcli.numerics import softmax
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

FACTOR = 1.5
NEW_ROWS = 20_000  # on which the gap of a calibrator is that of endless rows
SHARING_UNITS = 0.6


class Judged(NamedTuple):
    """Kinds of the verdict and of the exact test, and the gap with its interval."""

    kind: str
    exact: str
    gap: float
    low: float
    high: float


# ---- rows whose truth is known


def true_logits(truth: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Calibrated logits of ten even classes, of five uneven ones, or of two."""
    if truth == "two":
        return np.stack([np.zeros(rows), rng.normal(size=rows) * 2.0 - 0.5], axis=1)
    if truth == "dirichlet":
        p = rng.dirichlet([0.8, 0.5, 0.3, 0.2, 0.1], rows)
        return np.log(np.maximum(p, 1e-12))
    z = rng.normal(size=(rows, 10)) * 1.5
    z[np.arange(rows), rng.integers(0, 10, rows)] += rng.gamma(2.0, 2.0, rows)
    return z


def draw(
    path: Path, rows: int, truth: str, unit_rows: int, rng: np.random.Generator
) -> None:
    """Write overconfident logits with labels, and units of several rows."""
    z = true_logits(truth, rows, rng)
    noise = rng.gumbel(size=z.shape)
    arrays = {"logits": FACTOR * z}
    if unit_rows > 1:
        unit = np.arange(rows) // unit_rows
        is_sharing = rng.random(unit.max() + 1) < SHARING_UNITS
        noise = np.where(is_sharing[unit][:, None], noise[unit * unit_rows], noise)
        arrays["unit"] = unit
    np.savez(path, labels=(z + noise).argmax(axis=1), **arrays)


def gap_on_new_rows(calibrator: Calibrator, z: np.ndarray) -> float:
    """Mean confidence minus accuracy on rows whose truth is softmax of z."""
    p = softmax(z)
    gap = 0.0
    for block in ArrayRows(FACTOR * z, None, "logits").blocks():
        prediction = calibrator.apply(block)
        rows = slice(block.start, block.start + len(block.z))
        q = np.exp(prediction.log_probs)
        true = p[rows][np.arange(len(q)), q.argmax(axis=1)]
        gap += float((q.max(axis=1) - true).sum())
    return gap / len(z)


# ---- verdicts


def judged(rows: DataSet, calibrator: Calibrator) -> Judged:
    """Verdict on a calibrator."""
    candidate = Candidate("of the benchmark", "any", calibrator)
    if isinstance(calibrator, CrossFitted):
        n_folds = len(calibrator.parts)
        share = (n_folds - 1) / n_folds
        units = rows.units()
        fit_size = FitSize(
            n=int(rows.n * share),
            units=None if units is None else int(units.n * share),
            by_group=False,
        )
        candidate = replace(candidate, fit_size=fit_size, n_folds=n_folds)
    candidates = [Candidate(None, "uncalibrated", None), candidate]
    plan = Plan(metrics=("nll",), split=False)
    report = assess(Subject.of(rows, None), candidates, plan).results[1].report
    assert report is not None
    over = report.facts.overconfidence
    return Judged(
        kind=report.verdict.kind,
        exact=report.verdict.exact.kind,
        gap=over.value,
        low=over.interval.low,
        high=over.interval.high,
    )


def table_line(name: str, found: list[tuple[Judged, float]]) -> str:
    """Figures of one method."""
    n = len(found)
    kinds = Counter(each.kind for each, _ in found)
    exact = Counter(each.exact for each, _ in found)
    gaps = np.array([each.gap for each, _ in found])
    lows = np.array([each.low for each, _ in found])
    highs = np.array([each.high for each, _ in found])
    kept = np.array([gap for _, gap in found])
    stated = float((highs - lows).mean() / 2 / 1.96)
    covered = float(((lows <= kept) & (kept <= highs)).mean())
    missed = float(np.std(gaps - kept))
    return (
        f"{name:6} calibrated {kinds['calibrated'] / n:.3f}"
        f"  exact {exact['calibrated'] / n:.3f}  sd of gap {gaps.std():.4f}"
        f"  said {stated:.4f}  sd of gap minus that of the kept {missed:.4f}"
        f"  covered {covered:.3f}  {dict(kinds)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--truth", choices=("normal", "dirichlet", "two"), default="normal"
    )
    parser.add_argument("--methods", default="ts,mono,svs")
    parser.add_argument("--unit-rows", type=int, default=1)
    args = parser.parse_args()
    found: dict[str, list[tuple[Judged, float]]] = {}
    new = true_logits(args.truth, NEW_ROWS, np.random.default_rng(987654321))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npz")
        for number in range(args.sets):
            draw(
                path,
                args.rows,
                args.truth,
                args.unit_rows,
                np.random.default_rng(args.first_seed + number),
            )
            with open_rows(str(path)) as rows:
                for name in args.methods.split(","):
                    options = parse_options(name, {})
                    whole = method(name).fit(rows, options, Context()).calibrator
                    crossed = cross_fitted(name, options, rows, Context())
                    pair = judged(rows, crossed), gap_on_new_rows(whole, new)
                    found.setdefault(name, []).append(pair)
                true = TemperatureScaling(temperature=FACTOR)
                found.setdefault("truth", []).append((judged(rows, true), 0.0))
    for name, pairs in found.items():
        print(table_line(name, pairs))


if __name__ == "__main__":
    main()
