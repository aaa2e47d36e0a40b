"""Write a calibrator for a target, load what was written, and hold it against ``apply``."""

from typing import Any, Literal, get_args

import numpy as np

from calcli.errors import CalcliError, UsageError, needed, one_line
from calcli.export import onnx_after_classifier
from calcli.export.calibrator_graph import groups_of, trace
from calcli.export.numpy_source import load_source, write_source
from calcli.export.onnx_model import OPSET, build_model, session
from calcli.export.torch_module import build_module, load_program, save_program
from calcli.export.verify import TOLERANCE, Agreement, Run, compare, trying_rows
from calcli.fast_dataclass import dataclass
from calcli.io.artifact import Artifact

Target = Literal["onnx", "torch", "python"]
TARGETS: tuple[str, ...] = get_args(Target)
NONE = Agreement(0, 0.0, 0)


@dataclass(frozen=True)
class Export:
    """What was written, and how it compares with ``apply``.

    data : bytes of the file. run : the calibrator as loaded from them. agreement : on the
    rows tried. opset : of ONNX. scores : the classifier's output that is calibrated.
    notes : what could not be tried.
    """

    data: bytes
    run: Run
    agreement: Agreement
    opset: int | None = None
    scores: str | None = None
    notes: tuple[str, ...] = ()


def export(artifact: Artifact, target: str) -> Export:
    """A calibrator by itself, for one of ``TARGETS``, tried on hard rows.

    Raises UsageError for a method that cannot be exported, or a package that is missing.
    """
    graph = trace(artifact)
    if target == "python":
        data = write_source(artifact, graph).encode()
        run = _python(data)
    elif target == "torch":
        require_torch()
        data = save_program(build_module(graph), artifact.n_classes)
        run = torch_run(load_program(data))
    else:
        data = build_model(artifact, graph).SerializeToString()
        run = _onnx(data)
    return Export(data, run, tried(run, artifact), OPSET if target == "onnx" else None)


def export_behind(artifact: Artifact, path: str, output: str | None = None) -> Export:
    """A calibrator behind the classifier of an ONNX file; both are run, on random inputs and on hard rows."""
    if groups_of(artifact):
        raise UsageError(
            f"--onto {path}: the calibrator takes the group of every row beside the scores; export it by itself, and"
            " feed it the classifier's output"
        )
    joined = onnx_after_classifier.join(artifact, path, output)
    try:
        data: bytes = joined.model.SerializeToString()
        model = session(data)
    except Exception as problem:  # protobuf and onnxruntime have errors of their own
        raise CalcliError(f"{path}: cannot be joined with the calibrator: {one_line(problem)}") from None
    alone = export(artifact, "onnx")
    seen, probs, label = model.run([joined.scores, *joined.outputs[:2]], joined.feeds)
    agreement = alone.agreement + compare(lambda _: (probs, label), artifact, both_columns(seen, artifact))
    names = ", ".join(name for name in joined.outputs if name.startswith(onnx_after_classifier.OTHERWISE))
    note = f"{path} has tensors of these names: the calibrator's outputs are called {names}"
    return Export(data, alone.run, agreement, joined.opset, joined.scores, (note,) * bool(names))


def both_columns(scores: Any, artifact: Artifact) -> Any:
    """A binary model's one column as two."""
    s = np.asarray(scores)
    if s.shape[1] == artifact.n_classes:
        return s
    return np.concatenate([np.zeros_like(s) if artifact.input_kind == "logits" else 1 - s, s], axis=1)


def tried(run: Run, artifact: Artifact) -> Agreement:
    """How an export does on random and extreme rows."""
    return sum((compare(run, artifact, s) for s in trying_rows(artifact.n_classes, artifact.input_kind)), NONE)


def require_torch() -> None:
    """Raise UsageError where torch is not installed."""
    with needed("--to torch needs the package torch", "torch"):
        import torch  # noqa: F401


def _python(data: bytes) -> Run:
    module = load_source(data.decode())
    return lambda *given: (module["predict_proba"](*given), module["predict"](*given))


def torch_run(module: Any) -> Run:
    """A torch module as a function of arrays."""
    import torch

    def run(*given: Any) -> Any:
        with torch.no_grad():
            out = module(*(torch.from_numpy(np.array(each)) for each in given))
        return out["probs"].numpy(), out["prediction"].numpy()

    return run


def _onnx(data: bytes) -> Run:
    model = session(data)
    names = [each.name for each in model.get_inputs()]
    return lambda *given: tuple(model.run(["probs", "prediction"], dict(zip(names, given, strict=True))))


def check(agreement: Agreement, what: str) -> None:
    """Raise CalcliError for an export that differs from ``apply``."""
    if not agreement.holds:
        raise CalcliError(
            f"{what}: differs from apply by {agreement.difference:.2g} (allowed: {TOLERANCE:g}) and in"
            f" {agreement.labels} predictions of {agreement.rows} rows; nothing was written, please report this"
        )
