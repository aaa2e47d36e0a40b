"""Time, peak memory and passes over the file of fit, apply and evaluate on 50000 x 1000 float32.

Passes are counted in a process of their own by wrapping the dataset's read.
"""

import subprocess
import sys
from pathlib import Path

from _measure import calcli, cost, make_bundle, workspace

COUNT = """
import sys, h5py
from calcli.cli.main import run
read = h5py.Dataset.__getitem__
seen = [0]
def counted(self, key, *more):
    out = read(self, key, *more)
    if self.name.endswith('logits'):
        seen[0] += out.shape[0] if out.ndim else 0
    return out
h5py.Dataset.__getitem__ = counted
run(sys.argv[2:])
print(seen[0] / int(sys.argv[1]))
"""


def main(n=50_000, k=1000):
    with workspace() as folder:
        path = make_bundle(Path(folder) / "big.h5", n, k)
        size = path.stat().st_size / 2**20
        print(f"{n} x {k} float32, {size:.0f} MiB")
        print(
            f"{'command':30} {'wall s':>8} {'cpu s':>8} {'peak MiB':>9} {'passes':>7}"
        )
        jobs = {
            "fit ts": ("fit", "-m", "ts", "big.h5", "--force", "-q"),
            "fit ec": ("fit", "-m", "ec", "big.h5", "--force", "-q"),
            "apply ts": (
                "apply",
                "big.ts.json",
                "big.h5",
                "-o",
                "out.h5",
                "--force",
                "-q",
            ),
            "evaluate": ("evaluate", "big.h5", "--no-decomposition", "-q"),
            "evaluate --calibrator ts": (
                "evaluate",
                "big.h5",
                "--calibrator",
                "big.ts.json",
                "--no-decomposition",
                "-q",
            ),
        }
        for name, words in jobs.items():
            c = cost(calcli(*words), folder)
            counted = subprocess.run(
                [sys.executable, "-c", COUNT, str(n), *words],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
            passes = float(counted.stdout.split()[-1])
            print(f"{name:30} {c.wall:8.2f} {c.cpu:8.2f} {c.peak:9.0f} {passes:7.1f}")


if __name__ == "__main__":
    main()
