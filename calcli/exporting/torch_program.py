"""Write a graph as a torch program (``.pt2``)."""

from io import BytesIO
from typing import Any

import numpy as np

from calcli.exporting.calibrator_graph import groups_of
from calcli.exporting.graph import Graph
from calcli.exporting.operations import OPERATIONS
from calcli.exporting.target import Run, Written
from calcli.io.artifact import Artifact
from calcli.optional_packages import optional_import


def write_torch(artifact: Artifact, graph: Graph, wide: bool) -> Written:
    """Write a graph as a torch program. wide : it takes scores in float64.

    Raises UsageError where torch is missing.
    """
    with optional_import("torch", "--to torch"):
        import torch
    by_group = bool(groups_of(artifact))
    data = save_program(build_module(graph), artifact.n_classes, by_group, wide)
    module = torch.export.load(BytesIO(data)).module()
    return Written(data, torch_run(module, wide))


def build_module(graph: Graph) -> Any:
    """Build a ``torch.nn.Module``: scores (rows, classes) of any float type in; probs
    and confidence of that type, prediction int64 out. Its constants are buffers, so
    they move with ``.to(device)``.
    """
    import torch

    nodes = graph.needed()

    # The base is Any without torch.
    class ExportedCalibrator(torch.nn.Module):  # type: ignore[misc]
        """Runs the graph, node by node, in float64."""

        def __init__(self) -> None:
            super().__init__()
            for place, node in nodes:
                if node.array is not None:
                    self.register_buffer(
                        f"c{place}", torch.from_numpy(np.array(node.array))
                    )

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
            for name in ("prediction", "confidence"):
                out[name] = out[name].squeeze(-1)
            for name in ("probs", "confidence"):
                out[name] = out[name].to(scores.dtype)
            return out

    return ExportedCalibrator().eval()


def save_program(module: Any, k: int, by_group: bool, wide: bool) -> bytes:
    """Write a module as the bytes of a ``.pt2``, for any number of rows of float32
    scores, or of float64 if ``wide`` (and int64 groups).
    """
    import torch

    rows = torch.export.Dim("rows")
    dtype = torch.float64 if wide else torch.float32
    example = {"scores": torch.zeros((3, k), dtype=dtype)}
    if by_group:
        example["group"] = torch.zeros(3, dtype=torch.int64)
    program = torch.export.export(
        module,
        tuple(example.values()),
        dynamic_shapes={name: {0: rows} for name in example},
    )
    for node in program.graph.nodes:  # paths of this machine do not belong in the file
        node.meta.pop("stack_trace", None)
    buffer = BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def torch_run(module: Any, wide: bool = False) -> Run:
    """A torch module as a function of arrays.

    wide : it takes scores in float64, else in float32.
    """
    import torch

    dtype = np.float64 if wide else np.float32

    def run(scores: Any, *group: Any) -> Any:
        arrays = (np.array(scores, dtype=dtype), *map(np.array, group))
        with torch.no_grad():
            out = module(*map(torch.from_numpy, arrays))
        return out["probs"].numpy(), out["prediction"].numpy()

    return run
