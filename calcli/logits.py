"""Kinds of scores, and scores of any kind as logits."""

from typing import Literal, get_args

import numpy as np

from calcli.errors import DataError
from calcli.numerics import AnyArray, FloatArray
from calcli.rounding import SUM_TOLERANCE
from calcli.zeros import Zeros

ClassScoreKind = Literal["logits", "log_probs", "probs"]
SCORE_KINDS: tuple[str, ...] = get_args(ClassScoreKind)

ScoreKind = Literal["logits", "log_probs", "probs", "confidence"]
"""Type of the scores: one score per class, or one confidence per row whose "label" is 1
if the answer is right.
"""


def to_logits(
    scores: AnyArray,
    kind: ScoreKind,
    zeros: Zeros | None = None,
) -> FloatArray:
    """Logits of scores (n, k) of a declared kind: probabilities enter as logarithms.

    zeros : what a probability of 0 counts as; None for unrounded numbers. Rows that
    miss a sum of 1 by rounding are divided by it. Returns (n, k) float64, natural log,
    where a constant per row has no meaning. Raises DataError for confidences.
    """
    if kind == "confidence":
        raise DataError(
            "these rows hold one confidence each and no scores of classes, which are"
            " needed here"
        )
    if kind != "probs":
        return scores.astype(np.float64, copy=False)
    zeros = zeros or Zeros.of_type(scores.dtype)
    log_p: FloatArray = zeros.log_of(scores)
    if zeros.sum_tolerance(scores.shape[1]) > SUM_TOLERANCE:
        log_p = log_p - np.log(divisors(scores))[:, None]
    return log_p


class ClassLogits:
    """Logits of some classes of all rows at a time, equal to those of whole rows.

    scores : (n, k) of a kind, in their own precision.
    """

    def __init__(
        self, scores: AnyArray, kind: ScoreKind, zeros: Zeros | None = None
    ) -> None:
        self.scores = scores
        self.kind = kind
        if kind == "probs":
            self.zeros = zeros or Zeros.of_type(scores.dtype)
            self.counts = self.zeros.counts(scores)
            self.log_divisors = np.log(divisors(scores))

    def of(self, classes: slice) -> FloatArray:
        """Logits of some classes, (n, classes) float64."""
        if self.kind != "probs":
            return to_logits(self.scores[:, classes], self.kind)
        log_p = self.zeros.log_of_columns(self.scores, self.counts, classes)
        return log_p - self.log_divisors[:, None]


MISSED_SUM = SUM_TOLERANCE - 1e-6
"""How far from 1 a sum of a row counts as missed.

Of three decimals many rows sum to 0.999 or 1.001: all of them are divided by it,
whatever the order of their classes and the float type leave in the last bits.
"""


def divisors(probs: AnyArray) -> FloatArray:
    """Sums of rows (n, k) that miss 1 by ``SUM_TOLERANCE`` or more, else 1."""
    sums = probs.astype(np.float64, copy=False).sum(axis=1)
    return np.where(np.abs(sums - 1.0) > MISSED_SUM, sums, 1.0)
