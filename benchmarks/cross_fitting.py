"""How often cross-fitting finds fault with a method that is right, and what its gap says.

    python benchmarks/cross_fitting.py --sets 200 --rows 1000
    python benchmarks/cross_fitting.py --sets 100 --rows 500 --truth dirichlet --unit-rows 5
    python benchmarks/cross_fitting.py --sets 200 --rows 3000 --truth two --methods ts,mono
    python benchmarks/cross_fitting.py --sets 40 --rows 2500 --methods auto --bias 0.5 --anew

Logits are drawn, labels from their softmax, and the logits are multiplied by 1.5:
temperature scaling is then right; not with ``--bias``, which favours the later classes.
The rows are judged as ``calcli run FILE`` does, up to the error of the fits, and by the
exact test, which knows nothing of it. Printed are, for each method, the share of
``calibrated`` by both; how the cross-fitted gap varies; half the width of its interval
over 1.96; and how often the interval holds the gap that the kept calibrator, fitted to
all rows, has on endless new rows, which is known because the truth is. Last come mean
losses above the true probabilities' in 1e-3 nats, with standard errors: as cross-fitting
states it on the rows, and as the kept calibrator has it on endless new ones. ``--anew``
fits ``auto`` to the folds anew where its own cross-validation would serve. The line
``truth`` is of the true probabilities of the same rows, whose gap is 0.
Rows of a unit share the draw of their label in three units of five.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _measure import parser_of

from calcli.calibrator import Calibrator, Context
from calcli.evaluation.cross_fitting import CrossFitted, cross_fitted
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.requests import (
    Candidate,
    Plan,
    Subject,
    cross_fitted_candidate,
)
from calcli.importers.open_any_file import open_rows
from calcli.io.dataset import DataSet
from calcli.methods.ts import TemperatureScaling
from calcli.numerics import log_softmax, softmax
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

FACTOR = 1.5
NEW_ROWS = 20_000  # on which the gap of a calibrator is that of endless rows
SHARING_UNITS = 0.6


class Judged(NamedTuple):
    """Kinds of the verdict and of the exact test, and the gap with its interval.

    excess : NLL above that of the truth on these rows.
    """

    kind: str
    exact: str
    gap: float
    low: float
    high: float
    excess: float


class New(NamedTuple):
    """Gap, and NLL above that of the truth, of a calibrator on endless rows."""

    gap: float
    excess: float


# ---- rows whose truth is known


def true_logits(truth: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Calibrated logits of ten even classes, a hundred, five uneven ones, or two."""
    if truth == "two":
        return np.stack([np.zeros(rows), rng.normal(size=rows) * 2.0 - 0.5], axis=1)
    if truth == "dirichlet":
        p = rng.dirichlet([0.8, 0.5, 0.3, 0.2, 0.1], rows)
        return np.log(np.maximum(p, 1e-12))
    k = 100 if truth == "hundred" else 10
    z = rng.normal(size=(rows, k)) * 1.5
    margin = rng.gamma(2.0, 2.0, rows) + np.log(k / 10)
    z[np.arange(rows), rng.integers(0, k, rows)] += margin
    return z


def draw(
    path: Path,
    z: np.ndarray,
    bias: float,
    unit_rows: int,
    rng: np.random.Generator,
) -> float:
    """Write overconfident logits with labels drawn from softmax of z, and units.

    Returns the NLL of the truth on these rows.
    """
    rows = len(z)
    noise = rng.gumbel(size=z.shape)
    arrays = {"logits": stated(z, bias)}
    if unit_rows > 1:
        unit = np.arange(rows) // unit_rows
        is_sharing = rng.random(unit.max() + 1) < SHARING_UNITS
        noise = np.where(is_sharing[unit][:, None], noise[unit * unit_rows], noise)
        arrays["unit"] = unit
    y = (z + noise).argmax(axis=1)
    np.savez(path, labels=y, **arrays)
    return -float(log_softmax(z)[np.arange(rows), y].mean())


def stated(z: np.ndarray, bias: float) -> np.ndarray:
    """Logits as the model states them. bias : of the last class; minus that of the first."""
    return FACTOR * z + np.linspace(-bias, bias, z.shape[1])


def on_new_rows(calibrator: Calibrator, z: np.ndarray, bias: float) -> New:
    """Mean confidence minus accuracy, and NLL, on rows whose truth is softmax of z."""
    p = softmax(z)
    gap = excess = 0.0
    for block in ArrayRows(stated(z, bias), None, "logits").blocks():
        log_q = calibrator.apply(block).log_probs
        rows = slice(block.start, block.start + len(block.z))
        q = np.exp(log_q)
        true = p[rows][np.arange(len(q)), q.argmax(axis=1)]
        gap += float((q.max(axis=1) - true).sum())
        excess += float((p[rows] * (np.log(p[rows]) - log_q)).sum())
    return New(gap / len(z), excess / len(z))


# ---- verdicts


def judged(rows: DataSet, calibrator: Calibrator, nll_of_truth: float) -> Judged:
    """Verdict on a calibrator, and its loss above that of the truth."""
    candidate = Candidate("of the benchmark", "any", calibrator)
    if isinstance(calibrator, CrossFitted):
        n_folds = len(calibrator.parts)
        candidate = cross_fitted_candidate("kept", "any", calibrator, n_folds, rows)
    candidates = [Candidate(None, "uncalibrated", None), candidate]
    plan = Plan(metrics=("nll",), decomposition=False)
    result = assess(Subject.of(rows, None), candidates, plan).results[1]
    report = result.report
    assert report is not None
    over = report.facts.overconfidence
    return Judged(
        kind=report.verdict.kind,
        exact=report.verdict.exact.kind,
        gap=over.value,
        low=over.interval.low,
        high=over.interval.high,
        excess=result.scores["nll"].value - nll_of_truth,
    )


def mean_with_error(values: np.ndarray) -> str:
    """Mean in 1e-3 and its standard error."""
    error = values.std() / np.sqrt(len(values))
    return f"{1e3 * values.mean():.2f} ({1e3 * error:.2f})"


class Outcome(NamedTuple):
    """What becomes of a method on one set: by cross-fitting, and as it is kept."""

    judged: Judged
    kept: New


def table_line(name: str, outcomes: list[Outcome]) -> str:
    """Figures of one method."""
    verdicts = [outcome.judged for outcome in outcomes]
    kinds = Counter(verdict.kind for verdict in verdicts)
    exact_kinds = Counter(verdict.exact for verdict in verdicts)
    gap = np.array([verdict.gap for verdict in verdicts])
    low = np.array([verdict.low for verdict in verdicts])
    high = np.array([verdict.high for verdict in verdicts])
    gap_of_kept = np.array([outcome.kept.gap for outcome in outcomes])
    is_covered = (low <= gap_of_kept) & (gap_of_kept <= high)
    stated_deviation = float((high - low).mean() / 2 / 1.96)
    stated_excess = np.array([verdict.excess for verdict in verdicts])
    kept_excess = np.array([outcome.kept.excess for outcome in outcomes])
    n = len(outcomes)
    return (
        f"{name:6} calibrated {kinds['calibrated'] / n:.3f}"
        f"  exact {exact_kinds['calibrated'] / n:.3f}"
        f"  sd of gap {gap.std():.4f}  said {stated_deviation:.4f}"
        f"  sd of gap minus that of the kept {np.std(gap - gap_of_kept):.4f}"
        f"  covered {is_covered.mean():.3f}  {dict(kinds)}"
        f"  NLL above the truth's: stated {mean_with_error(stated_excess)},"
        f" kept {mean_with_error(kept_excess)}"
    )


# ---- the run


class Run:
    """The sets of one run. outcomes : by method."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.methods = args.methods.split(",")
        rng = np.random.default_rng(987654321)
        self.new = true_logits(args.truth, NEW_ROWS, rng)
        self.outcomes: dict[str, list[Outcome]] = {}

    def add(self, name: str, judged: Judged, kept: New) -> None:
        self.outcomes.setdefault(name, []).append(Outcome(judged, kept))

    def one_set(self, path: Path, seed: int) -> None:
        """Draw a set into a file, and judge every method on it."""
        args = self.args
        rng = np.random.default_rng(seed)
        z = true_logits(args.truth, args.rows, rng)
        nll_of_truth = draw(path, z, args.bias, args.unit_rows, rng)
        with open_rows(str(path)) as rows:
            for name in self.methods:
                options = parse_options(name, {})
                fit = method(name).fit(rows, options, Context())
                known = None if args.anew else fit.cross_fits
                crossed = cross_fitted(name, options, rows, Context(), known)
                kept = on_new_rows(fit.calibrator, self.new, args.bias)
                self.add(name, judged(rows, crossed, nll_of_truth), kept)
            if args.bias == 0.0:
                true = TemperatureScaling(temperature=FACTOR)
                self.add("truth", judged(rows, true, nll_of_truth), New(0.0, 0.0))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--truth", choices=("normal", "dirichlet", "two", "hundred"), default="normal"
    )
    parser.add_argument("--methods", default="ts,mono,svs")
    parser.add_argument("--unit-rows", type=int, default=1)
    parser.add_argument("--bias", type=float, default=0.0)
    parser.add_argument("--anew", action="store_true")
    args = parser.parse_args()
    run = Run(args)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.sets):
            run.one_set(Path(folder, "rows.npz"), args.first_seed + number)
    for name, outcomes in run.outcomes.items():
        print(table_line(name, outcomes))


if __name__ == "__main__":
    main()
