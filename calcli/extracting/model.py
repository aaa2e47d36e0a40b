"""Loaders of models: a torch.export program, TorchScript, ONNX, or a user's factory
function.

torch and onnxruntime are imported here and nowhere else in ``extract``.
"""

import hashlib
import inspect
import json
import pickle
import re
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError, blaming, check_choice, one_line
from calcli.io.inputs import file_sha256, note, note_onnx
from calcli.io.validate import refuse_bomb
from calcli.numerics import AnyArray
from calcli.optional_packages import install_command, optional_import

# ---- programs of torch.export, loaded so that nothing in the archive runs but the model's own operators
# ``torch.export.load`` unpickles any object in the archive, loads compiled libraries and
# evaluates expressions of sizes. Here pickles are read weights-only or not at all, archives
# with libraries or pickled objects are refused, and so are expressions other than
# arithmetic. A model is still a program: nothing limits what it computes, or for how long.


REFUSED = re.compile(
    r"\.(so|dll|dylib|cubin|hsaco|py|pyc)$"
    r"|(^|/)(aotinductor|executorch)/"
    r"|(^|/)(opaque|custom)_obj_"
)
"""Refused members of an archive: libraries, and objects that only a pickle can store."""

ARITHMETIC = re.compile(
    r"(?!.*__)"
    r"(?!.*[A-Za-z_]\.|.*\.[A-Za-z_])"  # no attributes
    r"(?!.*\b[a-z_]\w*\s*\()"  # no functions of Python
    r"([\w\s+\-*/%(),.<>=!&|~]|'\w{1,50}'){0,10000}"
)
"""Allowed expression of sizes: names, numbers, operators, SymPy's Capital(…)."""


def load_exported(torch: Any, path: Path, device: str) -> Any:
    """Load the program in a ``.pt2`` onto a device. Raises DataError."""

    def checked(item: dict[str, Any]) -> dict[str, Any]:
        text = item.get("expr_str", "")
        if not (isinstance(text, str) and ARITHMETIC.fullmatch(text)):
            raise DataError(
                f"{path}: has a size {str(text)[:40]!r}, expected arithmetic; export"
                " the model again"
            )
        return item

    with blaming(f"{path}: cannot be loaded as a torch.export program"):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                refuse_bomb(
                    f"{path}: {member.filename}", member.file_size, member.compress_size
                )
                if REFUSED.search(member.filename):
                    raise DataError(
                        f"{path}: holds {member.filename}, which would have"
                        " to be run to be read; export the model again, or name the"
                        " code that builds it: --model package.module:factory"
                    )
                if member.filename.endswith(".json"):
                    json.loads(archive.read(member), object_hook=checked)
        with _without_pickles(torch):
            program = torch.export.load(path)
        if device == "cpu":
            return program
        from torch.export.passes import move_to_device_pass

        return move_to_device_pass(program, device)


@contextmanager
def _without_pickles(torch: Any) -> Iterator[None]:
    """Restrict torch.load to tensors, whatever its arguments, and disable pickle.loads."""
    load = torch.load
    loads = pickle.loads

    def load_tensors(*args: Any, **options: Any) -> Any:
        return load(*args, **{**options, "weights_only": True})

    def refuse(*args: Any, **options: Any) -> Any:
        raise pickle.UnpicklingError("it holds a pickle, which could run any program")

    torch.load = load_tensors
    pickle.loads = refuse
    try:
        yield
    finally:
        torch.load = load
        pickle.loads = loads


def load_model(spec: str, weights: str | None, device: str) -> "Model":
    """Load a model: a batch of inputs (b, ...) in, a batch of scores (b, k), (b, 1) or
    (b,) out, in float32.

    spec : a ``.pt2`` program of torch.export, a ``.pt`` TorchScript, an ``.onnx`` file,
    or ``package.module:factory``, a callable without arguments that builds a torch
    module, with ``weights`` as its state dict (``.pt`` read weights-only, or
    ``.safetensors``). device : auto, cpu or cuda. Raises UsageError and DataError.
    """
    path = Path(spec)
    if path.suffix in (".onnx", ".pt2", ".pt", ".pth") or path.exists():
        if not path.is_file():
            raise DataError(f"{path}: no such model file")
        if weights is not None:
            raise UsageError(
                f"--weights: {path.name} holds its own weights; a state dict needs"
                " --model module:factory"
            )
        if path.suffix == ".onnx":
            return OnnxModel(path, device)
    elif ":" not in spec:
        expected = (
            "expected a .pt2, TorchScript .pt or .onnx file, or package.module:factory"
        )
        raise UsageError(f"--model {spec}: {expected}; there is no such file")
    return TorchModel(spec, weights, device)


class TorchModel:
    """Torch model of any of the three kinds.

    name : for messages. identity : properties that distinguish it from other models,
    for the fingerprint of a job. batch : the only batch size it accepts, None for any.
    """

    identity: dict[str, Any]
    batch: int | None = None

    def __init__(self, spec: str, weights: str | None, device: str) -> None:
        with optional_import("torch", "running this model"):
            import torch
        check_choice("--device", device, ("auto", "cpu", "cuda"))
        if device == "cuda" and not torch.cuda.is_available():
            raise UsageError(
                "--device cuda: torch finds no CUDA device here; use --device auto or"
                " cpu"
            )
        self.name = spec
        path = Path(spec)
        self.device = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
        if not path.is_file():
            module = _built(torch, spec)
            if weights is not None:
                _load_weights(torch, module, Path(weights))
            self.identity = {"model": spec, **_module_identity(torch, spec, module)}
            self.module = module.to(self.device).eval()
            return
        if path.suffix == ".pt2":
            program = load_exported(torch, path, self.device)
            for node in program.graph.nodes:
                if (
                    node.op == "placeholder"
                    and node.name in program.graph_signature.user_inputs
                ):
                    first = node.meta["val"].shape[0]
                    self.batch = first if isinstance(first, int) else None
            # without its guards, which are stored as code to execute
            plain = (
                {"check_guards": False}
                if "check_guards" in inspect.signature(program.module).parameters
                else {}
            )
            self.module = program.module(**plain)
        else:
            needs = "; a state dict needs --model package.module:factory --weights FILE"
            with blaming(f"{path}: cannot be loaded as TorchScript", advice=needs):
                self.module = torch.jit.load(path, map_location=self.device).eval()
        self.identity = {"model": path.name, "sha256": file_sha256(path)}

    def __call__(self, x: AnyArray) -> AnyArray:
        """Compute scores of inputs: the model's output, its ``logits``, or the first of
        several outputs.
        """
        import torch

        inputs = torch.from_numpy(np.ascontiguousarray(x)).to(self.device)
        with torch.inference_mode():
            output = self.module(inputs)
        if isinstance(output, dict) and "logits" not in output:
            raise TypeError(
                f"the model returns a dict of {', '.join(map(str, output))}, expected"
                " 'logits' in it"
            )
        if isinstance(output, dict):
            output = output["logits"]
        elif hasattr(output, "logits"):
            output = output.logits
        elif isinstance(output, tuple | list):
            output = output[0]
        return output.detach().float().cpu().numpy()


def _built(torch: Any, spec: str) -> Any:
    """Import ``package.module:factory`` (from the current folder too) and call it."""
    module_name, _, factory_name = spec.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as problem:
        raise UsageError(
            f"--model {spec}: cannot import {module_name}: {one_line(problem)}"
        ) from None
    if not hasattr(module, factory_name):
        raise UsageError(
            f"--model {spec}: module {module_name} has no {factory_name!r}"
        )
    try:
        built = getattr(module, factory_name)()
    except (Exception, SystemExit) as problem:
        raise UsageError(
            f"--model {spec}: {factory_name}() fails: {one_line(problem)}; it takes no"
            " arguments"
        ) from None
    if not isinstance(built, torch.nn.Module):
        raise UsageError(
            f"--model {spec}: gives a {type(built).__name__}, expected a"
            " torch.nn.Module"
        )
    return built


def _module_identity(torch: Any, spec: str, module: Any) -> dict[str, str]:
    """Hash the code that built a module and its weights, from whatever source."""
    state = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        state.update(
            tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        )
    identity = {"weights_sha256": state.hexdigest()}
    source = getattr(sys.modules[spec.partition(":")[0]], "__file__", None)
    if source is not None and Path(source).is_file():
        identity["code_sha256"] = file_sha256(Path(source))
    return identity


def _load_weights(torch: Any, module: Any, path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path}: no such file of weights")
    note(path)
    if path.suffix == ".safetensors":
        with optional_import("safetensors", f"{path}: reading these weights"):
            from safetensors.torch import load_file
        with blaming(f"{path}: cannot be read as weights"):
            state = load_file(path)
    else:
        with blaming(f"{path}: cannot be read as weights"):
            state = torch.load(path, map_location="cpu", weights_only=True)
    for wrapper in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict):
        raise DataError(
            f"{path}: holds a {type(state).__name__}, expected a state dict: names to"
            " tensors"
        )
    with blaming(f"{path}: does not fit the model", RuntimeError):
        module.load_state_dict(state)


class OnnxModel:
    """Model in an ONNX file, with the interface of ``TorchModel``."""

    def __init__(self, path: Path, device: str) -> None:
        with optional_import("onnxruntime", "running an ONNX model"):
            import onnxruntime
        note_onnx(path)
        known = onnxruntime.get_available_providers()
        if device == "cuda" and "CUDAExecutionProvider" not in known:
            command = install_command("onnxruntime-gpu")
            raise UsageError(
                f"--device cuda: this onnxruntime has no CUDA ({command}); use cpu"
            )
        wanted = (
            ["CPUExecutionProvider"]
            if device == "cpu"
            else ["CUDAExecutionProvider", "CPUExecutionProvider"]
        )
        with blaming(f"{path}: cannot be loaded as an ONNX model"):
            self.session = onnxruntime.InferenceSession(
                path, providers=[p for p in wanted if p in known]
            )
        self.name = str(path)
        inputs = self.session.get_inputs()
        if len(inputs) != 1:
            names = ", ".join(one.name for one in inputs)
            raise DataError(
                f"{path}: takes {len(inputs)} inputs ({names}), expected one"
            )
        self.input = inputs[0]
        first = self.input.shape[0] if self.input.shape else None
        self.batch: int | None = first if isinstance(first, int) and first > 0 else None
        outputs = [o.name for o in self.session.get_outputs()]
        self.output = "logits" if "logits" in outputs else outputs[0]
        self.identity = {
            "model": path.name,
            "sha256": file_sha256(path),
            "output": self.output,
        }

    def __call__(self, x: AnyArray) -> AnyArray:
        dtype = {
            "tensor(float16)": np.float16,
            "tensor(double)": np.float64,
            "tensor(float)": np.float32,
        }
        wanted = dtype.get(self.input.type, x.dtype)
        (scores,) = self.session.run(
            [self.output], {self.input.name: np.ascontiguousarray(x, dtype=wanted)}
        )
        return np.asarray(scores, dtype=np.float32)


Model = TorchModel | OnnxModel
