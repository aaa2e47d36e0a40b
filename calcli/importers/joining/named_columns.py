"""Columns that options name: ``--ids``, ``--group-by``, ``--unit``, weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from calcli.importers.names.array_names import Name, matching, parse_names
from calcli.importers.names.roles import COLUMNS
from calcli.importers.table import Column, Columns, files_of
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
    names = parse_names(columns)
    matches_by_role: dict[str, list[list[Name]]] = {}
    moved = set()
    where = files_of(columns)
    for role, wanted in named.items():
        matches_by_role[role] = []
        for column in wanted:
            matches_by_role[role].append(matching(names, column, "column", where))
        for name in chain.from_iterable(matches_by_role[role]):
            if name.role in COLUMNS:
                moved.add(name.path)
    made = {}
    for name in names:
        if name.role not in named and name.path not in moved:
            made[name.path] = columns[name.path]
    for role, matches in matches_by_role.items():
        for name in matches[0] if matches else ():
            together = [name]
            for other in chain.from_iterable(matches[1:]):
                if other.place == name.place:
                    together.append(other)
            path = "/".join(filter(None, (*name.folder, name.split, role)))
            made[path] = _combined(columns, together)
    return made


def _combined(columns: Columns, names: Sequence[Name]) -> Column:
    """The one column of these names, or the intersections of several."""
    parts = {}
    for name in sorted(names, key=lambda name: name.core):  # they come in any order
        parts[name.core] = columns[name.path]
    whole = columns[names[0].path].called(", ".join(parts))
    whole = replace(whole, attributes={}, family=None)
    if len(names) == 1:
        return whole
    return replace(
        whole,
        get=partial(_intersections, parts),
        parts=parts,
        empty_row=None,
        written=None,
        joined_from=(),
    )


def _intersections(columns: Columns) -> AnyArray:
    names = {name: column.names("group") for name, column in columns.items()}
    return intersections(names)
