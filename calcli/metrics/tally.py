"""Metrics of so many rows that no table of them is kept: sums over parts of the rows, which add.

Means over rows, width bins and the smooth error need no more than sums; ranks, mass bins and the
report look at every row and keep the table (``calcli.metrics.rowtable``).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from calcli.binning import BinStats, binned_error, width_edges
from calcli.calibrator import Calibrator, Progress
from calcli.metrics.binned import gap_variance
from calcli.metrics.catalog import metric, top_suffices
from calcli.metrics.collect import tables_in_turn
from calcli.metrics.context import MetricContext, MetricSettings, Value
from calcli.metrics.debiased import SquaredError
from calcli.metrics.losses import compared_losses
from calcli.metrics.means import Interval, Mean, normal_quantile, t_interval, wilson_interval
from calcli.metrics.nulls import Null, null_of
from calcli.metrics.rowtable import RowTable
from calcli.metrics.significance import Direction
from calcli.metrics.smooth import grid_cells, smooth_errors, smooth_residuals, spectrum
from calcli.numerics import FloatArray, IntArray
from calcli.rows import Rows

__all__ = ["BY_SUMS", "LONG", "Moments", "Tally", "tallies_suffice", "tally_all"]

LONG = 4_000_000
"""Rows from which sums take the place of the table where they are enough."""

FINE = 64
"""Cells of a width bin, each of which is drawn as one binomial under calibration (as ``nulls.GROUPS``)."""

BY_SUMS = ("ece", "mce", "vce", "smece", "confidence_variance")
"""Metrics that are no means over rows and whose sums are gathered."""


def tallies_suffice(names: Iterable[str], settings: MetricSettings) -> bool:
    """Whether the metrics, so set, need sums over rows only."""
    usual = settings.label == "top" and settings.scheme == "width" and settings.compat is None
    usual = usual and settings.threshold == 0.5 and settings.interval != "bootstrap"
    return usual and all(name in BY_SUMS or metric(name).rows is not None for name in names)


@dataclass(frozen=True)
class Moments:
    """Number, mean and summed squared deviation of values. Adds (Chan, Golub, LeVeque 1983)."""

    n: int
    mean: float
    square: float

    @classmethod
    def of(cls, values: FloatArray) -> "Moments":
        """Of values (n,)."""
        mean = float(values.mean())
        return cls(len(values), mean, float(((values - mean) ** 2).sum()))

    def __add__(self, other: "Moments") -> "Moments":
        n, gap = self.n + other.n, other.mean - self.mean
        square = self.square + other.square + gap**2 * self.n * other.n / n
        return Moments(n, self.mean + gap * other.n / n, square)

    @property
    def as_mean(self) -> Mean:
        """The mean with its standard error."""
        se = math.sqrt(self.square / (self.n - 1) / self.n) if self.n > 1 else math.nan
        return Mean(self.mean, se, self.n)


@dataclass(frozen=True)
class Tally:
    """Sums over rows. Adds, in the order of the rows.

    means : of the means over rows asked for, by name. fine : confidence and correctness over
    ``FINE`` cells of every width bin; spread, square : (cells,) sums of c (1 - c) and of (y - c)^2 there.
    smooth : residuals on the grid of the smooth error (its spectrum); grid : rows and summed
    confidence of its cells, (2, cells). entropy_gap, entropy_variance : sums of -ln p_y - H and of its variance.
    paired : of the differences to the first set of rows, by loss.
    """

    k: int
    label_counts: IntArray
    lowest: float
    highest: float
    clipped: int
    counts: Mapping[str, int]
    means: Mapping[str, Moments]
    confidence: Moments
    fine: BinStats
    spread_sums: FloatArray
    squares: FloatArray
    smooth: FloatArray
    grid: FloatArray
    entropy: FloatArray
    paired: Mapping[str, Moments]

    @classmethod
    def of(
        cls, table: RowTable, names: Sequence[str], settings: MetricSettings, total: int, first: RowTable | None
    ) -> "Tally":
        """Of some of ``total`` rows. first : the same rows as another set of scores has them."""
        context, c, y = MetricContext(table, settings), table.confidence, table.correct
        edges, cells = _fine_edges(settings.bins), grid_cells(total)
        where = np.clip(np.searchsorted(edges, c, side="left") - 1, 0, len(edges) - 2)
        place = np.minimum((c * cells).astype(np.int64), cells - 1)
        wanted = {name: rows for name in names if (rows := metric(name).rows) is not None}
        whole = len(table.nll) > 0
        paired = {}
        if first is not None:
            base = MetricContext(first, settings)
            paired = {name: Moments.of(rows(context) - rows(base)) for name, rows in compared_losses(table.k).items()}
        return cls(
            table.k,
            table.label_counts,
            float(c.min()),
            float(c.max()),
            table.clipped,
            table.counts,
            {name: Moments.of(rows(context)) for name, rows in wanted.items()},
            Moments.of(c),
            BinStats.at(where, len(edges) - 1, c, y),
            np.bincount(where, c * (1.0 - c), len(edges) - 1).astype(np.float64),
            np.bincount(where, (y - c) ** 2, len(edges) - 1).astype(np.float64),
            smooth_residuals(c, c - y, cells, total),
            np.stack([np.bincount(place, minlength=cells), np.bincount(place, c, cells)]).astype(np.float64),
            np.array([(table.nll - table.entropy).sum(), table.varentropy.sum()]) if whole else np.zeros(2),
            paired,
        )

    def __add__(self, other: "Tally") -> "Tally":
        def merged(a: Mapping[str, Moments], b: Mapping[str, Moments]) -> dict[str, Moments]:
            return {name: a[name] + b[name] for name in a}

        return Tally(
            self.k,
            self.label_counts + other.label_counts,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            self.clipped + other.clipped,
            {name: self.counts.get(name, 0) + other.counts.get(name, 0) for name in {**self.counts, **other.counts}},
            merged(self.means, other.means),
            self.confidence + other.confidence,
            self.fine + other.fine,
            self.spread_sums + other.spread_sums,
            self.squares + other.squares,
            self.smooth + other.smooth,
            self.grid + other.grid,
            self.entropy + other.entropy,
            merged(self.paired, other.paired),
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.confidence.n

    @property
    def spread(self) -> float:
        """Largest minus smallest confidence."""
        return self.highest - self.lowest

    def measure(self, name: str, settings: MetricSettings) -> Value:
        """One metric, as its own function has it of a table of all rows."""
        if name in BY_SUMS:
            return _BY_SUMS[name](self, settings)
        mean = self.means[name].as_mean
        interval = t_interval(mean, settings.level)
        value = Value(mean.value, se=mean.se if math.isfinite(mean.se) else None, interval=interval)
        return _MORE[name](self, settings, value) if name in _MORE else value


def tally_all(
    rows: Rows,
    calibrators: Sequence[Calibrator | None],
    names: Sequence[str],
    settings: MetricSettings,
    progress: Progress | None = None,
) -> list[Tally]:
    """What the metrics need of the rows through every calibrator (None: uncalibrated), from one walk."""
    found: list[Tally] = []
    top_only = len(calibrators) == 1 and top_suffices(names, settings)
    for tables in tables_in_turn(rows, calibrators, top_only=top_only):
        first = tables[0] if len(tables) > 1 else None
        some = [Tally.of(table, names, settings, rows.n, first) for table in tables]
        found = [a + b for a, b in zip(found, some, strict=True)] if found else some
        if progress is not None:
            progress("reading", found[0].n, rows.n)
    return found


def _fine_edges(bins: int) -> FloatArray:
    """Edges of ``FINE`` cells in every width bin, whose own edges are among them bit by bit."""
    edges = width_edges(bins)
    steps = np.arange(FINE) / FINE
    inner = edges[:-1, None] + (edges[1:] - edges[:-1])[:, None] * steps
    return np.append(inner.reshape(-1), edges[-1])


def _coarse(values: FloatArray) -> FloatArray:
    return np.asarray(values.reshape(*values.shape[:-1], -1, FINE).sum(axis=-1))


def _width_bins(t: Tally) -> BinStats:
    count = t.fine.count.reshape(-1, FINE).sum(axis=-1)
    rows = count.astype(np.float64)
    return BinStats(count, _coarse(t.fine.score), _coarse(t.fine.outcome), rows, rows)


def _outcomes(t: Tally, s: MetricSettings) -> FloatArray:
    """Right rows per bin under calibration, (resamples, bins): every cell a binomial."""
    rng = np.random.default_rng([s.seed, crc32(b"hits:width")])
    held = t.fine.count > 0
    drawn = np.zeros((s.resamples, len(held)))
    chance = np.clip(t.fine.score[held] / t.fine.count[held], 0.0, 1.0)
    drawn[:, held] = rng.binomial(t.fine.count[held], chance, size=(s.resamples, int(held.sum())))
    return _coarse(drawn)


def _binned(t: Tally, s: MetricSettings, norm: float) -> Value:
    bins = _width_bins(t)
    value = float(binned_error(bins, norm))
    draws = binned_error(bins.with_outcomes(_outcomes(t, s)), norm)
    used = {"bins_used": int((bins.count > 0).sum())}
    if norm != 1.0:
        return Value(value, null=null_of(value, draws), more=used)
    variance = _coarse(t.spread_sums)
    expected = float(np.sqrt(2.0 * variance / np.pi).sum()) / t.n
    total = bins.outcome - bins.score
    gap = Moments(t.n, -float(total.sum()) / t.n, float(t.squares.sum()) - float(total.sum()) ** 2 / t.n).as_mean
    reach = t_interval(gap, s.level)
    assert reach is not None
    squared = SquaredError.of_sums(bins.count.astype(np.float64), total, _coarse(t.squares), variance)
    high = math.sqrt(squared.interval(s.level).high)
    interval = Interval(min(max(reach.low, -reach.high, 0.0), 1.0), high, s.level, "gap-to-l2")
    return Value(value, interval=interval, null=null_of(value, draws, expected), more=used)


def _smooth(t: Tally, s: MetricSettings) -> Value:
    value = float(smooth_errors(t.smooth)[0])
    rng = np.random.default_rng([s.seed, crc32(b"smece")])
    rows, score = t.grid
    chance = np.clip(np.divide(score, rows, out=np.zeros_like(score), where=rows > 0), 0.0, 1.0)
    right = rng.binomial(rows.astype(np.int64), chance, size=(min(s.resamples, 200), len(rows)))
    return Value(value, null=null_of(value, smooth_errors(spectrum((score - right) / t.n), 1e-4)))


_BY_SUMS: dict[str, Callable[[Tally, MetricSettings], Value]] = {
    "ece": lambda t, s: _binned(t, s, s.norm),
    "mce": lambda t, s: _binned(t, s, math.inf),
    "vce": lambda t, s: Value(float(gap_variance(_width_bins(t)))),
    "smece": _smooth,
    "confidence_variance": lambda t, s: Value(t.confidence.square / t.n),
}


def _accuracy(t: Tally, s: MetricSettings, value: Value) -> Value:
    assert value.value is not None
    low, high = wilson_interval(np.array(value.value), np.array(float(t.n)), s.level)
    return Value(value.value, se=value.se, interval=Interval(float(low), float(high), s.level, "wilson"))


def _direction(total: float, variance: float, n: int) -> Direction:
    return Direction.of(total / n, math.sqrt(variance) / n)


def _nll(t: Tally, s: MetricSettings, value: Value) -> Value:
    assert value.value is not None
    total, variance = t.entropy.tolist()
    expected = value.value - total / t.n
    null = Null(
        expected,
        expected + normal_quantile(0.95) * math.sqrt(variance) / t.n,
        _direction(total, variance, t.n).p_value,
        0,
    )
    return Value(value.value, se=value.se, interval=value.interval, null=null, more={"clipped": t.clipped})


def _gap(t: Tally, s: MetricSettings, value: Value) -> Value:
    total = float(t.fine.score.sum() - t.fine.outcome.sum())
    return _with_direction(value, _direction(total, float(t.spread_sums.sum()), t.n))


def _entropy_gap(t: Tally, s: MetricSettings, value: Value) -> Value:
    total, variance = t.entropy.tolist()
    return _with_direction(value, _direction(total, variance, t.n))


def _with_direction(value: Value, direction: Direction) -> Value:
    z = direction.z if math.isfinite(direction.z) else None
    return replace(value, p_value=direction.p_value, more={"z": z})


_MORE = {"accuracy": _accuracy, "nll": _nll, "gap": _gap, "entropy_gap": _entropy_gap}
