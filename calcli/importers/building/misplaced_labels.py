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

MOST_BYTES = 64 << 20
"""Bytes of the scores of these rows, of which there are fewer with many classes."""

PIECES = 64
"""Pieces of the file from which they come: rows may be sorted by their labels."""

FEWEST_CLASSES = 3
"""Of two classes the scores may be wrong more often than not for other reasons."""


class Answers(NamedTuple):
    """Labels of some rows, and the column of the largest score of each.

    smallest, largest : of the labels of all rows; 0 and -1 where there are none.
    """

    labels: IntArray
    prediction: IntArray
    smallest: int
    largest: int

    @classmethod
    def of(cls, scores: Any, labels: AnyArray, ignore: Sequence[float]) -> "Answers":
        """Answers of rows all over the file that have one largest score and a label
        that is not to be ignored.
        """
        some = []
        predictions = []
        for rows in _compared_rows(
            len(labels), scores.shape[1] * scores.dtype.itemsize
        ):
            block = np.asarray(scores[rows])
            is_largest = block == block.max(axis=1, keepdims=True)
            has_one = np.count_nonzero(is_largest, axis=1) == 1
            is_used = has_one & ~np.isin(labels[rows], ignore)
            some.append(labels[rows][is_used])
            predictions.append(is_largest[is_used].argmax(axis=1))
        used = labels[~np.isin(labels, ignore)]
        return cls(
            labels=np.concatenate(some),
            prediction=np.concatenate(predictions),
            smallest=int(used.min()) if len(used) else 0,
            largest=int(used.max()) if len(used) else -1,
        )

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


def _compared_rows(n: int, row_bytes: int) -> list[slice]:
    """Pieces of n rows of so many bytes, evenly apart; all rows where they are few."""
    n_compared = min(MOST_COMPARED, max(PIECES, MOST_BYTES // row_bytes))
    if n <= n_compared:
        return [slice(0, n)]
    size = n_compared // PIECES
    starts = np.linspace(0, n - size, PIECES).astype(int).tolist()
    return [slice(start, start + size) for start in starts]


def refuse_counted_from_1(answers: Answers, k: int, where: str) -> None:
    """Raise DataError for labels 1 to less than k that are the prediction plus 1."""
    labels = answers.labels
    if k < FEWEST_CLASSES or answers.smallest < 1 or answers.largest >= k:
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
    are_places = answers.smallest >= 0 and 0 <= answers.largest < k
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
