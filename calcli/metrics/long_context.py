"""Metrics of too many rows for a row table: computed from running sums and from the
scores in order.

Values equal those from a table up to rounding, counts exactly; draws under calibration
are made from cells of similar scores, not row by row. It is a second way to the same
metrics, and worth it: ``evaluate`` of 1e7 x 10 logits takes 0.24 GiB and 19 s of one
processor, through a table 2.0 GiB and 51 s; of 1e6 x 10 half the memory and half the
time.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import cast

import numpy as np

from calcli.binning import BinStats
from calcli.calibrator import Progress
from calcli.errors import UsageError
from calcli.free_memory import check_memory
from calcli.metrics import losses, row_means
from calcli.metrics.catalog import gathering, metric
from calcli.metrics.collect import Calibrators, reduced
from calcli.metrics.confidence_bins import EDGES, bin_p_values, binned
from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.debiased import square_and_draws, squared_of
from calcli.metrics.joint_test import (
    JointDraws,
    drawn_from_confidences,
    drawn_from_positive,
    residual_slope,
)
from calcli.metrics.risk import recalibration_data
from calcli.metrics.rowtable import RowTable
from calcli.metrics.running_sums import (
    BinSums,
    RunningSums,
    Scored,
    SumsRequest,
    coarse,
)
from calcli.metrics.settings import MetricSettings
from calcli.metrics.significance import direction_of, spiegelhalter_of
from calcli.metrics.smooth import smooth_draws, smooth_error
from calcli.metrics.sorted_rows import KEY_BYTES, KeyCollector, SortedRows
from calcli.numerics import FloatArray, ratio, starts_of_runs
from calcli.records import cached_property
from calcli.rows import Rows
from calcli.statistics.nulls import (
    EXACT_ROWS,
    GROUPS,
    expected_of_bin,
    poisson_binomial,
)
from calcli.statistics.p_values import FEW_OUTCOMES, MeanGap, rarer_p_value
from calcli.statistics.recalibration_data import RecalibrationData
from calcli.statistics.smooth_error import of_draws, smooth_errors
from calcli.statistics.squared_errors import SquaredError, plugin_square
from calcli.statistics.ties import Ranked
from calcli.statistics.weighted_sums import FEW_JUMPS, JumpSums, jump_p_value

FEW_VALUES = 1 << 14
"""Distinct scores up to which errors over bins of equal scores are drawn; beyond, a
normal law approximates them.
"""


def _even(count: int, parts: int) -> list[int]:
    """Sizes of ``parts`` parts of ``count`` rows, which differ by one at most."""
    return [count // parts + (part < count % parts) for part in range(parts)]


class LongContext(MetricContext):
    """``MetricContext`` of too many rows for a table: has their running sums and, where
    requested, sorted scores.
    """

    def __init__(
        self, tally: RunningSums, settings: MetricSettings, orders: Sequence[SortedRows]
    ) -> None:
        super().__init__(cast(RowTable, tally), replace(settings, interval="t"))
        self.tally = tally
        self.orders = orders

    def with_settings(self, settings: MetricSettings) -> MetricContext:
        return LongContext(self.tally, settings, self.orders)

    @property
    def distinct(self) -> int:
        return self.orders[0].distinct

    @property
    def scored(self) -> Scored:
        """Sums for the scores that ``--label`` selects."""
        if self.settings.label != "positive":
            return self.tally.top
        if self.tally.positive is None:
            raise UsageError(f"--label positive is for two classes, {self.table.known}")
        return self.tally.positive

    @property
    def order(self) -> SortedRows:
        """Sorted scores that ``--label`` selects."""
        return self.orders[int(self.settings.label == "positive")]

    @property
    def variance(self) -> float:
        return self.scored.variance

    def ranked(self) -> Ranked:
        return self.order.ranked()

    def ranked_by_odds(self) -> Ranked:
        return self.orders[1].ranked(by_odds=True)

    @property
    def discrete(self) -> FloatArray | None:
        return None if self.order.distinct > self.n / 4 else np.empty(0)

    @made_once
    def bins_used(self, scheme: str) -> int:
        if scheme != "values":
            return super().bins_used(scheme)
        return sum(len(bins.count) for bins in self._values())

    # ---- bins of equal width, or of equally many rows

    @made_once
    def bins(self, scheme: str) -> BinSums:
        if scheme == "width":
            return BinSums(*map(coarse, vars(self.scored.fine).values()))
        sizes = _even(self.n, min(self.n, self.settings.bins))
        ranks = np.cumsum(sizes)[:-1].tolist()
        inner = [self.order.edge(rank) for rank in ranks]
        return self._over(np.concatenate([[0.0], np.unique(np.asarray([*inner, 1.0]))]))

    def _over(self, edges: FloatArray) -> BinSums:
        """Bin sums over any edges, from the sorted scores."""
        return reduce(add, (BinSums.of(c, y, edges) for c, y in self.order.slabs()))

    @made_once
    def null_outcomes(self, scheme: str) -> FloatArray:
        """Outcomes per bin under calibration, (resamples, bins): every fine cell of a
        width bin is a binomial.
        """
        if scheme != "width":
            return self._mass_outcomes()
        fine = self.scored.fine
        draws = self.settings.resamples
        occupied = fine.count > 0
        count = fine.count[occupied]
        chance = np.clip(fine.score[occupied] / count, 0.0, 1.0)
        drawn = np.zeros((draws, len(occupied)))
        rng = self.rng("hits:width")
        drawn[:, occupied] = rng.binomial(count, chance, size=(draws, len(count)))
        return coarse(drawn)

    def _mass_outcomes(self) -> FloatArray:
        """Draws of mass bins like ``nulls.bin_outcomes``: exact laws of small bins,
        groups of like scores of large.
        """
        order = self.order
        rng = self.rng("hits:mass")
        draws = self.settings.resamples
        counts = self.bins("mass").count
        # Cut every large bin into groups of rows with like scores.
        ends = np.cumsum(counts)
        sizes = []
        cuts = []
        for start, count in zip((ends - counts).tolist(), counts.tolist(), strict=True):
            groups = _even(count, GROUPS if count > EXACT_ROWS else 1)
            sizes.append(groups)
            cuts.append(np.cumsum([start, *groups]))
        marks = np.unique(np.concatenate(cuts))
        sums = np.cumsum([0.0, *order.sums(marks)])
        out = np.zeros((draws, len(counts)))
        for b, (size, cut) in enumerate(zip(sizes, cuts, strict=True)):
            if len(size) == 1:
                law = np.cumsum(poisson_binomial(order.scores(cut[0], cut[1])))
                chances = rng.random(draws) * law[-1]
                out[:, b] = np.searchsorted(law, chances, side="right")
            else:
                score = np.diff(sums[np.searchsorted(marks, cut)])
                mean = np.clip(score / size, 0.0, 1.0)
                hits = rng.binomial(size, mean, size=(draws, len(size)))
                out[:, b] = hits.sum(axis=1)
        return out

    @made_once
    def expected(self, scheme: str) -> float:
        """Expected ECE under calibration (see ``nulls.expected_error``)."""
        bins = self.bins(scheme)
        if scheme == "width":
            return float(np.sqrt(2.0 * bins.variance / np.pi).sum()) / self.n
        total = 0.0
        stops = np.cumsum(bins.count).tolist()
        for stop, size, spread in zip(
            stops, bins.count.tolist(), bins.variance.tolist(), strict=True
        ):
            if size <= EXACT_ROWS:
                c = self.order.scores(stop - size, stop)
                total += float(expected_of_bin(c, poisson_binomial(c)))
            else:
                total += math.sqrt(2.0 * spread / math.pi)
        return total / self.n

    # ---- bins of equal scores

    def _values(self) -> Iterator[BinSums]:
        """Iterate over bins with edges midway between distinct scores, some at a time.

        Every score is a bin of its own, unless the midpoint below it rounds to the
        score itself.
        """
        last_bin = np.empty((6, 0))  # more scores may belong to it
        last_score = -1.0
        offset = 0
        for block in self.ranked():
            c = block.score
            count = block.right + block.wrong
            below = np.concatenate([[last_score], c[:-1]])
            bin_of = offset + np.arange(len(c)) - (0.5 * (below + c) >= c)
            last_score = float(c[-1])
            offset += len(c)
            sums = [
                bin_of,
                count,
                count * c,
                block.right,
                block.right * (1.0 - c) ** 2 + block.wrong * c**2,
                count * c * (1.0 - c),
            ]
            scores = np.concatenate([last_bin, np.array(sums)], axis=1)
            first = starts_of_runs(scores[0])
            bins = np.add.reduceat(scores, first, axis=1)
            bins[0] = scores[0, first]
            yield self._as_bins(bins[:, :-1])
            last_bin = bins[:, -1:]
        yield self._as_bins(last_bin)

    def _as_bins(self, sums: FloatArray) -> BinSums:
        _, count, score, right, squares, variance = sums
        return BinSums(
            count.astype(np.int64), score, right, count, count, squares, variance
        )

    def _square(
        self, scheme: str, square: Callable[[BinStats], FloatArray]
    ) -> tuple[float, FloatArray]:
        if scheme == "values":
            return self._values_square(square)
        bins = self.bins(scheme)
        return float(square(bins)), square(
            bins.with_outcomes(self.null_outcomes(scheme))
        )

    def _values_square(
        self, square: Callable[[BinStats], FloatArray]
    ) -> tuple[float, FloatArray]:
        """Squared error over bins of equal scores, and its draws: binomials, or for
        very many values a normal law.
        """
        n = self.n
        draws = self.settings.resamples
        rng = self.rng("hits:values")
        value = 0.0
        drawn = np.zeros(draws)
        mean = 0.0
        variance = 0.0
        few = self.order.distinct <= FEW_VALUES
        for bins in self._values():
            if not len(bins.count):
                continue
            share = float(bins.weight.sum()) / n
            value += float(square(bins)) * share
            chance = np.clip(bins.score / bins.weight, 0.0, 1.0)
            spread = chance * (1.0 - chance)
            if square is plugin_square:
                mean += float(spread.sum()) / n
                variance += float((2.0 * spread**2).sum()) / n**2
            else:
                pairs = bins.weight > 1
                size = bins.weight[pairs]
                of_pairs = 2.0 * spread[pairs] ** 2 * size / (size - 1.0)
                variance += float(of_pairs.sum()) / n**2
            for low in range(0, len(chance) if few else 0, 1024):
                here = slice(low, low + 1024)
                some = BinSums(*(sums[here] for sums in vars(bins).values()))
                hits = rng.binomial(
                    some.count, chance[here], size=(draws, len(some.count))
                )
                squares = square(some.with_outcomes(hits.astype(np.float64)))
                drawn += squares * float(some.weight.sum()) / n
        if not few:
            drawn = mean + math.sqrt(variance) * rng.standard_normal(draws)
        return value, drawn

    def _squared(self, scheme: str) -> SquaredError:
        parts = self._values() if scheme == "values" else [self.bins(scheme)]
        return SquaredError.of_sums(
            (b.weight, b.outcome - b.score, b.squares, b.variance) for b in parts
        )

    def _confidence_bins(self) -> tuple[BinStats, FloatArray, FloatArray]:
        bins = self._over(EDGES)
        ends = np.append(0, np.cumsum(bins.count)).tolist()
        p_values = bin_p_values(
            bins, bins.variance, lambda b: self.order.scores(ends[b], ends[b + 1])
        )
        return bins, p_values, np.ones(len(p_values))

    # ---- the smooth error and the joint test

    @cached_property
    def _cell_hits(self) -> FloatArray:
        """Outcomes per cell of the smooth error's grid under calibration, (draws,
        cells).
        """
        rows, score, _ = self.scored.grid
        chance = np.clip(ratio(score, rows), 0.0, 1.0)
        size = (self.heavy_resamples, len(rows))
        hits = self.rng("smece").binomial(rows.astype(np.int64), chance, size=size)
        return hits.astype(np.float64)

    def _smooth_draws(self) -> tuple[FloatArray, float]:
        _, score, hits = self.scored.grid
        # Written to in place: it is the largest array.
        residuals = np.empty((len(self._cell_hits) + 1, len(score)))
        np.subtract(score, self._cell_hits, out=residuals[:-1])
        np.subtract(score, hits, out=residuals[-1])
        residuals /= self.n
        return of_draws([(residuals, np.arange(len(score)))], len(score))[0]

    def _joint_draws(self) -> JointDraws:
        """``drawn_from_confidences`` by cells: the NLL of a cell's labels is drawn
        normal, given the correct ones.
        """
        joint = self.scored.joint
        assert joint is not None
        _, score, _ = self.scored.grid
        hits = self._cell_hits
        rng = self.rng("joint")
        of_wrong = ratio(joint.cells[4], score)
        right = joint.right(hits, score, rng)
        spread = np.sqrt(np.maximum(joint.totals[1] - hits @ of_wrong, 0.0))
        entropy = joint.totals[0] + right + spread * rng.standard_normal(len(hits))
        smooth, observed = smooth_draws(self)
        return JointDraws(
            smooth,
            observed,
            gap=float(score.sum()) - hits.sum(axis=1),
            entropy=entropy,
            sd_gap=math.sqrt(self.variance),
            sd_entropy=math.sqrt(float(self.tally.entropy[1])),
        )

    def _slope_draws(self) -> tuple[MeanGap, JointDraws]:
        """``drawn_from_positive`` by cells of P(class 1)."""
        joint = self.scored.joint
        assert joint is not None
        _, score, _ = self.scored.grid
        hits = self._cell_hits
        v, vl, vll = (float(sums.sum()) for sums in joint.cells[:3])
        mean, sd = residual_slope(v, vl, vll)
        gap = float(score.sum()) - hits.sum(axis=1)
        slope = (
            float(joint.cells[3].sum())
            - joint.right(hits, score, self.rng("joint"))
            - mean * gap
        )
        observed = (
            float(joint.totals[0]) - mean * self.n * self._direction("positive").gap
        )
        smooth, error = smooth_draws(self)
        drawn = JointDraws(smooth, error, gap, slope, math.sqrt(v), sd)
        return MeanGap.of(observed / self.n if sd > 0.0 else 0.0, sd / self.n), drawn

    # ---- means and directions

    few_jumps = False  # their outcomes cannot be drawn row by row
    copies = 1.0  # nor are they compared

    def _direction(self, name: str) -> MeanGap:
        if name == "entropy":
            return self._entropy_direction()
        scored = self.tally.positive if name == "positive" else self.tally.top
        assert scored is not None
        expected = float(scored.fine.score.sum())
        observed = float(scored.fine.outcome.sum())
        gap = _direction(np.array([expected - observed, scored.variance]), self.n)
        if scored.variance >= FEW_OUTCOMES:
            return gap
        p_value = rarer_p_value(expected, round(observed), self.n)
        return MeanGap(gap.gap, gap.z, p_value)

    def _entropy_direction(self) -> MeanGap:
        direction = _direction(self.tally.entropy, self.n)
        top = self.tally.top
        if top.variance >= FEW_JUMPS or top.joint is None:
            return direction
        draws = drawn_from_confidences(self.labelled("top")).entropy
        return direction.with_draws(draws / self.n)

    def _spiegelhalter(self) -> MeanGap:
        deviation, variance = self.scored.spiegelhalter.tolist()
        direction = _direction(self.scored.spiegelhalter, self.n)
        # Where few rows carry it their scores are near 0 or 1, and all steps alike.
        jumps = JumpSums(variance, variance, variance)
        return MeanGap(direction.gap, direction.z, jump_p_value(deviation, jumps))


def _direction(sums: FloatArray, n: int) -> MeanGap:
    """Mean gap over n rows from the sums of the gap and of its variance."""
    total, variance = sums.tolist()
    return MeanGap.of(total / n, math.sqrt(variance) / n)


LongContext.instead = {
    row_means.mean_named: lambda c, name: (
        (c.scored.gap if name == "score gap" else c.tally.means[name]).as_mean
    ),
    row_means.score_error: lambda c: math.sqrt(c.scored.moments.square) / c.n,
    losses.variance_of_confidence: lambda c: c.tally.top.moments.square / c.n,
    direction_of: LongContext._direction,
    spiegelhalter_of: LongContext._spiegelhalter,
    square_and_draws: LongContext._square,
    squared_of: LongContext._squared,
    smooth_error: lambda c: float(smooth_errors(c.scored.smooth)[0]),
    smooth_draws: LongContext._smooth_draws,
    drawn_from_confidences: LongContext._joint_draws,
    drawn_from_positive: LongContext._slope_draws,
    binned: LongContext._confidence_bins,
    recalibration_data: lambda c: RecalibrationData.of_ranked(c.ranked_by_odds()),
}


# ---- rows and metrics that need no row table, and the one pass over them


LONG = 1 << 17  # rows above which no row table is made, where sums suffice

OF_TWO = {"roc_auc", "average_precision", "slope"}
"""Metrics that need every class's column unless there are two classes."""

WITHOUT_ORDER = (
    "ask for metrics that need no order, e.g. --metric ece --metric nll, or evaluate"
    " parts of the rows (calcli extract)"
)


def measured_long(names: Iterable[str], settings: MetricSettings, k: int) -> bool:
    """Test whether metrics with these settings need no row table of rows with k
    classes.
    """
    if settings.label not in ("top", "positive") or settings.compat is not None:
        return False
    if settings.threshold != 0.5 or settings.interval == "bootstrap":
        return False
    asked = [metric(name) for name in names]
    if k != 2 and any(one.name in OF_TWO for one in asked):
        return False
    return all(one.reads != "table" for one in asked)


def long_contexts(
    rows: Rows,
    calibrators: Calibrators,
    names: Sequence[str],
    settings: MetricSettings,
    report: bool,
    progress: Progress | None,
) -> Iterator[LongContext]:
    """Walk once over the rows, and make their contexts through every calibrator (None:
    uncalibrated).

    report : will the judgement be made? Raises FitError where memory has no room for
    the scores in order.
    """
    n_orders = _orders_needed(rows.k, names, settings, report)
    check_memory(
        KEY_BYTES * rows.n * n_orders * len(calibrators),
        f"the orders of {rows.n} rows",
        WITHOUT_ORDER,
    )
    collectors = []
    for _ in calibrators:
        of_orders = [KeyCollector(rows.n, odds=order == 1) for order in range(n_orders)]
        collectors.append(of_orders)
    request = SumsRequest(tuple(names), settings, rows.n, n_orders > 0, report)
    wanted = gathering(
        names, settings, rows.k, by_class=report, all_columns=len(calibrators) > 1
    )
    tallies: list[RunningSums] = []
    for part in reduced(rows, calibrators, request, **wanted):
        sums = [tally for tally, _ in part]
        if tallies:
            sums = [a + b for a, b in zip(tallies, sums, strict=True)]
        tallies = sums
        for of_calibrator, (_, orders) in zip(collectors, part, strict=True):
            for collector, keys in zip(of_calibrator, orders, strict=True):
                collector.take(keys)
        if progress is not None:
            progress("rows read", tallies[0].n, rows.n)
    for tally, of_calibrator in zip(tallies, collectors, strict=True):
        ranked = [collector.in_order() for collector in of_calibrator]
        yield LongContext(tally, settings, ranked)


def _orders_needed(
    k: int, names: Sequence[str], settings: MetricSettings, report: bool
) -> int:
    """Number of orders of the rows that are looked at.

    One is that of the confidence; two classes have a second, that of the log-odds.
    """
    asked = [metric(name) for name in names]
    by_mass = settings.scheme == "mass" and any(
        ("scheme", None) in one.signature for one in asked
    )
    by_order = any(one.reads == "order" for one in asked)
    if not (report or by_mass or by_order):
        return 0
    return 2 if k == 2 else 1
