"""What the one-temperature methods share: the bracket, the search and the map."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.calibrator import Calibrator, Context, Prediction, param
from calcli.errors import DataError
from calcli.kernels.numpy import Slope
from calcli.numerics import FloatArray, log_softmax
from calcli.rows import Block
from calcli.solvers import Root, find_root

LOG_BETA_LOW, LOG_BETA_HIGH = float(np.log(1e-2)), float(np.log(1e2))
"""Bracket of log beta, beta = 1/T: T in [0.01, 100]."""


def check_temperature(temperature: float | FloatArray) -> None:
    """Raise DataError for a temperature, or one per class, that is not positive and finite."""
    if not np.all((np.asarray(temperature) > 0) & np.isfinite(temperature)):
        raise DataError(f"temperature is {temperature}, expected positive numbers")


def check_uniform(uniform: float) -> None:
    """Raise DataError for a share of the uniform distribution outside [0, 1)."""
    if not 0 <= uniform < 1:
        raise DataError(f"uniform is {uniform}, expected a share in [0, 1)")


@dataclass(frozen=True)
class OneTemperature(Calibrator):
    """softmax(z / T)."""

    temperature: float = param()

    def apply(self, block: Block) -> Prediction:
        return Prediction(log_softmax(block.z / self.temperature), block.prediction)

    def check(self, k: int) -> None:
        check_temperature(self.temperature)


def solve_temperature(
    slope: Slope,
    context: Context,
    *,
    start: float = 0.0,
    low: float = LOG_BETA_LOW,
    high: float = LOG_BETA_HIGH,
    flat: float = 0.0,
) -> tuple[float, Root, dict[str, Any]]:
    """Temperature at the root of an increasing function of log beta, and what to record."""
    passes = 0

    def watched(log_beta: float) -> tuple[float, float]:
        nonlocal passes
        passes += 1
        context.progress("searching the temperature", passes, 0)
        return slope(log_beta)

    root = find_root(watched, low, high, start, flat=flat)
    temperature = {"at_low": 100.0, "at_high": 0.01}.get(root.status, float(np.exp(-root.x)))
    return temperature, root, {"evaluations": root.evaluations, "residual": float(root.value)}
