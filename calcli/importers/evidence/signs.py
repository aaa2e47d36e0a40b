"""Whether scores rank classes the wrong way round, as losses and distances do."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from calcli.importers.evidence.label_evidence import ENOUGH_ROWS, LIKELY, SURE
from calcli.metrics.label_agreement import LabelAgreement, least_is_label, least_labels
from calcli.numerics import AnyArray, IntArray
from calcli.records import Sums
from calcli.statistics.areas import area_under_roc
from calcli.statistics.ties import Ranked


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
