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


@pytest.fixture(params=["long", "shuffled", "wide", "lists", "npz", "from a file"])
def table(request, tmp_path):
    """A file of the answers, and what to say of it."""
    header = ("question", "site", "answers", "gold")
    if request.param in ("long", "shuffled"):
        order = (
            np.random.default_rng(0).permutation(15)
            if request.param == "shuffled"
            else range(15)
        )
        rows = [
            row
            for q in range(3)
            for row in [LONG[i] for i in order if LONG[i][0] == f"q{q}"]
        ]
        rows = (
            [row for answer in range(5) for row in rows[answer::5]]
            if request.param == "shuffled"
            else rows
        )
        return csv(tmp_path / "a.csv", header, rows), {
            "unit": "question",
            "group_by": ["site"],
        }
    wide = [(f"q{i}", "xy"[i % 2], *ANSWERS[i], GOLD[i]) for i in range(3)]
    if request.param == "wide":
        names = [f"answers_{j}" for j in range(5)]
        return csv(tmp_path / "a.csv", ("question", "site", *names, "gold"), wide), {
            "ids": "question",
            "group_by": ["site"],
        }
    about = {"question": [row[0] for row in wide], "site": [row[1] for row in wide]}
    if request.param == "npz":
        np.savez(tmp_path / "a.npz", answers=ANSWERS, gold=GOLD, **about)
        return tmp_path / "a.npz", {"ids": "question", "group_by": ["site"]}
    if request.param == "lists":
        rows = [
            {"question": row[0], "site": row[1], "answers": ANSWERS[i], "gold": GOLD[i]}
            for i, row in enumerate(wide)
        ]
        (tmp_path / "a.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
        return tmp_path / "a.jsonl", {"ids": "question", "group_by": ["site"]}
    key = csv(
        tmp_path / "key.csv",
        ("id", "answer"),
        list(zip(about["question"], GOLD, strict=True))[::-1],
    )
    found = csv(
        tmp_path / "a.csv", ("id", "site", "answers"), [row[:3] for row in LONG]
    )
    return found, {"unit": "id", "group_by": ["site"], "gold": str(key)}


def test_the_most_frequent_answer_of_every_layout(table, out):
    path, how = table
    if path.suffix == ".csv" and "gold" in how:
        how = how | {"unit": None}
    imported = bring(path, out, votes="answers", **({"gold": "gold"} | how))
    np.testing.assert_allclose(np.sort(imported["confidence"]), np.sort(CONFIDENCE))
    by_id = dict(
        zip(
            (word.decode() for word in imported["ids"]),
            imported["confidence"],
            strict=True,
        )
    )
    assert by_id["q0"] == pytest.approx(CONFIDENCE[0]) and by_id["q1"] == pytest.approx(
        CONFIDENCE[1]
    )
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
