"""Answers drawn several times to each question: long, wide, in lists, with their gold beside them or elsewhere."""

import json

import numpy as np
import pytest
from imports import bring

from calcli.errors import DataError, UsageError

ANSWERS = [list("AABAC"), list("BBBBB"), list("CDCDE")]
GOLD = ["A", "A", "C"]
# (votes + 1/2) / (k + 1) of k = 5: A has 3, B has 5, C has 2 and came before D
CONFIDENCE, CORRECT = [3.5 / 6, 5.5 / 6, 2.5 / 6], [True, False, True]
LONG = [
    (f"q{i}", "xy"[i % 2], answer, GOLD[i]) for i in range(3) for answer in ANSWERS[i]
]


def csv(path, header, rows):
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in (header, *rows)))
    return path


def shuffled_rows():
    """Rows of three questions in an order of their own, the questions mixed."""
    order = np.random.default_rng(0).permutation(15)
    rows = []
    for question in ("q0", "q1", "q2"):
        rows += [LONG[place] for place in order if LONG[place][0] == question]
    return [row for first in range(5) for row in rows[first::5]]


def wide_table(folder):
    names = [f"answers_{j}" for j in range(5)]
    rows = [(*FACTS[i], *ANSWERS[i], GOLD[i]) for i in range(3)]
    return csv(folder / "a.csv", ("question", "site", *names, "gold"), rows)


def table_of_lists(folder):
    lines = []
    for (question, site), answers, gold in zip(FACTS, ANSWERS, GOLD, strict=True):
        row = {"question": question, "site": site, "answers": answers, "gold": gold}
        lines.append(json.dumps(row) + "\n")
    path = folder / "a.jsonl"
    path.write_text("".join(lines))
    return path


def archive(folder):
    questions, sites = zip(*FACTS, strict=True)
    path = folder / "a.npz"
    np.savez(path, answers=ANSWERS, gold=GOLD, question=questions, site=sites)
    return path


FACTS = [(f"q{i}", "xy"[i % 2]) for i in range(3)]
"""Question and site of the three questions."""

ONE_ROW_A_QUESTION = {"ids": "question", "group_by": ["site"]}
ONE_ROW_AN_ANSWER = {"unit": "question", "group_by": ["site"]}


@pytest.fixture(params=["long", "shuffled", "wide", "lists", "npz", "from a file"])
def table(request, tmp_path):
    """A file of the answers, and what to say of it."""
    header = ("question", "site", "answers", "gold")
    match request.param:
        case "long":
            return csv(tmp_path / "a.csv", header, LONG), ONE_ROW_AN_ANSWER
        case "shuffled":
            return csv(tmp_path / "a.csv", header, shuffled_rows()), ONE_ROW_AN_ANSWER
        case "wide":
            return wide_table(tmp_path), ONE_ROW_A_QUESTION
        case "lists":
            return table_of_lists(tmp_path), ONE_ROW_A_QUESTION
        case "npz":
            return archive(tmp_path), ONE_ROW_A_QUESTION
    golds = [("q2", "C"), ("q1", "A"), ("q0", "A")]
    key = csv(tmp_path / "key.csv", ("id", "answer"), golds)
    answers = [row[:3] for row in LONG]
    path = csv(tmp_path / "a.csv", ("id", "site", "answers"), answers)
    return path, {"unit": "id", "group_by": ["site"], "gold": str(key)}


def test_the_most_frequent_answer_of_every_layout(table, out):
    path, how = table
    if path.suffix == ".csv" and "gold" in how:
        how = how | {"unit": None}
    imported = bring(path, out, votes="answers", **({"gold": "gold"} | how))
    np.testing.assert_allclose(np.sort(imported["confidence"]), np.sort(CONFIDENCE))
    ids = [word.decode() for word in imported["ids"]]
    by_id = dict(zip(ids, imported["confidence"], strict=True))
    assert by_id["q0"] == pytest.approx(CONFIDENCE[0])
    assert by_id["q1"] == pytest.approx(CONFIDENCE[1])
    if "shuffled" not in str(path):
        right = dict(
            zip(
                (word.decode() for word in imported["ids"]),
                imported["correct"].tolist(),
                strict=True,
            )
        )
        assert (right["q0"], right["q1"]) == (True, False)
    assert sorted(imported["group"].tolist()) == [b"x", b"x", b"y"]
    assert (
        "3 questions of 5 answers each; the confidence is (votes + 1/2)/(k + 1)"
        in imported["notes"]
    )


def test_numbers_ties_and_several_columns_by_their_ends(tmp_path, out):
    rows = [(1.0, 2, 2, 1, 1), (3, 3, 3, 4, 3)]
    path = csv(tmp_path / "a.csv", ("first", "b", "c", "last", "gold"), rows)
    imported = bring(path, out, votes="first:last", gold="gold")
    np.testing.assert_allclose(imported["confidence"], [2.5 / 5, 3.5 / 5])
    assert imported["correct"].tolist() == [True, True]


def test_one_answer_each_is_said_in_the_singular(tmp_path, out):
    """It was "of 1 answers each"."""
    rows = [("a", "x", "x"), ("b", "y", "x")]
    path = csv(tmp_path / "a.csv", ("q", "answers", "gold"), rows)
    imported = bring(path, out, votes="answers", gold="gold", unit="q")
    assert "2 questions of 1 answer each; the confidence" in imported["notes"]


def test_what_is_missing_is_said(tmp_path, out):
    path = csv(
        tmp_path / "a.csv", ("q", "answers", "gold"), [("a", "x", "x"), ("a", "y", "y")]
    )
    with pytest.raises(UsageError, match="which rows are one question. --unit COLUMN"):
        bring(path, out, votes="answers", gold="gold")
    with pytest.raises(DataError, match="question 'a' has several right answers"):
        bring(path, out, votes="answers", gold="gold", unit="q")
    with pytest.raises(
        UsageError,
        match="--gold COLUMN names the right answer to each question: leave --confidence, --correct and",
    ):
        bring(path, out, votes="answers", correct="gold", percent=True, unit="q")
    with pytest.raises(
        UsageError,
        match="no column of answers is named 'votes'; valid names: answers, gold",
    ):
        bring(path, out, votes="votes", gold="gold", unit="q")
