"""A graph as a torch module, saved by torch.export."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from calcli.export.graph import Graph


def _operations() -> dict[str, Callable[..., Any]]:
    import torch

    return {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "neg": torch.neg,
        "abs": torch.abs,
        "exp": torch.exp,
        "log": torch.log,
        "log1p": torch.log1p,
        "sqrt": torch.sqrt,
        "tanh": torch.tanh,
        "power": torch.pow,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "less": torch.lt,
        "less_equal": torch.le,
        "equal": torch.eq,
        "and": torch.logical_and,
        "or": torch.logical_or,
        "not": torch.logical_not,
        "where": torch.where,
        "matmul": torch.matmul,
        "row_sum": lambda x: x.sum(-1, keepdim=True),
        "row_max": lambda x: x.amax(-1, keepdim=True),
        "row_argmax": lambda x: x.argmax(-1, keepdim=True),
        "at": lambda x, index: x.gather(-1, index),
        "take": lambda table, index: table[index],
        "columns": lambda x, index: x[:, index],
        "descending": lambda x: torch.sort(x, dim=-1, descending=True, stable=True).indices,
        "sum_from_right": lambda x: x.flip(-1).cumsum(-1).flip(-1),
        "float": lambda x: x.to(torch.float64),
        "whole": lambda x: x.to(torch.int64),
        "expand": lambda x: x.unsqueeze(-1),
        "beside": lambda x, y: torch.cat([x, y], -1),
        "squeeze": lambda x: x.squeeze(-1),
        "swap": lambda x: x.transpose(-1, -2),
    }


def build_module(graph: Graph) -> Any:
    """A ``torch.nn.Module``: scores (rows, classes) of any float type in; probs and confidence
    of that type, prediction int64 out. Its constants are buffers, so they move with ``.to(device)``."""
    import torch

    nodes, operations = graph.needed(), _operations()

    class ExportedCalibrator(torch.nn.Module):  # type: ignore[misc]  # the base is Any without torch
        """Runs the graph, node by node, in float64."""

        def __init__(self) -> None:
            super().__init__()
            for place, node in nodes:
                if node.array is not None:
                    self.register_buffer(f"c{place}", torch.from_numpy(np.array(node.array)))

        def forward(self, scores: Any) -> dict[str, Any]:
            return self.run(scores, None)

        def run(self, scores: Any, group: Any) -> dict[str, Any]:
            values: dict[int, Any] = {}
            for place, node in nodes:
                if node.array is not None:
                    values[place] = getattr(self, f"c{place}")
                elif node.op == "scores":
                    values[place] = scores.to(torch.float64)
                elif node.op == "group":
                    values[place] = group.unsqueeze(-1)
                else:
                    values[place] = operations[node.op](*(values[i] for i in node.inputs))
            out = {name: values[place] for name, place in graph.outputs.items()}
            return {
                "probs": out["probs"].to(scores.dtype),
                "prediction": out["prediction"].squeeze(-1),
                "confidence": out["confidence"].squeeze(-1).to(scores.dtype),
            }

    class ByGroup(ExportedCalibrator):
        """The same with the group of every row beside its scores."""

        def forward(self, scores: Any, group: Any) -> dict[str, Any]:  # type: ignore[override]
            return self.run(scores, group)

    return (ByGroup if any(node.op == "group" for _, node in nodes) else ExportedCalibrator)().eval()


def save_program(module: Any, k: int) -> bytes:
    """The module as the bytes of a ``.pt2``, for any number of rows of float32 scores (and int64 groups)."""
    import inspect

    import torch

    rows = torch.export.Dim("rows")
    example = {"scores": torch.zeros((3, k), dtype=torch.float32), "group": torch.zeros(3, dtype=torch.int64)}
    taken = tuple(inspect.signature(module.forward).parameters)
    shapes = {name: {0: rows} for name in taken}
    program = torch.export.export(module, tuple(example[name] for name in taken), dynamic_shapes=shapes)
    for node in program.graph.nodes:  # where calcli's own lines lie on this machine is nobody's business
        node.meta.pop("stack_trace", None)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def load_program(data: bytes) -> Any:
    """The module that a ``.pt2`` holds."""
    import torch

    return torch.export.load(io.BytesIO(data)).module()
