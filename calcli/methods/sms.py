"""Structured matrix scaling."""

from typing import Annotated, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta

from calcli.calibrator import Context, Fit, Laws, Options, Prediction, param
from calcli.fast_dataclass import dataclass
from calcli.methods._affine.fitting import FitNotes, fit_map, identity_map, refuse_hopeless
from calcli.methods._affine.matrix import MatrixObjective
from calcli.methods._affine.path import (
    LAMBDAS,
    Smoothed,
    load_table,
    path_folds,
    presmooth,
    search_path,
    structured_ridge,
)
from calcli.methods._temperature import USUAL_PRIOR, Prior, effective_rows
from calcli.numerics import FloatArray, log_softmax
from calcli.rows import Block, Rows

ROWS_PER_CLASS = 20
"""Rows per class below which lambda is cross-validated and svs recommended."""


class StructuredMatrixOptions(Options, frozen=True):
    """Options of structured matrix scaling."""

    lambda_: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["auto", "cv"],
        Meta(description="strength of the ridge; cv chooses it by cross-validation, auto does so when rows are few"),
    ] = msgspec.field(name="lambda", default="auto")
    prior: Prior = USUAL_PRIOR


@dataclass(frozen=True)
class StructuredMatrixScaling(Smoothed):
    """Matrix scaling of temperature-scaled scores under a ridge that fits the number of rows.

    u = log((1 - a) softmax(z / T) + a / k), T by maximum likelihood and ``prior``, a = 1 / (n + 1);
    p = softmax(W u + b), W (k, k), b (k,), that minimise the mean NLL plus
    lambda (k / n) (|diag W - 1|^2 + |b|^2) + lambda (k (k - 1) / n) |off-diagonal W|^2.
    lambda is 1, as its authors advise, or ``cv``: the best of 1, 3, 10, 30 by 5-fold
    cross-validation; ``auto`` cross-validates when there are fewer than 20 rows per class,
    where lambda = 1 can be worse than temperature scaling. Convex, solved to its optimum.

    Reference: Berta, Holzmueller, Jordan, Bach (2026), arXiv 2511.03685.
    """

    weight: FloatArray = param("k", "k")
    bias: FloatArray = param("k")

    place = 22
    use = "when classes are confused with each other, from some 20 rows per class on"
    title = "structured matrix scaling"
    Options = StructuredMatrixOptions
    laws = Laws(shift_invariant=True, equivariant=True, weights=True, class_shares=True)

    @classmethod
    def fit(cls, rows: Rows, options: StructuredMatrixOptions, context: Context) -> Fit[Self]:
        notes, k = FitNotes(), rows.k
        temperature, smoothing, features = presmooth(rows, options.prior, notes, context)
        theta, held = identity_map(k, k + 1), (temperature, options.prior)
        if notes.absent_classes(rows, "only the ridge speaks for them"):
            lam, folds = options.lambda_, min(5, rows.n)
            if rows.n < ROWS_PER_CLASS * k:
                notes.warn(f"{rows.n} rows are fewer than {ROWS_PER_CLASS} per class: svs serves better")
                lam = "cv" if lam == "auto" else lam
            lam = 1.0 if lam == "auto" else lam
            fits = folds * len(LAMBDAS) + 1 if lam == "cv" else 1
            long = refuse_hopeless(rows, fits, "use svs, or give lambda")
            if lam == "cv":
                table = load_table(rows, features, path_folds(rows, folds, context.rng()))
                path = search_path(
                    table.folds(complete=True),
                    LAMBDAS,
                    lambda lam, n: structured_ridge(k, k + 1, lam, n, held),
                    theta,
                    lambda done: context.progress(f"cross-validating lambda{long}", done, folds * len(LAMBDAS)),
                )
                lam, theta = path.best, np.mean(path.thetas, axis=0)
                notes.details |= path.details
            else:
                table = load_table(rows, features)
            notes.details["lambda"] = lam
            ridge = structured_ridge(k, k + 1, lam, effective_rows(rows), held)
            objective = MatrixObjective(table.chunks(), k, ridge, complete=True)
            begin = theta
            theta = fit_map(cls, objective, lambda: begin, notes, context, f"fitting{long}")
        return notes.fit(cls(temperature, smoothing, theta[:, :-1].copy(), theta[:, -1].copy()))

    def apply(self, block: Block) -> Prediction:
        return Prediction.by_argmax(log_softmax(self.smoothed(block) @ self.weight.T + self.bias))
