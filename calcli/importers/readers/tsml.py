"""Predictions of time series classifiers, as tsml, aeon and sktime save them."""

import re
from itertools import takewhile
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.json_columns import table_of_rows
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table

OPENING = re.compile(
    rb"[^\r\n]*,(?:TRAIN|TEST)\b[^\r\n]*\r?\n"  # problem, classifier, split, …
    rb"[^\r\n]*\r?\n"  # parameters of the classifier
    rb"[^\r\n]*\r?\n"  # accuracy, times, number of classes
    rb"-?\d+,-?\d+,,[-+.\deE]+,",
    re.IGNORECASE,
)
LINES_ABOVE = 3


@reader(
    "tsml",
    "predictions of tsml, aeon and sktime: testFold0.csv, testResample0.csv",
    suffixes=[".csv"],
    sniff=lambda file: file.is_text and OPENING.match(file.head) is not None,
    order=-1,
    examples=[("testResample0.csv", "")],
)
def read_tsml(file: SourceFile) -> Table:
    """Read class, predicted class and probabilities of every case.

    After an empty cell come the probabilities, after another one times and notes.
    """
    rows: list[dict[str, Any]] = []
    for where, line in file.lines(LINES_ABOVE):
        row = _row(line, where)
        rows.append(row)
        if len(row["probs"]) != len(rows[0]["probs"]):
            raise DataError(
                f"{where}: {len(row['probs'])} probabilities, expected"
                f" {len(rows[0]['probs'])} as in the first row"
            )
    return table_of_rows(file.path, "tsml", rows)


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        actual, predicted, _, *rest = line.split(",")
        scores = list(takewhile(bool, rest))
        return {
            "probs": list(map(float, scores)),
            "labels": int(actual),
            "prediction": int(predicted),
        }
    except ValueError:
        raise DataError(
            f"{where}: expected class, predicted class, nothing, probabilities"
        ) from None
