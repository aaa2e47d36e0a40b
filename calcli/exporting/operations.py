"""Table of the operations of a graph, each with its NumPy, ONNX and torch form."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Operation(NamedTuple):
    """An operation on arrays (rows, columns).

    source : NumPy expression. onnx : operator, with its attributes; "" where
    ``onnx_model.Writer`` builds it. axis : constant of ``onnx_model.Writer`` that is
    its last input. torch : function; None for torch's of the same name.
    """

    source: str
    onnx: str = ""
    attributes: Mapping[str, Any] = {}
    axis: str = ""
    torch: Callable[..., Any] | None = None


def _beside(x: Any, y: Any) -> Any:
    import torch

    return torch.cat([x, y], -1)


KEEP = {"keepdims": 1}
LAST = {"axis": -1}

OPERATIONS: dict[str, Operation] = {
    "add": Operation("{} + {}", "Add"),
    "subtract": Operation("{} - {}", "Sub"),
    "multiply": Operation("{} * {}", "Mul"),
    "divide": Operation("{} / {}", "Div"),
    "negative": Operation("-{}", "Neg"),
    "absolute": Operation("np.abs({})", "Abs"),
    "exp": Operation("np.exp({})", "Exp"),
    "log": Operation("np.log({})", "Log"),
    "log1p": Operation("np.log1p({})"),
    "sqrt": Operation("np.sqrt({})", "Sqrt"),
    "tanh": Operation("np.tanh({})", "Tanh"),
    "power": Operation("{} ** {}", "Pow", torch=lambda x, y: x**y),
    "maximum": Operation("np.maximum({}, {})", "Max"),
    "minimum": Operation("np.minimum({}, {})", "Min"),
    "less": Operation("{} < {}", "Less"),
    "less_equal": Operation("{} <= {}", "LessOrEqual"),
    "equal": Operation("{} == {}", "Equal", torch=lambda x, y: x == y),
    "logical_and": Operation("{} & {}", "And"),
    "logical_or": Operation("{} | {}", "Or"),
    "logical_not": Operation("~{}", "Not"),
    "where": Operation("np.where({}, {}, {})", "Where"),
    "matmul": Operation("{} @ {}", "MatMul"),
    "row_sum": Operation(
        "{}.sum(axis=-1, keepdims=True)",
        "ReduceSum",
        KEEP,
        "axis",
        lambda x: x.sum(-1, True),
    ),
    "row_max": Operation(
        "{}.max(axis=-1, keepdims=True)", torch=lambda x: x.amax(-1, True)
    ),
    "row_argmax": Operation(
        "{}.argmax(axis=-1)[:, None]", torch=lambda x: x.argmax(-1, True)
    ),
    "at": Operation(
        "np.take_along_axis({}, {}, axis=-1)",
        "GatherElements",
        LAST,
        "",
        lambda x, i: x.gather(-1, i),
    ),
    "take": Operation("{}[{}]", "Gather", torch=lambda table, i: table[i]),
    "columns": Operation("{}[:, {}]", "Gather", {"axis": 1}, "", lambda x, i: x[:, i]),
    "descending": Operation(
        'np.argsort(-{}, axis=-1, kind="stable")',
        torch=lambda x: x.argsort(dim=-1, descending=True, stable=True),
    ),
    "sum_from_right": Operation(
        "{}[:, ::-1].cumsum(axis=-1)[:, ::-1]",
        "CumSum",
        {"reverse": 1},
        "along",
        lambda x: x.flip(-1).cumsum(-1).flip(-1),
    ),
    "float": Operation(
        "{}.astype(np.float64)", "Cast", {"to": 11}, "", lambda x: x.double()
    ),
    "whole": Operation(
        "{}.astype(np.int64)", "Cast", {"to": 7}, "", lambda x: x.long()
    ),
    "expand": Operation(
        "{}[..., None]", "Unsqueeze", axis="last", torch=lambda x: x.unsqueeze(-1)
    ),
    "beside": Operation(
        "np.concatenate([{}, {}], axis=-1)", "Concat", LAST, "", _beside
    ),
    "squeeze": Operation(
        "{}[..., 0]", "Squeeze", axis="axis", torch=lambda x: x.squeeze(-1)
    ),
    "swap": Operation(
        "{}.swapaxes(-1, -2)",
        "Transpose",
        {"perm": [0, 2, 1]},
        "",
        lambda x: x.transpose(-1, -2),
    ),
}
