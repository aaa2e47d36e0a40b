"""Scores of every pixel of an image or token of a sequence: each position a row, or several reduced to one."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import remark
from calcli.importers.import_request import ImportRequest
from calcli.importers.labels import to_labels
from calcli.io.validate import check_labels
from calcli.numerics import AnyArray, IntArray
from calcli.rows import ScoreKind

PIECE_BYTES = 4 << 20  # bytes of scores read at once, unless one unit has more

Shape = tuple[int, ...]


class Positions:
    """A lazy array of rows, (n,) or (n, k), computed in pieces when sliced. starts : (pieces + 1,) first row of each
    piece. of : returns the rows of one."""

    def __init__(self, starts: IntArray, of: Callable[[int], AnyArray]) -> None:
        self._starts, self._of = starts, lru_cache(2)(of)
        first = of(0)
        self.dtype, self.shape, self.ndim = first.dtype, (int(starts[-1]), *first.shape[1:]), first.ndim

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> AnyArray:
        if not isinstance(rows, slice):
            return self[:][rows]
        first, last, _ = rows.indices(len(self))
        begin = int(np.searchsorted(self._starts, first, "right")) - 1
        end = max(int(np.searchsorted(self._starts, last)), begin + 1)
        parts = []
        for piece in range(begin, min(end, len(self._starts) - 1)):
            start = int(self._starts[piece])
            parts.append(self._of(piece)[max(first - start, 0) : max(last - start, 0)])
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else self._of(0)[:0]


class Parts:
    """A ragged array: one array per unit (a sentence, an image) of any size; the shape has the longest of each axis.
    shapes : of the arrays. of : returns that of a unit. Raises DataError for arrays of different numbers of axes."""

    def __init__(self, shapes: Sequence[Shape], dtype: Any, of: Callable[[int], AnyArray], where: str) -> None:
        if len({len(shape) for shape in shapes}) > 1:
            raise DataError(f"{where}: holds arrays of shapes {shapes[0]}, …, {shapes[-1]}, expected as many axes")
        self.shapes, self.dtype, self.of, self.where = list(shapes), np.dtype(dtype), of, where
        self.shape = (len(self.shapes), *(max(ends) for ends in zip(*self.shapes, strict=True)))
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, units: Any) -> AnyArray:
        """Arrays of some units: stacked if of one shape, else concatenated, or padded with zeros to the longest."""
        which = range(*units.indices(len(self))) if isinstance(units, slice) else range(len(self))
        found = [self.of(unit) for unit in which]
        if len({each.shape for each in found}) == 1:
            return np.stack(found)
        if len({each.shape[1:] for each in found}) == 1:
            return np.concatenate(found)
        return self.padded(found, 0)

    def lists(self) -> list[list[Any]]:
        """Values of every unit as a list."""
        return [self.of(unit).tolist() for unit in range(len(self))]

    def as_fractions(self) -> "Parts":
        """Percentages divided by 100."""
        return Parts(self.shapes, np.float64, lambda unit: self.of(unit).astype(np.float64) / 100.0, self.where)

    def padded(self, parts: Sequence[AnyArray], fill: float) -> AnyArray:
        """Stack arrays of units, padded with ``fill`` to the largest."""
        made = np.full((len(parts), *self.shape[1:]), fill, np.result_type(self.dtype, type(fill)))
        for unit, part in enumerate(parts):
            made[unit][tuple(map(slice, part.shape))] = part
        return made


FEWEST_PARTS = 30
"""Fewest arrays of a list that may be sentences; batches, folds and shards are fewer, or of one length."""


def joined(arrays: Sequence[AnyArray], where: str, *, sure: bool = False) -> AnyArray | Parts | None:
    """Concatenate a list of arrays, or make ``Parts`` if each is that of a unit; None if they do not fit together.
    Sentences differ in length by more than folds or batches (whose last may be shorter) and are many; sure : the list
    does not hold batches, so a few of any lengths are sentences. Images differ in size."""
    shapes = [array.shape for array in arrays]
    if len({len(shape) for shape in shapes}) > 1 or not shapes[0]:
        return None
    *lengths, last = [shape[0] for shape in shapes]
    spread = max(lengths, default=0) - min(lengths, default=0)
    sentences = spread > 1 and len(lengths) + 1 >= FEWEST_PARTS
    sentences = sentences or (sure and (spread > 0 or last > max(lengths, default=last)))
    sizes = len({shape[1:] for shape in shapes}) > 1
    if sentences or (sizes and (len(shapes[0]) > 2 or arrays[0].dtype.kind in "iu")):
        return Parts(shapes, np.result_type(*{array.dtype for array in arrays}), list(arrays).__getitem__, where)
    return None if sizes else np.concatenate(arrays)


def objects(values: Any, where: str) -> AnyArray | Parts:
    """Convert nested lists, or lists of arrays, to an array or ``Parts``; an empty array of objects if impossible."""
    with suppress(ValueError, TypeError):
        return np.array(values if isinstance(values, np.ndarray) else list(values or ()))
    with suppress(ValueError, TypeError, DataError):
        arrays = [np.asarray(value) for value in values]
        arrays = [each.astype(np.float64) if each.dtype.kind == "O" else each for each in arrays]  # None is NaN
        if not isinstance(values[0], np.ndarray):
            return Parts([each.shape for each in arrays], np.result_type(*arrays), arrays.__getitem__, where)
        if (made := joined(arrays, where, sure=True)) is not None:
            return made
    return np.empty(0, dtype=object)


def cut_alike(array: Any, like: Any) -> Any:
    """Cut an array of all rows, or of padded units, to ``Parts`` of the lengths of ``like``; else unchanged."""
    if not isinstance(like, Parts) or isinstance(array, Parts) or array is None:
        return array
    lengths = [shape[0] for shape in like.shapes]
    if len(array) == sum(lengths) != len(like):
        pieces = np.split(np.asarray(array[()]), np.cumsum(lengths[:-1]))
        return Parts([piece.shape for piece in pieces], array.dtype, pieces.__getitem__, like.where)
    if len(array) == len(like) and array.ndim > 1 and array.shape[1] >= max(lengths):
        shapes = [(length, *array.shape[2:]) for length in lengths]
        return Parts(shapes, array.dtype, lambda unit: np.asarray(array[unit])[: lengths[unit]], like.where)
    return array


def class_axis_of(scores: Any, labels: Any, asked: int | None, where: str) -> int | None:
    """Axis of the classes in scores of positions; None for scores of rows or of views. The labels have the same shape
    without this axis, or 1 in its place. For a binary model, of one three-axis shape with the labels, it is an axis
    after the last. Raises UsageError if ambiguous, DataError if the labels are not those of the positions."""
    shape, truth = tuple(scores.shape), None if labels is None else tuple(labels.shape)
    if isinstance(scores, Parts) and len(shape) == 2:
        if shape == truth and asked is None:
            return 2
        row = next(row for row, own in enumerate(scores.shapes) if own != scores.shapes[0])
        told = f"different lengths ({scores.shapes[0][0]} in row 0, {scores.shapes[row][0]} in row {row}), expected one"
        raise DataError(f"{where}: its lists have {told} number per class, or per position beside as many labels")
    if asked is not None:
        axis = asked + len(shape) if asked < 0 else asked
        if len(shape) < 3 or not 0 < axis < len(shape):
            raise UsageError(f"--class-axis {asked}: {where} has shape {shape}, expected one from 1 of three or more")
        expected = (*shape[:axis], *shape[axis + 1 :])
        if truth not in (None, expected, (*shape[:axis], 1, *shape[axis + 1 :])):
            raise DataError(f"{where}: has shape {shape}, classes on axis {axis}; labels have {truth}, not {expected}")
        return axis
    if shape == truth and len(shape) == 3 and not ((np.asarray(labels[:1]) == 1).sum(axis=-1) == 1).all():
        return 3  # not one-hot labels, with a single 1 along the last axis
    both = None if truth is None else len(truth) - len(shape)
    if truth is None or len(shape) < 3 or both not in (0, -1) or prod(truth[1:]) < 2:
        if len(shape) > 3:
            told = "; name them with --labels, or say --class-axis 1" if truth is None else f"; labels have {truth}"
            raise DataError(f"{where}: has shape {shape}, expected (rows, classes), or a label per position{told}")
        return None
    one = (1,) * (both == 0)
    axes = [axis for axis in range(1, len(shape)) if (*shape[:axis], *one, *shape[axis + 1 :]) == truth]
    if len(axes) > 1 and len(shape) > 3:
        which = " or ".join(map(str, axes))
        raise UsageError(f"{where}: has shape {shape}: which axis are the classes? --class-axis {which}")
    if not axes and len(shape) > 3:
        raise DataError(f"{where}: has shape {shape}, labels have {truth}: expected a label per position")
    return axes[-1] if axes else None  # in sequences the classes are last


class Dense:
    """Scores of positions as rows; the first axis is the unit, the others are positions and classes. scores,
    labels : arrays that are read by slices of the first axis. axis : of the classes. ignore : labels of positions to
    leave out. With ``--sample`` positions of each unit are drawn without replacement."""

    def __init__(self, scores: Any, labels: Any, axis: int, where: str, ignore: Any, ask: ImportRequest) -> None:
        self._scores, self._labels, self._axis = scores, labels, axis
        self._ignore, self._sample, self._seed = np.asarray(ignore, dtype=np.int64), ask.sample, ask.seed
        shape = (*scores.shape, 1)[: max(len(scores.shape), axis + 1)]
        self.units, self.k, each = shape[0], shape[axis], prod(shape[1:]) // max(shape[axis], 1)
        if self.units == 0 or each == 0:
            raise DataError(f"{where}: has shape {shape}, expected at least one position")
        self._at: range | IntArray = range(0, self.units * each + 1, each)
        if isinstance(scores, Parts):
            self._at = np.concatenate([[0], np.cumsum(_positions(scores, labels, axis))]).astype(np.int64)
            each = f"{np.diff(self._at).min()} to {np.diff(self._at).max()}"
        self.positions, total = (*shape[:axis], *shape[axis + 1 :]), int(self._at[-1])
        row = max(self.k * scores.dtype.itemsize, 8)  # or 8 bytes of an index
        steps = np.arange(0, total, max(1, PIECE_BYTES // row))
        self._edges = np.unique([*np.searchsorted(self._at, steps, "right") - 1, self.units]).tolist()
        self._places = lru_cache(2)(self._kept)
        counts = [len(self._kept(piece)) for piece in range(len(self._edges) - 1)]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.n = int(self._starts[-1])
        if self.n == 0:
            raise DataError(f"{where}: every position has an ignored label, nothing is left")
        why = "ignored labels and --sample" if ask.sample else "ignored labels"
        left = f", {self.n} of them taken ({why})" if self.n < total else ""
        remark(f"{where}: {self.units} x {each} positions became {total} rows{left}; what lies together is a unit")

    def _kept(self, piece: int) -> IntArray:
        """Indices, within a piece, of the positions that are kept."""
        low, high = self._edges[piece : piece + 2]
        keep = np.ones(self._at[high] - self._at[low], dtype=np.bool_)
        if self._labels is not None:
            labels = _flat(self._labels, low, high)
            keep = ~np.isin(labels, self._ignore)
            keep &= ~np.isnan(labels) if labels.dtype.kind == "f" else True
        for unit in range(low, high) if self._sample else ():
            own = keep[self._at[unit] - self._at[low] : self._at[unit + 1] - self._at[low]]
            here = np.flatnonzero(own)
            if len(here) > self._sample:  # type: ignore[operator]
                own[:] = False
                own[np.random.default_rng([self._seed, unit]).choice(here, self._sample, replace=False)] = True
        return np.flatnonzero(keep)

    def rows(self, of: Callable[[int, int], AnyArray]) -> Positions:
        """Lazy rows of the kept positions. of : (low, high) units -> their (positions,) or (positions, k) values."""
        return Positions(self._starts, lambda piece: of(*self._edges[piece : piece + 2])[self._places(piece)])

    def scores(self) -> Positions:
        return self.rows(lambda low, high: _flat(self._scores, low, high, self._axis, self.k))

    def labels(self, where: str, names: Sequence[str] | None) -> Any:
        """Labels (n,) in the smallest integer type, checked when read."""
        k = max(self.k, 2)

        def of(piece: int) -> AnyArray:
            raw = _flat(self._labels, *self._edges[piece : piece + 2])[self._places(piece)]
            if raw.dtype.kind not in "biuf" and names is None:
                raise DataError(f"{where}: has type {raw.dtype}, expected class indices, or words of --class-names")
            raw = raw if raw.dtype.kind in "biu" else to_labels(raw, len(raw), k, names, where)[0]
            checked = check_labels(raw.astype(np.int64), len(raw), k, where, first_row=int(self._starts[piece]))
            return checked.astype(np.min_scalar_type(k - 1))

        return Positions(self._starts, of)

    def column(self, values: AnyArray) -> Any:
        """Convert a column of units or positions to rows; words in memory, numbers lazily."""
        at, flat = self._at, values.reshape(-1)
        if self.is_of_positions(values):
            made = self.rows(lambda low, high: flat[at[low] : at[high]])
        else:
            made = self.rows(lambda low, high: np.repeat(flat[low:high], np.diff(at[low : high + 1])))
        return made[:] if made.dtype.kind in "OUS" else made

    def is_of_positions(self, values: AnyArray) -> bool:
        """True for a column with a value per position, not per unit."""
        return tuple(values.shape) == self.positions or values.shape == (self._at[-1],) != (self.units,)


def _positions(scores: Parts, labels: Any, axis: int) -> list[int]:
    """Number of positions of each unit. Raises DataError for another number of labels or of classes."""
    found = [prod((*shape, 1)[: axis - 1]) * prod(shape[axis:]) for shape in scores.shapes]
    own = [prod(shape) for shape in labels.shapes] if isinstance(labels, Parts) else found if labels is None else []
    if len(own) != len(found):
        raise DataError(f"{scores.where}: has {len(found)} parts, its labels {len(own) or labels.shape}")
    k = (*scores.shape, 1)[axis]
    for unit, shape in enumerate(scores.shapes):
        if (*shape, 1)[axis - 1] != k or found[unit] != own[unit]:
            told = f"part {unit} has shape {shape} and {own[unit]} labels"
            raise DataError(f"{scores.where}: {told}, expected {k} classes and a label for each position")
    return found


def _flat(array: Any, low: int, high: int, axis: int | None = None, k: int = 1) -> AnyArray:
    """Values of units low to high by position: (positions,), or (positions, k) if ``axis`` has k classes."""
    if isinstance(array, Parts):
        return np.concatenate([_flat(array.of(unit)[None], 0, 1, axis, k) for unit in range(low, high)])
    units = np.asarray(array[low:high])
    if axis is None:
        return units.reshape(-1)
    return np.moveaxis(units.reshape(*units.shape, *(1,) * (axis == units.ndim)), axis, -1).reshape(-1, k)


# ---- reduction of several scores (tokens, prompts, crops, passes) of a row to one


def one_a_row(scores: Any, labels: Any, how: str | None, kind: ScoreKind, where: str) -> tuple[Any, ScoreKind]:
    """Reduce scores (rows, m, classes) or (m, rows, classes) to one per row, with their kind; reduced log_probs are
    logits, as they no longer normalise. how : ``--reduce``. labels : (rows,), by which the axis of rows is found.
    Raises DataError for such scores without a how, UsageError for one that does not fit."""
    shape, n = tuple(scores.shape), None if labels is None else len(labels)
    axes = [axis for axis in (1, 0) if len(shape) == 3 and n in (None, shape[1 - axis])]
    if how is None:
        if len(shape) != 3:
            return scores, kind
        told = "expected (rows, classes); of several scores a row (tokens, crops) --reduce mean makes one, by labels"
        raise DataError(f"{where}: has shape {shape}, {told}")
    if not axes:
        raise UsageError(f"--reduce {how}: {where} has shape {shape}, expected (rows, positions, classes)")
    if how == "none" or (labels is not None and labels.ndim > 1 and labels.shape[1] > 1):
        told = "a label per position with none, one per row with others"
        raise UsageError(f"--reduce {how}: {where} has shape {shape}, labels {np.shape(labels)}, expected {told}")
    if how in ("sum", "min") and kind == "probs":
        raise UsageError(f"--reduce {how}: {where} holds probs, whose {how} is none; save log_probs, or --reduce mean")
    changed: ScoreKind = "logits" if kind == "log_probs" and how != "first" else kind
    remark(f"{where}: {how} of {shape[axes[0]]} positions ({changed})")
    return reduced(np.asarray(scores[()], dtype=np.float64), how, axis=axes[0]).astype(scores.dtype), changed


def reduced(values: AnyArray, how: str, axis: int = 0) -> Any:
    """The sum, mean, minimum or first of values along an axis; NaN is padding."""
    if how == "first":
        return np.take(values, 0, axis=axis)
    if how == "sum":
        return np.nansum(values, axis=axis)
    return np.nanmean(values, axis=axis) if how == "mean" else np.nanmin(values, axis=axis)


def token_rows(rows: Sequence[Mapping[str, Any]], ask: ImportRequest, where: str) -> list[dict[str, Any]]:
    """Reduce the field ``--confidence``, a list over tokens of log-probabilities (<= 0) or probabilities, to the
    exponential of the reduced log-probabilities. ``--reduce none`` makes every token a row, with its own entry of every
    list of the same length. If no row has such a list, rows are unchanged. Raises DataError."""
    name = ask.confidence or ""
    if ask.reduce is None or not any(isinstance(row.get(name), list) for row in rows):
        return [dict(row) for row in rows]
    made: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        tokens = row.get(name)
        if not isinstance(tokens, list) or not tokens:
            raise DataError(f"{where}: row {number} has no list of tokens in {name!r}, expected one number per token")
        try:
            values = np.array([np.nan if token is None else token for token in tokens], dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"{where}: row {number} has something in {name!r} that is no number") from None
        if np.nanmin(values) < 0 < np.nanmax(values) or np.nanmax(values) > 1:
            raise DataError(f"{where}: {name!r} of row {number} holds neither log-probabilities nor probabilities")
        if np.nanmax(values) > 0:
            values = np.log(np.maximum(values, np.finfo(float).tiny))
        if ask.reduce == "none":
            lists = {key: value for key, value in row.items() if isinstance(value, list) and len(value) == len(tokens)}
            for i in np.flatnonzero(~np.isnan(values)):
                own = {key: value[i] for key, value in lists.items()}
                made.append({**row, **own, name: float(np.exp(values[i]))})
        else:
            made.append({**row, name: float(np.exp(reduced(values, ask.reduce)))})
    return made
