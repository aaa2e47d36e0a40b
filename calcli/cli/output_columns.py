"""Columns of a bundle that ``apply`` writes again beside the calibrated scores."""

from collections.abc import Mapping
from functools import partial

from calcli.io.bundle import BundleRows
from calcli.io.locate import intersections
from calcli.io.option_columns import N_OPTIONS
from calcli.io.score_sheet import SheetColumn, SheetScores
from calcli.numerics import AnyArray

ROLES = ("ids", "weights", "group", "unit")


def output_columns(
    rows: BundleRows,
    scores: SheetScores,
    by_role: Mapping[str, Mapping[str, AnyArray]],
) -> list[SheetColumn]:
    """All columns that go out, but for those computed with the scores: ids, weights,
    groups and units, the numbers of options, and unused columns that go along.

    by_role : see ``columns_of_roles``.
    """
    columns = []
    for role, own_columns in by_role.items():
        columns += _columns_of_role(role, own_columns, scores)
    n_options = rows.n_options_kept
    if n_options is not None and scores.kind != "confidence":
        columns.append(
            SheetColumn(
                name=N_OPTIONS,
                table_name=N_OPTIONS,
                position=N_OPTIONS,
                values=n_options,
            )
        )
    taken = scores.reserved.union([rows.own_name("labels")], *by_role.values())
    return columns + _unused_columns(rows, taken)


def columns_of_roles(rows: BundleRows) -> dict[str, dict[str, AnyArray]]:
    """Values of each role that the bundle has, by their names in the source."""
    by_role = {}
    for role in ROLES:
        own_columns = rows.own_columns(role)
        if own_columns:
            by_role[role] = own_columns
    return by_role


def _columns_of_role(
    role: str, own_columns: Mapping[str, AnyArray], scores: SheetScores
) -> list[SheetColumn]:
    """The column of a role, and those that it is combined from.

    Tables have the columns of the source in its place, unless all their names are
    reserved. Those whose names the output gives to columns of its own are left out.
    """
    combined = intersections(own_columns)
    table_names = [name for name in own_columns if name not in scores.reserved]
    is_single = len(own_columns) == 1
    table_name: str | None = role
    if table_names:
        table_name = table_names[0] if is_single else None
    columns = [
        SheetColumn(name=role, table_name=table_name, position=role, values=combined)
    ]
    if is_single:
        return columns
    for name, values in own_columns.items():
        if name in scores.reserved and name not in ROLES:
            continue
        position = role if name in table_names else name
        columns.append(
            SheetColumn(name=name, table_name=name, position=position, values=values)
        )
    return columns


def _unused_columns(rows: BundleRows, taken: frozenset[str]) -> list[SheetColumn]:
    """Other columns of the bundle that go along, read with the rows."""
    unused = [name for name in rows.beside if name not in taken]
    if not unused:
        return []
    # Needed by few bundles.
    from calcli.importers.evidence.looks import ROWS_OF_CARRIED, goes_along

    first = min(rows.n, ROWS_OF_CARRIED)
    columns = []
    for name in unused:
        if goes_along(name, rows.beside_at(name, 0, first)):
            columns.append(
                SheetColumn(
                    name=name,
                    table_name=name,
                    position=name,
                    values=partial(rows.beside_at, name),
                )
            )
    return columns
