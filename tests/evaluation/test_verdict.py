"""The verdict: its level, its power, its clauses, and that nothing beside it contradicts it."""

import json
import re
from math import comb
from pathlib import Path

import h5py
import numpy as np
import pytest
from calcli.evaluation.verdict_rules import CLAUSE, LEVEL, MAIN, data_summary, judge
from metric_cases import draw_labels, softmax
from run_calcli import runner

import calcli
from calcli.evaluation.cross_validation import cross_fitted_split
from calcli.evaluation.results import LossPart, LossSplit
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext, MetricSettings
from calcli.metrics.joint_test import joint_test
from calcli.rows import ArrayRows

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "levels.json"


def rows_of(n, k, rng, scale=1.0, weight=None):
    """Logits that are ``scale`` times the true ones, with labels."""
    z = rng.normal(size=(n, k)) * 2.5
    return ArrayRows(scale * z, draw_labels(softmax(z), rng), weight=weight)


def report_of(rows, seed=0, split=None, group=None):
    context = MetricContext(
        collect(rows, class_bins=15, group=group), MetricSettings(seed=seed)
    )
    return judge(data_summary("logits", context), context, split)


def most(n, p, tail=1e-3):
    """Smallest count that a binomial exceeds with probability below ``tail``."""
    total, j = 0.0, -1
    while 1 - total > tail:
        j += 1
        total += comb(n, j) * p**j * (1 - p) ** (n - j)
    return j


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "weighted"), [(200, 2, False), (200, 30, False), (300, 4, True)]
)
def test_calibrated_rows_are_called_calibrated(n, k, weighted):
    """5 % of the verdicts may be anything else; 60 replicates (benchmarks/levels.py has more)."""
    rng = np.random.RandomState(n + k)
    alarms = 0
    for seed in range(60):
        weight = rng.random_sample(n) + 0.1 if weighted else None
        report = report_of(rows_of(n, k, rng, weight=weight), seed)
        clean = report.p_overall > LEVEL
        assert (
            clean
            == (report.verdict_kind in ("calibrated", "too_few"))
            == (not report.findings)
        )
        assert (
            not clean
            or report.direction.words
            == "neither significantly over- nor underconfident"
        )
        assert not clean or report.classwise.n_significant == 0
        alarms += not clean
    assert alarms <= most(60, LEVEL)


def test_a_temperature_is_seen():
    """T = .85 at 1000 rows of 10 classes: quality asks for .988; 40 replicates, at most 3 missed."""
    rng = np.random.RandomState(3)
    assert (
        sum(
            report_of(rows_of(1000, 10, rng, 1 / 0.85), seed).p_overall > LEVEL
            for seed in range(40)
        )
        <= 3
    )


def test_the_draws_have_the_law_of_the_labels():
    """z of gap and entropy gap over many label draws of fixed rows, and the joint p-values uniform."""
    rng = np.random.RandomState(5)
    z = rng.normal(size=(400, 6)) * 2
    p = []
    for seed in range(80):
        table = collect(ArrayRows(z, draw_labels(softmax(z), rng)))
        p.append(joint_test(MetricContext(table, MetricSettings(seed=seed))).p_value)
    assert np.mean(p) == pytest.approx(0.5, abs=4.5 * 0.289 / np.sqrt(80))
    assert min(p) < 0.2 < 0.8 < max(p)


def test_each_clause_has_its_own_words():
    rng = np.random.RandomState(6)
    rows = rows_of(2000, 3, rng)
    plain = report_of(rows)
    assert plain.p_overall > LEVEL
    gain = LossPart(0.9, 0.8, 0.1, 0.01)
    split = LossSplit("svs", 5, gain, gain, gain)
    improvable = report_of(rows, split=split)
    assert improvable.verdict.startswith(
        "mixed: no significant miscalibration of the confidence overall (p = "
    )
    assert (
        "recalibration could reduce NLL by 0.1000 (cross-validated ts)"
        in improvable.verdict
    )
    assert improvable.p_overall <= LEVEL < improvable.p_value
    faint = LossPart(
        0.9, 0.88, 0.02, 0.01
    )  # z = 2: not enough for one clause of several
    assert (
        report_of(rows, split=LossSplit("svs", 5, faint, faint, faint)).verdict
        == plain.verdict
    )
    assert MAIN + CLAUSE * 3 < 1.15 * LEVEL


def test_the_worst_of_groups_beyond_all_doubt_is_the_one_with_the_largest_gap():
    """Their p-values are rounding errors about 0, which order nothing."""
    rng = np.random.RandomState(1)
    c = 1 - 0.02 * rng.random_sample(4000)
    group = np.arange(4000) % 8
    y = (rng.random_sample(4000) >= c - 0.06 - 0.02 * (group == 5)).astype(np.int64)
    rows = ArrayRows(np.log(np.stack([c, 1 - c], axis=1)), y)
    assert report_of(rows, group=group).groups.worst == "5"


def test_groups_that_cancel_are_named(monkeypatch, capsys, tmp_path):
    """One group too sure, one not sure enough, right over all: the default report says which."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(7)
    c = np.full(1200, 0.7)
    group = np.arange(1200) % 3
    y = (rng.random_sample(1200) >= c + np.array([-0.17, 0.17, 0.0])[group]).astype(int)
    with h5py.File("g.h5", "w") as file:
        file["probs"], file["labels"] = np.stack([c, 1 - c], axis=1), y
        file["group"] = np.array(["north", "south", "west"], dtype=object)[group]
    run = runner(monkeypatch, capsys)
    done = run("evaluate", "g.h5", "--json", "-q")
    report = json.loads(done.out)["results"][0]["report"]
    assert report["verdict"].startswith(
        "mixed: no significant miscalibration of P(class 1) overall (p = "
    )
    assert "; 2 of 3 groups are miscalibrated, most clearly " in report["verdict"]
    assert report["groups"]["worst"] in ("north", "south")
    assert abs(report["groups"]["worst_gap"]) == pytest.approx(0.17, abs=0.06)
    assert report["p_overall"] <= LEVEL < report["p_value"]
    assert run("evaluate", "g.h5", "-q").out == f"verdict: g.h5: {report['verdict']}\n"
    text = run("evaluate", "g.h5", "--full").out
    assert text.startswith(f"verdict: g.h5: {report['verdict']}")
    assert "groups: 2 of 3 significantly miscalibrated" in text


def test_random_folds_do_not_find_what_is_not_there():
    """Calibrated rows, 20 classes: the mean calibration part is not above 0 (4 standard errors, 12 data sets)."""
    rng = np.random.RandomState(8)
    found = []
    for seed in range(12):
        rows = rows_of(400, 20, rng)
        found.append(
            cross_fitted_split(rows, None, collect(rows), seed).nll.calibration
        )
    assert np.mean(found) <= 4 * np.std(found) / np.sqrt(12)


def test_p_values_at_the_floor_of_their_draws_are_bounds(monkeypatch, capsys, tmp_path):
    """200 draws cannot give less than 1/201; 20 not less than 1/21."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(9)
    with h5py.File("o.h5", "w") as file:
        rows = rows_of(600, 3, rng, 3.0)
        file["logits"], file["labels"] = rows.scores, rows.y
    run = runner(monkeypatch, capsys)
    lines = run("evaluate", "o.h5", "-m", "smece", "-m", "ece").out.splitlines()
    assert [
        line.split("p ")[1] for line in lines if line.startswith(("smece", "ece"))
    ] == ["< 0.005", "< 0.001"]
    few = run("evaluate", "o.h5", "-m", "ece", "--resamples", "20").out
    assert "p < 0.048" in few


def test_a_set_of_one_outcome_only_is_no_finding():
    """300 rows, mean confidence 1 - 6.8e-7, labels drawn from the scores: all are right, as nearly all draws are.

    A test that compares such draws by their last digits rejects many of these sets (7 of 24).
    """
    found = []
    for seed in range(24):
        rng = np.random.RandomState(seed)
        z = np.zeros((300, 10))
        z[:, 0] = np.log(9.0 / 10.0 ** rng.uniform(-9.0, -5.2, 300))
        y = draw_labels(softmax(z), rng)
        found.append(calcli.evaluate(z, y).results[0].report)
    assert all("not sure enough" not in each.verdict for each in found)
    assert min(each.p_value for each in found) > 0.05 and not any(
        each.findings for each in found
    )


@pytest.mark.parametrize(
    ("names", "called"),
    [(["cat", "dog", "eel"], r"class \d \((dog|eel)\)"), (None, r"class \d")],
)
def test_the_class_that_is_miscalibrated_is_named(names, called):
    """Every row states (.4, .3, .3); the labels are drawn from (.4, .2, .4): the confidence is right."""
    y = np.random.RandomState(3).choice(3, 1000, p=[0.4, 0.2, 0.4])
    report = calcli.evaluate(
        np.tile([0.4, 0.3, 0.3], (1000, 1)), y, kind="probs", class_names=names
    ).to_dict()
    report = report["results"][0]["report"]
    assert re.search(
        rf"; 2 of 3 classes are miscalibrated, most clearly {called}(;|$)",
        report["verdict"],
    )
    assert "names" not in report["data"]


@pytest.mark.parametrize(
    ("experiment", "name", "most"),
    [
        (
            "level",
            "not clean",
            0.07,
        ),  # the bar of the joint test's design, for a level of .05 at 1000 sets
        ("units", "not clean", 0.08),  # 29 cells of 8 to 3000 units
        ("units", "misses 0", 0.08),
        ("promise", "broken", 0.05),
        ("paired", "misses", 0.06),
        ("areas", "auroc misses", 0.06),
        ("areas", "aurc misses", 0.06),
        ("split", "alarms", 0.05),
    ],
)
def test_every_stored_level_has_a_thousand_sets_and_keeps_its_bar(
    experiment, name, most
):
    """The simulations that the documentation quotes; the bars are older than they are."""
    cells = [
        cell
        for cell in json.loads(RECORD.read_text(encoding="utf-8"))
        if cell["experiment"] == experiment
    ]
    assert cells and all(cell["replicates"] >= 1000 for cell in cells)
    assert max(cell["sums"][name][0] / cell["replicates"] for cell in cells) <= most
