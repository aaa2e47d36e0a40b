"""Row tables of score files: one pass fills the columns of every calibrator asked for."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.calibrator import Calibrator, Prediction
from calcli.errors import DataError
from calcli.kernels.numpy.parallel import in_order
from calcli.metrics.class_sums import ClassSums, Piece
from calcli.metrics.rowtable import COLUMNS, TOP_COLUMNS, RowTable
from calcli.numerics import NLL_FLOOR, FloatArray, IntArray
from calcli.rows import Block, Rows

__all__ = ["collect", "collect_all", "needed_transforms"]

Progress = Callable[[str, int, int], None]

CACHE_ITEMS = 1 << 15
"""Scores worked on at once (256 KiB in float64): three such buffers stay in a core's L2."""


def collect(
    rows: Rows,
    calibrator: Calibrator | None = None,
    *,
    class_bins: int = 0,
    tops: Sequence[int] = (),
    group: NDArray[Any] | None = None,
    progress: Progress | None = None,
) -> RowTable:
    """Gather the row table of scores, through a calibrator when one is given, in one pass.

    class_bins : width bins of the class sums, 0 for none. tops : numbers of largest classes
    whose probability and labels are wanted, each below k. Raises DataError for a
    calibrator that needs transforms which the rows do not have.
    """
    return collect_all(rows, [calibrator], class_bins=class_bins, tops=tops, group=group, progress=progress)[0]


def collect_all(
    rows: Rows,
    calibrators: Sequence[Calibrator | None],
    *,
    class_bins: int = 0,
    tops: Sequence[int] = (),
    group: NDArray[Any] | None = None,
    progress: Progress | None = None,
    top_only: bool = False,
) -> list[RowTable]:
    """Row tables of several calibrators (None: uncalibrated) from one walk over the file.

    Blocks are worked on side by side; what adds is added in the order of the rows, so that
    the number of threads changes nothing. top_only : nothing but ``TOP_COLUMNS``.
    """
    needed, wanted = needed_transforms(rows, calibrators)
    gatherers = [_Gatherer(rows, class_bins, tops, top_only) for _ in calibrators]

    def drawn() -> Iterator[Block]:
        for block in rows.blocks(wanted):
            for gatherer in gatherers:
                gatherer.expect(block)
            yield block

    def of_block(block: Block) -> tuple[int, list[_Part]]:
        parts = []
        for calibrator, gatherer in zip(calibrators, gatherers, strict=True):
            if block.kind == "confidence":
                parts.append(gatherer.confidences(block, calibrator))
            elif calibrator is None:
                parts.append(gatherer.raw(block))
            else:
                own = [needed.index(spec) for spec in calibrator.required_transforms]
                parts.append(
                    gatherer.calibrated(block, calibrator.apply(_with_transforms(block, own) if own else block))
                )
        return block.start + len(block), parts

    for done, parts in in_order(of_block, drawn()):
        for gatherer, part in zip(gatherers, parts, strict=True):
            gatherer.take(part)
        if progress is not None:
            progress("reading", done, rows.n)
    return [gatherer.table(group) for gatherer in gatherers]


def needed_transforms(rows: Rows, calibrators: Sequence[Calibrator | None]) -> tuple[list[str], list[int]]:
    """Specs of the transforms that calibrators read, and their places. Raises DataError for one that is missing."""
    needed = sorted({spec for c in calibrators if c is not None for spec in c.required_transforms})
    for spec in needed:
        if spec not in rows.transforms:
            raise DataError(
                f"the calibrator needs the scores under transform {spec!r}, the bundle has"
                f" {', '.join(rows.transforms) or 'none'}; re-run extract with --transform {spec}"
            )
    return needed, [rows.transforms.index(spec) for spec in needed]


def _with_transforms(block: Block, which: Sequence[int]) -> Block:
    assert block.transformed is not None
    if list(which) == list(range(len(block.transformed))):
        return block
    return Block(block.start, block.scores, block.kind, block.y, block.weight, block.transformed[list(which)])


@dataclass
class _Part:
    """What adds, of one block: clipped rows, counts of the calibrator, class sums piece by piece."""

    clipped: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    classes: list[Piece] = field(default_factory=list)


class _Gatherer:
    """Fills the columns piece by piece; pieces are small enough to stay in cache.

    ``raw`` and ``calibrated`` may run in any thread: they write to the block's own rows. ``expect``
    and ``take`` belong to one thread, in the order of the rows.
    """

    def __init__(self, rows: Rows, class_bins: int, tops: Sequence[int], top_only: bool) -> None:
        n, self.k = rows.n, rows.k
        self.step = max(1, CACHE_ITEMS // rows.k)
        self.top_only = top_only
        self.columns = {name: np.empty(n if name in TOP_COLUMNS or not top_only else 0) for name in COLUMNS}
        self.columns["correct"] = np.empty(n)
        self.prediction = np.empty(n, dtype=np.int64)
        self.y = np.empty(n, dtype=np.int64)
        self.positive = np.empty(n) if rows.k == 2 else None
        self.weight: FloatArray | None = None
        self.clipped = 0
        self.counts: Counter[str] = Counter()
        self.sums = ClassSums(rows.k, class_bins) if class_bins else None
        self.tops = {j: (np.empty(n), np.empty(n)) for j in tops if j < rows.k}
        self.n = n
        self.own = local()

    def buffers(self, rows: int) -> list[FloatArray]:
        """Three arrays (rows, k) to work in, of this thread."""
        if not hasattr(self.own, "buffers"):
            self.own.buffers = [np.empty((min(self.step, self.n), self.k)) for _ in range(3)]
        return [buffer[:rows] for buffer in self.own.buffers]

    def expect(self, block: Block) -> None:
        """Make room for what the first block shows to be there."""
        if block.weight is not None and self.weight is None:
            self.weight = np.ones(self.n)

    def take(self, part: _Part) -> None:
        """Add what adds."""
        self.clipped += part.clipped
        self.counts.update(part.counts)
        if self.sums is not None:
            for piece in part.classes:
                self.sums.take(piece)

    def raw(self, block: Block) -> _Part:
        """Uncalibrated rows: softmax of the scores, or the stored probabilities themselves."""
        labels, part = block.labels, _Part()
        for at in range(0, len(block), self.step):
            scores = block.scores[at : at + self.step]
            d, e, _ = self.buffers(len(scores))
            top = scores.argmax(axis=1)
            if block.kind == "probs":
                e[...] = scores
                norm = _norm_of_probabilities(e, scores.dtype)
                if not self.top_only:  # 0 ln 0 = 0: the floor only keeps the logarithm finite
                    np.log(np.maximum(e, np.finfo(np.float64).tiny, out=d), out=d)
            else:
                d[...] = scores
                d -= d[np.arange(len(d)), top][:, None]
                np.exp(d, out=e)
                norm = e.sum(axis=1)
            label = top if block.assigned is None else block.assigned[at : at + self.step]
            self._add(block, at, labels, label, d, e, norm, part)
        return part

    def calibrated(self, block: Block, prediction: Prediction) -> _Part:
        """Rows that went through a calibrator."""
        labels, part = block.labels, _Part(counts=prediction.counts)
        for at in range(0, len(block), self.step):
            d = prediction.log_probs[at : at + self.step]
            e = np.exp(d, out=self.buffers(len(d))[1])
            self._add(block, at, labels, prediction.label[at : at + self.step], d, e, np.ones(len(d)), part)
        return part

    def confidences(self, block: Block, calibrator: Calibrator | None) -> _Part:
        """Rows of which only the confidence is known: losses of the event that the answer is right."""
        prediction = None if calibrator is None else calibrator.apply(block)
        q = np.asarray(block.scores[:, 0] if prediction is None else prediction.confidence, dtype=np.float64)
        out = slice(block.start, block.start + len(block))
        correct = block.labels.astype(np.float64)
        c = self.columns
        c["confidence"][out], c["correct"][out] = q, correct
        self.prediction[out], self.y[out] = 1, block.labels
        if block.weight is not None and self.weight is not None:
            self.weight[out] = block.weight
        if self.top_only:
            return _Part()
        right, wrong = -np.log(np.maximum(q, NLL_FLOOR)), -np.log1p(-np.minimum(q, 1.0 - NLL_FLOOR))
        c["nll"][out] = nll = np.where(correct > 0, right, wrong)
        c["brier"][out] = (q - correct) ** 2
        c["entropy"][out] = q * right + (1.0 - q) * wrong
        c["varentropy"][out] = q * (1.0 - q) * (right - wrong) ** 2
        c["collision"][out] = 1.0 - q * (1.0 - q)
        return _Part(clipped=int((nll >= -np.log(NLL_FLOOR)).sum()))

    def _add(
        self,
        block: Block,
        at: int,
        labels: IntArray,
        label: IntArray,
        d: FloatArray,
        e: FloatArray,
        norm: FloatArray,
        part: _Part,
    ) -> None:
        """Take in rows with p = e / norm = exp(d) / norm."""
        here = np.arange(len(d))
        out = slice(block.start + at, block.start + at + len(d))
        y = labels[at : at + len(d)]
        weight = None if block.weight is None else block.weight[at : at + len(d)]
        c = self.columns
        c["confidence"][out] = np.minimum(e[here, label] / norm, 1.0)
        c["correct"][out] = label == y
        self.prediction[out], self.y[out] = label, y
        if self.positive is not None:
            self.positive[out] = np.minimum(e[:, 1] / norm, 1.0)
        if weight is not None and self.weight is not None:
            self.weight[out] = weight
        if self.top_only:
            return
        square = np.multiply(e, d, out=self.buffers(len(d))[2])
        log_norm = np.log(norm)
        mean = square.sum(axis=1) / norm  # E_p[d]
        second = np.einsum("ij,ij->i", square, d) / norm
        np.multiply(e, e, out=square)
        p_y = e[here, y] / norm
        nll = log_norm - d[here, y]
        limit = -np.log(NLL_FLOOR)
        part.clipped += int((nll > limit).sum())
        c["nll"][out] = np.clip(nll, 0.0, limit)
        c["entropy"][out] = np.maximum(log_norm - mean, 0.0)
        c["varentropy"][out] = np.maximum(second - mean**2, 0.0)
        c["collision"][out] = collision = square.sum(axis=1) / norm**2
        c["brier"][out] = np.maximum(collision - 2.0 * p_y + 1.0, 0.0)
        if self.sums is not None:
            part.classes.append(self.sums.piece(e, square, norm, y, weight))
        if self.tops:
            self._add_tops(out, e, norm, y)

    def _add_tops(self, out: slice, e: FloatArray, norm: FloatArray, y: IntArray) -> None:
        """The sums of the largest probabilities, and whether the label is among them."""
        e_y = e[np.arange(len(e)), y][:, None]
        # Equal probabilities rank by index, as the prediction does.
        rank = (e > e_y).sum(axis=1) + ((e == e_y) & (np.arange(self.k) < y[:, None])).sum(axis=1)
        most = max(self.tops)
        largest = -np.sort(-np.partition(e, self.k - most, axis=1)[:, self.k - most :], axis=1)
        summed = np.minimum(np.cumsum(largest, axis=1) / norm[:, None], 1.0)
        for j, (sums, inside) in self.tops.items():
            sums[out], inside[out] = summed[:, j - 1], rank < j

    def table(self, group: NDArray[Any] | None) -> RowTable:
        """Everything gathered."""
        return RowTable(
            k=self.k,
            **self.columns,
            prediction=self.prediction,
            y=self.y,
            positive=self.positive,
            weight=self.weight,
            group=group,
            clipped=self.clipped,
            classes=None if self.sums is None else self.sums.stats(),
            counts=dict(self.counts),
            tops=self.tops,
        )


def _norm_of_probabilities(p: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
    """Row sums to divide by; exactly 1 where a sum differs from 1 by rounding alone.

    Dividing such rows would move a stored 0.5 off its bin edge.
    """
    total = p.sum(axis=1)
    rounding = 0.5 * float(np.finfo(dtype).eps) * p.shape[1] if np.issubdtype(dtype, np.floating) else 0.0
    return np.where(np.abs(total - 1.0) <= rounding, 1.0, total)
