"""Lines of the log-odds that a prior holds near the scores."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from calcli.calibrator import param
from calcli.methods._binary.log_odds import MapFit, Sample, log_sigmoid
from calcli.methods._binary.maps import TOP_LABEL, LogisticCalibrator, ModeOptions
from calcli.numerics import FloatArray, row_weights, sigmoid
from calcli.solvers import minimise_box

# standard deviations of the priors on b and on v; that of t is 1
INTERCEPT = 5.0
BEND = 0.5
EXPONENTS = {
    "line": [[1.0, 0.0]],
    "beta": [[1.0, 0.5], [1.0, -0.5]],
    "bend": [[1.0, 0.0], [0.0, 1.0]],
}
"""Coefficients of a shape's features are the exponentials of these times (t, v)."""


class LineOptions(ModeOptions, frozen=True):
    shape: Annotated[
        Literal["line", "beta", "bend"],
        Meta(
            description=(
                "a straight line, the curve of beta calibration, or a line with a"
                " logarithm beside it"
            )
        ),
    ] = "line"


@dataclass(frozen=True)
class LineWithPrior(LogisticCalibrator):
    """Fit a line or a slightly bent one to the log-odds, which few rows move little.

    With s the exact log-odds, as for ``platt``, and u = log(q / (1 - q)): ``line`` u =
    e^t s + b; ``beta`` u = e^(t+v/2) log p - e^(t-v/2) log(1-p) + b; ``bend`` u = e^t s
    + (e^v - 1) sign(s) log(1+|s|) + b. (t, v, b) minimise the sum of the NLL plus t^2/2
    + 2 v^2 + b^2/50 by Newton's method: normal priors of deviation 1, 1/2 and 5 about
    the map that changes nothing. Rows that are all right, or separable, have an optimum
    too. Stored are u = slope s + turn sign(s) log(1+|s|) + tail log p + intercept.

    Reference: Platt (1999) and Kull, Silva Filho, Flach (2017), for the line and its
    beta form; MacKay (1992), Neural Computation 4, for what a prior does to them.
    """

    slope: FloatArray = param("maps")
    turn: FloatArray = param("maps")
    tail: FloatArray = param("maps")
    intercept: FloatArray = param("maps")

    list_order = 36
    use = "two classes or the confidence alone, with very few rows"
    title = "line of the log-odds under a prior"
    laws = TOP_LABEL
    Options = LineOptions
    identity = (1.0, 0.0, 0.0, 0.0)

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        s = sample.s
        offset = signed_log(s) * (options.shape == "bend")
        features = {
            "line": [s],
            "beta": [log_sigmoid(s), -log_sigmoid(-s)],
            "bend": [s, offset],
        }[options.shape]
        weight = row_weights(sample.weight, len(s))
        design = np.stack([*features, np.ones_like(s)])
        exponents = np.array(EXPONENTS[options.shape])
        precision = np.array([1.0, 1.0 / BEND**2, 1.0 / INTERCEPT**2])

        def loss(theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            c = np.exp(exponents @ theta[:2])
            u = np.append(c, theta[2]) @ design - offset
            q = sigmoid(u)
            nll = float(weight @ (np.logaddexp(0.0, u) - sample.hit * u))
            value = nll + 0.5 * float(precision @ theta**2)
            slope = design @ (weight * (q - sample.hit))
            chain = np.zeros((len(design), 3))  # of the coefficients by (t, v, b)
            chain[:-1, :2] = c[:, None] * exponents
            chain[-1, 2] = 1.0
            of_coefficients = (design * (weight * q * (1.0 - q))) @ design.T
            hessian = chain.T @ of_coefficients @ chain + np.diag(precision)
            hessian[:2, :2] += exponents.T @ ((c * slope[:-1])[:, None] * exponents)
            return value, chain.T @ slope + precision * theta, hessian

        minimum = minimise_box(loss, np.zeros(3), longest=2.0, tolerance=1e-9)
        t, v, b = minimum.x.tolist()
        record = {"gradient": minimum.gradient, "steps": float(minimum.evaluations)}
        slope = np.exp(t)
        turn = 0.0
        tail = 0.0
        if options.shape == "beta":  # log p - log(1 - p) = s
            slope = np.exp(t - v / 2)
            tail = np.exp(t + v / 2) - np.exp(t - v / 2)
        elif options.shape == "bend":
            turn = np.expm1(v)
        params = (float(slope), float(turn), float(tail), b)
        if minimum.status != "ok":
            note = "the fit did not reach its optimum"
            return MapFit(params, "not_converged", note, record)
        return MapFit(params, record=record)

    @staticmethod
    def logit(s: FloatArray, *params: Any) -> FloatArray:
        slope, turn, tail, intercept = params
        return slope * s + turn * signed_log(s) + tail * log_sigmoid(s) + intercept


def signed_log(s: FloatArray) -> FloatArray:
    """sign(s) log(1 + |s|)."""
    return np.log1p(np.maximum(s, 0.0)) - np.log1p(np.maximum(-s, 0.0))
