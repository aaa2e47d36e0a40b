"""Small numerical tools that several methods and metrics share. NumPy only."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnyArray = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# floor under probabilities before a logarithm is taken: the smallest normal
TINY = float(np.finfo(np.float64).tiny)

LOG_ZERO = math.log(TINY) + 1.0
"""Logarithms from ``floored_log`` at or below this stand for a 0, perhaps normalised or
split among classes.
"""

TILE_ITEMS = 1 << 17
TILE_ROWS = 1 << 14
"""Most scores (1 MiB in float64) and rows per tile: large enough that threads, which
take turns at the interpreter between two calls of NumPy, seldom wait for each other;
small enough that the buffers stay in cache.
"""

YEAR_FIRST = re.compile("(19|20)[0-9]{2}([^0-9]|$)")

STORE_ITEMS = 1 << 15  # numbers converted at once: they stay in a core's cache

F = TypeVar("F", bound=Callable[..., Any])
Part = TypeVar("Part", bound="DataclassInstance")


def joined_fields(parts: Sequence[Part]) -> Part:
    """One dataclass of arrays of several, their values one after the other."""
    arrays = {}
    for field in fields(parts[0]):
        of_parts = [getattr(part, field.name) for part in parts]
        arrays[field.name] = np.concatenate(of_parts)
    return type(parts[0])(**arrays)


def overridable(function: F) -> F:
    """Make a function of an array overridable by array-like arguments, as NumPy's own
    are (NEP 18).
    """

    @wraps(function)
    def called(x: Any, *rest: Any) -> Any:
        if isinstance(x, np.ndarray) or not hasattr(x, "__array_function__"):
            return function(x, *rest)
        return x.__array_function__(called, (type(x),), (x, *rest), {})

    return cast(F, called)


def ratio(part: Any, whole: AnyArray, otherwise: Any = 0.0) -> FloatArray:
    """``part / whole`` where ``whole`` is above 0, and ``otherwise`` elsewhere."""
    out = np.full(np.broadcast_shapes(np.shape(part), whole.shape), otherwise)
    return np.divide(part, whole, out=out, where=whole > 0)


def tile_rows(k: int) -> int:
    return max(1, min(TILE_ITEMS // k, TILE_ROWS))


class TimeOrder(NamedTuple):
    """Distinct values of a column in order of time. by_numbers : by the numbers in
    them, else as they first occur."""

    values: AnyArray
    by_numbers: bool


def time_order(column: AnyArray) -> TimeOrder:
    """Order the distinct values of a column (n,).

    Numbers by size. Texts by their numbers, where these tell the order: all texts have
    the same words around them, and begin with a year (2024-9 before 2024-10) or have
    one number (week 9 before week 10). Other texts (31/01/2024, Jan 2024, Q4 2023) as
    they first occur.
    """
    values, first = np.unique(column, return_index=True)
    if values.dtype.kind in "biuf":
        return TimeOrder(values, by_numbers=True)
    texts = list(map(str, values.tolist()))
    if not _numbers_tell_time(texts):
        return TimeOrder(np.asarray(values[np.argsort(first)]), by_numbers=False)
    numbers = [_numbers_in(text) for text in texts]
    order = sorted(range(len(texts)), key=numbers.__getitem__)
    return TimeOrder(np.asarray(values[order]), by_numbers=True)


def _numbers_tell_time(texts: Sequence[str]) -> bool:
    """True for texts that differ in their numbers alone, and have one, or begin with a
    year."""
    words = {tuple(re.split("[0-9]+", text)) for text in texts}
    if len(words) != 1:
        return False
    numbers = len(words.pop()) - 1
    return numbers == 1 or all(map(YEAR_FIRST.match, texts))


def _numbers_in(text: str) -> list[tuple[int, str]]:
    """Sort key: the numbers in a text, of any length."""
    digits = [number.lstrip("0") for number in re.findall("[0-9]+", text)]
    return [(len(number), number) for number in digits]


def in_order(column: AnyArray) -> AnyArray:
    """Distinct values of a column (n,), in order of time (see ``time_order``)."""
    return time_order(column).values


@overridable
def entries(index: IntArray, table: AnyArray) -> AnyArray:
    """Entries of a table (m,) at indices (n,)."""
    return table[index]


def in_column(values: AnyArray, column: IntArray) -> AnyArray:
    """Entry of every row of values (n, k) in a column of its own, (n,)."""
    return values[np.arange(len(values)), column]


BREAKDOWNS = (
    np.linalg.LinAlgError,
    OverflowError,
    FloatingPointError,
    ZeroDivisionError,
)
"""Errors of a computation that numbers of an extreme size bring down."""


def floored_log(p: FloatArray) -> FloatArray:
    """Logarithm of probabilities with a floor, so that a zero stays finite (-708.4)."""
    return np.log(np.maximum(p, TINY))


TIE = 1e-12  # relative difference up to which scores are tied: equal but for rounding


def starts_of_runs(ordered: AnyArray) -> IntArray:
    """Start index of each run of equal values in ascending values (n,)."""
    return np.flatnonzero(np.concatenate([[True], np.diff(ordered) > 0]))


def ends_of_runs(starts: IntArray, n: int) -> IntArray:
    """Index of the last of n values in each run."""
    return np.append(starts[1:], n) - 1


TIES_AT_ONCE = 1 << 15


def starts_of_ties(ordered: FloatArray, least: float = 0.0) -> IntArray:
    """Start index of each run of tied values in ascending values (n,).

    A new run starts where the step is larger than ``TIE`` times the larger neighbour,
    or times ``least`` where both are smaller.
    """
    step = np.ones(len(ordered), dtype=bool)
    for start in range(1, len(ordered), TIES_AT_ONCE):
        high = ordered[start : start + TIES_AT_ONCE]
        low = ordered[start - 1 : start - 1 + len(high)]
        size = np.maximum(np.maximum(np.abs(high), np.abs(low)), least)
        step[start : start + len(high)] = high - low > TIE * size
    return np.flatnonzero(step)


def tie_groups(values: FloatArray, least: float = 0.0) -> tuple[FloatArray, IntArray]:
    """Unique values up to rounding: the largest of each run of tied values, ascending,
    (t,), and the index of every value's run, (n,). least : see ``starts_of_ties``.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.append(starts_of_ties(ordered, least), len(values))
    which = np.empty(len(values), dtype=np.intp)
    which[order] = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    return ordered[begins[1:] - 1], which


# columns up to which a maximum per row is taken column by column, many times as fast
FEW_COLUMNS = 32


@overridable
def row_max(z: FloatArray) -> FloatArray:
    """Largest entry of each row.

    z : (n, k), k >= 1. Returns (n,), exactly ``z.max(axis=1)``.
    """
    if z.shape[1] > FEW_COLUMNS:
        return z.max(axis=1)
    top: FloatArray = z[:, 0].copy()
    for c in range(1, z.shape[1]):
        np.maximum(top, z[:, c], out=top)
    return top


def log_normalizer(z: FloatArray) -> FloatArray:
    """Logarithm of the sum of exponentials of each row, safe for logits of any size.

    z : (n, k) float64 logits. Returns (n,) float64.
    """
    top = row_max(z)
    shifted = z - top[:, None]
    np.exp(shifted, out=shifted)
    return np.log(shifted.sum(axis=1)) + top


def log_softmax(z: FloatArray) -> FloatArray:
    """Log-probabilities of each row of logits.

    z : (n, k) float64 logits, natural log, any constant per row. Returns (n, k)
    float64.
    """
    shifted = z - row_max(z)[:, None]
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def softmax(z: FloatArray) -> FloatArray:
    """Probabilities of each row of logits.

    z : (n, k) float64. Returns (n, k) float64.
    """
    p = z - row_max(z)[:, None]
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def sigmoid(u: FloatArray) -> FloatArray:
    """1 / (1 + exp(-u)) without overflow, exact to the last digits of small values."""
    t = np.exp(-np.abs(u))
    return np.where(u >= 0, 1.0, t) / (1.0 + t)


def mixed_with_uniform(log_p: FloatArray, share: float) -> FloatArray:
    """log((1 - share) p + share / k): no probability is below share / k.

    log_p : (n, k), overwritten.
    """
    if share > 0:
        # the share keeps the logarithm away from 0; logaddexp takes nine times as long
        p = np.exp(log_p, out=log_p)
        p *= 1.0 - share
        p += share / p.shape[1]
        np.log(p, out=p)
    return log_p


# by how much the log-probability of a kept prediction leads: more than float32 rounds
LEAD = 1e-5


@overridable
def kept_on_top(log_p: FloatArray, label: IntArray) -> FloatArray:
    """Log-probabilities whose largest entry is at the label, and as near as may be
    otherwise.

    Projects each row p on the probabilities with p_label >= p_j for all j, in squared
    distance: the classes above the label are pooled with it to their mean, the largest
    first, until it is on top. The mean is the largest of the means of the label's and
    the m largest others, m = 0, 1, ... The label then leads by ``LEAD``, so that it is
    the argmax in float32 too. Rows with the label on top by that much are left as they
    are. log_p : (n, k), normalised; label : (n,).

    Reference: Robertson, Wright, Dykstra (1988), "Order Restricted Statistical
    Inference", section 1.3 (tree orders).
    """
    row = np.arange(len(log_p))
    others = log_p.copy()
    others[row, label] = -np.inf
    below = np.flatnonzero(log_p[row, label] < row_max(others) + LEAD)
    if len(below) == 0:
        return log_p
    row = np.arange(len(below))
    label = label[below]
    others = others[below]
    of_label = log_p[below, label]
    ranked = -np.sort(-np.exp(others), axis=1)
    ranked[:, -1] = 0.0  # the label itself
    counts = np.arange(2, log_p.shape[1] + 2)
    means = (np.exp(of_label)[:, None] + ranked.cumsum(axis=1)) / counts
    pooled = np.maximum(means.max(axis=1), np.exp(of_label))
    kept = np.minimum(others, np.log(pooled)[:, None])
    kept[row, label] = np.maximum(of_label, row_max(kept) + LEAD)
    kept -= log_normalizer(kept)[:, None]
    out = log_p.copy()
    out[below] = kept
    return out


# least normal float16 and its bits; below, bits count multiples of 2^-24
HALF = 2.0**-14
LEAST = np.uint16(0x0400)


def store(out: AnyArray, values: AnyArray) -> None:
    """out[...] = values, in the type of ``out`` (same shape).

    Numbers too small for a normal float16 are rounded as integers: the same bits,
    twenty times as fast as the processor's own conversion.
    """
    if out.dtype != np.float16 or values.dtype.kind != "f" or values.dtype.itemsize < 4:
        np.copyto(out, values, casting="unsafe")
        return
    step = max(1, STORE_ITEMS // max(1, int(np.prod(out.shape[1:]))))
    for start in range(0, len(out), step):
        v = values[start : start + step]
        bits = out[start : start + step].view(np.uint16)
        size = np.abs(v)
        multiples = np.fmin(size, HALF)  # fmin drops NaN here
        multiples *= 2.0**24
        np.maximum(size, HALF, out=size)
        np.add(
            size.astype(np.float16).view(np.uint16),
            np.rint(multiples, out=multiples).astype(np.uint16),
            out=bits,
        )
        bits -= LEAST
        if np.signbit(v).any():
            bits |= np.signbit(v) * np.uint16(0x8000)


def whole_number(text: str) -> int | None:
    """Parse a number of ASCII digits only, below 10^18; None for anything else."""
    return int(text) if len(text) <= 18 and text.isascii() and text.isdigit() else None


def is_bfloat16(dtype: np.dtype[Any], declared: object = None) -> bool:
    """Detect bfloat16: the type itself, 2 untyped bytes, as files store arrays of
    ml_dtypes, or uint16 declared so. declared : the attribute ``dtype`` of an HDF5
    dataset.
    """
    return (
        dtype == np.dtype("V2")
        or dtype.name == "bfloat16"
        or (dtype == np.uint16 and declared == "bfloat16")
    )


def bfloat16_to_float32(bits: AnyArray) -> AnyArray:
    """Convert bfloat16 bit patterns (2 bytes each), the upper half of a float32, to
    float32. Exact.
    """
    words = bits if bits.dtype.kind == "u" else np.ascontiguousarray(bits).view("<u2")
    return (words.astype("<u4") << 16).view("<f4").astype(np.float32, copy=False)


def row_weights(weight: FloatArray | None, n: int) -> FloatArray:
    """Weights of n rows, (n,); 1 each where there are none."""
    if weight is None:
        return np.ones(n)
    return weight


def shares_of(weight: FloatArray | None, n: int) -> FloatArray:
    """Weights of n rows with sum 1, (n,); equal ones where there are none."""
    if weight is None:
        return np.full(n, 1.0 / n)
    return weight / weight.sum()
