"""A graph as a torch module, saved by torch.export."""

import io
from typing import Any

import numpy as np

from calcli.exporting.graph import Graph
from calcli.exporting.operations import OPERATIONS


def build_module(graph: Graph) -> Any:
    """A ``torch.nn.Module``: scores (rows, classes) of any float type in; probs and confidence
    of that type, prediction int64 out. Its constants are buffers, so they move with ``.to(device)``."""
    import torch

    nodes = graph.needed()

    class ExportedCalibrator(torch.nn.Module):  # type: ignore[misc]  # the base is Any without torch
        """Runs the graph, node by node, in float64."""

        def __init__(self) -> None:
            super().__init__()
            for place, node in nodes:
                if node.array is not None:
                    self.register_buffer(f"c{place}", torch.from_numpy(np.array(node.array)))

        def forward(self, scores: Any, group: Any = None) -> dict[str, Any]:
            values: dict[int, Any] = {}
            for place, node in nodes:
                if node.array is not None:
                    values[place] = getattr(self, f"c{place}")
                elif node.op == "scores":
                    values[place] = scores.to(torch.float64)
                elif node.op == "group":
                    values[place] = group.unsqueeze(-1)
                else:
                    run = OPERATIONS[node.op].torch or getattr(torch, node.op)
                    values[place] = run(*(values[i] for i in node.inputs))
            out = {name: values[place] for name, place in graph.outputs.items()}
            return {
                "probs": out["probs"].to(scores.dtype),
                "prediction": out["prediction"].squeeze(-1),
                "confidence": out["confidence"].squeeze(-1).to(scores.dtype),
            }

    return ExportedCalibrator().eval()


def save_program(module: Any, k: int, by_group: bool = False) -> bytes:
    """The module as the bytes of a ``.pt2``, for any number of rows of float32 scores (and int64 groups)."""
    import torch

    rows = torch.export.Dim("rows")
    example = {"scores": torch.zeros((3, k), dtype=torch.float32)}
    if by_group:
        example["group"] = torch.zeros(3, dtype=torch.int64)
    program = torch.export.export(module, tuple(example.values()), dynamic_shapes={name: {0: rows} for name in example})
    for node in program.graph.nodes:  # where calcli's own lines lie on this machine is nobody's business
        node.meta.pop("stack_trace", None)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()
