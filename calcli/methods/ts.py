"""Temperature scaling."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import ORDER_PRESERVING, Context, Fit, Options, Prediction, param
from calcli.errors import UsageError
from calcli.kernels.numpy.temperature import brier_slope
from calcli.methods._temperature import (
    BRACKET,
    NEWTON_STEP,
    USUAL_PRIOR,
    LaterPrior,
    Mixing,
    OneTemperature,
    likeliest,
    solve_temperature,
)
from calcli.numerics import mixed_with_uniform
from calcli.rows import Rows


class TemperatureOptions(Options, frozen=True):
    loss: Annotated[
        Literal["nll", "brier"],
        Meta(description="what the temperature minimises on the calibration data"),
    ] = "nll"
    mixture: Mixing = False
    prior: LaterPrior = 0.0


@dataclass(frozen=True)
class TemperatureScaling(OneTemperature):
    """Divide every logit by one temperature fitted by maximum likelihood.

    p = softmax(z / T). With beta = 1/T the mean NLL is convex: its derivative g(beta) =
    mean(E_p[z] - z_y) increases, with slope mean(Var_p[z]). We solve g = 0 by Halley's
    steps kept inside the bracket T in [0.01, 100], in float64, to a relative step of
    1e-5, which leaves an error of about its cube. A temperature at an end of the
    bracket is reported, never passed off as an optimum: T -> 0.01 when every row is
    right and sure, T -> 100 when the scores carry no information about the labels.
    Other programs stop early, accept T <= 0, or differentiate a float32 loss; all share
    our optimum when they converge.

    ``loss=brier`` minimises the squared error instead (not convex: the best of a grid,
    then polished), as Mix-n-Match does.

    ``prior`` keeps few rows from sharpening without end: T minimises the mean NLL plus
    max(-log T, 0)^2 / (2 prior^2 n), so where T > 1 is the optimum it stays as it was.

    ``mixture`` makes it (1-a) softmax(z / T) + a/C with a = 1/(n+1) (``uniform``), T as
    before.

    Reference: Guo, Pleiss, Sun, Weinberger (2017), section 4.2, equation 9.
    """

    uniform: float = param(default=0.0, within="share")

    list_order = 10
    aliases = ("temperature",)
    use = "start here: one number, accuracy-preserving"
    title = "temperature scaling"
    Options = TemperatureOptions
    laws = replace(ORDER_PRESERVING, improves_nll=True, memory="stream")

    @classmethod
    def fit(
        cls, rows: Rows, options: TemperatureOptions, context: Context
    ) -> Fit[Self]:
        if options.loss == "brier":
            (low, best, high), slope = brier_slope(rows, *BRACKET)
            search = solve_temperature(
                slope, context, best, (low, high), step=NEWTON_STEP
            )
        else:
            search = likeliest(rows, context, options.prior)
        uniform = rows.share_of_one_more if options.mixture else 0.0
        calibrator = cls(search.temperature, uniform)
        details = search.details
        match search.root.status:
            case "at_high":
                warning = TOO_SURE + PRIOR_HOLDS
                return Fit(calibrator, "at_bound", (warning,), details)
            case "at_low":
                return Fit(calibrator, "at_bound", (NO_INFORMATION,), details)
            case "not_converged":
                warning = "the search for T did not converge"
                return Fit(calibrator, "not_converged", (warning,), details)
        return Fit(calibrator, "ok", (), details)

    @classmethod
    def check_options(cls, options: TemperatureOptions) -> None:
        if options.prior and options.loss != "nll":
            raise UsageError(
                "option prior of method 'ts' stands beside the likelihood: it goes"
                " with loss=nll"
            )

    @property
    def logit_scale(self) -> float | None:
        return None if self.uniform else super().logit_scale

    def apply(self, block: Block) -> Prediction:
        plain = super().apply(block)
        return Prediction(
            mixed_with_uniform(plain.log_probs, self.uniform), plain.label
        )


TOO_SURE = (
    "T ran into its lower bound 0.01: on these rows the loss falls for ever as T -> 0,"
    " as it does when every prediction is right; calibrate on rows that the model gets"
    " wrong now and then"
)
PRIOR_HOLDS = f", or hold T with --set prior={USUAL_PRIOR}"
NO_INFORMATION = (
    "T ran into its upper bound 100: some labels have a probability of 0 or nearly so,"
    " or the scores say nothing about these labels, or the opposite (check that labels"
    " and scores belong to the same rows and class order), or they are far larger than"
    " logits are (divide them first)"
)
