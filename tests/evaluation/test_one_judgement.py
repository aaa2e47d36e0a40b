"""One judgement: every kind of verdict reads the same in the terminal, JSON, page, Python and files."""

import html
import json
import re
import shutil
import xml.etree.ElementTree as ET
from math import log

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from metric_cases import draw_labels, softmax
from run_calcli import runner

import calcli
from calcli.evaluation.facts import Estimate
from calcli.evaluation.words import gap_words
from calcli.statistics.intervals import Interval, wilson_interval

KINDS = (
    "calibrated",
    "overconfident",
    "underconfident",
    "mixed",
    "too_few",
    "check_labels",
)


def rows_of(kind, k):
    """Logits and labels of a kind: scaled, moved about a threshold of size, few, or with two names exchanged."""
    rng = np.random.RandomState(k)
    n = 40 if kind == "too_few" else 6000
    z = rng.normal(size=(n, k)) * (4.0 if k > 2 else 3.0)
    y = draw_labels(softmax(z), rng)
    if kind == "mixed":
        sure = softmax(z).max(axis=1)
        much = sure > np.median(sure)

        def stated(factor):
            return z * np.where(much, factor, 1.5)[:, None]

        low, high = 0.1, 1.0  # the factor at which the mean confidence is right
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (
                (low, middle)
                if softmax(stated(middle)).max(axis=1).mean() > sure.mean()
                else (middle, high)
            )
        z = stated(low)
    if kind == "check_labels":
        y = np.where(y == 0, 1, np.where(y == 1, 0, y))
    return z * {"overconfident": 2.0, "underconfident": 0.5}.get(kind, 1.0), y


@pytest.mark.parametrize("k", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_output_prints_the_same_judgement(monkeypatch, capsys, tmp_path, kind, k):
    monkeypatch.chdir(tmp_path)
    z, y = rows_of(kind, k)
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    run = runner(monkeypatch, capsys)
    report = report_of(run, "m.h5")
    headline = report["verdict"]
    findings = [message["text"] for message in report["messages"]]
    assert report["verdict_kind"] == kind

    text = run("evaluate", "m.h5", "--max", "nll=99", "--junit", "j.xml").out
    assert said(text) == [f"m.h5: {headline}", *findings[:3]]
    assert run("evaluate", "m.h5", "-q").out == f"m.h5: {headline}\n"
    next_line = [line for line in text.splitlines() if line.startswith("next: ")]
    assert next_line == ([f"next: {report['next']}"] if report["next"] else [])

    expected = [("verdict_kind", kind), ("verdict", headline)]
    expected += [("finding", finding) for finding in findings]
    if report["next"]:
        expected.append(("next", report["next"]))
    properties = [
        (line.get("name").partition(":")[0], line.get("value"))
        for line in ET.parse("j.xml").getroot().iter("property")
    ]
    assert properties == expected

    card = run("evaluate", "m.h5", "--format", "model-index", "-q").out
    low, high = report["overconfidence"]["ci"]
    assert f"verdict: {json.dumps(headline, ensure_ascii=False)}" in card
    assert f'verdict_kind: "{kind}"' in card
    assert f"ci: [{low!r}, {high!r}]" in card

    assert run("report", "m.h5", "-o", "r.html", "-q").code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    stored = re.search(r'id="calcli-evaluation">(.*?)</script>', page)[1]
    assert json.loads(stored)["results"][0]["report"] == report

    with pytest.warns() if kind == "check_labels" else pytest.MonkeyPatch.context():
        evaluation = calcli.evaluate("m.h5")
    judgement = evaluation.results[0].report
    assert (judgement.headline, judgement.kind) == (headline, kind)
    assert judgement.lines == findings
    assert headline in html.unescape(evaluation._repr_html_())
    assert all(words in repr(evaluation) for words in (headline, *findings))


def report_of(run, *words):
    """The judgement on the first result, as JSON."""
    output = run("evaluate", *words, "--json", "-q").out
    return json.loads(output)["results"][0]["report"]


def said(text):
    """The headline and the findings that are printed, each in one line."""
    sentences = []
    for line in text.partition("\n\n")[0].splitlines():
        if line.startswith("    "):
            sentences[-1] += f" {line.strip()}"
        elif not line.endswith(" more with --full"):
            sentences.append(line.strip())
    return sentences


def test_a_verdict_quotes_the_interval_of_the_gap_and_not_the_spread_under_calibration():
    """The metric's own interval, which a bootstrap of the rows gives too; 1.96 |gap / z| is a third narrower here."""
    z, y = rows_of("overconfident", 4)
    judgement = calcli.evaluate(z, y).results[0].report
    gap = judgement.facts.overconfidence
    low, high = gap.interval.low, gap.interval.high
    quoted = f"({100 * gap.value:+.1f} points [{100 * low:.1f}, {100 * high:.1f}])"
    assert judgement.headline.endswith(quoted)
    p = softmax(z)
    d = p.max(axis=1) - (p.argmax(axis=1) == y)
    rng = np.random.default_rng(0)
    means = [d[rng.integers(0, len(d), len(d))].mean() for _ in range(2000)]
    assert [low, high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.001)
    assert high - low > 2.6 * abs(gap.value / judgement.facts.gap_z)
    alone = calcli.evaluate(z, y, metrics=["gap"]).results[0].scores["gap"].interval
    assert (alone.low, alone.high) == (low, high)


def test_few_samples_say_what_they_leave_open(run, tmp_path):
    """40 rows of confidence .9, all right: accuracy 91.2 to 100 %, and the gap at most .9 - .912."""
    z = np.tile([log(9.0), 0.0], (40, 1))
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = z, np.zeros(40, int)
    low = float(wilson_interval(np.array(1.0), np.array(40.0))[0])
    text = run("evaluate", "a.h5", "-m", "accuracy").out
    assert f"1.0000 [{low:.4f}, 1.0000]" in text
    report = report_of(run, "a.h5")
    assert report["verdict_kind"] == "too_few"
    assert report["overconfidence"]["ci_method"] == "clopper-pearson"
    ends = (0.9 - 1.0, 0.9 - 0.025 ** (1 / 40))
    assert report["overconfidence"]["ci"] == pytest.approx(ends)


def test_the_top_label_of_two_classes_is_judged_on_request(
    monkeypatch, capsys, tmp_path
):
    """A bias that the top label hides: what is judged stands in the JSON, and whose p-value is printed."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    odds = rng.normal(size=4000) * 3
    with h5py.File("b.h5", "w") as file:
        file["logits"] = np.stack([np.zeros(4000), odds + 0.2], axis=1)
        file["labels"] = (rng.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
    run = runner(monkeypatch, capsys)
    whole = report_of(run, "b.h5")
    top = report_of(run, "b.h5", "--label", "top")
    assert (whole["tested"], top["tested"]) == ("P(class 1)", "confidence")
    assert " points too high (" in whole["verdict"]
    assert " sure, " in top["verdict"]
    assert top["p_value"] > 0.05 >= whole["p_value"]
    assert "classes" not in whole["findings"]


@pytest.mark.parametrize(("right", "is_named"), [(0.72, True), (0.83, False)])
def test_a_small_mean_gap_does_not_hide_a_bin_that_is_far_off(
    run, tmp_path, right, is_named
):
    """Of 8500 rows 500 say .85 and are right in .72: .8 points on average, 13 in their bin. Or all are off by 2."""
    rng = np.random.default_rng(0)
    n = np.array([8000, 500])
    confidence = np.repeat([0.975, 0.85], n) + rng.uniform(-0.005, 0.005, 8500)
    n_right = (7800 if is_named else 7728, round(500 * right))
    correct = np.concatenate(
        [np.arange(m) < r for m, r in zip(n, n_right, strict=True)]
    )
    z = np.zeros((8500, 3))
    z[:, 0] = np.log(2 * confidence / (1 - confidence))
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = z, np.where(correct, 0, 1)
    report = report_of(run, "m.h5")
    assert report["verdict_kind"] == "overconfident"
    ranges = [message for message in report["messages"] if message["kind"] == "range"]
    far_off = [bin_ for bin_ in ranges if bin_["gap"] >= 0.03]
    assert bool(far_off) == is_named
    if is_named:
        assert far_off[0]["text"].startswith("from 80% to 90%: 85.0% sure, 72.0% right")


def test_zero_has_no_sign():
    gap = Estimate(-1e-9, Interval(-1e-9, 0.01, 0.95, "t"))
    assert gap_words(gap) == "0.0 points [0.0, 1.0]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "command", "recommended"),
    [
        (["ts"], "calcli apply ts.json NEW.h5 -o calibrated.h5", "ts.json"),
        (["bad", "ts"], "calcli apply ts.json NEW.h5 -o calibrated.h5", "ts.json"),
        (["own", "ts"], "calcli apply ts.json NEW.h5 -o calibrated.h5", "ts.json"),
        (["own"], "calcli evaluate m.h5:cal --calibrator own.json", "own.json"),
        (["bad"], "calcli run m.h5:cal m.h5:test", None),
    ],
)
def test_the_next_step_after_calibrators_is_the_same_in_every_output(
    run, tmp_path, names, command, recommended
):
    """ts: fitted on held-out rows; own: on the very rows; bad: on rows of half the temperature, and worsens these."""
    z, y = rows_of("overconfident", 4)
    with h5py.File("m.h5", "w") as file:
        for name, part in (("cal", slice(0, 3000)), ("test", slice(3000, None))):
            file[f"{name}/logits"], file[f"{name}/labels"] = z[part], y[part]
        file["other/logits"], file["other/labels"] = z[:3000] / 4.0, y[:3000]
    for name, rows in (("ts", "cal"), ("own", "test"), ("bad", "other")):
        words = "fit", f"m.h5:{rows}", "-m", "ts", "-o", f"{name}.json", "-q"
        assert run(*words).code == 0
    calibrators = [word for name in names for word in ("-c", f"{name}.json")]
    report = report_of(run, "m.h5", *calibrators)
    assert (report["next"], report["recommended"]) == (command, recommended)
    text = run("evaluate", "m.h5", *calibrators, "--max", "nll=99", "--junit", "j.xml")
    assert text.out.splitlines()[-1] == f"next: {command}"
    properties = ET.parse("j.xml").getroot().iter("property")
    assert [p.get("value") for p in properties if p.get("name").startswith("next")] == [
        command
    ]
    assert run("report", "m.h5", *calibrators, "-o", "r.html", "-q").code == 0
    page = html.unescape((tmp_path / "r.html").read_text("utf-8"))
    assert command in page


def test_what_a_calibrator_of_python_does_names_no_file():
    """An object has no path, so there is nothing to type; predictions that change are counted."""
    rng = np.random.default_rng(7)
    odds = rng.normal(size=4000) * 2
    y = (rng.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
    z = np.stack([np.zeros(4000), odds + 3], axis=1)
    platt = calcli.fit(z[:2000], y[:2000], method="platt")
    before, after = calcli.evaluate(z[2000:], y[2000:], platt).results
    assert before.report.next_step.command is None
    assert before.report.next_step.calibrator == after.title
    was_right = z[2000:].argmax(axis=1) == y[2000:]
    is_right = platt.predict(z[2000:]) == y[2000:]
    answers = after.paired.differences["accuracy"].answers
    assert answers == ((is_right & ~was_right).sum(), (was_right & ~is_right).sum())
    moved = int((z[2000:].argmax(axis=1) != platt.predict(z[2000:])).sum())
    effect = after.report.findings[-1]
    assert (effect.kind, effect.numbers["moved"]) == ("effect", moved)
    assert f"; {moved:,} predictions change, accuracy +" in after.report.lines[-1]


def test_the_next_command_runs_where_the_verdict_was_asked_for(run, tmp_path):
    """It names the file as it was typed; of arrays there is no such name."""
    z, y = rows_of("overconfident", 4)
    (tmp_path / "d").mkdir()
    for name, part in (("cal", slice(0, 3000)), ("test", slice(3000, None))):
        with h5py.File(f"d/{name}.h5", "w") as file:
            file["logits"], file["labels"] = z[part] * 2, y[part]
    assert run("fit", "-m", "ts", "d/cal.h5", "-o", "d/ts.json", "-q").code == 0
    command = report_of(run, "d/test.h5", "-c", "d/ts.json")["next"]
    assert command == "calcli apply d/ts.json NEW.h5 -o calibrated.h5"
    shutil.copy("d/test.h5", "NEW.h5")
    assert run(*command.split()[1:]).code == 0
    swapped = calcli.evaluate(z, (y + 1) % 4).results[0].report
    assert (swapped.kind, swapped.next_step.command) == ("check_labels", None)


def test_a_calibrator_that_mends_what_is_off_is_advised_where_its_gain_is_within_chance(
    tmp_path,
):
    """Half of 600 simulated answers: 9 points overconfident, none with venn-abers, whose gain of .009 is +-.016."""
    bundle = tmp_path / "answers.h5"
    log = REPOSITORY / "sample_data" / "answers.jsonl"
    calcli.extract(
        log,
        bundle,
        split=["cal=0.5", "test=0.5"],
        confidence="confidence",
        correct="answer=gold",
    )
    evaluation = calcli.evaluate(
        f"{bundle}:test", calibrators=[calcli.fit(f"{bundle}:cal")]
    )
    before, after = evaluation.results
    assert before.report.kind == "overconfident"
    assert not after.report.verdict.has_findings
    change = after.paired.differences["brier_top"]
    assert change.value < 0 < change.interval.high
    assert before.report.next_step.calibrator == after.title
    assert after.report.lines[-1].endswith(": not significant")


@pytest.mark.parametrize(("wrong", "is_by_nll"), [(30, True), (60, False)])
def test_certain_confidences_have_a_mean_gap_only_where_the_interval_says_so(
    run, wrong, is_by_nll
):
    """500 rows say 1, 100 say 0: z is infinite, but 30 wrong beside 30 right are no gap on average; 60 and 10 are."""
    confidence, correct = np.r_[np.ones(500), np.zeros(100)], np.zeros(600)
    correct[wrong : 500 + (30 if is_by_nll else 10)] = 1.0
    with h5py.File("c.h5", "w") as file:
        file["confidence"], file["correct"] = confidence, correct.astype(int)
    report = report_of(run, "c.h5")
    low, high = report["overconfidence"]["ci"]
    assert (low <= 0.0 <= high) == is_by_nll
    assert report["verdict_kind"] == "overconfident"
    assert ("; by NLL p " in report["verdict"]) == is_by_nll


def test_the_samples_that_are_needed_follow_from_the_interval(run):
    """Half widths fall as 1 / sqrt(n) where many are right and many wrong; ±3 points, rounded up to hundreds."""
    z, y = rows_of("overconfident", 4)
    for n in (7, 100):
        output = calcli.evaluate(z[:n], y[:n]).to_dict()
        report = output["results"][0]["report"]
        low, high = report["overconfidence"]["ci"]
        needed = n * ((high - low) / 2 / 0.03) ** 2
        assert 0 <= report["rows_needed"] - needed < 100
