"""Apply a calibrator to rows, block by block."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from calcli.block import Block
from calcli.calibrator import Calibrator
from calcli.errors import DataError
from calcli.kernels.numpy.temperature import softmax_at
from calcli.numerics import AnyArray
from calcli.rows import Rows, ScoreKind

SUM_ERROR = 1e-6
"""How far probabilities in float64 may sum from 1.

Far above rounding, far below what readers allow.
"""


FLOAT64 = np.dtype(np.float64)

Calibrated = tuple[int, AnyArray, dict[str, AnyArray], dict[str, int]]


def calibrated_blocks(
    calibrator: Calibrator,
    rows: Rows,
    kind: ScoreKind,
    transforms: Sequence[int],
    dtype: np.dtype[Any] = FLOAT64,
) -> Iterator[Calibrated]:
    """Walk over calibrated rows.

    Yields the first row, scores (b, k) of ``kind``, columns with a value per row, and
    counts. The columns are prediction, confidence and, when there are some, labels. Of
    kind ``confidence`` the scores are (b,), and the only column is correct. Counts are
    the calibrator's own and ``argmax_conflicts``: rows whose largest probability is not
    that of the prediction.

    dtype : type in which the scores will be written; they come in it, or in float64.
    Raises DataError for a number that is no probability.
    """
    return rows.each(
        partial(_calibrated, calibrator, kind, dtype), transforms=transforms
    )


def _calibrated(
    calibrator: Calibrator, kind: ScoreKind, dtype: np.dtype[Any], block: Block
) -> Calibrated:
    beta = calibrator.logit_scale
    if beta is not None and kind == "probs" and block.kind in ("logits", "log_probs"):
        return _calibrated_by_scale(beta, dtype, block)
    result = calibrator.calibrate(block)
    if kind == "confidence":
        # Comparisons with NaN are false, so NaN is refused too.
        confidence = result.confidence
        if not ((confidence >= 0) & (confidence <= 1)).all():
            raise _no_probabilities(block, "")
        of_rows: dict[str, AnyArray] = {}
        if block.y is not None:
            of_rows["correct"] = block.y.astype(bool)
        return block.start, confidence, of_rows, {**result.counts}
    p = np.exp(result.log_probs)
    sums_to_1 = (np.abs(p.sum(axis=1) - 1.0) <= SUM_ERROR).all()
    if not sums_to_1 or np.isneginf(result.log_probs.min()):
        raise _no_probabilities(block, ", or fitted on scores of another size")
    columns = {
        "prediction": result.label,
        "confidence": result.confidence,
        **result.columns,
    }
    if block.y is not None:
        columns["labels"] = block.y
    conflicts = int((result.log_probs.argmax(axis=1) != result.label).sum())
    counts = {**result.counts, "argmax_conflicts": conflicts}
    scores = p if kind == "probs" else result.log_probs
    return block.start, scores, columns, counts


def _calibrated_by_scale(beta: float, dtype: np.dtype[Any], block: Block) -> Calibrated:
    """Probabilities of logits or log-probabilities times ``beta``."""
    p, confidence, label = softmax_at(block.scores, beta, block.assigned, dtype)
    conflicts = 0
    if block.assigned is not None:
        conflicts = int((block.scores.argmax(axis=1) != label).sum())
    columns: dict[str, AnyArray] = {"prediction": label, "confidence": confidence}
    if block.y is not None:
        columns["labels"] = block.y
    return block.start, p, columns, {"argmax_conflicts": conflicts}


def _no_probabilities(block: Block, cause: str) -> DataError:
    return DataError(
        "the calibrator gave numbers that are no probabilities in rows from"
        f" {block.start} on; were its parameters edited{cause}?"
    )
