"""Chat completions without a word on what their answers are: read, or refused with a command that works."""

import json
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest

LONGEST_REFUSAL = 300
N = 60


def chat_log(names, label=None, *, top=20, before=(), with_ids=True, free=False):
    """Chat completions that name one class each; returns the true classes.

    label : function of the true class for the label beside a response, whose None is no
    label. before : words before the class. free : texts that are no classes.
    """
    rng = np.random.default_rng(8)
    log_p = np.log(rng.dirichlet(np.ones(len(names)), N))
    truth = np.array([rng.choice(len(names), p=np.exp(row)) for row in log_p])
    lines = []
    for place, row in enumerate(log_p):
        order = np.argsort(-row)[:top]
        listed = [
            {"token": names[c], "logprob": float(row[c]), "bytes": None} for c in order
        ]
        words = [
            {"token": word, "logprob": -0.1, "bytes": None, "top_logprobs": []}
            for word in (*before, *([f" city {place}"] if free else []))
        ]
        content = [*words, {**listed[0], "top_logprobs": listed}]
        text = "".join(entry["token"] for entry in content)
        body = {
            "id": f"chatcmpl-{place}",
            "object": "chat.completion",
            "choices": [
                {"message": {"content": text}, "logprobs": {"content": content}}
            ],
        }
        record = {"id": f"q{place}", "response": body} if with_ids else body
        value = None if label is None else label(truth[place])
        if value is not None:
            record["label"] = value
        lines.append(json.dumps(record))
    Path("log.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return truth


def labels_of(name):
    with h5py.File(name) as file:
        return file["labels"][()]


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (list("ABCD"), lambda c: "ABCD"[c]),
        (["no", "yes"], lambda c: ["No", "Yes"][c]),
        (list("12345"), lambda c: int(c) + 1),
        (["bad", "fair", "good"], lambda c: ["bad", "fair", "good"][c]),
    ],
    ids=["letters", "other case", "digits", "words"],
)
@pytest.mark.parametrize("before", [(), ("The", " answer", " is ")])
def test_labels_among_the_tokens_prove_the_classes(run, names, label, before):
    truth = chat_log(names, label, before=before)
    done = run("extract", "log.jsonl", "-o", "log.h5")
    assert done.code == 0, done.err
    assert np.array_equal(labels_of("log.h5"), truth)
    assert run("run", "log.jsonl", "-m", "ts", "-o", "out").code == 0


@pytest.mark.parametrize(
    ("names", "label", "top"),
    [
        (list("ABCD"), lambda c: int(c), 20),
        (["No", "Yes"], lambda c: bool(c), 20),
        (list("ABCD"), lambda c: "ABCD"[c], 2),
    ],
    ids=["class index", "truth", "few tokens listed"],
)
def test_what_labels_do_not_prove_ends_with_a_command(run, names, label, top):
    truth = chat_log(names, label, top=top)
    refused = run("extract", "log.jsonl", "-o", "log.h5")
    assert refused.code == 3
    assert len(refused.line) <= LONGEST_REFUSAL
    command = shlex.split(refused.line.partition("to try: ")[2])
    assert run(*command[1:]).code == 0
    assert np.array_equal(labels_of("log.h5"), truth)


def test_answers_without_a_label_are_left_out_by_the_command(run):
    """--drop-missing had no effect on such logs."""
    truth = chat_log(list("ABCD"), lambda c: "ABCD"[c] if c else None)
    refused = run("run", "log.jsonl", "-m", "ts", "-o", "out")
    extract, again = refused.line.partition("to try: ")[2].split(" && ")
    assert " --drop-missing -o log.h5" in extract
    assert run(*shlex.split(extract)[1:]).code == 0
    assert np.array_equal(labels_of("log.h5"), truth[truth > 0])
    assert run(*shlex.split(again)[1:]).code == 0


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("free", [True, False], ids=["texts", "letters"])
def test_without_right_answers_the_command_names_the_file_to_write(run, with_ids, free):
    truth = chat_log(list("ABC"), with_ids=with_ids, free=free)
    refused = run("evaluate", "log.jsonl")
    assert refused.code == 3
    assert len(refused.line) <= LONGEST_REFUSAL
    command = shlex.split(refused.line.rpartition("): ")[2])
    rows = [f"q{place},{'ABC'[c]}" for place, c in enumerate(truth)]
    head = "id,label"
    if not with_ids:
        head, rows = "label", [row.partition(",")[2] for row in rows]
    Path("NEW.csv").write_text("\n".join([head, *rows]) + "\n", "utf-8")
    done = run(*command[1:])
    assert done.code == 0, done.err
    if not free:
        assert np.array_equal(labels_of("log.h5"), truth)


def test_scores_alone_are_enough_to_inspect(run):
    chat_log(list("ABC"))
    refused = run("inspect", "log.jsonl")
    command = shlex.split(refused.line.partition("to try: ")[2])
    assert command[-4:-2] == ["--labels", "none"]
    assert run(*command[1:]).code == 0


def test_answers_without_log_probabilities_end_with_what_to_ask_for(run):
    body = {"choices": [{"message": {"content": "A"}, "logprobs": None}]}
    Path("log.jsonl").write_text(json.dumps(body) + "\n", "utf-8")
    assert run("run", "log.jsonl").line == (
        "calcli: log.jsonl: has no token log-probabilities; ask the server for them"
        " with logprobs=true, top_logprobs=20; no command is proposed, as the log does"
        " not hold them"
    )


def test_a_label_that_no_answer_lists_is_no_class(run):
    """A slip of one label in 60 made a class of its own."""
    chat_log(list("ABCD"), lambda c: "ABCD"[c])
    lines = Path("log.jsonl").read_text().splitlines()
    slip = {**json.loads(lines[7]), "label": "Z"}
    Path("log.jsonl").write_text("\n".join([*lines[:7], json.dumps(slip), *lines[8:]]))
    done = run("evaluate", "log.jsonl")
    assert done.code == 3
    assert "--class-names A,B,C,D,Z" in done.err
