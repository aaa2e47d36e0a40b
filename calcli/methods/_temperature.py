"""Shared by the one-temperature methods: the bracket, the search and the map."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from calcli.calibrator import Calibrator, Context, Prediction, param
from calcli.fast_dataclass import dataclass
from calcli.fit_summary import Summary
from calcli.kernels.numpy.expansion import Expansion, expand
from calcli.kernels.numpy.temperature import Slope, nll_slope
from calcli.numerics import FloatArray, log_softmax
from calcli.rows import Block, Rows
from calcli.solvers import Root, find_root

BRACKET = (
    float(np.log(1e-2)),
    float(np.log(1e2)),
)  # of log beta, beta = 1/T: T in [0.01, 100]
USUAL_PRIOR = (
    0.25  # value of ``Prior`` in ``auto`` and in the first step of svs, sms and ft
)
Prior = Annotated[
    float,
    Meta(
        ge=0,
        description="standard deviation of a prior on how far the log-slope may rise above 0, so that few rows that are"
        " all right do not sharpen the scores without end; 0 for none",
    ),
]
"""An option: adds max(m, 0)^2 / (2 prior^2 n) to the mean NLL of n rows, m the mean log-slope of the map."""
LaterPrior = Annotated[
    Prior, Meta(extra={"came later": True})
]  # for methods whose default is no prior

Mixing = Annotated[
    bool,
    Meta(
        description="mix in 1/(n+1) of the uniform distribution, so that no row can cost more than log((n+1)C)"
    ),
]


def sharpening(m: float, prior: float, rows: float) -> tuple[float, float, float]:
    """Penalty of the prior at a mean log-slope m, with its slope and curvature (see ``Prior``)."""
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
    """Result of a search: temperature, root, numbers to record, and the expansion of the rows if one was made.

    by_series : the root is that of the series. rise : derivative of the equation by beta at the root, 0 unless the
    series found it. centre : beta around which the series is expanded.
    """

    temperature: float
    root: Root
    details: dict[str, Any]
    expansion: Expansion | None = None
    by_series: bool = False
    rise: float = 0.0
    centre: float = 0.0

    @property
    def before(self) -> Summary | None:
        """Summary of the uncalibrated rows, if the walk has made it."""
        return None if self.expansion is None else self.expansion.summary


STEP, LOOSE_STEP = 1e-10, 1e-3
"""Last step of log beta in a search; after it, the error is of the order of its square."""


def solve_temperature(
    slope: Slope,
    context: Context,
    start: float | None = None,
    bracket: tuple[float, float] = BRACKET,
    flat: float = 0.0,
) -> Search:
    """Find the temperature at the root of an increasing function of log beta.

    start : log beta to begin at; by default that of ``context.start`` if it has a temperature, else 0.
    """
    if start is None:
        near = getattr(context.start, "temperature", 1.0)
        start = (
            -float(np.log(near))
            if isinstance(near, float) and 0.02 < near < 50
            else 0.0
        )
    passes = count(1)

    def watched(log_beta: float) -> tuple[float, float]:
        context.progress("searching the temperature", next(passes), 0)
        return slope(log_beta)

    step = LOOSE_STEP if context.loose else STEP
    root = find_root(watched, *bracket, start, step=step, flat=flat)
    temperature = {"at_low": 100.0, "at_high": 0.01}.get(
        root.status, float(np.exp(-root.x))
    )
    return Search(
        temperature,
        root,
        {"evaluations": root.evaluations, "residual": float(root.value)},
    )


# ---- two walks instead of one per Newton step

SMALL_SAMPLE = 1500  # fewest rows in the sample that gives a start; data of under four times as many do without one
SAMPLE_SCORES = (
    1 << 24
)  # most scores in the sample: it is held in memory, and more give no better start
FEWEST, SMALL_SCORES = 100, 2_000_000
"""Fewest rows for many classes, and scores that are enough: a rougher start, for which the series makes up."""
ROUGH = 0.01
"""Last step of log beta in the search for a start: 0.01 % from the sample's root, itself off by some per cent."""
FAR = 0.1  # relative step of beta beyond which the series is not trusted and Newton's method goes on alone
TOLERANCE = 1e-10  # relative error of a fitted temperature, estimated by the series' last term and the residual
CHECKED = TOLERANCE**0.5  # relative error allowed where the caller checks the result
NEAR = 1e-6  # residual up to which one Newton step with the series' rise leaves an error below the tolerance


def start_rows(rows: Rows) -> int:
    """Size of the sample to find a start on, about a sixteenth of the rows; 0 where it would not pay."""
    least = min(SMALL_SAMPLE, max(FEWEST, SMALL_SCORES // rows.k))
    return (
        0
        if rows.n < 4 * least
        else max(least, min(rows.n // 16, SAMPLE_SCORES // rows.k))
    )


SlopeOf = Callable[[Rows], Slope]
SeriesOf = Callable[[Expansion], FloatArray]


def search_temperature(
    rows: Rows,
    context: Context,
    slope_of: SlopeOf,
    series_of: SeriesOf,
    flat: float = 0.0,
    unverified: float = CHECKED,
) -> Search:
    """Find the temperature at the root of an estimating equation, in one walk over large data.

    slope_of : the equation on some rows, for Newton's method. series_of : mean value and derivatives by beta of the
    equation, from an expansion. The root on a sixteenth of the rows is the centre around which the one full walk
    expands the equation; the series gives the root. Where the sample has no root, or the root is too far from it for
    the series, Newton's method walks on. unverified : largest relative change of the root by the series' last term.
    """
    size = start_rows(rows)
    sample = rows.sample(size) if size else None
    start = None
    if sample is not None and (sample.weight is None or sample.weight.any()):
        start = find_root(slope_of(sample), *BRACKET, 0.0, step=ROUGH)
    if start is None or start.status != "ok":
        return solve_temperature(slope_of(rows), context, flat=flat)
    context.progress("searching the temperature", 1, 2)
    beta = float(np.exp(start.x))
    expansion = expand(rows, beta, summarise=rows.kind != "probs")
    step, last, rise = series_root(series_of(expansion))
    if not (abs(step) <= FAR * beta and abs(last) <= unverified * beta):
        first = np.log(beta + step) if abs(step) <= FAR * beta else start.x
        return solve_temperature(
            slope_of(rows), context, start=float(first), flat=flat
        )._replace(expansion=expansion)
    temperature = float(1.0 / (beta + step))
    root = Root(-float(np.log(temperature)), 0.0, start.evaluations + 1, "ok")
    details = {"evaluations": root.evaluations, "sample": sample.n if sample else 0}
    return Search(
        temperature, root, details, expansion, by_series=True, rise=rise, centre=beta
    )


def series_slope(series: FloatArray, centre: float) -> Slope:
    """Slope function like that of ``nll_slope``, from the series around one beta instead of the rows."""
    value, rise = (
        np.polynomial.Polynomial(series),
        np.polynomial.Polynomial(series).deriv(),
    )

    def at(log_beta: float) -> tuple[float, float]:
        beta = float(np.exp(log_beta))
        g = float(value(beta - centre))
        return beta * g, beta * g + beta**2 * float(rise(beta - centre))

    return at


def series_root(series: FloatArray) -> tuple[float, float, float]:
    """Root nearest 0 of sum_j series_j x^j, its change by the last term, and the slope there; inf without a root."""
    value, slope = (
        np.polynomial.Polynomial(series),
        np.polynomial.Polynomial(series).deriv(),
    )
    x = 0.0
    for _ in range(50):
        rise = slope(x)
        if not rise > 0:
            return np.inf, np.inf, np.inf
        step = value(x) / rise
        x -= step
        if abs(step) <= 1e-16:
            return x, float(series[-1]) * x ** (len(series) - 1) / rise, rise
    return x, np.inf, np.inf


def likeliest(
    rows: Rows, context: Context, prior: float = 0.0, unverified: float = CHECKED
) -> Search:
    """Find the temperature of maximum likelihood; with a prior (see ``Prior``), of maximum posterior where T < 1.

    unverified : as for ``search_temperature``.
    """
    search = search_temperature(
        rows, context, nll_slope, nll_series, unverified=unverified
    )
    if not prior or search.temperature >= 1.0:
        return search
    effective = rows.effective_n

    def penalised(slope: Slope, log_beta: float) -> tuple[float, float]:
        (value, rise), (_, push, stiffness) = (
            slope(log_beta),
            sharpening(log_beta, prior, effective),
        )
        return value + push, rise + stiffness

    if search.by_series and search.expansion is not None:
        series, beta = nll_series(search.expansion), search.centre
        root = find_root(
            partial(penalised, series_slope(series, beta)), *BRACKET, search.root.x
        )
        step = abs(float(np.exp(root.x)) - beta)
        last = abs(float(series[-1])) * step ** (len(series) - 1) / search.rise
        if root.status == "ok" and step <= FAR * beta and last <= TOLERANCE * beta:
            return search._replace(
                temperature=float(np.exp(-root.x)), root=root, by_series=False
            )
    start = search.root.x if search.root.status == "ok" else 0.0
    slope = partial(penalised, nll_slope(rows))
    return solve_temperature(slope, context, start=start)._replace(
        expansion=search.expansion
    )


def nll_series(expansion: Expansion) -> FloatArray:
    """Slope of the mean NLL in beta, with its derivatives."""
    return expansion.gap / expansion.weight
