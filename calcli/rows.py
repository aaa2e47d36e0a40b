"""Labelled score rows in blocks: what every method and metric receives.

An array in memory and a file larger than memory have one interface: ``n`` rows of ``k``
classes, read block by block as often as needed, so that a method is written once. A
block is about 1 MiB, which stays in a core's cache: whole-array NumPy is slower, not
faster.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import islice
from operator import add
from typing import Any, Literal, TypeVar

import numpy as np

from calcli.block import Block, Codes, digits_of, rows_of_column, score_keys
from calcli.errors import DataError
from calcli.free_memory import check_memory
from calcli.logits import SCORE_KINDS as SCORE_KINDS
from calcli.logits import ScoreKind as ScoreKind
from calcli.logits import to_logits
from calcli.numerics import (
    AnyArray,
    FloatArray,
    IntArray,
    log_softmax,
    row_weights,
)
from calcli.parallel import in_order
from calcli.records import cached_property
from calcli.rounding import Digits, FloatType, float_type
from calcli.statistics.copies import MOST_ROWS, first_copies
from calcli.statistics.units import Units, design_effect
from calcli.statistics.weights import effective_number, effective_weights
from calcli.zeros import Zeros

BLOCK_BYTES = 1 << 20  # size of one block in float64

PART_BLOCKS = 32
PART_ROWS = 1 << 18
"""Most blocks and rows in a part: sums are taken within each part of consecutive blocks
first, then over the parts.
"""

# blocks passed to ``work`` as one; divides the number of blocks of a part
AtOnce = Literal[1, 2, 4, 8, 16]

Result = TypeVar("Result")

SAMPLE_SLABS = 64  # slabs of a source from which a sample of its rows is read


def classes(k: int | None) -> str:
    """Describe a number of classes: ``10 classes``, or ``confidences`` for None or 1."""
    if k is None or k < 2:
        return "confidences"
    return f"{k} classes"


@dataclass(frozen=True)
class Walk:
    """Request for work on every block of some rows (see ``Rows.each``).

    add_up : sum the results within each part.
    """

    work: Callable[..., Any]
    along: tuple[AnyArray, ...]
    transforms: tuple[int, ...]
    at_once: AtOnce = 1
    add_up: bool = False

    def __call__(self, block: Block, first: int = 0) -> Any:
        """The result for a block. first : the row where ``along`` begins."""
        start = block.start - first
        return self.work(block, *(a[start : start + len(block)] for a in self.along))

    def over(self, blocks: Iterator[Block], first: int) -> Any:
        """The result for the blocks of a part: a list, or its sum."""
        results = (self(block, first) for block in blocks)
        if self.add_up:
            return reduce(add, results)
        return list(results)


def rows_per_block(k: int) -> int:
    return max(1, BLOCK_BYTES // (8 * k))


def part_blocks(k: int) -> int:
    """Blocks per part, for rows of k classes: a multiple of 4; ``PART_BLOCKS`` from 16
    classes on.
    """
    return max(4, min(PART_BLOCKS, PART_ROWS // rows_per_block(k)) // 4 * 4)


def class_words(number: int, names: Sequence[str] | None) -> str:
    """A class by its number, with its name where that is known: ``3 (cat)``."""
    return f"{number} ({names[number]})" if names else str(number)


def _gaps_of_block(block: Block) -> FloatArray:
    """Confidence minus accuracy of every row, (b,)."""
    if block.kind == "confidence":
        return block.scores.reshape(len(block)) - block.labels
    confidence = np.exp(log_softmax(block.z).max(axis=1))
    return np.asarray(confidence - (block.prediction == block.labels))


class Rows(ABC):
    """A re-iterable source of blocks.

    n, k : number of rows and of classes; k = 1 where only confidences are known.
    transforms : specs of the transforms that the source holds, ``name:argument``.
    ordered : whether classes are levels from low to high. columns : columns that blocks
    carry. dtype : of the scores as stored. one_column : only P(class 1), or a
    confidence, is stored. Subclasses yield every row exactly once, in order, in blocks
    that carry ``zeros``.
    """

    n: int
    k: int
    kind: ScoreKind
    transforms: tuple[str, ...] = ()
    ordered: bool = False
    columns: Mapping[str, Codes] = {}
    dtype: np.dtype[Any] = np.dtype(np.float64)
    one_column: bool = False
    _zeros: Zeros | None = None

    @property
    def zeros(self) -> Zeros | None:
        """What a probability of 0 counts as; None for scores that were no
        probabilities. The first time it is asked for, all rows are looked at.
        """
        is_probability = self.kind in ("probs", "confidence")
        if self._zeros is None and is_probability:
            # Blocks carry this meanwhile; what looks at their digits takes no logarithm.
            self._zeros = Zeros.of_type(self.dtype, self.one_column)
            try:
                self._zeros = self._found_zeros()
            except BaseException:
                self._zeros = None
                raise
        return self._zeros

    def _found_zeros(self) -> Zeros:
        kind = float_type(self.dtype)
        return Zeros.of(self.digits(kind), kind, self.one_column)

    def digits(self, kind: FloatType) -> Digits:
        """What all probabilities show of their rounding. kind : type they were in."""
        return self.sum(partial(digits_of, kind, self.one_column))

    @property
    def class_names(self) -> list[str] | None:
        return None

    def called(self, classes: Sequence[int] | IntArray) -> str:
        """Classes by number, with the names that are known: ``3 (cat), 5 (dog) and 12
        more``.
        """
        shown = ", ".join(class_words(c, self.class_names) for c in classes[:8])
        if len(classes) > 8:
            shown += f" and {len(classes) - 8} more"
        return shown

    @abstractmethod
    def blocks(
        self, transforms: Sequence[int] = (), at_once: AtOnce = 1
    ) -> Iterator[Block]:
        """Walk over all rows, ``at_once`` blocks as one; ``transforms`` are indices
        into ``self.transforms``.
        """

    def each(
        self,
        work: Callable[..., Result],
        *along: AnyArray,
        transforms: Sequence[int] = (),
        at_once: AtOnce = 1,
    ) -> Iterator[Result]:
        """Yield the result of ``work(block, …)`` on every block, in the order of the
        rows.

        along : arrays, one entry per row, whose slices for the block are passed to
        ``work`` too. Blocks are processed in parallel, perhaps in other processes:
        ``work`` must be picklable (a function of a module, a ``partial`` or an object
        of such) and free of side effects. at_once : blocks passed to ``work`` as one.
        """
        return self.walked(Walk(work, along, tuple(transforms), at_once))

    def sum(
        self, work: Callable[..., Result], *along: AnyArray, at_once: AtOnce = 1
    ) -> Result:
        """Sum the results of ``each``, part by part, in an order that depends on the
        rows alone.
        """
        return reduce(add, self.walked(Walk(work, along, (), at_once, add_up=True)))

    def walked(self, walk: Walk) -> Iterator[Any]:
        """Yield the results of a walk, in the order of the rows; sources override it to
        distribute the work.
        """
        results = in_order(walk, self.blocks(walk.transforms, walk.at_once))
        if not walk.add_up:
            return results
        count, rest = divmod(part_blocks(self.k), walk.at_once)
        assert rest == 0, "blocks as one would straddle parts"
        return (reduce(add, islice(results, count - 1), first) for first in results)

    def places_of(self, specs: Sequence[str], where: str = "the bundle") -> list[int]:
        """Indices of the transforms that a calibrator reads.

        Raises DataError that lists missing ones.
        """
        missing = [spec for spec in specs if spec not in self.transforms]
        if missing:
            raise DataError(
                f"{where}: lacks the scores under {len(missing)} transforms that this"
                f" calibrator needs: {', '.join(missing)}; it has:"
                f" {', '.join(self.transforms) or 'none'}; run calcli extract with"
                " these --transform options"
            )
        return [self.transforms.index(spec) for spec in specs]

    def z(self) -> FloatArray:
        """All scores as logits or logarithms of probabilities, (n, k)."""
        return np.concatenate([block.z for block in self.blocks()])

    @abstractmethod
    def labels(self) -> IntArray:
        """All labels, (n,) int64."""

    def weights(self) -> FloatArray | None:
        """All sample weights, (n,) float64, or None when all are equal.

        They sum to the effective number of rows (see ``effective_weights``).
        """
        return None

    @cached_property
    def design_effect(self) -> float:
        """Variance of confidence minus accuracy by unit over that by row, at least 1."""
        units = self.units()
        if units is None:
            return 1.0
        gaps = np.concatenate([_gaps_of_block(block) for block in self.blocks()])
        return design_effect(gaps, units, self.weights())

    @property
    def effective_n(self) -> float:
        """Effective number of rows, which penalties, priors and counts are held against.

        It is Kish's, over the design effect: rows that are in their unit twice count
        once.
        """
        weight = self.weights()
        number = float(self.n)
        if weight is not None and weight.any():
            number = effective_number(weight)
        return number / self.design_effect

    def effective_weights(self) -> FloatArray | None:
        """Sample weights (n,) that sum to ``effective_n``; None where all are 1."""
        weight = self.weights()
        if self.design_effect == 1.0:
            return weight
        return row_weights(weight, self.n) / self.design_effect

    @property
    def share_of_one_more(self) -> float:
        """Share of one more row among these and it."""
        return 1.0 / (self.effective_n + 1)

    def units(self) -> Units | None:
        """Unit of every row, None where rows are independent."""
        return None

    def array(self) -> AnyArray:
        """All scores in one array, (n, k), in the precision of the source, for methods
        that need it. Raises FitError if they exceed the free memory.
        """
        first = next(iter(self.blocks()))
        check_memory(
            self.n * self.k * first.scores.itemsize, f"{self.n} x {self.k} scores"
        )
        whole = np.empty((self.n, self.k), dtype=first.scores.dtype)
        for block in self.blocks():
            whole[block.span] = block.scores
        return whole

    def logits(self) -> FloatArray:
        """All logits in one array, (n, k) float64 (see ``array``)."""
        return to_logits(self.array(), self.kind, self.zeros)

    def sample(self, count: int) -> "ArrayRows":
        """About ``count`` rows in memory, in slabs spread evenly over the source;
        deterministic.
        """
        index = np.concatenate(
            [np.arange(start, stop) for start, stop in sample_runs(self.n, count)]
        )
        some = self.take(index)
        drawn = ArrayRows(some.array(), some.labels(), self.kind, weight=some.weights())
        return drawn.counting(self.zeros)

    def take(self, index: IntArray) -> "Rows":
        """The rows at ``index`` (folds of a cross-validation), in the order of the
        source.
        """
        ordered = np.sort(np.asarray(index, dtype=np.int64))
        return SubsetRows(self, ordered, rows_of_column(self.weights(), ordered))

    @cached_property
    def first_copies(self) -> IntArray | None:
        """First of the copies of each labelled row inside its unit, (n,) indices.

        None without units, of very many rows, or where no rows were copied. Rows of two
        groups are no copies of each other: coarse scores repeat.
        """
        units = self.units()
        if units is None or self.n > MOST_ROWS:
            return None
        for group in self.group_codes():
            units = units.divided_by(group)
        keys = np.concatenate(list(self.each(score_keys)))
        return first_copies(keys, self.labels(), units)

    def group_codes(self) -> list[IntArray]:
        """Number of the group of every row, (n,), one array per column of groups."""
        return [column.code for column in self.columns.values()]

    def counted_index(self) -> IntArray:
        """Indices of the rows that fits and metrics use, ascending.

        These are the rows of positive weight, all rows if no weight is positive, and of
        copies of a row inside its unit the first.
        """
        weight = self.weights()
        if weight is not None and not (weight > 0).any():
            return np.arange(self.n)
        if self.first_copies is not None:
            return np.flatnonzero(self._weights_with_copies(self.first_copies) > 0.0)
        if weight is None:
            return np.arange(self.n)
        return np.flatnonzero(weight > 0)

    def counted(self) -> "Rows":
        """Select the rows of ``counted_index``.

        Copies of a row inside its unit are one row with the weight of all. Drops
        weights that are all 1.
        """
        index = self.counted_index()
        if len(index) == self.n:
            return self
        if self.first_copies is not None:
            weight = self._weights_with_copies(self.first_copies)[index]
            return SubsetRows(self, index, effective_weights(weight))
        weight = row_weights(self.weights(), self.n)[index]
        return SubsetRows(self, index, None if (weight == 1.0).all() else weight)

    def _weights_with_copies(self, first: IntArray) -> FloatArray:
        """Weight of each row and its copies together (n,), 0 but for the first."""
        weight = row_weights(self.weights(), self.n)
        total = np.bincount(first, weights=weight, minlength=self.n)
        return np.asarray(total, dtype=np.float64)


class ArrayRows(Rows):
    """Rows in memory.

    scores : (n, k) of kind ``kind``; labels, weight : (n,), of any scale; units : units
    of the rows; transformed : (m, n, k) logits with ``transforms`` naming its first
    axis.
    """

    original: IntArray | None = None
    """Predictions of the scores that these were made from, (n,), where a calibrator has
    made them.
    """

    def __init__(
        self,
        scores: AnyArray,
        labels: AnyArray | None = None,
        kind: ScoreKind = "logits",
        *,
        weight: AnyArray | None = None,
        units: Units | None = None,
        transformed: AnyArray | None = None,
        transforms: Sequence[str] = (),
        block_rows: int | None = None,
    ) -> None:
        self.scores = scores
        self.kind = kind
        self.n, self.k = scores.shape
        self.dtype = scores.dtype
        self.one_column = kind == "confidence"
        self.y = None if labels is None else np.asarray(labels, dtype=np.int64)
        self.weight = None
        if weight is not None:
            self.weight = effective_weights(np.asarray(weight, dtype=np.float64))
        self._units = units
        self.transformed = transformed
        self.transforms = tuple(transforms)
        self.block_rows = block_rows or rows_per_block(self.k)

    def blocks(
        self, transforms: Sequence[int] = (), at_once: AtOnce = 1
    ) -> Iterator[Block]:
        step = at_once * self.block_rows
        whole = Block(
            0,
            self.scores,
            self.kind,
            self.y,
            self.weight,
            columns=self.columns,
            original=self.original,
            zeros=self.zeros,
        )
        for start in range(0, self.n, step):
            block = whole.cut(start, start + step)
            if len(transforms) and self.transformed is not None:
                block = replace(
                    block,
                    transformed=self.transformed[
                        np.asarray(transforms), start : start + step
                    ],
                )
            yield block

    def counting(self, zeros: Zeros | None) -> "ArrayRows":
        """The same rows, of which it is known what a probability of 0 counts as: they
        are some of other rows.
        """
        self._zeros = zeros
        return self

    def labels(self) -> IntArray:
        assert self.y is not None, "these rows carry no labels"
        return self.y

    def weights(self) -> FloatArray | None:
        return self.weight

    def units(self) -> Units | None:
        return self._units

    def array(self) -> AnyArray:
        return self.scores


class SubsetRows(Rows):
    """Subset of the rows of a source, in its order, selected block by block."""

    def __init__(
        self, source: Rows, index: IntArray, weight: FloatArray | None
    ) -> None:
        """index : (n,) ascending. weight : (n,) of these rows, in effective rows."""
        self.source = source
        self.index = index
        self.weight = weight
        self.n = len(self.index)
        self.k = source.k
        self.kind = source.kind
        self.transforms = source.transforms

    @property
    def zeros(self) -> Zeros | None:
        return self.source.zeros

    @property
    def class_names(self) -> list[str] | None:
        return self.source.class_names

    def blocks(
        self, transforms: Sequence[int] = (), at_once: AtOnce = 1
    ) -> Iterator[Block]:
        start = 0
        for block in self.source.blocks(transforms, at_once):
            stop = int(np.searchsorted(self.index, block.start + len(block)))
            if stop == start:
                continue
            some = block.take(self.index[start:stop] - block.start, start)
            yield replace(some, weight=rows_of_column(self.weight, slice(start, stop)))
            start = stop

    def labels(self) -> IntArray:
        return self.source.labels()[self.index]

    def weights(self) -> FloatArray | None:
        return self.weight

    def units(self) -> Units | None:
        units = self.source.units()
        return None if units is None else units.take(self.index)

    def group_codes(self) -> list[IntArray]:
        return [code[self.index] for code in self.source.group_codes()]


def sample_runs(n: int, count: int) -> list[tuple[int, int]]:
    """Runs of consecutive rows, (first, last + 1), about ``count`` of n rows in all,
    spread evenly.
    """
    height = max(1, count // SAMPLE_SLABS)
    starts = np.linspace(
        0, max(n - height, 0), min(SAMPLE_SLABS, count), dtype=np.int64
    )
    runs: list[tuple[int, int]] = []
    done = 0
    for start in sorted(set(starts.tolist())):
        start = max(start, done)
        done = min(start + height, n)
        if start < done:
            runs.append((start, done))
    return runs
