"""Monotone spline of the log-odds."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from calcli.calibrator import Curves, param
from calcli.errors import DataError
from calcli.methods._binary.log_odds import MapFit, Sample, regress
from calcli.methods._binary.maps import TOP_LABEL, LogisticCalibrator, ModeOptions
from calcli.numerics import FloatArray, row_weights, sigmoid
from calcli.solvers import minimise_box

STIFFNESS = 10.0 ** np.arange(5.0, -2.0, -1.0)
"""Weights of the roughness that are tried, stiffest first; log-odds are measured in
their standard deviations.
"""


class LogitSplineOptions(ModeOptions, frozen=True):
    knots: Annotated[
        int,
        Meta(
            ge=2,
            le=100,
            description="knots, spread over the log-odds that are uncertain",
        ),
    ] = 8


@dataclass(frozen=True)
class LogitSpline(LogisticCalibrator):
    """Fit a smooth rising curve to the log-odds, as bent as the rows warrant.

    log(q / (1 - q)) = intercept + integral of g from the first knot to s, with s the
    exact log-odds, as for ``platt``; g, the slope, is piecewise linear between knots,
    constant beyond them, and at least 0, so the map never falls. Half of the knots
    follow the quantiles of s, half those of its information p (1 - p) under a straight
    line. The slopes at the knots and the intercept maximise the likelihood minus
    lambda/2 integral of g'^2: from a straight line (lambda large) to ``quadratic`` in
    pieces. lambda is the value of greatest marginal likelihood, by Laplace's
    approximation, on a grid.

    Data that leave nothing to fit are treated as by ``platt``.

    Reference: Wahba (1990), Spline Models for Observational Data, chapters 4 and 9;
    Lucena (2018), arXiv 1809.07751, calibrates by smoothing splines; MacKay (1992),
    Neural Computation 4, on lambda.
    """

    intercept: FloatArray = param("maps")
    knots: Curves = param(within="rising")
    slopes: Curves = param(within="from 0")

    list_order = 38
    use = "two classes, where the log-odds are bent more than once"
    title = "monotone spline of the log-odds"
    laws = TOP_LABEL
    Options = LogitSplineOptions
    identity = (0.0, np.zeros(1), np.ones(1))
    flexible = True

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        line = regress(
            sample, [sample.s], low=0.0, constant_if_separable=options.mode == "top"
        )
        slope, intercept = line.params
        straight = (intercept, np.zeros(1), np.array([slope]))
        if line.status != "ok" or slope == 0.0:
            return line.rising(straight)
        share = row_weights(sample.weight, len(sample.s))
        p = sigmoid(slope * sample.s + intercept)
        information = share * p * (1.0 - p)
        order = np.argsort(sample.s, kind="stable")
        # Knots at quantiles, half of the rows and half of their information.
        density = share / share.sum() + information / information.sum()
        mass = np.cumsum(density[order]) / 2.0
        place = np.searchsorted(mass, np.linspace(0.005, 0.995, options.knots))
        knots = np.unique(sample.s[order[np.minimum(place, len(order) - 1)]])
        if len(knots) < 2:
            return MapFit(straight, record=line.record)
        start = np.array([intercept + slope * knots[0], *[slope] * len(knots)])
        theta, record = smoothest(sample, share, knots, start)
        return MapFit((float(theta[0]), knots, theta[1:]), record=record)

    @staticmethod
    def logit(s: FloatArray, *params: Any) -> FloatArray:
        intercept, knots, slopes = params
        u = (
            intercept
            + slopes[0] * np.minimum(s - knots[0], 0.0)
            + slopes[-1] * np.maximum(s - knots[-1], 0.0)
        )
        for j, width in enumerate(np.diff(knots)):
            t = np.clip(s - knots[j], 0.0, width)
            u += t * (slopes[j] + t * (0.5 * (slopes[j + 1] - slopes[j]) / width))
        return u

    def check_own(self, k: int) -> None:
        super().check_own(k)
        for _, knots, slopes in self.maps:
            if len(knots) != len(slopes) or not len(knots):
                raise DataError(
                    "params.knots is empty, or there are not as many slopes"
                )


def areas(s: FloatArray, knots: FloatArray) -> FloatArray:
    """Integrate each knot's hat function from the first knot to s, (knots, n).

    The outer two go on as 1.
    """
    out = np.zeros((len(knots), len(s)))
    out[0] += np.minimum(s - knots[0], 0.0)
    out[-1] += np.maximum(s - knots[-1], 0.0)
    for j, width in enumerate(np.diff(knots)):
        t = np.clip(s - knots[j], 0.0, width)
        rise = 0.5 * t * t / width
        out[j] += t - rise
        out[j + 1] += rise
    return out


def smoothest(
    sample: Sample, share: FloatArray, knots: FloatArray, start: FloatArray
) -> tuple[FloatArray, dict[str, float]]:
    """Fit intercept and slopes under the likeliest roughness penalty.

    It is the one of greatest marginal likelihood.
    """
    unit = float(np.sqrt(np.cov(sample.s, aweights=share))) or 1.0
    design = np.concatenate([np.ones((1, len(sample.s))), areas(sample.s, knots)])
    # searched in units in which s has deviation 1
    size = np.array([1.0, *[unit] * len(knots)])
    design /= size[:, None]
    root_width = np.sqrt(np.diff(knots) / unit)
    difference = np.diff(np.eye(len(knots)), axis=0) / root_width[:, None]
    rough = np.zeros((len(start), len(start)))
    rough[1:, 1:] = difference.T @ difference
    low = np.array([-np.inf, *[0.0] * len(knots)])

    def penalised(stiff: float) -> Any:
        def loss(theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            u = theta @ design
            q = sigmoid(u)
            pull = stiff * rough @ theta
            nll = float(share @ (np.logaddexp(0.0, u) - sample.hit * u))
            value = nll + 0.5 * float(theta @ pull)
            gradient = design @ (share * (q - sample.hit)) + pull
            hessian = (design * (share * q * (1.0 - q))) @ design.T + stiff * rough
            return value / n, gradient / n, hessian / n

        return loss

    n = float(share.sum())
    theta = start * size
    best = (-np.inf, start, 0.0)
    for stiff in STIFFNESS:
        theta = minimise_box(penalised(stiff), theta, low=low).x
        value, _, hessian = penalised(stiff)(theta)
        free = np.append(True, theta[1:] > 0)
        spread = np.linalg.slogdet(n * hessian[np.ix_(free, free)])[1]
        evidence = (
            -n * value
            + 0.5 * (len(knots) - 1) * float(np.log(stiff))
            - 0.5 * float(spread)
        )
        if evidence > best[0]:
            best = (evidence, theta / size, float(stiff))
    return best[1], {"lambda": best[2]}
