"""Calibrate the rows of a bundle, block by block."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.calibrator import Calibrator
from calcli.errors import CalcliError, DataError
from calcli.rows import Rows, ScoreKind

__all__ = ["calibrated_blocks", "checked_transforms"]

SUM_ERROR = 1e-6
"""How far probabilities in float64 may sum from 1: far above rounding, far below what readers allow."""

Calibrated = tuple[int, NDArray[Any], dict[str, NDArray[Any]], dict[str, int]]


def checked_transforms(calibrator: Calibrator, rows: Rows, where: str) -> list[int]:
    """Indices of the transforms that a calibrator reads. Raises DataError that lists missing ones."""
    missing = [spec for spec in calibrator.required_transforms if spec not in rows.transforms]
    if missing:
        raise DataError(
            f"{where}: lacks the scores under {len(missing)} transforms that this calibrator needs:"
            f" {', '.join(missing)}; it has: {', '.join(rows.transforms) or 'none'};"
            " run calcli extract with these --transform options"
        )
    return [rows.transforms.index(spec) for spec in calibrator.required_transforms]


def calibrated_blocks(
    calibrator: Calibrator, rows: Rows, kind: ScoreKind, transforms: Sequence[int]
) -> Iterator[Calibrated]:
    """Walk over calibrated rows: (first row, scores (b, k) of ``kind``, per-row columns, counts).

    The columns are prediction, confidence and, when there are some, labels. Counts are
    the calibrator's own and ``argmax_conflicts``: rows whose largest probability is not
    that of the prediction. Raises CalcliError rather than hand out a number that is no
    probability.
    """
    for block in rows.blocks(transforms):
        result = calibrator.apply(block)
        p = np.exp(result.log_probs)
        # A comparison with NaN is false too; an infinite logarithm is no number to hand out.
        if not (np.abs(p.sum(axis=1) - 1.0) <= SUM_ERROR).all() or np.isneginf(result.log_probs.min()):
            raise CalcliError(
                f"the calibrator gave numbers that are no probabilities in rows from {block.start} on;"
                " were its parameters edited, or fitted on scores of another size?"
            )
        conflicts = int((result.log_probs.argmax(axis=1) != result.label).sum())
        columns: dict[str, NDArray[Any]] = {"prediction": result.label, "confidence": result.confidence}
        if block.y is not None:
            columns["labels"] = block.y
        scores = p if kind == "probs" else result.log_probs
        yield block.start, scores, columns, {**result.counts, "argmax_conflicts": conflicts}
