"""Logistic regression with one or two features, to the optimum."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray

GRADIENT = 1e-10
"""A fit is at the optimum when no entry of the mean gradient is larger than this."""

STEPS = 100


class Logistic(NamedTuple):
    """coef : (d,) coefficients. loss : mean NLL there.
    gradient : largest absolute entry of the mean gradient. steps : Newton steps taken."""

    coef: FloatArray
    loss: float
    gradient: float
    steps: int

    @property
    def converged(self) -> bool:
        return self.gradient <= GRADIENT


def sigmoid(u: FloatArray) -> FloatArray:
    """1 / (1 + exp(-u)) without overflow."""
    t = np.exp(-np.abs(u))
    return np.where(u >= 0, 1.0, t) / (1.0 + t)


def fit_logistic(design: FloatArray, target: FloatArray, weight: FloatArray | None, start: FloatArray) -> Logistic:
    """Minimise the mean NLL of target given sigmoid(coef . design) by Newton steps.

    design : (d, n) features, a row of ones among them for an intercept. target : (n,) in
    [0, 1]. weight : (n,) or None. start : (d,). The NLL is convex; a step is halved until
    the NLL falls, so it never grows (but for rounding). The caller makes sure that an optimum exists
    (outcomes neither all alike nor separable).
    """
    n = design.shape[1]
    share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()

    def loss_at(coef: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        u = coef @ design
        t = np.exp(-np.abs(u))
        return float(share @ (np.log1p(t) + np.maximum(u, 0.0) - target * u)), u, t

    coef = np.asarray(start, dtype=np.float64)
    loss, u, t = loss_at(coef)
    for steps in range(STEPS + 1):
        probability = np.where(u >= 0, 1.0, t) / (1.0 + t)
        g = design @ (share * (probability - target))
        gradient = float(np.abs(g).max(initial=0.0))
        if gradient <= GRADIENT or steps == STEPS:
            break
        hessian = (design * (share * t / (1.0 + t) ** 2)) @ design.T
        # Least squares, not solve: saturated rows can make the Hessian singular.
        step = np.linalg.lstsq(hessian, g, rcond=None)[0]
        for _ in range(50):
            trial = loss_at(coef - step)
            # Next to the optimum the sum's rounding is larger than what a step gains.
            if trial[0] <= loss * (1.0 + 1e-14):
                break
            step = step / 2
        coef = coef - step
        loss, u, t = trial
    return Logistic(coef, loss, gradient, steps)


def fit_nonnegative(
    design: FloatArray,
    target: FloatArray,
    weight: FloatArray | None,
    start: FloatArray,
    bounded: int,
) -> Logistic:
    """``fit_logistic`` with the first ``bounded`` coefficients (at most two) at least 0.

    If the free optimum breaks some bounds, the constrained one lies on one of their faces,
    because the NLL is convex: fit there, and take the better.
    """
    free = fit_logistic(design, target, weight, start)
    broken = np.flatnonzero(free.coef[:bounded] < 0)
    if not len(broken):
        return free
    faces = []
    for i in broken:
        face = fit_nonnegative(np.delete(design, i, 0), target, weight, np.delete(start, i), bounded - 1)
        faces.append(face._replace(coef=np.insert(face.coef, i, 0.0)))
    return min(faces, key=lambda face: face.loss)


def smoothed_targets(hit: NDArray[np.bool_], ones: float, zeros: float) -> FloatArray:
    """Targets (n1+1)/(n1+2) and 1/(n0+2) in place of 1 and 0.

    ones, zeros : weight of the positives and of the negatives, n1 and n0. With them the
    optimum is finite whatever the data. (Platt 1999.)
    """
    return np.where(hit, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))


def is_separable(s: FloatArray, hit: NDArray[np.bool_]) -> bool:
    """Whether one threshold on s tells positives from negatives, up to ties at it."""
    ones, zeros = s[hit], s[~hit]
    return bool(zeros.max() <= ones.min() or ones.max() <= zeros.min())


def why_constant(s: FloatArray, hit: NDArray[np.bool_]) -> str:
    """Why no slope can be fitted to scores s with outcomes hit; empty if one can."""
    if hit.all() or not hit.any():
        return "all outcomes are alike, so the map is a constant"
    if s.min() == s.max():
        return "all scores are equal, so the map is a constant"
    return ""


SEPARABLE = "the scores separate right from wrong perfectly, so no slope fits best and the map is a constant"
SMOOTHED = "the scores separate the class perfectly, so the map was fitted to smoothed targets"
NOT_CONVERGED = "the fit did not reach its optimum"
