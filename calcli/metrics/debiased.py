"""Debiased squared calibration errors, and their interval."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.binning import BinStats, bin_index, binned_error, mass_edges, width_edges
from calcli.metrics.context import (
    MetricContext,
    Undefined,
    Value,
    edges_of_values,
    made_once,
    metric,
)
from calcli.metrics.intervals import (
    Interval,
    max_distance,
    normal_quantile,
    normal_tail,
)
from calcli.metrics.losses import gap_interval
from calcli.metrics.significance import class_p_values, sum_p_value, vanishes
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.statistics.units import SharedOutcomes, Units, numbered


def plugin_square(bins: BinStats) -> FloatArray:
    """Squared L2 calibration error of binned scores: sum_b share_b gap_b^2, biased upwards."""
    return np.asarray((bins.share * bins.gaps**2).sum(axis=-1))


def signed_square(bins: BinStats) -> FloatArray:
    """Squared L2 calibration error without its sampling bias; may be negative.

    sum_b share_b [ (s_b - y_b)^2 - y_b (1 - y_b) / (n_b - 1) ], s_b and y_b the bin's mean
    score and outcome, n_b its number of rows (with weights the effective one); bins with
    fewer than two rows contribute nothing. A negative value means: not distinguishable from 0.

    Reference: Kumar, Liang, Ma (2019), definition 5.1; Broecker (2012).
    """
    shape = bins.outcome.shape
    n = bins.effective
    enough = np.broadcast_to((bins.count >= 2) & (n > 1.0), shape)
    rate = np.divide(bins.outcome, bins.weight, out=np.zeros(shape), where=enough)
    noise = np.divide(rate * (1.0 - rate), n - 1.0, out=np.zeros(shape), where=enough)
    return np.asarray(
        (bins.share * np.where(enough, bins.gaps**2 - noise, 0.0)).sum(axis=-1)
    )


def signed_root(square: float) -> float:
    """Square root of the positive part."""
    return math.sqrt(max(square, 0.0))


def debiased_error(
    bins: BinStats, norm: float, resamples: int, rng: np.random.Generator
) -> float:
    """Debiased binned error of any norm: twice the plugin minus the mean of noisier copies. The copies draw every bin's
    rate from N(y_b, y_b (1 - y_b) / n_b). For norm 2 prefer ``signed_square``, which is exact. Reference: Kumar, Liang,
    Ma (2019), section 5 and their released code."""
    rate = np.divide(
        bins.outcome,
        bins.weight,
        out=np.zeros(bins.outcome.shape),
        where=bins.weight > 0,
    )
    sd = np.sqrt(
        np.divide(
            rate * (1 - rate),
            bins.effective,
            out=np.zeros(rate.shape),
            where=bins.effective > 0,
        )
    )
    noisy = (rate + sd * rng.standard_normal((resamples, len(rate)))) * bins.weight
    return 2.0 * float(binned_error(bins, norm)) - float(
        binned_error(bins.with_outcomes(noisy), norm).mean()
    )


@dataclass(frozen=True)
class SquaredError:
    """Squared L2 error by pairs of rows, with what its interval and test need. value : unbiased for the binned squared
    error. se : standard error away from 0. null_sd : standard deviation under calibration. lone : proportion of rows
    that are alone in their bin, whose error is unknown."""

    value: float
    se: float
    null_sd: float
    lone: float

    @classmethod
    def of_sums(cls, parts: Iterable[Sequence[FloatArray]]) -> "SquaredError":
        """Error from sums over bins (bins,), some bins at a time: rows, u = y - score, u^2 and score (1 - score)."""
        sums = np.zeros(6)
        for count, total, square, variance in parts:
            pairs = count >= 2
            c, s, q, v = count[pairs], total[pairs], square[pairs], variance[pairs]
            mean, second = s / c, q / c
            own, powers = (
                (s * s - q) / (c - 1.0),
                c * (4.0 * mean**2 * second - 3.0 * mean**4),
            )
            under, alone = 2.0 * v**2 / (c * (c - 1.0)), count == 1
            sums += (
                count.sum(),
                own.sum(),
                powers.sum(),
                (c * mean**2).sum(),
                under.sum(),
                alone.sum(),
            )
        n, gaps, fourth, second_of_means, null, lone = sums.tolist()
        spread = float(fourth / n - (second_of_means / n) ** 2)
        return cls(
            gaps / n, math.sqrt(max(spread, 0.0) / n), math.sqrt(null) / n, lone / n
        )

    def interval(self, level: float) -> Interval:
        """Interval of the squared error (Sun et al. 2024), never below 0. Away from 0 it is value +- z se. Near 0 the
        lower end falls to 0 faster than the two-sided rule would, where the estimator is no longer normal."""
        two, one = normal_quantile(0.5 + level / 2.0), normal_quantile(level)
        value = max(self.value, 0.0)
        if value >= 2.0 * two * self.se:
            low = value - two * self.se
        elif value >= 2.0 * one * self.se:
            low = value / 2.0
        else:
            low = value - one * self.se
        # Where calibration is not rejected, 0 belongs to the interval; the spread of the
        # null keeps the upper end open when the standard error itself vanishes.
        if self.value <= one * self.null_sd:
            low = 0.0
        high = (
            max(value + two * self.se, self.value + two * self.null_sd, 0.0) + self.lone
        )
        return Interval(max(low, 0.0), min(high, 1.0), level, "sun2024")


def squared_error(
    scores: FloatArray, outcomes: FloatArray, edges: FloatArray
) -> SquaredError:
    """Squared L2 error by pairs of rows within bins, with its two standard deviations.

    T = (1/N) sum_b [ (sum U)^2 - sum U^2 ] / (n_b - 1), U = y - score. With bin means u, second moments m and shares w,
    the variance away from 0 is sum w (4 u^2 m - 3 u^4) - (sum w u^2)^2 over N; under calibration it is sum_b 2 V_b^2 /
    (n_b (n_b - 1)) over N^2, V_b = sum score (1 - score).

    scores, outcomes : (n,). Reference: Sun, Chaudhari, Barnett, Dobriban (2024),
    arXiv 2408.08998; Lee, Huang, Hassani, Dobriban (2023) for the null.
    """
    b = len(edges) - 1
    index = bin_index(scores, edges)
    u = outcomes - scores
    count = np.bincount(index, minlength=b).astype(np.float64)
    total, square, variance = (
        np.bincount(index, weights=w, minlength=b).astype(np.float64)
        for w in (u, u * u, scores * (1.0 - scores))
    )
    return SquaredError.of_sums([(count, total, square, variance)])


@made_once
def squared_of(context: MetricContext, scheme: str) -> SquaredError:
    """``squared_error`` of the rows of a context over the bins of a scheme."""
    return squared_error(context.scores, context.outcomes, context.edges(scheme))


@made_once
def square_and_draws(
    context: MetricContext, scheme: str, square: Callable[[BinStats], FloatArray]
) -> tuple[float, FloatArray]:
    """Squared error over the bins of a scheme, and its draws under calibration, (draws,)."""
    if context.shared is not None and square is signed_square:
        return _of_units(context, scheme, context.shared)
    bins = context.bins(scheme)
    return float(square(bins)), square(
        bins.with_outcomes(context.null_outcomes(scheme))
    )


@dataclass(frozen=True)
class UnitPairs:
    """Squared L2 error of binned rows by pairs of rows of different units.

    T = sum_b (W_b / W) [(sum r)^2 - sum_g (sum of r in g and b)^2] / (W_b^2 - sum_g W_gb^2), with r = w (y - score) and
    W the sums of weights: what rows of a unit have in common does not count as error. Bins of one unit contribute
    nothing. cell : (n,) its (unit, bin) pair; bin_of : (cells,) its bin; share : (bins,) W_b / W over the last term.
    """

    cell: IntArray
    bin_of: IntArray
    share: FloatArray

    @classmethod
    def of(
        cls, index: IntArray, bins: int, units: Units, weight: FloatArray | None = None
    ) -> "UnitPairs":
        """Pairs of rows with bins ``index`` (n,)."""
        held, cell = numbered(index * units.n + units.code)
        bin_of = held // units.n
        mass = np.bincount(cell, weights=weight, minlength=len(bin_of)).astype(
            np.float64
        )
        whole = np.bincount(bin_of, weights=mass, minlength=bins)
        pairs = whole**2 - np.bincount(bin_of, weights=mass**2, minlength=bins)
        share = np.divide(
            whole / mass.sum(), pairs, out=np.zeros(bins), where=pairs > 1e-9 * whole**2
        )
        return cls(cell, bin_of, share)

    def square(self, residual: FloatArray) -> float:
        """Squared error from residuals w (y - score), (n,); may be negative."""
        return self.of_sums(
            np.bincount(self.cell, weights=residual, minlength=len(self.bin_of))
        )

    def of_sums(self, sums: AnyArray) -> float:
        """Squared error from sums of residuals by cell, (cells,); may be negative."""
        whole, own = (
            np.bincount(self.bin_of, weights=s, minlength=len(self.share))
            for s in (sums, sums**2)
        )
        return float((whole**2 - own) @ self.share)


def _of_units(
    context: MetricContext, scheme: str, shared: SharedOutcomes
) -> tuple[float, FloatArray]:
    """Squared error by pairs of rows of different units, and its draws under calibration."""
    t, c, edges = context.table, context.scores, context.edges(scheme)
    assert t.units is not None
    w = t.weights
    pairs = UnitPairs.of(bin_index(c, edges), len(edges) - 1, t.units, t.weight)
    cell = pairs.cell[shared.order]
    whole, said = (
        np.bincount(pairs.cell, weights=each, minlength=len(pairs.bin_of))
        for each in (t.weight, w * c)
    )
    weight = None if t.weight is None else w[shared.order]

    def square(drawn: AnyArray) -> float:
        missed = np.flatnonzero(drawn == 0)  # mostly fewer than the correct ones
        beside = None if weight is None else weight[missed]
        return pairs.of_sums(
            whole
            - np.bincount(cell[missed], weights=beside, minlength=len(whole))
            - said
        )

    draws = [square(one) for _, drawn in shared.some() for one in drawn]
    return pairs.square(w * (context.outcomes - c)), np.array(draws)


def _l2_scheme(context: MetricContext) -> str:
    """Bins of the L2 errors: ``mass``, or ``values`` (each value is a bin) where the scores take few."""
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
    s, scheme = context.settings, _l2_scheme(context)
    if scheme == "mass" and context.bins("mass").count.max() < 2:
        raise Undefined("no bin holds two rows; use fewer --bins")
    square, draws = square_and_draws(context, scheme, signed_square)
    roots = np.sqrt(np.maximum(draws, 0.0))
    null = replace(
        context.null_of(0.0, roots), p_value=context.null_of(square, draws).p_value
    )
    interval = None
    if context.table.weight is None and context.table.units is None:
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
    value, draws = math.sqrt(square), np.sqrt(draws)
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
        # That program bins by value where every class has few, and cuts off each class's square at 0.
        by_value = [float(square(bins)) for bins in context.class_bins("values")]
        scheme = "values" if len(by_value) == context.table.k else "mass"
        squares = (
            by_value
            if scheme == "values"
            else [float(square(bins)) for bins in context.class_bins("mass")]
        )
        squares, signature = (
            [max(each, 0.0) for each in squares],
            {"scheme": scheme, "compat": "verified"},
        )
    elif context.table.units is not None and square is signed_square:
        bins, weight, signature = context.settings.bins, context.table.weight, {}
        squares = [
            _unit_square(context, p, y, mass_edges(p, bins, weight))
            for _, p, y in context.each_class()
        ]
    else:
        squares, signature = (
            [float(square(bins)) for bins in context.class_bins("mass")],
            {},
        )
    mean = float(np.mean(squares))
    return Value(signed_root(mean), signature=signature, more={"signed_square": mean})


def _unit_square(
    context: MetricContext, p: FloatArray, outcome: FloatArray, edges: FloatArray
) -> float:
    """Squared error of a class with probabilities and outcomes (n,), by pairs of rows of different units."""
    t = context.table
    assert t.units is not None
    return UnitPairs.of(bin_index(p, edges), len(edges) - 1, t.units, t.weight).square(
        t.weights * (outcome - p)
    )


@made_once
def classes_by_unit(context: MetricContext) -> tuple[FloatArray, FloatArray]:
    """P-value of every class's frequency and its squared error over width bins, (k,) each, for rows in units."""
    t, edges = context.table, width_edges(context.settings.bins)
    found = [
        (sum_p_value(p, y, t.weight, t.units), _unit_square(context, p, y, edges))
        for _, p, y in context.each_class()
    ]
    p_values, squares = (np.array(column) for column in zip(*found, strict=True))
    return p_values, squares


def class_p_values_of(context: MetricContext) -> FloatArray | None:
    """``class_p_values`` of the rows of a context, by unit where they have units; None without class sums."""
    t = context.table
    if t.classes is None or (t.units is not None and context.columns is None):
        return None
    return class_p_values(t.classes) if t.units is None else classes_by_unit(context)[0]


@made_once
def _raw(context: MetricContext) -> tuple[list[float], dict[str, float]]:
    """Mean debiased and plugin squared error and squared difference of the classes' own values, and the least, mean and
    largest sum of a row."""
    t = context.table
    each, sums = [], np.zeros(t.n)
    for _, p, outcome in context.each_class(raw=True):
        edges = edges_of_values(p)
        edges = (
            mass_edges(p, context.settings.bins, t.weight) if edges is None else edges
        )
        bins = BinStats.of(p, outcome, edges, t.weight)
        debiased = (
            signed_square(bins)
            if t.units is None
            else _unit_square(context, p, outcome, edges)
        )
        each.append(
            [
                debiased,
                plugin_square(bins),
                np.average((p - outcome) ** 2, weights=t.weight),
            ]
        )
        sums += p
    facts = {
        "row_sum_min": sums.min(),
        "row_sum_mean": sums.mean(),
        "row_sum_max": sums.max(),
    }
    means = [float(column.mean()) for column in np.array(each).T]
    return means, {name: float(value) for name, value in facts.items()}


@metric(
    "norm:2 bins scheme:values closed:right label:class debiased:yes rows:unnormalized",
    whole=True,
)
def marginal2_raw(context: MetricContext) -> Value:
    """Marginal L2 calibration error of each class's own values, debiased, before rows are divided by their sums.

    sqrt(max(0, mean_c signed square of class c's map)); each value is a bin where there are few, else mass bins
    Reference: Kumar, Liang, Ma (2019), definitions 2.4 and 5.1; figures 6, 7 and 10 of Li (2023)
    """
    (mean, plugin, _), facts = _raw(context)
    return Value(
        signed_root(mean),
        more={"signed_square": mean, "plugin_square": plugin, **facts},
    )


@metric("rows:unnormalized", whole=True)
def mse_raw(context: MetricContext) -> Value:
    """Squared difference of each class's own value and outcome, before rows are divided by their sums.

    mean over classes and rows of (q_c - 1[y = c])^2; Brier / C where rows sum to one
    Reference: Kumar, Liang, Ma (2019), section 3; figure 6b of Li (2023)
    """
    (*_, difference), facts = _raw(context)
    return Value(difference, more=facts)


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
    if context.table.units is not None:
        mean = float(np.mean(classes_by_unit(context)[1]))
        return Value(signed_root(mean), more={"signed_square": mean})
    squares = signed_square(stats)
    mean, k = float(squares.mean()), len(squares)
    # Under calibration a bin's squared sum has variance 2 V^2; the K/(K-1) allows for the
    # classes of a row excluding each other (exact for equal probabilities).
    n = stats.effective
    pairs = stats.weight**2 * (
        1.0 - np.divide(1.0, n, out=np.ones_like(n), where=n > 1.0)
    )
    spread = np.divide(
        2.0 * stats.variance**2, pairs, out=np.zeros_like(pairs), where=pairs > 0.0
    )
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
    return Value(debiased_error(bins, s.norm, s.resamples, context.rng("ece_debiased")))
