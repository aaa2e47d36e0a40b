"""Columns that no array of a bundle is made of: which are kept, and which are named."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from shlex import quote
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.building.imported import Imported
from calcli.importers.building.word_labels import texts_of
from calcli.importers.evidence.looks import ROWS_OF_CARRIED, goes_along, is_single_value
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import Name, parse_name, parse_names, real_names
from calcli.importers.ragged import Positions
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, constant
from calcli.io.score_sheet import OWN
from calcli.numerics import AnyArray, IntArray

WITH_SCORES = frozenset(
    {"scores", "labels", "class_names", "transformed", "specs", "calibrated_by"}
)
"""Roles of arrays that are not set by the options for columns."""

WRITTEN_BY_APPLY = frozenset({"prediction", "confidence"})
"""Columns that ``apply`` makes of the scores."""

MOST_NAMED = 8


def unused(columns: Columns, used: Iterable[str]) -> dict[str, Column]:
    """Columns and arrays that are not used.

    used : paths, or names of columns that are part of an array.
    """
    used_names = set()
    for path in used:
        if path not in columns:
            continue
        column = columns[path]
        for part in (column, *column.parts.values()):
            used_names.add((part.file, part.name))
        used_names |= {(column.file, name) for name in column.name.split(", ")}
    left = {}
    for path in real_names(parse_names(columns)):
        column, name = columns[path], parse_name(path)
        is_known = name.role in WITH_SCORES or name.core in WRITTEN_BY_APPLY
        if (
            not is_known
            and not column.parts
            and (column.file, column.name) not in used_names
        ):
            left[path] = column
    return left


# ---- columns that ``apply`` writes again


def with_carried(
    imported: Imported, columns: Columns, used: Iterable[str], request: ImportRequest
) -> Imported:
    """Add the unused columns that are kept, under their own names.

    Columns of words are read piece by piece.
    """
    if not request.carry:
        return imported
    n_repeats = 1
    if request.per_label:
        n_repeats = len(np.unique(imported.columns["group"].astype("U")))
    steps = np.arange(0, imported.n, ROWS_OF_CARRIED * n_repeats)
    starts = np.append(steps, imported.n)
    scores = parse_name(imported.reading.scores)
    kept: dict[str, Any] = {}
    for path, column in unused(columns, used).items():
        name = _name_in_bundle(path, scores)
        if name is None:
            continue
        with suppress(DataError):
            carried = _as_carried(name, column, imported.n // n_repeats)
            if carried is not None:
                kept[name] = _pieces(carried, starts, n_repeats)
    return replace(imported, columns={**kept, **imported.columns})


def _name_in_bundle(path: str, scores: Name) -> str | None:
    """Name of a column beside these scores; None for one of other scores."""
    if _is_of_other_scores(path, scores):
        return None
    name = parse_name(path)
    own_name = path.rpartition("/")[2]
    if name.split == scores.split:
        own_name = name.core
    return None if own_name in OWN or own_name == "." else own_name


def _is_of_other_scores(path: str, scores: Name) -> bool:
    """True for a column of another split, or in another folder, than these scores."""
    name = parse_name(path)
    if scores.split and name.split not in ("", scores.split):
        return True
    return name.folder != scores.folder


def _as_carried(name: str, column: Column, n: int) -> Column | None:
    """The column if it has a short word, or an id, for each of n rows; else None.

    Numbers and times that the file wrote otherwise (007) are kept as texts.
    """
    if column.get_rows is None:
        column = replace(column, get=constant(column.load()))
    first = column.rows(slice(ROWS_OF_CARRIED))
    has_n_rows = len(column.rows(slice(n - 1, n + 1))) == 1
    if not has_n_rows or not goes_along(name, first):
        return None
    if first.dtype.kind in "iumM" and column.written is not None:
        return column.having(column.names("column"))
    # numbers may turn out to be no ids in a row further below
    is_whole = first.dtype.kind in "iu"
    if is_whole and column.rows(slice(None)).dtype.kind == "f":
        return None
    return column


def _pieces(column: Column, starts: IntArray, n_repeats: int) -> Positions:
    """Rows of a column, each repeated, read in pieces."""

    def piece_of(piece: int) -> AnyArray:
        first, last = starts[piece] // n_repeats, starts[piece + 1] // n_repeats
        values = column.rows(slice(first, last))
        if values.dtype.kind not in "iu":
            values = np.array(texts_of(values, column.where), dtype=object)
        return np.repeat(values, n_repeats)

    return Positions(starts, piece_of)


# ---- remarks


def remark_unused(
    columns: Columns,
    kept: Collection[str],
    likely_unit: str | None,
    scores: Sequence[str],
    *,
    chose_parts: bool,
) -> None:
    """Remark which unused columns are kept for ``apply`` and which are left out.

    columns : the unused ones. kept : names of the former. likely_unit : the column of
    units to propose. scores : paths of the scores that were read. chose_parts : only
    some parts of the source were asked for: columns of the others are not remarked on.
    Single values are no columns.
    """
    kept_names: list[str] = []
    left_names: list[str] = []
    names_of_scores = parse_names(scores)
    for path, column in columns.items():
        if is_single_value(column):
            continue
        its_scores = [
            name for name in names_of_scores if not _is_of_other_scores(path, name)
        ]
        if not its_scores and chose_parts:
            continue
        names = {path.rpartition("/")[2], parse_name(path).core}
        if not its_scores or names.isdisjoint(kept):
            left_names.append(column.name)
        else:
            kept_names.append(column.name)
    _remark_names("columns kept for apply to write again", kept_names)
    _remark_names("columns not used", left_names, " (see --ids, --group-by, --unit)")
    if likely_unit is not None:
        remark(
            f"{likely_unit!r} repeats: if rows of one value depend on each other, pass"
            f" --unit {quote(likely_unit)}"
        )


def _remark_names(what: str, names: list[str], hint: str = "") -> None:
    if not names:
        return
    listing = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        listing += f", … ({len(names)} in all)"
    remark(f"{what}: {listing}{hint}")
