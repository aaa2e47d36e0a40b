"""What the values of arrays prove, whatever their names are.

- ``kind_of_scores``: probabilities, their logarithms, or other real numbers;
- ``class_indices``: values that are classes (``possible_classes``: that might be);
  ``agreement``: with the largest score, which tells labels from predictions;
  ``label_evidence``: they follow the scores;
- ``SignEvidence``, ``ranks_reversed``: the least score is the label, as of losses;
- ``is_one_hot``, ``is_ranked``, ``is_never_below_half``: what only looks like scores.

All of them look at all values, in blocks. None knows of names, files or options.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from string import ascii_lowercase
from typing import Annotated, Any

import numpy as np

from calcli.importers.ragged import Parts
from calcli.importers.spellings import class_of_each_word
from calcli.io.validate import look_like_probabilities
from calcli.metrics.label_agreement import (
    LabelAgreement,
    least_is_label,
    least_labels,
)
from calcli.numerics import AnyArray, BoolArray, IntArray, softmax
from calcli.records import Sums
from calcli.rounding import (
    MOST_TOLERANCE,
    SUM_TOLERANCE,
    Digits,
    digits_of_values,
    float_type,
)
from calcli.rows import ScoreKind
from calcli.statistics.areas import area_under_roc
from calcli.statistics.ties import Ranked

BLOCK_BYTES = 4 << 20
"""Bytes of scores that are looked at at once."""

FEWEST_RANKED = 4
"""Fewer rows may be sorted by accident."""

SURE = 5.0
"""Standard errors above the agreement of independent labels that prove something."""

ENOUGH_ROWS = 30
"""Rows from which values tell labels from predictions and from other columns."""

LIKELY = 3.0
"""Standard errors from which a column may be the label. By chance 3 of 1000 columns that
have nothing to do with the scores follow them as far."""

LEAST_SLOPE = 0.25
"""Slope from which classes that follow the scores are labels. Other columns that have
to do with the classes follow them less; so do labels of very overconfident scores."""

MOST_ABSENT = 10.0
"""Rows that a class should have, by the sum of its probabilities, where none has it:
then the column is something else. Of as many labels the chance is exp(-10) at most."""

PERCENT_TOLERANCE = 1.0


def blocks(scores: Any) -> Iterator[AnyArray]:
    """Pieces of scores (n, k) or (n,), or of those of units, in order."""
    if isinstance(scores, Parts):
        for unit in range(len(scores)):
            yield scores.of(unit)[None]
        return
    row_bytes = max(1, int(np.prod(scores.shape[1:]))) * scores.dtype.itemsize
    step = max(1, BLOCK_BYTES // row_bytes)
    for start in range(0, scores.shape[0], step):
        yield np.asarray(scores[start : start + step])


def blocks_beside(scores: Any, rows: Any) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Pieces of scores, and the same rows of another array, in order."""
    start = 0
    for block in blocks(scores):
        yield block, np.asarray(rows[start : start + len(block)])
        start += len(block)


# ---- the kind of scores

PERCENTAGES = "every row sums to 100, as percentages do"
"""Reason why no kind is proven of scores that ``--percent`` makes probabilities."""


@dataclass(frozen=True)
class KindEvidence:
    """Kind of scores that values prove, None if they prove none; the reason.

    option : words of the option that the reason names, if any.
    """

    kind: ScoreKind | None
    reason: str
    option: Sequence[str] = ()


def kind_of_scores(scores: Any) -> KindEvidence:
    """Kind that all values prove.

    scores : (n, k) or (n,), or of positions, whose classes are on the last axis or on
    axis 1. Rows that are not finite prove nothing; they are refused elsewhere.
    """
    if scores.ndim < 2 or scores.shape[-1] == 1:
        return _kind_of_one_column(scores)
    values = _range_of(scores)
    for axis in sorted({1, scores.ndim - 1}):
        proof = _kind_by_sums(scores, axis, values)
        if proof is not None:
            return proof
    if values.lowest >= 0 and values.highest <= 1:
        return KindEvidence(None, "all values lie in [0, 1], but rows do not sum to 1")
    if values.lowest >= 0 and values.are_whole:
        return KindEvidence(None, "all values are whole numbers")
    if not np.isfinite(values.lowest):
        return KindEvidence(None, "some values are infinite")
    return KindEvidence("logits", "rows are no probabilities")


@dataclass(frozen=True)
class _Range:
    """Least and largest value of the rows without NaN."""

    lowest: float
    highest: float
    are_whole: bool


def _range_of(scores: Any) -> _Range:
    lowest, highest, are_whole = np.inf, -np.inf, True
    for block in blocks(scores):
        values = _rows_of_numbers(block)
        lowest = min(lowest, float(values.min(initial=np.inf)))
        highest = max(highest, float(values.max(initial=-np.inf)))
        are_whole = are_whole and bool((values == np.floor(values)).all())
    return _Range(lowest, highest, are_whole)


def _rows_of_numbers(block: AnyArray) -> AnyArray:
    """The rows without NaN, in float64."""
    values = block.astype(np.float64)
    rows = values.reshape(len(values), -1)
    return values[~np.isnan(rows).any(axis=1)]


def _kind_by_sums(scores: Any, axis: int, values: _Range) -> KindEvidence | None:
    """Kind that the sums along an axis prove; None if they prove nothing."""
    if values.lowest >= 0:
        missed = _most_missed(scores, axis, 1.0)
        if missed <= SUM_TOLERANCE:
            return KindEvidence("probs", "every row sums to 1")
        may_be_rounded = values.highest <= 1 and missed <= MOST_TOLERANCE
        if may_be_rounded and missed <= _tolerance_of_digits(scores, axis):
            return KindEvidence("probs", "every row sums to 1 up to its rounding")
        if _most_missed(scores, axis, 100.0) <= PERCENT_TOLERANCE:
            return KindEvidence(None, PERCENTAGES)
    missed = np.inf
    if values.highest <= SUM_TOLERANCE:
        missed = _most_missed(scores, axis, 1.0, are_logs=True)
    if missed <= SUM_TOLERANCE:
        return KindEvidence("log_probs", "the exponentials of every row sum to 1")
    return None


def _most_missed(
    scores: Any, axis: int, total: float, *, are_logs: bool = False
) -> float:
    """How far a sum along the axis misses the total at most; inf without any sum.

    Zeros only are no answer, which reading refuses: they prove nothing.
    """
    most = -np.inf
    for block in blocks(scores):
        values = _rows_of_numbers(block)
        sums = (np.exp(values) if are_logs else values).sum(axis=axis)
        missed = np.abs(sums[sums != 0.0] - total)
        most = max(most, float(missed.max(initial=-np.inf)))
    return most if most >= 0 else np.inf


def _tolerance_of_digits(scores: Any, axis: int) -> float:
    """How far sums along the axis may miss 1 by the rounding that all numbers show."""
    kind = float_type(np.dtype(scores.dtype))
    digits: Digits | None = None
    for block in blocks(scores):
        rows = np.moveaxis(_rows_of_numbers(block), axis, -1)
        if not rows.size:
            continue
        of_block = digits_of_values(rows.reshape(-1, rows.shape[-1]), kind)
        digits = of_block if digits is None else digits + of_block
    if digits is None:
        return 0.0
    return digits.sum_tolerance(kind, scores.shape[axis]) * (1.0 + 1e-6)


def _kind_of_one_column(scores: Any) -> KindEvidence:
    """One score a row proves no kind: it may be of class 1, or a confidence."""
    values = _range_of(scores)
    if values.lowest >= 0 and values.highest <= 1:
        return KindEvidence(None, "one column in [0, 1] proves nothing")
    if values.highest > 0:  # a logarithm of a probability is never positive
        return KindEvidence(
            None,
            "some values above 0 and some outside [0, 1]: take --kind logits if they"
            " are the scores",
            ("--kind", "logits"),
        )
    return KindEvidence(
        None, "values lie outside [0, 1], so they cannot be probabilities"
    )


# ---- labels and predictions


def class_indices(
    values: AnyArray, k: int, names: Sequence[str] | None
) -> IntArray | None:
    """Classes (n,) that the values are, or None.

    Words are looked up in the names of the classes; whole numbers are their places,
    unless the names are numbers. At least two classes must occur.
    """
    if values.ndim != 1 or not len(values):
        return None
    if values.dtype.kind in "OUS":
        return _indices_of_words(values, names)
    if values.dtype.kind not in "iu":
        return None
    if values.min() == values.max():
        return None
    if values.min() < 0 or values.max() >= k:
        return _indices_of_words(values, names)
    return values.astype(np.int64)


def possible_classes(
    values: AnyArray, k: int, names: Sequence[str] | None
) -> IntArray | None:
    """Classes (n,) as which labels might be read; None where that is unclear.

    Beside those of ``class_indices`` any two values of two classes, letters (A is class
    0), and whole numbers from 1 to k.
    """
    if values.ndim != 1 or values.dtype.kind not in "biufU":
        return None
    if names:
        named = class_indices(values, k, names)
        if named is not None:
            return named
    distinct, inverse = np.unique(values, return_inverse=True)
    if k == 2 and len(distinct) == 2:
        return inverse
    if values.dtype.kind == "U":
        letters = list(ascii_lowercase[:k])
        return class_indices(np.char.lower(values), k, letters)
    if values.dtype.kind == "f" and not (values % 1).any():
        values = values.astype(np.int64)
    if counts_from_1(values, k):
        values = values - 1
    return class_indices(values, k, None)


def counts_from_1(values: AnyArray, k: int) -> bool:
    """True for whole numbers from 1 to k, k among them."""
    if values.dtype.kind not in "iu" or not values.size:
        return False
    return bool(values.min() >= 1 and values.max() == k)


def _indices_of_words(values: AnyArray, names: Sequence[str] | None) -> IntArray | None:
    classes = class_of_each_row(values.tolist(), names or ())
    if (classes < 0).any() or len(np.unique(classes)) < 2:
        return None
    return classes


def class_of_each_row(words: Sequence[Any], names: Sequence[str]) -> IntArray:
    """Index of the class that the word of every row names (n,); -1 for none."""
    texts = list(map(str, words))
    distinct = list(dict.fromkeys(texts))
    classes = class_of_each_word(distinct, names).tolist()
    class_of = dict(zip(distinct, classes, strict=True))
    return np.array([class_of[text] for text in texts], dtype=np.int64)


@dataclass(frozen=True)
class Agreement(Sums):
    """In how many of n rows a class has the largest score, of k classes. Adds."""

    hits: int
    n: int
    k: Annotated[int, max]

    @property
    def share(self) -> float:
        return self.hits / self.n


def has_largest(scores: AnyArray, classes: IntArray) -> BoolArray:
    """Mask of the rows whose class has the largest score. Ties count.

    scores : (n, k). Of classes that are none of the k no row has it.
    """
    last = scores.shape[1] - 1
    is_class = (classes >= 0) & (classes <= last)
    at_class = scores[np.arange(len(scores)), classes.clip(0, last)]
    return np.asarray(is_class & (at_class == scores.max(axis=1)))


def agreement(scores: Any, classes: IntArray) -> Agreement:
    """How often these classes have the largest score.

    scores : (n, k) with k > 1.
    """
    hits = 0
    for block, index in blocks_beside(scores, classes):
        hits += int(has_largest(block, index).sum())
    return Agreement(hits, len(classes), scores.shape[1])


@dataclass(frozen=True)
class LabelEvidence:
    """How far the probability of some classes exceeds that of the same in other rows.

    z : in standard errors of all orders of the n rows. slope : over the excess of
    classes that are drawn from the probabilities. absent : rows that the probabilities
    expect of a class that no row has, of the class where they are most.
    """

    z: float
    slope: float
    n: int
    absent: float = 0.0

    @property
    def is_proven(self) -> bool:
        """True for classes that are surely the labels, not another column."""
        if self.absent > MOST_ABSENT:
            return False
        return self.z > SURE and self.slope >= LEAST_SLOPE

    @property
    def is_likely(self) -> bool:
        """True for classes that may be the labels, of losses as well; of few rows for
        all. Not where a class is missing that the scores expect.
        """
        if self.absent > MOST_ABSENT:
            return False
        return self.n < ENOUGH_ROWS or abs(self.z) > LIKELY


def label_evidence(
    scores: Any, classes: IntArray, kind: ScoreKind | None
) -> LabelEvidence | None:
    """How far classes follow the probabilities of the scores; None if these are equal.

    scores : (n, k). kind : as far as it is known.
    """
    n, k = scores.shape
    frequency = np.bincount(classes, minlength=k)[:k] / n
    at_class = 0.0  # sum of the probabilities of the classes
    sums = np.zeros(k)
    squares = 0.0  # of all probabilities
    apart = 0.0  # squared differences from the mean of the row
    for block, labels in blocks_beside(scores, classes):
        values = block.astype(np.float64)
        p = values if kind == "probs" else softmax(values)
        at_class += float(p[np.arange(len(p)), labels].sum())
        sums += p.sum(axis=0)
        squares += float((p**2).sum())
        apart += float((((p - (p @ frequency)[:, None]) ** 2) @ frequency).sum())
    mean = sums / n
    excess = at_class / n - float(mean @ frequency)
    of_drawn = squares / n - float(mean @ mean)
    # Variance of the excess over all orders of the rows (Hoeffding 1951).
    difference = mean - mean @ frequency
    variance = (apart / n - float(frequency @ difference**2)) / max(n - 1, 1)
    if not variance > 0 or not of_drawn > 0:
        return None
    return LabelEvidence(
        z=excess / sqrt(variance),
        slope=excess / of_drawn,
        n=n,
        absent=float(sums[frequency == 0].max(initial=0.0)),
    )


@dataclass(frozen=True)
class SignEvidence(Sums):
    """How often labels have the largest score and, alone, the least. Adds."""

    answers: LabelAgreement
    n_least: int
    n: int

    @property
    def text(self) -> str:
        """What shows that the scores are of reversed sign."""
        return least_is_label(self.n_least, self.n)

    @property
    def is_reversed(self) -> bool:
        """True if the least score is the label far more often than the largest."""
        return self.answers.is_reversed(self.n_least)


def sign_of(scores: AnyArray, classes: IntArray) -> SignEvidence:
    """How often these classes have the largest, and alone the least, of the scores.

    scores : (n, k) with k > 2.
    """
    n, k = scores.shape
    prediction = scores.argmax(axis=1)
    answers = LabelAgreement.of(prediction, classes, k)
    return SignEvidence(answers, least_labels(scores, prediction, classes), n)


# ---- what only looks like scores


def is_one_hot(scores: Any) -> bool:
    """True if every row is a bare prediction: zeros and a one."""
    width = 1 if len(scores.shape) == 1 else scores.shape[1]
    for raw in blocks(scores):
        block = raw.reshape(-1, width)
        if not ((block == 0) | (block == 1)).all():
            return False
        if width > 1 and not (block.sum(axis=1, dtype=np.float64) == 1).all():
            return False
    return True


def are_probabilities(scores: Any) -> bool:
    """True if every row lies in [0, 1] and, unless it is one number, sums to 1."""
    width = 1 if len(scores.shape) == 1 else scores.shape[1]
    with np.errstate(invalid="ignore", over="ignore"):  # NaN is refused elsewhere
        return all(
            look_like_probabilities(block.reshape(-1, width).astype(np.float64))
            for block in blocks(scores)
        )


def is_ranked(scores: Any) -> bool:
    """True if every row is sorted, the largest first: ranks, not classes."""
    if len(scores.shape) != 2 or scores.shape[1] < 3 or scores.shape[0] < FEWEST_RANKED:
        return False
    for block in blocks(scores):
        # compared, not subtracted, since scores may be infinite
        left, right = block[:, :-1], block[:, 1:]
        if (right > left).any() or not (right < left).any(axis=1).all():
            return False
    return True


def is_never_below_half(scores: Any) -> bool:
    """True if all values lie in [1/2, 1], as confidences of two classes do."""
    return all(bool(((block >= 0.5) & (block <= 1)).all()) for block in blocks(scores))


# ---- scores of reversed sign


def ranks_reversed(margins: AnyArray, labels: IntArray) -> bool:
    """True if rows of class 1 have lower scores, by far more than they vary.

    margins : (n,) score of class 1 less that of class 0. The area under the ROC curve
    is compared with 1/2 in standard errors of its null distribution (Mann and Whitney
    1947).
    """
    above_half = _area_above_half(margins, labels)
    return above_half is not None and above_half < -SURE


def ranks_apart(margins: AnyArray, labels: IntArray) -> bool:
    """True if the scores of class 1 and of class 0 may well differ, in either way."""
    above_half = _area_above_half(margins, labels)
    if above_half is None or len(labels) < ENOUGH_ROWS:
        return True
    return abs(above_half) > LIKELY


def ranks_as_labelled(margins: AnyArray, labels: IntArray) -> bool:
    """True if rows of class 1 have higher scores, by more than they may vary."""
    above_half = _area_above_half(margins, labels)
    return above_half is not None and above_half > LIKELY


def _area_above_half(margins: AnyArray, labels: IntArray) -> float | None:
    """Area under the ROC curve less 1/2, in standard errors; None for one class."""
    if len(np.unique(labels)) < 2:
        return None
    outcomes = (labels == 1).astype(np.float64)
    ranked = Ranked.of(margins.astype(np.float64), outcomes)
    area = area_under_roc(ranked)
    n_1, n_0 = ranked.right, ranked.wrong
    error = sqrt((n_0 + n_1 + 1) / (12 * n_0 * n_1))
    return None if area is None else (area - 0.5) / error
