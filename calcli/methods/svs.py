"""Structured vector scaling."""

from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from calcli.calibrator import Context, Fit, Laws, Options, Prediction, param
from calcli.fast_dataclass import dataclass
from calcli.methods._affine.fitting import FitNotes, fit_map, identity_map
from calcli.methods._affine.objective import Chunks
from calcli.methods._affine.path import (
    LAMBDAS,
    Smoothed,
    diagonal_folds,
    path_folds,
    presmooth,
    search_path,
    structured_ridge,
)
from calcli.methods._affine.vector import VectorObjective
from calcli.methods._temperature import USUAL_PRIOR, Prior, effective_rows
from calcli.numerics import FloatArray, log_softmax
from calcli.rows import Block, Rows


class StructuredVectorOptions(Options, frozen=True):
    """Options of structured vector scaling."""

    lambda_: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["cv"],
        Meta(description="strength of the ridge, or cv to choose it by cross-validation"),
    ] = msgspec.field(name="lambda", default=1.0)
    prior: Prior = USUAL_PRIOR


@dataclass(frozen=True)
class StructuredVectorScaling(Smoothed):
    """Vector scaling of temperature-scaled scores under a ridge that fits the number of rows.

    u = log((1 - a) softmax(z / T) + a / k), T by maximum likelihood and ``prior``, a = 1 / (n + 1);
    p = softmax(s * u + b) with s, b (k,) that minimise the mean NLL plus
    lambda (k / n) (|s - 1|^2 + |b|^2). The first step sets the overall scale, so the ridge
    pulls towards temperature scaling, not towards the uncalibrated scores. lambda is 1,
    as its authors advise, or ``cv``: the best of 1, 3, 10, 30 by 5-fold cross-validation.
    Convex, solved to its optimum by Newton steps. All in float64 on the logits; the
    authors' program goes through float32 probabilities.

    Reference: Berta, Holzmueller, Jordan, Bach (2026), arXiv 2511.03685.
    """

    scale: FloatArray = param("k")
    bias: FloatArray = param("k")

    place = 21
    use = "when some classes are favoured: vector scaling that few rows do not spoil"
    title = "structured vector scaling"
    Options = StructuredVectorOptions
    laws = Laws(shift_invariant=True, equivariant=True, weights=True, class_shares=True, memory="stream")

    @classmethod
    def fit(cls, rows: Rows, options: StructuredVectorOptions, context: Context) -> Fit[Self]:
        notes, k = FitNotes(), rows.k
        temperature, smoothing, features = presmooth(rows, options.prior, notes, context)
        theta, held = identity_map(k, 2), (temperature, options.prior)
        if notes.absent_classes(rows, "only the ridge speaks for them"):
            lam, folds = options.lambda_, min(5, rows.n)
            if lam == "cv":
                path = search_path(
                    diagonal_folds(rows, features, path_folds(rows, folds, context.rng())),
                    LAMBDAS,
                    lambda lam, n: structured_ridge(k, 2, lam, n, held),
                    theta,
                    lambda done: context.progress("cross-validating lambda", done, folds * len(LAMBDAS)),
                )
                lam = path.best
                notes.details |= path.details
            notes.details["lambda"] = lam
            ridge = structured_ridge(k, 2, lam, effective_rows(rows), held)
            objective = VectorObjective(Chunks(rows, features), k, ridge, complete=True)
            theta = fit_map(cls, objective, lambda: identity_map(k, 2), notes, context, "fitting scales and biases")
        return notes.fit(cls(temperature, smoothing, theta[:, 0].copy(), theta[:, 1].copy()))

    def apply(self, block: Block) -> Prediction:
        return Prediction.by_argmax(log_softmax(self.smoothed(block) * self.scale + self.bias))
