"""Maps that are tables, which NumPy looks up in ways that no graph has: a binary search of all rows together"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calcli.export.graph import FUNCTIONS, GraphValue, Operand
from calcli.methods._binary.curves import step
from calcli.methods._monotone import evaluate
from calcli.numerics import FloatArray, row_max


def take(table: FloatArray, index: GraphValue) -> Operand:
    """Entries of a constant (m,) at the indices."""
    return index.like(index.graph.op("take", table, index))


class Pieces(NamedTuple):
    """A map of straight pieces: value + slope (x - start), one piece more than edges."""

    edges: FloatArray
    start: FloatArray
    value: FloatArray
    slope: FloatArray

    @classmethod
    def identity(cls) -> "Pieces":
        zero = np.zeros(1)
        return cls(np.empty(0), zero, zero, np.ones(1))

    @classmethod
    def steps(cls, edges: FloatArray, values: FloatArray) -> "Pieces":
        """``curves.step``: the value of the right-closed bin."""
        if not len(edges):
            return cls.identity()
        flat = np.zeros(len(values))
        return cls(edges[1:-1], flat, values, flat)

    @classmethod
    def line(cls, x: FloatArray, y: FloatArray) -> "Pieces":
        """``numpy.interp``: straight between knots, constant beyond."""
        if not len(x):
            return cls.identity()
        with np.errstate(over="ignore"):
            slope = np.clip(np.diff(y) / np.diff(x), -1e300, 1e300)
        return cls(x, np.append(x[0], x), np.append(y[0], y), np.concatenate([[0.0], slope, [0.0]]))

    @classmethod
    def bent(cls, edges: FloatArray, slopes: FloatArray) -> "Pieces":
        """``_monotone.evaluate``."""
        base = np.concatenate([[0.0, 0.0], np.cumsum(slopes[1:-1] * np.diff(edges))])
        return cls(edges, np.append(edges[0], edges), base, slopes)


def search(x: Operand, edges: Sequence[FloatArray], *, closed: bool) -> tuple[Operand, int]:
    """How many edges of its column's table lie below each x (with ``closed``: at it, too), and their longest number.

    x : (rows, columns). edges : one sorted table for all columns, or one per column. A binary search of all rows
    together: as many steps as the longest table has binary digits. None where there is no edge.
    """
    steps = max(map(len, edges)).bit_length()
    size = 2**steps - 1
    if not steps:
        return None, 0
    table = np.full((len(edges), size), np.inf)
    for row, own in zip(table, edges, strict=True):
        row[: len(own)] = own
    offset = np.arange(len(edges)) * size
    passed = np.less_equal if closed else np.less
    stride = 2 ** (steps - 1)
    found: Operand = np.where(passed(table[:, stride - 1], x), stride, 0)
    while stride > 1:
        stride //= 2
        found = np.where(passed(take(table.ravel(), found + (offset + stride - 1)), x), found + stride, found)
    return found, size + 1


def nudged(x: Operand, maps: int) -> Operand:
    """x moved by its graph's nudge, if there is one."""
    return x if x.graph.nudge is None else x * (1.0 + x.graph.nudge[:, :maps])


def piecewise(x: GraphValue, maps: Sequence[Pieces], *, closed: bool = False) -> Operand:
    """The maps at x: one for all columns, or one per column. closed : a score on an edge belongs above it."""
    seen: Operand = nudged(x.view(x.graph.rows, x.width), len(maps))
    found, size = search(seen, [one.edges for one in maps], closed=closed)
    if found is None:
        first, level, rise = (np.concatenate([one[i] for one in maps]) for i in (1, 2, 3))
    else:
        tables = np.zeros((3, len(maps), size))
        for row, one in enumerate(maps):
            tables[:, row, : len(one.start)] = one[1:]
        index = found + np.arange(len(maps)) * size
        first, level, rise = (take(table.ravel(), index) for table in tables)
    return x.like((seen - first) * rise + level)


# ---- what ``apply`` calls of them


def _step(p: GraphValue, edges: FloatArray, values: FloatArray) -> Operand:
    p.graph.jumps = True
    return piecewise(p, [Pieces.steps(edges, values)])


def _interpolated(p: GraphValue, x: FloatArray, y: FloatArray) -> Operand:
    p.graph.jumps = True  # knots can lie next to each other
    return piecewise(p, [Pieces.line(x, y)], closed=True)


FUNCTIONS[row_max] = lambda z: z.max(axis=1)
FUNCTIONS[np.interp] = _interpolated
FUNCTIONS[step] = _step
FUNCTIONS[evaluate] = lambda x, edges, slopes: piecewise(x, [Pieces.bent(edges, slopes)])
