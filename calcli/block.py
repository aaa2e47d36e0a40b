"""Consecutive score rows with what belongs to them: what methods and metrics work on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from calcli.logits import ScoreKind, to_logits
from calcli.numerics import AnyArray, BoolArray, FloatArray, IntArray
from calcli.records import cached_property
from calcli.rounding import Digits, FloatType, digits_of_values
from calcli.zeros import Zeros

PADDING = -1e5
"""Score of an option that a row does not have: exp(PADDING / 100) is 0."""


class Codes(NamedTuple):
    """A column of names, one per row: ``names[code]``.

    names : each once. code : (n,) integers.
    """

    names: tuple[str, ...]
    code: IntArray

    @classmethod
    def of(cls, values: AnyArray) -> "Codes":
        """Encode a column (n,) of texts or numbers; a number is named by its digits."""
        names, code = np.unique(values, return_inverse=True)
        return cls(
            tuple(map(str, names.tolist())),
            code.reshape(-1).astype(np.int64),
        )

    def take(self, rows: "slice | IntArray") -> "Codes":
        return Codes(self.names, self.code[rows])


@dataclass(frozen=True)
class Block:
    """Consecutive rows.

    start : index of the first row. scores : (b, k) in the precision of the source, of
    kind ``kind``. Read-only by convention. y : (b,) int64 labels, or None when the
    source has none. weight : (b,) float64 sample weights in effective rows, or None
    (all equal). transformed : (m, b, k) logits of the same rows under the m transforms
    asked for. assigned : (b,) int64 predictions made upstream, by an earlier calibrator
    whose prediction need not be the argmax of the scores; None when there was none.
    columns : further columns, of the names that were asked for (``DataSet.carry``).
    original : (b,) int64 predictions of the scores that earlier stages of a composition
    were given; None before the first stage. zeros : what a probability of 0 counts as,
    None where the source does not say. of_options : columns are the options of the row,
    and ``PADDING`` where it has none.

    Of kind ``confidence``, scores are (b, 1), the confidence in the answer that was
    given, and y is 1 where it is right, else 0.
    """

    start: int
    scores: AnyArray
    kind: ScoreKind
    y: IntArray | None = None
    weight: FloatArray | None = None
    transformed: AnyArray | None = None
    assigned: IntArray | None = None
    columns: Mapping[str, Codes] = field(default_factory=dict)
    original: IntArray | None = None
    zeros: Zeros | None = None
    of_options: bool = False

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def span(self) -> slice:
        """Places of these rows among all rows."""
        return slice(self.start, self.start + len(self))

    def take(self, rows: "slice | IntArray", start: int) -> "Block":
        """Select rows, as a block that starts at row ``start``; views where ``rows`` is
        a slice.
        """
        return Block(
            start=start,
            scores=self.scores[rows],
            kind=self.kind,
            y=rows_of_column(self.y, rows),
            weight=rows_of_column(self.weight, rows),
            transformed=rows_of_column(self.transformed, (slice(None), rows)),
            assigned=rows_of_column(self.assigned, rows),
            columns={name: column.take(rows) for name, column in self.columns.items()},
            original=rows_of_column(self.original, rows),
            zeros=self.zeros,
            of_options=self.of_options,
        )

    def cut(self, low: int, high: int) -> "Block":
        return self.take(slice(low, high), self.start + low)

    def calibrated(self, log_probs: FloatArray) -> "Block":
        """Replace the scores by calibrated log-probabilities; drops transforms and
        assigned predictions.
        """
        return Block(
            self.start,
            log_probs,
            "log_probs",
            self.y,
            self.weight,
            columns=self.columns,
            original=self.original_prediction,
            of_options=self.of_options,
        )

    @property
    def padding(self) -> BoolArray:
        """Mask (b, k) of the columns that are no options of their row."""
        return self.scores <= PADDING

    @cached_property
    def z(self) -> FloatArray:
        """The scores as logits, (b, k) float64.

        May alias ``scores``: do not write to it.
        """
        return to_logits(self.scores, self.kind, self.zeros)

    @cached_property
    def stored_zeros(self) -> BoolArray | None:
        """Mask of probabilities that are stored as 0, (b, k); None where there are
        none. What they count as is more than rows sum to: for what a class has against
        the others, see ``top_log_odds``.
        """
        zeros = self.zeros
        if zeros is None and self.kind == "probs":
            zeros = Zeros.of_type(self.scores.dtype)
        if zeros is None or zeros.floor:
            return None
        if self.kind == "probs":
            mask = self.scores <= zeros.clip
        elif self.kind == "log_probs":  # half a step lies below all that was stored
            mask = self.scores <= zeros.log_half
        else:
            return None
        if isinstance(mask, np.ndarray) and not mask.any():
            return None
        return mask

    @cached_property
    def prediction(self) -> IntArray:
        """Predicted class of every row, (b,): as assigned upstream, else the argmax of
        the scores.
        """
        if self.assigned is not None:
            return self.assigned
        return self.scores.argmax(axis=1)

    @property
    def original_prediction(self) -> IntArray:
        """Predicted class of every row before any stage of a composition, (b,)."""
        return self.prediction if self.original is None else self.original

    @property
    def labels(self) -> IntArray:
        """The labels, where the caller knows that there are some."""
        assert self.y is not None, "these rows carry no labels"
        return self.y

    def transformed_z(self, which: int) -> FloatArray:
        """Logits under the ``which``-th transform asked for, (b, k) float64."""
        assert self.transformed is not None, "no transforms were asked for"
        return np.asarray(self.transformed[which], dtype=np.float64)


def digits_of(kind: FloatType, one_column: bool, block: "Block") -> Digits:
    """What the probabilities of a block show of their rounding."""
    scores = block.scores[:, -1:] if one_column else block.scores
    return digits_of_values(scores, kind)


def score_keys(block: Block) -> FloatArray:
    """Number of each row's scores, (b,), that rows share only if their scores are
    equal.

    A sum with random factors; a class without a probability counts as ``PADDING``.
    """
    factors = np.random.default_rng(0).random(block.scores.shape[1])
    scores = np.maximum(block.scores, PADDING, dtype=np.float64)
    return np.asarray(np.einsum("ij,j->i", scores, factors))


def rows_of_column(column: Any, rows: Any) -> Any:
    """Some rows of a column; None of no column."""
    return None if column is None else column[rows]


def joined(blocks: Sequence[Block]) -> Block:
    """Concatenate consecutive blocks, in the widest of their precisions."""
    first = blocks[0]
    if len(blocks) == 1:
        return first

    def column(name: str, axis: int = 0) -> Any:
        parts = [getattr(block, name) for block in blocks]
        return None if parts[0] is None else np.concatenate(parts, axis=axis)

    return Block(
        start=first.start,
        scores=column("scores"),
        kind=first.kind,
        y=column("y"),
        weight=column("weight"),
        transformed=column("transformed", 1),
        assigned=column("assigned"),
        original=column("original"),
        zeros=first.zeros,
    )
