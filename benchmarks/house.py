"""How much there is to hold in the head: files and lines by room, and how deep calls go.

python benchmarks/house.py         # PYTHONPATH chooses another tree

A path counts the functions of calcli on the stack, from the command line's entry to the
first call of the function named, and the files that they stand in. One thread: what a pool
runs has no stack of its own then.
"""

import os
import sys
import tempfile
import traceback
from collections import defaultdict
from contextlib import chdir, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

import calcli
from calcli.cli.main import run

PACKAGE = Path(calcli.__file__).parent
ROWS = "rows.h5"
WRONG = "wrong.h5"  # a file with a label that is no class


class Goal(NamedTuple):
    """A command, and the file and function that its path ends in.

    Without a function the path ends in the first one called, or where the error that ends
    the command was raised.
    """

    command: list[str]
    file: str
    function: str | None


PATHS = {
    "fit -m ts, to its arithmetic": Goal(
        ["fit", ROWS, "-m", "ts", "-q"], "kernels/numpy/temperature.py", None
    ),
    "evaluate -m ece, to the formula": Goal(
        ["evaluate", ROWS, "-m", "ece", "-q"], "metrics/binned_errors.py", "ece"
    ),
    "--kind, to where it is read": Goal(
        ["evaluate", ROWS, "--kind", "logits", "-q"],
        "io/bundle_scores.py",
        "find_scores",
    ),
    "one block of rows, to its check": Goal(
        ["evaluate", ROWS, "-m", "ece", "-q"], "io/validate.py", "check_scores"
    ),
    "an error, back to its exit code": Goal(
        ["evaluate", WRONG, "-q"], "io/validate.py", None
    ),
}


def print_rooms() -> None:
    """Print files and lines by room."""
    lines_of_files = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        room = f"{parts[0]}/" if len(parts) > 1 else "*.py"
        n_lines = len(path.read_text(encoding="utf-8").splitlines())
        lines_of_files[room].append(n_lines)
    total = []
    for room, files in lines_of_files.items():
        print_room(room, files)
        total += files
    print_room("all", total)


def print_room(room: str, files: list[int]) -> None:
    print(f"{room:14} {len(files):4} files {sum(files):6} lines")


def is_ours(frame) -> bool:
    return frame.f_code.co_filename.startswith(f"{PACKAGE}{os.sep}")


def name_of(frame) -> str:
    file = Path(frame.f_code.co_filename).relative_to(PACKAGE)
    return f"{file}:{frame.f_code.co_name}"


def stack_of(frame) -> list[str]:
    """Functions of calcli above and in a frame, the entry first."""
    names = []
    while frame is not None:
        if is_ours(frame):
            names.append(name_of(frame))
        frame = frame.f_back
    return names[::-1]


def path_to(goal: Goal) -> list[str]:
    """The stack at the goal of a command."""
    path: list[str] = []

    def look(frame, event, argument) -> None:
        code = frame.f_code
        if path or event != "call" or not code.co_filename.endswith(goal.file):
            return
        if goal.function is not None and goal.function != code.co_name:
            return
        names = stack_of(frame)
        is_import = any(name.endswith(":<module>") for name in names)
        if not is_import:
            path.extend(names)

    sys.setprofile(look)
    try:
        with suppress(SystemExit):
            run(goal.command)
    except calcli.errors.CalcliError as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        path = [name_of(frame) for frame in frames if is_ours(frame)]
    finally:
        sys.setprofile(None)
    return path


def write_files() -> None:
    """Write the files of the commands into the working folder."""
    rng = np.random.default_rng(0)
    labels_of = {ROWS: rng.integers(0, 5, 1000), WRONG: np.full(1000, 5)}
    for name, labels in labels_of.items():
        with h5py.File(name, "w") as file:
            file["logits"] = rng.normal(size=(1000, 5))
            file["labels"] = labels


def main() -> None:
    print_rooms()
    one_core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {one_core})
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        open(os.devnull, "w", encoding="utf-8") as nowhere,
    ):
        write_files()
        for name, goal in PATHS.items():
            with redirect_stdout(nowhere):
                calls = path_to(goal)
            files = {call.partition(":")[0] for call in calls}
            print(f"\n{name}: {len(calls)} calls in {len(files)} files")
            print("  " + "\n  ".join(calls))


if __name__ == "__main__":
    main()
