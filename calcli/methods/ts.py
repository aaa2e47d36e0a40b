"""Temperature scaling."""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from msgspec import Meta

from calcli.calibrator import Context, Fit, Laws, Options
from calcli.kernels.device import kernels
from calcli.methods._temperature import LOG_BETA_HIGH, LOG_BETA_LOW, OneTemperature, solve_temperature
from calcli.rows import Rows


class TemperatureOptions(Options, frozen=True):
    """Options of temperature scaling."""

    loss: Annotated[
        Literal["nll", "brier"],
        Meta(description="what the temperature minimises on the calibration data"),
    ] = "nll"


@dataclass(frozen=True)
class TemperatureScaling(OneTemperature):
    """Divide every logit by one temperature fitted by maximum likelihood.

    p = softmax(z / T). With beta = 1/T the mean NLL is convex: its derivative
    g(beta) = mean(E_p[z] - z_y) increases, with slope mean(Var_p[z]). We solve g = 0 by
    Newton steps kept inside the bracket T in [0.01, 100], in float64, to a relative step
    of 1e-10. A temperature at an end of the bracket is reported, never passed off as an
    optimum: T -> 0.01 when every row is right and sure, T -> 100 when the scores carry
    no information about the labels. Other programs stop early, accept T <= 0, or
    differentiate a float32 loss; all share our optimum when they converge.

    ``loss=brier`` minimises the squared error instead (not convex: the best of a grid,
    then polished), as Mix-n-Match does.

    Reference: Guo, Pleiss, Sun, Weinberger (2017), section 4.2, equation 9.
    """

    title = "temperature scaling"
    Options = TemperatureOptions
    laws = Laws(
        keeps_argmax=True,
        monotone=True,
        shift_invariant=True,
        equivariant=True,
        improves_nll=True,
        top_label_only=False,
        weights=True,
        memory="stream",
    )

    @classmethod
    def fit(cls, rows: Rows, options: TemperatureOptions, context: Context) -> Fit[Self]:
        heavy = kernels(context.device)
        if options.loss == "brier":
            (low, best, high), slope = heavy.brier_slope(rows, LOG_BETA_LOW, LOG_BETA_HIGH)
            temperature, root, details = solve_temperature(slope, context, start=best, low=low, high=high)
        else:
            temperature, root, details = solve_temperature(heavy.nll_slope(rows), context)
        match root.status:
            case "at_high":
                return Fit(cls(temperature), "at_bound", (TOO_SURE,), details)
            case "at_low":
                return Fit(cls(temperature), "at_bound", (NO_INFORMATION,), details)
            case "not_converged":
                return Fit(cls(temperature), "not_converged", ("the search for T did not converge",), details)
        return Fit(cls(temperature), "ok", (), details)


TOO_SURE = (
    "T ran into its lower bound 0.01: on these rows the loss falls for ever as T -> 0, as it does"
    " when every prediction is right; calibrate on rows that the model gets wrong now and then"
)
NO_INFORMATION = (
    "T ran into its upper bound 100: the scores say nothing about these labels, or the opposite;"
    " check that labels and scores belong to the same rows and class order"
)

METHOD = TemperatureScaling
