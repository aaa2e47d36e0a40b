"""Predictions of time series classifiers, as tsml, aeon and sktime save them."""

import re

import numpy as np

from calcli.errors import DataError
from calcli.importers.formats import reader
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
    labels, predictions, scores = [], [], []
    with file.path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if number <= LINES_ABOVE or not line.strip():
                continue
            try:
                actual, predicted, _, *rest = line.rstrip("\r\n").split(",")
                last = rest.index("") if "" in rest else len(rest)
                labels.append(int(actual))
                predictions.append(int(predicted))
                scores.append([float(cell) for cell in rest[:last]])
            except ValueError:
                raise DataError(
                    f"{file.path}: line {number}: expected class, predicted class,"
                    " nothing, probabilities"
                ) from None
            if len(scores[-1]) != len(scores[0]):
                raise DataError(
                    f"{file.path}: line {number}: {len(scores[-1])} probabilities,"
                    f" expected {len(scores[0])} as in the first row"
                )
    arrays = {
        "probs": np.array(scores),
        "labels": np.array(labels),
        "prediction": np.array(predictions),
    }
    return Table.held(file.path, "tsml", arrays)
