"""What only looks like scores: bare predictions, ranks, confidences."""

from typing import Any

import numpy as np

from calcli.importers.evidence.blocks import blocks
from calcli.io.validate import look_like_probabilities

FEWEST_RANKED = 4
"""Fewer rows may be sorted by accident."""


def is_one_hot(scores: Any) -> bool:
    """True if every row is a bare prediction: zeros and a one."""
    width = 1 if len(scores.shape) == 1 else scores.shape[1]
    for raw in blocks(scores):
        block = raw.reshape(-1, width)
        if not ((block == 0) | (block == 1)).all():
            return False
        if width > 1 and not (block.sum(axis=1, dtype=np.float64) == 1).all():
            return False
    return True


def are_probabilities(scores: Any) -> bool:
    """True if every row lies in [0, 1] and, unless it is one number, sums to 1."""
    width = 1 if len(scores.shape) == 1 else scores.shape[1]
    with np.errstate(invalid="ignore", over="ignore"):  # NaN is refused elsewhere
        return all(
            look_like_probabilities(block.reshape(-1, width).astype(np.float64))
            for block in blocks(scores)
        )


def is_ranked(scores: Any) -> bool:
    """True if every row is sorted, the largest first: ranks, not classes."""
    if len(scores.shape) != 2 or scores.shape[1] < 3 or scores.shape[0] < FEWEST_RANKED:
        return False
    for block in blocks(scores):
        # compared, not subtracted, since scores may be infinite
        left, right = block[:, :-1], block[:, 1:]
        if (right > left).any() or not (right < left).any(axis=1).all():
            return False
    return True


def is_never_below_half(scores: Any) -> bool:
    """True if all values lie in [1/2, 1], as confidences of two classes do."""
    return all(bool(((block >= 0.5) & (block <= 1)).all()) for block in blocks(scores))
