"""The calibrator's graph behind a classifier's own ONNX graph."""

from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError, one_line
from calcli.export.artifact_graph import trace
from calcli.export.onnx_model import OLDEST_OPSET, OPSET, Writer, properties, require_onnx
from calcli.fast_dataclass import dataclass
from calcli.io.artifact import Artifact
from calcli.io.inputs import note_onnx

NAMES = ("probs", "prediction", "confidence")
USUAL = ("logits", "scores", "output", "outputs", "log_probs", "probs")
"""Names by which the scores are found among several outputs."""

PREFIX = "calcli/"

ENDS = {"Softmax": "probs", "Sigmoid": "probs", "LogSoftmax": "log_probs"}
"""Kinds of scores by the operation that makes them."""

PASSING = {"Identity", "Cast", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
"""Operations that leave the values as they are."""


@dataclass(frozen=True)
class Joined:
    """model : classifier and calibrator, an ``onnx.ModelProto``. scores : the output that is calibrated."""

    model: Any
    scores: str
    opset: int


def join(artifact: Artifact, path: str, output: str | None = None) -> Joined:
    """Append a calibrator to the classifier of an ONNX file; its own outputs stay.

    output : its output with the scores, or a tensor inside that becomes one; found when there is
    one of fitting shape that is of the calibrator's kind as far as its last operation tells.
    Raises DataError for a file that is no such classifier, UsageError for an output that it lacks.
    """
    onnx = require_onnx()
    if not Path(path).is_file():
        raise DataError(f"{path}: is no file; expected an ONNX model")
    note_onnx(Path(path))
    try:
        model = onnx.load(path)
    except Exception as problem:  # protobuf's errors, and those of missing external data
        raise DataError(
            f"{path}: cannot be read as an ONNX model: {one_line(problem)[:300] or type(problem).__name__}"
        ) from None
    if not model.graph.output:
        raise DataError(f"{path}: has no outputs, or is no ONNX model")
    chosen = score_output(model, path, artifact, output)
    used = {name for node in model.graph.node for name in (*node.input, *node.output)}
    used |= {value.name for value in (*model.graph.input, *model.graph.initializer)}
    taken = sorted(used & set(NAMES)) or sorted(name for name in used if name.startswith(PREFIX))
    if taken:
        raise UsageError(
            f"{path}: has a tensor named {taken[0]!r} already, as the calibrator's would be;"
            " rename it (onnx.compose.add_prefix) and export again"
        )
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if not opset:
        opset = OPSET
        model.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    if opset < OLDEST_OPSET:
        raise DataError(
            f"{path}: is of opset {opset}, the calibrator needs {OLDEST_OPSET} or later;"
            f" convert it with onnx.version_converter.convert_version(model, {OPSET})"
        )
    model.ir_version = max(model.ir_version, 7)
    columns = last_dimension(next(o for o in model.graph.output if o.name == chosen))
    graph = trace(artifact, one_column=columns == 1)
    writer = Writer(artifact.n_classes, opset, PREFIX)
    writer.write(graph, chosen)
    model.graph.node.extend(writer.nodes)
    model.graph.initializer.extend(writer.initializers)
    model.graph.output.extend(writer.outputs("calcli_rows"))
    known = {p.key: p.value for p in model.metadata_props}
    onnx.helper.set_model_props(model, {**known, **properties(artifact), "calcli_scores": chosen})
    return Joined(model, chosen, opset)


def last_dimension(value: Any) -> int | None:
    """Size of an output's last axis, None where it is not said."""
    shape = value.type.tensor_type.shape.dim
    return shape[-1].dim_value or None if len(shape) == 2 else None


def ending(model: Any, name: str) -> tuple[str, str] | None:
    """The kind of scores that an output is by the operation that makes it, and what goes into that; or None."""
    makers = {made: node for node in model.graph.node for made in node.output}
    while (node := makers.get(name)) is not None and node.op_type in PASSING and node.input:
        name = node.input[0]
    return None if node is None or node.op_type not in ENDS else (ENDS[node.op_type], node.input[0])


def score_output(model: Any, path: str, artifact: Artifact, wanted: str | None) -> str:
    """Name of the classifier's output with the scores, which is refused where it is of another kind."""
    if wanted is not None:
        _take_out(model, wanted)
    k, kind = artifact.n_classes, artifact.input_kind
    floats = {1, 10, 11}  # float32, float16, float64
    names = [o.name for o in model.graph.output]
    fit = [
        o.name
        for o in model.graph.output
        if o.type.tensor_type.elem_type in floats
        and last_dimension(o) in (None, k, *([1] if k == 2 else []))
        and len(o.type.tensor_type.shape.dim) in (0, 2)
    ]
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"{path}: has no output {wanted!r}; its outputs: {', '.join(names)}")
        if wanted not in fit:
            raise DataError(f"{path}: output {wanted!r} is no array (rows, {k}) of floats")
        fit = [wanted]
    others = {name: end for name in fit if (end := ending(model, name)) is not None and end[0] != kind}
    if others and len(others) == len(fit):
        name, (made, source) = next(iter(others.items()))
        raise DataError(
            f"{path}: its output {name!r} is {made}, the calibrator was fitted to {kind}:"
            f" --at {source} takes what the {made} are made of, or fit to {made}"
        )
    fit = [name for name in fit if name not in others]
    usual = [name for name in USUAL if name in fit]
    if len(fit) == 1 or usual:
        return fit[0] if len(fit) == 1 else usual[0]
    found = f"{len(fit)} outputs fit" if fit else "no output fits"
    raise UsageError(
        f"{path}: {found} an array (rows, {k}) of scores among {', '.join(names)}; name one with --at OUTPUT"
    )


def _take_out(model: Any, name: str) -> None:
    """Make a tensor inside a model one of its outputs, where its shape can be told."""
    if name in [o.name for o in model.graph.output]:
        return
    try:
        known = require_onnx().shape_inference.infer_shapes(model).graph.value_info
    except Exception:  # a model that onnx cannot follow has no tensor to take out
        return
    model.graph.output.extend(value for value in known if value.name == name)


def made_up_inputs(model: Any, rows: int = 5, free: int = 16) -> dict[str, Any]:
    """Random values for every input, to run a model once; open axes beyond the first get ``free`` entries."""
    onnx, rng = require_onnx(), np.random.default_rng(0)
    constants = {value.name for value in model.graph.initializer}
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value or (free if i else rows) for i, d in enumerate(tensor.shape.dim)]
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        feeds[value.name] = rng.normal(size=shape).astype(kind) if kind.kind == "f" else np.zeros(shape, kind)
    return feeds
