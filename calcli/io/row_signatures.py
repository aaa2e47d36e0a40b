"""Hash rows by their label and scores, so that copies of a row are recognised.

Float32 copies have equal hashes, and logits and probabilities of them unless a gap
rounds differently.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calcli.folds import scrambled
from calcli.numerics import floored_log

if TYPE_CHECKING:
    from calcli.block import Block


KEPT = 1 << 16
"""Most signatures kept per data set."""

# Gaps between logits beyond this count as equal: in float32 such probabilities are 0.
LARGEST_GAP = 80.0

MODULUS = 1 << 64

Signatures = NDArray[np.uint64]


def total_of(row_signatures: Signatures) -> int:
    """Sum of signatures modulo 2^64: equal for the same rows in any order."""
    return int(row_signatures.sum(dtype=np.uint64))


def signatures(block: "Block") -> Signatures:
    """Hash every row, (b,), by its label and the gaps of three classes to the largest
    logit.
    """
    return mixed(block.labels.astype(np.uint64), rounded_gaps(block))


def rounded_gaps(block: "Block") -> NDArray[np.uint64]:
    """Gaps of the label and the two classes after it to the largest logit, rounded:
    fewer of less than three classes, the confidence where there are none. (3, b)
    """
    s = block.scores
    y = block.labels
    k = s.shape[1]
    row = np.arange(len(s))
    classes = [s[row, (y + i) % k] for i in range(min(k, 3))]
    picked = np.stack([s.max(axis=1), *classes])
    # As a float32 copy holds them.
    picked = picked.astype(np.float32).astype(np.float64)
    if block.kind == "probs":
        picked = floored_log(picked)
    gaps = picked
    if block.kind != "confidence":
        gaps = np.minimum(picked[:1] - picked[1:], LARGEST_GAP)
    steps = 2.0 ** (13 if k > 2 else 15)
    return np.rint(np.arcsinh(gaps) * steps).astype(np.int64).view(np.uint64)


def mixed(hashes: Signatures, cells: NDArray[np.uint64]) -> Signatures:
    """Mix the cells, (m, b), into the hashes, (b,)."""
    for column in cells:
        hashes = scrambled(hashes ^ column)
    return hashes


def share_repeated(row_signatures: Signatures) -> float:
    """Proportion of signatures (sorted) that equal a neighbour."""
    same = np.append(row_signatures[1:] == row_signatures[:-1], False)
    same[1:] |= same[:-1].copy()
    return float(same.mean())
