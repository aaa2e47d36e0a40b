"""Row tables of score files: one pass fills the columns of every calibrator asked for."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calcli.block import Block
from calcli.calibrator import (
    Calibrator,
    Prediction,
    Progress,
    transforms_read_by,
    with_transforms_of,
)
from calcli.fit_summary import Summary
from calcli.metrics.class_sums import ClassSums, Piece
from calcli.metrics.expected_differences import expected_differences
from calcli.metrics.label_agreement import least_labels
from calcli.metrics.rowtable import TOP_COLUMNS, RowTable
from calcli.numerics import (
    LOG_ZERO,
    TINY,
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    in_column,
    log_softmax,
    tile_rows,
)
from calcli.records import Sums
from calcli.rows import Rows, Walk
from calcli.zeros import Zeros

UNKNOWN = -1
"""Entry of ``RowTable.zeros`` where nothing says how small the label's probability of 0
is: numbers that were not rounded to some decimals, or a calibrator's own zeros.
"""

CALIBRATED = Zeros((TINY,), floor=TINY)
"""A calibrator's own zeros, which it was sure of: they count as the smallest normal
number, which ``apply`` writes.
"""


SMALLEST = math.exp(LOG_ZERO)
"""Largest probability that stands for one of exactly 0, as ``apply`` writes what a
calibrator gave no weight.
"""


MOST_TIED = 0.5 + 1e-9
"""Confidence above which no other class can have the same score, but for rounding."""


def tied_labels(
    scores: FloatArray, prediction: IntArray, y: IntArray, confidence: FloatArray
) -> dict[str, int]:
    """Count rows whose label shares the highest score with other classes.

    scores (b, k), prediction : the first class with the highest. ``tied_labels`` counts
    all such rows, ``tied_labels_right`` those where the label is the first.
    """
    low = np.flatnonzero(confidence <= MOST_TIED)
    if not len(low):
        return {}
    right = low[prediction[low] == y[low]]
    wrong = low[prediction[low] != y[low]]
    highest = scores[right, y[right]][:, None]
    n_right = int(((scores[right] == highest).sum(axis=1) > 1).sum())
    n_wrong = int((scores[wrong, y[wrong]] == scores[wrong, prediction[wrong]]).sum())
    if not n_right + n_wrong:
        return {}
    return {"tied_labels": n_right + n_wrong, "tied_labels_right": n_right}


def label_zeros(
    p: FloatArray, y: IntArray, zero: BoolArray | None
) -> NDArray[np.int32]:
    """``RowTable.zeros`` of stored probabilities.

    p : (b,) of the labels y. zero : (b, k) mask of zeros whose rounding says how large
    they are, or None.
    """
    zeros = np.where(p <= SMALLEST, UNKNOWN, 0).astype(np.int32)
    if zero is not None:
        stored = in_column(zero, y)
        zeros[stored] = np.count_nonzero(zero[stored], axis=1)
    return zeros


Made = TypeVar("Made")
Calibrators = Sequence[Calibrator | None]


def collect(rows: Rows, calibrator: Calibrator | None = None, **asked: Any) -> RowTable:
    """Gather the row table of scores, through a calibrator when one is given.

    asked : as for ``collect_all``.
    """
    return collect_all(rows, [calibrator], **asked)[0]


def collect_all(
    rows: Rows,
    calibrators: Calibrators,
    *,
    group: AnyArray | None = None,
    progress: Progress | None = None,
    against: int | Prediction | None = None,
    **wanted: Any,
) -> list[RowTable]:
    """Row tables of several calibrators (None: uncalibrated) from one walk over the
    file.

    Blocks are processed in parallel; sums are added in the order of the rows, so that
    the number of threads changes nothing. against : the calibrator, or the rows of
    another model, that the others are compared with (``RowTable.expected``). wanted :
    ``class_bins``, ``tops`` and ``top_only`` of ``_GatherBlock``. Raises DataError for
    transforms that a calibrator needs and the rows lack.
    """
    which: int | None = None
    along: tuple[AnyArray, ...] = ()
    if isinstance(against, int):
        which = against
    elif against is not None:
        along = (against.log_probs, against.label)
    work = _GatherBlock.of(rows, calibrators, against=which, **wanted)
    gatherers = [_Gatherer(rows.n, work) for _ in calibrators]
    for parts in rows.walked(Walk(work, along, work.places, add_up=True)):
        for gatherer, part in zip(gatherers, parts.by_number.values(), strict=True):
            gatherer.take(part)
        if progress is not None:
            progress("rows read", gatherers[0].done, rows.n)
    units = rows.units()
    return [
        replace(gatherer.table(), group=group, units=units) for gatherer in gatherers
    ]


def reduced(
    rows: Rows,
    calibrators: Calibrators,
    reduce: Callable[[list[RowTable]], Made],
    add_up: bool = False,
    **wanted: Any,
) -> Iterator[Made]:
    """Iterate over ``reduce(tables)``, the tables of some rows through every
    calibrator; ``reduce`` can be pickled. wanted : as for ``collect_all``; several
    calibrators are compared with the first. add_up : as of ``rows.Walk``.
    """
    work = _GatherBlock.of(
        rows,
        calibrators,
        against=0 if len(calibrators) > 1 else None,
        reduce=reduce,
        **wanted,
    )
    return rows.walked(Walk(work, (), work.places, 1 if add_up else 2, add_up))


def summarise(rows: Rows, calibrator: Calibrator | None, progress: Progress) -> Summary:
    """Summary of its rows that a fit records, from one pass.

    Raises DataError for transforms that are missing.
    """
    total: Summary | None = None
    for part in reduced(rows, [calibrator], partial(_summary, rows.k), add_up=True):
        total = part if total is None else total + part
        progress("rows read", total.n, rows.n)
    assert total is not None
    return total


def _summary(k: int, tables: Sequence[RowTable]) -> Summary:
    """Summary of some rows with k classes, from their only table."""
    (table,) = tables
    losses = table.nll, table.brier, table.nll - table.entropy
    classes = table.y
    if k == 1:
        classes = np.zeros_like(table.y)
    return Summary.of(
        table.confidence,
        table.correct,
        losses,
        classes,
        k,
        table.weight,
        table.counts,
        zeros=table.clipped,
    )


def predicted(rows: Rows, calibrator: Calibrator | None) -> Prediction:
    """All rows through a calibrator (None: uncalibrated), as one array in memory."""
    work = _GatherBlock.of(rows, [calibrator])
    parts = list(rows.each(work.predict, transforms=work.places))
    return Prediction(
        np.concatenate([p.log_probs for p in parts]),
        np.concatenate([p.label for p in parts]),
    )


@dataclass
class _Part(Sums):
    """Gathered statistics of some rows: arrays of consecutive rows by column, and the
    sums of ``RowTable``. Adds.
    """

    columns: dict[str, list[AnyArray]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    least_labels: int = 0
    classes: Piece | None = None
    expected: Mapping[str, FloatArray] = field(default_factory=dict)

    def put(self, **columns: AnyArray) -> None:
        """Append rows."""
        for name, values in columns.items():
            self.columns.setdefault(name, []).append(values)


@dataclass(frozen=True)
class _Parts(Sums):
    """Statistics of some rows through every calibrator, by its number. Adds."""

    by_number: dict[int, _Part]


class _Tile(NamedTuple):
    """Some rows with their predictions and p = e / norm = exp(d) / norm; spare :
    scratch array like e.

    zero : mask of probabilities stored as 0, where there are some. Their e is 0, and d
    what they count as.
    """

    block: Block
    label: IntArray
    d: FloatArray
    e: FloatArray
    norm: FloatArray
    spare: FloatArray
    zero: BoolArray | None = None


@dataclass(frozen=True)
class _GatherBlock:
    """Gather the statistics of a block through every calibrator, in tiles that are
    small enough to stay in cache.

    needed, places : specs of the transforms that come with the block, and their places
    in the source. class_bins : width bins of the class sums, 0 for none. tops : numbers
    of largest classes whose probability and labels are wanted, each below k. top_only :
    nothing but ``TOP_COLUMNS``. against : calibrator that the others are compared with.
    reduce : function of the tables of a block, or None. spare : scratch arrays.
    """

    k: int
    calibrators: Calibrators
    needed: Sequence[str]
    places: tuple[int, ...]
    class_bins: int = 0
    tops: tuple[int, ...] = ()
    top_only: bool = False
    against: int | None = None
    reduce: Callable[[list[RowTable]], Any] | None = None
    spare: list[list[FloatArray]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        rows: Rows,
        calibrators: Calibrators,
        tops: Sequence[int] = (),
        **wanted: Any,
    ) -> "_GatherBlock":
        """Gather rows with the transforms that the calibrators read.

        Raises DataError for one that is missing.
        """
        needed = transforms_read_by(c for c in calibrators if c is not None)
        places = tuple(rows.places_of(needed))
        tops = tuple(j for j in tops if j < rows.k)
        return cls(rows.k, calibrators, needed, places, tops=tops, **wanted)

    def __call__(self, block: Block, *other: AnyArray) -> Any:
        try:
            room = self.spare.pop()
        except IndexError:
            room = [np.empty((tile_rows(self.k), self.k)) for _ in range(3)]
        base = Prediction(other[0], other[1]) if other else None
        if self.against is not None:
            baseline = self.calibrators[self.against]
            base = self.prediction(baseline, block) or _uncalibrated(block)
        parts = {}
        for number in range(len(self.calibrators)):
            parts[number] = self.through(number, block, room, base)
        self.spare.append(room)
        if self.reduce is None:
            return _Parts(parts)
        tables = []
        for part in parts.values():
            tables.append(_Gatherer(len(block), self).take(part).table())
        return self.reduce(tables)

    def through(
        self, number: int, block: Block, room: list[FloatArray], base: Prediction | None
    ) -> _Part:
        """Statistics of the rows through one calibrator, compared with the predictions
        ``base``.
        """
        calibrator = self.calibrators[number]
        is_baseline = number == self.against
        if is_baseline and calibrator is not None:
            prediction = base
        else:
            prediction = self.prediction(calibrator, block)
        part = _Part()
        if block.kind == "confidence":
            self.add_confidences(part, block, prediction)
        else:
            part.counts = {} if prediction is None else prediction.counts
            for tile in self.tiles(block, prediction, room):
                self.add(part, tile, prediction)
        if base is not None and not is_baseline:
            part.expected = expected_differences(
                block, prediction or _uncalibrated(block), base
            )
        return part

    def predict(self, block: Block) -> Prediction:
        """Prediction of a block by the first calibrator."""
        return self.prediction(self.calibrators[0], block) or _uncalibrated(block)

    def prediction(
        self, calibrator: Calibrator | None, block: Block
    ) -> Prediction | None:
        """Prediction of a block by a calibrator; None without one."""
        if calibrator is None:
            return None
        return calibrator.calibrate(with_transforms_of(calibrator, block, self.needed))

    def tiles(
        self, block: Block, prediction: Prediction | None, room: list[FloatArray]
    ) -> Iterator[_Tile]:
        """Iterate over tiles; in uncalibrated ones p is the softmax of the scores, or
        the stored probabilities.
        """
        step = len(room[0])
        for start in range(0, len(block), step):
            some = block.cut(start, start + step)
            d, e, spare = (buffer[: len(some)] for buffer in room)
            zero: BoolArray | None = None
            if prediction is not None:
                d = prediction.log_probs[start : start + step]
                top = prediction.label[start : start + step]
                np.exp(d, out=e)
                yield _Tile(some, top, d, e, np.ones(len(d)), spare)
                continue
            if block.kind == "probs":
                zeros = some.zeros or Zeros.of_type(some.scores.dtype)
                e[...] = some.scores
                e[...] = zeros.as_written(e)
                top = e.argmax(axis=1)
                norm = e.sum(axis=1)
                rounding = _rounding_of_sum(some.scores.dtype, self.k)
                norm = np.where(np.abs(norm - 1.0) <= rounding, 1.0, norm)
                if e.min() <= zeros.clip:
                    zero = e <= zeros.clip
                if not self.top_only or self.k == 2:
                    d[...] = zeros.log_of(e)
            else:
                d[...] = some.scores
                top = d.argmax(axis=1)  # slow for float16
                d -= in_column(d, top)[:, None]
                np.exp(d, out=e)
                norm = e.sum(axis=1)
            label = top if some.assigned is None else some.assigned
            yield _Tile(some, label, d, e, norm, spare, zero)

    def add_confidences(
        self, part: _Part, block: Block, prediction: Prediction | None
    ) -> None:
        """Append rows of confidences alone, with losses of the event that the
        prediction is correct.
        """
        q = np.asarray(
            block.scores[:, 0] if prediction is None else prediction.confidence,
            dtype=np.float64,
        )
        zeros = CALIBRATED
        if prediction is None:
            zeros = block.zeros or Zeros.of_type(block.scores.dtype, one_column=True)
            q = zeros.as_written(q)
        correct = block.labels.astype(np.float64)
        part.put(
            confidence=q,
            correct=correct,
            prediction=np.ones(len(q), dtype=np.int64),
            y=block.labels,
        )
        if block.weight is not None:
            part.put(weight=block.weight)
        if self.top_only:
            return
        right, wrong = (-logs for logs in zeros.confidence_logs(q))
        zero = np.where(correct > 0, q <= zeros.clip, q == 1.0)
        counts = zero * (1 if zeros.is_rounded else UNKNOWN)
        # What counts as more than nothing is also expected more often than never.
        p_right = np.where(q <= zeros.clip, np.exp(-right), q)
        p_wrong = np.where(q == 1.0, np.exp(-wrong), 1.0 - q)
        part.put(
            nll=np.where(correct > 0, right, wrong),
            brier=(q - correct) ** 2,
            entropy=p_right * right + p_wrong * wrong,
            varentropy=p_right * p_wrong * (right - wrong) ** 2,
            zeros=counts.astype(np.int32),
        )

    def add(self, part: _Part, tile: _Tile, prediction: Prediction | None) -> None:
        """Append the rows of a tile. prediction : where they are calibrated."""
        block, label, d, e, norm, square, zero = tile
        here = np.arange(len(d))
        y = block.labels
        confidence = np.minimum(e[here, label] / norm, 1.0)
        part.put(confidence=confidence, correct=(label == y).astype(np.float64))
        part.put(prediction=label, y=y)
        if block.assigned is None:
            self.count_ties(
                part, tile, confidence, is_calibrated=prediction is not None
            )
        if self.k == 2:
            part.put(
                positive=np.minimum(e[:, 1] / norm, 1.0), log_odds=d[:, 1] - d[:, 0]
            )
        if block.weight is not None:
            part.put(weight=block.weight)
        if self.top_only:
            return
        np.multiply(e, d, out=square)
        log_norm = np.log(norm)
        mean = square.sum(axis=1) / norm  # E_p[d]
        second = np.einsum("ij,ij->i", square, d) / norm
        if zero is not None:
            # What counts as more than nothing is also expected more often than never;
            # the zeros of a row all count as the same.
            log_zero = d[here, zero.argmax(axis=1)]
            share = np.count_nonzero(zero, axis=1) * np.exp(log_zero) / norm
            mean += share * log_zero
            second += share * log_zero**2
        np.multiply(e, e, out=square)
        collision = square.sum(axis=1) / norm**2  # sum p^2
        nll = np.maximum(log_norm - d[here, y], 0.0)
        if prediction is not None:
            made = prediction.floored & (d[here, y] <= LOG_ZERO)
            part.put(zeros=np.where(made, UNKNOWN, 0).astype(np.int32))
        elif block.kind == "probs":
            is_rounded = block.zeros is not None and block.zeros.is_rounded
            part.put(zeros=label_zeros(e[here, y], y, zero if is_rounded else None))
        brier = np.maximum(collision - 2.0 * e[here, y] / norm + 1.0, 0.0)
        part.put(nll=nll, brier=brier)
        part.put(
            entropy=np.maximum(log_norm - mean, 0.0),
            varentropy=np.maximum(second - mean**2, 0.0),
        )
        if self.class_bins:
            piece = Piece.of(e, square, norm, y, block.weight, self.class_bins)
            part.classes = piece if part.classes is None else part.classes + piece
        if self.tops:
            part.put(**self.largest(d, e, norm, y))

    @staticmethod
    def count_ties(
        part: _Part, tile: _Tile, confidence: FloatArray, *, is_calibrated: bool
    ) -> None:
        """Count the labels with the least score, and those tied with the prediction."""
        y = tile.block.labels
        scores = tile.e if tile.block.kind == "probs" else tile.d
        part.least_labels += least_labels(scores, tile.label, y)
        if not is_calibrated:
            tied = tied_labels(scores, tile.label, y, confidence)
            part.counts = Counter(part.counts) + Counter(tied)

    def largest(
        self, d: FloatArray, e: FloatArray, norm: FloatArray, y: IntArray
    ) -> dict[str, FloatArray]:
        """Sums of the largest probabilities, and whether the label is among them (by d:
        e may underflow).
        """
        here = np.arange(len(d))
        d_y = d[here, y][:, None]
        e_y = e[here, y][:, None]
        same = d == d_y
        # Equal probabilities rank by index, as the prediction does.
        above = (
            (d > d_y)
            | (same & (e > e_y))
            | (same & (e == e_y) & (np.arange(self.k) < y[:, None]))
        )
        rank = above.sum(axis=1)
        most = max(self.tops)
        largest = -np.sort(
            -np.partition(e, self.k - most, axis=1)[:, self.k - most :], axis=1
        )
        summed = np.minimum(np.cumsum(largest, axis=1) / norm[:, None], 1.0)
        columns = {}
        for j in self.tops:
            columns[f"top {j}"] = summed[:, j - 1].copy()
            columns[f"within {j}"] = (rank < j).astype(np.float64)
        return columns


class _Gatherer:
    """Columns of all rows, filled in the order of the rows, and the sums beside them."""

    def __init__(self, n: int, work: _GatherBlock) -> None:
        self.n, self.k, self.done, self.rest = n, work.k, 0, _Part()
        self.columns: dict[str, AnyArray] = {}
        self.sums = ClassSums(work.k, work.class_bins) if work.class_bins else None

    def take(self, part: _Part) -> Self:
        """Append rows."""
        stop = self.done + sum(map(len, part.columns["confidence"]))
        for name, arrays in part.columns.items():
            if name not in self.columns:
                self.columns[name] = np.empty(self.n, dtype=arrays[0].dtype)
            np.concatenate(arrays, out=self.columns[name][self.done : stop])
        self.done = stop
        if self.sums is not None and part.classes is not None:
            self.sums.take(part.classes)
        self.rest += replace(part, columns={}, classes=None)
        return self

    def table(self) -> RowTable:
        """Row table of everything gathered."""
        columns: dict[str, Any] = dict.fromkeys(TOP_COLUMNS, np.empty(0))
        tops = {}
        for name, values in self.columns.items():
            if name.startswith("top "):
                j = name.removeprefix("top ")
                tops[int(j)] = values, self.columns[f"within {j}"]
            elif not name.startswith("within "):
                columns[name] = values
        return RowTable(
            self.k,
            **columns,
            classes=None if self.sums is None else self.sums.stats(),
            counts=self.rest.counts,
            least_labels=self.rest.least_labels,
            tops=tops,
            expected=self.rest.expected,
        )


def _rounding_of_sum(dtype: "np.dtype[Any]", k: int) -> float:
    """How far the sum of k probabilities misses 1 by the rounding of their type.

    A row is not divided for it: equal probabilities of two rows would differ then, and
    a stored 0.5 would leave its bin edge. float64 counts as float32, whose numbers
    texts and float64 arrays often hold.
    """
    if dtype.kind != "f":
        return 0.0
    type_of_digits = np.float16 if dtype == np.float16 else np.float32
    return 0.5 * float(np.finfo(type_of_digits).eps) * k


def _uncalibrated(block: Block) -> Prediction:
    """Uncalibrated rows as a ``Prediction``."""
    if block.kind == "confidence":
        return Prediction.of_confidence(
            np.asarray(block.scores[:, 0], dtype=np.float64)
        )
    return Prediction(log_softmax(block.z), block.prediction)
