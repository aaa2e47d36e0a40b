"""Expectation consistency."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Self

from msgspec import Meta

from calcli.calibrator import ORDER_PRESERVING, Context, Fit, Options, param
from calcli.errors import FitError
from calcli.kernels.numpy.temperature import TopMass
from calcli.methods._temperature import OneTemperature, search_temperature, start_of
from calcli.number_words import noun
from calcli.rows import Rows


class ExpectationConsistencyOptions(Options, frozen=True):
    top: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description=(
                "match the probability mass of the n largest classes to top-n accuracy"
            ),
        ),
    ] = 1


@dataclass(frozen=True)
class ExpectationConsistency(OneTemperature):
    """Choose one temperature by which mean confidence equals accuracy.

    Solve mean_i sum of the n largest softmax(z_i / T) = top-n accuracy (n = 1 unless
    ``top`` is set; ties among logits go to the lowest index). The left side increases
    with beta = 1/T from n/C towards 1, so there is no root when the accuracy is at most
    n/C or is 1: T is then left at the end of its bracket [0.01, 100] and the status is
    ``no_root``. (The paper says that confidence falls to 0 as T grows and that a root
    always exists; it falls to 1/C. The authors' code raises without a sign change.)

    Reference: Clarte, Loureiro, Krzakala, Zdeborova (2023), equation 5.
    """

    top: int = param()
    accuracy: float = param()

    list_order = 11
    aliases = ("expectation",)
    use = "one number, when mean confidence must equal accuracy"
    title = "expectation consistency"
    Options = ExpectationConsistencyOptions
    laws = replace(ORDER_PRESERVING, memory="stream")

    @classmethod
    def fit(
        cls, rows: Rows, options: ExpectationConsistencyOptions, context: Context
    ) -> Fit[Self]:
        top = options.top
        if top >= rows.k:
            raise FitError(
                f"option top={top} needs more than {top} {noun(top, 'class')}, these"
                f" scores have {rows.k}"
            )

        top_mass = TopMass(rows, top)
        start = start_of(rows, context, partial(TopMass, top=top))
        search = search_temperature(top_mass, context, start, flat=1e-15)
        accuracy = top_mass.accuracy
        temperature = search.temperature
        status = search.root.status
        if accuracy == 1.0:
            # A confidence within rounding of 1 is no root either.
            temperature = 0.01
            status = "at_high"
        calibrator = cls(temperature, top, accuracy)
        if status in ("at_high", "at_low"):
            end = "above" if status == "at_high" else "below"
            warning = (
                f"no temperature in [0.01, 100] makes the top-{top} confidence equal"
                f" to the accuracy {accuracy:.6g}: it is {end} what any of them"
                f" reaches; T is left at {temperature:g}"
            )
            return Fit(calibrator, "no_root", (warning,), search.details)
        if status == "not_converged":
            warning = "the search for T did not converge"
            return Fit(calibrator, "not_converged", (warning,), search.details)
        return Fit(calibrator, details=search.details)
