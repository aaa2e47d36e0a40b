"""Facts that a verdict rests on: numbers with their intervals and p-values, no words.

``measure_facts`` makes them from the rows, ``verdict.judge`` decides from them,
``findings`` names what is significant, and ``words`` says it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calcli.metrics.confidence_bins import ConfidenceBin
from calcli.metrics.joint_test import JointTest
from calcli.statistics.intervals import Interval, normal_quantile, t_to_normal

ONE_SIDED = normal_quantile(0.95)


@dataclass(frozen=True)
class DataSummary:
    """The evaluated rows: number, classes, class balance, distinct confidences.

    n_classes : None for confidences alone, whose class frequencies are None too.
    effective_rows : Kish's effective number of rows, None without weights. names : of
    all classes, None where they have none. units : number of units, None where rows are
    independent.
    """

    n: int
    kind: str
    weighted: bool
    distinct_confidences: int
    names: Sequence[str] | None
    units: int | None
    effective_rows: float | None
    n_classes: int | None = None
    largest_class_share: float | None = None
    smallest_class_share: float | None = None
    absent_classes: int = 0

    def class_name(self, index: int) -> str | None:
        """Name of a class; None where classes have no names."""
        if not self.names:
            return None
        return self.names[index]

    @property
    def rarer_count(self) -> int:
        """Number of samples of the rarest class."""
        if self.smallest_class_share is None:
            return self.n
        return round(self.smallest_class_share * self.n)

    @property
    def independent_rows(self) -> float:
        """Number of rows of equal weight that tell as much."""
        if self.effective_rows is None:
            return float(self.n)
        return self.effective_rows

    @property
    def class_1(self) -> str | None:
        """Name of class 1 of two, if the classes have names."""
        if self.names is None or self.n_classes != 2:
            return None
        return self.names[1]


LOSS_WORDS = {"nll": "NLL", "brier_top": "squared error"}
"""What the losses that decide which version is better are called."""


def deciding_loss(has_classes: bool) -> str:
    """Name of the loss that decides: for confidences alone that of being right."""
    if has_classes:
        return "nll"
    return "brier_top"


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval."""

    value: float
    interval: Interval

    @property
    def is_significant(self) -> bool:
        """True if the interval is known and does not contain 0."""
        return self.interval.known and not self.interval.holds(0.0)


@dataclass(frozen=True)
class ClassOne:
    """P(class 1) of two classes: its mean, the frequency of class 1, and their gap.

    z, p_value : of the gap. slope : of the logistic recalibration, None where it is
    unknown.
    """

    predicted: float
    observed: float
    gap: Estimate
    z: float
    p_value: float
    slope: Estimate | None


@dataclass(frozen=True)
class Entropy:
    """Mean NLL minus mean entropy, which is 0 under calibration, with its z."""

    gap: float
    z: float


@dataclass(frozen=True)
class ClassFindings:
    """Calibration class by class.

    value, signed_square : debiased root-mean-square error, and its square before it is
    cut off at 0; None where no bin holds two rows. p_value : of the null that no class
    is miscalibrated, adjusted for all classes. significant : classes with a significant
    gap, the clearest first. predicted, observed : mean probability and frequency of the
    clearest class. lacking : classes without a sample that the scores expect, with the
    expected number of each, most first.
    """

    value: float | None
    signed_square: float | None
    p_value: float
    significant: tuple[int, ...]
    predicted: float
    observed: float
    lacking: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class GroupFindings:
    """Calibration group by group.

    p_value : of the null that no group is miscalibrated, adjusted for all groups.
    worst : name of the group with the most significant gap, with its rows, its gap,
    and the two numbers whose difference the gap is. of_positive : are these P(class 1)
    and the frequency of class 1, not confidence and accuracy?
    """

    n_groups: int
    n_significant: int
    worst: str
    worst_n: int
    worst_gap: float
    worst_predicted: float
    worst_observed: float
    p_value: float
    of_positive: bool


@dataclass(frozen=True)
class LossPart:
    """Decomposition of a loss into refinement and calibration.

    se : standard error of the calibration loss, from paired differences. units :
    effective number of units, None for independent rows.
    """

    loss: float
    refinement: float
    calibration: float
    se: float
    units: float | None = None

    @property
    def z(self) -> float:
        """Z-score of the calibration loss; 0 where its standard error is 0."""
        if not self.se > 0.0:
            return 0.0
        z = self.calibration / self.se
        if self.units is None:
            return z
        return t_to_normal(z, self.units - 1.0)

    @property
    def is_detected(self) -> bool:
        """True if the calibration loss is significantly above 0, one-sided at 5 %."""
        return self.z > ONE_SIDED

    @property
    def at_least(self) -> float:
        """Lower bound of the calibration loss, one-sided at 95 %."""
        return self.calibration - ONE_SIDED * self.se


@dataclass(frozen=True)
class LossDecomposition:
    """Decompositions of NLL and Brier score by one recalibration method.

    temperature_nll : decomposition of the NLL by temperature scaling alone.
    """

    method: str
    folds: int
    nll: LossPart
    brier: LossPart
    temperature_nll: LossPart


@dataclass(frozen=True)
class FitSize:
    """Rows and units that a calibrator was fitted to.

    units : None where not recorded. effective_rows : Kish's effective number of rows,
    None without weights. by_group : has every group a map of its own? n_folds : folds
    of cross-fitting, of all but one of which each calibrator is; 0 for one calibrator.
    """

    n: int
    units: int | None = None
    effective_rows: float | None = None
    by_group: bool = False
    n_folds: int = 0

    def error_factor(self, n: float, units: int | None) -> float:
        """Factor by which the error of the fit widens a statistic of n effective rows.

        A mean that a method matches on the rows of its fit differs from that of n new
        rows with variance 1 + n / n_fit, in units of the variance of n rows.
        """
        if units is not None and self.units is not None:
            return math.sqrt(1.0 + units / self.units)
        n_fit = self.n if self.effective_rows is None else self.effective_rows
        return math.sqrt(1.0 + n / n_fit)


@dataclass(frozen=True)
class Facts:
    """Everything measured on one set of rows with one version of the scores.

    confidence : mean confidence. accuracy : their proportion of right predictions.
    overconfidence : the difference, with its interval; its z is ``gap_z``.
    class_one : for two classes. test : the joint test, which knows nothing of a fit;
    judged : the same up to the error of the fit where one is known (``fit``), else the
    same test. bins : by confidence. class_one_bin : the bin of P(class 1) that
    miscalibration shows in most. errors : p-values of calibration errors, adjusted for
    each other. exact_p_values : of the parts of a verdict but the joint test, as tests
    find that know nothing of a fit; empty where no fit is known. rarer_outcomes :
    effective number of wrong (or right) predictions, or of samples of the rarer class
    where P(class 1) is judged; of units that hold one. doubts : reasons to doubt that
    the labels belong to the scores. too_good : are all errors smaller than calibrated
    scores would show?
    """

    data: DataSummary
    confidence: float
    accuracy: float
    overconfidence: Estimate
    gap_z: float
    entropy: Entropy
    test: JointTest
    judged: JointTest
    bins: tuple[ConfidenceBin, ...]
    class_one: ClassOne | None
    class_one_bin: ConfidenceBin | None
    classes: ClassFindings | None
    groups: GroupFindings | None
    decomposition: LossDecomposition | None
    errors: Mapping[str, float]
    exact_p_values: Mapping[str, float]
    fit: FitSize | None
    rarer_outcomes: float
    doubts: tuple[str, ...]
    too_good: bool

    @property
    def is_about_class_one(self) -> bool:
        """True if the joint test is of P(class 1), not of the confidence."""
        return self.test.positive

    @property
    def main_gap(self) -> Estimate:
        """Gap of the quantity that is judged: of P(class 1), or the overconfidence."""
        if self.is_about_class_one and self.class_one is not None:
            return self.class_one.gap
        return self.overconfidence


@dataclass(frozen=True)
class Difference:
    """Mean paired difference of a loss, calibrator minus baseline.

    p_value : two-sided. reason : for no interval. answers : for the accuracy of
    unweighted rows, numbers that become right, and wrong.
    """

    value: float
    se: float | None
    interval: Interval | None = None
    p_value: float | None = None
    reason: str | None = None
    answers: tuple[int, int] | None = None

    @property
    def is_significant(self) -> bool:
        """True if the interval is known and does not contain 0."""
        return self.interval is not None and not self.interval.holds(0.0)


@dataclass(frozen=True)
class Paired:
    """Paired differences to the baseline, by metric.

    baseline : its artifact, None for the uncalibrated scores.
    """

    baseline: str | None
    differences: Mapping[str, Difference]
