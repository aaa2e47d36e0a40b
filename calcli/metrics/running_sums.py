"""Sums over rows, of which metrics of too many rows for a row table are computed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from calcli.binning import BinStats, bin_index, cell_of, width_edges
from calcli.metrics import losses, row_means
from calcli.metrics.catalog import metric
from calcli.metrics.context import MetricContext
from calcli.metrics.joint_test import log_odds
from calcli.metrics.label_agreement import LabelAgreement
from calcli.metrics.rowtable import ClassStats, RowTable
from calcli.metrics.settings import MetricSettings
from calcli.metrics.sorted_rows import Keys, keys_of, keys_of_odds
from calcli.numerics import AnyArray, FloatArray, IntArray, ratio
from calcli.records import Sums
from calcli.statistics.intervals import Mean
from calcli.statistics.nulls import label_losses
from calcli.statistics.paired import PairedSums
from calcli.statistics.smooth_error import grid_cells, smooth_residuals

# cells of a width bin, each of which is drawn as one binomial under calibration (as
# ``nulls.GROUPS``)
FINE = 64


@dataclass(frozen=True)
class Moments:
    """Number, mean and summed squared deviation of values.

    Adds (Chan, Golub, LeVeque 1983).
    """

    n: int
    mean: float
    square: float

    @classmethod
    def of(cls, values: FloatArray) -> "Moments":
        """Moments of values (n,)."""
        mean = float(values.mean())
        return cls(len(values), mean, float(((values - mean) ** 2).sum()))

    def __add__(self, other: "Moments") -> "Moments":
        n = self.n + other.n
        gap = other.mean - self.mean
        square = self.square + other.square + gap**2 * self.n * other.n / n
        return Moments(n, self.mean + gap * other.n / n, square)

    @property
    def as_mean(self) -> Mean:
        """The mean with its standard error."""
        se = math.sqrt(self.square / (self.n - 1) / self.n) if self.n > 1 else math.nan
        return Mean(self.mean, se, self.n)


@dataclass(frozen=True)
class SumsRequest:
    """Request for sums over rows.

    total : number of rows. ordered : make sort keys. joint : make the sums of the joint
    test.
    """

    names: tuple[str, ...]
    settings: MetricSettings
    total: int
    ordered: bool
    joint: bool

    def __call__(
        self, tables: list[RowTable]
    ) -> "list[tuple[RunningSums, list[Keys]]]":
        """Sums of some rows through every calibrator and, where their order is wanted,
        sort keys of the confidence and, for two classes, of the log-odds of class 1.
        """
        sums = []
        first: RowTable | None = None
        for table in tables:
            keys = []
            if self.ordered:
                keys.append(keys_of(table.confidence, table.correct))
            if self.ordered and table.log_odds is not None:
                keys.append(keys_of_odds(table.log_odds, table.y == 1))
            sums.append((RunningSums.of(table, self, first), keys))
            if first is None:
                first = table
        return sums


@dataclass(frozen=True)
class BinSums(BinStats):
    """Bin statistics with sums of (y - c)^2, and of c (1 - c), the variance of
    ``outcome``, (bins,) each. Adds.
    """

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
        assert weight is None, "rows with weights are evaluated as a table"
        squares = np.bincount(index, (outcomes - scores) ** 2, bins)
        variance = np.bincount(index, scores * (1.0 - scores), bins)
        return cls(
            **vars(BinStats.at(index, bins, scores, outcomes)),
            squares=squares.astype(np.float64),
            variance=variance.astype(np.float64),
        )


def coarse(values: AnyArray) -> AnyArray:
    """Sums over the ``FINE`` cells of every bin."""
    return values.reshape(*values.shape[:-1], -1, FINE).sum(axis=-1)


@dataclass(frozen=True)
class Joint(Sums):
    """Sums for the joint test over the cells of the smooth error's grid, (cells,) each,
    and of all rows. Adds.

    cells: sums of v, v a, v a^2, c a and c l, with c the score, v = c (1 - c), a the
    effect of an outcome of 1 on the sharpness and l a variance. For the confidence a is
    the NLL of a correct row minus the expected NLL of a wrong one, l the variance of
    the latter, and totals the sums of that expected NLL minus the entropy, and of l.
    For P(class 1) a is its log-odds, l is 0, and totals are the sum of a (p - y), and
    0.
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
        place = cell_of(c, cells)
        v = c * (1.0 - c)
        columns = (v, v * a, v * a * a, c * a, c * variance)
        sums = [np.bincount(place, column, cells) for column in columns]
        return cls(np.array(sums), np.array(totals))

    def right(
        self, hits: FloatArray, score: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Sums of a over rows with outcome 1, (draws,), given their number in every
        cell. hits : (draws, cells) that number. score : (cells,) summed c. Their
        distribution within a cell is drawn as normal.
        """
        v, va, vaa, ca, _ = self.cells
        mean_effect = ratio(va, v)
        rest = math.sqrt(max(float((vaa - va * mean_effect).sum()), 0.0))
        return (
            hits @ mean_effect
            + float((ca - mean_effect * score).sum())
            + rest * rng.standard_normal(len(hits))
        )


@dataclass(frozen=True)
class Scored(Sums):
    """Sums over rows with scores in [0, 1] and outcomes 0/1. Adds.

    moments, gap : of the score, and of score minus outcome. fine : ``FINE`` cells of
    every width bin. smooth : residuals on the grid of the smooth error (its spectrum).
    grid : rows, summed score and summed outcome of its cells, (3, cells). spiegelhalter
    : sums of (y - c)(1 - 2c) and of its variance. joint : for the report's joint test.
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
        edges = width_edges(wanted.settings.bins)
        width = (edges[1:] - edges[:-1])[:, None]
        # The bins' own edges are bitwise among the finer ones.
        inner = edges[:-1, None] + width * (np.arange(FINE) / FINE)
        index = bin_index(c, np.append(inner, edges[-1]))
        cells = grid_cells(wanted.total)
        place = cell_of(c, cells)
        columns = (np.ones(len(c)), c, y)
        grid = np.stack([np.bincount(place, column, cells) for column in columns])
        slope = 1.0 - 2.0 * c
        variance = c * (1.0 - c)
        return cls(
            moments=Moments.of(c),
            gap=Moments.of(c - y),
            fine=BinSums.at(index, inner.size, c, y),
            smooth=smooth_residuals(c, c - y, cells, wanted.total),
            grid=grid.astype(np.float64),
            spiegelhalter=np.array([(y - c) @ slope, slope**2 @ variance]),
            joint=joint,
        )

    @property
    def variance(self) -> float:
        """Variance of the sum of outcomes under calibration."""
        return float(self.fine.variance.sum())


# classes up to which the (prediction, label) pairs of very many rows are counted
MATCHED_CLASSES = 1000


@dataclass(frozen=True)
class RunningSums(Sums):
    """Sums over rows, with the totals that a ``RowTable`` has of all rows.

    Adds, in the order of the rows.

    means : moments behind the requested means over rows, by name. top, positive : sums
    for the confidence, and for P(class 1) of two classes. entropy : sums of -ln p_y - H
    and of its variance. classes : sums over (class, bin) pairs, where requested. paired
    : sums of the differences to the first set of scores, by loss. agreement : of
    predictions and labels, for the first set of scores only.
    """

    # What a ``RowTable`` may have, and rows that are summed never have.
    weight = units = group = answers = None
    few_units = False
    label_effect = 1.0
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
    least_labels: int
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
        """Sums over some rows.

        first : the table of these rows in the first set of scores, for paired
        differences.
        """
        context = MetricContext(table, wanted.settings)
        joint: Joint | None = None
        joint_of_positive: Joint | None = None
        if wanted.joint:
            cells = grid_cells(wanted.total)
            joint = _joint_of_confidence(table, cells)
            joint_of_positive = _joint_of_positive(table, cells)
        positive: Scored | None = None
        if table.positive is not None:
            is_one = (table.y == 1).astype(np.float64)
            positive = Scored.of(table.positive, is_one, wanted, joint_of_positive)
        entropy = np.zeros(2)
        if len(table.nll):
            gap = (table.nll - table.entropy).sum()
            entropy = np.array([gap, table.varentropy.sum()])
        paired: Mapping[str, PairedSums] = {}
        agreement: LabelAgreement | None = None
        if first is not None:
            baseline = MetricContext(first, wanted.settings)
            paired = losses.paired_sums(context, baseline)
        elif table.k <= MATCHED_CLASSES:
            agreement = table.agreement
        return cls(
            k=table.k,
            label_counts=table.label_counts,
            lowest=float(table.confidence.min()),
            highest=float(table.confidence.max()),
            clipped=table.clipped,
            unknown_zeros=table.unknown_zeros,
            zero_shifts=table.zero_shifts,
            certain=table.certain,
            counts=table.counts,
            least_labels=table.least_labels,
            means={
                name: Moments.of(row_means.column(context, name))
                for name in _means_needed(wanted.names, table.tops)
            },
            top=Scored.of(table.confidence, table.correct, wanted, joint),
            positive=positive,
            entropy=entropy,
            classes=table.classes,
            paired=paired,
            agreement=agreement,
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


def _means_needed(names: Sequence[str], tops: Iterable[int]) -> list[str]:
    """Names of the columns (``row_means.column``) whose means metrics need.

    tops : as of ``RowTable``.
    """
    means = [name for name in names if metric(name).rows is not None]
    for name in [name for name in means if name in row_means.LOSSES]:
        means += [f"{name} expected", f"{name} squared"]
    for j in tops:
        means += [f"top{j} gap", f"top{j} mass", f"top{j} accuracy"]
    return means


def _joint_of_confidence(table: RowTable, cells: int) -> Joint:
    c = table.confidence
    right, wrong, variance = label_losses(c, table.entropy, table.varentropy)
    totals = [(wrong - table.entropy).sum(), variance.sum()]
    return Joint.of(c, right - wrong, variance, totals, cells)


def _joint_of_positive(table: RowTable, cells: int) -> Joint | None:
    """None but for two classes."""
    p = table.positive
    if p is None:
        return None
    odds = log_odds(p)
    totals = [(p - (table.y == 1)) @ odds, 0.0]
    return Joint.of(p, odds, np.zeros(len(p)), totals, cells)
