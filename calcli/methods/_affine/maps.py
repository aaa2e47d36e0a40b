"""The affine calibrators: one map, one behind a smoothed temperature step, or one per fold of a cross-validation."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import msgspec
import numpy as np
from msgspec import Meta

from calcli.calibrator import Calibrator, Context, Fit, Options, Prediction, param
from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.methods._affine.fitting import (
    FitNotes,
    best_temperature,
    diagonal_folds,
    fit_map,
    held_back,
    identity_map,
    load_table,
    path_folds,
    refuse_hopeless,
    refuse_level,
    search_path,
    solve,
    split_map,
    uniform_ridge,
)
from calcli.methods._affine.matrix import MatrixObjective
from calcli.methods._affine.objective import AffineObjective, Chunks, Ridge, logits_as
from calcli.methods._affine.vector import VectorObjective
from calcli.methods._temperature import LaterPrior, effective_rows, likeliest
from calcli.numerics import FloatArray, floored_log, log_softmax, softmax
from calcli.rows import Block, Rows

EPS = 2.2e-16
"""Floor under probabilities before the logarithm of the Dirichlet methods (the authors' own)."""

GRID = tuple(10.0**power for power in range(6, -5, -1))
"""Values of lambda = mu that cross-validation looks at, strongest first. From 100 classes on
the best is 1e3 or more when penalties are means."""

ABSENT = "each keeps the row of temperature scaling and bias 0"


def log_probabilities(block: Block) -> FloatArray:
    """Log-probabilities, with the floor of the Dirichlet methods."""
    return np.maximum(log_softmax(block.z), np.log(EPS))


class RidgeOptions(Options, frozen=True):
    ridge: Annotated[
        float,
        Meta(ge=0, description="weight of |W - I|^2 + |b|^2 beside the mean NLL; 0 for none"),
    ] = 1e-6


class OdirOptions(Options, frozen=True):
    lambda_: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="weight of the off-diagonal penalty; cross-validated when not given"),
    ] = msgspec.field(name="lambda", default=None)
    mu: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="weight of the bias penalty; that of lambda when not given"),
    ] = None
    penalty: Annotated[
        Literal["mean", "sum"],
        Meta(description="penalties are means over the entries (the paper) or plain sums (the authors' programs)"),
    ] = "mean"
    final: Annotated[
        Literal["ensemble", "refit"],
        Meta(description="the mean of the fold models' probabilities, or one model fitted to all rows"),
    ] = "ensemble"
    folds: Annotated[int, Meta(ge=2, le=100, description="folds of the cross-validation")] = 5
    ridge: Annotated[
        float,
        Meta(ge=0, description="weight of a ridge on the diagonal, which keeps it finite when rows are separable"),
    ] = 1e-6
    prior: LaterPrior = 0.0


class AffineMap(Calibrator):
    """softmax(W x + b), or softmax(scale x + b), with x made of the scores."""

    scale: FloatArray
    weight: FloatArray
    bias: FloatArray

    full: ClassVar[bool] = True
    """Is the map a full matrix, not a scale per class?"""

    features: ClassVar[Callable[..., FloatArray]]
    """Of a block, what is mapped, (b, k) float64."""

    def apply(self, block: Block) -> Prediction:
        x = self.features(block)
        return Prediction.by_argmax(log_softmax((x @ self.weight.T if self.full else x * self.scale) + self.bias))


class RidgeMap(AffineMap):
    """Base of the affine maps that are fitted under a small ridge."""

    features: ClassVar[Callable[..., FloatArray]] = staticmethod(logits_as)

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        if cls.features is logits_as:
            refuse_level(rows)
        notes, k, columns = FitNotes(), rows.k, rows.k + 1 if cls.full else 2
        theta, build = identity_map(k, columns), cast(Callable[..., Self], cls)
        if notes.absent_classes(rows, ABSENT if cls.full else ABSENT.replace("row", "scale")):
            notes.too_many_parameters(rows, k * columns, "ts or svs")
            ridge, what = uniform_ridge(options.ridge, k, columns), "fitting scales and biases"
            objective: AffineObjective
            if cls.full:
                what = f"fitting{refuse_hopeless(rows, 1, '')}"
                objective = MatrixObjective(load_table(rows, cls.features).chunks(), k, ridge)
            else:
                objective = VectorObjective(Chunks(rows, cls.features), k, ridge)
            start = lambda: identity_map(k, columns) / best_temperature(rows, notes, context)  # noqa: E731
            theta = fit_map(cls, objective, start, notes, context, what)
        return notes.fit(build(*split_map(theta)))


@dataclass(frozen=True)
class FullMap(RidgeMap):
    """A full matrix and a bias."""

    weight: FloatArray = param("k", "k")
    bias: FloatArray = param("k")

    Options: ClassVar[type[Options]] = RidgeOptions


@dataclass(frozen=True)
class OdirMap(FullMap):
    """softmax(W x + b) with penalties on the off-diagonal entries and on the bias.

    One map (``weight``, ``bias``); or one per fold (``fold_weight``, ``fold_bias``), whose
    probabilities are averaged. ``weight`` and ``bias`` are then the means over the folds:
    the one map to use (their normalised geometric mean) where a program can hold only one.
    """

    fold_weight: FloatArray | None = param("folds", "k", "k", optional=True)
    fold_bias: FloatArray | None = param("folds", "k", optional=True)

    Options = OdirOptions

    @classmethod
    def fit(cls, rows: Rows, options: OdirOptions, context: Context) -> Fit[Self]:
        if cls.features is logits_as:
            refuse_level(rows)
        notes, k = FitNotes(), rows.k
        theta = identity_map(k, k + 1)
        if not notes.absent_classes(rows, ABSENT):
            return notes.fit(cls.single(theta))
        notes.too_many_parameters(rows, k * (k + 1), "svs")
        grid = GRID if options.lambda_ is None else (options.lambda_,)
        folds = min(options.folds, rows.n)
        one_fit = options.lambda_ is not None and options.final == "refit"
        long = refuse_hopeless(
            rows, 1 if one_fit else folds * (len(grid) + 1), "use svs, or give lambda and --set final=refit for one fit"
        )
        fold = None if one_fit else path_folds(rows, folds, context.rng())
        table = load_table(rows, cls.features, fold)
        parts = [] if one_fit else table.folds()
        temperature = best_temperature(rows, notes, context, options.prior)
        start = theta / temperature
        lam, thetas = grid[0], [start] * folds
        if len(grid) > 1:
            along = lambda lam, n: odir_ridge(k, lam, options, temperature, n)  # noqa: E731
            tell = partial(context.progress, f"cross-validating lambda{long}")
            lam, thetas = search_path(parts, grid, along, start, notes, tell)
        notes.details |= {"lambda": lam, "mu": lam if options.mu is None else options.mu}
        ridge = odir_ridge(k, lam, options, temperature, effective_rows(rows))
        if options.final == "refit":
            objective = MatrixObjective(table.chunks(), k, ridge)
            start = np.mean(thetas, axis=0)
            return notes.fit(cls.single(fit_map(cls, objective, lambda: start, notes, context, f"fitting{long}")))
        found = []
        for part, theta in zip(parts, thetas, strict=True):
            part.objective.exchange(ridge)
            told = lambda done: context.progress(f"fitting{long}", done, 0)  # noqa: E731
            found.append(solve(part.objective, theta, told, early=context.early))
        notes.optimum(*found)
        stack = np.stack([o.theta for o in found])
        mean = cls.single(stack.mean(axis=0))
        fitted = replace(mean, fold_weight=stack[:, :, :-1].copy(), fold_bias=stack[:, :, -1].copy())
        return notes.fit(fitted)

    @classmethod
    def single(cls, theta: FloatArray) -> Self:
        """One map from parameters (k, k + 1)."""
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


def odir_ridge(k: int, lam: float, options: OdirOptions, temperature: float, rows: float) -> Ridge:
    """Penalty of Kull et al.: lam on off-diagonal entries, mu on the bias, next to nothing on the diagonal.

    temperature : of likelihood and prior, for ``held_back``.
    """
    mean = options.penalty == "mean"
    weight = np.full((k, k + 1), lam / (k * (k - 1)) if mean else lam)
    weight[:, -1] = (lam if options.mu is None else options.mu) / (k if mean else 1)
    at = np.arange(k)
    weight[at, at] = options.ridge
    return held_back(Ridge(weight, identity_map(k, k + 1)), 1.0 / temperature, temperature, options.prior, rows)


# ---- structured vector and matrix scaling: a smoothed temperature step, then a map under a ridge


LAMBDAS = (30.0, 10.0, 3.0, 1.0)
"""Values of lambda that cross-validation looks at, strongest first."""

ROWS_PER_CLASS = 20
"""Rows per class below which a matrix has its lambda cross-validated, and svs recommended."""


@dataclass(frozen=True)
class Structured(AffineMap):
    """Scores brought to the temperature-scaling optimum and mixed with the uniform vector; then a map."""

    temperature: float = param(within="positive")
    smoothing: float = param(within="0 to 1")

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
            """lam k/n on diagonal and bias, lam k (k - 1)/n off the diagonal, about the identity map."""
            weight = np.full((k, columns), lam * k / n)
            if cls.full:
                weight[:, :-1] *= k - 1
                weight[np.arange(k), np.arange(k)] = lam * k / n
            return held_back(Ridge(weight, identity_map(k, columns)), 1.0, temperature, options.prior, n)

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

    def features(self, block: Block) -> FloatArray:
        """log((1 - a) softmax(z / T) + a / k), (b, k)."""
        return smoothed_log_probs(block, self.temperature, self.smoothing)


def smoothed_log_probs(block: Block, temperature: float, smoothing: float, dtype: Any = np.float64) -> Any:
    p = softmax(logits_as(block, dtype) / temperature)
    p *= 1.0 - smoothing
    p += smoothing / p.shape[1]
    return np.log(p, out=p)
