"""Softmax of an affine map of the scores: the objectives of vector and matrix scaling.

Row i has features x (k,), the map gives logits l = W x + b, and the objective is the
(weighted) mean NLL of softmax(l) plus a ridge, sum R (theta - centre)^2 entry by entry.
It is convex in theta. Parameters lie class by class: ``(k, 2)`` scale and bias for a
diagonal W, ``(k, k + 1)`` weights and bias for a full one.

Rows are walked over in blocks: nothing of size classes x rows x classes ever exists.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.methods._affine_newton import Direction, conjugate_gradients
from calcli.numerics import FloatArray, IntArray
from calcli.rows import Block, Rows

__all__ = [
    "AffineObjective",
    "Chunk",
    "Chunked",
    "Chunks",
    "DiagonalObjective",
    "Features",
    "MatrixObjective",
    "Ridge",
    "affine_logits",
    "held_in_memory",
    "mean_nll",
]

Reals = NDArray[np.floating[Any]]
"""float64, or float32 where a Hessian product runs."""

Features = Callable[[Block], FloatArray]
"""What a method makes of a block's scores: (b, k) float64."""

SMALL = 1 << 25
"""Bytes of features in float64 up to which they are computed once and kept."""

DENSE_CLASSES = 1536
"""Classes up to which the Hessian of a diagonal map is formed: (2k)^2 float64, 75 MB."""

BLOCK_CLASSES = 160
"""Classes up to which the preconditioner of a full map has one block per class: k^3 float64."""


@dataclass(frozen=True)
class Ridge:
    """A quadratic penalty: sum of weight * (theta - centre)^2.

    weight : (k, m) float64 >= 0. centre : (k, m) float64.
    """

    weight: FloatArray
    centre: FloatArray

    def value(self, theta: FloatArray) -> float:
        return float(np.vdot(self.weight, (theta - self.centre) ** 2))

    def gradient(self, theta: FloatArray) -> FloatArray:
        return 2 * self.weight * (theta - self.centre)


@dataclass(frozen=True)
class Chunk:
    """Some rows: features (b, k) float64, labels (b,), weights (b,) or None."""

    x: FloatArray
    y: IntArray
    w: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.y)


class Chunks:
    """Features of labelled rows, walked over again and again; kept when they are small."""

    def __init__(self, rows: Rows, features: Features) -> None:
        self.n, self.k = rows.n, rows.k
        self.rows, self.features = rows, features
        self.kept = list(self.walk()) if 8 * rows.n * rows.k <= SMALL else None

    def walk(self) -> Iterator[Chunk]:
        for block in self.rows.blocks():
            yield Chunk(self.features(block), block.labels, block.weight)

    def __iter__(self) -> Iterator[Chunk]:
        return self.walk() if self.kept is None else iter(self.kept)


def held_in_memory(x: FloatArray, y: IntArray, w: FloatArray | None, slices: Iterable[slice]) -> list[Chunk]:
    """Chunks of a few MiB over parts of arrays; nothing is copied."""
    size = max(64, (1 << 21) // (8 * x.shape[1]))
    chunks = []
    for part in slices:
        start, stop, _ = part.indices(len(y))
        for at in range(start, stop, size):
            rows = slice(at, min(at + size, stop))
            chunks.append(Chunk(x[rows], y[rows], None if w is None else w[rows]))
    return chunks


Chunked = Chunks | list[Chunk]


def affine_logits(x: Reals, theta: Reals) -> Any:
    """Logits of the map: x (b, k), theta (k, 2) for a diagonal map or (k, k + 1)."""
    bias = theta[:, -1]
    if theta.shape[1] == 2:
        return x * theta[:, 0] + bias
    return x @ theta[:, :-1].T + bias


def softmax_losses(l: FloatArray, y: IntArray) -> FloatArray:
    """NLL of each row, (b,); the logits l (b, k) are overwritten with the probabilities."""
    at = np.arange(len(y))
    l -= l.max(axis=1, keepdims=True)
    l_y = l[at, y]
    np.exp(l, out=l)
    total: FloatArray = l.sum(axis=1)
    l /= total[:, None]
    np.log(total, out=total)
    return total - l_y


def mean_nll(chunks: Chunked, theta: FloatArray) -> float:
    """Weighted mean NLL of softmax(W x + b)."""
    total = mass = 0.0
    for chunk in chunks:
        w = np.ones(len(chunk)) if chunk.w is None else chunk.w
        total += float(w @ softmax_losses(affine_logits(chunk.x, theta), chunk.y))
        mass += float(w.sum())
    return total / max(mass, 1e-300)


class AffineObjective(ABC):
    """Mean NLL of softmax(W x + b) plus a ridge.

    present : (k,) bool, classes that the rows hold; the rows of theta of the others stay
    where they start, and then the present ones may not move together (all logits but the
    absent ones' up is the same as the absent ones' down). ridge may be exchanged between
    searches.
    """

    def __init__(self, chunks: Chunked, k: int, columns: int, ridge: Ridge) -> None:
        self.chunks, self.k, self.columns, self.ridge = chunks, k, columns, ridge
        held = np.zeros(k)
        for chunk in chunks:
            held += np.bincount(chunk.y, weights=chunk.w, minlength=k)
        self.mass = max(float(held.sum()), 1e-300)
        self.present = held > 0
        self.theta = np.zeros((k, columns))

    def project(self, v: FloatArray) -> FloatArray:
        """The part of a direction (k, m, ...) that the search may take."""
        absent = not self.present.all()
        gauge_free = not self.ridge.weight.all()
        v = v * self.present.reshape(-1, *[1] * (v.ndim - 1))
        centred = slice(None) if self.all_columns_shift and (absent or gauge_free) else slice(-1, None)
        v[self.present, centred] -= v[self.present, centred].mean(axis=0) if self.present.any() else 0.0
        return v

    all_columns_shift: bool
    """Does adding one row vector to all rows of theta leave the softmax as it is?"""

    def value_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        self.theta = theta
        total, gradient = 0.0, np.zeros_like(theta)
        for index, chunk in enumerate(self.chunks):
            p = affine_logits(chunk.x, theta)
            losses = softmax_losses(p, chunk.y)
            self.remember(index, p)
            p[np.arange(len(chunk)), chunk.y] -= 1.0
            if chunk.w is None:
                total += float(losses.sum())
            else:
                total += float(chunk.w @ losses)
                p *= chunk.w[:, None]
            gradient += self.backward(chunk.x, p)
        value = total / self.mass + self.ridge.value(theta)
        return value, self.project(gradient / self.mass + self.ridge.gradient(theta))

    def remember(self, index: int, p: FloatArray) -> None:
        """Keep the probabilities of a chunk where Hessian products use them again."""
        return

    @abstractmethod
    def backward(self, x: Reals, r: Reals) -> Reals:
        """Gradient of sum(r * logits) in theta: x, r (b, k)."""

    @abstractmethod
    def direction(self, gradient: FloatArray, tolerance: float) -> Direction:
        """Newton direction at the point evaluated last."""


class DiagonalObjective(AffineObjective):
    """Objective of a scale and a bias per class: theta (k, 2).

    The Hessian (2k, 2k) is small enough to be formed, by one matrix product per block, and
    is kept while steps with it still shrink the decrement a thousandfold. Beyond
    ``DENSE_CLASSES`` classes, conjugate gradients with one 2 x 2 block per class.
    """

    all_columns_shift = False

    def __init__(self, chunks: Chunked, k: int, ridge: Ridge) -> None:
        super().__init__(chunks, k, 2, ridge)
        self.inverse: FloatArray | None = None
        self.decrement = 0.0

    def backward(self, x: Reals, r: Reals) -> Reals:
        return np.stack([np.einsum("ij,ij->j", r, x), r.sum(axis=0)], axis=1)

    def probabilities(self) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Chunk by chunk: features, probabilities at the last point, weights over the total."""
        for chunk in self.chunks:
            p = affine_logits(chunk.x, self.theta)
            softmax_losses(p, chunk.y)
            w = np.ones(len(chunk)) if chunk.w is None else chunk.w
            yield chunk.x, p, w / self.mass

    def direction(self, gradient: FloatArray, tolerance: float) -> Direction:
        if self.k > DENSE_CLASSES:
            blocks = self.class_blocks()
            precondition = lambda v: self.project(np.einsum("cij,cj->ci", blocks, v))  # noqa: E731
            return conjugate_gradients(self.product, -gradient, precondition, tolerance, 300)
        if self.inverse is not None:
            step = self.solve(gradient)
            if -float(np.vdot(gradient, step)) < 1e-3 * self.decrement:
                return Direction(step)
        self.inverse = self.inverted_hessian()
        step = self.solve(gradient)
        self.decrement = -float(np.vdot(gradient, step))
        return Direction(step)

    def solve(self, gradient: FloatArray) -> FloatArray:
        assert self.inverse is not None
        return self.project(-(self.inverse @ gradient.ravel()).reshape(self.k, 2))

    def inverted_hessian(self) -> FloatArray:
        """Inverse of the Hessian, (2k, 2k), on the directions that the search may take."""
        k, size = self.k, 2 * self.k
        hessian = np.zeros((size, size))
        diagonal = np.zeros((k, 2, 2))
        for x, p, w in self.probabilities():
            root = np.sqrt(w)[:, None]
            jacobian = np.empty((len(x), k, 2))
            np.multiply(p, root, out=jacobian[:, :, 1])
            np.multiply(jacobian[:, :, 1], x, out=jacobian[:, :, 0])
            flat = jacobian.reshape(len(x), size)
            hessian -= flat.T @ flat
            diagonal += self.moments(x, p, w)
        at = np.arange(k)
        hessian.reshape(k, 2, k, 2)[at, :, at, :] += diagonal
        # Rounding, and flat directions that no ridge holds, must not make it singular.
        each = np.arange(size)
        hessian[each, each] += 2 * self.ridge.weight.ravel() + 1e-12 * diagonal[:, [0, 1], [0, 1]].ravel()
        free = self.project(hessian.reshape(k, 2, size)).reshape(size, size)
        free = self.project(np.ascontiguousarray(free.T).reshape(k, 2, size)).reshape(size, size)
        held = np.eye(size) - self.project(np.eye(size).reshape(k, 2, size)).reshape(size, size)
        free += held * (np.trace(free) / size + 1e-300)
        return np.asarray(np.linalg.inv(free))

    @staticmethod
    def moments(x: FloatArray, p: FloatArray, q: FloatArray) -> FloatArray:
        """Weighted sums of p (x, 1)(x, 1)' over rows, one 2 x 2 block per class: (k, 2, 2)."""
        p = p * q[:, None]
        first = np.einsum("ij,ij->j", p, x)
        second = np.einsum("ij,ij,ij->j", p, x, x)
        return np.stack([np.stack([second, first], axis=1), np.stack([first, p.sum(axis=0)], axis=1)], axis=1)

    def class_blocks(self) -> FloatArray:
        """Inverted diagonal 2 x 2 blocks of the Hessian, (k, 2, 2)."""
        blocks = np.zeros((self.k, 2, 2))
        for x, p, w in self.probabilities():
            blocks += self.moments(x, p * (1 - p), w)
        blocks[:, [0, 1], [0, 1]] += 2 * self.ridge.weight + 1e-12 * blocks[:, [0, 1], [0, 1]] + 1e-300
        return np.asarray(np.linalg.inv(blocks))

    def product(self, v: FloatArray) -> FloatArray:
        """Hessian times a direction (k, 2)."""
        out = np.zeros_like(v)
        for x, p, w in self.probabilities():
            u = affine_logits(x, v)
            u -= np.einsum("ij,ij->i", p, u)[:, None]
            u *= p
            u *= w[:, None]
            out += self.backward(x, u)
        return self.project(out + 2 * self.ridge.weight * v)


class MatrixObjective(AffineObjective):
    """Objective of a full matrix and a bias: theta (k, k + 1). The chunks lie in memory.

    A gradient costs 4 n k^2 floating-point operations, and so does a product with the
    Hessian. Those run in float32: they steer the search, while value and gradient, which
    decide when it ends, are float64. The preconditioner has one block per class,
    sum p_c (1 - p_c) x x', for few classes, and for many a product of a class factor and
    one feature matrix.
    """

    all_columns_shift = True

    def __init__(self, chunks: list[Chunk], k: int, ridge: Ridge) -> None:
        super().__init__(chunks, k, k + 1, ridge)
        self.lists = chunks
        self.p: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(chunks)
        self.precondition: Callable[[FloatArray], FloatArray] | None = None
        self.hard = True

    def remember(self, index: int, p: FloatArray) -> None:
        self.p[index] = p.astype(np.float32)

    def backward(self, x: Reals, r: Reals) -> Reals:
        return np.concatenate([r.T @ x, r.sum(axis=0)[:, None]], axis=1)

    def direction(self, gradient: FloatArray, tolerance: float) -> Direction:
        if self.precondition is None or self.hard:
            self.precondition = self.by_class() if self.k <= BLOCK_CLASSES else self.factored()
        found = conjugate_gradients(self.product, -gradient, self.precondition, tolerance, 500)
        # A stale preconditioner is worth its price while it still works.
        self.hard = found.products > 20
        return found

    def product(self, v: FloatArray) -> FloatArray:
        """Hessian times a direction (k, k + 1)."""
        out = np.zeros(v.shape, dtype=np.float32)
        v32 = v.astype(np.float32)
        for chunk, p in zip(self.lists, self.p, strict=True):
            x = chunk.x.astype(np.float32)
            u = affine_logits(x, v32)
            u -= np.einsum("ij,ij->i", p, u)[:, None]
            u *= p
            if chunk.w is not None:
                u *= chunk.w.astype(np.float32)[:, None]
            out += self.backward(x, u)
        return self.project(out / self.mass + 2 * self.ridge.weight * v)

    def with_one(self, chunk: Chunk) -> NDArray[np.float32]:
        x = np.ones((len(chunk), self.k + 1), dtype=np.float32)
        x[:, :-1] = chunk.x
        return x

    def by_class(self) -> Callable[[FloatArray], FloatArray]:
        blocks = np.zeros((self.k, self.k + 1, self.k + 1))
        for chunk, p in zip(self.lists, self.p, strict=True):
            x = self.with_one(chunk)
            q = np.ascontiguousarray((p * (1 - p) * (1.0 if chunk.w is None else chunk.w[:, None])).T)
            for c in range(self.k):
                blocks[c] += (x * q[c][:, None].astype(np.float32)).T @ x
        blocks /= self.mass
        at = np.arange(self.k + 1)
        scale = blocks[:, at, at].mean(axis=1, keepdims=True)
        blocks[:, at, at] += 2 * self.ridge.weight + 1e-6 * scale + 1e-30
        inverse = np.linalg.inv(blocks)
        return lambda v: self.project(np.matmul(inverse, v[:, :, None])[:, :, 0])

    def factored(self) -> Callable[[FloatArray], FloatArray]:
        features = np.zeros((self.k + 1, self.k + 1))
        per_class, unsure = np.zeros(self.k), 0.0
        for chunk, p in zip(self.lists, self.p, strict=True):
            x = self.with_one(chunk)
            w = np.ones(len(chunk)) if chunk.w is None else chunk.w
            q = w * (1.0 - np.einsum("ij,ij->i", p, p))
            features += (x * np.sqrt(np.maximum(q, 0.0))[:, None].astype(np.float32)).T @ (
                x * np.sqrt(np.maximum(q, 0.0))[:, None].astype(np.float32)
            )
            per_class += w @ (p * (1 - p))
            unsure += float(q.sum())
        values, vectors = np.linalg.eigh(features / self.mass)
        share = per_class / max(unsure, 1e-300)
        typical = 2 * np.median(self.ridge.weight, axis=1) + 1e-6 * share * values.mean() + 1e-30
        curvature = share[:, None] * np.maximum(values, 0.0) + typical[:, None]
        return lambda v: self.project(((v @ vectors) / curvature) @ vectors.T)
