"""What strangers' files, disks, terminals and fingers do to the command line."""

import copy
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from run_calcli import process
from synthetic import truth

from calcli.calibrator import Context
from calcli.cli.render import print_table
from calcli.errors import CalcliError, DataError, FitError
from calcli.fitting.apply import calibrated_blocks
from calcli.fitting.fit import fit_artifact
from calcli.io.artifact import loads, save
from calcli.io.atomic import new_file
from calcli.io.bundle import open_bundle
from calcli.io.writer import new_bundles
from calcli.registry import method, method_names, parse_options

DIGITS = REPOSITORY / "sample_data" / "digits.h5"
METHODS = (*(name for name in method_names() if name != "auto"), "ts+hb", "ft+svs+beta")
Z, Y = truth(300, 4)
TEXT = h5py.string_dtype()


def write(path, **datasets):
    """An HDF5 file made by hand; "__" in a name is a group."""
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name.replace("__", "/")] = values
    return path


@pytest.fixture
def good(tmp_path):
    return write(tmp_path / "good.h5", logits=Z, labels=Y)


# ---- every method, through files


def mark(name, quick=("ts", "ec", "irova", "hoki", "recal", "ft+svs+beta")):
    """One method of each kind for make test, the others beside the slow tests."""
    return name if name in quick else pytest.param(name, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The folder of the sample digits in float64, and a function that fits a method to them, once: NAME.json there."""
    folder = tmp_path_factory.mktemp("fitted")
    with h5py.File(DIGITS) as source, h5py.File(folder / "digits.h5", "w") as file:
        for split in ("cal", "test"):
            for name in ("logits", "labels", "transforms/logits", "transforms/specs"):
                values = source[split][name][()]
                file[f"{split}/{name}"] = (
                    values.astype("f8") if name.endswith("logits") else values
                )

    @cache
    def artifact(name):
        with open_bundle(str(folder / "digits.h5"), prefer=("cal",)) as rows:
            made = fit_artifact(name, parse_options(name, {}), rows, Context())
        save(made, str(folder / f"{name}.json"))
        return made

    return folder, artifact


@pytest.mark.slow
def test_every_artifact_applies_in_a_fresh_process_as_it_was_fitted(fitted):
    folder, artifact = fitted
    artifacts = {name: artifact(name) for name in METHODS}
    everything = (
        "import sys\nfrom calcli.cli.main import run\nfor name in sys.argv[1:]:\n"
        "    run(['apply', f'{name}.json', 'digits.h5', '-o', f'{name}.h5', '-q', '--force'])\n"
    )
    subprocess.run(
        [sys.executable, "-c", everything, *METHODS],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    with open_bundle(str(folder / "digits.h5"), prefer=("test",)) as rows:
        for name, artifact in artifacts.items():
            transforms = rows.places_of(artifact.calibrator.required_transforms, name)
            parts = list(
                calibrated_blocks(artifact.calibrator, rows, "probs", transforms)
            )
            with h5py.File(folder / f"{name}.h5") as out:
                np.testing.assert_array_equal(
                    out["probs"][()],
                    np.concatenate([p[1] for p in parts]),
                    err_msg=name,
                )
                prediction = np.concatenate([p[2]["prediction"] for p in parts])
                np.testing.assert_array_equal(
                    out["prediction"][()], prediction, err_msg=name
                )


@pytest.mark.parametrize("name", [mark(name) for name in METHODS])
def test_calibrated_bundles_evaluate_like_the_calibrator(run, fitted, name):
    folder, artifact = fitted
    artifact(name)
    out = f"{name}.h5"
    wanted = [
        word
        for m in ("accuracy", "nll", "brier", "mean_confidence", "ece")
        for word in ("--metric", m)
    ]
    assert (
        run(
            "apply", folder / f"{name}.json", folder / "digits.h5", "-o", out, "-q"
        ).code
        == 0
    )
    ours = run(
        "evaluate",
        folder / "digits.h5",
        "-c",
        folder / f"{name}.json",
        "--json",
        "-q",
        *wanted,
    )
    theirs = run("evaluate", out, "--json", "-q", *wanted)
    expected = json.loads(ours.out)["results"][1]["metrics"]
    metrics = json.loads(theirs.out)["results"][0]["metrics"]
    # the prediction need not be the argmax
    assert metrics["accuracy"]["value"] == expected["accuracy"]["value"]
    for metric, value in expected.items():
        assert metrics[metric]["value"] == pytest.approx(
            value["value"], rel=1e-9, abs=1e-9
        ), metric


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name != "recal"])
def test_predictions_made_upstream_leave_rows_that_sum_to_1(run, tmp_path, name):
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    second = p.argsort(axis=1)[:, -2]
    assigned = np.where(np.arange(300) % 5 == 0, second, p.argmax(axis=1))
    write(tmp_path / "assigned.h5", probs=p, labels=Y, prediction=assigned)
    assert run("fit", "-m", name, "assigned.h5", "-o", "a.json", "-q").code == 0
    assert run("apply", "a.json", "assigned.h5", "-o", "out.h5", "-q").code == 0
    assert run("inspect", "out.h5").code == 0
    with h5py.File(tmp_path / "out.h5") as out:
        np.testing.assert_allclose(out["probs"][()].sum(axis=1), 1.0, atol=1e-12)


SPOILS = [
    None, True, 0, -1, 2**63, 10**400, -0.0, 1e-320, 1.7e308, "", "x", [], [[]], [1], [0.0] * 10, [1e308] * 10, ["a"],
    {}, [None] * 10, {"dtype": "float64", "shape": [0, 10**30], "base64": ""},
]  # fmt: skip


def places(node, path=()):
    """Paths of the values of nested JSON, few of every list."""
    yield path
    if isinstance(node, dict):
        for key in node:
            yield from places(node[key], (*path, key))
    elif isinstance(node, list):
        for i in range(min(len(node), 2)):
            yield from places(node[i], (*path, i))


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # parameters of 1e308 overflow, and are refused for it
@pytest.mark.parametrize("name", METHODS)
def test_edited_artifacts_are_refused_or_give_probabilities(fitted, name):
    folder, artifact = fitted
    artifact(name)
    original = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    spots = [path for path in places(original) if path]
    rng = np.random.default_rng(len(name))
    with open_bundle(
        str(folder / "digits.h5"), prefer=("test",), need_labels=False
    ) as rows:
        for _ in range(60):
            content = copy.deepcopy(original)
            *way, last = spots[rng.integers(len(spots))]
            node = content
            for key in way:
                node = node[key]
            if rng.random() < 0.2:
                del node[last]
            elif isinstance(node[last], float) and rng.random() < 0.5:
                node[last] *= float(rng.choice([-1, 0, 1e-300, 1e10, 1e300]))
            else:
                node[last] = SPOILS[rng.integers(len(SPOILS))]
            try:
                calibrator = loads(json.dumps(content), "a.json").calibrator
                for _, p, _, _ in calibrated_blocks(
                    calibrator,
                    rows,
                    "probs",
                    rows.places_of(calibrator.required_transforms),
                ):
                    assert np.isfinite(p).all()
                    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
            except CalcliError:
                continue


# ---- scores that no model should give


EXTREMES = {
    "1e300": Z * 1e300,
    "the ends of float64": Z * 1e307,
    "a float64 mask": np.where(np.arange(4) == 3, np.finfo("f8").min, Z),
    "a float32 mask": np.where(np.arange(4) == 3, np.finfo("f4").min, Z).astype("f4"),
    "one such row": np.where(np.arange(300)[:, None] == 7, Z * 1e300, Z),
    "float16's end": np.clip(Z * 1e5, -65504, 65504).astype("f2"),
    "denormal": Z * 5e-324,
    "zero": Z * -0.0,
    "a far level": Z + 1e15,
}


@pytest.mark.slow
@pytest.mark.parametrize("what", EXTREMES)
def test_any_finite_logits_can_be_worked_with(run, tmp_path, what):
    write(tmp_path / "x.h5", logits=EXTREMES[what], labels=Y)
    for name in ("ts", "ec", "vs", "hb"):
        fitted = run("fit", "-m", name, "x.h5", "-o", "a.json", "-q", "--force")
        if name == "vs" and fitted.code == FitError.exit_code:
            # Scales of 1e38 and levels of 1e15 leave no digits to scale a class by: refused, never made worse.
            assert (
                "ts and ec stand any range" in fitted.line
                or "differ within a row by at most" in fitted.line
            )
            continue
        assert fitted.code == 0, name
        assert (
            None
            not in json.loads((tmp_path / "a.json").read_text())["fit"][
                "after"
            ].values()
        )
        assert run("apply", "a.json", "x.h5", "-o", "out.h5", "--force").code == 0
        evaluated = run("evaluate", "x.h5", "-c", "a.json", "--json", "-q")
        assert evaluated.code == 0
        assert json.loads(evaluated.out)["results"][1]["metrics"]["nll"]["value"] >= 0
    assert run("diagram", "x.h5", "--json").code == 0
    assert run("inspect", "x.h5").code == 0


@pytest.mark.parametrize("shape", [(300,), (300, 1)])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_binary_scores_go_all_the_way(run, tmp_path, kind, shape):
    s = Z[:, 0]
    p = 1 / (1 + np.exp(-s))
    scores = {"logits": s, "probs": p, "log_probs": np.log(p)}[kind].astype("f4")
    write(tmp_path / "b.h5", **{kind: scores.reshape(shape)}, labels=Y % 2)
    assert run("fit", "-m", "ts", "b.h5").code == 0
    assert run("apply", "b.ts.json", "b.h5", "-o", "out.h5").code == 0
    with h5py.File(tmp_path / "out.h5") as out:
        temperature = json.loads((tmp_path / "b.ts.json").read_text())["params"][
            "temperature"
        ]
        assert (out["probs"].shape, out["probs"].dtype) == ((300, 2), np.float32)
        np.testing.assert_allclose(
            out["probs"][:, 1], 1 / (1 + np.exp(-s / temperature)), rtol=1e-5
        )
    values = [
        run("evaluate", *words, "--metric", "nll", "--format", "value", "-q").out
        for words in (["out.h5"], ["b.h5", "-c", "b.ts.json"])
    ]
    # float32 between them
    assert float(values[0]) == pytest.approx(float(values[1]), rel=1e-6)
    assert run("diagram", "b.h5", "-c", "b.ts.json", "-q").code == 0


def test_huge_gaps_keep_the_order_of_the_rest(tmp_path):
    z = np.array([[1.0, 2.0, -1e300], [1e300, 1e300, -1e300], [3.0, -2.0, 0.5]])
    with open_bundle(
        str(write(tmp_path / "x.h5", logits=z, labels=np.zeros(3, int)))
    ) as rows:
        (block,) = rows.blocks()
    np.testing.assert_array_equal(
        block.z, [[-1.0, 0.0, -1e38], [0.0, 0.0, -1e38], [3.0, -2.0, 0.5]]
    )


def test_a_fit_that_breaks_down_is_a_failed_fit(run, good, monkeypatch):
    def broken(*_):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(method("vs"), "fit", broken)
    done = run("fit", "-m", "vs", "good.h5")
    assert done.code == FitError.exit_code
    assert (
        "broke down on these rows (Singular matrix); their logits go from" in done.line
    )


@pytest.mark.parametrize("kind", ["probs", "log_probs", "logits"])
def test_half_precision_reads_what_it_wrote(run, tmp_path, kind):
    # log p = -6.9078 of 1000 classes is -6.9063 in float16: the row sums to 1.0015
    write(tmp_path / "flat.h5", logits=np.zeros((20, 1000), "f2"), labels=np.arange(20))
    assert run("fit", "-m", "identity", "flat.h5").code == 0
    assert (
        run("apply", "flat.identity.json", "flat.h5", "-o", "out.h5", "--as", kind).code
        == 0
    )
    done = run("evaluate", "out.h5", "--metric", "nll", "--format", "value", "-q")
    assert float(done.out) == pytest.approx(np.log(1000), rel=1e-4)


# ---- HDF5 as it is found


def hdf5(tmp_path, what):
    """A file with something wrong about it."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["labels"] = Y
        match what:
            case "unwritten":
                file.create_dataset("logits", (300, 4), "f4")
            case "half written":
                file.create_dataset("logits", (300, 4), "f4", chunks=(50, 4))[:120] = Z[
                    :120
                ]
            case "virtual":
                layout = h5py.VirtualLayout((300, 4), "f8")
                layout[:] = h5py.VirtualSource("gone.h5", "logits", (300, 4))
                file.create_virtual_dataset("logits", layout)
            case "soft link":
                file["logits"] = h5py.SoftLink("/gone")
            case "own tail":
                file["logits"] = h5py.SoftLink("/logits")
            case "external link":
                file["logits"] = h5py.ExternalLink("gone.h5", "/logits")
            case "external storage":
                file.create_dataset(
                    "logits", (300, 4), "f8", external=[("gone.bin", 0, 9600)]
                )
            case "no dataspace":
                file["logits"] = h5py.Empty("f4")
            case "a group":
                file["logits"] = Z
                file["weights/x"] = 1
            case "lost labels":
                del file["labels"]
                file["logits"], file["labels"] = Z, h5py.SoftLink("/gone")
            case "strange version":
                file["logits"] = Z
                file.attrs["calcli_bundle"] = np.arange(3)
            case "endless weights":
                file["logits"], file["weights"] = Z, np.full(300, np.inf)
            case "latin-1 names":
                file["logits"], file["class_names"] = (
                    Z,
                    np.array([b"a", b"b", b"\xe9", b"d"]),
                )
            case "whole transforms":
                file["logits"], file["transforms/logits"] = (
                    Z,
                    np.zeros((1, 300, 4), int),
                )
                file["transforms/specs"] = np.array([b"zoom:0.5"])
            case "huge label":
                file["logits"] = Z
                del file["labels"]
                file["labels"] = np.zeros(300, "u8")
                file["labels"][5] = np.uint64(2**64 - 1)
    return path


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("unwritten", "logits: was created but never written"),
        ("half written", "logits: only 3 of its 6 chunks were ever written"),
        ("virtual", "takes its values from gone.h5, which is not there"),
        ("soft link", "logits is a link to /gone"),
        ("own tail", "logits is a link to /logits"),
        ("external link", "logits is a link to /logits of gone.h5"),
        ("external storage", "takes its values from gone.bin, which is not there"),
        ("no dataspace", "scores have shape None"),
        ("a group", "weights is a group, expected a dataset"),
        ("lost labels", "labels is a link to /gone"),
        ("strange version", "attribute calcli_bundle is array([0, 1, 2])"),
        ("endless weights", "row 0 has weight inf, expected a finite number >= 0"),
        ("latin-1 names", r"class_names: entry 2 is b'\xe9', expected UTF-8"),
        ("whole transforms", "transforms/logits: scores have type int64"),
        ("huge label", "row 5 has label 18446744073709551615, expected 0..3"),
    ],
)
def test_what_hdf5_would_pass_over_is_refused(run, tmp_path, good, what, says):
    hdf5(tmp_path, what)
    run("fit", "-m", "ts", "good.h5")
    for words in (
        ["fit", "-m", "ts", "x.h5"],
        ["inspect", "x.h5"],
        ["apply", "good.ts.json", "x.h5", "-o", "o.h5"],
    ):
        done = run(*words)
        assert (done.code, says in done.line) == (3, True), done.err
    if what in ("unwritten", "half written", "virtual"):
        assert says in run("extract", "x.h5", "-o", "o.h5").line


def test_an_ignored_label_is_the_number_that_it_is(run, tmp_path):
    hdf5(tmp_path, "huge label")
    # 2^64 - 1 is no -1
    assert run("fit", "-m", "ts", "x.h5", "--ignore-label", "-1").code == 3


def test_links_are_followed_and_circles_end(run, tmp_path):
    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["data/z"], file["data/y"] = Z, Y
        one = file.create_group("real/one")
        one["logits"], one["labels"] = (
            h5py.SoftLink("/data/z"),
            h5py.SoftLink("/data/y"),
        )
        one["round"], one["up"] = file["real/one"], file["/"]
        file["cal"] = h5py.SoftLink("/real/one")
        file["nowhere"] = h5py.SoftLink("/gone")
    assert run("fit", "-m", "ts", "links.h5", "-q").code == 0
    assert len(json.loads(run("inspect", "links.h5", "--json").out)["bundles"]) == 1
    assert run("inspect", "links.h5:real/one/round/round").code == 0


def test_a_bundle_at_the_root_beside_others_can_be_named(run, tmp_path):
    write(tmp_path / "a:b.h5", logits=Z, labels=Y, g__logits=Z, g__labels=Y)
    assert run("fit", "-m", "ts", "a:b.h5").line.endswith(
        "name one of: a:b.h5:, a:b.h5:g; to try: calcli inspect a:b.h5"
    )
    assert run("fit", "-m", "ts", "a:b.h5:").code == 0
    assert len(json.loads(run("inspect", "a:b.h5", "--json").out)["bundles"]) == 2


@pytest.mark.parametrize("layout", ["contiguous", "compressed", "latest"])
@pytest.mark.slow
def test_damaged_files_never_surprise(run, tmp_path, good, layout):
    run("fit", "-m", "ts", "good.h5")
    storage = (
        {"chunks": (64, 4), "compression": "gzip", "fletcher32": True}
        if layout == "compressed"
        else {}
    )
    with h5py.File(
        tmp_path / "whole.h5", "w", libver="latest" if layout == "latest" else None
    ) as file:
        for name in ("cal", "test"):
            group = file.create_group(name)
            group.create_dataset("logits", data=Z.astype("f4"), **storage)
            group["labels"], group["weights"], group["ids"] = (
                Y,
                np.ones(300),
                np.arange(300),
            )
            # HDF5 loops for ever on damaged heaps of strings
            group["class_names"] = np.array([b"a", b"b", b"c", b"d"])
            group.attrs["source"] = "{}"
    whole = np.frombuffer((tmp_path / "whole.h5").read_bytes(), "u1")
    rng = np.random.default_rng(0)
    there = {*os.listdir(tmp_path), "x.h5"}
    for trial in range(40):
        broken = whole.copy()
        if trial % 4 == 0:
            broken = broken[: rng.integers(1, len(broken))]
        else:
            damaged = rng.integers(
                0, min(len(broken), 20_000), 1 if trial % 4 == 1 else 8
            )
            broken[damaged] = rng.integers(0, 256, len(damaged))
        (tmp_path / "x.h5").write_bytes(broken.tobytes())
        for words in (["fit", "-m", "ts", "x.h5", "-o", "-"], ["inspect", "x.h5"]):
            done = run(*words)
            assert done.code in (0, 3), done.err
            assert done.code == 0 or done.line
        done = run("apply", "good.ts.json", "x.h5", "-o", "o.h5", "--force")
        assert done.code in (0, 3), done.err
        (tmp_path / "o.h5").unlink(missing_ok=True)
        assert set(os.listdir(tmp_path)) == there


# ---- outputs


def test_devices_links_and_inputs_survive(run, tmp_path, good):
    assert run("fit", "-m", "ts", "good.h5", "-o", "ts.json").code == 0
    assert run("fit", "-m", "ts", "good.h5", "-o", os.devnull, "--force").code == 0
    assert not Path(os.devnull).is_file()
    assert (
        "say how it is written"
        in run("apply", "ts.json", "good.h5", "-o", os.devnull, "--force").line
    )
    (tmp_path / "latest.json").symlink_to("ts.json")
    assert run("fit", "-m", "ec", "good.h5", "-o", "latest.json").code == 2
    assert run("fit", "-m", "ec", "good.h5", "-o", "latest.json", "--force").code == 0
    assert (tmp_path / "latest.json").is_symlink()
    assert json.loads((tmp_path / "ts.json").read_text())["method"] == "ec"
    os.link(tmp_path / "good.h5", tmp_path / "hard.h5")
    (tmp_path / "out").mkdir()
    write(tmp_path / "out" / "b.h5", logits=Z, labels=Y)
    for words in (
        ["apply", "ts.json", "good.h5", "-o", "ts.json", "--format", "jsonl"],
        ["apply", "ts.json", "good.h5", "-o", "latest.json", "--format", "jsonl"],
        ["apply", "ts.json", "good.h5", "-o", "hard.h5"],
    ):
        assert "is an input" in run(*words, "--force").line
    # the second would go onto itself
    both = run("apply", "ts.json", "good.h5", "out/b.h5", "-o", "out", "--force")
    assert both.code == 2
    assert both.out == ""  # nothing is written before all is known to be read only


def test_junit_files_replace_no_input_and_patterns_fail_alone(run, good, tmp_path):
    run("fit", "-m", "ts", "good.h5", "-q")
    words = [
        "evaluate",
        "good.h5",
        "-c",
        "good.ts.json",
        "--max",
        "ece=1",
        "--force",
        "--junit",
    ]
    for path in ("good.h5", "good.ts.json"):
        assert "is an input" in run(*words, path).line
    done = run(
        "evaluate",
        "gone.h5:*",
        "good.h5:zz*",
        "good.h5",
        "-q",
        "--metric",
        "ece",
        "--format",
        "value",
    )
    assert (done.code, len(done.err.splitlines()), len(done.out.splitlines())) == (
        3,
        2,
        1,
    )
    write(tmp_path / "two.h5", logits=Z, labels=Y, g__logits=Z, g__labels=Y)
    assert (
        len(
            run(
                "evaluate", "two.h5:*", "-q", "--metric", "ece", "--format", "value"
            ).out.splitlines()
        )
        == 2
    )


def test_names_that_cannot_be_written_are_usage_errors(run, good, tmp_path):
    assert run("fit", "-m", "ts", "good.h5", "-o", "a" * 255).code == 0
    for output in ("a" * 256, "new/", "", "good.h5/x.json"):
        done = run("fit", "-m", "ts", "good.h5", "-o", output)
        assert (done.code, bool(done.line)) == (2, True)
    assert run("fit", "-m", "all", "good.h5", "-o", "good.h5/x").code == 2
    assert run("inspect", "a" * 300 + ".h5").code == 3


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    z, y = truth(20_000, 20)
    write(tmp_path / "big.h5", logits=z, labels=y)
    assert process("fit", "-m", "ts", "big.h5", cwd=tmp_path).code == 0
    there = set(os.listdir(tmp_path))
    for size, words in (
        (100_000, ["apply", "big.ts.json", "big.h5", "-o", "o.h5"]),
        (100_000, ["apply", "big.ts.json", "big.h5", "big.h5:", "-o", "o/"]),
        (0, ["fit", "-m", "ec", "big.h5", "-q"]),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "calcli", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            preexec_fn=lambda size=size: resource.setrlimit(
                resource.RLIMIT_FSIZE, (size, size)
            ),
        )
        if words[-1] == "o/":
            assert done.returncode == 2  # both would have the same name
        else:
            assert done.returncode == 2
            assert done.stderr.endswith(
                "cannot be written: File too large; no part of it was kept\n"
            )
        assert done.stderr.count("\n") == 1
        assert set(os.listdir(tmp_path)) == there


def test_errors_of_writing_are_not_blamed_on_the_input(tmp_path):
    with pytest.raises(OSError, match="of the input"), new_file(tmp_path / "a"):
        raise OSError(5, "of the input")
    with pytest.raises(DataError, match="of reading"), new_bundles(tmp_path / "b"):
        raise DataError("of reading")
    assert list(tmp_path.iterdir()) == []


# ---- streams and signals


def shell(line, cwd, **environment):
    """Run a line of shell in which CALCLI is the command."""
    return subprocess.run(
        ["bash", "-c", line.replace("CALCLI", f"{sys.executable} -m calcli")],
        cwd=cwd,
        capture_output=True,
        env={**os.environ, **environment},
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="a shell")
def test_a_calibrator_by_a_pipe_is_told_what_works(tmp_path, good):
    """It was told to pass --calibrator stdin, which is no file."""
    assert shell("CALCLI fit -m ts good.h5", tmp_path).returncode == 0
    refused = shell("CALCLI evaluate - < good.ts.json", tmp_path)
    assert (
        refused.returncode == 3
        and b"name it with --calibrator -, beside the scores" in refused.stderr
    )
    assert (
        shell(
            "CALCLI evaluate good.h5 --calibrator - < good.ts.json", tmp_path
        ).returncode
        == 0
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="a shell")
def test_standard_streams_may_be_closed_or_full(tmp_path, good):
    assert shell("CALCLI fit -m ts good.h5 <&- >&- 2>&-", tmp_path).returncode == 0
    assert loads((tmp_path / "good.ts.json").read_bytes(), "a").method == "ts"
    wordless = shell("CALCLI fit -m ec good.h5 2>&-", tmp_path)
    assert (wordless.returncode, wordless.stdout) == (0, b"good.ec.json\n")
    full = shell("CALCLI inspect good.h5 > /dev/full", tmp_path)
    assert (full.returncode, full.stderr.count(b"\n")) == (2, 1)
    assert b"No space left on device" in full.stderr
    gate = shell(
        "CALCLI evaluate good.h5 --max ece=0 -q --metric ece | true; exit ${PIPESTATUS[0]}",
        tmp_path,
    )
    assert gate.returncode == 5  # nobody reads the table, the gate holds all the same


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_names_from_all_over_the_world_in_any_locale(tmp_path, encoding):
    names = np.array(["日本", "é", "🙂", "a\nb\x1b[31m"], dtype=TEXT)
    write(tmp_path / "ü.h5", logits=Z, labels=Y, class_names=names)
    script = (
        "import sys\nfrom calcli.cli.main import main\n"
        "for words in sys.argv[1:]:\n    sys.argv = ['calcli', *words.split()]\n"
        "    try:\n        main()\n    except SystemExit as end:\n        assert not end.code, end.code\n"
    )
    lines = [
        "fit -m ts ü.h5 -o a.json --json -q",
        "inspect a.json --json",
        "evaluate ü.h5 --per-class -q",
        "inspect ü.h5",
    ]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-c", script, *lines],
        cwd=tmp_path,
        env=env,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert json.loads(first)["artifact"] == "a.json"
    assert json.loads(second)["artifact"]["class_names"] == list(names)
    assert not any(b"\x1b" in line for line in rest)
    piped = subprocess.run(
        [sys.executable, "-m", "calcli", "fit", "-m", "ts", "ü.h5", "-o", "-", "-q"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
    )
    # artifacts are UTF-8 wherever they go
    assert loads(piped.stdout, "-").class_names == list(names)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_names_are_no_markup_and_numbers_stay_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    out = Terminal()
    names = ["[red]x[/red]", "[/]", ":smile:"]
    body = [[name, "word " * 20, 0.123456789 / 10**i] for i, name in enumerate(names)]
    print_table(["class", "of many words", "share"], body, file=out)
    shown = out.getvalue()
    assert all(word in shown for word in (*names, "0.1235", "0.0123", "0.0012"))


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_impatient_fingers_leave_no_half_file(tmp_path, number):
    z, y = truth(40_000, 60)
    write(tmp_path / "big.h5", logits=z.astype("f4"), labels=y)
    assert process("fit", "-m", "ts", "big.h5", "-q", cwd=tmp_path).code == 0
    there = set(os.listdir(tmp_path))
    for wait in (0.0, 0.01, 0.03, 0.1):
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "calcli",
                "apply",
                "big.ts.json",
                "big.h5",
                "-o",
                "o.h5",
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as command:
            while command.poll() is None and not list(tmp_path.glob(".o.h5.*.tmp")):
                time.sleep(0.002)
            time.sleep(wait)
            for _ in range(3):
                command.send_signal(number)
                time.sleep(0.002)
            _, err = command.communicate(timeout=20)
        assert "Traceback" not in err
        left = set(os.listdir(tmp_path)) - there
        if command.returncode == 0:
            assert left == {"o.h5"}  # it was done already
            (tmp_path / "o.h5").unlink()
        else:
            assert command.returncode == 128 + number
            assert left == set()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_an_open_file_has_its_name(good, tmp_path, number):
    """The signal comes after HDF5 opened the file and before any line can close it."""
    script = (
        "import ctypes, os, sys\nimport h5py\nfrom calcli.cli.main import main\n"
        "opened = h5py.File.__init__\n"
        "def open_and_die(self, name, mode='r', **how):\n"
        "    opened(self, name, mode, **how)\n"
        "    if mode == 'w':\n"
        "        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.id))\n"
        f"        os.kill(os.getpid(), {int(number)})\n"
        "h5py.File.__init__ = open_and_die\nmain()\n"
    )
    assert process("fit", "-m", "ts", "good.h5", "-q", cwd=tmp_path).code == 0
    there = set(os.listdir(tmp_path))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            script,
            "apply",
            "good.ts.json",
            "good.h5",
            "-o",
            "o.h5",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        # a job in the background ignores SIGINT, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == 128 + number
    said = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    assert done.stderr == f"calcli: {said}\n"
    assert set(os.listdir(tmp_path)) == there


def test_artifacts_and_bundles_in_each_others_place(run, good, tmp_path):
    run("fit", "-m", "ts", "good.h5")
    assert "is an HDF5 file" in run("apply", "good.h5", "good.h5", "-o", "o.h5").line
    assert run("evaluate", "good.ts.json").line.endswith(
        "no scores; name it with --calibrator good.ts.json; no command is proposed, as"
        " the scores are in another file"
    )
    text = (tmp_path / "good.ts.json").read_text()
    # a byte order mark, as some editors add
    assert loads(b"\xef\xbb\xbf" + text.encode(), "a").method == "ts"
    for data, says in (
        (text.encode("utf-16"), "UTF-16"),
        (b"", "empty"),
        (b"[" * 100_000, "not JSON"),
    ):
        with pytest.raises(DataError, match=says):
            loads(data, "a.json")


def test_an_output_is_held_against_its_own_inputs_only(run, monkeypatch, tmp_path):
    """Of a thousand outputs against a thousand inputs, twice: 42 CPU seconds before."""
    with h5py.File("x.h5", "w") as file:
        file["logits"], file["labels"] = np.eye(3)[[0, 1, 2, 0]] * 2, [0, 1, 2, 1]
    for i in range(20):
        shutil.copy("x.h5", f"s{i}.h5")
    assert run("fit", "-m", "ts", "x.h5", "-o", "ts.json", "-q").code == 0
    assert run("apply", "ts.json", "s*.h5", "-o", "out/", "-q").code == 0
    calls, same = [], os.path.samefile
    monkeypatch.setattr(os.path, "samefile", lambda a, b: calls.append(1) or same(a, b))
    assert run("apply", "ts.json", "s*.h5", "-o", "out/", "--force", "-q").code == 0
    assert len(calls) <= 20 * 2 * 2  # the bundle and the calibrator, before and after
    os.replace("s3.h5", "out/s7.h5")
    os.symlink("out/s7.h5", "s3.h5")
    assert (
        "out/s7.h5: is an input"
        in run("apply", "ts.json", "s*.h5", "-o", "out/", "--force", "-q").line
    )


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "good.h5", "-m", ""],
        ["evaluate", "good.h5", "--unit", ""],
        ["evaluate", "good.h5", "--unit="],
        ["evaluate", "  "],
        ["evaluate", ":test"],
        ["apply", "", "good.h5", "-o", "x.h5"],
        ["extract", "", "-o", "x.h5"],
    ],
)
def test_an_empty_variable_of_a_script_is_said_and_nothing_is_taken_in_its_place(
    run, good, words
):
    """``calcli fit $DATA -m "$METHOD"``: it was fitted by ts, and ``--unit ""`` was passed over."""
    done = run(*words)
    assert done.code == 2
    assert done.line.endswith("is a variable of the script empty?")
    assert [path.name for path in good.parent.iterdir()] == ["good.h5"]


def test_what_is_wrong_in_the_folder_where_one_stands_is_said(run, tmp_path):
    """``calcli evaluate .``: an internal error, as the command to try had no name to be made of."""
    np.save(tmp_path / "logits.npy", Z)
    np.save(
        tmp_path / "labels.npy",
        np.where(np.arange(len(Y)) == 0, 255, Y).astype(np.uint8),
    )
    done = run("evaluate", ".")
    assert done.code == 3
    assert done.line.endswith(
        "to try: calcli extract . --ignore-label 255 -o scores.h5"
    )
