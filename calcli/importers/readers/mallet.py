"""Classifications that MALLET prints: the labels of each document with their scores."""

import re
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.label_scores import (
    is_distribution,
    scores_by_label,
    scores_with_colons,
)
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.io.cells import is_number

RAW = re.compile(r"(?P<id>\S+) (?P<label>\S+)(?P<pairs>( \S+:[-+.\deE]+)+) ?")
"""A line of ``--report test:raw``: document, its label, the labels with their scores."""

SECTION = re.compile(r" Raw (?P<split>Training|Testing|Validation) Data")
SPLITS = {"Training": "train", "Testing": "test", "Validation": "val"}


def _has_reports(file: SourceFile) -> bool:
    """True for a report of raw classifications."""
    if any(map(SECTION.fullmatch, file.first_lines)):
        return True
    return _row_of_report(file.first_line) is not None


def _has_columns(file: SourceFile) -> bool:
    """True for lines of ``classify-file``: a name, and two labels or more."""
    row = _row_of_columns(file.first_line)
    return row is not None and len(row["probs"]) > 1 and is_distribution(row["probs"])


@reader(
    "mallet",
    "classifications of MALLET: --report test:raw, or classify-file",
    suffixes=[".txt"],
    sniff=lambda file: file.is_text and (_has_reports(file) or _has_columns(file)),
    order=-1,
    examples=[("raw.txt", ""), ("classified.txt", "--gold truth.csv")],
)
def read_mallet(file: SourceFile) -> Table:
    """Read the probabilities of all labels.

    A report has the right labels too; other lines of it are passed over. Several
    sections become splits.
    """
    rows = _rows_of_report(file) if _has_reports(file) else _rows_of_columns(file)
    if not rows:
        raise DataError(f"{file.path}: holds no classification")
    return Table(file.path, "mallet", {}, records=rows)


def _rows_of_report(file: SourceFile) -> list[dict[str, Any]]:
    rows = []
    split = None
    for _, line in file.lines():
        section = SECTION.fullmatch(line)
        if section is not None:
            split = SPLITS[section["split"]]
        row = _row_of_report(line)
        if row is not None:
            rows.append({**row, "split": split})
    if len({row["split"] for row in rows}) == 1:
        for row in rows:
            del row["split"]
    return rows


def _row_of_report(line: str) -> dict[str, Any] | None:
    """Document, label and scores of a line of a report; None for another line.

    The scores sum to 1, and the label is among theirs.
    """
    match = RAW.fullmatch(line)
    if match is None:
        return None
    probs = scores_with_colons(match["pairs"])
    if not probs or match["label"] not in probs or not is_distribution(probs):
        return None
    return {"ids": match["id"], "label": match["label"], "probs": probs}


def _rows_of_columns(file: SourceFile) -> list[dict[str, Any]]:
    rows = []
    for where, line in file.lines():
        row = _row_of_columns(line)
        if row is None:
            expected = "expected a name, and pairs of a label and its score"
            raise DataError(f"{where}: {expected}")
        rows.append(row)
    return rows


def _row_of_columns(line: str) -> dict[str, Any] | None:
    """Document and scores of a line of ``classify-file``; None for another line."""
    name, *cells = line.rstrip("\t").split("\t")
    probs = scores_by_label(cells[::2], cells[1::2])
    if not probs or any(map(is_number, probs)):
        return None
    return {"ids": name, "probs": probs}
