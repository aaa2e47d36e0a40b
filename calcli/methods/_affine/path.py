"""Cross-validation of affine maps inside the calibration rows: folds, and the path along lambda."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from calcli.calibrator import Calibrator, Context, param
from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.folds import content_folds
from calcli.methods._affine.fitting import FitNotes, held_back, identity_map, uniform_ridge
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
    logits_as,
    mean_nll,
)
from calcli.methods._affine.vector import VectorObjective
from calcli.methods.ts import likeliest
from calcli.numerics import FloatArray, IntArray, log_softmax, softmax
from calcli.parallel import check_memory
from calcli.rows import Block, Rows
from calcli.solvers import minimise_convex

CLEARLY_WORSE = 1e-3
"""Relative rise of the held-out NLL at which a path is left; loose fits stay well below."""


def label_losses(rows: Rows) -> FloatArray:
    """Uncalibrated NLL of each row, (n,)."""
    return np.concatenate(list(rows.each(_label_losses)))


def _label_losses(block: Block) -> FloatArray:
    return np.asarray(-log_softmax(block.z)[np.arange(len(block)), block.labels])


def path_folds(rows: Rows, folds: int, rng: np.random.Generator) -> IntArray:
    """Random fold of each row, (n,), whatever the order of rows and classes."""
    return content_folds(rows.labels(), label_losses(rows), folds, rng, rows.units())


@dataclass(frozen=True)
class Folded:
    """One fold: the objective on the other rows, and the mean NLL of its own.

    rows : number of training rows (with weights, effective). share : weight of the held-out rows.
    """

    objective: AffineObjective
    held_out: Callable[[FloatArray], float]
    rows: float
    share: float


def folded(objective: AffineObjective, held: Chunked) -> Folded:
    """A fold of training rows (in the objective) and held-out rows."""
    square = sum(float(len(y)) if w is None else float(w @ w) for y, w in labels_of(objective.chunks))
    share = sum(float(len(y)) if w is None else float(w.sum()) for y, w in labels_of(held))
    return Folded(objective, lambda theta: mean_nll(held, theta), objective.mass**2 / max(square, 1e-300), share)


@dataclass(frozen=True)
class FoldedRows:
    """All rows in memory, fold by fold.

    x : (n, k) float64 features; y : (n,); w : (n,) or None; ends : where folds begin and end.
    """

    x: FloatArray
    y: IntArray
    w: FloatArray | None
    ends: list[int]

    def chunks(self, *slices: slice) -> list[Chunk]:
        return held_in_memory(self.x, self.y, self.w, slices or [slice(None)])

    def folds(self, *, complete: bool = False) -> list[Folded]:
        """Folds with an objective of a full matrix. Nothing is copied."""
        n, k = self.x.shape
        folds = []
        for first, last in pairwise(self.ends):
            train = self.chunks(slice(0, first), slice(last, n))
            folds.append(
                folded(
                    MatrixObjective(train, k, uniform_ridge(1.0, k, k + 1), complete=complete),
                    self.chunks(slice(first, last)),
                )
            )
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


def diagonal_folds(rows: Rows, features: Features, fold: IntArray) -> list[Folded]:
    """Folds of a fit with a scale and a bias per class."""
    folds = []
    for held in range(int(fold.max()) + 1):
        train = Chunks(rows.take(np.flatnonzero(fold != held)), features)
        objective = VectorObjective(train, rows.k, uniform_ridge(1.0, rows.k, 2), complete=True)
        folds.append(folded(objective, Chunks(rows.take(np.flatnonzero(fold == held)), features)))
    return folds


@dataclass(frozen=True)
class Path:
    """A path of fits along a grid.

    best : the lambda with the least held-out NLL. thetas : parameters of every fold there.
    details : the grid points tried and their held-out NLL, for the artifact.
    """

    best: float
    thetas: list[FloatArray]
    details: dict[str, Any]


def search_path(
    folds: Sequence[Folded],
    grid: Sequence[float],
    ridge: Callable[[float, float], Ridge],
    start: FloatArray,
    progress: Callable[[int], None],
) -> Path:
    """Cross-validate along a grid of lambda, strongest ridge first, each fit started from the one before.

    ridge(lambda, n) : the ridge for n training rows. The held-out NLL falls and then
    rises along such a path; it is left two points after the best when it has clearly risen,
    before the weakest ridges, whose fits cost most and overfit worst. Fits are loose: the held-out NLL
    is wanted to about 1e-4.
    """
    thetas = [start] * len(folds)
    best, best_thetas, nll = 0, thetas, list[float]()
    total = sum(f.share for f in folds)
    for index, lam in enumerate(grid):
        mean = 0.0
        for at, fold in enumerate(folds):
            progress(index * len(folds) + at)
            fold.objective.exchange(ridge(lam, fold.rows))
            start_here = fold.objective.aligned(thetas[at])
            thetas[at] = minimise_convex(fold.objective, start_here, aim=3e-5, products=1000).theta
            mean += fold.share / total * fold.held_out(thetas[at])
        nll.append(mean)
        if mean < nll[best] or index == 0:
            best, best_thetas = index, list(thetas)
        if index - best >= 2 and mean > (1 + CLEARLY_WORSE) * nll[best]:
            break
    return Path(grid[best], best_thetas, {"grid": list(grid[: len(nll)]), "cv_nll": nll})


# ---- what structured vector and matrix scaling share: the smoothed temperature step before the map


LAMBDAS = (30.0, 10.0, 3.0, 1.0)
"""Values of lambda that cross-validation looks at, strongest first."""


@dataclass(frozen=True)
class Smoothed(Calibrator):
    """Scores brought to the temperature-scaling optimum and mixed with the uniform vector."""

    temperature: float = param(within="positive")
    smoothing: float = param()

    def smoothed(self, block: Block) -> FloatArray:
        """u0 = log((1 - a) softmax(z / T) + a / k), (b, k)."""
        return smoothed_log_probs(block, self.temperature, self.smoothing)

    def check_own(self, k: int) -> None:
        if not 0 <= self.smoothing <= 1:
            raise DataError(f"smoothing is {self.smoothing}, expected 0..1")


def smoothed_log_probs(block: Block, temperature: float, smoothing: float, dtype: Any = np.float64) -> Any:
    p = softmax(logits_as(block, dtype) / temperature)
    p *= 1.0 - smoothing
    p += smoothing / p.shape[1]
    return np.log(p, out=p)


def presmooth(rows: Rows, prior: float, notes: FitNotes, context: Context) -> tuple[float, float, Features]:
    """Temperature and smoothing of the step before the map, and the features that it makes."""
    search = likeliest(rows, context, prior)
    temperature, notes.before = search.temperature, search.before
    if search.root.status in ("at_low", "at_high"):
        notes.warn(f"the temperature of the first step ran into its bound: T = {temperature:g}", "at_bound")
    smoothing = 1.0 / (rows.n + 1)
    return temperature, smoothing, lambda block, *dtype: smoothed_log_probs(block, temperature, smoothing, *dtype)


def structured_ridge(k: int, columns: int, lam: float, rows: float, held: tuple[float, float]) -> Ridge:
    """lam k/n on diagonal and bias, lam k (k - 1)/n off the diagonal, about the identity map.

    held : temperature of the first step and prior (see ``held_back``).
    """
    weight = np.full((k, columns), lam * k / rows)
    if columns > 2:
        weight[:, :-1] *= k - 1
        at = np.arange(k)
        weight[at, at] = lam * k / rows
    return held_back(Ridge(weight, identity_map(k, columns)), 1.0, *held, rows)
