"""Predictions of Weka, as CSV and as text: ``2:dog`` is class 2, named dog."""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.json_columns import table_of_rows, with_class_names
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.items import without

HEADER = re.compile(r"^[ ]*inst#[ ,]+actual[ ,]+predicted[ ,]+error[ ,].*$", re.M)
NUMBERED_CLASS = re.compile(r"(?P<number>\d+):(?P<name>.*)")
PLAIN_ROW = re.compile(
    r"[ ]*(\d+)[ ]+(\d+:.*?)[ ]+(\d+:.*?)[ ]+(\+?)[ ]*([*\d.eE,-]+)([ ]+\(.*\))?[ ]*"
)
"""Number, actual and predicted class, error, scores; attributes in brackets."""

UNKNOWN = "?"
"""Name of the actual class of a row without one."""


@reader(
    "weka",
    "predictions that Weka prints as CSV or text, of one class or the distribution",
    suffixes=[".csv", ".txt"],
    sniff=lambda file: (
        file.is_text and HEADER.search("\n".join(file.first_lines)) is not None
    ),
    order=-1,
    examples=[("weka_predictions.csv", "")],
)
def read_weka(file: SourceFile) -> Table:
    """Read probabilities of all classes, or a confidence and whether it is right.

    ``prediction`` is the probability of the predicted class; a ``distribution`` has a
    star before that. Classes that occur nowhere have no name.
    """
    names: dict[int, str] = {}
    rows = []
    has_distribution = False
    for cells in _cells_of_rows(file):
        actual = _class_of(file, cells[1])
        predicted = _class_of(file, cells[2])
        is_known = actual[1] != UNKNOWN
        names.update([actual, predicted] if is_known else [predicted])
        scores = [float(cell.lstrip("*")) for cell in cells[4:]]
        has_distribution = len(scores) > 1
        row: dict[str, Any]
        if has_distribution:
            label = actual[1] if is_known else None
            row = {"probs": scores, "labels": label, "prediction": predicted[1]}
        else:
            row = {"ids": int(cells[0]), "confidence": scores[0]}
            row["correct"] = actual == predicted if is_known else None
        rows.append(row)
    truth = "labels" if has_distribution else "correct"
    if all(row[truth] is None for row in rows):
        rows = [without(row, [truth]) for row in rows]
    classes = []
    if has_distribution:
        for number in range(1, len(rows[0]["probs"]) + 1):
            classes.append(names.get(number, str(number)))
    return with_class_names(table_of_rows(file.path, "weka", rows), classes)


def _cells_of_rows(file: SourceFile) -> Iterator[list[str]]:
    """Number, actual and predicted class, error, and the scores of every row."""
    lines = file.path.read_text("utf-8-sig").splitlines()
    place = next(filter(lambda place: HEADER.match(lines[place]), range(len(lines))))
    header, rows = lines[place], takewhile(str.strip, lines[place + 1 :])
    if "," in header.partition("(")[0]:
        end = _end_of_scores(next(csv.reader([header])))
        for cells in csv.reader(rows):
            yield [*cells[:4], *filter(None, cells[4:end])]
        return
    for row in rows:
        match = PLAIN_ROW.fullmatch(row)
        if match is None:
            what = f"has {row.strip()[:60]!r}, expected a prediction"
            raise DataError(f"{file.path}: {what}; let Weka write CSV")
        yield [*match.group(1, 2, 3, 4), *match[5].split(",")]


def _end_of_scores(header: Sequence[str]) -> int | None:
    """Where the scores end and attributes (``-p``) begin; None where none follow.

    The header of a distribution is empty but for its first class.
    """
    end = 5
    while end < len(header) and not header[end]:
        end += 1
    return end if end < len(header) else None


def _class_of(file: SourceFile, cell: str) -> tuple[int, str]:
    """Number, counted from 1, and name of a class."""
    match = NUMBERED_CLASS.fullmatch(cell.strip())
    if match is None:
        what = f"has {cell!r}, expected a class with its number"
        raise DataError(f"{file.path}: {what}, such as 1:yes")
    return int(match["number"]), match["name"]
