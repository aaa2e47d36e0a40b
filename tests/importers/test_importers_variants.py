"""One data set written in many ways: each is read as what it is, or refused with what to do."""

import csv
import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

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
        scores, kind = next((file[kind][()], kind) for kind in ("probs", "logits") if kind in file)
        p = scores if kind == "probs" else np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        return p, file["labels"][()], done.err


def table(head, rows, separator=","):
    with open("t.csv", "w", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([head, *rows])
    return "t.csv"


def labelled(scores):
    return [[*row, y] for row, y in zip(scores, Y, strict=True)]


def with_a_header_of_savetxt():
    np.savetxt("t.csv", np.c_[P, Y], delimiter=",", header="prob_0,prob_1,prob_2,prob_3,label")
    return "t.csv"


def below_comments():
    Path("t.csv").write_text("# by eval.py\n" + Path(table([*PROBS, "label"], labelled(P))).read_text())
    return "t.csv"


def in_excel_s_words():
    Path("t.csv").write_text("sep=;\n" + Path(table([*PROBS, "label"], labelled(P), ";")).read_text())
    return "t.csv"


def in_a_cell(form):
    return lambda: table(["probs", "label"], [[form(p), y] for p, y in zip(P, Y, strict=True)])


def printed_by_torch():
    rows = [[f"tensor([{', '.join(f'{v:.6f}' for v in z)}])", f"tensor({y})"] for z, y in zip(Z, Y, strict=True)]
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
    np.savetxt("t.csv", np.c_[Z, Y % 3], delimiter=",", header="logit_0,logit_1,logit_2,logit_3,label")
    p, _, said = rows_of(run, "t.csv")
    assert p.shape == (N, 4) and "the first line is no row, the names of the columns in it" in said


def test_answers_by_id_in_json_are_gold(run):
    np.savez("t.npz", logits=Z, ids=np.arange(N))
    Path("gold.json").write_text(json.dumps({str(i): int(Y[i]) for i in RNG.permutation(N)}))
    p, labels, _ = rows_of(run, "t.npz", "--gold", "gold.json")
    np.testing.assert_allclose(p, P)
    np.testing.assert_array_equal(labels, Y)


def test_sets_in_json_are_groups(run):
    some = {"logits": Z[:20].tolist(), "labels": Y[:20].tolist()}
    Path("t.json").write_text(json.dumps({"val": {"logits": Z.tolist(), "labels": Y.tolist()}, "test": some}))
    assert run("extract", "t.json", "-o", "o.h5").code == 0
    with h5py.File("o.h5") as file:
        assert file["val/logits"].shape == (N, 4) and file["test/logits"].shape == (20, 4)


def test_a_row_that_begins_with_a_hash_is_no_comment(run):
    rows = [f"#tag{i},{','.join(map(repr, p.tolist()))},{y}\n" for i, (p, y) in enumerate(zip(P, Y, strict=True))]
    Path("t.csv").write_text("".join(rows[:20]) + "".join(rows[20:]).replace("#", ""))
    p, labels, _ = rows_of(run, "t.csv", "--scores", "1:4", "--labels", "5", "--kind", "probs")
    assert len(p) == N and (labels == Y).all()


def test_savetxt_alone_is_read_with_its_kind(run):
    np.savetxt("t.txt", np.c_[P, Y])
    p, labels, said = rows_of(run, "t.txt", "--kind", "probs")
    np.testing.assert_allclose(p, P, atol=1e-9)
    assert (labels == Y).all() and "column 4 was read as the labels" in said


REFUSED = {
    "rows by id": (as_json({f"{i}.png": p.tolist() for i, p in enumerate(Z)}), "holds no array named logits"),
    "predictions beside scores": (as_npz(logits=Z, preds=Y), "name them with --labels NAME, or"),
    "a name of its own": (as_npz(logits=Z, answers=Y), "name them with --labels answers, or"),
    "confidences": (as_npz(confidences=P.max(axis=1), accuracies=P.argmax(axis=1) == Y), "--correct accuracies"),
    "thousands or decimals": (
        lambda: table(LOGITS, labelled([[f"{int(1000 * v):,}" for v in z] for z in Z]), ";"),
        r"does the comma part thousands or decimals\?",
    ),
    "thousands": (
        lambda: table(LOGITS, labelled([[f"{1000 * v:,.2f}" for v in z] for z in Z])),
        "expected a number without separators of thousands",
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
    "MATLAB": (lambda: a_file("t.mat", b"MATLAB 5.0 MAT-file" + bytes(200)), "scipy.io.loadmat"),
    "xz": (lambda: a_file("t.csv.xz", b"\xfd7zXZ\x00" + bytes(99)), "is packed with xz; unpack it"),
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
    about["info"]["features"]["source"] = {"names": ["web", "book"], "_type": "ClassLabel"}
    made = pa.table({"logits": pa.array(Z.tolist()), "label": Y})
    made = made.replace_schema_metadata({"huggingface": json.dumps(about)})
    name = {"file": "t.arrow", "stream": "t.arrow", "feather": "t.feather", "folder": "saved"}[way]
    Path("saved").mkdir()
    where = "saved/data-00000-of-00001.arrow" if way == "folder" else name
    if way == "feather":
        feather.write_feather(made, where)
    else:
        with (pa.ipc.new_file if way == "file" else pa.ipc.new_stream)(where, made.schema) as file:
            file.write_table(made)
    Path("saved/dataset_info.json").write_text(json.dumps(about["info"]))
    Path("saved/state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    p, labels, _ = rows_of(run, name)
    np.testing.assert_allclose(p, P)
    assert (labels == Y).all()
    with h5py.File("o.h5") as file:
        assert [text.decode() for text in file["class_names"]] == NAMES


def test_rows_of_different_numbers_of_choices_in_parquet_are_groups(run):
    pa = pytest.importorskip("pyarrow", reason="Parquet")
    import pyarrow.parquet as pq

    rows = [z[: 3 + i % 2].tolist() for i, z in enumerate(Z)]
    pq.write_table(pa.table({"logits": pa.array(rows), "label": Y % 3}), "t.parquet")
    assert run("extract", "t.parquet", "-o", "o.h5").code == 0
    with h5py.File("o.h5") as file:
        assert [file[f"choices_{k}/logits"].shape for k in (3, 4)] == [(30, 3), (30, 4)]
        np.testing.assert_array_equal(file["choices_4/labels"], (Y % 3)[1::2])
    p, labels, _ = rows_of(run, "t.parquet", "--choices", "3")
    assert p.shape == (30, 3) and (labels == (Y % 3)[::2]).all()


def test_batches_with_paths_are_joined_and_weights_of_a_model_are_no_scores(run):
    torch = pytest.importorskip("torch", reason="the files are torch's own")
    z, y = torch.tensor(Z), torch.tensor(Y)
    batches = [(z[i : i + 16], y[i : i + 16], [f"{j}.png" for j in range(i, min(i + 16, N))]) for i in range(0, N, 16)]
    torch.save(batches, "t.pt")
    p, labels, _ = rows_of(run, "t.pt", "--kind", "logits")
    np.testing.assert_allclose(p, P, atol=1e-6)
    assert (labels == Y).all()
    torch.save({"state_dict": {"fc.weight": z, "fc.bias": torch.zeros(4)}}, "c.pt")
    assert "holds no array named logits" in run("extract", "c.pt", "--kind", "logits", "--no-labels", "-o", "c.h5").line
    torch.save(torch.nn.Linear(3, 4), "m.pt")
    assert "holds torch.nn.modules.linear.Linear, which is no tensor" in run("extract", "m.pt", "-o", "c.h5").line


def test_compare_says_once_what_was_taken_for_what(run):
    np.savez("s.npz", logits=Z, labels=Y)
    done = run("compare", "s.npz", "--methods", "identity,ts", "--folds", "2", "--workers", "1")
    assert done.code == 0, done.err
    assert done.err.count("'logits' was read as the scores (logits), 'labels' as the labels") == 1
