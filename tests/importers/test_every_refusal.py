"""Law: every refusal on reading ends with a command that works as pasted, or says why there is none.

A command works where it ends without an error, or with the verdict of a limit. What a
proposed command leaves behind, the next one reads.
"""

import json
import pickle
import shlex
import sqlite3
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

N = 90
RNG = np.random.default_rng(2026)
Z = RNG.normal(size=(N, 3)).round(4) * 2
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
Y = (Z + RNG.gumbel(size=Z.shape)).argmax(axis=1)
Q = RNG.uniform(0.02, 0.98, N).round(4)
B = (RNG.random(N) < Q).astype(int)
WORDS = np.array(["ape", "bee", "cod"])
PROBS = "prob_0,prob_1,prob_2,label"


def csv(header, *columns):
    """Text of a table."""
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    lines = [",".join(str(cell) for cell in row) for row in rows]
    return "\n".join([header, *lines]) + "\n"


def jsonl(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def tensor(name, values, shape=None):
    flat = np.asarray(values).ravel().tolist()
    shape = list(np.shape(values)) if shape is None else shape
    return {"name": name, "datatype": "FP32", "shape": shape, "data": flat}


def one_cell(value, row=3):
    """Columns of probabilities with another text in a cell."""
    columns = [column.astype(object) for column in P.round(5).T]
    columns[0][row] = value
    return columns


TEXTS = {
    "nolabel.csv": csv("prob_ape,prob_bee,prob_cod", *P.T),
    "contradicted.csv": csv("a,b,c,pred,label", *P.T, (Y + 1) % 3, Y),
    "contradicted2.csv": csv("my p 1,my p 2,my p 3,prediction,label", *P.T, Y[::-1], Y),
    "mixed.csv": csv(PROBS, *np.where(np.arange(N)[:, None] % 2, P, Z).T, Y),
    "models.csv": csv("y,rf,gbm,nn", B, Q, Q**2, Q**3),
    "words.csv": csv("c1,c2,c3,label", *P.T, WORDS[Y]),
    "wolf.csv": csv("prob_ape,prob_bee,prob_cod,label", *P.T, ["wolf", *WORDS[Y][1:]]),
    "from 2.csv": csv(PROBS, *P.T, Y + 2),
    "half.csv": csv(PROBS, *P.T, Y + 0.5),
    "gaps.csv": csv(PROBS, *P.T, [y if i % 5 else "" for i, y in enumerate(Y.tolist())]),
    "na.csv": csv(PROBS, *one_cell("NA"), Y),
    "word in scores.csv": csv(PROBS, *one_cell("high"), Y),
    "inf.csv": csv("logit_0,logit_1,logit_2,label", *one_cell("inf"), Y),
    "doubled.csv": csv(PROBS, *(2 * P).T, Y),
    "sums below 1.csv": csv(PROBS, *(0.7 * P).T, Y),
    "ragged.csv": csv(PROBS, *P.T, Y).replace("\n", "\n1,2,3,4,5,6\n", 1),
    "header.csv": "prob_0,prob_1,label\n",
    "empty.csv": "",
    "labels.csv": csv("id,label", np.arange(N), Y),
    "missing class.csv": csv("prob_0,prob_2,prob_3,label", *P.T, np.array([0, 2, 3])[Y]),
    "boxes.csv": csv("image_id,category_id,bbox,score", np.arange(N) // 3, Y, Y, Q),
    "confidence.csv": csv("question,confidence", np.arange(N), Q),
    "words for numbers.csv": csv("q,confidence,verdict", Y, WORDS[Y], B),
    "regression.csv": csv("y_true,y_pred", 100 * Q, 99 * Q),
    "one name.csv": csv("prob,prob,prob,label", *P.T, Y),
    "soft.csv": csv("p0,p1,p2,t0,t1,t2", *P.T, *P[::-1].T),
    "two labels.csv": csv("prob_0,prob_1,label,target", 1 - Q, Q, B, 1 - B),
    "short rows.jsonl": jsonl({"probs": p[: 2 + i % 2].tolist()} for i, p in enumerate(P)),
    "no score.jsonl": jsonl({"question": i, "answer": "A"} for i in range(N)),
    "lengths.json": json.dumps({"predictions": P.tolist(), "labels": Y[:-3].tolist()}),
    "deep.json": json.dumps({"a": {"b": {"c": P.tolist()}}}),
    "number.json": "42",
    "broken.json": '{"probs": [[.1,.9],',
    "broken.jsonl": '{"probs":[0.1,0.9],"label":1}\n{"probs":[0.1,0.9],"label":\n',
    "list.json": "[]",
    "object.json": "{}",
    "kserve words.json": json.dumps(
        {"outputs": [tensor("probs", P), tensor("labels", WORDS[Y])]}
    ),
    "kserve twice.json": json.dumps({"outputs": [tensor("p", P), tensor("p", P[::-1])]}),
    "kserve short.json": json.dumps({"outputs": [tensor("p", P[1:], [N, 3])]}),
    "fiftyone labels.json": json.dumps(
        {"classes": WORDS.tolist(), "labels": {f"i{i}": int(y) for i, y in enumerate(Y)}}
    ),
    "rekognition.json": json.dumps(
        [
            {"Image": i, "Response": {"Labels": [{"Name": "ape", "Confidence": 100 * q}]}}
            for i, q in enumerate(Q.tolist())
        ]
    ),
    "libsvm.txt": "1 1:0.4 2:0.6\n"
    + "".join(f"{b} 1:{q} 2:{q / 2}\n" for b, q in zip(B, Q, strict=True)),
    "letter.txt": "Dear all,\nplease find attached\n",
    "page.html": "<html><body>404</body></html>",
    "pointer.h5": "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1\n",
    "broken.arff": "@relation r\n@attribute p1 numeric\n@data\n1,2,3\n",
    "nolabel.arff": "@relation r\n@attribute p numeric\n@data\n.2\n.7\n",
}  # fmt: skip

ARRAYS = {
    "nolabel.npz": {"logits": Z},
    "lengths.npz": {"logits": Z, "labels": Y[:-1]},
    "three.npz": {"a": Z, "b": P, "c": Z[:, :2]},
    "words.npz": {"probs": P, "labels": WORDS[Y]},
    "complex.npz": {"logits": Z + 1j, "labels": Y},
    "transposed.npz": {"logits": Z.T, "labels": Y},
    "no rows.npz": {"logits": Z[:0], "labels": Y[:0]},
    "embeddings.npz": {"embeddings": RNG.normal(size=(N, 64)), "labels": Y},
    "nolabel.mat": {"scores": Z},
    "lengths.mat": {"probs": P, "labels": Y[:-2]},
    "nolabel.h5": {"logits": Z},
    "lengths.h5": {"logits": Z, "labels": Y[:-1]},
    "far.h5": {"logits": Z, "labels": Y + 5},
    "half.h5": {"logits": Z, "labels": Y + 0.5},
    "whole.h5": {"logits": Z, "labels": Y + 0.0},
    "words.h5": {"logits": Z, "labels": WORDS[Y].astype("S")},
    "sums.h5": {"probs": 1.5 * P, "labels": Y},
    "negative.h5": {"probs": Z, "labels": Y},
    "nan.h5": {"logits": np.where(np.arange(N)[:, None] == 3, np.nan, Z), "labels": Y},
    "sure.h5": {"confidence": Q},
    "two.h5": {"a/logits": Z, "a/labels": Y, "b/logits": Z, "b/labels": Y},
    "empty.h5": {},
}


def write(name):
    """Write a file of the lists in the current folder, or the others by hand."""
    if name in TEXTS:
        Path(name).write_text(TEXTS[name], "utf-8")
    elif name in OTHERS:
        OTHERS[name](Path(name))
    elif name.endswith(".npz"):
        np.savez(name, **ARRAYS[name])
    elif name.endswith(".mat"):
        savemat(name, ARRAYS[name])
    else:
        with h5py.File(name, "w") as file:
            for path, array in ARRAYS[name].items():
                file[path] = array


def cut(name):
    """A file of which the first bytes are left."""

    def make(path):
        write(name)
        path.write_bytes(Path(name).read_bytes()[:600])
        Path(name).unlink()

    return make


def database(path):
    connection = sqlite3.connect(path)
    for table in ("first", "second"):
        connection.execute(f"CREATE TABLE {table} (p REAL, y INT)")
        rows = zip(Q.tolist(), B.tolist(), strict=True)
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
    connection.commit()
    connection.close()


OTHERS = {
    "cut.h5": cut("two.h5"),
    "cut.npz": cut("nolabel.npz"),
    "tables.sqlite": database,
    "objects.pkl": lambda path: path.write_bytes(pickle.dumps([1, 2, 3])),
    "words.npy": lambda path: np.save(path, WORDS[Y]),
    "noise.bin": lambda path: path.write_bytes(RNG.bytes(500)),
    "book.xlsx": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)),
}
NAMES = [*TEXTS, *ARRAYS, *OTHERS]


def check_refusal(run, line):
    """Hold a refusal to the law."""
    if "no command" in line:
        return
    assert "to try: " in line or ": calcli " in line or "convert it: " in line, line
    for command in line.partition("to try: ")[2].split(" && "):
        if command:
            done = run(*shlex.split(command)[1:])
            assert done.code in (0, 5), (line, done.err)


@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_has_a_command_that_works_or_a_reason(
    run, name, tmp_path, monkeypatch
):
    for command in ("evaluate", "extract"):
        folder = tmp_path / command
        folder.mkdir()
        monkeypatch.chdir(folder)
        write(name)
        output = ("-o", "made.h5") if command == "extract" else ()
        done = run(command, name, *output)
        assert done.code in (0, 2, 3), done.err
        if done.code:
            check_refusal(run, done.err.strip().splitlines()[-1])


@pytest.mark.parametrize("name", ["negative.h5", "models.csv", "two.h5", "cut.h5"])
def test_a_refusal_of_run_has_a_command_that_works_or_a_reason(
    run, name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write(name)
    done = run("run", name, "-m", "ts")
    assert done.code in (2, 3), done.err
    check_refusal(run, done.err.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("keys", "labels"),
    [
        ([f"s{i}" for i in range(N)], WORDS[Y]),
        ([f"r{i // 2}" for i in range(N)], WORDS[Y]),
        ([f"r{i}" for i in range(N - 9)], WORDS[Y][: N - 9]),
        ([f"r{i}" for i in range(N)], ["wolf"] * N),
    ],
)
def test_a_refused_join_has_a_command_or_a_reason(
    run, keys, labels, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    ids = [f"r{i}" for i in range(N)]
    Path("a.csv").write_text(csv("id,prob_ape,prob_bee,prob_cod", ids, *P.T))
    Path("b.csv").write_text(csv("id,label", keys, labels))
    for words in (("a.csv", "b.csv", "--join"), ("a.csv", "--gold", "b.csv")):
        done = run("extract", *words, "-o", "made.h5", "--force")
        assert done.code in (0, 2, 3), done.err
        if done.code:
            check_refusal(run, done.err.strip().splitlines()[-1])
