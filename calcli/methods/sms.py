"""Structured matrix scaling."""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from calcli.calibrator import Laws, Options, param
from calcli.methods._affine.structured import Structured
from calcli.methods._temperature import USUAL_PRIOR, Prior
from calcli.numerics import FloatArray


class StructuredMatrixOptions(Options, frozen=True):
    lambda_: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["auto", "cv"],
        Meta(
            description=(
                "strength of the ridge; cv chooses it by cross-validation, auto does"
                " so when rows are few"
            )
        ),
    ] = msgspec.field(name="lambda", default="auto")
    prior: Prior = USUAL_PRIOR


@dataclass(frozen=True)
class StructuredMatrixScaling(Structured):
    """Map temperature-scaled scores by a matrix, under a ridge for the number of rows.

    u = log((1 - a) softmax(z / T) + a / k), T by maximum likelihood and ``prior``, a =
    1 / (n + 1); p = softmax(W u + b), W (k, k), b (k,), that minimise the mean NLL plus
    lambda (k / n) (|diag W - 1|^2 + |b|^2) + lambda (k (k - 1) / n) |off-diagonal W|^2.
    lambda is 1, as its authors advise, or ``cv``: the best of 1, 3, 10, 30 by 5-fold
    cross-validation; ``auto`` cross-validates when there are fewer than 20 rows per
    class, where lambda = 1 can be worse than temperature scaling. Convex, solved to its
    optimum.

    Reference: Berta, Holzmueller, Jordan, Bach (2026), arXiv 2511.03685.
    """

    weight: FloatArray = param("k", "k")
    bias: FloatArray = param("k")

    list_order = 22
    use = "when classes are confused with each other, from some 20 rows per class on"
    title = "structured matrix scaling"
    Options = StructuredMatrixOptions
    laws = Laws(shift_invariant=True, equivariant=True, weights=True, class_shares=True)
