"""Rows mapped by a calibrator: what the next stage of a composition is fitted to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calcli.block import Block
from calcli.calibrator import Calibrator, Fit, Prediction
from calcli.free_memory import available_memory
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.rows import ArrayRows, AtOnce, Result, Rows, Walk
from calcli.statistics.units import Units

# larger log-probabilities are not kept between stages, but recomputed in every pass
CACHED_BYTES = 1 << 27
LARGE_BYTES = 1 << 28  # up to this size they are kept where memory is plenty


def argmax_at_prediction(prediction: Prediction) -> FloatArray:
    """Log-probabilities whose argmax is the prediction.

    Where it is not, as rounding made the predicted class tie with one of lower index or
    the method predicts another class, the predicted class is raised above the rest by
    one unit in the last place.
    """
    log_p = prediction.log_probs
    label = prediction.label
    off = np.flatnonzero(log_p.argmax(axis=1) != label)
    if len(off):
        log_p = log_p.copy()
        log_p[off, label[off]] = np.nextafter(log_p[off].max(axis=1), np.inf)
    return log_p


def mapped_block(calibrator: Calibrator, block: Block) -> Block:
    """A block of log-probabilities after a calibrator."""
    return block.calibrated(argmax_at_prediction(calibrator.apply(block)))


def _work_on_mapped(
    calibrator: Calibrator, work: Callable[..., Result], block: Block, *along: AnyArray
) -> Result:
    return work(mapped_block(calibrator, block), *along)


class MappedRows(Rows):
    """Rows mapped by a calibrator to log-probabilities, anew in every pass."""

    def __init__(self, source: Rows, calibrator: Calibrator) -> None:
        self.source = source
        self.calibrator = calibrator
        self.n = source.n
        self.k = source.k
        self.kind = "log_probs"
        self.reads = source.places_of(calibrator.required_transforms)

    def blocks(
        self, transforms: Sequence[int] = (), at_once: AtOnce = 1
    ) -> Iterator[Block]:
        return map(
            partial(mapped_block, self.calibrator),
            self.source.blocks(self.reads, at_once),
        )

    def walked(self, walk: Walk) -> Iterator[Any]:
        work = partial(_work_on_mapped, self.calibrator, walk.work)
        return self.source.walked(
            replace(walk, work=work, transforms=tuple(self.reads))
        )

    def labels(self) -> IntArray:
        return self.source.labels()

    def weights(self) -> FloatArray | None:
        return self.source.weights()

    def units(self) -> Units | None:
        return self.source.units()

    def group_codes(self) -> list[IntArray]:
        return self.source.group_codes()


def rows_after(rows: Rows, fit: Fit[Any]) -> Rows:
    """Rows to which the next stage is fitted: out of fold where there are such."""
    if fit.out_of_fold is not None:
        return fit.out_of_fold
    return mapped(rows, fit.calibrator)


def mapped(rows: Rows, calibrator: Calibrator) -> Rows:
    """Map rows by a calibrator, kept in memory when they are small."""
    lazy = MappedRows(rows, calibrator)
    size = 8 * rows.n * rows.k
    free = available_memory() or 0
    if size > CACHED_BYTES and not (size <= LARGE_BYTES and 12 * size <= free):
        return lazy
    scores = np.empty((rows.n, rows.k))
    original = np.empty(rows.n, dtype=np.int64)
    for block in lazy.blocks():
        to = block.span
        scores[to] = block.scores
        original[to] = block.original_prediction
    cached = ArrayRows(
        scores,
        lazy.labels(),
        "log_probs",
        weight=lazy.weights(),
        units=lazy.units(),
    )
    cached.original = original
    return cached
