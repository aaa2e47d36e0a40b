"""The kind of scores that all values prove: probabilities, their logarithms, or logits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.importers.evidence.blocks import blocks
from calcli.numerics import AnyArray
from calcli.rounding import (
    MOST_TOLERANCE,
    SUM_TOLERANCE,
    Digits,
    digits_of_values,
    float_type,
)
from calcli.rows import ScoreKind

PERCENT_TOLERANCE = 1.0


@dataclass(frozen=True)
class KindEvidence:
    """Kind of scores that values prove, None if they prove none; the reason.

    option : words of the option that the reason names, if any. are_percentages : of
    scores that prove no kind, but that ``--percent`` makes probabilities.
    """

    kind: ScoreKind | None
    reason: str
    option: Sequence[str] = ()
    are_percentages: bool = False


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
            return KindEvidence(
                None, "every row sums to 100, as percentages do", are_percentages=True
            )
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
