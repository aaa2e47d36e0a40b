"""A whole `fit --method ts` on 10000 x 10 against a process that only imports and reads.

Prints medians over turns; the ratio is the figure to watch (at most 1.5).
"""

import sys
from pathlib import Path

from _measure import calcli, make_bundle, median_costs, workspace

READ = "import numpy, h5py, typer\nwith h5py.File('a.h5') as f:\n    f['logits'][()], f['labels'][()]\n"


def main(repeats=15):
    with workspace() as folder:
        make_bundle(Path(folder) / "a.h5", 10_000, 10)
        commands = {"import and read": [sys.executable, "-c", READ]}
        for method in ("ts", "ec"):
            commands[f"fit {method}"] = calcli(
                "fit", "-m", method, "a.h5", "--force", "-q"
            )
        commands["--help"] = calcli("--help")
        costs = median_costs(commands, repeats, folder)
    base = costs["import and read"]
    print(
        f"{'command':18} {'wall s':>8} {'ratio':>6} {'cpu s':>8} {'ratio':>6} {'peak MiB':>9}"
    )
    for name, c in costs.items():
        print(
            f"{name:18} {c.wall:8.3f} {c.wall / base.wall:6.2f} {c.cpu:8.3f} {c.cpu / base.cpu:6.2f} {c.peak:9.0f}"
        )


if __name__ == "__main__":
    main()
