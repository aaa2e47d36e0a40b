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
    "percent.csv": table(
        "prob_no,prob_yes,label",
        ((100 - 100 * p, 100 * p, y) for p, y in zip(P, Y, strict=True)),
    ),
    "named percent.csv": table(
        "score_cat,score_dog,score_cow,species,sure",
        (
            (*(100 * q / q.sum()), ("cat", "dog", "cow")[c], q.max())
            for q, c in zip(Q, C, strict=True)
        ),
    ),
    "named beside a score.csv": table(
        "cat,dog,cow,species,answer,score",
        (
            (*z, ("cat", "dog", "cow")[c], ("cat", "dog", "cow")[z.argmax()], p)
            for z, c, p in zip(Z, C, P, strict=True)
        ),
    ),
    "numbered percent.csv": table(
        "p0,p1,label", ((100 - 100 * p, 100 * p, y) for p, y in zip(P, Y, strict=True))
    ),
    "blank.csv": table(
        "prob_0,prob_1,label",
        (
            ("", "", y) if i == 7 else (1 - p, p, y)
            for i, (p, y) in enumerate(zip(P, Y, strict=True))
        ),
    ),
    "padded.csv": table(
        "id,prob_0,prob_1,label",
        ((i % 235, 1 - P[i % 235], P[i % 235], Y[i % 235]) for i in range(N)),
    ),
    "unlabelled.csv": table(
        "prob_0,prob_1,seen", ((1 - p, p, "ab"[y]) for p, y in zip(P, Y, strict=True))
    ),
    "prediction.csv": table(
        "row_id,prediction,actual", zip(range(N), P, Y, strict=True)
    ),
    "margin.csv": table(
        "decision,label", zip((np.log(P / (1 - P))).round(4), Y, strict=True)
    ),
    "classes.csv": table(
        "cat,dog,cow,hour,species",
        (
            (*z, i % 24, ("cat", "dog", "cow")[c])
            for i, (z, c) in enumerate(zip(Z, C, strict=True))
        ),
    ),
    "prefixed.csv": table(
        "p_a,p_b,p_c,labels", ((*q, "abc"[c]) for q, c in zip(Q, C, strict=True))
    ),
    "numbers.csv": table(
        "n,p_a,p_b,p_c,y",
        ((3.5 + i, *q, c) for i, (q, c) in enumerate(zip(Q, C, strict=True))),
    ),
    "odds.csv": table(
        "z_a,z_b,z_c,label", ((*z, "abc"[c]) for z, c in zip(Z, C, strict=True))
    ),
    "answers.csv": table(
        "question,conf,answer,gold",
        ((f"q{i}", P[i], "ABC"[i % 3], "ABC"[(i + 1 - Y[i]) % 3]) for i in range(N)),
    ),
    "stated.jsonl": lines(
        {
            "id": i,
            "answer": "ABC"[i % 3],
            "gold": "ABC"[(i + 1 - int(Y[i])) % 3],
            "stated_confidence": float(P[i]),
        }
        for i in range(N)
    ),
    "verdicts.json": json.dumps(
        [
            {"task": f"q{i}", "sure": float(P[i]), "is_right": bool(Y[i])}
            for i in range(N)
        ]
    ),
    "visits.csv": table(
        "visit,site,age,risk_pct,readmitted",
        (
            (
                5000 + i,
                "ab"[i % 2],
                20 + i % 70,
                round(100 - 100 * P[i], 1),
                ("yes", "no")[Y[i]],
            )
            for i in range(N)
        ),
    ),
    "run.jsonl": lines(
        {
            "task": f"q{i}",
            "sample": i % 3,
            "stated_confidence": 5 * round(20 * P[i]),
            "graded_correct": bool(Y[i]),
        }
        for i in range(N)
    ),
    "churn.csv": table(
        "customer,region,churn_probability,churned",
        (
            (f"C{i}", ("north", "south")[i % 2], P[i], ("no", "yes")[Y[i]])
            for i in range(N)
        ),
    ),
    "said.jsonl": lines(
        {
            "id": i,
            "model_answer": "ABC"[i % 3],
            "gold": "ABC"[(i + 1 - int(Y[i])) % 3],
            "self_reported": float(P[i]),
        }
        for i in range(N)
    ),
    "loans.csv": table(
        "app_id,score,denied,race,w",
        ((f"A{i}", P[i], Y[i], "BW"[i % 2], 1 + i % 3) for i in range(N)),
    ),
}
LETTERS = [
    {"id": f"q{i}", "topic": f"t{i % 7}", "model": "vlm", "response": "ABC"[z.argmax()], "expected": "ABC"[y],
     "logprobs": dict(zip("ABCD", np.log([*(0.9 * q / q.sum()), 0.1]).round(9), strict=True))}
    for i, (z, q, y) in enumerate(zip(Z, Q, C, strict=True))
]  # fmt: skip
TEXTS["letters.jsonl"] = lines(LETTERS)
WORDS = [["NEGATIVE", "POSITIVE"][int(p > 0.5)] for p in P]
TEXTS["pipeline.jsonl"] = lines(  # the score is that of the predicted class
    {
        "text": f"t{i}",
        "label": ["NEGATIVE", "POSITIVE"][Y[i]],
        "prediction": {"label": w, "score": max(P[i], 1 - P[i])},
    }
    for i, w in enumerate(WORDS)
)
TEXTS["verbal.jsonl"] = lines(
    {"question_id": f"q{i}", "response": "ABCD"[i % 4], "ground_truth": "ABCD"[i % 3], "latency_ms": 100 + i % 9,
     "verbalized_confidence": int(100 * P[i]), "is_correct": bool(Y[i])} for i in range(N)
)  # fmt: skip
TEXTS["graded.jsonl"] = lines(
    {"meta": {"subject": ["law", "art"][i % 2]}, "output": {"text": "A", "confidence": P[i], "logprob": np.log(P[i])},
     "grade": ["INCORRECT", "CORRECT"][Y[i]]} for i in range(N)
)  # fmt: skip
TEXTS["boxes.json"] = json.dumps(
    [
        {
            "image_id": i // 8,
            "category_id": i % 3,
            "bbox": [1, 2.5, 3, 4],
            "score": P[i],
            "tp": bool(Y[i]),
        }
        for i in range(N)
    ]
)
TEXTS["boxes.csv"] = table(
    "image,class,confidence,iou,matched",
    ((f"{i // 8}.jpg", i % 3, P[i], P[-i], Y[i]) for i in range(N)),
)
TEXTS["empty label.csv"] = table(
    "healthy,sick,diagnosis",
    (
        (1 - p, p, "" if i == 9 else ("healthy", "sick")[y])
        for i, (p, y) in enumerate(zip(P, Y, strict=True))
    ),
)
TEXTS["empty risk.csv"] = table(
    "prob,diagnosis",
    (
        ("" if i == 7 else p, ("healthy", "sick")[y])
        for i, (p, y) in enumerate(zip(P, Y, strict=True))
    ),
)
TEXTS["empty forecast.csv"] = TEXTS["empty risk.csv"].replace("prob", "forecast")
TEXTS["expected.csv"] = table(
    "text,predicted,confidence,expected",
    (
        (f"t{i}", "abc"[i % 3], p, "abc"[(i + 1 - y) % 3])
        for i, (p, y) in enumerate(zip(P, Y, strict=True))
    ),
)
OF_CONFIDENCES = {
    "expected.csv",
    "answers.csv",
    "stated.jsonl",
    "said.jsonl",
    "verdicts.json",
    "pipeline.jsonl",
    "verbal.jsonl",
}
OF_CONFIDENCES |= {"graded.jsonl", "run.jsonl", "boxes.json", "boxes.csv"}
TEXTS["choices.jsonl"] = lines(
    {
        "qid": i,
        "choice_logprobs": np.log(q / q.sum()).tolist(),
        "answer": int(y),
        "subject": "xyz"[i % 3],
    }
    for i, (q, y) in enumerate(zip(Q, C, strict=True))
)
TEXTS["stays.csv"] = table(
    ",name,admitted,age,hospital,y_score,y_pred,returned",
    ((i, f"n{i}", f"2024-0{1 + i % 9}-11", 40 + i % 30, "ab"[i % 2], p, int(p > 0.5), ("no", "yes")[y])
     for i, (p, y) in enumerate(zip(P, Y, strict=True))),
)  # fmt: skip
TEXTS["reviews.csv"] = table(
    "review_id,source,split,prediction,prob_positive,sentiment",
    ((f"r{i}", "ab"[i % 2], ["dev", "test"][i % 2], ["neg", "pos"][int(p > 0.5)], p, ["neg", "pos"][y])
     for i, (p, y) in enumerate(zip(P, Y, strict=True))),
)  # fmt: skip

ARRAYS = {
    "outputs.npz": {"outputs": Z, "targets": C},
    "unnamed.npz": {"arr_0": Z, "arr_1": C},
    "one hot.npz": {
        "y_pred": Q,
        "y_true": np.eye(3)[C],
        "class_indices": np.array(["a", "b", "c"]),
    },
    "column.npz": {"preds": P[:, None], "y_test": Y},
    "padded.npz": {"logits": Z, "labels": np.where(np.arange(N) % 5, C, -100)},
    "mislabelled kind.npz": {
        "logits": np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True),
        "labels": C,
    },
}


PROVEN = {
    "classes.csv": "logits",
    "prefixed.csv": "probs",
    "odds.csv": "logits",
    "letters.jsonl": "log_probs",
    "choices.jsonl": "log_probs",
    "outputs.npz": "logits",
    "unnamed.npz": "logits",
    "one hot.npz": "probs",
    "numbers.csv": "probs",
}
"""Files of which names and values leave one reading, and the kind of their scores."""

LINES = {
    "classes.csv": "('cat, dog, cow' as logits, 'species' as labels)",
    "prefixed.csv": "('p_a, p_b, p_c' as probs, 'labels')",
    "odds.csv": "('z_a, z_b, z_c' as logits, 'label')",
    "letters.jsonl": "('logprobs' as log_probs, 'expected' as labels, 'id')",
    "choices.jsonl": "('choice_logprobs' as log_probs, 'answer' as labels)",
    "outputs.npz": "('outputs' as logits, 'targets')",
    "unnamed.npz": "('arr_0' as logits, 'arr_1' as labels)",
    "one hot.npz": "('y_pred' as probs, 'y_true')",
    "numbers.csv": "('p_a, p_b, p_c' as probs, 'y')",
}
"""What is said of them: which array was read as what."""

SPLIT = {"reviews.csv"}


def write(name):
    if name in TEXTS:
        Path(name).write_text(TEXTS[name], "utf-8")
    else:
        np.savez(name, **ARRAYS[name])


@pytest.mark.parametrize("name", PROVEN)
def test_what_names_and_values_prove_is_read_without_options(
    name, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    write(name)
    done = runner(monkeypatch, capsys)("extract", name, "-o", "new.h5")
    assert done.code == 0, done.err
    with h5py.File("new.h5") as file:
        assert np.array_equal(file["labels"], C) and PROVEN[name] in file
    line = done.err.splitlines()[0]
    assert line.startswith(f"Read {name}: {len(C)} samples, ") and LINES[name] in line


@pytest.mark.parametrize("name", sorted({*TEXTS, *ARRAYS} - {*PROVEN, *SPLIT}))
@pytest.mark.parametrize(
    "words",
    [
        [
            "-o",
            "new.h5",
            "--split",
            "cal=0.5",
            "--split",
            "test=0.5",
            "--seed",
            "3",
            "--no-stratify",
        ],
        ["--output", "new.h5", "--split=cal=100", "--split=test=rest", "--no-shuffle"],
    ],
    ids=["shuffled", "ordered"],
)
def test_the_command_to_try_has_what_was_typed_and_works(
    name, words, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    write(name)
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
    assert ("(confidence, correct)" in done.err) == (name in OF_CONFIDENCES)
    assert "no better than chance" not in done.err and not {"admitted", "iou"} & {
        *advised
    }


@pytest.mark.parametrize("name", ["loans.csv", "percent.csv"])
def test_what_other_commands_refuse_keeps_the_columns_that_were_named(
    name, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(TEXTS[name], "utf-8")
    run = runner(monkeypatch, capsys)
    named = ["--ids", "app_id"] if name == "loans.csv" else []
    refused = run("evaluate", name, *named)
    advised = shlex.split(refused.line.partition("to try: ")[2])
    assert all(word in advised for word in named) and run(*advised[1:]).code == 0, (
        refused.line
    )
    assert run("evaluate", Path(name).with_suffix(".h5"), "-q").code == 0


@pytest.mark.parametrize("name", ["churn.csv", "said.jsonl", "reviews.csv"])
def test_run_on_one_file_ends_with_the_commands_to_the_verdict(
    name, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(TEXTS[name], "utf-8")
    run = runner(monkeypatch, capsys)
    refused = run("run", name)
    commands = refused.line.partition("to try: ")[2].split(" && ")
    assert len(commands) == 2
    for command in commands:
        done = run(*shlex.split(command)[1:])
        assert done.code == 0, done.err
    assert ", auto: " in done.out and done.out.endswith(".report.html\n")


@pytest.mark.parametrize("command", ["evaluate", "run"])
def test_an_advised_file_is_in_the_current_folder(
    command, monkeypatch, capsys, tmp_path
):
    """The folder of the source may be someone else's, or read only."""
    data = tmp_path / "data"
    work = tmp_path / "work"
    data.mkdir()
    work.mkdir()
    (data / "churn.csv").write_text(TEXTS["churn.csv"], "utf-8")
    monkeypatch.chdir(work)
    run = runner(monkeypatch, capsys)
    refused = run(command, "../data/churn.csv")
    for advised in refused.line.partition("to try: ")[2].split(" && "):
        done = run(*shlex.split(advised)[1:])
        assert done.code == 0, done.err
    assert (work / "churn.h5").exists()
    assert [path.name for path in data.iterdir()] == ["churn.csv"]


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


def test_scores_of_classes_that_are_named_as_a_confidence_end_with_the_command_that_reads_them(
    monkeypatch, capsys, tmp_path
):
    """It said that the shape is (240, 4), expected (rows,)."""
    monkeypatch.chdir(tmp_path)
    Path("letters.jsonl").write_text(TEXTS["letters.jsonl"], "utf-8")
    run = runner(monkeypatch, capsys)
    refused = run(
        "extract",
        "letters.jsonl",
        "--confidence",
        "logprobs",
        "--correct",
        "response=expected",
        "-o",
        "a.h5",
    )
    assert (
        refused.code == 3
        and "logprobs: has scores of 4 classes, expected one confidence a row"
        in refused.line
    )
    assert "response (predictions?), expected (labels?)" in refused.line
    assert run(*shlex.split(refused.line.partition("to try: ")[2])[1:]).code == 0
    with h5py.File("a.h5") as file:
        assert np.array_equal(file["labels"], C)
        assert file["group"].asstr()[:3].tolist() == [
            "t0",
            "t1",
            "t2",
        ]  # not crossed with the one model


def test_inspect_lists_what_it_cannot_describe(monkeypatch, capsys, tmp_path):
    """The refusal was all."""
    monkeypatch.chdir(tmp_path)
    margin = np.log(P / (1 - P))
    np.savez(
        "vgg.npz",
        score_val=margin,
        score_test=margin,
        target_val=Y,
        target_test=Y,
        epoch=7,
    )
    run = runner(monkeypatch, capsys)
    refused = run("inspect", "vgg.npz")
    assert refused.code == 2 and "say what 'score_val' holds" in refused.line
    assert [line.split() for line in refused.out.splitlines()] == [
        ["array", "shape", "type", "looks", "like"],
        *([f"score_{part}", "240", "float64", "log-odds?"] for part in ("val", "test")),
        *([f"target_{part}", "240", "int64", "labels?"] for part in ("val", "test")),
        ["epoch", "1", "int64"],
    ]
    commands = refused.line.partition("to try: ")[2].split(" && ")
    assert [run(*shlex.split(command)[1:]).code for command in commands] == [0, 0]
    assert run("inspect", "vgg.npz", "--json").out == ""


def test_a_score_of_one_column_is_called_as_the_column_is(
    monkeypatch, capsys, tmp_path
):
    """prob_positive was 'prob', and the word behind it the names of the classes, of which it said there are none."""
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text(TEXTS["reviews.csv"], "utf-8")
    run = runner(monkeypatch, capsys)
    assert run("inspect", "reviews.csv", "--labels", "sentiment").out.startswith(
        "Read reviews.csv:dev: 120 samples, 2 classes"
        " ('prob_positive' as probs, 'sentiment', 'split').\n"
    )
    listed = run("run", "reviews.csv").line
    assert (
        "prediction (predictions?), sentiment (labels?), prob_positive (probabilities?)"
        in listed
    )


def test_what_is_made_of_an_hdf5_file_does_not_go_onto_it(
    monkeypatch, capsys, tmp_path
):
    """-o was the file itself, which is never overwritten."""
    monkeypatch.chdir(tmp_path)
    with h5py.File("run.h5", "w") as file:
        for part in ("valid", "test"):
            file[f"{part}/predictions"], file[f"{part}/targets"] = (
                np.log(P / (1 - P)),
                Y,
            )
    run = runner(monkeypatch, capsys)
    advised = run("evaluate", "run.h5").line.partition("to try: ")[2]
    assert run(*shlex.split(advised)[1:]).code == 0, advised
    with h5py.File("run.bundles.h5") as file:
        assert sorted(file) == ["test", "valid"]


def test_a_probability_beside_two_words_is_read_as_a_column_of_unknown_name_is(
    monkeypatch, capsys, tmp_path
):
    """``forecast,rain`` was read, ``prob,diagnosis`` refused."""
    monkeypatch.chdir(tmp_path)
    full = TEXTS["empty risk.csv"].replace("\n,", "\n0.5,")
    Path("risk.csv").write_text(full, "utf-8")
    run = runner(monkeypatch, capsys)
    done = run("extract", "risk.csv", "-o", "risk.h5")
    assert done.code == 0, done.err
    with h5py.File("risk.h5") as file:
        assert np.array_equal(file["labels"], Y)


def test_scores_without_a_complete_row_are_refused_in_a_sentence(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    rows = []
    for i, (q, c) in enumerate(zip(Q.tolist(), C, strict=True)):
        q[i % 3] = ""
        rows.append((c, *q, i % 50))
    Path("gaps.csv").write_text(table("y,a,b,c,age", rows))
    done = runner(monkeypatch, capsys)("extract", "gaps.csv", "-o", "gaps.h5")
    assert done.code == 3 and "holds no array named logits" in done.line


def test_inspect_names_no_command_that_lacks_the_labels(monkeypatch, capsys, tmp_path):
    """Its command was tried without labels, and refused for them when pasted."""
    monkeypatch.chdir(tmp_path)
    Path("risk.csv").write_text(TEXTS["empty risk.csv"], "utf-8")
    run = runner(monkeypatch, capsys)
    line = run("inspect", "risk.csv").err.splitlines()[-1]
    command = line.partition("to try: ")[2].partition(" && ")[0]
    if command:
        assert run(*shlex.split(command)[1:]).code == 0
    else:
        assert "no command is proposed, as it would end in: " in line


TWO_MODELS = table(
    "y,model_a,model_b",
    ((y, p, round(p**2, 4)) for p, y in zip(P, Y, strict=True)),
)


@pytest.mark.parametrize("command", ["evaluate", "run"])
def test_each_of_two_models_in_a_table_gets_a_command(
    command, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    Path("two.csv").write_text(TWO_MODELS, "utf-8")
    run = runner(monkeypatch, capsys)
    line = run(command, "two.csv").err.splitlines()[-1]
    assert len(line) <= 300
    for each in line.partition("to try: ")[2].split(" && "):
        done = run(*shlex.split(each)[1:])
        assert done.code == 0, done.err
    for model, scores in (("model_a", P), ("model_b", (P**2).round(4))):
        with h5py.File(f"two.{model}.h5") as file:
            assert np.allclose(file["probs"][:].reshape(N, -1)[:, -1], scores)
            assert np.array_equal(file["labels"], Y)
        assert (command == "run") == Path(f"two.{model}.auto.json").exists()


MODELS_OF_CLASSES = {
    "prefix": (["resnet_{}", "vit_{}"], "probs"),
    "suffix": (["{} (1st)", "{} (2nd)"], "probs"),
    "three": (["a.{}", "b.{}", "c.{}"], "probs"),
    "logits": (["first {}", "second {}"], "logits"),
}


@pytest.mark.parametrize("name", MODELS_OF_CLASSES)
def test_columns_named_by_model_and_class_are_no_scores_of_the_last_model(
    name, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    patterns, kind = MODELS_OF_CLASSES[name]
    words = ["cat", "dog", "eel"]
    headers = ["label"]
    scores = []
    for number, pattern in enumerate(patterns):
        headers += [pattern.format(word) for word in words]
        powers = Q ** (number + 1)
        scores.append(powers / powers.sum(axis=1, keepdims=True))
        if kind == "logits":
            scores[-1] = 3 * np.log(scores[-1]) + number
    labels = [words[label] for label in C]
    rows = zip(labels, *np.concatenate(scores, axis=1).T, strict=True)
    Path("models.csv").write_text(table(",".join(headers), rows), "utf-8")
    run = runner(monkeypatch, capsys)
    done = run("run", "models.csv")
    assert done.code != 0
    line = done.err.splitlines()[-1]
    assert ("are scores of a model each" in line) == (len(patterns) == 2)
    assert ("holds 3 arrays of scores side by side: " in line) == (len(patterns) == 3)
    commands = line.partition("to try: ")[2].split(" && ")
    for command in commands:
        again = run(*shlex.split(command)[1:])
        assert again.code == 0, again.err
    n_read = 2 if len(patterns) == 2 else 1
    assert len(commands) == 2 * n_read
    outputs = sorted(Path().glob("models.*.h5"))
    assert len(outputs) == n_read
    for path, expected in zip(outputs, scores, strict=False):
        with h5py.File(path) as file:
            assert np.allclose(file[kind], expected)


@pytest.mark.parametrize("key", ["reference", "answer_key", "expected", "ideal"])
@pytest.mark.parametrize("given", ["answer", "response", "model_answer"])
@pytest.mark.parametrize("n_answers", [4, 10**6])
def test_stated_confidences_beside_an_answer_and_a_key(
    n_answers, given, key, monkeypatch, capsys, tmp_path
):
    """n_answers : a few classes, or free texts that nearly all differ."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    keys = rng.integers(n_answers, size=N)
    answers = np.where(rng.random(N) < 0.6, keys, rng.integers(n_answers, size=N))
    sure = rng.integers(50, 100, size=N)
    rows = []
    for row in range(N):
        texts = (f"answer {answers[row]}", f"answer {keys[row]}", f"{sure[row]}%")
        rows.append((f"q {row}", *texts))
    Path("log.csv").write_text(table(f"question,{given},{key},confidence", rows))
    run = runner(monkeypatch, capsys)
    line = run("evaluate", "log.csv").err.splitlines()[-1]
    command = line.partition("to try: ")[2].partition(" && ")[0]
    done = run(*shlex.split(command)[1:])
    assert done.code == 0, done.err
    with h5py.File("log.h5") as file:
        assert np.allclose(file["confidence"][:], sure / 100)
        assert np.array_equal(file["correct"][:], answers == keys)


LABELS_WITHOUT_COMMAND = {
    "soft": (Q, "fractions name no class"),
    "numbers": (RNG.random(N) * 3, "labels are classes counted from 0"),
    "words": (np.array(["cat", "dog", "eel"])[C], "nothing tells the column of each"),
}


@pytest.mark.parametrize("name", LABELS_WITHOUT_COMMAND)
@pytest.mark.parametrize("command", ["evaluate", "extract", "run"])
def test_labels_that_no_command_reads_say_why(
    command, name, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    labels, reason = LABELS_WITHOUT_COMMAND[name]
    np.savez("scores.npz", logits=Z, labels=labels)
    run = runner(monkeypatch, capsys)
    output = ("-o", "out.h5") if command == "extract" else ()
    line = run(command, "scores.npz", *output).err.splitlines()[-1]
    assert len(line) <= 300
    assert "no command is proposed, as " in line
    assert reason in line
    assert "makes a bundle of it" not in line


def test_labels_of_which_several_hold_are_read_one_by_one(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    np.savez("scores.npz", logits=Z, labels=(Q > 0.2).astype(int))
    run = runner(monkeypatch, capsys)
    line = run("evaluate", "scores.npz").err.splitlines()[-1]
    command = line.partition("to try: ")[2]
    assert "--per-label" in command
    done = run(*shlex.split(command)[1:])
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("x", "y", "z"), "nothing tells the column of each label (x, y, z)"),
        (("p_cat", "p_dog", "eel"), "the file has to be corrected"),
        (("w", "x", "y", "z"), "4 labels are more than 3 classes"),
    ],
)
def test_words_that_name_no_column_say_what_to_do(
    words, reason, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    labels = [words[i % len(words)] for i in range(N)]
    text = table("p_cat,p_dog,p_cow,label", zip(*Q.T, labels, strict=True))
    Path("words.csv").write_text(text, "utf-8")
    line = runner(monkeypatch, capsys)("evaluate", "words.csv").err.splitlines()[-1]
    assert f"no command is proposed, as {reason}" in line


def test_intersections_of_named_columns_are_no_column_of_the_file(run, tmp_path):
    sites = np.tile(["a", "b"], N // 2)
    sexes = np.repeat(["c", "d"], N // 2)
    rows = zip(P, Y, sites, sexes, strict=True)
    path = tmp_path / "a.csv"
    path.write_text(table("risk,died,site,sex", rows))
    options = ["--scores", "risk", "--labels", "died"]
    done = run("run", str(path), *options, "--group-by", "site", "--group-by", "sex")
    assert done.code == 2
    assert "site (groups?), sex (groups?); to try" in done.err


def test_whole_numbers_and_other_columns_are_no_scores_for_advice(
    monkeypatch, capsys, tmp_path
):
    """Votes are no logits, and a confidence beside logits is not taken for the scores."""
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    rows = ((i % 3, (i + y) % 3, i % 2, y) for i, y in enumerate(Y))
    Path("votes.csv").write_text(table("answers_0,answers_1,answers_2,gold", rows))
    refused = run("extract", "votes.csv", "-o", "new.h5")
    assert refused.code == 2 and "answers (" not in refused.line, refused.line
    assert "no command is proposed, as none of these looks like scores" in refused.line
    words = np.array(["cat", "dog", "cow"])[C]
    np.savez("both.npz", logits=Z, sure=0.5 + P / 2, words=words)
    refused = run("extract", "both.npz", "-o", "new.h5")
    assert refused.code == 3 and "found no labels for 'logits'" in refused.line
    assert "words: labels are words" in refused.line, refused.line


def test_words_that_are_always_the_largest_score_are_no_labels_for_advice(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    names = np.array(["cat", "dog", "cow"])
    rows = zip(*Q.T, names[Q.argmax(axis=1)], P, strict=True)
    Path("a.csv").write_text(table("p_cat,p_dog,p_cow,reply,score", rows))
    refused = runner(monkeypatch, capsys)("extract", "a.csv", "-o", "new.h5")
    assert refused.code in (2, 3) and "reply (predictions?)" in refused.line
    assert "--labels reply" not in refused.line
