"""Which columns of a table belong together, by their names."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.family import Family
from calcli.importers.arranging.label_families import (
    WHOLE,
    families_of_classes,
    families_of_numbers,
    has_other_meaning,
)
from calcli.importers.arranging.summing_columns import summing_columns
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import (
    BY_CALIBRATOR,
    BY_SUM,
    LEFT_OVER,
    outcomes_by_score,
    parse_name,
)
from calcli.importers.names.column_options import by_stem, listed_columns, option_for
from calcli.importers.names.roles import PER_ROW, SCORE_PREFIX, role_of
from calcli.importers.table import Column, Columns
from calcli.importers.text_cells import not_a_number
from calcli.items import counts_up


def find_families(
    columns: Columns, request: ImportRequest, is_ours: bool
) -> list[Family]:
    """All families, in the order in which later ones replace earlier ones of a name.

    is_ours : the table was written by calcli, whose names of columns are clear.
    """
    names = list(columns)
    listed = _listed_families(columns, request)
    outcomes = outcomes_by_score(names)
    reserved = {*request.labels, *chain(*request.named.values())}
    reserved.update(outcomes, outcomes.values(), _columns_of(listed))
    proven = []
    if not (request.scores or is_ours):
        proven = _proven_families(columns, reserved)
    reserved.update(_columns_of(proven))
    free = [name for name in names if _may_be_score(name, columns[name], reserved)]
    named = _named_families(free)
    taken_by_name = _columns_of(named)
    rest = []
    for name in free:
        if name not in taken_by_name and not has_other_meaning(name):
            rest.append(name)
    families = [*named, *_numbered_families(names, free, rest)]
    left_over = Family(LEFT_OVER, rest, "left over")
    if not request.scores:
        labels = {**_classes_of_calibrator(request), **columns}
        if request.gold_answers is not None:
            labels.setdefault(request.gold_answers.name, request.gold_answers)
        families = _with_families_of_labels(labels, families, left_over, free, is_ours)
    elif len(rest) > 1:
        families.append(left_over)
    return [*families, *proven, *listed]


def _classes_of_calibrator(request: ImportRequest) -> dict[str, Column]:
    """The names of the classes of a calibrator, as if they were a column of labels."""
    words = np.array(request.known_classes, dtype="U")
    if len(words) < 2 or all(map(WHOLE.fullmatch, request.known_classes)):
        return {}
    column = Column(Path(BY_CALIBRATOR), BY_CALIBRATOR, lambda: words, cells="text")
    return {BY_CALIBRATOR: column}


def _with_families_of_labels(
    columns: Columns,
    families: Sequence[Family],
    left_over: Family,
    free: list[str],
    is_ours: bool,
) -> list[Family]:
    """The families with the names that labels give them, and those of labels alone.

    columns : those of the table, and labels of another file. left_over : it comes last,
    if it has several columns. free : all that may be scores.
    """
    rest = left_over.columns
    of_words = families_of_classes(columns, rest)
    of_numbers = families_of_numbers(columns, free, families)
    with_names = [*of_words, *of_numbers]
    if not is_ours:
        with_names += families_of_classes(columns, free)
    named = [_with_names_of_classes(family, with_names) for family in families]
    named = _without_parts_of(with_names, named)
    for family in of_words:
        if len(family.columns) == len(rest):
            left_over = replace(left_over, classes=family.classes, label=family.label)
        else:
            named.append(family)
    named += _without_columns_of(of_numbers, named)
    named += _family_by_sum(columns, rest, named)
    if len(rest) > 1:
        named.append(left_over)
    return named


def _family_by_sum(
    columns: Columns, rest: Sequence[str], families: Sequence[Family]
) -> list[Family]:
    """The family of columns that sum to 1, unless it is one of these, or all the rest.

    All the rest is an array by itself, but where another family is a part of it.
    """
    if any(family.members == set(rest) for family in families):
        return []
    by_sum = Family(BY_SUM, summing_columns(columns, rest), "summing")
    has_parts = any(family.members < by_sum.members for family in families)
    is_left_over = len(by_sum.columns) == len(rest) and not has_parts
    if not by_sum.columns or is_left_over:
        return []
    return _without_columns_of([by_sum], families)


def _proven_families(columns: Columns, reserved: set[str]) -> list[Family]:
    """Families around the words of a label of which some words have a meaning: id, NA.

    Their rows are probabilities, or logarithms of such, which no other columns named
    after all words of a label are.
    """
    numeric = []
    for name, column in columns.items():
        if column.cells == "number" and name not in reserved:
            numeric.append(name)
    proven = []
    for family in families_of_classes(columns, numeric):
        words_for_scores = set(map(_word_for_scores, family.columns))
        is_named = len(words_for_scores) == 1 and None not in words_for_scores
        if is_named or not any(map(_means_no_class, family.columns)):
            continue
        if _are_distributions(columns, family.columns):
            proven.append(replace(family, is_proven=True))
    return proven


def _columns_of(families: Sequence[Family]) -> set[str]:
    """The columns of all families."""
    return set(chain(*(family.columns for family in families)))


def _means_no_class(name: str) -> bool:
    """True for a name with a meaning of its own."""
    return bool(parse_name(name).role) or has_other_meaning(name)


def _are_distributions(columns: Columns, names: Sequence[str]) -> bool:
    """True if the values prove that the columns are probabilities of all classes.

    Raises DataError for words among their numbers.
    """
    arrays = []
    for name in names:
        try:
            values = columns[name].values()
        except DataError:
            return False
        if values.dtype.kind in "OUS":
            raise not_a_number(columns[name].file, name, values.tolist())
        if values.ndim != 1:
            return False
        arrays.append(values)
    scores = np.stack(arrays, axis=1).astype(np.float64)
    return kind_of_scores(scores).kind in ("probs", "log_probs")


def _listed_families(columns: Columns, request: ImportRequest) -> list[Family]:
    """Columns that options list: ``A,B,C``, ``A:C``."""
    families = []
    for option in (*request.scores, *request.labels):
        if option in columns or not set(option) & {",", ":"}:
            continue
        members = listed_columns(list(columns), option)
        if members:
            families.append(Family(option, members, "listed"))
    return families


def _may_be_score(name: str, column: Column, reserved: set[str]) -> bool:
    """True for a column of numbers without another meaning.

    Texts in a column that is named as scores are refused when it is read.
    """
    if role_of(name) in PER_ROW or name in reserved:
        return False
    if column.cells == "number":
        return True
    return column.cells == "text" and SCORE_PREFIX.match(name) is not None


def _named_families(names: Sequence[str]) -> list[Family]:
    """Columns by the word for scores before the name of the class."""
    by_word: dict[str, list[str]] = {}
    for name in names:
        word = _word_for_scores(name)
        if word is not None:
            by_word.setdefault(word, []).append(name)
    return [Family(word, columns, "named", word) for word, columns in by_word.items()]


def _word_for_scores(name: str) -> str | None:
    """``logits`` of ``logits_cat``, ``raw.probs`` of ``raw.probs.cat``; else None."""
    match = SCORE_PREFIX.match(name)
    if match is not None:
        return match.group() if match.end() < len(name) else None
    parent, dot, field = name.rpartition(".")
    if dot and field and parse_name(parent).role == "scores":
        return parent
    return None


def _numbered_families(
    names: Sequence[str], numeric: Sequence[str], rest: Sequence[str]
) -> list[Family]:
    """Columns by the name before their number, and those called 0, 1, 2, …"""
    without_word = [name for name in numeric if _word_for_scores(name) is None]
    families = []
    for stem, columns in by_stem(without_word).items():
        if stem and len(columns) > 1:
            families.append(Family(stem, columns, "numbered", _prefix(stem, columns)))
    plain = [number for number in map(str, range(len(rest))) if number in rest]
    if counts_up(plain) and 1 < len(plain) < len(rest):
        families.append(Family(option_for(names, plain), plain, "numbered"))
    return families


def _prefix(stem: str, columns: Sequence[str]) -> str:
    return stem if columns[0].startswith(stem) else ""


def _with_names_of_classes(family: Family, named: Sequence[Family]) -> Family:
    """A family with the names of its classes, where a label tells them."""
    for other in named:
        if other.members == family.members:
            return replace(
                family, columns=other.columns, classes=other.classes, label=other.label
            )
    return family


def _without_parts_of(
    with_names: Sequence[Family], families: Sequence[Family]
) -> list[Family]:
    """Families but those that are numbers within words of a label: <5, 5-10, >10."""
    kept = []
    for family in families:
        is_part = any(family.members < other.members for other in with_names)
        if not is_part or family.origin != "numbered":
            kept.append(family)
    return kept


def _without_columns_of(
    families: Sequence[Family], others: Sequence[Family]
) -> list[Family]:
    """Families of other columns than those of others."""
    known = {other.members for other in others}
    return [family for family in families if family.members not in known]
