"""Minimise a smooth convex function by Newton steps, with a certificate of how far it is from its optimum."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from calcli.numerics import FloatArray

__all__ = ["Convex", "Optimum", "conjugate_gradients", "minimise"]

AIM = 1e-10
"""The search ends when the estimated distance to the optimum is this share of the value."""

ACCEPT = 1e-9
"""A search that stalls above this share (rounding, limits) has not converged."""

ROUNDING = 1e-13
"""Distance to the optimum, in nats, below which sums of losses cannot tell."""


class Convex(Protocol):
    """A convex function of an array, with its Newton direction.

    strength : a lower bound of the eigenvalues of its Hessian, 0 when none is known.
    """

    @property
    def strength(self) -> float: ...

    def value_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient at theta."""

    def direction(self, gradient: FloatArray, tolerance: float) -> "Direction":
        """The step s that solves H s = -gradient at the point evaluated last.

        tolerance : relative residual, in the norm of the preconditioner, that is good enough.
        """


@dataclass(frozen=True)
class Direction:
    """A Newton direction, and how it was found.

    exact : the residual reached the tolerance. products : Hessian-vector products spent.
    """

    step: FloatArray
    exact: bool = True
    products: int = 0


@dataclass(frozen=True)
class Optimum:
    """Where a search ended.

    gap : estimate of value - minimum, half the squared Newton decrement (natural log).
    gradient : largest absolute entry of the gradient.
    """

    theta: FloatArray
    value: float
    gap: float
    gradient: float
    steps: int
    products: int
    converged: bool

    def details(self) -> dict[str, Any]:
        """What to record in an artifact."""
        return {
            "objective": self.value,
            "gradient_norm": self.gradient,
            "optimality_gap": self.gap,
            "newton_steps": self.steps,
        }


def minimise(
    f: Convex,
    start: FloatArray,
    *,
    aim: float = AIM,
    steps: int = 200,
    products: int = 20_000,
    progress: Callable[[int], None] = lambda done: None,
) -> Optimum:
    """Minimise a convex function by damped Newton steps.

    The half squared Newton decrement g' H^-1 g / 2 estimates how far the value lies above
    the minimum, whatever the scale of the parameters (where the direction is not good
    enough for that, |g|^2 / (2 strength) bounds it); the search ends when it is ``aim`` of
    the value. Directions need to be exact only near the end. A step is halved (at
    least) until the value falls by a sensible share of what was promised.
    """
    theta = start
    value, gradient = f.value_gradient(theta)
    forcing, spent, gap, exact = 0.1, 0, np.inf, False
    step = 0
    for step in range(steps):
        progress(spent or step)
        direction = f.direction(gradient, forcing)
        spent += direction.products
        exact = direction.exact
        decrement = -float(np.vdot(gradient, direction.step))
        gap = 0.5 * max(decrement, 0.0)
        if not exact and f.strength > 0:
            # Conjugate gradients saw only part of the decrement; strong convexity bounds the rest.
            gap, exact = float(np.vdot(gradient, gradient)) / (2 * f.strength), True
        if (exact and gap <= aim * value + 0.1 * ROUNDING) or spent >= products or decrement <= 0:
            break
        reached = _search(f, theta, direction.step, value, decrement)
        if reached is None:
            break
        theta, value, gradient = reached
        # Ever more exact directions make the search superlinear; more than the aim needs is waste.
        enough = np.sqrt(0.1 * aim * value / max(gap, 1e-300))
        forcing = float(np.clip(max(np.sqrt(decrement / max(value, 1e-300)), enough), 1e-4, 0.1))
    converged = exact and gap <= max(aim, ACCEPT) * value + ROUNDING
    return Optimum(theta, value, gap, float(np.abs(gradient).max()), step, spent, converged)


def _search(
    f: Convex, theta: FloatArray, direction: FloatArray, value: float, decrement: float
) -> tuple[FloatArray, float, FloatArray] | None:
    """The first point along a direction with enough decrease, or None when there is none."""
    t = 1.0
    noise = 8 * np.finfo(np.float64).eps * abs(value)
    for _ in range(60):
        there = theta + t * direction
        reached, gradient = f.value_gradient(there)
        if reached <= value - 1e-4 * t * decrement + noise:
            return there, reached, gradient
        # Minimum of the parabola through the value, its slope, and the value just seen.
        parabola = 0.5 * t * t * decrement / (reached - value + t * decrement)
        t = float(np.clip(parabola, 0.1 * t, 0.5 * t)) if np.isfinite(parabola) else 0.1 * t
    return None


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    precondition: Callable[[FloatArray], FloatArray],
    tolerance: float,
    limit: int,
) -> Direction:
    """Solve H s = right by preconditioned conjugate gradients, H symmetric positive definite.

    Ends when the residual's norm (in the preconditioner) is ``tolerance`` of its first.
    """
    s = np.zeros_like(right)
    residual = right.copy()
    z = precondition(residual)
    d = z
    energy = first = float(np.vdot(residual, z))
    if first <= 0:
        return Direction(s)
    for done in range(1, limit + 1):
        h = product(d)
        curvature = float(np.vdot(d, h))
        if curvature <= 0:  # rounding has eaten a direction that is flat: what we have is a descent step
            return Direction(s if done > 1 else d, False, done)
        length = energy / curvature
        s = s + length * d
        residual = residual - length * h
        z = precondition(residual)
        previous, energy = energy, float(np.vdot(residual, z))
        if energy <= tolerance**2 * first:
            return Direction(s, True, done)
        d = z + (energy / previous) * d
    return Direction(s, False, limit)
