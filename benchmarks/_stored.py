"""Lines of a benchmark's table: printed as they are found, kept in a file, printed again from it.

python benchmarks/_stored.py FILE.json
"""

import json
import math
import sys
from pathlib import Path

import numpy as np


def mean(values):
    """What a cell holds of repeated runs: mean and standard error."""
    return [
        float(np.mean(values)),
        float(np.std(values, ddof=1) / math.sqrt(len(values))),
    ]


def shown(cell):
    """A cell in words: text, a number, or a mean with its standard error, to the latter's second digit."""
    if not isinstance(cell, list):
        return "" if cell is None else str(cell)
    value, error = cell
    digits = (
        max(1 - math.floor(math.log10(error)), 0)
        if error > 0
        else 0
        if value == int(value)
        else 3
    )
    return f"{value:.{digits}f}" + f" ± {error:.{digits}f}" * (error > 0)


class Lines:
    """A table with one line after the other, as Markdown on stdout; with a path as JSON in that file too."""

    def __init__(self, path=None):
        self.path, self.kept = path, []

    def add(self, **cells):
        """One line, its cells by the names of the columns."""
        if not self.kept:
            print(f"| {' | '.join(cells)} |\n{'|---' * len(cells)}|")
        self.kept.append(cells)
        print(f"| {' | '.join(map(shown, cells.values()))} |", flush=True)
        if self.path is not None:
            self.path.write_text(
                "[\n" + ",\n".join(map(json.dumps, self.kept)) + "\n]\n",
                encoding="utf-8",
            )


if __name__ == "__main__":
    again = Lines()
    for line in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        again.add(**line)
