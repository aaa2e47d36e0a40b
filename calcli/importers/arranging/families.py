"""Columns of a table that belong together become one array.

- ``logits_cat, logits_dog, …`` the array ``logits`` with the class names cat and dog;
- fields of one object, ``raw.probabilities.cat, …``, the array ``raw.probabilities``;
- columns that end in a number, ``p0, p1, …``, the array ``p``;
- columns around the words of the labels, ``P (class=cat), …``, an array of these;
- columns side by side that sum to 1 in every row an array of these;
- all other numeric columns without a known meaning the array ``columns``;
- ``--scores A,B,C`` and ``A:C`` an array of these columns.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.class_headers import (
    names_of_classes,
    read_names,
    sorted_by_number,
)
from calcli.importers.arranging.class_words import with_words_of_classes
from calcli.importers.arranging.family import Family, matrix_of, stacked
from calcli.importers.arranging.find_families import find_families
from calcli.importers.arranging.label_families import distinct_words
from calcli.importers.arranging.odd_columns import are_numbered_from_1, refuse_strange
from calcli.importers.arranging.plain_columns import (
    labels_as_words,
    plain_columns,
    take_out_index,
)
from calcli.importers.arranging.predicted_names import names_by_place
from calcli.importers.arranging.ranks import take_ranks
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.column_options import option_for, some_of
from calcli.importers.names.roles import are_ours, is_largest, role_of
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, FamilyFacts, Table
from calcli.items import counts_up, picked, without
from calcli.numerics import AnyArray

ENOUGH_ROWS = 10
"""Rows for a class from which a column of words that agree is that of predictions."""


def with_families(table: Table, request: ImportRequest) -> Table:
    """Make the arrays of a table of columns (see the top of this file).

    The index of pandas is left out, or becomes the ids. Raises DataError, UsageError.
    """
    if table.n_rows == 0:
        raise DataError(
            f"{table.file}: there are no rows below the column names, expected at"
            " least one"
        )
    is_ours = table.is_ours or are_ours(table.columns)
    columns = plain_columns(table, request)
    take_out_index(columns, table)
    if is_ours:
        labels_as_words(columns)
    ranks: dict[str, Column] = {}
    if request.classes is not None:
        ranks = take_ranks(table, columns, request)
    if _counts_its_columns(columns) and not (request.scores or request.labels):
        matrix = matrix_of(table, columns, list(columns))
        return replace(table, columns={table.file.stem: matrix}, is_single=True)
    families = _without_largest(find_families(columns, request, is_ours), columns)
    if not is_ours:
        families = [_in_order(family, table) for family in families]
    combined = _combined_columns(families) - {*request.scores, *request.pieces}
    alone = without(columns, combined)
    arrays = alone | ranks
    for family in families:
        try:
            classes = _names_of(family, table, columns, is_ours)
        except DataError:
            if family.origin == "numbered" and _has_other_scores(family, families):
                continue  # age_10, age_30 are no classes
            raise
        arrays[family.name] = _array_of(family, table, columns, families, request)
        if classes is not None:
            arrays |= with_words_of_classes(alone, classes)
            path = f"class_names_{family.name}"
            get = partial(read_names, table, family, classes)
            arrays[path] = Column(table.file, path, get)
    return replace(table, columns=arrays)


def _has_other_scores(family: Family, families: Sequence[Family]) -> bool:
    """True for scores by name, by the words of a label, or by their sum, elsewhere."""
    origins = {other.origin for other in families if other is not family}
    return not origins.isdisjoint(("named", "classes", "summing"))


def _in_order(family: Family, table: Table) -> Family:
    """The family with numbered columns in their order, unless an option lists them."""
    return family if family.origin == "listed" else sorted_by_number(table, family)


def _names_of(
    family: Family, table: Table, columns: Columns, is_ours: bool
) -> list[str] | None:
    """Names of the classes: by the names of the columns, else by predictions."""
    classes = names_of_classes(table, family, is_ours)
    is_numbered = family.origin in ("numbered", "named")
    if classes is None and is_numbered and not is_ours:
        return _names_by_predictions(table, columns, family)
    return classes


def _names_by_predictions(
    table: Table, columns: Columns, family: Family
) -> list[str] | None:
    """Names of the classes that a column of predicted words proves; else None.

    Each word stands where one and the same column is the largest, and each column is
    somewhere the largest.
    """
    k = len(family.columns)
    if k < 2 or not _are_numbers(columns, family.columns):
        return None
    for name, column in columns.items():
        if column.cells != "text" or len(distinct_words(column)) != k:
            continue
        with suppress(DataError):
            scores = stacked(table, columns, family.columns)
            names = names_by_place(scores, column.load().tolist()) or {}
            is_one_to_one = len(set(names.values())) == k
            if is_one_to_one and len(scores) >= ENOUGH_ROWS * k:
                remark(
                    f"{table.file.name}: the classes of {some_of(family.columns)} are"
                    f" named after {name!r}, which gives the class of the largest score"
                    " in every row"
                )
                return [str(names[place]) for place in range(k)]
    return None


def _are_numbers(columns: Columns, names: Sequence[str]) -> bool:
    return all(columns[name].cells == "number" for name in names)


def _counts_its_columns(columns: Columns) -> bool:
    """True for columns called 0, 1, 2, …"""
    return len(columns) > 1 and counts_up(columns)


def _array_of(
    family: Family,
    table: Table,
    columns: Columns,
    families: Sequence[Family],
    request: ImportRequest,
) -> Column:
    """The array of a family. That of left-over columns is checked when it is read."""
    matrix = replace(
        matrix_of(table, columns, family.columns, family.name),
        parts=without(picked(columns, family.columns), [family.name]),
        family=_facts_of(family, columns),
    )
    if family.origin != "left over":
        return matrix
    numbered = _numbered_among(families, family)
    has_word_labels = any(
        role_of(name) == "labels" and column.cells == "text"
        for name, column in columns.items()
    )
    is_named = any(family.origin == "named" for family in families)
    is_told = bool(request.kind) and not is_named and not request.scores

    @cache
    def get() -> AnyArray:
        if is_told:
            remark(
                f"{table.file.name}: classes 0 to {len(family.columns) - 1} are the"
                f" columns {some_of(family.columns)}"
            )
        refuse_strange(table, columns, family.columns, numbered, has_word_labels)
        return np.asarray(matrix.get())

    return replace(matrix, get=get)


def _facts_of(family: Family, columns: Columns) -> FamilyFacts:
    """What the array of a family tells of its columns."""
    facts = FamilyFacts(
        option=option_for(list(columns), family.columns),
        counts_from_1=are_numbered_from_1(family.columns),
        is_generated=family.origin in ("classes", "summing", "left over"),
    )
    if family.origin == "listed":
        facts = replace(facts, option="")
    if family.classes is None:
        return facts
    return replace(
        facts,
        by_label=family.label,
        is_complete=family.classes != family.columns,
    )


def _numbered_among(families: Sequence[Family], left_over: Family) -> list[str]:
    """The first numbered columns that are some, not all, of the left-over ones."""
    for family in families:
        if family.origin != "numbered":
            continue
        fewest = 2 if family.columns[0] == "0" else 3
        if fewest <= len(family.columns) < len(left_over.columns):
            return family.columns
    return []


def _combined_columns(families: Sequence[Family]) -> set[str]:
    """Columns that families combine which are named as scores, or proven to be some."""
    combined: set[str] = set()
    for family in families:
        if family.origin == "named" or family.is_proven:
            combined.update(family.columns)
    return combined


def _without_largest(
    families: Sequence[Family], columns: dict[str, Column]
) -> list[Family]:
    """The families without columns of the largest score of each row (``prob_max``),
    which leave the table, too, in place.
    """
    made = []
    for family in families:
        largest = _column_of_largest(family, columns)
        if largest is not None:
            del columns[largest]
            family = replace(family, columns=_without_name(family.columns, largest))
        made.append(family)
    return made


def _column_of_largest(family: Family, columns: Columns) -> str | None:
    """The column of a named family with the largest score of each row; else None."""
    if family.origin != "named":
        return None
    names = family.columns
    largest = list(filter(is_largest, names))
    if len(largest) != 1 or len(names) < 3 or not _are_numbers(columns, names):
        return None
    scores = [columns[name].load() for name in _without_name(names, largest[0])]
    column = columns[largest[0]]
    if not np.allclose(np.max(scores, axis=0), column.load()):
        return None
    remark(
        f"{column.file.name}: column {largest[0]!r} is the largest of each row and was"
        " left out"
    )
    return largest[0]


def _without_name(names: Sequence[str], name: str) -> list[str]:
    return [other for other in names if other != name]
