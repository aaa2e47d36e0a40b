"""Beta calibration."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from calcli.calibrator import param
from calcli.errors import DataError
from calcli.methods._binary import TOP_LAWS, BinaryCalibrator, MapFit, ModeOptions, Sample, check_finite
from calcli.methods._logistic import (
    NOT_CONVERGED,
    SEPARABLE,
    SMOOTHED,
    fit_nonnegative,
    is_separable,
    sigmoid,
    smoothed_targets,
    why_constant,
)
from calcli.numerics import FloatArray

EPS = float(np.finfo(np.float64).eps)
LOG_2 = float(np.log(2.0))


class BetaOptions(ModeOptions, frozen=True):
    """Options of beta calibration."""

    variant: Annotated[
        Literal["abm", "am", "ab"],
        Meta(description="abm (a, b and c free), am (a = b), ab (no intercept: q(1/2) = 1/2)"),
    ] = "abm"


@dataclass(frozen=True)
class BetaCalibration(BinaryCalibrator):
    """Fit the map that beta-distributed scores call for, by maximum likelihood.

    log(q / (1 - q)) = c + a log p - b log(1 - p) with a, b >= 0, so the map never falls;
    a = b = 1, c = 0 is the identity, a = b is Platt scaling. p is clipped to
    [2.2e-16, 1 - 2.2e-16]. Unregularised Newton steps; where a or b would be negative the
    fit is repeated on that face of the constraint, which is the constrained optimum as the
    likelihood is concave (betacal drops a, else b, and does not look again at the other).
    ``variant=ab`` uses features log 2p and -log 2(1-p) as in the paper, so c = (a - b) log 2.

    Outcomes that are all alike give the constant (n1 + 1) / (n + 2), as do separable scores
    in mode=top; a separable class among many gets Platt's smoothed targets.

    Reference: Kull, Silva Filho, Flach (2017), AISTATS; am and ab are their restricted families.
    """

    a: FloatArray = param("maps")
    b: FloatArray = param("maps")
    c: FloatArray = param("maps")

    title = "beta calibration"
    laws = TOP_LAWS
    Options = BetaOptions
    identity = (1.0, 1.0, 0.0)

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        return fit_beta(sample, options.variant, constant_if_separable=options.mode == "top")

    @staticmethod
    def curve(p: FloatArray, *params: Any) -> FloatArray:
        a, b, c = params
        log_p, minus_log_rest = features(p)
        return sigmoid(c + a * log_p + b * minus_log_rest)

    def check(self, k: int) -> None:
        super().check(k)
        check_finite(a=self.a, b=self.b, c=self.c)
        if (self.a < 0).any() or (self.b < 0).any():
            raise DataError("params.a or params.b holds a negative number")


def features(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log p and -log(1 - p), p kept one rounding away from 0 and 1."""
    p = np.clip(p, EPS, 1.0 - EPS)
    return np.log(p), -np.log1p(-p)


def fit_beta(sample: Sample, variant: str, *, constant_if_separable: bool = True) -> MapFit:
    """a, b, c of one map."""
    hit = sample.hit > 0
    log_p, minus_log_rest = features(sample.p)
    ones, zeros = sample.positive, sample.mass - sample.positive
    constant = (0.0, 0.0, float(np.log((ones + 1.0) / (zeros + 1.0))))
    if why := why_constant(log_p, hit):
        return MapFit(constant, "degenerate", why)
    separable = is_separable(sample.p, hit)
    if separable and constant_if_separable:
        return MapFit(constant, "degenerate", f"{SEPARABLE}; more rows would serve better")
    target = smoothed_targets(hit, ones, zeros) if separable else sample.hit
    intercept = np.ones(len(hit))
    design, start, bounded = {
        "abm": (np.stack([log_p, minus_log_rest, intercept]), [1.0, 1.0, 0.0], 2),
        "am": (np.stack([log_p + minus_log_rest, intercept]), [1.0, 0.0], 1),
        "ab": (np.stack([log_p + LOG_2, minus_log_rest - LOG_2]), [1.0, 1.0], 2),
    }[variant]
    found = fit_nonnegative(design, target, sample.weight, np.array(start), bounded)
    a, b = (found.coef[0], found.coef[0]) if variant == "am" else found.coef[:2]
    c = LOG_2 * (a - b) if variant == "ab" else found.coef[-1]
    params = (float(a), float(b), float(c))
    record = {"gradient": found.gradient, "steps": float(found.steps)}
    if not found.converged:
        return MapFit(params, "not_converged", NOT_CONVERGED, record)
    if separable:
        return MapFit(params, "degenerate", SMOOTHED, record)
    note = "the scores do not rise with the outcomes, so the map is a constant" if a == b == 0 else ""
    return MapFit(params, "degenerate" if note else "ok", note, record)


METHOD = BetaCalibration
