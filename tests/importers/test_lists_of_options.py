"""Records that list options in an order of their own, tokens, and numbers as texts.

Labels are drawn from the probabilities; accuracy and NLL are those of the arrays that
were written.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from drawn_tables import N, assert_read, drawn

NAMES = ["billing", "shipping", "technical"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def lines(rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    Path("log.jsonl").write_text(text, "utf-8")
    return "log.jsonl"


def orders():
    rng = np.random.default_rng(9)
    return [rng.permutation(3) for _ in range(N)]


@pytest.mark.parametrize("words", [(), ("--labels", "answer")], ids=["found", "named"])
def test_labels_may_be_places_in_the_options_of_their_row(run, words):
    p, y = drawn(3)
    rows = []
    for i, order in enumerate(orders()):
        options = [NAMES[k] for k in order]
        place = int(np.flatnonzero(order == y[i])[0])
        rows.append(
            {"options": options, "probs": p[i, order].tolist(), "answer": place}
        )
    name = lines(rows)
    done = run("evaluate", name, *words, "--json")
    assert done.code == 0, done.err
    assert "'answer' are places in 'probs' of the row" in done.err
    (result,) = json.loads(done.out)["results"]
    right = (p.argmax(axis=1) == y).mean()
    assert result["metrics"]["accuracy"]["value"] == right


def test_labels_of_unclear_order_are_asked_about(run):
    """Labels that follow neither the row's list nor the names in order."""
    p, _ = drawn(3)
    y = np.random.default_rng(4).integers(0, 3, N).tolist()
    rows = []
    for i, order in enumerate(orders()):
        options = [NAMES[k] for k in order]
        rows.append({"options": options, "probs": p[i, order].tolist(), "label": y[i]})
    done = run("evaluate", lines(rows))
    assert done.code == 3
    assert "write the class itself if they count the list of their row" in done.err


@pytest.mark.parametrize("others", [[], ["The"]], ids=["letters", "other token"])
def test_top_tokens_may_be_a_list(run, others):
    p, y = drawn(3)
    rows = []
    for i in range(N):
        tokens = []
        for k in np.argsort(-p[i]):
            tokens.append({"token": " " + "ABC"[k], "logprob": float(np.log(p[i, k]))})
        tokens += [{"token": token, "logprob": -20.0} for token in others]
        rows.append({"top_logprobs": tokens, "answer": "ABC"[y[i]]})
    assert_read(run, lines(rows), p, y)


@pytest.mark.parametrize("keys", [("option", "p"), ("choice", "proba")])
def test_pairs_may_be_called_options(run, keys):
    p, y = drawn(3)
    rows = []
    for i in range(N):
        pairs = zip(NAMES, p[i].tolist(), strict=True)
        choices = [dict(zip(keys, pair, strict=True)) for pair in pairs]
        rows.append({"choices": choices, "gold": NAMES[y[i]]})
    assert_read(run, lines(rows), p, y)


def test_probabilities_may_be_texts(run):
    p, y = drawn(3)
    rows = []
    for i in range(N):
        texts = dict(zip(NAMES, map(str, p[i].tolist()), strict=True))
        rows.append({"probabilities": texts, "label": NAMES[y[i]]})
    assert_read(run, lines(rows), p, y)
