"""Partial pooling: parameters of every group, shrunk towards common ones as far as the
groups are alike.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from calcli.numerics import BoolArray, FloatArray, IntArray
from calcli.records import Sums

ROUNDS = 3
START_VARIANCE = 0.1  # variance between groups at which the search begins
LEAST_VARIANCE = 1e-7
"""Variance between groups that stands for 0. Variances up to ten times as large become
0 too: towards 0 the EM takes ever smaller steps.
"""
MOST_STEPS = 100
MOST_UPDATES = 100  # of the EM, between two walks
LARGEST_STEP = 1.0  # of a parameter
LONGEST_STEP = 1e4  # upper bound of a SQUAREM step, in EM steps
LARGEST_LOG_VARIANCE = 10.0  # upper bound of a log variance
RUNAWAY_VARIANCE = 1.0
"""Least prior variance of runaway groups, of which the variance between others says
nothing.
"""
# share of a step from which one in the other direction halves all that follow
TURNING_BACK = 0.5
# factor by which a variance falls at most from one walk to the next
LARGEST_FALL = 10.0
# Tolerances of a search
EXACT = 1e-11  # step of a parameter
SETTLED = 1e-6  # relative change of a variance between updates
SETTLED_IN_WALKS = 1e-4  # relative change of a variance between walks
# For the fit to a fold, which starts at the result of all rows
EXACT_IN_FOLD = 1e-7  # its last step
LEAST_START_VARIANCE = 1e-5  # the least variance at its start
# A variance that hardly moves is fixed when its last three changes between walks agree
# within the factor CREEPS, or after LATE walks: otherwise theta would follow it for
# hundreds of walks.
CREEPS = 0.99
LATE = 60


@dataclass(frozen=True)
class GroupSums(Sums):
    """Sums of the NLL's derivatives over the rows of every group.

    weight : (g,). gradient : (g, m). information : (g, m, m).
    """

    weight: FloatArray
    gradient: FloatArray
    information: FloatArray

    @classmethod
    def of(
        cls,
        code: IntArray,
        g: int,
        weight: FloatArray,
        gradient: FloatArray,
        information: FloatArray,
    ) -> Self:
        """Sum rows with gradient (m, b) and information (m, m, b) by group."""

        def total(values: FloatArray) -> FloatArray:
            return np.asarray(
                np.bincount(code, weights=weight * values, minlength=g),
                dtype=np.float64,
            )

        slopes = np.stack([total(entry) for entry in gradient], axis=1)
        flat = information.reshape(-1, len(code))
        bends = np.stack([total(entry) for entry in flat], axis=1)
        return cls(
            weight=total(np.ones(len(code))),
            gradient=slopes,
            information=bends.reshape(g, *information.shape[:2]),
        )

    def times(self, factor: FloatArray) -> Self:
        """Sums with each group's weights multiplied by a factor, (g,)."""
        gradient = self.gradient * factor[:, None]
        information = self.information * factor[:, None, None]
        return type(self)(self.weight * factor, gradient, information)

    def take(self, groups: BoolArray) -> Self:
        """Sums of some of the groups."""
        return type(self)(
            weight=self.weight[groups],
            gradient=self.gradient[groups],
            information=self.information[groups],
        )


@dataclass(frozen=True)
class GroupWalk:
    """Sums over the rows of every group, and what is known of the groups.

    The sums are at parameters (g, m). factor : (g,) by which a group's weights are
    multiplied to sum to its effective number of rows, as the prior on its deviation is
    held against them. runaway : (g,) groups whose own best map is infinite and is not
    explained by the map of the others. bound : (m,) largest deviation of a group from
    the common map.
    """

    sums: Callable[[FloatArray], GroupSums]
    factor: FloatArray
    runaway: BoolArray
    bound: FloatArray


class Pooled(NamedTuple):
    """Parameters of the groups.

    centre : (m,). theta : (g, m) differences from it. variance : (m,) between groups.
    """

    centre: FloatArray
    theta: FloatArray
    variance: FloatArray
    converged: bool
    passes: int


def pool(walk: GroupWalk, tau: float, start: Pooled | None = None) -> Pooled:
    """Minimise NLL + sum_g theta_g^2 / (2 variance).

    The variance between groups is found by EM. walk : sums over the rows at parameters
    (g, m). tau : standard deviation between groups, 0 to estimate it. start : result on
    much the same rows, where the search begins; it then ends early. Runaway groups,
    whose deviation runs to its bound, determine neither the centre nor the variance.
    """
    search = PoolSearch(walk, tau, start)
    search.find_centre()
    for rounds in range(ROUNDS + 1):
        search.fit_groups()
        mean = search.mean_deviation()
        if rounds == ROUNDS or np.abs(mean).max() <= search.exact:
            break
        search.centre = search.centre + mean
        search.theta = search.theta - mean
    return Pooled(
        search.centre, search.theta, search.variance, search.converged, search.passes
    )


class PoolSearch:
    """State of the search of ``pool``. Steps are Fisher scoring."""

    def __init__(self, walk: GroupWalk, tau: float, start: Pooled | None) -> None:
        self.walk = walk
        g = len(walk.runaway)
        m = len(walk.bound)
        self.shape = (g, m)
        self.centre = np.zeros(m)
        self.theta = np.zeros((g, m))
        self.variance = np.full(m, tau**2 or START_VARIANCE)
        self.exact = EXACT
        self.passes = 0
        self.converged = False
        self.fixed = bool(tau)  # the variance is known, or hardly moves
        self.alike = ~walk.runaway
        self.damping = np.ones(g)
        self.last_step = np.zeros((g, m))
        self.sums: GroupSums | None = None
        if start is not None:
            self.theta = start.theta
            self.exact = EXACT_IN_FOLD
            if not tau:
                self.variance = np.maximum(start.variance, LEAST_START_VARIANCE)

    def sums_at(self, parameters: FloatArray) -> GroupSums:
        self.passes += 1
        return self.walk.sums(np.broadcast_to(parameters, self.shape))

    def find_centre(self) -> None:
        """Search the map that is common to all but runaway groups."""
        for _ in range(MOST_STEPS):
            sums = self.sums_at(self.centre).take(self.alike)
            whole = sums.information.sum(axis=0)
            slope = sums.gradient.sum(axis=0)
            step = np.linalg.pinv(whole) @ slope
            self.centre = self.centre - np.clip(step, -LARGEST_STEP, LARGEST_STEP)
            if np.abs(step).max() <= self.exact:
                break

    def fit_groups(self) -> None:
        """Search the groups' deviations.

        After each walk the EM runs on its quadratic.
        """
        changes = list[float]()
        for _ in range(MOST_STEPS):
            self.sums = self.sums_at(self.centre + self.theta)
            before = self.variance
            sums = self.sums.times(self.walk.factor)
            if not self.fixed:
                of_alike = sums.take(self.alike)
                variance = variance_between(of_alike, self.theta[self.alike], before)
                # While steps go to and fro the groups seem nearer to each other than
                # they are.
                if (self.damping < 1.0).any():
                    variance = np.maximum(variance, before / LARGEST_FALL)
                self.variance = variance
            moved = self.move(sums)
            changed = np.abs(self.variance - before)
            still = bool(
                (changed <= SETTLED_IN_WALKS * self.variance + LEAST_VARIANCE).all()
            )
            self.converged = still and moved <= self.exact
            if self.converged:
                return
            changes.append(float((changed / self.variance).max()))
            last = changes[-3:]
            creeps = len(last) == 3 and min(last) > CREEPS * max(last)
            late = len(changes) >= LATE
            if still and (creeps or late):
                self.fixed = True

    def move(self, sums: GroupSums) -> float:
        """Step of the deviations within their bounds; returns the largest change."""
        variance = np.tile(self.variance, (self.shape[0], 1))
        runaway = self.walk.runaway
        variance[runaway] = np.maximum(variance[runaway], RUNAWAY_VARIANCE)
        bend = sums.information + np.eye(self.shape[1]) / variance[:, None, :]
        slope = sums.gradient + self.theta / variance
        step = np.linalg.solve(bend, slope[..., None])[..., 0]
        step = np.clip(step, -LARGEST_STEP, LARGEST_STEP)
        # Where expected and observed information differ, steps would go to and fro.
        last = np.einsum("gj,gj->g", self.last_step, self.last_step)
        turn = -np.einsum("gj,gj->g", step, self.last_step)
        self.damping[(turn > TURNING_BACK * last) & (last > LEAST_VARIANCE)] /= 2.0
        self.last_step = step
        step = step * self.damping[:, None]
        bound = self.walk.bound
        theta = np.clip(self.theta - step, -bound, bound)
        moved = float(np.abs(theta - self.theta).max())
        self.theta = theta
        return moved

    def mean_deviation(self) -> FloatArray:
        """Mean deviation (m,) of all but runaway groups, weighted by their rows."""
        assert self.sums is not None
        weight = self.sums.weight * self.alike
        return weight @ self.theta / weight.sum()


def variance_between(
    sums: GroupSums, theta: FloatArray, variance: FloatArray
) -> FloatArray:
    """Find the variance between groups, (m,).

    It is the fixed point of variance = mean(theta^2 + posterior variance). EM is slow
    where the variance is small, so SQUAREM replaces three of its steps by one
    (Varadhan, Roland 2008, S3).
    """
    target = np.einsum("gij,gj->gi", sums.information, theta) - sums.gradient

    def step(log_variance: FloatArray) -> FloatArray:
        """One step of EM, on the logarithm of the variance."""
        inverse = np.linalg.inv(sums.information + np.diag(np.exp(-log_variance)))
        mode = np.einsum("gij,gj->gi", inverse, target)
        posterior = np.diagonal(inverse, axis1=1, axis2=2)
        updated = (mode**2 + posterior).mean(axis=0)
        return np.log(
            np.where(updated < 10.0 * LEAST_VARIANCE, LEAST_VARIANCE, updated)
        )

    log_variance = np.log(variance)
    for _ in range(MOST_UPDATES):
        once = step(log_variance)
        first = once - log_variance
        second = step(once) - once
        if np.abs(second).max() <= SETTLED:
            return np.exp(once + second)
        # Extrapolate along the two steps, then take one more.
        bend = second - first
        square = float(first @ first) / max(float(bend @ bend), 1e-300)
        length = min(max(math.sqrt(square), 1.0), LONGEST_STEP)
        further = log_variance + 2.0 * length * first + length**2 * bend
        log_variance = step(
            np.clip(further, math.log(LEAST_VARIANCE), LARGEST_LOG_VARIANCE)
        )
    return np.exp(log_variance)
