"""The objective of a scale and a bias per class, with an explicit Hessian."""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from calcli.methods._affine import objective
from calcli.methods._affine.objective import (
    NEGLIGIBLE,
    AffineObjective,
    Chunk,
    Chunked,
    Reals,
    Ridge,
    affine_logits,
)
from calcli.numerics import FloatArray, row_max, row_weights
from calcli.solvers import NewtonDirection, conjugate_gradients

# classes up to which the Hessian may be formed, (2k)^2 float64, 46 MB, if rows
# outnumber them
DENSE_CLASSES = 1200
# classes up to which it is formed at once in float64; above, in float32 and only if
# needed
DOUBLE_CLASSES = 256
# k / 32 Hessian products cost about half as much as forming the Hessian
PRODUCTS_WORTH = 32
# directions after which rounding in float32 is to blame (rows of high level): float64
# goes on
ASTRAY = 12


def add_square(total: Reals, jacobian: Reals) -> None:
    """total += J'J, with J (b, k, 2) taken as (b, 2k)."""
    flat = jacobian.reshape(len(jacobian), -1)
    total += flat.T @ flat


def solver_of(hessian: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Make a function that solves H x = g for any g.

    A large H is factored once, by SciPy, which is imported for it.
    """
    if len(hessian) <= 2 * DOUBLE_CLASSES:
        return lambda g: np.asarray(np.linalg.solve(hessian, g))
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(hessian, check_finite=False)
    except LinAlgError:  # by rounding, some direction has negative curvature
        return lambda g: np.asarray(np.linalg.solve(hessian, g))
    return lambda g: np.asarray(cho_solve(factor, g, check_finite=False))


class VectorObjective(AffineObjective):
    """Objective of a scale and a bias per class: theta (k, 2).

    The Hessian (2k, 2k) is small enough to be formed, by one matrix product per block.
    It is kept while steps with it still shrink the decrement a thousandfold.

    Above ``DOUBLE_CLASSES`` classes, and where rows are fewer than classes, the search
    begins with conjugate gradients, preconditioned by one 2 x 2 block per class. With
    many classes their products run in float32 and steer the search, while value and
    gradient, which end it, are float64.

    Some directions need too many products: groups of classes confused with each other,
    rows of high level. The first of them and all after it are found with the Hessian,
    or, with more than ``DENSE_CLASSES`` classes or more classes than rows, with
    products in float64.
    """

    all_columns_shift = False

    solver: Callable[[FloatArray], FloatArray] | None
    narrow: Any
    decrement = 0.0

    def __init__(
        self, chunks: Chunked, ridge: Ridge, *, complete: bool = False
    ) -> None:
        super().__init__(chunks, ridge, complete=complete)
        few = self.k <= DOUBLE_CLASSES
        self.formable = self.k <= min(DENSE_CLASSES, self.n)
        self.dense = self.formable and few
        if few:
            self.narrow = np.float64
            self.jitter = 1e-12
        else:
            self.narrow = np.float32
            self.jitter = 1e-6

    def exchange(self, ridge: Ridge) -> None:
        super().exchange(ridge)
        self.solver = None
        self.directions = 0

    def backward(self, x: Reals, r: Reals) -> Reals:
        return np.stack([np.einsum("ij,ij->j", r, x), r.sum(axis=0)], axis=1)

    def direction(self, gradient: FloatArray, tolerance: float) -> NewtonDirection:
        self.directions += 1
        if self.directions == ASTRAY and self.narrow == np.float32:
            self.narrow = np.float64
            self.jitter = 1e-12
            self.solver = None
        if self.dense:
            return self.direct_direction(gradient)
        trial = self.formable or self.narrow == np.float32
        limit = max(6, self.k // PRODUCTS_WORTH) if trial else 300
        newton = self.iterative_direction(gradient, tolerance, limit)
        if newton.exact or not trial:
            return newton
        # Too many products: go on with the Hessian, or with products in float64.
        self.dense = self.formable
        if not self.dense:
            self.narrow = np.float64
        return self.direction(gradient, tolerance)

    def iterative_direction(
        self, gradient: FloatArray, tolerance: float, limit: int
    ) -> NewtonDirection:
        """Find the direction by conjugate gradients, of at most ``limit`` products."""
        blocks = self.class_blocks()

        def precondition(v: FloatArray) -> FloatArray:
            return self.project(np.einsum("cij,cj->ci", blocks, v))

        return conjugate_gradients(
            self.product, -gradient, precondition, tolerance, limit
        )

    def direct_direction(self, gradient: FloatArray) -> NewtonDirection:
        """Find the direction with the Hessian, an earlier one while it serves."""
        if self.solver is not None:
            step = self.solve(gradient)
            if -float(np.vdot(gradient, step)) < 1e-3 * self.decrement:
                return NewtonDirection(step)
        self.solver = None  # free it before the next one is made
        self.solver = solver_of(self.form_hessian())
        step = self.solve(gradient)
        self.decrement = -float(np.vdot(gradient, step))
        return NewtonDirection(step)

    def solve(self, gradient: FloatArray) -> FloatArray:
        assert self.solver is not None
        return self.project(-self.solver(gradient.ravel()).reshape(self.k, 2))

    def form_hessian(self) -> FloatArray:
        """Form the Hessian, (2k, 2k), on the directions that the search may take."""
        k = self.k
        size = 2 * self.k
        # The matrix product is nearly all the work; a search direction does not need
        # float64.
        negative = np.zeros((size, size), dtype=self.narrow)
        diagonal = np.zeros((k, 2, 2))
        # Rows of the Jacobian are gathered in a batch, which is squared when full.
        batch_rows = max(64, (1 << 23) // (8 * size))
        batch = np.empty((batch_rows, k, 2), dtype=self.narrow)
        filled = 0
        for chunk in self.chunks:
            x = chunk.x
            p = affine_logits(chunk.x, self.theta)
            objective.softmax_losses(p, chunk.y)
            weight = row_weights(chunk.w, len(chunk))
            w = weight / self.mass
            diagonal += self.moments(x, p * w[:, None])
            p *= np.sqrt(w)[:, None]
            for start in range(0, len(x), batch_rows):
                rows = slice(start, start + batch_rows)
                if filled + len(x[rows]) > batch_rows:
                    add_square(negative, batch[:filled])
                    filled = 0
                free = batch[filled : filled + len(x[rows])]
                free[:, :, 1] = p[rows]
                np.multiply(p[rows], x[rows], out=free[:, :, 0], casting="same_kind")
                filled += len(free)
        add_square(negative, batch[:filled])
        hessian = -negative.astype(np.float64)
        del negative
        classes = np.arange(k)
        hessian.reshape(k, 2, k, 2)[classes, :, classes, :] += diagonal
        # Neither rounding nor flat directions without a ridge may make it singular.
        jitter = self.jitter * diagonal[:, [0, 1], [0, 1]].ravel()
        np.einsum("ii->i", hessian)[:] += (
            2 * self.ridge.weight.ravel() + jitter + 1e-300
        )
        self.hold(hessian.reshape(k, 2, k, 2))
        return hessian

    def hold(self, hessian: FloatArray) -> None:
        """Take directions that the search may not take out of a Hessian.

        The Hessian (k, 2, k, 2) becomes a multiple of the identity on absent classes
        and on biases along the normal.
        """
        scale = float(np.einsum("cici->", hessian)) / (2 * self.k)
        absent = ~self.present
        normal = self.normals[:, 1]
        hessian[absent] = 0.0
        hessian[:, :, absent] = 0.0
        hessian[absent, :, absent, :] = scale * np.eye(2)
        biases = hessian[:, 1]
        biases -= normal[:, None, None] * np.tensordot(normal, biases, axes=1)
        biases = hessian[:, :, :, 1]
        biases -= np.tensordot(biases, normal, axes=1)[:, :, None] * normal
        hessian[:, 1, :, 1] += scale * np.outer(normal, normal)

    @staticmethod
    def moments(x: Reals, p: Reals) -> Any:
        """Sums of p (x, 1)(x, 1)' over rows, one 2 x 2 block per class: (k, 2, 2)."""
        first = np.einsum("ij,ij->j", p, x)
        second = np.einsum("ij,ij,ij->j", p, x, x)
        upper = np.stack([second, first], axis=1)
        lower = np.stack([first, p.sum(axis=0)], axis=1)
        return np.stack([upper, lower], axis=1)

    def tile(self, chunk: Chunk) -> tuple[Reals, Reals, Reals]:
        """Compute features of a chunk and probabilities at the last point.

        The third array is the probabilities times weights.
        """
        x = chunk.x.astype(self.narrow, copy=False)
        p = affine_logits(x, self.theta.astype(self.narrow))
        p -= row_max(p)[:, None]
        np.exp(p, out=p)
        p /= p.sum(axis=1)[:, None]
        p[p < NEGLIGIBLE] = 0.0
        if chunk.w is None:
            return x, p, p
        return x, p, p * chunk.w.astype(self.narrow)[:, None]

    def class_blocks(self) -> FloatArray:
        """Inverted diagonal 2 x 2 blocks of the Hessian, (k, 2, 2)."""

        def moments(chunk: Chunk) -> FloatArray:
            x, p, weighted = self.tile(chunk)
            q = weighted * (1 - p)
            return self.moments(x, q)

        sums = objective.each_chunk(self.chunks, moments, self.narrow)
        blocks = reduce(add, sums, np.zeros((self.k, 2, 2))) / self.mass
        blocks[:, [0, 1], [0, 1]] += (
            2 * self.ridge.weight + self.jitter * blocks[:, [0, 1], [0, 1]] + 1e-300
        )
        return np.asarray(np.linalg.inv(blocks))

    def product(self, v: FloatArray) -> FloatArray:
        """Multiply a direction (k, 2) by the Hessian."""
        size = max(float(np.abs(v).max()), 1e-300)
        narrow = (v / size).astype(self.narrow)

        def work(chunk: Chunk) -> Reals:
            x, p, weighted = self.tile(chunk)
            u = affine_logits(x, narrow)
            u -= np.einsum("ij,ij->i", p, u)[:, None]
            u *= weighted
            return self.backward(x, u)

        products = objective.each_chunk(self.chunks, work, self.narrow)
        out = reduce(add, products, np.zeros_like(v))
        return self.project(out * (size / self.mass) + 2 * self.ridge.weight * v)
