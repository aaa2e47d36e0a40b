"""Write a graph as an ONNX model, alone or behind a classifier's own graph."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.exporting.calibrator_graph import groups_of
from calcli.exporting.graph import Graph, Node
from calcli.exporting.operations import OPERATIONS
from calcli.exporting.target import Run, Written
from calcli.io.artifact import Artifact
from calcli.optional_packages import optional_import

OPSET = 17
"""Opset of a calibrator alone; behind a classifier it is the classifier's, at least
``OLDEST_OPSET``.
"""

OLDEST_OPSET = 13

NAMES = ("probs", "prediction", "confidence")


class Writer:
    """ONNX nodes and constants of a graph that reads ``scores``; every name inside
    begins with ``prefix``.

    names : of the outputs probs, prediction and confidence.
    """

    def __init__(
        self,
        graph: Graph,
        k: int,
        opset: int,
        scores: str,
        prefix: str,
        names: Sequence[str],
    ) -> None:
        import onnx

        self.onnx = onnx
        self.opset = opset
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.ranks: dict[str, int] = {}
        self.write(graph, scores, k, names)
        value_info = onnx.helper.make_tensor_value_info
        kinds = onnx.TensorProto
        rows = prefix.replace("/", "_") + "rows"
        probs, prediction, confidence = names
        self.outputs = [
            value_info(probs, kinds.FLOAT, [rows, k]),
            value_info(prediction, kinds.INT64, [rows]),
            value_info(confidence, kinds.FLOAT, [rows]),
        ]

    def constant(self, name: str, array: Any) -> str:
        self.initializers.append(
            self.onnx.numpy_helper.from_array(np.asarray(array), self.prefix + name)
        )
        return self.prefix + name

    def node(
        self, op: str, inputs: list[str], outputs: list[str], **attributes: Any
    ) -> str:
        name = f"{self.prefix}n{len(self.nodes)}"
        self.nodes.append(
            self.onnx.helper.make_node(op, inputs, outputs, name=name, **attributes)
        )
        return outputs[-1]

    def add(self, node: Node, inputs: list[str], name: str) -> str:
        """Write one node of the graph; returns the name of its result.

        Axes are counted from the first, as onnxruntime keeps axis -1 of an array
        without rows when it reduces it.
        """
        out = self.prefix + name
        ranks = [self.ranks[i] for i in inputs]
        rank = sum(ranks) - 1 if node.op == "take" else max(ranks)
        self.ranks[out] = rank + {"expand": 1, "squeeze": -1}.get(node.op, 0)
        axis = self.prefix + f"axis{rank - 1}"
        known = OPERATIONS[node.op]
        if known.onnx:
            operands = list(inputs)
            if known.axis == "axis":
                operands.append(axis)
            elif known.axis:
                operands.append(self.prefix + known.axis)
            return self.node(known.onnx, operands, [out], **known.attributes)
        match node.op:
            case "row_max":
                if self.opset >= 18:
                    return self.node("ReduceMax", [*inputs, axis], [out], keepdims=1)
                return self.node(
                    "ReduceMax", inputs, [out], keepdims=1, axes=[rank - 1]
                )
            case "row_argmax":
                return self.node("ArgMax", inputs, [out], axis=rank - 1, keepdims=1)
            case "descending":
                return self.node(
                    "TopK",
                    [*inputs, self.prefix + "k"],
                    [out + "/values", out],
                    axis=-1,
                )
            case "log1p":
                # Exact for small x (Kahan): log(u) x / (u - 1) with u = 1 + x; x where
                # u is 1.
                x = inputs[0]
                one = self.prefix + "one"
                u = self.node("Add", [x, one], [out + "/u"])
                rest = self.node("Sub", [u, one], [out + "/rest"])
                same = self.node("Equal", [u, one], [out + "/same"])
                below = self.node("Where", [same, one, rest], [out + "/below"])
                scaled = self.node(
                    "Mul", [self.node("Log", [u], [out + "/log"]), x], [out + "/scaled"]
                )
                exact = self.node("Div", [scaled, below], [out + "/exact"])
                return self.node("Where", [same, x, exact], [out])
        raise AssertionError(node.op)

    def write(self, graph: Graph, scores: str, k: int, outputs: Sequence[str]) -> None:
        self.constant("one", np.float64(1.0))
        self.constant("last", np.array([-1], dtype=np.int64))
        self.constant("along", np.int64(-1))
        for place in (1, 2):
            self.constant(f"axis{place}", np.array([place], dtype=np.int64))
        self.constant("k", np.array([k], dtype=np.int64))
        names: dict[int, str] = {}
        for place, node in graph.needed():
            if node.inputs:
                names[place] = self.add(
                    node, [names[i] for i in node.inputs], f"v{place}"
                )
                continue
            if node.array is not None:
                names[place] = self.constant(f"c{place}", node.array)
            elif node.op == "scores":
                names[place] = self.node(
                    "Cast", [scores], [f"{self.prefix}float64"], to=11
                )
            else:
                names[place] = self.node(
                    "Unsqueeze",
                    ["group", self.prefix + "last"],
                    [f"{self.prefix}group2"],
                )
            self.ranks[names[place]] = 2 if node.array is None else node.array.ndim
        probs, prediction, confidence = (names[graph.outputs[name]] for name in NAMES)
        self.node("Cast", [probs], [outputs[0]], to=1)
        self.node("Squeeze", [prediction, self.prefix + "last"], [outputs[1]])
        narrow = self.node(
            "Squeeze", [confidence, self.prefix + "last"], [f"{self.prefix}narrow"]
        )
        self.node("Cast", [narrow], [outputs[2]], to=1)
        used: set[str] = set()
        for written in self.nodes:
            used.update(written.input)
        # Unused ones cause warnings on loading.
        self.initializers = [value for value in self.initializers if value.name in used]


def build_model(artifact: Artifact, graph: Graph, wide: bool) -> Any:
    """Build an ``onnx.ModelProto``: scores (rows, k) in, in float32, or float64 if
    ``wide``; probs float32, prediction int64, confidence out.
    """
    onnx = require_onnx()
    writer = Writer(graph, artifact.n_classes, OPSET, "scores", "", NAMES)
    helper = onnx.helper
    kinds = onnx.TensorProto
    kind = kinds.DOUBLE if wide else kinds.FLOAT
    inputs = [
        helper.make_tensor_value_info("scores", kind, ["rows", artifact.n_classes])
    ]
    if groups_of(artifact):
        inputs.append(helper.make_tensor_value_info("group", kinds.INT64, ["rows"]))
    name = f"calcli_{artifact.method}"
    opsets = [helper.make_opsetid("", OPSET)]
    onnx_graph = helper.make_graph(
        writer.nodes, name, inputs, writer.outputs, writer.initializers
    )
    model = helper.make_model(
        onnx_graph, producer_name="calcli", opset_imports=opsets, ir_version=8
    )
    model.producer_version = artifact.calcli_version
    helper.set_model_props(model, properties(artifact))
    onnx.checker.check_model(model)
    return model


def properties(artifact: Artifact) -> dict[str, str]:
    """Metadata properties of a model."""
    groups = {
        f"calcli_groups_{column}": json.dumps(known)
        for column, known in groups_of(artifact).items()
    }
    return {
        "calcli_method": artifact.method,
        "calcli_input_kind": artifact.input_kind,
        **groups,
    }


def require_onnx() -> Any:
    """Import onnx. Raises UsageError where it or onnxruntime cannot be imported."""
    with optional_import("onnx", "--to onnx"):
        import onnx
    with optional_import("onnxruntime", "--to onnx"):
        import onnxruntime  # noqa: F401
    return onnx


def session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        data, options, providers=["CPUExecutionProvider"]
    )


def write_onnx(artifact: Artifact, graph: Graph, wide: bool) -> Written:
    """Write a graph as an ONNX model. wide : it takes scores in float64."""
    data: bytes = build_model(artifact, graph, wide).SerializeToString()
    return Written(data, model_run(data))


def model_run(data: bytes) -> Run:
    model = session(data)
    names = [value.name for value in model.get_inputs()]
    wide = model.get_inputs()[0].type == "tensor(double)"
    dtype = np.float64 if wide else np.float32

    def run(scores: Any, *group: Any) -> Any:
        arrays = (np.asarray(scores, dtype=dtype), *group)
        inputs = dict(zip(names, arrays, strict=True))
        return tuple(model.run(["probs", "prediction"], inputs))

    return run
