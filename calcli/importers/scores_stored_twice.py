"""Scores that a source holds twice: logits beside their probabilities."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calcli.importers.array_names import Name
from calcli.importers.evidence import blocks
from calcli.importers.remarks import remark
from calcli.numerics import AnyArray, FloatArray, sigmoid, softmax

MOST_PRECISE = ("logits", "log_probs", "probs")
"""Kinds of scores; a sure probability is rounded more than the logits behind it."""

MOST_APART = 1e-4
"""Difference of two probabilities that are the same but for rounding; in half
precision that of its digits."""


def without_repeated(
    scores: Sequence[Name], load: Callable[[str], Any], where: str
) -> list[Name]:
    """The scores without arrays that are the probabilities of another array.

    where : the source, for the remark.
    """
    kept = []
    for name in scores:
        source = _source_of(name, scores, load)
        if source is None:
            kept.append(name)
        else:
            message = f"{name.path!r} holds the same scores as {source.path!r}"
            remark(f"{where}: {message}, which is read")
    return kept


def _source_of(
    name: Name, scores: Sequence[Name], load: Callable[[str], Any]
) -> Name | None:
    """The array of a more precise kind that holds the same scores."""
    if name.kind not in MOST_PRECISE:
        return None
    for kind in MOST_PRECISE[: MOST_PRECISE.index(name.kind)]:
        for other in scores:
            is_beside = (other.folder, other.split) == (name.folder, name.split)
            if not is_beside or other.kind != kind:
                continue
            if _are_same(load(name.path), name.kind, load(other.path)):
                return other
    return None


def _are_same(array: Any, kind: str, scores: Any) -> bool:
    """True if the probabilities of both are equal in every row, block by block."""
    if not _are_numbers(array) or not _are_numbers(scores):
        return False
    if array.shape != scores.shape:
        return False
    rounding = max(np.finfo(array.dtype).eps, np.finfo(scores.dtype).eps)
    most_apart = max(MOST_APART, float(rounding))
    start = 0
    for block in blocks(scores):
        rows = np.asarray(array[start : start + len(block)], dtype=np.float64)
        probabilities = np.exp(rows) if kind == "log_probs" else rows
        difference = np.abs(_probabilities(block) - probabilities)
        if not (difference <= most_apart).all():
            return False
        start += len(block)
    return True


def _are_numbers(array: Any) -> bool:
    return array is not None and array.ndim in (1, 2) and array.dtype.kind == "f"


def _probabilities(logits: AnyArray) -> FloatArray:
    """Of logits (n, k), or of the log-odds of class 1, (n,) or (n, 1)."""
    exact = logits.astype(np.float64)
    if exact.ndim == 1 or exact.shape[1] == 1:
        return sigmoid(exact)
    with np.errstate(invalid="ignore"):  # rows of NaN are unequal
        return softmax(exact)
