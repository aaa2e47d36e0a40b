"""Labels of rows as class indices, held against the scores; the names of the classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.building import contradictions
from calcli.importers.building.labels import to_labels
from calcli.importers.building.misplaced_labels import (
    Answers,
    refuse_counted_from_1,
    refuse_sorted_names,
)
from calcli.importers.building.word_labels import ClassLabels, texts_of
from calcli.importers.evidence.orientation import refuse_classes_first
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import headers_path
from calcli.importers.names.column_options import some_of
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark
from calcli.importers.table import Column
from calcli.io import validate
from calcli.items import counts_up
from calcli.numerics import AnyArray, IntArray

LEFT_OUT = -(1 << 31)
"""Label of rows whose label is a fraction that is to be ignored."""


# ---- names of the classes


@dataclass(frozen=True)
class Classes:
    """Names of all classes or None; that of class 1 where one column is named so."""

    names: list[str] | None
    positive: str | None


def class_names_of(
    reading: Reading, k: int, is_binary: bool, request: ImportRequest
) -> Classes:
    """Names of the classes. A single column of scores is named by class 1."""
    if request.class_names:
        if len(request.class_names) != k:
            n_names = len(request.class_names)
            raise UsageError(
                f"--class-names: {n_names} names, {reading.scores!r} has {k} classes"
            )
        return Classes(list(request.class_names), None)
    positive = reading.scores.rsplit("/", 1)[-1] if is_binary else None
    if "class_names" not in reading.extras:
        return Classes(None, positive)
    column = reading.extra("class_names")
    raw = np.atleast_1d(column.values())
    names = texts_of(raw, column.where)
    if is_binary and len(names) == 1:
        return Classes(None, names[0])  # one column's name says nothing of class 0
    if raw.ndim != 1 or len(names) != k:
        raise DataError(
            f"{column.where}: has shape {raw.shape}, expected ({k},): a name per class"
        )
    return Classes(names, positive)


# ---- labels


def labels_of_rows(
    scores: Any,
    raw: AnyArray,
    reading: Reading,
    request: ImportRequest,
    ignore: Sequence[float],
    classes: Classes,
) -> ClassLabels:
    """Checked class indices of all rows, ignored labels in place."""
    rows = _LabelledRows(scores, reading, request, ignore, classes)
    rows.refuse_what_is_no_label(raw)
    indices, names = rows.counted_from_0(raw)
    k = rows.k
    where = rows.column.where
    class_labels = to_labels(indices, rows.n, k, names, where, classes.positive)
    contradictions.refuse_reversed_alphabet(scores, class_labels, where, _names_option)
    labels = validate.check_labels(class_labels.labels, rows.n, k, where, tuple(ignore))
    if raw.dtype.kind in "iu":
        rows.refuse_misplaced(labels)
    return ClassLabels(labels, class_labels.class_names)


@dataclass(frozen=True)
class _LabelledRows:
    """Scores (n, k) or (n,) whose labels are read, and what is known of the classes."""

    scores: Any
    reading: Reading
    request: ImportRequest
    ignore: Sequence[float]
    classes: Classes

    @property
    def n(self) -> int:
        return int(self.scores.shape[0])

    @property
    def k(self) -> int:
        """Number of classes; one column of scores is that of class 1 of two."""
        return 2 if self.is_binary else max(int(self.scores.shape[1]), 2)

    @property
    def is_binary(self) -> bool:
        """True for one column of scores."""
        return len(self.scores.shape) == 1 or self.scores.shape[1] == 1

    @property
    def column(self) -> Column:
        """The labels as they are in the file."""
        return self.reading.columns[self.reading.labels or ""]

    @property
    def score_names(self) -> list[str]:
        """Names of the columns that the scores were joined from."""
        return list(self.reading.score_column.parts)

    @property
    def are_named_by_headers(self) -> bool:
        """True if the names of the classes are those of the columns of scores."""
        header = headers_path(self.reading.scores)
        has_headers = self.reading.extras.get("class_names") == header
        return bool(self.classes.names) and has_headers

    @property
    def are_indices(self) -> bool:
        """True if calcli or the format wrote whole numbers as class indices."""
        is_of_apply = "calibrated_by" in self.reading.extras
        return is_of_apply or self.column.attributes.get("first_index") == 0

    def refuse_what_is_no_label(self, raw: AnyArray) -> None:
        """Raise DataError for labels that other columns of the file contradict."""
        where = self.reading.where
        _refuse_header(raw, self.n, self.column)
        refuse_classes_first(tuple(self.scores.shape), raw.shape, where)
        if self.is_binary and not self.ignore:
            word = None if self.request.scores else self.classes.positive
            contradictions.refuse_other_column(
                raw, self.n, word, where, self.column.where
            )
            contradictions.refuse_top_confidence(raw, self.reading, self.column.where)
        is_chosen = self.request.scores or self.request.class_names
        if self.classes.names and self.are_named_by_headers and not is_chosen:
            contradictions.refuse_other_order(
                raw, self.classes.names, self.score_names, where
            )

    def counted_from_0(self, raw: AnyArray) -> tuple[AnyArray, list[str] | None]:
        """Labels of which whole numbers count from 0, and the names that words among
        them may be; None where numbers are no names.
        """
        names = self.classes.names
        if self.are_indices and raw.dtype.kind in "iu":
            names = None
        raw = _from_first_index(raw, self.column)
        is_label = ~np.isin(raw, self.ignore)
        chosen = self.request.class_names
        if chosen and _count_from_1(raw[is_label], chosen):
            raw = np.where(is_label, raw - 1, raw)
            names = None  # the user has said what the numbers are
        if self.reading.score_column.counts_from_1:
            raw = _as_columns_count(
                raw, self.k, self.reading, self.column, has_names=bool(names)
            )
        return _with_whole_ignored(raw, self.ignore), names

    def refuse_misplaced(self, labels: IntArray) -> None:
        """Raise DataError for indices that count the classes otherwise.

        Not where calcli wrote them, or the user has named the classes.
        """
        if self.is_binary or self.are_indices or self.request.class_names:
            return
        answers = Answers(self.scores, labels, self.ignore)
        refuse_counted_from_1(answers, self.k, self.column.where)
        names = self.classes.names
        if names and self.are_named_by_headers and not self.request.scores:
            refuse_sorted_names(answers, names, self.score_names, self.reading.where)


def _names_option(first: str, second: str) -> str:
    """The option that gives the names of class 0 and class 1."""
    return f"--class-names {quote(f'{first},{second}')}"


def _from_first_index(raw: AnyArray, column: Column) -> AnyArray:
    """Labels counted from 0, where the file counts from 1 (MATLAB)."""
    first = column.attributes.get("first_index", 0)
    if not first or raw.dtype.kind not in "iuf" or not raw.size or raw.min() < first:
        return raw
    remark(f"{column.where}: labels count from {first}, as the format does")
    return raw - raw.dtype.type(first)


def _count_from_1(labels: AnyArray, class_names: Sequence[str]) -> bool:
    """True for numbers among --class-names, where these count the classes from 1."""
    if labels.dtype.kind not in "iu" or not counts_up(class_names, first=1):
        return False
    return bool(labels.size and labels.min() >= 1 and labels.max() <= len(class_names))


def _as_columns_count(
    raw: AnyArray, k: int, reading: Reading, column: Column, *, has_names: bool
) -> AnyArray:
    """Labels counted from 0, where they count from 1, as columns numbered 1 to k do.

    Raises DataError if neither 0 nor k is among them, unless the user lists the columns.
    """
    if raw.dtype.kind not in "iuf" or not raw.size or raw.min() < 1 or raw.max() > k:
        return raw
    if raw.max() == k:
        if has_names:
            return raw
        remark(f"{column.where}: labels count from 1, as the columns do")
        return raw - 1
    scores = reading.score_column
    if scores.family is None or not scores.family.option:
        return raw
    option = scores.family.option
    names = list((scores.joined_from or (scores,))[0].parts)
    raise DataError(
        f"{scores.file}: columns {some_of(names)} are numbered from 1, and"
        f" {column.name!r} is nowhere 0 and nowhere {k}: do the labels count from 1 as"
        f" well? Subtract 1 if so; --scores {quote(option)} takes them as they are,"
        " counted from 0"
    )


def with_mark_of_fractions(ignored: Sequence[float]) -> tuple[float, ...]:
    """Labels to ignore, with the one that stands for fractions among them."""
    are_whole = all(float(label).is_integer() for label in ignored)
    return tuple(ignored) if are_whole else (*ignored, LEFT_OUT)


def _with_whole_ignored(raw: AnyArray, ignore: Sequence[float]) -> AnyArray:
    """Labels of which ignored fractions (a draw: 0.5) are a whole number."""
    fractions = [label for label in ignore if not float(label).is_integer()]
    if not fractions or raw.dtype.kind != "f":
        return raw
    return np.where(np.isin(raw, fractions), LEFT_OUT, raw)


def _refuse_header(raw: AnyArray, n: int, column: Column) -> None:
    """Raise DataError for a header of pandas that was read as the first label."""
    if raw.shape != (n + 1,) or raw.dtype.kind not in "iuf" or raw[0] != 0:
        return
    raise DataError(
        f"{column.where}: there are {n + 1} labels for {n} rows of scores, and the"
        " first is 0; did pandas write a header? Save with header=['label'] or"
        " header=False"
    )
