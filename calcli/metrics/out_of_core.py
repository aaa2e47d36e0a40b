"""Metrics of too many rows for a row table: computed from running sums and from scores sorted on disk.

Values equal those from a table up to rounding, counts exactly; draws under calibration are made from cells of similar
scores, not row by row.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Annotated, Self, cast

import numpy as np

from calcli.binning import BinStats, bin_index, width_edges
from calcli.calibrator import Progress
from calcli.errors import UsageError
from calcli.io.spool import check_room
from calcli.metrics import losses
from calcli.metrics.catalog import gathering, metric
from calcli.metrics.collect import Calibrators, reduced
from calcli.metrics.confidence_bins import EDGES, bin_p_values, binned
from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.debiased import square_and_draws, squared_of
from calcli.metrics.external_sort import (
    WHY,
    Keys,
    Runs,
    SortedRows,
    keys_of,
    keys_of_odds,
)
from calcli.metrics.joint_test import (
    JointDraws,
    drawn_from_confidences,
    drawn_from_positive,
    log_odds,
    residual_slope,
)
from calcli.metrics.label_agreement import LabelAgreement
from calcli.metrics.risk import recalibration_data
from calcli.metrics.rowtable import ClassStats, RowTable
from calcli.metrics.settings import MetricSettings
from calcli.metrics.significance import direction_of, spiegelhalter_of
from calcli.metrics.smooth import smooth_draws, smooth_error
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.records import Sums, cached_property
from calcli.rows import Rows
from calcli.statistics.intervals import Mean
from calcli.statistics.nulls import (
    EXACT_ROWS,
    GROUPS,
    expected_of_bin,
    label_losses,
    poisson_binomial,
)
from calcli.statistics.p_values import FEW_OUTCOMES, MeanGap, rarer_p_value
from calcli.statistics.paired import PairedSums
from calcli.statistics.recalibration_data import RecalibrationData
from calcli.statistics.smooth_error import (
    grid_cells,
    of_draws,
    smooth_errors,
    smooth_residuals,
)
from calcli.statistics.squared_errors import SquaredError, plugin_square
from calcli.statistics.ties import Ranked
from calcli.statistics.weighted_sums import FEW_JUMPS, JumpSums, jump_p_value

# ---- additive sums over rows

FINE = 64  # cells of a width bin, each of which is drawn as one binomial under calibration (as ``nulls.GROUPS``)


@dataclass(frozen=True)
class Moments:
    """Number, mean and summed squared deviation of values. Adds (Chan, Golub, LeVeque 1983)."""

    n: int
    mean: float
    square: float

    @classmethod
    def of(cls, values: FloatArray) -> "Moments":
        """Moments of values (n,)."""
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
class SumsRequest:
    """Request for sums over rows. total : their number; ordered, joint : are sort keys, sums of the joint test made?"""

    names: tuple[str, ...]
    settings: MetricSettings
    total: int
    ordered: bool
    joint: bool

    def __call__(
        self, tables: list[RowTable]
    ) -> "list[tuple[RunningSums, list[Keys]]]":
        """Sums of some rows through every calibrator and, where their order is wanted, sort keys of the confidence and,
        for two classes, of the log-odds of class 1."""
        found = []
        for at, table in enumerate(tables):
            keys = [keys_of(table.confidence, table.correct)] if self.ordered else []
            if self.ordered and table.log_odds is not None:
                keys.append(keys_of_odds(table.log_odds, table.y == 1))
            found.append((RunningSums.of(table, self, tables[0] if at else None), keys))
        return found


@dataclass(frozen=True)
class BinSums(BinStats):
    """Bin statistics with sums of (y - c)^2, and of c (1 - c), the variance of ``outcome``, (bins,) each. Adds."""

    squares: FloatArray
    variance: FloatArray

    @classmethod
    def at(
        cls,
        index: IntArray,
        bins: int,
        scores: FloatArray,
        outcomes: FloatArray,
        weight: FloatArray | None = None,
    ) -> Self:
        beside = ((outcomes - scores) ** 2, scores * (1.0 - scores))
        more = [
            np.bincount(index, values, bins).astype(np.float64) for values in beside
        ]
        return cls(*vars(BinStats.at(index, bins, scores, outcomes)).values(), *more)


def _coarse(values: AnyArray) -> AnyArray:
    """Sums over the ``FINE`` cells of every bin."""
    return np.asarray(values.reshape(*values.shape[:-1], -1, FINE).sum(axis=-1))


@dataclass(frozen=True)
class Joint(Sums):
    """Sums for the joint test over the cells of the smooth error's grid, (cells,) each, and of all rows. Adds.

    cells: sums of v, v a, v a^2, c a and c l, with c the score, v = c (1 - c), a the effect of an outcome of 1 on the
    sharpness and l a variance. For the confidence a is the NLL of a correct row minus the expected NLL of a wrong one,
    l the variance of the latter, and totals the sums of that expected NLL minus the entropy, and of l. For P(class 1) a
    is its log-odds, l is 0, and totals are the sum of a (p - y), and 0.
    """

    cells: FloatArray
    totals: FloatArray

    @classmethod
    def of(
        cls,
        c: FloatArray,
        a: FloatArray,
        variance: FloatArray,
        totals: Sequence[float],
        cells: int,
    ) -> "Joint":
        """Sums over rows (n,)."""
        place, v = np.minimum((c * cells).astype(np.int64), cells - 1), c * (1.0 - c)
        sums = [
            np.bincount(place, values, cells)
            for values in (v, v * a, v * a * a, c * a, c * variance)
        ]
        return cls(np.array(sums), np.array(totals))

    def right(
        self, hits: FloatArray, score: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Sums of a over rows with outcome 1, (draws,), given their number in every cell. hits : (draws, cells) that
        number. score : (cells,) summed c. Their distribution within a cell is drawn as normal."""
        v, va, vaa, ca, _ = self.cells
        each = np.divide(va, v, out=np.zeros_like(v), where=v > 0)
        rest = math.sqrt(max(float((vaa - va * each).sum()), 0.0))
        return np.asarray(
            hits @ each
            + float((ca - each * score).sum())
            + rest * rng.standard_normal(len(hits))
        )


@dataclass(frozen=True)
class Scored(Sums):
    """Sums over rows with scores in [0, 1] and outcomes 0/1. Adds.

    moments, gap : of the score, and of score minus outcome. fine : ``FINE`` cells of every width bin. smooth :
    residuals on the grid of the smooth error (its spectrum). grid : rows, summed score and summed outcome of its cells,
    (3, cells). spiegelhalter : sums of (y - c)(1 - 2c) and of its variance. joint : for the report's joint test.
    """

    moments: Moments
    gap: Moments
    fine: BinSums
    smooth: FloatArray
    grid: FloatArray
    spiegelhalter: FloatArray
    joint: Joint | None

    @classmethod
    def of(
        cls, c: FloatArray, y: FloatArray, wanted: SumsRequest, joint: Joint | None
    ) -> "Scored":
        """Sums over rows with scores and outcomes (n,)."""
        edges, cells = width_edges(wanted.settings.bins), grid_cells(wanted.total)
        # the bins' own edges are bitwise among the finer ones
        inner = edges[:-1, None] + (edges[1:] - edges[:-1])[:, None] * (
            np.arange(FINE) / FINE
        )
        place = np.minimum((c * cells).astype(np.int64), cells - 1)
        slope, variance = 1.0 - 2.0 * c, c * (1.0 - c)
        fine = BinSums.at(bin_index(c, np.append(inner, edges[-1])), inner.size, c, y)
        grid = np.stack(
            [np.bincount(place, of, cells) for of in (np.ones(len(c)), c, y)]
        ).astype(np.float64)
        smooth, spiegelhalter = (
            smooth_residuals(c, c - y, cells, wanted.total),
            [(y - c) @ slope, slope**2 @ variance],
        )
        return cls(
            Moments.of(c),
            Moments.of(c - y),
            fine,
            smooth,
            grid,
            np.array(spiegelhalter),
            joint,
        )

    @property
    def variance(self) -> float:
        """Variance of the sum of outcomes under calibration."""
        return float(self.fine.variance.sum())


MATCHED_CLASSES = 1000  # classes up to which the (prediction, label) pairs of very many rows are counted


@dataclass(frozen=True)
class RunningSums(Sums):
    """Sums over rows, with the totals that a ``RowTable`` has of all rows. Adds, in the order of the rows.

    means : moments behind the requested means over rows, by name. top, positive : sums for the confidence, and for
    P(class 1) of two classes. entropy : sums of -ln p_y - H and of its variance. classes : sums over (class, bin)
    pairs, where requested. paired : sums of the differences to the first set of scores, by loss. agreement : of
    predictions and labels, for the first set of scores only.
    """

    weight = units = group = answers = None
    few_units, label_effect = False, 1.0
    known = RowTable.known

    k: Annotated[int, min]
    label_counts: IntArray
    lowest: Annotated[float, min]
    highest: Annotated[float, max]
    clipped: int
    unknown_zeros: int
    zero_shifts: FloatArray
    certain: int
    counts: Mapping[str, int]
    means: Mapping[str, Moments]
    top: Scored
    positive: Scored | None
    entropy: FloatArray
    classes: ClassStats | None
    paired: Mapping[str, PairedSums]
    agreement: LabelAgreement | None

    @classmethod
    def of(
        cls, table: RowTable, wanted: SumsRequest, first: RowTable | None
    ) -> "RunningSums":
        """Sums over some rows. first : the table of these rows in the first set of scores, for paired differences."""
        context, c, p, y = (
            MetricContext(table, wanted.settings),
            table.confidence,
            table.positive,
            table.y == 1,
        )
        means = [name for name in wanted.names if metric(name).rows is not None]
        means += [
            f"{name} {power}"
            for name in means
            if name in losses.LOSSES
            for power in ("expected", "squared")
        ]
        means += [
            f"top{j} {what}" for j in table.tops for what in ("gap", "mass", "accuracy")
        ]
        joint, slope, cells = None, None, grid_cells(wanted.total)
        if wanted.joint:
            right, wrong, variance = label_losses(c, table.entropy, table.varentropy)
            joint = Joint.of(
                c,
                right - wrong,
                variance,
                [(wrong - table.entropy).sum(), variance.sum()],
                cells,
            )
            if p is not None:
                odds = log_odds(p)
                slope = Joint.of(
                    p, odds, np.zeros(len(p)), [(p - y) @ odds, 0.0], cells
                )
        return cls(
            table.k,
            table.label_counts,
            float(c.min()),
            float(c.max()),
            table.clipped,
            table.unknown_zeros,
            table.zero_shifts,
            table.certain,
            table.counts,
            {name: Moments.of(losses.column(context, name)) for name in means},
            Scored.of(c, table.correct, wanted, joint),
            None if p is None else Scored.of(p, y.astype(np.float64), wanted, slope),
            np.array([(table.nll - table.entropy).sum(), table.varentropy.sum()])
            if len(table.nll)
            else np.zeros(2),
            table.classes,
            {}
            if first is None
            else losses.paired_sums(context, MetricContext(first, wanted.settings)),
            table.agreement if first is None and table.k <= MATCHED_CLASSES else None,
        )

    @property
    def n(self) -> int:
        return self.top.moments.n

    @property
    def mean_confidence(self) -> float:
        """Unweighted mean confidence."""
        return self.top.moments.mean

    @property
    def spread(self) -> float:
        """Largest minus smallest confidence."""
        return self.highest - self.lowest

    @property
    def tops(self) -> list[int]:
        """Numbers of largest classes that were gathered."""
        return [j for j in (2, 3, 5) if f"top{j} gap" in self.means]


# ---- metrics from these sums


FEW_VALUES = 1 << 14
"""Distinct scores up to which errors over bins of equal scores are drawn; beyond, a normal law approximates them."""


def _even(count: int, parts: int) -> list[int]:
    """Sizes of ``parts`` parts of ``count`` rows, which differ by one at most."""
    return [count // parts + (part < count % parts) for part in range(parts)]


class LongContext(MetricContext):
    """``MetricContext`` of too many rows for a table: has their running sums and, where requested, sorted scores."""

    def __init__(
        self, tally: RunningSums, settings: MetricSettings, orders: Sequence[SortedRows]
    ) -> None:
        super().__init__(cast(RowTable, tally), replace(settings, interval="t"))
        self.tally, self.orders = tally, orders

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
            return BinSums(*map(_coarse, vars(self.scored.fine).values()))
        order, n, wanted = self.order, self.n, self.settings.bins
        inner = [
            order.edge(rank)
            for rank in np.cumsum(_even(n, min(n, wanted)))[:-1].tolist()
        ]
        return self._over(np.concatenate([[0.0], np.unique(np.asarray([*inner, 1.0]))]))

    def _over(self, edges: FloatArray) -> BinSums:
        """Bin sums over any edges, from the sorted scores."""
        return reduce(add, (BinSums.of(c, y, edges) for c, y in self.order.slabs()))

    @made_once
    def null_outcomes(self, scheme: str) -> FloatArray:
        """Outcomes per bin under calibration, (resamples, bins): every fine cell of a width bin is a binomial."""
        if scheme != "width":
            return self._mass_outcomes()
        fine, rng = self.scored.fine, self.rng("hits:width")
        held = fine.count > 0
        drawn = np.zeros((self.settings.resamples, len(held)))
        chance = np.clip(fine.score[held] / fine.count[held], 0.0, 1.0)
        drawn[:, held] = rng.binomial(
            fine.count[held], chance, size=(self.settings.resamples, int(held.sum()))
        )
        return _coarse(drawn)

    def _mass_outcomes(self) -> FloatArray:
        """Draws of mass bins like ``nulls.bin_outcomes``: exact laws of small bins, groups of like scores of large."""
        counts, rng, order, draws = (
            self.bins("mass").count,
            self.rng("hits:mass"),
            self.order,
            self.settings.resamples,
        )
        starts = np.cumsum(counts) - counts
        sizes = [
            _even(count, GROUPS if count > EXACT_ROWS else 1)
            for count in counts.tolist()
        ]
        cuts = [
            np.cumsum([start, *size])
            for start, size in zip(starts.tolist(), sizes, strict=True)
        ]
        marks = np.unique(np.concatenate(cuts))
        sums = np.cumsum([0.0, *order.sums(marks)])
        out = np.zeros((draws, len(counts)))
        for b, (size, cut) in enumerate(zip(sizes, cuts, strict=True)):
            if len(size) == 1:
                law = np.cumsum(poisson_binomial(order.scores(cut[0], cut[1])))
                out[:, b] = np.searchsorted(
                    law, rng.random(draws) * law[-1], side="right"
                )
            else:
                mean = np.clip(
                    np.diff(sums[np.searchsorted(marks, cut)]) / size, 0.0, 1.0
                )
                out[:, b] = rng.binomial(size, mean, size=(draws, len(size))).sum(
                    axis=1
                )
        return out

    @made_once
    def expected(self, scheme: str) -> float:
        """Expected ECE under calibration (see ``nulls.expected_error``)."""
        bins = self.bins(scheme)
        if scheme == "width":
            return float(np.sqrt(2.0 * bins.variance / np.pi).sum()) / self.n
        count, total = bins.count, 0.0
        for stop, size, spread in zip(
            np.cumsum(count).tolist(),
            count.tolist(),
            bins.variance.tolist(),
            strict=True,
        ):
            if size <= EXACT_ROWS:
                c = self.order.scores(stop - size, stop)
                total += float(expected_of_bin(c, poisson_binomial(c)))
            else:
                total += math.sqrt(2.0 * spread / math.pi)
        return total / self.n

    # ---- bins of equal scores

    def _values(self) -> Iterator[BinSums]:
        """Iterate over bins with edges midway between distinct scores, some at a time. Every score is a bin of its own,
        unless the midpoint below it rounds to the score itself."""
        held, last, offset = np.empty((6, 0)), -1.0, 0
        for each in self.ranked():
            c, right, wrong = each.score, each.right, each.wrong
            below = np.concatenate([[last], c[:-1]])
            bin_of = offset + np.arange(len(c)) - (0.5 * (below + c) >= c)
            last, offset, count = float(c[-1]), offset + len(c), right + wrong
            sums = [
                bin_of,
                count,
                count * c,
                right,
                right * (1.0 - c) ** 2 + wrong * c**2,
                count * c * (1.0 - c),
            ]
            rows = np.concatenate([held, np.array(sums)], axis=1)
            first = np.flatnonzero(np.concatenate([[True], np.diff(rows[0]) > 0]))
            found = np.add.reduceat(rows, first, axis=1)
            found[0] = rows[0, first]
            yield self._as_bins(found[:, :-1])
            held = found[:, -1:]
        yield self._as_bins(held)

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
        """Squared error over bins of equal scores, and its draws: binomials, or for very many values a normal law."""
        s, n, rng = self.settings, self.n, self.rng("hits:values")
        value, drawn, mean, variance = 0.0, np.zeros(s.resamples), 0.0, 0.0
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
                own = (
                    2.0
                    * spread[pairs] ** 2
                    * bins.weight[pairs]
                    / (bins.weight[pairs] - 1.0)
                )
                variance += float(own.sum()) / n**2
            for low in range(0, len(chance) if few else 0, 1024):
                here = slice(low, low + 1024)
                some = BinSums(*(sums[here] for sums in vars(bins).values()))
                hits = rng.binomial(
                    some.count, chance[here], size=(s.resamples, len(some.count))
                )
                drawn += (
                    square(some.with_outcomes(hits.astype(np.float64)))
                    * float(some.weight.sum())
                    / n
                )
        if not few:
            drawn = mean + math.sqrt(variance) * rng.standard_normal(s.resamples)
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
        """Outcomes per cell of the smooth error's grid under calibration, (draws, cells)."""
        rows, score, _ = self.scored.grid
        chance = np.clip(
            np.divide(score, rows, out=np.zeros_like(score), where=rows > 0), 0.0, 1.0
        )
        size = (self.heavy_resamples, len(rows))
        return (
            self.rng("smece")
            .binomial(rows.astype(np.int64), chance, size=size)
            .astype(np.float64)
        )

    def _smooth_draws(self) -> tuple[FloatArray, float]:
        _, score, hits = self.scored.grid
        residuals = np.empty(
            (len(self._cell_hits) + 1, len(score))
        )  # written to in place: it is the largest array
        np.subtract(score, self._cell_hits, out=residuals[:-1])
        np.subtract(score, hits, out=residuals[-1])
        residuals /= self.n
        return of_draws([(residuals, np.arange(len(score)))], len(score))[0]

    def _joint_draws(self) -> JointDraws:
        """``drawn_from_confidences`` by cells: the NLL of a cell's labels is drawn normal, given the correct ones."""
        joint, (_, score, _) = self.scored.joint, self.scored.grid
        assert joint is not None
        hits, rng = self._cell_hits, self.rng("joint")
        of_wrong = np.divide(
            joint.cells[4], score, out=np.zeros_like(score), where=score > 0
        )
        right = joint.right(hits, score, rng)
        spread = np.sqrt(np.maximum(joint.totals[1] - hits @ of_wrong, 0.0))
        entropy = joint.totals[0] + right + spread * rng.standard_normal(len(hits))
        smooth, observed = smooth_draws(self)
        gap, sds = (
            float(score.sum()) - hits.sum(axis=1),
            (self.variance, float(self.tally.entropy[1])),
        )
        return JointDraws(smooth, observed, gap, entropy, *map(math.sqrt, sds))

    def _slope_draws(self) -> tuple[MeanGap, JointDraws]:
        """``drawn_from_positive`` by cells of P(class 1)."""
        joint, (_, score, _) = self.scored.joint, self.scored.grid
        assert joint is not None
        v, vl, vll = (float(sums.sum()) for sums in joint.cells[:3])
        (mean, sd), hits = residual_slope(v, vl, vll), self._cell_hits
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
        said, found = float(scored.fine.score.sum()), float(scored.fine.outcome.sum())
        gap = _direction(np.array([said - found, scored.variance]), self.n)
        if scored.variance >= FEW_OUTCOMES:
            return gap
        return MeanGap(gap.gap, gap.z, rarer_p_value(said, round(found), self.n))

    def _entropy_direction(self) -> MeanGap:
        found = _direction(self.tally.entropy, self.n)
        top = self.tally.top
        if top.variance >= FEW_JUMPS or top.joint is None:
            return found
        draws = drawn_from_confidences(self.labelled("top")).entropy
        return found.with_draws(draws / self.n)

    def _spiegelhalter(self) -> MeanGap:
        deviation, variance = self.scored.spiegelhalter.tolist()
        found = _direction(self.scored.spiegelhalter, self.n)
        # Where few rows carry it their scores are near 0 or 1, and all steps alike.
        jumps = JumpSums(variance, variance, variance)
        return MeanGap(found.gap, found.z, jump_p_value(deviation, jumps))


def _direction(sums: FloatArray, n: int) -> MeanGap:
    """Mean gap over n rows from the sums of the gap and of its variance."""
    total, variance = sums.tolist()
    return MeanGap.of(total / n, math.sqrt(variance) / n)


LongContext.instead = {
    losses.mean_named: lambda c, name: (
        (c.scored.gap if name == "score gap" else c.tally.means[name]).as_mean
    ),
    losses.score_error: lambda c: math.sqrt(c.scored.moments.square) / c.n,
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


LONG = 1 << 17  # rows from which no row table is made
OF_TWO = {
    "roc_auc",
    "average_precision",
    "slope",
}  # metrics that need every class's column unless there are two classes


def measured_long(names: Iterable[str], settings: MetricSettings, k: int) -> bool:
    """Test whether metrics with these settings need no row table of rows with k classes."""
    usual = settings.label in ("top", "positive") and settings.compat is None
    usual = usual and settings.threshold == 0.5 and settings.interval != "bootstrap"
    asked = [metric(name) for name in names]
    return usual and all(
        each.reads != "table" and (k == 2 or each.name not in OF_TWO) for each in asked
    )


@contextmanager
def long_contexts(
    rows: Rows,
    calibrators: Calibrators,
    names: Sequence[str],
    settings: MetricSettings,
    report: bool,
    progress: Progress | None,
) -> Iterator[Iterator[LongContext]]:
    """Contexts of the rows through every calibrator (None: uncalibrated), from one pass, one after the other. A
    context's sorted scores exist on disk until the next is requested. report : will the judgement be made? Raises
    CalcliError where there is no room for the sorted scores."""
    mass = settings.scheme == "mass" and any(
        ("scheme", None) in metric(name).signature for name in names
    )
    ordered = report or mass or any(metric(name).reads == "order" for name in names)
    wanted = SumsRequest(tuple(names), settings, rows.n, ordered, report)
    kinds = (2 if rows.k == 2 else 1) if ordered else 0
    if ordered:
        check_room(
            8 * rows.n * (kinds * len(calibrators) + 1), WHY
        )  # all sets, and one of them in order
    asked = gathering(
        names, settings, rows.k, by_class=report, all_columns=len(calibrators) > 1
    )
    with ExitStack() as stack:
        runs = [
            [stack.enter_context(closing(Runs())) for _ in range(kinds)]
            for _ in calibrators
        ]
        tallies: list[RunningSums] = []
        for part in reduced(rows, calibrators, wanted, **asked):
            found = [tally for tally, _ in part]
            tallies = (
                [a + b for a, b in zip(tallies, found, strict=True)]
                if tallies
                else found
            )
            for own, (_, each) in zip(runs, part, strict=True):
                for run, keys in zip(own, each, strict=True):
                    run.take(keys)
            if progress is not None:
                progress("rows read", tallies[0].n, rows.n)

        def each_in_turn() -> Iterator[LongContext]:
            for tally, own in zip(tallies, runs, strict=True):
                with ExitStack() as here:
                    orders = [
                        here.enter_context(closing(run.merged(i == 1)))
                        for i, run in enumerate(own)
                    ]
                    yield LongContext(tally, settings, orders)

        yield each_in_turn()
