"""Mean test NLL of ours and of other libraries on the same splits, as JSON and as a Markdown table.

python benchmarks/quality.py FILE.npz ... --simulated --peers-python PYTHON -o quality.json
python benchmarks/quality.py

The second prints the tables of benchmarks/quality.json, which the documentation shows.
FILE.npz holds labels and one or more arrays named logits*, or probs. A split is a half of
every class for calibration, thinned to the rows asked for, and the other half to test; every
calibrator gets the very same rows. ``--peers-python`` names a Python that has probmetrics
(it brings torch), netcal, scikit-learn and venn-abers, or some of them; what is missing or
breaks is listed with its reason. Tasks that the result file holds are not done again, so
that a long run can be cut into slices (``--only``); ``--again`` names calibrators of ours
to redo.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _measure import parser_of, peer
from _problems import (
    Array,
    Problem,
    Task,
    has_rows,
    key_of,
    mean_test_nll,
    new_task,
    saved,
    simulated,
    split,
    trained,
)
from _stored import markdown_head, markdown_row, read_entries, write_entries

from calcli.calibrator import Context
from calcli.composition import FittedPrefixes
from calcli.methods.auto import fit_candidate, lacking_classes, parse_candidate
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

OURS = ["ts", "svs", "sms", "beta", "logit-spline", "mono", "iop", "auto"]
FOR_TWO_CLASSES = ("beta", "logit-spline")
BEST = "auto rule=best"
"""The candidate of ``auto`` with the least held-out loss."""

MANY_CLASSES = 200
"""Classes beyond which a full matrix is not tried."""

WORSE = 0.002
"""Nats above ts that count as a failure."""

Scores = dict[str, dict[str, Any]]
"""By calibrator ``nll`` and ``cpu_seconds``, or the reason why it was ``skipped``."""


class Split(NamedTuple):
    """Logits and labels to fit to and to test on."""

    z: Array
    y: Array
    z_test: Array
    y_test: Array


def split_of(problem: Problem, rows: int, seed: int) -> Split:
    cal, test = split(problem.labels, rows, seed)
    z, y = problem.logits, problem.labels
    return Split(z[cal], y[cal], z[test], y[test])


# ---- calibrators


def is_for(name: str, n_classes: int) -> bool:
    """Whether one of our methods is tried with so many classes."""
    if name == "sms":
        return n_classes <= MANY_CLASSES
    if name in FOR_TWO_CLASSES:
        return n_classes == 2
    return True


def our_scores(names: list[str], arrays: Split) -> Scores:
    """Test NLL and processor seconds of methods of ours.

    With ``auto`` comes its best candidate, under the seconds of ``auto``.
    """
    rows = ArrayRows(arrays.z, arrays.y)
    scores: Scores = {}
    for name in names:
        if not is_for(name, rows.k):
            continue
        start = time.process_time()
        fit = method(name).fit(rows, parse_options(name, {}), Context())
        seconds = time.process_time() - start
        scores[name] = our_score(fit.calibrator, arrays, seconds)
        if name == "auto":
            best = best_candidate(fit.details["auto"]["table"], rows)
            scores[BEST] = our_score(best, arrays, seconds)
    return scores


def our_score(calibrator: Any, arrays: Split, seconds: float) -> dict[str, float]:
    nll = mean_test_nll(calibrator, arrays.z_test, arrays.y_test)
    return {"nll": nll, "cpu_seconds": seconds}


def best_candidate(candidates: list[dict[str, Any]], rows: ArrayRows) -> Any:
    """The candidate of the least loss, fitted to all rows."""
    tried = [row for row in candidates if "failed" not in row]
    best = min(tried, key=lambda row: row["nll"])
    candidate = parse_candidate(best["method"], alone=True)
    context = Context(held=tuple(lacking_classes(rows)))
    return fit_candidate(candidate, rows, FittedPrefixes(), context).calibrator


class Peers:
    """The other libraries, behind their own Python; none without one.

    seconds : of the processor, for one calibrator on one task.
    """

    def __init__(self, python: str | None, seconds: int) -> None:
        self.process = None
        if python is not None:
            self.process = subprocess.Popen(
                peer("quality_worker", str(seconds), python=python),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

    def scores(self, arrays: Split) -> Scores:
        if self.process is None:
            return {}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "split.npz"
            np.savez(path, **arrays._asdict())
            print(path, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the peers' Python has ended")
        scores: Scores = json.loads(line)
        return scores


# ---- the table


def nll_of(tasks: list[Task], name: str) -> Array:
    """NLL of a calibrator on every task, NaN where it has none."""
    return figures_of(tasks, name, "nll")


def figures_of(tasks: list[Task], name: str, figure: str) -> Array:
    return np.array(
        [task["scores"].get(name, {}).get(figure, np.nan) for task in tasks]
    )


def mean_ranks(tasks: list[Task], names: list[str]) -> dict[str, float]:
    """Average ranks over tasks, of the calibrators that have a value on each; 1 is best."""
    nll = {}
    for name in names:
        values = nll_of(tasks, name)
        if np.isfinite(values).all():
            nll[name] = values
    table = np.stack(list(nll.values()), axis=1)
    ranks = {}
    for name, values in nll.items():
        n_better = (table < values[:, None]).sum(axis=1)
        n_equal = (table == values[:, None]).sum(axis=1)
        ranks[name] = float(np.mean(n_better + 0.5 * (n_equal + 1)))
    return ranks


def names_in(tasks: list[Task]) -> list[str]:
    """All calibrators, each once."""
    names: dict[str, None] = {}
    for task in tasks:
        names |= dict.fromkeys(task["scores"])
    return list(names)


def table(tasks: list[Task]) -> str:
    """Markdown: a row per calibrator.

    Per group stands its mean NLL minus that of auto in 1e-3 nats, and its average rank.
    Calibrators without a value on some task of a group have no entry there. The rank of
    one of ours is that among the peers and itself; a peer's, among the peers and auto.
    """
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task["group"], []).append(task)
    heads = [f"{group} ({len(of_group)})" for group, of_group in groups.items()]
    lines = [markdown_head(["", *heads, "worse than `ts`", "CPU s"])]
    names = names_in(tasks)
    peers = [name for name in names if not is_ours(name)]
    ours = [name for name in names if is_ours(name) and name != "auto"]
    for name in ["auto", *ours, *peers]:
        cells = [name if name in peers else f"`{name}`"]
        for of_group in groups.values():
            cells.append(cell(of_group, name, peers))
        above = nll_of(tasks, name) - nll_of(tasks, "ts")
        n_worse = int((above > WORSE).sum())
        cells.append(f"{n_worse} of {np.isfinite(above).sum()}")
        cells.append(f"{np.nanmean(figures_of(tasks, name, 'cpu_seconds')):.2f}")
        lines.append(markdown_row(cells))
    return "\n".join(lines)


def is_ours(name: str) -> bool:
    return name in OURS or name == BEST


def cell(tasks: list[Task], name: str, peers: list[str]) -> str:
    """What the table says of a calibrator on the tasks of a group."""
    one_of_ours = "auto" if name in peers else name
    rank = mean_ranks(tasks, [one_of_ours, *peers]).get(name)
    if rank is None:
        return ""
    difference = 1e3 * (nll_of(tasks, name) - nll_of(tasks, "auto")).mean()
    return f"{difference:+.1f} ({rank:.1f})"


def tables_by_size(tasks: list[Task]) -> str:
    """A table for every number of calibration rows, under a line that names it."""
    tables = []
    for rows in sorted({task["rows"] for task in tasks}):
        of_size = [task for task in tasks if task["rows"] == rows]
        tables.append(f"{rows} calibration rows:\n\n{table(of_size)}")
    return "\n\n".join(tables)


def reasons(tasks: list[Task]) -> list[str]:
    """What peers did not do, and why: one line per reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for task in tasks:
        for name, score in task["scores"].items():
            if "skipped" in score:
                place = f"{task['data']} {task['rows']}"
                places.setdefault((name, score["skipped"]), []).append(place)
    lines = []
    for (name, reason), where in places.items():
        lines.append(f"- {name}, {len(where)} tasks (as {where[0]}): {reason}")
    return lines


# ---- the run


def save(path: Path, tasks: list[Task]) -> None:
    """A task per line, losses to 1e-7 nats."""
    for task in tasks:
        for score in task["scores"].values():
            for name, value in score.items():
                if name != "skipped":
                    score[name] = round(value, 7)
    write_entries(path, tasks)


def problems(args) -> Iterator[Problem]:
    for path in args.files:
        yield from saved(path)
    if args.simulated:
        yield from simulated()
    if args.trained:
        yield from trained()


def todo(args) -> Iterator[tuple[Problem, int, int]]:
    """Problems with the number of calibration rows and the seed of their splits."""
    sizes = [int(rows) for rows in args.rows.split(",")]
    for problem in problems(args):
        if args.only not in problem.name:
            continue
        for rows in sizes:
            if has_rows(problem, rows):
                for seed in range(args.seeds):
                    yield problem, rows, seed


def add_scores(task: Task, arrays: Split, peers: Peers, again: list[str]) -> None:
    """Add to a task what it lacks. again : calibrators of ours to redo."""
    scores = task["scores"]
    names = [name for name in OURS if name not in scores or name in again]
    scores |= our_scores(names, arrays)
    if all(is_ours(name) for name in scores):
        scores |= peers.scores(arrays)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument(
        "--trained",
        action="store_true",
        help="also models trained on tables (scikit-learn)",
    )
    parser.add_argument("--rows", default="500,1000,2500,5000")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="part of the names of the problems to do"
    )
    parser.add_argument(
        "--again", default="", help="calibrators of ours to do again, with semicolons"
    )
    parser.add_argument("--peers-python", metavar="PYTHON")
    parser.add_argument(
        "--peer-seconds",
        type=int,
        default=120,
        help="processor seconds for one peer on one task",
    )
    stored = Path(__file__).with_suffix(".json")
    parser.add_argument("-o", "--output", type=Path, default=stored)
    args = parser.parse_args()
    by_key = {key_of(task): task for task in read_entries(args.output)}
    peers = Peers(args.peers_python, args.peer_seconds)
    again = args.again.split(";")
    for problem, rows, seed in todo(args):
        task = new_task(problem, rows, seed)
        task = by_key.setdefault(key_of(task), task)
        add_scores(task, split_of(problem, rows, seed), peers, again)
        save(args.output, list(by_key.values()))
        print(f"{problem.name} {rows} {seed}", file=sys.stderr)
    tasks = list(by_key.values())
    if tasks:
        print(tables_by_size(tasks))
        print("\n".join(reasons(tasks)), file=sys.stderr)


if __name__ == "__main__":
    main()
