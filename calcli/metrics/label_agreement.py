"""Agreement of predictions and labels: the same rows, and the same classes in the same
order?
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.rows import class_words
from calcli.statistics.class_ranking import ClassRanking
from calcli.statistics.units import Units, design_effect

# fewest rows whose labels are checked against the predictions
FEWEST = 50
# standard errors from which two classes count as exchanged, the clearest of all pairs
SURE = 5.0
# the same where the error is that of units, which hold fewer answers
SURE_BY_UNIT = 3.5
# standard errors above the accuracy of random labels up to which one is hardly better
HARDLY = 3.0
# overconfidence from which an accuracy hardly better than random is reported
FAR = 0.1
# expected errors from which none at all is reported: it has probability e^-20
EXPECTED = 20.0
# proportion of wrong predictions up to which labels of one class are not reported
FEW_WRONG = 0.05
# pairs of classes with the largest gains, whose errors by unit are computed
MOST_PAIRS = 50
SAME_ORDER = "are the classes of scores and labels in the same order?"
REVERSED = (
    "are these losses or distances? negate them; or are the classes in another order?"
)
"""Question about scores of three and more classes of which the least is the label."""

REVERSED_OF_TWO = "the scores rank the two classes in reverse"

SHIFTED = 0.3
MORE = 0.2
"""Proportion of labels equal to the prediction +1 or -1, and its excess over the
accuracy, that are reported.
"""


def least_is_label(n_least: int, n: int) -> str:
    """What shows that scores are reversed. n_least : labels with the lowest score."""
    return f"the lowest score is the label on {n_least / n:.1%} of the rows"


def least_labels(scores: FloatArray, prediction: IntArray, y: IntArray) -> int:
    """Number of rows whose label alone has the least of three and more scores (b, k)."""
    if scores.shape[1] < 3:
        return 0
    wrong = np.flatnonzero(prediction != y)
    at_label = scores[wrong, y[wrong]][:, None]
    return int(((scores[wrong] <= at_label).sum(axis=1) == 1).sum())


@dataclass(frozen=True)
class UnitAnswers:
    """Answers of rows in units, which are right or wrong together.

    prediction, label : (n,) classes. confidence : (n,) of the predictions.
    """

    prediction: IntArray
    label: IntArray
    confidence: FloatArray
    units: Units

    @property
    def expected_errors(self) -> float:
        """Expected number of units with a wrong row, were all luck of a unit shared."""
        order = self.units.order
        least = np.minimum.reduceat(self.confidence[order], self.units.starts)
        return float((1.0 - least).sum())

    @property
    def effective_rows(self) -> float:
        """Number of independent rows that give the accuracy with the same error."""
        right = (self.prediction == self.label).astype(np.float64)
        return len(right) / design_effect(right, self.units)

    def exchange_error(self, a: int, b: int) -> float:
        """Standard error, by unit, of the rows that exchanging two classes makes right."""
        pair = (a, b)
        both = np.isin(self.prediction, pair) & np.isin(self.label, pair)
        change = np.where(self.prediction == self.label, -1.0, 1.0) * both
        by_unit = self.units.sums(change)
        return float(np.sqrt(by_unit @ by_unit))


@dataclass(frozen=True)
class LabelAgreement:
    """Rows of each (prediction, label) pair found.

    Adds. code : (m,) prediction * k + label, ascending. count : (m,) rows.
    """

    k: int
    code: IntArray
    count: IntArray

    @classmethod
    def of(cls, prediction: IntArray, labels: IntArray, k: int) -> "LabelAgreement":
        """Counts of rows with predictions and labels, (n,) each."""
        code = prediction * k + labels
        if k * k > len(code):
            return cls(k, *np.unique(code, return_counts=True))
        count = np.bincount(code)
        occurring = np.flatnonzero(count)
        return cls(k, occurring, count[occurring])

    def __add__(self, other: "LabelAgreement") -> "LabelAgreement":
        code, place = np.unique(
            np.concatenate([self.code, other.code]), return_inverse=True
        )
        count = np.bincount(place, np.concatenate([self.count, other.count]), len(code))
        return LabelAgreement(self.k, code, count.astype(np.int64))

    @property
    def n_right(self) -> int:
        """Number of rows whose prediction is the label."""
        predicted, label = np.divmod(self.code, self.k)
        return int(self.count[predicted == label].sum())

    def is_reversed(self, n_least: int, by_unit: UnitAnswers | None = None) -> bool:
        """True for scores of which the least is the label; never of two classes.

        n_least : rows whose label alone has the least score: far more than those with
        the largest, than by chance, and than any renaming of the predicted classes makes
        right. by_unit : the same rows where they have units.
        """
        n = int(self.count.sum())
        if self.k < 3 or n_least <= self._n_right_of_others():
            return False
        share = 1.0  # independent rows in place of one
        if by_unit is not None:
            share = by_unit.effective_rows / n
        beyond_largest = share * (n_least - self.n_right)
        error = SURE * np.sqrt(share * max(n_least + self.n_right, 1))
        beyond_chance = share * (n_least - n / self.k)
        error_of_chance = SURE * np.sqrt(share * n * (1 - 1 / self.k) / self.k)
        return bool(beyond_largest > error and beyond_chance > error_of_chance)

    def _n_right_of_others(self) -> int:
        """Rows whose label is the most frequent one of the other rows that are predicted
        as the same class.
        """
        if not len(self.code):
            return 0
        starts = np.flatnonzero(np.diff(self.code // self.k, prepend=-1))
        return int((np.maximum.reduceat(self.count, starts) - 1).sum())

    def all_right(self, confidence: float, by_unit: UnitAnswers | None) -> str | None:
        """Ask whether labels without a single error are predictions; None if not.

        confidence : mean confidence of the rows. by_unit : the same rows where they
        have units.
        """
        n = int(self.count.sum())
        if n < FEWEST or self.k < 2 or self.n_right < n:
            return None
        expected = n * (1.0 - confidence)
        by_luck = expected
        if by_unit is not None:
            by_luck = min(expected, by_unit.expected_errors)
        if by_luck < EXPECTED:
            return None
        return (
            f"all of {n} predictions are right, where their confidences expect"
            f" {expected:.0f} errors: are the labels the model's own predictions?"
        )

    def doubt(
        self,
        confidence: float,
        names: Sequence[str] | None,
        by_unit: UnitAnswers | None = None,
        ranking: ClassRanking | None = None,
    ) -> str | None:
        """Reason to doubt that the labels belong to these scores, None without one.

        confidence : mean confidence of the rows. names : of the classes. by_unit : the
        same rows where they have units. ranking : of two classes, which decides in
        place of the accuracy where it is known.
        """
        if int(self.count.sum()) < FEWEST or self.k < 2:
            return None
        doubt = self._of_one_class(names) or self._shifted()
        if doubt is not None:
            return doubt
        is_reversed = ranking is not None and ranking.is_reversed
        if ranking is None or is_reversed:
            doubt = self._exchanged_classes(names, by_unit)
            if doubt is not None:
                return doubt
        if ranking is not None and is_reversed:
            return f"{REVERSED_OF_TWO} (ROC AUC {ranking.area:.2f}): {SAME_ORDER}"
        if ranking is not None and not ranking.is_chance:
            return None  # the labels belong to the scores, however wrong these are
        return self._by_chance(confidence, by_unit)

    def _of_one_class(self, names: Sequence[str] | None) -> str | None:
        """Doubt labels that are all one class where many predictions are not."""
        n = int(self.count.sum())
        label = self.code % self.k
        n_wrong = n - self.n_right
        is_one_class = bool((label == label[0]).all())
        if not is_one_class or n_wrong < max(EXPECTED, FEW_WRONG * n):
            return None
        return (
            f"all {n} labels are class {class_words(label[0], names)}, and {n_wrong}"
            " predictions are not: rows chosen by their label do not show whether"
            " probabilities are calibrated; are those of the other classes missing?"
        )

    def _shifted(self) -> str | None:
        """Doubt labels that are the prediction plus or minus 1 more often than it."""
        if self.k == 2:
            return None
        n = int(self.count.sum())
        predicted, label = np.divmod(self.code, self.k)
        accuracy = self.n_right / n
        for shift, sign, question in (
            (1, "plus", "are labels counted from 1"),
            (-1, "minus", "do the scores begin with a class that labels lack"),
        ):
            share = float(self.count[label == predicted + shift].sum()) / n
            if share >= max(SHIFTED, accuracy + MORE):
                return (
                    f"{share:.0%} of the labels are the prediction {sign} 1, only"
                    f" {accuracy:.0%} the prediction itself: {question}, or are the"
                    " classes in another order?"
                )
        return None

    def _exchanged_classes(
        self, names: Sequence[str] | None, by_unit: UnitAnswers | None
    ) -> str | None:
        """Doubt the order of two classes whose names seem exchanged."""
        exchanged = self._exchanged(*np.divmod(self.code, self.k), by_unit)
        if exchanged is None:
            return None
        a, b, as_b, as_a = exchanged
        return (
            f"of the rows predicted as class {class_words(a, names)}, {as_b} are"
            f" labelled {class_words(b, names)} and {as_a} are right, and exchanging"
            f" the two names would raise the accuracy: {SAME_ORDER}"
        )

    def _by_chance(self, confidence: float, by_unit: UnitAnswers | None) -> str | None:
        """Doubt labels that confident predictions meet no more often than by chance."""
        n = int(self.count.sum())
        accuracy = self.n_right / n
        effective = float(n) if by_unit is None else by_unit.effective_rows
        predicted, label = np.divmod(self.code, self.k)
        of_predictions = np.bincount(predicted, self.count, self.k) / n
        of_labels = np.bincount(label, self.count, self.k) / n
        if min(np.count_nonzero(of_predictions), np.count_nonzero(of_labels)) < 2:
            return None  # every pairing has the same accuracy
        chance = float(of_predictions @ of_labels)
        gap = confidence - accuracy
        by_chance = HARDLY * np.sqrt(chance * (1.0 - chance) / effective)
        by_luck = HARDLY * np.sqrt(confidence * (1.0 - confidence) / effective)
        if accuracy - chance > by_chance or gap < max(FAR, by_luck):
            return None
        relation = "no better than chance"
        if accuracy < chance - by_chance:
            relation = "below chance"
        return (
            f"accuracy {accuracy:.1%} is {relation} ({chance:.1%}), at a mean"
            f" confidence of {confidence:.1%}: do labels and scores belong to the same"
            " rows and the same order of classes?"
        )

    def _exchanged(
        self, predicted: IntArray, label: IntArray, by_unit: UnitAnswers | None
    ) -> tuple[int, int, int, int] | None:
        """Classes (a, b) most clearly exchanged, and rows predicted as a with label b
        and a; None for none.
        """
        wrong = predicted != label
        if not wrong.any():
            return None
        a = predicted[wrong]
        b = label[wrong]
        as_b = self.count[wrong]
        as_a = self._count(a, a)
        b_as_a = self._count(b, a)
        b_as_b = self._count(b, b)
        gain = as_b + b_as_a - as_a - b_as_b
        better = (as_b > as_a) & (gain > 0.0)
        error = SURE * np.sqrt(as_b + b_as_a + as_a + b_as_b)
        order = np.argsort(np.where(better, -gain, 0.0), kind="stable")
        most = int(np.count_nonzero(better))
        if by_unit is not None:
            most = min(most, MOST_PAIRS)
        for i in order[:most].tolist():
            if by_unit is not None:
                spread = by_unit.exchange_error(int(a[i]), int(b[i]))
                error[i] = SURE_BY_UNIT * spread
            if gain[i] > error[i]:
                return int(a[i]), int(b[i]), int(as_b[i]), int(as_a[i])
        return None

    def _count(self, predicted: IntArray, label: IntArray) -> FloatArray:
        code = predicted * self.k + label
        place = np.minimum(np.searchsorted(self.code, code), len(self.code) - 1)
        return np.where(self.code[place] == code, self.count[place], 0).astype(
            np.float64
        )
