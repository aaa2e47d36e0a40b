"""Safeguarded Newton methods: root of an increasing function, minima in few and in many
parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from calcli.numerics import FloatArray

# Newton steps to one side after which the end is evaluated: they are short where a
# function flattens
CREEPING = 12
# steps after which a bracket that has not halved is bisected
SLOW = 8


class Root(NamedTuple):
    """Root of an increasing function, with the status of the search."""

    x: float
    value: float
    evaluations: int
    status: Literal["ok", "at_low", "at_high", "not_converged"]


Slope = Callable[[float], tuple[float, float]]  # maps a point to value and derivative
Curve = Callable[[float], tuple[float, float, float]]
"""Maps a point to value and two derivatives."""


def halley(curve: Curve) -> Slope:
    """Turn the Newton steps of a search into Halley's, whose error is cubed each time.

    With f'' at hand, a step along the slope f' - f f'' / (2 f') is Halley's. Far from
    the root that correction may be anything; it changes the slope by at most 2.
    """

    def slope(x: float) -> tuple[float, float]:
        value, first, second = curve(x)
        if first <= 0:
            return value, first
        corrected = first - 0.5 * value * second / first
        return value, min(max(corrected, 0.5 * first), 2.0 * first)

    return slope


def halved(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    width: float = 0.0,
    halvings: int = 1000,
) -> tuple[float, float]:
    """Halve an interval around the place up to which a condition holds.

    It holds at ``low`` and not at ``high``. Returns an interval of at most ``width``, or
    the last one.
    """
    for _ in range(halvings):
        if not high - low > width:
            break
        middle = (low + high) / 2.0
        if holds(middle):
            low = middle
        else:
            high = middle
    return low, high


def find_root(
    f: Slope,
    low: float,
    high: float,
    start: float,
    *,
    step: float = 1e-10,
    flat: float = 0.0,
    limit: int = 100,
) -> Root:
    """Find the root of a non-decreasing function by Newton steps kept inside a bracket.

    The bracket shrinks with the sign of every value; a Newton step that leaves it, or
    that shrinks it too slowly, becomes a bisection. The ends are evaluated only when
    the search runs into them, which saves two passes over the data in the ordinary
    case.

    The search stops when a step is at most ``step`` (absolute, in the units of x) or
    when \\|f\\| <= ``flat``; ``at_low`` / ``at_high`` say that f has no sign change
    inside.
    """
    bracket = Bracket(low, high, high - low)
    x = min(max(start, low), high)
    for evaluations in range(1, limit + 1):
        value, slope = f(x)
        if abs(value) <= flat:
            # Where f is 0 on an interval beyond the range of the data, that is a root as well.
            return Root(x, value, evaluations, "ok")
        end = _end_without_root(x, value, low, high)
        if end is not None:
            return Root(x, value, evaluations, end)
        bracket.shrink(x, value)
        newton = x - value / slope if slope > 0 else np.inf * -value
        if bracket.is_closed:
            may_bisect = evaluations > SLOW and abs(newton - x) > step
            following = bracket.step_to(newton, may_bisect)
        elif newton in bracket and evaluations < CREEPING:
            following = newton
        else:
            # Evaluate the end itself before bisecting towards it.
            following = high if value < 0.0 else low
        is_end = following in (low, high) and not bracket.is_closed
        if abs(following - x) <= step and not is_end:
            return Root(following, value, evaluations, "ok")
        x = following
    return Root(x, value, limit, "not_converged")


def _end_without_root(
    x: float, value: float, low: float, high: float
) -> Literal["at_low", "at_high"] | None:
    """The end at which f still has the sign of all that is inside."""
    if value < 0.0:
        return "at_high" if x >= high else None
    return "at_low" if x <= low else None


@dataclass
class Bracket:
    """Interval that holds a root, and whether f has been seen below and above 0.

    width : at the last step.
    """

    low: float
    high: float
    width: float
    has_negative: bool = False
    has_positive: bool = False

    @property
    def is_closed(self) -> bool:
        """True where a root is certain: f has both signs."""
        return self.has_negative and self.has_positive

    def __contains__(self, x: float) -> bool:
        return self.low < x < self.high

    def step_to(self, newton: float, may_bisect: bool) -> float:
        """The end of a Newton step, or the middle where that leads out.

        may_bisect : take the middle, too, where the bracket has not halved.
        """
        last_width = self.width
        self.width = self.high - self.low
        is_slow = may_bisect and self.width > 0.5 * last_width
        if newton in self and not is_slow:
            return newton
        return 0.5 * (self.low + self.high)

    def shrink(self, x: float, value: float) -> None:
        """Move the end on the side of a value."""
        if value < 0.0:
            self.low = x
            self.has_negative = True
        else:
            self.high = x
            self.has_positive = True


# ---- a handful of parameters, derivatives to order two

GRADIENT = 1e-10  # at which a search ends
LOOSE_GRADIENT = 1e-5  # at which it ends where the loss needs 1e-7 only

Quadratic = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]
"""Maps parameters (m,) to value, gradient (m,) and Hessian (m, m)."""


class BoxMinimum(NamedTuple):
    """Result of ``minimise_box``.

    gradient : largest absolute entry of the projected gradient.
    """

    x: FloatArray
    value: float
    gradient: float
    evaluations: int
    status: Literal["ok", "not_converged"]


def minimise_box(
    f: Quadratic,
    start: FloatArray,
    *,
    low: float | FloatArray = -np.inf,
    high: float | FloatArray = np.inf,
    tolerance: float = GRADIENT,
    longest: float = np.inf,
    limit: int = 100,
    close: float = 0.0,
) -> BoxMinimum:
    """Minimise a smooth function of few variables, each in [low, high]: one bound for
    all, or (m,).

    Parameters at a bound with the gradient pushing outwards are held, the others take a
    Newton step in which eigenvalues of the Hessian are made positive, projected onto
    the box and halved until the value falls enough (Bertsekas 1982). ``longest`` limits
    the largest entry of a step. On a convex function this is the global minimum;
    elsewhere a stationary point that is no worse than the start. ``ok`` means that the
    projected gradient is at most ``tolerance``, or that rounding leaves no step that
    improves. close : a Newton step that promises to lower the value by at most this is
    the last, and its end is not evaluated: it is nearer to the minimum by orders of
    magnitude.
    """
    x = np.clip(np.asarray(start, dtype=np.float64), low, high)
    value, gradient, hessian = f(x)
    evaluations = 1
    while True:
        push = _largest_push(x, gradient, low, high)
        if push <= tolerance:
            return BoxMinimum(x, value, push, evaluations, "ok")
        if evaluations >= limit:
            return BoxMinimum(x, value, push, evaluations, "not_converged")
        free = ~(((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0)))
        step = np.zeros_like(x)
        curvature, axes = np.linalg.eigh(hessian[np.ix_(free, free)])
        floor = 1e-12 * max(1e-30, float(np.abs(curvature).max()))
        step[free] = -axes @ (
            (axes.T @ gradient[free]) / np.maximum(np.abs(curvature), floor)
        )
        step *= min(1.0, longest / max(1e-300, float(np.abs(step).max())))
        promised = -0.5 * float(gradient @ step)
        if 0.0 < promised <= close:
            last = np.clip(x + step, low, high)
            return BoxMinimum(last, value, push, evaluations, "ok")
        rounding = 1e-14 * (1.0 + abs(value))
        for halvings in range(40):
            trial = np.clip(x + 0.5**halvings * step, low, high)
            trial_value, trial_gradient, trial_hessian = f(trial)
            evaluations += 1
            if trial_value <= value + 1e-4 * (gradient @ (trial - x)) + rounding:
                break
        else:
            return BoxMinimum(x, value, push, evaluations, "not_converged")
        stalled = trial_value >= value - rounding and push <= 1e3 * tolerance
        x = trial
        value = trial_value
        gradient = trial_gradient
        hessian = trial_hessian
        if stalled:
            push = _largest_push(x, gradient, low, high)
            return BoxMinimum(x, value, push, evaluations, "ok")


def _largest_push(
    x: FloatArray,
    gradient: FloatArray,
    low: float | FloatArray,
    high: float | FloatArray,
) -> float:
    """Largest absolute entry of the projected gradient."""
    return float(np.abs(np.clip(x - gradient, low, high) - x).max())


# ---- many parameters, convex

# relative distances to the optimum (estimated) at which a search ends
AIM = 1e-10
LOOSE_AIM = 1e-7
# relative distance above which a stalled search (rounding, limits) has not converged
ACCEPT = 1e-9
# distance to the optimum, in nats, below the precision of sums of losses
ROUNDING = 1e-13


class Convex(Protocol):
    """A convex function of an array, with its Newton direction.

    strength : a lower bound of the eigenvalues of its Hessian, 0 when none is known.
    """

    @property
    def strength(self) -> float: ...

    def value_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The value and the gradient at theta."""

    def direction(self, gradient: FloatArray, tolerance: float) -> "NewtonDirection":
        """Solve H s = -gradient for the step s at the point evaluated last.

        tolerance : largest relative residual, in the norm of the preconditioner.
        """


@dataclass(frozen=True)
class NewtonDirection:
    """Newton direction, and how it was found.

    exact : the residual reached the tolerance. products : Hessian-vector products
    spent.
    """

    step: FloatArray
    exact: bool = True
    products: int = 0


@dataclass(frozen=True)
class Optimum:
    """Result of ``minimise_convex``.

    gap : estimate of value - minimum, half the squared Newton decrement, in nats.
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
        """Numbers to record in an artifact."""
        return {
            "objective": self.value,
            "gradient_norm": self.gradient,
            "optimality_gap": self.gap,
            "newton_steps": self.steps,
        }


def minimise_convex(
    f: Convex,
    start: FloatArray,
    *,
    aim: float = AIM,
    steps: int = 200,
    products: int = 20_000,
    close: float = 0.0,
    progress: Callable[[int], None] = lambda done: None,
) -> Optimum:
    """Minimise a convex function by damped Newton steps.

    The half squared Newton decrement g' H^-1 g / 2 estimates how far the value lies
    above the minimum, whatever the scale of the parameters (where the direction is not
    good enough for that, |g|^2 / (2 strength) bounds it); the search ends when it is
    ``aim`` of the value. Directions need to be exact only near the end. A step is
    halved (at least) until the value falls by a sensible share of what was promised.
    close : as for ``minimise_box``.
    """
    theta = start
    value, gradient = f.value_gradient(theta)
    forcing = 0.1
    spent = 0
    gap = np.inf
    exact = False
    step = 0
    for step in range(steps):
        progress(spent or step)
        direction = f.direction(gradient, forcing)
        spent += direction.products
        exact = direction.exact
        decrement = -float(np.vdot(gradient, direction.step))
        gap = 0.5 * max(decrement, 0.0)
        if not exact and f.strength > 0:
            # Inexact conjugate gradients underestimate the decrement; strong convexity bounds the gap.
            gap = float(np.vdot(gradient, gradient)) / (2 * f.strength)
            exact = True
        if (
            (exact and gap <= aim * value + 0.1 * ROUNDING)
            or spent >= products
            or decrement <= 0
        ):
            break
        if exact and gap <= close:
            theta = theta + direction.step
            return Optimum(
                theta, value, gap, float(np.abs(gradient).max()), step + 1, spent, True
            )
        reached = _line_search(f, theta, direction.step, value, decrement)
        if reached is None:
            break
        theta, value, gradient = reached
        # Increasingly exact directions make the search superlinear; no more exact than the aim needs.
        enough = np.sqrt(0.1 * aim * value / max(gap, 1e-300))
        forcing = float(
            np.clip(max(np.sqrt(decrement / max(value, 1e-300)), enough), 1e-4, 0.1)
        )
    converged = exact and gap <= max(aim, ACCEPT) * value + ROUNDING
    return Optimum(
        theta, value, gap, float(np.abs(gradient).max()), step, spent, converged
    )


def _line_search(
    f: Convex, theta: FloatArray, direction: FloatArray, value: float, decrement: float
) -> tuple[FloatArray, float, FloatArray] | None:
    """Backtracking line search: point, value and gradient with enough decrease, or
    None.
    """
    t = 1.0
    noise = 8 * np.finfo(np.float64).eps * abs(value)
    for _ in range(60):
        there = theta + t * direction
        reached, gradient = f.value_gradient(there)
        if reached <= value - 1e-4 * t * decrement + noise:
            return there, reached, gradient
        # Minimum of the parabola through the value, its slope, and the new value.
        parabola = 0.5 * t * t * decrement / (reached - value + t * decrement)
        t = (
            float(np.clip(parabola, 0.1 * t, 0.5 * t))
            if np.isfinite(parabola)
            else 0.1 * t
        )
    return None


Linear = Callable[[FloatArray], FloatArray]  # the product of a matrix with a vector


def conjugate_gradients(
    product: Linear,
    right: FloatArray,
    precondition: Linear,
    tolerance: float,
    limit: int,
) -> NewtonDirection:
    """Solve H s = right by preconditioned conjugate gradients, H symmetric positive
    definite. Ends when the residual's norm (in the preconditioner) is ``tolerance`` of
    its first.
    """
    s = np.zeros_like(right)
    residual = right.copy()
    z = precondition(residual)
    d = z
    energy = first = float(np.vdot(residual, z))
    # zero right-hand side, or rounding has made the preconditioner indefinite
    if first <= 0:
        return NewtonDirection(s, not right.any())
    for done in range(1, limit + 1):
        h = product(d)
        curvature = float(np.vdot(d, h))
        if curvature <= 0:
            # a flat direction, lost to rounding: the step so far is a descent step
            return NewtonDirection(s if done > 1 else d, False, done)
        length = energy / curvature
        s = s + length * d
        residual = residual - length * h
        z = precondition(residual)
        previous = energy
        energy = float(np.vdot(residual, z))
        if energy <= tolerance**2 * first:
            return NewtonDirection(s, True, done)
        d = z + (energy / previous) * d
    return NewtonDirection(s, False, limit)
