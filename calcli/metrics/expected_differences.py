"""Differences of the losses of two calibrators on the same rows, as either of them
expects them.
"""

import numpy as np

from calcli.block import Block
from calcli.calibrator import Prediction
from calcli.numerics import (
    FloatArray,
    tile_rows,
)
from calcli.statistics.paired import expected_powers


def expected_differences(
    block: Block, one: Prediction, other: Prediction
) -> dict[str, FloatArray]:
    """``PairedSums.expected`` of the losses that depend on more of the label than
    whether it is the prediction. For confidences alone the label is whether the
    prediction is correct.
    """
    expected: dict[str, FloatArray] = {}
    step = tile_rows(block.scores.shape[1])
    for start in range(0, len(block), step):
        here = slice(start, start + step)
        weight = None if block.weight is None else block.weight[here]
        if block.kind == "confidence":
            c = one.confidence[here]
            q = other.confidence[here]
            gain = np.stack([c**2 - q**2, (1.0 - c) ** 2 - (1.0 - q) ** 2], axis=1)
            of_one = np.stack([1.0 - c, c], axis=1)
            of_other = np.stack([1.0 - q, q], axis=1)
            by_label = {"brier_top": (gain, of_one, of_other)}
        else:
            by_label = _of_classes(
                Prediction(one.log_probs[here], one.label[here]),
                Prediction(other.log_probs[here], other.label[here]),
            )
        for name, (d, first, second) in by_label.items():
            expected[name] = expected.get(name, 0.0) + expected_powers(
                d, first, second, weight
            )
    return expected


def _of_classes(
    one: Prediction, other: Prediction
) -> dict[str, tuple[FloatArray, FloatArray, FloatArray]]:
    """Difference for every outcome, and the probabilities of the outcomes under either
    prediction, by loss.
    """
    p = np.exp(one.log_probs)
    q = np.exp(other.log_probs)
    nll = other.log_probs - one.log_probs
    squares = np.einsum("ij,ij->i", p, p) - np.einsum("ij,ij->i", q, q)
    brier = squares[:, None] - 2.0 * (p - q)
    # The confidence's: the label is the one's prediction, the other's where it is another, or neither.
    here = np.arange(len(p))
    same = one.label == other.label
    c = p[here, one.label][:, None]
    s = q[here, other.label][:, None]
    outcomes = np.stack([1.0 * same, np.ones(len(p)), np.zeros(len(p))], axis=1)
    top = (c - [1.0, 0.0, 0.0]) ** 2 - (s - outcomes) ** 2
    chances = []
    for probs in (p, q):
        of_one = probs[here, one.label]
        of_other = np.where(same, 0.0, probs[here, other.label])
        neither = np.maximum(1.0 - of_one - of_other, 0.0)
        chances.append(np.stack([of_one, of_other, neither], axis=1))
    return {
        "nll": (nll, p, q),
        "brier": (brier, p, q),
        "brier_top": (top, chances[0], chances[1]),
    }
