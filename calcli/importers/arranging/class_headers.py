"""Classes in the names of columns: their order, and their names."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.family import Family
from calcli.importers.names.column_options import differing_numbers, some_of
from calcli.importers.names.common_text import Around
from calcli.importers.remarks import remark
from calcli.importers.table import Table
from calcli.items import counts_up
from calcli.numerics import AnyArray, whole_number

IN_PARENTHESES = Around("(", ")")


def sorted_by_number(table: Table, family: Family) -> Family:
    """Columns ``p_2, p_0, p_1`` in the order of their numbers, if these are consecutive.

    The names of their classes go with them.
    """
    numbers = differing_numbers(family.columns)
    in_order = sorted(numbers)
    if numbers == in_order or in_order != list(range(in_order[0], in_order[-1] + 1)):
        return family
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    names = [family.columns[place] for place in order]
    classes = family.classes
    if classes is not None:
        classes = [classes[place] for place in order]
    remark(
        f"{table.file.name}: columns {some_of(names)} were put in the order of their"
        " numbers"
    )
    return replace(family, columns=names, classes=classes)


def names_of_classes(table: Table, family: Family, is_ours: bool) -> list[str] | None:
    """Names of the classes; None if the columns only number them."""
    if family.classes is not None:
        return family.classes
    if is_ours and family.prefix:
        return _names_of_apply(family)
    names = list(map(str.strip, _without_first(len(family.prefix), family.columns)))
    names = _without_common_ends(names)
    if family.origin == "numbered":
        numbers_of_columns = differing_numbers(family.columns)
        names = list(map(str, numbers_of_columns)) or names
    numbers: list[int] = []
    for name in names:
        number = whole_number(name)
        if number is not None:
            numbers.append(number)
    if numbers == [0]:
        return names  # the single column of class 0
    if len(numbers) == len(names):
        return _numbered_names(table, family, names, numbers, is_ours)
    names = _without_parent(names)
    if not family.prefix and differing_numbers(names):
        return None
    return names


def _without_parent(names: list[str]) -> list[str]:
    """Names of classes in parentheses, or that are fields of one object."""
    if all(map(IN_PARENTHESES.is_around, names)):
        names = list(map(IN_PARENTHESES.inside, names))  # probability(cat)
    parents = []
    fields = []
    for name in names:
        parent, _, field = name.rpartition(".")
        parents.append(parent)
        fields.append(field)
    return fields if len(set(parents)) == 1 else names  # scores.cat, scores.dog


def _names_of_apply(family: Family) -> list[str] | None:
    """Class names in a table written by ``apply``; None for numbers of classes."""
    names = _without_first(len(family.prefix) + 1, family.columns)
    if names == ["0"]:
        return names
    return None if counts_up(names) else names


def read_names(table: Table, family: Family, classes: list[str]) -> AnyArray:
    """The names of the classes, with a remark where these are parts of headers."""
    if family.classes is not None and family.classes != family.columns:
        first, last = classes[0], classes[-1]
        remark(
            f"{table.file.name}: classes {first!r} to {last!r} are what differs in the"
            " names of the columns"
        )
    return np.asarray(classes)


def _without_common_ends(names: list[str]) -> list[str]:
    """Names without the separators that all begin or end with."""
    while all(names) and _share_one_of(" _-.[", names, 0):
        names = _without_first(1, names)
    while all(names) and _share_one_of(" _-.]", names, -1):
        names = [name[:-1] for name in names]
    return names


def _without_first(n: int, names: Sequence[str]) -> list[str]:
    """Names without their first n characters."""
    return [name[n:] for name in names]


def _share_one_of(separators: str, names: Sequence[str], place: int) -> bool:
    """True for names that all have the same separator at a place."""
    characters = {name[place] for name in names}
    return len(characters) == 1 and characters <= set(separators)


def _numbered_names(
    table: Table,
    family: Family,
    names: list[str],
    numbers: Sequence[int],
    is_ours: bool,
) -> list[str] | None:
    """Names of classes that are numbers; None if they are the places of the classes."""
    if is_ours:
        return None if list(numbers) == list(range(len(numbers))) else names
    if family.origin != "listed":
        for place in range(1, len(numbers)):
            if numbers[place] != numbers[place - 1] + 1:
                before, after = family.columns[place - 1], family.columns[place]
                message = (
                    f"after column {before!r} comes {after!r}: classes are missing"
                )
                members = ",".join(family.columns)
                advice = "name the columns in the order of the classes: --scores"
                advice += f" {shlex.quote(members)}"
                raise DataError(
                    f"{table.file}: {message}; {advice}", option=["--scores", members]
                )
    if set(numbers) <= set(range(len(numbers) + 1)):
        return None
    return names
