"""ReCal's groups of rows and the inverse temperature of each."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, IntArray

GROUPS = 4
BETA_LOW, BETA_HIGH = 1e-2, 1e2
STEP = 1e-10
"""A last step of this size, times the group's share of the rows, ends a search."""
SERIES = 1e-8
"""So does an estimated error of this size. The estimate is that of one order less: the
multipliers it leads to were within 2e-10 of the exact ones over 200 rounds."""
TRUST = 0.5
"""Longest relative step for which the four cumulants are believed."""
PASSES = 60

Evaluate = Callable[[FloatArray, NDArray[np.bool_]], FloatArray]
"""From the groups' beta (4,) and the groups wanted (4,) to sums (4 groups, 4 orders):
derivatives of the group's NLL in relative beta, of order 1 to 4."""


class GroupFit(NamedTuple):
    """beta : (4,) inverse temperatures. bounded : (4,) which of them ran into the bracket."""

    beta: FloatArray
    bounded: NDArray[np.bool_]


def group_of(agree: NDArray[np.bool_], log_p: FloatArray, log_q: FloatArray) -> IntArray:
    """Group 0..3 of every row: do predictions agree, and is the original less sure?

    (Jang, Lee, Weimer 2020, equation 3, groups 1 to 4: different and p < q; different and
    p >= q; same and p < q; same and p >= q.)
    """
    return (2 * agree + (log_p >= log_q)).astype(np.int64)


def series_root(derivatives: FloatArray) -> tuple[float, float]:
    """Root of g1 + g2 e + g3 e^2/2 + g4 e^3/6 nearest to e = 0, and how far to trust it.

    Returns the step and an estimate of its error: the effect of the last term. The step
    is NaN when the slope vanishes or the iteration leaves the trusted range.
    """
    g1, g2, g3, g4 = derivatives
    if not g2 > 0:
        return np.nan, np.inf
    found = []
    for last in (0.0, g4):
        e = 0.0
        for _ in range(50):
            slope = g2 + g3 * e + last * e * e / 2
            if not slope > 0 or abs(e) > TRUST:
                return np.nan, np.inf
            step = (g1 + g2 * e + g3 * e * e / 2 + last * e**3 / 6) / slope
            e -= step
            if abs(step) <= 1e-14:
                break
        found.append(e)
    return found[1], abs(found[1] - found[0])


def fit_groups(start: FloatArray, evaluate: Evaluate, share: FloatArray, sure: NDArray[np.bool_]) -> GroupFit:
    """Minimise the NLL of every group over its inverse temperature, all groups at once.

    start : (4 groups, 4 orders) derivatives at beta = 1, known beforehand. evaluate walks
    over the rows. share : (4,) of the rows that are in the group. sure : (4,) groups whose
    loss falls for ever as beta grows (every row right). The loss is convex in beta: its
    derivative increases, so its sign shrinks a bracket; steps come from the cumulants
    (order five near the root) and are halvings of log beta where those are not believed.
    """
    low, high = np.full(GROUPS, BETA_LOW), np.full(GROUPS, BETA_HIGH)
    seen_low, seen_high = np.zeros(GROUPS, bool), np.zeros(GROUPS, bool)
    beta, bounded = np.ones(GROUPS), np.zeros(GROUPS, bool)
    active = (share > 0) & (start[:, 0] != 0)  # a zero slope: the rows say nothing, or beta is 1
    bounded |= sure & active
    beta[bounded] = BETA_HIGH
    active &= ~sure
    here = start
    for _ in range(PASSES):
        for g in np.flatnonzero(active):
            slope = here[g, 0]
            if slope < 0:
                low[g], seen_low[g] = beta[g], True
            else:
                high[g], seen_high[g] = beta[g], True
            if (slope < 0 and beta[g] >= BETA_HIGH) or (slope > 0 and beta[g] <= BETA_LOW):
                bounded[g], active[g] = True, False
                continue
            step, error = series_root(here[g])
            following = beta[g] * (1 + step)
            if not low[g] <= following <= high[g]:  # NaN included
                if seen_low[g] and seen_high[g]:
                    following = np.sqrt(low[g] * high[g])
                else:
                    following = min(2 * beta[g], BETA_HIGH) if slope < 0 else max(beta[g] / 2, BETA_LOW)
                error = np.inf
            small = abs(following / beta[g] - 1) * share[g] <= STEP or high[g] / low[g] - 1 <= STEP
            done = small or error * share[g] <= SERIES
            beta[g], active[g] = following, not done
        if not active.any():
            break
        here = evaluate(beta, active)
    return GroupFit(beta, bounded)
