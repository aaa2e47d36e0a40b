"""Columns that options name: ``--ids``, ``--group-by``, ``--unit``, weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from calcli.importers.names import COLUMNS, Name, matching, parse_name
from calcli.importers.table import Column, Columns
from calcli.io.locate import intersections
from calcli.numerics import AnyArray


def with_named_columns(
    columns: Columns, named: Mapping[str, Sequence[str]]
) -> dict[str, Column]:
    """The arrays, with columns that options name stored under their role.

    They stand in every folder and split, in place of any found by name. named : names
    by role; several groups are combined, none drops the role. Raises UsageError for
    unknown names.
    """
    names = [parse_name(path) for path in columns]
    names_by_role = {
        role: [matching(names, name, "column") for name in wanted]
        for role, wanted in named.items()
    }
    moved = {
        name.path
        for matches in names_by_role.values()
        for each in matches
        for name in each
        if name.role in COLUMNS
    }
    made = {
        name.path: columns[name.path]
        for name in names
        if name.role not in named and name.path not in moved
    }
    for role, matches in names_by_role.items():
        if not matches:
            continue
        first, *others = matches
        for name in first:
            place = (name.folder, name.split)
            together = [name, *_in_place(others, place)]
            path = "/".join(part for part in (*name.folder, name.split, role) if part)
            made[path] = _combined([columns[name.path] for name in together], together)
    return made


def _in_place(
    matches: Sequence[Sequence[Name]], place: tuple[tuple[str, ...], str]
) -> list[Name]:
    """Those of the names that stand in this folder and split."""
    return [
        name for each in matches for name in each if (name.folder, name.split) == place
    ]


def _combined(columns: Sequence[Column], names: Sequence[Name]) -> Column:
    """One column, or the intersections of several."""
    by_name = {name.core: column for name, column in zip(names, columns, strict=True)}
    parts = dict(sorted(by_name.items()))  # as they are named in any order
    first = replace(columns[0].called(", ".join(parts)), attributes={})
    if len(columns) == 1:
        return first
    return replace(
        first,
        get=partial(_intersections, parts),
        parts=parts,
        empty_row=None,
        written=None,
        joined_from=(),
    )


def _intersections(columns: Columns) -> AnyArray:
    return intersections(
        {name: column.names("group") for name, column in columns.items()}
    )
