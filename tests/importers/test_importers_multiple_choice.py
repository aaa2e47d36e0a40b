"""Multiple-choice logs of language models: what is taken for what, and gold checked against what was logged."""

import json
import re

import h5py
import imports
import numpy as np
import pytest

from calcli.errors import DataError, UsageError
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores

LLS = [[-3.0, -1.0, -2.0], [-1.5, -9.0, -4.0], [-5.0, -6.0, -2.5]]
GOLD = [1, 2, 2]


def record(i, lls, gold, texts=("aa", "bbbb", "c"), **more):
    k = len(lls)
    made = {
        "doc_id": i,
        "doc": {},
        "target": str(gold),
        "arguments": {
            f"gen_args_{c}": {"arg_0": "Q:", "arg_1": f" {texts[c % len(texts)]}"}
            for c in range(k)
        },
        "resps": [[[str(ll), "False"]] for ll in lls],
        "filtered_resps": [[str(ll), "False"] for ll in lls],
        "filter": "none",
        "acc": float(int(np.argmax(lls)) == gold),
    }
    return made | more


def bring(tmp_path, records, name="samples_mmlu_2025-01-01T00-00-00.000.jsonl", **ask):
    source = tmp_path / name
    source.write_text("".join(json.dumps(r) + "\n" for r in records))
    return imports.bring(source, tmp_path / "out.h5", **ask)


RECORDS = [
    record(i, lls, gold) for i, (lls, gold) in enumerate(zip(LLS, GOLD, strict=True))
]


def test_log_likelihoods_are_logits_and_the_task_is_the_group(tmp_path):
    imported = bring(tmp_path, RECORDS[::-1])
    assert imported["logits"].tolist() == LLS
    assert imported["labels"].tolist() == GOLD
    assert imported["ids"].tolist() == [0, 1, 2], (
        "in the order of doc_id, whatever the ranks made of it"
    )
    assert set(imported["group"].tolist()) == {b"mmlu"}
    assert "the target as an index; acc agrees in every row" in imported["notes"]


def test_what_the_gold_was_checked_with_is_said(tmp_path):
    """The first row alone said it of all."""
    some = [RECORDS[0], *({**row, "acc": None} for row in RECORDS[1:])]
    assert "; acc agrees where logged" in bring(tmp_path, some)["notes"]
    none = [{**row, "acc": None} for row in RECORDS]
    assert "; no acc was logged to check with" in bring(tmp_path, none)["notes"]


def test_log_likelihoods_per_character_and_minus_the_unconditional(tmp_path):
    per_char = bring(tmp_path, RECORDS, normalize="chars")["logits"]
    assert np.allclose(per_char, np.array(LLS) / [2, 4, 1])
    umlauts = [record(0, [-2.0, -3.0], 0, texts=("ä", "bb"))]
    assert bring(tmp_path, umlauts, normalize="bytes")["logits"].tolist() == [
        [-1.0, -1.5]
    ]
    pairs = record(0, [-3.0, -1.0, -2.0, -4.0, -0.5, -1.0], 1, acc=1.0)
    for c in range(3, 6):
        pairs["arguments"][f"gen_args_{c}"]["arg_0"] = ""
    assert bring(tmp_path, [pairs], normalize="mutual")["logits"].tolist() == [
        [1.0, -0.5, -1.0]
    ]
    assert bring(tmp_path, [pairs])["logits"].tolist() == [[-3.0, -1.0, -2.0]]
    with pytest.raises(DataError, match="no unconditional"):
        bring(tmp_path, RECORDS, normalize="mutual")


@pytest.mark.parametrize("target", ["bbbb", 1, "1", "B"])
def test_the_gold_is_an_index_a_text_or_a_letter(tmp_path, target):
    assert bring(tmp_path, [record(0, LLS[0], 1, target=target)])[
        "labels"
    ].tolist() == [1]


def test_winogrande_counts_its_answers_from_1(tmp_path):
    rows = [
        record(i, lls[:2], int(np.argmax(lls[:2])), texts=("x", "x"))
        for i, lls in enumerate(LLS)
    ]
    for row, lls in zip(rows, LLS, strict=True):
        row |= {
            "target": "the ending",
            "doc": {"answer": str(int(np.argmax(lls[:2])) + 1)},
        }
    imported = bring(tmp_path, rows)
    assert imported["labels"].tolist() == [1, 0, 0]
    assert "counted from 1" in imported["notes"]


def test_digits_as_choices_are_told_apart_by_acc_or_refused(tmp_path):
    digits = ("1", "0", "7")
    record_of_text = record(0, [-1.0, -2.0, -3.0], 0, texts=digits, target="1", acc=1.0)
    assert bring(tmp_path, [record_of_text])["labels"].tolist() == [0], (
        "the text 1 is choice 0, and acc says so"
    )
    with pytest.raises(DataError, match="the logged acc does not tell"):
        bring(
            tmp_path,
            [record(0, [-2.0, -3.0, -1.0], 0, texts=digits, target="1", acc=0.0)],
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"acc": 1.0},
            r"row 1 \(doc_id 1\): acc is 1, but the largest score is candidate 0 and the right one 2",
        ),
        ({"acc": 0.3}, "several answers count as right"),
        (
            {"target": "[0, 2]"},
            r'row 0 \(doc_id 0\): target "\[0, 2\]" names no choice',
        ),
        ({"target": "9"}, "names no choice"),
        ({"filtered_resps": ["some text"]}, "holds generated text"),
        ({"filtered_resps": [["-1.0", "True"]]}, "one candidate only"),
        ({"filter": "strict"}, "once per filter"),
    ],
)
def test_rows_that_contradict_or_hold_no_scores_are_refused(tmp_path, change, message):
    rows = [RECORDS[0], RECORDS[1] | change, RECORDS[2]]
    if "target" in change:
        rows = [row | {"target": change["target"]} for row in rows]
    with pytest.raises((DataError, UsageError), match=message):
        bring(tmp_path, rows)


def test_questions_with_other_numbers_of_choices_are_one_bundle_of_options(tmp_path):
    rows = [*RECORDS, record(3, [-1.0, -2.0], 0)]
    imported = bring(tmp_path, rows)
    assert imported["logits"].shape == (4, 3)
    assert imported["n_options"].tolist() == [3, 3, 3, 2]
    assert imported["logits"][3].tolist() == [-1.0, -2.0, -np.inf]
    assert imported["labels"].tolist() == [*GOLD, 0]
    assert "rows have 2 to 3 scores" in imported["notes"]
    chosen = bring(tmp_path, rows, choices=3)
    assert chosen["logits"].shape == (3, 3)
    assert "3 of 4 rows, those with 3 scores, were taken (--choices)" in chosen["notes"]
    with pytest.raises(UsageError, match="has rows with 2, 3 scores"):
        bring(tmp_path, rows, choices=4)


def test_questions_may_be_known_by_hashes_beyond_64_bits(tmp_path):
    rows = [
        record((1 << 70) + i, lls, gold)
        for i, (lls, gold) in enumerate(zip(LLS, GOLD, strict=True))
    ]
    assert bring(tmp_path, rows)["ids"].tolist() == [
        str((1 << 70) + i).encode() for i in range(3)
    ]


def test_a_question_that_is_asked_again_is_a_unit_and_a_second_run_is_not(tmp_path):
    again = record(0, [-9.0, -1.0, -5.0], 1)
    imported = bring(tmp_path, [*RECORDS, again])
    assert imported["unit"].tolist() == [b"0", b"0", b"1", b"2"] and imported[
        "ids"
    ].tolist() == [0, 0, 1, 2]
    with pytest.raises(
        DataError,
        match="id 0 occurs twice with the same scores; was a second run appended",
    ):
        bring(tmp_path, [*RECORDS, RECORDS[0]])
    with pytest.raises(DataError, match="id 0 occurs twice with the same scores"):
        bring(tmp_path, [*RECORDS, again, RECORDS[0]])


def test_of_tied_scores_the_log_may_have_taken_either(tmp_path):
    """A tied row whose acc is 0 left no rule for the gold of all the others."""
    digits = ("1", "2", "0")
    rows = [
        record(0, [-1.0, -2.0, -3.0], 0, texts=digits, target="1", acc=1.0),
        record(1, [-1.0, -1.0, -3.0], 0, texts=digits, target="1", acc=0.0),
    ]
    imported = bring(tmp_path, rows)
    assert imported["labels"].tolist() == [0, 0]
    assert "labels the choice whose text is the target" in imported["notes"]


def test_one_filter_is_chosen(tmp_path):
    rows = RECORDS + [
        row | {"filter": "other", "filtered_resps": row["filtered_resps"][::-1]}
        for row in RECORDS
    ]
    assert bring(tmp_path, rows, filter="none")["logits"].tolist() == LLS


SAMPLES = {
    "made/lm_eval/pretrained__x_mmlu_made_v0.4.2.jsonl": ({}, [(8, 4)]),
    "made/lm_eval/samples_mmlu_made_2025-01-01T00-00-00.000000.jsonl": (
        {"normalize": "chars"},
        [(12, 4)],
    ),
    "made/lm_eval/samples_arc_challenge_made_ragged_2025-01-01T00-00-00.000000.jsonl": (
        {},
        [(12, 5)],
    ),
    "made/lm_eval/samples_mutual_info_made_2025-01-01T00-00-00.000000.jsonl": (
        {"normalize": "mutual"},
        [(6, 4)],
    ),
    "made/lm_eval/samples_truthfulqa_mc1_made_gold_always_0_2025-01-01T00-00-00.000000.jsonl": (
        {},
        [(8, 5)],
    ),
    "lm_eval/samples_math_perturbed_full_2026-01-21T03-44-18.458309.jsonl": (
        {},
        "holds generated text",
    ),
    "made/lighteval/details_mmlu_made_2025-11-05T14-43-47.parquet": (
        {},
        "acc is 1, but the largest score",
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(sample, tmp_path, name):
    ask, expected = SAMPLES[name]
    path = sample(name)
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            import_scores([path], tmp_path / "out.h5", ImportRequest(**ask))
        return
    report = import_scores([path], tmp_path / "out.h5", ImportRequest(**ask))
    assert [(bundle.n, bundle.k) for bundle in report.bundles] == expected


def test_lighteval_details(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [
        {
            "doc": {
                "choices": [" aa", " b", " c"],
                "gold_index": [g],
                "id": str(i),
                "task_name": "arc",
            },
            "model_response": {
                "logprobs": lls,
                "unconditioned_logprobs": [-1.0, -1.0, -0.5],
            },
            "metric": {"acc": float(int(np.argmax(lls)) == g)},
        }
        for i, (lls, g) in enumerate(zip(LLS, GOLD, strict=True))
    ]
    source = tmp_path / "details_arc_2025.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), source)
    for normalize, words, expected in (
        ("none", " of the choices", LLS),
        ("mutual", " minus the unconditional ones of", np.add(LLS, [1, 1, 0.5])),
        ("chars", " per char of the choices", np.array(LLS) / [3, 2, 2]),
    ):
        report = import_scores(
            [source],
            tmp_path / "out.h5",
            ImportRequest(normalize=normalize),
            force=True,
        )
        assert f"logits are the log-probabilities{words}" in " ".join(report.notes)
        with h5py.File(tmp_path / "out.h5") as file:
            assert np.allclose(file["logits"], expected)
            assert file["labels"][()].tolist() == GOLD


def test_a_target_that_names_no_choice_is_shown_with_its_row(tmp_path):
    """It was always the first row."""
    records = [record(i, [-1.0, -2.0, -3.0], 0) for i in range(5)]
    records[3]["target"] = "7"
    with pytest.raises(
        DataError, match=r'row 3 \(doc_id 3\): target "7" names no choice'
    ):
        bring(tmp_path, records)
    chosen = [one | {"filter": name} for one in records for name in ("a", "b")]
    with pytest.raises(DataError, match=r'row 7 \(doc_id 3\): target "7" names no'):
        bring(tmp_path, chosen, filter="b")  # row of the file, not of the filter
    with pytest.raises(DataError, match=r'row 0 \(doc_id 0\): target "x" names no'):
        bring(tmp_path, [one | {"target": "x"} for one in records])


@pytest.mark.parametrize("value", [None, "high", True, [1.0], float("nan")])
def test_what_is_no_log_likelihood_is_one_sentence(tmp_path, value):
    records = [record(i, [-1.0, -2.0, -3.0], 0) for i in range(3)]
    records[1]["filtered_resps"][2] = [value, False]
    pattern = r"row 1 \(doc_id 1\): log-likelihood of choice 2 is .*, expected a number"
    with pytest.raises(DataError, match=pattern):
        bring(tmp_path, records)


@pytest.mark.parametrize("value", [None, [0], {"a": 1}, True, float("inf")])
def test_what_is_no_id_of_a_question_is_one_sentence(tmp_path, value):
    records = [record(i, [-1.0, -2.0, -3.0], 0) for i in range(3)]
    records[2]["doc_id"] = value
    pattern = "row 2: doc_id is .*, expected a number or a word"
    with pytest.raises(DataError, match=pattern):
        bring(tmp_path, records)


@pytest.mark.parametrize("name", ["doc_id", "filtered_resps"])
def test_a_line_that_lacks_a_part_is_one_sentence(tmp_path, name):
    records = [record(i, [-1.0, -2.0, -3.0], 0) for i in range(3)]
    del records[1][name]
    with pytest.raises(DataError, match=f"row 1: has no {name}, which other lines"):
        bring(tmp_path, records)


@pytest.mark.parametrize(
    ("target", "said"), [(None, "null"), ({"a": 1}, '{"a": 1}'), (True, "true")]
)
def test_a_target_that_names_no_choice_is_said_as_it_stands(tmp_path, target, said):
    records = [record(i, [-1.0, -2.0, -3.0], 0) for i in range(3)]
    records[2]["target"] = target
    pattern = re.escape(f"row 2 (doc_id 2): target {said} names no choice")
    with pytest.raises(DataError, match=pattern):
        bring(tmp_path, records)


def test_words_that_look_like_numbers_stay_ids_of_questions(tmp_path):
    names = ["007", "7", "1_0", "7.0", "-0"]
    records = [record(name, [-1.0 - i, -2.0, -3.0], 0) for i, name in enumerate(names)]
    imported = bring(tmp_path, records)
    assert [name.decode() for name in imported["ids"]] == names


def test_a_line_with_fewer_scores_than_choices_is_refused(tmp_path):
    """The second score was dropped: the third passed for the second choice's."""
    short = record(0, LLS[0], 1)
    del short["filtered_resps"][1]
    short["acc"] = 0.0
    with pytest.raises(DataError, match="has 2 filtered_resps for 3 arguments"):
        bring(tmp_path, [short, *RECORDS[1:]])


def test_a_refusal_shows_no_whole_cell(tmp_path):
    records = [{**RECORDS[0], "target": "x" * 100_000}, *RECORDS[1:]]
    with pytest.raises(DataError, match="names no choice") as refusal:
        bring(tmp_path, records)
    assert len(str(refusal.value)) < 500
