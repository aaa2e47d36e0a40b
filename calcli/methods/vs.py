"""Vector scaling."""

from typing import Annotated, Self

from msgspec import Meta

from calcli.calibrator import Calibrator, Context, Fit, Laws, Options, Prediction, param
from calcli.fast_dataclass import dataclass
from calcli.methods._affine.fitting import (
    FitNotes,
    best_temperature,
    fit_map,
    identity_map,
    refuse_level,
    split_map,
    uniform_ridge,
)
from calcli.methods._affine.objective import Chunks, logits_as
from calcli.methods._affine.vector import VectorObjective
from calcli.numerics import FloatArray, log_softmax
from calcli.rows import Block, Rows


class VectorScalingOptions(Options, frozen=True):
    """Options of vector scaling."""

    ridge: Annotated[
        float,
        Meta(ge=0, description="weight of |scale - 1|^2 + |bias|^2 beside the mean NLL; 0 for none"),
    ] = 1e-6


@dataclass(frozen=True)
class VectorScaling(Calibrator):
    """Give every class its own scale and bias, fitted by maximum likelihood.

    p = softmax(a * z + b) with a, b (k,) that minimise the mean NLL plus
    ridge (|a - 1|^2 + |b|^2). The problem is convex and its Hessian small: Newton steps
    from temperature scaling reach the optimum in about six passes with the Hessian, to
    1e-10 of the objective. (Published code stops Adam early, which leaves it where the
    optimiser got tired.) The tiny default ridge fixes what the softmax leaves free.

    A class without calibration rows keeps the scale of temperature scaling and a bias of
    0, and the other biases then sum to 0: nothing in the data speaks of that class, and a
    likelihood alone would drive its probability to 0. Predictions may change. The scores
    enter as they are: a constant added to a row of logits matters when scales differ.

    Reference: Guo, Pleiss, Sun, Weinberger (2017), section 4.2.
    """

    scale: FloatArray = param("k")
    bias: FloatArray = param("k")

    place = 40
    aliases = ("vector",)
    use = "when some classes are favoured and rows are plenty"
    title = "vector scaling"
    Options = VectorScalingOptions
    laws = Laws(equivariant=True, improves_nll=True, weights=True, class_shares=True, memory="stream")

    @classmethod
    def fit(cls, rows: Rows, options: VectorScalingOptions, context: Context) -> Fit[Self]:
        refuse_level(rows)
        notes, k = FitNotes(), rows.k
        theta = identity_map(k, 2)
        if notes.absent_classes(rows, "each keeps the scale of temperature scaling and bias 0"):
            notes.too_many_parameters(rows, 2 * k, "ts or svs")
            objective = VectorObjective(Chunks(rows, logits_as), k, uniform_ridge(options.ridge, k, 2))
            start = lambda: identity_map(k, 2) / best_temperature(rows, notes, context)  # noqa: E731
            theta = fit_map(cls, objective, start, notes, context, "fitting scales and biases")
        return notes.fit(cls(*split_map(theta)))

    def apply(self, block: Block) -> Prediction:
        return Prediction.by_argmax(log_softmax(block.z * self.scale + self.bias))
