"""Platt scaling."""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from calcli.calibrator import param
from calcli.methods._binary.log_odds import Loss, MapFit, Sample, Smooth, regress
from calcli.methods._binary.maps import TOP_LABEL, LogisticCalibrator, ModeOptions
from calcli.numerics import FloatArray


class PlattOptions(ModeOptions, frozen=True):
    smooth: Smooth = False
    loss: Annotated[
        Loss, Meta(description="what the line minimises: log loss, or squared error")
    ] = "log"


@dataclass(frozen=True)
class PlattScaling(LogisticCalibrator):
    """Fit a straight line to the log-odds by maximum likelihood.

    q = sigmoid(slope s + intercept) with s the exact log-odds: z_1 - z_0 for two
    classes, z_c - log sum_{j != c} exp z_j of the predicted class (mode=top) or of
    every class c otherwise. Unregularised Newton steps to the optimum. Probabilities
    never enter, so sure rows count by how sure they are; programs that clip p at 1e-12
    bend the line there.

    Outcomes that are all alike give the constant (n1 + 1) / (n + 2). Where the scores
    separate the outcomes perfectly the likelihood has no maximum: a class then gets the
    smoothed targets, whose optimum is finite, because a constant would forget the
    class; the top label, whose prediction stays, gets the constant. A negative slope is
    allowed and told.

    ``loss=brier`` minimises the squared error, which is not convex: from the optimum of
    the log loss downhill.

    Reference: Platt (1999), Probabilistic outputs for support vector machines; Guo et
    al. (2017), section 4.1; Kumar, Liang, Ma (2019) for the top-label and marginal
    forms.
    """

    slope: FloatArray = param("maps")
    intercept: FloatArray = param("maps")

    list_order = 30
    aliases = ("logistic", "sigmoid")
    use = "two classes or the confidence alone, with few rows"
    title = "Platt scaling"
    laws = TOP_LABEL
    Options = PlattOptions
    identity = (1.0, 0.0)

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        one_map = options.mode == "top"
        return fit_platt(
            sample,
            smooth=options.smooth,
            loss=options.loss,
            constant_if_separable=one_map,
        )

    @staticmethod
    def logit(s: FloatArray, *params: Any) -> FloatArray:
        slope, intercept = params
        return slope * s + intercept


def fit_platt(
    sample: Sample,
    *,
    smooth: bool = False,
    loss: Loss = "log",
    constant_if_separable: bool = True,
) -> MapFit:
    """Slope and intercept of one map."""
    fitted = regress(
        sample,
        [sample.s],
        smooth=smooth,
        loss=loss,
        constant_if_separable=constant_if_separable,
    )
    falls = "the slope is negative: the outcome gets rarer as its score rises" * (
        fitted.params[0] < 0
    )
    return fitted._replace(note=fitted.note or falls)
