"""Whole-process cost of the default report beside reading the file, that of units, and sums over 4e7 rows.

python benchmarks/evaluate.py [--rows 40000000] [--repeats 3]
python benchmarks/evaluate.py --units [--repeats 5]     # exit code 1 where units take three times the time of none
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
from _measure import calcli, median_costs, workspace

from calcli.binning import BinStats, binned_error, width_edges

HERE = Path(__file__).parent
MAKE = "import sys, _measure; _measure.make_bundle(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))"
READ = """
import sys, h5py, numpy, typer
with h5py.File(sys.argv[1]) as file:
    scores = file["logits"]
    step = max(1, (4 << 20) // (4 * scores.shape[1]))
    for at in range(0, len(scores), step):
        scores[at : at + step]
"""


def reports(repeats):
    print(f"{'':34} {'wall s':>8} {'cpu s':>8} {'peak MiB':>9}")
    with workspace() as folder:
        for n, k in ((25_000, 1000), (10_000, 10)):
            path = Path(folder) / f"{n}x{k}.h5"
            # In a process of its own: a child's peak memory starts from its parent's.
            subprocess.run(
                [sys.executable, "-c", MAKE, str(path), str(n), str(k)],
                cwd=HERE,
                check=True,
            )
            commands = {
                "read": [sys.executable, "-c", READ, str(path)],
                "evaluate --no-decomposition": [
                    sys.executable,
                    "-m",
                    "calcli",
                    "evaluate",
                    str(path),
                    "--no-decomposition",
                    "-q",
                ],
                "evaluate": [
                    sys.executable,
                    "-m",
                    "calcli",
                    "evaluate",
                    str(path),
                    "-q",
                ],
            }
            costs = median_costs(commands, repeats)
            for name, c in costs.items():
                print(
                    f"{f'{n} x {k}, {name}':34} {c.wall:8.2f} {c.cpu:8.2f} {c.peak:9.0f}"
                )
            ratio = costs["evaluate --no-decomposition"].cpu / costs["read"].cpu
            print(f"{'':34} {ratio:8.1f} times the processor time of reading")


def by_unit(repeats):
    """Times the processor time that a page of rows in units takes of the one of the same rows without."""
    n, k, units = 100_000, 100, 1000
    with workspace() as folder:
        path = Path(folder) / "units.h5"
        subprocess.run(
            [sys.executable, "-c", MAKE, str(path), str(n), str(k)],
            cwd=HERE,
            check=True,
        )
        with h5py.File(path, "a") as file:
            file["unit"] = np.random.default_rng(1).integers(0, units, n)
        page = calcli("report", path, "-o", Path(folder) / "page.html", "--force", "-q")
        costs = median_costs(
            {"by unit": page, "without": [*page, "--unit", "none"]}, repeats
        )
    ratio = costs["by unit"].cpu / costs["without"].cpu
    for name, c in costs.items():
        print(
            f"{f'report of {n} x {k}, {units} units, {name}':44} {c.wall:8.2f} {c.cpu:8.2f} {c.peak:9.0f}"
        )
    print(f"{'':44} {ratio:8.2f} times the processor time; at most 3 are promised")
    return int(ratio > 3.0)


def many_rows(rows):
    """ECE of confidences that are multiples of 2^-20, beside the exact integers."""
    step, total = 4_000_000, None
    conf_sum, hit_sum = [0] * 16, [0] * 16
    seconds = 0.0
    for start in range(0, rows, step):
        i = np.arange(start, min(start + step, rows), dtype=np.int64)
        ticks = (i * 7919 + 13) % (1 << 20)
        hits = ((i * 104729 + 7) % (1 << 20) < ticks).astype(np.float64)
        scores = ticks / (1 << 20)
        begun = time.perf_counter()
        stats = BinStats.of(scores, hits, width_edges(16))
        total = stats if total is None else total + stats
        seconds += time.perf_counter() - begun
        index = np.maximum((ticks + (1 << 16) - 1) // (1 << 16) - 1, 0)
        for b in range(16):
            here = index == b
            conf_sum[b] += int(ticks[here].sum())
            hit_sum[b] += int(hits[here].astype(np.int64).sum())
    exact = sum(abs(a - (b << 20)) for a, b in zip(conf_sum, hit_sum, strict=True)) / (
        rows << 20
    )
    found = float(binned_error(total))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\n{rows} rows: ECE {found!r}, exact {exact!r}, relative error {abs(found / exact - 1):.1e}"
    )
    print(f"binning took {seconds:.1f} s, peak {peak:.0f} MiB")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=40_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--units", action="store_true", help="only what units cost")
    given = parser.parse_args()
    if given.units:
        return by_unit(given.repeats)
    reports(given.repeats)
    many_rows(given.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
