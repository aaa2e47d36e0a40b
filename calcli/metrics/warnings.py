"""Warnings about labelled rows.

They say what limits the conclusions from them, or suggests that labels do not match.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calcli.metrics.label_agreement import REVERSED, LabelAgreement, least_is_label
from calcli.metrics.rowtable import RowTable
from calcli.number_words import noun
from calcli.numerics import FloatArray, IntArray
from calcli.rows import class_words
from calcli.statistics.class_ranking import ClassRanking

if TYPE_CHECKING:  # it would load every metric
    from calcli.metrics.running_sums import RunningSums

ROWS_PER_BIN = 50

FEWEST_NEIGHBOURS = 100  # fewest rows whose neighbours are compared
ALIKE = 4.0  # standard score above which neighbours count as alike

FEW_TIED = 0.05
"""Proportion of labels that share the highest score up to which it is not said."""

FEWEST_EACH = 5
"""Fewest rows per class and group for which their joint means are subtracted."""

ROUNDS = 5  # rounds of subtracting means

IMPOSSIBLE = 1e-6
"""Expected labels of a class below which any label of it is unexpected."""


def data_warnings(
    n: int, classes: int | None, spread: float, bins: int | None = None
) -> list[str]:
    """Warn about rows that are evaluated or fitted to.

    n : rows. classes : how many occur, None where there are none. spread : largest
    minus smallest confidence. bins : None where none are asked for.
    """
    warnings = []
    if bins is not None and n < ROWS_PER_BIN * bins:
        rows = f"{n} {noun(n, 'row')}"
        warnings.append(
            f"{rows} in {bins} bins: even a calibrated model's ECE is well above 0"
            " here; read it beside its expected value, or use fewer --bins"
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


def tie_doubts(table: "RowTable | RunningSums") -> list[str]:
    """Labels that share the highest score, so that the order of classes makes the
    accuracy.
    """
    n = table.n
    tied = table.counts.get("tied_labels", 0)
    agreement = table.agreement
    if agreement is None or tied < max(FEWEST_EACH, FEW_TIED * n):
        return []
    right = agreement.n_right - table.counts.get("tied_labels_right", 0)
    low = right / n
    high = (right + tied) / n
    return [
        f"{tied} of {n} labels share the highest score: accuracy is {low:.2f} to"
        f" {high:.2f}, by the order of classes"
    ]


def unit_warnings(table: RowTable) -> list[str]:
    """Warn where rows that count as independent seem to depend on each other.

    table : in the order of the file. Neighbours are alike where z = sum r_i r_(i+1) /
    sqrt(sum (r_i r_(i+1))^2) is large. r_i is the outcome after its means by confidence
    (fifteen bins of equally many rows), label, prediction and group are subtracted in
    turn, so that a file in the order of one of these does not count as alike. There is
    no warning for files in the order of the confidence, or of right and wrong answers.
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
        f"neighbouring rows are alike (z = {z:.1f}): intervals and p-values say too"
        " much; if they belong together (a patient, an image, a question), say so with"
        " --unit NAME, and if the file is in the order of a column, with --group-by"
        " NAME"
    ]


def _is_sorted(values: FloatArray) -> bool:
    """Test whether values (n,) mostly rise, or mostly fall."""
    steps = np.diff(values)
    rises = np.count_nonzero(steps > 0)
    falls = np.count_nonzero(steps < 0)
    return bool(2 * abs(rises - falls) > len(values))


def _in_order(code: IntArray) -> bool:
    """Test whether the rows lie in runs of equal code, about one run for each of few
    codes.
    """
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
    if kind == "confidence" and zeros == 1:
        give = "gives what happened"
    elif kind == "confidence":
        give = "give what happened (wrong at 1, right at 0)"
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
    """Doubts whether the labels belong to the scores. names : of the classes."""
    agreement = table.agreement
    if agreement is not None and not table.few_units:
        doubt = _reversed_scores(table, agreement) or agreement.doubt(
            table.mean_confidence, names, table.answers, _ranking(table)
        )
        if doubt is not None:
            return [doubt]
    stats = table.classes
    if stats is None:
        return []
    # Find the class with most labels among those that the scores exclude.
    total = stats.score.sum(axis=1) / stats.weight.sum(axis=1) * table.n
    count = np.where(total < IMPOSSIBLE, table.label_counts, 0)
    c = int(count.argmax())
    if count[c] < FEWEST_EACH:
        return []
    return [
        f"{count[c]} labels are class {class_words(c, names)}, whose probabilities"
        f" sum to {total[c]:.1g} over all rows: does the model have this class, and"
        " are the classes of scores and labels in the same order?"
    ]


def _reversed_scores(
    table: "RowTable | RunningSums", agreement: LabelAgreement
) -> str | None:
    """Doubt scores of three and more classes of which the least is the label."""
    n_least = table.least_labels
    if not agreement.is_reversed(n_least, table.answers):
        return None
    return f"{least_is_label(n_least, table.n)}: {REVERSED}"


def label_warnings(
    table: "RowTable | RunningSums", names: Sequence[str] | None
) -> list[str]:
    """Doubts about the labels, ties, and the question whether labels are predictions.

    A model that is always right is underconfident, which is its verdict: the question
    is no reason to withhold that. names : of the classes.
    """
    doubts = [*tie_doubts(table), *label_doubts(table, names)]
    agreement = table.agreement
    if doubts or agreement is None or table.few_units:
        return doubts
    question = agreement.all_right(table.mean_confidence, table.answers)
    return [] if question is None else [question]


def _ranking(table: "RowTable | RunningSums") -> ClassRanking | None:
    """Rank two classes by the scores.

    None of more classes, or of too many rows for a table.
    """
    if not isinstance(table, RowTable) or table.log_odds is None or table.k != 2:
        return None
    return ClassRanking.of(table.log_odds, table.y, table.units)
