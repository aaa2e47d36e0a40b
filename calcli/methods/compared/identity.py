"""The uncalibrated model."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calcli.block import Block
from calcli.calibrator import ORDER_PRESERVING, Calibrator, Context, Fit, Prediction
from calcli.numerics import log_softmax
from calcli.rows import Rows


@dataclass(frozen=True)
class Identity(Calibrator):
    """The uncalibrated softmax.

    p = softmax(z).

    Reference: the baseline of every paper, e.g. Guo, Pleiss, Sun, Weinberger (2017),
    section 2.
    """

    list_order = 99
    aliases = ("uncalibrated", "none")
    use = "the uncalibrated scores, to compare with"
    title = "no calibration"
    laws = replace(
        ORDER_PRESERVING, improves_nll=True, confidence=True, memory="stream"
    )

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        return Fit(cls())

    def apply(self, block: Block) -> Prediction:
        if block.kind == "confidence":
            return Prediction.of_confidence(block.scores[:, 0].astype(np.float64))
        return Prediction(log_softmax(block.z), block.prediction)
