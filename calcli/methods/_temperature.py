"""What the one-temperature methods share: the bracket, the search and the map."""

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

BRACKET = (float(np.log(1e-2)), float(np.log(1e2)))  # of log beta, beta = 1/T: T in [0.01, 100]
USUAL_PRIOR = 0.25  # what ``auto``, and the first step of svs, sms and ft, take for ``Prior``
Prior = Annotated[
    float,
    Meta(
        ge=0,
        description="standard deviation of a prior on how far the log-slope may rise above 0, so that few rows that are"
        " all right do not sharpen the scores without end; 0 for none",
    ),
]
"""An option: beside the mean NLL of n rows stands max(m, 0)^2 / (2 prior^2 n), m the mean log-slope of the map."""
LaterPrior = Annotated[Prior, Meta(extra={"came later": True})]  # the same of a method that has none by default

Mixing = Annotated[
    bool, Meta(description="mix in 1/(n+1) of the uniform distribution, so that no row can cost more than log((n+1)C)")
]


def sharpening(m: float, prior: float, rows: float) -> tuple[float, float, float]:
    """The prior's part of the loss at a mean log-slope m, its slope and its curvature (see ``Prior``)."""
    strength = 1.0 / (prior**2 * rows) if prior and m > 0 else 0.0
    return 0.5 * strength * m * m, strength * m, strength


def effective_rows(rows: Rows) -> float:
    """Number of rows, or with weights w Kish's (sum w)^2 / sum w^2."""
    w = rows.weights()
    return float(rows.n) if w is None else float(w.sum() ** 2 / max(float(w @ w), 1e-300))


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
    """A temperature, how its search ended and what to record; the one walk's expansion, where there was one.

    rise : derivative of the equation by beta at the root, 0 unless the series found the root. centre : the beta that
    the series is expanded around.
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
        """The summary of the rows as they came, when the walk has made it."""
        return None if self.expansion is None else self.expansion.summary


def solve_temperature(
    slope: Slope,
    context: Context,
    start: float | None = None,
    bracket: tuple[float, float] = BRACKET,
    flat: float = 0.0,
) -> Search:
    """The temperature at the root of an increasing function of log beta.

    start : log beta to begin at; that of ``context.start`` if it has a temperature, or 0.
    """
    if start is None:
        near = getattr(context.start, "temperature", 1.0)
        start = -float(np.log(near)) if isinstance(near, float) and 0.02 < near < 50 else 0.0
    passes = count(1)

    def watched(log_beta: float) -> tuple[float, float]:
        context.progress("searching the temperature", next(passes), 0)
        return slope(log_beta)

    root = find_root(watched, *bracket, start, flat=flat)
    temperature = {"at_low": 100.0, "at_high": 0.01}.get(root.status, float(np.exp(-root.x)))
    return Search(temperature, root, {"evaluations": root.evaluations, "residual": float(root.value)})


# ---- two walks instead of one per Newton step

SMALL_SAMPLE = 1500  # fewest rows that a start is sought on; from four times as many rows on a start pays
SAMPLE_SCORES = 1 << 24  # most scores of the sample: it is held in memory, and more of them find no better start
FEWEST, SMALL_SCORES = 100, 2_000_000
"""The same of wide rows: fewer do, as many as have so many scores; what their start lacks the series makes good."""
ROUGH = 0.01
"""A step of log beta after which the start is right to a tenth of a per mil: the sample itself is off by per cents."""
FAR = 0.1  # a relative step of beta beyond which the series is not trusted, and Newton goes on alone
TOLERANCE = 1e-10  # relative error of the temperature that a fit leaves, as its last term and its residual tell
CHECKED = TOLERANCE**0.5  # that error where the caller checks what is left
NEAR = 1e-6  # a residual up to which one Newton step with the series' rise leaves less than the tolerance


def start_rows(rows: Rows) -> int:
    """Rows of a sample on which a start pays, about a sixteenth; 0 where none does."""
    least = min(SMALL_SAMPLE, max(FEWEST, SMALL_SCORES // rows.k))
    return 0 if rows.n < 4 * least else max(least, min(rows.n // 16, SAMPLE_SCORES // rows.k))


SlopeOf = Callable[[Rows], Slope]
SeriesOf = Callable[[Expansion], FloatArray]


def search_temperature(
    rows: Rows, context: Context, slope_of: SlopeOf, series_of: SeriesOf, flat: float = 0.0, unverified: float = CHECKED
) -> Search:
    """The temperature at the root of an estimating equation, in one walk over large data.

    slope_of : the equation on some rows, for Newton's method. series_of : the equation's mean value and derivatives by
    beta, of an expansion. The root on a sixteenth of the rows is where the one full walk expands the equation, and the
    series has the root; where the sample has no root, or the series would be asked too far, Newton's method walks on.
    unverified : how far, relatively, its last term may move the root; the caller checks what is left.
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
        return solve_temperature(slope_of(rows), context, start=float(first), flat=flat)._replace(expansion=expansion)
    temperature = float(1.0 / (beta + step))
    root = Root(-float(np.log(temperature)), 0.0, start.evaluations + 1, "ok")
    details = {"evaluations": root.evaluations, "sample": sample.n if sample else 0}
    return Search(temperature, root, details, expansion, by_series=True, rise=rise, centre=beta)


def series_slope(series: FloatArray, centre: float) -> Slope:
    """What ``nll_slope`` gives, of the series around one beta."""
    value, rise = np.polynomial.Polynomial(series), np.polynomial.Polynomial(series).deriv()

    def at(log_beta: float) -> tuple[float, float]:
        beta = float(np.exp(log_beta))
        g = float(value(beta - centre))
        return beta * g, beta * g + beta**2 * float(rise(beta - centre))

    return at


def series_root(series: FloatArray) -> tuple[float, float, float]:
    """The root nearest 0 of sum_j series_j x^j, how far its last term moves it, the rise there; inf for none."""
    value, slope = np.polynomial.Polynomial(series), np.polynomial.Polynomial(series).deriv()
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


def likeliest(rows: Rows, context: Context, prior: float = 0.0, unverified: float = CHECKED) -> Search:
    """The temperature of greatest likelihood; below 1, with a prior (see ``Prior``), that of greatest posterior.

    unverified : as for ``search_temperature``.
    """
    search = search_temperature(rows, context, nll_slope, nll_series, unverified=unverified)
    if not prior or search.temperature >= 1.0:
        return search
    effective = effective_rows(rows)

    def penalised(slope: Slope, log_beta: float) -> tuple[float, float]:
        (value, rise), (_, push, stiffness) = slope(log_beta), sharpening(log_beta, prior, effective)
        return value + push, rise + stiffness

    if search.by_series and search.expansion is not None:
        series, beta = nll_series(search.expansion), search.centre
        root = find_root(partial(penalised, series_slope(series, beta)), *BRACKET, search.root.x)
        step = abs(float(np.exp(root.x)) - beta)
        last = abs(float(series[-1])) * step ** (len(series) - 1) / search.rise
        if root.status == "ok" and step <= FAR * beta and last <= TOLERANCE * beta:
            return search._replace(temperature=float(np.exp(-root.x)), root=root, by_series=False)
    start = search.root.x if search.root.status == "ok" else 0.0
    slope = partial(penalised, nll_slope(rows))
    return solve_temperature(slope, context, start=start)._replace(expansion=search.expansion)


def nll_series(expansion: Expansion) -> FloatArray:
    """The slope of the mean NLL in beta, with its derivatives."""
    return expansion.gap / expansion.weight
