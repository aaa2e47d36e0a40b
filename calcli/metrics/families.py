"""Calibration errors as metrics: functions from ``Scope`` to ``Value``. ``catalog`` names and describes them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.metrics import calibration as c
from calcli.metrics import debiased as d
from calcli.metrics.bound import generalisation_bound
from calcli.metrics.calibration import Bins
from calcli.metrics.context import Scope, Value
from calcli.metrics.means import Interval, mean_of, t_interval
from calcli.metrics.nulls import Null, class_bin_hits, expected_error, null_of, outcome_draws
from calcli.metrics.rowtable import ClassStats
from calcli.metrics.significance import adaptive_test, cumulative_gaps, spiegelhalter
from calcli.metrics.smooth import dyadic_smooth_error, grid_cells, smooth_errors, smooth_residuals, spectrum
from calcli.numerics import FloatArray

# ---- binned errors of the confidence


def _binned(scope: Scope, scheme: str, norm: float) -> Value:
    s, t = scope.settings, scope.table
    if s.label == "class":
        return _class_mean(scope, scheme, norm)
    if s.label == "all":
        return _pooled(scope, scheme, norm)
    other = scope.foreign(scheme)
    if other is not None:
        bins = other.binned(t.confidence, t.correct, s.bins, t.weight)
        return Value(float(c.binned_error(bins, norm)), pins=_compat_pins(scope, scheme))
    bins = scope.bins(scheme)
    value = float(c.binned_error(bins, norm))
    draws = c.binned_error(bins.with_hits(scope.null_hits(scheme)), norm)
    mean = expected_error(t.confidence, scope.edges(scheme), t.weight) if norm == 1.0 else None
    more: dict[str, Any] = {"bins_used": int((bins.n > 0).sum())}
    interval = _bracket(scope, scheme) if norm == 1.0 and t.weight is None else None
    return Value(value, interval=interval, null=null_of(value, draws, mean), more=more)


def _bracket(scope: Scope, scheme: str) -> Interval | None:
    """Conservative interval of the binned ECE, between two quantities that have intervals.

    |mean gap| <= ECE <= L2 error over the same bins (triangle inequality, Jensen): the
    lower end is that of the mean gap, the upper that of Sun et al.
    """
    t, level = scope.table, scope.settings.level
    gap = t_interval(mean_of(t.confidence - t.correct), level)
    if gap is None:
        return None
    squared = d.squared_error(t.confidence, t.correct, scope.edges(scheme)).interval(level)
    return Interval(min(max(gap.low, -gap.high, 0.0), 1.0), math.sqrt(squared.high), level, "gap-to-l2")


def ece(scope: Scope) -> Value:
    return _binned(scope, scope.settings.scheme, scope.settings.norm)


def ece_mass(scope: Scope) -> Value:
    return _binned(scope, "mass", scope.settings.norm)


def mce(scope: Scope) -> Value:
    return _binned(scope, scope.settings.scheme, math.inf)


def vce(scope: Scope) -> Value:
    return Value(float(c.gap_variance(scope.bins(scope.settings.scheme))))


def ece_sweep(scope: Scope) -> Value:
    t = scope.table
    bins = c.monotone_mass_bins(t.confidence, t.correct)
    edges = c.edges_for(t.confidence, bins, "mass")
    value = float(c.binned_error(c.binned(t.confidence, t.correct, edges, t.weight)))
    return Value(value, pins={"bins": str(bins)}, more={"bins_used": bins})


def ece_debiased(scope: Scope) -> Value:
    s = scope.settings
    bins = scope.bins("mass")
    if (bins.n == 1).any():
        return Value.undefined("every bin with rows needs at least two; use fewer --bins")
    return Value(d.debiased_error(bins, s.norm, s.resamples, scope.rng("ece_debiased")))


def bound_printed(scope: Scope) -> Value:
    return _bound(scope, "printed")


def bound_repaired(scope: Scope) -> Value:
    return _bound(scope, "repaired")


def _bound(scope: Scope, which: str) -> Value:
    s = scope.settings
    value = float(c.binned_error(scope.bins("width")))
    bound = generalisation_bound(value, scope.table.n, s.bins, 1.0 - s.level)
    return Value(getattr(bound, which), pins={"delta": f"{1.0 - s.level:g}"})


# ---- squared errors


def _tce2_scheme(scope: Scope) -> str:
    """Mass bins, unless the confidences take few values: then each value is a bin."""
    return "mass" if scope.discrete is None else "values"


def tce2(scope: Scope) -> Value:
    s, t = scope.settings, scope.table
    scheme = _tce2_scheme(scope)
    bins = scope.bins(scheme)
    if not (bins.n >= 2).any():
        return Value.undefined("no bin holds two rows; use fewer --bins")
    square = float(d.signed_square(bins))
    draws = d.signed_square(bins.with_hits(scope.null_hits(scheme)))
    null = null_of(square, draws)
    roots = np.sqrt(np.maximum(draws, 0.0))
    null = Null(float(roots.mean()), float(np.quantile(roots, 0.95)), null.p_value, null.resamples)
    interval = None
    if t.weight is None:
        squared = d.squared_error(t.confidence, t.correct, scope.edges(scheme)).interval(s.level)
        interval = Interval(math.sqrt(squared.low), math.sqrt(squared.high), s.level, squared.method)
    more = {"signed_square": square, "bins_used": int((bins.n > 0).sum())}
    return Value(d.signed_root(square), interval=interval, null=null, pins={"scheme": scheme}, more=more)


def tce2_plugin(scope: Scope) -> Value:
    scheme = _tce2_scheme(scope)
    bins = scope.bins(scheme)
    square = float(d.plugin_square(bins))
    draws = np.sqrt(d.plugin_square(bins.with_hits(scope.null_hits(scheme))))
    return Value(math.sqrt(square), null=null_of(math.sqrt(square), draws), pins={"scheme": scheme})


def marginal2(scope: Scope) -> Value:
    return _marginal(scope, d.signed_square)


def marginal2_plugin(scope: Scope) -> Value:
    return _marginal(scope, d.plugin_square)


def _marginal(scope: Scope, square: Callable[[Bins], FloatArray]) -> Value:
    if scope.columns is None:
        return Value.undefined("needs the probabilities of every class, which are not at hand here")
    squares = np.array([float(square(bins)) for bins in scope.class_bins("mass")])
    per_class = scope.settings.compat == "verified"
    if per_class:
        squares = np.maximum(squares, 0.0)
    mean = float(squares.mean())
    pins = {"compat": "verified"} if per_class else {}
    return Value(d.signed_root(mean), pins=pins, more={"signed_square": mean})


# ---- classes


def per_class_errors(scope: Scope, scheme: str, norm: float) -> FloatArray:
    """Binned error of every class against the rest, (k,)."""
    if scheme == "width" and scope.foreign(scheme) is None:
        stats = scope.class_stats()
        if stats is not None:
            return c.binned_error(as_bins(stats), norm)
    if scope.columns is None:
        raise UsageError("this metric needs the probabilities of every class, which are not at hand here")
    return np.array([float(c.binned_error(bins, norm)) for bins in scope.class_bins(scheme)])


def as_bins(stats: ClassStats) -> Bins:
    """Class sums as bins, (k, bins)."""
    return Bins(stats.mass, stats.score, stats.hits, stats.count.astype(np.float64))


def _class_mean(scope: Scope, scheme: str, norm: float) -> Value:
    value = float(per_class_errors(scope, scheme, norm).mean())
    return Value(value, pins=_compat_pins(scope, scheme))


def _compat_pins(scope: Scope, scheme: str) -> dict[str, str]:
    """What a signature says of another program's bins: theirs replace ours entirely."""
    compat = scope.settings.compat
    if compat is None or scope.foreign(scheme) is None:
        return {}
    return {"scheme": compat, "closed": compat, "compat": compat}


def _pooled(scope: Scope, scheme: str, norm: float) -> Value:
    stats = scope.class_stats()
    if scheme != "width" or stats is None:
        raise UsageError("--label all pools the width bins of all classes; it has no --scheme mass")
    sums = [np.asarray(x, dtype=np.float64).sum(axis=0) for x in (stats.mass, stats.score, stats.hits, stats.count)]
    return Value(float(c.binned_error(Bins(*sums), norm)))


def cwece(scope: Scope) -> Value:
    stats, norm = scope.class_stats(), scope.settings.norm
    value = _class_mean(scope, "width", norm)
    if stats is None or value.value is None or scope.foreign("width") is not None or scope.table.weight is not None:
        return value
    bins = as_bins(stats)
    hits = class_bin_hits(stats.score, stats.square, scope.heavy_resamples, scope.rng("cwece"))
    draws = np.array([float(c.binned_error(bins.with_hits(h), norm).mean()) for h in hits])
    return Value(value.value, null=null_of(value.value, draws), pins=value.pins)


def cwece2(scope: Scope) -> Value:
    stats = scope.class_stats()
    if stats is None:
        return Value.undefined("needs the class sums, which are not at hand here")
    squares = d.signed_square(as_bins(stats))
    mean, k = float(squares.mean()), len(squares)
    # Under calibration a bin's squared sum has variance 2 V^2; the K/(K-1) allows for the
    # classes of a row excluding each other (exact for equal probabilities).
    n = stats.count.astype(np.float64)
    v = np.maximum(stats.score - stats.square, 0.0)
    spread = np.divide(2.0 * v**2, n * (n - 1.0), out=np.zeros_like(v), where=n >= 2)
    if scope.table.weight is not None:  # the law below is that of counts
        return Value(d.signed_root(mean), more={"signed_square": mean})
    sd = math.sqrt(float(spread.sum()) * k / (k - 1.0)) / (k * scope.table.n)
    z = mean / sd if sd > 0.0 else 0.0
    p_value = 0.5 * math.erfc(z / math.sqrt(2.0))
    return Value(d.signed_root(mean), p_value=p_value, more={"signed_square": mean, "null_sd_of_square": sd})


# ---- without bins


def smece(scope: Scope) -> Value:
    t = scope.table
    c_, y = t.confidence, t.correct
    w = np.ones(t.n) if t.weight is None else t.weight
    total, cells = float(w.sum()), grid_cells(t.n)
    own = smooth_residuals(c_, w * (c_ - y), cells, total)
    if scope.settings.compat == "relplot":
        return Value(dyadic_smooth_error(own), pins={"compat": "relplot"})
    value = float(smooth_errors(own)[0])
    return Value(value, null=null_of(value, smooth_errors(_smooth_null(scope, w, cells, total), 1e-4)))


def _smooth_null(scope: Scope, w: FloatArray, cells: int, total: float) -> FloatArray:
    """Cosine coefficients of residuals with outcomes drawn from the confidences."""
    c_ = scope.table.confidence
    order = np.argsort(c_, kind="stable")
    c_, w = c_[order], w[order]
    cell = np.minimum((c_ * cells).astype(np.int64), cells - 1)
    first = np.flatnonzero(np.concatenate([[True], np.diff(cell) > 0]))
    score = np.bincount(cell, weights=w * c_, minlength=cells)
    unweighted = scope.table.weight is None
    out = np.empty((scope.heavy_resamples, cells + 1))
    for rows, drawn in outcome_draws(c_, scope.heavy_resamples, scope.rng("smece")):
        hits = np.zeros((len(drawn), cells))
        hits[:, cell[first]] = np.add.reduceat(drawn if unweighted else drawn * w, first, axis=1, dtype=np.float64)
        out[rows] = spectrum((score - hits) / total)
    return out


def ks(scope: Scope) -> Value:
    t = scope.table
    path = cumulative_gaps(t.confidence, t.correct, t.weight)
    # Mean and 95 % point of max |B|: sqrt(pi/2) and 2.2414.
    null = Null(math.sqrt(math.pi / 2.0) * path.sigma, 2.241402728 * path.sigma, path.p_mad, 0)
    return Value(path.mad, null=null)


def kuiper(scope: Scope) -> Value:
    t = scope.table
    path = cumulative_gaps(t.confidence, t.correct, t.weight)
    # Mean and 95 % point of the range of B: 2 sqrt(2/pi) and 2.4977.
    null = Null(2.0 * math.sqrt(2.0 / math.pi) * path.sigma, 2.497672161 * path.sigma, path.p_kuiper, 0)
    return Value(path.kuiper, null=null)


def auroc(scope: Scope) -> Value:
    t = scope.table
    value = c.auroc(t.confidence, t.correct, t.weight)
    if value is None:
        which = "right" if t.correct.any() else "wrong"
        return Value.undefined(f"every row is {which}: nothing to separate")
    return Value(value)


def spiegelhalter_z(scope: Scope) -> Value:
    t = scope.table
    direction = spiegelhalter(t.confidence, t.correct, t.weight)
    if not math.isfinite(direction.z):
        return Value.undefined("the confidences are certain, and wrong somewhere")
    return Value(direction.z, p_value=direction.p_value)


def tcal(scope: Scope) -> Value:
    t = scope.table
    if t.weight is not None:
        return Value.undefined("not defined for weighted rows")
    statistic, p_value, levels = adaptive_test(t.confidence, t.correct, scope.heavy_resamples, scope.rng("tcal"))
    return Value(statistic, p_value=p_value, more={"levels": levels})
