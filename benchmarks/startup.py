"""How long a whole command takes beside a process that only imports and reads.

python benchmarks/startup.py

Measured are ``fit`` with two methods on 10 000 rows of 10 classes, and ``--help``. Printed
are medians over turns; the ratio is the figure to watch (at most 1.5).
"""

import sys
from pathlib import Path

from _measure import calcli, make_bundle, median_costs, workspace

REPEATS = 15
IMPORT_AND_READ = """
import numpy, h5py, typer
with h5py.File("a.h5") as file:
    file["logits"][()], file["labels"][()]
"""


def main():
    commands = {"import and read": [sys.executable, "-c", IMPORT_AND_READ]}
    for method in ("ts", "ec"):
        fit = ("fit", "-m", method, "a.h5", "--force", "-q")
        commands[f"fit {method}"] = calcli(*fit)
    commands["--help"] = calcli("--help")
    with workspace() as folder:
        make_bundle(Path(folder) / "a.h5", 10_000, 10)
        costs = median_costs(commands, REPEATS, folder)
    least = costs["import and read"]
    head = f"{'wall s':>8} {'ratio':>6} {'cpu s':>8} {'ratio':>6} {'peak MiB':>9}"
    print(f"{'command':18} {head}")
    for name, one in costs.items():
        wall = f"{one.wall:8.3f} {one.wall / least.wall:6.2f}"
        cpu = f"{one.cpu:8.3f} {one.cpu / least.cpu:6.2f}"
        print(f"{name:18} {wall} {cpu} {one.peak:9.0f}")


if __name__ == "__main__":
    main()
