"""Foreign files made to be endless, to lie about their size, or to be taken for something else."""

import os
import pickle
import zipfile

import h5py
import numpy as np
import pytest
from synthetic import truth

pytestmark = pytest.mark.slow

Z, Y = truth(30, 3)


def laugh(levels=40):
    """Lists of twice the one before: 2^40 paths in a few hundred bytes."""
    inner = []
    for _ in range(levels):
        inner = [inner, inner]
    return inner


def tuples_as_a_key(levels=40):
    """A pickle of {tuples of twice the one before: 1}, whose hash has 2^40 steps."""
    code = b"\x80\x02}" + b")q\x00"
    for i in range(levels):
        code += b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1])
    return code + b"K\x01s."


def circle():
    inner = {}
    inner["x"] = inner
    return inner


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (pickle.dumps(laugh(), 2), "holds no arrays"),
        (pickle.dumps({"a": laugh(), "b": laugh()}, 2), "holds no arrays"),
        (pickle.dumps([*laugh(), [Z]], 2), "say what '2' holds"),
        (pickle.dumps(laugh(200), 2), "nested too deeply"),
        (pickle.dumps(circle(), 2), "nested too deeply"),
        (tuples_as_a_key(), "a tuple as a key"),
        (b"\x80\x02\x8f.", "tries to build a set"),
        (
            b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",
            "cannot be read as a pickle",
        ),
    ],
)
def test_endless_pickles_end(run, tmp_path, content, says):
    (tmp_path / "x.p").write_bytes(content)
    done = run("extract", "x.p", "-o", "o.h5")
    assert (done.code in (2, 3), says in done.line) == (True, True), done.line


def test_a_shared_array_of_a_shared_list_is_counted_not_walked(run, tmp_path):
    inner = [Z, Z]
    for _ in range(40):
        inner = [inner, inner]
    (tmp_path / "x.p").write_bytes(pickle.dumps(inner, 2))
    assert "more than 100000 arrays" in run("extract", "x.p", "-o", "o.h5").line


def test_endless_tensors_end(run, tmp_path):
    torch = pytest.importorskip("torch")
    nested = {}
    for _ in range(30):
        nested = {"a": nested, "b": nested}
    logits = torch.from_numpy(Z)
    files = {
        "laugh.pt": (nested, "holds no arrays"),
        "self.pt": ({"logits": logits, "more": circle()}, "nested too deeply"),
        "long.pt": (
            {"logits": torch.ones(1, 2).expand(2**40, 2)},
            "save tensor.contiguous()",
        ),
    }
    for name, (content, says) in files.items():
        torch.save(content, tmp_path / name)
        done = run("extract", name, "--labels", "none", "-o", "o.h5")
        assert (done.code, says in done.line) == (3, True), done.line
    with (
        zipfile.ZipFile(tmp_path / "laugh.pt") as source,
        zipfile.ZipFile(tmp_path / "key.pt", "w") as copy,
    ):
        for name in source.namelist():
            copy.writestr(
                name,
                tuples_as_a_key() if name.endswith("data.pkl") else source.read(name),
            )
    assert "a tuple as a key" in run("extract", "key.pt", "-o", "o.h5").line


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"ids": np.array(["a\0b"] * 30)}, "without NUL characters"),
        ({"ids": np.array([b"\xff"] * 30)}, "ids: holds what is no text"),
        ({"class_names": np.array(["a\0b", "b", "c"])}, "without NUL characters"),
        (
            {"class_names": np.array(["\ud800", "b", "c"])},
            "class_names: holds what is no text",
        ),
        (
            {"transforms": np.array(["\ud800"]), "transformed_logits": Z[None]},
            "transforms: holds what is no text",
        ),
        ({"group": np.zeros(30, "V4")}, "group has type |V4"),
        ({"split": np.array(["\0a"] * 30)}, "without NUL characters"),
        (
            {"class_names": np.array([2**31 - 1] * 3, "u4")},
            "class_names: holds what is no text",
        ),
    ],
)
def test_words_that_are_none(run, tmp_path, arrays, says):
    beyond = {
        name: a.view("U1") if a.dtype == "u4" else a for name, a in arrays.items()
    }  # no characters at all
    np.savez(tmp_path / "x.npz", logits=Z, labels=Y, **beyond)
    done = run("extract", "x.npz", "-o", "o.h5")
    assert (done.code, says in done.line) == (3, True), done.line


def test_names_of_arrays_become_names_of_groups(run, tmp_path):
    pair = {"logits": Z, "labels": Y}
    (tmp_path / "x.p").write_bytes(pickle.dumps({"a\0": pair, "\ud800": pair}, 2))
    assert run("extract", "x.p", "-o", "o.h5").code == 0
    with h5py.File(tmp_path / "o.h5") as file:
        assert sorted(file) == ["\\ud800", "a_"]


def npy(header):
    text = header.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 1000


@pytest.mark.parametrize(
    "header",
    [
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**60}, 10), }}",
        "(" * 9000,
    ],
)
def test_npy_headers_that_lie(run, tmp_path, header):
    (tmp_path / "logits.npy").write_bytes(npy(header))
    assert run("extract", "logits.npy", "--labels", "none", "-o", "o.h5").code == 3
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("logits.npy", npy(header))
    assert run("extract", "x.npz", "--labels", "none", "-o", "o.h5").code == 3


def test_arrays_that_swell_are_refused_before_memory_is_given_to_them(run, tmp_path):
    np.savez_compressed(tmp_path / "x.npz", logits=np.zeros((10_000_000, 2), "f4"))
    assert (
        "far more than scores shrink by"
        in run("extract", "x.npz", "--labels", "none", "-o", "o.h5").line
    )
    np.savez_compressed(
        tmp_path / "x.npz",
        logits=np.zeros((100_000, 3), "f4"),
        labels=np.zeros(100_000, int),
    )
    assert run("extract", "x.npz", "-o", "o.h5").code == 0


def test_arrays_of_one_name_are_not_chosen_from(run, tmp_path):
    array = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("logits.npy", array)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("logits.npy", array)
    assert (
        "two arrays named 'logits'"
        in run("extract", "x.npz", "--labels", "none", "-o", "o.h5").line
    )


def test_documents_that_do_not_fit_into_memory(run, tmp_path, monkeypatch):
    def none_left(data):
        raise MemoryError

    monkeypatch.setattr("msgspec.json.decode", none_left)
    (tmp_path / "x.json").write_text('[{"logits": [1, 2], "label": 0}]')
    done = run("extract", "x.json", "-o", "o.h5")
    assert (done.code, "does not fit into memory" in done.line) == (3, True)


def test_safetensors_offsets_beyond_all_numbers(run, tmp_path):
    header = b'{"logits":{"dtype":"F32","shape":[2,2],"data_offsets":[0,1e999]}}'
    (tmp_path / "x.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(16)
    )
    assert (
        "infinity"
        in run("extract", "x.safetensors", "--labels", "none", "-o", "o.h5").line
    )


# ---- tables as pandas writes them


@pytest.mark.parametrize("index", ["", "Unnamed: 0", '"Unnamed: 0"'])
def test_the_index_of_pandas_is_no_class(run, tmp_path, index):
    text = f"{index},0,1,2,label\n0,2.0,0.1,0.3,0\n1,0.2,1.5,0.3,1\n2,0.1,0.2,3.0,2\n"
    (tmp_path / "x.csv").write_text(text)
    done = run("extract", "x.csv", "--kind", "logits", "-o", "o.h5")
    assert (done.code, "left out" in done.err) == (0, True)
    with h5py.File(tmp_path / "o.h5") as file:
        np.testing.assert_array_equal(
            file["logits"], [[2, 0.1, 0.3], [0.2, 1.5, 0.3], [0.1, 0.2, 3]]
        )
        assert file["labels"][:].tolist() == [0, 1, 2]


@pytest.mark.parametrize("index", ["__index_level_0__", "index", "row"])
def test_the_index_of_parquet_is_no_class(run, tmp_path, index):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    scores = {name: Z[:, i] for i, name in enumerate(("cat", "dog", "cow"))}
    parquet.write_table(
        pa.table({**scores, "label": Y, index: np.arange(30)}), tmp_path / "x.parquet"
    )
    assert run("extract", "x.parquet", "--kind", "logits", "-o", "o.h5").code == 0
    with h5py.File(tmp_path / "o.h5") as file:
        np.testing.assert_array_equal(file["logits"], Z)


def test_a_first_line_that_counts_is_a_header(run, tmp_path):
    (tmp_path / "logits.csv").write_text(
        "0,1,2\n2.0,0.1,0.3\n0.2,1.5,0.3\n0.1,0.2,3.0\n"
    )
    (tmp_path / "labels.csv").write_text("0\n0\n1\n2\n")
    refused = run("extract", "logits.csv", "labels.csv", "-o", "o.h5", "-q")
    assert "did pandas write a header?" in refused.line
    assert run("extract", "logits.csv", "--labels", "none", "-o", "o.h5").code == 0
    with h5py.File(tmp_path / "o.h5") as file:
        assert file["logits"].shape == (3, 3)


def test_labels_that_are_bytes(run, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    scores = {f"logits_{i}": Z[:, i] for i in range(3)}
    for classes in ({}, {"class_names": ["a"] * 30}):
        table = pa.table({**scores, "label": [b"\xff"] * 30, **classes})
        parquet.write_table(table, tmp_path / "x.parquet")
        assert run("extract", "x.parquet", "-o", "o.h5").code == 3


def test_tables_that_swell_are_refused(run, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(
        pa.table({"logits_0": np.zeros(10**7), "logits_1": np.zeros(10**7)}),
        tmp_path / "x.parquet",
    )
    assert (
        "far more than scores shrink by"
        in run("extract", "x.parquet", "--labels", "none", "-o", "o.h5").line
    )


def test_pipes_and_devices_are_not_waited_for(run, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for source in ("pipe.csv", "/dev/zero"):
        assert "is a pipe or a device" in run("extract", source, "-o", "o.h5").line
        assert run("evaluate", source).line.endswith("with - as the name")
