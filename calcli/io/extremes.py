"""Whether a calibrator just read gives probabilities for every score there can be."""

import numpy as np

from calcli.calibrator import Calibrator
from calcli.errors import DataError
from calcli.io.validate import HUGE
from calcli.numerics import log_normalizer
from calcli.rows import Block

__all__ = ["check_extremes"]

LEVELS = (1e-300, 1.0, 1e6, HUGE)
"""Sizes of the scores tried, up to the largest gap between two."""

MOST_CLASSES = 1_000_000
"""With more classes the rows themselves would fill the memory, and no file could hold parameters of each."""

SUM_ERROR = 1e-6


def check_extremes(calibrator: Calibrator, k: int) -> None:
    """Apply a calibrator to a few rows, from ties to near certainty.

    k : number of classes; 1 is a calibrator of confidences. Raises DataError when it gives no
    probabilities: parameters that read well, and overflow or are out of order.
    """
    if k > MOST_CLASSES:
        return
    if k == 1:
        stated = np.array([0.0, 1e-300, 1e-9, 0.5, 1.0 - 1e-9, np.nextafter(1.0, 0.0), 1.0])
        with np.errstate(all="ignore"):
            q = calibrator.apply(Block(0, stated[:, None], "confidence")).confidence
        if not ((q >= 0) & (q <= 1)).all():
            raise DataError(f"params give {q[~((q >= 0) & (q <= 1))][0]:g} for a confidence; were they edited?")
        return
    ramp = np.linspace(-1.0, 1.0, k)
    shapes = np.stack([ramp, -ramp, -np.ones(k), np.ones(k)])
    shapes[2, 0], shapes[3, -1] = 1.0, -1.0
    rows = [np.concatenate([level * shapes, np.zeros((1, k))]) for level in LEVELS]
    log_p = [np.maximum(z - log_normalizer(z)[:, None], -700.0) for z in rows]
    transforms = calibrator.required_transforms
    for scores, kind in [*((z, "logits") for z in rows), *((z, "log_probs") for z in log_p)]:
        moved = np.broadcast_to(scores, (len(transforms), *scores.shape)) if transforms else None
        try:
            with np.errstate(all="ignore"):
                found = calibrator.apply(Block(0, scores, kind, transformed=moved)).log_probs  # type: ignore[arg-type]
                wrong = ~(np.abs(np.exp(found).sum(axis=1) - 1.0) <= SUM_ERROR) | ~np.isfinite(found).all(axis=1)
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as problem:
            raise DataError(f"params do not work on rows of {k} classes: {' '.join(str(problem).split())}") from None
        if wrong.any():
            row = int(np.argmax(wrong))
            size = np.abs(scores[row]).max()
            raise DataError(f"params give no probabilities for {kind} of size {size:.3g}; were they edited?")
