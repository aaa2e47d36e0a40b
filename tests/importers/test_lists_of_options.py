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


def sorted_by_score(p, y):
    """Lists of options with the likeliest first in all rows but one."""
    rows = []
    for i in range(N):
        order = np.argsort(-p[i])
        if i == 0:
            order = order[::-1]
        pairs = [{"label": ["safe", "unsafe"][k], "score": p[i, k]} for k in order]
        rows.append({"scores": pairs, "label": int(y[i])})
    return lines(rows)


@pytest.mark.parametrize("order", [("safe", "unsafe"), ("unsafe", "safe")])
def test_the_named_order_of_classes_is_that_of_the_labels(run, order):
    """Also where rows are sorted by score, and 0 is the first place of most."""
    p, y = drawn(2)
    named = y if order[0] == "safe" else 1 - y
    name = sorted_by_score(p, named)
    words = ("--class-names", ",".join(order), "-o", "scores.h5")
    assert run("extract", name, *words).code == 0
    done = run("evaluate", "scores.h5", "--json")
    (result,) = json.loads(done.out)["results"]
    assert result["metrics"]["accuracy"]["value"] == (p.argmax(axis=1) == y).mean()


@pytest.mark.parametrize("is_swapped", [True, False])
def test_rows_sorted_by_score_leave_the_order_of_classes_open(run, is_swapped):
    p, y = drawn(2)
    done = run("evaluate", sorted_by_score(p, 1 - y if is_swapped else y))
    assert done.code == 3
    assert "are numbers" in done.err
    assert "--class-names safe,unsafe" in done.err


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
