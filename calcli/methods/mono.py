"""One shared monotone map of the log-probabilities."""

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import (
    ORDER_PRESERVING,
    Calibrator,
    Context,
    Fit,
    Options,
    Prediction,
    param,
)
from calcli.methods._monotone import (
    check_map,
    ended,
    evaluate,
    minimise_map,
    pull_together,
)
from calcli.methods._temperature import LaterPrior, Mixing, sharpening
from calcli.numerics import FloatArray, log_softmax, mixed_with_uniform
from calcli.rows import Rows
from calcli.solvers import Quadratic

LOG_SLOPES = {
    "low": -float(np.log(100.0)),
    "high": float(np.log(100.0)),
    "longest": 1.0,
}


class SharedMonotoneOptions(Options, frozen=True):
    knots: Annotated[
        int,
        Meta(
            ge=2,
            le=200,
            description="knots, geometric from 0.05 to 30 nats below certainty",
        ),
    ] = 12
    prior: LaterPrior = 0.0
    smooth: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "pull of neighbouring log-slopes towards each other, divided by the"
                " rows"
            ),
        ),
    ] = 1.0
    mixture: Mixing = False


@dataclass(frozen=True)
class SharedMonotone(Calibrator):
    """Bend all log-probabilities by one increasing curve, and normalise again.

    p = softmax(g(u)), u = log softmax(z), g piecewise linear through knots at -30 ..
    -0.05 (geometric), slopes s_j = exp(theta_j) in [0.01, 100]. theta minimises the
    mean NLL plus smooth/n * sum_j (theta_{j+1} - theta_j)^2 by Newton's method; the
    identity's penalty is zero, so at the minimum the NLL on the calibration data is not
    above that of the scores. Classes rank as before. Between temperature scaling (all
    slopes equal) and the diagonal nets of Rahimi et al.; the log-probabilities are a
    normal form, so a constant added to a row's logits is without effect.

    ``mixture`` mixes in 1/(n+1) of the uniform distribution (``uniform``) after the
    fit.

    Reference: the shared-map case of Rahimi, Shaban, Cheng, Hartley, Boots (2020, arXiv
    2003.06820) and Wenger, Kjellström, Triebel (2020, AISTATS), with a curve for their
    net or process.
    """

    edges: FloatArray = param("edges", within="rising")
    slopes: FloatArray = param("segments", within="positive")
    uniform: float = param(default=0.0, within="share")

    list_order = 24
    aliases = ("monotone",)
    use = "when the error depends on the level of the probability; accuracy-preserving"
    title = "shared monotone map"
    Options = SharedMonotoneOptions
    laws = replace(ORDER_PRESERVING, improves_nll=True, memory="stream")

    @classmethod
    def fit(
        cls, rows: Rows, options: SharedMonotoneOptions, context: Context
    ) -> Fit[Self]:
        edges = -np.geomspace(30.0, 0.05, options.knots)

        def loss(
            nll: Quadratic, n: float, theta: FloatArray
        ) -> tuple[float, FloatArray, FloatArray]:
            """The NLL, the pull of neighbours towards each other, and the prior."""
            slopes = np.exp(theta)
            value, gradient, hessian = nll(slopes)
            penalty, pull, stiffness = pull_together(theta, options.smooth / n)
            cost, push, curvature = sharpening(float(theta.mean()), options.prior, n)
            penalty = penalty + cost
            pull = pull + push / len(theta)
            stiffness = stiffness + curvature / len(theta) ** 2
            gradient = slopes * gradient
            hessian = hessian * np.outer(slopes, slopes) + np.diag(gradient)
            return value + penalty, gradient + pull, hessian + stiffness

        begin = np.zeros(len(edges) + 1)
        if isinstance(context.start, cls) and len(context.start.edges) == len(edges):
            begin = np.log(context.start.slopes)
        minimum = minimise_map(
            rows, edges, log_softmax, loss, begin, context, LOG_SLOPES
        )
        uniform = rows.share_of_one_more if options.mixture else 0.0
        fitted = cls(edges, np.exp(minimum.x), uniform)
        return ended(fitted, minimum, LOG_SLOPES)

    def apply(self, block: Block) -> Prediction:
        log_p = log_softmax(evaluate(log_softmax(block.z), self.edges, self.slopes))
        return Prediction(mixed_with_uniform(log_p, self.uniform), block.prediction)

    def check_own(self, k: int) -> None:
        check_map(self.edges, self.slopes)
