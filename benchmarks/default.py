"""What the default does to the scores of other people's models, and of models trained here.

    python benchmarks/default.py FILE.npz ... --trained -o default.json
    PYTHONPATH=CHECKOUT python benchmarks/default.py FILE.npz ... --trained --name NAME -o default.json
    python benchmarks/default.py FILE.npz --trained --tasks 'cifar100*,26*' --seeds 6 --no-verdicts
    python benchmarks/default.py

The first fits ``ts`` and ``auto``, for two classes also Venn-Abers and the smoothed
sigmoid, for more also ``auto`` whose predictions are free, to splits of every model. It
stores mean NLL, Brier score, accuracy and verdict on the other half, with the processor
seconds of the fit. The second adds the ``auto`` of another version, whose checkout comes
first on the path, under a name of its own. The third adds splits of some tasks, the
fourth prints the tables of benchmarks/default.json. FILE.npz holds labels and one or more
arrays named logits*, or probs. Tasks that the result file holds are not done again.

Verdicts are of as many test rows as calibration rows, and of half as many; ``exact`` ones know
nothing of the error of the fit.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from _problems import (
    SAFE_IN_TWO_CLASSES,
    Array,
    Problem,
    saved,
    split,
    text,
    trained,
)

STORED = Path(__file__).with_name("default.json")
LEAST_JUDGED = 1000  # calibration rows from which verdicts are asked for
JUDGED = ("ts", "auto")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "identity": ("identity", {}),
    "ts": ("ts", {}),
    "auto": ("auto", {}),
}
FREE = "auto, predictions free"
PREDICTIONS_FREE = {FREE: ("auto", {"keep_argmax": False})}
"""Entry of more than two classes: what it costs to keep predictions."""
BEHIND = 0.002  # nats by which a task is listed where auto loses to another method
WORSE = 0.0003  # nats on one split from which a task is compared over all its splits
FEWEST_SPLITS = 3


# ---- one task


def measure(p: Array, label: Array, y: Array) -> dict[str, float]:
    """Mean losses of probabilities (n, k) and predictions (n,)."""
    own = p[np.arange(len(y)), y]
    nll = -np.log(np.maximum(own, 1e-12))
    brier = np.einsum("ij,ij->i", p, p) - 2.0 * own + 1.0
    return {
        "nll": round(float(nll.mean()), 6),
        "brier": round(float(brier.mean()), 6),
        "accuracy": round(float((label == y).mean()), 6),
    }


def verdicts(
    z: Array, p: Array, y: Array, calibrator: Any, rows: int
) -> dict[str, str]:
    """Verdicts on test rows, as many as calibration rows and half as many."""
    import calcli

    found = {}
    log_p = np.log(np.maximum(p, 1e-300))
    for name, m in (("half", rows // 2), ("full", rows)):
        if m > len(y):
            continue
        exact = calcli.evaluate(log_p[:m], y[:m], kind="log_probs")
        found[f"exact {name}"] = exact.results[0].report.kind
        known = calcli.evaluate(z[:m], y[:m], calibrator)
        found[name] = known.results[1].report.kind
    return found


def fitted(
    problem: Problem,
    rows: int,
    seed: int,
    entry: tuple[str, dict[str, Any]],
    *,
    judge: bool,
) -> dict[str, Any]:
    """Losses, seconds and verdicts of one method on one split; ``identity`` is no fit.

    entry : method and options. judge : ask for verdicts, whose names other versions may
    not know.
    """
    import calcli

    first, test = split(problem.labels, rows, seed)
    test = np.random.default_rng(seed).permutation(test)
    z, y = problem.logits[test], problem.labels[test]
    method, options = entry
    began = time.process_time()
    calibrator = calcli.fit(
        problem.logits[first], problem.labels[first], method, **options
    )
    seconds = time.process_time() - began
    p = calibrator.predict_proba(z)
    found: dict[str, Any] = measure(p, calibrator.predict(z), y)
    if method != "identity":
        found["cpu_seconds"] = round(seconds, 3)
        if judge and rows >= LEAST_JUDGED:
            found |= verdicts(z, p, y, calibrator, rows)
    return found


# ---- the table


def table(tasks: list[dict[str, Any]]) -> str:
    """Markdown: a row per group and number of calibration rows.

    NLL in 1e-3 nats, and accuracy in points, as differences of ``auto`` to the others.
    """
    names = list(dict.fromkeys(name for task in tasks for name in task["scores"]))
    others = [name for name in names if name not in ("auto", "ts", "identity")]
    versions = versions_of(tasks)
    compared = ["identity", "ts", *others]
    head = ["group", "samples", "tasks"]
    head += [f"NLL minus {spoken(name)}" for name in compared]
    head += [
        "accuracy minus uncalibrated",
        "CPU s",
        *(f"CPU s {name}" for name in versions),
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    sizes = sorted({task["rows"] for task in tasks})
    for group in dict.fromkeys(task["group"] for task in tasks):
        for rows in sizes:
            here = [t for t in tasks if (t["group"], t["rows"]) == (group, rows)]
            if here:
                lines.append(line(group, rows, here, compared, versions))
    return "\n".join(lines)


def versions_of(tasks: list[dict[str, Any]]) -> list[str]:
    """Names of the ``auto`` of other versions."""
    names = dict.fromkeys(name for task in tasks for name in task["scores"])
    known = (*METHODS, *SAFE_IN_TWO_CLASSES, FREE)
    return [name for name in names if name not in known]


def spoken(name: str) -> str:
    """Name of an entry in the head of the table."""
    return (
        "uncalibrated" if name == "identity" else f"`{name}`" if name == "ts" else name
    )


def line(
    group: str,
    rows: int,
    tasks: list[dict[str, Any]],
    compared: list[str],
    versions: list[str],
) -> str:
    """A row of the table."""
    cells = [group, str(rows), str(len(tasks))]
    cells += [difference(tasks, "nll", name, 1e3) for name in compared]
    cells.append(difference(tasks, "accuracy", "identity", 100.0))
    cells += [mean(tasks, "cpu_seconds", name) for name in ("auto", *versions)]
    return f"| {' | '.join(cells)} |"


def values(tasks: list[dict[str, Any]], what: str, name: str) -> Array:
    """A figure of an entry on every task, NaN where it is missing."""
    return np.array([task["scores"].get(name, {}).get(what, np.nan) for task in tasks])


def difference(tasks: list[dict[str, Any]], what: str, name: str, unit: float) -> str:
    """Mean difference of ``auto`` to another entry."""
    found = values(tasks, what, "auto") - values(tasks, what, name)
    return "" if np.isnan(found).all() else f"{unit * np.nanmean(found):+.1f}"


def mean(tasks: list[dict[str, Any]], what: str, name: str) -> str:
    """Mean figure of an entry."""
    found = values(tasks, what, name)
    return "" if np.isnan(found).all() else f"{np.nanmean(found):.2f}"


def behind(tasks: list[dict[str, Any]]) -> str:
    """Lines of the tasks where ``auto`` is behind by more than ``BEHIND``, over splits."""
    by_task: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for task in tasks:
        by_task.setdefault((task["data"], task["rows"]), []).append(task)
    lines = []
    for (data, rows), splits in by_task.items():
        for name in splits[0]["scores"]:
            found = values(splits, "nll", "auto") - values(splits, "nll", name)
            found = found[~np.isnan(found)]
            if len(found) and found.mean() > BEHIND:
                each = ", ".join(f"{value:+.4f}" for value in found)
                lines.append(f"- {data}, {rows}: behind {spoken(name)} by {each}")
    return "\n".join(lines)


def worse_somewhere(tasks: list[dict[str, Any]], version: str) -> str:
    """Markdown: tasks of which a split is worse than another version, over all splits.

    In 1e-4 nats, with standard errors over the splits; last with free predictions.
    """
    by_task: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for task in tasks:
        if version in task["scores"]:
            by_task.setdefault((task["data"], task["rows"]), []).append(task)
    head = ["task", "samples", "splits", f"NLL minus {version}", "worst split"]
    head.append("predictions free")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for (data, rows), splits in by_task.items():
        base = values(splits, "nll", version)
        found = values(splits, "nll", "auto") - base
        if len(found) < FEWEST_SPLITS or found.max() <= WORSE:
            continue
        free = values(splits, "nll", FREE) - base
        cells = [data, str(rows), str(len(found)), with_error(found)]
        cells += [f"{1e4 * found.max():+.1f}", with_error(free)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_error(found: Array) -> str:
    """Mean in 1e-4 with its standard error; empty where a value is missing."""
    if np.isnan(found).any():
        return ""
    error = found.std(ddof=1) / np.sqrt(len(found))
    return f"{1e4 * found.mean():+.1f} ({1e4 * error:.1f})"


def judged(tasks: list[dict[str, Any]]) -> str:
    """Markdown: how many test sets are called calibrated, of those large enough to judge."""
    lines = ["| | test samples | judged | calibrated | exact test |", "|---" * 5 + "|"]
    names = list(dict.fromkeys(name for task in tasks for name in task["scores"]))
    for name in names:
        for size, words in (("half", "half as many"), ("full", "as many")):
            exact = shares(tasks, name, f"exact {size}")
            if exact is not None:
                known = shares(tasks, name, size) or (0, 0.0)
                cells = [spoken(name), words, str(exact[0])]
                cells += [f"{known[1]:.3f}", f"{exact[1]:.3f}"]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shares(
    tasks: list[dict[str, Any]], name: str, what: str
) -> tuple[int, float] | None:
    """Number of verdicts, and share of ``calibrated`` among them; ``too_few`` left out."""
    kinds = [task["scores"].get(name, {}).get(what) for task in tasks]
    kinds = [kind for kind in kinds if kind not in (None, "too_few")]
    if not kinds:
        return None
    return len(kinds), sum(kind == "calibrated" for kind in kinds) / len(kinds)


# ---- the run


def problems(files: list[Path], own: bool) -> Iterator[Problem]:
    for path in files:
        yield from saved(path)
    if own:
        yield from trained()
        yield from text()


def entries_for(problem: Problem, name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Methods to fit, under the names of the result."""
    if name != "auto":
        return {name: METHODS["auto"]}
    if problem.logits.shape[1] == 2:
        return METHODS | SAFE_IN_TWO_CLASSES
    return METHODS | PREDICTIONS_FREE


def key_of(task: dict[str, Any]) -> tuple[str, int, int]:
    return task["data"], task["rows"], task["seed"]


def main() -> None:
    parser = argparse.ArgumentParser(description="What the default does.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument(
        "--trained", action="store_true", help="also models trained here"
    )
    parser.add_argument("--rows", default="250,1000,2500,5000")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--name", default="auto", help="what auto is called in the result"
    )
    parser.add_argument("--tasks", default="*", help="patterns of names")
    parser.add_argument(
        "--no-verdicts", action="store_true", help="losses of splits alone"
    )
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    target = args.output or STORED
    tasks = json.loads(target.read_text(encoding="utf-8")) if target.exists() else []
    warnings.simplefilter("ignore")
    by_key = {key_of(task): task for task in tasks}
    for problem in problems(args.files, args.trained):
        if not any(fnmatch(problem.name, form) for form in args.tasks.split(",")):
            continue
        entries = entries_for(problem, args.name)
        for rows in map(int, args.rows.split(",")):
            if 2 * rows > 1.05 * len(problem.labels):
                continue
            for seed in range(args.seeds):
                key = problem.name, rows, seed
                if key not in by_key:
                    facts = {"data": problem.name, "group": problem.group}
                    by_key[key] = {**facts, "rows": rows, "seed": seed, "scores": {}}
                scores = by_key[key]["scores"]
                for name, entry in entries.items():
                    if name in scores:
                        continue
                    judge = name in JUDGED and not args.no_verdicts
                    scores[name] = fitted(problem, rows, seed, entry, judge=judge)
        lines = ",\n".join(map(json.dumps, by_key.values()))
        target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    found = list(by_key.values())
    print(f"{table(found)}\n\n{judged(found)}\n\n{behind(found)}")
    for version in versions_of(found):
        print(f"\n{worse_somewhere(found, version)}")


if __name__ == "__main__":
    main()
