"""The file beside the output that extract --model goes on from: its own, and nobody else's."""

import os
from pathlib import Path

import numpy as np
import pytest

from calcli.errors import CalcliError, UsageError
from calcli.extracting.model_inputs import ModelJob
from calcli.extracting.run import KeptScores, run_model

pytestmark = pytest.mark.slow

JOB = {"model": "m", "inputs": [1, 2]}
ROWS = np.arange(24, dtype="f4").reshape(4, 2, 3)


def begin(path, **more):
    return KeptScores(path, JOB, **more)


def rows_of(part):
    return np.concatenate([rows for _, rows in part.batches()])


def test_every_prefix_of_its_own_is_gone_on_from(tmp_path):
    path = tmp_path / "out.h5.job"
    part = begin(path)
    ends = [len(path.read_bytes())]
    for row in ROWS:
        part.append(row[None])
        ends.append(len(path.read_bytes()))
    whole = path.read_bytes()
    part.__exit__(KeyboardInterrupt, None, None)
    for length in [0, *range(ends[0], len(whole) + 1)]:
        path.write_bytes(whole[:length])
        with begin(path) as part:
            assert part.done == sum(length >= end for end in ends[1:])
            part.append(ROWS[part.done :]) if part.done < len(ROWS) else None
            np.testing.assert_array_equal(rows_of(part), ROWS)
        assert not path.exists()


def test_a_damaged_batch_and_those_behind_it_are_made_again(tmp_path):
    path = tmp_path / "out.h5.job"
    with pytest.raises(KeyboardInterrupt), begin(path) as part:
        part.append(ROWS[:1])
        begins = len(path.read_bytes())
        part.append(ROWS[1:3])
        part.append(ROWS[3:])
        raise KeyboardInterrupt
    data = bytearray(path.read_bytes())
    data[begins + 100] ^= 1
    path.write_bytes(data)
    with begin(path) as part:
        assert part.done == 1
        part.append(ROWS[1:3])
        part.append(ROWS[3:])
        np.testing.assert_array_equal(rows_of(part), ROWS)


def test_another_jobs_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "out.h5.job"
    with pytest.raises(KeyboardInterrupt), begin(path) as part:
        part.append(ROWS[:2])
        part.append(ROWS[2:])
        raise KeyboardInterrupt
    with pytest.raises(UsageError, match=r"part of another job \(other model\)"):
        KeptScores(path, {**JOB, "model": "n"})
    with (
        pytest.raises(KeyboardInterrupt),
        KeptScores(path, {**JOB, "model": "n"}, force=True) as part,
    ):
        assert part.done == 0
        part.append(ROWS[:2] + 1)
        raise KeyboardInterrupt
    with KeptScores(path, {**JOB, "model": "n"}) as part:
        assert part.done == 2  # and not what the first job left behind it
        np.testing.assert_array_equal(rows_of(part), ROWS[:2] + 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_links_pipes_folders_and_other_files_are_refused(tmp_path):
    path, target = tmp_path / "out.h5.job", tmp_path / "target.txt"
    target.write_text("secret")
    for make in (
        lambda: path.symlink_to(target),
        lambda: path.symlink_to("nowhere"),
        lambda: os.mkfifo(path),
        lambda: path.write_text("my precious thesis"),
    ):
        make()
        with pytest.raises(UsageError, match="is in the way"):
            begin(path, force=True)
        path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="is in the way"):
        begin(path)
    assert target.read_text() == "secret"
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_is_named_and_an_empty_file_removed(disk):
    disk.empty()
    disk.resize(4)
    path = disk.path / "out.h5.job"
    said = r"out\.h5\.job: cannot be written: No space left on device; "
    with pytest.raises(CalcliError, match=said + "nothing kept"), begin(path) as part:
        part.append(np.zeros((1, 2, 3000), "f4"))
    assert not path.exists()
    with (
        pytest.raises(CalcliError, match=said + "4 rows are kept in it, make room"),
        begin(path) as part,
    ):
        part.append(ROWS)
        part.append(np.zeros((400, 2, 3), "f4"))
    disk.resize(64)
    with begin(path) as part:
        np.testing.assert_array_equal(rows_of(part), ROWS)


def test_model_weights_and_inputs_are_never_outputs(tmp_path):
    for name in ("m.pt2", "w.pt", "x.npz", "y.npy"):
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"mine")
    names = {"model": "m.pt2", "inputs": "x.npz", "weights": "w.pt", "labels": "y.npy"}
    job = ModelJob(**{name: str(tmp_path / file) for name, file in names.items()})
    images = ModelJob(model=str(tmp_path / "m.pt2"), inputs=str(tmp_path / "photos"))
    for which, output in [(job, n) for n in ("m.pt2", "w.pt", "x.npz", "y.npy")] + [
        (images, "photos/cat.png")
    ]:
        with pytest.raises(UsageError, match="is an input"):
            run_model(which, tmp_path / output, force=True)
    assert all(path.read_bytes() == b"mine" for path in Path(tmp_path).rglob("*.*"))
