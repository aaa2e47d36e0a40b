"""The file beside the output that extract --model goes on from: its own, and nobody else's."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from calcli.errors import CalcliError, UsageError
from calcli.extract.model_inputs import ModelJob
from calcli.extract.resume import PartialScores
from calcli.extract.run import run_model

JOB = {"model": "m", "inputs": [1, 2]}
ROWS = np.arange(24, dtype="f4").reshape(4, 2, 3)


def begin(path, **more):
    return PartialScores(path, JOB, 2, "float32", **more)


@pytest.fixture
def whole(tmp_path):
    """The bytes of a partial result of four rows."""
    path = tmp_path / "whole.part"
    with begin(path) as part:
        part.append(ROWS)
    data = path.read_bytes()
    path.unlink()
    return data


HEAD = b'{"dtype": "<f4", "format": "calcli partial scores 1", "job": '
OTHERS = [
    b"my precious thesis",
    b"my precious thesis\n",
    b"{",
    HEAD[:20] + b"x",
    HEAD.replace(b"<f4", b"<f8"),
    b'{"format": "calcli partial scores 1"}\n',
    b'{"format": "calcli partial scores 1", "dtype": "<f4", "k": 3, "job": []}\n',
    b'{"format": "calcli partial scores 1", "dtype": "<f4", "k": 3, "job": 7}\n',
    b'{"format": "calcli partial scores 1", "dtype": 4, "k": 3, "job": {}}\n',
    b'{"format": "calcli partial scores 1", "job": ' + b"[" * 100_000 + b"\n",
    *(
        json.dumps({"format": "calcli partial scores 1", "dtype": "<f4", "job": JOB, "k": k}).encode() + b"\n"
        for k in (0, -1, True, None, "3", 1.5, 10**30, [3])
    ),
]


@pytest.mark.parametrize("content", OTHERS, ids=range(len(OTHERS)))
@pytest.mark.parametrize("force", [False, True])
def test_what_is_not_its_own_is_refused_and_kept(tmp_path, content, force):
    path = tmp_path / "out.h5.part"
    path.write_bytes(content)
    if content == b"{":  # a prefix of any header: nobody's loss
        begin(path, force=force).remove()
        return
    with pytest.raises(UsageError, match=r"out\.h5\.part: is in the way"):
        begin(path, force=force)
    assert path.read_bytes() == content


def test_an_empty_file_and_every_prefix_of_its_own_is_gone_on_from(tmp_path, whole):
    path = tmp_path / "out.h5.part"
    begins = whole.index(b"\n") + 1
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        with begin(path) as part:
            assert part.done == max(0, length - begins) // ROWS[0].nbytes
            part.append(ROWS[part.done :])
            np.testing.assert_array_equal(part.rows(), ROWS)
            part.remove()
        assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_links_pipes_and_folders_are_refused(tmp_path):
    path, target = tmp_path / "out.h5.part", tmp_path / "target.txt"
    target.write_text("secret")
    for make in (lambda: path.symlink_to(target), lambda: path.symlink_to("nowhere"), lambda: os.mkfifo(path)):
        make()
        with pytest.raises(UsageError, match="is in the way"):
            begin(path, force=True)
        path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="is in the way"):
        begin(path)
    assert target.read_text() == "secret"
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_is_named_and_an_empty_part_removed(disk):
    disk.empty()
    disk.resize(4)
    path = disk.path / "out.h5.part"
    said = r"out\.h5\.part: cannot be written: No space left on device; "
    with pytest.raises(CalcliError, match=said + "nothing kept"), begin(path) as part:
        part.append(np.zeros((1, 2, 3000), "f4"))
    assert not path.exists()
    with pytest.raises(CalcliError, match=said + r"\d+ rows are kept in it, make room"), begin(path) as part:
        part.append(ROWS)
        part.append(np.zeros((400, 2, 3), "f4"))
    disk.resize(64)
    with begin(path) as part:
        assert 4 < part.done < 404
        np.testing.assert_array_equal(part.rows()[:4], ROWS)
        part.remove()


def test_model_weights_and_inputs_are_never_outputs(tmp_path):
    for name in ("m.pt2", "w.pt", "x.npz", "y.npy"):
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"mine")
    names = {"model": "m.pt2", "inputs": "x.npz", "weights": "w.pt", "labels": "y.npy"}
    job = ModelJob(**{name: str(tmp_path / file) for name, file in names.items()})
    images = ModelJob(model=str(tmp_path / "m.pt2"), inputs=str(tmp_path / "photos"))
    for which, output in [(job, n) for n in ("m.pt2", "w.pt", "x.npz", "y.npy")] + [(images, "photos/cat.png")]:
        with pytest.raises(UsageError, match="is an input"):
            run_model(which, tmp_path / output, force=True)
    assert all(path.read_bytes() == b"mine" for path in Path(tmp_path).rglob("*.*"))
