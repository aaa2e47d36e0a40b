"""Columns with a single 1 in every row, named after the classes: a column of labels.

``species_cat, species_dog, …`` as ``pandas.get_dummies`` and ``model.matrix`` of R write
them, beside scores whose names hold the same classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from calcli.errors import DataError
from calcli.importers.evidence.kinds import PERCENTAGES, kind_of_scores
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
from calcli.numerics import AnyArray, IntArray, whole_number

ROWS_SEEN = 1000
"""Rows that are looked at first. All rows are, before columns become one."""

MOST_COLUMNS_SEARCHED = 100
"""Columns of zeros and ones side by side, in which some are searched."""


@dataclass(frozen=True)
class OneHot:
    """Columns with a single 1 in every row, by their class.

    text : what is around the class in the names. classes : in the order of the columns.
    """

    text: Around
    columns: list[str]
    classes: list[str]

    @property
    def order(self) -> tuple[bool, bool, int]:
        """By which one of several namings comes first."""
        begin_with_sign = not any(name[0].isalnum() for name in self.classes)
        end_with_sign = not any(name[-1].isalnum() for name in self.classes)
        has_sign = begin_with_sign or end_with_sign
        length = len(self.text.before) + len(self.text.after)
        return has_sign, not _ends_at_words(self.text), length


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
    for run in _one_hot_runs(columns, marks):
        one_hot, family = _named_as_scores(columns, run, scores)
        if one_hot is None:
            continue
        name = _name_of(one_hot, columns)
        are_numbers = all(whole_number(word) is not None for word in one_hot.classes)
        is_sure = are_numbers or role_of(name) == "labels"
        if is_sure or _follow(table.columns, one_hot, family):
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
        if column.cells not in ("number", "truth") or column.empty_row is not None:
            continue
        with suppress(DataError):
            values = column.rows(slice(ROWS_SEEN))
            if values.ndim == 1 and _are_marks(values):
                marks[name] = values.astype(np.int64)
    return marks


def _are_marks(values: AnyArray) -> bool:
    if values.dtype.kind not in "biuf":
        return False
    return bool(((values == 0) | (values == 1)).all())


def _one_hot_runs(
    columns: Columns, marks: Mapping[str, IntArray]
) -> Iterator[list[list[str]]]:
    """Columns side by side with a single 1 in every row, those that begin at one.

    Several, the longest first, where the last of them are always 0.
    """
    for are_marks, group in groupby(columns, marks.__contains__):
        together = list(group)
        if not are_marks or len(together) < 2:
            continue
        values = np.stack([marks[name] for name in together], axis=1)
        if is_one_hot(values):
            yield [together]
        elif len(together) <= MOST_COLUMNS_SEARCHED:
            for start in range(len(together) - 1):
                sums = values[:, start:].cumsum(axis=1)
                stops = start + 1 + np.flatnonzero((sums == 1).all(axis=0))
                runs = [together[start:stop] for stop in stops[::-1].tolist()]
                yield [run for run in runs if len(run) > 1]


def _named_as_scores(
    columns: Columns, runs: Sequence[list[str]], scores: Sequence[str]
) -> tuple[OneHot | None, list[str]]:
    """The columns whose classes scores are named after, one to one, and these scores.

    None for none.
    """
    for run in runs:
        for one_hot in _namings(run):
            for family in _scores_of(one_hot, scores):
                if _prove_scores(columns, family) and _are_one_hot(columns, run):
                    return one_hot, family
    return None, []


def _namings(names: Sequence[str]) -> Iterator[OneHot]:
    """The columns with all texts that their names may have around the classes.

    First comes that which leaves no sign at the end of all classes and cuts no word:
    0, 1, 2 of ``cp_0, cp_1, cp_2``, not ``p_0`` after a c; else the shortest.
    """
    first = names[0]
    most_before = n_common_parts(names)
    most_after = n_common_parts([name[::-1] for name in names])
    texts = []
    for n_before in range(most_before + 1):
        for n_after in range(most_after + 1):
            texts.append(Around(first[:n_before], first[len(first) - n_after :]))
    namings = []
    for text in texts:
        if all(map(text.is_around, names)):
            namings.append(OneHot(text, list(names), list(map(text.inside, names))))
    yield from sorted(namings, key=lambda naming: naming.order)


def _scores_of(one_hot: OneHot, scores: Sequence[str]) -> Iterator[list[str]]:
    """Columns of scores whose names have the same classes, as words, within one text."""
    known = set(scores)
    for text in texts_around(one_hot.classes[0], scores):
        family = list(map(text.around, one_hot.classes))
        if _ends_at_words(text) and known.issuperset(family):
            yield family


def _ends_at_words(text: Around) -> bool:
    """True for a text with a sign, or nothing, before and after the class."""
    return not (text.before[-1:].isalnum() or text.after[:1].isalnum())


def _prove_scores(columns: Columns, names: Sequence[str]) -> bool:
    """True for columns whose values prove what kind of scores they are."""
    with suppress(DataError):
        values = [columns[name].rows(slice(ROWS_SEEN)) for name in names]
        if all(array.ndim == 1 and array.dtype.kind in "iuf" for array in values):
            proof = kind_of_scores(np.stack(values, axis=1))
            return proof.kind is not None or proof.reason == PERCENTAGES
    return False


def _follow(columns: Columns, one_hot: OneHot, family: Sequence[str]) -> bool:
    """True for classes that surely follow the scores, as labels and predictions do.

    Beside a column that has the classes in words only predictions count, which are the
    largest score in every row: other dummies may be of a feature.
    """
    with suppress(DataError):
        scores = np.stack([columns[name].values() for name in family], axis=1)
        marks = [columns[name].values() for name in one_hot.columns]
        classes = np.stack(marks, axis=1).argmax(axis=1)
        proof = kind_of_scores(scores)
        kind = proof.kind
        if proof.reason == PERCENTAGES:
            scores = scores / 100
            kind = "probs"
        evidence = label_evidence(scores, classes, kind)
        if evidence is None or not evidence.is_proven:
            return False
        are_largest = bool((scores.argmax(axis=1) == classes).all())
        return are_largest or not _has_words(columns, one_hot.classes)
    return False


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


def _are_one_hot(columns: Columns, names: Sequence[str]) -> bool:
    """True if all rows have a single 1."""
    with suppress(DataError):
        values = [columns[name].values() for name in names]
        return is_one_hot(np.stack(values, axis=1))
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
    values = [columns[name].values() for name in one_hot.columns]
    index = np.stack(values, axis=1).argmax(axis=1)
    numbers = [whole_number(word) for word in one_hot.classes]
    label = Column(table.file, name, constant(words(one_hot.classes)[index]), "text")
    if all(number is not None for number in numbers):
        label = Column(table.file, name, constant(np.array(numbers)[index]), "number")
    return {**without(columns, one_hot.columns), name: label}
