"""Refuse labels whose places another order or another first number explains better."""

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calcli.errors import DataError
from calcli.importers.evidence.label_evidence import SURE
from calcli.items import counts_up
from calcli.numerics import AnyArray, IntArray

MOST_COMPARED = 1 << 13
"""Rows whose largest score is held against their label."""

FEWEST_CLASSES = 3
"""Of two classes the scores may be wrong more often than not for other reasons."""


class Answers(NamedTuple):
    """Labels of some rows, and the column of the largest score of each."""

    labels: IntArray
    prediction: IntArray

    @classmethod
    def of(cls, scores: Any, labels: AnyArray, ignore: Sequence[float]) -> "Answers":
        """Answers of the rows whose label is not to be ignored."""
        rows = np.asarray(scores[:MOST_COMPARED])
        some = labels[: len(rows)]
        is_used = ~np.isin(some, ignore)
        return cls(some[is_used], rows.argmax(axis=1)[is_used])

    def share(self, labels: IntArray) -> float:
        """How often the prediction is one of these labels."""
        return float((self.prediction == labels).mean())

    def fit_better(self, others: IntArray) -> bool:
        """True if other labels are the prediction far more often than these are.

        The exact counts of rows that only one of them explains differ by more than
        they vary (McNemar 1947).
        """
        n_others = np.count_nonzero(self.prediction == others)
        n_given = np.count_nonzero(self.prediction == self.labels)
        return bool(n_others - n_given > SURE * np.sqrt(n_others + n_given))


def refuse_counted_from_1(answers: Answers, k: int, where: str) -> None:
    """Raise DataError for labels 1 to less than k that are the prediction plus 1."""
    labels = answers.labels
    if k < FEWEST_CLASSES or not len(labels) or labels.min() < 1 or labels.max() >= k:
        return
    if not answers.fit_better(labels - 1):
        return
    from_1 = ",".join(map(str, range(1, k + 1)))
    from_0 = ",".join(map(str, range(k)))
    raise DataError(
        f"{where}: do the labels count from 1? None is 0, and the largest score is that"
        f" of the label minus 1 in {answers.share(labels - 1):.1%} of the rows, of the"
        f" label in {answers.share(labels):.1%}; --class-names {from_1} counts from 1,"
        f" --class-names {from_0} from 0",
        option=["--class-names", from_1],
    )


def refuse_sorted_names(
    answers: Answers, names: Sequence[str], columns: Sequence[str], where: str
) -> None:
    """Raise DataError for labels that number the sorted names of the columns.

    So LabelEncoder of scikit-learn numbers them. names : of the classes in the order
    of the columns, which hold their scores.
    """
    k = len(names)
    order = np.array(sorted(range(k), key=names.__getitem__))
    if k < FEWEST_CLASSES or len(columns) != k or (order == np.arange(k)).all():
        return
    labels = answers.labels
    are_places = len(labels) > 0 and labels.min() >= 0 and labels.max() < k
    if counts_up(sorted(names)) or not are_places:
        return
    if not answers.fit_better(order[labels]):
        return
    in_order = ",".join(columns[place] for place in order)
    raise DataError(
        f"{where}: do the labels number the classes in the order of their names? The"
        f" largest score is that of the label so in {answers.share(order[labels]):.1%}"
        f" of the rows, in the order of the columns in {answers.share(labels):.1%};"
        f" --scores {shlex.quote(in_order)} takes them so,"
        f" --class-names {shlex.quote(','.join(names))} in the order of the columns",
        option=["--scores", in_order],
    )
