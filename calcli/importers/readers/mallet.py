"""Classifications that MALLET prints: the labels of each document with their scores."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.records import Ranks
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.io.cells import is_number
from calcli.rounding import SUM_TOLERANCE

RAW = re.compile(r"(?P<id>\S+) (?P<label>\S+)(?P<pairs>( \S+:[-+.\deE]+)+) ?")
"""A line of ``--report test:raw``: document, its label, the labels with their scores."""

SECTION = re.compile(r" Raw (?P<split>Training|Testing|Validation) Data")
SPLITS = {"Training": "train", "Testing": "test", "Validation": "val"}


def _has_reports(file: SourceFile) -> bool:
    """True for a report of raw classifications."""
    lines = _filled(file.first_lines)
    if any(map(SECTION.fullmatch, lines)):
        return True
    return bool(lines) and _classification(lines[0]) is not None


def _has_columns(file: SourceFile) -> bool:
    """True for lines of ``classify-file``."""
    lines = _filled(file.first_lines)
    if not lines:
        return False
    _, *cells = lines[0].rstrip("\t").split("\t")
    return len(cells) >= 4 and are_pairs(cells) and is_distribution(cells[1::2])


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
    lines = _filled(file.path.read_text("utf-8-sig").splitlines())
    if _has_reports(file):
        rows = _rows_of_report(lines)
    else:
        rows = _rows_of_columns(file.path, lines)
    if not rows:
        raise DataError(f"{file.path}: holds no classification")
    return Table(file.path, "mallet", {}, records=rows)


def _rows_of_report(lines: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    split = None
    for line in lines:
        section = SECTION.fullmatch(line)
        if section is not None:
            split = SPLITS[section["split"]]
        row = _classification(line)
        if row is not None:
            rows.append({**row, "split": split})
    if len({row["split"] for row in rows}) == 1:
        for row in rows:
            del row["split"]
    return rows


def _classification(line: str) -> dict[str, Any] | None:
    """Document, label and scores of a line of a report; None for another line.

    The scores sum to 1, and the label is among theirs. A label may have colons.
    """
    match = RAW.fullmatch(line)
    if match is None:
        return None
    probs = Ranks()
    for word in match["pairs"].split():
        label, _, score = word.rpartition(":")
        if not is_number(score):
            return None
        probs[label] = float(score)
    if match["label"] not in probs or not is_distribution(probs.values()):
        return None
    return {"ids": match["id"], "label": match["label"], "probs": probs}


def _rows_of_columns(path: Path, lines: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(lines, start=1):
        name, *cells = line.rstrip("\t").split("\t")
        if not are_pairs(cells):
            raise DataError(
                f"{path}: line {number}: expected a name, and pairs of a label and its"
                " score"
            )
        pairs = zip(cells[::2], map(float, cells[1::2]), strict=True)
        rows.append({"ids": name, "probs": Ranks(pairs)})
    return rows


def are_pairs(cells: Sequence[str]) -> bool:
    """True for labels that are no numbers, each followed by a number."""
    labels, scores = cells[::2], cells[1::2]
    if len(labels) != len(scores) or any(map(is_number, labels)):
        return False
    return bool(scores) and all(map(is_number, scores))


def is_distribution(scores: Iterable[Any]) -> bool:
    """True for numbers from 0 on that sum to 1."""
    numbers = [float(score) for score in scores]
    return min(numbers) >= 0.0 and abs(sum(numbers) - 1.0) <= SUM_TOLERANCE


def _filled(lines: Sequence[str]) -> list[str]:
    return list(filter(str.strip, lines))
