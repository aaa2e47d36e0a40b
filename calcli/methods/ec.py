"""Expectation consistency."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Self

import numpy as np
from msgspec import Meta

from calcli.calibrator import ORDER_PRESERVING, Context, Fit, Options, param
from calcli.errors import FitError
from calcli.fast_dataclass import dataclass
from calcli.fit_summary import Summary
from calcli.kernels.numpy.expansion import Expansion
from calcli.kernels.numpy.temperature import Slope, top_mass_slope
from calcli.methods._temperature import (
    TOLERANCE,
    OneTemperature,
    Search,
    search_temperature,
    solve_temperature,
)
from calcli.numerics import FloatArray
from calcli.rows import Block, Rows


class ExpectationConsistencyOptions(Options, frozen=True):
    top: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="match the probability mass of the n largest classes to top-n accuracy",
        ),
    ] = 1


@dataclass(frozen=True)
class ExpectationConsistency(OneTemperature):
    """Choose one temperature so that mean confidence equals accuracy on the calibration data.

    Solve mean_i sum of the n largest softmax(z_i / T) = top-n accuracy (n = 1 unless ``top`` is set; ties among logits
    go to the lowest index). The left side increases with beta = 1/T from n/C towards 1, so there is no root when the
    accuracy is at most n/C or is 1: T is then left at the end of its bracket [0.01, 100] and the status is ``no_root``.
    (The paper says that confidence falls to 0 as T grows and that a root always exists; it falls to 1/C. The authors'
    code raises without a sign change.)

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
                f"option top={top} needs more than {top} classes, these scores have {rows.k}"
            )

        def slope(some: Rows) -> Slope:
            return top_mass_slope(some, top, top_accuracy(some, top))

        if top == 1:
            search = search_temperature(
                rows, context, slope, confidence_series, flat=1e-15
            )
        else:
            search = solve_temperature(slope(rows), context, flat=1e-15)
        seen = search.expansion
        accuracy = top_accuracy(rows, top) if seen is None else seen.right / seen.weight
        if accuracy == 1.0:  # a confidence within rounding of 1 is no root either
            search = Search(
                0.01, search.root._replace(status="at_high"), search.details, seen
            )

        def verify(after: Summary) -> Fit[Self] | None:
            if abs(after.confidence_gap) <= TOLERANCE:
                return None
            again = solve_temperature(
                slope(rows), context, start=search.root.x, flat=1e-15
            )
            return Fit(
                cls(again.temperature, top, accuracy),
                "ok",
                (),
                again.details,
                before=search.before,
            )

        fit = Fit(
            cls(search.temperature, top, accuracy),
            details=search.details,
            before=search.before,
        )
        match search.root.status:
            case "at_high" | "at_low":
                end = "above" if search.root.status == "at_high" else "below"
                warning = (
                    f"no temperature in [0.01, 100] makes the top-{top} confidence equal to the accuracy"
                    f" {accuracy:.6g}: it is {end} what any of them reaches; T is left at {search.temperature:g}"
                )
                return replace(fit, status="no_root", warnings=(warning,))
            case "not_converged":
                return replace(
                    fit,
                    status="not_converged",
                    warnings=("the search for T did not converge",),
                )
        return replace(fit, verify=verify if search.by_series else None)


def confidence_series(expansion: Expansion) -> FloatArray:
    """Mean confidence minus accuracy in beta, with its derivatives."""
    series = expansion.confidence.copy()
    series[0] -= expansion.right
    return np.asarray(series / expansion.weight)


def top_accuracy(rows: Rows, top: int) -> float:
    """Proportion of rows whose label is among the ``top`` largest logits, ties by lowest index."""
    total, right = rows.sum(partial(_hits, top))
    return float(right / total)


def _hits(top: int, block: Block) -> FloatArray:
    """Weight of all rows, and of those whose label is among the ``top`` largest logits."""
    z, y = block.z, block.labels
    z_y = z[np.arange(len(z)), y][:, None]
    tied_before = (z == z_y) & (np.arange(z.shape[1]) < y[:, None])
    rank = (z > z_y).sum(axis=1) + tied_before.sum(axis=1)
    weight = np.ones(len(z)) if block.weight is None else block.weight
    return np.array([weight.sum(), weight @ (rank < top)])
