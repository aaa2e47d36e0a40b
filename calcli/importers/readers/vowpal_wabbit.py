"""Probabilities of Vowpal Wabbit: ``1:0.7 2:0.2 3:0.1 tag`` on every line."""

import re
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.json_columns import table_of_rows, with_class_names
from calcli.importers.label_scores import is_distribution
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.items import picked

LINE = re.compile(
    r"(?:(?P<labels>\d+)[ \t])?"
    r"(?P<pairs>\d+:[-+.\deE]+(?: \d+:[-+.\deE]+)+)"
    r"(?:[ \t](?P<ids>\S+))?\s*"
)
"""The right label, classes with their probabilities, and the tag of an example."""

LINES_SEEN = 20


def _are_distributions(file: SourceFile) -> bool:
    """True where the first lines are distributions over classes that count up.

    Rows of LIBSVM look alike, but their numbers are features, which sum to 1 by chance.
    A line behind the first that is no row at all is left to the reader, which names it.
    """
    for number, line in enumerate(file.first_lines[:LINES_SEEN]):
        try:
            row = _row(line, "")
        except DataError:
            if number == 0:
                return False
            continue
        places = sorted(map(int, row["probs"]))
        if places != list(range(places[0], places[0] + len(places))):
            return False
        if not is_distribution(row["probs"]):
            return False
    return True


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
    rows = []
    for where, line in file.lines():
        rows.append(_row(line, where))
    classes = sorted(rows[0]["probs"], key=int)
    fields = ["probs"]
    for name in ("labels", "ids"):
        if all(row[name] for row in rows):
            fields.append(name)
    made = []
    for number, row in enumerate(rows):
        if row["probs"].keys() != set(classes):
            raise DataError(f"{file.path}: row {number} has other classes than row 0")
        row["probs"] = [row["probs"][name] for name in classes]
        made.append(picked(row, fields))
    table = table_of_rows(file.path, "vowpal-wabbit", made)
    return with_class_names(table, classes)


def _row(line: str, where: str) -> dict[str, Any]:
    match = LINE.fullmatch(line)
    if match is None:
        raise DataError(f"{where}: expected classes with probabilities, such as 1:0.9")
    probs = {}
    for word in match["pairs"].split():
        number, _, probability = word.partition(":")
        try:
            probs[number] = float(probability)
        except ValueError:
            raise DataError(f"{where}: {probability!r} is no number") from None
    return {"probs": probs, "labels": match["labels"], "ids": match["ids"]}
