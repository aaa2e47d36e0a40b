"""Thresholds that keep what they promise, and what the commands make of them."""

import csv
import json
import re
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from metric_cases import top_label_table
from run_calcli import runner
from synthetic import truth

from calcli.errors import UsageError
from calcli.evaluation.threshold_search import ThresholdSearch
from calcli.metrics.catalog import measure
from calcli.metrics.context import MetricContext
from calcli.statistics.acceptance import AcceptanceCurve
from calcli.statistics.intervals import exact_interval
from calcli.statistics.units import Units

sys.path.insert(0, str(REPOSITORY / "benchmarks"))

from threshold import Population, simulate


@pytest.mark.parametrize(
    "name",
    ["calibrated", "no better anywhere", "wrong at the very top", "in steps of 0.1"],
)
def test_the_promise_holds(name):
    # benchmarks/threshold.py is the long form, 1000 sets a case. "no better anywhere" has accuracy
    # 0.8999 at every threshold, so that each threshold found breaks the promise of 0.9.
    population = Population(name)
    shares = simulate(population, 1000, 0.9, 150)
    assert shares.holds >= 0.94
    if name != "no better anywhere":
        assert shares.chosen > 0.95
        assert shares.coverage > 0.8 * population.largest_coverage(0.9)


def test_all_right_needs_as_many_rows_as_the_binomial_says():
    # With no error in m rows the one-sided Clopper-Pearson bound is (1 - level)^(1/m).
    c = np.linspace(0.5, 1.0, 29)
    # 0.9^28 = 0.0523
    assert ThresholdSearch.of(c[:28], np.ones(28)).choose(0.9).best is None
    few = ThresholdSearch.of(c[:28], np.ones(28)).choose(0.9)
    assert few.least == 29
    choice = ThresholdSearch.of(c, np.ones(29)).choose(0.9)
    assert (
        choice.best is not None
        and choice.best.accepted == 29
        and choice.best.threshold == 0.5
    )
    assert choice.lower == pytest.approx(0.05 ** (1 / 29), rel=1e-12)
    many = ThresholdSearch.of(np.linspace(0.5, 1.0, 1000), np.ones(1000)).choose(0.9)
    assert many.best is not None and many.best.coverage == 1.0
    # the last of the tests has inherited all of the level: nothing failed before it
    assert many.lower == pytest.approx(0.05 ** (1 / 1000), rel=1e-9)


def test_ties_are_accepted_together_and_order_does_not_matter():
    rng = np.random.default_rng(3)
    c = np.repeat([0.99, 0.9, 0.6], [400, 400, 400])
    hit = (rng.random(1200) < c).astype(float)
    choice = ThresholdSearch.of(c, hit).choose(0.85)
    assert (
        choice.best is not None
        and choice.best.threshold == 0.9
        and choice.best.accepted == 800
    )
    mixed = rng.permutation(1200)
    assert ThresholdSearch.of(c[mixed], hit[mixed]).choose(0.85) == choice


def test_nothing_is_promised_where_nothing_can_be():
    for n in (1, 2, 10):
        assert ThresholdSearch.of(np.full(n, 0.7), np.ones(n)).choose(0.9).best is None
    assert (
        ThresholdSearch.of(np.linspace(0, 1, 500), np.zeros(500)).choose(0.5).best
        is None
    )
    for accuracy, level in ((1.0, 0.95), (0.0, 0.95), (0.9, 1.0), (float("nan"), 0.9)):
        with pytest.raises(UsageError, match="between 0 and 1"):
            ThresholdSearch.of(np.ones(5), np.ones(5)).choose(accuracy, level)


def test_points_of_the_curve():
    c, hit = np.array([0.9, 0.8, 0.8, 0.5]), np.array([1.0, 1.0, 0.0, 0.0])
    half = AcceptanceCurve.of(c, hit).at_coverage(0.5)
    assert (half.threshold, half.accepted, half.right) == (0.8, 3, 2)
    assert AcceptanceCurve.of(c, hit).at_coverage(1.0).accuracy == 0.5
    good = AcceptanceCurve.of(c, hit).at_accuracy(2 / 3)
    assert good is not None and good.coverage == 0.75
    assert AcceptanceCurve.of(c, np.zeros(4)).at_accuracy(0.5) is None
    # R 4.3, binom.test(9, 10)$conf.int
    assert exact_interval(9, 10) == pytest.approx((0.5549839, 0.9974714), abs=1e-7)
    assert exact_interval(0, 10)[0] == 0.0 and exact_interval(10, 10)[1] == 1.0


# ---- the commands


@pytest.fixture
def at_work(tmp_path, monkeypatch, capsys):
    """A folder with a.h5 (cal and test) and its ts.json, and a function that runs calcli there."""
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    z, y = truth(4000, 5, scale=6.0)
    with h5py.File("a.h5", "w") as file:
        for name, part in (("cal", slice(0, 2000)), ("test", slice(2000, 4000))):
            file[f"{name}/logits"], file[f"{name}/labels"] = (
                z[part].astype(np.float32),
                y[part],
            )
    assert run("fit", "-m", "ts", "a.h5", "-o", "ts.json", "-q").code == 0
    return run


def test_threshold_then_apply(at_work):
    done = at_work(
        "threshold",
        "a.h5",
        "--calibrator",
        "ts.json",
        "--accuracy",
        "0.9",
        "-o",
        "t.json",
        "--json",
    )
    output = json.loads(done.out)
    assert done.code == 0
    assert (
        output == json.loads(Path("t.json").read_text())
        and output["calcli_threshold"] == 1
    )
    assert output["accuracy_lower"] >= 0.9 and output["level"] == 0.95
    assert output["accuracy"] == output["right"] / output["accepted"]
    assert output["coverage_ci"][0] < output["coverage"] < output["coverage_ci"][1]
    for out in ("o.h5", "o.npz", "o.csv", "o.jsonl", "o.parquet"):
        done = at_work(
            "apply", "ts.json", "a.h5", "-o", out, "--threshold", "t.json", "--json"
        )
        assert (
            json.loads(done.out)["results"][0]["counts"]["accepted"]
            == output["accepted"]
        )
    with h5py.File("o.h5") as file:
        accepted, confidence = file["accepted"][()], file["confidence"][()]
        right = (file["prediction"][()] == file["labels"][()])[accepted]
    np.testing.assert_array_equal(accepted, confidence >= output["threshold"])
    assert right.sum() == output["right"]
    np.testing.assert_array_equal(np.load("o.npz")["accepted"], accepted)
    lines = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
    assert [line["accepted"] for line in lines] == accepted.tolist()
    with open("o.csv", newline="") as file:
        assert [
            row["accepted"] == "True" for row in csv.DictReader(file)
        ] == accepted.tolist()
    assert at_work("extract", "o.csv", "-o", "back.h5", "-q").code == 0
    assert at_work("inspect", "o.h5").code == 0


def test_a_number_is_a_threshold_too(at_work):
    done = at_work(
        "apply", "ts.json", "a.h5", "-o", "o.npz", "--threshold", "0.8", "--json"
    )
    data = np.load("o.npz")
    assert (
        json.loads(done.out)["results"][0]["counts"]["accepted"]
        == (data["confidence"] >= 0.8).sum()
    )
    assert (
        at_work("apply", "ts.json", "a.h5", "-o", "p.npz", "--threshold", "1.5").code
        == 2
    )
    assert (
        at_work(
            "apply", "ts.json", "a.h5", "-o", "p.npz", "--threshold", "absent.json"
        ).code
        == 3
    )
    Path("null.json").write_text('{"threshold": null, "calibrator_sha256": null}')
    assert (
        "no threshold"
        in at_work(
            "apply", "ts.json", "a.h5", "-o", "p.npz", "--threshold", "null.json"
        ).line
    )
    assert not Path("p.npz").exists()


def test_a_threshold_belongs_to_its_calibrator(at_work):
    assert (
        at_work("threshold", "a.h5", "--accuracy", "0.9", "-o", "raw.json", "-q").code
        == 0
    )
    refused = at_work(
        "apply", "ts.json", "a.h5", "-o", "p.npz", "--threshold", "raw.json"
    )
    assert refused.code == 3 and "was chosen for uncalibrated scores" in refused.line


def test_no_threshold_is_exit_4_with_nulls(at_work):
    done = at_work(
        "threshold", "a.h5", "--accuracy", "0.9999", "-o", "t.json", "--json"
    )
    output = json.loads(done.out)
    assert (
        done.code == 4
        and output["threshold"] is None
        and output["accuracy_lower"] is None
    )
    assert "29956" in done.line  # log 0.05 / log 0.9999, rounded up
    assert not Path("t.json").exists()


def test_a_refusal_says_which_accuracy_can_be_guaranteed_and_it_can(at_work):
    """It quoted accuracies that are seen here, above those that were refused, and none that could be had."""
    done = at_work("threshold", "a.h5", "--accuracy", "0.99", "--json")
    assert (
        done.code == 4
        and "guarantees accuracy >= 0.99 with probability 0.95" in done.line
    )
    asked, coverage = re.search(
        r"guaranteed is at most (0\.\d+), at coverage ([\d.]+)%: take --accuracy",
        done.line,
    ).groups()
    assert f"take --accuracy {asked}" in done.line
    there = json.loads(at_work("threshold", "a.h5", "--accuracy", asked, "--json").out)
    assert there["coverage"] == pytest.approx(float(coverage) / 100, abs=1e-3)
    assert (
        at_work("threshold", "a.h5", "--accuracy", f"{float(asked) + 1e-4:.4f}").code
        == 4
    )


def test_a_refusal_offers_what_can_be_had_and_more_samples_only_where_they_would_help(
    at_work,
):
    """ "or give more samples" stood behind an accuracy that no coverage has."""
    done = at_work("threshold", "a.h5", "--accuracy", "0.999")
    offers = re.findall(
        r"accuracy (0\.\d+) can be guaranteed at coverage ([\d.]+)%\n", done.err
    )
    assert 3 <= len(offers) <= 5 and done.err.index(
        "can be guaranteed at"
    ) < done.err.index("calcli: ")
    for asked, coverage in offers:
        there = json.loads(
            at_work("threshold", "a.h5", "--accuracy", asked, "--json").out
        )
        assert there["coverage"] == pytest.approx(float(coverage) / 100, abs=1e-3)
    assert [float(c) for _, c in offers] == sorted(float(c) for _, c in offers)
    confidence = np.repeat([0.9, 0.8], 500)
    # by hand: 75 % of the first half, 62.5 % of all
    never = np.r_[np.arange(500) % 4 > 0, np.arange(500) % 2]
    choice = ThresholdSearch.of(confidence, never.astype(float))
    # two confidences: four lines spoke of one share
    shares = [there.accepted for _, there in choice.offered(0.95)]
    assert shares == sorted(set(shares)) and len(shares) <= 2
    words = choice.why_not(choice.choose(0.9), "a", 0.9, 0.95)
    assert (
        "more samples alone would not help" in words
        and "more than 75.0% are right" in words
    )
    # seen, and not yet sure
    words = choice.why_not(choice.choose(0.745), "a", 0.745, 0.95)
    assert words.endswith(", or give more samples")
    # By hand: 375 of 500 are right at .9, half of the rows. Its upper bound is the .975 quantile of Beta(376, 125).
    assert "75.0% of the samples from 0.9 on are right (coverage 50.0%)" in words
    words = choice.why_not(choice.choose(0.78), "a", 0.78, 0.95)
    assert words.endswith(
        "more samples may not help, as at no coverage (from 30 samples) more than 75.0% are right"
        " (interval up to 78.7%)"
    )


def test_the_level_of_the_guarantee_has_the_word_of_the_other_levels(at_work):
    """--confidence is an array of extract and was a level here; it is still understood, and not shown."""
    new, old = (
        at_work("threshold", "a.h5", "--accuracy", "0.8", flag, "0.8", "--json")
        for flag in ("--level", "--confidence")
    )
    assert new.out == old.out and json.loads(new.out)["level"] == 0.8
    help_text = at_work("threshold", "--help").out
    assert "--level" in help_text and "--confidence" not in help_text


def test_every_group_is_told_how_accurate_it_is(at_work):
    """--group-by was read, said so, and had no word on a group that was less accurate than promised."""
    c, part = np.linspace(0.5, 1.0, 600), np.where(np.arange(600) % 3 == 0, "b", "a")
    # b: .8, a: 1
    hit = np.where((part == "b") & (np.cumsum(part == "b") % 5 == 0), 0.0, 1.0)
    np.savez("g.npz", confidence=c, correct=hit.astype(int), site=part)
    done = at_work(
        "threshold", "g.npz", "--accuracy", "0.7", "--group-by", "site", "--json"
    )
    output = json.loads(done.out)
    for line in output["groups"]:
        is_in_group = part == line["group"]
        is_accepted = is_in_group & (c >= output["threshold"])
        accuracy = hit[is_accepted].mean()
        assert line["n"] == is_in_group.sum()
        assert line["accepted"] == is_accepted.sum()
        assert line["right"] == hit[is_accepted].sum()
        assert line["accuracy"] == pytest.approx(accuracy)
        assert (
            f"group {line['group']}: {is_accepted.sum()} of {line['n']} rows, of which"
            f" {accuracy:.2%} are right (no guarantee by group)"
        ) in done.err
    assert [line["group"] for line in output["groups"]] == ["b", "a"]
    n_accepted = sum(line["accepted"] for line in output["groups"])
    assert n_accepted == output["accepted"]
    assert "groups" not in json.loads(
        at_work("threshold", "g.npz", "--accuracy", "0.7", "--json").out
    )


def test_rows_of_the_fit_and_weights(at_work):
    done = at_work(
        "threshold", "a.h5:cal", "--calibrator", "ts.json", "--accuracy", "0.9"
    )
    assert "fitted on these very rows" in done.err
    with h5py.File("a.h5", "a") as file:
        file["test/weights"] = np.arange(2000) % 2 + 1.0
    words = ("threshold", "a.h5", "--accuracy", "0.5")
    refused = at_work(*words)
    assert refused.code == 3 and "pass --sample-weight none" in refused.err
    assert at_work(*words, "--sample-weight", "none").code == 0


def test_single_confidences_have_thresholds_too(at_work):
    rng = np.random.default_rng(0)
    c = rng.random(2000) ** 0.3
    with h5py.File("c.h5", "w") as file:
        file["confidence"], file["correct"] = c, rng.random(2000) < c
    done = at_work("threshold", "c.h5", "--accuracy", "0.9", "--json")
    output = json.loads(done.out)
    assert (
        output["threshold"] in c
        and output["accepted"] == (c >= output["threshold"]).sum()
    )
    assert at_work("fit", "-m", "platt", "c.h5", "-o", "platt.json", "-q").code == 0
    assert (
        at_work(
            "apply", "platt.json", "c.h5", "-o", "d.npz", "--threshold", "0.8", "-q"
        ).code
        == 0
    )
    data = np.load("d.npz")
    np.testing.assert_array_equal(data["accepted"], data["confidence"] >= 0.8)
    assert (
        "only calibrators of the scores"
        in at_work("export", "platt.json", "--to", "python", "-o", "x.py").line
    )


def test_the_intervals_of_the_metrics_cover(tmp_path):
    # P(correct) = confidence = u in 0.5..1: the most confident share c has accuracy 1 - c / 4, so that
    # 0.9 holds at c = 0.4 and the accuracy at 0.8 is 0.8. 400 sets: 3.3 sd of a binomial of .95 is .036.
    rng, inside = np.random.default_rng(8), np.zeros(2)
    for _ in range(400):
        u = rng.uniform(0.5, 1.0, 300)
        hit = (rng.random(300) < u).astype(float)
        point = AcceptanceCurve.of(u, hit).at_coverage(0.8)
        low, high = exact_interval(point.right, point.accepted)
        inside[0] += low <= 0.8 <= high
        low, high = AcceptanceCurve.of(u, hit).coverage_interval(0.9)
        inside[1] += low <= 0.4 <= high
    assert (inside / 400 > 0.914).all() and (inside / 400 < 1.0).all()


def test_an_interval_by_hand_and_at_the_ends():
    c, right = np.linspace(1, 0.5, 40), np.array([1.0] * 30 + [0.0] * 10)
    # 32 right of 40 at the end would be .8; of the first j all are right up to 30
    low, high = AcceptanceCurve.of(c, right).coverage_interval(0.9)
    exact = [exact_interval(min(j, 30), j) for j in range(1, 41)]
    kept = [j for j, (lo, hi) in enumerate(exact, 1) if lo <= 0.9 <= hi]
    assert (low, high) == (0.0, max(kept) / 40)
    assert AcceptanceCurve.of(c, np.zeros(40)).coverage_interval(0.9) == (
        0.0,
        0.025,
    )  # one wrong answer leaves .9 open, two do not
    assert AcceptanceCurve.of(c, np.ones(40)).coverage_interval(0.9)[1] == 1.0


def test_metrics_at_a_number(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(3), 200)
    y = np.array([rng.choice(3, p=q) for q in p])
    np.savez("s.npz", probs=p, labels=y)
    conf, hit = p.max(axis=1), p.argmax(axis=1) == y
    names = [
        "accuracy_at_coverage(0.5)",
        "Accuracy-at-coverage@0.25",
        "coverage_at_accuracy(0.7)",
        "coverage_at_accuracy",
    ]
    done = run(
        "evaluate",
        "s.npz",
        "--json",
        *(word for name in names for word in ("-m", name)),
    )
    metrics = json.loads(done.out)["results"][0]["metrics"]
    best = np.argsort(-conf)
    assert metrics["accuracy_at_coverage(0.5)"]["value"] == pytest.approx(
        hit[best[:100]].mean()
    )
    assert metrics["accuracy_at_coverage(0.25)"]["value"] == pytest.approx(
        hit[best[:50]].mean()
    )
    share = np.cumsum(hit[best]) / np.arange(1, 201)
    coverage_of_metric = metrics["coverage_at_accuracy(0.7)"]
    assert coverage_of_metric["value"] == pytest.approx(
        (np.flatnonzero(share >= 0.7)[-1] + 1) / 200
    )
    assert (
        coverage_of_metric["ci"][0]
        <= coverage_of_metric["value"]
        <= coverage_of_metric["ci"][1]
    )
    assert coverage_of_metric["signature"].startswith(
        "coverage_at_accuracy|accuracy:0.7|label:top"
    )
    assert metrics["coverage_at_accuracy"]["signature"].startswith(
        "coverage_at_accuracy|accuracy:0.95|"
    )
    limit = "accuracy_at_coverage(0.5).lo=0.99"
    assert run("evaluate", "s.npz", "-m", "ece", "--min", limit, "-q").code == 5
    assert (
        run(
            "evaluate",
            "s.npz",
            "-m",
            "ece",
            "--min",
            "accuracy_at_coverage@0.5=0.1",
            "-q",
        ).code
        == 0
    )
    assert "takes no number" in run("evaluate", "s.npz", "-m", "ece(0.5)").line
    assert (
        "expected a number above 0"
        in run("evaluate", "s.npz", "-m", "accuracy_at_coverage(1.5)").err
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("coverage_at_accuracy(0.75)", 1.0),
        ("coverage_at_accuracy(0.8)", 0.25),
        ("accuracy_at_coverage(0.25)", 1.0),
        ("accuracy_at_coverage(0.26)", 0.5),
        ("accuracy_at_coverage(0.6)", 0.75),
    ],
)
def test_weighted_rows_count_by_their_weight(name, value):
    """Down to .9, .8, .7 and .6 the weights are 1, 2, 4 and 8 of 8, of which 1, 2, 2 and 6 are right."""
    table = top_label_table(
        [0.6, 0.9, 0.7, 0.8], [1, 1, 0, 1], weight=np.array([4.0, 1.0, 2.0, 1.0])
    )
    coverage_value = measure(name, MetricContext(table))
    assert (
        coverage_value.value == value
        and coverage_value.interval is None
        and coverage_value.signature["share"] == "weight"
    )
    none = top_label_table([0.6, 0.9], [0, 0], weight=np.ones(2))
    assert measure("coverage_at_accuracy", MetricContext(none)).value == 0.0


# ---- rows that belong together

WRONG = [50, 70, 71, 80, 90, 91, 92, 100, 105, 106, 110, 111, 115, 117, 118, 119]


def test_the_threshold_of_forty_units_of_three():
    # Tested at 67, 75, 82, 90, 97, 105, 112 and 120 rows; only 90 passes, p = .0059640636 at a level of .00625
    # (derived with SciPy's betainc and stdtrit outside this code).
    correct = np.ones(120)
    correct[WRONG] = 0
    units = Units.of(np.arange(120) // 3)
    confidence = 0.99 - 0.004 * np.arange(120)
    choice = ThresholdSearch.of(confidence, correct, units).choose(0.8)
    assert choice.best is not None and choice.best.accepted == 90 and choice.tests == 8
    assert choice.best.threshold == pytest.approx(0.634)
    assert choice.design_effect == pytest.approx(2.0)
    assert choice.least == 23  # ln(.05 / 8) / ln .8 = 22.7
    shuffled = np.random.default_rng(0).permutation(120)
    assert (
        ThresholdSearch.of(
            confidence[shuffled], correct[shuffled], units.take(shuffled)
        ).choose(0.8)
        == choice
    )


def test_units_of_one_row_give_the_threshold_of_rows():
    rng = np.random.default_rng(3)
    c = rng.uniform(0.5, 1, 600)
    hit = (rng.random(600) < c).astype(float)
    assert ThresholdSearch.of(c, hit, Units.of(np.arange(600))).choose(
        0.8
    ) == ThresholdSearch.of(c, hit).choose(0.8)


def test_too_few_units_have_no_threshold_however_right_they_are():
    """70 units, all right: .95^70 = .028 passes one test at .05, but ln(.05 / 14) / ln .95 = 109.9 units are needed.

    That one test of all rows breaks the promise in .072 of sets of 60 units of 20 rows with chance .95 (rho .3)."""
    units, c = Units.of(np.arange(140) // 2), 0.99 - 0.001 * np.arange(140)
    choice = ThresholdSearch.of(c, np.ones(140), units).choose(0.95)
    assert choice.best is None and choice.least == 110
    more = ThresholdSearch.of(
        0.99 - 0.001 * np.arange(400), np.ones(400), Units.of(np.arange(400) // 2)
    ).choose(0.95)
    assert more.best is not None and more.least == 131  # ln(.05 / 40) / ln .95 = 130.3


def test_copies_within_units_prove_nothing_and_rows_alone_would_break_the_promise():
    """60 units of 20 near-copies, each right with chance .9 whatever the score: thresholds found break the promise .9.

    Of 200 sets at most 19 may pass at a rate of .05 (binomial, p < .001).
    """
    rng = np.random.default_rng(8)
    unit = np.repeat(np.arange(60), 20)
    broken = rows_alone = 0
    for _ in range(200):
        right = np.repeat(rng.random(60) < 0.8999, 20).astype(float)
        c = rng.random(1200)
        broken += (
            ThresholdSearch.of(c, right, Units.of(unit)).choose(0.9).best is not None
        )
        rows_alone += ThresholdSearch.of(c, right).choose(0.9).best is not None
    assert broken <= 19 < rows_alone


def test_the_command_takes_units_from_the_bundle(at_work):
    rng = np.random.default_rng(0)
    with h5py.File("a.h5") as file, h5py.File("u.h5", "w") as made:
        logits = np.repeat(file["test/logits"][:400], 5, axis=0)
        made["logits"] = logits + 1e-4 * rng.normal(size=logits.shape)  # no copies
        made["labels"] = np.repeat(file["test/labels"][:400], 5)
        made["unit"] = np.repeat(np.arange(400), 5)
    with h5py.File("u.h5") as made, h5py.File("rows.h5", "w") as alone:
        alone["logits"], alone["labels"] = made["logits"][:], made["labels"][:]
    by_unit, wrong = (
        json.loads(at_work("threshold", name, "--accuracy", "0.9", "--json").out)
        for name in ("u.h5", "rows.h5")
    )
    assert by_unit["units"]["n"] == 400 and by_unit["units"]["largest"] == 5
    assert by_unit["units"]["design_effect"] == pytest.approx(5, rel=0.2)
    assert "units are drawn independently" in by_unit["guarantee"]
    assert "units" not in wrong and wrong["coverage"] > by_unit["coverage"]
    done = at_work("threshold", "u.h5", "--accuracy", "0.999")
    assert done.code == 4 and "units must be accepted" in done.err


@pytest.mark.parametrize(
    ("gap", "says"), [(20.0, "1 - 2.1e-09"), (3.0, "0.9526"), (50.0, "1.0000")]
)
def test_a_confidence_just_below_1_is_not_shown_as_1(
    monkeypatch, capsys, tmp_path, gap, says
):
    """It said "confidence from 1.0000". 1 - 1/(1 + e^-20) is 2.06e-9, 1/(1 + e^-3) .9526; 1 - e^-50 is 1 in floats."""
    monkeypatch.chdir(tmp_path)
    z = np.tile([0.0, gap], (400, 1))
    np.savez("a.npz", logits=z, labels=np.ones(400, int))
    done = runner(monkeypatch, capsys)("threshold", "a.npz", "--accuracy", "0.9")
    assert f"confidence from {says}\n" in done.err and done.code == 0
    assert (
        f"threshold {says} accepts" in done.err
        or says == "0.9526"
        or "threshold 1 accepts" in done.err
    )
