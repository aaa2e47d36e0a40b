"""Agreement of predictions and labels: the same rows, and the same classes in the same order?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.rows import class_words
from calcli.statistics.class_ranking import ClassRanking
from calcli.statistics.units import Units, design_effect

FEWEST = 50  # fewest rows whose labels are checked against the predictions

SURE = 5.0  # standard errors from which two classes count as exchanged, the clearest of all pairs

SURE_BY_UNIT = (
    3.5  # the same where the error is that of units, which hold fewer answers
)

HARDLY = 3.0  # standard errors above the accuracy of random labels up to which one is hardly better

FAR = 0.1  # overconfidence from which an accuracy that is hardly better than random is reported

EXPECTED = 20.0  # expected errors from which no error at all is reported: it has probability e^-20

FEW_WRONG = 0.05  # proportion of wrong predictions up to which labels of one class only are not reported

MOST_PAIRS = (
    50  # pairs of classes with the largest gains, whose errors by unit are computed
)

SHIFTED, MORE = 0.3, 0.2
"""Proportion of labels equal to the prediction +1 or -1, and its excess over the accuracy, that are reported."""


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
    """Rows of each (prediction, label) pair found. Adds. code : (m,) prediction * k + label, ascending. count : (m,)
    rows."""

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
        return cls(k, met := np.flatnonzero(count), count[met])

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

    def all_right(self, confidence: float, by_unit: UnitAnswers | None) -> list[str]:
        """The question whether labels without a single error are predictions.

        confidence : mean confidence of the rows. by_unit : the same rows where they have
        units.
        """
        n = int(self.count.sum())
        if n < FEWEST or self.k < 2 or self.n_right < n:
            return []
        expected = n * (1.0 - confidence)
        by_luck = expected
        if by_unit is not None:
            by_luck = min(expected, by_unit.expected_errors)
        if by_luck < EXPECTED:
            return []
        found = f"all of {n} predictions are right, where their confidences expect"
        return [
            f"{found} {expected:.0f} errors: are the labels the model's own predictions?"
        ]

    def doubts(
        self,
        confidence: float,
        names: Sequence[str] | None,
        by_unit: UnitAnswers | None = None,
        ranking: ClassRanking | None = None,
    ) -> list[str]:
        """Reason to doubt that the labels belong to these scores, one sentence at most.

        confidence : mean confidence of the rows. names : of the classes. by_unit : the
        same rows where they have units. ranking : of two classes, which decides in place
        of the accuracy where it is known.
        """
        n, k = int(self.count.sum()), self.k
        if n < FEWEST or k < 2:
            return []
        predicted, label = np.divmod(self.code, k)
        right = predicted == label
        accuracy = float(self.count[right].sum()) / n
        effective = float(n) if by_unit is None else by_unit.effective_rows
        wrong = n - int(self.count[right].sum())
        if (label == label[0]).all() and wrong >= max(EXPECTED, FEW_WRONG * n):
            chosen = f"all {n} labels are class {class_words(label[0], names)}, and {wrong} predictions are not"
            why = "rows chosen by their label do not show whether probabilities are calibrated"
            return [f"{chosen}: {why}; are those of the other classes missing?"]
        for by, why in (
            (1, "are labels counted from 1"),
            (-1, "do the scores begin with a class that labels lack"),
        ):
            share = float(self.count[label == predicted + by].sum()) / n
            if k > 2 and share >= max(SHIFTED, accuracy + MORE):
                beside = f"{share:.0%} of the labels are the prediction {'plus' if by > 0 else 'minus'} 1"
                own = f"only {accuracy:.0%} the prediction itself"
                return [f"{beside}, {own}: {why}, or are the classes in another order?"]
        swapped = None
        if ranking is None or ranking.is_reversed:
            swapped = self._exchanged(predicted, label, by_unit)
        if swapped is not None:
            (a, b), as_b, as_a = (
                (class_words(c, names) for c in swapped[:2]),
                *swapped[2:],
            )
            rows = f"of the rows predicted as class {a}, {as_b} are labelled {b} and {as_a} are right"
            better = "and exchanging the two names would raise the accuracy"
            return [
                f"{rows}, {better}: are the classes of scores and labels in the same order?"
            ]
        if ranking is not None and ranking.is_reversed:
            reverse = f"the scores rank the two classes in reverse (ROC AUC {ranking.area:.2f})"
            return [
                f"{reverse}: are the classes of scores and labels in the same order?"
            ]
        if ranking is not None and not ranking.is_chance:
            return []  # the labels belong to the scores, however wrong these are
        shares = [np.bincount(c, self.count, k) / n for c in (predicted, label)]
        chance = float(shares[0] @ shares[1])
        vary = (
            min(np.count_nonzero(share) for share in shares) > 1
        )  # else every pairing has the same accuracy
        surplus = accuracy - chance
        gap = confidence - accuracy
        by_chance = HARDLY * np.sqrt(chance * (1.0 - chance) / effective)
        by_luck = HARDLY * np.sqrt(confidence * (1.0 - confidence) / effective)
        if vary and surplus <= by_chance and gap >= max(FAR, by_luck):
            hardly = f"accuracy {accuracy:.4f} is no better than chance ({chance:.4f})"
            sure = f"at a mean confidence of {confidence:.4f}"
            return [
                f"{hardly}, {sure}: do labels and scores belong to the same rows and the same order of classes?"
            ]
        return []

    def _exchanged(
        self, predicted: IntArray, label: IntArray, by_unit: UnitAnswers | None
    ) -> tuple[int, int, int, int] | None:
        """Classes (a, b) most clearly exchanged, and rows predicted as a with label b and a; None for none."""
        wrong = predicted != label
        if not wrong.any():
            return None
        a, b, as_b = predicted[wrong], label[wrong], self.count[wrong]
        as_a, back, own = self._count(a, a), self._count(b, a), self._count(b, b)
        gain = as_b + back - as_a - own
        better = (as_b > as_a) & (gain > 0.0)
        error = SURE * np.sqrt(as_b + back + as_a + own)
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
