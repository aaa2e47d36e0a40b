"""What the default report costs beside reading the file, what units cost, and long sums.

python benchmarks/evaluate.py [--rows 40000000] [--repeats 3]
python benchmarks/evaluate.py --units [--repeats 5]

The first measures whole processes, and the ECE of so many rows, in this process, against
the exact integers. The second ends with code 1 where a page of rows in units takes more
than three times the processor time of the same rows without.
"""

import sys
import time
from pathlib import Path

import h5py
import numpy as np
from _measure import (
    calcli,
    make_bundle_apart,
    median_costs,
    own_peak,
    parser_of,
    peer,
    print_cost,
    print_cost_head,
    workspace,
)

from calcli.binning import BinStats, binned_error, width_edges

SIZES = ((25_000, 1000), (10_000, 10))
ROWS_IN_UNITS, CLASSES_IN_UNITS, UNITS = 100_000, 100, 1000
MOST_FOR_UNITS = 3.0  # times the processor time without units
STEP = 4_000_000  # rows that are summed at once
TICKS = 1 << 20  # confidences are multiples of 1 / TICKS
BINS = 16
TICKS_OF_BIN = TICKS // BINS


def print_reports(repeats):
    """Print what a report costs, with and without the split of the loss."""
    width = 34
    print_cost_head(width)
    with workspace() as folder:
        for n, k in SIZES:
            path = Path(folder) / f"{n}x{k}.h5"
            make_bundle_apart(path, n, k)
            without_split = ("evaluate", path, "--no-decomposition", "-q")
            commands = {
                "read": peer("floor", str(path)),
                "evaluate --no-decomposition": calcli(*without_split),
                "evaluate": calcli("evaluate", path, "-q"),
            }
            costs = median_costs(commands, repeats)
            for name, measured in costs.items():
                print_cost(f"{n} x {k}, {name}", width, measured)
            ratio = costs["evaluate --no-decomposition"].cpu / costs["read"].cpu
            print(f"{'':{width}} {ratio:8.1f} times the processor time of reading")


def print_units(repeats):
    """Print what units cost; returns the exit code."""
    n, k = ROWS_IN_UNITS, CLASSES_IN_UNITS
    width = 44
    with workspace() as folder:
        path = Path(folder) / "units.h5"
        make_bundle_apart(path, n, k)
        with h5py.File(path, "a") as file:
            file["unit"] = np.random.default_rng(1).integers(0, UNITS, n)
        page = calcli("report", path, "-o", Path(folder) / "page.html", "--force", "-q")
        commands = {"by unit": page, "without": [*page, "--unit", "none"]}
        costs = median_costs(commands, repeats)
    for name, measured in costs.items():
        print_cost(f"report of {n} x {k}, {UNITS} units, {name}", width, measured)
    ratio = costs["by unit"].cpu / costs["without"].cpu
    words = f"times the processor time; at most {MOST_FOR_UNITS:g} are promised"
    print(f"{'':{width}} {ratio:8.2f} {words}")
    return 1 if ratio > MOST_FOR_UNITS else 0


class ExactBins:
    """Sums of confidences and of right predictions by bin, as integers."""

    def __init__(self):
        self.ticks = [0] * BINS
        self.hits = [0] * BINS

    def add(self, ticks, hits):
        """Add rows. ticks, hits : (n,) integers."""
        index = np.maximum((ticks + TICKS_OF_BIN - 1) // TICKS_OF_BIN - 1, 0)
        for place in range(BINS):
            in_bin = index == place
            self.ticks[place] += int(ticks[in_bin].sum())
            self.hits[place] += int(hits[in_bin].sum())

    def error(self, n):
        """The ECE of n rows."""
        total = 0
        for ticks, hits in zip(self.ticks, self.hits, strict=True):
            total += abs(ticks - hits * TICKS)
        return total / (n * TICKS)


def print_long_sums(n):
    """Print the ECE of n rows beside its exact value."""
    exact = ExactBins()
    stats = None
    seconds = 0.0
    for start in range(0, n, STEP):
        row = np.arange(start, min(start + STEP, n), dtype=np.int64)
        ticks = (row * 7919 + 13) % TICKS
        hits = ((row * 104729 + 7) % TICKS < ticks).astype(np.int64)
        scores = ticks / TICKS
        begun = time.perf_counter()
        block = BinStats.of(scores, hits.astype(np.float64), width_edges(BINS))
        stats = block if stats is None else stats + block
        seconds += time.perf_counter() - begun
        exact.add(ticks, hits)
    ece = float(binned_error(stats))
    expected = exact.error(n)
    relative_error = abs(ece / expected - 1)
    print(f"\n{n} rows: ECE {ece!r}, exact {expected!r},", end=" ")
    print(f"relative error {relative_error:.1e}")
    print(f"binning took {seconds:.1f} s, peak {own_peak():.0f} MiB")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=40_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--units", action="store_true", help="only what units cost")
    args = parser.parse_args()
    if args.units:
        return print_units(args.repeats)
    print_reports(args.repeats)
    print_long_sums(args.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
