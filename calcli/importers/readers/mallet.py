"""Classifications that MALLET prints: the labels of each document with their scores."""

import re
from collections.abc import Sequence
from typing import Any

from calcli.digits import SUM_TOLERANCE
from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.records import Ranks
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.io.cells import is_number

RAW = re.compile(r"(?P<id>\S+) (?P<label>\S+)(?P<pairs>( \S+:[-+.\deE]+)+) ?")
"""A line of ``--report test:raw``: document, its label, the labels with their scores."""

SECTION = re.compile(r" Raw (?P<split>Training|Testing|Validation) Data")
SPLITS = {"Training": "train", "Testing": "test", "Validation": "val"}


def _has_reports(file: SourceFile) -> bool:
    """True for a report of raw classifications."""
    lines = _first_lines(file)
    if any(map(SECTION.fullmatch, lines)):
        return True
    return bool(lines) and _has_distribution(RAW.fullmatch(lines[0]))


def _has_columns(file: SourceFile) -> bool:
    """True for lines of ``classify-file``."""
    lines = _first_lines(file)
    if not lines:
        return False
    _, *cells = lines[0].rstrip("\t").split("\t")
    if len(cells) < 4 or not are_pairs(cells):
        return False
    return is_distribution(cells[1::2])


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
    if _has_reports(file):
        rows = _rows_of_report(_all_lines(file))
    else:
        rows = _rows_of_columns(file)
    if not rows:
        raise DataError(f"{file.path}: holds no classification")
    return Table(file.path, "mallet", {}, records=rows)


def _rows_of_report(lines: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    split = ""
    for line in lines:
        section = SECTION.fullmatch(line)
        if section is not None:
            split = SPLITS[section["split"]]
        match = RAW.fullmatch(line)
        if not _has_distribution(match):
            continue
        assert match is not None
        row: dict[str, Any] = {"ids": match["id"], "label": match["label"]}
        row["split"] = split or None
        row["probs"] = Ranks(_pairs(match["pairs"]))
        rows.append(row)
    if len({row["split"] for row in rows}) == 1:
        for row in rows:
            del row["split"]
    return rows


def _rows_of_columns(file: SourceFile) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(_all_lines(file), start=1):
        name, *cells = line.rstrip("\t").split("\t")
        if not are_pairs(cells):
            expected = "expected a name, and pairs of a label and its score"
            raise DataError(f"{file.path}: line {number}: {expected}")
        pairs = zip(cells[::2], map(float, cells[1::2]), strict=True)
        rows.append({"ids": name, "probs": Ranks(pairs)})
    return rows


def _pairs(text: str) -> list[tuple[str, float]]:
    """Labels with their scores; a label may have colons."""
    pairs = []
    for word in text.split():
        label, _, score = word.rpartition(":")
        pairs.append((label, float(score)))
    return pairs


def _has_distribution(match: re.Match[str] | None) -> bool:
    """True for a line of a report whose scores sum to 1, the label among theirs."""
    if match is None:
        return False
    try:
        pairs = _pairs(match["pairs"])
    except ValueError:
        return False
    labels = [label for label, _ in pairs]
    return match["label"] in labels and is_distribution([score for _, score in pairs])


def are_pairs(cells: Sequence[str]) -> bool:
    """True for labels that are no numbers, each followed by a number."""
    labels, scores = cells[::2], cells[1::2]
    if len(labels) != len(scores) or any(map(is_number, labels)):
        return False
    return bool(scores) and all(map(is_number, scores))


def is_distribution(scores: Sequence[Any]) -> bool:
    """True for numbers from 0 on that sum to 1."""
    numbers = [float(score) for score in scores]
    return min(numbers) >= 0.0 and abs(sum(numbers) - 1.0) <= SUM_TOLERANCE


def _first_lines(file: SourceFile) -> list[str]:
    """First lines, without the last, which the first bytes may have cut."""
    text = file.head.decode("utf-8-sig", errors="ignore")
    lines = text.splitlines()
    if len(file.head) < file.size:
        lines = lines[:-1]
    return list(filter(str.strip, lines))


def _all_lines(file: SourceFile) -> list[str]:
    lines = file.path.read_text("utf-8-sig").splitlines()
    return list(filter(str.strip, lines))
