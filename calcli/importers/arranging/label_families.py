"""Columns whose names hold the words, or the numbers, of a column of labels."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.column_values import numbers_in
from calcli.importers.arranging.family import Family
from calcli.importers.names.array_names import OF_LABEL
from calcli.importers.names.column_options import differing_numbers, option_for
from calcli.importers.names.common_text import texts_around
from calcli.importers.names.roles import (
    COLUMNS,
    is_certainty,
    is_counter,
    is_prediction_word,
    is_unit,
    role_of,
    says_correct,
)
from calcli.importers.names.spellings import RESPELLINGS, Respell
from calcli.importers.table import Column, Columns
from calcli.importers.text_cells import LONGEST_WORD

WHOLE = re.compile(r"-?[0-9]{1,18}")

CODE = re.compile(r"(?<![0-9])0[0-9]")
"""A number that begins with 0, as codes do."""

ROWS_SEEN = 10_000

MOST_CLASSES_SEEN = 1000
"""Rows of a label whose words are looked up in the names of columns; most words."""


def has_other_meaning(name: str) -> bool:
    """True for a confidence, a prediction, correctness, or a counter of rows."""
    if is_certainty(name) or is_prediction_word(name):
        return True
    return says_correct(name) or is_counter(name)


def families_of_classes(columns: Columns, numeric: list[str]) -> list[Family]:
    """Columns whose names hold the words of a label: ``P (class=cat), …``."""
    families: list[Family] = []
    has_codes = any(map(CODE.search, numeric))
    for label, column in columns.items():
        words = words_of_label(column, has_codes)
        for family in _families_around(label, words, numeric):
            families = _with_larger(families, family)
    return _with_own_names(families, list(columns))


def _with_larger(families: Sequence[Family], family: Family) -> list[Family]:
    """Families and one more: of two, where one has all columns of the other, the larger."""
    kept = []
    for other in families:
        if family.members < other.members:
            return list(families)
        if not family.members >= other.members:
            kept.append(other)
    return [*kept, family]


def families_of_numbers(
    columns: Columns, numeric: list[str], families: Sequence[Family]
) -> list[Family]:
    """Columns whose names differ in the numbers of a label: ``P (class=10), …``.

    Every number is in a name, and every such name in the label: these are names of
    classes, no places. Columns numbered from 0 or 1 stay numbered.
    """
    known = {family.members for family in families if _counts_up(family)}
    made: list[Family] = []
    for label, column in columns.items():
        if has_other_meaning(label) or is_unit(label) or role_of(label) in COLUMNS:
            continue
        words = _whole_numbers(column)
        for text in texts_around(words[0], numeric) if words else ():
            members = [text.around(word) for word in words]
            inside = map(text.inside, filter(text.is_around, numeric))
            if set(words) != set(filter(WHOLE.fullmatch, inside)):
                continue
            name = f"{OF_LABEL}{label}"
            family = Family(name, members, "classes", text.before, words, label)
            if family.members not in known:
                known.add(family.members)
                made.append(family)
    return _with_own_names(made, list(columns))


def _counts_up(family: Family) -> bool:
    """True for columns that end in 0, 1, … or 1, 2, …, in any order."""
    numbers = sorted(differing_numbers(family.columns))
    if not numbers or numbers[0] > 1:
        return False
    return numbers == list(range(numbers[0], numbers[-1] + 1))


def _whole_numbers(column: Column) -> list[str]:
    """Distinct whole numbers of a column in their order; none if it has others."""
    values = numbers_in(column, "iu", first=ROWS_SEEN)
    if values is None:
        return []
    numbers = np.unique(values).tolist()
    return list(map(str, numbers)) if 1 < len(numbers) <= MOST_CLASSES_SEEN else []


def _with_own_names(families: Sequence[Family], columns: list[str]) -> list[Family]:
    """Families around the words of one label (of a model each) by their columns."""
    n_of_name = Counter(family.name for family in families)
    named = []
    for family in families:
        if n_of_name[family.name] > 1:
            family = replace(family, name=option_for(columns, family.columns))
        named.append(family)
    return named


def words_of_label(column: Column, has_codes: bool) -> list[str]:
    """The words of a column that may be a label; none of numbers.

    has_codes : whole numbers that begin with 0 are words, too.
    """
    if column.cells == "text":
        return distinct_words(column)
    words: list[str] = []
    if column.cells == "number":
        with suppress(DataError):
            values = column.rows(slice(ROWS_SEEN))
            if values.dtype.kind == "U":
                words = distinct_words(column)
            elif has_codes and values.dtype.kind in "iu" and column.written is not None:
                texts = set(map(str, column.written_cells()))
                if any(map(CODE.match, texts)) and len(texts) <= MOST_CLASSES_SEEN:
                    words = sorted(texts)
    return words


def distinct_words(column: Column) -> list[str]:
    """The words of a label without the empty one; none if they are too many."""
    words: set[str] = set()
    with suppress(DataError):
        for value in column.rows(slice(ROWS_SEEN)).tolist():
            word = str(value)
            if len(word) > LONGEST_WORD or len(words) > MOST_CLASSES_SEEN:
                return []
            if word.strip():
                words.add(word)
    return sorted(words)


def _families_around(
    label: str, words: Sequence[str], numeric: Sequence[str]
) -> list[Family]:
    """Columns whose names are the words within the same text, for each such text.

    As they are, or else in the spelling of another program.
    """
    if len(words) < 2:
        return []
    families = _families_spelled(label, words, numeric, str)
    for respell in RESPELLINGS:
        if not families:
            families = _families_spelled(label, words, numeric, respell)
    return families


def _families_spelled(
    label: str, words: Sequence[str], numeric: Sequence[str], respell: Respell
) -> list[Family]:
    """The same for words and names in one spelling, in which all of them differ."""
    columns = {respell(name): name for name in numeric}
    spelled = [respell(word.strip()) for word in words]
    if respell is str:
        spelled = list(words)
    if len(columns) < len(numeric) or len(set(spelled)) < len(words):
        return []
    families = []
    for text in texts_around(spelled[0], columns):
        if not columns.keys() >= set(map(text.around, spelled)):
            continue
        if text.before or text.after:
            members = list(filter(text.is_around, columns))
        else:
            members = [name for name in columns if name in spelled]
        names = [columns[name] for name in members]
        classes = []
        for name in names:
            classes.append(name[len(text.before) : len(name) - len(text.after)])
        prefix = names[0][: len(text.before)]
        array = f"{OF_LABEL}{label}"
        families.append(Family(array, names, "classes", prefix, classes, label))
    return families
