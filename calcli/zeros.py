"""Probabilities stored as 0: what a zero counts as.

A zero is a number that was rounded. Where probabilities were written with a last digit
of size ``step``, each of the m zeros of a row counts as (step / 2) / (m + 1), and the
row is not renormalised for it. The step is what all values prove (``digits``), and a
writer's clip counts as a zero.

The rule is applied in one place, ``Zeros.log_of``, where probabilities become
logarithms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.numerics import TINY, AnyArray, FloatArray, IntArray
from calcli.rounding import (
    BFLOAT16,
    CLIP_GAP,
    FEWEST_BETWEEN,
    FLOAT64,
    NARROWER,
    Digits,
    FloatType,
    float_type,
    sum_tolerance,
    types_that_hold,
    written_decimals,
)


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
        clip = digits.clip(kind)
        step = digits.grid(kind).step(kind)
        narrow = digits.narrowest(kind)
        is_bfloat16 = step is None and narrow == BFLOAT16
        if decimals is not None and not is_bfloat16:
            step = _step_of_text(digits, step, decimals)
        if step is not None and one_column and step < kind.below_one:
            return cls((kind.below_one, step))  # 1 - p has no finer digits
        if clip and (step is None or step < CLIP_GAP * clip):
            return cls((2.0 * clip,), clip)  # smaller than that is all that is known
        if step is not None:
            return cls((step,), clip)
        kind = narrow
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
        """Probabilities (b,) or (b, k) as written before a narrower type held them.

        float32 puts 0.4 above the edge of a bin that ends at 0.4. Only numbers that
        miss one with the digits of the step by the type's rounding are moved.
        """
        decimals = round(-math.log10(max(self.steps)))
        if not self.is_rounded or self.steps != (10.0**-decimals,):
            return p
        last = p
        if p.ndim > 1:
            last = p[..., -1]  # of one column, the others are 1 - p
        names = types_that_hold(last.reshape(-1), FLOAT64)
        narrower = [kind for kind in NARROWER[FLOAT64] if kind.name in names]
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
        tolerance = sum_tolerance(k, max(self.steps))
        if BFLOAT16.smallest in self.steps:
            tolerance = max(tolerance, BFLOAT16.sum_tolerance)
        return tolerance

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


RESOLUTION = "resolution"
"""Attribute of a bundle: the last digit of its probabilities."""

CLIP = "clip"
"""Attribute of a bundle: the value that a writer put for all smaller ones."""

LEAST_ROUNDED = 1e-10
"""Step above which rounding says how large a zero may be. Below, digits are as fine as
those of unrounded numbers, and a zero may be anything."""

OLD = Zeros((TINY,), floor=TINY)
"""Zeros in calibrators of calcli 0.2 and before."""


def _step_of_text(digits: Digits, step: float | None, decimals: int) -> float | None:
    """Step of the numbers of a text.

    step : what the values prove; None where they prove none. decimals : of its zeros: a
    program that writes 0.0 may mean any number.
    """
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
