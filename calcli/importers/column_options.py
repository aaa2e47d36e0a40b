"""Columns that options name: ``A,B,C``, ``A:C``; and the option that names columns."""

import re
from collections.abc import Sequence


def some_of(names: Sequence[str]) -> str:
    """A short list of names."""
    if len(names) > 6:
        names = [*names[:3], "…", names[-1]]
    return ", ".join(names)


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
            ends = _ends_of_range(names, ",".join(pieces[:size]))
            if ends is not None:
                columns += _columns_between(names, *ends)
                pieces = pieces[size:]
                break
        else:
            return []
    return columns


def _ends_of_range(names: Sequence[str], text: str) -> tuple[str, str] | None:
    """First and last column of ``A`` or ``A:C``; None if one does not exist."""
    cuts = [(text, text)]
    for place, character in enumerate(text):
        if character == ":":
            cuts.append((text[:place], text[place + 1 :]))
    for first, last in cuts:
        ends = first.strip(), last.strip()
        if ends[0] in names and ends[1] in names:
            return ends
    return None


def _columns_between(names: Sequence[str], first: str, last: str) -> list[str]:
    counted = _counted_columns(names, first, last)
    if counted:
        return counted
    return list(names[names.index(first) : names.index(last) + 1])


def _counted_columns(names: Sequence[str], first: str, last: str) -> list[str]:
    """Expand a range of numbered names (``p2:p5``) in the order of the numbers.

    Returns none unless all columns between differ only in their number.
    """
    number = r"(.*?)([0-9]{1,9})(\D*)"
    low, high = re.fullmatch(number, first), re.fullmatch(number, last)
    if first == last or low is None or high is None:
        return []
    before, after = low[1], low[3]
    if (high[1], high[3]) != (before, after):
        return []
    start, end = sorted((names.index(first), names.index(last)))
    pattern = re.compile(f"{re.escape(before)}[0-9]+{re.escape(after)}")
    if not all(map(pattern.fullmatch, names[start : end + 1])):
        return []
    most = int(low[2]) + len(names)
    numbers = range(int(low[2]), min(int(high[2]), most) + 1)
    counted = [f"{before}{number}{after}" for number in numbers]
    return counted if set(counted) <= set(names) else []


def option_for(names: Sequence[str], columns: Sequence[str]) -> str:
    """Value of ``--scores`` for these columns.

    ``FIRST:LAST`` where they are adjacent in this order, else all names.
    """
    ends = f"{columns[0]}:{columns[-1]}"
    if listed_columns(list(names), ends) == list(columns):
        return ends
    return ",".join(columns)
