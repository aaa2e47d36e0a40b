"""Predictions of Weka, as its CSV output has them: ``2:dog`` is class 2, named dog."""

import csv
import re
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.json_columns import table_of_rows, with_class_names
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table

HEADER = "inst#,actual,predicted,error,"
NUMBERED_CLASS = re.compile(r"(?P<number>\d+):(?P<name>.*)")


@reader(
    "weka",
    "predictions that Weka prints as CSV, of one class or with the distribution",
    suffixes=[".csv", ".txt"],
    sniff=lambda file: file.is_text and HEADER.encode() in file.head,
    order=-1,
    examples=[("weka_predictions.csv", "")],
)
def read_weka(file: SourceFile) -> Table:
    """Read probabilities of all classes, or a confidence and whether it is right.

    ``prediction`` is the probability of the predicted class; a ``distribution`` has a
    star before that. Classes that occur nowhere have no name.
    """
    text = file.path.read_text("utf-8-sig")
    lines = text[text.index(HEADER) :].splitlines()
    has_distribution = "distribution" in lines[0]
    names: dict[int, str] = {}
    rows = []
    for cells in filter(None, csv.reader(lines[1:])):
        actual = _class_of(file, cells[1])
        predicted = _class_of(file, cells[2])
        names.update((actual, predicted))
        scores = [float(cell.lstrip("*")) for cell in filter(None, cells[4:])]
        row: dict[str, Any]
        if has_distribution:
            row = {"probs": scores, "labels": actual[1], "prediction": predicted[1]}
        else:
            row = {"ids": int(cells[0]), "confidence": scores[0]}
            row["correct"] = actual == predicted
        rows.append(row)
    classes = []
    if has_distribution:
        for number in range(1, len(rows[0]["probs"]) + 1):
            classes.append(names.get(number, str(number)))
    return with_class_names(table_of_rows(file.path, "weka", rows), classes)


def _class_of(file: SourceFile, cell: str) -> tuple[int, str]:
    """Number, counted from 1, and name of a class."""
    match = NUMBERED_CLASS.fullmatch(cell.strip())
    if match is None:
        raise DataError(
            f"{file.path}: has {cell!r}, expected a class with its number, such as"
            " 1:yes"
        )
    return int(match["number"]), match["name"]
