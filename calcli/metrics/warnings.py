"""Warnings about labelled rows.

They say what limits the conclusions from them, or suggests that labels do not match.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.rows import class_words
from calcli.statistics.units import Units, design_effect

if TYPE_CHECKING:
    from calcli.metrics.class_ranking import ClassRanking
    from calcli.metrics.out_of_core import RunningSums
    from calcli.metrics.rowtable import RowTable

ROWS_PER_BIN = 50

FEWEST_NEIGHBOURS = 100  # fewest rows whose neighbours are compared
ALIKE = 4.0  # standard score above which neighbours count as alike

FEWEST_EACH = 5
"""Fewest rows per class and group for which their joint means are subtracted."""

ROUNDS = 5  # rounds of subtracting means


def data_warnings(
    n: int, classes: int | None, spread: float, bins: int | None = None
) -> list[str]:
    """Warn about rows that are evaluated or fitted to.

    n : rows. classes : how many occur, None where there are none. spread : largest minus
    smallest confidence. bins : None where none are asked for.
    """
    warnings = []
    if bins is not None and n < ROWS_PER_BIN * bins:
        rows = "1 row" if n == 1 else f"{n} rows"
        warnings.append(
            f"{rows} in {bins} bins: even a calibrated model's ECE is well above 0 here;"
            " read it beside its expected value, or use fewer --bins"
        )
    if classes == 1:
        warnings.append(
            "all labels are the same class: this says nothing about the others"
        )
    if n > 1 and spread == 0.0:
        warnings.append(
            "all confidences are equal: calibration errors see one point only"
        )
    return warnings


def unit_warnings(table: "RowTable") -> list[str]:
    """Warn where rows that count as independent seem to depend on each other.

    table : in the order of the file. Neighbours are alike where
    z = sum r_i r_(i+1) / sqrt(sum (r_i r_(i+1))^2) is large. r_i is the outcome after its
    means by confidence (fifteen bins of equally many rows), label, prediction and group
    are subtracted in turn, so that a file in the order of one of these does not count as
    alike. There is no warning for files in the order of the confidence, or of right and
    wrong answers.
    """
    n = table.n
    if table.units is not None or table.weight is not None or n < FEWEST_NEIGHBOURS:
        return []
    confidence_bin = np.empty(n, dtype=np.int64)
    order = np.argsort(table.confidence, kind="stable")
    confidence_bin[order] = np.arange(n) * 15 // n
    if _alike(table.correct, [confidence_bin]) <= ALIKE:
        return []
    # Subtract the means by what else the file may be in the order of.
    columns = [table.y, table.prediction] if table.k > 1 else []
    answers = [table.correct.astype(np.int64), table.y * table.k + table.prediction]
    if table.group is not None:
        group = np.unique(table.group, return_inverse=True)[1].astype(np.int64)
        n_groups = group.max() + 1
        joint = []
        if n > FEWEST_EACH * table.k * n_groups:
            joint = [group * table.k + column for column in columns]
        columns += [group, *joint]
        answers += [group * (table.k + 1) ** 2 + answer for answer in answers]
    z = _alike(table.correct, [confidence_bin, *columns])
    if z <= ALIKE or _is_sorted(table.confidence) or any(map(_in_order, answers)):
        return []
    return [
        f"neighbouring rows are alike (z = {z:.1f}): intervals and p-values say too much;"
        " if they belong together (a patient, an image, a question), say so with"
        " --unit NAME, and if the file is in the order of a column, with --group-by NAME"
    ]


def _is_sorted(values: FloatArray) -> bool:
    """Test whether values (n,) mostly rise, or mostly fall."""
    steps = np.diff(values)
    rises = np.count_nonzero(steps > 0)
    falls = np.count_nonzero(steps < 0)
    return bool(2 * abs(rises - falls) > len(values))


def _in_order(code: IntArray) -> bool:
    """Test whether the rows lie in runs of equal code, about one run for each of few codes."""
    values = len(np.unique(code))
    return bool(
        2 * values < len(code) and np.count_nonzero(np.diff(code)) < 1.2 * values
    )


def _alike(outcome: FloatArray, columns: Sequence[IntArray]) -> float:
    """Compute the standard score of the products of neighbouring residuals.

    columns : (n,) each, whose means are subtracted in turn. The score is 0 where no
    residuals are left.
    """
    residual = outcome
    rounds = ROUNDS if len(columns) > 1 else 1
    for _ in range(rounds):
        for column in columns:
            count = np.maximum(np.bincount(column), 1)
            mean = np.bincount(column, residual) / count
            residual = residual - mean[column]
    pairs = residual[1:] * residual[:-1]
    spread = float(np.sqrt(pairs @ pairs))
    if not spread > 0.0:
        return 0.0
    return float(pairs.sum()) / spread


def zero_warnings(
    zeros: int,
    n: int,
    kind: str,
    counts_as: str,
    between: Sequence[float] | None = None,
) -> list[str]:
    """Warn about an NLL of n rows, some of which give their label a probability of 0.

    counts_as : what that counts as. between : range in which the NLL lies, where it
    depends on them.
    """
    if not zeros:
        return []
    give = "gives its label" if zeros == 1 else "give their label"
    if kind == "confidence":
        give = (
            "gives what happened"
            if zeros == 1
            else "give what happened (wrong at 1, right at 0)"
        )
    text = (
        f"{zeros} of {n} samples {give} a probability of exactly 0,"
        f" which counts as {counts_as} in the NLL"
    )
    if between is not None:
        lower, higher = between
        text += (
            f": it lies between {lower:.4g} and {higher:.4g}; more digits would help"
        )
    return [text]


def label_doubts(
    table: "RowTable | RunningSums", names: Sequence[str] | None
) -> list[str]:
    """Warn where the labels do not seem to match the scores. names : of the classes."""
    agreement = table.agreement
    if agreement is not None and not table.few_units:
        doubts = agreement.doubts(
            table.mean_confidence, names, table.answers, _ranking(table)
        )
        if doubts:
            return doubts
    stats = table.classes
    if stats is None:
        return []
    # Find the class with most labels among those that the scores exclude.
    total = stats.score.sum(axis=1) / stats.weight.sum(axis=1) * table.n
    count = np.where(total < NONE, table.label_counts, 0)
    c = int(count.argmax())
    if count[c] < FEWEST_EACH:
        return []
    return [
        f"{count[c]} labels are class {class_words(c, names)}, whose probabilities"
        f" sum to {total[c]:.1g} over all rows: does the model have this class, and"
        " are the classes of scores and labels in the same order?"
    ]


def _ranking(table: "RowTable | RunningSums") -> "ClassRanking | None":
    """Rank two classes by the scores.

    None of more classes, or of too many rows for a table.
    """
    from calcli.metrics.class_ranking import ClassRanking  # imports row tables

    odds = getattr(table, "log_odds", None)
    if table.k != 2 or odds is None:
        return None
    rows = cast("RowTable", table)
    return ClassRanking.of(odds, rows.y, rows.units)


# ---- agreement of predictions and labels: the same rows, and the same classes in the same order?


FEWEST = 50  # fewest rows whose labels are checked against the predictions
SURE = 5.0  # standard errors from which two classes count as exchanged, the clearest of all pairs
SURE_BY_UNIT = (
    3.5  # the same where the error is that of units, which hold fewer answers
)
HARDLY = 3.0  # standard errors above the accuracy of random labels up to which one is hardly better
FAR = 0.1  # overconfidence from which an accuracy that is hardly better than random is reported
NONE = 1e-6  # expected labels of a class below which any label of it is unexpected
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

    def doubts(
        self,
        confidence: float,
        names: Sequence[str] | None,
        by_unit: UnitAnswers | None = None,
        ranking: "ClassRanking | None" = None,
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
        expected, effective = n * (1.0 - confidence), float(n)
        if by_unit is not None:
            expected = min(expected, by_unit.expected_errors)
            effective = by_unit.effective_rows
        if right.all() and expected >= EXPECTED:
            own = (
                f"all of {n} predictions are right, where their confidences expect"
                f" {n * (1.0 - confidence):.0f} errors"
            )
            return [f"{own}: are the labels the model's own predictions?"]
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
