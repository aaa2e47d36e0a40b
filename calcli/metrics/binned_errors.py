"""Binned calibration errors: the ECE and its relatives.

Functions of bin sums accept leading axes (classes, resamples), so that a null
distribution costs one call.
"""

import math
from typing import Any

import numpy as np

from calcli.binning import BinStats, bin_index, binned_error, mass_edges, width_edges
from calcli.errors import UsageError
from calcli.metrics.context import MetricContext
from calcli.metrics.debiased import squared_of
from calcli.metrics.losses import gap_interval
from calcli.metrics.registry import metric
from calcli.metrics.values import Undefined, Value
from calcli.numerics import FloatArray
from calcli.statistics.intervals import Interval, max_distance, min_distance
from calcli.statistics.nulls import Null, class_bin_outcomes
from calcli.statistics.shared_luck import SharedLuck
from calcli.statistics.shared_outcomes import SharedOutcomes
from calcli.statistics.units import Units


def gap_variance(bins: BinStats) -> FloatArray:
    """Spread of the bins' gaps around the ECE: sum_b share_b (|gap_b| - ECE)^2 (ReCal's
    "VCE").
    """
    ece = binned_error(bins)[..., None]
    return (bins.share * (np.abs(bins.gaps) - ece) ** 2).sum(axis=-1)


def monotone_mass_bins(
    scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None
) -> int:
    """Largest number of mass bins up to which the bins' accuracies keep rising
    (ECE-sweep). The number of bins grows from 1 until the accuracies are no longer
    non-decreasing. Reference: Roelofs, Cain, Shlens, Mozer (2022), section 5.
    """
    best = 1
    for bins in range(2, len(scores) + 1):
        stats = BinStats.of(scores, outcomes, mass_edges(scores, bins, weight), weight)
        occupied = stats.weight > 0
        if (np.diff(stats.outcome[occupied] / stats.weight[occupied]) < 0).any():
            break
        best = bins
    return best


def _binned(context: MetricContext, scheme: str, norm: float) -> Value:
    s = context.settings
    t = context.table
    if s.label == "class":
        value = float(per_class_errors(context, scheme, norm).mean())
        return Value(value, signature=_compat_signature(context, scheme))
    if s.label == "all":
        return _pooled(context, scheme, norm)
    other = context.foreign(scheme)
    if other is not None:
        bins = other.binned(context.scores, context.outcomes, s.bins, t.weight)
        return Value(
            float(binned_error(bins, norm)),
            signature=_compat_signature(context, scheme),
        )
    value, null = error_and_null(context, scheme, norm)
    more: dict[str, Any] = {"bins_used": context.bins_used(scheme)}
    interval = None
    if norm == 1.0 and context.has_plain_rows:
        interval = _bracket(context, scheme)
    return Value(value, interval=interval, null=null, more=more)


def error_and_null(
    context: MetricContext, scheme: str, norm: float = 1.0
) -> tuple[float, Null]:
    """Binned error of the scores and its null under calibration, whose mean is in
    closed form for norm 1, no units.
    """
    bins = context.bins(scheme)
    value = float(binned_error(bins, norm))
    draws = binned_error(bins.with_outcomes(context.null_outcomes(scheme)), norm)
    mean = None
    if norm == 1.0 and context.table.units is None:
        mean = context.expected(scheme)
    return value, context.null_of(value, draws, mean)


def _bracket(context: MetricContext, scheme: str) -> Interval:
    """Conservative interval of the binned ECE, from those of two quantities that enclose it.

    |mean gap| <= ECE <= L2 error over the same bins (triangle inequality, Jensen). The
    lower end is that of the mean gap, the upper that of Sun et al., but never below what
    the gap's interval holds: where scores are near-certain the rare errors that are not in
    the sample show in the gap's exact interval alone.
    """
    level = context.settings.level
    gap = gap_interval(context)
    squared = squared_of(context, scheme).interval(level)
    low = min_distance(gap)
    high = max_distance(gap)
    return Interval(low, max(math.sqrt(squared.high), high), level, "gap-to-l2")


def _compat_signature(context: MetricContext, scheme: str) -> dict[str, str]:
    """Signature entries of another program's bins, which replace ours entirely; empty
    for our own.
    """
    program = context.settings.compat
    if program is None or context.foreign(scheme) is None:
        return {}
    return dict.fromkeys(("scheme", "closed", "compat"), program)


@metric("norm bins scheme closed:right label", report="default", reads="sums")
def ece(context: MetricContext) -> Value:
    """Expected calibration error of the confidence over equal-width bins.

    (sum_b share_b |confidence_b - accuracy_b|^norm)^(1/norm)
    Reference: Naeini, Cooper, Hauskrecht (2015); Guo et al. (2017), equation 3
    In tables: {gap} of {of}, {bins}
    """
    return _binned(context, context.settings.scheme, context.settings.norm)


@metric(
    "norm bins scheme closed:right label:positive",
    report="two classes",
    whole=True,
    reads="sums",
)
def ece_positive(context: MetricContext) -> Value:
    """Expected calibration error of P(class 1), for two classes.

    as ece, with P(class 1) against 1[y = 1] (ece --label positive)
    Reference: Naeini, Cooper, Hauskrecht (2015)
    Also called: ece1, class1_ece
    In tables: mean gap of P(class 1) and the frequency of class 1
    """
    if context.table.positive is None:
        raise Undefined(f"for two classes only, these rows have {context.table.k}")
    return ece(context.labelled("positive"))


@metric(
    "norm bins scheme:mass closed:right label",
    report="default",
    reads="order",
    pools=False,
)
def ece_mass(context: MetricContext) -> Value:
    """Expected calibration error over bins that hold equally many rows.

    as ece; edges midway between neighbouring chunks of the sorted confidences
    Reference: Nguyen, O'Connor (2015); Kumar, Liang, Ma (2019)
    Also called: adaptive_ece, ace, adaece
    In tables: as ece, bins of equally many rows
    """
    return _binned(context, "mass", context.settings.norm)


@metric(
    "norm:max bins scheme closed:right label",
    report="default",
    in_table=False,
    reads="sums",
)
def mce(context: MetricContext) -> Value:
    """Largest gap of any bin that holds rows: very unstable.

    max_b |confidence_b - accuracy_b|
    Reference: Naeini et al. (2015); Guo et al. (2017), equation 5
    In tables: largest gap of a bin
    """
    return _binned(context, context.settings.scheme, math.inf)


@metric("bins scheme closed:right label", report="full", reads="sums")
def vce(context: MetricContext) -> Value:
    """Spread of the bins' gaps around the ECE.

    sum_b share_b (|gap_b| - ECE)^2
    Reference: Jang, Lee, Weimer (2021), ReCal's VCE
    """
    return Value(float(gap_variance(context.bins(context.settings.scheme))))


@metric("norm:1 scheme:mass-monotone label", report="full")
def ece_sweep(context: MetricContext) -> Value:
    """ECE with as many mass bins as keep the bins' accuracies rising.

    ece_mass at the largest such number of bins
    Reference: Roelofs, Cain, Shlens, Mozer (2022)
    """
    weight = context.table.weight
    bins = monotone_mass_bins(context.scores, context.outcomes, weight)
    stats = BinStats.of(
        context.scores,
        context.outcomes,
        mass_edges(context.scores, bins, weight),
        weight,
    )
    return Value(
        float(binned_error(stats)),
        signature={"bins": str(bins)},
        more={"bins_used": bins},
    )


def per_class_errors(context: MetricContext, scheme: str, norm: float) -> FloatArray:
    """Binned error of every class against the rest, (k,)."""
    if (
        scheme == "width"
        and context.foreign(scheme) is None
        and context.table.classes is not None
    ):
        return binned_error(context.table.classes, norm)
    return np.array(
        [float(binned_error(bins, norm)) for bins in context.class_bins(scheme)]
    )


def _pooled(context: MetricContext, scheme: str, norm: float) -> Value:
    stats = context.table.classes
    if scheme != "width" or stats is None:
        raise UsageError(
            "--label all pools bins of equal width, not --scheme mass or ece_mass"
        )
    names = ("count", "score", "outcome", "weight", "weight_square")
    return Value(
        float(
            binned_error(
                BinStats(*(getattr(stats, name).sum(axis=0) for name in names)), norm
            )
        )
    )


@metric(
    "norm bins scheme:width closed:right label:class",
    needs="classes",
    report="full",
    reads="sums",
)
def cwece(context: MetricContext) -> Value:
    """Class-wise calibration error: mean over classes of each one-vs-all ECE.

    (1/k) sum_c sum_b share_cb |p_cb - frequency_cb|; others sum over classes
    Reference: Kull et al. (2019); Nixon et al. (2019)
    Also called: classwise_ece, sce
    """
    t = context.table
    norm = context.settings.norm
    mean = float(per_class_errors(context, "width", norm).mean())
    signature = _compat_signature(context, "width")
    if (
        t.classes is None
        or signature
        or (t.units is not None and context.columns is None)
    ):
        return Value(mean, signature=signature)
    if t.units is not None:
        draws = _drawn_by_unit(context, t.units)
    else:
        weighted = t.weight is not None
        rng = context.rng("cwece")
        drawn = class_bin_outcomes(
            t.classes.score, t.classes.variance, context.heavy_resamples, rng, weighted
        )
        draws = np.array(
            [
                float(binned_error(t.classes.with_outcomes(one), norm).mean())
                for one in drawn
            ]
        )
    return Value(mean, null=context.null_of(mean, draws))


def _drawn_by_unit(context: MetricContext, units: Units) -> FloatArray:
    """Class-wise errors of rows in units under calibration, (draws,).

    Each class is drawn with its own ``SharedLuck``.
    """
    t = context.table
    s = context.settings
    draws = context.heavy_draws
    total = np.zeros(draws)
    edges = width_edges(s.bins)
    for c, p, outcome in context.each_class():
        share = SharedLuck.of(p, outcome, units, t.weight, both=True).share
        rng = context.rng(f"cwece {c}")
        weights = [] if t.weight is None else [t.weight]
        drawn = SharedOutcomes.drawn(p, units, share, draws, rng, drawn_with=weights)
        index = bin_index(p, edges)
        stats = BinStats.at(index, s.bins, p, outcome, t.weight)
        total += binned_error(
            stats.with_outcomes(drawn.by_bin(index, s.bins, t.weight)), s.norm
        )
    return total / t.k
