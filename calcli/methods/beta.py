"""Beta calibration."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from calcli.calibrator import param
from calcli.methods._binary.log_odds import Loss, MapFit, Sample, log_sigmoid, regress
from calcli.methods._binary.maps import TOP_LABEL, LogisticCalibrator, ModeOptions
from calcli.numerics import FloatArray

LOG_2 = float(np.log(2.0))
Variant = Literal["abm", "am", "ab"]


class BetaOptions(ModeOptions, frozen=True):
    variant: Annotated[
        Variant,
        Meta(
            description=(
                "abm (a, b and c free), am (a = b), ab (no intercept: q(1/2) = 1/2)"
            )
        ),
    ] = "abm"


@dataclass(frozen=True)
class BetaCalibration(LogisticCalibrator):
    """Fit the map that beta-distributed scores call for, by maximum likelihood.

    log(q / (1 - q)) = c + a log p - b log(1 - p) with a, b >= 0, so the map never
    falls; a = b = 1, c = 0 is the identity, a = b is Platt scaling. log p and log(1 -
    p) come from the exact log-odds, without a clip. Unregularised Newton steps inside
    the bounds, to the constrained optimum (betacal drops a, else b, where it would be
    negative, and does not look again at the other). ``variant=ab`` uses features log 2p
    and -log 2(1-p) as in the paper, so c = (a - b) log 2.

    Outcomes that are all alike give the constant (n1 + 1) / (n + 2), as do separable
    scores with one map; a separable class among many gets Platt's smoothed targets.

    Reference: Kull, Silva Filho, Flach (2017), AISTATS; am and ab are their restricted
    families.
    """

    a: FloatArray = param("maps", within="from 0")
    b: FloatArray = param("maps", within="from 0")
    c: FloatArray = param("maps")

    list_order = 31
    use = "two classes or the confidence alone, where a straight line is too stiff"
    title = "beta calibration"
    laws = TOP_LABEL
    Options = BetaOptions
    identity = (1.0, 1.0, 0.0)
    clip = float(np.finfo(np.float64).eps)

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        return fit_beta(
            sample, options.variant, constant_if_separable=options.mode == "top"
        )

    @staticmethod
    def logit(s: FloatArray, *params: Any) -> FloatArray:
        a, b, c = params
        return c + a * log_sigmoid(s) - b * log_sigmoid(-s)


def fit_beta(
    sample: Sample,
    variant: Variant = "abm",
    *,
    loss: Loss = "log",
    constant_if_separable: bool = True,
) -> MapFit:
    """a, b, c of one map."""
    log_p = log_sigmoid(sample.s)
    minus_log_rest = -log_sigmoid(-sample.s)
    shapes = {
        "abm": [log_p, minus_log_rest],
        "am": [sample.s],
        "ab": [log_p + LOG_2, minus_log_rest - LOG_2],
    }
    features = shapes[variant]
    fitted = regress(
        sample,
        features,
        low=0.0,
        intercept=variant != "ab",
        loss=loss,
        constant_if_separable=constant_if_separable,
    )
    a = fitted.params[0]
    b = fitted.params[-2]
    c = fitted.params[-1]
    return fitted.rising((a, b, c + (LOG_2 * (a - b) if variant == "ab" else 0.0)))
