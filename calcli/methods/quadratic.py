"""Quadratic scaling."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.calibrator import param
from calcli.errors import DataError
from calcli.methods._binary.log_odds import MapFit, Sample, Smooth, regress
from calcli.methods._binary.maps import TOP_LABEL, LogisticCalibrator, ModeOptions
from calcli.numerics import FloatArray


class QuadraticOptions(ModeOptions, frozen=True):
    smooth: Smooth = False


@dataclass(frozen=True)
class QuadraticScaling(LogisticCalibrator):
    """Fit a rising parabola to the log-odds by maximum likelihood.

    log(q / (1 - q)) = a + b s + c s^2 with s the exact log-odds, as for ``platt``,
    whose line it bends. The slope b + 2 c s is kept at least 0 from the least to the
    largest s of the calibration data (``low`` to ``high``); beyond them the tangent
    goes on, so that the map never falls. The slope is linear in s, thus never negative
    in between if it is not at the two ends: with these two slopes as coefficients the
    fit is a logistic regression with bounds, solved to its optimum.

    Data that leave nothing to fit are treated as by ``platt``.

    Reference: the quadratic member of the logistic family of Cox (1958), Biometrika 45,
    "Two further applications of a model for binary regression"; Platt (1999) is its c =
    0.
    """

    a: FloatArray = param("maps")
    b: FloatArray = param("maps")
    c: FloatArray = param("maps")
    low: FloatArray = param("maps")
    high: FloatArray = param("maps")

    list_order = 37
    use = "two classes, where the log-odds are bent"
    title = "quadratic scaling"
    laws = TOP_LABEL
    Options = QuadraticOptions
    identity = (0.0, 1.0, 0.0, -1.0, 1.0)
    flexible = True

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        low = float(sample.s.min())
        high = float(sample.s.max())
        width = (high - low) or 1.0
        # Integrals of the two slopes' shares at s: (high - s) / width and (s - low) /
        # width.
        features = [
            -((high - sample.s) ** 2) / (2 * width),
            (sample.s - low) ** 2 / (2 * width),
        ]
        one_map = options.mode == "top"
        fitted = regress(
            sample,
            features,
            low=0.0,
            smooth=options.smooth,
            constant_if_separable=one_map,
        )
        left, right, intercept = fitted.params
        a = intercept + (low**2 * right - high**2 * left) / (2 * width)
        params = (
            a,
            (high * left - low * right) / width,
            (right - left) / (2 * width),
            low,
            high,
        )
        return fitted.rising(params)

    @staticmethod
    def logit(s: FloatArray, *params: Any) -> FloatArray:
        a, b, c, low, high = params
        inside = np.clip(s, low, high)
        # Rounding must not make an end fall.
        slope = np.maximum(b + 2.0 * c * inside, 0.0)
        return a + inside * (b + c * inside) + slope * (s - inside)

    def check_own(self, k: int) -> None:
        super().check_own(k)
        if (self.low > self.high).any():
            raise DataError("params.low is above params.high")
