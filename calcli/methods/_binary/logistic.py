"""Logistic regression with a few features, to the optimum, and what to do where there is none."""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from calcli.methods._binary.log_odds import MapFit, Sample
from calcli.numerics import FloatArray
from calcli.solvers import BoxMinimum, minimise_box

Loss = Literal["log", "brier"]

Smooth = Annotated[
    bool, Meta(description="fit to Platt's smoothed targets (n1+1)/(n1+2) and 1/(n0+2) instead of 1 and 0")
]

GRADIENT = 1e-12  # a fit is at the optimum when no entry of the mean gradient, features scaled to size 1, is larger


def fit_logistic(
    design: FloatArray,
    target: FloatArray,
    weight: FloatArray | None = None,
    *,
    low: FloatArray | float = -np.inf,
    loss: Loss = "log",
) -> BoxMinimum:
    """Minimise the mean loss of target given sigmoid(coef . design), with coef >= low.

    design : (d, n) features, a row of ones among them for an intercept. target : (n,) in [0, 1]. weight : (n,) or None.
    low : (d,) of 0 and -inf. loss : ``log`` is convex: the result is the optimum if one exists (outcomes neither all
    alike nor separable). ``brier`` is not: the search starts at the log loss's optimum and never gets worse.
    """
    share = np.full(design.shape[1], 1.0 / design.shape[1]) if weight is None else weight / weight.sum()
    size = np.sqrt(design**2 @ share)
    size[size == 0] = 1.0
    scaled = design / size[:, None]

    def log_loss(coef: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        u = coef @ scaled
        t = np.exp(-np.abs(u))
        value = float(share @ (np.log1p(t) + np.maximum(u, 0.0) - target * u))
        gradient = scaled @ (share * (np.where(u >= 0, 1.0, t) / (1.0 + t) - target))
        return value, gradient, (scaled * (share * t / (1.0 + t) ** 2)) @ scaled.T

    def squared_loss(coef: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        u = coef @ scaled
        t = np.exp(-np.abs(u))
        p, slope = np.where(u >= 0, 1.0, t) / (1.0 + t), t / (1.0 + t) ** 2
        miss = p - target
        bend = slope * (slope + miss * (1.0 - 2.0 * p))
        return float(share @ miss**2), scaled @ (2.0 * share * miss * slope), (scaled * (2.0 * share * bend)) @ scaled.T

    found = minimise_box(log_loss, np.zeros(len(design)), low=low, tolerance=GRADIENT)
    if loss == "brier":
        found = minimise_box(squared_loss, found.x, low=low, tolerance=GRADIENT)
    return found._replace(x=found.x / size)


def regress(
    sample: Sample,
    features: list[FloatArray],
    *,
    low: float = -np.inf,
    intercept: bool = True,
    smooth: bool = False,
    loss: Loss = "log",
    constant_if_separable: bool = True,
) -> MapFit:
    """Log-odds of the outcomes, linear in features: one slope for each, at least ``low``, then the intercept.

    Outcomes that are all alike, or scores that are, give the constant (n1 + 1) / (n + 2), as
    do separable scores, where the likelihood has no maximum; without ``constant_if_separable``
    these get smoothed targets, whose optimum is finite. smooth : use those in any case.
    """
    hit = sample.hit > 0
    weight = np.ones(len(hit)) if sample.weight is None else sample.weight
    ones = float(weight @ sample.hit)
    zeros = float(weight.sum()) - ones
    constant = (*[0.0] * len(features), float(np.log((ones + 1.0) / (zeros + 1.0))))
    if hit.all() or not hit.any():
        return MapFit(constant, "degenerate", "all outcomes are alike, so the map is a constant")
    if sample.s.min() == sample.s.max():
        return MapFit(constant, "degenerate", "all scores are equal, so the map is a constant")
    above, below = sample.s[hit], sample.s[~hit]  # one threshold tells them apart, up to ties at it
    separable = bool(below.max() <= above.min() or above.max() <= below.min())
    if separable and constant_if_separable and not smooth:
        return MapFit(constant, "degenerate", SEPARABLE)
    target = sample.hit
    if smooth or separable:  # Platt (1999)
        target = np.where(hit, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))
    design = np.stack([*features, np.ones(len(hit))] if intercept else features)
    lowest = np.array([low] * len(features) + [-np.inf] * intercept)
    found = fit_logistic(design, target, sample.weight, low=lowest, loss=loss)
    params = (*found.x.tolist(), *[0.0] * (not intercept))
    record = {"gradient": found.gradient, "steps": float(found.evaluations)}
    if found.status != "ok":
        return MapFit(params, "not_converged", "the fit did not reach its optimum", record)
    if separable and not smooth:
        return MapFit(params, "degenerate", SMOOTHED, record)
    return MapFit(params, record=record)


SEPARABLE = (
    "the scores separate right from wrong perfectly, so no slope fits best and the map is a constant;"
    " more rows or smoothed targets (platt with smooth=true) would serve better"
)
SMOOTHED = "where scores separate the classes perfectly no slope fits best, so the map was fitted to smoothed targets"
