"""Models that would run more than the model. The archives are the sample's with a member exchanged."""

import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).resolve().parent.parent.parent / "sample_data"


@pytest.fixture
def run(run):
    pytest.importorskip("torch")
    return run


class Gadget:
    def __reduce__(self):
        return os.system, ("touch PWNED",)


def rewritten(change):
    """digits.pt2 with its members through ``change(name, data)``, which gives pairs."""
    with (
        zipfile.ZipFile(SAMPLE / "digits.pt2") as source,
        zipfile.ZipFile("evil.pt2", "w") as copy,
    ):
        for name in source.namelist():
            for pair in change(name, source.read(name)):
                copy.writestr(*pair)


def sample_inputs(name, data):
    yield name, pickle.dumps(Gadget(), 2) if "sample_inputs/" in name else data


def weights(name, data):
    """Every payload is said to be a pickle, and is one."""
    if name.endswith("config.json"):
        content = json.loads(data)
        for payload in content.get("config", {}).values():
            payload["use_pickle"] = True
        yield name, json.dumps(content)
    else:
        yield (
            name,
            pickle.dumps(Gadget(), 2)
            if "/weights/" in name or "/constants/" in name
            else data,
        )


def library(name, data):
    yield name, data
    if name.endswith("archive_format"):
        yield name.replace("archive_format", "data/aotinductor/model/x.so"), b"\x7fELF"


def expression(name, data, text="().__class__.__base__.__subclasses__()"):
    if "/models/" in name and name.endswith(".json"):
        content = json.loads(data)
        content["more"] = {"expr_str": text}
        data = json.dumps(content)
    yield name, data


def call(name, data):
    return expression(name, data, "exec('x')")


@pytest.mark.parametrize("change", [sample_inputs, weights, library, expression, call])
def test_nothing_in_an_exported_program_runs_as_it_is_loaded(run, change):
    rewritten(change)
    done = run(
        "extract",
        "--model",
        "evil.pt2",
        "--inputs",
        SAMPLE / "digits_images.npz",
        "-o",
        "o.h5",
    )
    assert (done.code, "evil.pt2" in done.line, os.path.exists("PWNED")) == (
        3,
        True,
        False,
    )


def test_a_program_as_it_was_exported_is_run(run):
    rewritten(lambda name, data: [(name, data)])
    assert (
        run(
            "extract",
            "--model",
            "evil.pt2",
            "--inputs",
            SAMPLE / "digits_images.npz",
            "-o",
            "o.h5",
        ).code
        == 0
    )


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def bad():\n    raise SystemExit(7)\n", "bad() fails: 7"),
        ("import sys\nsys.exit(7)\n", "cannot import"),
    ],
)
def test_a_factory_that_exits_is_a_sentence(run, tmp_path, monkeypatch, code, says):
    name = f"factory_{len(code)}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    done = run(
        "extract",
        "--model",
        f"{name}:bad",
        "--inputs",
        SAMPLE / "digits_images.npz",
        "-o",
        "o.h5",
    )
    assert (done.code, says in done.line) == (2, True)


def test_help_says_that_a_model_is_a_program(run):
    assert "A model is a program" in " ".join(run("extract", "--help").out.split())


def test_a_damaged_archive_is_named(run, tmp_path):
    """Compressed bytes of its JSON exchanged: zlib raises an error of its own."""
    with zipfile.ZipFile("evil.pt2", "w", zipfile.ZIP_DEFLATED) as copy:
        copy.writestr("evil/models/model.json", json.dumps(list(range(1000))))
    data = bytearray((tmp_path / "evil.pt2").read_bytes())
    data[80:200] = bytes(120)
    (tmp_path / "evil.pt2").write_bytes(data)
    done = run(
        "extract",
        "--model",
        "evil.pt2",
        "--inputs",
        SAMPLE / "digits_images.npz",
        "-o",
        "o.h5",
    )
    assert (
        done.code,
        "evil.pt2: cannot be loaded as a torch.export program" in done.line,
    ) == (3, True)
