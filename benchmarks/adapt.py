"""What ``calcli adapt`` gains under label shift, what it costs without, and whether it refuses shifts of the inputs.

``python benchmarks/adapt.py [RUNS] [DATA.npz …] [--quapy PYTHON] [--record FILE.json]``: RUNS (20) times per file
(else simulated logits) svs is fitted to 2000 labelled rows, drawn anew, and unlabelled rows are drawn without shift;
in the first 20 runs also with class shares from Dirichlet(1) and Dirichlet(0.1). Printed: mean change of the NLL in
1e-3 nats against svs, by EM without prior and gate, by QuaPy's EMQ on the same probabilities (where a Python that has
quapy is named), by adapt, and with the true shares; the share of runs in which adapt changes the calibrator, and in
which it refuses. Transforms in a file are shifts of the inputs: how often they are refused.
"""

import argparse
import json
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _stored import Lines, mean

import calcli
from calcli.adapt import OPEN, REFUSED, RESAMPLES, ROWS_A_CLASS
from calcli.numerics import softmax
from calcli.statistics.label_shift import Source, class_shares, estimate_shift

LABELLED, MOVED, SHIFTED = 2000, 500, 20
"""Labelled rows of a model, rows of a transform, and most runs with a shift."""


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
        p[fold == f] = calcli.fit(z[fold != f], y[fold != f], "svs").predict_proba(
            z[fold == f]
        )
    return p


def by_quapy(
    python: str, sets: list[tuple[np.ndarray, np.ndarray]]
) -> list[np.ndarray]:
    """The shares that QuaPy finds in each set of probabilities, from those of its source."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = {
            f"{name}{i}": value
            for i, each in enumerate(sets)
            for name, value in zip("sp", each, strict=True)
        }
        np.savez(f"{folder}/sets.npz", **arrays)
        command = [
            python,
            str(Path(__file__).with_name("peers") / "quapy_em.py"),
            f"{folder}/sets.npz",
        ]
        found = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.splitlines()[-1]
        return [np.array(shares) for shares in json.loads(found)]


class Model(NamedTuple):
    """A calibrator of labelled rows: calibrated and raw probabilities of all rows, its source, the rows left."""

    svs: calcli.FittedCalibrator
    p: np.ndarray
    raw: np.ndarray
    source: Source
    rest: np.ndarray

    @classmethod
    def of(cls, z: np.ndarray, raw: np.ndarray, y: np.ndarray, run: int) -> "Model":
        order = np.random.default_rng([1, run]).permutation(len(y))
        cal, rest = order[:LABELLED], order[LABELLED:]
        svs = calcli.fit(z[cal], y[cal], "svs")
        return cls(
            svs,
            svs.predict_proba(z),
            raw,
            Source(cross_fitted(z[cal], y[cal]), y[cal], raw[cal]),
            rest,
        )


Set = tuple[dict[str, float], np.ndarray, np.ndarray]
"""Figures by name; probabilities, labels."""


def one_set(
    model: Model, y: np.ndarray, n: int, alpha: float | None, rng: np.random.Generator
) -> Set:
    """Unlabelled rows without shift, or with shares from a Dirichlet distribution, and what adapt does with them."""
    k, rows = model.p.shape[1], rng.choice(model.rest, n, replace=False)
    q = count = np.bincount(y[model.rest], minlength=k) / len(model.rest)
    if alpha is not None:
        q = rng.dirichlet(np.full(k, alpha))
        weight = (q / count)[y[model.rest]]
        rows = rng.choice(model.rest, n, p=weight / weight.sum())
    p, before = model.p[rows], model.source.shares
    shift = estimate_shift(p, model.raw[rows], model.source, RESAMPLES, rng)
    refused = shift.distance_p <= REFUSED
    changed = shift.ratio_p <= OPEN and not refused
    maps = {
        "EM alone": moved(p, before, class_shares(p, before, 0.0)),
        "adapt": moved(p, before, shift.shares) if changed else p,
        "true shares": moved(p, before, np.maximum(q, 1e-6)),
    }
    changes = {
        name: 1e3 * (nll(each, y[rows]) - nll(p, y[rows]))
        for name, each in maps.items()
    }
    return {**changes, "changed": float(changed), "refused": float(refused)}, p, y[rows]


def theirs(
    python: str | None, models: list[Model], sets: list[Set]
) -> list[float] | None:
    """Change of the NLL by QuaPy's shares."""
    if python is None:
        return None
    shares = by_quapy(
        python,
        [(m.source.shares, p) for m, (_, p, _) in zip(models, sets, strict=True)],
    )
    each = zip(models, sets, shares, strict=True)
    return mean(
        [
            1e3 * (nll(moved(p, m.source.shares, q), y) - nll(p, y))
            for m, (_, p, y), q in each
        ]
    )


def refusals(z: np.ndarray, models: list[Model], n: int) -> list[float]:
    """Whether each model refuses n rows of a transform."""
    raw, found = softmax(z), []
    for run, model in enumerate(models):
        rng = np.random.default_rng([3, run])
        rows = rng.choice(model.rest, n, replace=False)
        shift = estimate_shift(
            model.svs.predict_proba(z[rows]), raw[rows], model.source, RESAMPLES, rng
        )
        found.append(float(shift.distance_p <= REFUSED))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("data", nargs="*")
    parser.add_argument(
        "--rows", default="200,500,1000", help="how many unlabelled rows"
    )
    parser.add_argument("--quapy", metavar="PYTHON")
    parser.add_argument("--record", type=Path, help="JSON file for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # a fit may cost accuracy
    files = {Path(path).stem: np.load(path) for path in args.data} or {
        "simulated": simulated()
    }
    lines = Lines(args.record)
    for name, file in files.items():
        z, y = file["logits"].astype(float), file["labels"]
        raw = softmax(z)
        models = [Model.of(z, raw, y, run) for run in range(args.runs)]
        for shares, alpha in (
            ("as before", None),
            ("Dirichlet(1)", 1.0),
            ("Dirichlet(0.1)", 0.1),
        ):
            own = models if alpha is None else models[:SHIFTED]
            for n in [
                int(n)
                for n in args.rows.split(",")
                if int(n) >= ROWS_A_CLASS * z.shape[1]
            ]:
                sets = [
                    one_set(m, y, n, alpha, np.random.default_rng([2, n, r]))
                    for r, m in enumerate(own)
                ]
                cells = {
                    key: mean([found[key] for found, _, _ in sets])
                    for key in sets[0][0]
                }
                peer = {"QuaPy EMQ": theirs(args.quapy, own, sets)}
                lines.add(
                    file=name, shares=shares, samples=n, runs=len(own), **peer, **cells
                )
        for spec, moved_z in zip(
            file.get("transforms", ()), file.get("transformed_logits", ()), strict=True
        ):
            found = refusals(moved_z.astype(float), models[:SHIFTED], MOVED)
            none = dict.fromkeys(("QuaPy EMQ", *sets[0][0]))
            lines.add(
                file=name,
                shares=str(spec),
                samples=MOVED,
                runs=len(found),
                **{**none, "refused": mean(found)},
            )


if __name__ == "__main__":
    main()
