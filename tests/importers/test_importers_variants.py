"""One data set written in many ways: each is read as what it is, or refused with what to do."""

import csv
import io
import json
import pickle
import re
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest

from calcli.importers.names.column_options import listed_columns

N, NAMES = 60, ["ant", "bee", "cat", "dog"]
RNG = np.random.default_rng(0)
Z = 3 * RNG.normal(size=(N, 4))
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
Y = np.array([RNG.choice(4, p=p) for p in P])
PROBS = [f"prob_{name}" for name in NAMES]
LOGITS = [*(f"logit_{name}" for name in NAMES), "label"]
FULL = dict(zip(PROBS, P.T.tolist(), strict=True)) | {"label": Y.tolist()}


def rows_of(run, name, *options):
    """Probabilities and labels that ``extract`` makes of a file, and what it says."""
    done = run("extract", name, *options, "-o", "o.h5", "--force")
    assert done.code == 0, done.err
    with h5py.File("o.h5") as file:
        scores, kind = next(
            (file[kind][()], kind) for kind in ("probs", "logits") if kind in file
        )
        p = (
            scores
            if kind == "probs"
            else np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        )
        return p, file["labels"][()], done.err


def table(head, rows, separator=","):
    with open("t.csv", "w", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([head, *rows])
    return "t.csv"


def labelled(scores):
    return [[*row, y] for row, y in zip(scores, Y, strict=True)]


def with_a_header_of_savetxt():
    np.savetxt(
        "t.csv", np.c_[P, Y], delimiter=",", header="prob_0,prob_1,prob_2,prob_3,label"
    )
    return "t.csv"


def below_comments():
    Path("t.csv").write_text(
        "# by eval.py\n" + Path(table([*PROBS, "label"], labelled(P))).read_text()
    )
    return "t.csv"


def in_excel_s_words():
    Path("t.csv").write_text(
        "sep=;\n" + Path(table([*PROBS, "label"], labelled(P), ";")).read_text()
    )
    return "t.csv"


def in_a_cell(form):
    return lambda: table(
        ["probs", "label"], [[form(p), y] for p, y in zip(P, Y, strict=True)]
    )


def printed_by_torch():
    rows = [
        [f"tensor([{', '.join(f'{v:.6f}' for v in z)}])", f"tensor({y})"]
        for z, y in zip(Z, Y, strict=True)
    ]
    return table(["logits", "label"], rows)


def as_json(value):
    def write():
        Path("t.json").write_text(json.dumps(value))
        return "t.json"

    return write


def indexed(cells):
    return {str(i): cell for i, cell in enumerate(cells)}


def mixed(scores):
    return np.c_[scores, Y][:, [3, 4, 0, 2, 1]]


def by_class(p, *, ranked):
    pairs = sorted(zip(p.tolist(), NAMES, strict=True), reverse=ranked)
    return {name: share for share, name in pairs}


def as_npz(**arrays):
    def write():
        np.savez("t.npz", **arrays)
        return "t.npz"

    return write


def of_records():
    kinds = [*((name, "f8") for name in PROBS), ("label", "i8")]
    np.save("t.npy", np.array([tuple(row) for row in labelled(P)], dtype=kinds))
    return "t.npy"


READ = {
    "header of savetxt": with_a_header_of_savetxt,
    "comments above": below_comments,
    "sep=": in_excel_s_words,
    "white space": lambda: table([*PROBS, "label"], labelled(P), " "),
    "spaces behind commas": lambda: table([f" {name}" for name in [*PROBS, "label"]], labelled(P)),
    "columns by number": lambda: table(["prob_3", "label", "prob_0", "prob_2", "prob_1"], mixed(P)),
    "the largest beside": lambda: table([*PROBS, "prob_max", "label"], labelled(np.c_[P, P.max(axis=1)])),
    "a tuple": in_a_cell(lambda p: str(tuple(p.tolist()))),
    "spaces in a cell": in_a_cell(lambda p: " ".join(map(repr, p.tolist()))),
    "NumPy scalars": in_a_cell(lambda p: f"[{', '.join(f'np.float64({v!r})' for v in p.tolist())}]"),
    "tensors": printed_by_torch,
    "pandas columns": as_json({name: indexed(cells) for name, cells in FULL.items()}),
    "pandas columns, one backwards": as_json(
        {name: dict(list(indexed(c).items())[:: -1 if name == "label" else 1]) for name, c in FULL.items()}
    ),
    "pandas lists": as_json(FULL),
    "pandas table": as_json(
        {"schema": {}, "data": [{"index": i} | {name: cells[i] for name, cells in FULL.items()} for i in range(N)]}
    ),
    "results beside settings": as_json(
        {"model": "m", "results": [{"logits": z.tolist(), "label": int(y)} for z, y in zip(Z, Y, strict=True)]}
    ),
    "text in JSON": as_json([{"logits": str(z.tolist()), "label": int(y)} for z, y in zip(Z, Y, strict=True)]),
    "classes by name, ranked": as_json(
        [{"probs": by_class(p, ranked=True), "label": NAMES[y]} for p, y in zip(P, Y, strict=True)]
    ),
    "zero-shot": as_json(
        [
            {"labels": list(ranks), "scores": list(ranks.values()), "gold": NAMES[y]}
            for ranks, y in zip((by_class(p, ranked=True) for p in P), Y, strict=True)
        ]
    ),
    "records": of_records,
    "objects": as_npz(logits=Z.astype(object), labels=Y.astype(object)),
    "truth": as_npz(logits=Z, truth=Y),
}  # fmt: skip


@pytest.mark.parametrize("way", READ)
def test_a_way_to_write_scores_is_read(run, way):
    p, labels, _ = rows_of(run, READ[way]())
    np.testing.assert_allclose(p, P, atol=1e-5)
    np.testing.assert_array_equal(labels, Y)


def test_a_header_of_savetxt_is_not_a_class_short(run):
    """Its first name stands behind a #, which once made it the column of another name."""
    np.savetxt(
        "t.csv",
        np.c_[Z, Y % 3],
        delimiter=",",
        header="logit_0,logit_1,logit_2,logit_3,label",
    )
    p, _, said = rows_of(run, "t.csv")
    assert (
        p.shape == (N, 4)
        and "the first line is no row, the names of the columns in it" in said
    )


def test_answers_by_id_in_json_are_gold(run):
    np.savez("t.npz", logits=Z, ids=np.arange(N))
    Path("gold.json").write_text(
        json.dumps({str(i): int(Y[i]) for i in RNG.permutation(N)})
    )
    p, labels, _ = rows_of(run, "t.npz", "--gold", "gold.json")
    np.testing.assert_allclose(p, P)
    np.testing.assert_array_equal(labels, Y)


def test_sets_in_json_are_groups(run):
    some = {"logits": Z[:20].tolist(), "labels": Y[:20].tolist()}
    Path("t.json").write_text(
        json.dumps({"val": {"logits": Z.tolist(), "labels": Y.tolist()}, "test": some})
    )
    assert run("extract", "t.json", "-o", "o.h5").code == 0
    with h5py.File("o.h5") as file:
        assert file["val/logits"].shape == (N, 4) and file["test/logits"].shape == (
            20,
            4,
        )


def test_a_row_that_begins_with_a_hash_is_no_comment(run):
    rows = [
        f"#tag{i},{','.join(map(repr, p.tolist()))},{y}\n"
        for i, (p, y) in enumerate(zip(P, Y, strict=True))
    ]
    Path("t.csv").write_text("".join(rows[:20]) + "".join(rows[20:]).replace("#", ""))
    p, labels, _ = rows_of(
        run, "t.csv", "--scores", "1:4", "--labels", "5", "--kind", "probs"
    )
    assert len(p) == N and (labels == Y).all()


def test_savetxt_alone_is_read_with_its_kind(run):
    np.savetxt("t.txt", np.c_[P, Y])
    p, labels, said = rows_of(run, "t.txt", "--kind", "probs")
    np.testing.assert_allclose(p, P, atol=1e-9)
    assert (labels == Y).all() and "column 4 was read as the labels" in said


REFUSED = {
    "rows by id": (as_json({f"{i}.png": p.tolist() for i, p in enumerate(Z)}), "holds no array named logits"),
    "predictions beside scores": (as_npz(logits=Z, preds=Y), "name them with --labels NAME"),
    "a name of its own": (as_npz(logits=Z, answers=Y), "--labels answers"),
    "confidences": (as_npz(confidences=P.max(axis=1), accuracies=P.argmax(axis=1) == Y), "--correct accuracies"),
    "thousands or decimals": (
        lambda: table(LOGITS, labelled([[f"{int(1000 * v):,}" for v in z] for z in Z]), ";"),
        r"does the comma part thousands or decimals\?",
    ),
    "thousands": (
        lambda: table(LOGITS, labelled([[f"{1000 * v:,.2f}" for v in z] for z in Z])),
        "expected a number with a point before its decimals",
    ),
    "shortened by NumPy": (in_a_cell(lambda p: "[0.1 0.2 ... 0.3]"), "set_printoptions"),
    "numbers for classes in any order": (
        as_json([{"probs": by_class(p, ranked=True), "label": int(y)} for p, y in zip(P, Y, strict=True)]),
        "another order in every row, and the labels are numbers: .*--class-names ant,bee,cat,dog",
    ),
    "columns of other rows": (
        as_json({name: {str(i): v for i, v in enumerate(c) if i or name != "label"} for name, c in FULL.items()}),
        "column 'label' has other rows than 'prob_ant'",
    ),
    "one label more": (
        lambda: table(["prob_a", "prob_b", "label_a", "label_b"], np.c_[P[:, :2], Y % 2, Y // 2]),
        "--labels label_a:label_b, with --per-label",
    ),
    "inputs": (as_npz(X=Z, y=Y), "holds no array named logits"),
    "a sum beyond 1": (
        lambda: table([*PROBS, "prob_extra", "label"], labelled(np.c_[P, np.full(N, 0.5)])),
        "does a column belong to no class",
    ),
    "a workbook": (lambda: a_file("t.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)), "save the table as CSV"),
    "MATLAB": (lambda: a_file("t.mat", b"MATLAB 5.0 MAT-file" + bytes(200)), "cannot read it as matlab"),
    "xz": (lambda: a_file("t.csv.xz", b"\xfd7zXZ\x00" + bytes(99)), "t.csv.xz: cannot be unpacked"),
    "zstd": (lambda: a_file("t.csv.zst", b"\x28\xb5\x2f\xfd" + bytes(99)), "is packed with zstd; unpack it"),
}  # fmt: skip


def a_file(name, data):
    Path(name).write_bytes(data)
    return name


@pytest.mark.parametrize("way", REFUSED)
def test_what_may_be_something_else_is_refused_with_what_to_do(run, way):
    write, says = REFUSED[way]
    done = run("extract", write(), "-o", "o.h5")
    assert done.code == 3
    assert re.search(says, done.line), done.line


@pytest.mark.parametrize("way", ["file", "stream", "feather", "folder"])
def test_arrow_tables_are_read_with_the_names_that_datasets_keeps(run, way):
    pa = pytest.importorskip("pyarrow", reason="Arrow")
    from pyarrow import feather

    about = {"info": {"features": {}}}
    about["info"]["features"]["label"] = {"names": NAMES, "_type": "ClassLabel"}
    about["info"]["features"]["source"] = {
        "names": ["web", "book"],
        "_type": "ClassLabel",
    }
    made = pa.table({"logits": pa.array(Z.tolist()), "label": Y})
    made = made.replace_schema_metadata({"huggingface": json.dumps(about)})
    name = {
        "file": "t.arrow",
        "stream": "t.arrow",
        "feather": "t.feather",
        "folder": "saved",
    }[way]
    Path("saved").mkdir()
    where = "saved/data-00000-of-00001.arrow" if way == "folder" else name
    if way == "feather":
        feather.write_feather(made, where)
    else:
        with (pa.ipc.new_file if way == "file" else pa.ipc.new_stream)(
            where, made.schema
        ) as file:
            file.write_table(made)
    Path("saved/dataset_info.json").write_text(json.dumps(about["info"]))
    Path("saved/state.json").write_text(
        json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]})
    )
    p, labels, _ = rows_of(run, name)
    np.testing.assert_allclose(p, P)
    assert (labels == Y).all()
    with h5py.File("o.h5") as file:
        assert [text.decode() for text in file["class_names"]] == NAMES


def test_rows_of_different_numbers_of_choices_in_parquet_are_options(run):
    pa = pytest.importorskip("pyarrow", reason="Parquet")
    import pyarrow.parquet as pq

    rows = [z[: 3 + i % 2].tolist() for i, z in enumerate(Z)]
    pq.write_table(pa.table({"logits": pa.array(rows), "label": Y % 3}), "t.parquet")
    assert run("extract", "t.parquet", "-o", "o.h5").code == 0
    with h5py.File("o.h5") as file:
        assert file["logits"].shape == (60, 4)
        assert file["n_options"][:].tolist() == [3, 4] * 30
        assert np.isneginf(file["logits"][::2, 3]).all()
        np.testing.assert_array_equal(file["labels"], Y % 3)
    p, labels, _ = rows_of(run, "t.parquet", "--choices", "3")
    assert p.shape == (30, 3) and (labels == (Y % 3)[::2]).all()


@pytest.mark.parametrize("stem", ["prob", "probs", "log_prob"])
@pytest.mark.parametrize("is_named", [False, True], ids=["found", "named"])
def test_padded_columns_of_any_word_for_scores_are_options(run, stem, is_named):
    """Only the names ``probs_…`` were read; ``prob_…`` is the usual one in tables."""
    sizes = [2, 3, 3] * 20
    rows = []
    for size in sizes:
        p = np.arange(1.0, size + 1) / np.arange(1.0, size + 1).sum()
        padding = "-inf" if "log" in stem else "0"
        values = np.log(p) if "log" in stem else p
        cells = [str(value) for value in values] + [padding] * (3 - size)
        rows.append(",".join([*cells, str(size), str(len(rows) % size)]))
    names = [f"{stem}_{letter}" for letter in "abc"]
    header = ",".join([*names, "n_options", "label"])
    Path("t.csv").write_text("\n".join([header, *rows, ""]))
    options = []
    if is_named:
        kind = "log_probs" if "log" in stem else "probs"
        options = ["--scores", f"{names[0]}:{names[-1]}", "--kind", kind]
    done = run("extract", "t.csv", *options, "-o", "o.h5")
    assert done.code == 0, done.err
    with h5py.File("o.h5") as file:
        assert file["n_options"][:].tolist() == sizes
        assert np.isneginf(file["log_probs"][::3, 2]).all()


def test_batches_with_paths_are_joined_and_weights_of_a_model_are_no_scores(run):
    torch = pytest.importorskip("torch", reason="the files are torch's own")
    z, y = torch.tensor(Z), torch.tensor(Y)
    batches = [
        (z[i : i + 16], y[i : i + 16], [f"{j}.png" for j in range(i, min(i + 16, N))])
        for i in range(0, N, 16)
    ]
    torch.save(batches, "t.pt")
    p, labels, _ = rows_of(run, "t.pt", "--kind", "logits")
    np.testing.assert_allclose(p, P, atol=1e-6)
    assert (labels == Y).all()
    torch.save({"state_dict": {"fc.weight": z, "fc.bias": torch.zeros(4)}}, "c.pt")
    assert (
        "holds no array named logits"
        in run(
            "extract", "c.pt", "--kind", "logits", "--labels", "none", "-o", "c.h5"
        ).line
    )
    torch.save(torch.nn.Linear(3, 4), "m.pt")
    assert (
        "holds torch.nn.modules.linear.Linear, which is no tensor"
        in run("extract", "m.pt", "-o", "c.h5").line
    )


def test_compare_says_once_what_was_taken_for_what(run):
    np.savez("s.npz", logits=Z, labels=Y)
    done = run(
        "compare", "s.npz", "--methods", "identity,ts", "--folds", "2", "--workers", "1"
    )
    assert done.code == 0, done.err
    line = "Read s.npz: 60 samples, 4 classes ('logits', 'labels').\n"
    assert done.err.count("Read ") == done.err.count(line) == 1


# ---- several files, or several saves, one after another: only one of them would be read


def appended(write, pieces):
    """One file of what ``write`` makes of each piece, given an open file."""
    with open("all", "wb") as file:
        for piece in pieces:
            write(file, piece)


def of_safetensors(file, piece):
    from safetensors.numpy import save

    file.write(save(piece))


def of_torch(**how):
    def write(file, piece):
        torch = pytest.importorskip("torch")
        torch.save(
            {name: torch.from_numpy(array) for name, array in piece.items()},
            file,
            **how,
        )

    return write


def of_arrow(kind):
    def write(file, piece):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import ipc, parquet

        table = pa.table({name: array.tolist() for name, array in piece.items()})
        if kind == "parquet":
            made = io.BytesIO()  # as ``cat *.parquet`` does
            parquet.write_table(table, made)
            file.write(made.getvalue())
            return
        made = io.BytesIO()
        with getattr(ipc, f"new_{kind}")(made, table.schema) as out:
            out.write_table(table)
        file.write(made.getvalue())

    return write


def of_hdf5(libver):
    def write(file, piece):
        with h5py.File("one.h5", "w", libver=libver) as out:
            for name, array in piece.items():
                out[name] = array
        file.write(Path("one.h5").read_bytes())

    return write


APPENDED = {
    "all.npy": lambda file, piece: np.save(file, piece["logits"]),
    "all.npz": lambda file, piece: np.savez(file, **piece),
    "all.pkl": lambda file, piece: pickle.dump(piece, file),
    "all.pt": of_torch(),
    "old.pt": of_torch(_use_new_zipfile_serialization=False),
    "all.safetensors": of_safetensors,
    "all.parquet": of_arrow("parquet"),
    "all.arrow": of_arrow("stream"),
    "all.feather": of_arrow("file"),
    "all.h5": of_hdf5("earliest"),
    "new.h5": of_hdf5("latest"),
}


@pytest.mark.parametrize("name", APPENDED)
def test_files_one_after_another_are_refused_and_one_of_them_is_read(
    name, run, tmp_path, monkeypatch
):
    """20 of 60 rows came with exit 0: a loop that saves into one open file, or ``cat``, are the ways to get there."""
    monkeypatch.chdir(tmp_path)
    pieces = [
        {"logits": Z[rows], "labels": Y[rows]}
        for rows in (slice(0, 20), slice(20, 40), slice(40, 60))
    ]
    words = ["--labels", "none", "--kind", "logits"] if name == "all.npy" else []
    appended(APPENDED[name], pieces[:1])
    Path("all").rename(name)
    assert run("extract", name, *words, "-o", "one.h5", "--force").code == 0
    appended(APPENDED[name], pieces)
    Path("all").rename(name)
    done = run("extract", name, *words, "-o", "o.h5")
    assert done.code == 3
    assert f"{name}: goes on behind its end" in done.line


# ---- names of classes that are numbers, or differ in their last character


@pytest.mark.parametrize(
    "names", [["10", "20", "30", "40"], ["-1", "0", "1", "2"], ["1", "2", "3", "4"]]
)
def test_labels_that_are_names_of_classes_are_looked_up(
    names, run, tmp_path, monkeypatch
):
    """No label 40, or 4, counts four classes from 0; that the classes are numbered says what is meant."""
    monkeypatch.chdir(tmp_path)
    values = np.array(names).astype(int)
    np.savez("a.npz", logits=Z, labels=values[Y], class_names=np.array(names))
    _, labels, said = rows_of(run, "a.npz")
    np.testing.assert_array_equal(labels, Y)
    assert "labels were looked up in the names of the classes" in said


@pytest.mark.parametrize(
    ("names", "rows"), [(["1", "2", "3", "4"], Y < 3), (["3", "0", "1", "2"], Y >= 0)]
)
def test_labels_that_may_be_names_or_places_are_a_choice_of_the_user(
    names, rows, run, tmp_path, monkeypatch
):
    """Class 1 of the names 1 to 4 is the first, label 1 counted from 0 the second."""
    monkeypatch.chdir(tmp_path)
    labels = np.array(names).astype(int)[Y[rows]]
    np.savez("a.npz", logits=Z[rows], labels=labels, class_names=np.array(names))
    assert (
        "are its labels the names of classes"
        in run("extract", "a.npz", "-o", "o.h5").line
    )
    np.savez(
        "a.npz", logits=Z[rows], labels=labels.astype("U"), class_names=np.array(names)
    )
    np.testing.assert_array_equal(rows_of(run, "a.npz")[1], Y[rows])
    np.savez("a.npz", logits=Z[rows], labels=labels)
    if labels.max() < 4:
        np.testing.assert_array_equal(
            rows_of(run, "a.npz", "--class-names", "a,b,c,d")[1], labels
        )


@pytest.mark.parametrize("head", ["prob_", "", "p_"])
@pytest.mark.parametrize(
    "names", [["A", "A-", "A+", "B"], ["O", "O_", "[O", "B"], ["a", "a.", "b", "c"]]
)
def test_names_that_differ_in_a_sign_are_several_classes(
    head, names, run, tmp_path, monkeypatch
):
    """Ratings and blood groups: stripped of the sign, A and A- were one word, and A the class of A-."""
    monkeypatch.chdir(tmp_path)
    rows = Y != 1
    cells = [[*p, names[y]] for p, y in zip(P[rows], Y[rows], strict=True)]
    name = table([*(head + one for one in names), "label"], cells)
    p, labels, _ = rows_of(run, name, "--kind", "probs")
    np.testing.assert_allclose(p, P[rows])
    np.testing.assert_array_equal(labels, Y[rows])


def test_a_label_that_names_two_classes_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(
        "a.npz",
        logits=Z,
        labels=np.array(["a", "b", "c", "a"])[Y],
        class_names=np.array(["a", "b", "c", "a"]),
    )
    assert (
        "'a' is the name of two classes" in run("extract", "a.npz", "-o", "o.h5").line
    )


@pytest.mark.parametrize("head", ["class ", "c", ""])
def test_columns_in_the_order_of_words_are_put_in_that_of_numbers(
    head, run, tmp_path, monkeypatch
):
    """0, 1, 10, 11, 2, …: what pandas sorts. It was said that they were put in order, and they were not."""
    monkeypatch.chdir(tmp_path)
    order = sorted(range(12), key=str)
    p = np.c_[P, P, P] / 3
    y = np.arange(N) % 12
    name = table(
        [*(f"{head}{i}" for i in order), "label"],
        [[*row[order], one] for row, one in zip(p, y, strict=True)],
    )
    read, labels, _ = rows_of(run, name, "--kind", "probs")
    np.testing.assert_allclose(read, p)
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize("head", ["class ", "c", ""])
def test_a_number_beside_numbered_classes_is_no_class_unless_it_is_named(
    head, run, tmp_path, monkeypatch
):
    """An age among logits was a thirteenth class; the columns that are advised are those of the classes, in order.

    Columns called 0 to 11 were none that are numbered."""
    monkeypatch.chdir(tmp_path)
    order = sorted(range(12), key=str)
    z, y = np.c_[Z, Z - 1, Z - 2], np.arange(N) % 12
    cells = [[*row[order], 30.5, one] for row, one in zip(z, y, strict=True)]
    name = table([*(f"{head}{i}" for i in order), "age", "label"], cells)
    said = run("extract", name, "--kind", "logits", "-o", "o.h5").line
    assert "column 'age' is none of the numbered" in said
    asked = shlex.split(said.rpartition("--scores ")[2])[0]
    done = run("extract", name, "--kind", "logits", "--scores", asked, "-o", "o.h5")
    assert done.code == 0, done.err
    with h5py.File("o.h5") as file:
        np.testing.assert_array_equal(file["logits"][()], z)
        np.testing.assert_array_equal(file["labels"][()], y)
    if not head:
        advised = run("extract", name, "--force", "-o", "o.h5").line.partition(
            "to try: "
        )[2]
        assert (
            run(*shlex.split(advised)[1:]).code == 0
            and f"--scores {asked} --labels label --kind logits" in advised
        )


def test_names_of_columns_may_hold_commas_and_colons():
    names = ["a", "b,c", "d:e", "f"]
    assert listed_columns(names, "a,b,c,d:e,f") == names
    assert listed_columns(names, "b,c:f") == ["b,c", "d:e", "f"]
    assert listed_columns(names, "d:e") == ["d:e"]
    assert listed_columns(names, "a,,f") == listed_columns(names, "a,x") == []
    many = [f"p{i}" for i in range(5000)]
    assert listed_columns(many, ",".join(many)) == many


@pytest.mark.parametrize(
    "names",
    [
        ["1", "2", "3", "4"],
        ["3", "0", "1", "2"],
        ["10", "20", "30", "40"],
        ["-1", "0", "1", "2"],
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz", "parquet"])
def test_what_apply_writes_of_numbered_classes_is_read_again(
    names, ending, run, tmp_path, monkeypatch
):
    """Names and places of classes are told apart in calcli's own files, whichever labels are there."""
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    for rows in (Y >= 0, Y < 2):
        with h5py.File("a.h5", "w") as file:
            file["logits"], file["labels"], file["class_names"] = (
                Z[rows],
                Y[rows],
                np.array(names, dtype="S"),
            )
        assert run("fit", "a.h5", "-o", "a.json", "--force").code == 0
        assert run("apply", "a.json", "a.h5", "-o", f"b.{ending}", "--force").code == 0
        p, labels, _ = rows_of(run, f"b.{ending}")
        np.testing.assert_array_equal(p.argmax(axis=1), Z[rows].argmax(axis=1))
        np.testing.assert_array_equal(labels, Y[rows])
