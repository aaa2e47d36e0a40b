"""The objective of a scale and a bias per class, with its Hessian formed outright."""

from collections.abc import Callable, Iterator

import numpy as np

from calcli.methods._affine.objective import AffineObjective, Chunked, Reals, Ridge, affine_logits, softmax_losses
from calcli.numerics import FloatArray
from calcli.solvers import NewtonDirection, conjugate_gradients

DENSE_CLASSES = 1200
"""Classes up to which the Hessian of a diagonal map is formed, (2k)^2 float64, 46 MB: where rows outnumber them."""

DOUBLE_CLASSES = 256
"""Classes up to which that Hessian is summed in float64, above in float32."""


def add_square(total: Reals, jacobian: Reals) -> None:
    """total += J'J, with J (b, k, 2) taken as (b, 2k)."""
    flat = jacobian.reshape(len(jacobian), -1)
    total += flat.T @ flat


def solver_of(hessian: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """What solves H x = g for one g after the other. A large H is factored once, by SciPy, which loads for it."""
    if len(hessian) <= 2 * DOUBLE_CLASSES:
        return lambda g: np.asarray(np.linalg.solve(hessian, g))
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(hessian, check_finite=False)
    except LinAlgError:  # rounding has left it a direction of negative curvature
        return lambda g: np.asarray(np.linalg.solve(hessian, g))
    return lambda g: np.asarray(cho_solve(factor, g, check_finite=False))


class VectorObjective(AffineObjective):
    """Objective of a scale and a bias per class: theta (k, 2).

    The Hessian (2k, 2k) is small enough to be formed, by one matrix product per block, and
    is kept while steps with it still shrink the decrement a thousandfold. With more than
    ``DENSE_CLASSES`` classes or than rows, conjugate gradients with one 2 x 2 block per class.
    """

    all_columns_shift = False

    def __init__(self, chunks: Chunked, k: int, ridge: Ridge, *, complete: bool = False) -> None:
        super().__init__(chunks, k, 2, ridge, complete=complete)
        self.solver: Callable[[FloatArray], FloatArray] | None = None
        self.decrement = 0.0
        self.dense = k <= min(DENSE_CLASSES, sum(len(chunk) for chunk in chunks))

    def exchange(self, ridge: Ridge) -> None:
        super().exchange(ridge)
        self.solver = None

    def backward(self, x: Reals, r: Reals) -> Reals:
        return np.stack([np.einsum("ij,ij->j", r, x), r.sum(axis=0)], axis=1)

    def probabilities(self) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Chunk by chunk: features, probabilities at the last point, weights over the total."""
        for chunk in self.chunks:
            p = affine_logits(chunk.x, self.theta)
            softmax_losses(p, chunk.y)
            w = np.ones(len(chunk)) if chunk.w is None else chunk.w
            yield chunk.x, p, w / self.mass

    def direction(self, gradient: FloatArray, tolerance: float) -> NewtonDirection:
        if not self.dense:
            blocks = self.class_blocks()
            precondition = lambda v: self.project(np.einsum("cij,cj->ci", blocks, v))  # noqa: E731
            return conjugate_gradients(self.product, -gradient, precondition, tolerance, 300)
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
        """The Hessian, (2k, 2k), on the directions that the search may take."""
        k, size = self.k, 2 * self.k
        # The matrix product is nearly all the work; a search direction has no need of float64.
        dtype, jitter = (np.float64, 1e-12) if k <= DOUBLE_CLASSES else (np.float32, 1e-6)
        negative = np.zeros((size, size), dtype=dtype)
        diagonal = np.zeros((k, 2, 2))
        batch, filled = np.empty((max(64, (1 << 23) // (8 * size)), k, 2), dtype=dtype), 0
        for x, p, w in self.probabilities():
            diagonal += self.moments(x, p, w)
            p *= np.sqrt(w)[:, None]
            for at in range(0, len(x), len(batch)):
                rows = slice(at, at + len(batch))
                if filled + len(x[rows]) > len(batch):
                    add_square(negative, batch[:filled])
                    filled = 0
                here = batch[filled : filled + len(x[rows])]
                here[:, :, 1] = p[rows]
                np.multiply(p[rows], x[rows], out=here[:, :, 0], casting="same_kind")
                filled += len(here)
        add_square(negative, batch[:filled])
        hessian = -negative.astype(np.float64)
        del negative
        own = np.arange(k)
        hessian.reshape(k, 2, k, 2)[own, :, own, :] += diagonal
        # Rounding, and flat directions that no ridge holds, must not make it singular.
        np.einsum("ii->i", hessian)[:] += (
            2 * self.ridge.weight.ravel() + jitter * diagonal[:, [0, 1], [0, 1]].ravel() + 1e-300
        )
        self.hold(hessian.reshape(k, 2, k, 2))
        return hessian

    def hold(self, hessian: FloatArray) -> None:
        """Make a Hessian (k, 2, k, 2) the identity, up to a factor, on directions not taken.

        Those are the rows of absent classes and the biases along their normal.
        """
        scale = float(np.einsum("cici->", hessian)) / (2 * self.k)
        absent, normal = ~self.present, self.normals[:, 1]
        hessian[absent] = 0.0
        hessian[:, :, absent] = 0.0
        hessian[absent, :, absent, :] = scale * np.eye(2)
        biases = hessian[:, 1]
        biases -= normal[:, None, None] * np.tensordot(normal, biases, axes=1)
        biases = hessian[:, :, :, 1]
        biases -= np.tensordot(biases, normal, axes=1)[:, :, None] * normal
        hessian[:, 1, :, 1] += scale * np.outer(normal, normal)

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
