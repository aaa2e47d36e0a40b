"""The affine calibrators.

One map, one behind a smoothed temperature step, or one per fold of a cross-validation.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import msgspec
import numpy as np
from msgspec import Meta

from calcli.calibrator import (
    C,
    Calibrator,
    Context,
    Fit,
    Options,
    Prediction,
    Status,
    param,
)
from calcli.errors import DataError, FitError
from calcli.folds import content_folds
from calcli.methods._affine.matrix import MatrixObjective
from calcli.methods._affine.objective import (
    AffineObjective,
    Chunked,
    Ridge,
    logits_as,
    mean_nll,
    rows_to_fit,
)
from calcli.methods._affine.vector import VectorObjective
from calcli.methods._temperature import LaterPrior, likeliest
from calcli.numerics import FloatArray, floored_log, log_softmax, softmax
from calcli.rows import Block, Rows
from calcli.solvers import LOOSE_AIM, Optimum, minimise_convex

# the authors' floor under probabilities before the logarithm of the Dirichlet methods
EPS = 2.2e-16
GRID = tuple(10.0**power for power in range(6, -5, -1))
"""Values of lambda = mu in cross-validation, strongest first. From 100 classes on the
best is 1e3 or more when penalties are means.
"""
Weight = Annotated[float, Meta(ge=0)]
SCALES = "fitting scales and biases"
ABSENT = "each keeps the row of temperature scaling and bias 0"


def log_probabilities(block: Block) -> FloatArray:
    """Log-probabilities, with the floor of the Dirichlet methods."""
    return np.maximum(log_softmax(block.z), np.log(EPS))


class RidgeOptions(Options, frozen=True):
    ridge: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "weight beside the mean NLL of the squared distance from the identity"
                " map"
            ),
        ),
    ] = 1e-6


class OdirOptions(Options, frozen=True):
    lambda_: Annotated[
        Weight | None,
        Meta(
            description=(
                "weight of the off-diagonal penalty; cross-validated when not given"
            )
        ),
    ] = msgspec.field(name="lambda", default=None)
    mu: Annotated[
        Weight | None,
        Meta(description="weight of the bias penalty; that of lambda when not given"),
    ] = None
    penalty: Annotated[
        Literal["mean", "sum"],
        Meta(
            description=(
                "penalties are means over the entries (the paper) or plain sums (the"
                " authors' programs)"
            )
        ),
    ] = "mean"
    final: Annotated[
        Literal["ensemble", "refit"],
        Meta(
            description=(
                "the mean of the fold models' probabilities, or one model fitted to"
                " all rows"
            )
        ),
    ] = "ensemble"
    folds: Annotated[
        int, Meta(ge=2, le=100, description="folds of the cross-validation")
    ] = 5
    ridge: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "weight of a ridge on the diagonal, which keeps it finite when rows"
                " are separable"
            ),
        ),
    ] = 1e-6
    prior: LaterPrior = 0.0


class AffineMap(Calibrator):
    """softmax(W x + b), or softmax(scale x + b), with features x of the scores."""

    scale: FloatArray
    weight: FloatArray
    bias: FloatArray

    full: ClassVar[bool] = True  # W is a full matrix; else a scale per class
    features: ClassVar[Callable[..., FloatArray]]  # features of a block, (b, k) float64

    @classmethod
    def identity(cls, k: int) -> FloatArray:
        """Parameters of the identity map."""
        return identity_map(k, k + 1 if cls.full else 2)

    def apply(self, block: Block) -> Prediction:
        x = self.features(block)
        mapped = x @ self.weight.T if self.full else x * self.scale
        return Prediction.by_argmax(log_softmax(mapped + self.bias))


class RidgeMap(AffineMap):
    """Base of the affine maps that are fitted under a small ridge."""

    features: ClassVar[Callable[..., FloatArray]] = staticmethod(logits_as)
    Options: ClassVar[type[Options]] = RidgeOptions

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        if cls.features is logits_as:
            refuse_level(rows)
        notes = FitNotes(rows, context)
        theta = cls.identity(rows.k)
        build = cast(Callable[..., Self], cls)
        absent = ABSENT if cls.full else ABSENT.replace("row", "scale")
        if not notes.absent_classes(absent):
            return notes.fit(build(*split_map(theta)))
        notes.too_many_parameters(theta.size, "ts or svs")
        what = SCALES
        if cls.full:
            what = f"fitting{refuse_hopeless(rows, 1, '')}"
        chunks = rows_to_fit(rows, cls.features, cls.full).chunks()
        objective = objective_of(chunks, uniform_ridge(options.ridge, *theta.shape))

        def start() -> FloatArray:
            return theta / notes.best_temperature()

        best = notes.fit_map(cls, objective, start, what)
        return notes.fit(build(*split_map(best)))


@dataclass(frozen=True)
class FullMap(RidgeMap):
    """A full matrix and a bias."""

    weight: FloatArray = param("k", "k")
    bias: FloatArray = param("k")


@dataclass(frozen=True)
class OdirMap(FullMap):
    """softmax(W x + b) with penalties on the off-diagonal entries and on the bias.

    One map (``weight``, ``bias``); or one per fold (``fold_weight``, ``fold_bias``),
    whose probabilities are averaged. ``weight`` and ``bias`` are then the means over
    the folds, for programs that can hold only one map (whose probabilities are the
    normalised geometric mean of the folds').
    """

    fold_weight: FloatArray | None = param("folds", "k", "k", optional=True)
    fold_bias: FloatArray | None = param("folds", "k", optional=True)

    Options = OdirOptions

    @classmethod
    def fit(cls, rows: Rows, options: OdirOptions, context: Context) -> Fit[Self]:
        if cls.features is logits_as:
            refuse_level(rows)
        notes = FitNotes(rows, context)
        theta = cls.identity(rows.k)
        if not notes.absent_classes(ABSENT):
            return notes.fit(cls.single(theta))
        notes.too_many_parameters(theta.size, "svs")
        grid = GRID if options.lambda_ is None else (options.lambda_,)
        folds = min(options.folds, rows.n)
        one_fit = options.lambda_ is not None and options.final == "refit"
        fits = 1 if one_fit else folds * (len(grid) + 1)
        long = refuse_hopeless(
            rows, fits, "use svs, or give lambda and --set final=refit for one fit"
        )
        fold = None if one_fit else content_folds(rows, folds, context.seed)
        source = rows_to_fit(rows, cls.features, cls.full, fold)
        parts = [] if one_fit else folded(source.folds(), theta)
        temperature = notes.best_temperature(options.prior)
        ridge = partial(odir_ridge, rows.k, options, temperature)
        # Choose lambda, with the parameters of every fold at it.
        lam = grid[0]
        thetas = [theta / temperature] * max(1, len(parts))
        if len(grid) > 1:
            lam, thetas = notes.search_path(parts, grid, ridge, thetas[0], long)
        notes.details["lambda"] = lam
        notes.details["mu"] = lam if options.mu is None else options.mu
        last = ridge(lam, rows.effective_n)
        if options.final == "refit":
            # Fit one map to all rows.
            objective = objective_of(source.chunks(), last)
            best = notes.fit_map(
                cls, objective, lambda: np.mean(thetas, axis=0), f"fitting{long}"
            )
            return notes.fit(cls.single(best))
        # Fit one map to the training rows of every fold.
        optima = []
        for (objective, _), fold_start in zip(parts, thetas, strict=True):
            objective.exchange(last)
            optima.append(solve(objective, fold_start, context, f"fitting{long}"))
        notes.optimum(*optima)
        stack = np.stack([optimum.theta for optimum in optima])
        return notes.fit(
            replace(
                cls.single(stack.mean(axis=0)),
                fold_weight=stack[:, :, :-1].copy(),
                fold_bias=stack[:, :, -1].copy(),
            )
        )

    @classmethod
    def single(cls, theta: FloatArray) -> Self:
        """Calibrator of one map with parameters (k, k + 1)."""
        return cls(*split_map(theta), None, None)

    def apply(self, block: Block) -> Prediction:
        if self.fold_weight is None or self.fold_bias is None:
            return super().apply(block)
        x = self.features(block)
        p = np.zeros_like(x)
        for weight, bias in zip(self.fold_weight, self.fold_bias, strict=True):
            p += softmax(x @ weight.T + bias)
        log_p = floored_log(p / len(self.fold_weight))
        return Prediction(log_p, log_p.argmax(axis=1), floored=True)

    def check_own(self, k: int) -> None:
        if (self.fold_weight is None) != (self.fold_bias is None):
            raise DataError("expected both or neither of 'fold_weight' and 'fold_bias'")


def odir_ridge(
    k: int, options: OdirOptions, temperature: float, lam: float, rows: float
) -> Ridge:
    """Make the penalty of Kull et al.

    lam is on off-diagonal entries, mu on the bias, almost none on the diagonal.
    """
    mu = lam if options.mu is None else options.mu
    if options.penalty == "mean":
        lam /= k * (k - 1)
        mu /= k
    weight = np.full((k, k + 1), lam)
    weight[:, -1] = mu
    np.fill_diagonal(weight, options.ridge)
    return held_back(
        Ridge(weight, identity_map(k, k + 1)),
        1.0 / temperature,
        temperature,
        options.prior,
        rows,
    )


# ---- structured vector and matrix scaling: a smoothed temperature step, then a map
# under a ridge


# values of lambda in cross-validation, strongest first
LAMBDAS = (30.0, 10.0, 3.0, 1.0)
# rows per class below which lambda=auto of sms is cross-validated and svs is
# recommended
ROWS_PER_CLASS = 20


@dataclass(frozen=True)
class Structured(AffineMap):
    """Base of svs and sms: an affine map behind a smoothed temperature step.

    It takes temperature-scaled log-probabilities, mixed with the uniform vector.
    """

    temperature: float = param(within="positive")
    smoothing: float = param(within="0 to 1")

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        notes = FitNotes(rows, context)
        k = rows.k
        theta = cls.identity(rows.k)
        search = likeliest(rows, context, options.prior)
        temperature = search.temperature
        smoothing = 1.0 / (rows.effective_n + 1)
        if search.root.status in ("at_low", "at_high"):
            notes.warn(
                "the temperature of the first step ran into its bound: T ="
                f" {temperature:g}",
                "at_bound",
            )
        features = partial(smoothed_log_probs, temperature, smoothing)

        def ridge(lam: float, n: float) -> Ridge:
            """Make the ridge about the identity map.

            lam k/n on diagonal and bias, lam k (k - 1)/n off the diagonal.
            """
            weight = np.full(theta.shape, lam * k / n)
            if cls.full:
                weight[:, :-1] *= k - 1
                weight[np.arange(k), np.arange(k)] = lam * k / n
            return held_back(
                Ridge(weight, cls.identity(k)), 1.0, temperature, options.prior, n
            )

        build = cast(Callable[..., Self], partial(cls, temperature, smoothing))
        if not notes.absent_classes("only the ridge speaks for them"):
            return notes.fit(build(*split_map(theta)))
        lam = options.lambda_
        folds = min(5, rows.n)
        what = SCALES
        long = ""
        if cls.full:
            if rows.effective_n < ROWS_PER_CLASS * k:
                notes.warn(
                    f"{rows.effective_n:.0f} rows are fewer than {ROWS_PER_CLASS} per"
                    " class: svs serves better"
                )
                if lam == "auto":
                    lam = "cv"
            if lam == "auto":
                lam = 1.0
            fits = folds * len(LAMBDAS) + 1 if lam == "cv" else 1
            long = refuse_hopeless(rows, fits, "use svs, or give lambda")
            what = f"fitting{long}"
        fold = content_folds(rows, folds, context.seed) if lam == "cv" else None
        source = rows_to_fit(rows, features, cls.full, fold)
        if fold is not None:
            parts = folded(source.folds(), theta, complete=True)
            lam, thetas = notes.search_path(parts, LAMBDAS, ridge, theta, long)
            if cls.full:
                theta = np.mean(thetas, axis=0)
        notes.details["lambda"] = lam
        last = ridge(lam, rows.effective_n)
        objective = objective_of(source.chunks(), last, complete=True)
        best = notes.fit_map(cls, objective, lambda: theta, what)
        return notes.fit(build(*split_map(best)))

    def features(self, block: Block) -> FloatArray:
        """log((1 - a) softmax(z / T) + a / k), (b, k)."""
        return smoothed_log_probs(self.temperature, self.smoothing, block)


def smoothed_log_probs(
    temperature: float, smoothing: float, block: Block, dtype: Any = np.float64
) -> Any:
    p = softmax(logits_as(block, dtype) / temperature)
    p *= 1.0 - smoothing
    p += smoothing / p.shape[1]
    return np.log(p, out=p)


# ---- shared by the fits: warnings, starts, ridges


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

    def absent_classes(self, what_happens: str) -> bool:
        """Warn of classes without rows.

        Returns True if at least two classes have some.
        """
        rows = self.rows
        weights = rows.weights()
        class_weight = np.bincount(rows.labels(), weights=weights, minlength=rows.k)
        absent = np.flatnonzero(class_weight == 0)
        if len(absent):
            self.warn(
                f"classes without calibration rows ({len(absent)} of {rows.k}):"
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
                f" {worst.gradient:.2g}): with rows that are"
                " separable and no ridge there is no optimum; a larger ridge, svs or"
                " ts serves better",
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
                objective.exchange(ridge(lam, objective.effective))
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


def refuse_hopeless(rows: Rows, fits: int, advice: str) -> str:
    """Raise FitError if matrix fits would take hours.

    Returns the estimated time, as text for the progress line.
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
            f" {2 * spread:.3g}, too little for a"
            " method that reads them as they are; subtract each row's largest logit,"
            " or use svs, dir or dir-odir"
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
