"""The objective of a full matrix and a bias.

With Hessian products and preconditioners.
"""

from collections.abc import Callable, Iterator
from functools import partial, reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from calcli.methods._affine.objective import (
    NEGLIGIBLE,
    AffineObjective,
    Chunk,
    Reals,
    Ridge,
    affine_logits,
    each_chunk,
)
from calcli.numerics import FloatArray, IntArray
from calcli.parallel import in_order
from calcli.solvers import NewtonDirection, conjugate_gradients

# classes up to which the preconditioner of a full map has one block per class: k^3
# float64
BLOCK_CLASSES = 160
# classes up to which those blocks cost no more than the products that they save
FEW_CLASSES = 32
# classes whose blocks are computed and used together, in parallel with other parts
PART = 16
# Hessian products for one direction from which a better or renewed preconditioner pays
HARD = 20
UNSURE = 1e-6  # curvature p (1 - p) below which a row is left out of the preconditioner
# share of a block's mean curvature added to its diagonal: above float32 rounding, so it
# stays positive
JITTER = 1e-5
Linear = Callable[[FloatArray], FloatArray]


class MatrixObjective(AffineObjective):
    """Objective of a full matrix and a bias: theta (k, k + 1).

    The chunks lie in memory. A gradient costs 4 n k^2 floating-point operations, and so
    does a product with the Hessian. Products run in float32: they steer the search.
    Value and gradient, which decide when it ends, are float64.

    The preconditioner is kept while it works, under another ridge too.

    - For few classes it has one block per class, sum p_c (1 - p_c) x x'.
    - For more it is the diagonal, as cheap as a product. From the first hard direction
      on it has those blocks.
    - For very many classes it is then the product of a class factor and one feature
      matrix.
    """

    all_columns_shift = True
    aim = 1e-12

    chunks: list[Chunk]
    under_ridge: Callable[[], Linear] | None = None
    precondition: Linear | None

    def __init__(
        self, chunks: list[Chunk], ridge: Ridge, *, complete: bool = False
    ) -> None:
        super().__init__(chunks, ridge, complete=complete)
        self.p: dict[int, NDArray[np.float32]] = {}
        self.curvature: Callable[[], Callable[[], Linear]] = (
            self.by_class if self.k <= FEW_CLASSES else self.diagonal
        )

    def exchange(self, ridge: Ridge) -> None:
        super().exchange(ridge)
        self.precondition = None

    def remember(self, chunk: Chunk, p: FloatArray) -> None:
        self.p[id(chunk)] = np.where(p < NEGLIGIBLE, 0.0, p).astype(np.float32)

    def backward(self, x: Reals, r: Reals) -> Reals:
        return np.concatenate([r.T @ x, r.sum(axis=0)[:, None]], axis=1)

    def direction(self, gradient: FloatArray, tolerance: float) -> NewtonDirection:
        if self.under_ridge is None:
            self.under_ridge = self.curvature()
            self.precondition = None
        if self.precondition is None:
            self.precondition = self.under_ridge()
        newton = conjugate_gradients(
            self.product, -gradient, self.precondition, tolerance, 500
        )
        if newton.products > HARD or not newton.exact:
            self.curvature = self.by_class if self.k <= BLOCK_CLASSES else self.factored
            self.under_ridge = None
        return newton

    def product(self, v: FloatArray) -> FloatArray:
        """Multiply a direction (k, k + 1) by the Hessian."""
        size = float(np.abs(v).max())
        if size == 0.0:
            return np.zeros_like(v)
        v32 = (v / size).astype(np.float32)

        def work(chunk: Chunk) -> Reals:
            x = chunk.narrow
            p = self.p[id(chunk)]
            assert x is not None, "these chunks do not lie in memory"
            u = affine_logits(x, v32)
            u -= np.einsum("ij,ij->i", p, u)[:, None]
            u *= p
            if chunk.w is not None:
                u *= chunk.w.astype(np.float32)[:, None]
            return self.backward(x, u)

        out = reduce(add, each_chunk(self.chunks, work))
        return self.project(out * (size / self.mass) + 2 * self.ridge.weight * v)

    def unsure(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Yield features with a one, (b, k + 1), and weighted curvatures.

        The curvatures are p (1 - p), (b, k). Chunk by chunk.
        """
        for chunk in self.chunks:
            x = np.ones((len(chunk), self.k + 1), dtype=np.float32)
            p = self.p[id(chunk)]
            x[:, :-1] = chunk.x
            q = p * (1 - p)
            if chunk.w is not None:
                q = (q * chunk.w[:, None]).astype(np.float32)
            yield x, q

    def diagonal(self) -> Callable[[], Linear]:
        """Precondition by the diagonal of the Hessian."""
        sums = (q.T @ (x * x) for x, q in self.unsure())
        of_loss = reduce(add, sums) / self.mass

        def under_ridge() -> Linear:
            typical = 1e-6 * of_loss.mean(axis=1, keepdims=True)
            curvature = of_loss + (2 * self.ridge.weight + typical + 1e-30)
            return lambda v: self.project(v / curvature)

        return under_ridge

    def by_class(self) -> Callable[[], Linear]:
        """Precondition by the diagonal block of every class."""
        parts = np.array_split(np.arange(self.k), -(-self.k // PART))
        blocks = np.zeros((self.k, self.k + 1, self.k + 1))
        diagonal = np.arange(self.k + 1)

        def invert(part: IntArray) -> FloatArray:
            some = blocks[part]
            scale = some[:, diagonal, diagonal].mean(axis=1, keepdims=True)
            jitter = JITTER * scale
            some[:, diagonal, diagonal] += 2 * self.ridge.weight[part] + jitter + 1e-30
            return np.asarray(np.linalg.inv(some), dtype=np.float64)

        def under_ridge() -> Linear:
            inverses = list(zip(parts, in_order(invert, parts), strict=True))

            def solve(part: tuple[IntArray, FloatArray], v: FloatArray) -> FloatArray:
                classes, inverse = part
                return np.matmul(inverse, v[classes, :, None])[:, :, 0]

            def precondition(v: FloatArray) -> FloatArray:
                solutions = list(in_order(partial(solve, v=v), inverses))
                return self.project(np.concatenate(solutions))

            return precondition

        for x, q in self.unsure():
            by_class = np.ascontiguousarray(q.T)

            def add_to(part: IntArray, x: Reals = x, q: Reals = by_class) -> None:
                for c in part:
                    rows = np.flatnonzero(q[c] > UNSURE)
                    root = x[rows] * np.sqrt(q[c, rows, None])
                    blocks[c] += root.T @ root

            list(in_order(add_to, parts))
        blocks /= self.mass
        return under_ridge

    def factored(self) -> Callable[[], Linear]:
        """Precondition by the product of a class factor and one feature matrix."""
        features = np.zeros((self.k + 1, self.k + 1))
        per_class = np.zeros(self.k)
        for x, q in self.unsure():
            root = x * np.sqrt(q.sum(axis=1))[:, None]
            features += root.T @ root
            per_class += q.sum(axis=0)
        values, vectors = np.linalg.eigh(features / self.mass)
        share = per_class / max(float(per_class.sum()), 1e-300)

        def under_ridge() -> Linear:
            typical = (
                2 * np.median(self.ridge.weight, axis=1)
                + 1e-6 * share * values.mean()
                + 1e-30
            )
            curvature = share[:, None] * np.maximum(values, 0.0) + typical[:, None]
            return lambda v: self.project(((v @ vectors) / curvature) @ vectors.T)

        return under_ridge
