"""Computation graph of a calibrator: small operations on arrays, traced once and
written for every target.

A ``GraphValue`` stands for an array of rows and turns calls of NumPy's functions (NEP
13 and 18) into nodes, so that ``Calibrator.apply`` itself is traced. Anything that no
graph can express is refused. Floats are float64, indices int64.

A graph serves any number of rows, but NumPy's functions ask for shapes. So values claim
a number of rows that is a prime and divides no number of columns (``Graph.rows``): a
length that it divides is one of rows, any other one of columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, partialmethod, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from calcli.errors import UsageError
from calcli.exporting.operations import OPERATIONS
from calcli.numerics import AnyArray, entries

Operand = Any
"""A ``GraphValue``, typed like the array that it stands for; or a number or array that
becomes a constant.
"""

Shape = tuple[int, ...]
ALL = slice(None)


def refused(what: str) -> UsageError:
    """Error for code that no graph can express.

    what : the verb and object of its sentence.
    """
    return UsageError(f"cannot be exported: its apply {what}, which no graph does")


@dataclass(frozen=True)
class Node:
    """One operation. inputs : indices of earlier nodes. array : value of a constant."""

    op: str
    inputs: tuple[int, ...]
    array: AnyArray | None = None


class GraphValue(NDArrayOperatorsMixin):
    """Array that stands for the result of a node in NumPy's functions.

    shape : (n,), (n, columns), or such an array viewed as (columns, n) or flat, where n
    is ``graph.rows``. The node is (rows, columns) in every case, (rows, 1) for one
    number per row. cell : list of the node's index alone, shared by the views of an
    array, so that a write to one is seen in all; a tuple is read-only.
    """

    def __init__(
        self,
        graph: "Graph",
        cell: "list[int] | tuple[int]",
        shape: Shape,
        dtype: Any = np.float64,
    ) -> None:
        self.graph = graph
        self.cell = cell
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.ndim = len(shape)
        self.size = prod(shape)

    @property
    def place(self) -> int:
        return self.cell[0]

    @property
    def width(self) -> int:
        return self.size // self.graph.rows

    @property
    def is_transposed(self) -> bool:
        """True if rows are the last axis, as in ``z.T``."""
        return self.ndim == 2 and self.shape[0] != self.graph.rows

    def like(
        self, node: "GraphValue", dtype: Any = np.float64, shape: Shape | None = None
    ) -> "GraphValue":
        """Value of another node, in this one's shape or a given one."""
        if shape is None:
            shape = self.shape
        return GraphValue(self.graph, [node.place], shape, dtype)

    def view(self, *shape: int) -> "GraphValue":
        return GraphValue(self.graph, self.cell, shape, self.dtype)

    def floats(self) -> "GraphValue":
        if self.dtype == np.float64:
            return self
        return self.like(self.graph.op("float", self))

    # ---- attributes and methods of arrays

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        raise refused("decides by the scores of one row")

    def __int__(self) -> int:
        if self.shape:
            raise refused("makes a number of an array")
        return 0  # counts of rows are only reported

    def __float__(self) -> float:
        raise refused("makes a number of an array")

    def __array__(self, *how: Any, **more: Any) -> Any:
        raise refused("asks for the numbers of an array themselves")

    @property
    def T(self) -> "GraphValue":
        return self.view(*self.shape[::-1])

    def ravel(self) -> "GraphValue":
        return self.view(self.size)

    def reshape(self, *shape: Any) -> "GraphValue":
        wanted = shape[0] if isinstance(shape[0], tuple) else shape
        sizes = list(wanted)
        if -1 in sizes:
            known = -prod(wanted)
            sizes[sizes.index(-1)] = self.size // known
        return self.view(*self.graph.checked(tuple(sizes)))

    def copy(self) -> "GraphValue":
        return self.like(self, self.dtype)

    def astype(self, dtype: Any, *, copy: bool = True) -> "GraphValue":
        wanted = np.dtype(dtype)
        if wanted not in (np.float64, np.int64):
            raise refused(f"turns numbers into {wanted}")
        if wanted == self.dtype:
            return self.copy() if copy else self
        return (
            self.floats()
            if wanted == np.float64
            else self.like(self.graph.op("whole", self), np.int64)
        )

    def _reduced(
        self,
        op: str,
        axis: int | None = None,
        *,
        keepdims: bool = False,
        dtype: Any = np.float64,
    ) -> Any:
        if axis is None:
            # Of all rows only counts are taken, which ``apply`` reports and no export
            # needs: a value of shape () stands for them, and ``int`` of it is 0.
            return GraphValue(self.graph, (self.place,), ())
        if self.ndim == 1 or axis % self.ndim != (0 if self.is_transposed else 1):
            raise refused("brings rows together")
        rows = self.graph.rows
        one = (1, rows) if self.is_transposed else (rows, 1)
        return self.like(
            self.graph.op(op, self.floats()), dtype, one if keepdims else (rows,)
        )

    sum = partialmethod(_reduced, "row_sum")
    max = partialmethod(_reduced, "row_max")
    argmax = partialmethod(_reduced, "row_argmax", dtype=np.int64)

    def min(self, axis: int | None = None, *, keepdims: bool = False) -> Operand:
        return -(-self).max(axis, keepdims=keepdims)

    def mean(self, axis: int | None = None, *, keepdims: bool = False) -> Operand:
        return self.sum(axis, keepdims=keepdims) / self.width

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Operand:
        return (-self).argmax(axis, keepdims=keepdims)

    def any(self, axis: int | None = None, *, keepdims: bool = False) -> Operand:
        """Per row; over all rows True, so that everything that may happen in a row is
        traced.
        """
        return True if axis is None else self.max(axis, keepdims=keepdims) > 0.5

    def all(self, axis: int | None = None, *, keepdims: bool = False) -> Operand:
        return False if axis is None else self.min(axis, keepdims=keepdims) > 0.5

    def clip(self, low: Operand, high: Operand) -> Operand:
        return np.minimum(np.maximum(self, low), high)

    # ---- indexing

    def __getitem__(self, key: Any) -> "GraphValue":
        rows = self.graph.rows
        op = self.graph.op
        match key:
            case slice() | (slice(), slice()) if key in (ALL, (ALL, ALL)):
                return self
            case (slice(), None) if self.ndim == 1 and key[0] == ALL:
                return self.view(rows, 1)
            case (slice(), int() | slice() | list() | np.ndarray() as columns) if (
                key[0] == ALL and len(self) == rows
            ):
                picked = np.arange(self.width)[columns]
                shape = (rows,) if picked.ndim == 0 else (rows, len(picked))
                node = op("columns", self, np.atleast_1d(picked))
                return GraphValue(self.graph, (node.place,), shape, self.dtype)
            case int() if self.is_transposed:
                # raises the IndexError at which a loop over columns ends
                return self.T[:, key]
            case (who, GraphValue() as label) if (
                label.dtype == np.int64 and self._some_rows(who)
            ):
                return self.like(op("at", self, label), self.dtype, (rows,))
            case GraphValue() if key.dtype == np.bool_:
                # some rows: all are computed, only those wanted written
                return self.copy()
        raise refused(f"takes [{key!r}] of an array")

    def __setitem__(self, key: Any, value: Operand) -> None:
        match key:
            case slice() | (slice(), slice()) if key in (ALL, (ALL, ALL)):
                self.write(np.full_like(self, value))
                return
            case (slice(), int() as one) if key[0] == ALL:
                is_written: Operand = np.arange(self.width) == one
                written = _as_column(value)
            case (who, GraphValue() as label) if (
                label.dtype == np.int64 and self._some_rows(who)
            ):
                is_written = _as_column(label) == np.arange(self.width)
                if isinstance(who, GraphValue):
                    is_written = is_written & _as_column(who)
                written = _as_column(value)
            case GraphValue() if key.dtype == np.bool_:
                is_written = _as_column(key) if self.ndim == 2 else key
                written = value
            case _:
                raise refused(f"writes [{key!r}] of an array")
        self.write(np.where(is_written, written, self))

    def _some_rows(self, who: Any) -> bool:
        """True for a first index that lists all rows in order, or is a mask of rows."""
        if isinstance(who, GraphValue):
            return who.dtype == np.bool_
        return isinstance(who, np.ndarray) and np.array_equal(
            who, np.arange(self.graph.rows)
        )

    def write(self, value: Operand) -> "GraphValue":
        """Replace the node by another of the same shape, in all views of the array."""
        if not isinstance(self.cell, list) or value.shape != self.shape:
            raise refused("writes into its input or into columns of an array")
        if self.dtype not in (value.dtype, np.float64):
            raise refused(f"writes {value.dtype} into an array of {self.dtype}")
        self.cell[0] = (value.floats() if self.dtype == np.float64 else value).place
        return self

    # ---- NumPy's functions

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **how: Any
    ) -> Any:
        name = ufunc.__name__
        if method == "reduce" and name in REDUCTIONS:
            return getattr(inputs[0], REDUCTIONS[name])(
                how.get("axis", 0), keepdims=how.get("keepdims", False)
            )
        make = FUNCTIONS.get(
            ufunc, partial(elementwise, name) if name in OPERATIONS else None
        )
        if method != "__call__" or make is None or how:
            raise refused(
                f"calls numpy.{name}{'' if method == '__call__' else '.' + method}"
            )
        result = make(*inputs)
        if out is None:
            return result
        if not isinstance(out[0], GraphValue):
            raise refused("writes into an array of a fixed number of rows")
        return out[0].write(result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in FUNCTIONS:
            return FUNCTIONS[func](*args, **kwargs)
        if (
            isinstance(args[0], GraphValue)
            and func.__module__ == "numpy"
            and hasattr(GraphValue, func.__name__)
        ):
            return getattr(args[0], func.__name__)(*args[1:], **kwargs)
        raise refused(f"calls {func.__module__}.{func.__name__}")


@dataclass
class Graph:
    """Nodes in the order in which they are computed; equal operations are one node.

    jumps : whether a map in it is discontinuous, or nearly so, so that the last bit of
    a score can matter. nudge : (1, classes) relative change of the inputs of such maps,
    to measure its effect. outputs : indices of the output nodes by name. rows : the
    number of rows that values claim, a prime that divides no number of columns.
    """

    nodes: list[Node] = field(default_factory=list)
    jumps: bool = False
    nudge: NDArray[np.float64] | None = None
    outputs: dict[str, int] = field(default_factory=dict)
    rows: int = 9973
    _seen: dict[Any, int] = field(default_factory=dict)

    def scores(self, k: int) -> Operand:
        """Add the input, (rows, k)."""
        self.rows = self.rows if k % self.rows else 10007
        return GraphValue(self, (self.op("scores").place,), (self.rows, k))

    def group(self) -> Operand:
        """Add the second input, (rows,) integers: the group of every row."""
        return GraphValue(self, (self.op("group").place,), (self.rows,), np.int64)

    def op(self, op: str, *inputs: Operand, dtype: Any = np.float64) -> GraphValue:
        """Add an operation on nodes as they are.

        The result has the shape of the first input that is a value.
        """
        shapes: list[Shape] = []
        places: list[int] = []
        for x in inputs:
            if isinstance(x, GraphValue):
                shapes.append(x.shape)
                places.append(x.place)
            else:
                places.append(self.const(x))
        node = self._add(Node(op, tuple(places)), (op, *places))
        return GraphValue(self, [node], shapes[0] if shapes else (), dtype)

    def checked(self, shape: Shape) -> Shape:
        """Return a shape that a value can have. Raises UsageError for others."""
        n = self.rows
        columns = prod(shape) // n
        possible = ((n,), (n, columns), (columns, n), (n * columns,))
        if columns == n or shape not in possible:
            raise refused(f"makes an array of shape {shape}, for {n} rows,")
        return shape

    def laid_out(self, x: Operand, shape: Shape) -> Operand:
        """Operand for a result of that shape.

        Constants become (1, columns) or one number.
        """
        if isinstance(x, GraphValue):
            return x
        array = np.asarray(x)
        if array.ndim:
            # as NumPy would broadcast it, then with the rows first, as nodes have them
            array = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
            if array.ndim == 1:
                array = array[:, None]
            elif shape[0] != self.rows:
                array = array.T
            if not (array == array[:1]).all():
                raise refused("has one constant for every row")
            array = array[:1] if array.shape[1] > 1 else array[0, 0]
        if array.dtype.kind == "b":
            return self.op("less", 0.5, array.astype(np.float64), dtype=np.bool_)
        return np.asarray(array)[()]

    def const(self, value: Any) -> int:
        """Add a constant: integers of NumPy become int64, all else, also Python's
        numbers, float64.
        """
        array = np.asarray(value)
        whole = isinstance(value, np.ndarray | np.generic) and array.dtype.kind in "iu"
        array = np.ascontiguousarray(
            array, dtype=np.int64 if whole else np.float64
        ).reshape(array.shape)
        return self._add(
            Node("const", (), array),
            ("const", array.dtype.str, array.shape, array.tobytes()),
        )

    def _add(self, node: Node, key: Any) -> int:
        if key not in self._seen:
            self._seen[key] = len(self.nodes)
            self.nodes.append(node)
        return self._seen[key]

    def needed(self) -> list[tuple[int, Node]]:
        """Nodes that the outputs depend on, with their indices, in order."""
        wanted = set(self.outputs.values())
        for place in range(len(self.nodes) - 1, -1, -1):
            if place in wanted:
                wanted.update(self.nodes[place].inputs)
        return [(place, self.nodes[place]) for place in sorted(wanted)]


# ---- NumPy's functions in terms of the operations of a graph

LOGICAL = {"logical_and", "logical_or", "logical_not"}
COMPARISONS = {"less", "less_equal", "equal"}
WHOLE = {
    "add",
    "subtract",
    "multiply",
    "negative",
    "absolute",
    "maximum",
    "minimum",
    "where",
    *COMPARISONS,
}
"""Operations that keep integers; all others convert them to float64."""

REDUCTIONS = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
}
"""Array methods that ``ufunc.reduce`` equals, by ufunc."""


def elementwise(name: str, *inputs: Operand) -> GraphValue:
    """Add a ufunc or ``numpy.where``, by NumPy's rules for shapes and types."""
    graph = next(x.graph for x in inputs if isinstance(x, GraphValue))
    arrays = list(map(_as_array, inputs))
    shape = graph.checked(np.broadcast_shapes(*(array.shape for array in arrays)))
    first = int(name == "where")  # the condition is no number
    kinds = {array.dtype.kind for array in arrays[first:]}
    nodes = [graph.laid_out(x, shape) for x in inputs]
    dtype: Any = np.float64
    if name in LOGICAL:
        if kinds != {"b"}:
            raise refused(f"calls numpy.{name} of what is not true or false")
        dtype = np.bool_
    elif kinds == {"i"} and name in WHOLE:
        dtype = np.int64
    else:
        nodes = [*nodes[:first], *map(_as_floats, nodes[first:])]
    if name in COMPARISONS:
        dtype = np.bool_
    return GraphValue(graph, [graph.op(name, *nodes).place], shape, dtype)


def _as_array(x: Operand) -> Any:
    """A value, which stands for an array, or a constant as an array."""
    if isinstance(x, GraphValue):
        return x
    return np.asarray(x)


def _as_floats(x: Operand) -> Operand:
    if isinstance(x, GraphValue):
        return x.floats()
    return np.asarray(x, np.float64)[()]


def _as_column(x: Operand) -> Operand:
    """Numbers per row as a column; arrays of several columns, and constants, as is."""
    if np.ndim(x) == 1:
        return x[:, None]
    return x


def _matmul(a: Operand, b: Operand) -> GraphValue:
    """Product of a value and a constant, or of a constant and a value viewed as
    (columns, rows).
    """
    if isinstance(b, GraphValue) and b.is_transposed and not isinstance(a, GraphValue):
        return _matmul(b.T, np.asarray(a).T).T
    if isinstance(b, GraphValue) or a.is_transposed:
        raise refused("multiplies matrices across rows")
    weight = np.asarray(b, dtype=np.float64)
    made: GraphValue = a.graph.op(
        "matmul", a.floats(), weight[:, None] if weight.ndim == 1 else weight
    )
    return made.like(made, shape=(a.graph.rows, *weight.shape[1:]))


def _log_add(a: Operand, b: Operand) -> Operand:
    small = np.exp(-np.abs(a - b))
    return np.maximum(a, b) + np.log1p(small)


def _next_after(x: Operand, towards: Operand) -> Operand:
    if isinstance(towards, GraphValue) or towards != np.inf:
        raise refused("calls numpy.nextafter other than upwards")
    # one or two units in the last place above x, which serves as well
    return x + (np.abs(x) * 2.3e-16 + 1e-300)


def _power(x: Operand, exponent: Operand) -> Operand:
    squared = not isinstance(exponent, GraphValue) and np.all(exponent == 2.0)
    return x * x if squared else elementwise("power", x, exponent)


def _beside(parts: Any, axis: int = 0) -> GraphValue:
    """Join columns side by side: ``concatenate`` or ``stack`` along axis 1,
    ``column_stack``.
    """
    if axis not in (1, -1):
        raise refused("puts rows below each other")
    first = next(p for p in parts if isinstance(p, GraphValue))
    graph = first.graph
    one_column = first[:, 0] if first.ndim == 2 else first
    nodes: list[Any] = []
    for part in parts:
        if isinstance(part, GraphValue):
            nodes.append(part)
        else:
            nodes.append(np.full_like(one_column, part))
    joined = reduce(partial(graph.op, "beside"), (node.floats() for node in nodes))
    return joined.like(joined, shape=(graph.rows, sum(node.width for node in nodes)))


def _stack(parts: Any, axis: int = 0) -> GraphValue:
    """Join one-dimensional arrays as columns."""
    if any(np.ndim(part) != 1 for part in parts):
        raise refused("stacks arrays of several columns")
    return _beside(parts, axis)


def _rows_of_products(how: str, a: Operand, b: Operand) -> Operand:
    if how != "ij,ij->i":
        raise refused(f"calls numpy.einsum({how!r})")
    return (a * b).sum(axis=1)


def _along_columns(x: Operand, index: GraphValue, axis: int) -> GraphValue:
    if axis not in (1, -1) or not isinstance(x, GraphValue):
        raise refused("calls numpy.take_along_axis along rows or of a constant")
    return index.like(x.graph.op("at", x, index), x.dtype)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    # e^x - 1 = tanh(x/2) (e^x + 1), exact near 0, of operations that every target has
    np.expm1: lambda x: np.tanh(x * 0.5) * (np.exp(x) + 1.0),
    np.greater: lambda a, b: np.less(b, a),
    np.greater_equal: lambda a, b: np.less_equal(b, a),
    np.not_equal: lambda a, b: ~np.equal(a, b),
    np.isfinite: lambda x: np.abs(x) < np.inf,
    np.bitwise_and: np.logical_and,
    np.bitwise_or: np.logical_or,
    np.invert: np.logical_not,
    np.square: lambda x: x * x,
    np.power: _power,
    np.logaddexp: _log_add,
    np.nextafter: _next_after,
    np.matmul: _matmul,
    np.dot: _matmul,
    np.where: partial(elementwise, "where"),
    np.stack: _stack,
    np.concatenate: _beside,
    np.column_stack: lambda parts: _beside(parts, 1),
    # a constant has no rows of its own: those of x
    np.full_like: lambda x, value, dtype=None: np.where(x == x, value, value),
    np.zeros_like: lambda x, dtype=None: np.full_like(x, 0.0),
    np.ones_like: lambda x, dtype=None: np.full_like(x, 1.0),
    np.flatnonzero: lambda mask: mask,
    np.take_along_axis: _along_columns,
    entries: lambda index, table: index.like(
        index.graph.op("take", table, index), table.dtype
    ),
    np.einsum: _rows_of_products,
    np.ndim: lambda x: x.ndim,
    np.shape: lambda x: x.shape,
}
"""Functions of NumPy and calcli (``numerics.overridable``) that are not operations;
array methods need no entry.
"""
