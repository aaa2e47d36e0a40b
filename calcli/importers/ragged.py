"""Arrays that are no rectangle in memory: one array a unit, and rows made when read."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.numerics import AnyArray, IntArray

Shape = tuple[int, ...]

FEWEST_SENTENCES = 30
"""Fewest arrays of a list that may be sentences; batches and shards are fewer."""


class Positions:
    """A lazy array of rows, (n,) or (n, k), made piece by piece when it is sliced.

    starts : (pieces + 1,) first row of each piece. make_piece : returns the rows of
    one.
    """

    def __init__(self, starts: IntArray, make_piece: Callable[[int], AnyArray]) -> None:
        self._starts = starts
        self._piece = lru_cache(2)(make_piece)
        first = make_piece(0)
        self.dtype = first.dtype
        self.shape = (int(starts[-1]), *first.shape[1:])
        self.ndim = first.ndim

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> AnyArray:
        if not isinstance(rows, slice):
            return self[:][rows]
        first, last, _ = rows.indices(len(self))
        begin = int(np.searchsorted(self._starts, first, "right")) - 1
        end = max(int(np.searchsorted(self._starts, last)), begin + 1)
        pieces = []
        for number in range(begin, min(end, len(self._starts) - 1)):
            start = int(self._starts[number])
            inside = slice(max(first - start, 0), max(last - start, 0))
            pieces.append(self._piece(number)[inside])
        if not pieces:
            return self._piece(0)[:0]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


class Parts:
    """A ragged array: one array per unit (a sentence, an image) of any size.

    Its shape has the longest of each axis. shapes : of the arrays. of : returns that of
    a unit. Raises DataError for arrays of different numbers of axes.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        dtype: Any,
        of: Callable[[int], AnyArray],
        where: str,
    ) -> None:
        if len(set(map(len, shapes))) > 1:
            raise DataError(
                f"{where}: holds arrays of shapes {shapes[0]}, …, {shapes[-1]},"
                " expected as many axes"
            )
        self.shapes = list(shapes)
        self.dtype = np.dtype(dtype)
        self.of = of
        self.where = where
        longest = map(max, zip(*self.shapes, strict=True))
        self.shape = (len(self.shapes), *longest)
        self.ndim = len(self.shape)

    def lists(self) -> list[list[Any]]:
        """Values of every unit as a list."""
        return [array.tolist() for array in self]

    @classmethod
    def held(cls, arrays: Sequence[AnyArray], where: str) -> "Parts":
        """Make a ragged array of arrays in memory."""
        shapes = list(map(np.shape, arrays))
        dtype = np.result_type(*{array.dtype for array in arrays})
        return cls(shapes, dtype, arrays.__getitem__, where)

    def __len__(self) -> int:
        return len(self.shapes)

    def __iter__(self) -> Iterator[AnyArray]:
        """The array of every unit; without it, iterating would never end."""
        return map(self.of, range(len(self)))

    def __getitem__(self, units: Any) -> AnyArray:
        """Arrays of some units: stacked, else concatenated, else padded with zeros."""
        if not isinstance(units, slice):
            units = slice(None)
        arrays = list(map(self.of, range(*units.indices(len(self)))))
        if len(set(map(np.shape, arrays))) == 1:
            return np.stack(arrays)
        if len({array.shape[1:] for array in arrays}) == 1:
            return np.concatenate(arrays)
        return self._padded(arrays, 0)

    def as_fractions(self) -> "Parts":
        """Percentages divided by 100."""

        def fractions(unit: int) -> AnyArray:
            return self.of(unit).astype(np.float64) / 100.0

        return Parts(self.shapes, np.float64, fractions, self.where)

    def padded(self, fill: float) -> AnyArray:
        """All arrays in one, filled up to the largest."""
        return self._padded(list(self), fill)

    def _padded(self, arrays: Sequence[AnyArray], fill: float) -> AnyArray:
        dtype = np.result_type(self.dtype, type(fill))
        padded = np.full((len(arrays), *self.shape[1:]), fill, dtype)
        for unit, array in enumerate(arrays):
            padded[unit][tuple(map(slice, array.shape))] = array
        return padded


def join_arrays(
    arrays: Sequence[AnyArray], where: str, *, no_batches: bool = False
) -> AnyArray | Parts | None:
    """Concatenate a list of arrays, or keep one array a unit; None if they do not fit.

    Sentences differ in length by more than folds or batches, whose last may be shorter,
    and are many. Images differ in size. no_batches : the list does not hold batches, so
    that a few arrays of any lengths are sentences.
    """
    shapes = list(map(np.shape, arrays))
    if len(set(map(len, shapes))) > 1 or not shapes[0]:
        return None
    have_one_width = len({shape[1:] for shape in shapes}) == 1
    may_be_images = len(shapes[0]) > 2 or arrays[0].dtype.kind in "iu"
    if _are_sentences(shapes, no_batches) or (not have_one_width and may_be_images):
        return Parts.held(list(arrays), where)
    return np.concatenate(arrays) if have_one_width else None


def _are_sentences(shapes: Sequence[Shape], no_batches: bool) -> bool:
    *lengths, last = [shape[0] for shape in shapes]
    longest = max(lengths, default=0)
    difference = longest - min(lengths, default=0)
    if difference > 1 and len(shapes) >= FEWEST_SENTENCES:
        return True
    is_longer_at_end = bool(lengths) and last > longest
    return no_batches and (difference > 0 or is_longer_at_end)


def array_of_objects(values: Any, where: str) -> AnyArray | Parts:
    """Convert nested lists, or lists of arrays, to an array or ``Parts``.

    Returns an empty array of objects where that is impossible.
    """
    with suppress(ValueError, TypeError):
        if isinstance(values, np.ndarray):
            return np.array(values)
        return np.array(list(values or ()))
    with suppress(ValueError, TypeError, DataError):
        arrays = [_without_none(np.asarray(value)) for value in values]
        if not isinstance(values[0], np.ndarray):
            return Parts.held(arrays, where)
        joined = join_arrays(arrays, where, no_batches=True)
        if joined is not None:
            return joined
    return np.empty(0, dtype=object)


def _without_none(array: AnyArray) -> AnyArray:
    """Numbers with None as NaN."""
    return array.astype(np.float64) if array.dtype.kind == "O" else array


def cut_alike(array: Any, like: Any) -> Any:
    """Cut an array of all rows, or of padded units, to the lengths of ``like``.

    Any other array is returned unchanged.
    """
    if not isinstance(like, Parts) or isinstance(array, Parts) or array is None:
        return array
    lengths = [shape[0] for shape in like.shapes]
    if len(array) == sum(lengths) != len(like):
        ends = np.cumsum(lengths[:-1])
        return Parts.held(np.split(np.asarray(array[()]), ends), like.where)
    if len(array) == len(like) and array.ndim > 1 and array.shape[1] >= max(lengths):
        shapes = [(length, *array.shape[2:]) for length in lengths]

        def part(unit: int) -> AnyArray:
            return np.asarray(array[unit])[: lengths[unit]]

        return Parts(shapes, array.dtype, part, like.where)
    return array
