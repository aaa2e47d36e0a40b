"""Whether classes follow scores as labels do, or have the largest score as predictions."""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any

import numpy as np

from calcli.importers.evidence.blocks import blocks_beside
from calcli.numerics import AnyArray, BoolArray, IntArray, softmax
from calcli.records import Sums
from calcli.rows import ScoreKind

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


@dataclass(frozen=True)
class Agreement(Sums):
    """In how many of n rows a class has the largest score, of k classes. Adds."""

    hits: int
    n: int
    k: Annotated[int, max]

    @property
    def share(self) -> float:
        return self.hits / self.n

    @property
    def is_of_predictions(self) -> bool:
        """True for the largest score in each of enough rows, as no labels have."""
        return self.share == 1 and self.n >= ENOUGH_ROWS


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
