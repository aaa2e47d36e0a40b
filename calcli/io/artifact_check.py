"""Apply a calibrator that was read to scores of every size, as a test."""

import numpy as np

from calcli.block import Block, Codes
from calcli.calibrator import Calibrator
from calcli.errors import DataError
from calcli.io.row_facts import HUGE
from calcli.numerics import AnyArray, BoolArray, log_normalizer
from calcli.rows import ScoreKind

LEVELS = (1e-300, 1.0, 1e6, HUGE)
"""Sizes of the scores tried, up to the largest gap between two."""

CONFIDENCES = (0.0, 1e-300, 1e-9, 0.5, 1.0 - 1e-9, float(np.nextafter(1.0, 0.0)), 1.0)
"""Confidences tried."""

MOST_CLASSES = 1_000_000
"""Most classes tested: beyond them the rows would fill the memory, and no file can hold
parameters per class.
"""

LOWEST_LOG = -700.0
SUM_ERROR = 1e-6


def check_extremes(calibrator: Calibrator, k: int) -> None:
    """Apply a calibrator to a few rows, from ties to near certainty.

    k : number of classes; 1 is a calibrator of confidences. Raises DataError if the
    output is not probabilities: parameters of valid type and shape that overflow or are
    out of order.
    """
    if k > MOST_CLASSES:
        return
    if k == 1:
        _check_confidences(calibrator)
        return
    rows = _extreme_rows(k)
    for scores in rows:
        _check_scores(calibrator, scores, "logits")
    for scores in rows:
        log_probs = scores - log_normalizer(scores)[:, None]
        _check_scores(calibrator, np.maximum(log_probs, LOWEST_LOG), "log_probs")


def _extreme_rows(k: int) -> list[AnyArray]:
    """Rows of rising, falling, certain and equal scores, at every level."""
    ramp = np.linspace(-1.0, 1.0, k)
    shapes = np.stack([ramp, -ramp, -np.ones(k), np.ones(k)])
    shapes[2, 0] = 1.0
    shapes[3, -1] = -1.0
    ties = np.zeros((1, k))
    return [np.concatenate([level * shapes, ties]) for level in LEVELS]


def _check_confidences(calibrator: Calibrator) -> None:
    stated = np.array(CONFIDENCES)[:, None]
    with np.errstate(all="ignore"):
        q = calibrator.apply(_block(calibrator, stated, "confidence")).confidence
    is_wrong = ~((q >= 0) & (q <= 1))
    if is_wrong.any():
        value = q[is_wrong][0]
        raise DataError(f"params give {value:g} for a confidence; were they edited?")


def _check_scores(calibrator: Calibrator, scores: AnyArray, kind: ScoreKind) -> None:
    k = scores.shape[1]
    try:
        with np.errstate(all="ignore"):
            log_probs = calibrator.apply(_block(calibrator, scores, kind)).log_probs
            is_wrong = _is_wrong(log_probs)
    except (
        ArithmeticError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
    ) as problem:
        reason = " ".join(str(problem).split())
        message = f"params do not work on rows of {k} classes: {reason}"
        raise DataError(message) from None
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        size = np.abs(scores[row]).max()
        raise DataError(
            f"params give no probabilities for {kind} of size {size:.3g}; were they"
            " edited?"
        )


def _is_wrong(log_probs: AnyArray) -> BoolArray:
    """Mask of the rows that are no probabilities."""
    has_sum_1 = np.abs(np.exp(log_probs).sum(axis=1) - 1.0) <= SUM_ERROR
    is_finite = np.isfinite(log_probs).all(axis=1)
    return ~(has_sum_1 & is_finite)


def _block(calibrator: Calibrator, scores: AnyArray, kind: ScoreKind) -> Block:
    """Rows with the columns and transforms that the calibrator needs, all alike."""
    unnamed = Codes(("",), np.zeros(len(scores), np.int64))
    n_transforms = len(calibrator.required_transforms)
    transformed = None
    if n_transforms:
        transformed = np.broadcast_to(scores, (n_transforms, *scores.shape))
    columns = dict.fromkeys(calibrator.required_columns, unnamed)
    return Block(0, scores, kind, transformed=transformed, columns=columns)
