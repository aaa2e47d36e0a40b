"""Advice that is followed leads somewhere: each step names what is new and gains, or says that no more is found."""

import json
import re
from dataclasses import replace

import h5py
import numpy as np
import pytest
from calcli.evaluation.verdict_rules import (
    data_summary,
    errors_words,
    judge,
    remedy_words,
)
from metric_cases import draw_labels, softmax

import calcli
from calcli.evaluation.results import LossPart, LossSplit
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext, MetricSettings
from calcli.rows import ArrayRows


def rows_of(kind, k, n=3000):
    """Scores and labels: shares of 100 votes (a forest), features counted twice (naive Bayes), or both bent."""
    rng = np.random.RandomState(k)
    z = rng.normal(size=(n, k)) * (2.5 if k < 20 else 3.5)
    y = draw_labels(softmax(z), rng)
    if kind == "forest":
        p = 0.6 * softmax(z) + 0.4 / k
        return np.array([rng.multinomial(100, row) for row in p]) / 100.0, y
    z = 2.0 * z + rng.normal(size=(n, k)) + 0.8 * rng.normal(size=k)
    return softmax(z + (0.3 * z * (z > 0) if kind == "bent" else 0.0)), y


CASES = [("bayes", 2), ("forest", 2), ("bent", 3), ("forest", 3), ("bayes", 10)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "k"), [*CASES, ("bent", 100), ("confidence", 1)])
def test_advice_that_is_followed_three_times_gains_or_stops(kind, k):
    """Every step: fit what the advice names on one half, apply it to the other, and ask again."""
    p, y = rows_of("bent" if kind == "confidence" else kind, max(k, 3) if k < 2 else k)
    how = {"kind": "probs"}
    if kind == "confidence":
        p, y, how = (
            p.max(axis=1),
            (p.argmax(axis=1) == y).astype(int),
            {"kind": "confidence"},
        )
    half, tried, losses = len(p) // 2, [], []
    report = calcli.evaluate(p[half:], y[half:], **how).results[0].report
    for _ in range(3):
        found = re.fullmatch(
            r"calcli fit --method (\S+) <other labelled samples>", report.advice.command
        )
        if found is None:
            stops = report.advice.lead == "Nothing." or report.verdict_kind == "too_few"
            assert stops or re.search(
                "stronger than (auto|venn-abers)|Fit (auto|venn-abers) anew"
                "|Do not use it there",
                report.advice.lead,
            )
            break
        assert found[1] not in tried
        tried.append(found[1])
        fitted = calcli.fit(p[:half], y[:half], method=found[1], **how)
        before, after = calcli.evaluate(
            p[half:], y[half:], calibrators=[fitted], **how
        ).results
        loss = "brier_top" if kind == "confidence" else "nll"
        losses += [before.scores[loss].value] * (not losses) + [
            after.scores[loss].value
        ]
        report = after.report
    assert 0 < len(tried) < 3 and all(np.diff(losses) < 0)


def test_rows_that_have_been_through_a_calibrator_are_not_sent_back_to_it(
    run, tmp_path
):
    """What apply writes names its calibrator: a bias is left by ts, and the advice is neither ts nor svs after it."""
    rng = np.random.RandomState(5)
    z = rng.normal(size=(3000, 3)) * 3
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = (
            1.3 * z + np.array([1.0, 0.0, -1.0]),
            draw_labels(softmax(z), rng),
        )
    assert run("fit", "-m", "ts", "m.h5", "-o", "ts.json", "-q").code == 0
    assert run("apply", "ts.json", "m.h5", "-o", "a.h5", "-q").code == 0
    raw, mended = (
        json.loads(run("evaluate", name, "--json", "-q").out)["results"][0]["report"]
        for name in ("m.h5", "a.h5")
    )
    assert re.search(
        r"temperature scaling achieves \d+% of it: calcli fit --method svs",
        raw["verdict"],
    )
    assert (
        "temperature" not in mended["verdict"]
        and "in place of ts" in mended["advice"]["rest"]
    )
    assert (
        mended["advice"]["command"]
        == "calcli fit --method auto <other labelled samples>"
    )


def test_a_temperature_that_achieves_nothing_is_said_not_to_help():
    gain, none = LossPart(0.9, 0.8, 0.1, 0.01), LossPart(0.9, 0.9, 1e-5, 0.01)
    words = remedy_words(LossSplit("svs", 5, gain, gain, none), 10)
    assert words.endswith(
        "by 0.1000 (cross-validated svs); temperature scaling does not help here"
    )
    assert "temperature" not in remedy_words(
        LossSplit("svs", 5, gain, gain, none), 10, ["ts"]
    )


@pytest.mark.parametrize("k", [1, 3])
def test_a_nearly_constant_confidence_is_not_called_calibrated_where_errors_find_what_it_hides(
    k,
):
    """Confidences .70 to .71 that are right in 55 to 85 %: the mean is right; fixed bins and kernels see no more."""
    rng = np.random.RandomState(0)
    step = np.arange(2000) % 4
    c, y = (
        0.7 + 1e-4 * step + 1e-5 * rng.random_sample(2000),
        rng.random_sample(2000) < 0.55 + 0.1 * step,
    )
    if k == 1:
        report = calcli.evaluate(c, y.astype(int), kind="confidence").results[0].report
    else:
        p = np.stack([c, 0.6 * (1 - c), 0.4 * (1 - c)], axis=1)
        report = (
            calcli.evaluate(
                p, np.where(y, 0, 1 + (rng.random_sample(2000) < 0.4)), kind="probs"
            )
            .results[0]
            .report
        )
    assert (
        "errors" in report.findings
        and report.verdict_kind == "mixed"
        and report.p_value > 0.05 >= report.p_overall
    )
    assert (
        "but ece_mass and tce2 are above chance (p = 0.002, adjusted)" in report.verdict
    )
    assert report.advice.command.endswith(
        f"--method {'venn-abers' if k == 1 else 'auto'} <other labelled samples>"
    )


def test_the_bin_that_is_told_is_the_one_that_most_samples_suffer_from():
    """60 rows say .25 and are right in .6; 3000 say .95 and are right in .9: a seventh of the gap, 7 times the sum."""
    said = np.r_[np.full(60, 0.25), np.full(3000, 0.95), np.full(2400, 0.55)]
    hit = np.concatenate(
        [
            np.arange(n) < round(n * right)
            for n, right in ((60, 0.6), (3000, 0.9), (2400, 0.6))
        ]
    )
    report = calcli.evaluate(said, hit.astype(int), kind="confidence").results[0].report
    assert "of 3000 samples with confidence 0.9 to 0.99, 0.9000 [" in report.verdict
    assert "are right, fewer than the 0.9500 stated" in report.verdict


def test_a_limit_above_the_95th_percentile_is_not_told_to_rise_above_it(run, tmp_path):
    p, y = rows_of("bayes", 2)
    with h5py.File("m.h5", "w") as file:
        file["probs"], file["labels"] = p, y
    null = json.loads(run("evaluate", "m.h5", "-m", "ece", "--json", "-q").out)[
        "results"
    ][0]["metrics"]["ece"]
    for factor, told in ((0.95, True), (1.05, False)):
        said = run(
            "evaluate", "m.h5", "-m", "ece", "--max", f"ece={factor * null['null_q95']}"
        ).err
        assert "a calibrated model would cross it in about" in said
        assert ("or a limit above the 95th percentile" in said) == told


def test_every_p_value_has_its_test_and_its_least_value_in_the_legend(run, tmp_path):
    """1 / 1001 and 1 / 201 rounded up; of the verdict 1 / 201 times .05 / .045."""
    p, y = rows_of("bayes", 3)
    with h5py.File("m.h5", "w") as file:
        file["probs"], file["labels"] = p, y
    said = next(
        line
        for line in run("evaluate", "m.h5", "--full").out.splitlines()
        if "p-values: " in line
    )
    for words in (
        "smooth error (no p-value below 0.006)",
        "ece, ece_mass",
        "below 0.001)",
        "below 0.005)",
    ):
        assert words in said
    assert run("report", "m.h5", "-o", "r.html", "-q").code == 0
    assert (
        "one test of mean gap, sharpness and smooth error (no p-value below 0.006)"
        in (tmp_path / "r.html").read_text("utf-8")
    )


def test_an_interval_from_zero_beside_a_rejection_says_what_it_means(run, tmp_path):
    """1500 rows 4 points off: the debiased error is significant, and 1.645 of its standard errors reach 0."""
    for seed in range(20):
        rng = np.random.RandomState(seed)
        c = 0.5 + 0.45 * rng.random_sample(1500)
        y = (rng.random_sample(1500) < c - 0.04).astype(int)
        score = (
            calcli.evaluate(c, y, kind="confidence", metrics=["tce2"])
            .results[0]
            .scores["tce2"]
        )
        rejected = score.p_value <= 0.05 and score.interval.low == 0.0
        assert bool(score.end_words) == rejected
        assert not rejected or score.end_words.startswith("more than 0 (p ")
        if rejected:
            break
    assert rejected


def test_advice_to_fit_on_these_samples_names_what_the_calibrator_replaces(
    run, tmp_path
):
    """On the samples to fit on, what they have been through is named as on any others."""
    rng = np.random.RandomState(5)
    z = rng.normal(size=(6000, 3)) * 3
    y = draw_labels(softmax(z), rng)
    with h5py.File("m.h5", "w") as file:
        for name, part in (("cal", slice(0, 3000)), ("test", slice(3000, None))):
            file[f"{name}/logits"], file[f"{name}/labels"] = (
                (1.3 * z + np.array([1.0, 0.0, -1.0]))[part],
                y[part],
            )
    assert run("fit", "m.h5:test", "-m", "ts", "-o", "ts.json", "-q").code == 0
    for name in ("cal", "test"):
        assert (
            run("apply", "ts.json", f"m.h5:{name}", "-o", f"{name}.h5", "-q").code == 0
        )
    with h5py.File("both.h5", "w") as file:
        for name in ("cal", "test"):
            with h5py.File(f"{name}.h5") as part:
                part.copy(part["/"], file, name)
    found = [
        json.loads(run("evaluate", f"both.h5:{name}", "--json", "-q").out)["results"][
            0
        ]["report"]["advice"]
        for name in ("test", "cal")
    ]
    assert found[0]["rest"].startswith(
        "on other labelled samples of this model in place of ts. "
    )
    assert found[1]["rest"].startswith(
        "on these samples in place of ts, and evaluate it on both.h5:test. "
    )
    assert {each["command"] for each in found} == {
        "calcli fit --method auto both.h5:cal"
    }


def test_a_calibrator_that_helps_is_advised_though_it_loses_answers_and_says_how_many():
    """Logits six times too large; the labels of the fit have a bias that these do not: lower NLL, fewer right."""
    rng = np.random.RandomState(3)
    z, bias = rng.normal(size=(8000, 3)), np.array([0.4, 0.0, -0.4])
    y = draw_labels(softmax(z), rng)
    biased = calcli.fit(
        6 * z[:4000], draw_labels(softmax(z[:4000] + bias), rng), method="vs"
    )
    plain = calcli.fit(6 * z[:4000], y[:4000], method="ts")
    advice = (
        calcli.evaluate(6 * z[4000:], y[4000:], calibrators=[biased])
        .results[0]
        .report.advice
    )
    assert advice.lead == "Apply the calibrator."
    lost = r"accuracy falls by (\d\.\d) points \(auto --set keep_argmax=true is accuracy-preserving\)"
    assert 0.5 < float(re.search(lost, advice.clause)[1]) < 5.0
    both = (
        calcli.evaluate(6 * z[4000:], y[4000:], calibrators=[biased, plain])
        .results[0]
        .report.advice
    )
    assert (
        "accuracy" not in both.clause
        and "No answer becomes right or wrong." in both.rest
    )


def test_one_that_makes_it_worse_is_named_in_the_verdict():
    rng = np.random.RandomState(3)
    z = 2.0 * rng.normal(size=(3000, 3))
    y = draw_labels(softmax(z), rng)
    bad = calcli.fit(z, draw_labels(softmax(9 * z), rng), method="ts")
    report = calcli.evaluate(1.5 * z, y, calibrators=[bad]).results[0].report
    assert (
        report.advice.lead == "None of these helps."
        and "ts makes it worse; " in report.verdict
    )


def test_after_a_method_that_leaves_something_the_strongest_is_advised_and_after_that_none():
    """3 times too large: neither ts nor svs finds more, by the split that is given."""
    rng = np.random.RandomState(8)
    z = rng.normal(size=(2000, 3))
    context = MetricContext(
        collect(ArrayRows(3 * z, draw_labels(softmax(z), rng)), class_bins=15),
        MetricSettings(),
    )
    part = LossPart(0.9, 0.9, 1e-5, 0.01)
    for tried, said, command in (
        (
            "ts",
            "svs or ts on top of it would not reduce its NLL (cross-validated); auto in place of ts may help",
            "fit",
        ),
        ("auto", "no method here is stronger than auto", ""),
    ):
        split = LossSplit("svs", 5, part, part, part)
        advice = judge(
            data_summary("logits", context), context, split, tried=(tried,)
        ).advice
        assert advice.clause == said and advice.command.startswith(
            f"calcli {command}" if command else ""
        )
        assert bool(advice.command) == bool(command)


def test_groups_that_are_off_come_with_the_option_that_calibrates_each(run, tmp_path):
    rng = np.random.RandomState(2)
    z, topic = rng.normal(size=(6000, 3)) * 2, np.arange(6000) % 3
    y = draw_labels(softmax(z * np.array([0.4, 1.0, 2.0])[topic][:, None]), rng)
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"], file["my topic"] = z, y, topic
    report = json.loads(
        run("evaluate", "m.h5", "--group-by", "my topic", "--json", "-q").out
    )["results"][0]["report"]
    assert (
        "Groups can have calibrators of their own (calcli fit --by 'my topic')."
        in report["advice"]["rest"]
    )
    assert run("fit", "m.h5", "--by", "my topic", "-o", "by.json", "-q").code == 0


def test_errors_that_do_not_decide_are_called_weak_evidence():
    p, y = rows_of("bayes", 3)
    report = replace(calcli.evaluate(p, y, kind="probs").results[0].report, findings=())
    assert errors_words(replace(report, errors={"ece": 0.03})) == [
        "ece gives weak evidence of miscalibration (p = 0.030, adjusted)"
    ]
    assert errors_words(
        replace(report, errors={"ece": 0.03, "tce2": 0.02, "smece": 0.04})
    ) == [
        "ece, tce2 and smece give weak evidence of miscalibration (p = 0.020, adjusted)"
    ]


@pytest.mark.parametrize("long", [False, True])
def test_with_a_baseline_the_advice_is_to_apply_what_helps_as_the_differences_say(
    run, monkeypatch, long
):
    """svs helps more than ts, and ts than none; "fit a calibrator" was the advice beside any baseline."""
    rng = np.random.RandomState(5)
    z = rng.normal(size=(4000, 3)) * 2
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = (
            (2.0 * z + np.array([2.0, 0.0, -2.0])),
            draw_labels(softmax(z), rng),
        )
    assert (
        run(
            "extract",
            "m.h5",
            "--split",
            "cal=0.5",
            "--split",
            "test=0.5",
            "-o",
            "s.h5",
            "-q",
        ).code
        == 0
    )
    for method in ("ts", "svs"):
        assert (
            run("fit", "s.h5:cal", "-m", method, "-o", f"{method}.json", "-q").code == 0
        )
    bad = calcli.fit(z, draw_labels(softmax(9 * z), rng), method="ts")
    bad.save("bad.json")
    if long:
        monkeypatch.setattr("calcli.evaluation.evaluate_bundle.LONG", 1000)
    for words, best in (
        (["--baseline", "ts.json"], "ts"),
        (["--baseline", "ts.json", "-c", "svs.json"], "svs"),
        (["--baseline", "svs.json", "-c", "ts.json"], "svs"),
        (["--baseline", "bad.json", "-c", "ts.json"], "ts"),
    ):
        done = run(
            "evaluate",
            "s.h5:test",
            *words,
            "--json",
            "-q",
            "--no-split" if long else "--split",
        )
        advice = json.loads(done.out)["results"][0]["report"]["advice"]
        assert (advice["lead"], advice["calibrator"]) == (
            "Apply the calibrator.",
            f"{best}.json",
        ), words
        assert advice["command"].startswith(f"calcli apply {best}.json s.h5:test -o ")
    alone = json.loads(
        run("evaluate", "s.h5:test", "-c", "svs.json", "--json", "-q").out
    )["results"][0]["report"]
    both = json.loads(
        run(
            "evaluate",
            "s.h5:test",
            "-c",
            "svs.json",
            "--baseline",
            "ts.json",
            "--json",
            "-q",
        ).out
    )
    assert (
        both["results"][0]["report"]["advice"]["rest"] == alone["advice"]["rest"]
    )  # the same interval


def test_a_gain_of_the_method_that_was_tried_is_no_promise_of_another():
    """Logits twice too large, the labels of the fit of others: ts would gain, of auto nothing is known."""
    rng = np.random.RandomState(8)
    z = rng.normal(size=(2000, 3))
    context = MetricContext(
        collect(ArrayRows(3 * z, draw_labels(softmax(z), rng)), class_bins=15),
        MetricSettings(),
    )
    gain = LossPart(0.9, 0.8, 0.1, 0.01)
    for tried, said in (
        ("ts", "auto in place of ts may help"),
        ("vs", "fit another in place of vs"),
    ):
        split = LossSplit("ts", 5, gain, gain, gain)
        advice = judge(
            data_summary("logits", context), context, split, tried=(tried,)
        ).advice
        assert (
            advice.clause
            == f"recalibration could reduce NLL by 0.1000 (cross-validated ts); {said}"
        )
