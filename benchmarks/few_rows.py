"""What ``auto`` does with few calibration rows, beside methods that are safe there.

    python benchmarks/few_rows.py FOLDER -o few_rows.json
    PYTHONPATH=CHECKOUT python benchmarks/few_rows.py FOLDER --name "auto of 0.2.0"
    python benchmarks/few_rows.py

The first fits ``ts`` and ``auto``, for two classes also Venn-Abers and the smoothed
sigmoid, to splits of the problems of ``_few_rows.py`` and stores their NLL on the other
half; FOLDER holds the public files. The second adds the ``auto`` of another version,
whose checkout comes first on the path. The third prints the table of few_rows.json.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _draws import mean_nll
from _few_rows import few_row_problems
from _measure import parser_of
from _problems import SAFE_IN_TWO_CLASSES, Array, Problem, Task, split
from _stored import markdown_head, markdown_row, read_entries, write_entries

import calcli

STORED = Path(__file__).with_name("few_rows.json")
ROWS = (250, 500, 1000)
FLOOR = 1e-12  # what smaller probabilities count as
BEHIND = 0.002  # nats by which a task is listed where auto loses to another method

Entry = tuple[str, dict[str, Any]]
"""A method and its options."""


def loss(problem: Problem, rows: int, seed: int, entry: Entry) -> float:
    """NLL of a method on the rows that it was not fitted to; NaN for one class."""
    method, options = entry
    cal, test = split(problem.labels, rows, seed)
    z, y = problem.logits, problem.labels
    if len(np.unique(y[cal])) < 2:
        return float("nan")
    calibrator = calcli.fit(z[cal], y[cal], method, kind="logits", **options)
    return mean_nll(calibrator.predict_proba(z[test]), y[test], FLOOR)


def entries_for(problem: Problem, name: str) -> dict[str, Entry]:
    """Methods to fit, under the names of the result."""
    if name != "auto":
        return {name: ("auto", {})}
    entries: dict[str, Entry] = {"ts": ("ts", {}), "auto": ("auto", {})}
    if problem.logits.shape[1] == 2:
        entries |= SAFE_IN_TWO_CLASSES
    return entries


# ---- the table


def table(tasks: list[Task]) -> str:
    """Markdown: ``auto`` minus the others in 1e-3 nats, the mean over tasks.

    In brackets the worst task, in the mean over its splits.
    """
    others = names_of_others(tasks)
    cells: dict[tuple[str, int], list[Task]] = {}
    for group in dict.fromkeys(task["group"] for task in tasks):
        for rows in sorted({task["rows"] for task in tasks}):
            cells[group, rows] = []
    for task in tasks:
        cells[task["group"], task["rows"]].append(task)
    names = [f"minus {name}" for name in others]
    lines = [markdown_head(["group", "samples", "tasks", *names])]
    for (group, rows), in_cell in cells.items():
        differences = [difference_text(in_cell, name) for name in others]
        lines.append(markdown_row([group, str(rows), str(len(in_cell)), *differences]))
    return "\n".join(lines)


def names_of_others(tasks: list[Task]) -> list[str]:
    """All entries but ``auto``, each once."""
    names: dict[str, None] = {}
    for task in tasks:
        names |= dict.fromkeys(task["nll"])
    return [name for name in names if name != "auto"]


def difference_text(tasks: list[Task], name: str) -> str:
    """Mean difference to another entry over tasks, and that of the worst task."""
    means = [mean_difference(task, name) for task in tasks if name in task["nll"]]
    if not means:
        return ""
    return f"{1e3 * np.mean(means):+.1f} ({1e3 * max(means):+.1f})"


def differences(task: Task, name: str) -> Array:
    """``auto`` minus another entry, on the splits that both have."""
    ours, others = task["nll"]["auto"], task["nll"][name]
    n = min(len(ours), len(others))
    return np.subtract(ours[:n], others[:n])


def mean_difference(task: Task, name: str) -> float:
    return float(np.nanmean(differences(task, name)))


def tasks_behind(tasks: list[Task]) -> str:
    """Lines of the tasks where ``auto`` is behind, with the standard error."""
    lines = []
    for task in tasks:
        for name in task["nll"]:
            mean = mean_difference(task, name)
            if name == "auto" or mean <= BEHIND:
                continue
            over_splits = differences(task, name)
            error = float(np.nanstd(over_splits) / np.sqrt(len(over_splits)))
            where = f"{task['data']}, {task['rows']}"
            lines.append(f"- {where}: {mean:+.4f} ({error:.4f}) behind {name}")
    return "\n".join(lines)


# ---- the run


def add_losses(task: Task, problem: Problem, seeds: int, name: str) -> None:
    """Add to a task the entries that it lacks, one loss a split."""
    for entry_name, entry in entries_for(problem, name).items():
        if entry_name in task["nll"]:
            continue
        losses = [loss(problem, task["rows"], seed, entry) for seed in range(seeds)]
        task["nll"][entry_name] = [round(value, 6) for value in losses]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--name", default="auto")
    parser.add_argument("-o", "--output", type=Path, default=STORED)
    args = parser.parse_args()
    by_key = {}
    for task in read_entries(args.output):
        by_key[task["data"], task["rows"]] = task
    warnings.simplefilter("ignore")
    problems = few_row_problems(args.folder) if args.folder else ()
    for problem in problems:
        for rows in ROWS:
            if 2 * rows > len(problem.labels):
                continue
            facts = {"data": problem.name, "group": problem.group, "rows": rows}
            task = by_key.setdefault((problem.name, rows), {**facts, "nll": {}})
            add_losses(task, problem, args.seeds, args.name)
        write_entries(args.output, list(by_key.values()))
    tasks = list(by_key.values())
    print(f"{table(tasks)}\n\n{tasks_behind(tasks)}")


if __name__ == "__main__":
    main()
