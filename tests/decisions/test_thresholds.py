"""Thresholds of a log: of each question, of an option, of whole records."""

import json
import math
import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from calcli.evaluation.question_thresholds import Answers, Demand, Records, thresholds
from tests.decisions import logs

LEVELS = ("0", "1", "2")


def certainty(p):
    """1 - H / ln k, the confidence of a choice here."""
    return 1.0 + sum(share * math.log(share) for share in p if share) / math.log(len(p))


def record(i, rng):
    """A choice, a score and a yes/no answer, nearly calibrated, one label in 50 wrong."""
    p = rng.dirichlet([0.2, 0.2, 0.2])
    shares = [round(float(share), 3) for share in p]
    shares[0] = round(1.0 - shares[1] - shares[2], 3)
    levels = [0.1, 0.2, 0.7]
    yes = round(float(rng.beta(0.15, 0.25)), 3)
    answers = {
        "team": {
            "type": "choice",
            "choice": logs.OPTIONS[int(np.argmax(shares))],
            "probabilities": dict(zip(logs.OPTIONS, shares, strict=True)),
            "confidence": round(certainty(shares), 3),
        },
        "urgency": {
            "type": "score",
            "score": 1.6,
            "probabilities": dict(zip(LEVELS, levels, strict=True)),
        },
        "refund": {"type": "noul", "noul": yes},
    }
    label = {
        "team": logs.OPTIONS[rng.choice(3, p=p)],
        "urgency": int(rng.choice(3, p=[0.01, 0.01, 0.98])),
        "refund": bool(rng.random() < yes),
    }
    if i % 25 == 24:
        del answers["refund"]
    return {"id": f"r{i}", "answers": answers, "label": label}


@pytest.fixture
def records(run):
    rng = np.random.default_rng(4)
    made = [record(i, rng) for i in range(500)]
    with open("log.jsonl", "w", encoding="utf-8") as file:
        file.write(logs.lines(made))
    return made


def of_json(run, *words):
    done = run("threshold", "log.jsonl", "--json", *words)
    return json.loads(done.out)


def test_yes_and_no_have_a_cut_each(run, records):
    cuts = of_json(run, "--accuracy", ".9")["questions"]["refund"]["cuts"]
    answered = [record for record in records if "refund" in record["answers"]]
    p = np.array([record["answers"]["refund"]["noul"] for record in answered])
    y = np.array([record["label"]["refund"] for record in answered])
    for option, score, right in (("yes", p, y), ("no", 1.0 - p, ~y)):
        cut = cuts[option]
        accepted = score >= cut["threshold"] - 1e-9
        assert (score[accepted] > 0.5).all()
        assert cut["coverage"] == pytest.approx(accepted.mean())
        assert cut["accuracy"] == pytest.approx(right[accepted].mean())
        assert cut["accuracy"] >= cut["accuracy_lower"] >= 0.9
        assert cut["level"] == 0.975  # both together have .95


def test_the_precision_of_one_option_is_looked_for_among_all_rows(run, records):
    cut = of_json(run, "--precision", "yes=.3")["questions"]["refund"]["cuts"]["yes"]
    assert cut["threshold"] < 0.5
    assert cut["level"] == 0.95
    assert cut["accuracy"] >= cut["accuracy_lower"] >= 0.3
    both = of_json(run, "--precision", "yes=.8", "--precision", "no=.9")
    cuts = both["questions"]["refund"]["cuts"]
    assert (cuts["yes"]["target"], cuts["no"]["target"]) == (0.8, 0.9)
    assert cuts["yes"]["threshold"] > 0.5
    assert "threshold" not in both["questions"]["team"]
    option = of_json(run, "--precision", "shipping=.8")["questions"]["team"]["cuts"]
    assert set(option) == {"shipping"}


def test_a_precision_that_no_threshold_guarantees_is_said(run, records):
    """It was a row of dashes and exit 4."""
    done = run("threshold", "log.jsonl", "--precision", "yes=.9999")
    assert done.code == 4
    assert "refund: no threshold guarantees this precision of yes" in done.err


def test_the_confidence_of_the_log_has_a_threshold_by_its_formula(run, records):
    team = of_json(run, "--accuracy", ".8")["questions"]["team"]
    shares = [
        list(record["answers"]["team"]["probabilities"].values()) for record in records
    ]
    gated = [certainty(p) >= team["confidence_threshold"] - 1e-6 for p in shares]
    right = [
        record["label"]["team"] == record["answers"]["team"]["choice"]
        for record in records
    ]
    assert np.mean(gated) == pytest.approx(team["confidence_coverage"])
    assert np.mean(np.array(right)[gated]) >= 0.8


def test_a_record_is_right_where_all_its_answers_are(run, records):
    whole = of_json(run, "--accuracy", ".6", "--record")["record"]
    assert whole["n"] == 480
    assert whole["left_out"] == 20
    assert set(whole["questions"]) == {"team", "urgency", "refund"}
    accepted, right = 0, 0
    for record in records:
        answers, label = record["answers"], record["label"]
        if "refund" not in answers:
            continue
        yes = answers["refund"]["noul"]
        best = max(answers["team"]["probabilities"].values())
        if best * 0.7 * max(yes, 1.0 - yes) < whole["threshold"] - 1e-9:
            continue
        accepted += 1
        right += (
            label["team"] == answers["team"]["choice"]
            and label["urgency"] == 2
            and label["refund"] == (yes > 0.5)
        )
    assert whole["coverage"] == pytest.approx(accepted / 480)
    assert whole["accuracy"] == pytest.approx(right / accepted)
    assert whole["accuracy"] >= whole["accuracy_lower"] >= 0.6


def test_some_questions_of_a_record_are_named(run, records):
    names = ("log.jsonl:team", "log.jsonl:refund")
    done = run("threshold", *names, "--accuracy", ".7", "--record", "--json")
    content = json.loads(done.out)
    assert list(content["questions"]) == ["team", "refund"]
    assert content["record"]["questions"] == ["team", "refund"]


@pytest.fixture
def halves(records):
    """The same records as two logs, whose ids both begin at r0."""
    for name, half in (("a.jsonl", records[:250]), ("b.jsonl", records[250:])):
        renumbered = [{**entry, "id": f"r{i}"} for i, entry in enumerate(half)]
        with open(name, "w", encoding="utf-8") as file:
            file.write(logs.lines(renumbered))


def test_two_logs_count_together_question_by_question(run, halves):
    whole = of_json(run, "--accuracy", ".7", "--record")
    words = ("--accuracy", ".7", "--record", "--json")
    both = json.loads(run("threshold", "a.jsonl", "b.jsonl", *words).out)
    assert both == whole
    parts = ("a.jsonl:refund", "b.jsonl:refund")
    cuts = json.loads(run("threshold", *parts, "--precision", "yes=.8", "--json").out)[
        "questions"
    ]["refund"]["cuts"]
    expected = of_json(run, "--precision", "yes=.8")["questions"]["refund"]["cuts"]
    assert cuts == expected


def test_two_logs_with_the_same_answers_are_named(run, records):
    text = Path("log.jsonl").read_text("utf-8")
    reversed_lines = reversed(text.splitlines())
    Path("again.jsonl").write_text("\n".join(reversed_lines) + "\n", "utf-8")
    done = run("threshold", "log.jsonl", "again.jsonl", "--accuracy", "0.5")
    assert "holds the answers of log.jsonl, which count twice" in done.err


def test_records_of_the_same_ids_are_no_copies(run, halves):
    """Nor where nearly all answers to a question are equal, as those of urgency."""
    done = run("threshold", "a.jsonl", "b.jsonl", "--accuracy", "0.5")
    assert "holds the answers" not in done.err


def test_two_questions_are_not_one(run, halves):
    words = ("a.jsonl:refund", "b.jsonl:team", "--accuracy", ".7", "--json")
    content = json.loads(run("threshold", *words).out)
    assert list(content["questions"]) == ["refund", "team"]


def test_nothing_is_written_where_nothing_is_found(run, records):
    done = run("threshold", "log.jsonl", "--accuracy", ".999999", "-o", "none.json")
    assert done.code == 4
    assert "none.json" not in done.out
    assert not os.path.exists("none.json")


def test_a_file_of_thresholds_serves_apply_one_question_at_a_time(run, records):
    assert run("fit", "log.jsonl", "-o", "q.json", "-q").code == 0
    words = ("-c", "q.json", "--accuracy", ".7", "-o", "t.json", "-q")
    assert run("threshold", "log.jsonl", *words).code == 0
    least = json.loads(Path("t.json").read_text("utf-8"))["questions"]["refund"][
        "threshold"
    ]
    apply = ("apply", "q.json:refund", "log.jsonl:refund", "-q", "--threshold")
    assert run(*apply, "t.json", "-o", "by_file.h5").code == 0
    assert run(*apply, repr(least), "-o", "by_number.h5").code == 0
    with h5py.File("by_file.h5") as first, h5py.File("by_number.h5") as second:
        assert set(first) == set(second)
        for name in first:
            np.testing.assert_array_equal(first[name][()], second[name][()])
    other = ("apply", "q.json:team", "log.jsonl:refund", "-o", "x.h5")
    assert run(*other, "--threshold", "t.json").code == 3


@pytest.mark.parametrize("words", [["--record"], ["--precision", "1=.8"]])
def test_a_bundle_is_no_log(run, words):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 2))
    np.savez("s.npz", logits=logits, labels=logits.argmax(axis=1))
    done = run("threshold", "s.npz", "--accuracy", ".8", *words)
    assert done.code == 2
    assert "s.npz: is no log of decisions" in done.err


def test_ties_and_missing_thresholds_are_said(run, records):
    done = run("threshold", "log.jsonl", "--accuracy", ".99")
    assert done.code == 4
    assert "500 of 500 answers share the highest confidence, 0.70" in done.err
    assert "team: no threshold guarantees this accuracy; at most 0." in done.err
    done = run("threshold", "log.jsonl", "--accuracy", ".99", "--record")
    assert "whole record: no threshold guarantees this accuracy; at most 0." in done.err
    ties = of_json(run, "--accuracy", ".99")["questions"]["urgency"]["ties"]
    right = np.mean([record["label"]["urgency"] == 2 for record in records])
    assert ties == {"confidence": 0.7, "n": 500, "accuracy": pytest.approx(right)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--accuracy"),
        (("--record",), "--accuracy"),
        (("--precision", "maybe=.9"), "maybe: no question has this option"),
        (("--precision", "yes"), "such as yes=.9"),
        (("--precision", "yes=1.5"), "such as yes=.9"),
        (("--accuracy", "1.2"), "expected a number between 0 and 1"),
    ],
)
def test_what_cannot_be_asked_is_said(run, records, words, message):
    done = run("threshold", "log.jsonl", *words)
    assert done.code == 2
    assert message in done.err.splitlines()[-1]


# ---- the level, where every answer is right with a chance just below the target


def flat_answers(n, rng, chance):
    """Yes/no answers, right with this chance whatever they say."""
    p = np.round(rng.beta(0.4, 0.4, size=n), 2)
    shares = np.stack([1.0 - p, p], axis=1)
    best = shares.argmax(axis=1)
    return Answers(
        question="q",
        type="yes/no",
        classes=("no", "yes"),
        probabilities=shares,
        n_options=np.full(n, 2),
        prediction=best,
        confidence=shares.max(axis=1),
        label=np.where(rng.random(n) < chance, best, 1 - best),
        formula="largest",
        records=[(str(row), 0) for row in range(n)],
        unit_names=None,
    )


def test_a_promise_that_nothing_keeps_is_made_in_one_set_of_twenty():
    """1 - .95 = .05; of 300 sets 26 is beyond its 99.9 % quantile (binomial: 26)."""
    rng = np.random.default_rng(11)
    promised = {"threshold": 0, "confidence_threshold": 0, "cuts": 0, "record": 0}
    for _ in range(300):
        answers = flat_answers(200, rng, 0.899)
        facts = thresholds(answers, Demand(0.9, {}, 0.95))
        for name in ("threshold", "confidence_threshold"):
            promised[name] += getattr(facts, name) is not None
        cuts = facts.cuts.values()
        promised["cuts"] += any(cut.threshold is not None for cut in cuts)
        records = Records()
        for answers_of_question in (answers, flat_answers(200, rng, 0.9)):
            records.add(answers_of_question)
        record = records.threshold(0.82, 0.95)
        promised["record"] += record.threshold is not None
    assert max(promised.values()) <= 26
