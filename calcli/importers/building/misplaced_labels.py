"""Refuse labels whose places another order or another first number explains better."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from calcli.errors import DataError
from calcli.importers.evidence.label_evidence import SURE, agreement
from calcli.items import counts_up
from calcli.numerics import BoolArray, IntArray
from calcli.records import cached_property

NO_CLASS = -1
"""Label of rows that are left out of a comparison."""

FEWEST_CLASSES = 3
"""Of two classes the scores may be wrong more often than not for other reasons."""


@dataclass(frozen=True)
class Answers:
    """Scores (n, k) and their labels (n,), of which some are ignored."""

    scores: Any
    labels: IntArray
    ignore: Sequence[float]

    @cached_property
    def is_used(self) -> BoolArray:
        """Mask of the rows whose label is not ignored."""
        return ~np.isin(self.labels, self.ignore)

    def have_places(self, first: int, k: int) -> bool:
        """True if there are labels, all from ``first`` to less than k."""
        used = self.labels[self.is_used]
        return len(used) > 0 and bool(used.min() >= first and used.max() < k)

    def compared(self, others: IntArray) -> "Readings":
        """The labels beside other labels of the same rows."""
        return Readings(
            as_given=self._hits(self.labels),
            otherwise=self._hits(others),
            n=int(self.is_used.sum()),
        )

    def _hits(self, labels: IntArray) -> int:
        """In how many rows in use the largest score is that of the label."""
        used = np.where(self.is_used, labels, NO_CLASS)
        return agreement(self.scores, used).hits


class Readings(NamedTuple):
    """In how many of n rows the largest score is that of the label, as given and read
    otherwise.
    """

    as_given: int
    otherwise: int
    n: int

    @property
    def fits_better(self) -> bool:
        """True if the other reading fits far more often.

        The counts of rows that one reading explains differ by more than they vary
        (McNemar 1947); rows that both explain, by ties, make it more careful.
        """
        difference = self.otherwise - self.as_given
        return difference > SURE * sqrt(self.otherwise + self.as_given)

    @property
    def shares(self) -> tuple[str, str]:
        """Percentages of the rows, otherwise and as given."""
        return f"{self.otherwise / self.n:.1%}", f"{self.as_given / self.n:.1%}"


def refuse_counted_from_1(answers: Answers, k: int, where: str) -> None:
    """Raise DataError for labels 1 to less than k that are the prediction plus 1."""
    if k < FEWEST_CLASSES or not answers.have_places(1, k):
        return
    readings = answers.compared(answers.labels - 1)
    if not readings.fits_better:
        return
    otherwise, as_given = readings.shares
    from_1 = ",".join(map(str, range(1, k + 1)))
    from_0 = ",".join(map(str, range(k)))
    raise DataError(
        f"{where}: do the labels count from 1? None is 0, and the largest score is that"
        f" of the label minus 1 in {otherwise} of the rows, of the label in {as_given};"
        f" --class-names {from_1} counts from 1,"
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
    if counts_up(sorted(names)) or not answers.have_places(0, k):
        return
    readings = answers.compared(order[answers.labels.clip(0, k - 1)])
    if not readings.fits_better:
        return
    otherwise, as_given = readings.shares
    in_order = ",".join(columns[place] for place in order)
    raise DataError(
        f"{where}: do the labels number the classes in the order of their names? The"
        f" largest score is that of the label so in {otherwise} of the rows, in the"
        f" order of the columns in {as_given};"
        f" --scores {shlex.quote(in_order)} takes them so,"
        f" --class-names {shlex.quote(','.join(names))} in the order of the columns",
        option=["--scores", in_order],
    )
