"""Every command beside reading the file, beside a bare NumPy script, and beside other programs.

    python benchmarks/speed.py                                    5000 x 100 and 25000 x 1000, some minutes
    python benchmarks/speed.py --full                             1e3 to 1e7 rows, 2 to 128000 classes
    python benchmarks/speed.py --install-peers VENV               an environment for the other programs
    python benchmarks/speed.py --peers VENV --json speed.json     with them; results as JSON too
    python benchmarks/speed.py --only "fit auto" --json speed.json    these commands again, the others as stored
    python benchmarks/speed.py --table speed.json                 a stored run as a table

Whole processes taking turns; the figures are medians over turns, ratios are taken within a turn. *floor* imports
NumPy, h5py and Typer and reads the scores once; *read + write* copies them without computing. Processor time is what
a shared machine leaves comparable. What takes longer than ``SLOW`` seconds runs once, and what is not ours is stopped
at ``--limit``.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

import h5py
from _measure import TooLong, calcli, cost, make_bundle, workspace

from calcli.registry import method_names

HERE = Path(__file__).parent

PEERS = "scikit-learn netcal probmetrics numba torchmetrics torch scipy h5py"

QUICK = ((5_000, 100, "float32"), (25_000, 1000, "float32"))
FULL = (
    *(
        (1_000, 10, "float32"),
        *QUICK,
        (50_000, 1000, "float32"),
        (1_000_000, 10, "float32"),
    ),
    *((10_000_000, 2, "float16"), (2_000, 128_000, "float16")),
)
SLOW = 10.0
"""Seconds by the clock from which one turn is enough."""

SHARDS = 40


def peer(name, *words, python=sys.executable):
    """One of the scripts in ``peers/``."""
    return [python, str(HERE / "peers" / f"{name}.py"), *words]


FIT = ("fit", "a.h5", "--force", "-q", "-o")


def base():
    """What the ratios are to."""
    return {
        "floor": ("", peer("floor", "a.h5")),
        "read + write": ("", peer("read_write", "a.h5", "copy.h5")),
    }


def streaming():
    """The commands that run at every size: (what is compared, how to run it on a.h5)."""
    return {
        "fit ts": ("fit", calcli(*FIT, "ts.json", "-m", "ts")),
        "fit ec": ("fit", calcli(*FIT, "ec.json", "-m", "ec")),
        "apply": (
            "apply",
            calcli("apply", "ts.json", "a.h5", "-o", "out.h5", "--force", "-q"),
        ),
        "evaluate --metric ece": (
            "ece",
            calcli("evaluate", "a.h5", "--metric", "ece", "-q"),
        ),
    }


LEFT_OUT = ("ts", "ec", "recal", "ts-by", "platt-by", "identity")
"""Methods that have a line of their own, or need what a plain bundle lacks."""

WITH_MANY_CLASSES = ("auto", "hoki", "ets", "ft", "mono", "iop", "vs", "svs")


def others_of_ours(k):
    """More of ours, at the sizes of ``QUICK``: the report, every method that k classes allow, workers and shards."""
    shards = ("fit", "shard-*.h5", "--force", "-q", "-o", "shards.json", "-m", "ts")
    slower = (
        [m for m in method_names() if m not in LEFT_OUT]
        if k <= 100
        else WITH_MANY_CLASSES
    )
    run = ("run", "a.h5", "--force", "-q", "-o", "run")
    running = {"run CAL TEST": ("", calcli(*run, "test.h5"))}
    if k <= 100:
        running["run FILE"] = ("", calcli(*run))
    return {
        "evaluate": ("", calcli("evaluate", "a.h5", "-q")),
        **running,
        **{f"fit {m}": ("", calcli(*FIT, f"{m}.json", "-m", m)) for m in slower},
        **{
            f"fit ts --workers {n}": (
                "",
                calcli(*FIT, "ts.json", "-m", "ts", "--workers", n),
            )
            for n in (1, 2)
        },
        f"fit ts, {SHARDS} shards": ("", calcli(*shards)),
        f"fit ts, {SHARDS} shards, --workers 2": (
            "",
            calcli(*shards, "--workers", "2"),
        ),
        f"fit ts, {SHARDS} shards, Dask cluster and its start": (
            "",
            peer("dask_fit", *shards),
        ),
    }


def bare():
    """Scripts without checks that hold everything in memory."""
    return {
        "NumPy script, fit": ("fit", peer("bare_fit", "a.h5")),
        "NumPy script, apply": ("apply", peer("bare_apply", "a.h5", "bare.h5")),
        "NumPy script, ece": ("ece", peer("bare_ece", "a.h5")),
    }


def peers(python):
    """The other programs: (what they do, how to run them)."""
    return {
        "SciPy softmax": (
            "apply",
            peer("scipy_softmax", "a.h5", "peer.h5", python=python),
        ),
        "scikit-learn": ("fit", peer("sklearn_fit", "a.h5", python=python)),
        "netcal, float64": ("fit", peer("netcal_fit", "a.h5", python=python)),
        "probmetrics": ("fit", peer("probmetrics_fit", "a.h5", python=python)),
        "torch script": ("fit", peer("torch_fit", "a.h5", python=python)),
        "torchmetrics": ("ece", peer("torchmetrics_ece", "a.h5", python=python)),
    }


def cut(source, folder):
    """The rows of a bundle in ``SHARDS`` files."""
    with h5py.File(source) as file:
        n = len(file["labels"])
        for i in range(SHARDS):
            rows = slice(i * n // SHARDS, (i + 1) * n // SHARDS)
            with h5py.File(folder / f"shard-{i:02d}.h5", "w") as out:
                out["logits"], out["labels"] = (
                    file["logits"][rows],
                    file["labels"][rows],
                )


def in_turns(commands, ours, folder, turns, limit):
    """Costs of every command, the commands taking turns; and why some have none. ours : names without a limit."""
    seen, skipped, slow = {name: [] for name in commands}, {}, set()
    for turn in range(turns):
        for name, (_, command) in commands.items():
            if name in skipped or (turn and name in slow):
                continue
            try:
                seen[name].append(
                    cost(command, folder, None if name in ours else limit)
                )
            except (TooLong, RuntimeError, OSError) as problem:
                skipped[name] = " ".join(str(problem).strip().splitlines()[-1:])
                continue
            if seen[name][-1].wall > SLOW:
                slow.add(name)
    return seen, skipped


def measure(size, turns, python, limit, only):
    """One size: a line per command. only : names of commands to run beside those that ratios are to; all if empty."""
    n, k, dtype = size
    ours = streaming() | (others_of_ours(k) if size in QUICK else {})
    with workspace() as folder:
        make_bundle(Path(folder) / "a.h5", n, k, dtype)
        if size in QUICK:
            make_bundle(Path(folder) / "test.h5", n, k, dtype, seed=1)
            cut(Path(folder) / "a.h5", Path(folder))
        others = ours | (bare() | peers(python) if size in QUICK else {})
        if only:
            others = {name: how for name, how in others.items() if name in only}
        commands = base() | others
        seen, skipped = in_turns(
            commands, ours, folder, turns if size in QUICK else min(turns, 3), limit
        )
    lines = [
        line(name, what, seen, name in ours)
        for name, (what, _) in commands.items()
        if seen[name]
    ]
    return {
        "n": n,
        "k": k,
        "dtype": dtype,
        "turns": len(seen["floor"]),
        "lines": lines,
        "skipped": skipped,
    }


def line(name, what, seen, ours):
    """The medians of one command; ratios within a turn."""
    over = "read + write" if what == "apply" else "floor"
    costs = seen[name]
    return {
        "name": name,
        "what": what,
        "ours": ours,
        "turns": len(costs),
        "cpu": median(c.cpu for c in costs),
        "wall": median(c.wall for c in costs),
        "peak_mib": median(c.peak for c in costs),
        "load": os.getloadavg()[0],
        "over": over,
        "ratio": median(c.cpu / f.cpu for c, f in zip(costs, seen[over], strict=False)),
    }


def with_lines(case, again):
    """A stored case with the lines that were measured again, but those that ratios are to."""
    fresh = {
        each["name"]: each for each in again["lines"] if each["name"] not in base()
    }
    lines = [fresh.pop(each["name"], each) for each in case["lines"]]
    skipped = {name: why for name, why in case["skipped"].items() if name not in fresh}
    return {
        **case,
        "lines": [*lines, *fresh.values()],
        "skipped": skipped | again["skipped"],
    }


def versions():
    """What it was measured with."""
    import numpy

    model = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            (
                line.split(":")[1].strip()
                for line in lines
                if line.startswith("model name")
            ),
            model,
        )
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "h5py": h5py.__version__,
    }


def table(run):
    """The run as Markdown."""
    cases = run["cases"]
    out = [
        "| CPU s (ratio), wall s, MiB | "
        + " | ".join(f"{c['n']} x {c['k']}, {c['dtype']}" for c in cases)
        + " |",
        "|---" * (1 + len(cases)) + "|",
    ]
    known = [
        name
        for case in cases
        for name in [*(each["name"] for each in case["lines"]), *case["skipped"]]
    ]
    for name in dict.fromkeys(known):
        cells = [cell(name, case, run["machine"]["cores"]) for case in cases]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    machine = run["machine"]
    out += [
        "",
        "Ratios are to *floor* (import NumPy, h5py and Typer, read the scores), for writers to *read + write*. Medians"
        f" of up to {max(c['turns'] for c in cases)} turns of whole processes, one of those above {SLOW:g} s;"
        f" {machine['cores']} shared cores"
        f" ({machine['processor']}), load {machine['load']:.0f} at the start (where it is above the number of cores"
        f" wall seconds say little; - where it was above twice that); peak memory is never"
        f" below that of the benchmark itself; Python {machine['python']}, NumPy {machine['numpy']}.",
    ]
    return "\n".join(out) + "\n"


def cell(name, case, cores):
    """What the table says of one command at one size; no wall seconds of a busy machine."""
    found = next((each for each in case["lines"] if each["name"] == name), None)
    if found is not None:
        wall = "-" if found.get("load", 0.0) > 2 * cores else f"{found['wall']:.2f}"
        return f"{found['cpu']:.2f} ({found['ratio']:.1f}), {wall}, {found['peak_mib']:.0f}"
    why = case["skipped"].get(name, "")
    return why if why.startswith("more than") else ""


def install(venv):
    """An environment of their own for the other programs."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pinned = ["--constraint", str(HERE.parent / "constraints.txt")]
    subprocess.run(
        [
            f"{venv}/bin/python",
            "-m",
            "pip",
            "install",
            "--quiet",
            *pinned,
            *PEERS.split(),
        ],
        check=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--table", metavar="FILE")
    given = parser.parse_args()
    if given.install_peers:
        return install(given.install_peers)
    if given.table:
        return print(table(json.loads(Path(given.table).read_text())), end="")
    python = (
        f"{os.path.abspath(given.peers)}/bin/python" if given.peers else sys.executable
    )
    only = given.only.split(",") if given.only else []
    stored = {}
    run = {"machine": versions(), "cases": []}
    if only and given.json:
        run = json.loads(Path(given.json).read_text())
        stored = {(case["n"], case["k"], case["dtype"]): case for case in run["cases"]}
    for size in FULL if given.full else QUICK:
        found = measure(size, given.turns, python, given.limit, only)
        if size in stored:
            place = run["cases"].index(stored[size])
            run["cases"][place] = with_lines(stored[size], found)
        else:
            run["cases"].append(found)
        for name, why in found["skipped"].items():
            print(f"{name} at {size[0]} x {size[1]} left out: {why}", file=sys.stderr)
        if given.json:
            Path(given.json).write_text(json.dumps(run, indent=1) + "\n")
    print(table(run), end="")


if __name__ == "__main__":
    main()
