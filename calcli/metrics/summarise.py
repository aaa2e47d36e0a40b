"""The summary of rows, uncalibrated or through a calibrator: block by block, side by side, nothing kept."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from calcli.calibrator import Calibrator, Progress
from calcli.fast_dataclass import dataclass
from calcli.fit_summary import Summary
from calcli.metrics.collect import collect, needed_transforms
from calcli.numerics import FloatArray, IntArray
from calcli.rows import AtOnce, Block, Rows


def summarise(rows: Rows, calibrator: Calibrator | None, progress: Progress) -> Summary:
    """What a fit records of its rows, from one walk. Raises DataError for transforms that are missing."""
    wanted = needed_transforms(rows, [calibrator])[1]

    def watched() -> Iterator[Summary]:
        done = 0
        for part in rows.partial_sums(_SummariseBlock(rows.k, rows.transforms, calibrator), transforms=wanted):
            done += part.n
            progress("rows read", done, rows.n)
            yield part

    return reduce(add, watched())


@dataclass(frozen=True)
class _SummariseBlock:
    """The summary of a block of rows with k classes and these transforms."""

    k: int
    transforms: tuple[str, ...]
    calibrator: Calibrator | None

    def __call__(self, block: Block) -> Summary:
        table = collect(_OneBlock(block, self.k, self.transforms), self.calibrator)
        losses = table.nll, table.brier, table.nll - table.entropy
        classes = table.y if self.k > 1 else np.zeros_like(table.y)
        return Summary.of(table.confidence, table.correct, losses, classes, self.k, table.weight, table.counts)


class _OneBlock(Rows):
    """One block as rows of its own; its transforms are those that were asked for."""

    def __init__(self, block: Block, k: int, transforms: tuple[str, ...]) -> None:
        self.block = replace(block, start=0)
        self.n, self.k, self.kind, self.transforms = len(block), k, block.kind, transforms

    def blocks(self, transforms: Sequence[int] = (), at_once: AtOnce = 1) -> Iterator[Block]:
        yield self.block

    def labels(self) -> IntArray:
        return self.block.labels

    def weights(self) -> FloatArray | None:
        return self.block.weight
