"""Compare what commands cost in two revisions: seconds, processor seconds and memory.

python benchmarks/machinery.py REV_A REV_B [--repeats N] [NAME ...]

A revision is anything that git knows, or a folder that holds a tree. The commands take
turns, and medians are printed, with the ratio of B to A. NAME chooses among the
commands; a name ending in ``*`` chooses all that begin so. On a machine that others
use, the processor seconds say more than the clock.

Processor seconds, after / before, medians of 5 to 11 turns on two shared cores:

series and vecdot gone    ts: small .98, wide 1.08, long .96; ec: wide 1.05, long .97;
                          ft: wide 1.08, long 1.05; ets: wide 1.12; svs: small 1.02
plain end of a process    methods 1.05, ts-small 1.08 (15 ms), evaluate-small 1.02
NumPy's quantile, unique  evaluate-small 1.02, evaluate-wide 1.08 (30 ms with the above)
standard data classes     version .99, methods 1.20 (30 ms), sample 1.13 (21 ms),
                          ts-small 1.11 (21 ms), evaluate-small 1.07 (32 ms)
all of these              version +2 ms, methods +44 ms, sample +16 ms

Processor seconds and memory of metrics of 1e7 x 10 scores, single runs on the same cores:

orders sorted on disk     evaluate-tall 7.3 s, 183 MiB; ece-tall 4.3 s, 119 MiB
orders in memory (taken)  evaluate-tall 7.1 s, 230 MiB; ece-tall has no order
a table of all rows       evaluate-tall 45.9 s, 2017 MiB; ece-tall 8.0 s, 1101 MiB
"""

import compileall
import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from _measure import (
    REPOSITORY,
    Cost,
    calcli,
    cost,
    make_bundle,
    median_cost,
    parser_of,
    workspace,
)

SIZES = {
    "small": (5000, 100),
    "wide": (25_000, 1000),
    "long": (2_000_000, 10),
    "many": (1_000_000, 10),
    "tall": (10_000_000, 10),
}
"""Name of a file: its rows and classes."""

COMMANDS = {
    "version": ["--version"],
    "methods": ["methods"],
    "sample": ["fit", "-m", "ts", "{sample}"],
    "ts-small": ["fit", "-m", "ts", "small.h5"],
    "ts-wide": ["fit", "-m", "ts", "wide.h5"],
    "ts-long": ["fit", "-m", "ts", "long.h5"],
    "ec-small": ["fit", "-m", "ec", "small.h5"],
    "ec-wide": ["fit", "-m", "ec", "wide.h5"],
    "ec-long": ["fit", "-m", "ec", "long.h5"],
    "ft-small": ["fit", "-m", "ft", "small.h5"],
    "ft-wide": ["fit", "-m", "ft", "wide.h5"],
    "ft-long": ["fit", "-m", "ft", "long.h5"],
    "svs-small": ["fit", "-m", "svs", "small.h5"],
    "ets-wide": ["fit", "-m", "ets", "wide.h5"],
    "evaluate-small": ["evaluate", "small.h5"],
    "evaluate-wide": ["evaluate", "wide.h5"],
    "evaluate-many": ["evaluate", "many.h5"],
    "evaluate-tall": ["evaluate", "tall.h5"],
    "ece-tall": ["evaluate", "tall.h5", "-m", "ece", "-m", "nll"],
}
"""Name of a command: its words."""

SAMPLE = f"{REPOSITORY}/sample_data/digits.h5:cal"


def tree_of(revision: str, folder: Path) -> Path:
    """Unpack the package as it stands in a revision; a folder is compiled only."""
    if Path(revision).is_dir():
        tree = Path(revision).resolve()
    else:
        command = ["git", "archive", revision, "calcli"]
        archive = subprocess.run(
            command, cwd=REPOSITORY, check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as packed:
            packed.extractall(folder, filter="data")
        tree = folder
    compileall.compile_dir(tree / "calcli", quiet=2)
    return tree


def words_of(name: str) -> list[str]:
    """Words of a command, with where its output goes."""
    words = [word.format(sample=SAMPLE) for word in COMMANDS[name]]
    if words[0] == "fit":
        words += ["-o", "fitted.json", "--force", "-q"]
    return words


def chosen_names(patterns: list[str]) -> list[str]:
    """Commands that the patterns choose; all of them without patterns."""
    if not patterns:
        return list(COMMANDS)
    names = []
    for pattern in patterns:
        if pattern.endswith("*"):
            names += [name for name in COMMANDS if name.startswith(pattern[:-1])]
        else:
            names.append(pattern)
    return names


def medians(
    name: str, trees: dict[str, Path], repeats: int, folder: str
) -> dict[str, Cost]:
    """Median cost of a command in each tree, the trees taking turns."""
    costs: dict[str, list[Cost]] = {tree: [] for tree in trees}
    command = calcli(*words_of(name))
    for _ in range(repeats):
        for tree, path in trees.items():
            os.environ["PYTHONPATH"] = str(path)
            costs[tree].append(cost(command, folder))
    return {tree: median_cost(several) for tree, several in costs.items()}


def write_files(names: list[str], folder: Path) -> None:
    """Write the files that the commands read."""
    words = {word for name in names for word in COMMANDS[name]}
    for size, (n, k) in SIZES.items():
        if f"{size}.h5" in words:
            make_bundle(folder / f"{size}.h5", n, k)


def print_head() -> None:
    seconds = f"{'wall a':>8} {'b':>8} {'ratio':>6} {'cpu a':>8} {'b':>8} {'ratio':>6}"
    print(f"{'command':16} {seconds} {'MiB a':>6} {'b':>6}")


def print_line(name: str, a: Cost, b: Cost) -> None:
    wall = f"{a.wall:8.3f} {b.wall:8.3f} {b.wall / a.wall:6.2f}"
    cpu = f"{a.cpu:8.3f} {b.cpu:8.3f} {b.cpu / a.cpu:6.2f}"
    peak = f"{a.peak:6.0f} {b.peak:6.0f}"
    print(f"{name:16} {wall} {cpu} {peak}", flush=True)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("revision", nargs=2)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_intermixed_args()
    names = chosen_names(args.name)
    first, second = args.revision
    with workspace() as folder:
        trees = {
            "a": tree_of(first, Path(folder) / "a"),
            "b": tree_of(second, Path(folder) / "b"),
        }
        write_files(names, Path(folder))
        print_head()
        for name in names:
            costs = medians(name, trees, args.repeats, folder)
            print_line(name, costs["a"], costs["b"])


if __name__ == "__main__":
    main()
