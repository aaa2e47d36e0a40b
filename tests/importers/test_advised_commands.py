"""A refusal of extract that names a command names the whole one: what was typed is in it, and it works."""

import json
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest
from run_calcli import runner

RNG = np.random.default_rng(11)
N = 240
P = RNG.uniform(0.02, 0.98, N).round(4)
Y = (RNG.random(N) < P).astype(int)
Z = RNG.normal(size=(N, 3)).round(3)
Q = (np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)).round(6)
C = (Z + RNG.gumbel(size=Z.shape)).argmax(axis=1)


def table(header, rows):
    """A CSV file of rows."""
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def lines(records):
    """A log of records, one a line."""
    return "".join(json.dumps(record) + "\n" for record in records)


TEXTS = {
    "percent.csv": table("prob_no,prob_yes,label", ((100 - 100 * p, 100 * p, y) for p, y in zip(P, Y, strict=True))),
    "blank.csv": table(
        "prob_0,prob_1,label",
        (("", "", y) if i == 7 else (1 - p, p, y) for i, (p, y) in enumerate(zip(P, Y, strict=True))),
    ),
    "padded.csv": table(
        "id,prob_0,prob_1,label", ((i % 235, 1 - P[i % 235], P[i % 235], Y[i % 235]) for i in range(N))
    ),
    "unlabelled.csv": table("prob_0,prob_1,seen", ((1 - p, p, "ab"[y]) for p, y in zip(P, Y, strict=True))),
    "prediction.csv": table("row_id,prediction,actual", zip(range(N), P, Y, strict=True)),
    "margin.csv": table("decision,label", zip((np.log(P / (1 - P))).round(4), Y, strict=True)),
    "classes.csv": table(
        "cat,dog,cow,hour,species",
        ((*z, i % 24, ("cat", "dog", "cow")[c]) for i, (z, c) in enumerate(zip(Z, C, strict=True))),
    ),
    "prefixed.csv": table("p_a,p_b,p_c,labels", ((*q, "abc"[c]) for q, c in zip(Q, C, strict=True))),
    "numbers.csv": table("n,p_a,p_b,p_c,y", ((3.5 + i, *q, c) for i, (q, c) in enumerate(zip(Q, C, strict=True)))),
    "odds.csv": table("z_a,z_b,z_c,label", ((*z, "abc"[c]) for z, c in zip(Z, C, strict=True))),
    "answers.csv": table(
        "question,conf,answer,gold", ((f"q{i}", P[i], "ABC"[i % 3], "ABC"[(i + 1 - Y[i]) % 3]) for i in range(N))
    ),
    "stated.jsonl": lines(
        {"id": i, "answer": "ABC"[i % 3], "gold": "ABC"[(i + 1 - int(Y[i])) % 3], "stated_confidence": float(P[i])}
        for i in range(N)
    ),
    "verdicts.json": json.dumps([{"task": f"q{i}", "sure": float(P[i]), "is_right": bool(Y[i])} for i in range(N)]),
    "churn.csv": table(
        "customer,region,churn_probability,churned",
        ((f"C{i}", ("north", "south")[i % 2], P[i], ("no", "yes")[Y[i]]) for i in range(N)),
    ),
    "said.jsonl": lines(
        {"id": i, "model_answer": "ABC"[i % 3], "gold": "ABC"[(i + 1 - int(Y[i])) % 3], "self_reported": float(P[i])}
        for i in range(N)
    ),
    "loans.csv": table("app_id,score,denied,race,w", ((f"A{i}", P[i], Y[i], "BW"[i % 2], 1 + i % 3) for i in range(N))),
}
ARRAYS = {
    "outputs.npz": {"outputs": Z, "targets": C},
    "unnamed.npz": {"arr_0": Z, "arr_1": C},
    "mislabelled kind.npz": {"logits": np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True), "labels": C},
}


@pytest.mark.parametrize("name", [*TEXTS, *ARRAYS])
@pytest.mark.parametrize(
    "words",
    [
        ["-o", "new.h5", "--split", "cal=0.5", "--split", "test=0.5", "--seed", "3", "--no-stratify"],
        ["--output", "new.h5", "--split=cal=100", "--split=test=rest", "--ordered"],
    ],
    ids=["shuffled", "ordered"],
)
def test_the_command_to_try_has_what_was_typed_and_works(name, words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    if name in TEXTS:
        Path(name).write_text(TEXTS[name], "utf-8")
    else:
        np.savez(name, **ARRAYS[name])
    run = runner(monkeypatch, capsys)
    refused = run("extract", name, *words)
    assert refused.code in (2, 3) and not Path("new.h5").exists()
    advised = shlex.split(refused.line.partition("to try: ")[2])
    assert advised[:3] == ["calcli", "extract", name], refused.line
    done = run(*advised[1:])
    assert done.code == 0, done.err
    with h5py.File("new.h5") as file:
        assert sorted(file) == ["cal", "test"]
    assert run("evaluate", "new.h5", "-q").code == 0
    if name in ("answers.csv", "stated.jsonl", "said.jsonl", "verdicts.json"):
        assert "(confidence, correct)" in done.err


@pytest.mark.parametrize("name", ["loans.csv", "percent.csv"])
def test_what_other_commands_refuse_keeps_the_columns_that_were_named(name, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(TEXTS[name], "utf-8")
    run = runner(monkeypatch, capsys)
    named = ["--ids", "app_id"] if name == "loans.csv" else []
    refused = run("evaluate", name, *named)
    advised = shlex.split(refused.line.partition("to try: ")[2])
    assert all(word in advised for word in named) and run(*advised[1:]).code == 0, refused.line
    assert run("evaluate", Path(name).with_suffix(".h5"), "-q").code == 0


@pytest.mark.parametrize("name", ["churn.csv", "said.jsonl"])
def test_run_on_one_file_ends_with_the_commands_to_the_verdict(name, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(TEXTS[name], "utf-8")
    run = runner(monkeypatch, capsys)
    refused = run("run", name)
    commands = refused.line.partition("to try: ")[2].split(" && ")
    assert len(commands) == 2
    for command in commands:
        done = run(*shlex.split(command)[1:])
        assert done.code == 0, done.err
    assert "\nverdict: " in done.out and done.out.endswith(".report.html\n")


def test_parts_that_are_joined_are_all_in_the_command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    header, *rows = TEXTS["prediction.csv"].splitlines()
    for part, half in (("a.csv", rows[:100]), ("b.csv", rows[100:])):
        Path(part).write_text("\n".join([header, *half]) + "\n", "utf-8")
    run = runner(monkeypatch, capsys)
    refused = run("extract", "a.csv", "b.csv", "--join", "-o", "new.h5")
    advised = shlex.split(refused.line.partition("to try: ")[2])
    assert run(*advised[1:]).code == 0, refused.line
    with h5py.File("new.h5") as file:
        assert len(file["labels"]) == N
