"""What the fits of vector and matrix scaling share: starts, ridges, folds, the choice of lambda, the words."""

from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

import numpy as np

from calcli.calibrator import C, Context, Fit, Status
from calcli.errors import FitError
from calcli.fast_dataclass import dataclass
from calcli.fit_summary import Summary
from calcli.folds import content_folds
from calcli.methods._affine.matrix import MatrixObjective
from calcli.methods._affine.objective import (
    AffineObjective,
    Chunk,
    Chunked,
    Chunks,
    Features,
    Ridge,
    held_in_memory,
    labels_of,
    mean_nll,
)
from calcli.methods._affine.vector import VectorObjective
from calcli.methods._temperature import likeliest
from calcli.numerics import FloatArray, IntArray, log_softmax
from calcli.parallel import check_memory
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
            self.warn(f"classes without calibration rows ({len(absent)} of {rows.k}): {what_happens}")
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

    def optimum(self, *found: Optimum) -> None:
        """Record where the search (or one search per fold) ended."""
        worst = max(found, key=lambda o: o.gap)
        self.details |= worst.details() | {"newton_steps": sum(o.steps for o in found)}
        if not all(o.converged for o in found):
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


# ---- cross-validation inside the calibration rows: folds, and the path along lambda


CLEARLY_WORSE = 1e-3
"""Relative rise of the held-out NLL at which a path is left; loose fits stay well below."""


def path_folds(rows: Rows, folds: int, rng: np.random.Generator) -> IntArray:
    """Random fold of each row, (n,), whatever the order of rows and classes."""
    losses = np.concatenate(list(rows.each(_label_losses)))
    return content_folds(rows.labels(), losses, folds, rng, rows.units())


def _label_losses(block: Block) -> FloatArray:
    return np.asarray(-log_softmax(block.z)[np.arange(len(block)), block.labels])


class Fold:
    """One fold: the objective on the other rows, and its own rows.

    rows : number of training rows (with weights, effective). share : weight of the held-out rows.
    """

    def __init__(self, objective: AffineObjective, held: Chunked) -> None:
        square = sum(float(len(y)) if w is None else float(w @ w) for y, w in labels_of(objective.chunks))
        self.objective, self.held = objective, held
        self.rows = objective.mass**2 / max(square, 1e-300)
        self.share = sum(float(len(y)) if w is None else float(w.sum()) for y, w in labels_of(held))


@dataclass(frozen=True)
class FoldedRows:
    """Features (n, k), labels (n,) and weights (n,) or None in memory, fold by fold, and where folds begin and end."""

    x: FloatArray
    y: IntArray
    w: FloatArray | None
    ends: list[int]

    def chunks(self, *slices: slice) -> list[Chunk]:
        return held_in_memory(self.x, self.y, self.w, slices or [slice(None)])

    def folds(self, *, complete: bool = False) -> list[Fold]:
        """Folds with an objective of a full matrix. Nothing is copied."""
        n, k = self.x.shape
        folds = []
        for first, last in pairwise(self.ends):
            train = self.chunks(slice(0, first), slice(last, n))
            objective = MatrixObjective(train, k, uniform_ridge(1.0, k, k + 1), complete=complete)
            folds.append(Fold(objective, self.chunks(slice(first, last))))
        return folds


def load_table(rows: Rows, features: Features, fold: IntArray | None = None) -> FoldedRows:
    """Load features, labels and weights. Raises FitError when a matrix fit would not fit into memory."""
    n, k = rows.n, rows.k
    check_memory(8 * n * k + 4 * n * k + 20 * 8 * k * (k + 1), f"a full matrix map of {n} x {k} scores")
    fold = np.zeros(n, dtype=np.int64) if fold is None else fold
    order = np.argsort(fold, kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    x, w = np.empty((n, k)), rows.weights()
    for block in rows.blocks():
        x[place[block.start : block.start + len(block)]] = features(block)
    ends = [0, *np.cumsum(np.bincount(fold)).tolist()]
    return FoldedRows(x, rows.labels()[order], None if w is None else w[order], ends)


def diagonal_folds(rows: Rows, features: Features, fold: IntArray) -> list[Fold]:
    """Folds of a fit with a scale and a bias per class."""
    folds = []
    for held in range(int(fold.max()) + 1):
        train = Chunks(rows.take(np.flatnonzero(fold != held)), features)
        objective = VectorObjective(train, rows.k, uniform_ridge(1.0, rows.k, 2), complete=True)
        folds.append(Fold(objective, Chunks(rows.take(np.flatnonzero(fold == held)), features)))
    return folds


def search_path(
    folds: Sequence[Fold],
    grid: Sequence[float],
    ridge: Callable[[float, float], Ridge],
    start: FloatArray,
    notes: FitNotes,
    progress: Callable[[int, int], None],
) -> tuple[float, list[FloatArray]]:
    """The lambda of a grid with the least held-out NLL, and the parameters of every fold there; notes what was tried.

    ridge(lambda, n) : the ridge for n training rows. Strongest first, each fit started from the one before: the
    held-out NLL falls and then rises along such a path; it is left two points after the best when it has clearly
    risen, before the weakest ridges, whose fits cost most and overfit worst. Fits are loose: the held-out NLL
    is wanted to about 1e-4.
    """
    thetas = [start] * len(folds)
    best, best_thetas, nll = 0, thetas, list[float]()
    total = sum(f.share for f in folds)
    for index, lam in enumerate(grid):
        mean = 0.0
        for at, fold in enumerate(folds):
            progress(index * len(folds) + at, len(folds) * len(grid))
            fold.objective.exchange(ridge(lam, fold.rows))
            start_here = fold.objective.aligned(thetas[at])
            thetas[at] = minimise_convex(fold.objective, start_here, aim=3e-5, products=1000).theta
            mean += fold.share / total * mean_nll(fold.held, thetas[at])
        nll.append(mean)
        if mean < nll[best] or index == 0:
            best, best_thetas = index, list(thetas)
        if index - best >= 2 and mean > (1 + CLEARLY_WORSE) * nll[best]:
            break
    notes.details |= {"grid": list(grid[: len(nll)]), "cv_nll": nll}
    return grid[best], best_thetas
