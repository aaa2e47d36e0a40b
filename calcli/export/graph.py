"""What a calibrator computes, as a list of small operations on arrays: traced once, written for every target.

Floats are float64, indices int64. Arrays are (rows, classes) or (rows, 1): reductions keep
their axis. Constants broadcast as in NumPy.
"""

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.fast_dataclass import dataclass

Operand = Any
"""A value, or a number or array that becomes a constant."""


@dataclass(frozen=True)
class Node:
    """One operation. inputs : places of earlier nodes. array : of a constant."""

    op: str
    inputs: tuple[int, ...] = ()
    array: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class GraphValue:
    """The result of a node; operators on it add nodes."""

    graph: "Graph"
    place: int

    def __add__(self, other: Operand) -> "GraphValue":
        return self.graph.op("add", self, other)

    def __radd__(self, other: Operand) -> "GraphValue":
        return self.graph.op("add", other, self)

    def __sub__(self, other: Operand) -> "GraphValue":
        return self.graph.op("sub", self, other)

    def __rsub__(self, other: Operand) -> "GraphValue":
        return self.graph.op("sub", other, self)

    def __mul__(self, other: Operand) -> "GraphValue":
        return self.graph.op("mul", self, other)

    def __rmul__(self, other: Operand) -> "GraphValue":
        return self.graph.op("mul", other, self)

    def __truediv__(self, other: Operand) -> "GraphValue":
        return self.graph.op("div", self, other)

    def __rtruediv__(self, other: Operand) -> "GraphValue":
        return self.graph.op("div", other, self)

    def __matmul__(self, other: Operand) -> "GraphValue":
        return self.graph.op("matmul", self, other)

    def __neg__(self) -> "GraphValue":
        return self.graph.op("neg", self)

    def __lt__(self, other: Operand) -> "GraphValue":
        return self.graph.op("less", self, other)

    def __gt__(self, other: Operand) -> "GraphValue":
        return self.graph.op("less", other, self)

    def __le__(self, other: Operand) -> "GraphValue":
        return self.graph.op("less_equal", self, other)

    def __ge__(self, other: Operand) -> "GraphValue":
        return self.graph.op("less_equal", other, self)


@dataclass
class Graph:
    """Nodes in the order in which they are computed; equal operations are one node.

    jumps : whether a map in it jumps, or is as good as that, so that the last bit of a
    score can decide. nudge : (1, classes) relative change of what such maps are looked up at,
    to see what that does. outputs : the nodes that the graph is for, by name.
    """

    nodes: list[Node] = field(default_factory=list)
    jumps: bool = False
    nudge: NDArray[np.float64] | None = None
    outputs: dict[str, int] = field(default_factory=dict)
    _seen: dict[Any, int] = field(default_factory=dict)

    def op(self, op: str, *inputs: Operand) -> GraphValue:
        """The value of an operation."""
        return self._add(Node(op, tuple(self._place(x) for x in inputs)), (op, *map(self._place, inputs)))

    def const(self, value: Any) -> GraphValue:
        """A constant: Python numbers are floats, arrays keep int64 and become float64 otherwise."""
        array = np.asarray(value)
        whole = isinstance(value, np.ndarray | np.generic) and array.dtype.kind in "iu"
        array = np.ascontiguousarray(array, dtype=np.int64 if whole else np.float64).reshape(array.shape)
        return self._add(Node("const", (), array), ("const", array.dtype.str, array.shape, array.tobytes()))

    def _place(self, x: Operand) -> int:
        return x.place if isinstance(x, GraphValue) else self.const(x).place

    def _add(self, node: Node, key: Any) -> GraphValue:
        if key not in self._seen:
            self._seen[key] = len(self.nodes)
            self.nodes.append(node)
        return GraphValue(self, self._seen[key])

    def needed(self) -> list[tuple[int, Node]]:
        """The nodes that the outputs depend on, with their places, in order."""
        wanted = set(self.outputs.values())
        for place in range(len(self.nodes) - 1, -1, -1):
            if place in wanted:
                wanted.update(self.nodes[place].inputs)
        return [(place, self.nodes[place]) for place in sorted(wanted)]
