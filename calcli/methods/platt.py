"""Platt scaling."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from calcli.calibrator import param
from calcli.methods._binary import TOP_LAWS, BinaryCalibrator, MapFit, ModeOptions, Sample, check_finite
from calcli.methods._logistic import (
    NOT_CONVERGED,
    SEPARABLE,
    SMOOTHED,
    fit_logistic,
    is_separable,
    sigmoid,
    smoothed_targets,
    why_constant,
)
from calcli.numerics import FloatArray

CLIP = 1e-12
"""Probabilities stay this far from 0 and 1 before their log-odds are taken."""


class PlattOptions(ModeOptions, frozen=True):
    """Options of Platt scaling."""

    smooth: Annotated[
        bool,
        Meta(description="fit to Platt's smoothed targets (n1+1)/(n1+2) and 1/(n0+2) instead of 1 and 0"),
    ] = False


@dataclass(frozen=True)
class PlattScaling(BinaryCalibrator):
    """Fit a straight line to the log-odds of the confidence by maximum likelihood.

    q = sigmoid(slope s + intercept), s = log(p / (1 - p)) with p clipped to
    [1e-12, 1 - 1e-12]. Unregularised, by Newton steps from (1, 0) to a gradient of 1e-10.

    Outcomes that are all alike give the constant (n1 + 1) / (n + 2), as do scores that
    separate right from wrong perfectly, where the likelihood has no maximum; with one map
    per class such a class gets the smoothed targets instead, whose optimum is finite,
    because a constant would forget the class. A negative slope is allowed and told.

    Reference: Platt (1999), Probabilistic outputs for support vector machines; Guo et al.
    (2017), section 4.1; Kumar, Liang, Ma (2019) for the top-label and marginal forms.
    """

    slope: FloatArray = param("maps")
    intercept: FloatArray = param("maps")

    title = "Platt scaling"
    laws = TOP_LAWS
    Options = PlattOptions
    identity = (1.0, 0.0)

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        return fit_platt(sample, smooth=options.smooth, constant_if_separable=options.mode == "top")

    @staticmethod
    def curve(p: FloatArray, *params: Any) -> FloatArray:
        slope, intercept = params
        return sigmoid(slope * log_odds(p) + intercept)

    def check(self, k: int) -> None:
        super().check(k)
        check_finite(slope=self.slope, intercept=self.intercept)


def log_odds(p: FloatArray) -> FloatArray:
    """log(p / (1 - p)), at most 27.6 either way."""
    p = np.clip(p, CLIP, 1.0 - CLIP)
    return np.log(p / (1.0 - p))


def fit_platt(sample: Sample, *, smooth: bool = False, constant_if_separable: bool = True) -> MapFit:
    """Slope and intercept of one map."""
    s, hit = log_odds(sample.p), sample.hit > 0
    ones, zeros = sample.positive, sample.mass - sample.positive
    constant = (0.0, float(np.log((ones + 1.0) / (zeros + 1.0))))
    if why := why_constant(s, hit):
        return MapFit(constant, "degenerate", why)
    separable = is_separable(s, hit)
    if separable and constant_if_separable and not smooth:
        return MapFit(constant, "degenerate", f"{SEPARABLE}; more rows or smooth=true would serve better")
    target = smoothed_targets(hit, ones, zeros) if smooth or separable else sample.hit
    found = fit_logistic(np.stack([s, np.ones(len(s))]), target, sample.weight, np.array([1.0, 0.0]))
    slope, intercept = found.coef.tolist()
    record = {"gradient": found.gradient, "steps": float(found.steps)}
    if not found.converged:
        return MapFit((slope, intercept), "not_converged", NOT_CONVERGED, record)
    if separable and not smooth:
        return MapFit((slope, intercept), "degenerate", SMOOTHED, record)
    note = "the slope is negative: surer rows are wrong more often" if slope < 0 else ""
    return MapFit((slope, intercept), "ok", note, record)


METHOD = PlattScaling
