"""Affine maps of whole rows by the squared loss, which is not convex: down from the log loss's optimum."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calcli.numerics import FloatArray, IntArray, log_softmax

GRADIENT = 1e-9
STEPS = 2000


class Squared(NamedTuple):
    """Parameters (k, d) where the search ended, and whether it ended at a stationary point."""

    theta: FloatArray
    converged: bool


def squared_vector(x: FloatArray, y: IntArray, weight: FloatArray | None, theta: FloatArray, ridge: float) -> Squared:
    """softmax(a x + b) of least squared loss plus ridge (|a - 1|^2 + |b|^2). theta : (k, 2), a and b of the start."""
    centre = np.array([1.0, 0.0])

    def scores(t: FloatArray) -> FloatArray:
        return x * t[:, 0] + t[:, 1]

    def back(g: FloatArray) -> FloatArray:
        return np.stack([(g * x).sum(axis=0), g.sum(axis=0)], axis=1)

    def penalty(t: FloatArray) -> tuple[float, FloatArray]:
        return ridge * float(((t - centre) ** 2).sum()), 2.0 * ridge * (t - centre)

    return _descend(scores, back, penalty, y, weight, theta)


def squared_matrix(
    x: FloatArray, y: IntArray, weight: FloatArray | None, theta: FloatArray, lam: float, diagonal: float
) -> Squared:
    """softmax(W x + b) of least squared loss plus lam / (k (k - 1)) sum offdiagonal^2 + lam / k |b|^2.

    theta : (k, k + 1), W and b of the start. diagonal : ridge of the squared distance of the diagonal to 1.
    """
    k = x.shape[1]
    weights, centre = np.full((k, k + 1), lam / (k * (k - 1))), np.zeros((k, k + 1))
    weights[:, -1] = lam / k
    weights[np.arange(k), np.arange(k)], centre[np.arange(k), np.arange(k)] = diagonal, 1.0

    def scores(t: FloatArray) -> FloatArray:
        return x @ t[:, :-1].T + t[:, -1]

    def back(g: FloatArray) -> FloatArray:
        return np.hstack([g.T @ x, g.sum(axis=0)[:, None]])

    def penalty(t: FloatArray) -> tuple[float, FloatArray]:
        return float((weights * (t - centre) ** 2).sum()), 2.0 * weights * (t - centre)

    return _descend(scores, back, penalty, y, weight, theta)


def _descend(
    scores: Callable[[FloatArray], FloatArray],
    back: Callable[[FloatArray], FloatArray],
    penalty: Callable[[FloatArray], tuple[float, FloatArray]],
    y: IntArray,
    weight: FloatArray | None,
    start: FloatArray,
) -> Squared:
    """Minimise mean_n sum_c (p_nc - 1[y_n = c])^2 + penalty; never worse than the start.

    Classes without a row keep their parameters: the loss would drive them away for ever.
    """
    from scipy.optimize import minimize

    share = np.full(len(y), 1.0 / len(y)) if weight is None else weight / weight.sum()
    seen = np.bincount(y, weights=share, minlength=len(start)) > 0
    hit = np.eye(len(start))[y]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        theta = flat.reshape(start.shape)
        p = np.exp(log_softmax(scores(theta)))
        miss = p - hit
        pull = p * (miss - (p * miss).sum(axis=1, keepdims=True)) * (2.0 * share[:, None])
        added, slope = penalty(theta)
        gradient = (back(pull) + slope) * seen[:, None]
        return float(share @ (miss**2).sum(axis=1)) + added, gradient.ravel()

    options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "gtol": GRADIENT, "ftol": 0.0, "maxcor": 30}
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    if not found.fun < loss(start.ravel())[0]:
        return Squared(start, True)
    # L-BFGS ends in its line search where rounding leaves no step; far from stationary it has not arrived.
    return Squared(found.x.reshape(start.shape), bool(np.abs(found.jac).max() <= 1e3 * GRADIENT))
