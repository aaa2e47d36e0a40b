"""Mean test NLL of ours and of other libraries on the same splits, as JSON and as a Markdown table.

    python benchmarks/quality.py FILE.npz ... --simulated --peers-python PYTHON -o quality.json
    python benchmarks/quality.py

The second prints the tables of benchmarks/quality.json, which the documentation shows. FILE.npz holds labels and one
or more arrays named logits*, or probs. A split is a half of every class for calibration, thinned to
the rows asked for, and the other half to test; every calibrator gets the very same rows.
``--peers-python`` names a Python that has probmetrics (it brings torch), netcal, scikit-learn and
venn-abers, or some of them; what is missing or breaks is listed with its reason. Tasks that the
result file holds are not done again, so that a long run can be cut into slices (``--only``);
``--again`` names calibrators of ours to redo.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _problems import Array, Problem, saved, simulated, split, trained

OURS = ["ts", "svs", "sms", "beta", "logit-spline", "mono", "iop", "auto"]
BEST = "auto rule=best"

MANY_CLASSES = 200
"""Classes beyond which a full matrix is not tried."""

WORSE = 0.002
"""Nats above ts that count as a failure."""

Scores = dict[str, dict[str, Any]]


def test_nll(calibrator: Any, z: Array, y: Array) -> float:
    """Mean NLL of rows under a calibrator of ours."""
    from calcli.rows import ArrayRows

    total = 0.0
    for block in ArrayRows(z, y).blocks():
        total -= float(
            calibrator.apply(block).log_probs[np.arange(len(block)), block.labels].sum()
        )
    return total / len(y)


def ours(wanted: list[str], z: Array, y: Array, z_test: Array, y_test: Array) -> Scores:
    """Test NLL and processor seconds of methods of ours. What rule=best would take stands in the table of auto."""
    from calcli.calibrator import Context
    from calcli.composition import FittedPrefixes
    from calcli.methods.auto import fit_candidate, parse_candidate
    from calcli.registry import method, parse_options
    from calcli.rows import ArrayRows

    found: Scores = {}
    rows, k = ArrayRows(z, y), z.shape[1]
    for name in wanted:
        if (name == "sms" and k > MANY_CLASSES) or (
            name in ("beta", "logit-spline") and k > 2
        ):
            continue
        began = time.process_time()
        fit = method(name).fit(rows, parse_options(name, {}), Context())
        spent = time.process_time() - began
        found[name] = {
            "nll": test_nll(fit.calibrator, z_test, y_test),
            "cpu_seconds": spent,
        }
        if name == "auto":
            tried = [row for row in fit.details["auto"]["table"] if "failed" not in row]
            best = min(tried, key=lambda row: row["nll"])["method"]
            chosen = fit_candidate(
                parse_candidate(best, alone=True), rows, FittedPrefixes(), Context()
            ).calibrator
            found[BEST] = {
                "nll": test_nll(chosen, z_test, y_test),
                "cpu_seconds": spent,
            }
    return found


class Peers:
    """The other libraries, behind their own Python. seconds : of the processor, for one calibrator on one task."""

    def __init__(self, python: str | None, seconds: int) -> None:
        worker = [
            python,
            str(Path(__file__).with_name("peers") / "quality_worker.py"),
            str(seconds),
        ]
        self.process = (
            subprocess.Popen(
                worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            if python
            else None  # type: ignore[arg-type]
        )

    def scores(self, z: Array, y: Array, z_test: Array, y_test: Array) -> Scores:
        if self.process is None:
            return {}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "split.npz"
            np.savez(path, z=z, y=y, z_test=z_test, y_test=y_test)
            print(path, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the peers' Python has ended")
        found: Scores = json.loads(line)
        return found


# ---- the table


def tidy(tasks: list[dict[str, Any]], name: str) -> Array:
    """NLL of a calibrator on every task, NaN where it has none."""
    return np.array([task["scores"].get(name, {}).get("nll", np.nan) for task in tasks])


def places(tasks: list[dict[str, Any]], names: list[str]) -> dict[str, float]:
    """Average ranks over tasks, of the calibrators that have a value on each; 1 is best."""
    table = {name: tidy(tasks, name) for name in names}
    whole = [name for name in names if np.isfinite(table[name]).all()]
    values = np.stack([table[name] for name in whole], axis=1)
    ranks = [
        (values < v[:, None]).sum(1) + 0.5 * ((values == v[:, None]).sum(1) + 1)
        for v in values.T
    ]
    return dict(zip(whole, np.mean(ranks, axis=1).tolist(), strict=True))


def table(tasks: list[dict[str, Any]]) -> str:
    """Markdown: a row per calibrator, per group the mean NLL minus that of auto in 1e-3 nats and the average rank.

    Calibrators without a value on some task of a group have no entry there. The rank of one of ours is that
    among the peers and itself; a peer's, among the peers and auto.
    """
    groups = list(dict.fromkeys(task["group"] for task in tasks))
    names = list(dict.fromkeys(name for task in tasks for name in task["scores"]))
    peers = [name for name in names if name not in (*OURS, BEST)]
    head = [f"{g} ({sum(task['group'] == g for task in tasks)})" for g in groups]
    lines = [
        f"| | {' | '.join(head)} | worse than `ts` | CPU s |",
        "|---" * (len(groups) + 3) + "|",
    ]
    for name in sorted(names, key=lambda name: (name in peers, name != "auto")):
        cells = []
        for group in groups:
            here = [task for task in tasks if task["group"] == group]
            d = 1e3 * (tidy(here, name) - tidy(here, "auto")).mean()
            rank = places(here, ["auto" if name in peers else name, *peers]).get(name)
            cells.append("" if rank is None else f"{d:+.1f} ({rank:.1f})")
        above = tidy(tasks, name) - tidy(tasks, "ts")
        cost = np.mean(
            [
                s["cpu_seconds"]
                for task in tasks
                if "cpu_seconds" in (s := task["scores"].get(name, {}))
            ]
        )
        worse = f"{int((above > WORSE).sum())} of {np.isfinite(above).sum()}"
        lines.append(
            f"| {name if name in peers else f'`{name}`'} | {' | '.join(cells)} | {worse} | {cost:.2f} |"
        )
    return "\n".join(lines)


def by_size(tasks: list[dict[str, Any]]) -> str:
    """A table for every number of calibration rows, under a line that names it."""
    sizes = sorted({task["rows"] for task in tasks})
    return "\n\n".join(
        f"{n} calibration rows:\n\n{table([t for t in tasks if t['rows'] == n])}"
        for n in sizes
    )


def reasons(tasks: list[dict[str, Any]]) -> list[str]:
    """What peers did not do, and why: one line per reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for task in tasks:
        for name, score in task["scores"].items():
            if "skipped" in score:
                found.setdefault((name, score["skipped"]), []).append(
                    f"{task['data']} {task['rows']}"
                )
    return [
        f"- {name}, {len(at)} tasks (as {at[0]}): {why}"
        for (name, why), at in found.items()
    ]


# ---- the run


def key_of(task: dict[str, Any]) -> tuple[str, int, int]:
    return task["data"], task["rows"], task["seed"]


def save(path: Path, tasks: list[dict[str, Any]]) -> None:
    """A task per line, losses to 1e-7 nats."""
    for task in tasks:
        for score in task["scores"].values():
            score |= {
                name: round(value, 7)
                for name, value in score.items()
                if name != "skipped"
            }
    path.write_text(
        "[\n" + ",\n".join(json.dumps(task) for task in tasks) + "\n]\n",
        encoding="utf-8",
    )


def todo(
    problems: Iterator[Problem], args: argparse.Namespace
) -> Iterator[tuple[Problem, int, int]]:
    for problem in problems:
        if args.only and args.only not in problem.name:
            continue
        for rows in map(int, args.rows.split(",")):
            if 2 * rows <= 1.05 * len(problem.labels):
                yield from ((problem, rows, seed) for seed in range(args.seeds))


def compare(
    problem: Problem,
    rows: int,
    seed: int,
    task: dict[str, Any],
    peers: Peers,
    again: list[str],
) -> None:
    """Add to a task what it lacks."""
    scores = task["scores"]
    a, b = split(problem.labels, rows, seed)
    arrays = problem.logits[a], problem.labels[a], problem.logits[b], problem.labels[b]
    wanted = [name for name in OURS if name not in scores or name in again]
    scores |= ours(wanted, *arrays)
    if not set(scores) - {*OURS, BEST}:
        scores |= peers.scores(*arrays)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0] if __doc__ else None
    )
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
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(__file__).with_suffix(".json")
    )
    args = parser.parse_args()
    tasks = (
        json.loads(args.output.read_text(encoding="utf-8"))
        if args.output.exists()
        else []
    )
    known = {key_of(task): task for task in tasks}
    problems = [p for path in args.files for p in saved(path)] + (
        list(simulated()) if args.simulated else []
    )
    problems += list(trained()) if args.trained else []
    peers = Peers(args.peers_python, args.peer_seconds)
    again = [name for name in args.again.split(";") if name]
    for problem, rows, seed in todo(iter(problems), args):
        fresh = {
            "data": problem.name,
            "group": problem.group,
            "rows": rows,
            "seed": seed,
            "scores": {},
        }
        task = known.setdefault((problem.name, rows, seed), fresh)
        compare(problem, rows, seed, task, peers, again)
        save(args.output, list(known.values()))
        print(f"{problem.name} {rows} {seed}", file=sys.stderr)
    if known:
        print(by_size(list(known.values())))
        print("\n".join(reasons(list(known.values()))), file=sys.stderr)


if __name__ == "__main__":
    main()
