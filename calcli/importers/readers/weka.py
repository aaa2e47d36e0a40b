"""Predictions of Weka, as its CSV output has them: ``2:dog`` is class 2, named dog."""

import csv
import re
from operator import eq

import numpy as np

from calcli.errors import DataError
from calcli.importers.formats import reader
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
    rows = [row for row in csv.reader(lines[1:]) if row]
    ids = []
    actual = []
    predicted = []
    scores = []
    for row in rows:
        ids.append(int(row[0]))
        actual.append(_class_of(file, row[1]))
        predicted.append(_class_of(file, row[2]))
        cells = filter(None, row[4:])
        scores.append([float(cell.lstrip("*")) for cell in cells])
    if "distribution" not in lines[0]:
        arrays = {
            "ids": np.array(ids),
            "confidence": np.array([row[0] for row in scores]),
            "correct": np.array(list(map(eq, actual, predicted))),
        }
        return Table.held(file.path, "weka", arrays)
    names = dict(actual + predicted)
    classes = []
    for number in range(1, len(scores[0]) + 1):
        classes.append(names.get(number, str(number)))
    arrays = {
        "probs": np.array(scores),
        "labels": np.array([name for _, name in actual]),
        "class_names": np.array(classes),
        "prediction": np.array([name for _, name in predicted]),
    }
    return Table.held(file.path, "weka", arrays)


def _class_of(file: SourceFile, cell: str) -> tuple[int, str]:
    """Number, counted from 1, and name of a class."""
    match = NUMBERED_CLASS.fullmatch(cell.strip())
    if match is None:
        raise DataError(
            f"{file.path}: has {cell!r}, expected a class with its number, such as"
            " 1:yes"
        )
    return int(match["number"]), match["name"]
