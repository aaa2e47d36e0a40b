"""How much there is to hold in the head: files and lines of every room, and calls from a command to what it is about.

python benchmarks/house.py         # PYTHONPATH chooses another tree

A path counts the functions of calcli on the stack, from the command line's entry to the first call of the function
named, and the files that they stand in. One thread: what a pool runs has no stack of its own then.
"""

import os
import sys
import tempfile
import traceback
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np

import calcli
from calcli.cli.main import run

PACKAGE = Path(calcli.__file__).parent

PATHS = {
    "fit -m ts, to its arithmetic": (
        ["fit", "rows.h5", "-m", "ts", "-q"],
        "kernels/numpy/temperature.py",
        None,
    ),
    "evaluate -m ece, to the formula": (
        ["evaluate", "rows.h5", "-m", "ece", "-q"],
        "metrics/binned_errors.py",
        "ece",
    ),
    "--kind, to where it is read": (
        ["evaluate", "rows.h5", "--kind", "logits", "-q"],
        "io/bundle.py",
        "_find_scores",
    ),
    "one block of rows, to its check": (
        ["evaluate", "rows.h5", "-m", "ece", "-q"],
        "io/validate.py",
        "check_scores",
    ),
    "an error, back to its exit code": (
        ["evaluate", "wrong.h5", "-q"],
        "io/validate.py",
        None,
    ),
}
"""By name the command, and the file and function that its path ends in; without a function the first one called."""


def rooms() -> None:
    """Files and lines by room."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        found[f"{parts[0]}/" if len(parts) > 1 else "*.py"].append(
            len(path.read_text(encoding="utf-8").splitlines())
        )
    found["all"] = [lines for room in found.values() for lines in room]
    for room, files in found.items():
        print(f"{room:14} {len(files):4} files {sum(files):6} lines")


def stack(frame) -> list[str]:
    """Functions of calcli above and in a frame, the entry first."""
    names = []
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(f"{PACKAGE}{os.sep}"):
            names.append(f"{Path(file).relative_to(PACKAGE)}:{frame.f_code.co_name}")
        frame = frame.f_back
    return names[::-1]


def path_of(command: list[str], file: str, function: str | None) -> list[str]:
    """The stack at the first call of a function, or at the raising of the error that ends the command."""
    found: list[str] = []

    def seen(frame, event, argument) -> None:
        code = frame.f_code
        if (
            found
            or event != "call"
            or not code.co_filename.endswith(file)
            or function not in (None, code.co_name)
        ):
            return
        names = stack(frame)
        if not any(
            name.endswith(":<module>") for name in names
        ):  # while it is imported
            found.extend(names)

    sys.setprofile(seen)
    try:
        with suppress(SystemExit):
            run(command)
    except calcli.errors.CalcliError as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        found = [
            name
            for frame in frames
            for name in stack(frame)[-1:]
            if frame.f_code.co_filename.startswith(str(PACKAGE))
        ]
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    rooms()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rng = np.random.default_rng(0)
    os.chdir(tempfile.mkdtemp())
    for name, labels in (
        ("rows", rng.integers(0, 5, 1000)),
        ("wrong", np.full(1000, 5)),
    ):
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = rng.normal(size=(1000, 5)), labels
    output = sys.stdout
    for what, about in PATHS.items():
        with open(os.devnull, "w", encoding="utf-8") as sys.stdout:
            calls = path_of(*about)
        sys.stdout = output
        print(
            f"\n{what}: {len(calls)} calls in {len({call.partition(':')[0] for call in calls})} files"
        )
        print("  " + "\n  ".join(calls))


if __name__ == "__main__":
    main()
