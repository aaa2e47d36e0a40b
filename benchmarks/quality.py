"""Mean test NLL of ours and of other libraries on the same splits, as a table and as JSON.

    python benchmarks/quality.py FILE.npz ... --simulated --rows 500,1000 --seeds 4 --peers PYTHON -o quality.json

FILE.npz holds labels and one or more arrays named logits*, or probs. A split is a half of every
class for calibration, thinned to the rows asked for, and the other half to test. ``--peers``
names a Python that has probmetrics, netcal or scikit-learn; it runs this file as a worker, on
the very same rows. Every figure is the mean over splits; d is it minus that of our ``ts``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Data = tuple[Array, Array]

OURS = {
    "ts": ("ts", {}),
    "svs": ("svs", {}),
    "sms": ("sms", {}),
    "auto": ("auto", {}),
    "auto best": ("auto", {"rule": "best"}),
    "auto one-se": ("auto", {"rule": "one-se"}),
}
PROBMETRICS = ["temp-scaling", "svs", "sms", "beta", "quadratic-scaling"]


def log_softmax(z: Array) -> Array:
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


# ---- data


def saved(path: Path) -> Iterator[tuple[str, Data]]:
    """Scores of a file as logits, one model after the other."""
    with np.load(path) as file:
        for name in file.files:
            if name.startswith("logits"):
                yield f"{path.stem}:{name[7:]}".rstrip(":"), (file[name].astype(float), file["labels"])
            elif name == "probs":
                yield path.stem, (np.log(np.maximum(file[name].astype(float), 1e-30)), file["labels"])


def simulated(seed: int = 0) -> Iterator[tuple[str, Data]]:
    """Problems whose truth is known: labels are drawn from softmax of ``true``."""
    rng = np.random.default_rng(seed)

    def drawn(z: Array, true: Array) -> Data:
        return z, (true + rng.gumbel(size=true.shape)).argmax(axis=1)

    s = 3 * rng.standard_normal(8000)
    yield (
        "two classes, bias and curve",
        drawn(np.stack([0 * s, s], 1), np.stack([0 * s, 0.5 * s + 1.5 - 0.05 * s**2], 1)),
    )
    z = 2 * rng.standard_normal((8000, 4))
    yield "two of four classes absent", drawn(z, z + np.array([0.0, 0.5, -30.0, -30.0]))
    z = 12 * np.eye(10)[rng.integers(0, 10, 8000)] + 2 * rng.standard_normal((8000, 10))
    yield "near-perfect", drawn(z, 0.8 * z)
    z = 2 * rng.standard_normal((10000, 50)) - 0.1 * np.arange(50)
    yield "long tail", drawn(z, 0.6 * z - 0.05 * np.arange(50))
    z = 2 * rng.standard_normal((10000, 1000))
    yield "1000 classes", drawn(z, 0.7 * z)


def split(y: Array, rows: int, seed: int) -> tuple[Array, Array]:
    """Calibration and test rows: halves of every class, the first thinned evenly."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    side = np.arange(len(y)) % 2 == rng.integers(2)
    first, test = order[side], order[~side]
    kept = np.unique(np.linspace(0, len(first) - 1, min(rows, len(first))).astype(int))
    return rng.permutation(first[kept]), test


# ---- ours and theirs


def ours(z: Array, y: Array, z_test: Array) -> Iterator[tuple[str, Callable[[], Array]]]:
    from calcli.calibrator import Context
    from calcli.registry import method, parse_options
    from calcli.rows import ArrayRows

    def fitted(name: str, settings: dict[str, Any]) -> Array:
        calibrator = method(name).fit(ArrayRows(z, y), parse_options(name, settings), Context()).calibrator
        return np.concatenate([calibrator.apply(block).log_probs for block in ArrayRows(z_test).blocks()])

    for label, (name, settings) in OURS.items():
        yield label, lambda name=name, settings=settings: fitted(name, settings)  # type: ignore[misc]


def theirs(z: Array, y: Array, z_test: Array) -> Iterator[tuple[str, Callable[[], Array]]]:
    """Calibrators of the libraries that this Python has."""
    p, p_test = np.exp(log_softmax(z)), np.exp(log_softmax(z_test))

    def floored(q: Array) -> Array:
        q = np.maximum(np.asarray(q, dtype=float), 1e-12)
        return np.log(q / q.sum(axis=1, keepdims=True))

    try:
        from probmetrics.calibrators import get_calibrator

        for name in PROBMETRICS:
            if name in ("beta", "quadratic-scaling") and z.shape[1] > 2:
                continue
            yield (
                f"probmetrics {name}",
                lambda name=name: floored(  # type: ignore[misc]
                    get_calibrator(name).fit(p, y).predict_proba(p_test)
                ),
            )
    except ImportError:
        pass
    try:
        from netcal.scaling import TemperatureScaling

        def netcal() -> Array:
            fitted = TemperatureScaling()
            fitted.fit(p, y)
            q = np.asarray(fitted.transform(p_test))
            return floored(np.stack([1 - q, q], axis=1) if q.ndim == 1 else q)

        yield "netcal temperature", netcal
    except ImportError:
        pass
    try:
        from sklearn.linear_model import LogisticRegression

        def logistic() -> Array:
            fitted = LogisticRegression(C=1.0, max_iter=1000).fit(log_softmax(z), y)
            q = np.full(z_test.shape, 1e-12)
            q[:, fitted.classes_] = fitted.predict_proba(log_softmax(z_test))
            return floored(q)

        if z.shape[1] <= 10:
            yield "scikit-learn logistic", logistic
    except ImportError:
        pass


def scores(which: Any, z: Array, y: Array, z_test: Array, y_test: Array) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, run in which(z, y, z_test):
        began = time.process_time()
        try:
            log_p = run()
        except Exception as problem:  # a peer that breaks is a result, too
            print(f"{name}: {type(problem).__name__}: {problem}"[:120], file=sys.stderr)
            continue
        nll = -log_p[np.arange(len(y_test)), y_test].mean()
        found[name] = {"nll": float(nll), "cpu_seconds": time.process_time() - began}
    return found


def of_peers(python: str, arrays: tuple[Array, ...]) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.npz"
        np.savez(path, *arrays)
        done = subprocess.run([python, __file__, "--worker", path], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python}: {done.stderr.strip().splitlines()[-1]}")
    sys.stderr.write(done.stderr[-400:])
    result: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return result


def table(tasks: list[dict[str, Any]]) -> str:
    """Rows: calibrators. Columns: data sets, mean d in 1e-3 nats; their mean; times more than .002 above ts."""
    sets = list(dict.fromkeys(task["data"] for task in tasks))
    head = "".join(f"{name[:15]:>17}" for name in sets)
    lines = [f"{'d to ts in 1e-3 nats':30}{head}     mean  worse  CPU s"]
    for name in dict.fromkeys(name for task in tasks for name in task["scores"]):
        mine = [task for task in tasks if name in task["scores"]]
        d = np.array([1e3 * (task["scores"][name]["nll"] - task["scores"]["ts"]["nll"]) for task in mine])
        at = np.array([task["data"] for task in mine])
        cells = "".join(f"{d[at == s].mean():17.2f}" if (at == s).any() else " " * 17 for s in sets)
        cpu = np.mean([task["scores"][name]["cpu_seconds"] for task in mine])
        lines.append(f"{name:30}{cells}{d.mean():9.2f}{(d > 2).sum():4d}/{len(d)}{cpu:7.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--rows", default="1000")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    if args.worker:
        warnings.simplefilter("ignore")
        with np.load(args.worker) as file:
            print(json.dumps(scores(theirs, *(file[name] for name in file.files))))
        return
    sources = [source for path in args.files for source in saved(path)] + (
        list(simulated()) if args.simulated or not args.files else []
    )
    tasks = []
    for name, (z, y) in sources:
        for rows in map(int, args.rows.split(",")):
            if 2 * rows > 1.05 * len(y):
                continue
            for seed in range(args.seeds):
                a, b = split(y, rows, seed)
                arrays = z[a], y[a], z[b], y[b]
                found = scores(ours, *arrays)
                if args.peers:
                    found |= of_peers(args.peers, arrays)
                tasks.append({"data": name, "rows": rows, "seed": seed, "scores": found})
                print(f"{name} {rows} {seed}", file=sys.stderr)
    print(table(tasks))
    if args.output:
        args.output.write_text(json.dumps(tasks, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
