"""Logs of decision models are read by what their values prove."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from calcli.errors import DataError
from calcli.importers.import_scores import import_scores
from calcli.role_words import LABEL_WORDS, PREDICTION_WORDS
from tests.decisions import logs


def extract(tmp_path, text, **request):
    from calcli.importers.import_request import ImportRequest

    log, out = tmp_path / "log.jsonl", tmp_path / "out.h5"
    log.write_text(text, "utf-8")
    report = import_scores([log], out, ImportRequest(**request), force=True)
    return h5py.File(out), report


@pytest.mark.parametrize("make", logs.SHAPES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("decimals", [2, 4])
def test_every_shape_gives_the_same_bundle(make, decimals, tmp_path):
    p, y = logs.rows(decimals=decimals)
    text = logs.lines(make(i, p[i], y[i]) for i in range(len(p)))
    file, _ = extract(tmp_path, text)
    assert list(file) == ["team"]
    group = file["team"]
    assert [name.decode() for name in group["class_names"]] == list(logs.OPTIONS) or (
        make is logs.shuffled_options
    )
    names = [name.decode() for name in group["class_names"]]
    columns = [names.index(option) for option in logs.OPTIONS]
    assert np.allclose(group["probs"][:][:, columns], p)
    assert [names[label] for label in group["labels"]] == [logs.OPTIONS[c] for c in y]
    assert group.attrs["resolution"] == 10.0**-decimals
    assert len(set(map(str, group["ids"][:]))) == len(p)


def yes_no_rows(n=40):
    rng = np.random.default_rng(8)
    p = np.round(rng.random(n), 2)
    return p, rng.random(n) < p


YES_NO = {
    "noul": lambda p: {"type": "noul", "noul": p},
    "p_yes": lambda p: {"p_yes": p},
    "probability_yes": lambda p: {"probability_yes": p, "latency_ms": 0.3},
    "yes alone": lambda p: {"yes": p},
    "yes and no": lambda p: {"probabilities": {"yes": p, "no": round(1 - p, 2)}},
    "no and yes": lambda p: {"probabilities": {"no": round(1 - p, 2), "yes": p}},
    "true and false": lambda p: {"true": p, "false": round(1 - p, 2)},
    "openai's choice of truths": lambda p: {
        "type": "choice",
        "choice": p > 0.5,
        "probabilities": [
            {"value": True, "probability": p},
            {"value": False, "probability": round(1 - p, 2)},
        ],
    },
}
LABELS = {
    "truths": bool,
    "numbers": int,
    "words": lambda y: "yes" if y else "no",
    "capitals": lambda y: "True" if y else "False",
}


@pytest.mark.parametrize("form", YES_NO)
@pytest.mark.parametrize("labels", LABELS)
def test_yes_is_class_1_in_every_form_of_answers_and_labels(form, labels, tmp_path):
    p, y = yes_no_rows()
    records = [
        {
            "id": i,
            "answers": {"refund": YES_NO[form](float(p[i]))},
            "label": {"refund": LABELS[labels](y[i])},
        }
        for i in range(len(p))
    ]
    file, _ = extract(tmp_path, logs.lines(records))
    group = file["refund"]
    assert np.allclose(group["probs"][:, 1], p)
    assert group["labels"][:].tolist() == y.astype(int).tolist()
    assert group.attrs["question_type"] == "yes/no"


def test_per_question_is_p_yes_by_question(tmp_path):
    p, y = yes_no_rows()
    records = [
        {"per_question": {"a": float(p[i]), "b": 0.25}, "gold": {"a": bool(y[i])}}
        for i in range(len(p))
    ]
    file, _ = extract(tmp_path, logs.lines(records))
    assert set(file) == {"a", "b"}
    assert np.allclose(file["a"]["probs"][:, 1], p)
    assert "labels" not in file["b"]


def test_a_predicate_of_openai_is_yes_no(tmp_path):
    p, y = yes_no_rows()
    records = [
        {
            "answers": [{"type": "predicate", "name": "ok", "probability": float(q)}],
            "label": {"ok": bool(right)},
        }
        for q, right in zip(p, y, strict=True)
    ]
    file, _ = extract(tmp_path, logs.lines(records))
    assert np.allclose(file["ok"]["probs"][:, 1], p)


@pytest.mark.parametrize("labels", ["level", "text", "word of the level"])
@pytest.mark.parametrize("as_list", [False, True])
def test_a_score_is_a_bundle_of_ordered_levels(labels, as_list, tmp_path):
    p, y = logs.rows()
    words = ["low", "middle", "high"]
    legend = words if as_list else dict(zip("012", words, strict=True))
    value = {
        "level": lambda c: int(c),
        "text": lambda c: str(c),
        "word of the level": lambda c: words[c],
    }[labels]
    order = ("2", "0", "1")
    records = [
        {
            "answers": {
                "urgency": {
                    "type": "score",
                    "score": float(p[i] @ np.arange(3)),
                    "legend": legend,
                    "probabilities": {
                        level: float(p[i][int(level)]) for level in order
                    },
                    "confidence": 0.4,
                }
            },
            "label": {"urgency": value(y[i])},
        }
        for i in range(len(p))
    ]
    file, _ = extract(tmp_path, logs.lines(records))
    group = file["urgency"]
    assert group.attrs["ordered"] == "1"
    assert np.allclose(group["probs"][:], p)
    assert group["labels"][:].tolist() == y.tolist()


def test_what_is_left_out_is_counted(tmp_path):
    p, y = logs.rows()
    records = [logs.openai(i, p[i], y[i]) for i in range(60)]
    for i in range(3):
        records[i]["answers"] = [{"type": "refusal", "name": "team"}]
    for i in range(3, 8):
        del records[i]["truth"]
    records[8]["answers"], records[8]["error"] = [], "timed out"
    records[9]["truth"]["team"] = "none of them"
    file, report = extract(tmp_path, logs.lines(records))
    assert len(file["team"]["labels"]) == 50
    (line,) = [note for note in report.notes if "records of decisions" in note]
    for part in (
        "3 refused",
        "5 without a label",
        "1 with an error",
        "1 with a label that is no option",
        "none of them",
    ):
        assert part in line


def test_a_repeated_state_is_a_unit_and_few_values_are_groups(tmp_path):
    p, y = logs.rows()
    records = [logs.system_one(i, p[i], y[i]) for i in range(60)]
    for i, record in enumerate(records):
        record["request"]["state"] = f"state {i // 2}"
        record["draw"] = i % 2
        record["model"] = ("jev-1", "jev-2")[i % 2]
    file, report = extract(tmp_path, logs.lines(records))
    group = file["team"]
    assert len(np.unique(group["unit"][:])) == 30
    assert set(group["meta.source"][:]) == {b"a", b"b"}
    assert set(group["model"][:]) == {b"jev-1", b"jev-2"}
    notes = "\n".join(report.notes)
    assert "2 models: jev-1 (30), jev-2 (30)" in notes
    assert "--group-by takes meta.source" in notes


def test_the_wires_confidence_is_named_by_its_formula(tmp_path):
    p, y = logs.rows()
    text = logs.lines(logs.system_one(i, p[i], y[i]) for i in range(60))
    file, report = extract(tmp_path, text)
    assert file["team"].attrs["confidence_formula"] == "above_chance"
    assert "no probability of being right" in "\n".join(report.notes)


def test_labels_come_from_another_file_by_id_or_place(tmp_path):
    p, y = logs.rows()
    records = [logs.system_one(i, p[i], y[i]) for i in range(60)]
    golds = [{"id": r["id"], "team": r.pop("label")["team"]} for r in records]
    by_id, by_place = tmp_path / "by_id.jsonl", tmp_path / "by_place.csv"
    by_id.write_text(logs.lines(reversed(golds)), "utf-8")
    table = "team\n" + "".join(gold["team"] + "\n" for gold in golds)
    by_place.write_text(table, "utf-8")
    for gold in (by_id, by_place):
        file, _ = extract(tmp_path, logs.lines(records), gold=str(gold))
        assert file["team"]["labels"][:].tolist() == y.tolist()
        file.close()


@pytest.mark.parametrize("field", ["id", "item_id", "sample_id", "doc_id", "ticket"])
def test_labels_of_another_file_go_by_any_id_that_the_log_has(field, tmp_path):
    p, y = logs.rows()
    records = [logs.system_one(i, p[i], y[i]) for i in range(60)]
    golds = []
    for record in records:
        record[field] = record.pop("id")
        golds.append({field: record[field], "team": record.pop("label")["team"]})
    gold = tmp_path / "gold.jsonl"
    gold.write_text(logs.lines(reversed(golds)), "utf-8")
    file, _ = extract(tmp_path, logs.lines(records), gold=str(gold))
    assert file["team"]["labels"][:].tolist() == y.tolist()


def test_numbers_of_one_name_that_differ_are_ids_in_both_files(tmp_path):
    p, y = logs.rows()
    records = [logs.system_one(i, p[i], y[i]) for i in range(60)]
    golds = []
    for number, record in enumerate(records):
        del record["id"]
        record["ticket"] = 4700 + number
        golds.append({"ticket": 4700 + number, "team": record.pop("label")["team"]})
    gold = tmp_path / "gold.jsonl"
    gold.write_text(logs.lines(reversed(golds)), "utf-8")
    file, _ = extract(tmp_path, logs.lines(records), gold=str(gold))
    assert file["team"]["labels"][:].tolist() == y.tolist()


def test_numbers_that_only_the_other_file_has_are_no_ids(tmp_path):
    """The index that pandas writes: rows then go by their place."""
    p, y = logs.rows()
    records = [logs.system_one(i, p[i], y[i]) for i in range(60)]
    golds = []
    for number, record in enumerate(records):
        golds.append({"row": number, "team": record.pop("label")["team"]})
    gold = tmp_path / "gold.jsonl"
    gold.write_text(logs.lines(golds), "utf-8")
    file, _ = extract(tmp_path, logs.lines(records), gold=str(gold))
    assert file["team"]["labels"][:].tolist() == y.tolist()


@pytest.mark.parametrize("field", ["uid", "example_id", "ticket"])
def test_ids_of_another_name_are_known_by_their_values(field, tmp_path):
    p, y = logs.rows()
    records = [logs.system_one(i, p[i], y[i]) for i in range(60)]
    golds = []
    for number, record in enumerate(records):
        record["id"] = f"r{number}"
        golds.append({field: record["id"], "team": record.pop("label")["team"]})
    gold = tmp_path / "gold.jsonl"
    gold.write_text(logs.lines(reversed(golds)), "utf-8")
    file, _ = extract(tmp_path, logs.lines(records), gold=str(gold))
    assert file["team"]["labels"][:].tolist() == y.tolist()


@pytest.mark.parametrize("field", ["id", "row"])
def test_numbers_that_may_be_places_or_ids_are_asked_for(field, tmp_path):
    """Records in another order than their ids, and a file of labels that counts."""
    p, y = logs.rows()
    records = [logs.system_one(i, p[i], y[i]) for i in range(60)]
    golds = []
    for number, record in enumerate(records):
        record["id"] = number
        golds.append({field: number, "team": record.pop("label")["team"]})
    gold = tmp_path / "gold.jsonl"
    gold.write_text(logs.lines(golds), "utf-8")
    text = logs.lines(reversed(records))
    if field == "id":
        file, _ = extract(tmp_path, text, gold=str(gold))
        assert file["team"]["labels"][:].tolist() == y[::-1].tolist()
        return
    with pytest.raises(DataError, match="call it 'id' if these are ids"):
        extract(tmp_path, text, gold=str(gold))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,team\n0,caf\xe9\n", "is no text in UTF-8"),
        ("id,team\n0,billing\n1,billing,x\n", "row 1 has more cells, expected 2"),
    ],
)
def test_a_broken_table_of_labels_is_refused(table, message, tmp_path):
    p, y = logs.rows()
    records = [logs.system_one(i, p[i], y[i]) for i in range(60)]
    gold = tmp_path / "gold.csv"
    gold.write_text(table, "latin-1")
    with pytest.raises(DataError, match=message):
        extract(tmp_path, logs.lines(records), gold=str(gold))


def test_texts_beside_answers_are_no_questions(tmp_path):
    """A question text in every record is the state, not the name of a question."""
    p, y = logs.rows()
    records = [
        {
            "question": f"What is number {i}?",
            "options": list(logs.OPTIONS),
            "probs": list(map(float, p[i])),
            "gold": logs.OPTIONS[y[i]],
        }
        for i in range(60)
    ]
    file, _ = extract(tmp_path, logs.lines(records))
    assert list(file) == ["answer"]
    assert file["answer"]["labels"][:].tolist() == y.tolist()


# ---- refusals


def refusal(tmp_path, text, **request):
    with pytest.raises(DataError) as caught:
        extract(tmp_path, text, **request)
    return str(caught.value)


def test_a_log_that_is_cut_off_names_its_last_line(tmp_path):
    p, y = logs.rows()
    text = logs.lines(logs.system_one(i, p[i], y[i]) for i in range(20))
    message = refusal(tmp_path, text[:-30])
    assert "line 20" in message
    assert "head -n 19" in message


def test_integers_among_options_1_to_5_are_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    records = [
        {
            "answers": {
                "stars": {str(star): 0.2 for star in range(1, 6)},
            },
            "label": {"stars": int(rng.integers(1, 5))},
        }
        for _ in range(30)
    ]
    assert "places from 0" in refusal(tmp_path, logs.lines(records))
    records[0]["label"]["stars"] = 5  # now only the texts of the options fit
    file, _ = extract(tmp_path, logs.lines(records))
    assert file["stars"]["labels"][0] == 4


def test_predictions_are_no_labels(tmp_path):
    p, _ = logs.rows()
    records = [
        {
            "answers": {"team": logs.choice(p[i])},
            "final": logs.OPTIONS[int(np.argmax(p[i]))],
        }
        for i in range(60)
    ]
    assert "no field holds labels" in refusal(tmp_path, logs.lines(records))


@pytest.mark.parametrize("name", [*PREDICTION_WORDS, "model_prediction", "predClass"])
def test_words_for_predictions_in_tables_name_no_labels_in_logs(name, tmp_path):
    p, y = logs.rows()
    records = [
        {"answers": {"team": logs.choice(p[i])}, name: logs.OPTIONS[y[i]]}
        for i in range(60)
    ]
    assert "no field holds labels" in refusal(tmp_path, logs.lines(records))


@pytest.mark.parametrize("name", LABEL_WORDS)
def test_words_for_labels_in_tables_name_labels_in_logs(name, tmp_path):
    p, y = logs.rows()
    records = [
        {"answers": {"team": logs.choice(p[i])}, name: logs.OPTIONS[y[i]]}
        for i in range(60)
    ]
    records[5][name] = "none of them"
    file, report = extract(tmp_path, logs.lines(records))
    assert len(file["team"]["labels"]) == 59
    assert any("1 with a label that is no option" in note for note in report.notes)


def test_two_possible_labels_are_asked_for_and_named(tmp_path):
    p, y = logs.rows()
    records = [
        {
            "answers": {"team": logs.choice(p[i])},
            "anna": logs.OPTIONS[y[i]],
            "bert": logs.OPTIONS[y[-i]],
        }
        for i in range(60)
    ]
    message = refusal(tmp_path, logs.lines(records))
    assert "anna, bert" in message
    assert "--labels anna" in message
    file, _ = extract(tmp_path, logs.lines(records), labels=("anna",))
    assert file["team"]["labels"][:].tolist() == y.tolist()


# ---- size and hostile names


def test_a_record_may_have_2000_questions(tmp_path):
    record = {
        "answers": {f"q{i}": {"type": "noul", "noul": 0.25} for i in range(2000)},
        "label": {f"q{i}": i % 4 == 0 for i in range(2000)},
    }
    file, report = extract(tmp_path, logs.lines([record] * 3))
    assert len(file) == 2000
    assert all(len(note) < 1000 for note in report.notes)


def test_names_of_options_and_questions_may_be_hostile(tmp_path):
    names = ("\x1b[31mred", "<script>alert(1)</script>", "x" * 10_000)
    p, y = logs.rows()
    records = [
        {
            "answers": {
                "a/b:c\x1b[0m": dict(zip(names, map(float, p[i]), strict=True))
            },
            "label": {"a/b:c\x1b[0m": names[y[i]]},
        }
        for i in range(60)
    ]
    file, report = extract(tmp_path, logs.lines(records))
    (group,) = file.values()
    assert group.attrs["question"] == "a/b:c\x1b[0m"
    assert [name.decode() for name in group["class_names"]] == list(names)
    assert all(len(note) < 1000 for note in report.notes)


def test_options_of_two_to_a_hundred(tmp_path):
    rng = np.random.default_rng(1)
    for k in (2, 7, 100):
        shares = rng.dirichlet(np.ones(k), size=30)
        names = [f"option {c}" for c in range(k)]
        records = [
            {
                "answers": {"pick": dict(zip(names, map(float, p), strict=True))},
                "label": {"pick": names[int(rng.integers(k))]},
            }
            for p in shares
        ]
        file, _ = extract(tmp_path, logs.lines(records))
        assert np.allclose(file["pick"]["probs"][:], shares)
        file.close()


def test_numbers_that_are_no_options_stay_out(tmp_path):
    """Latency and cost sum to 1 in every row, beside a distribution further in."""
    p, y = logs.rows()
    records = [logs.direct(i, p[i], y[i]) for i in range(60)]
    file, _ = extract(tmp_path, logs.lines(records))
    assert list(file) == ["team"]
    assert json.loads(file["team"].attrs["source"])["question"] == "team"


def test_labels_of_0_and_1_are_no_answers(tmp_path):
    """``{"team": 1, "refund": 0}`` sums to 1, and is what is right, not a distribution."""
    rows, labels = logs.rows()
    records = []
    for i, (p, y) in enumerate(zip(rows, labels, strict=True)):
        answers = {"team": logs.choice(p), "refund": {"type": "noul", "noul": 0.25}}
        expected = {"team": int(y), "refund": int(i % 4 == 0)}
        records.append({"id": i, "answers": answers, "expected": expected})
    file, _ = extract(tmp_path, logs.lines(records))
    with file:
        assert set(file) == {"team", "refund"}
        assert file["team/labels"][:].tolist() == labels.tolist()


def test_labels_in_a_list_stand_in_the_order_of_answers_without_names(tmp_path):
    rows, labels = logs.rows()
    records = []
    for i, (p, y) in enumerate(zip(rows, labels, strict=True)):
        predicate = {"type": "predicate", "name": None, "probability": 0.25}
        answers = [logs.openai_choice(p, name=None), predicate]
        truth = [logs.OPTIONS[y], i % 4 == 0]
        records.append({"id": i, "answers": answers, "truth": truth})
    file, _ = extract(tmp_path, logs.lines(records))
    with file:
        assert file["question 1/labels"][:].tolist() == labels.tolist()
        assert file["question 2/labels"][:].tolist() == [i % 4 == 0 for i in range(60)]


def test_labels_in_a_list_of_objects_have_names(tmp_path):
    rows, labels = logs.rows()
    records = []
    for i, (p, y) in enumerate(zip(rows, labels, strict=True)):
        truth = [
            {"name": "other", "value": "x"},
            {"name": "team", "value": logs.OPTIONS[y]},
        ]
        records.append({"id": i, "answers": [logs.openai_choice(p)], "truth": truth})
    file, _ = extract(tmp_path, logs.lines(records))
    with file:
        assert file["team/labels"][:].tolist() == labels.tolist()


def test_one_number_yes_stands_beside_other_fields(tmp_path):
    records = []
    for i in range(40):
        number = {"yes": 0.25, "latency_s": 0.5, "cost": 0.25}
        records.append({"id": i, **number, "label": i % 4 == 0})
    file, _ = extract(tmp_path, logs.lines(records))
    with file:
        assert set(file) == {"answer"}
        assert file["answer/labels"][:].tolist() == [i % 4 == 0 for i in range(40)]


def test_the_three_best_are_read_as_a_confidence_by_the_command_that_is_named(run):
    """``top1, p1, top2, p2, …``: ranks are no classes, and the advice can be typed."""
    rows, labels = logs.rows()
    records = []
    for i, (p, y) in enumerate(zip(rows, labels, strict=True)):
        record = {"id": i, "latency_ms": 12.5, "truth": logs.OPTIONS[y]}
        for rank, c in enumerate(np.argsort(-p), start=1):
            record |= {f"top{rank}": logs.OPTIONS[c], f"p{rank}": float(p[c])}
        records.append(record)
    with open("top.jsonl", "w", encoding="utf-8") as file:
        file.write(logs.lines(records))
    done = run("evaluate", "top.jsonl")
    assert done.code == 3
    assert "--confidence p1 --correct top1=truth" in done.line
    words = ("--confidence", "p1", "--correct", "top1=truth")
    assert run("extract", "top.jsonl", *words, "-o", "top.h5").code == 0
    with h5py.File("top.h5") as made:
        assert made["confidence"][:] == pytest.approx(rows.max(axis=1))
        assert made["correct"][:].mean() == np.mean(rows.argmax(axis=1) == labels)


@pytest.mark.parametrize("every", [1, 4])
def test_one_hot_answers_keep_their_options(every, tmp_path):
    """yes, no and unsure as 0 and 1: a third option made them answers of yes or no."""
    options = ("yes", "no", "unsure")
    rng = np.random.default_rng(1)
    records = []
    for i in range(80):
        share = [round(float(x), 2) for x in rng.dirichlet([1.0, 1.0, 1.0])]
        share[2] = round(1.0 - share[0] - share[1], 2)
        if i % every == 0:
            share = [0, 0, 0]
            share[i % 3] = 1
        answers = {"q": dict(zip(options, share, strict=True))}
        records.append({"id": i, "answers": answers, "label": {"q": options[i % 3]}})
    file, _ = extract(tmp_path, logs.lines(records))
    group = file["q"]
    assert [name.decode() for name in group["class_names"]] == list(options)
    assert group["labels"].shape == (80,)


@pytest.mark.parametrize("option", ["--sample-weight", "--ids"])
def test_columns_that_a_log_does_not_have_are_refused(run, option):
    p, y = logs.rows()
    text = logs.lines(logs.SHAPES[0](i, p[i], y[i]) for i in range(len(p)))
    with open("log.jsonl", "w", encoding="utf-8") as file:
        file.write(text)
    done = run("evaluate", "log.jsonl", option, "nosuch")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(f"calcli: {option}: ")


def test_two_options_of_one_text_are_refused_with_the_reason(tmp_path, run):
    p, y = logs.rows()
    options = (True, "true", False)
    records = []
    for i, (shares, label) in enumerate(zip(p, y, strict=True)):
        pairs = zip(options, shares, strict=True)
        made = [{"value": o, "probability": float(share)} for o, share in pairs]
        answer = {"type": "choice", "probabilities": made}
        labels = {"q": options[label]}
        records.append({"id": i, "answers": {"q": answer}, "label": labels})
    Path("log.jsonl").write_text(logs.lines(records), "utf-8")
    done = run("evaluate", "log.jsonl")
    assert done.code == 3
    assert '60 with two options of one text, as true and "true"' in done.line


def test_records_without_an_answer_to_the_only_question_are_counted(run):
    p, y = logs.rows()
    records = [logs.unnamed_label(i, p[i], y[i]) for i in range(len(p))]
    bad = records[3]["answers"]["team"]["probabilities"]
    bad["billing"] = None
    records[5]["answers"] = {}
    records[7] |= {"answers": None, "error": "timeout"}
    Path("log.jsonl").write_text(logs.lines(records), "utf-8")
    done = run("evaluate", "log.jsonl")
    sentence = (
        "team (choice of 3, 57 rows, 2 not answered left out, 1 with an error left out)"
    )
    assert sentence in done.err


def test_a_log_of_empty_answers_says_so(run):
    records = [{"id": i, "answers": {}, "label": {}} for i in range(5)]
    Path("log.jsonl").write_text(logs.lines(records), "utf-8")
    done = run("evaluate", "log.jsonl")
    assert done.code == 3
    assert "none of its 5 records holds answers with probabilities" in done.line


def test_the_two_best_of_four_are_read_as_a_confidence(run):
    """Their rows do not sum to 1; what is left out is unknown."""
    rng = np.random.default_rng(4)
    options = ("a", "b", "c", "d")
    records = []
    for i in range(60):
        p = rng.dirichlet(np.ones(4)).round(2)
        record = {"ticket": f"T{i}", "cost": 0.25, "label": options[i % 4]}
        for rank, c in enumerate(np.argsort(-p)[:2], start=1):
            record |= {f"top{rank}": options[c], f"p{rank}": float(p[c])}
        records.append(record)
    Path("top.jsonl").write_text(logs.lines(records), "utf-8")
    done = run("evaluate", "top.jsonl")
    assert done.code == 3
    assert "--confidence p1 --correct top1=label" in done.line
    words = ("--confidence", "p1", "--correct", "top1=label")
    assert run("extract", "top.jsonl", *words, "-o", "top.h5").code == 0


# ---- labels under a name of predictions, and options that a row does not list


def tools(n=60):
    """Records of options that differ, and the place of the right one."""
    rng = np.random.default_rng(12)
    made = []
    for number in range(n):
        k = 2 + number % 3
        p = rng.dirichlet(np.ones(k)).round(3)
        p[-1] = round(1 - p[:-1].sum(), 3)
        options = [f"tool {option}" for option in rng.choice(9, k, replace=False)]
        record = {"id": number, "options": options, "probs": p.tolist()}
        made.append((record, int(rng.choice(k, p=p))))
    return made


def test_a_field_that_may_be_the_label_is_proposed_and_can_be_named(tmp_path):
    """``answer`` is the model's in some logs, and the right one in others."""
    text = logs.lines({**record, "answer": y} for record, y in tools())
    with pytest.raises(DataError, match="no field holds labels") as refused:
        extract(tmp_path, text)
    assert "--labels" in refused.value.commands[0]
    file, report = extract(tmp_path, text, labels=("answer",))
    assert file["answer"]["labels"][:].tolist() == [y for _, y in tools()]
    assert "labels are 'answer (by index)'" in " ".join(report.notes)


def test_the_likeliest_option_is_not_proposed_as_the_label(tmp_path):
    rows = []
    for record, _ in tools():
        rows.append({**record, "answer": int(np.argmax(record["probs"]))})
    with pytest.raises(DataError, match="no field holds labels") as refused:
        extract(tmp_path, logs.lines(rows))
    assert not refused.value.commands


def test_right_options_that_rows_do_not_list_are_a_warning(tmp_path):
    """A log without options of probability 0 loses answers that are sure and wrong."""
    rows = []
    for number in range(60):
        p = {"a": 0.5, "b": 0.3, "c": 0.2} if number % 3 else {"a": 0.9, "b": 0.1}
        rows.append({"answers": {"q": {"probabilities": p}}, "label": {"q": "c"}})
    rows.append({"answers": {"q": {"probabilities": {"a": 1.0}}}, "label": {"q": "a"}})
    _, report = extract(tmp_path, logs.lines(rows))
    remarks = " ".join(report.notes)
    assert "do not list their label, which is an option of other rows: 20" in remarks
    assert "1 with one option only left out" in remarks


# ---- one object around all records


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["results", "data", "rows"])
@pytest.mark.parametrize("differ", [True, False])
def test_records_in_one_object_are_records_on_one_line_too(run, indent, name, differ):
    """Options that differ are a question of a log, others a table of classes."""
    rng = np.random.default_rng(3)
    labels = []
    rows = []
    for _ in range(40):
        options = ["a", "b", "c"]
        if differ:
            options = [f"tool {option}" for option in rng.choice(9, 3, replace=False)]
        p = rng.dirichlet(np.ones(3)).round(3)
        p[-1] = round(1 - p[:-1].sum(), 3)
        labels.append(int(rng.choice(3)))
        answer = dict(zip(options, p.tolist(), strict=True))
        rows.append({"probabilities": answer, "label": options[labels[-1]]})
    Path("all.json").write_text(json.dumps({name: rows}, indent=indent))
    assert run("extract", "all.json", "-o", "all.h5").code == 0
    with h5py.File("all.h5") as file:
        bundle = next(iter(file.values())) if differ else file
        assert bundle["labels"][:].tolist() == labels


def test_labelled_answers_of_one_record_stay_its_answers(run):
    answers = []
    for name in ("intent", "topic"):
        p = {"x": 0.2, name: 0.8}
        answers.append({"question": name, "probabilities": p, "label": "x"})
    Path("one.jsonl").write_text(json.dumps({"id": 1, "answers": answers}) + "\n")
    done = run("inspect", "one.jsonl")
    assert "1 record of decisions: intent" in done.out + done.err
