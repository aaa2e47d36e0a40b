"""Results of a benchmark: a table printed line by line, and JSON with an entry a line.

python benchmarks/_stored.py FILE.json     # print a stored table again
"""

import json
import math
import sys
from pathlib import Path

import numpy as np


def read_entries(path):
    """Entries of a file of results; none where there is no such file."""
    if path is None or not path.exists():
        return []
    return json.loads(path.read_text(encoding="utf-8"))


def write_entries(path, entries):
    """Write results as JSON, one entry a line, so that a change can be read."""
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def mean_and_error(values):
    """What a cell holds of repeated runs: mean and standard error."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return [float(np.mean(values)), float(error)]


def means_of(runs):
    """Mean and standard error of every figure. runs : dictionaries with the same keys."""
    means = {}
    for name in runs[0]:
        means[name] = mean_and_error([run[name] for run in runs])
    return means


def cell_text(cell):
    """A cell in words: a text, a number, or a mean with its standard error.

    A mean is written down to the second digit of its standard error.
    """
    if cell is None:
        return ""
    if not isinstance(cell, list):
        return str(cell)
    mean, error = cell
    if error > 0:
        digits = max(1 - math.floor(math.log10(error)), 0)
        return f"{mean:.{digits}f} ± {error:.{digits}f}"
    if mean == int(mean):
        return f"{mean:.0f}"
    return f"{mean:.3f}"


def markdown_head(columns):
    """The first two lines of a table."""
    return f"{markdown_row(columns)}\n{'|---' * len(columns)}|"


def markdown_row(cells):
    """A line of a table. cells : texts."""
    return f"| {' | '.join(cells)} |"


class Lines:
    """A table in Markdown on stdout, line by line; with a path as JSON in that file too."""

    def __init__(self, path=None):
        self.path = path
        self.entries = []

    def add(self, **cells):
        """Add a line, its cells by the names of the columns."""
        if not self.entries:
            print(markdown_head(list(cells)))
        self.entries.append(cells)
        texts = [cell_text(cell) for cell in cells.values()]
        print(markdown_row(texts), flush=True)
        if self.path is not None:
            write_entries(self.path, self.entries)


def main():
    lines = Lines()
    for entry in read_entries(Path(sys.argv[1])):
        lines.add(**entry)


if __name__ == "__main__":
    main()
