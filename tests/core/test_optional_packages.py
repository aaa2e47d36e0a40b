"""Packages that calcli can do without: what is said where one is missing, or broken."""

import importlib
import importlib.util
import re
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from synthetic import truth

import calcli
from calcli.errors import CalcliError, UsageError
from calcli.optional_packages import (
    DISTRIBUTION,
    REQUIREMENTS,
    install_command,
    optional_import,
)

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_data"

LOADER = "libcudnn.so.9: cannot open shared object file: No such file or directory"
"""What the loader of Linux says where a library of CUDA is not there."""

MODEL = ("--model", SAMPLES / "digits.pt2")
IMAGES = ("--inputs", SAMPLES / "digits_images.npz")


def evaluate_to_frame(run):
    scores, labels = truth(60, 3)
    calcli.evaluate(scores, labels, metrics="accuracy").to_frame()


def import_the_estimator(run):
    sys.modules.pop("calcli.sklearn", None)
    importlib.import_module("calcli.sklearn")


def read_a_log_packed_with_zstd(run):
    """A member whose header names method 93, which the standard library cannot read.

    Places of the method: PKWARE's APPNOTE 6.3.10, 4.3.7 (local header) and 4.3.12.
    """
    with zipfile.ZipFile("a.eval", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/0_epoch_1.json", "{}")
    content = bytearray(Path("a.eval").read_bytes())
    member = archive.getinfo("samples/0_epoch_1.json")
    content[member.header_offset + 8] = 93
    content[content.rindex(b"PK\x01\x02") + 10] = 93
    Path("a.eval").write_bytes(content)
    return run("extract", "a.eval", "-o", "o.h5")


def extract_with_weights(run):
    Path("w.safetensors").write_bytes(b"")
    code = "import torch\ndef net(): return torch.nn.Linear(2, 2)\n"
    Path("nets.py").write_text(code, encoding="utf-8")
    weights = ("--weights", "w.safetensors")
    try:
        return run("extract", "--model", "nets:net", *weights, *IMAGES, "-o", "o.h5")
    finally:
        sys.modules.pop("nets", None)


def read_an_image_folder(run):
    Path("images/cat").mkdir(parents=True)
    Path("images/cat/1.png").write_bytes(b"")
    return run("extract", *MODEL, "--inputs", "images", "-o", "o.h5")


def read_a_torch_file(run):
    torch = pytest.importorskip("torch")
    torch.save({"logits": torch.zeros(3, 2)}, "a.pt")
    return lambda: run("extract", "a.pt", "-o", "o.h5")


def write_parquet(run):
    assert run("fit", "-m", "ts", "a.npz", "-o", "ts.json").code == 0
    return run("apply", "ts.json", "a.npz", "-o", "a.parquet")


def read(name, content):
    def action(run):
        Path(name).write_bytes(content)
        return run("extract", name, "-o", "o.h5")

    return action


def export(to):
    def action(run):
        assert run("fit", "-m", "ts", "a.npz", "-o", "ts.json").code == 0
        return run("export", "ts.json", "--to", to, "-o", f"ts.{to}")

    return action


def command(*words):
    return lambda run: run(*words)


DRAW = ("diagram", "a.npz", "-o", "a.png")
RUN = ("extract", *MODEL, *IMAGES, "-o", "o.h5")
RUN_ONNX = ("extract", "--model", "m.onnx", *IMAGES, "-o", "o.h5")
ZSTD = "a.eval: reading members packed by method 93"
WEIGHTS = "w.safetensors: reading these weights"
FIT = ("fit", "-m", "hoki", "a.npz", "-o", "t.json")
FEATHER = b"ARROW1\0\0ARROW1"

USES = [
    # module, subject of the sentence, action, packages that the action needs besides
    ("torch", "--device cuda", command(*FIT, "--device", "cuda"), []),
    ("torch", "--to torch", export("torch"), []),
    ("torch", "running this model", command(*RUN), []),
    ("pyarrow", "a.parquet: reading Parquet", read("a.parquet", b"PAR1....PAR1"), []),
    ("pyarrow", "a.feather: reading Arrow", read("a.feather", FEATHER), []),
    ("pyarrow", "writing parquet", write_parquet, []),
    ("onnx", "--to onnx", export("onnx"), []),
    ("onnxruntime", "--to onnx", export("onnx"), ["onnx"]),
    ("onnxruntime", "running an ONNX model", command(*RUN_ONNX), []),
    ("matplotlib", "drawing png, svg or pdf", command(*DRAW), []),
    ("distributed", "--cluster", command(*FIT, "--cluster", "tcp://127.0.0.1:1"), []),
    ("zstandard", ZSTD, read_a_log_packed_with_zstd, []),
    ("safetensors", WEIGHTS, extract_with_weights, ["torch"]),
    ("PIL", "reading image folders", read_an_image_folder, ["torch"]),
    ("PIL", "transform jpeg", command(*RUN, "--transform", "jpeg:50"), ["torch"]),
    ("pandas", "to_frame", evaluate_to_frame, []),
    ("sklearn", "calcli.sklearn", import_the_estimator, []),
]
IDS = [f"{module}: {use}" for module, use, _, _ in USES]


def message_of(action, run):
    """The line with which an action fails."""
    scores, labels = truth(200, 3)
    np.savez("a.npz", logits=scores, labels=labels)
    Path("m.onnx").write_bytes(b"")
    try:
        result = action(run)
    except (CalcliError, ImportError) as problem:
        return str(problem)
    assert result.code == 2
    return result.err.splitlines()[-1]


def skip_without(packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def hide(monkeypatch, module):
    """Make Python import a module anew, with the parts that belong to it."""
    for name in list(sys.modules):
        if name == module or name.startswith(f"{module}."):
            monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(("module", "use", "action", "others"), USES, ids=IDS)
def test_a_missing_package_is_named_with_what_installs_it(
    module,
    use,
    action,
    others,
    run,
    monkeypatch,
):
    skip_without(others)
    hide(monkeypatch, module)
    monkeypatch.setitem(sys.modules, module, None)
    message = message_of(action, run)
    assert f"{use} needs " in message
    assert f": pip install {REQUIREMENTS[module]}" in message
    assert "cannot be imported" not in message


BREAKAGES = {
    "library": (f"raise ImportError({LOADER!r})", LOADER),
    "system": (f"raise OSError({LOADER!r})", LOADER),  # torch loads CUDA itself
    "dependency": ("import no_such_module", "No module named 'no_such_module'"),
    "part": ("from . import no_such_part", "cannot import name 'no_such_part'"),
    "numpy": (
        "raise AttributeError('_ARRAY_API not found')",  # built for another NumPy
        "_ARRAY_API not found",
    ),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
@pytest.mark.parametrize(("module", "use", "action", "others"), USES, ids=IDS)
def test_a_broken_package_is_not_called_missing(
    module,
    use,
    action,
    others,
    breakage,
    run,
    monkeypatch,
    tmp_path,
):
    skip_without(others)
    code, reason = BREAKAGES[breakage]
    package = tmp_path / "broken" / module
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    hide(monkeypatch, module)
    message = message_of(action, run)
    assert f"{use} needs " in message
    assert f", which is installed but cannot be imported: {reason}" in message
    assert "pip install" not in message


def test_torch_files_name_a_missing_and_a_broken_torch(run, monkeypatch, tmp_path):
    read_again = read_a_torch_file(run)
    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, "torch", None)
        line = read_again().line
    instead = "; or save the arrays with numpy.savez"
    expected = "a.pt: reading PyTorch files needs torch: pip install torch"
    assert line == f"calcli: {expected}{instead}"
    code = f"raise ImportError({LOADER!r})"
    (tmp_path / "torch.py").write_text(code, encoding="utf-8")
    with monkeypatch.context() as broken:
        broken.syspath_prepend(tmp_path)
        hide(broken, "torch")
        line = read_again().line
    cause = f"torch, which is installed but cannot be imported: {LOADER}"
    assert line == f"calcli: a.pt: reading PyTorch files needs {cause}{instead}"


def test_a_broken_torch_does_not_stop_what_can_do_without(run, monkeypatch, tmp_path):
    """``--device auto`` counts on the CPU; ``apply`` never asks for torch."""
    scores, labels = truth(200, 3)
    np.savez("a.npz", logits=scores, labels=labels)
    (tmp_path / "torch.py").write_text(f"raise OSError({LOADER!r})", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    hide(monkeypatch, "torch")
    monkeypatch.setattr("calcli.kernels.device._driver_present", lambda: True)
    monkeypatch.setattr("calcli.kernels.device.GPU_SECONDS", 0.0)
    assert run(*FIT, "--device", "auto").code == 0
    assert run("apply", "t.json", "a.npz", "-o", "out.csv").code == 0


def test_the_error_of_a_broken_package_stays_with_the_message():
    with pytest.raises(UsageError) as refused, optional_import("torch", "this"):
        raise ImportError(LOADER)
    assert str(refused.value.__cause__) == LOADER


def test_memory_that_ends_is_no_fault_of_a_package():
    with pytest.raises(MemoryError), optional_import("torch", "this"):
        raise MemoryError


def test_pipx_installs_into_the_environment_of_the_program(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_command("pyarrow") == "pip install pyarrow"
    (tmp_path / "pipx_metadata.json").write_text("{}", encoding="utf-8")
    assert install_command("pyarrow") == "pipx inject calcli-calibration pyarrow"


def test_what_messages_install_is_what_the_extras_declare():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert project["name"] == DISTRIBUTION
    extras = project["optional-dependencies"]
    requirements = chain(*extras.values())
    declared = {re.match(r"[\w-]+", line)[0] for line in requirements}
    named = {name for line in REQUIREMENTS.values() for name in line.split()}
    assert named - declared == {"pandas"}  # only to_frame uses it, on one's own frames
