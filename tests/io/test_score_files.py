"""What apply writes by its output's ending: the same numbers everywhere, and whole files only."""

import csv
import json

import h5py
import numpy as np
import pytest
from run_calcli import process
from synthetic import truth

from calcli.io.score_files import FORMATS

Z, Y = truth(300, 4)
NAMES = ["cat", 'a "dog", big', "ü", "4"]
IDS = [f"row {i}, \u00fc" for i in range(300)]


@pytest.fixture(params=["float16", "float32", "float64"])
def run(run, monkeypatch, request):
    """A folder with ts.json and what it makes of a bundle, out.h5."""
    with h5py.File("raw.h5", "w") as file:
        file["logits"], file["labels"] = Z.astype(request.param), Y
        file["class_names"], file["ids"] = (
            np.array(NAMES, dtype=object),
            np.array(IDS, dtype=object),
        )
    assert run("fit", "-m", "ts", "raw.h5", "-o", "ts.json", "-q").code == 0
    for name in FORMATS:
        monkeypatch.setattr("calcli.rows.BLOCK_BYTES", 1000)
        assert run("apply", "ts.json", "raw.h5", "-o", f"out.{name}", "-q").code == 0
    return run


def expected():
    with h5py.File("out.h5") as file:
        arrays = {
            name: file[name][()]
            for name in ("labels", "prediction", "confidence", "probs")
        }
        return arrays, dict(file.attrs)


def same(name, values, wanted):
    np.testing.assert_array_equal(
        np.asarray(values, dtype=np.float64), wanted.astype(np.float64), err_msg=name
    )


def test_csv_has_the_same_numbers(run):
    wanted, _ = expected()
    with open("out.csv", encoding="utf-8", newline="") as file:
        head, *body = csv.reader(file)
    assert head == [
        "ids",
        "labels",
        "prediction",
        "confidence",
        *(f"probs_{name}" for name in NAMES),
        "calibrated_by",
    ]
    assert [row[0] for row in body] == IDS
    for column, name in ((1, "labels"), (2, "prediction")):
        assert [row[column] for row in body] == [NAMES[c] for c in wanted[name]]
    same("confidence", [row[3] for row in body], wanted["confidence"])
    same("probs", [row[4:-1] for row in body], wanted["probs"])


def test_jsonl_has_the_same_numbers(run):
    wanted, _ = expected()
    with open("out.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert [row["ids"] for row in rows] == IDS
    for name in wanted:
        same(name, [row[name] for row in rows], wanted[name])


@pytest.mark.parametrize("run", ["float32"], indirect=True)
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "npz"])
@pytest.mark.parametrize(
    "names",
    [["b", "a", "c"], ["1", "2", "3"], ["a.b", "x y", 'ü,"'], ["yes", "no", "label"]],
)
def test_names_of_classes_are_read_again_and_numbers_leave_no_doubt(run, names, form):
    """CSV and Parquet of classes called 1, 2, 3 could not be read again; JSON Lines hold numbers of classes alone."""
    if form == "parquet":
        pytest.importorskip("pyarrow")
    with h5py.File("n.h5", "w") as file:
        file["logits"], file["labels"], file["class_names"] = Z[:, :3], Y % 3, names
    assert run("fit", "n.h5", "-o", "ts3.json", "-q").code == 0
    assert run("apply", "ts3.json", "n.h5", "-o", f"n.{form}", "-q").code == 0
    assert run("extract", f"n.{form}", "-o", "back.h5", "-q").code == 0
    with h5py.File("back.h5") as file:
        np.testing.assert_array_equal(file["labels"][()], Y % 3)
        if form == "npz" or (form != "jsonl" and names[0] != "1"):
            assert [name.decode() for name in file["class_names"][()]] == names


def test_npz_has_the_same_arrays_and_provenance(run):
    wanted, attributes = expected()
    with np.load("out.npz") as file:
        for name, values in wanted.items():
            same(name, file[name], values)
        assert file["probs"].dtype == wanted["probs"].dtype
        assert (list(file["class_names"]), list(file["ids"])) == (NAMES, IDS)
        for name in ("calibrator", "calibrated_by", "source"):
            assert str(file[name]) == attributes[name]


def test_parquet_has_the_same_columns_and_provenance(run):
    parquet = pytest.importorskip("pyarrow.parquet")
    wanted, attributes = expected()
    table = parquet.read_table("out.parquet")
    assert table.column_names == [
        "ids",
        "labels",
        "prediction",
        "confidence",
        *(f"probs_{n}" for n in NAMES),
    ]
    assert table["ids"].to_pylist() == IDS
    for name in ("labels", "prediction"):
        assert table[name].to_pylist() == [NAMES[c] for c in wanted[name]]
    same("confidence", table["confidence"].to_numpy(), wanted["confidence"])
    same(
        "probs",
        np.stack([table[f"probs_{n}"].to_numpy() for n in NAMES], axis=1),
        wanted["probs"],
    )
    for name in ("calibrator", "calibrated_by", "source"):
        assert table.schema.metadata[name.encode()].decode() == attributes[name]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_again(run, name):
    wanted, _ = expected()
    assert run("extract", f"out.{name}", "-o", "back.h5", "-q").code == 0
    with h5py.File("back.h5") as file:
        same("probs", file["probs"][()], wanted["probs"])
        same("labels", file["labels"][()], wanted["labels"])


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_are_the_same_bytes(run, tmp_path, name):
    before = (tmp_path / f"out.{name}").read_bytes()
    assert (
        run("apply", "ts.json", "raw.h5", "-o", f"out.{name}", "-q", "--force").code
        == 0
    )
    assert (tmp_path / f"out.{name}").read_bytes() == before


def test_pipes_endings_and_folders(run, tmp_path):
    for words, says in (
        (["-o", "out.txt"], "expected a name that ends in .h5, .hdf5, .npz"),
        (["-o", "out"], "expected a name that ends in"),
        (["-o", "-"], "say how it is written with --format, one of csv, jsonl"),
        (["-o", "-", "--format", "npz"], "npz cannot be written to a pipe"),
        (["-o", "-", "--format", "csv", "--json"], "no --json beside them"),
        (["-o", "out.h5", "--format", "xls"], "--format xls: expected one of h5, npz"),
        (
            ["-o", "new.csv", "-o", "ts.json", "--format", "csv", "--force"],
            "is an input",
        ),
    ):
        done = run("apply", "ts.json", "raw.h5", *words)
        assert (done.code, says in done.line) == (2, True), words
    assert (
        run("apply", "ts.json", "raw.h5", "-o", "scores.txt", "--format", "csv").out
        == "scores.txt\n"
    )
    assert (tmp_path / "scores.txt").read_bytes() == (tmp_path / "out.csv").read_bytes()
    assert (
        run("apply", "ts.json", "raw.h5", "-o", "folder/", "--format", "jsonl").out
        == "folder/raw.jsonl\n"
    )
    piped = process(
        "apply", "ts.json", "raw.h5", "-o", "-", "--format", "jsonl", cwd=tmp_path
    )
    assert (piped.code, piped.out) == (0, (tmp_path / "out.jsonl").read_text())


@pytest.mark.parametrize("name", FORMATS)
def test_classes_that_are_numbers_in_another_order_keep_their_predictions(run, name):
    """Of .npz they were looked up among the names: accuracy .08 for .84."""
    with h5py.File("raw.h5", "r+") as file:
        del file["class_names"]
        file["class_names"] = np.array(["2", "0", "1", "3"], dtype=object)
    assert run("apply", "ts.json", "raw.h5", "-o", f"numbers.{name}", "-q").code == 0
    words = ("--metric", "accuracy", "--json", "-q")
    (result,) = json.loads(run("evaluate", f"numbers.{name}", *words).out)["results"]
    right = (Z.argmax(axis=1) == Y).mean()
    assert result["metrics"]["accuracy"]["value"] == pytest.approx(right, abs=0.005)
