"""Labels in a file of their own, matched to the scores by ids."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.arranging.class_words import with_words_of_classes
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.roles import is_answer
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table
from calcli.io.cells import texts_of_names
from calcli.names import places_among
from calcli.numerics import AnyArray, IntArray

GOLD = "gold"
"""Name of the array of labels from ``--gold``."""


@dataclass(frozen=True)
class Joined:
    """Arrays of several files, and the request that fits them."""

    columns: dict[str, Column]
    request: ImportRequest


def add_gold(columns: Columns, table: Table, request: ImportRequest) -> Joined:
    """Add the labels of ``--gold FILE`` as an array ``gold`` beside every array of ids.

    If neither side has ids, rows are matched by position. ``--labels NAME`` names the
    column of labels. Raises UsageError for ambiguous columns, DataError for rows
    without a label.
    """
    name = column_of_answers(table, request)
    own_name = {name: GOLD}
    labels = tuple(own_name.get(label, label) for label in request.labels)
    if not labels and not request.confidence:
        labels = (GOLD,)
    request = replace(request, labels=labels, gold=None)
    answers = _with_words_of_classes(table.columns[name], columns)
    ids = _ids_of(table.columns)
    ids_by_folder = {}
    for path in columns:
        parsed = parse_name(path)
        if parsed.role == "ids":
            ids_by_folder[parsed.folder] = path
    added = dict(columns)
    if ids is None and not ids_by_folder:
        added[GOLD] = replace(answers, parts={})
        remark(f"{answers.where} was read as the gold, row by row: there are no ids")
        return Joined(added, request)
    if ids is None or not ids_by_folder:
        lacking = table.file if ids is None else next(iter(columns.values())).file
        raise DataError(
            f"{lacking}: has no ids to find the gold by; add a column 'id' that both"
            " files have"
        )
    for folder, path in ids_by_folder.items():
        added["/".join((*folder, GOLD))] = _aligned(columns[path], ids, answers)
    remark(
        f"{answers.where} was read as the gold, {ids.name!r} as its ids; rows were"
        " joined by them"
    )
    return Joined(added, request)


def _with_words_of_classes(answers: Column, columns: Columns) -> Column:
    """The answers, in which names of classes such as NA or 007 are words."""
    for path, column in columns.items():
        if path.rpartition("/")[2].startswith("class_names_"):
            classes = list(map(str, column.load()))
            kept = with_words_of_classes({answers.name: answers}, classes)
            answers = kept.get(answers.name, answers)
    return answers


def column_of_answers(table: Table, request: ImportRequest) -> str:
    """The column of right answers: by the user, by its name, or the only one."""
    by_user = []
    by_role = []
    by_name = []
    without_role = []
    for path in table.columns:
        if path in request.labels:
            by_user.append(path)
        if path.startswith("class_names_"):
            continue
        name = parse_name(path)
        if name.role == "labels":
            by_role.append(path)
        if is_answer(name.core):
            by_name.append(path)
        if not name.role:
            without_role.append(path)
    candidates = by_user or by_role or by_name or without_role
    if len(candidates) != 1:
        raise UsageError(
            f"{table.file}: which of {', '.join(table.columns)} is the right answer?"
            " choose with --labels NAME"
        )
    return candidates[0]


def _ids_of(columns: Columns) -> Column | None:
    for path, column in columns.items():
        if parse_name(path).role == "ids":
            return column
    return None


def align_labels(reading: Reading) -> Reading:
    """The reading, with labels of another file reordered to the scores by ids.

    Both files must have ids; else labels go by their place.
    """
    if reading.labels is None or reading.labels.rpartition("/")[2] == GOLD:
        return reading
    scores, labels = reading.score_column, reading.columns[reading.labels]
    if scores.file == labels.file:
        return reading
    here = _ids_of(_of_file(reading.columns, scores))
    there = _ids_of(_of_file(reading.columns, labels))
    if here is None or there is None:
        if here is not there:
            remark(
                f"{labels.where}: labels go by their place, as only one of the files"
                " has ids"
            )
        return reading
    aligned = _aligned(here, there, labels)
    remark(f"{labels.where} was joined to the scores by {there.name!r}")
    return replace(reading, columns={**reading.columns, reading.labels: aligned})


def _of_file(columns: Columns, like: Column) -> Columns:
    of_file = {}
    for path, column in columns.items():
        if column.file == like.file:
            of_file[path] = column
    return of_file


def _aligned(ids: Column, gold_ids: Column, answers: Column) -> Column:
    """Answers of the gold file in the rows of ``ids``.

    Loading them raises DataError (see ``_rows_of_ids``).
    """

    @cache
    def rows() -> IntArray:
        return _rows_of_ids(ids, gold_ids, answers)

    def pick(array: AnyArray) -> AnyArray:
        return np.atleast_1d(array)[rows()]

    return answers.ordered(pick)


def _rows_of_ids(ids: Column, gold_ids: Column, answers: Column) -> IntArray:
    """Row of the gold file for every id.

    Raises DataError for an id that it does not have, or has several answers for.
    """
    wanted = np.atleast_1d(ids.names("ids"))
    known = np.atleast_1d(gold_ids.names("ids"))
    if max(wanted.ndim, known.ndim) > 1:
        raise DataError(
            f"{gold_ids.where}: ids have shape {known.shape} here, {wanted.shape}"
            " there, expected one per row"
        )
    values = answers.answers()
    if len(values) != len(known):
        raise DataError(
            f"{answers.where}: has {len(values)} answers for {len(known)} ids"
        )
    known_texts = texts_of_names(known)
    answer_by_id: dict[str, Any] = {}
    for text, value in zip(known_texts, values, strict=True):
        if answer_by_id.setdefault(text, value) != value:
            raise DataError(
                f"{gold_ids.where}: id {text!r} has several answers, expected one"
            )
    wanted_texts = texts_of_names(wanted)
    rows = places_among(known_texts, wanted_texts)
    is_missing = rows < 0
    if is_missing.any():
        row = int(np.argmax(is_missing))
        raise DataError(
            f"{ids.where}: row {row} has the id {wanted_texts[row]!r}, which"
            f" {gold_ids.file} does not have ({int(is_missing.sum())} of {len(wanted)}"
            " rows lack an answer)"
        )
    return rows
