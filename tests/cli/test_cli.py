"""The command line at its edges: streams, exit codes, files, one-line errors."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from run_calcli import process
from synthetic import truth

import calcli
from calcli.registry import method, method_names

Z, Y = truth(800, 5)


@pytest.fixture
def bundle(tmp_path):
    """Two groups, cal and test, 400 rows each, with ids, weights and class names."""
    path = tmp_path / "logits.h5"
    with h5py.File(path, "w") as file:
        for name, part in (("cal", slice(0, 400)), ("test", slice(400, 800))):
            group = file.create_group(name)
            group["logits"], group["labels"] = Z[part].astype(np.float32), Y[part]
            group["ids"] = np.arange(800)[part]
            group["class_names"] = np.array(
                ["a", "b", "c", "d", "é"], dtype=h5py.string_dtype()
            )
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_the_main_job(run, bundle, tmp_path):
    before = digest(bundle)
    fitted = run("fit", "--method", "ts", "logits.h5")
    assert (fitted.code, fitted.out) == (0, "logits.ts.json\n")
    assert fitted.err.startswith("Fitted ts: T = ")
    assert "\nIn-sample: NLL " in fitted.err
    artifact = json.loads((tmp_path / "logits.ts.json").read_text(encoding="utf-8"))
    assert list(artifact) == [
        "calcli_artifact", "calcli_version", "method", "options", "params",
        "n_classes", "input_kind", "class_names", "fit",
    ]  # fmt: skip
    assert artifact["class_names"] == ["a", "b", "c", "d", "é"]
    assert artifact["fit"]["n"] == 400
    applied = run("apply", "logits.ts.json", "logits.h5", "-o", "out.h5")
    assert (applied.code, applied.out) == (0, "out.h5\n")
    with h5py.File("out.h5") as out, h5py.File(bundle) as source:
        expected = softmax(
            source["test/logits"][()].astype("f8") / artifact["params"]["temperature"]
        )
        assert out["probs"].dtype == np.float32
        np.testing.assert_allclose(out["probs"][()], expected, rtol=1e-6)
        np.testing.assert_array_equal(out["prediction"][()], expected.argmax(axis=1))
        np.testing.assert_allclose(
            out["confidence"][()], expected.max(axis=1), rtol=1e-6
        )
        np.testing.assert_array_equal(out["labels"][()], source["test/labels"][()])
        np.testing.assert_array_equal(out["ids"][()], np.arange(400, 800))
        assert [v.decode() for v in out["class_names"][()]] == ["a", "b", "c", "d", "é"]
        assert json.loads(out.attrs["calibrator"]) == artifact
        assert out.attrs["calcli_bundle"] == 1
    assert digest(bundle) == before


@pytest.mark.parametrize("kind", ["probs", "log_probs", "logits"])
def test_apply_writes_the_kind_asked_for(run, bundle, kind):
    run("fit", "-m", "ts", "logits.h5")
    assert (
        run("apply", "logits.ts.json", "logits.h5", "-o", "out.h5", "--as", kind).code
        == 0
    )
    again = run("inspect", "out.h5", "--json")
    facts = json.loads(again.out)["bundles"][0]
    assert (facts["kind"], facts["n"], facts["n_classes"]) == (kind, 400, 5)


def test_same_inputs_same_bytes(run, bundle, tmp_path):
    assert run("fit", "-m", "ec", "logits.h5", "-o", "a.json").code == 0
    assert run("fit", "-m", "ec", "logits.h5", "-o", "b.json").code == 0
    assert digest(tmp_path / "a.json") == digest(tmp_path / "b.json")


def test_artifacts_travel_through_pipes(bundle, tmp_path):
    fitted = process("fit", "-m", "ec", "logits.h5", "-o", "-", "-q", cwd=tmp_path)
    assert fitted.code == 0
    assert fitted.err == ""
    assert json.loads(fitted.out)["method"] == "ec"
    applied = process(
        "apply", "-", "logits.h5:test", "-o", "out.h5", cwd=tmp_path, stdin=fitted.out
    )
    assert applied.code == 0
    assert (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["apply", "-", "-", "-o", "out.h5"],
        ["apply", "-", "--files-from", "-", "-o", "out.h5"],
        ["fit", "-", "--files-from", "-"],
        ["evaluate", "m.h5", "-c", "-", "--files-from", "-"],
        ["diagram", "m.h5", "-c", "-", "-c", "-"],
        ["threshold", "-", "-c", "-", "--accuracy", "0.5"],
        ["export", "-", "--check", "-", "-o", "out.py"],
        ["adapt", "-", "m.h5", "--source", "-", "-o", "out.json"],
        ["compare", "-", "--baseline-bundle", "-"],
        ["extract", "-", "--gold", "-", "-o", "out.h5"],
    ],
)
def test_standard_input_is_read_once(run, words):
    done = run(*words)
    assert done.code == 2
    assert (
        done.line == "calcli: standard input can be read once: only one name may be -"
    )


def test_json_goes_to_stdout_and_words_to_stderr(run, bundle):
    done = run("fit", "-m", "ts", "logits.h5", "--json")
    content = json.loads(done.out)
    assert (content["calcli_fit"], content["artifact"], content["status"]) == (
        1,
        "logits.ts.json",
        "ok",
    )
    assert set(content["before"]) == {"accuracy", "nll", "brier", "ece"}
    assert done.err
    assert run("fit", "-m", "ts", "logits.h5", "--json", "-q", "--force").err == ""


def test_outputs_are_not_replaced_without_force(run, bundle, tmp_path):
    (tmp_path / "logits.ts.json").write_text("mine")
    refused = run("fit", "-m", "ts", "logits.h5")
    assert refused.code == 2
    assert "exists already" in refused.line
    assert (tmp_path / "logits.ts.json").read_text() == "mine"
    assert run("fit", "-m", "ts", "logits.h5", "--force").code == 0


def test_inputs_are_never_outputs(run, bundle):
    run("fit", "-m", "ts", "logits.h5")
    before = digest(bundle)
    refused = run(
        "apply", "logits.ts.json", "logits.h5:test", "-o", "logits.h5", "--force"
    )
    assert refused.code == 2
    assert "is an input" in refused.line
    assert digest(bundle) == before
    assert run("fit", "-m", "ts", "logits.h5", "-o", "logits.h5", "--force").code == 2
    assert digest(bundle) == before


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["fit", "-m", "tss", "logits.h5"], 2, "did you mean ts"),
        (["fit", "-m", "hb", "logits.h5", "--set", "bin=3"], 2, "did you mean bins"),
        (["fit", "-m", "hb", "logits.h5", "--set", "bins=0"], 2, "option bins="),
        (["fit", "-m", "hb", "logits.h5", "--set", "bins"], 2, "expected NAME=VALUE"),
        (["fit", "-m", "ts", "none.h5"], 3, "no such file"),
        (["fit", "-m", "ts", "logits.h5:nope"], 3, "has no group 'nope'"),
        (["fit", "-m", "ts", "text.h5"], 3, "is not an HDF5 file"),
        (
            ["fit", "-m", "ts", "nan.h5"],
            3,
            "row 3, class 1 is nan, expected a finite number",
        ),
        (["fit", "-m", "ts", "label.h5"], 3, "row 7 has label 9, expected 0..4"),
        (
            ["fit", "-m", "ts", "logits.h5", "-o", "no/such/dir.json"],
            2,
            "does not exist",
        ),
        (
            ["fit", "-m", "ts", "logits.h5", "--device", "tpu"],
            2,
            "expected one of auto, cpu, cuda",
        ),
        (["fit", "-m", "ts"], 2, "no bundle is named"),
        (["fit", "-m", "ts", "logits.h5", "--sett", "x=1"], 2, "--sett"),
        (["fitt"], 2, "fit"),
        (
            ["fit", "-m", "ec", "logits.h5", "--set", "top=5"],
            4,
            "needs more than 5 classes",
        ),
        (
            ["apply", "ten.json", "logits.h5", "-o", "out.h5"],
            3,
            "was fitted for 10 classes, logits.h5:test has 5",
        ),
        (["apply", "broken.json", "logits.h5", "-o", "out.h5"], 3, "is not JSON"),
        (["apply", "none.json", "logits.h5", "-o", "out.h5"], 3, "none.json"),
        (
            ["apply", "ten.json", "logits.h5", "-o", "out.h5", "--as", "odds"],
            2,
            "expected one of",
        ),
        (["inspect", "none.h5"], 3, "no such file"),
        (["methods", "tz"], 2, "did you mean ts"),
        (["plot", "logits.h5"], 2, "did you mean diagram?"),
        (["evalute", "logits.h5"], 2, "did you mean evaluate"),
        (
            ["apply", "logits.h5:test", "ts.json", "-o", "p.h5"],
            3,
            "scores in the place of a calibrator?",
        ),
    ],
)
def test_mistakes_get_one_line_and_a_code(run, bundle, tmp_path, words, code, says):
    (tmp_path / "text.h5").write_text("hello")
    (tmp_path / "broken.json").write_text("{")
    artifact = {
        "calcli_artifact": 1, "calcli_version": "0", "method": "ts", "options": {"loss": "nll"},
        "params": {"temperature": 1.5}, "n_classes": 10, "input_kind": "logits", "class_names": None,
        "fit": {"n": 1, "status": "ok"},
    }  # fmt: skip
    (tmp_path / "ten.json").write_text(json.dumps(artifact))
    for name, spoil in (("nan.h5", "logits"), ("label.h5", "labels")):
        z, y = Z[:20].copy(), Y[:20].copy()
        if spoil == "logits":
            z[3, 1] = np.nan
        else:
            y[7] = 9
        with h5py.File(tmp_path / name, "w") as file:
            file["logits"], file["labels"] = z, y
    there = set(tmp_path.iterdir())
    done = run(*words)
    assert done.code == code, done.err
    assert says.lower() in done.line.lower()
    assert done.out == ""
    assert set(tmp_path.iterdir()) == there


def test_warnings_and_strict(run, tmp_path):
    with h5py.File(tmp_path / "sure.h5", "w") as file:
        file["logits"], file["labels"] = Z, Z.argmax(axis=1)
    done = run("fit", "-m", "ts", "sure.h5")
    assert done.code == 0
    assert "warning: T ran into its lower bound" in done.err
    record = json.loads((tmp_path / "sure.ts.json").read_text())["fit"]
    assert record["status"] == "at_bound"
    assert record["warnings"]
    assert run("fit", "-m", "ts", "sure.h5", "--force", "--strict").code == 4
    assert run("fit", "-m", "ec", "sure.h5", "--strict").code == 4


def test_several_bundles_go_to_a_folder_and_failures_stay_alone(run, bundle, tmp_path):
    run("fit", "-m", "ts", "logits.h5")
    (tmp_path / "bad.h5").write_text("no")
    done = run(
        "apply",
        "logits.ts.json",
        "logits.h5:cal",
        "bad.h5",
        "logits.h5:test",
        "-o",
        "done/",
    )
    assert done.code == 3
    assert sorted(p.name for p in (tmp_path / "done").iterdir()) == [
        "logits.cal.h5",
        "logits.test.h5",
    ]
    assert "bad.h5" in done.line
    twice = run(
        "apply", "logits.ts.json", "logits.h5:cal", "logits.h5:cal", "-o", "more/"
    )
    assert twice.code == 2
    one_file = run(
        "apply", "logits.ts.json", "logits.h5:cal", "logits.h5:test", "-o", "all.csv"
    )
    assert one_file.code == 2 and "expected a folder for 2 bundles" in one_file.line
    assert not (tmp_path / "all.csv").exists()
    several_methods = run("fit", "-m", "all", "logits.h5", "-o", "all.json")
    assert (
        several_methods.code == 2
        and "expected a folder with --method all" in several_methods.line
    )
    assert not (tmp_path / "all.json").exists()


def test_apply_needs_no_labels_and_keeps_precision(run, tmp_path):
    z = Z[:50].astype(np.float16)
    with h5py.File(tmp_path / "cal.h5", "w") as file:
        file["logits"], file["labels"] = Z, Y
    with h5py.File(tmp_path / "new.h5", "w") as file:
        file["logits"] = z
    run("fit", "-m", "ts", "cal.h5")
    assert run("apply", "cal.ts.json", "new.h5", "-o", "out.h5").code == 0
    with h5py.File(tmp_path / "out.h5") as out:
        assert out["probs"].dtype == np.float16
        assert "labels" not in out
    with h5py.File(tmp_path / "new.h5", "a") as file:
        file["logits"][:7] = [
            0,
            *[-99] * (z.shape[1] - 1),
        ]  # by hand: e^-99 at T = 1, below 2^-25 up to T = 5.7
    done = run("apply", "cal.ts.json", "new.h5", "-o", "out.h5", "--force")
    with h5py.File(tmp_path / "out.h5") as out:
        assert (
            out["probs"][:7, 1:] == 0
        ).all() and " 7 of 50 rows: a probability below 3e-8 is 0" in done.err


def test_catalogues_name_everything(run):
    listing = run("methods").out
    assert all(f"\n{name} " in f"\n{listing}" for name in method_names())
    for name in method_names():
        done = run("methods", name)
        assert done.code == 0
        assert method(name).title in done.out
    facts = json.loads(run("methods", "ts", "--json").out)["methods"][0]
    assert facts["options"][0]["name"] == "loss"
    everything = json.loads(run("methods", "--json").out)
    assert sorted(m["name"] for m in everything["methods"]) == list(method_names())
    assert (
        listing.index("\nts ") < listing.index("\nvs ") < listing.index("\nidentity ")
    ), "what to try first is last"


def test_version_and_help(run):
    assert run("--version").out.startswith("calcli ")
    for command in (
        "extract",
        "fit",
        "apply",
        "evaluate",
        "diagram",
        "inspect",
        "methods",
        "metrics",
    ):
        done = run(command, "--help")
        assert done.code == 0
        assert f"calcli {command}" in done.out, "help without a copy-paste example"


def test_debug_shows_the_traceback(bundle, tmp_path):
    done = process("fit", "-m", "ts", "none.h5", "--debug", cwd=tmp_path)
    assert "Traceback" in done.err
    assert "MissingFile" in done.err


def test_a_closed_pipe_is_no_error(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "calcli", "methods", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as command:
        command.stdout.close()
        assert command.stderr.read() == b""
        assert command.wait() == 0


def await_handlers(command):
    """Wait until calcli catches SIGHUP, the last that it asks for; where that cannot be seen, some seconds."""
    status, deadline = Path(f"/proc/{command.pid}/status"), time.monotonic() + 60
    if not status.exists():
        time.sleep(4)
        return
    while time.monotonic() < deadline:
        caught = next(
            line
            for line in status.read_text().splitlines()
            if line.startswith("SigCgt")
        )
        if int(caught.split()[1], 16) >> (signal.SIGHUP - 1) & 1:
            return
        time.sleep(0.02)
    raise AssertionError("calcli never asked for its signals")


def as_at_a_terminal():
    """Undo what ``nohup`` and background jobs hand down: signals that are ignored stay so."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_interruption_leaves_nothing(tmp_path, number, code):
    z, y = truth(40_000, 60)
    with h5py.File(tmp_path / "big.h5", "w") as file:
        file["logits"], file["labels"] = z.astype(np.float32), y
    there = set(tmp_path.iterdir())
    with subprocess.Popen(
        [sys.executable, "-m", "calcli", "fit", "-m", "ms", "big.h5"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_at_a_terminal,
    ) as command:
        await_handlers(command)
        command.send_signal(number)
        # a deadline for a command that hangs: at a load of 30 its message takes seconds
        out, err = command.communicate(timeout=120)
    assert command.returncode == code
    assert out == ""
    # which ended without a word
    said = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    assert err.splitlines()[-1] == f"calcli: {said}" and "Traceback" not in err
    assert set(tmp_path.iterdir()) == there


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(
    ("name", "said"), [("SIGINT", "interrupted"), ("SIGTERM", "stopped by SIGTERM")]
)
def test_a_signal_as_soon_as_they_are_caught_ends_in_one_line(name, said):
    """It came before ``main`` was ready to turn it into a line, and ended in none."""
    code = f"""
import gc, os, signal, sys
import calcli.cli.main as entry
gc.set_threshold = lambda *_: os.kill(os.getpid(), signal.{name})
sys.argv = ["calcli", "methods"]
entry.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=as_at_a_terminal,
    )
    assert done.returncode == 128 + getattr(signal, name)
    assert (done.stdout, done.stderr) == ("", f"calcli: {said}\n")


@pytest.mark.parametrize(
    "setting", [{}, {"OMP_NUM_THREADS": "2"}, {"OPENBLAS_NUM_THREADS": "3"}]
)
def test_a_command_takes_one_blas_thread_whatever_others_are_told(setting):
    code = "import os, sys\nsys.argv = ['calcli', '--version']\nfrom calcli.cli.main import main\n"
    code += (
        "try: main()\nexcept SystemExit: print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    plain = {
        name: text
        for name, text in os.environ.items()
        if not name.endswith("_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=plain | setting,
    )
    assert done.stdout.splitlines()[-1] == "1"


@pytest.mark.parametrize(
    "name", [name for name in method_names() if method(name).laws.top_label_only]
)
def test_methods_says_where_predictions_stay(run, name):
    """Top-label methods were said to change predictions, which they do with two classes only; the README said so."""
    stated = "yes" if method(name).laws.keeps_argmax else "except with two classes"
    assert f"accuracy-preserving: {stated}\n" in run("methods", name).out
    z, y = truth(300, 3, seed=2)
    z = z + np.array([0.0, 0.6, 1.2])
    assert (calcli.fit(z, y, name).predict(z) == z.argmax(axis=1)).all()
