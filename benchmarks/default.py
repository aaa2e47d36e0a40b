"""What the default does to the scores of other people's models, and of models trained here.

    python benchmarks/default.py FILE.npz ... --trained -o default.json
    PYTHONPATH=CHECKOUT python benchmarks/default.py FILE.npz ... --trained --name NAME
    python benchmarks/default.py FILE.npz --trained --tasks 'cifar100*,26*' --seeds 6 --no-verdicts
    python benchmarks/default.py

The first fits ``ts`` and ``auto``, for two classes also Venn-Abers and the smoothed
sigmoid, for more also ``auto`` whose predictions are free, to splits of every model. It
stores mean NLL, Brier score, accuracy and verdict on the other half, with the processor
seconds of the fit. The second adds the ``auto`` of another version, whose checkout comes
first on the path, under a name of its own. The third adds splits of some tasks, the
fourth prints the tables of benchmarks/default.json. FILE.npz holds labels and one or more
arrays named logits*, or probs. Tasks that the result file holds are not done again.

Verdicts are of as many test rows as calibration rows, and of half as many; ``exact`` ones
know nothing of the error of the fit.
"""

import time
import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _draws import mean_nll
from _measure import parser_of
from _problems import (
    SAFE_IN_TWO_CLASSES,
    Array,
    Problem,
    Task,
    has_rows,
    key_of,
    new_task,
    saved,
    split,
    text,
    trained,
)
from _stored import markdown_head, markdown_row, read_entries, write_entries

import calcli

Entry = tuple[str, dict[str, Any]]
"""A method and its options."""

STORED = Path(__file__).with_name("default.json")
LEAST_JUDGED = 1000  # calibration rows from which verdicts are asked for
JUDGED = ("ts", "auto")
METHODS: dict[str, Entry] = {
    "identity": ("identity", {}),
    "ts": ("ts", {}),
    "auto": ("auto", {}),
}
FREE = "auto, predictions free"
PREDICTIONS_FREE: dict[str, Entry] = {FREE: ("auto", {"keep_argmax": False})}
"""Entry of more than two classes: what it costs to keep predictions."""
BEHIND = 0.002  # nats by which a task is listed where auto loses to another method
WORSE = 0.0003  # nats on one split from which a task is compared over all its splits
FEWEST_SPLITS = 3
FLOOR = 1e-12  # what smaller probabilities count as
NO_VERDICT = (None, "too_few")


# ---- one split


def measure(p: Array, prediction: Array, y: Array) -> dict[str, float]:
    """Mean losses of probabilities (n, k) and predictions (n,)."""
    p_label = p[np.arange(len(y)), y]
    brier = np.einsum("ij,ij->i", p, p) - 2.0 * p_label + 1.0
    return {
        "nll": round(mean_nll(p, y, FLOOR), 6),
        "brier": round(float(brier.mean()), 6),
        "accuracy": round(float((prediction == y).mean()), 6),
    }


def verdicts(
    z: Array, p: Array, y: Array, calibrator: Any, rows: int
) -> dict[str, str]:
    """Verdicts on test rows, as many as calibration rows and half as many."""
    kinds = {}
    log_p = np.log(np.maximum(p, 1e-300))
    for name, m in (("half", rows // 2), ("full", rows)):
        if m > len(y):
            continue
        exact = calcli.evaluate(log_p[:m], y[:m], kind="log_probs")
        kinds[f"exact {name}"] = exact.results[0].report.kind
        of_fit = calcli.evaluate(z[:m], y[:m], calibrator)
        kinds[name] = of_fit.results[1].report.kind
    return kinds


def score(
    problem: Problem, rows: int, seed: int, entry: Entry, *, with_verdicts: bool
) -> dict[str, Any]:
    """Losses, seconds and verdicts of one method on one split; ``identity`` is no fit.

    with_verdicts : ask for them; other versions may not know their names.
    """
    cal, test = split(problem.labels, rows, seed)
    test = np.random.default_rng(seed).permutation(test)
    z, y = problem.logits[test], problem.labels[test]
    method, options = entry
    start = time.process_time()
    calibrator = calcli.fit(problem.logits[cal], problem.labels[cal], method, **options)
    seconds = time.process_time() - start
    p = calibrator.predict_proba(z)
    figures: dict[str, Any] = measure(p, calibrator.predict(z), y)
    if method != "identity":
        figures["cpu_seconds"] = round(seconds, 3)
        if with_verdicts and rows >= LEAST_JUDGED:
            figures |= verdicts(z, p, y, calibrator, rows)
    return figures


# ---- what the tables say


def names_in(tasks: list[Task]) -> list[str]:
    """All entries, each once."""
    names: dict[str, None] = {}
    for task in tasks:
        names |= dict.fromkeys(task["scores"])
    return list(names)


def versions_of(tasks: list[Task]) -> list[str]:
    """Names of the ``auto`` of other versions."""
    known = (*METHODS, *SAFE_IN_TWO_CLASSES, FREE)
    return [name for name in names_in(tasks) if name not in known]


def by_size(tasks: list[Task], key: str) -> dict[tuple[str, int], list[Task]]:
    """Tasks by their ``data`` or ``group`` and the number of calibration rows."""
    parts: dict[tuple[str, int], list[Task]] = {}
    for task in tasks:
        parts.setdefault((task[key], task["rows"]), []).append(task)
    return parts


def spoken(name: str) -> str:
    """Name of an entry in a table."""
    return {"identity": "uncalibrated", "ts": "`ts`"}.get(name, name)


def values(tasks: list[Task], figure: str, name: str) -> Array:
    """A figure of an entry on every task, NaN where it is missing."""
    return np.array(
        [task["scores"].get(name, {}).get(figure, np.nan) for task in tasks]
    )


def differences(tasks: list[Task], figure: str, name: str) -> Array:
    """A figure of ``auto`` minus that of another entry."""
    return values(tasks, figure, "auto") - values(tasks, figure, name)


def mean_text(figures: Array, form: str) -> str:
    """Mean of the figures that are known; empty where none is."""
    if np.isnan(figures).all():
        return ""
    return format(np.nanmean(figures), form)


def mean_with_error(differences: Array) -> str:
    """Mean in 1e-4 with its standard error; empty where a value is missing."""
    if np.isnan(differences).any():
        return ""
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return f"{1e4 * differences.mean():+.1f} ({1e4 * error:.1f})"


# ---- the tables


def table(tasks: list[Task]) -> str:
    """Markdown: a row per group and number of calibration rows.

    NLL in 1e-3 nats, and accuracy in points, as differences of ``auto`` to the others.
    """
    names = names_in(tasks)
    others = [name for name in names if name not in ("auto", "ts", "identity")]
    compared = ["identity", "ts", *others]
    versions = versions_of(tasks)
    head = ["group", "samples", "tasks"]
    head += [f"NLL minus {spoken(name)}" for name in compared]
    head += ["accuracy minus uncalibrated", "CPU s"]
    head += [f"CPU s {name}" for name in versions]
    lines = [markdown_head(head)]
    parts = by_size(tasks, "group")
    sizes = sorted({task["rows"] for task in tasks})
    for group in dict.fromkeys(task["group"] for task in tasks):
        for rows in sizes:
            part = parts.get((group, rows))
            if part is None:
                continue
            cells = [group, str(rows), str(len(part))]
            for name in compared:
                cells.append(mean_text(1e3 * differences(part, "nll", name), "+.1f"))
            accuracy = differences(part, "accuracy", "identity")
            cells.append(mean_text(100.0 * accuracy, "+.1f"))
            for name in ("auto", *versions):
                cells.append(mean_text(values(part, "cpu_seconds", name), ".2f"))
            lines.append(markdown_row(cells))
    return "\n".join(lines)


def tasks_behind(tasks: list[Task]) -> str:
    """Lines of the tasks where ``auto`` is behind by more than ``BEHIND``, over splits."""
    lines = []
    for (data, rows), splits in by_size(tasks, "data").items():
        for name in splits[0]["scores"]:
            behind = differences(splits, "nll", name)
            behind = behind[~np.isnan(behind)]
            if len(behind) and behind.mean() > BEHIND:
                by_split = ", ".join(f"{value:+.4f}" for value in behind)
                lines.append(f"- {data}, {rows}: behind {spoken(name)} by {by_split}")
    return "\n".join(lines)


def worse_somewhere(tasks: list[Task], version: str) -> str:
    """Markdown: tasks of which a split is worse than another version, over all splits.

    In 1e-4 nats, with standard errors over the splits; last with free predictions.
    """
    head = ["task", "samples", "splits", f"NLL minus {version}", "worst split"]
    lines = [markdown_head([*head, "predictions free"])]
    of_version = [task for task in tasks if version in task["scores"]]
    for (data, rows), splits in by_size(of_version, "data").items():
        worse = differences(splits, "nll", version)
        if len(worse) < FEWEST_SPLITS or worse.max() <= WORSE:
            continue
        free = values(splits, "nll", FREE) - values(splits, "nll", version)
        cells = [data, str(rows), str(len(worse)), mean_with_error(worse)]
        cells += [f"{1e4 * worse.max():+.1f}", mean_with_error(free)]
        lines.append(markdown_row(cells))
    return "\n".join(lines)


class Share(NamedTuple):
    """Number of verdicts, and the share of ``calibrated`` among them."""

    n: int
    calibrated: float


def share_calibrated(tasks: list[Task], name: str, verdict: str) -> Share:
    """Of the verdicts on an entry; those of too few rows are left out."""
    kinds = [task["scores"].get(name, {}).get(verdict) for task in tasks]
    kinds = [kind for kind in kinds if kind not in NO_VERDICT]
    if not kinds:
        return Share(0, 0.0)
    return Share(len(kinds), kinds.count("calibrated") / len(kinds))


def table_of_verdicts(tasks: list[Task]) -> str:
    """Markdown: how many test sets are called calibrated, of those large enough to judge."""
    head = ["", "test samples", "judged", "calibrated", "exact test"]
    lines = [markdown_head(head)]
    for name in names_in(tasks):
        for size, words in (("half", "half as many"), ("full", "as many")):
            exact = share_calibrated(tasks, name, f"exact {size}")
            of_fit = share_calibrated(tasks, name, size)
            if exact.n:
                cells = [spoken(name), words, str(exact.n)]
                cells += [f"{of_fit.calibrated:.3f}", f"{exact.calibrated:.3f}"]
                lines.append(markdown_row(cells))
    return "\n".join(lines)


# ---- the run


def problems(args) -> Iterator[Problem]:
    """Problems whose names are asked for."""
    patterns = args.tasks.split(",")
    for problem in all_problems(args.files, with_trained=args.trained):
        if any(fnmatch(problem.name, pattern) for pattern in patterns):
            yield problem


def all_problems(files: list[Path], *, with_trained: bool) -> Iterator[Problem]:
    for path in files:
        yield from saved(path)
    if with_trained:
        yield from trained()
        yield from text()


def entries_for(problem: Problem, name: str) -> dict[str, Entry]:
    """Methods to fit, under the names of the result."""
    if name != "auto":
        return {name: METHODS["auto"]}
    if problem.logits.shape[1] == 2:
        return METHODS | SAFE_IN_TWO_CLASSES
    return METHODS | PREDICTIONS_FREE


def add_scores(task: Task, problem: Problem, args) -> None:
    """Add to a task the entries that it lacks."""
    for name, entry in entries_for(problem, args.name).items():
        if name not in task["scores"]:
            with_verdicts = name in JUDGED and not args.no_verdicts
            task["scores"][name] = score(
                problem, task["rows"], task["seed"], entry, with_verdicts=with_verdicts
            )


def main() -> None:
    parser = parser_of(__doc__)
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
    parser.add_argument("-o", "--output", type=Path, default=STORED)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    by_key = {key_of(task): task for task in read_entries(args.output)}
    sizes = [int(rows) for rows in args.rows.split(",")]
    for problem in problems(args):
        for rows in sizes:
            if not has_rows(problem, rows):
                continue
            for seed in range(args.seeds):
                task = new_task(problem, rows, seed)
                task = by_key.setdefault(key_of(task), task)
                add_scores(task, problem, args)
        write_entries(args.output, list(by_key.values()))
    tasks = list(by_key.values())
    print(f"{table(tasks)}\n\n{table_of_verdicts(tasks)}\n\n{tasks_behind(tasks)}")
    for version in versions_of(tasks):
        print(f"\n{worse_somewhere(tasks, version)}")


if __name__ == "__main__":
    main()
