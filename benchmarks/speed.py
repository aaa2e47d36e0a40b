"""Every command beside reading the file, beside a bare NumPy script, and beside other programs.

python benchmarks/speed.py                       # 5000 x 100 and 25000 x 1000, some minutes
python benchmarks/speed.py --full                # 1e3 to 1e7 rows, 2 to 128000 classes
python benchmarks/speed.py --install-peers VENV  # an environment for the other programs
python benchmarks/speed.py --peers VENV --json speed.json    # with them; results as JSON too
python benchmarks/speed.py --only "fit auto" --json speed.json
python benchmarks/speed.py --table speed.json    # a stored run as a table

Whole processes taking turns; the figures are medians over turns, ratios are taken within a
turn. *floor* imports NumPy, h5py and Typer and reads the scores once; *read + write* copies
them without computing. Processor time is what a shared machine leaves comparable. What
takes longer than ``SLOW`` seconds runs once, and what is not ours is stopped at
``--limit``. ``--only`` measures these commands again and keeps the others as stored.
"""

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

import h5py
import numpy as np
from _measure import (
    REPOSITORY,
    Cost,
    TooLong,
    calcli,
    cost,
    make_bundle,
    parser_of,
    peer,
    workspace,
)
from _stored import markdown_head, markdown_row

from calcli.registry import method_names

PEERS = "scikit-learn netcal probmetrics numba torchmetrics torch scipy h5py"


class Size(NamedTuple):
    """Rows and classes of a file, and the type of its scores."""

    n: int
    k: int
    dtype: str


QUICK = (Size(5_000, 100, "float32"), Size(25_000, 1000, "float32"))
FULL = (
    Size(1_000, 10, "float32"),
    *QUICK,
    Size(50_000, 1000, "float32"),
    Size(1_000_000, 10, "float32"),
    Size(10_000_000, 2, "float16"),
    Size(2_000, 128_000, "float16"),
)
SLOW = 10.0
"""Seconds by the clock from which one turn is enough."""

MOST_TURNS = 3
"""Turns at a size that is not of ``QUICK``."""

SHARDS = 40
FEW_CLASSES = 100

LEFT_OUT = ("ts", "ec", "recal", "ts-by", "platt-by", "identity")
"""Methods that have a line of their own, or need what a plain bundle lacks."""

WITH_MANY_CLASSES = ("auto", "hoki", "ets", "ft", "mono", "iop", "vs", "svs")

FLOOR = "floor"
COPY = "read + write"


# ---- what is measured


@dataclass(frozen=True)
class Job:
    """A command. does : what is compared, of those that several programs do."""

    command: list[str]
    does: str = ""
    is_ours: bool = False


def ours(*words, does=""):
    return Job(calcli(*words), does, is_ours=True)


def fit(output, *words, does=""):
    """A fit of a.h5."""
    return ours("fit", "a.h5", "--force", "-q", "-o", output, *words, does=does)


def yardsticks():
    """What the ratios are to."""
    return {
        FLOOR: Job(peer("floor", "a.h5")),
        COPY: Job(peer("read_write", "a.h5", "copy.h5")),
    }


def at_every_size():
    """The commands of ours that run at every size, on a.h5."""
    apply_words = ("apply", "ts.json", "a.h5", "-o", "out.h5", "--force", "-q")
    ece_words = ("evaluate", "a.h5", "--metric", "ece", "-q")
    return {
        "fit ts": fit("ts.json", "-m", "ts", does="fit"),
        "fit ec": fit("ec.json", "-m", "ec", does="fit"),
        "apply": ours(*apply_words, does="apply"),
        "evaluate --metric ece": ours(*ece_words, does="ece"),
    }


def at_quick_sizes(k):
    """More of ours: the report, every method that k classes allow, workers and shards."""
    jobs = {"evaluate": ours("evaluate", "a.h5", "-q")}
    run = ("run", "a.h5", "--force", "-q", "-o", "run")
    jobs["run CAL TEST"] = ours(*run, "test.h5")
    methods = WITH_MANY_CLASSES
    if k <= FEW_CLASSES:
        jobs["run FILE"] = ours(*run)
        methods = [name for name in method_names() if name not in LEFT_OUT]
    for name in methods:
        jobs[f"fit {name}"] = fit(f"{name}.json", "-m", name)
    for n in ("1", "2"):
        jobs[f"fit ts --workers {n}"] = fit("ts.json", "-m", "ts", "--workers", n)
    shards = ("fit", "shard-*.h5", "--force", "-q", "-o", "shards.json", "-m", "ts")
    title = f"fit ts, {SHARDS} shards"
    jobs[title] = ours(*shards)
    jobs[f"{title}, --workers 2"] = ours(*shards, "--workers", "2")
    dask = Job(peer("dask_fit", *shards), is_ours=True)
    jobs[f"{title}, Dask cluster and its start"] = dask
    return jobs


def bare():
    """Scripts without checks that hold everything in memory."""
    return {
        "NumPy script, fit": Job(peer("bare_fit", "a.h5"), "fit"),
        "NumPy script, apply": Job(peer("bare_apply", "a.h5", "bare.h5"), "apply"),
        "NumPy script, ece": Job(peer("bare_ece", "a.h5"), "ece"),
    }


def other_programs(python):
    def job(name, does, *words):
        return Job(peer(name, "a.h5", *words, python=python), does)

    return {
        "SciPy softmax": job("scipy_softmax", "apply", "peer.h5"),
        "scikit-learn": job("sklearn_fit", "fit"),
        "netcal, float64": job("netcal_fit", "fit"),
        "probmetrics": job("probmetrics_fit", "fit"),
        "torch script": job("torch_fit", "fit"),
        "torchmetrics": job("torchmetrics_ece", "ece"),
    }


def jobs_of(size, python, only):
    """Jobs of one size by name. only : names to run beside the yardsticks; all if empty."""
    jobs = at_every_size()
    if size in QUICK:
        jobs |= at_quick_sizes(size.k) | bare() | other_programs(python)
    if only:
        jobs = {name: job for name, job in jobs.items() if name in only}
    return yardsticks() | jobs


# ---- measuring


@dataclass
class Measured:
    """Costs of a job; why it has none, where it failed."""

    costs: list[Cost] = field(default_factory=list)
    skipped: str | None = None

    @property
    def is_slow(self):
        return any(one.wall > SLOW for one in self.costs)


def in_turns(jobs, folder, turns, limit):
    """``Measured`` of every job, the jobs taking turns. limit : seconds of what is not ours."""
    results = {name: Measured() for name in jobs}
    for _ in range(turns):
        for name, job in jobs.items():
            measured = results[name]
            if measured.skipped is not None or measured.is_slow:
                continue
            job_limit = None if job.is_ours else limit
            try:
                measured.costs.append(cost(job.command, folder, job_limit))
            except (TooLong, RuntimeError, OSError) as problem:
                last_lines = str(problem).strip().splitlines()[-1:]
                measured.skipped = " ".join(last_lines)
    return results


def write_files(size, folder):
    """Write the files that the jobs read."""
    source = make_bundle(folder / "a.h5", *size)
    if size not in QUICK:
        return
    make_bundle(folder / "test.h5", *size, seed=1)
    with h5py.File(source) as file:
        for shard in range(SHARDS):
            rows = slice(shard * size.n // SHARDS, (shard + 1) * size.n // SHARDS)
            with h5py.File(folder / f"shard-{shard:02d}.h5", "w") as out:
                out["logits"] = file["logits"][rows]
                out["labels"] = file["labels"][rows]


def measure(size, turns, python, limit, only):
    """One size, as it is stored: a line per job."""
    if size not in QUICK:
        turns = min(turns, MOST_TURNS)
    jobs = jobs_of(size, python, only)
    with workspace() as folder:
        write_files(size, Path(folder))
        results = in_turns(jobs, folder, turns, limit)
    lines = []
    skipped = {}
    for name, measured in results.items():
        if measured.costs:
            lines.append(line_of(name, jobs[name], results))
        if measured.skipped is not None:
            skipped[name] = measured.skipped
    return {
        **size._asdict(),
        "turns": len(results[FLOOR].costs),
        "lines": lines,
        "skipped": skipped,
    }


def line_of(name, job, results):
    """The medians of one job; ratios within a turn."""
    over = COPY if job.does == "apply" else FLOOR
    costs = results[name].costs
    pairs = zip(costs, results[over].costs, strict=False)
    ratios = [one.cpu / least.cpu for one, least in pairs]
    return {
        "name": name,
        "what": job.does,
        "ours": job.is_ours,
        "turns": len(costs),
        "cpu": median([one.cpu for one in costs]),
        "wall": median([one.wall for one in costs]),
        "peak_mib": median([one.peak for one in costs]),
        "load": os.getloadavg()[0],
        "over": over,
        "ratio": median(ratios),
    }


def with_lines(case, again):
    """A stored size with the lines that were measured again, but the yardsticks."""
    fresh = {line["name"]: line for line in again["lines"]}
    for name in yardsticks():
        fresh.pop(name, None)
    skipped = {}
    for name, reason in case["skipped"].items():
        if name not in fresh:
            skipped[name] = reason
    lines = [fresh.pop(line["name"], line) for line in case["lines"]]
    return {
        **case,
        "lines": [*lines, *fresh.values()],
        "skipped": skipped | again["skipped"],
    }


def processor():
    """Name of the processor."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor()


def machine():
    """What it was measured with."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": h5py.__version__,
    }


# ---- the table


def table(run):
    """The run as Markdown."""
    cases = run["cases"]
    sizes = [f"{case['n']} x {case['k']}, {case['dtype']}" for case in cases]
    lines = [markdown_head(["CPU s (ratio), wall s, MiB", *sizes])]
    for name in names_in(cases):
        cells = [cell(name, case, run["machine"]["cores"]) for case in cases]
        lines.append(markdown_row([name, *cells]))
    lines += ["", how_measured(run)]
    return "\n".join(lines) + "\n"


def names_in(cases):
    """Names of all jobs, each once."""
    names = []
    for case in cases:
        names += [line["name"] for line in case["lines"]]
        names += case["skipped"]
    return dict.fromkeys(names)


def how_measured(run):
    """The sentence below the table."""
    with_what = run["machine"]
    most_turns = max(case["turns"] for case in run["cases"])
    return (
        "Ratios are to *floor* (import NumPy, h5py and Typer, read the scores), for"
        f" writers to *read + write*. Medians of up to {most_turns} turns of whole"
        f" processes, one of those above {SLOW:g} s; {with_what['cores']} shared cores"
        f" ({with_what['processor']}), load {with_what['load']:.0f} at the start (where"
        " it is above the number of cores wall seconds say little; - where it was above"
        " twice that); peak memory is never below that of the benchmark itself; Python"
        f" {with_what['python']}, NumPy {with_what['numpy']}."
    )


def cell(name, case, cores):
    """What the table says of one job at one size; no wall seconds of a busy machine."""
    for line in case["lines"]:
        if line["name"] == name:
            is_busy = line.get("load", 0.0) > 2 * cores
            wall = "-" if is_busy else f"{line['wall']:.2f}"
            cpu = f"{line['cpu']:.2f} ({line['ratio']:.1f})"
            return f"{cpu}, {wall}, {line['peak_mib']:.0f}"
    reason = case["skipped"].get(name, "")
    return reason if reason.startswith("more than") else ""


# ---- the run


def install(venv):
    """Make an environment for the other programs."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    command = [f"{venv}/bin/python", "-m", "pip", "install", "--quiet"]
    command += ["--constraint", str(REPOSITORY / "constraints.txt"), *PEERS.split()]
    subprocess.run(command, check=True)


def run_all(args):
    """Measure all sizes, and store after each; returns the run."""
    python = sys.executable
    if args.peers:
        python = f"{os.path.abspath(args.peers)}/bin/python"
    only = args.only.split(",") if args.only else []
    run = {"machine": machine(), "cases": []}
    if only and args.json:
        run = json.loads(args.json.read_text())
    places = {}
    for place, case in enumerate(run["cases"]):
        places[Size(case["n"], case["k"], case["dtype"])] = place
    for size in FULL if args.full else QUICK:
        case = measure(size, args.turns, python, args.limit, only)
        for name, reason in case["skipped"].items():
            place = f"{name} at {size.n} x {size.k}"
            print(f"{place} left out: {reason}", file=sys.stderr)
        if size in places:
            stored = run["cases"][places[size]]
            run["cases"][places[size]] = with_lines(stored, case)
        else:
            run["cases"].append(case)
        if args.json:
            args.json.write_text(json.dumps(run, indent=1) + "\n")
    return run


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="of another program's turn",
    )
    parser.add_argument("--peers", metavar="VENV")
    parser.add_argument("--install-peers", metavar="VENV")
    parser.add_argument("--only", default="", metavar="NAME,NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--table", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.install_peers:
        install(args.install_peers)
        return
    run = json.loads(args.table.read_text()) if args.table else run_all(args)
    print(table(run), end="")


if __name__ == "__main__":
    main()
