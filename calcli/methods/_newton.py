"""Newton's method for a handful of parameters whose derivatives stream over the rows."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from calcli.numerics import FloatArray

__all__ = ["Minimum", "Objective", "minimise"]

Objective = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]
"""Parameters (m,) to the value, the gradient (m,) and the Hessian (m, m)."""


class Minimum(NamedTuple):
    """Where a search ended. gradient : largest absolute entry of the projected gradient."""

    x: FloatArray
    value: float
    gradient: float
    evaluations: int
    status: Literal["ok", "not_converged"]


def minimise(
    f: Objective,
    start: FloatArray,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    tolerance: float = 1e-10,
    longest: float = np.inf,
    limit: int = 100,
) -> Minimum:
    """Minimise a smooth function of few variables, each in [low, high].

    Parameters at a bound with the gradient pushing outwards are held, the others take a
    Newton step in which eigenvalues of the Hessian are made positive, projected onto the
    box and halved until the value falls enough (Bertsekas 1982). ``longest`` limits the
    largest entry of a step. On a convex function this is the global minimum; elsewhere a
    stationary point that is no worse than the start. ``ok`` means that the projected
    gradient is at most ``tolerance``, or that rounding leaves no step that improves.
    """
    x = np.clip(np.asarray(start, dtype=np.float64), low, high)
    value, gradient, hessian = f(x)
    evaluations = 1
    while True:
        push = np.abs(np.clip(x - gradient, low, high) - x)
        if push.max() <= tolerance:
            return Minimum(x, value, float(push.max()), evaluations, "ok")
        if evaluations >= limit:
            return Minimum(x, value, float(push.max()), evaluations, "not_converged")
        free = ~(((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0)))
        step = np.zeros_like(x)
        curvature, axes = np.linalg.eigh(hessian[np.ix_(free, free)])
        floor = 1e-12 * max(1e-30, float(np.abs(curvature).max()))
        step[free] = -axes @ ((axes.T @ gradient[free]) / np.maximum(np.abs(curvature), floor))
        step *= min(1.0, longest / max(1e-300, float(np.abs(step).max())))
        rounding = 1e-14 * (1.0 + abs(value))
        for halvings in range(40):
            trial = np.clip(x + 0.5**halvings * step, low, high)
            trial_value, trial_gradient, trial_hessian = f(trial)
            evaluations += 1
            if trial_value <= value + 1e-4 * (gradient @ (trial - x)) + rounding:
                break
        else:
            return Minimum(x, value, float(push.max()), evaluations, "not_converged")
        stalled = trial_value >= value - rounding and push.max() <= 1e3 * tolerance
        x, value, gradient, hessian = trial, trial_value, trial_gradient, trial_hessian
        if stalled:
            push = np.abs(np.clip(x - gradient, low, high) - x)
            return Minimum(x, value, float(push.max()), evaluations, "ok")
