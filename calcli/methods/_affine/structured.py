"""What structured vector and matrix scaling share: the smoothed temperature step before the map."""

from typing import Any

import numpy as np

from calcli.calibrator import Calibrator, Context, check_positive, param
from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.methods._affine.fitting import FitNotes, held_back, identity_map
from calcli.methods._affine.objective import Features, Ridge, logits_as
from calcli.methods.ts import likeliest
from calcli.numerics import FloatArray, softmax
from calcli.rows import Block, Rows

LAMBDAS = (30.0, 10.0, 3.0, 1.0)
"""Values of lambda that cross-validation looks at, strongest first."""


@dataclass(frozen=True)
class Smoothed(Calibrator):
    """Scores brought to the temperature-scaling optimum and mixed with the uniform vector."""

    temperature: float = param()
    smoothing: float = param()

    def smoothed(self, block: Block) -> FloatArray:
        """u0 = log((1 - a) softmax(z / T) + a / k), (b, k)."""
        return smoothed_log_probs(block, self.temperature, self.smoothing)

    def check(self, k: int) -> None:
        check_positive(temperature=self.temperature)
        if not 0 <= self.smoothing <= 1:
            raise DataError(f"smoothing is {self.smoothing}, expected 0..1")


def smoothed_log_probs(block: Block, temperature: float, smoothing: float, dtype: Any = np.float64) -> Any:
    p = softmax(logits_as(block, dtype) / temperature)
    p *= 1.0 - smoothing
    p += smoothing / p.shape[1]
    return np.log(p, out=p)


def presmooth(rows: Rows, prior: float, notes: FitNotes, context: Context) -> tuple[float, float, Features]:
    """Temperature and smoothing of the step before the map, and the features that it makes."""
    search = likeliest(rows, context, prior)
    temperature, notes.before = search.temperature, search.before
    if search.root.status in ("at_low", "at_high"):
        notes.warn(f"the temperature of the first step ran into its bound: T = {temperature:g}", "at_bound")
    smoothing = 1.0 / (rows.n + 1)
    return temperature, smoothing, lambda block, *dtype: smoothed_log_probs(block, temperature, smoothing, *dtype)


def structured_ridge(k: int, columns: int, lam: float, rows: float, held: tuple[float, float]) -> Ridge:
    """lam k/n on diagonal and bias, lam k (k - 1)/n off the diagonal, about the identity map.

    held : temperature of the first step and prior (see ``held_back``).
    """
    weight = np.full((k, columns), lam * k / rows)
    if columns > 2:
        weight[:, :-1] *= k - 1
        at = np.arange(k)
        weight[at, at] = lam * k / rows
    return held_back(Ridge(weight, identity_map(k, columns)), 1.0, *held, rows)
