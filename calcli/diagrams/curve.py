"""Reliability curves: the numbers of a diagram, which every renderer and every export
reads.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from calcli.binning import BinStats, bin_index
from calcli.isotonic import IsotonicFit, fit_isotonic
from calcli.metrics.binned_errors import error_and_null
from calcli.metrics.catalog import measure
from calcli.metrics.context import MetricContext
from calcli.metrics.rowtable import RowTable
from calcli.metrics.settings import MetricSettings
from calcli.numerics import BoolArray, FloatArray, IntArray
from calcli.statistics.corp import (
    RESAMPLES,
    Band,
    ConsistencyBand,
    Decomposition,
    UnitDraws,
    consistency_band,
    decompose,
)
from calcli.statistics.intervals import wilson_interval
from calcli.statistics.shared_luck import effects_of_bins

Scheme = Literal["width", "mass"]

Quantity = Literal["top", "positive"]
"""Forecast and outcome of a curve.

top : the confidence, and whether the prediction is correct. positive, for two classes :
P(class 1), and whether the label is class 1.
"""

FALL = 0.05
"""Family-wise error rate of reporting a fall between bins of a curve that never falls."""

THIN = 5
"""Bins with fewer rows than this are drawn hatched, as their height is hardly known."""


@dataclass(frozen=True)
class CurveSettings:
    """Settings of the measurement of curves.

    bins, scheme : of the ECE and of the bars. level : of bands and intervals.
    resamples, seed : of the consistency resampling. columns : bars of the histogram.
    """

    bins: Annotated[int, Meta(ge=1, le=10_000)] = 15
    scheme: Scheme = "width"
    level: Annotated[float, Meta(ge=0.5, le=0.999)] = 0.95
    resamples: Annotated[int, Meta(ge=1, le=100_000)] = RESAMPLES
    seed: Annotated[int, Meta(ge=0)] = 0
    columns: Annotated[int, Meta(ge=1, le=1000)] = 50


@dataclass(frozen=True)
class Bars:
    """Confidence and accuracy per bin, all (bins,); NaN where a bin is empty.

    low, high : edges, (low, high]. count : int64 rows. confidence, accuracy : means.
    accuracy_low, accuracy_high : Wilson interval of the accuracy. null_low, null_high :
    consistency band, the accuracy expected under calibration.
    """

    low: FloatArray
    high: FloatArray
    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray
    accuracy_low: FloatArray
    accuracy_high: FloatArray
    null_low: FloatArray
    null_high: FloatArray

    @property
    def thin(self) -> BoolArray:
        """Mask of the bins that hold rows, but fewer than ``THIN``."""
        return (self.count > 0) & (self.count < THIN)


@dataclass(frozen=True)
class Histogram:
    """Number of rows per equal-width interval of confidence.

    edges : (columns + 1,). count : (columns,) int64.
    """

    edges: FloatArray
    count: IntArray


@dataclass(frozen=True)
class RangedValue:
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:z.2f} [{self.low:z.2f}, {self.high:z.2f}]"


@dataclass(frozen=True)
class Curve:
    """Reliability curve of one set of rows, with its bins, histogram and scores.

    label : its name in legends. quantity : see ``Quantity``; for ``positive`` read
    confidence as P(class 1) and accuracy as the frequency of class 1. n : rows.
    accuracy, mean_confidence : means. ece : L1 over ``settings.bins`` bins;
    ece_null_mean, ece_null_q95 : exact mean and 95th percentile under calibration with
    these confidences; ece_p : p-value of the ECE (null: perfect calibration), from
    ``ece_draws`` draws. All equal to those of ``evaluate``. outside : proportion of the
    rows where the curve leaves the band, in which it stays as a whole with probability
    ``level`` under calibration. brier, log : the scores split into miscalibration,
    discrimination and uncertainty. mcb_null_mean : mean Brier miscalibration under
    calibration, which is not 0 in a finite sample. fall : the two bins between which
    the outcome falls most significantly, where the isotonic curve is level; None if no
    fall is significant. slope, intercept : of P(class 1), as ``evaluate`` has them;
    None where they have no interval.
    """

    label: str
    quantity: Quantity
    n: int
    settings: CurveSettings
    accuracy: float
    mean_confidence: float
    ece: float
    ece_null_mean: float
    ece_null_q95: float
    ece_p: float
    ece_draws: int
    outside: float
    brier: Decomposition
    log: Decomposition
    mcb_null_mean: float
    isotonic: IsotonicFit
    band: Band
    bins: Bars
    histogram: Histogram
    fall: tuple[int, int] | None
    slope: RangedValue | None = None
    intercept: RangedValue | None = None

    @property
    def words(self) -> tuple[str, str]:
        """Labels of its x and its y axis."""
        if self.quantity == "top":
            return "confidence", "accuracy"
        return "P(class 1)", "frequency of class 1"


def measure_curve(
    label: str,
    table: RowTable,
    settings: CurveSettings = CurveSettings(),
    quantity: Quantity = "top",
) -> Curve:
    """Measure the reliability curve of one set of rows.

    table : one row or more, of weights that are not all zero. Where rows belong to
    units, the draws of bands and p-values are correlated within units, and intervals of
    bars use the effective number of rows. The same rows and settings give the same
    numbers.
    """
    s = settings
    weight = table.weight
    units = table.units
    # The context of ``evaluate``, so that its ECE has the same bins and the same draws.
    context = MetricContext(
        table, MetricSettings(bins=s.bins, label=quantity, seed=s.seed, level=s.level)
    )
    confidence = context.scores
    correct = context.outcomes
    edges = context.edges(s.scheme)
    stats = context.bins(s.scheme)
    luck = context.luck
    count = len(edges) - 1
    index = bin_index(confidence, edges)
    rng = np.random.default_rng(s.seed)
    draws = rng if units is None or luck is None else UnitDraws(rng, units, luck.share)
    band = consistency_band(
        confidence, index, count, draws, weight, resamples=s.resamples, level=s.level
    )
    fit = fit_isotonic(confidence, correct, weight)
    brier = decompose(confidence, correct, weight, fit=fit)
    sure_miss = table.nll if len(table.nll) else None
    log = decompose(
        confidence, correct, weight, kind="log", fit=fit, sure_miss=sure_miss
    )
    effect = effects_of_bins(confidence, correct, index, count, units, weight)
    ece, null = error_and_null(context, s.scheme)
    inside = band.contains(confidence, fit.at(confidence))
    columns = np.linspace(0.0, 1.0, s.columns + 1)
    histogram = Histogram(
        columns, np.bincount(bin_index(confidence, columns), minlength=s.columns)
    )
    curve = Curve(
        label,
        quantity,
        len(confidence),
        s,
        float(np.average(correct, weights=weight)),
        float(np.average(confidence, weights=weight)),
        ece,
        null.mean,
        null.q95,
        null.p_value,
        null.resamples,
        float(np.average(~inside, weights=weight)),
        brier,
        log,
        band.mcb_mean,
        fit,
        Band(band.x, band.low, band.high),
        _bars(stats, edges, effect, band, s.level),
        histogram,
        clearest_fall(stats, effect),
    )
    if quantity == "top":
        return curve
    return replace(
        curve,
        slope=ranged_value(context, "slope"),
        intercept=ranged_value(context, "intercept"),
    )


def _bars(
    stats: BinStats,
    edges: FloatArray,
    effect: "FloatArray | float",
    band: ConsistencyBand,
    level: float,
) -> Bars:
    """Means of every bin with their intervals; NaN for bins without rows."""
    has_rows = stats.weight > 0
    empty = np.full(len(has_rows), np.nan)
    means = np.divide(stats.score, stats.weight, out=empty.copy(), where=has_rows)
    outcomes = np.divide(stats.outcome, stats.weight, out=empty, where=has_rows)
    outcomes = np.minimum(outcomes, 1.0)
    low, high = wilson_interval(outcomes, stats.effective / effect, level)
    return Bars(
        edges[:-1],
        edges[1:],
        stats.count,
        means,
        outcomes,
        low,
        high,
        band.bin_low,
        band.bin_high,
    )


def ranged_value(context: MetricContext, name: str) -> RangedValue | None:
    """A metric of the rows; None where it has no value or no interval."""
    metric = measure(name, context)
    if metric.value is None or metric.interval is None:
        return None
    return RangedValue(metric.value, metric.interval.low, metric.interval.high)


def clearest_fall(
    stats: BinStats, effect: "FloatArray | float" = 1.0
) -> tuple[int, int] | None:
    """Find the two bins between which the outcome falls most, at a family-wise level of
    ``FALL``; None if it does not.

    Bonferroni over all pairs, each by Newcombe's interval of a difference of
    proportions (1998, method 10), which is valid for proportions near 1. effect :
    (bins,) design effects.
    """
    used = np.flatnonzero(stats.weight > 0)
    early, late = np.triu_indices(len(used), 1)
    if not len(early):
        return None
    accuracy = np.minimum(stats.outcome[used] / stats.weight[used], 1.0)
    n_effective = (stats.effective / effect)[used]
    level = 1.0 - 2.0 * FALL / len(early)
    low, high = wilson_interval(accuracy, n_effective, level)
    reach = np.hypot((accuracy - low)[early], (high - accuracy)[late])
    # Lower bound of every fall.
    falls = accuracy[early] - accuracy[late] - reach
    most = int(np.argmax(falls))
    if falls[most] <= 0.0:
        return None
    return int(used[early[most]]), int(used[late[most]])
