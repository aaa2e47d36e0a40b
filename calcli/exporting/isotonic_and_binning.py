"""Isotonic regression, binning and splines in a graph: tables that a binary search of
all rows together looks up.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calcli.exporting.graph import FUNCTIONS, GraphValue, Operand
from calcli.methods._binary import maps as binary
from calcli.methods._binary import tables
from calcli.methods._binary.log_odds import log_sigmoid
from calcli.methods._monotone import evaluate, values_at_ends
from calcli.methods.compared.bbq import BayesianBinning
from calcli.methods.compared.irova import TIE_BREAK, IsotonicOneVsAll
from calcli.methods.hb import HistogramBinning
from calcli.methods.logit_spline import LogitSpline
from calcli.methods.sb import ScalingBinning
from calcli.numerics import FloatArray, entries, row_max, sigmoid

Maps = list[tuple[Any, ...]]


class Pieces(NamedTuple):
    """Piecewise linear map, value + slope (x - start), with one piece more than edges."""

    edges: FloatArray
    start: FloatArray
    value: FloatArray
    slope: FloatArray

    @classmethod
    def steps(cls, edges: FloatArray, values: FloatArray) -> "Pieces":
        """Pieces of ``tables.step``: the value of the right-closed bin."""
        if not len(edges):
            return IDENTITY
        flat = np.zeros(len(values))
        return cls(edges[1:-1], flat, values, flat)

    @classmethod
    def line(cls, x: FloatArray, y: FloatArray) -> "Pieces":
        """Pieces of ``numpy.interp``: linear between knots, constant beyond."""
        if not len(x):
            return IDENTITY
        with np.errstate(over="ignore"):
            slope = np.clip(np.diff(y) / np.diff(x), -1e300, 1e300)
        return cls(
            x,
            np.append(x[0], x),
            np.append(y[0], y),
            np.concatenate([[0.0], slope, [0.0]]),
        )

    @classmethod
    def bent(cls, edges: FloatArray, slopes: FloatArray) -> "Pieces":
        """Pieces of ``_monotone.evaluate``: continuous, with these slopes."""
        base = values_at_ends(edges, slopes)
        return cls(edges, np.append(edges[0], edges), base, slopes)


IDENTITY = Pieces(np.empty(0), np.zeros(1), np.zeros(1), np.ones(1))


def search(
    x: Operand, edges: Sequence[FloatArray], *, closed: bool
) -> tuple[Operand, int]:
    """Number of edges below each x in its column's table (``closed``: or at x), and the
    padded number of pieces.

    x : (rows, columns). edges : one sorted table for all columns, or one per column. A
    binary search of all rows together: as many steps as the longest table has binary
    digits, at least one.
    """
    steps = max(1, *map(len, edges)).bit_length()
    size = 2**steps - 1
    table = np.full((len(edges), size), np.inf)
    for row, edges_of_column in zip(table, edges, strict=True):
        row[: len(edges_of_column)] = edges_of_column
    offset = np.arange(len(edges)) * size
    is_passed = np.less_equal if closed else np.less
    stride = 2 ** (steps - 1)
    below: Operand = np.where(is_passed(table[:, stride - 1], x), stride, 0)
    while stride > 1:
        stride //= 2
        edge = entries(below + (offset + stride - 1), table.ravel())
        below = np.where(is_passed(edge, x), below + stride, below)
    return below, size + 1


def nudged(x: Operand, maps: int) -> Operand:
    """x with the relative change ``nudge`` of its graph, if there is one."""
    return x if x.graph.nudge is None else x * (1.0 + x.graph.nudge[:, :maps])


def piecewise(
    x: GraphValue, maps: Sequence[Pieces], *, closed: bool = False
) -> Operand:
    """Evaluate maps at x: one for all columns, or one per column.

    closed : a score on an edge belongs above it.
    """
    score: Operand = nudged(x.view(x.graph.rows, x.width), len(maps))
    below, size = search(score, [pieces.edges for pieces in maps], closed=closed)
    tables = np.zeros((3, len(maps), size))
    for row, pieces in enumerate(maps):
        tables[:, row, : len(pieces.start)] = pieces[1:]
    index = below + np.arange(len(maps)) * size
    start, value, slope = (entries(index, table.ravel()) for table in tables)
    return x.like((score - start) * slope + value)


def steps(x: Operand, maps: Sequence[Sequence[Any]]) -> Operand:
    """Evaluate ``tables.step`` of each map."""
    x.graph.jumps = True
    return piecewise(x, [Pieces.steps(*one) for one in maps])


def lines(x: Operand, maps: Sequence[Sequence[Any]]) -> Operand:
    """Evaluate ``numpy.interp`` of each map.

    Knots can be adjacent floats, so it counts as a jump.
    """
    x.graph.jumps = True
    return piecewise(x, [Pieces.line(*one) for one in maps], closed=True)


FUNCTIONS[row_max] = lambda z: z.max(axis=1)
FUNCTIONS[np.interp] = lambda p, x, y: lines(p, [(x, y)])
FUNCTIONS[tables.step] = lambda p, edges, values: steps(p, [(edges, values)])
FUNCTIONS[evaluate] = lambda x, edges, slopes: piecewise(
    x, [Pieces.bent(edges, slopes)]
)


def curve(calibrator: binary.BinaryCalibrator, x: Operand, maps: Maps) -> Operand:
    """Evaluate one map per class at x (rows, classes); class by class for methods not
    listed here.
    """
    if isinstance(calibrator, LogitSpline):
        return sigmoid(spline(x, maps))
    if isinstance(calibrator, binary.LogisticCalibrator):
        return sigmoid(calibrator.logit(x, *columns_of(maps)))
    if isinstance(calibrator, ScalingBinning):  # a smooth map, then its steps
        parameters = []
        for one in maps:
            slope, intercept = one[:2]
            slope_beneath = one[4] if len(one) > 4 else slope
            parameters.append((slope, intercept, slope_beneath))
        above, shift, beneath = columns_of(parameters)
        smooth = x * above + shift
        if (above != beneath).any():
            bent = log_sigmoid(x) * above + shift - log_sigmoid(-x) * beneath
            smooth = np.where(above == beneath, smooth, bent)
        return steps(sigmoid(smooth), [one[2:4] for one in maps])
    if isinstance(calibrator, HistogramBinning | BayesianBinning):
        return steps(x, maps)
    if isinstance(calibrator, tables.PiecewiseLinear):
        # Isotonic regression and splines.
        q = np.clip(lines(x, maps), 0.0, 1.0)
        if isinstance(calibrator, IsotonicOneVsAll):
            return q + x * TIE_BREAK
        return q
    columns = [calibrator.curve(x[:, c], *one) for c, one in enumerate(maps)]
    return np.stack(columns, axis=1)


def columns_of(maps: Maps) -> list[Any]:
    """Each parameter of the maps as an array (maps,)."""
    return [np.array(values, dtype=np.float64) for values in zip(*maps, strict=True)]


def spline(s: Operand, maps: Maps) -> Operand:
    """``LogitSpline.logit``: quadratic between knots, linear beyond; maps of fewer
    knots have empty pieces.
    """
    count = max(len(knots) for _, knots, _ in maps)
    knots = np.array([_padded(one[1], count) for one in maps]).T
    slopes = np.array([_padded(one[2], count) for one in maps]).T
    below = np.minimum(s - knots[0], 0.0) * slopes[0]
    above = np.maximum(s - knots[-1], 0.0) * slopes[-1]
    total = below + above
    total = total + columns_of([one[:1] for one in maps])[0]
    for j, width in enumerate(np.diff(knots, axis=0)):
        t = np.clip(s - knots[j], 0.0, width)
        bend = 0.5 * (slopes[j + 1] - slopes[j]) / np.where(width > 0, width, 1.0)
        total = total + t * (t * bend + slopes[j])
    return total


def _padded(values: FloatArray, count: int) -> FloatArray:
    """So many values, the last one repeated."""
    return np.pad(values, (0, count - len(values)), "edge")
