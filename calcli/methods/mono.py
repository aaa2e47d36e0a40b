"""One shared monotone map of the log-probabilities."""

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from msgspec import Meta

from calcli.calibrator import Calibrator, Context, Fit, Laws, Options, Prediction, param
from calcli.methods._monotone import check_map, evaluate, nll_in_slopes, pull_together
from calcli.methods._newton import minimise
from calcli.numerics import FloatArray, log_softmax
from calcli.rows import Block, Rows

LOG_SLOPE_LIMIT = float(np.log(100.0))


class SharedMonotoneOptions(Options, frozen=True):
    """Options of the shared monotone map."""

    knots: Annotated[
        int,
        Meta(ge=2, le=200, description="knots, geometric from 0.05 to 30 nats below certainty"),
    ] = 12
    smooth: Annotated[
        float,
        Meta(ge=0, description="pull of neighbouring log-slopes towards each other, divided by the rows"),
    ] = 1.0


@dataclass(frozen=True)
class SharedMonotone(Calibrator):
    """Bend all log-probabilities by one increasing curve, and normalise again.

    p = softmax(g(u)), u = log softmax(z), g piecewise linear through knots at -30 .. -0.05
    (geometric), slopes s_j = exp(theta_j) in [0.01, 100]. theta minimises the mean NLL plus
    smooth/n * sum_j (theta_{j+1} - theta_j)^2 by Newton's method from the identity, whose
    penalty is zero, so the NLL on the calibration data never rises. Classes rank as before.
    Between temperature scaling (all slopes equal) and the diagonal nets of Rahimi et al.;
    the log-probabilities are a normal form, so a constant added to a row's logits is
    without effect.

    Reference: the shared-map case of Rahimi, Shaban, Cheng, Hartley, Boots (2020, arXiv
    2003.06820) and Wenger, Kjellström, Triebel (2020, AISTATS), with a curve for their net or process.
    """

    edges: FloatArray = param("edges")
    slopes: FloatArray = param("segments")

    title = "shared monotone map"
    Options = SharedMonotoneOptions
    laws = Laws(
        keeps_argmax=True,
        monotone=True,
        shift_invariant=True,
        equivariant=True,
        improves_nll=True,
        top_label_only=False,
        weights=True,
        memory="stream",
    )

    @classmethod
    def fit(cls, rows: Rows, options: SharedMonotoneOptions, context: Context) -> Fit[Self]:
        edges = -np.geomspace(30.0, 0.05, options.knots)
        nll = nll_in_slopes(rows, edges, log_softmax)
        passes = 0

        def objective(theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            nonlocal passes
            passes += 1
            context.progress("bending the map", passes, 0)
            slopes = np.exp(theta)
            value, gradient, hessian = nll(slopes)
            penalty, pull, stiffness = pull_together(theta, options.smooth / rows.n)
            gradient = slopes * gradient
            hessian = hessian * np.outer(slopes, slopes) + np.diag(gradient)
            return value + penalty, gradient + pull, hessian + stiffness

        low, high = -LOG_SLOPE_LIMIT, LOG_SLOPE_LIMIT
        found = minimise(objective, np.zeros(len(edges) + 1), low=low, high=high, longest=1.0)
        slopes = np.exp(found.x)
        details = {"evaluations": found.evaluations, "gradient": found.gradient}
        if found.status == "not_converged":
            return Fit(cls(edges, slopes), "not_converged", ("the search for the slopes did not converge",), details)
        if np.all(found.x >= high) or np.all(found.x <= low):
            return Fit(cls(edges, slopes), "at_bound", (ALL_AT_BOUND,), details)
        return Fit(cls(edges, slopes), "ok", (), details)

    def apply(self, block: Block) -> Prediction:
        z = block.z
        return Prediction(log_softmax(evaluate(log_softmax(z), self.edges, self.slopes)), block.prediction)

    def check(self, k: int) -> None:
        check_map(self.edges, self.slopes)


ALL_AT_BOUND = (
    "every slope ran into its bound (0.01 or 100): these rows are all right, or their scores say nothing about"
    " the labels; calibrate on rows that the model gets wrong now and then"
)

METHOD = SharedMonotone
