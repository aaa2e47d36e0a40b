"""The remedy `fit --by` is named where it was measured to help, and only there."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calcli
from calcli.evaluation import group_remedy
from calcli.evaluation.facts import Difference
from calcli.evaluation.words import _by_group_words
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows
from calcli.statistics.intervals import Interval


def drawn(rng, n, k, spread, n_groups=4):
    """Overconfident logits, labels and groups; log slopes of the groups have this spread."""
    group = rng.integers(0, n_groups, n)
    slope = 0.5 * np.exp(np.linspace(-spread, spread, n_groups))[group]
    z = 2.0 * rng.normal(size=(n, k))
    true = slope[:, None] * z
    true[:, -1] += np.linspace(-spread, spread, n_groups)[group] if k == 2 else 0.0
    return z, (true + rng.gumbel(size=z.shape)).argmax(axis=1), group


def write(name, z, y, **columns):
    np.savez(name, logits=z, labels=y, **columns)


def judged(run, *words):
    """Report of the uncalibrated scores, with its findings on calibrators by group."""
    done = run("evaluate", *words, "--json", "-q")
    assert done.code == 0, done.err
    report = json.loads(done.out)["results"][0]["report"]
    kinds = ("by_group", "by_group_untried")
    messages_of_kinds = [
        message for message in report["messages"] if message["kind"] in kinds
    ]
    return report, messages_of_kinds


@pytest.mark.parametrize(("k", "method"), [(2, "platt"), (4, "ts")])
def test_groups_that_differ_get_a_map_each(run, k, method):
    rng = np.random.default_rng(k)
    z, y, group = drawn(rng, 2000, k, spread=0.7)
    write("a.npz", z, y, site=group)
    report, remedies = judged(run, "a.npz", "--group-by", "site")
    (remedy,) = remedies
    assert remedy["helps"]
    assert (remedy["method"], remedy["by"]) == (method, ["site"])
    assert remedy["low"] < remedy["change"] < remedy["high"]
    assert 0.0 < remedy["at_least"] < -remedy["change"]
    assert remedy["text"].startswith(f"fit -m {method} --by site reduces NLL by 0.")
    kinds = [message["kind"] for message in report["messages"]]
    assert kinds.index("by_group") == kinds.index("groups") + 1
    # the command runs as printed, and what it fits does better on new rows
    words = shlex.split(report["next"])
    assert words[:6] == ["calcli", "fit", "-m", method, "--by", "site"]
    assert run(*words[1:]).code == 0
    by_group = calcli.load(f"a.{method}-by.json")
    one_map = calcli.fit(z, y, method)
    new, labels, groups = drawn(rng, 8000, k, spread=0.7)
    nll_by_group = nll(by_group.predict_proba(new, groups=groups), labels)
    assert nll_by_group < nll(one_map.predict_proba(new), labels)


def nll(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


def test_groups_that_are_alike_do_not(run):
    z, y, group = drawn(np.random.default_rng(1), 2000, 2, spread=0.0)
    write("a.npz", z + np.array([0.0, 0.4]), y, site=group)
    report, remedies = judged(run, "a.npz", "--group-by", "site")
    (remedy,) = remedies
    assert not remedy["helps"]
    assert remedy["text"].startswith("fit -m platt --by site is not shown to help")
    assert report["messages"][-1] == remedy
    assert report["next"].startswith("calcli run a.npz")
    assert "fit -m" not in run("evaluate", "a.npz", "--group-by", "site").out


def test_of_two_columns_the_one_that_matters_is_named(run):
    rng = np.random.default_rng(2)
    z, y, group = drawn(rng, 3000, 2, spread=0.7)
    write("a.npz", z, y, site=group, sex=rng.integers(0, 2, 3000))
    report, remedies = judged(run, "a.npz", "--group-by", "site", "--group-by", "sex")
    assert remedies[0]["helps"]
    assert remedies[0]["by"] == ["site"]
    assert run(*shlex.split(report["next"])[1:]).code == 0
    assert calcli.load("a.platt-by.json").options["by"] == "site"


def test_of_two_columns_that_matter_together_both_are_named(run):
    rng = np.random.default_rng(3)
    z, y, group = drawn(rng, 4000, 2, spread=0.8)
    write("a.npz", z, y, site=group // 2, sex=(group + group // 2) % 2)
    groups = ("--group-by", "site", "--group-by", "sex")
    report, remedies = judged(run, "a.npz", *groups)
    assert remedies[0]["helps"]
    assert remedies[0]["by"] == ["sex", "site"]
    assert "--by sex --by site" in report["next"]
    assert run(*shlex.split(report["next"])[1:]).code == 0
    assert calcli.load("a.platt-by.json").options["by"] == "sex, site"
    again, _ = judged(run, "a.npz", *groups)  # that file exists now
    assert run(*shlex.split(again["next"])[1:]).code == 0
    evaluated = run("evaluate", "a.npz", "-c", "a.platt-by.json", *groups, "--json")
    of_fit = json.loads(evaluated.out)["results"][1]["report"]["messages"]
    assert not [message for message in of_fit if message["kind"].startswith("by_group")]


def test_confidences_are_tried_too(run):
    rng = np.random.default_rng(4)
    n = 3000
    group = rng.integers(0, 2, n)
    confidence = rng.uniform(0.5, 1.0, n)
    right = rng.random(n) < np.where(group == 0, confidence - 0.25, confidence - 0.02)
    np.savez("a.npz", confidence=confidence, correct=right, site=group)
    report, remedies = judged(run, "a.npz", "--group-by", "site")
    assert remedies[0]["helps"]
    assert remedies[0]["loss"] == "squared error"
    assert run(*shlex.split(report["next"])[1:]).code == 0


def test_what_would_take_long_is_not_tried_and_not_named(run, monkeypatch):
    monkeypatch.setattr(group_remedy, "MOST_SCORES", 1999 * group_remedy.LEAST_CLASSES)
    z, y, group = drawn(np.random.default_rng(2), 2000, 2, spread=0.7)
    write("a.npz", z, y, site=group)
    report, remedies = judged(run, "a.npz", "--group-by", "site")
    text = "fit -m platt --by site was not tried: it takes long on 2,000 samples"
    assert [message["text"] for message in remedies] == [text]
    assert report["next"].startswith("calcli run a.npz")


def test_a_calibrator_that_does_better_than_maps_by_group_stays(run):
    """Its gap by group is significant, and a straight line for each group costs more."""
    rng = np.random.default_rng(5)
    n = 8000
    group = rng.integers(0, 2, n)
    z = rng.normal(size=n) * 3.0
    risk = 0.2 + 0.6 / (1.0 + np.exp(-4.0 * z)) + 0.05 * (2 * group - 1)
    y = (rng.random(n) < risk).astype(int)
    half = np.arange(n) < n // 2
    for name, part in (("cal.npz", half), ("test.npz", ~half)):
        write(name, np.stack([0 * z, z], axis=1)[part], y[part], site=group[part])
    assert run("fit", "cal.npz", "-m", "venn-abers", "-q").code == 0
    words = (
        "test.npz",
        "-c",
        "cal.venn-abers.json",
        "--group-by",
        "site",
        "--json",
        "-q",
    )
    results = json.loads(run("evaluate", *words).out)["results"]
    of_version = results[1]["report"]["messages"]
    assert "groups" in [message["kind"] for message in of_version]
    (remedy,) = [message for message in of_version if message["kind"] == "by_group"]
    assert not remedy["helps"]
    assert remedy["change_here"] > 0.0
    assert results[0]["report"]["next"].startswith("calcli apply cal.venn-abers.json")


def test_a_version_is_not_judged_by_the_moments_of_another_pair():
    """What is expected of the map by group beside one map for all says nothing of it."""
    rng = np.random.default_rng(24)
    z, y, group = drawn(rng, 600, 3, spread=0.5)
    settings = MetricSettings()
    rows = ArrayRows(z, y)
    trial = group_remedy.best_by_group(rows, {"site": group}, settings)
    evaluated = MetricContext(collect(rows), settings)
    finding = group_remedy.remedy_finding(trial, evaluated)
    assert trial.held_out.table.expected
    without = replace(trial.held_out.table, expected={})
    other = replace(trial, held_out=MetricContext(without, settings))
    assert group_remedy.remedy_finding(other, evaluated) == finding


def test_the_interval_allows_for_fits_to_folds_that_overlap():
    rng = np.random.default_rng(3)
    z, y, group = drawn(rng, 900, 3, spread=0.4)
    settings = MetricSettings()
    trial = group_remedy.best_by_group(ArrayRows(z, y), {"site": group}, settings)
    assert trial.change.interval.method.endswith("folds")


def test_the_bound_of_a_gain_is_of_the_level_of_its_test():
    """By hand: se .01, so 1.96 se above -.03 stands the interval's end, 1.645 se the bound."""
    interval = Interval(-0.0496, -0.0104, 0.95, "normal")
    change = Difference(-0.03, 0.01, interval, 0.0027)
    assert group_remedy._at_least(change) == pytest.approx(0.03 - 0.01645, abs=1e-4)
    assert group_remedy._p_value_of_reduction(change) == pytest.approx(0.00135)
    worse = replace(change, value=0.03)
    assert group_remedy._p_value_of_reduction(worse) == pytest.approx(0.99865)


@pytest.mark.parametrize(("level", "half"), [(0.5, 0.006745), (0.99, 0.02576)])
def test_the_bound_of_a_gain_does_not_depend_on_the_level_of_intervals(level, half):
    """Half: .6745 and 2.576 se, the normal quantiles at .75 and .995; --level chooses them."""
    interval = Interval(-0.03 - half, -0.03 + half, level, "normal")
    change = Difference(-0.03, 0.01, interval, 0.0027)
    assert group_remedy._at_least(change) == pytest.approx(0.03 - 0.01645, abs=1e-4)


def test_a_change_without_an_interval_is_said_without_one():
    numbers = {"helps": True, "method": "ts", "by": ["site"], "loss": "NLL"}
    numbers |= {"change": -0.01, "low": None, "high": None, "at_least": None}
    sentence = _by_group_words(numbers)
    assert (
        sentence == "fit -m ts --by site reduces NLL by 0.0100 beyond one map for all"
    )


def test_the_page_says_it(run):
    z, y, group = drawn(np.random.default_rng(2), 2000, 2, spread=0.7)
    write("a.npz", z, y, site=group)
    done = run("report", "a.npz", "--group-by", "site", "-o", "r.html")
    assert done.code == 0, done.err
    page = Path("r.html").read_text("utf-8")
    assert "Fit by site." in page
    assert "fit -m platt --by site" in page
