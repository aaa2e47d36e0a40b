"""What ``auto`` does with few calibration rows, beside methods that are safe there.

    python benchmarks/few_rows.py FOLDER -o few_rows.json
    PYTHONPATH=CHECKOUT python benchmarks/few_rows.py FOLDER --name "auto of 0.2.0"
    python benchmarks/few_rows.py

The first fits ``ts`` and ``auto``, for two classes also Venn-Abers and the smoothed
sigmoid, to splits of the problems of ``_few_rows.py`` and stores their NLL on the other
half; FOLDER holds the public files. The second adds the ``auto`` of another version,
whose checkout comes first on the path. The third prints the table of few_rows.json.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _few_rows import few_row_problems
from _problems import SAFE_IN_TWO_CLASSES, Array, Problem, split

STORED = Path(__file__).with_name("few_rows.json")
ROWS = (250, 500, 1000)


def loss(problem: Problem, rows: int, seed: int, method: str, options: Any) -> float:
    """NLL of a method on the rows that it was not fitted to."""
    import calcli

    first, test = split(problem.labels, rows, seed)
    z, y = problem.logits, problem.labels
    if len(np.unique(y[first])) < 2:
        return float("nan")
    calibrator = calcli.fit(z[first], y[first], method, kind="logits", **options)
    p = calibrator.predict_proba(z[test])
    return float(-np.log(np.maximum(p[np.arange(len(test)), y[test]], 1e-12)).mean())


def entries_for(problem: Problem, name: str) -> dict[str, tuple[str, Any]]:
    """Methods to fit, under the names of the result."""
    if name != "auto":
        return {name: ("auto", {})}
    entries: dict[str, tuple[str, Any]] = {"ts": ("ts", {}), "auto": ("auto", {})}
    if problem.logits.shape[1] == 2:
        entries |= SAFE_IN_TWO_CLASSES
    return entries


# ---- the table


def table(tasks: list[dict[str, Any]]) -> str:
    """Markdown: ``auto`` minus the others in 1e-3 nats, the mean over tasks.

    In brackets the worst task, in the mean over its splits.
    """
    names = list(dict.fromkeys(name for task in tasks for name in task["nll"]))
    others = [name for name in names if name != "auto"]
    head = ["group", "samples", "tasks", *(f"minus {name}" for name in others)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for group in dict.fromkeys(task["group"] for task in tasks):
        for rows in sorted({task["rows"] for task in tasks}):
            here = [t for t in tasks if (t["group"], t["rows"]) == (group, rows)]
            cells = [group, str(rows), str(len(here))]
            for name in others:
                found = [means(task, name) for task in here if name in task["nll"]]
                worst = 1e3 * max(found) if found else 0.0
                text = f"{1e3 * np.mean(found):+.1f} ({worst:+.1f})" if found else ""
                cells.append(text)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def differences(task: dict[str, Any], name: str) -> Array:
    """``auto`` minus another entry, on the splits that both have."""
    ours, others = task["nll"]["auto"], task["nll"][name]
    n = min(len(ours), len(others))
    return np.subtract(ours[:n], others[:n])


def means(task: dict[str, Any], name: str) -> float:
    return float(np.nanmean(differences(task, name)))


def behind(tasks: list[dict[str, Any]]) -> str:
    """Lines of the tasks where ``auto`` is behind by more than .002, with the error."""
    lines = []
    for task in tasks:
        for name in task["nll"]:
            found = differences(task, name)
            mean = float(np.nanmean(found))
            if name != "auto" and mean > 0.002:
                error = float(np.nanstd(found) / np.sqrt(len(found)))
                lines.append(
                    f"- {task['data']}, {task['rows']}: {mean:+.4f} ({error:.4f})"
                    f" behind {name}"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--name", default="auto")
    parser.add_argument("-o", "--output", type=Path, default=STORED)
    args = parser.parse_args()
    target: Path = args.output
    tasks = json.loads(target.read_text(encoding="utf-8")) if target.exists() else []
    by_key = {(task["data"], task["rows"]): task for task in tasks}
    warnings.simplefilter("ignore")
    for problem in few_row_problems(args.folder) if args.folder else ():
        for rows in ROWS:
            if 2 * rows > len(problem.labels):
                continue
            facts = {"data": problem.name, "group": problem.group, "rows": rows}
            task = by_key.setdefault((problem.name, rows), {**facts, "nll": {}})
            for name, (method, options) in entries_for(problem, args.name).items():
                if name in task["nll"]:
                    continue
                found = [
                    round(loss(problem, rows, seed, method, options), 6)
                    for seed in range(args.seeds)
                ]
                task["nll"][name] = found
        lines = ",\n".join(map(json.dumps, by_key.values()))
        target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    found = list(by_key.values())
    print(f"{table(found)}\n\n{behind(found)}")


if __name__ == "__main__":
    main()
