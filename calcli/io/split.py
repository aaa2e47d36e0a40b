"""Splitting of rows into named groups, by fraction, by number or by position."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.errors import UsageError
from calcli.items import duplicates
from calcli.number_words import noun
from calcli.numerics import AnyArray, IntArray, whole_number
from calcli.statistics.units import Units

SUM_TOLERANCE = 1e-9
"""Tolerance for fractions that sum to more than 1: .1 + .2 + .7 is not 1 in binary."""


@dataclass(frozen=True)
class Part:
    """One group of a split: its name, and its rows in exactly one of four ways.

    fraction : proportion of all rows, 0 < fraction <= 1. count : number of rows. rows :
    first and last + 1 position, as Python slices count, negative ones from the end.
    None of these: all rows not in the other parts.
    """

    name: str
    fraction: float | None = None
    count: int | None = None
    rows: tuple[int | None, int | None] | None = None

    @property
    def is_rest(self) -> bool:
        return self.fraction is None and self.count is None and self.rows is None


def parse_split(text: str) -> Part:
    """Read ``NAME=0.5``, ``NAME=50%``, ``NAME=5000``, ``NAME=rest`` or ``NAME=0:5000``.

    A number with a point is a fraction, one without a number of rows. Raises UsageError
    for anything else.
    """
    name, equals, size = map(str.strip, text.partition("="))
    forms = "NAME=0.5, NAME=50%, NAME=5000 (rows), NAME=0:5000 (positions) or NAME=rest"
    if not equals or not re.fullmatch(r"[\w.+-]+", name) or not name.strip("."):
        raise UsageError(
            f"--split {text}: expected {forms}, with a name of letters, digits, _ . + -"
        )
    if size == "rest":
        return Part(name)
    span = re.fullmatch(r"(-?[0-9]{1,18})?:(-?[0-9]{1,18})?", size)
    if span is not None:
        first, stop = map(_position, span.groups())
        return Part(name, rows=(first, stop))
    count = whole_number(size)
    if count is not None:
        if count < 2:
            raise UsageError(
                f"--split {text}: is that {size} of the rows or {size} row? write 1.0"
                " or 100% for all rows"
            )
        return Part(name, count=count)
    try:
        fraction = float(size[:-1]) / 100 if size.endswith("%") else float(size)
    except ValueError:
        raise UsageError(
            f"--split {text}: cannot read {size!r}, expected {forms}"
        ) from None
    if not 0 < fraction <= 1:
        raise UsageError(f"--split {text}: a fraction lies in (0, 1], got {fraction:g}")
    return Part(name, fraction=fraction)


def _position(text: str | None) -> int | None:
    return None if text is None else int(text)


def deal_rows(
    parts: Sequence[Part],
    n: int,
    *,
    labels: AnyArray | None = None,
    seed: int = 0,
    ordered: bool = False,
    units: Units | None = None,
) -> dict[str, IntArray]:
    """Split n rows into groups.

    Returns the indices of each group's rows, in the order of the source.

    With ``labels`` (n,) the deal is stratified: the rows of each class are shuffled,
    the classes (in random order) laid end to end, and the groups spread evenly along
    that line, so that a group's share of every class differs from its share of all rows
    by less than one row for two groups, less than one more for each further group; the
    sizes of the groups are exact. Without labels all rows are shuffled and split.
    ``ordered`` splits without shuffling: the first rows to the first group, and so on.
    Parts given by position are never shuffled. With ``units`` whole units are assigned,
    at random or in the order of their first rows: each goes where its middle row lies,
    so that sizes are exact up to the rows of a unit. Deterministic under ``seed``.

    Raises UsageError for sizes that do not fit n rows or leave a group empty.
    """
    _check_parts(parts)
    rng = None if ordered else np.random.default_rng(seed)
    if any(part.rows is not None for part in parts):
        dealt = _by_position(parts, n)
    elif units is not None:
        dealt = _by_unit(parts, _sizes(parts, n), units, rng)
    else:
        dealt = _by_row(parts, _sizes(parts, n), n, labels, rng)
    for name, rows in dealt.items():
        if not len(rows):
            whole = f"{n} {noun(n, 'row')}"
            if units is not None:
                whole = f"{units.n} {noun(units.n, 'unit')}"
            raise UsageError(
                f"--split {name}: would get none of the {whole}; ask for more, or"
                " leave it out"
            )
    return dealt


def _by_row(
    parts: Sequence[Part],
    sizes: Sequence[int],
    n: int,
    labels: AnyArray | None,
    rng: np.random.Generator | None,
) -> dict[str, IntArray]:
    """Assign single rows to groups, stratified by labels if given.

    rng : None for the order of the source.
    """
    line = np.arange(n) if rng is None else rng.permutation(n)
    if rng is None or labels is None:
        ends = np.cumsum([0, *sizes])
        rows_by_group = {}
        for i, part in enumerate(parts):
            rows_by_group[part.name] = np.sort(line[ends[i] : ends[i + 1]])
        return rows_by_group
    _, group = np.unique(labels, return_inverse=True)
    place = rng.permutation(int(group.max()) + 1)[group]
    line = line[np.argsort(place[line], kind="stable")]
    dealt = {}
    for part, size in zip(parts, sizes, strict=True):
        # every (m/size)-th of the m positions that are left, as evenly as integers
        # allow
        is_of_part = np.diff(np.arange(len(line) + 1) * size // max(len(line), 1)) > 0
        dealt[part.name] = np.sort(line[is_of_part])
        line = line[~is_of_part]
    return dealt


def _by_unit(
    parts: Sequence[Part],
    sizes: Sequence[int],
    units: Units,
    rng: np.random.Generator | None,
) -> dict[str, IntArray]:
    """Assign whole units to groups. rng : None for the order of their first rows."""
    if rng is None:
        line = np.argsort(units.order[units.starts])
    else:
        line = rng.permutation(units.n)
    count = units.count[line]
    group = np.empty(units.n, dtype=np.int64)
    group[line] = np.searchsorted(
        np.cumsum(sizes), np.cumsum(count) - count / 2.0, side="right"
    )
    rows_by_group = {}
    for i, part in enumerate(parts):
        rows_by_group[part.name] = np.flatnonzero(group[units.code] == i)
    return rows_by_group


def _check_parts(parts: Sequence[Part]) -> None:
    twice = duplicates(part.name for part in parts)
    if twice:
        raise UsageError(
            f"--split names the group {twice[0]!r} twice; each group has a name of its"
            " own"
        )
    if sum(part.is_rest for part in parts) > 1:
        raise UsageError("--split: only one group can be the rest")
    if any(part.rows is not None for part in parts):
        mixed = []
        for part in parts:
            if part.fraction is not None or part.count is not None:
                mixed.append(part.name)
        if mixed:
            raise UsageError(
                f"--split {mixed[0]}: positions such as 0:5000 go together with other"
                " positions or rest, not with fractions or numbers of rows"
            )
    total = sum(part.fraction or 0.0 for part in parts)
    if total > 1 + SUM_TOLERANCE:
        raise UsageError(f"--split: the fractions sum to {total:g}, expected at most 1")


def _sizes(parts: Sequence[Part], n: int) -> list[int]:
    """Number of rows of each part: fractions rounded down, rows left over go to the
    largest remainders.
    """
    exact = [n * (part.fraction or 0.0) for part in parts]
    sizes = []
    for part, x in zip(parts, exact, strict=True):
        sizes.append(part.count or int(x + SUM_TOLERANCE))
    shares = [i for i, part in enumerate(parts) if part.fraction is not None]
    spare = round(sum(exact)) - sum(sizes[i] for i in shares)
    for i in sorted(shares, key=lambda i: sizes[i] - exact[i])[: max(spare, 0)]:
        sizes[i] += 1
    left = n - sum(sizes)
    if left < 0:
        raise UsageError(f"--split asks for {n - left} rows, the source has {n}")
    for i, part in enumerate(parts):
        if part.is_rest:
            sizes[i] = left
    return sizes


def _by_position(parts: Sequence[Part], n: int) -> dict[str, IntArray]:
    owner = np.zeros(n, dtype=np.int64)
    for number, part in enumerate(parts, start=1):
        if part.rows is None:
            continue
        first, stop = part.rows
        for end in (first, stop):
            if end is not None and abs(end) > n:
                raise UsageError(
                    f"--split {part.name}: position {end} lies outside the source's"
                    f" {n} rows"
                )
        here = owner[first:stop]
        if not len(here):
            raise UsageError(
                f"--split {part.name}: holds no row; the first position comes before"
                " the last"
            )
        if here.any():
            other = parts[int(here.max()) - 1].name
            raise UsageError(
                f"--split: groups {other} and {part.name} share rows; a row belongs to"
                " one group"
            )
        here[:] = number
    dealt = {}
    for number, part in enumerate(parts, start=1):
        if part.is_rest:
            number = 0
        dealt[part.name] = np.flatnonzero(owner == number)
    return dealt
