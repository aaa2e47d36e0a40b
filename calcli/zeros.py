"""Probabilities stored as 0: to which digit they were rounded, what a zero counts as.

A zero is a number that was rounded. Where probabilities were written with a last digit
of size ``step``, each of the m zeros of a row counts as (step / 2) / (m + 1), and the
row is not renormalised for it. The step is what all values prove:

1. values that all lie on a decimal grid were rounded to it (two decimals: 0.01);
2. numbers of a text have the last digit that is written, exponents included;
3. other numbers were rounded by their type, to its smallest positive number; 1 - p was
   rounded as numbers near 1 are.

A smallest value that stands in more than 5 % of the rows, with all others at least 100
times larger, is a writer's clip, and counts as a zero.

``digits_of_values`` looks at some rows, ``Digits`` add, and ``Zeros`` is the rule. It is
applied in one place, ``Zeros.log_of``, where probabilities become logarithms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any, NamedTuple

import numpy as np

from calcli.errors import DataError
from calcli.numerics import TINY, AnyArray, BoolArray, FloatArray, IntArray

SUM_TOLERANCE = 1e-3  # how far the sum of a row may miss 1 without a reason
MOST_TOLERANCE = 0.5  # how far it may miss 1 by any rounding


def sum_tolerance(k: int, step: float) -> float:
    """How far k numbers with a last digit of this size may miss a sum of 1: half a digit
    each, and one more."""
    return min(max(SUM_TOLERANCE, (k / 2.0 + 1.0) * step), MOST_TOLERANCE)


class FloatType(NamedTuple):
    """A binary type of numbers. bits : of its significand. smallest : positive number."""

    name: str
    bits: int
    smallest: float

    @property
    def below_one(self) -> float:
        """Distance from 1 to the largest number below it."""
        return 2.0**-self.bits


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


# ---- what the values of some rows prove


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


def decimals_of(values: FloatArray, kind: FloatType, error: float = 0.0) -> int:
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
    """Decimal grid of some values. Adds. decimals : of all of them, ``TOO_MANY`` off any
    grid. between : values other than 0, 1/2 and 1, which prove nothing, but one of each
    row, which the others determine."""

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
    multiples: tuple[tuple[bool, bool], ...] = ()
    bits: tuple[int, ...] = ()

    def __add__(self, other: "Digits") -> "Digits":
        low, high = self, other
        if other.least < self.least:
            low, high = other, self
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
        """How far the sum of a row of k of the values may miss 1 by rounding. Few values
        show two decimals, but do not prove that there were no more than one."""
        grid = self.grid(kind)
        step = grid.step(kind)
        if step is None:
            step = min(grid.shown_step(kind) or 0.0, FEW_STEP)
        return sum_tolerance(k, step)

    def narrowest(self, kind: FloatType) -> FloatType:
        """Narrowest type that holds all values, where enough of them show it."""
        for narrow in NARROWER.get(kind, ()):
            if narrow.name in self.held_by and self.all.between >= FEWEST_BETWEEN:
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
    least, least_rows, above_least = lowest, 0, np.inf
    if zeros:  # there is no clip
        least = _least(values, 0.0)
    else:
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
        held_by=_held_by(values.reshape(-1), kind),
        multiples=tuple(_multiples(column) for column in by_column),
        bits=tuple(map(_bits_below_half, by_column)),
    )


def _least(values: FloatArray, bound: float) -> float:
    """Smallest value above a bound; inf where there is none."""
    return float(np.where(values > bound, values, np.inf).min())


def _held_by(values: FloatArray, kind: FloatType) -> frozenset[str]:
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


# ---- the rule


@dataclass(frozen=True)
class Zeros:
    """What probabilities that are stored as 0 count as.

    steps : last digit of the probabilities, one for all classes or one for each of two.
    clip : largest value that counts as a zero. floor : where above 0, every zero counts
    as this, as in calibrators of calcli 0.2 and before.
    """

    steps: tuple[float, ...]
    clip: float = 0.0
    floor: float = 0.0

    @classmethod
    def of_type(cls, dtype: "np.dtype[Any]", one_column: bool = False) -> "Zeros":
        """Zeros of unrounded numbers. one_column : only P(class 1) was stored."""
        kind = float_type(dtype)
        if one_column:
            return cls((kind.below_one, kind.smallest))
        return cls((kind.smallest,))

    @classmethod
    def of(
        cls,
        digits: Digits,
        kind: FloatType,
        one_column: bool = False,
        decimals: int | None = None,
    ) -> "Zeros":
        """Zeros of rows with these digits.

        kind : type of the numbers. one_column : the values are P(class 1) alone, or
        confidences. decimals : of a text, as its zeros are written.
        """
        clip, step = digits.clip(kind), digits.grid(kind).step(kind)
        if decimals is not None:
            step = _step_of_text(digits, step, decimals)
        if step is not None and one_column and step < kind.below_one:
            return cls((kind.below_one, step))  # 1 - p has no finer digits
        if clip and (step is None or step < CLIP_GAP * clip):
            return cls((2.0 * clip,), clip)  # smaller than that is all that is known
        if step is not None:
            return cls((step,), clip)
        kind = digits.narrowest(kind)
        if one_column:
            return cls((kind.below_one, kind.smallest))
        column = digits.complement(kind)
        if column is None:
            return cls((kind.smallest,))
        steps = [kind.smallest, kind.smallest]
        steps[column] = kind.below_one
        return cls(tuple(steps))

    @classmethod
    def read(cls, resolution: Any, clip: Any, where: str) -> "Zeros":
        """Zeros as a file records them. Raises DataError for impossible numbers."""
        steps = np.atleast_1d(np.asarray(resolution))
        sound = steps.dtype.kind in "fiu" and steps.ndim == 1 and len(steps) in (1, 2)
        if not sound or not ((steps > 0) & (steps <= 1)).all():
            raise DataError(
                f"{where}: resolution is {resolution!r}, expected the last digit of the"
                " probabilities, such as 0.01; correct or delete the attribute"
            )
        limit = np.asarray(clip)
        if limit.dtype.kind not in "fiu" or limit.ndim or not 0 <= limit < 1:
            raise DataError(
                f"{where}: clip is {clip!r}, expected a number from 0 to 1;"
                " correct or delete the attribute"
            )
        return cls(tuple(steps.astype(float).tolist()), float(limit))

    def of_classes(self, k: int, where: str) -> "Zeros":
        """These zeros, where they can be those of k classes. Raises DataError."""
        if len(self.steps) > 1 and k > 2:
            raise DataError(
                f"{where}: resolution has two numbers, expected one for {k} classes;"
                " correct or delete the attribute"
            )
        return self

    @property
    def resolution(self) -> float | list[float]:
        """The steps as files record them."""
        return self.steps[0] if len(self.steps) == 1 else list(self.steps)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes by which a bundle records them."""
        attributes: dict[str, Any] = {RESOLUTION: self.resolution}
        if self.clip:
            attributes[CLIP] = self.clip
        return attributes

    @classmethod
    def recorded(cls, attributes: Mapping[str, Any], where: str) -> "Zeros | None":
        """Zeros as attributes of a bundle record them; None where they do not."""
        if attributes.get(RESOLUTION) is None:
            return None
        clip = attributes.get(CLIP)
        if clip is None:
            clip = 0.0
        return cls.read(attributes[RESOLUTION], clip, where)

    @property
    def is_rounded(self) -> bool:
        """True where digits are so few that they say how large a zero may be."""
        return not self.floor and min(self.steps) > LEAST_ROUNDED

    @property
    def is_settled(self) -> bool:
        """True where no other rows can say more: of rounded rows, and of old fits."""
        return self.is_rounded or self.floor > 0.0

    @property
    def log_half(self) -> FloatArray:
        """Logarithm of half of each step; half of the smallest number is no number."""
        return np.log(np.array(self.steps)) - math.log(2.0)

    def as_written(self, p: FloatArray) -> FloatArray:
        """Probabilities (b,) or (b, k) as they were written before a narrower type held them.

        float32 puts 0.4 above the edge of a bin that ends at 0.4. Only numbers that miss
        one with the digits of the step by the type's rounding are moved.
        """
        decimals = round(-math.log10(max(self.steps)))
        if not self.is_rounded or self.steps != (10.0**-decimals,):
            return p
        last = p
        if p.ndim > 1:
            last = p[..., -1]  # of one column, the others are 1 - p
        held_by = _held_by(last.reshape(-1), FLOAT64)
        narrower = [kind for kind in NARROWER[FLOAT64] if kind.name in held_by]
        if not narrower:
            return p
        kind = narrower[0]
        written = np.round(p, decimals)
        is_near = np.abs(written - p) <= kind.below_one
        return np.where(is_near & (written > 0.0) & (written < 1.0), written, p)

    def counts(self, p: AnyArray) -> IntArray:
        """Number of zeros of each row, (b,). p : (b, k) probabilities."""
        return np.count_nonzero(p <= self.clip, axis=1)

    def log_of(self, p: Any) -> Any:
        """Logarithms of probabilities (b, k) in float64; zeros count by the rule."""
        p = p.astype(np.float64, copy=False)
        if self.floor:
            return np.log(np.maximum(p, self.floor))
        if isinstance(p, np.ndarray):
            if p.size > 0 and p.min() <= self.clip:
                return self._filled(p, self.counts(p))
            return np.log(p)
        zero = p <= self.clip  # the rows of a graph, which an export follows
        fill = self._fill(zero.astype(np.float64).sum(axis=1))
        return np.where(zero, fill, np.log(np.where(zero, 1.0, p)))

    def log_of_columns(
        self, p: AnyArray, counts: IntArray, columns: slice
    ) -> FloatArray:
        """Logarithms of some columns of rows. counts : (b,) zeros of the whole rows."""
        p = p[:, columns].astype(np.float64)
        if self.floor:
            return np.log(np.maximum(p, self.floor))
        return self._filled(p, counts, columns)

    def _fill(self, counts: Any, columns: slice = slice(None)) -> Any:
        """Logarithms that the zeros of each row count as, (b, 1), or (b, 2)."""
        half = self.log_half
        if len(self.steps) > 1:
            half = half[columns]
        return half - np.log(counts + 1.0)[:, None]

    def _filled(
        self, p: FloatArray, counts: IntArray, columns: slice = slice(None)
    ) -> FloatArray:
        zero = p <= self.clip
        log_p = np.where(zero, 1.0, p)  # logarithms of 0 take three times as long
        np.log(log_p, out=log_p)
        np.copyto(log_p, self._fill(counts, columns), where=zero)
        return log_p

    def confidence_logs(self, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logarithms of confidences (n,) and of 1 minus them."""
        if self.floor:
            floor = math.log(self.floor)
            with np.errstate(divide="ignore"):
                wrong = np.maximum(np.log1p(-c), floor)
            return np.log(np.maximum(c, self.floor)), wrong
        fill = self.log_half - math.log(2.0)
        with np.errstate(divide="ignore"):
            right = np.where(c <= self.clip, fill[-1], np.log(c))
            wrong = np.where(c >= 1.0, fill[0], np.log1p(-c))
        return right, wrong

    def sum_tolerance(self, k: int) -> float:
        """How far the sum of a row of k probabilities may miss 1 by rounding."""
        return sum_tolerance(k, max(self.steps))

    @property
    def counts_as(self) -> str:
        """What a zero counts as, in words for people."""
        if self.floor:
            return f"{self.floor:.2g}"
        if len(self.steps) > 1:
            return "half of the last digit of its type/(zeros of the row + 1)"
        half = self.steps[0] / 2.0
        digits = f"{half:.3g}"
        if not half:  # half of the smallest number of float64 is no number
            digits = "2.5e-324"
        return f"{digits}/(zeros of the row + 1)"

    @property
    def words(self) -> str:
        """To what digit probabilities were rounded, as a sentence for people."""
        rounded = f"probabilities were rounded to {self.steps[0]:g}"
        if self.clip:
            clip = f"{self.clip:.3g}, which a writer put for all smaller ones,"
            return f"{rounded}; {clip} counts as a zero: {self.counts_as}"
        return f"{rounded}; a zero counts as {self.counts_as}"


RESOLUTION, CLIP = "resolution", "clip"
"""Attributes of a bundle: the last digit of its probabilities, and the value that a writer put for all smaller ones."""

LEAST_ROUNDED = 1e-10
"""Step above which rounding says how large a zero may be. Below, digits are as fine as
those of unrounded numbers, and a zero may be anything."""

OLD = Zeros((TINY,), floor=TINY)
"""Zeros in calibrators of calcli 0.2 and before."""


def _step_of_text(digits: Digits, step: float | None, decimals: int) -> float | None:
    """Step of the numbers of a text. step : what the values prove; None where they prove
    none. decimals : of its zeros: a program that writes 0.0 may mean any number."""
    if step is not None:
        return min(step, 10.0**-decimals)
    if digits.all.between >= FEWEST_BETWEEN:
        decimals = max(decimals, written_decimals([repr(digits.least)]))
    elif decimals < 2:
        return None
    return max(10.0**-decimals, FLOAT64.smallest)


def pooled(parts: Sequence[Zeros]) -> Zeros:
    """Zeros of rows of several files: the finest digit of any."""
    width = max(len(part.steps) for part in parts)
    steps = np.array([np.broadcast_to(part.steps, width) for part in parts])
    clips = {part.clip for part in parts}
    finest = Zeros(tuple(steps.min(axis=0).tolist()))
    if len(clips) > 1:
        return finest
    return replace(finest, clip=clips.pop())
