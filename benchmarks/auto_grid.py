"""What averaging is worth: auto's three rules and single methods on stratified halves of saved files.

    python benchmarks/auto_grid.py FILE.npz ... -o grid.json
    python benchmarks/auto_grid.py --trained --rows 50,100,250 -o grid.json
    python benchmarks/auto_grid.py -o grid.json
    python benchmarks/auto_grid.py

The third prints the tables of a result file; the fourth takes simulated problems, 500 rows of each
once, and keeps nothing. Every task is a half of every class for calibration,
thinned to the rows asked for (50 to 5000), and the other half to test. The candidates are fitted once
per task; best and one-se are read from the same table as the weights. Tasks that the result file holds
are not done again, and a run ends after ``--seconds``, so that it can be cut into slices.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _problems import Problem, saved, simulated, split, trained
from quality import test_nll

TWO = ["platt(smooth=true)", "beta", "venn-abers"]
"""The best of other libraries for two classes, which ours equal: scikit-learn's sigmoid, betacal, venn-abers."""

RULES = ["best", "one-se", "ts", "svs", "sms", *TWO]

MOST_CLASSES = 12
"""Classes up to which the full matrix is tried beside."""


def measure(problem: Problem, rows: int, seed: int) -> dict[str, Any]:
    """Test NLL of the average and of single methods, and the processor seconds of the average."""
    from calcli.calibrator import Context
    from calcli.composition import FittedPrefixes
    from calcli.methods.auto import AutoOptions, fit_candidate, parse_candidate, pick
    from calcli.registry import method
    from calcli.rows import ArrayRows

    a, b = split(problem.labels, rows, seed)
    given, test = (
        ArrayRows(problem.logits[a], problem.labels[a]),
        (problem.logits[b], problem.labels[b]),
    )
    began = time.process_time()
    fit = method("auto").fit(given, AutoOptions(), Context())
    spent = time.process_time() - began
    table = {row["method"]: row for row in fit.details["auto"]["table"]}
    names = {
        "best": pick(table, AutoOptions(rule="best")),
        "one-se": pick(table, AutoOptions(rule="one-se")),
    }
    allowed = {"sms": given.k <= MOST_CLASSES} | dict.fromkeys(TWO, given.k == 2)
    names |= {name: name for name in RULES[2:] if allowed.get(name, True)}
    known, nll = FittedPrefixes(), {"average": test_nll(fit.calibrator, *test)}
    found: dict[str, float] = {}
    for rule, name in names.items():
        if name not in found:
            alone = parse_candidate(name, alone=True)
            found[name] = test_nll(
                fit_candidate(alone, given, known, Context()).calibrator, *test
            )
        nll[rule] = found[name]
    weights = {
        name: round(row["weight"], 3) for name, row in table.items() if "weight" in row
    }
    nll = {rule: round(value, 7) for rule, value in nll.items()}
    return {
        "nll": nll,
        "cpu_seconds": round(spent, 2),
        "best": names["best"],
        "weights": weights,
    }


# ---- the tables


def differences(tasks: list[dict[str, Any]], rule: str) -> Iterator[float]:
    """Average minus a rule, in 1e-3 nats, of the tasks that have it."""
    return (
        1e3 * (task["nll"]["average"] - task["nll"][rule])
        for task in tasks
        if rule in task["nll"]
    )


def row_of(tasks: list[dict[str, Any]]) -> str:
    cells = [
        f"{np.mean(d):+.2f}" if (d := list(differences(tasks, rule))) else ""
        for rule in RULES
    ]
    worse = sum(d > 2.0 for d in differences(tasks, "ts"))
    return f"{len(tasks)} | {' | '.join(cells)} | {worse} | {np.mean([task['cpu_seconds'] for task in tasks]):.1f}"


def tables(tasks: list[dict[str, Any]]) -> str:
    """Markdown: average minus each rule by group and number of rows, then minus best file by file."""
    lines = [
        f"| group | rows | tasks | {' | '.join(f'minus {rule}' for rule in RULES)} | .002 above ts | CPU s |",
        "|---" * (len(RULES) + 5) + "|",
    ]
    for group in dict.fromkeys(task["group"] for task in tasks):
        for rows in sorted({task["rows"] for task in tasks}):
            if here := [
                task for task in tasks if (task["group"], task["rows"]) == (group, rows)
            ]:
                lines.append(f"| {group} | {rows} | {row_of(here)} |")
    lines.append(f"| all | all | {row_of(tasks)} |")
    files: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        files.setdefault(task["data"], []).append(task)
    mean = {
        name: np.mean(list(differences(here, "best"))) for name, here in files.items()
    }
    lines += ["", "| file | tasks | minus best | worst task |", "|---|---|---|---|"]
    for name in sorted(files, key=lambda name: -mean[name]):
        worst = max(
            files[name], key=lambda task: task["nll"]["average"] - task["nll"]["best"]
        )
        at = f"{next(differences([worst], 'best')):+.2f} ({worst['rows']} rows, seed {worst['seed']})"
        lines.append(f"| {name} | {len(files[name])} | {mean[name]:+.2f} | {at} |")
    lines += [
        "",
        f"mean over files {np.mean(list(mean.values())):+.2f}, worst file {max(mean.values()):+.2f}",
    ]
    return "\n".join(lines)


# ---- the run


def todo(
    problems: list[Problem], sizes: list[int], seeds: range
) -> Iterator[tuple[Problem, int, int]]:
    """Few rows and every file first. A half has all the rows asked for, or it is not a task."""
    for rows in sizes:
        for seed in seeds:
            yield from (
                (problem, rows, seed)
                for problem in problems
                if 2 * rows <= 1.05 * len(problem.labels)
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0] if __doc__ else None
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rows", default="500,1000,2500,5000")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument(
        "--trained",
        action="store_true",
        help="also models trained on tables (scikit-learn)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="no further task after so many",
    )
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    if not args.files and args.output is None and not args.trained:
        args.rows, args.seeds = "500", 1
    kept = args.output is not None and args.output.exists()
    tasks = json.loads(args.output.read_text(encoding="utf-8")) if kept else []
    done = {(task["data"], task["rows"], task["seed"]) for task in tasks}
    problems = [p for path in args.files for p in saved(path)] + (
        list(trained()) if args.trained else []
    )
    problems = problems if problems or kept else list(simulated())
    began = time.monotonic()
    for problem, rows, seed in todo(
        problems, [int(n) for n in args.rows.split(",")], range(args.seeds)
    ):
        if (problem.name, rows, seed) in done:
            continue
        if time.monotonic() - began > args.seconds:
            break
        task = {
            "data": problem.name,
            "group": problem.group,
            "rows": rows,
            "seed": seed,
        }
        tasks.append(task | measure(problem, rows, seed))
        if args.output is not None:
            args.output.write_text(
                "[\n" + ",\n".join(map(json.dumps, tasks)) + "\n]\n", encoding="utf-8"
            )
    if tasks:
        print(tables(tasks))


if __name__ == "__main__":
    main()
