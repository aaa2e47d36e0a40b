"""Artifacts whose values read well and are no calibrator; and files that are none and never end."""

import json
import os
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
from synthetic import truth

from calcli.errors import DataError
from calcli.io import artifact
from calcli.io.artifact import loads

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "v01"


def times(value, factor):
    return (
        [times(v, factor) for v in value] if isinstance(value, list) else value * factor
    )


SPOILT = {
    "ts": ("temperature", lambda v: 1e-320),
    "ms": ("weight", lambda v: times(np.ones_like(v).tolist(), 1e308)),
    "dir": ("weight", lambda v: times(np.ones_like(v).tolist(), 1e308)),
    "mono": ("slopes", lambda v: times(np.ones_like(v).tolist(), 1e308)),
    "irm": ("values", lambda v: v[::-1]),
    "iop": ("b1", lambda v: {"dtype": "float64", "shape": [2**40, 0], "base64": ""}),
    "hoki": ("scale", lambda v: 1e308),
    "vs": ("scale", lambda v: times(np.ones_like(v).tolist(), 1.7e308)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", SPOILT)
def test_values_that_load_and_overflow_are_refused_at_load(run, tmp_path, method):
    content = json.loads((GOLDEN / f"rows4.{method}.json").read_text(encoding="utf-8"))
    name, spoil = SPOILT[method]
    assert loads(json.dumps(content), "whole.json").method == method
    content["params"][name] = spoil(content["params"][name])
    (tmp_path / "a.json").write_text(json.dumps(content))
    rows = GOLDEN / "rows4.h5"
    for words in (
        ["apply", "a.json", rows, "-o", "o.h5"],
        ["evaluate", rows, "-c", "a.json"],
        ["inspect", "a.json"],
        ["diagram", rows, "-c", "a.json"],
    ):
        done = run(*words)
        assert (done.code, "a.json" in done.line) == (3, True), done.line


@pytest.mark.parametrize("classes", [2, 1_000_000, 2**31 - 1])
def test_any_number_of_classes_is_looked_at_in_bounded_memory(classes):
    content = json.loads((GOLDEN / "rows4.ts.json").read_text(encoding="utf-8"))
    content |= {
        "n_classes": classes,
        "class_names": None,
        "fit": {**content["fit"], "label_counts": []},
    }
    assert loads(json.dumps(content), "a").n_classes == classes


def test_artifacts_without_end_are_not_read(run, monkeypatch):
    rows = GOLDEN / "rows4.h5"
    assert "is a pipe or a device" in run("apply", "/dev/zero", rows, "-o", "o.h5").line
    assert "is a pipe or a device" in run("inspect", "/dev/zero").line
    monkeypatch.setattr(artifact, "LARGEST", 1 << 20)
    read, write = os.pipe()
    writer = threading.Thread(
        target=lambda: os.write(write, b"{" * (1 << 20)) and os.close(write)
    )
    writer.start()
    assert (
        "is larger than 1 MiB"
        in run("apply", f"/dev/fd/{read}", rows, "-o", "o.h5").line
    )
    writer.join()
    os.close(read)


def test_a_source_nested_without_end_is_shown_as_text(run, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["logits"], file["labels"] = np.eye(3), np.arange(3)
        file.attrs["source"] = "[" * 900 + "]" * 900
    assert run("inspect", "x.h5").code == 0
    assert json.loads(run("inspect", "x.h5", "--json").out)["bundles"][0]["source"][
        "text"
    ].startswith("[[[[")


@pytest.mark.parametrize("size", [1e-310, 1e-300, 1e-150])
def test_hoki_knows_only_the_proportions_of_the_logits(run, size):
    z, y = truth(200, 4)
    confidence = []
    for factor in (1.0, size):
        with h5py.File("z.h5", "w") as file:
            file["logits"], file["labels"] = z * factor, y
        assert (
            run("fit", "-m", "hoki", "z.h5", "-o", "h.json", "-q", "--force").code == 0
        )
        assert run("apply", "h.json", "z.h5", "-o", "o.h5", "-q", "--force").code == 0
        with h5py.File("o.h5") as file:
            confidence.append(file["confidence"][:])
    # subnormals have few digits
    np.testing.assert_allclose(*confidence, atol=1e-2 if size < 1e-308 else 1e-6)


@pytest.mark.parametrize("name", ["method", "params", "temperature", "n"])
def test_an_object_with_two_values_of_one_name_is_refused(name):
    """Of such programs take either; so would those that read an artifact without calcli."""
    text = (GOLDEN / "rows4.ts.json").read_text(encoding="utf-8")
    assert loads(text, "a.json").method == "ts"
    with pytest.raises(DataError, match=rf"key '{name}' stands twice in an object"):
        loads(text.replace(f'"{name}":', f'"{name}": 9.0, "{name}":', 1), "a.json")


def test_an_error_names_the_file():
    with pytest.raises(DataError, match=r"a\.json"):
        loads("{}", "a.json")


def test_more_classes_than_any_file_has_are_refused_at_load():
    """Exported, it was an internal error."""
    content = json.loads((GOLDEN / "rows4.ts.json").read_text()) | {"n_classes": 10**30}
    with pytest.raises(DataError, match=r"fewer than 2\^31"):
        loads(json.dumps(content), "x.json")
