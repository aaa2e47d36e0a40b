"""Rows of one question of a log: probabilities and labels in flat arrays."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from calcli.decisions.answers import (
    NO,
    YES,
    YES_NO,
    Answer,
    AnswerType,
    by_level,
    level_key,
    yes_place,
)
from calcli.decisions.wire_confidence import ConfidenceProof
from calcli.numerics import FloatArray, IntArray
from calcli.records import cached_property


@dataclass
class QuestionRows:
    """All answers to one question, as they were read.

    orders : distinct lists of options, as written. order : of every row, its place in
    ``orders``. values : probabilities of all rows, one after the other. labels : place
    of the label among the options of the row, -1 for none. records : place of the
    record of every row among all records. left_out : rows left out, by reason.
    unlisted : labels of rows that do not list them, and their number of rows.
    """

    name: str
    type: AnswerType
    orders: dict[tuple[str, ...], int] = field(default_factory=dict)
    order: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    labels: "array[int]" = field(default_factory=lambda: array("q"))
    records: "array[int]" = field(default_factory=lambda: array("q"))
    left_out: Counter[str] = field(default_factory=Counter)
    unlisted: Counter[str] = field(default_factory=Counter)
    proof: ConfidenceProof | None = None

    def add(self, answer: Answer, record: int, label: int | None) -> None:
        """Add one row."""
        self.order.append(self.orders.setdefault(answer.options, len(self.orders)))
        self.values.extend(answer.probabilities)
        self.labels.append(-1 if label is None else label)
        self.records.append(record)
        if answer.confidence is not None:
            if self.proof is None:
                self.proof = ConfidenceProof(self.type)
            probabilities: Sequence[float] = answer.probabilities
            if answer.type == "score":
                probabilities = by_level(answer.options, probabilities)
            self.proof.add(probabilities, answer.confidence)

    @property
    def n(self) -> int:
        return len(self.order)

    @property
    def n_unlisted_options(self) -> int:
        """Rows that lack the option which is their label, and which others list."""
        options = set(chain.from_iterable(self.orders))
        return sum(n for label, n in self.unlisted.items() if label in options)

    @cached_property
    def classes(self) -> tuple[str, ...] | None:
        """The options in one order; None where they differ from row to row."""
        orders = list(self.orders)
        if self.type == YES_NO and None not in map(yes_place, orders):
            return (NO, YES)
        if len({frozenset(order) for order in orders}) > 1:
            return None
        if self.type == "score":
            return tuple(sorted(orders[0], key=level_key))
        return orders[0]

    def probabilities(self) -> FloatArray:
        """Probabilities (n, k) by class; of differing options in the order of the row.

        The latter are padded with 0.
        """
        n_options = self.n_options
        k = int(n_options.max())
        padded = np.zeros((self.n, k))
        is_option = np.arange(k)[None, :] < n_options[:, None]
        padded[is_option] = np.frombuffer(self.values, dtype=np.float64)
        if self.classes is not None:
            columns = self._columns[np.frombuffer(self.order, dtype=np.int64)]
            padded = np.take_along_axis(padded, columns, axis=1)
        return padded

    @cached_property
    def n_options(self) -> IntArray:
        """Number of options of every row (n,)."""
        counts = np.array(list(map(len, self.orders)), dtype=np.int64)
        return counts[np.frombuffer(self.order, dtype=np.int64)]

    @cached_property
    def _columns(self) -> IntArray:
        """For every list of options: the index of each class in it."""
        columns = [indices_among(self.classes or (), order) for order in self.orders]
        return np.array(columns, dtype=np.int64)

    def class_labels(self) -> IntArray:
        """Labels (n,) as classes; -1 for none."""
        labels = np.frombuffer(self.labels, dtype=np.int64)
        if self.classes is None:
            return labels
        order = np.frombuffer(self.order, dtype=np.int64)
        classes = np.argsort(self._columns, axis=1)
        return np.where(labels < 0, -1, classes[order, np.maximum(labels, 0)])


def indices_among(classes: Sequence[str], options: Sequence[str]) -> list[int]:
    """Index of every class among options; yes and no in any spelling."""
    yes = yes_place(options)
    if classes == (NO, YES) and yes is not None:
        return [1 - yes, yes]
    return [options.index(name) for name in classes]
