"""The prediction of the scores, kept."""

from dataclasses import dataclass, replace
from typing import Any, Self

from calcli.block import Block
from calcli.calibrator import ORDER_PRESERVING, Calibrator, Context, Fit, Prediction
from calcli.numerics import kept_on_top, log_softmax
from calcli.rows import Rows


@dataclass(frozen=True)
class Keep(Calibrator):
    """Move probabilities as little as possible so that the prediction stays as it was.

    After a method that moves predictions (``svs+keep``): where the largest probability
    is not that of the class a that the scores predict, p is projected on the
    probabilities with p_a >= p_j for all classes j, in squared distance. The classes
    above p_a are pooled with it to their mean, the largest first, until a is on top:
    p_a = m and p_j = min(p_j, m), m the largest mean of p_a and the r largest others, r
    = 0, 1, ... The prediction then leads by a factor of 1 + 1e-5, so that it is the
    argmax in float32 too. Nothing is fitted.

    ``auto`` ends in it for three and more classes unless changing predictions is shown
    to help.

    Reference: Robertson, Wright, Dykstra (1988), "Order Restricted Statistical
    Inference", section 1.3 (projection on a tree order).
    """

    list_order = 96
    use = "after a method that moves predictions, where these must stay: svs+keep"
    title = "original predictions restored"
    laws = replace(ORDER_PRESERVING, restores_argmax=True, memory="stream")

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        return Fit(cls())

    @classmethod
    def takes_logarithms(cls) -> bool:
        return False

    def apply(self, block: Block) -> Prediction:
        label = block.original_prediction
        return Prediction(kept_on_top(log_softmax(block.z), label), label)
