"""Row table of a score file, from which metrics are computed: one number per row and
statistic.

``calcli.metrics.collect`` fills these columns in one pass. Statistics of (class, row)
pairs are kept as bin sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from calcli.binning import BinStats
from calcli.metrics.label_agreement import LabelAgreement, UnitAnswers
from calcli.numerics import AnyArray, FloatArray, IntArray, row_weights
from calcli.records import Sums, cached_property
from calcli.statistics.shared_luck import FEWEST_UNITS
from calcli.statistics.units import Units, design_effect, label_effect
from calcli.statistics.weights import effective_weights

TOP_COLUMNS = ("confidence", "correct", "prediction", "y")
ROW_COLUMNS = (
    *TOP_COLUMNS,
    "nll",
    "brier",
    "entropy",
    "varentropy",
    "positive",
    "log_odds",
    "weight",
    "group",
    "zeros",
)

FARTHEST_ZERO = 20.0
"""The NLL of a stored zero is given as between that of half a digit and of this part of
it.
"""


@dataclass(frozen=True)
class ClassStats(BinStats):
    """Width-bin sums (k, bins) of every class's probability against "this is the
    label". Adds. variance : (k, bins) sums of w^2 p (1 - p), the variance of
    ``outcome`` under calibration. jumps : of weighted rows sums over all bins, (2, k),
    of w^4 p (1 - p), and of w^2 p (1 - p) where p < 1/2. Right-closed bins of [0, 1].
    """

    variance: FloatArray
    jumps: FloatArray | None = None

    @property
    def whole(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Expected number of labels of each class, the number found, and its variance,
        (k,) each.
        """
        return (
            self.score.sum(axis=1),
            self.outcome.sum(axis=1),
            self.variance.sum(axis=1),
        )


def _joined(a: AnyArray, b: AnyArray) -> AnyArray:
    return np.concatenate([a, b])


def _tops(a: "Tops", b: "Tops") -> "Tops":
    return {
        j: (_joined(a[j][0], b[j][0]), _joined(a[j][1], b[j][1])) for j in a if j in b
    }


Column = Annotated[FloatArray, _joined]
MaybeColumn = Annotated[FloatArray | None, _joined]
Tops = Mapping[int, tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class RowTable(Sums):
    """Statistics of every evaluated row, (n,) each, in the file's order.

    Adds by concatenation, as the fields say; a sum has no units, which are those of all
    rows and set at the end.

    For confidences alone k is 1, prediction is 1 throughout and y is 1 where it is
    correct, else 0: losses and entropies are those of being correct or not.

    confidence : probability of the predicted class, 0..1. correct : 1.0 where the
    prediction is the label, else 0.0. prediction, y : int64 classes. nll : -ln p_y,
    where a stored 0 counts as ``Zeros`` says. brier : sum over classes of (p - 1[y =
    c])^2. entropy : -sum p ln p. varentropy : variance of -ln p_Y when Y ~ p. positive,
    log_odds : probability of class 1 where there are two classes, and its log-odds,
    which are exact where it rounds to 1; else None. weight : float64 or None. group :
    any labels or None. units : unit of every row, None where rows are independent.
    Where only ``TOP_COLUMNS`` were asked for, the other statistics are empty. zeros :
    number of stored zeros in a row whose label's probability is one of them, -1 where
    its size is unknown (not rounded, or made by a calibrator), else 0; None where there
    can be none. counts : of events that the calibrator reported. least_labels : rows
    whose label alone has the least of three and more scores. tops : j -> (sum of the j
    largest p, 1.0 where the label is among them), when asked for. expected : by loss
    ``PairedSums.expected`` of the difference to the rows that these are compared with.
    """

    k: Annotated[int, min]
    confidence: Column
    correct: Column
    prediction: Annotated[IntArray, _joined]
    y: Annotated[IntArray, _joined]
    nll: Column = field(default_factory=partial(np.empty, 0))
    brier: Column = field(default_factory=partial(np.empty, 0))
    entropy: Column = field(default_factory=partial(np.empty, 0))
    varentropy: Column = field(default_factory=partial(np.empty, 0))
    positive: MaybeColumn = None
    log_odds: MaybeColumn = None
    weight: MaybeColumn = None
    group: Annotated[AnyArray | None, _joined] = None
    units: Annotated[Units | None, lambda a, b: None] = None
    zeros: Annotated[NDArray[np.int32] | None, _joined] = None
    classes: ClassStats | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    least_labels: int = 0
    tops: Annotated[Tops, _tops] = field(default_factory=dict)
    expected: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def weights(self) -> FloatArray:
        """Weights of the rows, (n,), 1 each where none were given."""
        return row_weights(self.weight, self.n)

    @property
    def clipped(self) -> int:
        """Number of rows whose label has a probability of 0."""
        if self.zeros is None:
            return 0
        return int(np.count_nonzero(self.zeros))

    @property
    def unknown_zeros(self) -> int:
        """Number of rows whose label has a probability of 0 of unknown size."""
        if self.zeros is None:
            return 0
        return int(np.count_nonzero(self.zeros < 0))

    @property
    def zero_shifts(self) -> FloatArray:
        """How far the weighted sum of the NLL would fall if each rounded zero at a
        label counted as half a digit, and rise if it counted as a twentieth of that,
        (2,).
        """
        if self.zeros is None:
            return np.zeros(2)
        stored = self.zeros > 0
        weight = self.weights[stored]
        share = self.zeros[stored] + 1.0
        farthest = np.maximum(share, FARTHEST_ZERO)
        return np.array([weight @ np.log(share), weight @ np.log(farthest / share)])

    @property
    def n(self) -> int:
        return len(self.confidence)

    @property
    def spread(self) -> float:
        """Largest minus smallest confidence."""
        return float(self.confidence.max() - self.confidence.min())

    @property
    def label_counts(self) -> IntArray:
        """Number of rows of every class, (k,); for confidences alone of the wrong and
        the correct ones.
        """
        return np.bincount(self.y, minlength=self.k)

    @property
    def agreement(self) -> LabelAgreement | None:
        """Counts of (prediction, label) pairs; None for confidences alone."""
        if self.k == 1:
            return None
        return LabelAgreement.of(self.prediction, self.y, self.k)

    @property
    def answers(self) -> UnitAnswers | None:
        """Answers by unit; None for independent rows."""
        if self.units is None:
            return None
        return UnitAnswers(self.prediction, self.y, self.confidence, self.units)

    @property
    def few_units(self) -> bool:
        """True if there are too few units to judge the rows by."""
        return self.units is not None and self.units.n < FEWEST_UNITS

    @property
    def label_effect(self) -> float:
        """Design effect of the label counts of rows in units, else 1."""
        if self.units is None:
            return 1.0
        return label_effect(self.y, self.k, self.units)

    @property
    def mean_confidence(self) -> float:
        """Unweighted mean confidence."""
        return float(self.confidence.mean())

    @property
    def certain(self) -> int:
        """Number of confidences alone that are exactly 0 or 1, which have no log-odds;
        0 where there are classes.
        """
        if self.k > 1:
            return 0
        return int(np.isin(self.confidence, (0.0, 1.0)).sum())

    @property
    def known(self) -> str:
        """Number of classes, as the end of a sentence in a message."""
        if self.k == 1:
            return "these rows hold one confidence each"
        return f"these rows have {self.k}"

    @property
    def brier_top(self) -> FloatArray:
        """Squared error of the confidence, (n,)."""
        return (self.confidence - self.correct) ** 2

    @cached_property
    def null_outcomes(self) -> dict[tuple[Any, ...], FloatArray]:
        """Cache of ``MetricContext.null_outcomes`` by scheme and settings, shared by
        the contexts of these rows.
        """
        return {}

    @cached_property
    def accuracy_effect(self) -> float:
        """Design effect of the accuracy of rows in units, else 1."""
        if self.units is None:
            return 1.0
        return design_effect(self.correct, self.units, self.weight)

    def take(self, index: AnyArray) -> "RowTable":
        """Table of the rows at ``index`` (indices or a mask), without sums over rows.

        Their weights sum to the effective number of these rows, and are None where all
        are equal.
        """
        columns = {}
        for name in ROW_COLUMNS:
            column = getattr(self, name)
            if column is not None and (len(column) or name in TOP_COLUMNS):
                columns[name] = column[index]
        if "weight" in columns:
            columns["weight"] = effective_weights(columns["weight"])
        return RowTable(
            self.k,
            **columns,
            units=None if self.units is None else self.units.take(index),
            tops={
                j: (sums[index], inside[index])
                for j, (sums, inside) in self.tops.items()
            },
        )

    def groups(self) -> tuple[AnyArray, list["RowTable"]]:
        """Distinct groups in order, and the table of each."""
        names, which = np.unique(np.asarray(self.group), return_inverse=True)
        rows = np.split(
            np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1]
        )
        return names, [self.take(index) for index in rows]
