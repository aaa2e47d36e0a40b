"""Does every export of every method agree with ``apply``? Fits each on half of a file and exports it three ways.

``python benchmarks/exports.py [FILE.npz|.h5…] [-o OUT.json]`` prints, per file and method, the largest difference of a
probability on the other half, on random rows and on extreme ones, or why there is no export. Lines that OUT.json
has already are kept, so that the command goes on where it was stopped. ``make exports DATA=FOLDER`` writes the table
that docs/serving.md shows.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import calcli
from calcli.errors import CalcliError
from calcli.exporting.exporting import TARGETS, export
from calcli.exporting.verify import compare
from calcli.registry import method_names

COMPOSED = ("ts+hb", "svs+beta", "ft+svs+spline")
"""Compositions, one for each way in which stages hand on."""

SAMPLE = Path(__file__).resolve().parent.parent / "sample_data" / "digits.h5"


def rows_of(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits and labels to fit to, and logits to try."""
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return (
                file["cal/logits"][()],
                file["cal/labels"][()],
                file["test/logits"][()],
            )
    with np.load(path) as file:
        z, y = file["logits"], file["labels"]
    return z[: len(z) // 2], y[: len(z) // 2], z[len(z) // 2 :]


def line_of(method: str, path: Path) -> dict[str, Any]:
    """Largest difference per target, rows with another prediction, and the rows tried; or the reason there is none."""
    z, y, other = rows_of(path)
    line: dict[str, Any] = {"file": path.stem, "classes": z.shape[1], "method": method}
    try:
        artifact = calcli.fit(z, y, method=method)._artifact
        for target in TARGETS:
            made = export(artifact, target)
            agreement = made.agreement + compare(made.run, artifact, other)
            line[target] = agreement.difference
            line["rows"] = agreement.rows
            line["predictions"] = line.get("predictions", 0) + agreement.labels
            line["on_jumps"] = max(line.get("on_jumps", 0), agreement.on_jumps)
    except CalcliError as reason:
        line["refused"] = str(reason)
    return line


def main() -> None:
    """Go through files and methods, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=[SAMPLE])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--methods", nargs="*", default=[*method_names(), *COMPOSED])
    args = parser.parse_args()
    found = json.loads(args.out.read_text()) if args.out and args.out.exists() else []
    done = {(line["file"], line["method"]) for line in found}
    for path in args.files:
        for method in args.methods:
            if (path.stem, method) in done:
                continue
            start = time.process_time()
            line = line_of(method, path)
            found.append(line)
            told = line.get("refused") or " ".join(
                f"{target} {line[target]:.1e}" for target in TARGETS
            )
            print(
                f"{path.stem} {method}: {told} ({time.process_time() - start:.1f} CPU s)",
                flush=True,
            )
            if args.out:
                args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
