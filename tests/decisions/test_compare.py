"""Two logs of the same records compared question by question."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from tests.decisions import logs

N = 120


def answers(seed, shift):
    """Distributions of a model; shift : records whose best option is another one."""
    p, labels = logs.rows(N, seed=3, decimals=4)
    moved = np.random.default_rng(seed).choice(N, shift, replace=False)
    p[moved] = np.roll(p[moved], 1, axis=1)
    return p, labels


def record(i, p, y, order=(0, 1, 2)):
    return {
        "id": f"r{i}",
        "answers": {
            "team": logs.choice(p, order),
            "refund": {"type": "noul", "noul": float(p[0])},
        },
        "label": {"team": logs.OPTIONS[y], "refund": bool(y == 0)},
    }


@pytest.fixture
def two(run):
    """Answers of two models; the new one in another order of records and options."""
    (new, labels), (old, _) = answers(1, 30), answers(2, 5)
    rng = np.random.default_rng(0)
    written = [record(i, old[i], labels[i]) for i in range(N)]
    Path("old.jsonl").write_text(logs.lines(written), "utf-8")
    records = [record(i, new[i], labels[i], rng.permutation(3)) for i in range(N - 10)]
    rng.shuffle(records)
    Path("new.jsonl").write_text(logs.lines(records), "utf-8")
    kept = slice(N - 10)
    return new[kept], old[kept], labels[kept]


def compared(run, *words):
    done = run("compare", *words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_answers_are_paired_by_id_and_question(run, two):
    new, old, labels = two
    content = compared(run, "new.jsonl", "--baseline-bundle", "old.jsonl")
    team = content["questions"]["team"]
    right, before = new.argmax(axis=1) == labels, old.argmax(axis=1) == labels
    fixed, broken = int((right & ~before).sum()), int((~right & before).sum())
    assert (team["n"], team["unpaired"]) == (110, [0, 10])
    assert (team["fixed"], team["broken"]) == (fixed, broken)
    rows = np.arange(110)
    nll = -np.log(new[rows, labels]).mean() + np.log(old[rows, labels]).mean()
    assert team["nll"]["value"] == pytest.approx(nll, rel=1e-9)
    low, high = team["nll"]["ci"]
    assert low < nll < high
    # McNemar's mid-p test: the exact one minus half of the probability of the table
    m, rarer = fixed + broken, min(fixed, broken)
    mid_p = 2.0 * (binom.cdf(rarer, m, 0.5) - 0.5 * binom.pmf(rarer, m, 0.5))
    assert team["accuracy"]["p_value"] == pytest.approx(mid_p, rel=1e-9)
    assert team["accuracy"]["p_adjusted"] >= team["accuracy"]["p_value"]
    assert set(content["questions"]) == {"team", "refund"}
    bundles = [result["bundle"] for result in content["results"]]
    assert "new.jsonl:team" in bundles
    assert "old.jsonl:team" in bundles


def test_the_nll_is_that_of_evaluate_where_answers_were_rounded_to_zero(run):
    p, labels = logs.rows(N, decimals=1)
    assert (p == 0.0).any()
    for name in ("a.jsonl", "b.jsonl"):
        records = [record(i, p[i], labels[i]) for i in range(N)]
        Path(name).write_text(logs.lines(records), "utf-8")
    evaluated = json.loads(run("evaluate", "a.jsonl:team", "--json").out)
    expected = evaluated["results"][0]["metrics"]["nll"]["value"]
    content = compared(run, "a.jsonl", "--baseline-bundle", "b.jsonl")
    for result in content["results"]:
        if result["bundle"].endswith(":team"):
            nll = result["metrics"]["nll"]["value"]
            assert nll == pytest.approx(expected, rel=1e-12)


def test_one_question_is_compared(run, two):
    content = compared(run, "new.jsonl:refund", "--baseline-bundle", "old.jsonl:refund")
    assert list(content["questions"]) == ["refund"]
    assert content["questions"]["refund"]["n"] == 110


def test_a_question_of_one_log_is_taken_from_the_other(run, two):
    words = ("new.jsonl:refund", "--baseline-bundle", "old.jsonl")
    done = run("compare", *words)
    assert done.code == 0
    assert "only in" not in done.err
    assert list(compared(run, *words)["questions"]) == ["refund"]
    swapped = ("new.jsonl", "--baseline-bundle", "old.jsonl:refund")
    assert list(compared(run, *swapped)["questions"]) == ["refund"]


@pytest.mark.parametrize(
    ("new", "baseline", "expected"),
    [
        ("new.jsonl:*", "old.jsonl:*", {"refund", "team"}),
        ("new.jsonl:*", "old.jsonl:team", {"team"}),
        ("new.jsonl:team", "old.jsonl:*", {"team"}),
    ],
)
def test_questions_of_a_pattern_are_paired_by_name(run, two, new, baseline, expected):
    content = compared(run, new, "--baseline-bundle", baseline)
    assert set(content["questions"]) == expected


def test_questions_of_other_names_are_compared_only_where_both_are_named(run, two):
    text = Path("old.jsonl").read_text("utf-8").replace('"refund"', '"fraud"')
    entries = [json.loads(line) for line in text.splitlines()]
    for entry in entries:
        del entry["answers"]["team"], entry["label"]["team"]
    Path("fraud.jsonl").write_text(logs.lines(entries), "utf-8")
    done = run("compare", "new.jsonl:refund", "--baseline-bundle", "fraud.jsonl")
    assert done.code == 3
    assert "no record answers a question of both" in done.line
    named = ("new.jsonl:refund", "--baseline-bundle", "fraud.jsonl:fraud")
    assert compared(run, *named)["questions"]["refund"]["n"] == 110


@pytest.mark.parametrize(
    "words", [["--folds", "7"], ["--workers", "2"], ["--thorough"], ["-m", "ts"]]
)
def test_what_logs_do_not_have_is_refused(run, two, words):
    command = ("compare", "new.jsonl", "--baseline-bundle", "old.jsonl")
    assert run(*command, *words).code == 2


def test_a_table_for_programs_has_p_values_with_all_digits(run, two):
    words = ("new.jsonl", "--baseline-bundle", "old.jsonl")
    expected = compared(run, *words)["questions"]["team"]["nll"]["p_adjusted"]
    lines = run("compare", *words, "--format", "csv").out.splitlines()
    head = lines[0].split(",")
    team = next(line for line in lines if line.startswith("team"))
    assert float(team.split(",")[head.index("p NLL")]) == expected


def test_the_table_and_the_file(run, two):
    words = ("compare", "new.jsonl", "--baseline-bundle", "old.jsonl")
    done = run(*words, "-o", "c.json")
    assert done.code == 0
    assert done.out.splitlines()[0].split()[:3] == ["question", "pairs", "right"]
    assert "and 10 of the baseline" in done.err
    assert json.loads(Path("c.json").read_text("utf-8"))["calcli_compare"] == 1
    assert run(*words, "-o", "c.json").code == 2
    shown = run(*words, "--format", "csv")
    assert shown.code == 0, shown.err
    csv = shown.out.splitlines()
    assert csv[1].startswith("refund,110,")


def test_options_that_differ_from_row_to_row_are_compared(run, two):
    rng = np.random.default_rng(3)
    for name, sharpen in (("a.jsonl", 1.0), ("b.jsonl", 3.0)):
        records = []
        for i in range(60):
            k = 2 + i % 4
            p = np.random.default_rng(i).dirichlet(np.ones(k)) ** sharpen
            p = np.round(p / p.sum(), 4)
            p[0] = round(1.0 - p[1:].sum(), 4)
            options = [f"tool {c}" for c in range(k)]
            order = rng.permutation(k)
            probabilities = {options[c]: float(p[c]) for c in order}
            answer = {"type": "choice", "probabilities": probabilities}
            tool = {"answers": {"tool": answer}, "label": {"tool": options[i % 2]}}
            records.append({"id": i, **tool})
        Path(name).write_text(logs.lines(records), "utf-8")
    tool = compared(run, "a.jsonl", "--baseline-bundle", "b.jsonl")["questions"]["tool"]
    assert tool["n"] == 60
    assert (tool["fixed"], tool["broken"]) == (0, 0)
    assert tool["nll"]["value"] < 0.0


def change_label(records):
    records[0]["label"]["team"] = "billing"
    records[1]["label"]["team"] = "billing"


def change_ids(records):
    for record in records:
        record["id"] = "x" + record["id"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_label, "labels differ); make them agree"),
        (change_ids, "paired by id and question"),
    ],
)
def test_what_cannot_be_paired_is_said(run, two, change, message):
    lines = Path("new.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    change(records)
    Path("new.jsonl").write_text(logs.lines(records), "utf-8")
    done = run("compare", "new.jsonl", "--baseline-bundle", "old.jsonl")
    assert done.code == 3
    assert message in done.err
    done = run("compare", "new.jsonl", "--baseline-bundle", "old.jsonl", "-m", "ts")
    assert done.code == 2
    assert "--methods" in done.line
