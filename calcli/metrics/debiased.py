"""Debiased squared calibration errors, and their interval."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from calcli.binning import BinStats, bin_index, mass_edges, width_edges
from calcli.metrics.context import MetricContext, edges_of_values, made_once
from calcli.metrics.losses import gap_interval
from calcli.metrics.registry import metric
from calcli.metrics.rowtable import ClassStats
from calcli.metrics.significance import class_p_values
from calcli.metrics.values import Undefined, Value
from calcli.numerics import AnyArray, FloatArray, ratio
from calcli.statistics.intervals import Interval, max_distance, normal_tail
from calcli.statistics.p_values import sum_p_value, vanishes
from calcli.statistics.shared_outcomes import SharedOutcomes
from calcli.statistics.squared_errors import (
    SquaredError,
    UnitPairs,
    debiased_error,
    plugin_square,
    signed_root,
    signed_square,
    squared_error,
)


@made_once
def squared_of(context: MetricContext, scheme: str) -> SquaredError:
    """``squared_error`` of the rows of a context over the bins of a scheme."""
    return squared_error(context.scores, context.outcomes, context.edges(scheme))


@made_once
def square_and_draws(
    context: MetricContext, scheme: str, square: Callable[[BinStats], FloatArray]
) -> tuple[float, FloatArray]:
    """Squared error over the bins of a scheme, and its draws under calibration,
    (draws,).
    """
    if context.shared is not None and square is signed_square:
        return _of_units(context, scheme, context.shared)
    bins = context.bins(scheme)
    return float(square(bins)), square(
        bins.with_outcomes(context.null_outcomes(scheme))
    )


def _of_units(
    context: MetricContext, scheme: str, shared: SharedOutcomes
) -> tuple[float, FloatArray]:
    """Squared error by pairs of rows of different units, and its draws under
    calibration.
    """
    t = context.table
    c = context.scores
    edges = context.edges(scheme)
    assert t.units is not None
    w = t.weights
    pairs = UnitPairs.of(bin_index(c, edges), len(edges) - 1, t.units, t.weight)
    cell = pairs.cell[shared.order]
    n_cells = len(pairs.bin_of)
    whole = np.bincount(pairs.cell, weights=t.weight, minlength=n_cells)
    expected = np.bincount(pairs.cell, weights=w * c, minlength=n_cells)
    weight = None if t.weight is None else w[shared.order]

    def square(drawn: AnyArray) -> float:
        missed = np.flatnonzero(drawn == 0)  # mostly fewer than the correct ones
        weight_missed = None if weight is None else weight[missed]
        wrong = np.bincount(cell[missed], weights=weight_missed, minlength=n_cells)
        return pairs.of_sums(whole - wrong - expected)

    draws = []
    for _, drawn in shared.some():
        draws += [square(one) for one in drawn]
    return pairs.square(w * (context.outcomes - c)), np.array(draws)


def _has_pairs(bins: BinStats) -> bool:
    """True if a bin holds two rows, whose spread is the sampling bias."""
    return bool(bins.count.max() >= 2)


def _no_pairs(context: MetricContext) -> Undefined:
    """Why a debiased error has no value: nothing tells its sampling bias."""
    rows = "two rows" if context.table.units is None else "rows of two units"
    return Undefined(f"no bin holds {rows}; use fewer --bins")


def _l2_scheme(context: MetricContext) -> str:
    """Bins of the L2 errors: ``mass``, or ``values`` (each value is a bin) where the
    scores take few.
    """
    return "mass" if context.discrete is None else "values"


@metric(
    "norm:2 bins scheme:mass closed:right label debiased:yes",
    report="default",
    reads="order",
)
def tce2(context: MetricContext) -> Value:
    """Top-label L2 calibration error, debiased.

    sqrt(max(0, sum_b share_b [(confidence_b - acc_b)^2 - acc_b (1 - acc_b)/(n_b - 1)]))
    Reference: Kumar, Liang, Ma (2019), definition 5.1; interval: Sun et al. (2024)
    In tables: root-mean-square gap, sampling bias removed
    """
    s = context.settings
    scheme = _l2_scheme(context)
    if context.table.units is None:
        has_pairs = scheme == "values" or _has_pairs(context.bins("mass"))
    else:
        edges = context.edges(scheme)
        has_pairs = _unit_pairs(context, context.scores, edges).has_any
    if not has_pairs:
        raise _no_pairs(context)
    square, draws = square_and_draws(context, scheme, signed_square)
    roots = np.sqrt(np.maximum(draws, 0.0))
    null = replace(
        context.null_of(0.0, roots), p_value=context.null_of(square, draws).p_value
    )
    interval = None
    if context.has_plain_rows:
        squared = squared_of(context, scheme).interval(s.level)
        # At least the mean gap, whose exact interval knows of rare errors not seen here.
        high = max(math.sqrt(squared.high), max_distance(gap_interval(context)))
        interval = Interval(math.sqrt(squared.low), high, s.level, squared.method)
    more = {"signed_square": square, "bins_used": context.bins_used(scheme)}
    return Value(
        signed_root(square),
        interval=interval,
        null=null,
        signature={"scheme": scheme},
        more=more,
    )


@metric(
    "norm:2 bins scheme:mass closed:right label debiased:no",
    report="full",
    reads="order",
)
def tce2_plugin(context: MetricContext) -> Value:
    """Top-label L2 calibration error, plugin (biased upwards).

    sqrt(sum_b share_b (confidence_b - acc_b)^2)
    Reference: Kumar, Liang, Ma (2019), equation 7
    """
    scheme = _l2_scheme(context)
    square, draws = square_and_draws(context, scheme, plugin_square)
    value = math.sqrt(square)
    draws = np.sqrt(draws)
    return Value(
        value, null=context.null_of(value, draws), signature={"scheme": scheme}
    )


@metric("norm:2 bins scheme:mass closed:right label:class debiased:yes", whole=True)
def marginal2(context: MetricContext) -> Value:
    """Marginal L2 calibration error, debiased, each class on its own mass bins.

    sqrt(max(0, mean_c signed square of class c)); --compat verified truncates each class first, and bins by value where
    every class has few
    Reference: Kumar, Liang, Ma (2019), definitions 2.4 and 5.1
    """
    return _marginal(context, signed_square)


@metric("norm:2 bins scheme:mass closed:right label:class debiased:no", whole=True)
def marginal2_plugin(context: MetricContext) -> Value:
    """Marginal L2 calibration error, plugin (biased upwards).

    sqrt(mean_c sum_b share_cb (p_cb - f_cb)^2)
    Reference: Kumar, Liang, Ma (2019), definition 2.4
    """
    return _marginal(context, plugin_square)


def _marginal(
    context: MetricContext, square: Callable[[BinStats], FloatArray]
) -> Value:
    if context.settings.compat == "verified":
        return _marginal_of_verified(context, square)
    is_debiased = square is signed_square
    if context.table.units is not None and is_debiased:
        squares = _squares_by_unit(context)
    else:
        by_class = list(context.class_bins("mass"))
        if is_debiased and not any(map(_has_pairs, by_class)):
            raise _no_pairs(context)
        squares = [float(square(bins)) for bins in by_class]
    mean = float(np.mean(squares))
    return Value(signed_root(mean), more={"signed_square": mean})


def _marginal_of_verified(
    context: MetricContext, square: Callable[[BinStats], FloatArray]
) -> Value:
    """As that program does: by value where every class has few, each square at least 0."""
    squares = [float(square(bins)) for bins in context.class_bins("values")]
    scheme = "values"
    if len(squares) < context.table.k:
        scheme = "mass"
        squares = [float(square(bins)) for bins in context.class_bins("mass")]
    squares = [max(one, 0.0) for one in squares]
    signature = {"scheme": scheme, "compat": "verified"}
    mean = float(np.mean(squares))
    return Value(signed_root(mean), signature=signature, more={"signed_square": mean})


def _squares_by_unit(context: MetricContext) -> list[float]:
    """Squared error of every class in mass bins, by pairs of rows of different units."""
    table = context.table
    squares = []
    has_pairs = False
    for _, p, outcome in context.each_class():
        edges = mass_edges(p, context.settings.bins, table.weight)
        pairs = _unit_pairs(context, p, edges)
        squares.append(pairs.square(table.weights * (outcome - p)))
        has_pairs = has_pairs or pairs.has_any
    if not has_pairs:
        raise _no_pairs(context)
    return squares


def _unit_pairs(context: MetricContext, p: FloatArray, edges: FloatArray) -> UnitPairs:
    """Pairs of rows of different units in bins of the probabilities (n,)."""
    t = context.table
    assert t.units is not None
    return UnitPairs.of(bin_index(p, edges), len(edges) - 1, t.units, t.weight)


class ClassesByUnit(NamedTuple):
    """Classes of rows in units, (k,) each.

    p_values : of every class's frequency. squares : debiased squared errors over width
    bins; None where no bin holds rows of two units.
    """

    p_values: FloatArray
    squares: FloatArray | None


@made_once
def classes_by_unit(context: MetricContext) -> ClassesByUnit:
    """P-value and squared error of every class, for rows in units."""
    t = context.table
    edges = width_edges(context.settings.bins)
    p_values: list[float] = []
    squares: list[float] = []
    has_pairs = False
    for _, p, y in context.each_class():
        pairs = _unit_pairs(context, p, edges)
        p_values.append(sum_p_value(p, y, t.weight, t.units))
        squares.append(pairs.square(t.weights * (y - p)))
        has_pairs = has_pairs or pairs.has_any
    return ClassesByUnit(np.array(p_values), np.array(squares) if has_pairs else None)


def class_squares(context: MetricContext, stats: ClassStats) -> FloatArray | None:
    """Debiased squared error of every class over width bins, (k,).

    None where no bin holds two rows, or rows of two units: nothing tells the bias.
    """
    if context.table.units is not None:
        return classes_by_unit(context).squares
    return signed_square(stats) if _has_pairs(stats) else None


def class_p_values_of(context: MetricContext) -> FloatArray | None:
    """``class_p_values`` of the rows of a context, by unit where they have units; None
    without class sums.
    """
    t = context.table
    if t.classes is None or (t.units is not None and context.columns is None):
        return None
    if t.units is not None:
        return classes_by_unit(context).p_values
    return class_p_values(t.classes)


class RawErrors(NamedTuple):
    """Errors of the classes' own values, means over classes.

    debiased, plugin : squared errors over bins. difference : from the outcomes,
    squared. sums : least, mean and largest sum of a row. has_pairs : whether any bin
    holds two rows, or rows of two units.
    """

    debiased: float
    plugin: float
    difference: float
    sums: dict[str, float]
    has_pairs: bool


@made_once
def _raw(context: MetricContext) -> RawErrors:
    """Errors of the classes' own values, before rows are divided by their sums."""
    t = context.table
    errors = []
    sums = np.zeros(t.n)
    has_pairs = False
    for _, p, outcome in context.each_class(raw=True):
        edges = edges_of_values(p)
        if edges is None:
            edges = mass_edges(p, context.settings.bins, t.weight)
        bins = BinStats.of(p, outcome, edges, t.weight)
        if t.units is None:
            debiased = float(signed_square(bins))
            has_pairs = has_pairs or _has_pairs(bins)
        else:
            pairs = _unit_pairs(context, p, edges)
            debiased = pairs.square(t.weights * (outcome - p))
            has_pairs = has_pairs or pairs.has_any
        plugin = float(plugin_square(bins))
        difference = float(np.average((p - outcome) ** 2, weights=t.weight))
        errors.append((debiased, plugin, difference))
        sums += p
    debiased, plugin, difference = np.mean(errors, axis=0).tolist()
    row_sums = {
        "row_sum_min": float(sums.min()),
        "row_sum_mean": float(sums.mean()),
        "row_sum_max": float(sums.max()),
    }
    return RawErrors(debiased, plugin, difference, row_sums, has_pairs)


@metric(
    "norm:2 bins scheme:values closed:right label:class debiased:yes rows:unnormalized",
    whole=True,
)
def marginal2_raw(context: MetricContext) -> Value:
    """Marginal L2 calibration error of each class's own values, debiased, before rows are divided by their sums.

    sqrt(max(0, mean_c signed square of class c's map)); each value is a bin where there are few, else mass bins
    Reference: Kumar, Liang, Ma (2019), definitions 2.4 and 5.1; figures 6, 7 and 10 of Li (2023)
    """
    raw = _raw(context)
    if not raw.has_pairs:
        raise _no_pairs(context)
    return Value(
        signed_root(raw.debiased),
        more={
            "signed_square": raw.debiased,
            "plugin_square": raw.plugin,
            **raw.sums,
        },
    )


@metric("rows:unnormalized", whole=True)
def mse_raw(context: MetricContext) -> Value:
    """Squared difference of each class's own value and outcome, before rows are divided by their sums.

    mean over classes and rows of (q_c - 1[y = c])^2; Brier / C where rows sum to one
    Reference: Kumar, Liang, Ma (2019), section 3; figure 6b of Li (2023)
    """
    raw = _raw(context)
    return Value(raw.difference, more=raw.sums)


@metric(
    "norm:2 bins scheme:width closed:right label:class",
    needs="classes",
    report="full",
    reads="sums",
)
def cwece2(context: MetricContext) -> Value:
    """Class-wise L2 calibration error, debiased, over width bins.

    sqrt(max(0, mean_c sum_b share_cb [(p - f)^2 - f (1 - f)/(n - 1)]))
    Reference: Kumar, Liang, Ma (2019), definition 5.1, per class
    """
    stats = context.table.classes
    if stats is None:
        raise Undefined("needs the class sums, which are not at hand here")
    squares = class_squares(context, stats)
    if squares is None:
        raise _no_pairs(context)
    mean = float(squares.mean())
    k = len(squares)
    if context.table.units is not None:
        return Value(signed_root(mean), more={"signed_square": mean})
    # Under calibration a bin's squared sum has variance 2 V^2; the K/(K-1) allows for the
    # classes of a row excluding each other (exact for equal probabilities).
    n = stats.effective
    pairs = stats.weight**2 * (
        1.0 - np.divide(1.0, n, out=np.ones_like(n), where=n > 1.0)
    )
    spread = ratio(2.0 * stats.variance**2, pairs)
    sd = math.sqrt(float(spread.sum()) * k / (k - 1.0)) / (
        k * float(stats.weight[0].sum())
    )
    p_value = normal_tail(mean / sd) if sd > 0.0 else float(vanishes(mean))
    return Value(
        signed_root(mean),
        p_value=p_value,
        more={"signed_square": mean, "null_sd_of_square": sd},
    )


@metric(
    "norm bins scheme:mass closed:right label debiased:normal",
    report="full",
    reads="order",
)
def ece_debiased(context: MetricContext) -> Value:
    """Mass-bin error of any norm, debiased by resampling the bins' rates (removes part of the bias).

    2 plugin - mean plugin with rate_b ~ N(rate_b, rate_b (1 - rate_b)/n_b)
    Reference: Kumar, Liang, Ma (2019), section 5
    """
    s = context.settings
    bins = context.bins("mass")
    if (bins.count == 1).any():
        raise Undefined("every bin with rows needs at least two; use fewer --bins")
    return Value(
        debiased_error(bins, s.norm, s.resamples, context.rng("ece_debiased")),
        signature={"draws": str(s.resamples), "seed": str(s.seed)},
    )
