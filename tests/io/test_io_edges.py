"""What one slip of the pen in reading and checking files would move: advice, guards, bytes, what a message names."""

import io
import json
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from calcli.errors import DataError, UsageError
from calcli.importers.building.imported import Slab
from calcli.importers.building.writing import FEWEST_JUDGED as FEW
from calcli.importers.building.writing import _Doubts
from calcli.importers.open_any_file import expand, open_data
from calcli.importers.remarks import remarks
from calcli.importers.table import Mapped
from calcli.io.artifact import dumps, loads
from calcli.io.artifact_check import check_extremes
from calcli.io.atomic import open_job_file
from calcli.io.bundle import open_bundle
from calcli.io.hdf5 import check_external
from calcli.io.inputs import allow_open_files, open_document
from calcli.io.validate import check_labels, score_kind
from calcli.io.writer import DescriptorFile


def test_an_artifact_spells_its_class_names_as_they_are():
    content = {
        "calcli_artifact": 1, "calcli_version": "0.1.0", "method": "ts", "options": {"loss": "nll"},
        "params": {"temperature": 2.0}, "n_classes": 2, "input_kind": "logits", "class_names": ["naïve", "鳥"],
        "fit": {"n": 1, "status": "ok", "warnings": [], "data_sha256": "ab", "before": {}, "after": {}},
    }  # fmt: skip
    assert '"class_names": ["naïve", "鳥"]' in dumps(
        loads(json.dumps(content), "a.json")
    )


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        ([1, 2, 3], "labels look 1-based: subtract 1"),
        ([0, 1, 3], "are labels and scores those of the same model?"),
        ([0, 1, 4], "pass --ignore-label 4 if it marks rows to leave out"),
        ([0, 1, -1], "pass --ignore-label -1 if it marks rows to leave out"),
    ],
)
def test_what_is_advised_for_labels_out_of_range(labels, advice):
    with pytest.raises(DataError, match=f"expected 0..2; {advice}".replace("?", r"\?")):
        check_labels(np.array(labels), 3, 3, "a.h5: labels")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent/out.job", "No such file or directory"),
        ("9" * 300, "File name too long"),
    ],
)
def test_a_job_file_that_its_name_forbids_is_a_usage_error(tmp_path, name, says):
    """As any output of that name is."""
    with pytest.raises(
        UsageError, match=f"cannot be written: {says}; choose another name"
    ):
        open_job_file(tmp_path / name)


def test_a_calibrator_that_breaks_on_rows_is_refused_as_damaged():
    def apply(block):
        raise ValueError("shapes (2,)\nand (3,) differ")

    with pytest.raises(
        DataError,
        match=r"params do not work on rows of 3 classes: shapes \(2,\) and \(3,\) differ",
    ):
        check_extremes(
            SimpleNamespace(required_transforms=(), required_columns=(), apply=apply), 3
        )


def test_a_mapping_that_breaks_names_file_and_array(tmp_path):
    def broken():
        # cannot be sliced
        return SimpleNamespace(shape=(2, 2), dtype=np.dtype("f4"), ndim=2)

    with pytest.raises(
        DataError, match=rf"^{tmp_path}/a.npy: cannot read array 'logits': "
    ):
        Mapped(broken, tmp_path / "a.npy", "logits")[:1]


@pytest.mark.parametrize(
    ("n", "right", "message"),
    [
        (FEW, FEW, "every label"),
        (FEW, FEW - 1, None),
        (FEW - 1, FEW - 1, None),
        (400, 100, "no better"),
    ],
)
def test_doubts_about_labels_need_rows_and_no_exception(n, right, message):
    """Four classes; a quarter right is chance."""
    labels = np.arange(n) % 4
    scores = np.zeros((n, 4))
    scores[np.arange(n), np.where(np.arange(n) < right, labels, (labels + 1) % 4)] = 1.0
    slabs = [Slab(0, scores[: n // 2], None), Slab(n // 2, scores[n // 2 :], None)]
    with remarks() as doubts:
        counted = _Doubts(
            SimpleNamespace(labels=labels, k=4, where="t.csv", kind="logits")
        )
        for slab in slabs:
            counted.add(slab)
        counted.remark()
    assert [message in doubt for doubt in doubts] == ([True] if message else [])


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"words")))
    with open_document("-", "words") as file:
        assert file.read() == b"words"


@pytest.mark.parametrize("position", [1, 2])
def test_every_bundle_of_a_data_set_is_held_against_the_first(tmp_path, position):
    for i in range(3):
        with h5py.File(tmp_path / f"{i}.h5", "w") as file:
            file["logits"], file["labels"] = (
                np.zeros((2, 4 if i == position else 3)),
                [0, 1],
            )
    with (
        pytest.raises(DataError, match=f"{position}.h5"),
        open_data([str(tmp_path / f"{i}.h5") for i in range(3)]),
    ):
        pass


def test_two_stars_reach_into_folders(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x.h5").touch()
    assert expand(f"{tmp_path}/**/x.h5") == [f"{tmp_path}/a/b/x.h5"]


def test_the_system_is_asked_for_more_open_files():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        allow_open_files(100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_confidence_is_a_kind_of_scores_only_where_it_may_be():
    assert score_kind("confidence", confidence=True) == "confidence"
    with pytest.raises(DataError, match="confidence"):
        score_kind("confidence")


def test_labels_are_needed_unless_it_is_said_that_they_are_not(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["logits"] = np.eye(2)
    with (
        pytest.raises(DataError, match="labels are needed here"),
        open_bundle(str(tmp_path / "a.h5")),
    ):
        pass
    with open_bundle(str(tmp_path / "a.h5"), need_labels=False) as rows:
        assert not rows.has_labels


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([(64, 0, 64)], True), ([(72, 8, 64)], True), ([(71, 8, 64)], False), ([(8, 16, 64)], False),
        ([(64, 0, h5py.h5f.UNLIMITED)], True), ([(16, 0, 32), (64, 0, 64)], False), ([(32, 0, 32), (32, 0, 40)], True),
    ],
)  # fmt: skip
def test_values_in_other_files_are_counted_from_where_they_begin(
    tmp_path, pieces, whole
):
    """Eight float64 need 64 bytes. pieces : bytes of a file, and the first and the number of those that are taken."""
    for place, (size, _, _) in enumerate(pieces):
        (tmp_path / f"{place}.bin").write_bytes(bytes(size))
    external = [
        (str(tmp_path / f"{place}.bin"), offset, count)
        for place, (_, offset, count) in enumerate(pieces)
    ]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("logits", (4, 2), "f8", external=external)
        if whole:
            check_external(data, "a.h5: logits", True)
        else:
            with pytest.raises(
                DataError, match="needs 64 bytes of other files and they hold less"
            ):
                check_external(data, "a.h5: logits", True)


def test_a_damaged_file_on_a_disk_without_locks_is_named(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["logits"], file["labels"] = np.zeros((4, 2)), np.zeros(4, int)

    def refuses(path, mode, locking=True):
        raise OSError(
            "unable to lock file, errno = 95" if locking else "truncated file"
        )

    monkeypatch.setattr("calcli.io.hdf5.probe", lambda path: None)
    monkeypatch.setattr(h5py, "File", refuses)
    with pytest.raises(
        DataError, match=r"a\.h5: cannot be read: truncated file; is the file complete"
    ):
        open_bundle(str(tmp_path / "a.h5")).__enter__()


def test_what_the_disk_did_not_take_is_kept_for_hdf5_to_read(tmp_path):
    path = tmp_path / "a.h5"
    with path.open("wb") as full:
        driver = DescriptorFile(full.fileno())
        driver.write(b"abcdef")
        driver.raise_problem()
        assert driver._lost == []
    with path.open("rb") as read_only:
        driver._descriptor = read_only.fileno()
        driver.seek(-2, io.SEEK_END)
        driver.write(b"xyz")
        driver.seek(3)
        driver.write(b"w")
        driver.seek(1)
        buffer = bytearray(6)
        assert (driver.readinto(buffer), buffer, driver.tell()) == (6, b"bcwxyz", 7)
        with pytest.raises(OSError, match="Bad file descriptor"):
            driver.raise_problem()
    assert path.read_bytes() == b"abcdef"


def test_an_id_of_a_log_with_a_nul_character_is_refused_in_a_sentence(run, tmp_path):
    """HDF5 holds none: it was an internal error."""
    source = tmp_path / "a.jsonl"
    rows = []
    for i in range(20):
        answer = {"type": "yes/no", "yes": i % 2 == 0, "probability": 0.1 + 0.04 * i}
        rows.append(
            {"id": f"r{i}\0", "answers": {"ok": answer}, "labels": {"ok": True}}
        )
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("extract", source, "-o", tmp_path / "a.h5")
    assert done.code == 3
    assert "row 0 is 'r0\\x00', expected words without NUL characters" in done.err
    assert not (tmp_path / "a.h5").exists()
