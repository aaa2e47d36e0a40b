"""Maps of one probability that are tables: step functions, and lines between knots."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from calcli.calibrator import Curves, param
from calcli.errors import DataError
from calcli.methods._binary.maps import EMPTY, BinaryCalibrator
from calcli.numerics import TINY, FloatArray, overridable, sigmoid


@dataclass(frozen=True)
class Table(BinaryCalibrator):
    """Base of maps that are tables over the probability.

    log_odds : of the knots, or of the inner edges, where the probabilities of
    calibration rows are too near to 0 or 1 to tell them apart (log-odds beyond 27.6,
    ``numerics.TIE``); the table is then over log-odds. None where it is over
    probabilities.
    """

    _: KW_ONLY
    log_odds: Curves | None = param(optional=True, default=None)

    identity = (EMPTY, EMPTY)
    flexible = True
    # raises DataError for invalid parameters of a map
    check_map: ClassVar[Callable[..., None]]

    def _arrays(self) -> list[Any]:
        arrays = super()._arrays()
        if self.log_odds is not None:
            is_indexed = isinstance(self.log_odds, tuple)
            arrays.append(self.log_odds if is_indexed else (self.log_odds,))
        return arrays

    def check_own(self, k: int) -> None:
        super().check_own(k)
        if self.log_odds is not None and (
            self.mode not in ("binary", "top") or len(self.maps) > 1 or k == 1
        ):
            raise DataError("params.log_odds is of one map of the log-odds of classes")
        for one in self.maps:
            self.check_map(*one)


@dataclass(frozen=True)
class Steps(Table):
    """Base of step functions: one value for each bin between the edges."""

    edges: Curves = param()
    values: Curves = param(within="0 to 1")

    @staticmethod
    def check_map(
        edges: FloatArray, values: FloatArray, log_odds: FloatArray | None = None
    ) -> None:
        """Raise DataError unless edges rise from 0 to 1 with one value per bin.

        Log-odds must rise too, and be those of the edges.
        """
        if len(edges) == len(values) == 0 and log_odds is None:
            return
        if len(edges) != len(values) + 1 or len(edges) < 2:
            raise DataError(
                f"there are {len(edges)} edges and {len(values)} values, expected one"
                " edge more than values"
            )
        rising = bool((np.diff(edges) > 0).all())
        if log_odds is not None:
            rising = are_log_odds(log_odds, edges[1:-1])
        if not (edges[0] == 0.0 and edges[-1] == 1.0 and rising):
            raise DataError("edges do not rise from 0 to 1")

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        edges, values, log_odds = (*params, None)[:3]
        if log_odds is not None:
            edges = np.pad(log_odds, 1)
        return step(x, edges, values)


@dataclass(frozen=True)
class PiecewiseLinear(Table):
    """Base of piecewise linear maps through the knots (scores, values)."""

    scores: Curves = param()
    values: Curves = param(within="0 to 1")

    @staticmethod
    def check_map(
        x: FloatArray, y: FloatArray, log_odds: FloatArray | None = None
    ) -> None:
        """Raise DataError unless knots have rising scores and as many values.

        Log-odds must rise too, and be those of the scores.
        """
        if len(x) != len(y):
            raise DataError(
                f"there are {len(x)} scores and {len(y)} values, expected as many"
            )
        rising = bool((np.diff(x) > 0).all())
        if log_odds is not None:
            rising = are_log_odds(log_odds, x)
        if not rising:
            raise DataError("scores of the knots do not rise")

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        scores, values, log_odds = (*params, None)[:3]
        return line(x, scores if log_odds is None else log_odds, values)


@overridable
def step(p: FloatArray, edges: FloatArray, values: FloatArray) -> FloatArray:
    """Value of the right-closed bin of each score; the identity without bins."""
    if not len(edges):
        return p
    value: FloatArray = values[np.searchsorted(edges[1:-1], p, side="left")]
    return value


STEEP_UNIT = 2.0**512
"""Factor for knots so close together that their slope would overflow."""


def line(p: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Interpolate linearly between knots, constant beyond the ends.

    Without knots it is the identity.
    """
    if not len(x):
        return p
    # Knots a denormal apart make a slope that overflows. A power of two as the unit keeps
    # it finite and changes no digit. Traced graphs have no such knots.
    if isinstance(p, np.ndarray) and np.diff(x).min(initial=1.0) < TINY:
        p = p * STEEP_UNIT
        x = x * STEEP_UNIT
    return np.clip(np.interp(p, x, y), 0.0, 1.0)


def are_log_odds(s: FloatArray, p: FloatArray) -> bool:
    """True if s rises and holds the log-odds of p."""
    return (
        len(s) == len(p)
        and bool((np.diff(s) > 0).all())
        and np.allclose(sigmoid(s), p, rtol=1e-9, atol=0)
    )
