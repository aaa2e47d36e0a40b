"""Maps of a probability that are lists of numbers: steps, and straight lines between knots."""

import numpy as np

from calcli.errors import DataError
from calcli.numerics import FloatArray, overridable

EMPTY = np.empty(0)
"""Edges, values or knots of the map that changes nothing."""


@overridable
def step(p: FloatArray, edges: FloatArray, values: FloatArray) -> FloatArray:
    """Value of the right-closed bin of each score; no bins at all is the identity."""
    if not len(edges):
        return p
    found: FloatArray = values[np.searchsorted(edges[1:-1], p, side="left")]
    return found


def line(p: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Straight lines between knots, constant beyond the ends; no knots are the identity."""
    if not len(x):
        return p
    # Knots a denormal apart make a slope that overflows: keep the range whatever happens.
    return np.clip(np.interp(p, x, y), 0.0, 1.0)


def check_steps(edges: FloatArray, values: FloatArray) -> None:
    """Raise DataError unless edges rise from 0 to 1 with one probability per bin between."""
    if len(edges) == len(values) == 0:
        return
    if len(edges) != len(values) + 1 or len(edges) < 2:
        raise DataError(f"there are {len(edges)} edges and {len(values)} values, expected one edge more than values")
    if not (edges[0] == 0.0 and edges[-1] == 1.0 and (np.diff(edges) > 0).all()):
        raise DataError("edges do not rise from 0 to 1")
    check_probabilities(values)


def check_line(x: FloatArray, y: FloatArray) -> None:
    """Raise DataError unless knots have rising scores and probabilities for values."""
    if len(x) != len(y):
        raise DataError(f"there are {len(x)} scores and {len(y)} values, expected as many")
    if not (np.diff(x) > 0).all():
        raise DataError("scores of the knots do not rise")
    check_probabilities(y)


def check_probabilities(values: FloatArray) -> None:
    """Raise DataError unless all values lie in [0, 1]."""
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError("values are not all between 0 and 1")
