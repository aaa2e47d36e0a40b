"""Fits of affine maps: what they report, their ridges, and the search."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calcli.block import Block
from calcli.calibrator import (
    C,
    Context,
    Fit,
    Status,
)
from calcli.errors import FitError
from calcli.methods._affine.matrix import MatrixObjective
from calcli.methods._affine.objective import (
    AffineObjective,
    Chunked,
    Ridge,
    mean_nll,
)
from calcli.methods._affine.vector import VectorObjective
from calcli.methods._temperature import likeliest
from calcli.numerics import FloatArray
from calcli.rows import Rows
from calcli.solvers import LOOSE_AIM, Optimum, minimise_convex

# floating-point operations, an hour at 30 GFlop/s, above which cross-validated matrices
# are refused
LONG_FIT = 1e14
TYPICAL_RATE = 3e10  # operations per second, for the estimates in messages
# level of logits, in units of their spread, beyond which products in float64 keep too
# few digits
HIGH_LEVEL = 1e8
# gradients and Hessian products of the last fit, and of one on the path
PRODUCTS_TIGHT = 400
PRODUCTS_LOOSE = 100
SAME_LOSS = 1e-7  # relative fall of the held-out NLL that rounding may make
# relative rise of the held-out NLL that ends a path; errors of loose fits are well
# below it
CLEARLY_WORSE = 1e-3

# the objective on the other rows, and the fold's own rows
Fold = tuple[AffineObjective, Chunked]


@dataclass
class FitNotes:
    """Status, warnings and details collected during a fit."""

    rows: Rows
    context: Context
    status: Status = "ok"
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def warn(self, words: str, status: Status | None = None) -> None:
        self.warnings.append(words)
        if status is not None:
            self.status = status

    def fit(self, calibrator: C) -> Fit[C]:
        return Fit(calibrator, self.status, tuple(self.warnings), self.details)

    def warn_of_absent_classes(self, what_happens: str) -> bool:
        """Warn of classes without rows, but for those that are held (see ``Context``).

        Returns True if at least two classes have some.
        """
        rows = self.rows
        weights = rows.weights()
        class_weight = np.bincount(rows.labels(), weights=weights, minlength=rows.k)
        absent = np.flatnonzero(class_weight == 0)
        free = np.setdiff1d(absent, self.context.held)
        if len(free):
            self.warn(
                f"classes without calibration rows ({len(free)} of {rows.k}):"
                f" {what_happens}"
            )
        if rows.k - len(absent) >= 2:
            return True
        words = (
            "all calibration rows have one label, which says nothing about the scores;"
            " fitted nothing"
        )
        self.warn(words, "degenerate")
        return False

    def too_many_parameters(self, parameters: int, better: str) -> None:
        if parameters > self.rows.n:
            worse = (
                f"{parameters} parameters on {self.rows.n} rows will overfit: expect a"
                " worse NLL on new rows"
            )
            self.warn(f"{worse}; {better} serves better")

    def optimum(self, *optima: Optimum) -> None:
        """Record where the search (or one search per fold) ended."""
        worst = max(optima, key=lambda optimum: optimum.gap)
        self.details |= worst.details()
        self.details["newton_steps"] = sum(optimum.steps for optimum in optima)
        if not all(optimum.converged for optimum in optima):
            self.warn(
                "the search did not converge (largest entry of the gradient"
                f" {worst.gradient:.2g}): with rows that are separable and no ridge"
                " there is no optimum; a larger ridge, svs or ts serves better",
                "not_converged",
            )

    def best_temperature(self, prior: float = 0.0) -> float:
        """Find the temperature of maximum likelihood, to start searches from.

        1 if it does not exist (see ``likeliest``).
        """
        search = likeliest(self.rows, self.context, prior)
        if search.root.status != "ok":
            return 1.0
        return search.temperature

    def fit_map(
        self,
        cls: type,
        objective: AffineObjective,
        start: Callable[[], FloatArray],
        what: str,
    ) -> FloatArray:
        """Minimise an objective, record the search, and return the parameters.

        It begins at a map fitted to much the same rows if there is one, else at
        ``start()``, where absent classes stay.
        """
        near = self.context.start
        if isinstance(near, cls) and objective.present.all():
            weights = vars(near)["scale" if objective.columns == 2 else "weight"]
            begin = np.column_stack([weights, vars(near)["bias"]])
        else:
            begin = start()
        optimum = solve(objective, begin, self.context, what)
        self.optimum(optimum)
        return optimum.theta

    def search_path(
        self,
        folds: Sequence[Fold],
        grid: Sequence[float],
        ridge: Callable[..., Ridge],
        start: FloatArray,
        long: str,
    ) -> tuple[float, list[FloatArray]]:
        """Find the lambda of a grid with the least held-out NLL.

        Returns it, and the parameters of every fold there. ridge(lambda, n) : the ridge
        for n training rows. The fits go from the strongest lambda to the weakest, each
        from the one before: along such a path the held-out NLL falls and then rises.
        Where all rows belong together there is nothing to hold out: the strongest.
        """
        if any(objective.effective == 0.0 for objective, _ in folds):
            return grid[0], [start] * len(folds)
        thetas = [start] * len(folds)
        best = 0
        best_thetas = thetas
        nll = list[float]()
        what = f"cross-validating lambda{long}"
        fits = len(folds) * len(grid)
        for index, lam in enumerate(grid):
            # Fit every fold, loosely: the held-out NLL is needed to about 1e-4.
            held_out = []
            for number, (objective, held_out_rows) in enumerate(folds):
                self.context.progress(what, index * len(folds) + number, fits)
                training_rows = objective.effective / self.rows.design_effect
                objective.exchange(ridge(lam, training_rows))
                begin = objective.aligned(thetas[number])
                optimum = minimise_convex(objective, begin, aim=3e-5, products=1000)
                thetas[number] = optimum.theta
                held_out.append(mean_nll(held_out_rows, thetas[number]))
            total = sum(mass for _, mass in held_out)
            mean = 0.0
            for value, mass in held_out:
                mean += mass / total * value
            nll.append(mean)
            if mean < (1 - SAME_LOSS) * nll[best] or index == 0:
                best = index
                best_thetas = list(thetas)
            # End two points after the best where the NLL has clearly risen: the weakest
            # ridges are left out, whose fits cost most and overfit worst.
            if index - best >= 2 and mean > (1 + CLEARLY_WORSE) * nll[best]:
                break
        self.details["grid"] = list(grid[: len(nll)])
        self.details["cv_nll"] = nll
        return grid[best], best_thetas


def identity_map(k: int, columns: int) -> FloatArray:
    """Make parameters (k, columns) of the identity map.

    Scale 1 or the unit matrix, and bias 0.
    """
    if columns == 2:
        return np.tile([1.0, 0.0], (k, 1))
    return np.eye(k, columns)


def split_map(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split parameters (k, 2) or (k, k + 1).

    Returns scale (k,) or weight (k, k), and bias (k,).
    """
    weight = theta[:, 0] if theta.shape[1] == 2 else theta[:, :-1]
    return weight.copy(), theta[:, -1].copy()


def uniform_ridge(weight: float, k: int, columns: int) -> Ridge:
    """Ridge of one weight on every parameter's distance from the identity map."""
    return Ridge(np.full((k, columns), weight), identity_map(k, columns))


SHARPENS = 1.0 - 1e-6
"""Temperature below which a map sharpens: after a step that calibrates, 1 is found up
to rounding, on which the penalty must not depend.
"""


def held_back(
    ridge: Ridge, diagonal: float, temperature: float, prior: float, rows: float
) -> Ridge:
    """Add the prior on the mean of the map's diagonal to a ridge.

    It is added to second order (see ``Prior``). diagonal : diagonal at which the map is
    temperature scaling; where that does not sharpen, the ridge is unchanged.
    """
    if not prior or temperature >= SHARPENS:
        return ridge
    k, columns = ridge.weight.shape
    classes = np.arange(k)
    diagonal_column = np.zeros(k, np.int64) if columns == 2 else classes
    on_diagonal = (classes, diagonal_column)
    weight = ridge.weight.copy()
    centre = ridge.centre.copy()
    pull = 1.0 / (2.0 * prior**2 * rows * k * diagonal**2)
    weight[on_diagonal] += pull
    goal = diagonal * (1.0 + np.log(temperature))
    centre[on_diagonal] += pull / weight[on_diagonal] * (goal - centre[on_diagonal])
    return Ridge(weight, centre)


def objective_of(
    chunks: Chunked, ridge: Ridge, *, complete: bool = False
) -> AffineObjective:
    """Make the objective of a scale and a bias per class, or of a full matrix.

    The shape of the ridge decides.
    """
    if isinstance(chunks, list) and ridge.weight.shape[1] > 2:
        return MatrixObjective(chunks, ridge, complete=complete)
    return VectorObjective(chunks, ridge, complete=complete)


def solve(
    objective: AffineObjective, start: FloatArray, context: Context, what: str = ""
) -> Optimum:
    """Minimise an objective.

    In one search or, where that stalls, along a path of falling ridges. Separable rows
    under a weak ridge make a loss like a hinge, on which Newton steps zigzag. Along the
    path the same optimum takes a few steps for each ridge (Marteau-Ferey, Bach, Rudi
    2019).
    """
    aim = LOOSE_AIM if context.loose else objective.aim

    def progress(steps: int) -> None:
        context.progress(what, steps, 0)

    optimum = minimise_convex(
        objective,
        objective.aligned(start),
        aim=aim,
        steps=60,
        close=context.loose,
        progress=progress,
    )
    ridge = objective.ridge
    if optimum.converged or objective.strength == 0.0:
        return optimum
    theta = objective.aligned(start)
    for power in range(6, 0, -1):
        objective.exchange(Ridge(ridge.weight * 10.0**power, ridge.centre))
        theta = minimise_convex(objective, theta, aim=1e-3, progress=progress).theta
    objective.exchange(ridge)
    return minimise_convex(objective, theta, aim=aim, progress=progress)


def time_of_matrix_fits(rows: Rows, fits: int, advice: str) -> str:
    """The time that matrix fits take, as text for the progress line.

    Empty below a minute. Raises FitError if they would take hours.
    """
    work = 4.0 * rows.n * rows.k**2 * (PRODUCTS_TIGHT + PRODUCTS_LOOSE * (fits - 1))
    minutes = work / TYPICAL_RATE / 60
    if work > LONG_FIT and fits > 1:
        raise FitError(
            f"{fits} matrix fits of {rows.n} x {rows.k} scores take about {work:.0e}"
            " floating-point operations,"
            f" {minutes / 60:.1f} hours at {TYPICAL_RATE / 1e9:.0f} GFlop/s; {advice}"
        )
    return f" (about {minutes:.0f} min)" if minutes >= 1 else ""


def refuse_level(rows: Rows) -> None:
    """Raise FitError for logits too large for float64.

    It has no digits left for their differences. A constant of 1e15 added to a row
    erases all differences in it, and squares of numbers above 1e150 overflow.
    """
    level, spread, largest = np.max(list(rows.each(_levels)), axis=0).tolist()
    if level > HIGH_LEVEL * max(1.0, spread) or largest > 1e150:
        raise FitError(
            f"the logits reach {largest:.3g} and differ within a row by at most"
            f" {2 * spread:.3g}, too little for a method that reads them as they are;"
            " subtract each row's largest logit, or use svs, dir or dir-odir"
        )


def _levels(block: Block) -> tuple[float, float, float]:
    """Largest level (mid-range), half range and absolute value of a block's logits."""
    high = block.z.max(axis=1)
    low = block.z.min(axis=1)
    size = max(0.0, float(high.max()), -float(low.min()))
    level = float(np.abs(0.5 * high + 0.5 * low).max())
    spread = float((0.5 * high - 0.5 * low).max())
    return level, spread, size


def folded(
    folds: Iterable[tuple[Chunked, Chunked]],
    theta: FloatArray,
    *,
    complete: bool = False,
) -> list[Fold]:
    """Make the objectives of all folds, for parameters of theta's shape.

    ``search_path`` sets their ridges.
    """
    ridge = uniform_ridge(1.0, *theta.shape)
    parts = []
    for train, held_out in folds:
        parts.append((objective_of(train, ridge, complete=complete), held_out))
    return parts
