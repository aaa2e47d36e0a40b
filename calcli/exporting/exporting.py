"""Export a calibrator to a target, load the result, and compare it with ``apply``."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePath
from typing import Any

import numpy as np

from calcli.errors import CalcliError, DataError, UsageError, one_line, unknown_name
from calcli.exporting.calibrator_graph import groups_of, trace
from calcli.exporting.graph import Graph
from calcli.exporting.numpy_source import load_source, write_source
from calcli.exporting.onnx_after_classifier import OTHERWISE, join
from calcli.exporting.onnx_model import OPSET, build_model, session
from calcli.exporting.operations import OPERATIONS
from calcli.exporting.verify import TOLERANCE, Agreement, Run, compare, trying_rows
from calcli.io.artifact import Artifact
from calcli.optional_packages import optional_import

ENDINGS = {".onnx": "onnx", ".pt2": "torch", ".py": "python"}
"""Targets by file extension."""
TARGETS = tuple(ENDINGS.values())


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
    input_type: str = "float32"
    opset: int | None = None
    scores: str | None = None
    notes: tuple[str, ...] = ()


def target_of(output: str, to: str | None) -> str:
    """Target of a file: as requested, or by its extension. Raises UsageError."""
    if to is not None and to not in TARGETS:
        raise unknown_name("target of --to", to, TARGETS)
    target = to or ENDINGS.get(PurePath(output).suffix.lower())
    if target is None:
        raise UsageError(
            f"-o {output}: says no target; name one with --to, or end in"
            f" {', '.join(ENDINGS)}"
        )
    return target


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
    if onto is not None:
        return _behind(artifact, onto, at)
    graph = trace(artifact)
    wide = wide or graph.jumps or target == "python"
    if target == "python":
        data = write_source(artifact, graph).encode()
        run = _python(data)
    elif target == "torch":
        with optional_import("torch", "--to torch"):
            import torch
        by_group = bool(groups_of(artifact))
        data = save_program(build_module(graph), artifact.n_classes, by_group, wide)
        run = torch_run(torch.export.load(BytesIO(data)).module(), wide)
    else:
        data = build_model(artifact, graph, wide).SerializeToString()
        run = _onnx(data)
    return Export(
        data,
        run,
        tried(run, artifact, wide),
        input_type="float64" if wide else "float32",
        opset=OPSET if target == "onnx" else None,
    )


def export_facts(
    output: str, target: str, artifact: Artifact, exported: Export, agreement: Agreement
) -> dict[str, Any]:
    """JSON object that ``calcli export --json`` prints."""
    facts: dict[str, Any] = {
        "calcli_export": 1,
        "output": output,
        "to": target,
        "method": artifact.method,
        "input_kind": artifact.input_kind,
        "n_classes": artifact.n_classes,
    }
    groups = groups_of(artifact)
    if groups:
        facts["groups"] = {column: list(known) for column, known in groups.items()}
    facts["input_type"] = exported.input_type
    facts["opset"] = exported.opset
    facts["scores"] = exported.scores
    facts["rows"] = agreement.rows
    facts["difference"] = agreement.difference
    facts["labels_differ"] = agreement.labels
    facts["on_jumps"] = agreement.on_jumps
    facts["tolerance"] = TOLERANCE
    return facts


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


def _python(data: bytes) -> Run:
    module = load_source(data.decode())

    def run(*arrays: Any) -> Any:
        return module["predict_proba"](*arrays), module["predict"](*arrays)

    return run


def build_module(graph: Graph) -> Any:
    """Build a ``torch.nn.Module``: scores (rows, classes) of any float type in; probs
    and confidence of that type, prediction int64 out. Its constants are buffers, so
    they move with ``.to(device)``.
    """
    import torch

    nodes = graph.needed()

    class ExportedCalibrator(torch.nn.Module):  # type: ignore[misc]  # the base is Any without torch
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


def _onnx(data: bytes) -> Run:
    model = session(data)
    names = [value.name for value in model.get_inputs()]
    wide = model.get_inputs()[0].type == "tensor(double)"
    dtype = np.float64 if wide else np.float32

    def run(scores: Any, *group: Any) -> Any:
        arrays = (np.asarray(scores, dtype=dtype), *group)
        inputs = dict(zip(names, arrays, strict=True))
        return tuple(model.run(["probs", "prediction"], inputs))

    return run


def check(agreement: Agreement, what: str) -> None:
    """Raise CalcliError for an export that differs from ``apply``."""
    if not agreement.holds:
        raise CalcliError(
            f"{what}: differs from apply by {agreement.difference:.2g} (allowed:"
            f" {TOLERANCE:g}) and in {agreement.labels} predictions of"
            f" {agreement.rows} rows; nothing was written, please report this"
        )
