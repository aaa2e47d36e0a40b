"""Columns with a single 1 in every row, named after the classes: a column of labels.

``species_cat, species_dog, …`` as ``pandas.get_dummies`` and ``model.matrix`` of R write
them, beside scores whose names hold the same classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.column_values import (
    ROWS_SEEN,
    ends_of_sum_1,
    marks_in,
    matrix_in,
    side_by_side,
)
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.evidence.label_evidence import label_evidence
from calcli.importers.evidence.lookalikes import is_one_hot
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.column_options import columns_of_options, some_of
from calcli.importers.names.common_text import Around, n_common_parts, texts_around
from calcli.importers.names.roles import role_of
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table, constant
from calcli.importers.text_cells import words
from calcli.items import without
from calcli.numerics import IntArray, whole_number


@dataclass(frozen=True)
class OneHot:
    """Columns with a single 1 in every row, by their class.

    text : what is around the class in the names. classes : in the order of the columns.
    scores : columns of scores that are named after the classes. places : (n,) of the 1.
    """

    text: Around
    columns: list[str]
    classes: list[str]
    scores: list[str]
    places: IntArray


def with_labels_of_one_hot(table: Table, request: ImportRequest) -> Table:
    """The table, with one column of classes in the place of one-hot columns.

    Only where no other column is named as the labels, and options name none of them.
    """
    if table.n_rows is None or request.per_label:
        return table
    columns = dict(table.columns)
    marks = without(_zeros_and_ones(columns), _named_by_options(columns, request))
    if any(role_of(name) == "labels" and name not in marks for name in columns):
        return table
    scores = []
    for name, column in columns.items():
        if column.cells == "number" and name not in marks:
            scores.append(name)
    for runs in _one_hot_runs(columns, marks):
        one_hot = _named_as_scores(columns, runs, scores)
        if one_hot is None:
            continue
        name = _name_of(one_hot, columns)
        are_numbers = all(whole_number(word) is not None for word in one_hot.classes)
        is_sure = are_numbers or role_of(name) == "labels"
        if is_sure or _follows(table.columns, one_hot):
            columns = _replaced(table, columns, one_hot, name)
            remark(
                f"{table.file.name}: {some_of(one_hot.columns)} have a single 1 in"
                f" every row: read as {name!r}, the class of the row"
            )
    return replace(table, columns=columns)


def _named_by_options(columns: Columns, request: ImportRequest) -> set[str]:
    """The columns that options name."""
    options = (*request.scores, *request.labels, *request.pieces)
    named = set(columns_of_options(list(columns), options))
    for names in request.named.values():
        named.update(names)
    return named


def _zeros_and_ones(columns: Columns) -> dict[str, IntArray]:
    """The first rows of the columns that have nothing but zeros and ones."""
    marks: dict[str, IntArray] = {}
    for name, column in columns.items():
        values = marks_in(column, first=ROWS_SEEN)
        if values is not None:
            marks[name] = values
    return marks


def _one_hot_runs(
    columns: Columns, marks: Mapping[str, IntArray]
) -> Iterator[list[list[str]]]:
    """Columns side by side with a single 1 in every row, those that begin at one.

    Several, the longest first, where the last of them are always 0.
    """
    for together, values in side_by_side(columns, marks):
        if is_one_hot(values):
            yield [together]
            continue
        for start, stops in ends_of_sum_1(values):
            yield [together[start:stop] for stop in stops]


def _named_as_scores(
    columns: Columns, runs: Sequence[list[str]], scores: Sequence[str]
) -> OneHot | None:
    """The columns whose classes scores are named after, one to one; None for none."""
    for run in runs:
        for text in _texts_around_classes(run):
            classes = list(map(text.inside, run))
            for family in _scores_named_after(classes, scores):
                if not _prove_scores(columns, family):
                    continue
                places = _places_of_ones(columns, run)
                if places is not None:
                    return OneHot(text, run, classes, family, places)
    return None


def _texts_around_classes(names: Sequence[str]) -> list[Around]:
    """All texts that the names may have around the classes, the likeliest first.

    That is the one which leaves no sign at the end of all classes and cuts no word: 0,
    1, 2 of ``cp_0, cp_1, cp_2``, not ``p_0`` after a c; else the shortest.
    """
    first = names[0]
    most_before = n_common_parts(names)
    most_after = n_common_parts([name[::-1] for name in names])
    texts = []
    for n_before in range(most_before + 1):
        for n_after in range(most_after + 1):
            text = Around(first[:n_before], first[len(first) - n_after :])
            if all(map(text.is_around, names)):
                texts.append(text)

    def order(text: Around) -> tuple[bool, bool, int]:
        classes = list(map(text.inside, names))
        begin_with_sign = not any(name[0].isalnum() for name in classes)
        end_with_sign = not any(name[-1].isalnum() for name in classes)
        length = len(text.before) + len(text.after)
        return begin_with_sign or end_with_sign, not _ends_at_words(text), length

    return sorted(texts, key=order)


def _scores_named_after(
    classes: Sequence[str], scores: Sequence[str]
) -> Iterator[list[str]]:
    """Columns of scores whose names have these classes, as words, within one text."""
    known = set(scores)
    for text in texts_around(classes[0], scores):
        family = list(map(text.around, classes))
        if _ends_at_words(text) and known.issuperset(family):
            yield family


def _ends_at_words(text: Around) -> bool:
    """True for a text with a sign, or nothing, before and after the class."""
    return not (text.before[-1:].isalnum() or text.after[:1].isalnum())


def _prove_scores(columns: Columns, names: Sequence[str]) -> bool:
    """True for columns whose values prove what kind of scores they are."""
    scores = matrix_in(columns, names, first=ROWS_SEEN)
    if scores is None:
        return False
    proof = kind_of_scores(scores)
    return proof.kind is not None or proof.are_percentages


def _places_of_ones(columns: Columns, names: Sequence[str]) -> IntArray | None:
    """The column of the single 1 of every row; None unless all rows have one."""
    marks = []
    for name in names:
        values = marks_in(columns[name])
        if values is None:
            return None
        marks.append(values)
    matrix = np.stack(marks, axis=1)
    return matrix.argmax(axis=1) if is_one_hot(matrix) else None


def _follows(columns: Columns, one_hot: OneHot) -> bool:
    """True for classes that surely follow the scores, as labels and predictions do.

    Beside a column that has the classes in words only predictions count, which are the
    largest score in every row: other dummies may be of a feature.
    """
    scores = matrix_in(columns, one_hot.scores)
    if scores is None:
        return False
    proof = kind_of_scores(scores)
    kind = proof.kind
    if proof.are_percentages:
        scores = scores / 100
        kind = "probs"
    evidence = label_evidence(scores, one_hot.places, kind)
    if evidence is None or not evidence.is_proven:
        return False
    are_largest = bool((scores.argmax(axis=1) == one_hot.places).all())
    return are_largest or not _has_words(columns, one_hot.classes)


def _has_words(columns: Columns, classes: Sequence[str]) -> bool:
    """True if a column has some of the classes, and nothing else, in words."""
    for column in columns.values():
        if column.cells != "text" or column.empty_row is not None:
            continue
        with suppress(DataError):
            found = set(column.values().astype(str).tolist())
            if len(found) > 1 and found.issubset(classes):
                return True
    return False


def _name_of(one_hot: OneHot, columns: Columns) -> str:
    """What the columns are called without their classes: ``species`` of ``species_cat``."""
    name = f"{one_hot.text.before}{one_hot.text.after}".strip(" _.-:()[]")
    if not name or name in columns or name.isdigit():
        return some_of(one_hot.columns)
    return name


def _replaced(
    table: Table, columns: Columns, one_hot: OneHot, name: str
) -> dict[str, Column]:
    """The columns, with one of the classes in the place of the one-hot ones."""
    index = one_hot.places
    numbers = [whole_number(word) for word in one_hot.classes]
    label = Column(table.file, name, constant(words(one_hot.classes)[index]), "text")
    if all(number is not None for number in numbers):
        label = Column(table.file, name, constant(np.array(numbers)[index]), "number")
    return {**without(columns, one_hot.columns), name: label}
