"""Digits to which probabilities were rounded: what the values of some rows prove.

1. Values that all lie on a decimal grid were rounded to it (two decimals: 0.01).
2. Numbers of a text have the last digit that is written, exponents included.
3. Other numbers were rounded by their type, to its smallest positive number; 1 - p was
   rounded as numbers near 1 are.

A smallest value that stands in more than 5 % of the rows, with all others at least 100
times larger, is a writer's clip.

``digits_of_values`` looks at some rows, and ``Digits`` add. What a stored zero counts
as follows from them, in ``zeros``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple

import numpy as np

from calcli.numerics import AnyArray, BoolArray, FloatArray

SUM_TOLERANCE = 1e-3  # how far the sum of a row may miss 1 without a reason
MOST_TOLERANCE = 0.5  # how far it may miss 1 by any rounding


def sum_tolerance(k: int, step: float) -> float:
    """How far k numbers with a last digit of this size may miss a sum of 1.

    Half a digit each, and one more.
    """
    return min(max(SUM_TOLERANCE, (k / 2.0 + 1.0) * step), MOST_TOLERANCE)


class FloatType(NamedTuple):
    """A binary type of numbers.

    bits : of its significand. smallest : its smallest positive number.
    """

    name: str
    bits: int
    smallest: float

    @property
    def below_one(self) -> float:
        """Distance from 1 to the largest number below it."""
        return 2.0**-self.bits

    @property
    def sum_tolerance(self) -> float:
        """How far a row of such numbers may miss a sum of 1.

        Half of its last digit each, and as much of the sum by which they were divided.
        """
        return 2.0 * self.below_one


FLOAT64 = FloatType("float64", 53, 2.0**-1074)
FLOAT32 = FloatType("float32", 24, 2.0**-149)
FLOAT16 = FloatType("float16", 11, 2.0**-24)
BFLOAT16 = FloatType("bfloat16", 8, 2.0**-133)
BY_SIZE = {2: FLOAT16, 4: FLOAT32, 8: FLOAT64}
NARROWER = {FLOAT64: (FLOAT16, BFLOAT16, FLOAT32), FLOAT32: (FLOAT16, BFLOAT16)}
"""Types whose numbers an array of a wider type may hold, the narrowest first."""


def by_bits(kind: FloatType) -> int:
    return kind.bits


def float_type(dtype: "np.dtype[Any]") -> FloatType:
    """Type of an array's numbers; integers count as float64."""
    return BY_SIZE[dtype.itemsize] if dtype.kind == "f" else FLOAT64


# ---- constants of the rule


MOST_MISSED = 0.1
"""Largest rounding error, in units of a grid, at which numbers may show the grid."""

CERTAIN = 20.0
"""Evidence for a grid that is needed: chance has probability e^-20, about 2e-9."""

TOO_MANY = 99  # decimals of numbers that lie on no grid

SAMPLE = 64  # numbers looked at first: unrounded ones show by a few

FEWEST_BETWEEN = 10
"""Numbers that show a grid, or a type: were the grid ten times as fine, each would lie
on this one with probability 1/10."""

FEW_STEP = 0.01  # largest step that fewer numbers show
FEWEST_BITS = 30  # bits that show a complement 1 - p: chance has probability 2^-30

CLIPPED_SHARE = 0.05  # share of the rows above which a smallest value may be a clip
FEWEST_CLIPPED = 5  # rows with one and the same value that are no chance
CLIP_GAP = 100.0  # factor by which all other values exceed a clip
LARGEST_CLIP = 1e-6  # largest one beside numbers that were not rounded


def most_decimals_of(kind: FloatType) -> int:
    """Decimals up to which numbers of a type show that they were rounded."""
    return math.floor(math.log10(MOST_MISSED / kind.below_one))


def decimals_of(values: FloatArray, kind: FloatType, error: float) -> int:
    """Fewest decimals that all values (n,) have; ``TOO_MANY`` where there are none.

    kind : type in which they were rounded. error : further error of each value.
    """
    error = max(error, kind.below_one)
    most = -1
    if error < 1.0:
        most = math.floor(math.log10(MOST_MISSED / error))
    decimals = 0
    for some in (values[:SAMPLE], values):
        left = some
        while len(left):
            if decimals > most:
                return TOO_MANY
            scaled = left * 10.0**decimals
            nearest = np.rint(scaled)
            missed = np.abs(scaled - nearest) > error * 10.0**decimals
            missed |= (nearest == 0.0) & (left > 0.0)  # 1e-30 is no rounded zero
            left = left[missed]
            decimals += len(left) > 0
    return decimals


@dataclass(frozen=True)
class Grid:
    """Decimal grid of some values. Adds.

    decimals : of all of them, ``TOO_MANY`` off any grid. between : values other than 0,
    1/2 and 1, which prove nothing, but one of each row, which the others determine.
    """

    decimals: int
    between: int

    def __add__(self, other: "Grid") -> "Grid":
        decimals = max(self.decimals, other.decimals)
        return Grid(decimals, self.between + other.between)

    @classmethod
    def of(
        cls,
        values: FloatArray,
        kind: FloatType,
        left_out: BoolArray | None = None,
        error: float = 0.0,
    ) -> "Grid":
        """Grid of values (b, k) but those left out. error : of each value."""
        trivial = np.zeros(values.shape, dtype=np.bool_)
        for value in (0.0, 0.5, 1.0):
            if error:
                trivial |= np.abs(values - value) <= error
            else:
                trivial |= values == value
        kept = values
        if left_out is not None:
            trivial |= left_out
            kept = values[~left_out]
        between = values.size - int(np.count_nonzero(trivial))
        if values.shape[1] > 1:
            between -= int(np.count_nonzero(~trivial.all(axis=1)))
        return cls(decimals_of(kept.reshape(-1), kind, error), between)

    def step(self, kind: FloatType) -> float | None:
        """Step of the grid, where the values prove it; None where they do not."""
        return None if self.between < FEWEST_BETWEEN else self.shown_step(kind)

    def shown_step(self, kind: FloatType) -> float | None:
        """Step of the grid on which the values lie, not by chance."""
        if self.decimals > most_decimals_of(kind):
            return None
        by_chance = 2.0 * kind.below_one * 10.0**self.decimals
        if self.between * -math.log(by_chance) < CERTAIN:
            return None
        return 10.0**-self.decimals


@dataclass(frozen=True)
class Digits:
    """What the values of some rows show. Adds.

    rows : number of rows. zeros : values of exactly 0. least : smallest positive value,
    inf for none. least_rows : rows that hold it. above_least : smallest value above it.
    all, above : grids of all values, and of those above the least. held_by : narrower
    types that hold all values. multiples : by column of two, whether all values are
    multiples of the distance of float32, and of float64, from 1. bits : by column, bits
    by which the values show it.
    """

    rows: int
    zeros: int
    least: float
    least_rows: int
    above_least: float
    all: Grid
    above: Grid
    held_by: frozenset[str]
    multiples: tuple[tuple[bool, bool], ...]
    bits: tuple[int, ...]

    def __add__(self, other: "Digits") -> "Digits":
        low = self
        high = other
        if other.least < self.least:
            low = other
            high = self
        if low.least == high.least:
            least_rows = low.least_rows + high.least_rows
            above_least = min(low.above_least, high.above_least)
            above = low.above + high.above
        else:  # all values of the other lie above
            least_rows = low.least_rows
            above_least = min(low.above_least, high.least)
            above = low.above + high.all
        multiples = []
        for one, two in zip(self.multiples, other.multiples, strict=True):
            multiples.append((one[0] and two[0], one[1] and two[1]))
        return Digits(
            rows=self.rows + other.rows,
            zeros=self.zeros + other.zeros,
            least=low.least,
            least_rows=least_rows,
            above_least=above_least,
            all=self.all + other.all,
            above=above,
            held_by=self.held_by & other.held_by,
            multiples=tuple(multiples),
            bits=tuple(map(add, self.bits, other.bits)),
        )

    def clip(self, kind: FloatType) -> float:
        """Value that a writer put for all smaller ones; 0 where there is none.

        It stands in many rows, far below all others; and these were rounded to coarser
        digits, or it is so small that no model says it so often.
        """
        if self.zeros or not CLIP_GAP * self.least <= self.above_least < np.inf:
            return 0.0
        if self.least_rows < max(CLIPPED_SHARE * self.rows, FEWEST_CLIPPED):
            return 0.0
        step = self.above.step(kind)
        is_coarser = step is not None and step >= CLIP_GAP * self.least
        return self.least if is_coarser or self.least <= LARGEST_CLIP else 0.0

    def grid(self, kind: FloatType) -> Grid:
        """Grid of the values that no writer clipped."""
        return self.above if self.clip(kind) else self.all

    def sum_tolerance(self, kind: FloatType, k: int) -> float:
        """How far the sum of a row of k of the values may miss 1 by rounding.

        Few values show two decimals, but do not prove that there were no more than one.
        """
        grid = self.grid(kind)
        step = grid.step(kind)
        if step is not None:
            return sum_tolerance(k, step)
        step = min(grid.shown_step(kind) or 0.0, FEW_STEP)
        return max(sum_tolerance(k, step), self.narrowest(kind).sum_tolerance)

    def narrowest(self, kind: FloatType) -> FloatType:
        """Narrowest type that holds all values, where enough of them show it.

        Of the two of 16 bits it is bfloat16, whose digits are fewer, unless zeros ask
        for the smallest number of a type.
        """
        is_shown = self.all.between >= FEWEST_BETWEEN
        if is_shown and not self.zeros and BFLOAT16.name in self.held_by:
            return BFLOAT16
        for narrow in NARROWER.get(kind, ()):
            if is_shown and narrow.name in self.held_by:
                return narrow
        return kind

    def complement(self, kind: FloatType) -> int | None:
        """Column of two that was computed as 1 - p; None where neither shows it."""
        if kind not in (FLOAT32, FLOAT64):
            return None
        which = 0 if kind == FLOAT32 else 1
        shown = []
        for column, multiples in enumerate(self.multiples):
            if multiples[which] and self.bits[column] >= FEWEST_BITS:
                shown.append(column)
        return shown[0] if len(shown) == 1 else None


@np.errstate(under="ignore")
def digits_of_values(values: AnyArray, kind: FloatType | None = None) -> Digits:
    """What probabilities (b, k) show. kind : type in which they were computed."""
    kind = kind or float_type(values.dtype)
    values = values.astype(np.float64, copy=False)
    lowest = float(values.min())
    zeros = 0
    if lowest <= 0.0:
        zeros = int(np.count_nonzero(values == 0.0))
    everything = above = Grid.of(values, kind)
    if zeros:  # there is no clip
        least = _least(values, 0.0)
        least_rows = 0
        above_least = np.inf
    else:
        least = lowest
        is_least = values == least
        least_rows = int(np.count_nonzero(is_least.any(axis=1)))
        above_least = _least(values, least)
    if CLIP_GAP * least <= above_least < np.inf:
        # rows may have been divided by their sums after the clip
        error = 2.0 * values.shape[1] * least
        above = Grid.of(values, kind, is_least, error)
    by_column = []
    if values.shape[1] == 2:
        by_column = [values[:, 0], values[:, 1]]
    return Digits(
        rows=len(values),
        zeros=zeros,
        least=least,
        least_rows=least_rows,
        above_least=above_least,
        all=everything,
        above=above,
        held_by=types_that_hold(values.reshape(-1), kind),
        multiples=tuple(map(_multiples, by_column)),
        bits=tuple(map(_bits_below_half, by_column)),
    )


def _least(values: FloatArray, bound: float) -> float:
    """Smallest value above a bound; inf where there is none."""
    return float(np.where(values > bound, values, np.inf).min())


def types_that_hold(values: FloatArray, kind: FloatType) -> frozenset[str]:
    """Names of the narrower types that hold all values exactly."""
    names = set()
    for narrow in NARROWER.get(kind, ()):
        if _holds(narrow, values[:SAMPLE]) and _holds(narrow, values):
            names.add(narrow.name)
    return frozenset(names)


def _holds(narrow: FloatType, values: FloatArray) -> bool:
    if narrow == FLOAT16:
        return bool((values.astype(np.float16) == values).all())
    single = values.astype(np.float32)
    if not (single == values).all():
        return False
    if narrow == FLOAT32:
        return True
    return not (single.view(np.uint32) & 0xFFFF).any()


def _multiples(column: FloatArray) -> tuple[bool, bool]:
    """Whether all values are multiples of float32's, and float64's, distance from 1."""
    are_multiples = []
    for kind in (FLOAT32, FLOAT64):
        scaled = column * 2.0**kind.bits
        are_multiples.append(bool((scaled == np.rint(scaled)).all()))
    return are_multiples[0], are_multiples[1]


def _bits_below_half(column: FloatArray) -> int:
    """Bits that values below 1/2 would have beyond those of numbers near 1."""
    exponent = np.frexp(column[column > 0.0])[1]
    return int(-exponent[exponent < 0].sum())


def written_decimals(cells: Sequence[str]) -> int:
    """Most decimals of the numbers of a text, exponents included: 1.5e-3 has 4."""
    most = 0
    for cell in cells:
        digits, _, exponent = cell.strip().lower().partition("e")
        decimals = len(digits.partition(".")[2].rstrip("%"))
        power = int(exponent) if exponent.lstrip("+-").isdigit() else 0
        most = max(most, decimals - power)
    return most
