"""What ``calcli fit --by`` gains where groups differ, and what it costs where they do not, beside one fit per group.

``python benchmarks/by.py [RUNS] [DATA.npz …] [--mcgrad PYTHON] [--record FILE.json]``: RUNS (10) draws of calibration
rows, in groups of each size; of the others 500 a group are new. Printed: mean change of the NLL on new rows in 1e-3
nats against one temperature for all, by a temperature per group (what a loop over groups does), by partial pooling
without its guard, and by ``--by`` as it is; how often that keeps the groups; and as a bound the change by temperatures
that are fitted to the new rows themselves. Groups: random ones, simulated ones whose temperatures differ, and, of
files of data, the transforms of one network (``transforms``), the networks (``logits_…``), or random ones.
With a Python that has MCGrad, which is for two classes: the same of the confidence and whether the prediction is
right, by Platt scaling and its groups, and by MCGrad.
"""

import argparse
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _stored import Lines, mean

import calcli
from calcli.numerics import softmax

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Logits, labels and groups."""

SIZES = (10, 25, 100, 500)
CONFIDENCE = {"method": "platt", "kind": "confidence"}


def simulated(groups: int, rows: int, tau: float) -> Rows:
    """Overconfident logits of ten classes; the log temperatures of the groups have standard deviation tau."""
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(groups), rows)
    z = 2.0 * rng.normal(size=(len(g), 10))
    d = rng.normal(size=groups) * tau
    return (
        1.5 * z,
        (z * np.exp(d[g])[:, None] + rng.gumbel(size=z.shape)).argmax(axis=1),
        g,
    )


def sources(paths: list[str]) -> Iterator[tuple[str, Rows]]:
    """Rows with groups, by name."""
    yield "simulated, 50 random groups", simulated(50, 1000, 0.0)
    yield "simulated, 20 groups that differ", simulated(20, 1000, 0.3)
    for path in paths:
        with np.load(path) as file:
            name, y = Path(path).stem, file["labels"]
            models = [
                file[key].astype(float)
                for key in file.files
                if key.startswith("logits_")
            ]
            if "transforms" in file.files:
                zooms = [
                    i
                    for i, spec in enumerate(file["transforms"])
                    if spec.startswith("zoom")
                ]
                models = [
                    file["logits"].astype(float),
                    *(file["transformed_logits"][i].astype(float) for i in zooms),
                ]
            if models:
                groups = np.repeat(np.arange(len(models)), len(y))
                yield (
                    f"{name}, {len(models)} groups",
                    (np.concatenate(models), np.tile(y, len(models)), groups),
                )
            else:
                random = np.random.default_rng(0).permutation(len(y)) % 20
                yield (
                    f"{name}, 20 random groups",
                    (file["logits"].astype(float), y, random),
                )


def nll(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NLL of every row."""
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-300))


def fitted(
    cal: Rows, new: Rows, how: dict[str, str], **options: object
) -> tuple[np.ndarray, bool]:
    """NLL of new rows by a fit with groups, and whether it kept them."""
    by = calcli.fit(cal[0], cal[1], groups=cal[2], **how, **options)
    kept = by.method.endswith("-by")
    return nll(
        by.predict_proba(new[0], groups=new[2]) if kept else by.predict_proba(new[0]),
        new[1],
    ), kept


def separate(cal: Rows, new: Rows, how: dict[str, str]) -> np.ndarray:
    """NLL of new rows by a fit per group."""
    (z, y, g), (zn, yn, gn), found = cal, new, np.empty(len(new[1]))
    for group in np.unique(g):
        here = gn == group
        found[here] = nll(
            calcli.fit(z[g == group], y[g == group], **how).predict_proba(zn[here]),
            yn[here],
        )
    return found


def changes(cal: Rows, new: Rows, how: dict[str, str]) -> dict[str, float]:
    """Mean change of the NLL by each way, and whether ``--by`` kept the groups."""
    one = nll(calcli.fit(*cal[:2], **how).predict_proba(new[0]), new[1])
    guarded, kept = fitted(cal, new, how)
    ways = {
        "bound": separate(new, new, how),
        "separate fits": separate(cal, new, how),
        "partial pooling": fitted(cal, new, how, guard=False)[0],
        "--by": guarded,
    }
    return {
        **{way: 1e3 * float((each - one).mean()) for way, each in ways.items()},
        "kept": float(kept),
    }


def right_or_wrong(rows: Rows) -> Rows:
    """Confidences, and whether the prediction is right."""
    p = softmax(rows[0])
    return p.max(axis=1), (p.argmax(axis=1) == rows[1]).astype(np.int64), rows[2]


def by_mcgrad(python: str, cal: Rows, new: Rows) -> float:
    """Mean change of the NLL against Platt scaling by MCGrad's probabilities."""
    one = nll(calcli.fit(*cal[:2], **CONFIDENCE).predict_proba(new[0]), new[1])
    with tempfile.TemporaryDirectory() as folder:
        np.savez(
            f"{folder}/rows.npz",
            **dict(
                zip(
                    ("c", "y", "g", "new_c", "new_g"),
                    (*cal, new[0], new[2]),
                    strict=True,
                )
            ),
        )
        command = [
            python,
            str(Path(__file__).with_name("peers") / "mcgrad_groups.py"),
            f"{folder}/rows.npz",
            f"{folder}/p.npy",
        ]
        subprocess.run(command, check=True, capture_output=True)
        p = np.load(f"{folder}/p.npy")
    return 1e3 * float((nll(np.stack([1 - p, p], axis=1), new[1]) - one).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="?", type=int, default=10)
    parser.add_argument("data", nargs="*")
    parser.add_argument("--mcgrad", metavar="PYTHON")
    parser.add_argument("--record", type=Path, help="JSON file for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # fits to ten rows have much to say
    lines = Lines(args.record)
    for name, (z, y, g) in sources(args.data):
        members = [np.flatnonzero(g == group) for group in np.unique(g)]
        for size in [size for size in SIZES if 2 * size <= min(map(len, members))]:
            rng, found, theirs = np.random.default_rng(1), [], []
            for _ in range(args.runs):
                orders = [rng.permutation(own) for own in members]
                cal = np.concatenate([own[:size] for own in orders])
                new = np.concatenate([own[size : size + 500] for own in orders])
                old_rows, new_rows = (z[cal], y[cal], g[cal]), (z[new], y[new], g[new])
                how = {}
                if args.mcgrad:
                    old_rows, new_rows, how = (
                        right_or_wrong(old_rows),
                        right_or_wrong(new_rows),
                        CONFIDENCE,
                    )
                    theirs.append(by_mcgrad(args.mcgrad, old_rows, new_rows))
                found.append(changes(old_rows, new_rows, how))
            cells = {
                column: mean([each[column] for each in found]) for column in found[0]
            }
            peer = {"MCGrad": mean(theirs)} if theirs else {}
            lines.add(
                groups=name, **{"rows each": size}, runs=args.runs, **cells, **peer
            )


if __name__ == "__main__":
    main()
