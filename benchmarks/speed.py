"""Every command beside reading the file, beside a bare NumPy script, and beside other programs.

    python benchmarks/speed.py                                    a few minutes: 5000 x 100 and 25000 x 1000
    python benchmarks/speed.py --full                             1e3 to 1e7 rows, 2 to 128000 classes
    python benchmarks/speed.py --install-peers VENV               an environment for the other programs
    python benchmarks/speed.py --peers VENV --json speed.json     with them; results as JSON too
    python benchmarks/speed.py --table speed.json [--readme]      the table of a stored run; into the README

Whole processes taking turns; the figures are medians over turns, ratios are taken within a turn. *floor* imports
NumPy, h5py and Typer and reads the scores once; *read + write* copies them without computing. Processor time is what
a shared machine leaves comparable.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

from _measure import calcli, cost, make_bundle, workspace

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
STORED = HERE / "speed.json"
BEGIN, END = "<!-- speed -->\n", "<!-- /speed -->\n"

PEERS = "scikit-learn netcal probmetrics torchmetrics torch scipy h5py"

QUICK = ((5_000, 100, "float32"), (25_000, 1000, "float32"))
FULL = (
    *((1_000, 10, "float32"), *QUICK, (50_000, 1000, "float32"), (1_000_000, 10, "float32")),
    *((10_000_000, 2, "float16"), (2_000, 128_000, "float16")),
)
LARGE = 60_000_000
"""Scores above which only the streaming commands run, once."""


def beside(name, *words, python=sys.executable):
    """One of the scripts in ``beside/``."""
    return [python, str(HERE / "beside" / f"{name}.py"), *words]


def jobs(large, workers):
    """Commands by name: (what is compared, how to run it on a.h5)."""
    fit = ("fit", "a.h5", "--force", "-q", "-o")
    ours = {
        "fit ts": ("fit", calcli(*fit, "ts.json", "-m", "ts")),
        "fit ec": ("fit", calcli(*fit, "ec.json", "-m", "ec")),
        "apply": ("apply", calcli("apply", "ts.json", "a.h5", "-o", "out.h5", "--force", "-q")),
        "evaluate --metric ece": ("ece", calcli("evaluate", "a.h5", "--metric", "ece", "-q")),
    }
    if not large:
        ours["evaluate"] = ("", calcli("evaluate", "a.h5", "-q"))
        ours |= {f"fit {m}": ("", calcli(*fit, f"{m}.json", "-m", m)) for m in ("hoki", "ets", "vs", "svs")}
    for n in workers:
        ours[f"fit ts --workers {n}"] = ("", calcli(*fit, "ts.json", "-m", "ts", "--workers", n))
    return ours


def peers(python):
    """The other programs: (what they do, how to run them)."""
    return {
        "SciPy softmax": ("apply", beside("scipy_softmax", "a.h5", "peer.h5", python=python)),
        "scikit-learn": ("fit", beside("sklearn_fit", "a.h5", python=python)),
        "netcal, float64": ("fit", beside("netcal_fit", "a.h5", python=python)),
        "probmetrics": ("fit", beside("probmetrics_fit", "a.h5", python=python)),
        "torch script": ("fit", beside("torch_fit", "a.h5", python=python)),
        "torchmetrics": ("ece", beside("torchmetrics_ece", "a.h5", python=python)),
    }


def runnable(commands, folder):
    """Those commands that run at all, and why the others do not."""
    able, skipped = {}, {}
    for name, (what, command) in commands.items():
        try:
            cost(command, folder)
            able[name] = (what, command)
        except (RuntimeError, OSError) as problem:
            skipped[name] = " ".join(str(problem).strip().splitlines()[-1:])
    return able, skipped


def measure(size, turns, python, workers):
    """One size: a line per command."""
    n, k, dtype = size
    large = n * k > LARGE
    with workspace() as folder:
        make_bundle(Path(folder) / "a.h5", n, k, dtype)
        base = {
            "floor": ("", beside("floor", "a.h5")),
            "read + write": ("", beside("read_write", "a.h5", "copy.h5")),
        }
        bare = {
            "NumPy script, fit": ("fit", beside("bare_fit", "a.h5")),
            "NumPy script, apply": ("apply", beside("bare_apply", "a.h5", "bare.h5")),
            "NumPy script, ece": ("ece", beside("bare_ece", "a.h5")),
        }
        others, skipped = ({}, {}) if large else runnable(peers(python), folder)
        commands = base | jobs(large, workers) | ({} if large else bare) | others
        seen = {name: [] for name in commands}
        for _ in range(1 if large else turns):
            for name, (_, command) in commands.items():
                seen[name].append(cost(command, folder))
    lines = []
    for name, (what, _) in commands.items():
        ratio = "read + write" if what == "apply" else "floor"
        lines.append(
            {
                "name": name,
                "what": what,
                "ours": name in jobs(large, workers),
                "cpu": median(c.cpu for c in seen[name]),
                "wall": median(c.wall for c in seen[name]),
                "peak_mib": median(c.peak for c in seen[name]),
                "over": ratio,
                "ratio": median(c.cpu / f.cpu for c, f in zip(seen[name], seen[ratio], strict=True)),
            }
        )
    return {"n": n, "k": k, "dtype": dtype, "turns": len(seen["floor"]), "lines": lines, "skipped": skipped}


def versions():
    """What it was measured with."""
    import h5py
    import numpy

    model = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
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
        "| processor seconds (ratio) | " + " | ".join(f"{c['n']} x {c['k']}, {c['dtype']}" for c in cases) + " |",
        "|---" * (1 + len(cases)) + "|",
    ]
    names = list(dict.fromkeys(line["name"] for case in cases for line in case["lines"]))
    for name in names:
        cells = []
        for case in cases:
            line = next((line for line in case["lines"] if line["name"] == name), None)
            cells.append("" if line is None else f"{line['cpu']:.2f} ({line['ratio']:.1f})")
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    machine = run["machine"]
    out += [
        "",
        "Ratios are to *floor* (import NumPy, h5py and Typer, read the scores), for writers to *read + write*."
        f" Medians of {cases[0]['turns']} turns of whole processes; {machine['cores']} shared cores"
        f" ({machine['processor']}), Python {machine['python']}, NumPy {machine['numpy']}.",
    ]
    return "\n".join(out) + "\n"


def into_readme(text):
    """Put the table between its marks in the README."""
    whole = README.read_text()
    before, rest = whole.split(BEGIN)
    README.write_text(before + BEGIN + text + END + rest.split(END)[1])


def install(venv):
    """An environment of their own for the other programs."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([f"{venv}/bin/python", "-m", "pip", "install", "--quiet", *PEERS.split()], check=True)


def can_spread():
    """Whether fit takes --workers here."""
    told = subprocess.run(calcli("fit", "--help"), capture_output=True, text=True, check=True).stdout
    return "--workers" in told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--peers", metavar="VENV")
    parser.add_argument("--install-peers", metavar="VENV")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args()
    if given.install_peers:
        return install(given.install_peers)
    if given.table:
        text = table(json.loads(Path(given.table).read_text()))
        return into_readme(text) if given.readme else print(text, end="")
    python = f"{os.path.abspath(given.peers)}/bin/python" if given.peers else sys.executable
    run = {"machine": versions(), "cases": []}
    for size in FULL if given.full else QUICK:
        run["cases"].append(measure(size, given.turns, python, (1, 2) if can_spread() else ()))
        for name, why in run["cases"][-1]["skipped"].items():
            print(f"{name} left out: {why}", file=sys.stderr)
        if given.json:
            Path(given.json).write_text(json.dumps(run, indent=1) + "\n")
    print(table(run), end="")


if __name__ == "__main__":
    main()
