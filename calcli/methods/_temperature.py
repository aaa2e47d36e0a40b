"""Shared by the one-temperature methods: the bracket, the search and the map."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import Calibrator, Context, Prediction, param
from calcli.kernels.numpy.temperature import nll_curve
from calcli.numerics import log_softmax
from calcli.rows import Rows
from calcli.solvers import Curve, Root, Slope, find_root, halley

# of log beta, beta = 1/T: T in [0.01, 100]
BRACKET = (float(np.log(1e-2)), float(np.log(1e2)))
# value of ``Prior`` in ``auto`` and in the first step of svs, sms and ft
USUAL_PRIOR = 0.25
Prior = Annotated[
    float,
    Meta(
        ge=0,
        description=(
            "standard deviation of a prior on how far the log-slope may rise above 0,"
            " so that few rows that are all right do not sharpen the scores without"
            " end; 0 for none"
        ),
    ),
]
"""An option: adds max(m, 0)^2 / (2 prior^2 n) to the mean NLL of n rows, m the mean
log-slope of the map.
"""
# for methods whose default is no prior
LaterPrior = Annotated[Prior, Meta(extra={"came later": True})]

Mixing = Annotated[
    bool,
    Meta(
        description=(
            "mix in 1/(n+1) of the uniform distribution, so that no row can cost more"
            " than log((n+1)C)"
        )
    ),
]


def sharpening(m: float, prior: float, rows: float) -> tuple[float, float, float]:
    """Compute the prior's penalty at a mean log-slope m (see ``Prior``).

    Returns it with its slope and curvature.
    """
    strength = 1.0 / (prior**2 * rows) if prior and m > 0 else 0.0
    return 0.5 * strength * m * m, strength * m, strength


@dataclass(frozen=True)
class OneTemperature(Calibrator):
    """softmax(z / T)."""

    temperature: float = param(within="positive")

    @property
    def logit_scale(self) -> float | None:
        return 1.0 / self.temperature

    def apply(self, block: Block) -> Prediction:
        return Prediction(log_softmax(block.z / self.temperature), block.prediction)


class Search(NamedTuple):
    """Result of a search: temperature, root, numbers to record."""

    temperature: float
    root: Root
    details: dict[str, Any]


NEWTON_STEP = 1e-10
"""Last step of log beta by Newton's method: the error after it is about its square."""
HALLEY_STEP = 1e-5
"""Last step by Halley's method: the error after it is about its cube."""
LOOSE_STEP = 1e-3
"""Last step where the loss needs to be known roughly only."""


def solve_temperature(
    slope: Slope,
    context: Context,
    start: float,
    bracket: tuple[float, float] = BRACKET,
    *,
    step: float,
    flat: float = 0.0,
) -> Search:
    """Find the temperature at the root of an increasing function of log beta.

    start : log beta to begin at. step, flat : as for ``find_root``.
    """
    passes = count(1)

    def watched(log_beta: float) -> tuple[float, float]:
        context.progress("searching the temperature", next(passes), 0)
        return slope(log_beta)

    if context.loose:
        step = LOOSE_STEP
    root = find_root(watched, *bracket, start, step=step, flat=flat)
    if root.status == "ok" and root.x >= BRACKET[1]:
        root = root._replace(status="at_high")  # where the slope vanishes in rounding
    if root.status == "at_low":
        temperature = 100.0
    elif root.status == "at_high":
        temperature = 0.01
    else:
        temperature = float(np.exp(-root.x))
    details = {"evaluations": root.evaluations, "residual": float(root.value)}
    return Search(temperature, root, details)


# ---- a start from some of the rows

SMALL_SAMPLE = 1500
"""Fewest rows in the sample that gives a start; with under four times as many rows in
all, a search does without one."""
SAMPLE_SCORES = 1 << 24
"""Most scores in the sample: it is held in memory, and more give no better start."""
FEWEST = 100  # rows, for many classes
SMALL_SCORES = 2_000_000  # scores that are enough for a rougher start
ROUGH = 0.01
"""Last step of log beta in the search for a start. The step after it is .01 % from the
sample's root, which is itself off by some per cent."""

CurveOf = Callable[[Rows], Curve]
"""The estimating equation of a method on some rows."""


def start_rows(rows: Rows) -> int:
    """Choose the size of the sample for a start, a sixteenth of the rows.

    0 where it costs more than it saves.
    """
    least = min(SMALL_SAMPLE, max(FEWEST, SMALL_SCORES // rows.k))
    if rows.n < 4 * least:
        return 0
    return max(least, min(rows.n // 16, SAMPLE_SCORES // rows.k))


def start_of(rows: Rows, context: Context, curve_of: CurveOf) -> float:
    """Log beta to begin a search at: a fit to like rows, a sample's root, or 0."""
    near = getattr(context.start, "temperature", None)
    if isinstance(near, float) and 0.02 < near < 50:
        return -float(np.log(near))
    size = start_rows(rows)
    if not size:
        return 0.0
    sample = rows.sample(size)
    if sample.weight is not None and not sample.weight.any():
        return 0.0
    root = find_root(halley(curve_of(sample)), *BRACKET, 0.0, step=ROUGH)
    return root.x if root.status == "ok" else 0.0


def search_temperature(
    curve: Curve, context: Context, start: float, flat: float = 0.0
) -> Search:
    """Find the temperature at the root of an estimating equation.

    start : log beta to begin at.
    """
    return solve_temperature(halley(curve), context, start, step=HALLEY_STEP, flat=flat)


def likeliest(rows: Rows, context: Context, prior: float) -> Search:
    """Find the temperature of maximum likelihood.

    prior : see ``Prior``; where T < 1 the temperature is then that of maximum
    posterior.
    """
    effective = rows.effective_n

    def penalised_curve(some: Rows) -> Curve:
        likelihood = nll_curve(some)

        def curve(log_beta: float) -> tuple[float, float, float]:
            value, first, second = likelihood(log_beta)
            _, push, stiffness = sharpening(log_beta, prior, effective)
            return value + push, first + stiffness, second

        return curve

    curve_of = penalised_curve if prior else nll_curve
    start = start_of(rows, context, curve_of)
    return search_temperature(curve_of(rows), context, start)
