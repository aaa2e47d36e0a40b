"""Right answers in another file than the scores, put in the order of the scores by ids."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Archive, Entry
from calcli.importers.array_names import BundleArrays, parse_name
from calcli.importers.import_request import ImportRequest
from calcli.importers.remarks import remark
from calcli.numerics import AnyArray

GOLD = "gold"
"""Name of the answers beside the scores that they belong to."""

ANSWERS = ("answer", "answer_key", "correct_answer", "truth", "class", "target")


def add_gold(
    entries: Mapping[str, Entry], archive: Archive, ask: ImportRequest
) -> tuple[dict[str, Entry], ImportRequest]:
    """The answers of ``--gold FILE`` as an array ``gold`` beside every array of ids: (entries, ask).

    The file has a column of answers and one of ids; without ids on either side the rows go by
    their place. ``--labels NAME`` says which column holds the answers. Raises UsageError where
    only the user can choose, DataError for rows without an answer.
    """
    ask, answers = _answers(archive, ask)
    ids = _ids_of(archive.entries)
    homes = {name.folder: path for path in entries if (name := parse_name(path)).role == "ids"}
    added = dict(entries)
    if ids is None and not homes:
        added[GOLD] = Entry(answers.path, answers.name, answers.load)
        remark(f"{answers.where} was read as the gold, row by row: there are no ids")
        return added, ask
    if ids is None or not homes:
        lacking = archive.path if ids is None else next(iter(entries.values())).path
        raise DataError(f"{lacking}: has no ids to find the gold by; add a column 'id' that both files have")
    for folder, path in homes.items():
        load = partial(_aligned, entries[path], ids, answers)
        added["/".join((*folder, GOLD))] = Entry(answers.path, answers.name, load)
    remark(f"{answers.where} was read as the gold, {ids.name!r} as its ids; rows were joined by them")
    return added, ask


def _answers(archive: Archive, ask: ImportRequest) -> tuple[ImportRequest, Entry]:
    """The array of answers, and what is asked with the name that it gets."""
    entries = archive.entries
    named = [name for name in ask.labels if name in entries]
    if not named:
        free = {path: parse_name(path) for path in entries if not path.startswith("class_names_")}
        named = [path for path, name in free.items() if name.role == "labels"]
        named = named or [path for path, name in free.items() if name.core.lower() in ANSWERS]
        named = named or [path for path, name in free.items() if not name.role]
    if len(named) != 1:
        raise UsageError(
            f"{archive.path}: which of {', '.join(entries)} holds the right answers? choose with --labels NAME"
        )
    labels = tuple(GOLD if name == named[0] else name for name in ask.labels)
    return replace(ask, labels=labels if labels or ask.confidence else (GOLD,)), entries[named[0]]


def _ids_of(entries: Mapping[str, Entry]) -> Entry | None:
    return next((entry for path, entry in entries.items() if parse_name(path).role == "ids"), None)


def aligned_labels(candidate: BundleArrays, entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """The arrays, with labels that lie in another file than the scores in the order of the scores.

    By ids where both files have them, else by their place, which is said.
    """
    if candidate.labels is None or candidate.labels.rpartition("/")[2] == GOLD:
        return entries
    scores, labels = entries[candidate.scores], entries[candidate.labels]
    if scores.path == labels.path:
        return entries
    here, there = (_ids_of({p: e for p, e in entries.items() if e.path == one.path}) for one in (scores, labels))
    if here is None or there is None:
        if here is not there:
            remark(f"{labels.where}: labels go by their place, as only one of the files has ids")
        return entries
    moved = Entry(labels.path, labels.name, partial(_aligned, here, there, labels))
    remark(f"{labels.where} was joined to the scores by {there.name!r}")
    return {**entries, candidate.labels: moved}


def _aligned(ids: Entry, other: Entry, answers: Entry) -> AnyArray:
    """Answers in the order of other ids."""
    wanted, known = _texts(ids), _texts(other)
    values = np.asarray(answers.load()[()])
    if len(values) != len(known):
        raise DataError(f"{answers.where}: has {len(values)} answers for {len(known)} ids")
    order = np.argsort(known, kind="stable")
    known = known[order]
    again = known[1:] == known[:-1]
    if (again & np.any(values[order][1:] != values[order][:-1], axis=tuple(range(1, values.ndim)))).any():
        raise DataError(f"{other.where}: id {str(known[1:][again][0])!r} has several answers, expected one")
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    missing = known[place] != wanted
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{ids.where}: row {row} has the id {str(wanted[row])!r}, which {other.path} does not have"
            f" ({int(missing.sum())} of {len(wanted)} rows lack an answer)"
        )
    return values[order][place]


def _texts(entry: Entry) -> AnyArray:
    values = texts_in(entry)
    if values.ndim != 1:
        raise DataError(f"{entry.where}: ids have shape {values.shape}, expected one per row")
    return values


def texts_in(entry: Entry) -> AnyArray:
    """Values as texts without space around them: 7 and 7.0 are the same."""
    values = entry.column()
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    texts = [v.decode() if isinstance(v, bytes) else str(v) for v in values.ravel().tolist()]
    return np.array([text.strip() for text in texts], dtype="U").reshape(values.shape)
