"""The summary of rows, uncalibrated or through a calibrator: block by block, side by side, nothing kept."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from calcli.calibrator import Calibrator, Progress
from calcli.kernels.numpy.parallel import in_order
from calcli.metrics.collect import collect, needed_transforms
from calcli.numerics import FloatArray, IntArray
from calcli.rows import Block, Rows
from calcli.summary import Summary

__all__ = ["summarise"]


def summarise(rows: Rows, calibrator: Calibrator | None, progress: Progress) -> Summary:
    """What a fit records of its rows, from one walk. Raises DataError for transforms that are missing."""

    def of_block(block: Block) -> Summary:
        table = collect(_OneBlock(block, rows), calibrator)
        losses = table.nll, table.brier, table.nll - table.entropy
        classes = table.y if rows.k > 1 else np.zeros_like(table.y)
        return Summary.of(table.confidence, table.correct, losses, classes, rows.k, table.weight, table.counts)

    def watched() -> Iterator[Summary]:
        done = 0
        for part in in_order(of_block, rows.blocks(needed_transforms(rows, [calibrator])[1])):
            done += part.n
            progress("reading", done, rows.n)
            yield part

    return reduce(add, watched())


class _OneBlock(Rows):
    """One block as rows of its own; its transforms are those that were asked for."""

    def __init__(self, block: Block, source: Rows) -> None:
        self.block = replace(block, start=0)
        self.n, self.k, self.kind, self.transforms = len(block), source.k, block.kind, source.transforms

    def blocks(self, transforms: Sequence[int] = ()) -> Iterator[Block]:
        yield self.block

    def labels(self) -> IntArray:
        return self.block.labels

    def weights(self) -> FloatArray | None:
        return self.block.weight
