"""Several files that are parts of one data set: shards, rank files, batches."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.import_request import ImportRequest
from calcli.importers.joining.gold import Joined
from calcli.importers.joining.missing import in_order
from calcli.importers.joining.provenance import past_of
from calcli.importers.names.array_names import parse_name, paths_of_role
from calcli.importers.names.roles import ARRAY_ROLES, COLUMNS
from calcli.importers.remarks import remark
from calcli.importers.table import Column, FamilyFacts, Table
from calcli.io.cells import sortable
from calcli.io.locate import natural
from calcli.io.option_columns import OPTIONS
from calcli.io.provenance import chain_of, words
from calcli.io.validate import ORDERED
from calcli.items import are_all, present
from calcli.numerics import IntArray

SHARD = re.compile(
    r"(?i)[_.-]?(rank|part|shard|chunk|proc|gpu|batch)?[_.-]?\d+([_.-]?of[_.-]?\d+)?$"
)
"""Ending of a name with the number of a shard."""

FEWEST_EQUAL = 10
"""Rows from which equal labels are those of the same rows."""

OF_ALL_ROWS = ("class_names", "specs")
"""Roles of arrays that are the same in every part."""

Parts = Mapping[str, Sequence[Column]]


def remark_shards(tables: Sequence[Table]) -> None:
    """Remark on files that look like shards of one data set and are not joined."""
    stems = [table.file.stem for table in tables]
    if len(stems) < 2 or tables[0].is_single or not all(map(SHARD.search, stems)):
        return
    names = set()
    names_of_arrays = set()
    for table in tables:
        names.add(SHARD.sub("", table.file.stem))
        names_of_arrays.add(tuple(table.columns))
    if len(names) == 1 and len(names_of_arrays) == 1:
        remark(
            f"{stems[0]}, {stems[1]}, … look like shards of one data set; --join makes"
            " one bundle of them"
        )


def join_tables(tables: Sequence[Table], request: ImportRequest) -> Joined:
    """Concatenate arrays of the same name; sort rows by ids that are whole numbers.

    Without ids, rows repeated by a distributed sampler are found by their scores and
    refused, or dropped with ``--drop-duplicates``, which the returned request then
    omits. Raises DataError for these, for files of different arrays, and for files that
    have been through different calibrators.
    """
    parts: dict[str, list[Column]] = {}
    for table in _by_file(tables):
        for name, column in table.columns.items():
            if table.is_single:
                name = SHARD.sub("", name) or name
            parts.setdefault(name, []).append(column)
    _refuse_other_pasts(tables)
    _refuse_incomplete(tables)
    _refuse_members(tables, parts)
    n_padded = 0
    if not paths_of_role(parts, "ids"):
        n_padded = _count_padded(parts)
    if n_padded:
        _drop_padding(tables, parts, n_padded, request)
        request = replace(request, drop_duplicates=False)
    joined = {}
    for name, columns in parts.items():
        joined[name] = _joined(name, columns)
    _sort_by_ids(joined, len(tables))
    return Joined(joined, request)


def _by_file(tables: Sequence[Table]) -> list[Table]:
    """The tables in the natural order of their files."""
    return sorted(tables, key=lambda table: natural(str(table.file)))


def _drop_padding(
    tables: Sequence[Table],
    parts: dict[str, list[Column]],
    n_padded: int,
    request: ImportRequest,
) -> None:
    """Drop the last row of the last files, in place; DataError if not asked to."""
    if not request.drop_duplicates:
        raise DataError(
            f"{tables[0].file}: the last rows of the last {n_padded} files repeat"
            f" the first of the first {n_padded}, as a sampler of ranks fills its last"
            " batch; --drop-duplicates leaves them out",
            option=["--drop-duplicates"],
        )
    remark(f"the last rows of the last {n_padded} files repeat first ones: left out")
    for name, columns in parts.items():
        if parse_name(name).role not in OF_ALL_ROWS:
            for place in range(-n_padded, 0):
                columns[place] = columns[place].ordered(lambda array: array[:-1])


def _sort_by_ids(joined: dict[str, Column], n_files: int) -> None:
    """Sort the rows of every folder by its ids, in place, where these are numbers."""
    paths_by_folder: dict[tuple[str, ...], list[str]] = {}
    for path in joined:
        paths_by_folder.setdefault(parse_name(path).folder, []).append(path)
    for paths in paths_by_folder.values():
        ids = paths_of_role(paths, "ids")
        if not ids:
            remark(
                f"{n_files} files joined in the order of their names; there are no ids"
                " to check it by"
            )
            continue
        order = None
        if not paths_of_role(paths, "group"):
            order = _order_of_ids(joined[ids[0]])
        if order is not None:
            for path in paths:
                joined[path] = in_order(path, joined[path], order)
            remark(f"{n_files} files joined, rows in the order of {ids[0]!r}")


def _order_of_ids(ids: Column) -> IntArray | None:
    """Order of rows by ids that are whole numbers.

    None for others, and where the rows have it.
    """
    try:
        names = sortable(ids.names("ids"))
    except DataError:  # the ids may not be wanted
        return None
    if names.ndim != 1 or names.dtype.kind not in "iu":
        return None
    if (names[1:] >= names[:-1]).all():
        return None
    return np.argsort(names, kind="stable")


def _joined(name: str, columns: Sequence[Column]) -> Column:
    """One column of those of several files."""
    first = columns[0]
    attributes = _common_attributes(columns)
    first_indices = [column.attributes.get("first_index") for column in columns]
    if first_indices[0] == 1 or set(first_indices) == {0}:
        attributes["first_index"] = first_indices[0]
    joined = Column(
        first.file,
        name,
        partial(_concatenated, name, columns),
        parts=_joined_parts(columns),
        family=_joined_family(columns),
        attributes=attributes,
        joined_from=tuple(columns),
    )
    is_of_rows = parse_name(name).role in (*COLUMNS, "split")
    if is_of_rows or any(column.written is not None for column in columns):
        joined = replace(joined, written=partial(_joined_cells, columns))
    return joined


def _joined_parts(columns: Sequence[Column]) -> dict[str, Column]:
    """The columns that an array combines in every file; none where these differ."""
    names = list(columns[0].parts)
    columns_by_name: dict[str, list[Column]] = {name: [] for name in names}
    for column in columns:
        if list(column.parts) != names:
            return {}
        for name, part in column.parts.items():
            columns_by_name[name].append(part)
    return {name: _joined(name, parts) for name, parts in columns_by_name.items()}


def _joined_family(columns: Sequence[Column]) -> FamilyFacts | None:
    """How the columns of the first file are listed and count, with what holds in all."""
    first = columns[0].family
    if first is None:
        return None
    families = present(column.family for column in columns)
    if len(families) < len(columns):
        return FamilyFacts(first.option, first.counts_from_1)
    have_one_label = len({family.by_label for family in families}) == 1
    return replace(
        first,
        is_generated=all(family.is_generated for family in families),
        by_label=first.by_label if have_one_label else None,
        is_complete=all(family.is_complete for family in families),
    )


def _common_attributes(columns: Sequence[Column]) -> dict[str, Any]:
    """What all parts say alike: that columns are levels, or options."""
    common = {}
    for name in (ORDERED, OPTIONS):
        first, *others = (column.attributes.get(name) for column in columns)
        if first is not None and others.count(first) == len(others):
            common[name] = first
    return common


def _joined_cells(columns: Sequence[Column]) -> Any:
    """Cells of a column in several files, one after the other."""
    parts = [column.written_cells() for column in columns]
    if are_all(np.ndarray, parts) and len({cells.dtype.kind for cells in parts}) == 1:
        return np.concatenate(parts)
    return list(chain(*parts))


def _refuse_other_pasts(tables: Sequence[Table]) -> None:
    """Raise DataError for scores that went through other calibrators than the first."""
    first: dict[str, tuple[Table, str]] = {}
    for table in _by_file(tables):
        for path, column in table.columns.items():
            if parse_name(path).role != "scores":
                continue
            links = chain_of(past_of(column, table.columns))
            is_now = f"is calibrated by {words(links)}" if links else "is uncalibrated"
            name = "" if table.is_single else path
            other, was = first.setdefault(name, (table, is_now))
            if is_now != was:
                raise DataError(
                    f"{table.file}: {is_now}, {other.file} {was}; files that are joined"
                    " must agree in it"
                )


def _refuse_members(tables: Sequence[Table], parts: Parts) -> None:
    """Raise DataError for files with the same labels row by row.

    They are members of an ensemble, not shards.
    """
    for name in paths_of_role(parts, "labels"):
        if len(parts[name]) < 2:
            continue
        first, *others = parts[name]
        labels = np.atleast_1d(first.values())
        if len(labels) < FEWEST_EQUAL or len(np.unique(labels)) < 2:
            continue
        are_equal = partial(np.array_equal, labels)
        if all(are_equal(np.atleast_1d(column.values())) for column in others):
            raise DataError(
                f"{tables[1].file}: has the labels of {tables[0].file} row by row:"
                " models or seeds on one data set, not shards; leave out --join for a"
                " group each"
            )


def _count_padded(parts: Parts) -> int:
    """Number of the W files that end in a padding row.

    Row i is in file i mod W; padding repeats the first rows.
    """
    for name, columns in parts.items():
        if len(columns) < 2 or parse_name(name).role in ARRAY_ROLES:
            continue
        arrays = [np.asarray(column.load()[()]) for column in columns]
        if len(set(map(np.shape, arrays))) > 1:
            continue
        if arrays[0].dtype.kind != "f" or arrays[0].ndim != 2 or len(arrays[0]) < 2:
            continue
        first_rows = np.stack([array[0] for array in arrays])
        last_rows = np.stack([array[-1] for array in arrays])
        for n_padded in range(len(arrays) - 1, 0, -1):
            if np.array_equal(last_rows[-n_padded:], first_rows[:n_padded]):
                return n_padded
    return 0


def _refuse_incomplete(tables: Sequence[Table]) -> None:
    """Raise DataError for a file without an array that the others have."""
    several = []
    every_name: set[str] = set()
    for table in tables:
        if not table.is_single:
            several.append(table)
            every_name.update(table.columns)
    for table in several:
        folders = set(map(_folder_of, table.columns))
        for name in sorted(every_name - table.columns.keys()):
            if _folder_of(name) in folders:
                raise DataError(
                    f"{table.file}: has no array {name!r}, which the other files to"
                    " join have"
                )


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _concatenated(name: str, columns: Sequence[Column]) -> Any:
    """The arrays of all parts, one after the other. Raises DataError."""
    role = parse_name(name).role
    arrays = [column.load() for column in columns]
    first = arrays[0]
    if len(arrays) == 1:
        return first
    if {array.shape[1:] for array in arrays} == {(), (1,)}:
        arrays = [np.asarray(array[()]).reshape(-1) for array in arrays]
        first = arrays[0]
    axis = 1 if role == "transformed" else 0
    is_of_all = role in OF_ALL_ROWS
    for column, array in zip(columns, arrays, strict=True):
        if not _fits(array, first, axis, is_of_all):
            raise DataError(
                f"{column.where}: has shape {tuple(array.shape)} and type"
                f" {array.dtype}, the first file to join has {tuple(first.shape)} and"
                f" {first.dtype}"
            )
        if is_of_all and not np.array_equal(np.asarray(array), np.asarray(first)):
            raise DataError(
                f"{column.where}: differs from the first file to join; join the same"
                " classes only"
            )
    if is_of_all:
        return first
    return np.concatenate([np.asarray(array[()]) for array in arrays], axis=axis)


def _fits(array: Any, first: Any, axis: int, is_of_all: bool) -> bool:
    """True for arrays that differ in the number of rows only."""
    if array.ndim != first.ndim or (array.ndim <= axis and not is_of_all):
        return False
    if (array.dtype.kind in "OUS") != (first.dtype.kind in "OUS"):
        return False
    n_rows = first.shape[axis : axis + 1]
    return (*array.shape[:axis], *n_rows, *array.shape[axis + 1 :]) == first.shape
