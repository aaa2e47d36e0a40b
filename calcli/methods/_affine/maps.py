"""The affine calibrators: one map, or one per fold of a cross-validation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import msgspec
import numpy as np
from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import (
    Calibrator,
    Context,
    Fit,
    Options,
    Prediction,
    param,
)
from calcli.errors import DataError
from calcli.folds import content_folds
from calcli.methods._affine.fitting import (
    FitNotes,
    folded,
    held_back,
    identity_map,
    objective_of,
    refuse_level,
    solve,
    split_map,
    time_of_matrix_fits,
    uniform_ridge,
)
from calcli.methods._affine.objective import (
    Ridge,
    logits_as,
    rows_to_fit,
)
from calcli.methods._temperature import LaterPrior
from calcli.numerics import FloatArray, floored_log, log_softmax, softmax
from calcli.rows import Rows

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
        if not notes.warn_of_absent_classes(absent):
            return notes.fit(build(*split_map(theta)))
        notes.too_many_parameters(theta.size, "ts or svs")
        what = SCALES
        if cls.full:
            what = f"fitting{time_of_matrix_fits(rows, 1, '')}"
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
        if not notes.warn_of_absent_classes(ABSENT):
            return notes.fit(cls.single(theta))
        notes.too_many_parameters(theta.size, "svs")
        grid = GRID if options.lambda_ is None else (options.lambda_,)
        folds = min(options.folds, rows.n)
        one_fit = options.lambda_ is not None and options.final == "refit"
        fits = 1 if one_fit else folds * (len(grid) + 1)
        long = time_of_matrix_fits(
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
