"""Differences of the losses of two calibrators on the same rows, as either of them expects them."""

import numpy as np

from calcli.calibrator import Prediction
from calcli.numerics import (
    FloatArray,
    tile_rows,
)
from calcli.rows import Block
from calcli.statistics.paired import expected_powers


def expected_differences(
    block: Block, one: Prediction, other: Prediction
) -> dict[str, FloatArray]:
    """``PairedSums.expected`` of the losses that depend on more of the label than whether it is the prediction. For
    confidences alone the label is whether the prediction is correct."""
    found: dict[str, FloatArray] = {}
    step = tile_rows(block.scores.shape[1])
    for at in range(0, len(block), step):
        here = slice(at, at + step)
        weight = None if block.weight is None else block.weight[here]
        if block.kind == "confidence":
            c, q = one.confidence[here], other.confidence[here]
            gain = np.stack([c**2 - q**2, (1.0 - c) ** 2 - (1.0 - q) ** 2], axis=1)
            chances = [np.stack([1.0 - p, p], axis=1) for p in (c, q)]
            by_label = {"brier_top": (gain, chances[0], chances[1])}
        else:
            by_label = _of_classes(
                *(Prediction(p.log_probs[here], p.label[here]) for p in (one, other))
            )
        for name, (d, first, second) in by_label.items():
            found[name] = found.get(name, 0.0) + expected_powers(
                d, first, second, weight
            )
    return found


def _of_classes(
    one: Prediction, other: Prediction
) -> dict[str, tuple[FloatArray, FloatArray, FloatArray]]:
    """Difference for every outcome, and the probabilities of the outcomes under either prediction, by loss."""
    p, q = np.exp(one.log_probs), np.exp(other.log_probs)
    nll = other.log_probs - one.log_probs
    brier = (np.einsum("ij,ij->i", p, p) - np.einsum("ij,ij->i", q, q))[
        :, None
    ] - 2.0 * (p - q)
    # The confidence's: the label is the one's prediction, the other's where it is another, or neither.
    here, same = np.arange(len(p)), one.label == other.label
    c, s = p[here, one.label][:, None], q[here, other.label][:, None]
    outcomes = np.stack([1.0 * same, np.ones(len(p)), np.zeros(len(p))], axis=1)
    top = (c - [1.0, 0.0, 0.0]) ** 2 - (s - outcomes) ** 2
    chances = []
    for each in (p, q):
        mine, its = each[here, one.label], np.where(same, 0.0, each[here, other.label])
        chances.append(np.stack([mine, its, np.maximum(1.0 - mine - its, 0.0)], axis=1))
    return {
        "nll": (nll, p, q),
        "brier": (brier, p, q),
        "brier_top": (top, chances[0], chances[1]),
    }
