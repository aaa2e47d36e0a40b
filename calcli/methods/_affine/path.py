"""Cross-validation of affine maps inside the calibration rows: folds, and the path along lambda."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import numpy as np

from calcli.calibrator import Calibrator, Context, Fit, param
from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.folds import content_folds
from calcli.methods._affine.fitting import (
    FitNotes,
    fit_map,
    held_back,
    identity_map,
    refuse_hopeless,
    split_map,
    uniform_ridge,
)
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
from calcli.methods._temperature import effective_rows
from calcli.methods.ts import likeliest
from calcli.numerics import FloatArray, IntArray, log_softmax, softmax
from calcli.parallel import check_memory
from calcli.rows import Block, Rows
from calcli.solvers import minimise_convex

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
    """All rows in memory, fold by fold.

    x : (n, k) float64 features; y : (n,); w : (n,) or None; ends : where folds begin and end.
    """

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


# ---- structured vector and matrix scaling: a smoothed temperature step, then a map under a ridge


LAMBDAS = (30.0, 10.0, 3.0, 1.0)
"""Values of lambda that cross-validation looks at, strongest first."""

ROWS_PER_CLASS = 20
"""Rows per class below which a matrix has its lambda cross-validated, and svs recommended."""


@dataclass(frozen=True)
class Structured(Calibrator):
    """Scores brought to the temperature-scaling optimum and mixed with the uniform vector; then a map."""

    temperature: float = param(within="positive")
    smoothing: float = param()

    full: ClassVar[bool]
    """Is the map a full matrix, not a scale per class?"""

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        notes, k, columns = FitNotes(), rows.k, rows.k + 1 if cls.full else 2
        search = likeliest(rows, context, options.prior)
        temperature, smoothing, notes.before = search.temperature, 1.0 / (rows.n + 1), search.before
        if search.root.status in ("at_low", "at_high"):
            notes.warn(f"the temperature of the first step ran into its bound: T = {temperature:g}", "at_bound")

        def features(block: Block, *dtype: Any) -> Any:
            return smoothed_log_probs(block, temperature, smoothing, *dtype)

        def ridge(lam: float, n: float) -> Ridge:
            return structured_ridge(k, columns, lam, n, temperature, options.prior)

        theta, build = identity_map(k, columns), cast(Callable[..., Self], partial(cls, temperature, smoothing))
        if not notes.absent_classes(rows, "only the ridge speaks for them"):
            return notes.fit(build(*split_map(theta)))
        lam, folds, long, words = options.lambda_, min(5, rows.n), "", "fitting scales and biases"
        if cls.full:
            if rows.n < ROWS_PER_CLASS * k:
                notes.warn(f"{rows.n} rows are fewer than {ROWS_PER_CLASS} per class: svs serves better")
                lam = "cv" if lam == "auto" else lam
            lam = 1.0 if lam == "auto" else lam
            fits = folds * len(LAMBDAS) + 1 if lam == "cv" else 1
            long = refuse_hopeless(rows, fits, "use svs, or give lambda")
            words = f"fitting{long}"
        fold = path_folds(rows, folds, context.rng()) if lam == "cv" else None
        table = load_table(rows, features, fold) if cls.full else None
        if fold is not None:
            parts = diagonal_folds(rows, features, fold) if table is None else table.folds(complete=True)
            tell = partial(context.progress, f"cross-validating lambda{long}")
            lam, thetas = search_path(parts, LAMBDAS, ridge, theta, notes, tell)
            theta = np.mean(thetas, axis=0) if cls.full else theta
        notes.details["lambda"] = lam
        held = ridge(lam, effective_rows(rows))
        objective: AffineObjective
        if table is None:
            objective = VectorObjective(Chunks(rows, features), k, held, complete=True)
        else:
            objective = MatrixObjective(table.chunks(), k, held, complete=True)
        return notes.fit(build(*split_map(fit_map(cls, objective, lambda: theta, notes, context, words))))

    def smoothed(self, block: Block) -> FloatArray:
        """log((1 - a) softmax(z / T) + a / k), (b, k)."""
        return smoothed_log_probs(block, self.temperature, self.smoothing)

    def check_own(self, k: int) -> None:
        if not 0 <= self.smoothing <= 1:
            raise DataError(f"smoothing is {self.smoothing}, expected 0..1")


def smoothed_log_probs(block: Block, temperature: float, smoothing: float, dtype: Any = np.float64) -> Any:
    p = softmax(logits_as(block, dtype) / temperature)
    p *= 1.0 - smoothing
    p += smoothing / p.shape[1]
    return np.log(p, out=p)


def structured_ridge(k: int, columns: int, lam: float, rows: float, temperature: float, prior: float) -> Ridge:
    """lam k/n on diagonal and bias, lam k (k - 1)/n off the diagonal, about the identity map (see ``held_back``)."""
    weight = np.full((k, columns), lam * k / rows)
    if columns > 2:
        weight[:, :-1] *= k - 1
        at = np.arange(k)
        weight[at, at] = lam * k / rows
    return held_back(Ridge(weight, identity_map(k, columns)), 1.0, temperature, prior, rows)
