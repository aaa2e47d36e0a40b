"""Functions of values that several methods share, made of the operations of the graph.

They follow ``calcli.numerics`` and ``calcli.methods._binary`` step by step, so that ties
are ties here too.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calcli.export.graph import GraphValue, Operand
from calcli.numerics import TINY, FloatArray


def exp(x: GraphValue) -> GraphValue:
    return x.graph.op("exp", x)


def log(x: GraphValue) -> GraphValue:
    return x.graph.op("log", x)


def minimum(x: GraphValue, other: Operand) -> GraphValue:
    return x.graph.op("minimum", x, other)


def maximum(x: GraphValue, other: Operand) -> GraphValue:
    return x.graph.op("maximum", x, other)


def row_sum(x: GraphValue) -> GraphValue:
    return x.graph.op("row_sum", x)


def row_max(x: GraphValue) -> GraphValue:
    return x.graph.op("row_max", x)


def row_argmax(x: GraphValue) -> GraphValue:
    """Index of the largest entry, ties to the lowest, (rows, 1)."""
    return x.graph.op("row_argmax", x)


def where(condition: GraphValue, x: Operand, y: Operand) -> GraphValue:
    return condition.graph.op("where", condition, x, y)


def at(x: GraphValue, index: GraphValue) -> GraphValue:
    """Entries of each row at the row's own indices."""
    return x.graph.op("at", x, index)


def take(table: FloatArray, index: GraphValue) -> GraphValue:
    """Entries of a constant (m,) at the indices."""
    return index.graph.op("take", table, index)


def is_class(label: GraphValue, k: int) -> GraphValue:
    """True in each row's column of its label, (rows, k)."""
    return label.graph.op("equal", label, np.arange(k)[None, :])


# ---- logarithms and sigmoids


def log_softmax(z: GraphValue) -> GraphValue:
    shifted = z - row_max(z)
    return shifted - log(row_sum(exp(shifted)))


def softmax(z: GraphValue) -> GraphValue:
    p = exp(z - row_max(z))
    return p / row_sum(p)


def log_normalizer(z: GraphValue) -> GraphValue:
    top = row_max(z)
    return log(row_sum(exp(z - top))) + top


def probabilities(z: GraphValue) -> GraphValue:
    return exp(z - log_normalizer(z))


def floored_log(p: GraphValue) -> GraphValue:
    return log(maximum(p, TINY))


def logs(q: GraphValue) -> tuple[GraphValue, GraphValue]:
    return floored_log(q), floored_log(1.0 - q)


def _small(u: GraphValue) -> GraphValue:
    """exp(-|u|)."""
    return exp(-u.graph.op("abs", u))


def sigmoid(u: GraphValue) -> GraphValue:
    t = _small(u)
    return where(u >= 0.0, 1.0, t) / (t + 1.0)


def log_sigmoid(u: GraphValue) -> GraphValue:
    return minimum(u, 0.0) - u.graph.op("log1p", _small(u))


def softplus(u: GraphValue) -> GraphValue:
    return maximum(u, 0.0) + u.graph.op("log1p", _small(u))


def log_add(a: GraphValue, b: Operand) -> GraphValue:
    """Logarithm of exp(a) + exp(b)."""
    return maximum(a, b) + a.graph.op("log1p", _small(a - b))


def mixed_with_uniform(log_p: GraphValue, share: float, k: int) -> GraphValue:
    return log_add(log_p + np.log1p(-share), np.log(share / k)) if share > 0 else log_p


# ---- one probability of a row, and the others


def top_log_odds(z: GraphValue, label: GraphValue, k: int) -> GraphValue:
    return at(z, label) - log_normalizer(where(is_class(label, k), -np.inf, z))


def one_vs_rest_log_odds(z: GraphValue, k: int) -> GraphValue:
    top, d = row_argmax(z), z - row_max(z)
    e = exp(d)
    rest = row_sum(e) - e
    below = d - log(where(rest > 0.0, rest, 1.0))
    return where(is_class(top, k), top_log_odds(z, top, k), below)


def share_rest(z: GraphValue, label: GraphValue, log_q: GraphValue, log_rest: GraphValue, k: int) -> GraphValue:
    mask = is_class(label, k)
    return where(mask, log_q, log_softmax(where(mask, -np.inf, z)) + log_rest)


def normalize(q: GraphValue, z: GraphValue, label: GraphValue) -> tuple[GraphValue, GraphValue]:
    """Log-probabilities and label; rows whose entries sum to nothing stay uncalibrated."""
    total = row_sum(q)
    zero = total < TINY
    log_probs = where(zero, log_softmax(z), floored_log(q) - log(where(zero, 1.0, total)))
    return log_probs, where(zero, label, row_argmax(q))


# ---- maps that are tables


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
        """``curves.line``: straight between knots, constant beyond."""
        if not len(x):
            return cls.identity()
        with np.errstate(over="ignore"):
            slope = np.clip(np.diff(y) / np.diff(x), -1e300, 1e300)
        return cls(x, np.append(x[0], x), np.append(y[0], y), np.concatenate([[0.0], slope, [0.0]]))


def search(x: GraphValue, edges: Sequence[FloatArray], *, closed: bool) -> tuple[GraphValue | None, int]:
    """How many edges of its column's table lie below each x (with ``closed``: at it, too), and their longest number.

    edges : one sorted table for all columns, or one per column. A binary search of all rows
    together: as many steps as the longest table has binary digits. None where there is no edge.
    """
    steps = max(map(len, edges)).bit_length()
    size = 2**steps - 1
    if not steps:
        return None, 0
    table = np.full((len(edges), size), np.inf)
    for row, own in zip(table, edges, strict=True):
        row[: len(own)] = own
    offset = np.arange(len(edges))[None, :] * size

    def passed(edge: Operand) -> GraphValue:
        return x.graph.op("less_equal" if closed else "less", edge, x)

    stride = np.int64(2 ** (steps - 1))
    found = where(passed(table[:, stride - 1][None, :]), stride, np.int64(0))
    for step in range(steps - 2, -1, -1):
        stride = np.int64(2**step)
        edge = take(table.ravel(), found + (offset + stride - 1))
        found = where(passed(edge), found + stride, found)
    return found, size + 1


def nudged(x: GraphValue, maps: int) -> GraphValue:
    """x moved by its graph's nudge, if there is one."""
    return x if x.graph.nudge is None else x * (1.0 + x.graph.nudge[:, :maps])


def piecewise(x: GraphValue, maps: Sequence[Pieces], *, closed: bool = False) -> GraphValue:
    """The maps at x: one for all columns, or one per column. closed : a score on an edge belongs above it."""
    x = nudged(x, len(maps))
    found, size = search(x, [one.edges for one in maps], closed=closed)
    if found is None:
        start, value, slope = (np.stack([one[i] for one in maps], axis=1) for i in (1, 2, 3))
        return (x - start) * slope + value
    tables = np.zeros((3, len(maps), size))
    for row, one in enumerate(maps):
        tables[:, row, : len(one.start)] = one[1:]
    index = found + np.arange(len(maps))[None, :] * size
    first, level, rise = (take(table.ravel(), index) for table in tables)
    return (x - first) * rise + level
