"""Copies of rows inside their units are no evidence: laws of every command and statistic."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_command_laws import assert_same, drawn
from test_laws import QUICK

import calcli
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.json_output import result_json
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.metrics.catalog import metric_names
from calcli.metrics.settings import MetricSettings
from calcli.registry import method_names
from calcli.rows import ArrayRows
from calcli.statistics.copies import first_copies
from calcli.statistics.units import Units

OF_OTHER_ROWS = ("ts-by", "platt-by", "recal")  # of groups and of transforms


def probabilities(logits):
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def rounded(probs, decimals):
    """Probabilities of few decimals that sum to 1."""
    coarse = np.round(probs, decimals)
    coarse[:, -1] = 1.0 - coarse[:, :-1].sum(axis=1)
    return coarse.clip(0.0, 1.0)


def judged(scores, labels, unit, weight=None, kind="logits"):
    """All metrics, tests, tables and the verdict of rows in units."""
    units = Units.of(unit)
    of_one_row = units.single
    known = None if of_one_row else units
    rows = ArrayRows(scores, labels, kind, weight=weight, units=known)
    name = None if of_one_row else "patient"
    subject = Subject(rows, group=unit % 3, unit=name)
    settings = MetricSettings(resamples=200)
    plan = Plan(metric_names(), settings, per_class=True, per_group=True)
    assessed = assess(subject, [Candidate(None, "uncalibrated", None)], plan)
    return result_json(assessed.results[0])


@pytest.mark.parametrize(
    ("n", "k", "units", "decimals"),
    [(300, 3, 60, None), (240, 2, 60, 2), (200, 2, 200, None), (24, 3, 12, None)],
)
def test_rows_that_all_occur_twice_in_their_unit_change_nothing(n, k, units, decimals):
    """The p-value of ``mce`` fell from .139 to .030, that of ``cwece`` from .025 to .005."""
    logits, labels = drawn(n, k, 84, units)
    probs = probabilities(logits)
    if decimals is not None:
        probs = rounded(probs, decimals)
    unit = np.arange(n) % units
    times = np.random.default_rng(1).permutation(np.tile(np.arange(n), 2))
    twice = judged(probs[times], labels[times], unit[times], kind="probs")
    assert_same(twice, judged(probs, labels, unit, kind="probs"))


@pytest.mark.parametrize("has_units", [False, True])
@pytest.mark.parametrize(("k", "decimals"), [(2, 1), (2, 2), (3, 2)])
def test_the_order_of_rows_with_equal_scores_changes_no_draw(k, decimals, has_units):
    """Draws followed the first rows among equal ones: ``tce2`` had p = .19 or .28."""
    logits, labels = drawn(240, k, 3, 60)
    probs = rounded(probabilities(logits), decimals)
    unit = np.arange(240) % 60 if has_units else np.arange(240)
    order = np.random.default_rng(5).permutation(240)
    verdict = judged(probs[order], labels[order], unit[order], kind="probs")
    assert_same(verdict, judged(probs, labels, unit, kind="probs"))


@pytest.mark.parametrize("k", [2, 4])
def test_a_unit_of_doubled_rows_weighs_twice_and_is_no_more_evidence(k):
    logits, labels = drawn(300, k, 85, 60)
    unit = np.arange(300) % 60
    doubled = np.flatnonzero(unit < 6)
    times = np.concatenate([np.arange(300), doubled])
    weight = np.where(unit < 6, 2.0, 1.0)
    verdict = judged(logits[times], labels[times], unit[times])
    assert_same(verdict, judged(logits, labels, unit, weight))
    metrics = {name: one["value"] for name, one in verdict["metrics"].items()}
    correct = logits[times].argmax(axis=1) == labels[times]
    assert metrics["accuracy"] == pytest.approx(correct.mean(), abs=1e-12)


def test_copies_of_rows_of_which_some_were_copies_are_found_too():
    """Every row there twice, some four times: the copies among these counted."""
    logits, labels = drawn(300, 3, 87, 60)
    unit = np.arange(300) % 60
    some = np.concatenate([np.arange(300), np.arange(0, 300, 3)])
    times = np.random.default_rng(2).permutation(np.tile(some, 2))
    verdict = judged(logits[times], labels[times], unit[times])
    expected = judged(logits[some], labels[some], unit[some])
    assert expected["n"] == verdict["n"] == 300
    assert_same(verdict, expected)


@pytest.mark.parametrize("name", [n for n in method_names() if n not in OF_OTHER_ROWS])
def test_a_fit_does_not_see_copies_inside_units(name):
    logits, labels = drawn(300, 2, 86, 60)
    unit = np.arange(300) % 60
    times = np.tile(np.arange(300), 2)
    options = QUICK.get(name, {})
    once = calcli.fit(logits, labels, name, units=unit, **options)
    twice = calcli.fit(logits[times], labels[times], name, units=unit[times], **options)
    assert twice.params == once.params
    assert twice.method == once.method


def test_rows_are_copies_only_where_chance_makes_no_such_rows():
    n_copies = 0
    for seed in range(10):
        for n, k, units in ((300, 3, 60), (240, 2, 60), (3000, 10, 300)):
            logits, labels = drawn(n, k, seed, units)
            unit = Units.of(np.arange(n) % units)
            for decimals in (1, 2, 4):
                keys = rounded(probabilities(logits), decimals) @ np.arange(1.0, k + 1)
                n_copies += first_copies(keys, labels, unit) is not None
    assert n_copies == 0


def test_scores_of_units_with_outcomes_of_rows_are_no_copies():
    """A risk of every patient, and what was found at each of 20 visits: once in 100."""
    rng = np.random.default_rng(7)
    unit = np.arange(4000) % 200
    risk = rng.uniform(0.0, 0.02, 200)[unit]
    outcome = (rng.random(4000) < risk).astype(int)
    assert first_copies(risk, outcome, Units.of(unit)) is None


def write(name, logits, labels, unit, rows):
    np.savez(name, logits=logits[rows], labels=labels[rows], unit=unit[rows])


COMMANDS = {
    "evaluate": ("evaluate", "--per-class", "--json"),
    "compare": ("compare", "--methods", "ts,vs,svs", "--json"),
    "threshold": ("threshold", "--accuracy", "0.6", "--json"),
    "fit": ("fit", "-m", "svs", "-o", "-"),
    "run": ("run", "-m", "svs", "-o", "out", "--force", "--json"),
    "run auto": ("run", "-o", "out", "--force", "--json"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_not_see_copies_inside_units(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    logits, labels = drawn(360, 3, 87, 60)
    unit = np.arange(360) % 60
    outputs = []
    for times in (1, 2):
        write("a.npz", logits, labels, unit, np.tile(np.arange(360), times))
        done = run(COMMANDS[name][0], "a.npz", *COMMANDS[name][1:], "-q")
        assert done.code == 0, done.err
        outputs.append(json.loads(done.out))
    assert_same(*map(without_origin, reversed(outputs)))


OF_FILES = ("data", "data_sha256", "row_sketch", "n", "seconds", "warnings", "messages")
"""Keys of what commands say of the file as it is stored."""


def without_origin(content):
    """JSON without what is of the file, and without the warning that names copies."""
    if isinstance(content, list):
        return [without_origin(one) for one in content]
    if not isinstance(content, dict):
        return content
    return {
        key: without_origin(value)
        for key, value in content.items()
        if key not in OF_FILES
    }


def test_a_picture_does_not_see_copies_inside_units(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logits, labels = drawn(360, 3, 88, 60)
    unit = np.arange(360) % 60
    outputs = []
    for times in (1, 2):
        write("a.npz", logits, labels, unit, np.tile(np.arange(360), times))
        done = run("diagram", "a.npz", "-o", f"{times}.json", "-q")
        assert done.code == 0, done.err
        outputs.append(json.loads(Path(f"{times}.json").read_text())["panels"])
    assert_same(outputs[1], outputs[0])


def test_evaluate_says_that_rows_are_copies(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logits, labels = drawn(360, 3, 88, 60)
    write("a.npz", logits, labels, np.arange(360) % 60, np.tile(np.arange(360), 2))
    done = run("evaluate", "a.npz")
    assert done.code == 0, done.err
    assert "360 of the 720 rows are copies" in " ".join((done.out + done.err).split())


def visits(name):
    """150 patients with one risk of two decimals and one outcome, seen at two sites."""
    rng = np.random.default_rng(5)
    risk = np.round(np.clip(rng.beta(0.8, 0.8, 150), 0.01, 0.99), 2)
    outcome = (rng.random(150) < risk).astype(int)
    with open(name, "w") as file:
        print("p0,p1,label,patient,site", file=file)
        for patient, (p, y) in enumerate(zip(risk, outcome, strict=True)):
            for site in "AB":
                print(f"{1 - p:.2f},{p:.2f},{y},{patient},{site}", file=file)


def test_equal_rows_of_a_unit_in_two_groups_are_no_copies(run):
    """The rows at site B were merged into those at A, and B was in no table and no fit."""
    visits("v.csv")
    table = ("v.csv", "--unit", "patient", "--group-by", "site")
    done = run("evaluate", *table, "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)["results"][0]
    sizes = {line["group"]: line["n"] for line in result["per_group"]}
    assert result["n"] == 300 and sizes == {"A": 150, "B": 150}
    by_site = ("fit", "-m", "ts", "--unit", "patient", "--by", "site", "v.csv", "-o")
    done = run(*by_site, "a.json")
    assert "there is one group" not in done.err and "copies" not in done.err
    # Without the column nothing tells them apart.
    done = run("evaluate", "v.csv", "--unit", "patient")
    assert "150 of the 300 rows are copies" in done.out + done.err


def test_rows_copied_within_their_groups_are_copies(run):
    visits("v.csv")
    lines = Path("v.csv").read_text().splitlines()
    with open("w.csv", "w") as file:
        print(lines[0], *lines[1:], *lines[1:], sep="\n", file=file)
    outputs = []
    for name in ("v.csv", "w.csv"):
        done = run(
            "evaluate", name, "--unit", "patient", "--group-by", "site", "--json", "-q"
        )
        assert done.code == 0, done.err
        outputs.append(json.loads(done.out)["results"][0]["metrics"]["nll"])
    assert outputs[0] == outputs[1]


def test_groups_in_memory_tell_rows_apart_too():
    rng = np.random.default_rng(5)
    risk = np.repeat(np.round(np.clip(rng.beta(0.8, 0.8, 150), 0.01, 0.99), 2), 2)
    outcome = np.repeat((rng.random(150) < risk[::2]).astype(int), 2)
    done = calcli.evaluate(
        np.stack([1 - risk, risk], axis=1),
        outcome,
        kind="probs",
        units=np.repeat(np.arange(150), 2),
        groups=["A", "B"] * 150,
    )
    assert done.results[0].n == 300
