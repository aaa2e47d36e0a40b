"""Probabilities of Vowpal Wabbit: ``1:0.7 2:0.2 3:0.1 tag`` on every line."""

import re
from typing import NamedTuple

import numpy as np

from calcli.digits import SUM_TOLERANCE
from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table

LINE = re.compile(
    r"(?:(?P<label>\d+)[ \t])?"
    r"(?P<pairs>\d+:[-+.\deE]+(?: \d+:[-+.\deE]+)+)"
    r"(?:[ \t](?P<tag>\S+))?\s*"
)


class Row(NamedTuple):
    """The right label and the tag, where they are given, and probabilities by class."""

    label: str | None
    probs: dict[int, float]
    tag: str | None


LINES_SEEN = 20


def _are_distributions(file: SourceFile) -> bool:
    """True where the first lines are distributions over classes that count up.

    Rows of LIBSVM look alike, but their numbers are features, which sum to 1 by chance.
    A line behind the first that is no row at all is left to the reader, which names it.
    """
    text = file.head.decode("utf-8-sig", errors="ignore")
    *whole, last = text.split("\n")
    rows = []
    for number, line in enumerate((whole or [last])[:LINES_SEEN]):
        try:
            rows.append(_row(line, ""))
        except DataError:
            if number == 0:
                return False
    return all(_is_distribution(row.probs) for row in rows)


def _is_distribution(probs: dict[int, float]) -> bool:
    first = min(probs)
    counts_up = sorted(probs) == list(range(first, first + len(probs)))
    return counts_up and abs(sum(probs.values()) - 1.0) <= SUM_TOLERANCE


@reader(
    "vowpal-wabbit",
    "probabilities of Vowpal Wabbit, with or without the right label before them",
    suffixes=[".txt"],
    sniff=lambda file: file.is_text and _are_distributions(file),
    order=-1,
    examples=[("predictions.txt", "--gold truth.csv")],
)
def read_vowpal_wabbit(file: SourceFile) -> Table:
    """Read the probabilities of all classes of ``--oaa K --probabilities``.

    A number before them is the right label, as ``paste`` puts it there; a word behind
    them is the tag of the example.
    """
    rows: list[Row] = []
    with file.path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                rows.append(_row(line, f"{file.path}: line {number}"))
    classes = sorted(rows[0].probs)
    probs = []
    for number, row in enumerate(rows):
        if sorted(row.probs) != classes:
            raise DataError(f"{file.path}: row {number} has other classes than row 0")
        probs.append([row.probs[place] for place in classes])
    arrays = {"probs": np.array(probs), "class_names": np.array(classes).astype("U")}
    if all(row.label for row in rows):
        arrays["labels"] = np.array([row.label for row in rows])
    if all(row.tag for row in rows):
        arrays["ids"] = np.array([row.tag for row in rows])
    return Table.held(file.path, "vowpal-wabbit", arrays)


def _row(line: str, where: str) -> Row:
    match = LINE.fullmatch(line)
    if match is None:
        raise DataError(f"{where}: expected classes with probabilities, such as 1:0.9")
    probs = {}
    for word in match["pairs"].split():
        number, _, probability = word.partition(":")
        try:
            probs[int(number)] = float(probability)
        except ValueError:
            raise DataError(f"{where}: {probability!r} is no number") from None
    return Row(match["label"], probs, match["tag"])
