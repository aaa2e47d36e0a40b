"""calcli extract as people run it: streams, exit codes, files left behind, real logits."""

import json
import pickle

import h5py
import numpy as np
import pytest
from conftest import SHARED_DATA
from run_calcli import process

from calcli.io.bundle import open_bundle

N, K = 200, 5


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a.npz: float32 logits and labels."""
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    np.savez(
        "a.npz",
        logits=rng.normal(size=(N, K)).astype(np.float32),
        labels=rng.integers(0, K, N),
    )
    return tmp_path


def rows(where):
    with open_bundle(str(where)) as bundle:
        return bundle.array(), bundle.labels()


def test_the_path_goes_to_stdout_and_words_to_stderr(here, run):
    done = run(
        "extract", "a.npz", "-o", "a.h5", "--split", "cal=0.5", "--split", "test=0.5"
    )
    assert (done.code, done.out) == (0, "a.h5\n")
    assert "200 rows split stratified by label, seed 0: cal 100, test 100" in done.err
    assert "a.h5:cal: 100 x 5 logits, float32" in done.err
    quiet = run("extract", "a.npz", "-o", "b.h5", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "b.h5\n", "")


def test_json_has_stable_keys(here, run):
    done = run(
        "extract",
        "a.npz",
        "-o",
        "a.h5",
        "--split",
        "cal=0.5",
        "--split",
        "test=0.25",
        "--json",
        "-q",
    )
    output = json.loads(done.out)
    assert (output["calcli_extract"], output["output"]) == (1, "a.h5")
    assert [(b["name"], b["n"], b["k"], b["kind"]) for b in output["bundles"]] == [
        ("cal", 100, K, "logits"), ("test", 50, K, "logits"),
    ]  # fmt: skip


def test_what_is_extracted_can_be_fitted_at_once(here, run):
    run("extract", "a.npz", "-o", "a.h5", "--split", "cal=0.5", "--split", "test=0.5")
    done = run("fit", "--method", "ts", "a.h5")
    assert (done.code, done.out) == (0, "a.ts.json\n")


def test_as_a_process_it_is_the_same(here):
    done = process(
        "extract",
        "a.npz",
        "-o",
        "a.h5",
        "--split",
        "cal=50",
        "--split",
        "test=rest",
        "--no-shuffle",
        cwd=here,
    )
    assert (done.code, done.out) == (0, "a.h5\n")
    saved = np.load(here / "a.npz")
    assert np.array_equal(rows(f"{here}/a.h5:cal")[0], saved["logits"][:50])
    assert np.array_equal(rows(f"{here}/a.h5:test")[1], saved["labels"][50:])


def test_importing_npz_loads_nothing_heavy(here):
    import subprocess
    import sys

    code = (
        "import sys; sys.argv = ['calcli', 'extract', 'a.npz', '-o', 'a.h5', '--split', 'cal=0.5'];"
        "import calcli.cli.main as m\ntry: m.main()\nexcept SystemExit as e: assert not e.code\n"
        "heavy = {'torch', 'scipy', 'pandas', 'matplotlib', 'pyarrow', 'rich', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-o", "x.h5"], 2, "no SOURCE of saved scores and no --model"),
        (["a.npz", "--inputs", "a.npz", "-o", "x.h5"], 2, "belongs to a --model"),
        (
            ["a.npz", "--model", "m.pt2", "--inputs", "a.npz", "-o", "x.h5"],
            2,
            "do one or the other",
        ),
        (["--model", "m.pt2", "-o", "x.h5"], 2, "--inputs"),
        (["a.npz"], 2, "--output"),
        (["a.npz", "-o", "-"], 2, "cannot be written to a pipe"),
        (["a.npz", "-o", "a.npz", "--force"], 2, "is an input"),
        (["a.npz", "-o", "there.h5"], 2, "exists already"),
        (["a.npz", "-o", "no/folder/x.h5"], 2, "does not exist"),
        (
            ["a.npz", "-o", "x.h5", "--kind", "logit"],
            2,
            "--kind logit: expected one of logits, log_probs, probs",
        ),
        (
            ["a.npz", "-o", "x.h5", "--split", "cal=0.7", "--split", "test=0.7"],
            2,
            "fractions sum to 1.4",
        ),
        (["a.npz", "-o", "x.h5", "--split", "cal=half"], 2, "--split cal=half"),
        (
            ["a.npz", "-o", "x.h5", "--split", "cal=500"],
            2,
            "asks for 500 rows, the source has 200",
        ),
        (["a.npz", "-o", "x.h5", "--no-stratify"], 2, "--split"),
        (["a.npz", "-o", "x.h5", "--scores", "logit"], 2, "did you mean logits?"),
        (["a.npz", "-o", "x.h5", "--labels", "label"], 2, "did you mean labels?"),
        (["a.npz", "-o", "x.h5", "--part", "val"], 2, "no part is named 'val'"),
        (["missing.npz", "-o", "x.h5"], 3, "missing.npz: no such file"),
        (
            ["a.npz:cal", "-o", "x.h5"],
            3,
            "a.npz:cal: no such file; a part of a.npz is taken by --part cal",
        ),
        ([".", "-o", "x.h5"], 3, "empty.npz: the file is empty"),
        (["empty.npz", "-o", "x.h5"], 3, "empty.npz: the file is empty"),
        (["words.txt", "-o", "x.h5"], 3, "words.txt"),
        (
            ["noise.bin", "-o", "x.h5"],
            3,
            "noise.bin: is of no known format, expected npz, ",
        ),
        (
            ["noise.h5", "-o", "x.h5"],
            3,
            "noise.h5: is not the hdf5 file its name promises",
        ),
        (["model.onnx", "-o", "x.h5"], 3, "calcli extract --model model.onnx"),
        (["objects.npz", "-o", "x.h5"], 3, "holds Python objects"),
        (["evil.pkl", "-o", "x.h5"], 3, "tries to build"),
    ],
)
def test_a_bad_request_is_one_line_a_code_and_no_file(here, run, words, code, message):
    (here / "there.h5").write_bytes(b"precious")
    (here / "empty.npz").touch()
    (here / "words.txt").write_text("some words\nand, more, words\n")
    (here / "noise.bin").write_bytes(bytes(range(1, 256)))
    (here / "noise.h5").write_bytes(bytes(range(1, 256)))
    (here / "model.onnx").write_bytes(b"\x08\x07")
    (here / "evil.pkl").write_bytes(pickle.dumps(print))
    np.savez(
        "objects.npz", logits=np.zeros((2, 2)), labels=np.array([0, None], dtype=object)
    )
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    done = run("extract", *words)
    assert done.code == code, done.err
    assert message in done.line
    assert done.out == ""
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


def test_force_replaces_and_only_when_all_went_well(here, run):
    run("extract", "a.npz", "-o", "a.h5")
    before = (here / "a.h5").read_bytes()
    np.savez("bad.npz", logits=np.full((3, 2), np.nan), labels=[0, 1, 0])
    assert run("extract", "bad.npz", "-o", "a.h5", "--force").code == 3
    assert (here / "a.h5").read_bytes() == before
    np.savez("good.npz", logits=np.array([[1.0, -2.0]]), labels=[0])
    assert run("extract", "good.npz", "-o", "a.h5", "--force").code == 0
    assert rows(here / "a.h5")[0].tolist() == [[1.0, -2.0]]


def test_hdf5_links_to_other_files_are_not_followed(here, run):
    with h5py.File("secret.h5", "w") as file:
        file["logits"], file["labels"] = np.zeros((2, 2)), np.zeros(2, int)
    with h5py.File("linked.h5", "w") as file:
        file["logits"] = h5py.ExternalLink("secret.h5", "/logits")
        file["labels"] = h5py.SoftLink("/nowhere")
        file["other"] = np.zeros(3)
    done = run("extract", "linked.h5", "-o", "x.h5")
    assert done.code == 3
    assert "holds no array named logits" in done.line


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_torch_files_that_would_run_code_are_refused(here, run):
    torch = pytest.importorskip("torch")
    import os

    class Trap:
        def __reduce__(self):
            return os.system, (f"touch {here / 'sprung'}",)

    for old in (False, True):
        torch.save(
            {"logits": torch.zeros(2, 2), "labels": Trap()},
            "evil.pt",
            _use_new_zipfile_serialization=not old,
        )
        done = run("extract", "evil.pt", "-o", "x.h5")
        assert (done.code, "system, which is no tensor" in done.line) == (3, True)
    torch.save({"logits": np.zeros((2, 2)), "labels": torch.zeros(2)}, "numpy.pt")
    assert "torch.from_numpy" in run("extract", "numpy.pt", "-o", "x.h5").line
    torch.jit.script(torch.nn.Linear(2, 2)).save("script.pt")
    assert "is a model" in run("extract", "script.pt", "-o", "x.h5").line
    assert not (here / "sprung").exists()


def test_bare_tensors_and_nested_ones(here, run):
    torch = pytest.importorskip("torch")
    z, y = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    torch.save(z, "logits.pt")
    torch.save(y, "labels.pt")
    assert run("extract", "logits.pt", "labels.pt", "-o", "1.h5").code == 0
    torch.save(
        {"val": {"out": z, "y": y}, "test": {"out": -z, "y": y}, "epoch": 3}, "both.pt"
    )
    done = run(
        "extract", "both.pt", "-o", "2.h5", "--scores", "out", "--kind", "logits"
    )
    assert done.code == 0, done.err
    assert np.array_equal(rows("2.h5:test")[0], -rows("1.h5")[0])
    torch.save((z, y), "pair.pt")
    assert (
        run(
            "extract",
            "pair.pt",
            "-o",
            "3.h5",
            "--scores",
            "0",
            "--labels",
            "1",
            "--kind",
            "logits",
        ).code
        == 0
    )


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_model_is_run_by_the_same_command(here, run):
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
    torch.jit.script(net).save("net.pt")
    x = np.random.default_rng(0).random((20, 4, 4, 1)).astype(np.float32)
    np.savez("x.npz", inputs=x, labels=np.arange(20) % 3)
    done = run(
        "extract", "--model", "net.pt", "--inputs", "x.npz", "--layout", "nhwc", "-o", "m.h5",
        "--split", "cal=0.5", "--split", "test=rest", "--transform", "zoom:0.5", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert [(b["name"], b["n"], b["k"], b["transforms"]) for b in json.loads(done.out)["bundles"]] == [
        ("cal", 10, 3, 1), ("test", 10, 3, 1),
    ]  # fmt: skip
    with h5py.File("m.h5") as file, torch.no_grad():
        both = np.concatenate([file["cal/logits"][()], file["test/logits"][()]])
        expected = net(torch.tensor(x).permute(0, 3, 1, 2)).numpy()
    # float32 sums of 16 products
    assert np.allclose(np.sort(both, axis=0), np.sort(expected, axis=0), atol=1e-6)


# ---- real logits


@pytest.mark.data
@pytest.mark.parametrize(
    "path",
    sorted(SHARED_DATA.glob("cifar*.npz")),
    ids=lambda path: getattr(path, "stem", "none"),
)
def test_real_files_come_through_in_exact_halves(tmp_path, run, path):
    out = tmp_path / "out.h5"
    done = run("extract", path, "-o", out, "--split", "cal=0.5", "--split", "test=0.5")
    assert done.code == 0, done.err
    saved = np.load(path)
    kind = "probs" if "probs" in saved else "logits"
    with h5py.File(out) as file:
        assert (set(file["cal"]) & {"logits", "probs"}) == {kind}
        for group in ("cal", "test"):
            assert len(set(np.bincount(file[group]["labels"][()]))) == 1, (
                "classes are exactly balanced"
            )
            assert file[group][kind].dtype == saved[kind].dtype
        both = np.concatenate([file["cal"][kind][()], file["test"][kind][()]])
        assert np.array_equal(np.sort(both, axis=None), np.sort(saved[kind], axis=None))
        if "transforms" in saved:
            assert file["cal/transforms/logits"].shape == (15, 5000, 10)
            specs = file["test/transforms/specs"].asstr()[()].tolist()
            assert specs == saved["transforms"].tolist()
            # The original is among no transform's rows; a transform belongs to its own row.
            row = np.flatnonzero(
                (saved["logits"] == file["test/logits"][7]).all(axis=1)
            )[0]
            assert np.array_equal(
                file["test/transforms/logits"][:, 7],
                saved["transformed_logits"][:, row],
            )


@pytest.mark.data
def test_the_first_rows_calibrate_when_asked(tmp_path, run, resnet20):
    out = tmp_path / "out.h5"
    source = SHARED_DATA / "cifar100_resnet20.npz"
    for split in (
        ["cal=5000", "--split", "test=rest", "--no-shuffle"],
        ["cal=0:5000", "--split", "test=5000:"],
    ):
        assert run("extract", source, "-o", out, "--split", *split, "--force").code == 0
        for group, (z, y) in {"cal": resnet20[:2], "test": resnet20[2:]}.items():
            bundle = rows(f"{out}:{group}")
            assert np.array_equal(bundle[0], z)
            assert np.array_equal(bundle[1], y)


@pytest.mark.data
def test_26_models_become_26_groups_in_one_command(tmp_path, run, real):
    saved = real("vlm_mmbench")
    out = tmp_path / "vlm.h5"
    source = SHARED_DATA / "vlm_mmbench.npz"
    done = run("extract", source, "-o", out)
    assert done.code == 2
    assert "26 arrays of scores side by side" in done.line
    assert run("extract", source, "-o", out, "--scores", "*", "-q").code == 0
    names = [name for name in saved.files if name.startswith("logits_")]
    with h5py.File(out) as file:
        assert sorted(file) == sorted(names)
        for name in names:
            assert np.array_equal(file[name]["logits"][()], saved[name])
            assert np.array_equal(file[name]["labels"][()], saved["labels"])
            assert file[name]["group"].asstr()[()].tolist() == saved["group"].tolist()
    two = ["--scores", names[0], "--scores", names[3], "--labels", "labels"]
    assert (
        run(
            "extract",
            source,
            "-o",
            out,
            "--force",
            *two,
            "--split",
            "cal=0.5",
            "--split",
            "test=0.5",
        ).code
        == 0
    )
    with h5py.File(out) as file:
        assert sorted(file) == sorted([names[0], names[3]])
        assert np.array_equal(
            file[names[0]]["test/labels"][()], file[names[3]]["test/labels"][()]
        ), "rows are paired"
