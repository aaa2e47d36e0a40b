"""Columns that options name: ``A,B,C``, ``A:C``; and the option that names columns."""

import re
from collections.abc import Iterable, Sequence

from calcli.importers.names.roles import NUMBERED

NUMBER_IN_NAME = re.compile(r"(?P<before>.*?)(?P<number>[0-9]{1,9})(?P<after>\D*)")
"""A name with a number in it, the last one: ``p2``."""


def some_of(names: Sequence[str]) -> str:
    """A short list of names."""
    if len(names) > 6:
        names = [*names[:3], "…", names[-1]]
    return ", ".join(names)


def columns_of_options(names: Sequence[str], options: Sequence[str]) -> set[str]:
    """The columns that options name or list."""
    columns: set[str] = set()
    for option in options:
        columns.update([option] if option in names else listed_columns(names, option))
    return columns


def listed_columns(names: Sequence[str], option: str) -> list[str]:
    """Expand ``A,B,C`` or ``A:C`` to columns; none when one does not exist.

    Names may contain commas and colons.
    """
    pieces = option.split(",")
    most_commas = max((name.count(",") for name in names), default=0)
    widest = 2 * most_commas + 1
    columns: list[str] = []
    while pieces:
        for size in range(min(widest, len(pieces)), 0, -1):
            text = ",".join(pieces[:size])
            ends = _ends_of_range(names, text)
            if ends is not None:
                columns += _columns_between(names, *ends)
                pieces = pieces[size:]
                break
        else:
            return []
    return columns


def _ends_of_range(names: Sequence[str], text: str) -> tuple[str, str] | None:
    """First and last column of ``A`` or ``A:C``; None if one does not exist."""
    whole = text.strip()
    if whole in names:
        return whole, whole
    for place, character in enumerate(text):
        first, last = text[:place].strip(), text[place + 1 :].strip()
        if character == ":" and first in names and last in names:
            return first, last
    return None


def _columns_between(names: Sequence[str], first: str, last: str) -> list[str]:
    counted = _counted_columns(names, first, last)
    if counted:
        return counted
    start, end = names.index(first), names.index(last)
    return list(names[start : end + 1])


def _counted_columns(names: Sequence[str], first: str, last: str) -> list[str]:
    """Expand a range of numbered names (``p2:p5``) in the order of the numbers.

    Returns none unless all columns between differ only in their number.
    """
    low, high = NUMBER_IN_NAME.fullmatch(first), NUMBER_IN_NAME.fullmatch(last)
    if first == last or low is None or high is None:
        return []
    numbered = re.compile(
        f"{re.escape(low['before'])}(?P<number>[0-9]{{1,9}}){re.escape(low['after'])}"
    )
    start, end = sorted((names.index(first), names.index(last)))
    if not all(map(numbered.fullmatch, names[start : end + 1])):
        return []
    by_number = {}
    for name in names:
        match = numbered.fullmatch(name)
        if match is not None:
            by_number[int(match["number"])] = name
    lowest, highest = int(low["number"]), int(high["number"])
    inside = sorted(number for number in by_number if lowest <= number <= highest)
    is_complete = len(inside) == highest - lowest + 1
    return [by_number[number] for number in inside] if is_complete else []


def by_stem(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that end in a number, by what stands before it: ``p0, p1``."""
    stems: dict[str, list[str]] = {}
    for name in names:
        match = NUMBERED.fullmatch(name)
        if match is not None:
            stems.setdefault(match["stem"], []).append(name)
    return stems


def differing_numbers(names: Iterable[str]) -> list[int]:
    """The numbers at the end in which names of one stem differ; none for other names.

    >>> differing_numbers(["p[2]", "p[10]"])
    [2, 10]
    """
    stems = set()
    numbers = []
    for name in names:
        match = NUMBERED.fullmatch(name)
        if match is None:
            return []
        stems.add(match["stem"])
        numbers.append(int(match["number"]))
    if len(stems) != 1 or len(set(numbers)) != len(numbers):
        return []
    return numbers


def option_for(names: Sequence[str], columns: Sequence[str]) -> str:
    """Value of ``--scores`` for these columns.

    ``FIRST:LAST`` where they are adjacent in this order, else all names.
    """
    ends = f"{columns[0]}:{columns[-1]}"
    if listed_columns(list(names), ends) == list(columns):
        return ends
    return ",".join(columns)
