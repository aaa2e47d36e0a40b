"""Does every export of every method agree with ``apply``?

python benchmarks/exports.py [FILE.npz|.h5 ...] [-o OUT.json]

Fits each method on half of a file (sample_data/digits.h5) and exports it three ways.
Printed is, per file and method, the largest difference of a probability on the other half,
on random rows and on extreme ones, or why there is no export. Lines that OUT.json has
already are kept, so that the command goes on where it was stopped. ``make exports
DATA=FOLDER`` writes the table that docs/serving.md shows.
"""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from _measure import REPOSITORY, parser_of

import calcli
from calcli.errors import CalcliError
from calcli.exporting.exporting import TARGETS, export
from calcli.exporting.verify import compare
from calcli.registry import method_names

COMPOSED = ("ts+hb", "svs+beta", "ft+svs+spline")
"""Compositions, one for each way in which stages hand on."""

SAMPLE = REPOSITORY / "sample_data" / "digits.h5"


class Rows(NamedTuple):
    """Logits and labels to fit to, and logits to try."""

    logits: np.ndarray
    labels: np.ndarray
    others: np.ndarray


def rows_of(path: Path) -> Rows:
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            cal = file["cal"]
            return Rows(cal["logits"][()], cal["labels"][()], file["test/logits"][()])
    with np.load(path) as file:
        z, labels = file["logits"], file["labels"]
    half = len(z) // 2
    return Rows(z[:half], labels[:half], z[half:])


def line_of(method: str, path: Path) -> dict[str, Any]:
    """Largest difference per target, and the rows tried; or the reason there is no export.

    predictions : rows with another prediction. on_jumps : rows next to a jump of the map.
    """
    rows = rows_of(path)
    n_classes = rows.logits.shape[1]
    line: dict[str, Any] = {"file": path.stem, "classes": n_classes, "method": method}
    try:
        artifact = calcli.fit(rows.logits, rows.labels, method=method)._artifact
        for target in TARGETS:
            exported = export(artifact, target)
            on_others = compare(exported.run, artifact, rows.others)
            agreement = exported.agreement + on_others
            line[target] = agreement.difference
            line["rows"] = agreement.rows
            line["predictions"] = line.get("predictions", 0) + agreement.labels
            line["on_jumps"] = max(line.get("on_jumps", 0), agreement.on_jumps)
    except CalcliError as reason:
        line["refused"] = str(reason)
    return line


def words_of(line: dict[str, Any]) -> str:
    if "refused" in line:
        return line["refused"]
    return " ".join(f"{target} {line[target]:.1e}" for target in TARGETS)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=[SAMPLE])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--methods", nargs="*", default=[*method_names(), *COMPOSED])
    args = parser.parse_args()
    lines = []
    if args.out is not None and args.out.exists():
        lines = json.loads(args.out.read_text(encoding="utf-8"))
    done = {(line["file"], line["method"]) for line in lines}
    for path in args.files:
        for method in args.methods:
            if (path.stem, method) in done:
                continue
            start = time.process_time()
            line = line_of(method, path)
            seconds = time.process_time() - start
            lines.append(line)
            words = f"{path.stem} {method}: {words_of(line)}"
            print(f"{words} ({seconds:.1f} CPU s)", flush=True)
            if args.out is not None:
                text = json.dumps(lines, indent=1)
                args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
