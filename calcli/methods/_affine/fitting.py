"""What the fits of vector and matrix scaling share: starts, ridges, folds, the choice of lambda, the words."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from calcli.calibrator import C, Context, Fit, Status
from calcli.errors import FitError
from calcli.fast_dataclass import dataclass
from calcli.fit_summary import Summary
from calcli.methods._affine.objective import AffineObjective, Ridge
from calcli.methods.ts import likeliest
from calcli.numerics import FloatArray
from calcli.rows import Block, Rows
from calcli.solvers import LOOSE_AIM, Optimum, minimise_convex

LONG_FIT = 1e14
"""Floating-point operations above which a cross-validated matrix fit is refused: about an hour at 30 GFlop/s."""

TYPICAL_RATE = 3e10
"""Operations per second that estimates in messages assume."""

HIGH_LEVEL = 1e8
"""Level of the logits, in units of their spread, beyond which float64 keeps too few digits of their products."""

PRODUCTS_TIGHT, PRODUCTS_LOOSE = 400, 100
"""Gradients and Hessian products of the last fit and of one fit on the path, typical of 400 classes."""


@dataclass
class FitNotes:
    """Status, warnings and details of a fit as they come up, and the summary of the rows if a walk has made it."""

    status: Status = "ok"
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    before: Summary | None = None

    def warn(self, words: str, status: Status | None = None) -> None:
        self.warnings.append(words)
        if status is not None:
            self.status = status

    def fit(self, calibrator: C) -> Fit[C]:
        """The fit of this calibrator."""
        return Fit(calibrator, self.status, tuple(self.warnings), self.details, before=self.before)

    def absent_classes(self, rows: Rows, what_happens: str) -> bool:
        """Warn of classes without rows. Returns whether two classes at least have some."""
        held = np.bincount(rows.labels(), weights=rows.weights(), minlength=rows.k)
        absent = np.flatnonzero(held == 0)
        if len(absent):
            shown = ", ".join(map(str, absent[:10])) + (", …" if len(absent) > 10 else "")
            self.warn(f"{len(absent)} of {rows.k} classes have no calibration rows ({shown}): {what_happens}")
        if rows.k - len(absent) >= 2:
            return True
        self.warn(
            "all calibration rows have one label, which says nothing about the scores; fitted nothing", "degenerate"
        )
        return False

    def too_many_parameters(self, rows: Rows, parameters: int, better: str) -> None:
        if parameters > rows.n:
            self.warn(
                f"{parameters} parameters on {rows.n} rows will overfit: expect a worse NLL on new rows;"
                f" {better} serves better"
            )

    def optimum(self, found: Optimum | Sequence[Optimum]) -> None:
        """Record where the search (or one search per fold) ended."""
        every = [found] if isinstance(found, Optimum) else list(found)
        worst = max(every, key=lambda o: o.gap)
        self.details |= worst.details()
        if len(every) > 1:
            self.details["newton_steps"] = sum(o.steps for o in every)
        if not all(o.converged for o in every):
            self.warn(
                f"the search did not converge (largest entry of the gradient {worst.gradient:.2g}): with rows that are"
                " separable and no ridge there is no optimum; a larger ridge, svs or ts serves better",
                "not_converged",
            )


def identity_map(k: int, columns: int) -> FloatArray:
    """Parameters (k, columns) of the map that changes nothing: scale 1 or the unit matrix, bias 0."""
    if columns == 2:
        return np.tile([1.0, 0.0], (k, 1))
    return np.eye(k, columns)


def split_map(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale (k,) or weight (k, k), and bias (k,), of parameters (k, 2) or (k, k + 1)."""
    weight = theta[:, 0] if theta.shape[1] == 2 else theta[:, :-1]
    return weight.copy(), theta[:, -1].copy()


def uniform_ridge(weight: float, k: int, columns: int) -> Ridge:
    """One ridge on every parameter's distance from the identity map."""
    return Ridge(np.full((k, columns), weight), identity_map(k, columns))


def held_back(ridge: Ridge, diagonal: float, temperature: float, prior: float, rows: float) -> Ridge:
    """A ridge that also holds the mean of the map's diagonal by the prior (see ``Prior``), to second order.

    diagonal : where the map is temperature scaling; the ridge stays as it is where that does not sharpen.
    """
    if not prior or temperature >= 1.0:
        return ridge
    k, columns = ridge.weight.shape
    at = (np.arange(k), np.zeros(k, np.int64) if columns == 2 else np.arange(k))
    weight, centre = ridge.weight.copy(), ridge.centre.copy()
    pull = 1.0 / (2.0 * prior**2 * rows * k * diagonal**2)
    weight[at] += pull
    centre[at] += pull / weight[at] * (diagonal * (1.0 + np.log(temperature)) - centre[at])
    return Ridge(weight, centre)


def solve(
    objective: AffineObjective, start: FloatArray, progress: Callable[[int], None], *, early: bool = False
) -> Optimum:
    """Minimise an objective, in one search or, where that stalls, along falling ridges.

    Separable rows under a weak ridge make a loss like a hinge, on which Newton steps
    zigzag. Minima under ridges a million to ten times as strong, each the start for the next,
    lead to the same optimum in a few steps each (Marteau-Ferey, Bach, Rudi 2019).

    early : end when the loss is right to 1e-7 (see ``Context.early``).
    """
    aim = LOOSE_AIM if early else objective.aim
    found = minimise_convex(objective, objective.aligned(start), aim=aim, steps=60, progress=progress)
    ridge = objective.ridge
    if found.converged or objective.strength == 0.0:
        return found
    theta = objective.aligned(start)
    for power in range(6, 0, -1):
        objective.exchange(Ridge(ridge.weight * 10.0**power, ridge.centre))
        theta = minimise_convex(objective, theta, aim=1e-3, progress=progress).theta
    objective.exchange(ridge)
    return minimise_convex(objective, theta, aim=aim, progress=progress)


def best_temperature(rows: Rows, notes: FitNotes, context: Context, prior: float = 0.0) -> float:
    """Temperature by maximum likelihood (see ``likeliest``), from which searches start; 1 where there is none."""
    search = likeliest(rows, context, prior)
    notes.before = search.before
    return search.temperature if search.root.status == "ok" else 1.0


def fit_map(
    cls: type, objective: AffineObjective, start: Callable[[], FloatArray], notes: FitNotes, context: Context, what: str
) -> FloatArray:
    """Parameters at the minimum of an objective; notes how the search ended.

    It begins at a map fitted to much the same rows if there is one, else at ``start()``, where
    classes that are absent keep their rows.
    """
    near = context.start
    if isinstance(near, cls) and objective.present.all():
        weights = vars(near)["scale" if objective.columns == 2 else "weight"]
        begin = np.column_stack([weights, vars(near)["bias"]])
    else:
        begin = start()
    found = solve(objective, begin, lambda done: context.progress(what, done, 0), early=context.early)
    notes.optimum(found)
    return found.theta


def refuse_hopeless(rows: Rows, fits: int, advice: str) -> str:
    """Words with an estimate for the progress line of a matrix fit; FitError when it would take hours."""
    work = 4.0 * rows.n * rows.k**2 * (PRODUCTS_TIGHT + PRODUCTS_LOOSE * (fits - 1))
    minutes = work / TYPICAL_RATE / 60
    if work > LONG_FIT and fits > 1:
        raise FitError(
            f"{fits} matrix fits of {rows.n} x {rows.k} scores take about {work:.0e} floating-point operations,"
            f" {minutes / 60:.1f} hours at {TYPICAL_RATE / 1e9:.0f} GFlop/s; {advice}"
        )
    return f" (about {minutes:.0f} min)" if minutes >= 1 else ""


def refuse_level(rows: Rows) -> None:
    """FitError for logits whose level or size leaves no digits for their differences.

    For methods that read the logits as they are: a constant of 1e15 added to a row takes all
    that a row says with it, and squares of numbers above 1e150 overflow.
    """
    level, spread, largest = np.max(list(rows.each(_levels)), axis=0).tolist()
    if level > HIGH_LEVEL * max(1.0, spread) or largest > 1e150:
        raise FitError(
            f"the logits reach {largest:.3g} and differ within a row by at most {2 * spread:.3g}, too little for a"
            " method that reads them as they are; subtract each row's largest logit, or use svs, dir or dir-odir"
        )


def _levels(block: Block) -> tuple[float, float, float]:
    """Largest level, half spread and size of a block's rows."""
    high, low = block.z.max(axis=1), block.z.min(axis=1)
    size = max(0.0, float(high.max()), -float(low.min()))
    return float(np.abs(0.5 * high + 0.5 * low).max()), float((0.5 * high - 0.5 * low).max()), size
