"""Pieces of arrays of scores, so that all values are looked at in little memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from calcli.importers.ragged import Parts
from calcli.numerics import AnyArray

BLOCK_BYTES = 4 << 20
"""Bytes of scores that are looked at at once."""


def blocks(scores: Any) -> Iterator[AnyArray]:
    """Pieces of scores (n, k) or (n,), or of those of units, in order."""
    if isinstance(scores, Parts):
        for unit in range(len(scores)):
            yield scores.of(unit)[None]
        return
    row_bytes = max(1, int(np.prod(scores.shape[1:]))) * scores.dtype.itemsize
    step = max(1, BLOCK_BYTES // row_bytes)
    for start in range(0, scores.shape[0], step):
        yield np.asarray(scores[start : start + step])


def blocks_beside(scores: Any, rows: Any) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Pieces of scores, and the same rows of another array, in order."""
    start = 0
    for block in blocks(scores):
        yield block, np.asarray(rows[start : start + len(block)])
        start += len(block)
