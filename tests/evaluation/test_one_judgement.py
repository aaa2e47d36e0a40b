"""One judgement: every kind of verdict reads the same in the terminal, in JSON, on the page, in Python and in files."""

import html
import json
import re
import xml.etree.ElementTree as ET

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, softmax
from run_calcli import runner

import calcli
from calcli.evaluation.verdict_results import SIZES, Estimate
from calcli.metrics.intervals import Interval, wilson_interval
from calcli.report.number_format import span

KINDS = ("calibrated", "overconfident", "underconfident", "mixed", "too_few", "check_labels")
SIGNS = dict(zip(KINDS, ("✓", "▲", "▼", "▲▼", "?", "?"), strict=True))


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
            low, high = (low, middle) if softmax(stated(middle)).max(axis=1).mean() > sure.mean() else (middle, high)
        z = stated(low)
    if kind == "check_labels":
        y = np.where(y == 0, 1, np.where(y == 1, 0, y))
    return z * {"overconfident": 2.0, "underconfident": 0.5}.get(kind, 1.0), y


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_every_output_prints_the_same_judgement(monkeypatch, capsys, tmp_path, kind, k):
    monkeypatch.chdir(tmp_path)
    z, y = rows_of(kind, k)
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    run = runner(monkeypatch, capsys)
    report = json.loads(run("evaluate", "m.h5", "--json", "-q").out)["results"][0]["report"]
    assert report["verdict_kind"] == kind
    verdict, over = report["verdict"], report["overconfidence"]

    text = run("evaluate", "m.h5", "--max", "nll=99", "--junit", "j.xml").out
    assert text.splitlines()[0] == f"verdict: m.h5: {verdict}"
    told = {p.get("name"): p.get("value") for p in ET.parse("j.xml").getroot().iter("property")}
    assert told == {"verdict_kind: m.h5 uncalibrated": kind, "verdict: m.h5 uncalibrated": verdict}
    card = run("evaluate", "m.h5", "--format", "model-index", "-q").out
    assert f"verdict: {json.dumps(verdict)}" in card and f'verdict_kind: "{kind}"' in card
    assert f"ci: [{over['ci'][0]!r}, {over['ci'][1]!r}]" in card

    assert run("report", "m.h5", "-o", "r.html", "-q").code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    section = html.unescape(re.search(r'<section id="verdict".*?</section>', page, re.S)[0])
    assert f"verdict: {verdict}" in section and SIGNS[kind] in section
    assert json.loads(re.search(r'id="calcli-evaluation">(.*?)</script>', page)[1])["results"][0]["report"] == report
    if kind in ("calibrated", "overconfident"):
        assert span(*over["ci"]) in section
    if kind == "mixed" and k > 2:  # no one temperature mends what is right on average
        assert report["advice"]["command"] != "calcli fit --method ts OTHERS.h5"
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
    assert f"by {report.overconfidence.value:.4f} [{low:.4f}, {high:.4f}]" in report.verdict
    p = softmax(z)
    d = p.max(axis=1) - (p.argmax(axis=1) == y)
    rng = np.random.default_rng(0)
    means = [d[rng.integers(0, len(d), len(d))].mean() for _ in range(2000)]
    assert [low, high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.001)
    assert high - low > 2.6 * abs(report.direction.gap / report.direction.gap_z)
    alone = calcli.evaluate(z, y, metrics=["gap"]).results[0].scores["gap"].interval
    assert (alone.low, alone.high) == (low, high)
    assert "±" not in report.verdict


def test_a_share_of_one_has_wilsons_interval_and_few_rows_say_what_they_leave_open(monkeypatch, capsys, tmp_path):
    """40 rows of confidence .9, all right: accuracy 91.2 to 100 %, and so the gap at most .9 - .912."""
    monkeypatch.chdir(tmp_path)
    z = np.tile([np.log(9.0), 0.0], (40, 1))
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = z, np.r_[np.zeros(40, int)]
    text = runner(monkeypatch, capsys)("evaluate", "a.h5").out
    low = float(wilson_interval(np.array(1.0), np.array(40.0))[0])
    assert f"[{low:.4f}, 1.0000]" in text and "1.0000 ±" not in text
    assert "no evidence of miscalibration (n = 40)" in text or "underconfident" in text
    own = calcli.evaluate(z, np.zeros(40, int)).results[0].report.overconfidence
    assert own.interval.method == "wilson"
    assert (own.interval.low, own.interval.high) == pytest.approx((0.9 - 1.0, 0.9 - low))


@pytest.mark.parametrize(
    ("value", "word"), [(0.0099, "very slightly"), (-0.01, "a little"), (0.03, "clearly"), (-0.08, "much")]
)
def test_words_of_size_begin_at_their_limits(value, word):
    assert Estimate(value, Interval(0.0, 1.0, 0.95, "t")).size == word
    assert [limit for limit, _ in SIZES[:3]] == [0.01, 0.03, 0.08]


def test_the_top_label_of_two_classes_is_judged_on_request(monkeypatch, capsys, tmp_path):
    """A bias that the top label hides: what is judged stands in the JSON, and whose p-value is printed."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    odds = rng.normal(size=4000) * 3
    with h5py.File("b.h5", "w") as file:
        file["logits"] = np.stack([np.zeros(4000), odds + 0.2], axis=1)
        file["labels"] = (rng.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
    run = runner(monkeypatch, capsys)
    whole, top = (
        json.loads(run("evaluate", "b.h5", "--json", "-q", *more).out)["results"][0]["report"]
        for more in ((), ("--label", "top"))
    )
    assert (whole["tested"], top["tested"]) == ("P(class 1)", "confidence")
    assert "P(class 1) is too high by " in whole["verdict"] and "P(class 1): p " in whole["verdict"]
    assert "P(class 1)" not in top["verdict"] and top["p_value"] > 0.05 >= whole["p_value"]
    assert "classes" not in whole["findings"]
