"""Time, peak memory and passes over the file of fit, apply and evaluate.

python benchmarks/streaming.py

The file has 50 000 rows of 1000 classes in float32. Passes are counted in a process of
their own, in which reading the dataset of logits is counted.
"""

import subprocess
import sys
from pathlib import Path

from _measure import (
    calcli,
    cost,
    make_bundle,
    print_cost,
    print_cost_head,
    workspace,
)

ROWS = 50_000
CLASSES = 1000
WIDTH = 30  # of the names in the table

QUIET = ("--force", "-q")
JOBS = {
    "fit ts": ("fit", "-m", "ts", "big.h5", *QUIET),
    "fit ec": ("fit", "-m", "ec", "big.h5", *QUIET),
    "apply ts": ("apply", "big.ts.json", "big.h5", "-o", "out.h5", *QUIET),
    "evaluate": ("evaluate", "big.h5", "--no-decomposition", "-q"),
    "evaluate --calibrator ts": (
        *("evaluate", "big.h5", "--calibrator", "big.ts.json"),
        *("--no-decomposition", "-q"),
    ),
}
"""Words of the commands by name; ``apply`` takes what ``fit`` wrote."""

COUNT_ROWS_READ = """
import sys, h5py
from calcli.cli.main import run
read = h5py.Dataset.__getitem__
n_read = 0

def counted(dataset, key, *more):
    global n_read
    rows = read(dataset, key, *more)
    if dataset.name.endswith("logits") and rows.ndim:
        n_read += len(rows)
    return rows

h5py.Dataset.__getitem__ = counted
run(sys.argv[1:])
print(n_read)
"""


def passes(words, folder):
    """How often a command reads the logits."""
    process = subprocess.run(
        [sys.executable, "-c", COUNT_ROWS_READ, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(process.stdout.split()[-1]) / ROWS


def main():
    with workspace() as folder:
        path = make_bundle(Path(folder) / "big.h5", ROWS, CLASSES)
        size = path.stat().st_size / 2**20
        print(f"{ROWS} x {CLASSES} float32, {size:.0f} MiB")
        print_cost_head(WIDTH, f"{'passes':>7}")
        for name, words in JOBS.items():
            measured = cost(calcli(*words), folder)
            print_cost(name, WIDTH, measured, f"{passes(words, folder):7.1f}")


if __name__ == "__main__":
    main()
