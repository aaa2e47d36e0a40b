"""Limits of the process, folders that change, names that are pipes: one line, and nothing left behind."""

import json
import os
import stat
import subprocess
import sys
import threading

import h5py
import numpy as np
import pytest

from calcli.io.inputs import is_read, note_onnx, noting
from faults.conftest import Done, empty_folder, one_line, state

pytestmark = pytest.mark.slow

APPLY = ["apply", "{desk}/ts.json", "{desk}/good.h5", "-q", "-o", "out.h5"]
EXTRACT = ["extract", "{desk}/good.npz", "-q", "-o", "out.h5"]
FIT = ["fit", "-m", "ts", "{desk}/good.h5", "-q", "-o", "out.json"]
DIAGRAM = ["diagram", "{desk}/good.h5", "-q", "-o", "out.csv"]
JUNIT = [
    "evaluate",
    "{desk}/good.h5",
    "-q",
    "-m",
    "ece",
    "--max",
    "ece=0.9",
    "--junit",
    "out.xml",
]
EXPORT = ["export", "{desk}/ts.json", "--to", "python", "-q", "-o", "out.py"]
THRESHOLD = ["threshold", "{desk}/good.h5", "--accuracy", "0.1", "-q", "-o", "out.json"]
COMPARE = [
    "compare",
    "{desk}/good.h5",
    "-m",
    "identity,ts",
    "--folds",
    "2",
    "-q",
    "-o",
    "out.json",
]
REPORT = ["report", "{desk}/good.h5", "--no-decomposition", "-q", "-o", "out.html"]
EVERY = [APPLY, EXTRACT, FIT, DIAGRAM, JUNIT, EXPORT, THRESHOLD, COMPARE, REPORT]


def filled(words, desk):
    return [word.format(desk=desk) for word in words]


@pytest.mark.parametrize("words", EVERY, ids=lambda words: words[0])
@pytest.mark.parametrize("old", [None, b"old"], ids=["new", "force"])
def test_a_file_size_limit(calcli, desk, tmp_path, words, old):
    before = {} if old is None else {words[-1]: old}
    for size in (0, 1, 512, 1024, 4096, 8192):
        for name, content in before.items():
            (tmp_path / name).write_bytes(content)
        more = ["--force"] if old else []
        # files too
        streams = {"out": os.devnull, "err": os.devnull} if size < 512 else {}
        done = calcli(
            *filled(words, desk),
            *more,
            cwd=tmp_path,
            limits={"RLIMIT_FSIZE": size},
            **streams,
        )
        if done.code == 0:
            assert set(state(tmp_path)) == {words[-1]}
            assert state(tmp_path) != before
            (tmp_path / words[-1]).unlink()
            continue
        assert done.code == 2
        assert size < 512 or one_line(done).endswith(
            ": cannot be written: File too large; no part of it was kept"
        )
        assert state(tmp_path) == before


@pytest.mark.parametrize("words", EVERY, ids=lambda words: words[0])
@pytest.mark.parametrize(
    "limit", [{"RLIMIT_NOFILE": n} for n in (4, 6, 8, 16)] + [{"RLIMIT_AS": 300 << 20}]
)
def test_few_files_and_little_memory(calcli, desk, tmp_path, words, limit):
    done = calcli(*filled(words, desk), cwd=tmp_path, limits=limit)
    assert done.code in (0, 1, 2, 3, 4)
    assert "Traceback" not in done.err
    assert set(state(tmp_path)) == ({words[-1]} if done.code == 0 else set())


@pytest.mark.parametrize("words", EVERY, ids=lambda words: words[0])
def test_folders_that_are_not_there_or_closed(calcli, desk, tmp_path, words):
    words = filled(words, desk)
    gone = calcli(*words[:-1], "gone/out.json", cwd=tmp_path)
    assert (gone.code, state(tmp_path)) == (2, {})
    with empty_folder(tmp_path / "closed") as folder:
        folder.chmod(0o500)
        if os.geteuid():  # nothing is closed to root
            assert calcli(*words[:-1], f"closed/{words[-1]}", cwd=tmp_path).code == 2


def test_a_folder_that_vanishes_meanwhile(desk, tmp_path):
    script = (
        "import os, shutil, sys\nimport calcli.io.writer as driver\nfrom calcli.cli.main import main\n"
        "truncate = driver.DescriptorFile.truncate\n"
        "def vanish(self, size=None):\n"
        "    shutil.rmtree('folder', ignore_errors=True)\n    return truncate(self, size)\n"
        "driver.DescriptorFile.truncate = vanish\nmain()\n"
    )
    (tmp_path / "folder").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script, *filled(APPLY, desk)[:-1], "folder/out.h5"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    said = "calcli: folder/out.h5: cannot be written: No such file or directory; no part of it was kept\n"
    assert done.stderr == said
    assert state(tmp_path) == {}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_both_streams_on_a_full_disk(calcli, desk, tmp_path):
    for words in (
        ["inspect", "{desk}/good.h5"],
        ["inspect", "nowhere.h5"],
        ["evaluate", "{desk}/good.h5"],
    ):
        done = calcli(
            *filled(words, desk), cwd=tmp_path, out="/dev/full", err="/dev/full"
        )
        assert done.code == (3 if words[1] == "nowhere.h5" else 2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_named_pipes(calcli, desk, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "say how it is written" in one_line(
        calcli(*filled(APPLY, desk)[:-1], pipe, cwd=tmp_path)
    )
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    done = calcli(*filled(FIT, desk)[:-1], pipe, cwd=tmp_path)
    reader.join()
    assert done.code == 0
    assert calcli(*filled(FIT, desk), cwd=tmp_path).code == 0
    assert read == [(tmp_path / "out.json").read_bytes()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_two_writers_of_one_name(desk, tmp_path):
    """One takes the name, the others are told; the file is whole."""
    command = [sys.executable, "-m", "calcli", *filled(APPLY, desk)]
    running = [
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    errors = [child.communicate()[1] for child in running]
    codes = sorted(child.returncode for child in running)
    assert codes[0] == 0 and set(codes) <= {0, 2} and codes.count(0) == 1
    assert all(not e or "exists already" in e or "appeared while" in e for e in errors)
    assert set(state(tmp_path)) == {"out.h5"}


def test_an_input_is_never_an_output(calcli, desk, tmp_path):
    """Whatever template, pattern or link stands between the two names."""
    for name in ("good.h5", "ts.json", "good.npz"):
        (tmp_path / name).write_bytes((desk / name).read_bytes())
    (tmp_path / "good.ts.json").write_bytes((desk / "ts.json").read_bytes())
    (tmp_path / "link.h5").symlink_to("good.h5")
    os.link(tmp_path / "good.h5", tmp_path / "hard.h5")
    os.link(tmp_path / "good.h5", tmp_path / "hard.html")
    (tmp_path / "good.page.html").write_bytes((desk / "ts.json").read_bytes())
    (tmp_path / "list.json").write_text("good.h5\n")
    with h5py.File(tmp_path / "good.h5") as file:
        y = file["labels"][:]
        rows = [
            {"logits": z, "label": c}
            for z, c in zip(file["logits"][:].tolist(), y.tolist(), strict=True)
        ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    done = calcli(
        "threshold",
        "good.h5",
        "-c",
        "ts.json",
        "--accuracy",
        "0.1",
        "-o",
        "least.h5",
        cwd=tmp_path,
    )
    assert done.code == 0, done.err
    (tmp_path / "other.h5").write_bytes((desk / "good.h5").read_bytes())
    os.link(tmp_path / "other.h5", tmp_path / "other.json")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.npz").write_bytes((desk / "good.npz").read_bytes())
    os.link(tmp_path / "sources" / "a.npz", tmp_path / "folder.h5")
    with h5py.File(tmp_path / "linked.h5", "w") as file:
        file["test"] = h5py.ExternalLink("inside.h5", "/")
    (tmp_path / "inside.h5").write_bytes((desk / "good.h5").read_bytes())
    y.astype("i8").tofile(tmp_path / "labels.npz")
    with h5py.File(tmp_path / "outside.h5", "w") as file:
        file["logits"] = np.zeros((600, 6))
        file.create_dataset(
            "labels", (600,), "i8", external=[("labels.npz", 0, h5py.h5f.UNLIMITED)]
        )
    before = state(tmp_path)
    gate = ["evaluate", "good.h5", "-m", "ece", "--max", "ece=1", "-q"]
    for words in (
        [*gate, "-c", "{stem}.ts.json", "--junit", "good.ts.json"],
        [
            *gate,
            "--baseline",
            "{stem}.ts.json",
            "-c",
            "ts.json",
            "--junit",
            "./good.ts.json",
        ],
        ["evaluate", "good.h5:*", *gate[2:], "--junit", "link.h5"],
        ["diagram", "good.h5", "-c", "ts.json", "-q", "-o", "ts.json"],
        ["fit", "-m", "ts", "good.h5", "-q", "-o", "link.h5"],
        ["apply", "ts.json", "good.h5", "-q", "-o", "hard.h5"],
        ["extract", "good.npz", "-q", "-o", "../" + tmp_path.name + "/good.npz"],
        ["report", "good.h5", "-c", "{stem}.page.html", "-q", "-o", "good.page.html"],
        ["report", "go*.h5", "-q", "-o", "hard.html"],
        ["fit", "-m", "ts", "--files-from", "list.json", "-q", "-o", "list.json"],
        [
            "apply",
            "ts.json",
            "--files-from",
            "list.json",
            "--threshold",
            "least.h5",
            "-q",
            "-o",
            "least.h5",
        ],
        [
            "threshold",
            "good.h5",
            "-c",
            "ts.json",
            "--accuracy",
            "0.1",
            "-q",
            "-o",
            "ts.json",
        ],
        ["export", "ts.json", "--to", "python", "-q", "-o", "ts.json"],
        [
            "export",
            "ts.json",
            "--to",
            "python",
            "--check",
            "good.h5",
            "-q",
            "-o",
            "link.h5",
        ],
        ["compare", "rows*.json", "-m", "ts", "-q", "-o", "rows.json"],
        [
            "compare",
            "good.h5",
            "--baseline-bundle",
            "other.h5",
            "-q",
            "-o",
            "other.json",
        ],
        ["extract", "sources", "-q", "-o", "folder.h5"],
        ["apply", "ts.json", "linked.h5", "-q", "-o", "inside.h5"],
        ["apply", "ts.json", "outside.h5", "-q", "-o", "labels.npz"],
    ):
        done = calcli(*words, "--force", cwd=tmp_path)
        assert (done.code, "is an input" in done.err) == (2, True), words
        assert state(tmp_path) == before


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]], ids=["alone", "workers"])
def test_an_output_of_one_bundle_is_no_input_of_another(desk, tmp_path, workers):
    """What a link inside HDF5 leads to is known before anything is written, whoever writes it."""
    (tmp_path / "out").mkdir()
    for name, target in (("a.h5", "b.h5"), ("b.h5", "a.h5")):
        (tmp_path / "out" / name).write_bytes((desk / "good.h5").read_bytes())
        with h5py.File(tmp_path / name, "w") as file:
            file["test"] = h5py.ExternalLink(f"out/{target}", "/")
    before = state(tmp_path / "out")
    command = [
        "apply",
        f"{desk}/ts.json",
        "a.h5",
        "b.h5",
        "-o",
        "out",
        "--force",
        *workers,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "calcli", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode,
        "is an input" in one_line(Done(done.returncode, "", done.stderr)),
    ) == (2, True)
    assert state(tmp_path / "out") == before


def test_weights_beside_an_onnx_model_are_inputs(tmp_path):
    """``location`` entries of external data, in the protobuf wire format: key 1, value 2."""
    lengths = {
        "w" * 5: b"\x05",
        "x" * 127: b"\x7f",
        "y" * 128: b"\x80\x01",
        "z" * 200: b"\xc8\x01",
    }
    lengths["d" * 100 + "/" + "w" * 155] = b"\x80\x02"
    (tmp_path / ("d" * 100)).mkdir()
    weights = {
        name: b"\n\x08location\x12" + size + name.encode()
        for name, size in lengths.items()
    }
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08:".join(weights.values()))
    lengths["second piece"], lengths["across pieces"] = b"\x0c", b"\x0d"
    for offset, name in (
        ((1 << 20) + 7, "second piece"),
        ((2 << 20) - 15, "across pieces"),
    ):
        weights[name] = b"\n\x08location\x12" + lengths[name] + name.encode()
        (tmp_path / "m.onnx").write_bytes(
            (tmp_path / "m.onnx").read_bytes().ljust(offset, b"\0") + weights[name]
        )
    for name in (*weights, "other.bin"):
        (tmp_path / name).write_bytes(b"mine")
    with noting():
        note_onnx(tmp_path / "m.onnx")
        assert all(is_read(tmp_path / name) for name in ("m.onnx", *weights))
        assert not is_read(tmp_path / "other.bin")
        for content in (b"", b"\n\x08location\x12", b"\n\x08location\x12\x85"):
            (tmp_path / "m.onnx").write_bytes(content)
            note_onnx(tmp_path / "m.onnx")
    assert not is_read(tmp_path / "m.onnx")
