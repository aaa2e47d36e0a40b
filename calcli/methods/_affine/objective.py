"""Softmax of an affine map of the scores: the objectives of vector and matrix scaling.

Row i has features x (k,), the map gives logits l = W x + b, and the objective is the
(weighted) mean NLL of softmax(l) plus a ridge, sum R (theta - centre)^2 entry by entry.
It is convex in theta. Parameters lie class by class: ``(k, 2)`` scale and bias for a
diagonal W, ``(k, k + 1)`` weights and bias for a full one.

Rows are walked over in blocks: nothing of size classes x rows x classes ever exists.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calcli.block import Block
from calcli.free_memory import check_memory
from calcli.numerics import FloatArray, IntArray, in_column, row_max, row_weights
from calcli.parallel import Result, in_order
from calcli.records import cached_property
from calcli.rows import Rows
from calcli.solvers import AIM, NewtonDirection

Reals = NDArray[np.floating[Any]]  # float64, or float32 in Hessian products
Features = Callable[..., Any]
"""From a block, features (b, k) in float64, or in the dtype of a second argument
(float32, for diagonal maps).
"""
# bytes of features in float64 up to which they are computed once and kept
SMALL = 1 << 25
# smaller probabilities count for nothing, and subnormal numbers are tens of times
# slower
NEGLIGIBLE = 1e-15


@dataclass(frozen=True)
class Ridge:
    """A quadratic penalty: sum of weight * (theta - centre)^2.

    weight : (k, m), >= 0. centre : (k, m).
    """

    weight: FloatArray
    centre: FloatArray


@dataclass(frozen=True)
class Chunk:
    """Features, labels and weights of some rows."""

    x: Any  # features (b, k); float32 if only for Hessian products
    y: IntArray
    w: FloatArray | None = None
    # the features in float32, if kept for Hessian products
    narrow: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Table:
    """Rows in memory, fold by fold, for fits of a full matrix.

    Only the features are copied, in float32.
    """

    x: FloatArray
    y: IntArray
    w: FloatArray | None
    ends: Sequence[int] = ()  # boundaries of the folds

    @cached_property
    def narrow(self) -> NDArray[np.float32]:
        return self.x.astype(np.float32)

    def chunks(self, *slices: slice) -> list[Chunk]:
        """Rows of some slices, or all rows, in chunks of a few MiB."""
        size = max(64, (1 << 20) // (8 * self.x.shape[1]))
        chunks = []
        for part in slices or [slice(None)]:
            start, stop, _ = part.indices(len(self.y))
            n_ends = 1 - (start - stop) // size
            ends = np.linspace(start, stop, n_ends).astype(int).tolist()
            for rows in map(slice, ends[:-1], ends[1:]):
                w = None if self.w is None else self.w[rows]
                chunks.append(Chunk(self.x[rows], self.y[rows], w, self.narrow[rows]))
        return chunks

    def folds(self) -> Iterator[tuple[list[Chunk], list[Chunk]]]:
        """Training rows and held-out rows of every fold."""
        for first, last in pairwise(self.ends):
            train = self.chunks(slice(0, first), slice(last, None))
            held_out = self.chunks(slice(first, last))
            yield train, held_out


@dataclass(frozen=True)
class Walked:
    """Rows for fits of a scale and a bias per class, and their folds.

    Features are computed anew in every walk.
    """

    rows: Rows
    features: Features
    fold: IntArray | None = None

    def __iter__(self) -> Iterator[Chunk]:
        return map(self.chunk, self.rows.blocks())

    def chunk(self, block: Block, *dtype: Any) -> Chunk:
        return Chunk(self.features(block, *dtype), block.labels, block.weight)

    def chunks(self) -> "Chunked":
        """All rows, for repeated walks; held in memory if small."""
        if 8 * self.rows.n * self.rows.k <= SMALL:
            return list(self)
        return self

    def folds(self) -> Iterator[tuple["Chunked", "Chunked"]]:
        """Training rows and held-out rows of every fold."""
        assert self.fold is not None
        for number in range(int(self.fold.max()) + 1):
            train = self.rows.take(np.flatnonzero(self.fold != number))
            held_out = self.rows.take(np.flatnonzero(self.fold == number))
            yield (
                Walked(train, self.features).chunks(),
                Walked(held_out, self.features).chunks(),
            )


Chunked = Walked | list[Chunk]


def rows_to_fit(
    rows: Rows, features: Features, full: bool, fold: IntArray | None = None
) -> Table | Walked:
    """Bring rows into the form that the fit of a map needs.

    Raises FitError if a full matrix would not fit into memory.
    """
    if not full:
        return Walked(rows, features, fold)
    n = rows.n
    k = rows.k
    check_memory(
        8 * n * k + 4 * n * k + 20 * 8 * k * (k + 1),
        f"a full matrix map of {n} x {k} scores",
    )
    if fold is None:
        fold = np.zeros(n, dtype=np.int64)
    order = np.argsort(fold, kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    x = np.empty((n, k))
    w = rows.weights()
    for block in rows.blocks():
        x[place[block.span]] = features(block)
    if w is not None:
        w = w[order]
    ends = [0, *np.cumsum(np.bincount(fold)).tolist()]
    return Table(x, rows.labels()[order], w, ends)


def each_chunk(
    chunks: Chunked, work: Callable[[Chunk], Result], *dtype: Any
) -> Iterator[Result]:
    """Apply ``work`` to all chunks in parallel.

    Results come in the order of the rows. dtype : of the features.
    """
    if isinstance(chunks, list):
        return in_order(work, chunks)
    return in_order(
        lambda block: work(chunks.chunk(block, *dtype)), chunks.rows.blocks()
    )


def affine_logits(x: Reals, theta: Reals) -> Any:
    """Logits of the map: x (b, k), theta (k, 2) for a diagonal map or (k, k + 1)."""
    bias = theta[:, -1]
    if theta.shape[1] == 2:
        return x * theta[:, 0] + bias
    return x @ theta[:, :-1].T + bias


def softmax_losses(l: FloatArray, y: IntArray) -> FloatArray:
    """NLL of each row, (b,); overwrites the logits l (b, k) with probabilities."""
    l -= row_max(l)[:, None]
    l_y = in_column(l, y)
    np.exp(l, out=l)
    total: FloatArray = np.einsum("ij->i", l)
    l /= total[:, None]
    np.log(total, out=total)
    return total - l_y


def logits_as(block: Block, dtype: Any = np.float64) -> Any:
    """Logits of a block; float32, for Hessian products, without a copy in float64."""
    if dtype == np.float32 and block.kind != "probs":
        return block.scores.astype(dtype, copy=False)
    return block.z.astype(dtype, copy=False)


def mean_nll(chunks: Chunked, theta: FloatArray) -> tuple[float, float]:
    """Weighted mean NLL of softmax(W x + b), with the sum of the weights."""

    def summed(chunk: Chunk) -> tuple[float, float]:
        w = row_weights(chunk.w, len(chunk))
        losses = softmax_losses(affine_logits(chunk.x, theta), chunk.y)
        return float(w @ losses), float(w.sum())

    total = mass = 0.0
    for value, weight in each_chunk(chunks, summed):
        total += value
        mass += weight
    return total / max(mass, 1e-300), mass


def labels_of(chunks: Chunked) -> Iterable[tuple[IntArray, FloatArray | None]]:
    """Labels and weights of all rows, part by part, without computing features."""
    if isinstance(chunks, list):
        return ((chunk.y, chunk.w) for chunk in chunks)
    if chunks.rows.weights() is None:
        return [(chunks.rows.labels(), None)]
    return ((block.labels, block.weight) for block in chunks.rows.blocks())


class AffineObjective(ABC):
    """Mean NLL of softmax(W x + b) plus a ridge.

    It is a function of parameters theta (k, columns).

    present : (k,) classes with rows. Rows of theta of absent classes stay at their
    start, and then the present ones may not move together. With ``complete`` every
    class counts as present: the ridge alone determines those without rows.
    mass : sum of the weights.
    n, effective : number of rows, and effective number under weights.
    normals : unit vectors (k, columns), one per column of theta, to which the search
    stays orthogonal; zero: none.

    A vector added to the rows of all classes does not change the softmax. Only the
    ridge, or with absent classes nothing, determines its size. With all classes
    present, the distances from the centre sum to 0 at the optimum, under the weights of
    the ridge (see ``aligned``). The search stays in that plane, and so avoids the
    flattest directions of all.
    """

    # largest relative excess over the optimum at the end of a search
    aim: ClassVar[float] = AIM
    # adding one row vector to all rows of theta does not change the softmax
    all_columns_shift: bool

    def __init__(
        self, chunks: Chunked, ridge: Ridge, *, complete: bool = False
    ) -> None:
        self.chunks = chunks
        self.k, self.columns = ridge.weight.shape
        class_weight = np.zeros(self.k)
        self.n = 0
        square = 0.0
        for y, w in labels_of(chunks):
            class_weight += np.bincount(y, weights=w, minlength=self.k)
            self.n += len(y)
            square += float(len(y)) if w is None else float(w @ w)
        self.mass = max(float(class_weight.sum()), 1e-300)
        self.effective = self.mass**2 / max(square, 1e-300)
        self.present = (class_weight > 0) | complete
        self.theta = np.zeros_like(ridge.weight)
        self.exchange(ridge)

    def exchange(self, ridge: Ridge) -> None:
        self.ridge = ridge
        normals = np.where(self.present[:, None], 1.0, 0.0) * np.ones(self.columns)
        if self.present.all():
            penalised = ridge.weight.any(axis=0)
            normals[:, penalised] = ridge.weight[:, penalised]
        if not self.all_columns_shift:
            normals[:, :-1] = 0.0
        self.normals = normals / np.maximum(np.linalg.norm(normals, axis=0), 1e-300)

    @property
    def strength(self) -> float:
        """Lower bound of the Hessian's eigenvalues, from the ridge."""
        return 2.0 * float(self.ridge.weight.min())

    def aligned(self, theta: FloatArray) -> FloatArray:
        """Move parameters into the plane of the optimum, if all classes are present.

        The map stays the same.
        """
        normals = self.normals
        if not self.present.all() or not self.ridge.weight.any():
            return theta
        shift = (normals * (theta - self.ridge.centre)).sum(axis=0)
        mean_shift = shift / np.maximum(normals.sum(axis=0), 1e-300)
        return theta - np.where(self.ridge.weight.any(axis=0), mean_shift, 0.0)

    def project(self, v: Reals) -> FloatArray:
        """Project a direction (k, columns) on those that the search may take."""
        v = v * self.present[:, None]
        return np.asarray(
            v - self.normals * (self.normals * v).sum(axis=0), dtype=np.float64
        )

    def value_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        self.theta = theta
        total = 0.0
        gradient = np.zeros_like(theta)
        for loss, slope in each_chunk(self.chunks, self.loss_and_slope):
            total += loss
            gradient += slope
        away = theta - self.ridge.centre
        weight = self.ridge.weight
        value = total / self.mass + float(np.vdot(weight, away**2))
        return value, self.project(gradient / self.mass + 2 * weight * away)

    def loss_and_slope(self, chunk: Chunk) -> tuple[float, Reals]:
        """Summed NLL of a chunk's rows, and its gradient."""
        p = affine_logits(chunk.x, self.theta)
        losses = softmax_losses(p, chunk.y)
        self.remember(chunk, p)
        p[np.arange(len(chunk)), chunk.y] -= 1.0
        if chunk.w is None:
            return float(losses.sum()), self.backward(chunk.x, p)
        p *= chunk.w[:, None]
        return float(chunk.w @ losses), self.backward(chunk.x, p)

    def remember(self, chunk: Chunk, p: FloatArray) -> None:  # noqa: B027
        """Keep the probabilities of a chunk if Hessian products use them again."""

    @abstractmethod
    def backward(self, x: Reals, r: Reals) -> Reals:
        """Gradient of sum(r * logits) in theta: x, r (b, k)."""

    @abstractmethod
    def direction(self, gradient: FloatArray, tolerance: float) -> NewtonDirection:
        """Newton direction at the last point evaluated."""
