"""Append a calibrator's graph to a classifier's own ONNX graph."""

from collections.abc import Mapping
from contextlib import suppress
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

PREFIX, OTHERWISE = "calcli/", "calibrated_"
"""Prefixes of tensors inside, and of outputs whose usual names the classifier uses already."""

ENDS = {"Softmax": "probs", "Sigmoid": "probs", "LogSoftmax": "log_probs"}
"""Kinds of scores by the operation that computes them."""

PASSING = {"Identity", "Cast", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
"""Operations that leave the values as they are."""

FLOATS = {1, 10, 11}
"""ONNX element types float32, float16 and float64."""

SIZES = (1.0, 10.0, 100.0)
"""Scales of random inputs: probabilities stay in [0, 1] at each."""

DRAWS, ROWS, FREE = 20, 8, (16, 64, 224, 1)
"""Largest number of draws of random inputs, rows of a draw, and lengths tried for other dynamic axes."""

Seen = Mapping[str, AnyArray]


def join(
    artifact: Artifact, path: str, output: str | None = None
) -> tuple[Any, str, list[str], int, dict[str, Any]]:
    """Append a calibrator to the classifier of an ONNX file; its own outputs stay.

    Returns the model, the output that is calibrated, the names of probs, prediction and confidence, the opset, and
    inputs that the model runs on.

    output : its output with the scores, or a tensor inside that becomes one; by default the one output of fitting shape
    and of the calibrator's kind, judged by its values on random inputs and its last operation. Outputs whose names the
    classifier has are called ``calibrated_…``. Raises DataError for a file that is no such classifier and for
    scores of another kind, UsageError for an output that it lacks.
    """
    onnx, model = require_onnx(), read_model(path)
    if output is not None and output not in [o.name for o in model.graph.output]:
        with suppress(
            Exception
        ):  # without inferred shapes no tensor inside can become an output
            known = onnx.shape_inference.infer_shapes(model).graph.value_info
            model.graph.output.extend(value for value in known if value.name == output)
    feeds, seen = observed(model, path)
    chosen = score_output(model, path, artifact, output, seen)
    used = {name for node in model.graph.node for name in (*node.input, *node.output)}
    used |= {value.name for value in (*model.graph.input, *model.graph.initializer)}
    if taken := sorted(name for name in used if name.startswith(PREFIX)):
        raise UsageError(
            f"{path}: has a tensor {taken[0]!r}: it is joined to a calibrator already"
        )
    names = [OTHERWISE * (name in used) + name for name in NAMES]
    if taken := sorted(used.intersection(names)):
        raise UsageError(
            f"{path}: has a tensor {taken[0]!r}, as the calibrator's would be called; rename it"
        )
    opset = next(
        (o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0
    )
    if not opset:
        opset = OPSET
        model.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    if opset < OLDEST_OPSET:
        advice = (
            f"convert it with onnx.version_converter.convert_version(model, {OPSET})"
        )
        raise DataError(
            f"{path}: is of opset {opset}, the calibrator needs {OLDEST_OPSET} or later; {advice}"
        )
    model.ir_version = max(model.ir_version, 7)
    graph = trace(artifact, one_column=seen[chosen].shape[1] == 1)
    writer = Writer(graph, artifact.n_classes, opset, chosen, PREFIX, names)
    model.graph.node.extend(writer.nodes)
    model.graph.initializer.extend(writer.initializers)
    model.graph.output.extend(writer.outputs)
    known = {p.key: p.value for p in model.metadata_props}
    onnx.helper.set_model_props(
        model, {**known, **properties(artifact), "calcli_scores": chosen}
    )
    return model, chosen, names, opset, feeds


def read_model(path: str) -> Any:
    """Read the model of an ONNX file. Raises DataError for a file that is none, or has no outputs."""
    if not Path(path).is_file():
        raise DataError(f"{path}: is no file; expected an ONNX model")
    note_onnx(Path(path))
    onnx = require_onnx()
    with blaming(
        f"{path}: cannot be read as an ONNX model"
    ):  # protobuf's errors, those of missing external data
        model = onnx.load(path)
    if not model.graph.output:
        raise DataError(f"{path}: has no outputs, or is no ONNX model")
    return model


# ---- which output holds the scores


def ending(model: Any, name: str) -> tuple[str, str]:
    """Operation that computes an output, and the name of its first input; both empty if there is none."""
    makers = {made: node for node in model.graph.node for made in node.output}
    while (
        (node := makers.get(name)) is not None
        and node.op_type in PASSING
        and node.input
    ):
        name = node.input[0]
    return ("", "") if node is None or not node.input else (node.op_type, node.input[0])


def other_kind(model: Any, name: str, kind: ScoreKind, seen: Seen) -> str | None:
    """Actual kind of an output, by its last operation and its values; None if it can be the given kind."""
    made = ENDS.get(ending(model, name)[0], kind)
    if made != kind:
        return made
    values = seen[name].astype(np.float64)

    def can_be(kind: ScoreKind) -> bool:
        with suppress(DataError):
            check_scores(values, kind, "")
            return True
        return False

    if kind != "logits":
        return None if can_be(kind) else f"no {kind}"
    told = (
        values.shape[1] > 1 or len(np.unique(values)) >= MOST_BY_CHANCE
    )  # one column has no sums to check
    kinds: list[ScoreKind] = ["probs", "log_probs"]
    return next(
        (each for each in kinds[: values.shape[1]] if told and can_be(each)), None
    )


def score_output(
    model: Any, path: str, artifact: Artifact, wanted: str | None, seen: Seen
) -> str:
    """Name of the classifier's output with the scores. Raises UsageError or DataError for none, or another kind."""
    k, kind = artifact.n_classes, artifact.input_kind
    widths = (k, 1) if k == 2 else (k,)
    names = [o.name for o in model.graph.output]
    if wanted is not None and wanted not in names:
        raise UsageError(
            f"{path}: has no output {wanted!r}; its outputs: {', '.join(names)}"
        )
    fit = [
        name
        for name in names
        if name in seen and seen[name].ndim == 2 and seen[name].shape[1] in widths
    ]
    if wanted is not None and wanted not in fit:
        raise DataError(f"{path}: output {wanted!r} is no array (rows, {k}) of floats")
    fit = fit if wanted is None else [wanted]
    others = {
        name: made
        for name in fit
        if (made := other_kind(model, name, kind, seen)) is not None
    }
    if others and len(others) == len(fit):
        name, made = next(iter(others.items()))
        operation, source = ending(model, name)
        advice = "name another output with --at"
        if ENDS.get(operation) == made:
            advice = f"--at {source} takes what the {made} are made of"
        told = f"its output {name!r} is {made}, the calibrator was fitted to {kind}"
        raise DataError(f"{path}: {told}: {advice}, or fit to what this output holds")
    fit = [name for name in fit if name not in others]
    if likely := fit if len(fit) == 1 else [name for name in USUAL if name in fit]:
        return likely[0]
    found = f"{len(fit)} outputs fit" if fit else "no output fits"
    told = f"{found} an array (rows, {k}) of scores among {', '.join(names)}"
    raise UsageError(f"{path}: {told}; name one with --at OUTPUT")


# ---- its values on random inputs


def observed(model: Any, path: str) -> tuple[dict[str, Any], Seen]:
    """Run a model on random inputs: returns the first of these, and its float outputs on all, finite rows alone.

    Raises DataError for a model that does not run.
    """
    names = [
        o.name for o in model.graph.output if o.type.tensor_type.elem_type in FLOATS
    ]
    if not names:
        return {}, {}
    run, problem = None, ""
    for free, most in product(FREE, (1, 0)):
        try:
            run = run or session(model.SerializeToString()).run
            first = made_up_inputs(
                model, np.random.default_rng(0), SIZES[0], free, most
            )
            found = [run(names, first)]
            rng = np.random.default_rng(1)
            for at in range(1, DRAWS):
                if (
                    at >= len(SIZES)
                    and sum(len(np.atleast_1d(f[0])) for f in found)
                    >= 3 * MOST_BY_CHANCE
                ):
                    break
                found.append(
                    run(
                        names,
                        made_up_inputs(model, rng, SIZES[at % len(SIZES)], free, most),
                    )
                )
        except Exception as failed:  # onnxruntime and protobuf have errors of their own
            problem = problem or one_line(failed)
            continue
        seen = {}
        for name, parts in zip(names, zip(*found, strict=True), strict=True):
            arrays = [np.atleast_1d(part) for part in parts]
            if len({array.shape[1:] for array in arrays}) == 1:
                whole = np.concatenate(arrays)
                seen[name] = whole[
                    np.isfinite(whole.reshape(len(whole), -1)).all(axis=1)
                ]
        return first, {name: values for name, values in seen.items() if len(values)}
    fixed = "give its inputs fixed shapes (onnxruntime.tools.make_dynamic_shape_fixed)"
    told = f"does not run on random inputs ({problem[:200]}), so that nothing tells what its outputs are"
    raise DataError(f"{path}: {told}; {fixed}, or export the calibrator by itself")


def made_up_inputs(
    model: Any, rng: np.random.Generator, size: float, free: int, most: int
) -> dict[str, Any]:
    """Random values for every input: floats of a size, integers from 0 to ``most``; ``free`` is the length of dynamic
    axes but the first."""
    onnx = require_onnx()
    constants = {value.name for value in model.graph.initializer}
    feeds: dict[str, Any] = {}
    for value in (each for each in model.graph.input if each.name not in constants):
        tensor = value.type.tensor_type
        shape = [
            d.dim_value or (free if i else ROWS) for i, d in enumerate(tensor.shape.dim)
        ]
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        random = (
            rng.normal(size=shape) * size
            if kind.kind == "f"
            else rng.integers(0, most, shape, endpoint=True)
        )
        feeds[value.name] = random.astype(kind)
    return feeds
