"""Append a calibrator's graph to a classifier's own ONNX graph."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError, blaming, one_line
from calcli.exporting.calibrator_graph import trace
from calcli.exporting.onnx_model import (
    NAMES,
    OLDEST_OPSET,
    OPSET,
    Writer,
    properties,
    require_onnx,
    session,
)
from calcli.io.artifact import Artifact
from calcli.io.inputs import note_onnx
from calcli.io.validate import MOST_BY_CHANCE, check_scores
from calcli.numerics import AnyArray
from calcli.rows import ScoreKind

USUAL = ("logits", "scores", "output", "outputs", "log_probs", "probs")
"""Usual names of the output with the scores, by which it is found among several."""

PREFIX = "calcli/"
OTHERWISE = "calibrated_"
"""Prefixes of tensors inside, and of outputs whose usual names the classifier uses
already.
"""

ENDS = {"Softmax": "probs", "Sigmoid": "probs", "LogSoftmax": "log_probs"}
"""Kinds of scores by the operation that computes them."""

PASSING = {"Identity", "Cast", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
"""Operations that leave the values as they are."""

FLOATS = {1, 10, 11}
"""ONNX element types float32, float16 and float64."""

SIZES = (1.0, 10.0, 100.0)
"""Scales of random inputs: probabilities stay in [0, 1] at each."""

DRAWS = 20
ROWS = 8
FREE = (16, 64, 224, 1)
"""Largest number of draws of random inputs, rows of a draw, and lengths tried for other
dynamic axes.
"""

Outputs = Mapping[str, AnyArray]
"""Values of outputs on random inputs, by name."""


@dataclass(frozen=True)
class Joined:
    """A classifier with a calibrator behind it.

    scores : the output that is calibrated. names : of probs, prediction and confidence.
    inputs : on which the model runs.
    """

    model: Any
    scores: str
    names: list[str]
    opset: int
    inputs: dict[str, Any]


def join(artifact: Artifact, path: str, output: str | None = None) -> Joined:
    """Append a calibrator to the classifier of an ONNX file; its own outputs stay.

    output : its output with the scores, or a tensor inside that becomes one; by default
    the one output of fitting shape and of the calibrator's kind, judged by its values
    on random inputs and its last operation. Outputs whose names the classifier has are
    called ``calibrated_…``. Raises DataError for a file that is no such classifier and
    for scores of another kind, UsageError for an output that it lacks.
    """
    onnx = require_onnx()
    model = read_model(path)
    if output is not None and output not in _output_names(model):
        # Without inferred shapes no tensor inside can become an output.
        with suppress(Exception):
            inside = onnx.shape_inference.infer_shapes(model).graph.value_info
            model.graph.output.extend(value for value in inside if value.name == output)
    inputs, outputs = observed(model, path)
    scores = score_output(model, path, artifact, output, outputs)
    names = _free_names(model, path)
    opset = _checked_opset(model, path)
    model.ir_version = max(model.ir_version, 7)
    graph = trace(artifact, one_column=outputs[scores].shape[1] == 1)
    writer = Writer(graph, artifact.n_classes, opset, scores, PREFIX, names)
    model.graph.node.extend(writer.nodes)
    model.graph.initializer.extend(writer.initializers)
    model.graph.output.extend(writer.outputs)
    metadata = {prop.key: prop.value for prop in model.metadata_props}
    metadata.update(properties(artifact))
    metadata["calcli_scores"] = scores
    onnx.helper.set_model_props(model, metadata)
    return Joined(model, scores, names, opset, inputs)


def _output_names(model: Any) -> list[str]:
    return [output.name for output in model.graph.output]


def _free_names(model: Any, path: str) -> list[str]:
    """Names of the calibrator's outputs, prefixed where the classifier has them.

    Raises UsageError where the prefixed ones are used, too, as of a joined model.
    """
    used: set[str] = set()
    for node in model.graph.node:
        used.update(node.input, node.output)
    used.update(value.name for value in model.graph.input)
    used.update(value.name for value in model.graph.initializer)
    joined = sorted(name for name in used if name.startswith(PREFIX))
    if joined:
        raise UsageError(
            f"{path}: has a tensor {joined[0]!r}: it is joined to a calibrator already"
        )
    names = []
    for name in NAMES:
        names.append(OTHERWISE + name if name in used else name)
    clashes = sorted(used.intersection(names))
    if clashes:
        raise UsageError(
            f"{path}: has a tensor {clashes[0]!r}, as the calibrator's would be called;"
            " rename it"
        )
    return names


def _checked_opset(model: Any, path: str) -> int:
    """Opset of a model, which gets one where it has none.

    Raises DataError for an old one.
    """
    for known in model.opset_import:
        if known.domain in ("", "ai.onnx"):
            opset = int(known.version)
            break
    else:
        opset = 0
    if not opset:
        model.opset_import.append(require_onnx().helper.make_opsetid("", OPSET))
        return OPSET
    if opset < OLDEST_OPSET:
        advice = (
            f"convert it with onnx.version_converter.convert_version(model, {OPSET})"
        )
        raise DataError(
            f"{path}: is of opset {opset}, the calibrator needs {OLDEST_OPSET} or"
            f" later; {advice}"
        )
    return opset


def read_model(path: str) -> Any:
    """Read the model of an ONNX file.

    Raises DataError for a file that is none, or has no outputs.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: is no file; expected an ONNX model")
    note_onnx(Path(path))
    onnx = require_onnx()
    # The errors of protobuf, and of missing external data.
    with blaming(f"{path}: cannot be read as an ONNX model"):
        model = onnx.load(path)
    if not model.graph.output:
        raise DataError(f"{path}: has no outputs, or is no ONNX model")
    return model


# ---- which output holds the scores


def ending(model: Any, name: str) -> tuple[str, str]:
    """Operation that computes an output, and the name of its first input; both empty if
    there is none.
    """
    makers = {}
    for node in model.graph.node:
        for output in node.output:
            makers[output] = node
    maker = makers.get(name)
    while maker is not None and maker.op_type in PASSING and maker.input:
        name = maker.input[0]
        maker = makers.get(name)
    if maker is None or not maker.input:
        return "", ""
    return maker.op_type, maker.input[0]


def other_kind(model: Any, name: str, kind: ScoreKind, outputs: Outputs) -> str | None:
    """Actual kind of an output, by its last operation and its values; None if it can be
    the given kind.
    """
    by_operation = ENDS.get(ending(model, name)[0], kind)
    if by_operation != kind:
        return by_operation
    values = outputs[name].astype(np.float64)
    if kind != "logits":
        return None if _can_be(values, kind) else f"no {kind}"
    n_columns = values.shape[1]
    if n_columns == 1 and len(np.unique(values)) < MOST_BY_CHANCE:
        return None  # one column has no sums to check
    kinds: list[ScoreKind] = ["probs", "log_probs"]
    for other in kinds[:n_columns]:
        if _can_be(values, other):
            return other
    return None


def _can_be(values: AnyArray, kind: ScoreKind) -> bool:
    """True for values that are valid scores of a kind."""
    with suppress(DataError):
        check_scores(values, kind, "")
        return True
    return False


def score_output(
    model: Any, path: str, artifact: Artifact, wanted: str | None, outputs: Outputs
) -> str:
    """Name of the classifier's output with the scores.

    Raises UsageError or DataError for none, or another kind.
    """
    k = artifact.n_classes
    names = _output_names(model)
    if wanted is not None and wanted not in names:
        raise UsageError(
            f"{path}: has no output {wanted!r}; its outputs: {', '.join(names)}"
        )
    fitting = [name for name in names if _has_shape(outputs.get(name), k)]
    if wanted is not None:
        if wanted not in fitting:
            raise DataError(
                f"{path}: output {wanted!r} is no array (rows, {k}) of floats"
            )
        fitting = [wanted]
    other_kinds = {}
    for name in fitting:
        other = other_kind(model, name, artifact.input_kind, outputs)
        if other is not None:
            other_kinds[name] = other
    if other_kinds and len(other_kinds) == len(fitting):
        raise _of_another_kind(model, path, artifact, other_kinds)
    fitting = [name for name in fitting if name not in other_kinds]
    if len(fitting) == 1:
        return fitting[0]
    for name in USUAL:
        if name in fitting:
            return name
    count = f"{len(fitting)} outputs fit" if fitting else "no output fits"
    raise UsageError(
        f"{path}: {count} an array (rows, {k}) of scores among {', '.join(names)};"
        " name one with --at OUTPUT"
    )


def _has_shape(values: AnyArray | None, k: int) -> bool:
    """True for rows of k scores; of two classes one column will do."""
    if values is None or values.ndim != 2:
        return False
    return values.shape[1] == k or (k == 2 and values.shape[1] == 1)


def _of_another_kind(
    model: Any, path: str, artifact: Artifact, other_kinds: Mapping[str, str]
) -> DataError:
    """Say that no output has scores of the calibrator's kind."""
    name, kind = next(iter(other_kinds.items()))
    operation, source = ending(model, name)
    advice = "name another output with --at"
    if ENDS.get(operation) == kind:
        advice = f"--at {source} takes what the {kind} are made of"
    return DataError(
        f"{path}: its output {name!r} is {kind}, the calibrator was fitted to"
        f" {artifact.input_kind}: {advice}, or fit to what this output holds"
    )


# ---- its values on random inputs


def observed(model: Any, path: str) -> tuple[dict[str, Any], Outputs]:
    """Run a model on random inputs: returns the first of these, and its float outputs
    on all, finite rows alone.

    Raises DataError for a model that does not run.
    """
    names = []
    for output in model.graph.output:
        if output.type.tensor_type.elem_type in FLOATS:
            names.append(output.name)
    if not names:
        return {}, {}
    run = None
    problem = ""
    for free, most in product(FREE, (1, 0)):
        try:
            run = run or session(model.SerializeToString()).run
            first, results = _run_on_draws(run, names, model, free, most)
        # onnxruntime and protobuf have errors of their own
        except Exception as failure:
            problem = problem or one_line(failure)
            continue
        outputs = {}
        for name, parts in zip(names, zip(*results, strict=True), strict=True):
            values = _finite_rows(parts)
            if values is not None and len(values):
                outputs[name] = values
        return first, outputs
    raise DataError(
        f"{path}: does not run on random inputs ({problem[:200]}), so that nothing"
        " tells what its outputs are; give its inputs fixed shapes"
        " (onnxruntime.tools.make_dynamic_shape_fixed), or export the calibrator by"
        " itself"
    )


def _run_on_draws(
    run: Any, names: Sequence[str], model: Any, free: int, most: int
) -> tuple[dict[str, Any], list[Any]]:
    """The first random inputs, and what the model gives for every draw."""
    first = made_up_inputs(model, np.random.default_rng(0), SIZES[0], free, most)
    results = [run(names, first)]
    rng = np.random.default_rng(1)
    for draw in range(1, DRAWS):
        n_rows = sum(len(np.atleast_1d(result[0])) for result in results)
        if draw >= len(SIZES) and n_rows >= 3 * MOST_BY_CHANCE:
            break
        size = SIZES[draw % len(SIZES)]
        results.append(run(names, made_up_inputs(model, rng, size, free, most)))
    return first, results


def _finite_rows(parts: Sequence[Any]) -> AnyArray | None:
    """Values of an output on all draws, finite rows alone; None where shapes differ."""
    arrays = [np.atleast_1d(part) for part in parts]
    if len({array.shape[1:] for array in arrays}) > 1:
        return None
    whole = np.concatenate(arrays)
    is_finite = np.isfinite(whole.reshape(len(whole), -1)).all(axis=1)
    return whole[is_finite]


def made_up_inputs(
    model: Any, rng: np.random.Generator, size: float, free: int, most: int
) -> dict[str, Any]:
    """Random values for every input: floats of a size, integers from 0 to ``most``;
    ``free`` is the length of dynamic axes but the first.
    """
    onnx = require_onnx()
    constants = {value.name for value in model.graph.initializer}
    inputs: dict[str, Any] = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        shape = []
        for axis, length in enumerate(tensor.shape.dim):
            dynamic = ROWS if axis == 0 else free
            shape.append(length.dim_value or dynamic)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            drawn: AnyArray = rng.normal(size=shape) * size
        else:
            drawn = rng.integers(0, most, shape, endpoint=True)
        inputs[value.name] = drawn.astype(dtype)
    return inputs
