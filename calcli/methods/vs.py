"""Vector scaling."""

from dataclasses import dataclass

from calcli.calibrator import Laws, param
from calcli.methods._affine.maps import RidgeMap
from calcli.numerics import FloatArray


@dataclass(frozen=True)
class VectorScaling(RidgeMap):
    """Give every class its own scale and bias, fitted by maximum likelihood.

    p = softmax(a * z + b) with a, b (k,) that minimise the mean NLL plus ridge (|a -
    1|^2 + |b|^2). The problem is convex and its Hessian small: Newton steps from
    temperature scaling reach the optimum in about six passes with the Hessian, to 1e-10
    of the objective. (Published code stops Adam early, which leaves it where the
    optimiser got tired.) The tiny default ridge fixes what the softmax leaves free.

    A class without calibration rows keeps the scale of temperature scaling and a bias
    of 0, and the other biases then sum to 0: nothing in the data speaks of that class,
    and a likelihood alone would drive its probability to 0. Predictions may change. The
    scores enter as they are: a constant added to a row of logits matters when scales
    differ.

    Reference: Guo, Pleiss, Sun, Weinberger (2017), section 4.2.
    """

    scale: FloatArray = param("k")
    bias: FloatArray = param("k")

    list_order = 40
    aliases = ("vector",)
    use = "when some classes are favoured and rows are plenty"
    title = "vector scaling"
    full = False
    laws = Laws(
        equivariant=True,
        improves_nll=True,
        weights=True,
        class_shares=True,
        memory="stream",
    )
