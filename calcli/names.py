"""When two texts name the same: whole numbers, and intersections of groups."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from calcli.numerics import IntArray

WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,15})\.0|-(0)\.0")
"""A whole number as Python writes it when its type is float."""

UNKNOWN = -1


def whole_text(text: str) -> str:
    """Text of the whole number of a text such as ``7.0``; any other text unchanged."""
    match = WHOLE_FLOAT.fullmatch(text)
    if match is None:
        return text
    return match[1] or match[2]


def group_text(text: str) -> str:
    """The one text of all that name the same group: ``sex=F, site=7`` of
    ``site=7.0, sex=F``."""
    parts = [part.partition("=") for part in text.split(", ")]
    if len(parts) < 2 or not all(equals for _, equals, _ in parts):
        return whole_text(text)
    return ", ".join(sorted(f"{name}={whole_text(value)}" for name, _, value in parts))


def places_among(
    known: Sequence[str],
    wanted: Sequence[str],
    same: Callable[[str], str] = whole_text,
) -> IntArray:
    """Index of every wanted name among the known ones, -1 where it is not there.

    A name is found by its text, else by what ``same`` makes of it, unless several
    known names come to that.
    """
    by_text: dict[str, int] = {}
    for place, text in enumerate(known):
        by_text.setdefault(text, place)
    places = np.array([by_text.get(text, UNKNOWN) for text in wanted], dtype=np.int64)
    missing = np.flatnonzero(places == UNKNOWN)
    if not len(missing):
        return places
    by_meaning: dict[str, int] = {}
    for text, place in by_text.items():
        meaning = same(text)
        by_meaning[meaning] = UNKNOWN if meaning in by_meaning else place
    for row in missing.tolist():
        places[row] = by_meaning.get(same(wanted[row]), UNKNOWN)
    return places


@lru_cache(maxsize=16)  # the same for every block of rows
def places_of_groups(known: tuple[str, ...], groups: tuple[str, ...]) -> IntArray:
    """Index among the known groups of every group, -1 where it is not there: 7 is 7.0,
    and the columns of an intersection may come in any order."""
    places = places_among(known, groups, group_text)
    places.flags.writeable = False
    return places
