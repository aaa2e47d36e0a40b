"""Columns of a table that belong together become one array.

- ``logits_cat, logits_dog, …`` the array ``logits`` with the class names cat and dog;
- fields of one object, ``raw.probabilities.cat, …``, the array ``raw.probabilities``;
- columns that end in a number, ``p0, p1, …``, the array ``p``;
- columns around the words of the labels, ``P (class=cat), …``, an array of these;
- columns side by side that sum to 1 in every row an array of these;
- all other numeric columns without a known meaning the array ``columns``;
- ``--scores A,B,C`` and ``A:C`` an array of these columns.
"""

import re
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.class_headers import (
    names_of_classes,
    read_names,
    sorted_by_number,
)
from calcli.importers.arranging.family import Family, matrix_of, stacked
from calcli.importers.arranging.find_families import (
    CODE,
    distinct_words,
    find_families,
    words_of_label,
)
from calcli.importers.arranging.odd_columns import are_numbered_from_1, refuse_strange
from calcli.importers.arranging.predicted_names import names_by_place
from calcli.importers.arranging.ranks import take_ranks
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.column_options import option_for, some_of
from calcli.importers.names.roles import are_ours, is_index, is_largest, role_of
from calcli.importers.names.spellings import class_of_each_word
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, FamilyFacts, Table
from calcli.importers.text_cells import with_blank_words, without_percent_signs, words
from calcli.io.cells import is_blank, is_null
from calcli.items import counts_up, picked, without
from calcli.numerics import AnyArray

PANDAS_LEVELS = re.compile(r"\('(\w+)', '([^']+)'\)")
"""A column name of two levels, as pandas writes it to Parquet."""

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
    columns = _plain_columns(table, request)
    _take_out_index(columns, table)
    if is_ours:
        _labels_as_words(columns)
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


def with_words_of_classes(
    columns: Columns, classes: Sequence[str], named_by: str = "a column of scores"
) -> dict[str, Column]:
    """The columns of classes of which a cell reads as something else: NA, or 007.

    named_by : what names the classes, for a remark.
    """
    changed: dict[str, Column] = {}
    blank_words = frozenset(filter(is_blank, classes))
    has_codes = any(map(CODE.match, classes))
    if not (blank_words or has_codes):
        return changed
    for name, column in columns.items():
        words = words_of_label(column, has_codes)
        if not words or (class_of_each_word(words, classes) < 0).any():
            continue
        if column.cells == "number":
            changed[name] = _as_words(column)
        elif blank_words:
            changed[name] = with_blank_words(column, blank_words)
    _remark_blank_words(blank_words, [columns[name] for name in changed], named_by)
    return changed


def _remark_blank_words(
    blank_words: Set[str], columns: Sequence[Column], named_by: str
) -> None:
    with_blanks = [column for column in columns if column.empty_row is not None]
    if with_blanks:
        names = ", ".join(column.name for column in with_blanks)
        remark(
            f"{with_blanks[0].file.name}: {', '.join(sorted(blank_words))} in {names}"
            f" is a class, as {named_by} is named so, and no missing value"
        )


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


def _plain_columns(table: Table, request: ImportRequest) -> dict[str, Column]:
    """The columns, percentages as numbers; cells may be empty if asked."""
    columns = {}
    for name, column in table.columns.items():
        if request.drop_missing:
            column = replace(column, empty_row=None)
        plain = without_percent_signs(column, as_fractions=not request.percent)
        plain_name = PANDAS_LEVELS.sub(r"\1_\2", name)
        columns[plain_name] = replace(plain, name=plain_name)
    return columns


def _take_out_index(columns: dict[str, Column], table: Table) -> None:
    """Remove the row index of pandas; one that is not 0, 1, … becomes the ids."""
    for name in list(filter(is_index, columns)):
        index = columns.pop(name)
        what = f"the column {name!r}" if name else "the first column, without a name,"
        reading = "looks like an index and was left out"
        names = _names_of_index(index)
        if names == list(range(table.n_rows or 0)):
            reading = "counts the rows and was left out"
        elif names is not None and _are_new_ids(names, columns):
            columns["ids"] = replace(index, name="ids")
            reading = "was read as the ids of the rows"
        remark(f"{table.file.name}: {what} {reading}")


def _names_of_index(index: Column) -> list[Any] | None:
    """Names of the rows; None for lists and other cells that are none."""
    if index.cells not in ("number", "text"):
        return None
    with suppress(DataError):
        return index.names("ids").tolist()
    return None


def _are_new_ids(names: list[Any], columns: Columns) -> bool:
    """True for distinct names in a table without ids."""
    if any(role_of(name) == "ids" for name in columns):
        return False
    return len(set(names)) == len(names)


def _labels_as_words(columns: dict[str, Column]) -> None:
    """Read labels that ``apply`` wrote as words, even if they look like numbers."""
    for name, column in columns.items():
        if role_of(name) == "labels":
            columns[name] = _as_words(column)


def _as_words(column: Column) -> Column:
    def get() -> AnyArray:
        texts = []
        for cell in column.written_cells():
            texts.append("" if is_null(cell) else str(cell))
        return words(texts)

    def get_rows(rows: slice) -> AnyArray:
        return get()[rows]

    return replace(column, get=get, get_rows=get_rows, cells="text")


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
