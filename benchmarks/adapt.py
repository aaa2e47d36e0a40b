"""What ``calcli adapt`` gains under label shift, what it costs without, and whether it refuses other shifts.

python benchmarks/adapt.py [RUNS] [DATA.npz ...] [--quapy PYTHON] [--record FILE.json]

RUNS (20) times per file (else simulated logits) svs is fitted to 2000 labelled rows, drawn
anew, and unlabelled rows are drawn without shift; in the first 20 runs also with class
shares from Dirichlet(1) and Dirichlet(0.1). Printed: mean change of the NLL in 1e-3 nats
against svs, by EM without prior and gate, by QuaPy's EMQ on the same probabilities (where a
Python that has quapy is named), by adapt, and with the true shares; the share of runs in
which adapt changes the calibrator, and in which it refuses. Transforms in a file are shifts
of the inputs: how often they are refused.
"""

import json
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _draws import mean_nll
from _measure import parser_of, peer
from _stored import Lines, mean_and_error, means_of

import calcli
from calcli.adapt import OPEN, REFUSED, RESAMPLES, ROWS_A_CLASS
from calcli.numerics import softmax
from calcli.statistics.label_shift import Source, class_shares, estimate_shift

LABELLED = 2000  # rows of a model
MOVED = 500  # rows of a transform
SHIFTED = 20  # most runs with a shift
FOLDS = 5
SHIFTS = {"as before": None, "Dirichlet(1)": 1.0, "Dirichlet(0.1)": 0.1}
"""Parameter of the distribution of the class shares, by name; None: they do not change."""

QUAPY = "QuaPy EMQ"
COLUMNS = ("EM alone", "adapt", "true shares", "changed", "refused")


def simulated() -> dict[str, np.ndarray]:
    """Logits of ten classes, overconfident."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 20_000)
    noise = rng.normal(size=(len(labels), 10))
    z = 1.5 * (noise + 3.5 * np.eye(10)[labels])
    return {"logits": z, "labels": labels}


def with_shares(p: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Probabilities (n, k) under other class shares (k,)."""
    q = p * (after / before)
    return q / q.sum(axis=1, keepdims=True)


# ---- calibrators of labelled rows


def cross_fitted(z: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Probabilities of rows by calibrators that were fitted without them."""
    fold = np.arange(len(labels)) % FOLDS
    p = np.empty(z.shape)
    for number in range(FOLDS):
        is_out = fold == number
        svs = calcli.fit(z[~is_out], labels[~is_out], "svs")
        p[is_out] = svs.predict_proba(z[is_out])
    return p


class Model(NamedTuple):
    """A calibrator of labelled rows. rest : the rows that are left.

    p, raw : calibrated and raw probabilities of all rows.
    """

    svs: calcli.FittedCalibrator
    p: np.ndarray
    raw: np.ndarray
    source: Source
    rest: np.ndarray


def fitted_model(z: np.ndarray, raw: np.ndarray, labels: np.ndarray, run: int) -> Model:
    order = np.random.default_rng([1, run]).permutation(len(labels))
    cal, rest = order[:LABELLED], order[LABELLED:]
    svs = calcli.fit(z[cal], labels[cal], "svs")
    source = Source(cross_fitted(z[cal], labels[cal]), labels[cal], raw[cal])
    return Model(svs, svs.predict_proba(z), raw, source, rest)


# ---- unlabelled rows


class Outcome(NamedTuple):
    """What adapt does with unlabelled rows: figures by column; their probabilities, labels."""

    figures: dict[str, float]
    p: np.ndarray
    labels: np.ndarray


def drawn_rows(
    model: Model, labels: np.ndarray, n: int, alpha: float | None, rng
) -> tuple[np.ndarray, np.ndarray]:
    """Unlabelled rows, and their class shares. alpha : one of ``SHIFTS``."""
    k = model.p.shape[1]
    rest = model.rest
    rows = rng.choice(rest, n, replace=False)
    shares = np.bincount(labels[rest], minlength=k) / len(rest)
    if alpha is None:
        return rows, shares
    shifted = rng.dirichlet(np.full(k, alpha))
    weight = (shifted / shares)[labels[rest]]
    return rng.choice(rest, n, p=weight / weight.sum()), shifted


def outcome(
    model: Model, labels: np.ndarray, n: int, alpha: float | None, rng
) -> Outcome:
    rows, true_shares = drawn_rows(model, labels, n, alpha, rng)
    p, y = model.p[rows], labels[rows]
    before = model.source.shares
    shift = estimate_shift(p, model.raw[rows], model.source, RESAMPLES, rng)
    is_refused = shift.distance_p <= REFUSED
    is_changed = shift.ratio_p <= OPEN and not is_refused
    adapted = with_shares(p, before, shift.shares) if is_changed else p
    probabilities = {
        "EM alone": with_shares(p, before, class_shares(p, before, 0.0)),
        "adapt": adapted,
        "true shares": with_shares(p, before, np.maximum(true_shares, 1e-6)),
    }
    figures = {}
    for name, q in probabilities.items():
        figures[name] = 1e3 * (mean_nll(q, y) - mean_nll(p, y))
    figures["changed"] = float(is_changed)
    figures["refused"] = float(is_refused)
    return Outcome(figures, p, y)


def quapy_shares(
    python: str, models: list[Model], outcomes: list[Outcome]
) -> list[np.ndarray]:
    """The class shares that QuaPy finds in the probabilities of each outcome."""
    arrays = {}
    for run, (model, one) in enumerate(zip(models, outcomes, strict=True)):
        arrays[f"s{run}"] = model.source.shares
        arrays[f"p{run}"] = one.p
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/sets.npz"
        np.savez(path, **arrays)
        process = subprocess.run(
            peer("quapy_em", path, python=python),
            check=True,
            capture_output=True,
            text=True,
        )
    answer = json.loads(process.stdout.splitlines()[-1])
    return [np.array(shares) for shares in answer]


def quapy_changes(
    python: str, models: list[Model], outcomes: list[Outcome]
) -> list[float]:
    """Change of the NLL by the shares that QuaPy finds, in 1e-3 nats."""
    changes = []
    all_shares = quapy_shares(python, models, outcomes)
    for model, one, shares in zip(models, outcomes, all_shares, strict=True):
        moved = with_shares(one.p, model.source.shares, shares)
        change = mean_nll(moved, one.labels) - mean_nll(one.p, one.labels)
        changes.append(1e3 * change)
    return changes


def refusals(z: np.ndarray, models: list[Model]) -> list[float]:
    """Whether each model refuses rows of a transform."""
    raw = softmax(z)
    refused = []
    for run, model in enumerate(models):
        rng = np.random.default_rng([3, run])
        rows = rng.choice(model.rest, MOVED, replace=False)
        p = model.svs.predict_proba(z[rows])
        shift = estimate_shift(p, raw[rows], model.source, RESAMPLES, rng)
        refused.append(float(shift.distance_p <= REFUSED))
    return refused


# ---- the table


def add_label_shifts(
    lines: Lines,
    name: str,
    labels: np.ndarray,
    models: list[Model],
    sizes: list[int],
    quapy: str | None,
) -> None:
    """Add the lines of unlabelled rows with class shares as before, and with others."""
    for shares, alpha in SHIFTS.items():
        some = models if alpha is None else models[:SHIFTED]
        for n in sizes:
            outcomes = []
            for run, model in enumerate(some):
                rng = np.random.default_rng([2, n, run])
                outcomes.append(outcome(model, labels, n, alpha, rng))
            cells = {QUAPY: None}
            if quapy is not None:
                changes = quapy_changes(quapy, some, outcomes)
                cells[QUAPY] = mean_and_error(changes)
            cells |= means_of([one.figures for one in outcomes])
            lines.add(file=name, shares=shares, samples=n, runs=len(some), **cells)


def add_transforms(lines: Lines, name: str, file, models: list[Model]) -> None:
    """Add the lines of a file's transforms."""
    if "transforms" not in file:
        return
    for spec, z in zip(file["transforms"], file["transformed_logits"], strict=True):
        refused = refusals(z.astype(float), models)
        cells = dict.fromkeys((QUAPY, *COLUMNS))
        cells["refused"] = mean_and_error(refused)
        lines.add(
            file=name, shares=str(spec), samples=MOVED, runs=len(refused), **cells
        )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("data", nargs="*")
    parser.add_argument(
        "--rows", default="200,500,1000", help="how many unlabelled rows"
    )
    parser.add_argument("--quapy", metavar="PYTHON")
    parser.add_argument("--record", type=Path, help="JSON file for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # a fit may cost accuracy
    files = {Path(path).stem: np.load(path) for path in args.data}
    if not files:
        files["simulated"] = simulated()
    lines = Lines(args.record)
    for name, file in files.items():
        z, labels = file["logits"].astype(float), file["labels"]
        raw = softmax(z)
        models = [fitted_model(z, raw, labels, run) for run in range(args.runs)]
        sizes = [int(n) for n in args.rows.split(",")]
        large_enough = [n for n in sizes if n >= ROWS_A_CLASS * z.shape[1]]
        add_label_shifts(lines, name, labels, models, large_enough, args.quapy)
        add_transforms(lines, name, file, models[:SHIFTED])


if __name__ == "__main__":
    main()
