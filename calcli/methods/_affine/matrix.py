"""The objective of a full matrix and a bias, with Hessian products and preconditioners."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calcli.methods._affine.objective import AffineObjective, Chunk, Reals, Ridge, affine_logits
from calcli.numerics import FloatArray
from calcli.solvers import NewtonDirection, conjugate_gradients

BLOCK_CLASSES = 160
"""Classes up to which the preconditioner of a full map has one block per class: k^3 float64."""

UNSURE = 1e-6
"""Curvature p (1 - p) of a row below which the preconditioner does without it."""

NEGLIGIBLE = 1e-15
"""Probabilities below this are taken for 0 in products with the Hessian."""


class MatrixObjective(AffineObjective):
    """Objective of a full matrix and a bias: theta (k, k + 1). The chunks lie in memory.

    A gradient costs 4 n k^2 floating-point operations, and so does a product with the
    Hessian. Those run in float32: they steer the search, while value and gradient, which
    decide when it ends, are float64. The preconditioner has one block per class,
    sum p_c (1 - p_c) x x', for few classes, and for many a product of a class factor and
    one feature matrix.
    """

    all_columns_shift = True

    def __init__(self, chunks: list[Chunk], k: int, ridge: Ridge, *, complete: bool = False) -> None:
        super().__init__(chunks, k, k + 1, ridge, complete=complete)
        self.lists = chunks
        self.p: dict[int, NDArray[np.float32]] = {}
        self.precondition: Callable[[FloatArray], FloatArray] | None = None
        self.hard = True

    def exchange(self, ridge: Ridge) -> None:
        super().exchange(ridge)
        self.precondition = None

    def remember(self, chunk: Chunk, p: FloatArray) -> None:
        # Arithmetic with subnormal numbers is tens of times slower, and they carry no weight.
        self.p[id(chunk)] = np.where(p < NEGLIGIBLE, 0.0, p).astype(np.float32)

    def backward(self, x: Reals, r: Reals) -> Reals:
        return np.concatenate([r.T @ x, r.sum(axis=0)[:, None]], axis=1)

    def direction(self, gradient: FloatArray, tolerance: float) -> NewtonDirection:
        if self.precondition is None or self.hard:
            self.precondition = self.by_class() if self.k <= BLOCK_CLASSES else self.factored()
        found = conjugate_gradients(self.product, -gradient, self.precondition, tolerance, 500)
        # A stale preconditioner is worth its price while it still works.
        self.hard = found.products > 20
        return found

    def product(self, v: FloatArray) -> FloatArray:
        """Hessian times a direction (k, k + 1)."""
        size = float(np.abs(v).max())
        if size == 0.0:
            return np.zeros_like(v)
        out = np.zeros(v.shape, dtype=np.float32)
        v32 = (v / size).astype(np.float32)
        for chunk, p in zip(self.lists, self.p.values(), strict=True):
            x = chunk.narrow
            assert x is not None, "these chunks do not lie in memory"
            u = affine_logits(x, v32)
            u -= np.einsum("ij,ij->i", p, u)[:, None]
            u *= p
            if chunk.w is not None:
                u *= chunk.w.astype(np.float32)[:, None]
            out += self.backward(x, u)
        return self.project(out * (size / self.mass) + 2 * self.ridge.weight * v)

    def with_one(self, chunk: Chunk) -> NDArray[np.float32]:
        x = np.ones((len(chunk), self.k + 1), dtype=np.float32)
        x[:, :-1] = chunk.x
        return x

    def by_class(self) -> Callable[[FloatArray], FloatArray]:
        blocks = np.zeros((self.k, self.k + 1, self.k + 1))
        for chunk, p in zip(self.lists, self.p.values(), strict=True):
            x = self.with_one(chunk)
            q = np.ascontiguousarray((p * (1 - p) * (1.0 if chunk.w is None else chunk.w[:, None])).T, dtype=np.float32)
            for c in range(self.k):
                rows = np.flatnonzero(q[c] > UNSURE)
                blocks[c] += (x[rows] * q[c, rows, None]).T @ x[rows]
        blocks /= self.mass
        at = np.arange(self.k + 1)
        scale = blocks[:, at, at].mean(axis=1, keepdims=True)
        blocks[:, at, at] += 2 * self.ridge.weight + 1e-6 * scale + 1e-30
        inverse = np.linalg.inv(blocks)
        return lambda v: self.project(np.matmul(inverse, v[:, :, None])[:, :, 0])

    def factored(self) -> Callable[[FloatArray], FloatArray]:
        features = np.zeros((self.k + 1, self.k + 1))
        per_class, unsure = np.zeros(self.k), 0.0
        for chunk, p in zip(self.lists, self.p.values(), strict=True):
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
