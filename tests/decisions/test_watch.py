"""All questions of a log watched in one state file, with one level for all of them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from calcli.evaluation.watch_log import LogState
from calcli.evaluation.watch_state import Batch, Settings, State
from calcli.statistics.betting import Evidence, batch_log_factors
from tests.decisions import logs


def record(name, rng, sharpen, questions=("team", "refund")):
    """Calibrated answers, those to ``team`` sharpened; one latent ease for both."""
    ease = rng.uniform(0.5, 2.0)
    p = rng.dirichlet([0.5, 0.5, 0.5]) ** ease
    p = p / p.sum()
    stated = np.round(p**sharpen / (p**sharpen).sum(), 4)
    stated[0] = round(1.0 - stated[1] - stated[2], 4)
    yes = round(float(rng.beta(0.6 / ease, 0.9 / ease)), 4)
    made = {
        "team": (logs.choice(stated), logs.OPTIONS[rng.choice(3, p=p)]),
        "refund": ({"type": "noul", "noul": yes}, bool(rng.random() < yes)),
        "urgent": ({"type": "noul", "noul": yes}, bool(rng.random() < yes)),
    }
    answers = {question: made[question][0] for question in questions}
    label = {question: made[question][1] for question in questions}
    return {"id": name, "answers": answers, "label": label}


def write(week, n=150, sharpen=1.0, questions=("team", "refund")):
    rng = np.random.default_rng([week, 5])
    records = [record(f"{week}-{i}", rng, sharpen, questions) for i in range(n)]
    name = f"week{week}.jsonl"
    Path(name).write_text(logs.lines(records), "utf-8")
    return name


def watched(run, *words):
    done = run("watch", *words, "--state", "s.json", "--json")
    return done.code, json.loads(done.out)


def weights(facts):
    """Shares of the level, of questions and reserve together."""
    shares = [
        question["settings"]["level"] / 0.05 for question in facts["questions"].values()
    ]
    state = json.loads(Path("s.json").read_text("utf-8"))
    return sum(shares) + state["reserve"]


def test_no_alarm_while_answers_are_calibrated_and_one_that_names_the_question(run):
    for week in range(1, 4):
        code, facts = watched(run, write(week))
        assert code == 0
        assert facts["alarm"] is False
    assert set(facts["questions"]) == {"team", "refund"}
    assert facts["batches"] == 3
    assert facts["rows"] == 900
    assert facts["questions"]["refund"]["settings"]["label"] == "positive"
    assert facts["questions"]["team"]["settings"]["label"] == "top"
    done = run("watch", write(4, n=400, sharpen=3.0), "--state", "s.json")
    assert done.code == 5
    assert done.out.startswith("ALARM since batch 4")
    assert "0.02: team (2 questions" in done.out
    code, facts = watched(run)  # it stays, and looking changes nothing
    assert code == 5
    assert facts["leading"] == "team"
    assert facts["questions"]["refund"]["alarm"] is False


def test_the_evidence_is_the_sum_of_shares_times_evidence(run):
    for week in range(1, 3):
        _, facts = watched(run, write(week))
    assert weights(facts) == pytest.approx(1.0)
    total = 1.0 / 3.0  # the reserve beside two questions
    for question in facts["questions"].values():
        assert question["alarm_at_e"] == pytest.approx(60.0)
        total += question["e"] / 3.0
    assert facts["e"] == pytest.approx(total)


def test_a_question_that_comes_later_has_half_the_reserve(run):
    _, before = watched(run, write(1))
    assert weights(before) == pytest.approx(1.0)
    questions = ("team", "refund", "urgent")
    _, after = watched(run, write(2, questions=questions))
    assert after["questions"]["urgent"]["batches"] == 1
    assert after["questions"]["urgent"]["settings"]["level"] == pytest.approx(0.05 / 6)
    assert weights(after) == pytest.approx(1.0)


def test_a_log_is_counted_once_and_a_log_that_grows_from_where_it_ended(run):
    first = write(1)
    watched(run, first)
    state = Path("s.json").read_bytes()
    done = run("watch", first, "--state", "s.json")
    assert done.code == 3
    assert "already counted" in done.err
    assert Path("s.json").read_bytes() == state
    more = Path(write(2)).read_text("utf-8")
    Path("grown.jsonl").write_text(Path(first).read_text("utf-8") + more, "utf-8")
    _, facts = watched(run, "grown.jsonl")
    assert facts["rows"] == 600
    assert facts["questions"]["team"]["left_out"] == 150


def test_a_question_without_new_rows_is_left_out(run):
    first = write(1)
    watched(run, first)
    more = Path(write(2, questions=("team",))).read_text("utf-8")
    Path("grown.jsonl").write_text(Path(first).read_text("utf-8") + more, "utf-8")
    done = run("watch", "grown.jsonl", "--state", "s.json", "--json")
    facts = json.loads(done.out)
    assert facts["questions"]["refund"]["batches"] == 1
    assert facts["questions"]["team"]["batches"] == 2
    assert "refund: this batch was already counted" in done.err


def test_a_log_that_grows_and_asks_an_old_state_again(run):
    """Only records of new states are counted, which is said."""
    records = []
    for week in (1, 2):
        text = Path(write(week)).read_text("utf-8")
        records += [json.loads(line) for line in text.splitlines()]
    records = [{**record, "state": f"s{n}"} for n, record in enumerate(records)]
    records[200]["state"] = "s7"
    records[1]["state"] = "s0"
    for name, n in (("first.jsonl", 150), ("grown.jsonl", 300)):
        Path(name).write_text(logs.lines(records[:n]), "utf-8")
    watched(run, "first.jsonl")
    done = run("watch", "grown.jsonl", "--state", "s.json", "--json")
    sentence = "1 of 150 new rows are of units that were already counted: left out"
    assert f"grown.jsonl:team: {sentence}" in done.err
    assert json.loads(done.out)["rows"] == 2 * (150 + 149)


def test_states_repeat_in_one_week_and_not_in_the_next(run):
    """Copies of a record count once, as its unit; weeks without copies go on from there."""
    text = Path(write(1)).read_text("utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    for name, copies in (("copies.jsonl", 3), ("once.jsonl", 1)):
        made = [
            {**record, "id": f"{record['id']}-{copy}", "state": record["id"]}
            for record in records
            for copy in range(copies)
        ]
        Path(name).write_text(logs.lines(made), "utf-8")
    evidence = {}
    for name in ("copies.jsonl", "once.jsonl"):
        done = run("watch", name, "--state", f"{name}.json", "--json")
        evidence[name] = json.loads(done.out)["log_e"]
        assert run("watch", write(2), "--state", f"{name}.json").code == 0
    assert evidence["copies.jsonl"] == pytest.approx(evidence["once.jsonl"], abs=1e-9)


def test_a_reset_opens_an_episode_for_all_questions(run):
    assert watched(run, write(1, n=400, sharpen=3.0))[0] == 5
    code, facts = watched(run, write(2), "--reset")
    assert code == 0
    assert facts["episode"] == 2
    assert facts["batches"] == 1
    assert weights(facts) == pytest.approx(1.0)
    code, facts = watched(run, write(3, questions=("team",)), "--reset")
    assert facts["questions"]["refund"]["batches"] == 0
    assert watched(run, write(4))[1]["questions"]["refund"]["batches"] == 1


def test_other_settings_and_calibrators_need_a_reset(run):
    watched(run, write(1))
    state = Path("s.json").read_bytes()
    run("fit", write(9, n=300, sharpen=2.0), "-o", "art.json")
    for words in (("--level", ".01"), ("--tolerance", "0"), ("-c", "art.json")):
        done = run("watch", write(2), "--state", "s.json", *words)
        assert done.code == 3
        assert "reset" in done.err
    assert Path("s.json").read_bytes() == state
    assert watched(run, write(2), "-c", "art.json", "--reset")[0] == 0
    done = run("watch", write(9, n=300, sharpen=2.0), "--state", "s.json")
    assert done.code == 3


def test_a_state_is_for_logs_or_for_bundles(run):
    watched(run, write(1))
    done = run("watch", f"{write(2)}:team", "--state", "s.json")
    assert done.code == 3
    assert "by question" in done.err
    run("watch", f"{write(2)}:team", "--state", "one.json")
    done = run("watch", write(2), "--state", "one.json")
    assert done.code == 3
    assert "no state of calcli watch of a log" in done.err
    Path("s.json").write_bytes(Path("s.json").read_bytes().replace(b"week1", b"week2"))
    assert "checksum" in run("watch", "--state", "s.json").err


BATCH = Batch("week", "", 1, 40, None, 0.7, 0.0, 0.0)


def state_of(evidences, share):
    """A state with this evidence of every question."""
    questions = {}
    for name, evidence in evidences.items():
        questions[name] = State(
            calcli_watch=1,
            calcli_version="0",
            settings=Settings(level=share * 0.05),
            episode=1,
            log_sums=evidence.log_sums.tolist(),
            log_best=evidence.log_best.tolist(),
            best_start=evidence.best_start.astype(int).tolist(),
            batches=[BATCH] * evidence.batches,
        )
    return LogState(
        calcli_watch=1,
        calcli_version="0",
        level=0.05,
        tolerance=0.0,
        episode=1,
        reserve=share,
        batches=[],
        questions=questions,
    )


def test_false_alarms_of_dependent_questions_keep_the_level():
    """Four questions with one luck for all, right as often as they say, tolerance 0.

    300 streams of 10 batches: at .05, 26 alarms are beyond the 99.9 % quantile.
    """
    rng = np.random.default_rng(6)
    names, alarms = "abcd", 0
    for _ in range(300):
        evidences = dict.fromkeys(names, Evidence.none())
        for _ in range(10):
            luck = rng.random(40)
            for name in names:
                c = rng.uniform(0.4, 1.0, size=40)
                right = (luck < c).astype(float)
                factors = batch_log_factors(c, right, 0.0)
                evidences[name] = evidences[name].after(factors)
            if state_of(evidences, 0.2).log_e >= math.log(20.0):
                alarms += 1
                break
    assert alarms <= 26
