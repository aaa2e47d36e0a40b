"""Structured vector scaling."""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from calcli.calibrator import Laws, Options, param
from calcli.methods._affine.structured import Structured
from calcli.methods._temperature import USUAL_PRIOR, Prior
from calcli.numerics import FloatArray


class StructuredVectorOptions(Options, frozen=True):
    lambda_: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["cv"],
        Meta(
            description="strength of the ridge, or cv to choose it by cross-validation"
        ),
    ] = msgspec.field(name="lambda", default=1.0)
    prior: Prior = USUAL_PRIOR


@dataclass(frozen=True)
class StructuredVectorScaling(Structured):
    """Scale temperature-scaled scores by class, under a ridge for the number of rows.

    u = log((1 - a) softmax(z / T) + a / k), T by maximum likelihood and ``prior``, a =
    1 / (n + 1); p = softmax(s * u + b) with s, b (k,) that minimise the mean NLL plus
    lambda (k / n) (|s - 1|^2 + |b|^2). The first step sets the overall scale, so the
    ridge pulls towards temperature scaling, not towards the uncalibrated scores. lambda
    is 1, as its authors advise, or ``cv``: the best of 1, 3, 10, 30 by 5-fold
    cross-validation. Convex, solved to its optimum by Newton steps. All in float64 on
    the logits; the authors' program goes through float32 probabilities.

    Reference: Berta, Holzmueller, Jordan, Bach (2026), arXiv 2511.03685.
    """

    scale: FloatArray = param("k")
    bias: FloatArray = param("k")

    list_order = 21
    use = "when some classes are favoured: vector scaling that few rows do not spoil"
    title = "structured vector scaling"
    Options = StructuredVectorOptions
    full = False
    laws = Laws(
        shift_invariant=True,
        equivariant=True,
        weights=True,
        class_shares=True,
        memory="stream",
    )
