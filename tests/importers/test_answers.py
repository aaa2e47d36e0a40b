"""Answers and right answers are compared by their value, in every layout and format."""

import csv
import json

import h5py
import numpy as np
import pytest
from imports import bring

from calcli.errors import DataError

N = 12
EQUAL = [
    (True, True),
    (True, "true"),
    ("true", "True"),
    (True, 1),
    (1, "1"),
    (1.0, "1"),
    ("1.0", 1),
    ("1.50", 1.5),
    (2**53 + 1, str(2**53 + 1)),
    ("Paris", " Paris "),
]
OTHER = [
    (True, False),
    (2**53, 2**53 + 1),
    ("007", 7),
    ("1_0", 10),
    ("a", "A"),
    ("10", "010"),
]


def rows_as(path, rows):
    """A file of these rows, objects with the same keys."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def ending(request):
    return request.param


@pytest.mark.parametrize("same", [True, False])
def test_an_answer_and_a_truth_of_two_types(ending, same, tmp_path, out):
    """Half of the rows answer, half the opposite: 1 is right, wherever it is written."""
    for answer, truth in EQUAL if same else OTHER:
        for a, b in ((answer, truth), (truth, answer)):
            rows = [{"conf": 0.5, "a": a, "b": b} for _ in range(N)]
            path = rows_as(tmp_path / f"a.{ending}", rows)
            imported = bring(path, out, confidence="conf", correct="a=b")
            assert imported["correct"].tolist() == [same] * N, (a, b)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("layout", ["lists", "wide", "long"])
def test_votes_of_another_type_than_the_gold(layout, same, tmp_path, out):
    for answer, truth in EQUAL if same else OTHER:
        row = {"answers": [answer, answer, "other"], "gold": truth}
        rows, ask = [row] * N, {}
        if layout == "wide":
            numbered = {f"answers_{i}": cell for i, cell in enumerate(row["answers"])}
            rows = [{**numbered, "gold": truth}] * N
        if layout == "long":
            rows = [
                {"q": q, "answers": cell, "gold": truth}
                for q in range(N)
                for cell in row["answers"]
            ]
            ask = {"unit": "q"}
        for ending in ("jsonl", "csv"):
            path = rows_as(tmp_path / f"a.{ending}", rows)
            imported = bring(path, out, votes="answers", gold="gold", **ask)
            assert imported["correct"].tolist() == [same] * N, (ending, answer, truth)
            np.testing.assert_allclose(imported["confidence"], 2.5 / 4)


def test_the_gold_of_another_file_and_type(ending, tmp_path, out):
    for answer, truth in EQUAL:
        rows = [{"id": i, "conf": 0.5, "answer": answer} for i in range(N)]
        path = rows_as(tmp_path / f"a.{ending}", rows)
        golds = [{"id": str(i), "target": truth} for i in range(N)]
        key = rows_as(tmp_path / "key.jsonl", golds)
        ask = {"confidence": "conf", "correct": "answer=gold", "gold": str(key)}
        assert bring(path, out, **ask)["correct"].all(), (answer, truth)


def test_two_golds_of_an_id_agree_by_their_value(tmp_path, out):
    path = rows_as(tmp_path / "a.csv", [{"id": 1, "conf": 0.5, "answer": "1"}] * 2)
    ask = {"confidence": "conf", "correct": "answer=gold", "drop_duplicates": False}
    ask |= {"ids": "none"}
    key = rows_as(
        tmp_path / "key.jsonl", [{"id": 1, "gold": 1}, {"id": 1, "gold": "1.0"}]
    )
    ask["ids"] = None
    imported = bring(path, out, gold=str(key), unit="id", **ask)
    assert imported["correct"].all()
    rows_as(key, [{"id": 1, "gold": 1}, {"id": 1, "gold": 2}])
    with pytest.raises(DataError, match="id '1' has several answers"):
        bring(path, out, gold=str(key), unit="id", **ask)


@pytest.mark.parametrize("right", [True, False])
def test_all_or_none_right_is_doubted_aloud(right, tmp_path, run):
    rows = [{"conf": 0.5, "a": "yes", "b": "yes" if right else "Yes"} for _ in range(N)]
    rows_as(tmp_path / "a.csv", rows)
    words = ("--confidence", "conf", "--correct", "a=b", "-o", "a.h5")
    done = run("extract", "a.csv", *words)
    assert done.code == 0
    assert f"warning: a.csv: {N if right else 0} of 12 answers are right" in done.err
    rows_as(tmp_path / "b.csv", [*rows, {"conf": 0.5, "a": "x", "b": "yx"[right]}][:4])
    assert "warning" not in run("extract", "b.csv", *words, "--force").err  # few rows


def test_lists_of_different_lengths_are_the_same_in_json_and_csv(tmp_path, out):
    lists = [["a", "b", "a"], ["b"], ["a", "a"]] * 4
    rows = [{"answers": cell, "gold": "a"} for cell in lists]
    imported = bring(
        rows_as(tmp_path / "a.jsonl", rows), out, votes="answers", gold="gold"
    )
    printed = [{"answers": str(cell), "gold": "a"} for cell in lists]
    path = rows_as(tmp_path / "a.csv", printed)
    from_csv = bring(path, out, votes="answers", gold="gold")
    for name in ("confidence", "correct"):
        assert np.array_equal(imported[name], from_csv[name])
    # (votes + 1/2) / (k + 1): 2 of 3, 1 of 1, 2 of 2
    np.testing.assert_allclose(imported["confidence"][:3], [2.5 / 4, 1.5 / 2, 2.5 / 3])
    assert imported["correct"].tolist() == [True, False, True] * 4
    assert "12 questions of 1 to 3 answers each" in imported["notes"]


def test_a_tie_goes_to_the_first_by_name_in_whatever_order_they_come(tmp_path, out):
    for answers, first in ((["b", "a"], "a"), (["10", "9"], "9"), (["x", 2], "2")):
        for order in (answers, answers[::-1]):
            rows = [{"answers": [*map(str, order)], "gold": first}] * N
            path = rows_as(tmp_path / "a.jsonl", rows)
            imported = bring(path, out, votes="answers", gold="gold")
            assert imported["correct"].all(), order
            assert (
                "12 with a tie take the answer that is first in the alphabet"
                in imported["notes"]
            )


def test_shuffled_rows_have_the_same_votes(tmp_path, run):
    rng = np.random.default_rng(0)
    rows = [
        {
            "q": f"q{i % 40}",
            "answers": "abc"[rng.integers(3)],
            "gold": "abc"[i % 40 % 3],
        }
        for i in range(160)
    ]
    seen = []
    for order in (range(160), rng.permutation(160)):
        rows_as(tmp_path / "a.csv", [rows[i] for i in order])
        words = ("--votes", "answers", "--gold", "gold", "--unit", "q", "--force")
        assert run("extract", "a.csv", *words, "-o", "a.h5").code == 0
        with h5py.File("a.h5") as file:
            columns = [
                file[name][()].tolist() for name in ("ids", "confidence", "correct")
            ]
        seen.append(sorted(zip(*columns, strict=True)))
    assert seen[0] == seen[1]


def test_answers_that_are_numbers_are_no_classes_counted_from_one(tmp_path, out):
    rows = [
        {"a1": 1 + i % 2, "a2": 1 + i % 2, "a3": 1, "gold": 1 + i % 2} for i in range(N)
    ]
    imported = bring(rows_as(tmp_path / "a.csv", rows), out, votes="a1:a3", gold="gold")
    assert imported["correct"].all()


def test_a_blank_vote_counts_as_an_answer_and_never_wins(ending, tmp_path, out):
    cells = [[None, None, "a"], ["b", None, "b"]] * 6
    rows = [
        {**{f"answers_{i}": cell for i, cell in enumerate(row)}, "gold": "a"}
        for row in cells
    ]
    path = rows_as(tmp_path / f"a.{ending}", rows)
    imported = bring(path, out, votes="answers", gold="gold")
    np.testing.assert_allclose(imported["confidence"][:2], [1.5 / 4, 2.5 / 4])
    assert imported["correct"].tolist() == [True, False] * 6


def test_an_empty_answer_or_truth_is_refused_with_its_row(ending, tmp_path, out):
    for name in ("a", "b"):
        rows = [{"conf": 0.5, "a": "x", "b": "x"} for _ in range(N)]
        rows[3][name] = None
        path = rows_as(tmp_path / f"a.{ending}", rows)
        told = f"column '{name}' is empty in row 3"
        with pytest.raises(DataError, match=told):
            bring(path, out, confidence="conf", correct="a=b")
        imported = bring(path, out, confidence="conf", correct="a=b", drop_missing=True)
        assert len(imported["correct"]) == N - 1


def test_labels_of_another_file_name_classes_by_their_value(tmp_path, out):
    """true is the class True, 1 the class 1.0: as answers are compared."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), N)
    for names, truths in (
        (("False", "True", "None of it"), ["true", "false", "None of it"] * 4),
        (("1.0", "7.50", "x"), ["1", "7.5", "x"] * 4),
    ):
        rows = [
            {"id": i, **{f"prob_{n}": q for n, q in zip(names, p[i], strict=True)}}
            for i in range(N)
        ]
        key = rows_as(
            tmp_path / "key.jsonl",
            [{"id": i, "label": truths[i]} for i in range(N)],
        )
        path = rows_as(tmp_path / "a.csv", rows)
        imported = bring(path, out, gold=str(key))
        expected = [1, 0, 2] * 4 if names[0] == "False" else [0, 1, 2] * 4
        assert imported["labels"].tolist() == expected
