"""Probabilities that are stored as 0."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calcli.block import Block
from calcli.calibrator import (
    ORDER_PRESERVING,
    Calibrator,
    Context,
    Fit,
    Prediction,
    param,
)
from calcli.numerics import LOG_ZERO, log_softmax
from calcli.rows import Rows


@dataclass(frozen=True)
class Floor(Calibrator):
    """Raise probabilities of exactly 0 to half of the smallest other one.

    p_c = max(p_c, floor) / sum_j max(p_j, floor), floor = min(smallest p > 0, 1/C) / 2,
    over the calibration rows.

    Forests, trees, nearest neighbours and rounded files store zeros that mean "less
    than could be counted". The number that stands for the logarithm of 0 then decides
    every temperature and slope: with a probability of 0 for the labels of 10 of 897
    rows of a forest, ``ts`` ends at T = 100. As the first stage (``floor+ts``,
    ``floor+svs``) this gives zeros a size. It changes logits, and probabilities without
    zeros, in nothing. ``auto`` puts it first where it is needed.

    Reference: Martín-Fernández, Barceló-Vidal, Pawlowsky-Glahn (2003), Mathematical
    Geology 35, section 2 (zeros below a limit of detection become a fixed part of it).
    """

    floor: float = param(within="share")

    list_order = 97
    use = (
        "before a method that takes logarithms, where probabilities are stored as 0:"
        " floor+ts"
    )
    title = "a floor under probabilities"
    laws = replace(ORDER_PRESERVING, memory="stream")

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        if rows.kind not in ("probs", "log_probs"):
            return Fit(cls(0.0), details={"zeros": 0})
        zeros = 0
        least = -math.log(rows.k)
        for block in rows.blocks():
            z = block.z
            if block.weight is not None:
                z = z[block.weight > 0.0]
            # Half a step lies below every number that is stored, and above every zero.
            bound = LOG_ZERO if block.zeros is None else block.zeros.log_half
            zero = z <= bound
            zeros += int(zero.sum())
            least = min(least, float(z.min(initial=0.0, where=~zero)))
        floor = 0.0
        if zeros:
            floor = math.exp(least) / 2.0
        return Fit(cls(floor), details={"zeros": zeros})

    @classmethod
    def takes_logarithms(cls) -> bool:
        return False

    def apply(self, block: Block) -> Prediction:
        log_p = log_softmax(block.z)
        if self.floor:
            log_p = log_softmax(np.maximum(log_p, math.log(self.floor)))
        return Prediction(log_p, block.prediction)
