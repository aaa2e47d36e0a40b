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
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import headers_path
from calcli.importers.names.column_options import some_of
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark
from calcli.importers.table import Column
from calcli.io import validate
from calcli.items import counts_up
from calcli.numerics import AnyArray

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
    column = reading.columns[reading.labels or ""]
    where = reading.where
    n, k = scores.shape[0], max((*scores.shape, 1)[1], 2)
    is_binary = len(scores.shape) == 1 or scores.shape[1] == 1
    _refuse_header(raw, n, column)
    _refuse_transposed(scores, raw, where)
    if is_binary and not ignore:
        word = None if request.scores else classes.positive
        contradictions.refuse_other_column(raw, n, word, where, column.where)
        contradictions.refuse_top_confidence(raw, reading, column.where)
    are_headers = reading.extras.get("class_names") == headers_path(reading.scores)
    if classes.names and are_headers and not (request.scores or request.class_names):
        contradictions.refuse_other_order(
            raw, classes.names, list(reading.score_column.parts), where
        )
    names = classes.names
    is_of_apply = "calibrated_by" in reading.extras
    are_indices = is_of_apply or column.attributes.get("first_index") == 0
    if are_indices and raw.dtype.kind in "iu":
        names = None  # calcli writes indices
    raw = _from_first_index(raw, column)
    is_label = ~np.isin(raw, ignore)
    if request.class_names and _count_from_1(raw[is_label], request.class_names):
        raw = np.where(is_label, raw - 1, raw)
        names = None  # the user has said what the numbers are
    if reading.score_column.counts_from_1:
        raw = _as_columns_count(raw, k, reading, column, has_names=bool(names))
    raw = _with_whole_ignored(raw, ignore)
    class_labels = to_labels(raw, n, k, names, column.where, classes.positive)
    contradictions.refuse_reversed_alphabet(
        scores, class_labels, column.where, _names_option
    )
    labels = validate.check_labels(
        class_labels.labels, n, k, column.where, tuple(ignore)
    )
    if raw.dtype.kind in "iu" and not (is_binary or are_indices or request.class_names):
        answers = Answers.of(scores, labels, ignore)
        refuse_counted_from_1(answers, k, column.where)
        if are_headers and classes.names and not request.scores:
            columns = list(reading.score_column.parts)
            refuse_sorted_names(answers, classes.names, columns, where)
    return ClassLabels(labels, class_labels.class_names)


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
    """True for numbers from 1 on, where --class-names counts the classes from 1."""
    if labels.dtype.kind not in "iu" or not counts_up(class_names, first=1):
        return False
    return bool(labels.size and labels.min() >= 1)


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


def _refuse_transposed(scores: Any, raw: AnyArray, where: str) -> None:
    """Raise DataError for as many labels as columns of scores, not as rows."""
    shape = tuple(scores.shape)
    if len(shape) < 2:
        return
    k = max(shape[1], 2)
    if k != shape[0] and raw.shape in ((k,), (k, 1), (1, k)):
        raise DataError(
            f"{where}: has shape {shape} for {k} labels: classes by rows? Save the"
            " scores transposed, (rows, classes)"
        )


def _refuse_header(raw: AnyArray, n: int, column: Column) -> None:
    """Raise DataError for a header of pandas that was read as the first label."""
    if raw.shape != (n + 1,) or raw.dtype.kind not in "iuf" or raw[0] != 0:
        return
    raise DataError(
        f"{column.where}: there are {n + 1} labels for {n} rows of scores, and the"
        " first is 0; did pandas write a header? Save with header=['label'] or"
        " header=False"
    )
