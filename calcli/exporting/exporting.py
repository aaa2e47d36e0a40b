"""Export a calibrator to a target, load the result, and compare it with ``apply``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from calcli.errors import CalcliError, DataError, UsageError, one_line, unknown_name
from calcli.exporting.calibrator_graph import groups_of, trace
from calcli.exporting.graph import Graph
from calcli.exporting.numpy_source import write_python
from calcli.exporting.onnx_after_classifier import OTHERWISE, join
from calcli.exporting.onnx_model import OPSET, session, write_onnx
from calcli.exporting.target import Run, Written
from calcli.exporting.torch_program import write_torch
from calcli.exporting.verify import TOLERANCE, Agreement, compare, trying_rows
from calcli.io.artifact import Artifact
from calcli.output import Count, Output


@dataclass(frozen=True)
class Target:
    """A target of an export.

    ending : of its files. write : takes an artifact, its graph, and whether scores are
    float64.
    """

    ending: str
    write: Callable[[Artifact, Graph, bool], Written]


TARGETS: Mapping[str, Target] = {
    "onnx": Target(".onnx", write_onnx),
    "torch": Target(".pt2", write_torch),
    "python": Target(".py", write_python),
}
"""All targets by name."""

TargetName = Annotated[str, Meta(extra_json_schema={"enum": list(TARGETS)})]

InputType = Literal["float32", "float64"]


class ExportOutput(Output, kw_only=True):
    """The JSON of ``calcli export``.

    groups : of a calibrator by group, by the name of its column, in the order in which
    the export counts them. scores : output of the classifier that is calibrated.
    difference : the largest to ``calcli apply``.
    """

    calcli_export: Literal[1]
    output: str
    to: TargetName
    method: str
    input_kind: str
    n_classes: Count
    groups: dict[str, list[str]] | UnsetType = UNSET
    input_type: InputType
    opset: int | None
    scores: str | None
    rows: Count
    difference: float
    labels_differ: Count
    on_jumps: Count
    tolerance: float


@dataclass(frozen=True)
class Export:
    """Exported calibrator, and its agreement with ``apply``.

    data : bytes of the file. run : the calibrator as loaded from them. agreement : on
    the rows tried. input_type : type of the scores that it takes. opset : of ONNX.
    scores : the classifier's output that is calibrated. notes : messages to the user.
    """

    data: bytes
    run: Run
    agreement: Agreement
    input_type: InputType = "float32"
    opset: int | None = None
    scores: str | None = None
    notes: tuple[str, ...] = ()


def target_of(output: str, to: str | None) -> str:
    """Target of a file: as requested, or by its extension. Raises UsageError."""
    if to is not None and to not in TARGETS:
        raise unknown_name("target of --to", to, TARGETS)
    if to:
        return to
    by_ending = {target.ending: name for name, target in TARGETS.items()}
    name = by_ending.get(PurePath(output).suffix.lower())
    if name is None:
        raise UsageError(
            f"-o {output}: says no target; name one with --to, or end in"
            f" {', '.join(by_ending)}"
        )
    return name


def export(
    artifact: Artifact,
    target: str,
    onto: str | None = None,
    at: str | None = None,
    *,
    name: str | None = None,
    wide: bool = False,
) -> Export:
    """Export a calibrator to one of ``TARGETS``, alone or behind output ``at`` of the
    classifier ``onto``, and compare it with ``apply`` on difficult rows. name : of the
    calibrator in messages, else its method. wide : takes scores in float64. Maps with
    steps always do, where the last bit of a score decides, and Python takes any type.

    Raises UsageError for a method that cannot be exported, or a package that is
    missing.
    """
    if artifact.input_kind == "confidence":
        raise UsageError(
            f"{name or artifact.method}: maps confidences of which no class is known;"
            " only calibrators of the scores of all classes can be exported; calcli"
            " apply uses it"
        )
    if artifact.of_options:
        raise UsageError(
            f"{name or artifact.method}: options differ from row to row, and an export"
            " takes a fixed number of classes; use calcli apply, or"
            " calcli.decisions.load(FILE).answers(response)"
        )
    if onto is not None:
        return _behind(artifact, onto, at)
    graph = trace(artifact)
    wide = wide or graph.jumps or target == "python"
    written = TARGETS[target].write(artifact, graph, wide)
    data = written.data
    run = written.run
    return Export(
        data,
        run,
        tried(run, artifact, wide),
        input_type="float64" if wide else "float32",
        opset=OPSET if target == "onnx" else None,
    )


def export_output(
    output: str, target: str, artifact: Artifact, exported: Export, agreement: Agreement
) -> ExportOutput:
    """The JSON of ``calcli export``. output : path of the file."""
    groups: dict[str, list[str]] | UnsetType = UNSET
    groups_by_column = groups_of(artifact)
    if groups_by_column:
        groups = {column: list(known) for column, known in groups_by_column.items()}
    return ExportOutput(
        calcli_export=1,
        output=output,
        to=target,
        method=artifact.method,
        input_kind=artifact.input_kind,
        n_classes=artifact.n_classes,
        groups=groups,
        input_type=exported.input_type,
        opset=exported.opset,
        scores=exported.scores,
        rows=agreement.rows,
        difference=agreement.difference,
        labels_differ=agreement.labels,
        on_jumps=agreement.on_jumps,
        tolerance=TOLERANCE,
    )


def _behind(artifact: Artifact, path: str, output: str | None) -> Export:
    """Export a calibrator behind an ONNX file's classifier; compared on random inputs,
    and alone on difficult rows.
    """
    if groups_of(artifact):
        raise UsageError(
            f"--onto {path}: the calibrator takes the group of every row beside the"
            " scores; export it by itself, and feed it the classifier's output"
        )
    joined = join(artifact, path, output)
    try:
        data: bytes = joined.model.SerializeToString()
        model = session(data)
    except Exception as problem:  # protobuf and onnxruntime have errors of their own
        raise DataError(
            f"{path}: cannot be joined with the calibrator: {one_line(problem)}"
        ) from None
    alone = export(artifact, "onnx")
    scores, probs, label = model.run([joined.scores, *joined.names[:2]], joined.inputs)
    if scores.shape[1] < artifact.n_classes:  # a binary model's one column
        of_class_1 = scores.astype(np.float64)
        of_class_0 = 1 - of_class_1
        if artifact.input_kind == "logits":
            of_class_0 = np.zeros_like(of_class_1)
        scores = np.concatenate([of_class_0, of_class_1], axis=1)
    agreement = alone.agreement + compare(lambda _: (probs, label), artifact, scores)
    notes = []
    renamed = [name for name in joined.names if name.startswith(OTHERWISE)]
    if renamed:
        notes.append(
            f"{path} has tensors of these names: the calibrator's outputs are called"
            f" {', '.join(renamed)}"
        )
    return Export(
        data,
        alone.run,
        agreement,
        opset=joined.opset,
        scores=joined.scores,
        notes=tuple(notes),
    )


def tried(run: Run, artifact: Artifact, wide: bool = False) -> Agreement:
    """Agreement of an export with ``apply`` on random and extreme rows, in float32, and
    in float64 if it takes that.
    """
    agreement = Agreement(0, 0.0, 0)
    for dtype in (np.float32, np.float64) if wide else (np.float32,):
        for scores in trying_rows(artifact.n_classes, artifact.input_kind, dtype):
            agreement += compare(run, artifact, scores)
    return agreement


def check(agreement: Agreement, what: str) -> None:
    """Raise CalcliError for an export that differs from ``apply``."""
    if not agreement.holds:
        raise CalcliError(
            f"{what}: differs from apply by {agreement.difference:.2g} (allowed:"
            f" {TOLERANCE:g}) and in {agreement.labels} predictions of"
            f" {agreement.rows} rows; nothing was written, please report this"
        )
