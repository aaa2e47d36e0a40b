"""Predictions and outcomes that a file has beside the scores, held against these."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.evidence.blocks import blocks
from calcli.importers.evidence.classes import class_of_each_row, counts_from_1
from calcli.importers.evidence.label_evidence import has_largest
from calcli.importers.names.array_names import parse_name, parse_names
from calcli.importers.names.roles import is_prediction, says_correct
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns
from calcli.numerics import AnyArray, IntArray

ORDER_HINT = (
    ": are the columns in the order of the classes, the rows in the same order?"
)


def check_logs(
    scores: Any,
    reading: Reading,
    labels: IntArray | None,
    names: Sequence[str] | None,
) -> None:
    """Hold scores against logged predictions and outcomes.

    Raises DataError at the first row that contradicts them; remarks on those that
    agree. scores : (n, k), or (n,) for two classes. Ties count as agreement. For two
    classes any threshold is accepted, but not a reversed order. names : of the classes.
    """
    path = reading.scores
    place = parse_name(path).place
    agreeing = []
    for name in parse_names(reading.columns):
        if name.place != place:
            continue
        logged: _Logged | None = None
        if says_correct(name.core):
            logged = _outcomes(reading.columns[name.path], scores, labels)
        elif is_prediction(name.core) and not _has_calibrated(reading.columns):
            logged = _predictions(reading.columns[name.path], scores, reading, names)
        if logged is None:
            continue
        contradiction = logged.contradicts(scores, path)
        if contradiction is not None:
            parts = reading.score_column.parts
            as_they_are = ("--scores", ",".join(parts) or path)
            raise DataError(
                f"{reading.columns[name.path].where}: {contradiction}{ORDER_HINT}"
                f" {shlex.join(as_they_are)} takes them as they are",
                option=as_they_are,
            )
        agreeing.append(f"{name.core!r} agrees in every row")
    if agreeing:
        remark(f"{reading.where}: {', '.join(agreeing)}")


def _has_calibrated(columns: Columns) -> bool:
    """True for a calibrated file, which may keep another prediction."""
    return any(name.core.lower() == "confidence" for name in parse_names(columns))


def _n_classes(scores: Any) -> int:
    """Classes of scores (n, k), or two of (n,) and (n, 1)."""
    return max((*scores.shape, 1)[1], 2)


def _outcomes(column: Column, scores: Any, labels: IntArray | None) -> "_Logged | None":
    """Logged correctness, from bool or 0/1; None for other arrays, or without labels."""
    if labels is None:
        return None
    values = _values(column, len(labels))
    if values is None or values.dtype.kind not in "biuf":
        return None
    if not np.isin(values, (0, 1)).all():
        return None
    if_wrong = np.full(len(labels), -1)
    if _n_classes(scores) == 2:
        if_wrong = 1 - labels
    return _Logged(np.where(values == 1, labels, if_wrong), labels)


def _predictions(
    column: Column, scores: Any, reading: Reading, names: Sequence[str] | None
) -> "_Logged | None":
    """Logged classes, which may count as their columns do; None for other arrays."""
    predictions = logged_predictions(column, scores.shape[0], names)
    if predictions is None:
        return None
    may_count_from_1 = names is None and reading.score_column.counts_from_1
    if may_count_from_1 and counts_from_1(predictions, _n_classes(scores)):
        predictions = predictions - 1
    return _Logged(predictions)


def logged_predictions(
    column: Column,
    n: int,
    names: Sequence[str] | None,
    *,
    numbers_are_places: bool = False,
) -> IntArray | None:
    """Logged classes (n,), from names or whole numbers; None for other arrays.

    Whole numbers are names where all of them are, else indices. numbers_are_places :
    they are indices, whatever the classes are called, as in what ``apply`` writes.
    """
    values = _values(column, n)
    if values is None:
        return None
    if values.dtype.kind == "f" and not (values == np.floor(values)).all():
        return None
    if values.dtype.kind in "iuf":
        values = values.astype(np.int64)
    elif values.dtype.kind not in "OUS":
        return None
    if numbers_are_places and values.dtype.kind == "i":
        return values
    named = class_of_each_row(values.tolist(), names or ())
    if (named >= 0).all():
        return named
    return values if values.dtype.kind == "i" else None


def _values(column: Column, n: int) -> AnyArray | None:
    """A value per row; None for other arrays and for columns with empty cells."""
    try:
        values = column.values()
    except DataError:
        return None
    return values if values.shape == (n,) else None


@dataclass(frozen=True)
class _Logged:
    """Logged predictions, or outcomes together with the labels.

    classes : the predicted class of each row, -1 for any but the label.
    """

    classes: IntArray
    labels: IntArray | None = None

    def contradicts(self, scores: Any, path: str) -> str | None:
        """What contradicts the scores; None where all rows agree with them."""
        if _n_classes(scores) == 2:
            return self._without_threshold(scores, path)
        return self._contradicted(scores, path)

    def _without_threshold(self, scores: Any, path: str) -> str | None:
        """What is wrong if a row called 1 has a lower score than one called 0."""
        margins = np.concatenate(list(map(_margins, blocks(scores))))
        lowest_called_1 = margins[self.classes == 1].min(initial=np.inf)
        highest_called_0 = margins[self.classes == 0].max(initial=-np.inf)
        if lowest_called_1 >= highest_called_0:
            return None
        return (
            f"no threshold on {path!r} gives it: some row is called class 1 at a lower"
            " score than another that is called class 0"
        )

    def _contradicted(self, scores: Any, path: str) -> str | None:
        """What the first row says that contradicts its scores."""
        start = 0
        for block in blocks(scores):
            wrong = self._contradictions(block, slice(start, start + len(block)))
            if wrong.any():
                row = int(np.argmax(wrong))
                best = int(block[row].argmax())
                logged = self._in_words(start + row)
                return (
                    f"row {start + row} {logged}, but the largest of {path!r} is class"
                    f" {best}"
                )
            start += len(block)
        return None

    def _contradictions(self, block: AnyArray, rows: slice) -> AnyArray:
        """Mask of the rows that contradict the scores."""
        classes = self.classes[rows]
        if self.labels is None:
            return ~has_largest(block, classes)
        labels = self.labels[rows]
        label_is_largest = has_largest(block, labels)
        is_alone = (block == block.max(axis=1)[:, None]).sum(axis=1) == 1
        is_wrong = np.where(classes < 0, label_is_largest & is_alone, ~label_is_largest)
        return is_wrong & (labels >= 0) & (labels < block.shape[1])

    def _in_words(self, row: int) -> str:
        if self.labels is None:
            return f"has prediction {self.classes[row]}"
        outcome = "right" if self.classes[row] >= 0 else "wrong"
        return f"is logged as {outcome}, its label is {self.labels[row]}"


def _margins(block: AnyArray) -> AnyArray:
    """Score of class 1, less that of class 0 where it is told."""
    wide = block.reshape(len(block), -1).astype(np.float64)
    return wide[:, 1] - wide[:, 0] if wide.shape[1] == 2 else wide[:, 0]
