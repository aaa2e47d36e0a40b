"""Sums over rows so many that no table of them is kept: what adds, part by part.

Means over rows, width bins, class sums and the smooth error need no more than sums. Metrics of
order get the confidences in order from disk (``calcli.metrics.external_sort``); ``calcli.metrics.out_of_core``
measures from both.
"""

import math
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from calcli.binning import BinStats, bin_index, width_edges
from calcli.fast_dataclass import dataclass
from calcli.metrics.catalog import metric
from calcli.metrics.context import MetricContext, MetricSettings
from calcli.metrics.external_sort import keys_of, keys_of_odds
from calcli.metrics.intervals import Mean
from calcli.metrics.joint_draws import log_odds
from calcli.metrics.label_agreement import LabelAgreement
from calcli.metrics.losses import expected_losses, paired_sums
from calcli.metrics.nulls import label_losses
from calcli.metrics.rowtable import ClassStats, RowTable
from calcli.metrics.smooth import grid_cells, smooth_residuals
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.statistics.paired import PairedSums
from calcli.sums import Sums

FINE = 64
"""Cells of a width bin, each of which is drawn as one binomial under calibration (as ``nulls.GROUPS``)."""


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
class SumsRequest:
    """What is asked of the rows. total : their number; ordered : whether keys for their order are made."""

    names: tuple[str, ...]
    settings: MetricSettings
    total: int
    ordered: bool
    joint: bool

    def __call__(self, tables: list[RowTable]) -> "list[Reduced]":
        """What is kept of some rows, through every calibrator."""
        return [Reduced.of(table, self, tables[0] if at else None) for at, table in enumerate(tables)]


@dataclass(frozen=True)
class Scored(Sums):
    """Sums over rows with a score in [0, 1] that something happens. Adds.

    fine : score and outcome over ``FINE`` cells of every width bin; spread, squares : (cells,) sums of
    c (1 - c) and of (y - c)^2 there. smooth : residuals on the grid of the smooth error (its spectrum). grid :
    rows, summed score and summed outcome of its cells, (3, cells). spiegelhalter : sums of (y - c)(1 - 2c) and of
    its variance.
    """

    moments: Moments
    gap: Moments
    fine: BinStats
    spread: FloatArray
    squares: FloatArray
    smooth: FloatArray
    grid: FloatArray
    spiegelhalter: FloatArray

    @classmethod
    def of(cls, c: FloatArray, y: FloatArray, wanted: SumsRequest) -> "Scored":
        """Of scores and outcomes (n,)."""
        edges, cells = fine_edges(wanted.settings.bins), grid_cells(wanted.total)
        where, size = bin_index(c, edges), len(edges) - 1
        place = np.minimum((c * cells).astype(np.int64), cells - 1)
        slope, variance = 1.0 - 2.0 * c, c * (1.0 - c)
        return cls(
            Moments.of(c),
            Moments.of(c - y),
            BinStats.at(where, size, c, y),
            np.bincount(where, variance, size).astype(np.float64),
            np.bincount(where, (y - c) ** 2, size).astype(np.float64),
            smooth_residuals(c, c - y, cells, wanted.total),
            np.stack([np.bincount(place, of, cells) for of in (np.ones(len(c)), c, y)]).astype(np.float64),
            np.array([(y - c) @ slope, slope**2 @ variance]),
        )

    @property
    def n(self) -> int:
        return self.moments.n

    @property
    def variance(self) -> float:
        """Variance of the sum of outcomes under calibration."""
        return float(self.spread.sum())


@dataclass(frozen=True)
class Joint(Sums):
    """Sums for the joint test over the cells of the smooth error's grid, (cells,) each, and of all rows. Adds.

    With c the confidence, v = c (1 - c), a what a right label costs more than a wrong one is expected to and l
    the variance of the latter: sums of v, v a, v a^2, c a and c l; totals: of the expected loss of a wrong
    label minus the entropy, and of l.
    """

    cells: FloatArray
    totals: FloatArray

    @classmethod
    def of(cls, table: RowTable, cells: int) -> "Joint":
        """Of a table of rows."""
        right, wrong, variance = label_losses(table.confidence, table.entropy, table.varentropy)
        totals = np.array([(wrong - table.entropy).sum(), variance.sum()])
        return cls._over(table.confidence, right - wrong, variance, cells, totals)

    @classmethod
    def of_positive(cls, p: FloatArray, y: FloatArray, cells: int) -> "Joint":
        """Of P(class 1) and whether it was: a is the log-odds, and the totals are of its product with p - y, and 0."""
        odds = log_odds(p)
        return cls._over(p, odds, np.zeros(len(p)), cells, np.array([(p - y) @ odds, 0.0]))

    @classmethod
    def _over(cls, c: FloatArray, a: FloatArray, variance: FloatArray, cells: int, totals: FloatArray) -> "Joint":
        place, v = np.minimum((c * cells).astype(np.int64), cells - 1), c * (1.0 - c)
        sums = [np.bincount(place, values, cells) for values in (v, v * a, v * a * a, c * a, c * variance)]
        return cls(np.array(sums), totals)

    def right(self, hits: FloatArray, score: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Sums of a over the rows where it happens, (draws,), given how many they are in every cell.

        hits : (draws, cells). score : (cells,) summed c. Where in a cell they are is drawn normal.
        """
        v, va, vaa, ca, _ = self.cells
        each = np.divide(va, v, out=np.zeros_like(v), where=v > 0)
        rest = math.sqrt(max(float((vaa - va * each).sum()), 0.0))
        return np.asarray(hits @ each + float((ca - each * score).sum()) + rest * rng.standard_normal(len(hits)))


MATCHED_CLASSES = 1000
"""Classes up to which predictions and labels of very many rows are counted against each other."""


@dataclass(frozen=True)
class RunningSums(Sums):
    """Sums over rows. Adds, in the order of the rows.

    means : of the means over rows asked for, by name. top, positive : of the confidence, and of P(class 1) of
    two classes. entropy : sums of -ln p_y - H and of its variance. classes : over (class, bin) pairs, where asked
    for. joint : for the report; slope : for that of two classes. paired : of the differences to the first set of
    rows, by loss. agreement : of predictions and labels, of the first set of rows.
    """

    k: Annotated[int, min]
    label_counts: IntArray
    lowest: Annotated[float, min]
    highest: Annotated[float, max]
    clipped: int
    counts: Mapping[str, int]
    means: Mapping[str, Moments]
    top: Scored
    positive: Scored | None
    entropy: FloatArray
    classes: ClassStats | None
    joint: Joint | None
    slope: Joint | None
    paired: Mapping[str, PairedSums]
    agreement: LabelAgreement | None

    @classmethod
    def of(cls, table: RowTable, wanted: SumsRequest, first: RowTable | None) -> "RunningSums":
        """Of some of the rows. first : the same rows as another set of scores has them."""
        context, c = MetricContext(table, wanted.settings), table.confidence
        columns = {name: rows(context) for name in wanted.names if (rows := metric(name).rows) is not None}
        columns |= expected_losses(table, columns)
        for j, (sums, inside) in table.tops.items():
            columns |= {f"top {j}": sums - inside, f"top {j} mass": sums, f"top {j} accuracy": inside}
        paired = {} if first is None else paired_sums(context, MetricContext(first, wanted.settings))
        p, whole, cells = table.positive, len(table.nll) > 0, grid_cells(wanted.total)
        return cls(
            table.k,
            table.label_counts,
            float(c.min()),
            float(c.max()),
            table.clipped,
            table.counts,
            {name: Moments.of(values) for name, values in columns.items()},
            Scored.of(c, table.correct, wanted),
            None if p is None else Scored.of(p, (table.y == 1).astype(np.float64), wanted),
            np.array([(table.nll - table.entropy).sum(), table.varentropy.sum()]) if whole else np.zeros(2),
            table.classes,
            Joint.of(table, cells) if wanted.joint else None,
            Joint.of_positive(p, (table.y == 1).astype(np.float64), cells) if wanted.joint and p is not None else None,
            paired,
            table.agreement if first is None and table.k <= MATCHED_CLASSES else None,
        )

    @property
    def n(self) -> int:
        return self.top.n

    @property
    def mean_confidence(self) -> float:
        """Unweighted mean confidence."""
        return self.top.moments.mean

    @property
    def spread(self) -> float:
        """Largest minus smallest confidence."""
        return self.highest - self.lowest


@dataclass(frozen=True)
class Reduced:
    """Some rows through one calibrator: their sums, and where their order is wanted their keys.

    keys : of the confidence, and of the log-odds of class 1 of two classes.
    """

    tally: RunningSums
    keys: tuple[NDArray[np.uint64], ...]

    @classmethod
    def of(cls, table: RowTable, wanted: SumsRequest, first: RowTable | None) -> "Reduced":
        """Of a table of these rows."""
        keys: list[AnyArray] = []
        if wanted.ordered:
            keys.append(keys_of(table.confidence, table.correct))
            if table.log_odds is not None:
                keys.append(keys_of_odds(table.log_odds, table.y == 1))
        return cls(RunningSums.of(table, wanted, first), tuple(keys))


def fine_edges(bins: int) -> FloatArray:
    """Edges of ``FINE`` cells in every width bin, whose own edges are among them bit by bit."""
    edges = width_edges(bins)
    steps = np.arange(FINE) / FINE
    inner = edges[:-1, None] + (edges[1:] - edges[:-1])[:, None] * steps
    return np.append(inner.reshape(-1), edges[-1])
