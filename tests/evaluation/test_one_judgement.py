"""One judgement: every kind of verdict reads the same in the terminal, in JSON, on the page, in Python and in files."""

import html
import json
import re
import xml.etree.ElementTree as ET

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from metric_cases import draw_labels, softmax
from run_calcli import runner

import calcli
from calcli.evaluation.results import SIZES, Estimate
from calcli.metrics.intervals import Interval, wilson_interval
from calcli.reporting.number_format import span

KINDS = (
    "calibrated",
    "overconfident",
    "underconfident",
    "mixed",
    "too_few",
    "check_labels",
)
SIGNS = dict(zip(KINDS, ("✓", "▲", "▼", "▲▼", "–", "?"), strict=True))


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
    report = json.loads(run("evaluate", "m.h5", "--json", "-q").out)["results"][0][
        "report"
    ]
    assert report["verdict_kind"] == kind
    verdict, over = report["verdict"], report["overconfidence"]

    text = run("evaluate", "m.h5", "--max", "nll=99", "--junit", "j.xml").out
    assert text.splitlines()[0] == f"verdict: m.h5: {verdict}"
    told = {
        p.get("name"): p.get("value")
        for p in ET.parse("j.xml").getroot().iter("property")
    }
    assert told == {
        "verdict_kind: m.h5 uncalibrated": kind,
        "verdict: m.h5 uncalibrated": verdict,
    }
    card = run("evaluate", "m.h5", "--format", "model-index", "-q").out
    assert (
        f"verdict: {json.dumps(verdict)}" in card and f'verdict_kind: "{kind}"' in card
    )
    assert f"ci: [{over['ci'][0]!r}, {over['ci'][1]!r}]" in card

    assert run("report", "m.h5", "-o", "r.html", "-q").code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    section = html.unescape(
        re.search(r'<section id="verdict".*?</section>', page, re.S)[0]
    )
    assert f"verdict: {verdict}" in section and SIGNS[kind] in section
    assert (
        json.loads(re.search(r'id="calcli-evaluation">(.*?)</script>', page)[1])[
            "results"
        ][0]["report"]
        == report
    )
    if kind in ("calibrated", "overconfident"):
        assert span(*over["ci"]) in section
    if kind == "mixed" and k > 2:  # no one temperature mends what is right on average
        assert (
            report["advice"]["command"]
            != "calcli fit --method ts <other labelled samples>"
        )
    if report["advice"]["command"]:
        assert report["advice"]["command"] in section

    with pytest.warns() if kind == "check_labels" else pytest.MonkeyPatch.context():
        found = calcli.evaluate("m.h5")
    own = found.results[0].report
    assert (own.verdict, own.verdict_kind) == (verdict, kind)
    assert verdict in html.unescape(found._repr_html_())


def test_a_verdict_quotes_the_interval_of_the_gap_and_not_the_spread_under_calibration():
    """The metric's own interval, which a bootstrap of the rows gives too; 1.96 |gap / z| is a third narrower here."""
    z, y = rows_of("overconfident", 4)
    found = calcli.evaluate(z, y)
    report = found.results[0].report
    low, high = report.overconfidence.interval.low, report.overconfidence.interval.high
    assert (
        f"by {report.overconfidence.value:.4f} [{low:.4f}, {high:.4f}]"
        in report.verdict
    )
    p = softmax(z)
    d = p.max(axis=1) - (p.argmax(axis=1) == y)
    rng = np.random.default_rng(0)
    means = [d[rng.integers(0, len(d), len(d))].mean() for _ in range(2000)]
    assert [low, high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.001)
    assert high - low > 2.6 * abs(report.direction.gap / report.direction.gap_z)
    alone = calcli.evaluate(z, y, metrics=["gap"]).results[0].scores["gap"].interval
    assert (alone.low, alone.high) == (low, high)
    assert "±" not in report.verdict


def test_a_share_of_one_has_wilsons_interval_and_few_rows_say_what_they_leave_open(
    monkeypatch, capsys, tmp_path
):
    """40 rows of confidence .9, all right: accuracy 91.2 to 100 %, and so the gap at most .9 - .912."""
    monkeypatch.chdir(tmp_path)
    z = np.tile([np.log(9.0), 0.0], (40, 1))
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = z, np.r_[np.zeros(40, int)]
    text = runner(monkeypatch, capsys)("evaluate", "a.h5").out
    low = float(wilson_interval(np.array(1.0), np.array(40.0))[0])
    assert f"[{low:.4f}, 1.0000]" in text and "1.0000 ±" not in text
    # -10 to -1 points are some evidence, if not enough: 2 .9^40 = .030, and the joint test looks at more
    assert re.search(
        r"no significant miscalibration \(n = 40, p = 0\.0\d+\); the overconfidence lies between -10",
        text,
    )
    own = calcli.evaluate(z, np.zeros(40, int)).results[0].report.overconfidence
    assert own.interval.method == "clopper-pearson"
    assert (own.interval.low, own.interval.high) == pytest.approx(
        (0.9 - 1.0, 0.9 - 0.025 ** (1 / 40))
    )


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (0.0099, "very slightly"),
        (-0.01, "a little"),
        (0.03, "clearly"),
        (-0.08, "much"),
    ],
)
def test_words_of_size_begin_at_their_limits(value, word):
    assert Estimate(value, Interval(0.0, 1.0, 0.95, "t")).size == word
    assert [limit for limit, _ in SIZES[:3]] == [0.01, 0.03, 0.08]


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
    whole, top = (
        json.loads(run("evaluate", "b.h5", "--json", "-q", *more).out)["results"][0][
            "report"
        ]
        for more in ((), ("--label", "top"))
    )
    assert (whole["tested"], top["tested"]) == ("P(class 1)", "confidence")
    assert (
        "P(class 1) is too high by " in whole["verdict"]
        and " on average (p " in whole["verdict"]
    )
    assert (
        "P(class 1)" not in top["verdict"] and top["p_value"] > 0.05 >= whole["p_value"]
    )
    assert "classes" not in whole["findings"]


@pytest.mark.parametrize(("right", "sign"), [(0.72, "▲"), (0.83, "✓")])
def test_a_small_mean_gap_is_no_comfort_where_a_bin_is_far_off(
    monkeypatch, capsys, tmp_path, right, sign
):
    """Of 8500 rows 500 say .85 and are right in .72: .8 points on average, 13 in their bin. Or all are off by 2."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    said, n = np.r_[np.full(8000, 0.975), np.full(500, 0.85)], np.array([8000, 500])
    hit = np.concatenate(
        [
            np.arange(m) < round(m * share)
            for m, share in zip(n, (0.975, right), strict=True)
        ]
    )
    hit[:8000] = np.arange(8000) < (7800 if right < 0.8 else 7728)
    said = said + rng.uniform(-0.005, 0.005, 8500)
    z = np.stack(
        [np.log(2 * said / (1 - said)), np.zeros(8500), np.zeros(8500)], axis=1
    )
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = z, np.where(hit, 0, 1)
    run = runner(monkeypatch, capsys)
    report = calcli.evaluate("m.h5").results[0].report
    assert (
        report.verdict_kind == "overconfident"
        and report.size == "very slightly"
        and report.sign == sign
    )
    assert any(b.significant and b.gap >= 0.03 for b in report.bins) == (sign == "▲")
    assert run("report", "m.h5", "-o", "r.html", "-q").code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    tint = "warning" if sign == "▲" else "fair"
    assert (
        f'class="state {tint}"><span aria-hidden="true">{sign}</span> very slightly overconfident'
        in page
    )
    assert ("samples with confidence 0.8 to 0.9" in report.verdict) == (sign == "▲")


def test_zero_has_no_sign():
    assert (
        str(Estimate(-1e-9, Interval(-1e-9, 0.01, 0.95, "t")))
        == "0.0000 [0.0000, 0.0100]"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "lead", "command", "clause"),
    [
        (
            ["ts"],
            "Apply the calibrator.",
            "calcli apply ts.json m.h5:test -o m.ts.h5",
            "ts.json reduces",
        ),
        (
            ["bad", "ts"],
            "Apply the calibrator.",
            "calcli apply ts.json m.h5:test",
            "ts.json reduces NLL by",
        ),
        (
            ["own", "ts"],
            "Apply the calibrator.",
            "calcli apply ts.json m.h5:test",
            "ts.json reduces NLL by",
        ),
        (
            ["own"],
            "Evaluate the calibrator on other samples:",
            "calcli evaluate m.h5:cal --calibrator own.json",
            "was fitted",
        ),
        (
            ["bad"],
            "None of these helps.",
            "calcli fit --method auto m.h5:cal",
            "in place of ts",
        ),
    ],
)
def test_a_calibrator_that_is_given_and_helps_is_the_advice_of_every_output(
    monkeypatch, capsys, tmp_path, given, lead, command, clause
):
    """ts: fitted on held-out rows; own: on the very rows; bad: on rows of half the temperature, and worsens these."""
    monkeypatch.chdir(tmp_path)
    z, y = rows_of("overconfident", 4)
    with h5py.File("m.h5", "w") as file:
        for name, part in (("cal", slice(0, 3000)), ("test", slice(3000, None))):
            file[f"{name}/logits"], file[f"{name}/labels"] = z[part], y[part]
        file["other/logits"], file["other/labels"] = z[:3000] / 4.0, y[:3000]
    run = runner(monkeypatch, capsys)
    for name, rows in (("ts", "cal"), ("own", "test"), ("bad", "other")):
        assert (
            run("fit", f"m.h5:{rows}", "-m", "ts", "-o", f"{name}.json", "-q").code == 0
        )
    calibrators = [word for name in given for word in ("-c", f"{name}.json")]
    report = json.loads(run("evaluate", "m.h5", *calibrators, "--json", "-q").out)[
        "results"
    ][0]["report"]
    advice, verdict = report["advice"], report["verdict"]
    assert advice["lead"] == lead and advice["command"].startswith(command)
    assert clause in verdict and verdict.endswith(advice["command"])
    text = run(
        "evaluate", "m.h5", *calibrators, "--max", "nll=99", "--junit", "j.xml"
    ).out
    assert text.splitlines()[0] == f"verdict: m.h5:test, uncalibrated: {verdict}"
    told = {
        p.get("name"): p.get("value")
        for p in ET.parse("j.xml").getroot().iter("property")
    }
    assert told["verdict: m.h5:test uncalibrated"] == verdict
    assert (
        json.dumps(verdict)
        in run("evaluate", "m.h5", *calibrators, "--format", "model-index", "-q").out
    )
    assert run("report", "m.h5", *calibrators, "-o", "r.html", "-q").code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    section = html.unescape(
        re.search(r'<section id="verdict".*?</section>', page, re.S)[0]
    )
    assert (
        f"verdict: {verdict}" in section
        and lead in section
        and advice["rest"] in section
    )
    assert section.count(advice["command"]) == 2  # in the sentence, and by itself
    starred = re.findall(r'</svg> ([^<]*) <span class="recommended"', page)
    assert starred == (
        []
        if advice["calibrator"] is None
        else ["ts"]
        if len(given) == 1
        else ["ts (ts.json)"]
    )


def test_advice_of_python_names_the_calibrator_and_no_file():
    """An object has no path, so there is nothing to type; gains in right answers are counted."""
    rng = np.random.default_rng(7)
    odds = rng.normal(size=4000) * 2
    y = (rng.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
    z = np.stack([np.zeros(4000), odds + 3], axis=1)
    platt = calcli.fit(z[:2000], y[:2000], method="platt")
    found = calcli.evaluate(z[2000:], y[2000:], platt).results
    advice, change = found[0].report.advice, found[1].paired.differences["accuracy"]
    before, after = (
        z[2000:].argmax(axis=1) == y[2000:],
        platt.predict(z[2000:]) == y[2000:],
    )
    assert change.answers == ((after & ~before).sum(), (before & ~after).sum())
    assert (advice.lead, advice.command) == ("Apply the calibrator.", "")
    assert (
        f"{change.answers[0]:,} answers become right, {change.answers[1]:,} wrong; accuracy +"
        in advice.rest
    )
    assert found[0].report.verdict.endswith(advice.rest.partition(". ")[0])


def test_commands_of_the_advice_run_where_the_verdict_was_asked_for(run, tmp_path):
    """They name the file as it was typed; of arrays and of several files there is no such name."""
    z, y = rows_of("overconfident", 4)
    (tmp_path / "d").mkdir()
    for name, part in (("cal", slice(0, 3000)), ("test", slice(3000, None))):
        with h5py.File(f"d/{name}.h5", "w") as file:
            file["logits"], file["labels"] = z[part] * 2, y[part]
    assert run("fit", "-m", "ts", "d/cal.h5", "-o", "d/ts.json", "-q").code == 0
    said = run("evaluate", "d/test.h5", "-c", "d/ts.json", "-q").out
    command = re.search(r"calcli (apply .* -o test\.ts\.h5)", said)[1]
    assert run(*command.split()).code == 0
    swapped = calcli.evaluate(z, (y + 1) % 4)
    assert (
        swapped.results[0].report.verdict_kind == "check_labels"
        and "calcli" not in swapped.verdict
    )


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
    found = calcli.evaluate(f"{bundle}:test", calibrators=[calcli.fit(f"{bundle}:cal")])
    before, after = found.results
    assert (before.report.verdict_kind, after.report.findings) == ("overconfident", ())
    change = after.paired.differences["brier_top"]
    assert change.value < 0 < change.interval.high
    assert (
        before.report.advice.lead == "Apply the calibrator."
        and "no significant miscalibration" in found.verdict
    )


@pytest.mark.parametrize(("wrong", "kind"), [(30, "mixed"), (60, "overconfident")])
def test_certain_confidences_have_a_side_only_where_the_interval_says_so(
    run, wrong, kind
):
    """500 rows say 1, 100 say 0: z is infinite, but 30 wrong beside 30 right are no gap on average; 60 and 10 are."""
    confidence, correct = np.r_[np.ones(500), np.zeros(100)], np.zeros(600)
    correct[wrong : 500 + (30 if kind == "mixed" else 10)] = 1.0
    with h5py.File("c.h5", "w") as file:
        file["confidence"], file["correct"] = confidence, correct.astype(int)
    report = json.loads(run("evaluate", "c.h5", "--json", "-q").out)["results"][0][
        "report"
    ]
    low, high = report["overconfidence"]["ci"]
    assert (low <= 0.0 <= high) == (kind == "mixed")
    assert report["verdict_kind"] == kind and report["verdict"].startswith(kind)


def test_the_samples_that_seven_rows_ask_for_are_those_of_a_coin(run):
    """1.96 sqrt(.25 / n) = .01 at n = 9604: seven rows know no spread of their own."""
    z, y = rows_of("overconfident", 4)
    found = calcli.evaluate(z[:7], y[:7]).results[0].report
    assert found.rows_needed == 9700 and "about 9,700 samples" in found.verdict
