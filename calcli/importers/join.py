"""Join the arrays of several files: shards, rank files, parts; labels in a file of their own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Archive, Entries, Entry, remark
from calcli.importers.array_names import (
    COLUMNS,
    PER_ROW,
    ROLES,
    BundleArrays,
    parse_name,
)
from calcli.importers.import_request import ImportRequest
from calcli.importers.positions import Parts, cut_alike
from calcli.io.cells import is_blank, is_null, sortable, texts_of_names
from calcli.io.locate import natural
from calcli.io.provenance import carried, chain_of, joined_past, unmarked, words
from calcli.names import places_among
from calcli.numerics import AnyArray, BoolArray, IntArray

SHARD = re.compile(r"(?i)[_.-]?(rank|part|shard|chunk|proc|gpu|batch)?[_.-]?\d+([_.-]?of[_.-]?\d+)?$")
"""Ending of a name with the number of a shard."""


def remark_shards(archives: Sequence[Archive]) -> None:
    """Remark on files that look like shards of one data set and are not joined."""
    stems = [archive.path.stem for archive in archives]
    same = len({tuple(archive.entries) for archive in archives}) == len({SHARD.sub("", stem) for stem in stems}) == 1
    if len(archives) > 1 and same and all(map(SHARD.search, stems)) and not archives[0].loose:
        remark(f"{stems[0]}, {stems[1]}, … look like shards of one data set; --join makes one bundle of them")


def join_archives(
    archives: Sequence[Archive], ask: ImportRequest
) -> tuple[dict[str, Entry], ImportRequest]:
    """Concatenate arrays of the same name in several files; sort rows by ids that are
    whole numbers.

    Without ids, rows repeated by a distributed sampler are found by their scores and
    refused, or dropped with ``--drop-duplicates``, which the returned request then
    omits. Raises DataError for these, for files of different arrays, and for files
    that have been through different calibrators.
    """
    parts: dict[str, list[Entry]] = {}
    for archive in sorted(archives, key=lambda archive: natural(str(archive.path))):
        for name, entry in archive.entries.items():
            shared = SHARD.sub("", name) or name if archive.loose else name
            parts.setdefault(shared, []).append(entry)
    _refuse_other_pasts(archives)
    _check_complete(archives)
    _refuse_members(archives, parts)
    if _drop_padding(parts, archives, ask):
        ask = replace(ask, drop_duplicates=False)
    joined = {name: _joined(name, found) for name, found in parts.items()}
    folders = dict.fromkeys(parse_name(name).folder for name in joined)
    for folder in folders:
        inside = [path for path in joined if parse_name(path).folder == folder]
        _sort_by_ids(joined, inside, len(archives))
    return joined, ask


def _drop_padding(
    parts: dict[str, list[Entry]], archives: Sequence[Archive], ask: ImportRequest
) -> bool:
    """Drop the last rows of the last files where these repeat the first rows; True
    if there were such. Raises DataError without ``--drop-duplicates``."""
    if any(parse_name(name).role == "ids" for name in parts):
        return False
    padded = _padded(parts)
    if not padded:
        return False
    if not ask.drop_duplicates:
        told = f"the last rows of the last {padded} files repeat the first of"
        told += f" the first {padded}, as a sampler of ranks fills its last batch"
        advice = "--drop-duplicates leaves them out"
        raise DataError(f"{archives[0].path}: {told}; {advice}")
    remark(f"the last rows of the last {padded} files repeat first ones: left out")
    for name, found in parts.items():
        if parse_name(name).role not in ("class_names", "specs"):
            found[-padded:] = map(_without_last_row, found[-padded:])
    return True


def _sort_by_ids(joined: dict[str, Entry], inside: Sequence[str], count: int) -> None:
    """Sort the rows of the arrays of one folder by their ids, where there are any.
    count : files that are joined."""
    roles = {path: parse_name(path).role for path in inside}
    ids = next((path for path, role in roles.items() if role == "ids"), None)
    if ids is None:
        told = "joined in the order of their names; there are no ids to check it by"
        remark(f"{count} files {told}")
        return
    if "group" in roles.values():
        return
    order = _order_of_ids(joined[ids])
    if order is None:
        return
    for path, role in roles.items():
        joined[path] = _ordered(joined[path], role, order)
    remark(f"{count} files joined, rows in the order of {ids!r}")


def _joined(name: str, entries: Sequence[Entry]) -> Entry:
    """One entry of those of several files."""
    first = entries[0]
    made = Entry(first.path, name, partial(_load, name, entries))
    is_column = parse_name(name).role in (*COLUMNS, "split")
    if is_column or any(entry.written is not None for entry in entries):
        made = replace(made, written=partial(_joined_cells, entries))
    return replace(made, joined_from=tuple(entries))


def _joined_cells(entries: Sequence[Entry]) -> Any:
    """Cells of a column in several files, one after the other."""
    columns = [entry.cells() for entry in entries]
    are_arrays = all(isinstance(cells, np.ndarray) for cells in columns)
    if are_arrays and len({cells.dtype.kind for cells in columns}) == 1:
        return np.concatenate(columns)
    return [cell for cells in columns for cell in cells]


def _order_of_ids(ids: Entry) -> IntArray | None:
    """Order of rows by ids that are whole numbers; None for others, and where the
    rows have it."""
    try:
        names = sortable(ids.names("ids"))
    except DataError:  # the ids may not be wanted
        return None
    if names.ndim != 1 or names.dtype.kind not in "iu":
        return None
    if (names[1:] >= names[:-1]).all():
        return None
    return np.argsort(names, kind="stable")


def _refuse_other_pasts(archives: Sequence[Archive]) -> None:
    """Raise DataError for scores that other calibrators have been applied to than to
    those of the first file."""
    first: dict[str, tuple[Archive, str]] = {}
    for archive in sorted(archives, key=lambda one: natural(str(one.path))):
        for path, entry in archive.entries.items():
            if parse_name(path).role != "scores":
                continue
            links = chain_of(past_of(entry, archive.entries))
            is_now = f"is calibrated by {words(links)}" if links else "is uncalibrated"
            name = "" if archive.loose else path
            other, was = first.setdefault(name, (archive, is_now))
            if is_now != was:
                told = f"{archive.path}: {is_now}, {other.path} {was}"
                raise DataError(f"{told}; files that are joined must agree in it")


def past_of(scores: Entry, entries: Entries) -> dict[str, str]:
    """Attributes of scores that tell which calibrators have been applied to them."""
    parts = scores.joined_from or (scores,)
    past = joined_past([carried(part.path, part.name) for part in parts])
    if past:
        return past
    for path, entry in entries.items():
        if parse_name(path).role != "calibrated_by":
            continue
        column = entry.column()
        if column.ndim == 1:
            chain = unmarked([str(text) for text in column], entry.where)
            return {} if chain is None else {"calibrated_by": chain}
    return {}


def _refuse_members(archives: Sequence[Archive], parts: Mapping[str, Sequence[Entry]]) -> None:
    """Raise DataError for files with the same labels row by row: members of an ensemble, not shards."""
    for name, entries in parts.items():
        if parse_name(name).role != "labels" or len(entries) < 2:
            continue
        first, *others = [np.atleast_1d(entry.column()) for entry in entries]
        if len(first) >= 10 and len(np.unique(first)) > 1 and all(np.array_equal(first, other) for other in others):
            told = "models or seeds on one data set, not shards; leave out --join for a group each"
            raise DataError(f"{archives[1].path}: has the labels of {archives[0].path} row by row: {told}")


def _padded(parts: Mapping[str, Sequence[Entry]]) -> int:
    """Number of the W files that end in a padding row: row i is in file i mod W, padding repeats the first rows."""
    for name, entries in parts.items():
        if len(entries) < 2 or parse_name(name).role in ROLES:
            continue
        arrays = [np.asarray(entry.load()[()]) for entry in entries]
        first = arrays[0]
        if len({a.shape for a in arrays}) > 1 or first.dtype.kind != "f" or first.ndim != 2 or len(first) < 2:
            continue
        for padded in range(len(arrays) - 1, 0, -1):
            ends, starts = arrays[-padded:], arrays[:padded]
            if all(np.array_equal(end[-1], start[0]) for end, start in zip(ends, starts, strict=True)):
                return padded
    return 0


def _without_last_row(entry: Entry) -> Entry:
    return entry.ordered(lambda array: array[:-1])


def _check_complete(archives: Sequence[Archive]) -> None:
    several = [archive for archive in archives if not archive.loose]
    for archive in several:
        folders = {name.rpartition("/")[0] for name in archive.entries}
        missing = sorted({name for other in several for name in other.entries} - archive.entries.keys())
        if absent := [name for name in missing if name.rpartition("/")[0] in folders]:
            raise DataError(f"{archive.path}: has no array {absent[0]!r}, which the other files to join have")


def _load(name: str, entries: Sequence[Entry]) -> Any:
    role, arrays = parse_name(name).role, [entry.load() for entry in entries]
    if {array.shape[1:] for array in arrays} == {(), (1,)}:
        arrays = [np.asarray(array[()]).reshape(-1) for array in arrays]
    first, axis, of_all = arrays[0], 1 if role == "transformed" else 0, role in ("class_names", "specs")
    if len(arrays) == 1:
        return first
    for entry, array in zip(entries, arrays, strict=True):
        others = [at for at in range(first.ndim) if at != axis]
        alike = array.ndim == first.ndim and all(array.shape[at] == first.shape[at] for at in others)
        if (
            (array.ndim <= axis and not of_all)
            or not alike
            or (array.dtype.kind in "OUS") != (first.dtype.kind in "OUS")
        ):
            told = f"the first file to join has {tuple(first.shape)} and {first.dtype}"
            raise DataError(f"{entry.where}: has shape {tuple(array.shape)} and type {array.dtype}, {told}")
        if of_all and not np.array_equal(np.asarray(array), np.asarray(first)):
            raise DataError(f"{entry.where}: differs from the first file to join; join the same classes only")
    return first if of_all else np.concatenate([np.asarray(array[()]) for array in arrays], axis=axis)


def _ordered(entry: Entry, role: str, order: AnyArray, n: int | None = None) -> Entry:
    """The array with rows in the given order. n : number of rows of the array, if the
    order selects some."""
    rows = len(order) if n is None else n
    is_of_rows = role in PER_ROW or role in ("", "scores")

    def pick(array: AnyArray) -> AnyArray:
        if role == "transformed" and array.ndim > 1 and array.shape[1] == rows:
            return array[:, order]
        if is_of_rows and array.ndim and len(array) == rows:
            return array[order]
        return array

    return entry.ordered(pick)


def without_missing(
    entries: Entries, paths: Sequence[str], where: str, columns: Sequence[str] = ()
) -> dict[str, Entry]:
    """Drop rows, or positions, in which an array of ``paths`` is blank or NaN, and
    rows in which one of ``columns`` is empty. Raises DataError if none is left."""
    found = [entries[path].load() for path in paths]
    if any(isinstance(array, Parts) for array in found):
        return _without_missing_positions(entries, paths, where)
    arrays = [np.asarray(array[()]) for array in found]
    n = min((len(array) for array in arrays if array.ndim), default=0)
    blank = [_blank_rows(array[:n]) for array in arrays]
    for path in columns:
        empty = _empty_cells(entries[path].cells())
        if len(empty) == n:  # else the shape is refused where the column is read
            blank.append(empty)
    missing = np.any(blank, axis=0)
    what = "a score or a label"
    if len(blank) > len(arrays):
        what = "a score, a label or a value of a column in use"
    if missing.all():
        raise DataError(f"{where}: every row lacks {what}, nothing is left")
    remark(f"{where}: {int(missing.sum())} of {n} rows left out: they lack {what}")
    kept = np.flatnonzero(~missing)
    return {
        path: _ordered(entry, parse_name(path).role, kept, n)
        for path, entry in entries.items()
    }


def _empty_cells(cells: Any) -> BoolArray:
    """Mask of the cells of a column that hold no value."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biu":
        return np.zeros(len(cells), dtype=np.bool_)
    return np.array([is_null(cell) for cell in cells], dtype=np.bool_)


def _blank_rows(array: AnyArray) -> BoolArray:
    """Mask of rows that contain a blank or NaN."""
    blank = np.zeros(array.shape, dtype=np.bool_)
    if array.dtype.kind in "OSU":
        texts = [
            cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
            for cell in array.ravel()
        ]
        blank = np.array([is_blank(text) for text in texts], dtype=np.bool_)
    elif array.dtype.kind == "f":
        blank = np.isnan(array)
    return np.asarray(blank.reshape(len(array), -1).any(axis=1)) if array.size else np.zeros(len(array), np.bool_)


def _without_missing_positions(entries: Entries, paths: Sequence[str], where: str) -> dict[str, Entry]:
    """``without_missing`` for sequences of different lengths; empty ones are dropped. Raises DataError for images."""
    loaded = [entries[path].load() for path in paths]
    found = [cut_alike(array, other) for array, other in zip(loaded, loaded[::-1], strict=True)]
    if any(array.ndim > 3 for array in found) or (len(found) > 1 and found[1].ndim > 2):
        raise DataError(f"{where}: --drop-missing leaves out rows and tokens, no pixels; for these --ignore-label")
    if not all(isinstance(array, Parts) and len(array) == len(found[0]) for array in found):
        return dict(entries)
    keep = []
    for unit in range(len(found[0])):
        gaps = [_blank_rows(array.of(unit)) for array in found]
        alike = len({len(gap) for gap in gaps}) == 1
        if not (alike or any(gap.all() for gap in gaps)):
            return dict(entries)
        keep.append(~np.any(gaps, axis=0) if alike else np.zeros(len(gaps[0]), np.bool_))
    kept = np.array([unit for unit, mask in enumerate(keep) if mask.any()], dtype=np.int64)
    if not len(kept):
        raise DataError(f"{where}: every position lacks a score or a label, nothing is left")
    total = sum(map(len, keep))
    left = total - sum(int(mask.sum()) for mask in keep)
    remark(f"{where}: {left} of {total} positions left out: they lack a score or a label")

    def part(array: Parts) -> Parts:
        shapes = [(int(keep[unit].sum()), *array.shapes[unit][1:]) for unit in kept]
        return Parts(shapes, array.dtype, lambda i: array.of(kept[i])[keep[kept[i]]], array.where)

    n = len(keep)
    others = {path: _ordered(entry, parse_name(path).role, kept, n) for path, entry in entries.items()}
    for path, array in zip(paths, found, strict=True):
        others[path] = Entry(entries[path].path, entries[path].name, partial(part, array))
    return others


# ---- labels in a file of their own, matched to the scores by ids


GOLD = "gold"  # name of the array of labels from ``--gold``
ANSWERS = ("answer", "answer_key", "correct_answer", "truth", "class", "target")


def add_gold(entries: Entries, archive: Archive, ask: ImportRequest) -> tuple[dict[str, Entry], ImportRequest]:
    """Add the labels of ``--gold FILE`` as an array ``gold`` beside every array of ids: (entries, ask). If neither side
    has ids, rows are matched by position. ``--labels NAME`` names the column of labels. Raises UsageError for ambiguous
    columns, DataError for rows without a label."""
    known = archive.entries
    free = {path: parse_name(path) for path in known if not path.startswith("class_names_")}
    named = [name for name in ask.labels if name in known]
    named = named or [path for path, name in free.items() if name.role == "labels"]
    named = named or [path for path, name in free.items() if name.core.lower() in ANSWERS]
    named = named or [path for path, name in free.items() if not name.role]
    if len(named) != 1:
        raise UsageError(f"{archive.path}: which of {', '.join(known)} is the right answer? choose with --labels NAME")
    labels = tuple(GOLD if name == named[0] else name for name in ask.labels)
    ask = replace(ask, labels=labels if labels or ask.confidence else (GOLD,), gold=None)
    answers, ids = known[named[0]], _ids_of(known)
    homes = {name.folder: path for path in entries if (name := parse_name(path)).role == "ids"}
    added = dict(entries)
    if ids is None and not homes:
        added[GOLD] = replace(answers, made_of={})
        remark(f"{answers.where} was read as the gold, row by row: there are no ids")
        return added, ask
    if ids is None or not homes:
        lacking = archive.path if ids is None else next(iter(entries.values())).path
        raise DataError(f"{lacking}: has no ids to find the gold by; add a column 'id' that both files have")
    for folder, path in homes.items():
        added["/".join((*folder, GOLD))] = _aligned(entries[path], ids, answers)
    remark(f"{answers.where} was read as the gold, {ids.name!r} as its ids; rows were joined by them")
    return added, ask


def _ids_of(entries: Entries) -> Entry | None:
    return next((entry for path, entry in entries.items() if parse_name(path).role == "ids"), None)


def aligned_labels(candidate: BundleArrays, entries: Entries) -> Entries:
    """The arrays, with labels of another file reordered to the scores by ids, if both files have them."""
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
    moved = _aligned(here, there, labels)
    remark(f"{labels.where} was joined to the scores by {there.name!r}")
    return {**entries, candidate.labels: moved}


def _aligned(ids: Entry, other: Entry, answers: Entry) -> Entry:
    """Labels (``answers``) of the ids of the gold file (``other``), in the rows of
    ``ids``. Its loader raises DataError."""

    @cache
    def places() -> IntArray:
        return _places_of_ids(ids, other, answers)

    return answers.ordered(lambda array: np.atleast_1d(array)[places()])


def _places_of_ids(ids: Entry, other: Entry, answers: Entry) -> IntArray:
    """Row of the gold file for every id. Raises DataError for an id that it does not
    have, or for which it has several answers."""
    wanted, known = (np.atleast_1d(one.names("ids")) for one in (ids, other))
    if max(wanted.ndim, known.ndim) > 1:
        told = f"ids have shape {known.shape} here, {wanted.shape} there"
        raise DataError(f"{other.where}: {told}, expected one per row")
    values = answers.answers()
    if len(values) != len(known):
        told = f"has {len(values)} answers for {len(known)} ids"
        raise DataError(f"{answers.where}: {told}")
    texts = texts_of_names(known)
    answer_to: dict[str, Any] = {}
    for text, value in zip(texts, values, strict=True):
        if answer_to.setdefault(text, value) != value:
            told = f"id {text!r} has several answers, expected one"
            raise DataError(f"{other.where}: {told}")
    asked = texts_of_names(wanted)
    places = places_among(texts, asked)
    missing = places < 0
    if missing.any():
        row = int(np.argmax(missing))
        told = f"row {row} has the id {asked[row]!r}, which {other.path} does not have"
        count = f"{int(missing.sum())} of {len(asked)} rows lack an answer"
        raise DataError(f"{ids.where}: {told} ({count})")
    return places
