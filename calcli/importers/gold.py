"""Labels in a file of their own, matched to the scores by ids."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.import_request import ImportRequest
from calcli.importers.names import is_answer, parse_name
from calcli.importers.proposal import Reading
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table
from calcli.numerics import AnyArray

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
    name = _column_of_answers(table, request)
    labels = tuple(GOLD if label == name else label for label in request.labels)
    if not labels and not request.confidence:
        labels = (GOLD,)
    request = replace(request, labels=labels, gold=None)
    answers = table.columns[name]
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
        advice = "add a column 'id' that both files have"
        raise DataError(f"{lacking}: has no ids to find the gold by; {advice}")
    for folder, path in ids_by_folder.items():
        get = partial(_aligned, columns[path], ids, answers)
        added["/".join((*folder, GOLD))] = Column(answers.file, answers.name, get)
    message = f"{ids.name!r} as its ids; rows were joined by them"
    remark(f"{answers.where} was read as the gold, {message}")
    return Joined(added, request)


def _column_of_answers(table: Table, request: ImportRequest) -> str:
    """The column of right answers: by the user, by its name, or the only one."""
    names = {
        path: parse_name(path)
        for path in table.columns
        if not path.startswith("class_names_")
    }
    ways: Sequence[list[str]] = (
        [label for label in request.labels if label in table.columns],
        [path for path, name in names.items() if name.role == "labels"],
        [path for path, name in names.items() if is_answer(name.core)],
        [path for path, name in names.items() if not name.role],
    )
    candidates = next((paths for paths in ways if paths), [])
    if len(candidates) != 1:
        question = f"which of {', '.join(table.columns)} is the right answer?"
        raise UsageError(f"{table.file}: {question} choose with --labels NAME")
    return candidates[0]


def _ids_of(columns: Columns) -> Column | None:
    for path, column in columns.items():
        if parse_name(path).role == "ids":
            return column
    return None


def align_labels(reading: Reading, columns: Columns) -> Columns:
    """The arrays, with labels of another file reordered to the scores by ids.

    Both files must have ids; else labels go by their place.
    """
    if reading.labels is None or reading.labels.rpartition("/")[2] == GOLD:
        return columns
    scores, labels = columns[reading.scores], columns[reading.labels]
    if scores.file == labels.file:
        return columns
    here = _ids_of(_of_file(columns, scores))
    there = _ids_of(_of_file(columns, labels))
    if here is None or there is None:
        if here is not there:
            message = "labels go by their place, as only one of the files has ids"
            remark(f"{labels.where}: {message}")
        return columns
    get = partial(_aligned, here, there, labels)
    remark(f"{labels.where} was joined to the scores by {there.name!r}")
    return {**columns, reading.labels: Column(labels.file, labels.name, get)}


def _of_file(columns: Columns, like: Column) -> Columns:
    return {
        path: column for path, column in columns.items() if column.file == like.file
    }


def _aligned(ids: Column, gold_ids: Column, answers: Column) -> AnyArray:
    """Answers of the gold file, reordered to ``ids``. Raises DataError."""
    wanted, known = texts_in(ids), texts_in(gold_ids)
    if max(wanted.ndim, known.ndim) > 1:
        message = f"ids have shape {known.shape} here, {wanted.shape} there"
        raise DataError(f"{gold_ids.where}: {message}, expected one per row")
    values = np.atleast_1d(np.asarray(answers.load()[()]))
    if len(values) != len(known):
        message = f"has {len(values)} answers for {len(known)} ids"
        raise DataError(f"{answers.where}: {message}")
    order = np.argsort(known, kind="stable")
    known, values = known[order], values[order]
    _refuse_several_answers(known, values, gold_ids)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    is_missing = known[place] != wanted
    if is_missing.any():
        row = int(np.argmax(is_missing))
        n_lacking = f"{int(is_missing.sum())} of {len(wanted)} rows lack an answer"
        message = f"row {row} has the id {str(wanted[row])!r}, which {gold_ids.file}"
        raise DataError(f"{ids.where}: {message} does not have ({n_lacking})")
    return values[place]


def _refuse_several_answers(
    known: AnyArray, values: AnyArray, gold_ids: Column
) -> None:
    """Raise DataError for an id with several answers. known : sorted."""
    is_repeat = known[1:] == known[:-1]
    differs = (values[1:] != values[:-1]).reshape(len(is_repeat), -1).any(axis=1)
    if (is_repeat & differs).any():
        row = int(np.argmax(is_repeat & differs))
        message = f"id {str(known[1:][row])!r} has several answers, expected one"
        raise DataError(f"{gold_ids.where}: {message}")


def texts_in(column: Column) -> AnyArray:
    """Values as stripped strings; 7 and 7.0 become equal."""
    values = np.atleast_1d(column.values())
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    texts = []
    for value in values.ravel().tolist():
        text = value.decode() if isinstance(value, bytes) else str(value)
        texts.append(text.strip())
    return np.array(texts, dtype="U").reshape(values.shape)
