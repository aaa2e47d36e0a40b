"""The report page: its sentences, its numbers, and that nothing in it can do harm."""

import html
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import h5py
import numpy as np
import pytest
from run_calcli import runner
from synthetic import fit, truth

import calcli
from calcli.calibrator import Context
from calcli.diagrams.caption_text import distinct
from calcli.evaluation.facts import FitSize
from calcli.evaluation.findings import DOUBTS
from calcli.evaluation.json_output import result_json
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.evaluation.results import UnitFacts
from calcli.evaluation.words import samples_needed
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.catalog import report_metrics
from calcli.metrics.collect import collect
from calcli.metrics.confidence_bins import confidence_bins
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.reporting.answers import (
    MOST_WORDS,
    PLACES,
    Answer,
    answers_on,
    headline_of_several,
    where,
)
from calcli.reporting.figures.svg import element, line_class
from calcli.reporting.gather import Part, gather, thresholds_of
from calcli.reporting.glossary import GLOSSARY
from calcli.reporting.markup import (
    cells,
    environment,
    json_script,
    name,
    resource,
    visible,
)
from calcli.reporting.number_format import (
    MINUS,
    THIN_SPACE,
    count,
    fixed,
    in_words,
    points,
    share,
    signed,
    span,
    typeset,
)
from calcli.reporting.page import Limit, page
from calcli.reporting.views.parts import counted
from calcli.reporting.views.room import drawn_only, with_drawn_first
from calcli.reporting.views.states import SIGNS
from calcli.rows import ArrayRows

PLAN = Plan(
    (*report_metrics(), "gap"), MetricSettings(resamples=200), decomposition=False
)
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e'\"&{{x}}"


def model_of(
    z,
    y,
    *calibrators,
    plan=PLAN,
    weight=None,
    group=None,
    names=None,
    bundle="a.h5:test",
):
    rows = ArrayRows(z, y, weight=weight)
    candidates = [Candidate(None, "uncalibrated", None)]
    candidates += [
        Candidate(f"{place}.json", "ts", c) for place, c in enumerate(calibrators)
    ]
    subject = Subject(rows, bundle, group, class_names=names)
    return gather(subject, candidates, plan)


def fitted(z, y):
    return TemperatureScaling.fit(
        ArrayRows(z, y), TemperatureScaling.Options(), Context()
    ).calibrator


def page_of(*models, **more):
    return page(models, {"calcli_evaluation": 1, "results": []}, **more)


class Elements(HTMLParser):
    """All elements with their attributes, and the text outside scripts and styles."""

    def __init__(self, source):
        super().__init__()
        self.found, self.words, self.inside = [], [], ""
        self.feed(source)

    def handle_starttag(self, kind, attributes):
        self.found.append((kind, dict(attributes)))
        self.inside = kind

    def handle_endtag(self, kind):
        self.inside = ""

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.words.append(data)

    def text(self):
        return " ".join("".join(self.words).split())


# ---- numbers and words


def test_windows_and_thresholds_count_the_rows():
    z, y = truth(700, 4, temperature=1.7)
    table = collect(ArrayRows(z, y))
    bins = confidence_bins(MetricContext(table, MetricSettings()))
    assert sum(b.n for b in bins) == 700
    top = bins[-1]
    inside = table.confidence > 0.99
    assert (top.n, top.accuracy) == (
        inside.sum(),
        pytest.approx(table.correct[inside].mean()),
    )
    thresholds = thresholds_of(table, 0.95)
    for percent in (0, 50, 95, 100):
        kept = table.confidence >= percent / 100
        t = thresholds[percent]
        assert t.n == kept.sum()
        assert t.coverage == pytest.approx(kept.mean())
        if kept.any():
            assert t.right == pytest.approx(table.correct[kept].mean())
            assert t.promised == pytest.approx(table.confidence[kept].mean())


def test_numbers_for_people():
    shares = [share(v) for v in (0.0, 0.0004, 0.1234, 0.5, 0.99949, 0.99951, 1.0)]
    assert shares == [
        "0%", "under 0.1%", "12.3%", "50.0%", "99.9%", "over 99.9%", "100%",
    ]  # fmt: skip
    assert count(12345) == "12\u202f345"
    assert (points(-0.131), signed(-0.04), signed(13.14)) == ("13.1", "0.0", "+13.1")
    assert (signed(-0.4), fixed(-0.25, 2)) == ("\u22120.4", "\u22120.25")
    assert span(-0.01, 0.02) == "\u22121.0 to 2.0"
    assert span(float("nan"), 0.02) == "no interval"


def test_sentences_of_the_evaluation_get_the_notation_of_the_page():
    """A minus sign and thin spaces; hyphens inside names and words stay."""
    said = "underconfident: -11.4 points [-12.5, -10.3] in 1,234,567 samples of a-5"
    shown = typeset(said)
    assert shown == (
        "underconfident: \u221211.4 points [\u221212.5, \u221210.3]"
        " in 1\u202f234\u202f567 samples of a-5"
    )


def test_what_a_file_records_is_put_into_words():
    source = {
        "file": "a.npz",
        "split": {"groups": ["cal=0.5", "test=rest"], "seed": 0},
        "std": [],
        "amp": False,
    }
    assert (
        in_words(source)
        == "file a.npz, split (groups cal=0.5 test=rest, seed 0), amp no"
    )
    assert (in_words("typed"), in_words(None), in_words({"top_n": None})) == (
        "typed",
        "none",
        "top n none",
    )


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["runs/a/x_1.h5:test", "runs/a/x_2.h5:test"], ["x_1", "x_2"]),
        (["m.h5:day", "m.h5:night"], ["day", "night"]),
        (["good.h5", "modest.h5"], ["good", "modest"]),
        (["a/b.h5:cal", "b.h5:test"], ["a/b.h5:cal", "b.h5:test"]),
        (["same", "same"], ["same", "same"]),
    ],
)
def test_names_are_shown_without_what_all_share(names, shown):
    assert distinct(names) == shown


def test_columns_and_bins_without_content_are_left_out():
    """One version has no difference to another; no sample has a confidence below a third of three classes."""
    source = page_of(model_of(*truth(900, 3, temperature=2.0))[0])
    assert "Change in NLL" not in source and "no samples" not in source
    bins = re.search(r'<table id="ranges-0-0".*?</table>', source, re.S)[0]
    assert "Sure" in bins and "30–40%" in bins and "20–30%" not in bins
    with_ts = model_of(
        *truth(900, 3, temperature=2.0), fitted(*truth(900, 3, temperature=2.0))
    )[0]
    assert "Change in NLL" in page_of(with_ts)


def test_several_models_are_advised_in_one_sentence():
    good, bad = (
        model_of(*binary_rows(9000, 0.9, 0.9))[0],
        model_of(*binary_rows(2000, 0.9, 0.7))[0],
    )
    lead = answers_on(bad).action.lead.rstrip(".")
    assert f"{lead}: 2 of 3" in Elements(page_of(good, bad, bad)).text()


def test_tables_are_named_by_their_captions():
    read = Elements(page_of(model_of(*truth(300, 3))[0]))
    idents = {a["id"] for _, a in read.found if "id" in a}
    regions = [a for _, a in read.found if a.get("role") == "region"]
    assert len(regions) > 4 and all(a["aria-labelledby"] in idents for a in regions)


class Rows(HTMLParser):
    """Widths of the rows of every table, in columns, heads first."""

    def __init__(self, source):
        super().__init__()
        self.tables = []
        self.feed(source)

    def handle_starttag(self, kind, attributes):
        if kind == "table":
            self.tables.append([])
        elif kind == "tr":
            self.tables[-1].append(0)
        elif kind in ("td", "th"):
            self.tables[-1][-1] += int(dict(attributes).get("colspan", 1))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("n_calibrators", [0, 1])
def test_rows_of_tables_have_a_cell_under_every_head(k, n_calibrators):
    z, y = truth(2000, k, temperature=1.5)
    group = np.array(["a", "b", "c"])[np.arange(2000) % 3]
    calibrators = [fitted(z[:500], y[:500])] * n_calibrators
    model = model_of(z, y, *calibrators, group=group)[0]
    tables = Rows(page_of(model)).tables
    assert len(tables) > 4
    for widths in tables:
        assert len(set(widths)) == 1, tables


ESCAPED = (
    "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;⟨U+202E⟩&#39;&#34;&amp;{{x}}"
)


def test_a_page_quotes_nothing_it_was_given_as_markup():
    """In a template, in an attribute, in a cell, in a figure, in JSON, in a name."""
    template = environment().from_string('<p title="{{ x }}">{{ x }}</p>')
    assert template.render(x=HOSTILE) == f'<p title="{ESCAPED}">{ESCAPED}</p>'
    assert cells([HOSTILE, "1"]) == f"<td>{ESCAPED}<td>1"
    drawn = element("text", HOSTILE, class_=HOSTILE)
    assert drawn == f'<text class="{ESCAPED}">{ESCAPED}</text>'
    assert "\\u003c/script\\u003e" in json_script("x", {HOSTILE: HOSTILE})
    assert json_script("x", {"a": float("nan")}).endswith('{"a":null}</script>')
    assert name("a\x00\ud800b") == "<bdi>a⟨U+0000⟩⟨U+D800⟩b</bdi>"
    assert 'title="xxx' in name("x" * 200)


def test_characters_that_nobody_sees_are_spelled_wherever_a_template_prints():
    """Control, zero-width and direction characters; tabs and line breaks stay."""
    hidden = "\x07\x9f\u200b\u2028\u2066\ufeff\ud800"
    shown = environment().from_string("{{ x }}").render(x=f"a{hidden}b\t\n")
    spelled = "".join(f"⟨U+{ord(c):04X}⟩" for c in hidden)
    assert shown == f"a{spelled}b\t\n"
    assert visible("naïve 日本 é") == "naïve 日本 é"


def test_eight_versions_have_eight_lines():
    assert len({line_class(number) for number in range(8)}) == 8
    style = resource("page.css")
    for word in ("v1", "v2", "v3", "again"):
        assert re.search(rf"\n\.{word} {{[^}}]*stroke-dasharray", style), word


# ---- verdicts


def binary_rows(n, says, right, seed=0):
    """Two classes, all rows with one confidence, a known share of them right."""
    y = np.random.default_rng(seed).permutation(
        (np.arange(n) >= round(n * right)).astype(int)
    )
    return np.tile(
        [np.log(says / (1 - says)), 0.0], (n, 1)
    ) + 1e-3 * np.random.default_rng(1).random((n, 1)) * [
        1,
        0,
    ], y


@pytest.mark.parametrize(
    ("says", "right", "n", "kind", "trusted", "todo"),
    [
        (0.9, 0.70, 2000, "overconfident", "No: risks are", "Fit a calibrator."),
        (0.9, 0.85, 2000, "overconfident", "No: risks are", "Fit a calibrator."),
        (0.7, 0.90, 2000, "underconfident", "No: risks are", "Fit a calibrator."),
        (0.9, 0.90, 9000, "calibrated", "Yes.", "Nothing."),
        (0.9, 0.80, 20, "too_few", "Unknown.", "Label more samples."),
        (0.6, 0.60, 400, "too_few", "Unknown.", "Label more samples."),
    ],
)
def test_the_first_screen_is_the_evaluations_verdict(
    says, right, n, kind, trusted, todo
):
    """Headline, sign, and the leads of the answers, of two classes."""
    model, _ = model_of(*binary_rows(n, says, right))
    report = model.versions[0].report
    assert report.kind == kind
    answers = answers_on(model)
    assert answers.trust.lead.startswith(trusted)
    assert answers.action.lead == todo
    source = page_of(model)
    head = re.search(r'<h2 class="headline">.*?</h2>', source, re.S)[0]
    assert headline_in(head) == (report.headline, plain_text(report.headline))
    assert f">{SIGNS[kind]}</span>" in head


def headline_in(source):
    """The headline of a section: as data, and as it is shown, without its notation."""
    data = re.search(r'<data value="([^"]*)">(.*?)</data>', source, re.S)
    shown = re.sub(r"<[^>]*>", "", data[2])
    return html.unescape(data[1]), plain_text(html.unescape(shown))


def plain_text(text):
    """A text with the notation of numbers that the terminal has."""
    text = text.replace(MINUS, "-").replace(THIN_SPACE, ",")
    return " ".join(text.split())


def test_the_headline_is_that_of_the_recommended_version():
    """Fitted on other rows it is applied; its headline stands above, then what was."""
    z, y = truth(3000, 5, temperature=2.0)
    model, _ = model_of(z[1000:], y[1000:], fitted(z[:1000], y[:1000]))
    assert model.recommended == model.focus == 1
    before, after = (version.report for version in model.versions)
    source = page_of(model)
    card = re.search(r'<section id="verdict".*?</section>', source, re.S)[0]
    assert headline_in(card)[0] == after.headline
    assert plain_text(f"before: {before.headline}") in plain_text(Elements(card).text())
    assert "★ recommended:" in card
    answers = answers_on(model)
    assert answers.action.lead == "Apply ts."
    assert answers.action.rest.startswith("It reduces NLL by ")
    assert answers.action.rest.endswith("Predictions do not change.")
    assert answers_on(model_of(z[1000:], y[1000:])[0]).where.rest.startswith(
        re.sub(r"^.*?: ", "", typeset(before.lines[0]))
    )


def test_predictions_that_change_are_counted():
    """Those that vector scaling moves, a wrong one to another wrong one too."""
    z, y = truth(2000, 5, temperature=2.0)
    ts = fitted(z[:500], y[:500])
    vs = fit("vs", ArrayRows(z[:500], y[:500])).calibrator
    rows, others = ArrayRows(z[500:], y[500:]), [ts, vs]
    candidates = [Candidate(None, "uncalibrated", None)]
    for number, calibrator in enumerate(others):
        candidates.append(Candidate(f"{number}.json", f"m{number}", calibrator))
    model, _ = gather(Subject(rows, "a"), candidates, PLAN)
    moved = collect(rows, others[1]).prediction != collect(rows).prediction
    assert [v.n_changed for v in model.versions] == [0, 0, int(moved.sum())]
    cell = f'<data value="{moved.sum()}">{moved.sum()}</data>'
    source = page_of(model)
    assert f"<td>{cell}<small>of {count(1500)}</small></td>" in source
    assert "<td>none</td>" in source
    finding = model.versions[2].report.findings[-1]
    assert (finding.kind, finding.numbers["moved"]) == ("effect", moved.sum())


def test_an_only_calibrator_that_harms_is_left_out():
    z, y = truth(3000, 4, temperature=1.0)
    harmful = fitted(z[:1000] * 4, y[:1000])
    model, _ = model_of(z[1000:] * 2, y[1000:], harmful)
    assert model.versions[1].result.loss_change.value < 0  # it helps: recommended
    worse, _ = model_of(z[1000:], y[1000:], harmful)
    assert worse.recommended is None and worse.focus == 1
    answer = answers_on(worse).action
    assert answer.lead == "Leave ts out." and "It raises NLL by" in answer.rest


NAMES = [HOSTILE, "a b c d e f g h i j k l m n o p q r s t u v w x y z", "night"]


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("case", ["over", "under", "fair", "groups", "few", "labels"])
def test_answers_are_short_whatever_the_names(k, case):
    z, y = truth(4000, k, temperature={"over": 2.0, "under": 0.5}.get(case, 1.0))
    group = np.array(NAMES)[np.arange(4000) % 3]
    if case == "groups":
        z = np.where((np.arange(4000) % 3 == 1)[:, None], 3.0 * z, z)
    if case == "labels":
        y = (y + 1) % k
    if case == "few":
        z, y, group = z[:40], y[:40], group[:40]
    calibrators = [fitted(z[:2000], y[:2000])] if case != "few" else []
    rows = slice(2000, None) if case != "few" else slice(None)
    model, _ = model_of(
        z[rows], y[rows], *calibrators, group=group[rows], names=[*NAMES, "d"][:k]
    )
    answers = answers_on(model)
    for answer in (answers.trust, answers.where, answers.action):
        assert 0 < len(answer.words) <= MOST_WORDS == 25
        assert "\u202e" not in Elements(page_of(model)).text()


def test_all_findings_are_on_the_page():
    """As the JSON words them, in the notation of the page; doubts are quoted in full."""
    z, y = truth(4000, 4, temperature=2.0)
    group = np.array(["night", "day"])[np.arange(2000) % 2]
    model, _ = model_of(z[2000:], y[2000:], fitted(z[:2000], y[:2000]), group=group)
    doubtful = model.versions[1].report.with_caveats(["1,200 ids repeat: look at them"])
    result = replace(model.versions[1].result, report=doubtful)
    versions = (model.versions[0], replace(model.versions[1], result=result))
    text = Elements(page_of(replace(model, versions=versions))).text()
    messages = []
    for version in versions:
        messages += result_json(version.result)["report"]["messages"]
    assert {message["kind"] for message in messages} >= {"data", "effect", "range"}
    for message in messages:
        shown = typeset(message["text"]).rstrip("…")
        assert " ".join(shown.split()) in text, message
    assert "Doubt. ts: 1 200 ids repeat" in text
    assert {"labels", "data"} <= set(DOUBTS)


def test_a_place_whose_line_has_no_colon_is_a_whole_sentence(monkeypatch):
    monkeypatch.setitem(PLACES, "data", "samples")
    z, y = truth(2000, 4, temperature=2.0)
    version = model_of(z, y)[0].versions[0]
    report = version.report.with_caveats(["all errors are of one class"])
    assert where(report).lead == "All errors are of one class."
    assert where(report).rest.startswith("Also ")


@pytest.mark.parametrize("k", [2, 3])
def test_right_on_average_and_wrong_in_places_is_said(k):
    """.8 of .9 and .7 of .6 are right; a third class that nobody predicts changes nothing."""
    sure, y1 = binary_rows(3000, 0.9, 0.8)
    shy, y2 = binary_rows(3000, 0.6, 0.7, seed=5)
    z = np.vstack([sure, shy])
    z = np.column_stack([z, np.full((6000, k - 2), -30.0)])
    model, _ = model_of(z, np.r_[y1, y2])
    answers = answers_on(model)
    assert answers.trust.lead == "On average."
    place = "P(class 1) up to 10%:" if k == 2 else "From 90% to 99%:"
    assert answers.where.lead == place
    assert "10.0 points" in answers.where.rest


def test_groups_that_differ_are_named_beside_an_overconfidence():
    """Right in .6 and .88 where it says .9: overconfident, and much more so by night."""
    night, y1 = binary_rows(2000, 0.9, 0.6)
    day, y2 = binary_rows(2000, 0.9, 0.88, seed=3)
    group = np.repeat(["night", "day"], 2000)
    model, _ = model_of(np.vstack([night, day]), np.r_[y1, y2], group=group)
    where = answers_on(model).where
    assert where.lead == "Groups:"
    assert "worst night: 10.0% predicted, 40.0% observed" in where.rest
    groups = model.versions[0].report.facts.groups
    night = next(part for part in model.versions[0].groups if part.name == "night")
    assert night.predicted == pytest.approx(groups.worst_predicted, abs=1e-12)
    assert night.observed == pytest.approx(groups.worst_observed, abs=1e-12)
    assert night.is_significant


def test_intervals_and_bins_of_the_page_are_those_asked_for():
    z, y = truth(300, 3)
    plan = Plan(
        (*report_metrics(), "gap"),
        MetricSettings(resamples=200, level=0.9, bins=7),
        decomposition=False,
    )
    words = Elements(page_of(model_of(z, y, plan=plan)[0])).text()
    assert (
        "probability 95%" not in words
        and "contain the true value with probability 90%" in words
    )
    assert "over 7 bins" in words


def test_several_models_are_counted():
    good, bad = (
        model_of(*binary_rows(9000, 0.9, 0.9))[0],
        model_of(*binary_rows(2000, 0.9, 0.7))[0],
    )
    assert (
        headline_of_several([good, bad, bad])
        == "Of 3 models 2 are overconfident, 1 is calibrated."
    )
    source = page_of(good, bad)
    assert '<section id="verdict"' in source
    assert source.count('class="model"') == 2


# ---- the page


def test_the_page_is_whole_without_script_or_network():
    z, y = truth(900, 6, temperature=1.8)
    group = np.array(["day", "night"])[np.arange(900) % 2]
    model, _ = model_of(z, y, fitted(z, y), group=group)
    source = page_of(
        model,
        limits=[Limit(True, "ece is 0.2"), Limit(False, "nll is 1")],
        commands=[["calcli", "a b"]],
    )
    read = Elements(source)
    assert [kind for kind, _ in read.found].count("h1") == 1
    for kind, attributes in read.found:
        assert "style" not in attributes and not any(
            key.startswith("on") for key in attributes
        ), kind
        for key in ("src", "href"):
            assert attributes.get(key, "#").startswith(("#", "data:")), attributes
    words = read.text()
    headline = typeset(model.versions[model.focus].report.headline)
    assert " ".join(headline.split()) in words
    assert "✗ crossed: ece is 0.2" in words and "✓ holds: nll is 1" in words
    assert "calcli 'a b'" in words
    for part in (
        "Where it is wrong",
        "Classes",
        "Groups",
        "night",
        "Selective prediction",
        "Findings",
        "Evidence",
        "All numbers",
        "Words",
    ):
        assert part in words, part
    heads = re.findall(r"<h([1-6])", source)
    assert all(int(b) <= int(a) + 1 for a, b in pairwise(heads))
    policy = next(
        a["content"]
        for k, a in read.found
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert source.index("charset") < 1024
    used = set(re.findall(r'href="#word-(\w+)"', source))
    assert used <= set(GLOSSARY)


@pytest.mark.slow
def test_a_page_of_very_many_models_becomes_shorter(monkeypatch):
    z, y = truth(400, 5, temperature=1.6)
    model, _ = model_of(z, y, fitted(z, y), fitted(z[:200], y[:200]))
    whole = page_of(model)
    monkeypatch.setitem(page.__globals__, "LARGEST", int(20 * 0.7 * len(whole)))
    short = page_of(*[model] * 20)
    assert len(short.encode()) <= 20 * 0.7 * len(whole)
    assert "Left out to keep a page of so many models small" in short
    assert "All numbers" in whole and "All numbers" not in short
    assert short.count("reliability-19") and short.count('id="ranges-19-0"') == 1


def test_the_same_input_gives_the_same_page():
    z, y = truth(300, 3)
    assert page_of(model_of(z, y)[0]) == page_of(model_of(z, y)[0])


@pytest.mark.parametrize(
    "case", ["one row", "all equal", "certain", "absent classes", "weights", "thousand"]
)
def test_degenerate_rows_have_a_page(case):
    z, y, weight = *truth(200, 5), None
    if case == "one row":
        z, y = z[:1], y[:1]
    elif case == "all equal":
        z = np.zeros_like(z)
    elif case == "certain":
        z = np.where(np.arange(5) == y[:, None], 800.0, 0.0)
    elif case == "absent classes":
        z[:, 4] -= 50
        y = np.minimum(y, 2)
    elif case == "weights":
        weight = np.r_[np.zeros(50), np.ones(150)]
    else:
        z, y = truth(400, 1000)
    model, _ = model_of(z, y, weight=weight)
    source = page_of(model)
    assert "nan" not in Elements(source).text().replace("nano", "").lower().split()
    assert len(source) < 300_000
    json.loads(re.search(r'id="calcli-page">(.*?)</script>', source)[1])


def test_the_script_uses_nothing_that_runs_text():
    script = resource("page.js")
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval(", "Function(", "document.write", "localStorage",
                 "sessionStorage", "fetch(", "XMLHttpRequest", "history."):  # fmt: skip
        assert word not in script, word
    assert not re.search(r"\.on[a-z]+\s*=", script)
    style = resource("page.css")
    assert "url(" not in style and "@import" not in style
    assert "</" not in script + style


def test_colours_of_the_page_have_the_contrast_that_reading_needs():
    style = resource("page.css")

    def bright(colour):
        v = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
        return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4) @ [
            0.2126,
            0.7152,
            0.0722,
        ]

    def contrast(a, b):
        low, high = sorted((bright(a), bright(b)))
        return (high + 0.05) / (low + 0.05)

    palettes = [
        dict(re.findall(r"--(\w+): (#\w{6})", rule))
        for rule in re.findall(r"\{([^{}]*--page:[^{}]*)\}", style)
    ]
    assert len(palettes) == 4  # light, dark by the system, dark by hand, print
    for p in palettes:
        for ground in ("page", "panel", "warn", "fair"):
            assert min(contrast(p[ink], p[ground]) for ink in ("text", "muted")) >= 4.5
        assert contrast(p["link"], p["page"]) >= 4.5
        assert (
            min(
                contrast(p[line], p["page"])
                for line in ("axis", "v0", "v1", "v2", "v3")
            )
            >= 3
        )


# ---- the command


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = truth(1200, 4, temperature=1.8)
    with h5py.File("logits.h5", "w") as file:
        for group, rows in (("cal", slice(0, 600)), ("test", slice(600, None))):
            file[f"{group}/logits"], file[f"{group}/labels"] = (
                z[rows].astype(np.float32),
                y[rows],
            )
            file[f"{group}/class_names"] = np.array(
                [HOSTILE, "=1+1", "x" * 300, "d"], dtype=h5py.string_dtype()
            )
    return tmp_path


def test_command_writes_a_page_with_the_evaluation_in_it(run, bundle):
    assert run("fit", "-m", "ts", "logits.h5", "-q").code == 0
    result = run(
        "report",
        "logits.h5",
        "-c",
        "logits.ts.json",
        "-o",
        "r.html",
        "--max",
        "nll=9",
        "--no-decomposition",
        "-q",
    )
    assert (result.code, result.out) == (0, "r.html\n")
    source = (bundle / "r.html").read_text("utf-8")
    inside = json.loads(re.search(r'id="calcli-evaluation">(.*?)</script>', source)[1])
    assert inside["calcli_evaluation"] == 1
    assert [r["calibrator"] for r in inside["results"]] == [None, "logits.ts.json"]
    assert inside["limits"][0]["crossed"] is False
    shown = Elements(source)
    assert (
        "calcli report logits.h5 -c logits.ts.json --max nll=9 --no-decomposition -o r.html"
        in shown.text()
    )
    assert inside["results"][0]["report"]["next"] in shown.text()
    assert "calcli apply logits.ts.json NEW.h5" in shown.text()
    assert [a for k, a in shown.found if k == "img"] == []
    assert "onerror=alert(1)" in shown.text()  # as text
    assert "⟨U+202E⟩" in shown.text()
    assert run("report", "logits.h5", "-o", "r.html").code == 2
    crossed = run(
        "report",
        "logits.h5",
        "-o",
        "r.html",
        "--force",
        "--max",
        "nll=0.01",
        "--no-decomposition",
        "-q",
    )
    assert crossed.code == 5
    assert "limit crossed" in crossed.err


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["logits.h5", "-o", "r.pdf"], 2, ".html"),
        (["absent.h5", "-o", "r.html"], 3, "no such file"),
        (["logits.h5", "-c", "absent.json", "-o", "r.html"], 3, "absent.json"),
        (["logits.h5", "-o", "r.html", "--max", "nothing=1"], 2, "nothing"),
    ],
)
def test_bad_words_are_one_line(run, bundle, words, code, part):
    result = run("report", *words)
    assert result.code == code
    assert part in result.line
    assert not (bundle / "r.html").exists()


@pytest.mark.slow
def test_a_page_of_many_models_stays_small_and_says_what_it_leaves_out():
    z, y = truth(600, 6, temperature=1.6)
    group = np.arange(400) % 20
    model, done = model_of(
        z[200:], y[200:], *[fitted(z[:200], y[:200])] * 2, group=group
    )
    evaluation = {
        "calcli_evaluation": 1,
        "results": [result_json(r) for r in done.results] * 26,
    }
    text = page([model] * 26, evaluation)
    assert len(text.encode()) < 2_000_000
    assert text.count("Left out to keep a page") == 0
    assert text.count('data-file="reliability-') == 26


def test_a_shorter_page_gives_the_same_advice():
    """Where the recommended version is not the second one, it is listed second."""
    z, y = truth(1500, 5, temperature=2.5)
    model, _ = model_of(z, y, fitted(z / 4, y), fitted(z, y))
    versions = (*model.versions[:2], replace(model.versions[2], name="good"))
    model = replace(model, versions=versions)
    assert model.versions[model.focus].name == "good"
    for listed in (with_drawn_first(model), drawn_only(model)):
        assert [v.name for v in listed.versions][:2] == ["uncalibrated", "good"]
        assert listed.focus == 1


def test_models_for_which_there_is_no_room_keep_their_verdict(monkeypatch):
    model, _ = model_of(*truth(300, 3, temperature=1.6))
    whole = page_of(model, model, model)
    monkeypatch.setitem(page.__globals__, "LARGEST", len(whole) // 2)
    text = page_of(model, model, model)
    assert (
        text.count("Left out to keep a page of so many models small. All of it: ") == 2
    )
    assert "calcli report a.h5:test -o report.html" in text
    assert [text.count(f'id="verdict-{number}"') for number in range(3)] == [1, 1, 1]
    assert text.count('data-file="reliability-') == 1


@pytest.mark.slow
def test_a_thousand_classes_stay_below_two_megabytes():
    z, y = truth(3000, 1000, temperature=1.6)
    text = page_of(
        model_of(
            z,
            y,
            *[fitted(z[:500], y[:500])] * 3,
            names=[f"a class called {c}" for c in range(1000)],
        )[0]
    )
    assert len(text.encode()) < 2_000_000


def test_one_case_is_one_case_and_shows_nothing():
    """Clopper-Pearson of one right of one is .025 to 1: 97.5 points."""
    z, y = truth(40, 6, temperature=1.6)
    model, _ = model_of(z[:1], y[:1])
    answers = answers_on(model)
    assert answers.trust.lead == "Unknown."
    low, high = (
        float(x.replace(MINUS, "-"))
        for x in re.findall(r"[+\u2212][\d.]+", answers.trust.rest)
    )
    assert high - low == pytest.approx(97.5, abs=0.1)
    assert answers.action.lead == "Label more samples."
    needed = samples_needed(model.versions[0].report.facts)
    assert answers.action.rest.startswith(f"{count(needed)} samples in all")
    assert "· 1 sample ·" in page_of(model)


def test_folds_of_cross_fitting_units_and_tests_are_said():
    z, y = truth(600, 3, temperature=1.6)
    model, _ = model_of(z, y, fitted(z, y))
    units = UnitFacts("patient", 100, 6, 2.0, 300.0)
    first, second = model.versions
    first = replace(first, result=replace(first.result, units=units))
    second = replace(second, result=replace(second.result, n_folds=5))
    text = Elements(page_of(replace(model, versions=(first, second)))).text()
    assert "cross-fitted, 5 folds" in text
    assert "100 units (patient) of up to 6 rows" in text
    assert f"ts: confidence calibrated: {second.report.p_text}" in text


def test_nothing_that_is_missing_is_printed_as_none():
    model, _ = model_of(*truth(300, 3, temperature=1.6))
    shown = Elements(page_of(model)).text()
    assert not re.search(r"\b(None(?! of)|False|True)\b", shown)


def test_rows_left_out_by_their_label_are_told(run, bundle):
    done = run("report", "logits.h5", "-o", "r.html", "--ignore-label", "0")
    assert re.search(r"left out [1-9]\d* of \d+ rows by their label", done.err)
    assert "left out" not in run("report", "logits.h5", "-o", "r.html", "--force").err


def test_the_page_says_every_option_that_made_its_numbers(run, bundle):
    where = ["--scores", "cal/logits", "--labels", "cal/labels", "--kind", "logits"]
    more = [
        *where,
        "--ignore-label",
        "99",
        "--bins",
        "7",
        "--no-decomposition",
        "--seed",
        "3",
    ]
    assert run("report", "logits.h5", "-o", "r.html", *more, "-q").code == 0
    shown = Elements((bundle / "r.html").read_text("utf-8")).text()
    assert shown.count(" ".join(more)) == 2


@pytest.mark.parametrize(
    ("kind", "gaps", "said"),
    [
        ("classes", [0.1, -0.2, 0.05, 0.0], "2 of 4 classes are {}, 1 of them too high."),
        ("groups", [0.1, 0.2, 0.3, 0.0], "3 of 4 groups are {}, 3 of them too high. {all}"),
        ("groups", [0.1, 0.2, -0.3, 0.0], "3 of 4 groups are {}, 2 of them too high."),
        ("classes", [-0.1, 0.05, 0.0, 0.0], "1 of 4 classes is {}, 0 of them too high."),
        ("groups", [0.05, -0.05, 0.0, 0.0], "None of 4 groups is {}."),
    ],
)  # fmt: skip
def test_parts_are_counted_in_a_sentence(kind, gaps, said):
    """Gaps of 0.1 and more are significant here."""
    parts = [
        Part(f"c{place}", 10, 0.5, 0.5, gap, gap - 0.1, gap + 0.1, abs(gap) >= 0.1)
        for place, gap in enumerate(gaps)
    ]
    model = "That is the whole model rather than single groups."
    said = said.format("significantly miscalibrated", all=model)
    assert counted(parts, kind, "too high") == said


def rows_of_table(source, ident):
    """Cells of a table of classes or groups, by row, as they are printed."""
    table = re.search(rf'<table id="{ident}".*?</table>', source, re.S)[0]
    body = table.split("<tbody>")[1].split("</tbody>")[0]
    rows = []
    for row in body.split("<tr")[1:]:
        texts = re.sub(r"<svg.*?</svg>", "", row.split(">", 1)[1], flags=re.S)
        cells_of_row = re.split(r"<td>|<th scope=\"row\">", texts)[1:]
        rows.append(
            [html.unescape(re.sub(r"<[^>]*>", "", c)).strip() for c in cells_of_row]
        )
    return rows


def patients(n=6000, seed=2):
    """Log-odds and outcomes by site and sex: too extreme, and too low in one site."""
    rng = np.random.default_rng(seed)
    site = rng.choice(["Lyon", "Oslo", "Porto"], n)
    sex = rng.choice(["F", "M"], n)
    odds = rng.normal(-1.0, 1.5, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-odds - 0.8 * (site == "Porto")))).astype(int)
    return np.stack([np.zeros(n), 1.3 * odds], axis=1), y, site, sex


def test_groups_show_before_and_after_in_one_row_single_columns_first():
    """Samples, observed, predicted before, predicted, gap: recomputed from the rows."""
    z, y, site, sex = patients()
    both = np.array([f"site={a}, sex={b}" for a, b in zip(site, sex, strict=True)])
    calibrator = fitted(z[:3000], y[:3000])
    subject = Subject(
        ArrayRows(z[3000:], y[3000:]),
        "p.h5",
        both[3000:],
        {"site": site[3000:], "sex": sex[3000:]},
    )
    candidates = [
        Candidate(None, "uncalibrated", None),
        Candidate("ts.json", "ts", calibrator),
    ]
    model, _ = gather(subject, candidates, PLAN)
    rows = rows_of_table(page_of(model), "groups-0-1")
    names = [row[0] for row in rows]
    assert len(names) == 3 + 2 + 6
    assert all(", " not in one for one in names[:5]) and all(
        ", " in one for one in names[5:]
    )
    before = 1 / (1 + np.exp(z[3000:, 0] - z[3000:, 1]))
    after = 1 / (1 + np.exp((z[3000:, 0] - z[3000:, 1]) / calibrator.temperature))
    for called, n, observed, was, predicted, _, gap, _ in rows:
        members = np.ones(3000, dtype=bool)
        for part in called.split(", "):
            column, value = part.split("=")
            members &= {"site": site, "sex": sex}[column][3000:] == value
        assert n == count(int(members.sum()))
        assert observed == share(y[3000:][members].mean())
        assert (was, predicted) == (
            share(before[members].mean()),
            share(after[members].mean()),
        )
        assert gap == signed(100 * (after[members].mean() - y[3000:][members].mean()))


def test_the_table_of_classes_is_about_what_the_verdict_tests():
    """Class 0 gets too much probability, class 1 too little: as the finding says."""
    z, y = truth(6000, 6, temperature=1.0)
    z = z + np.array([0.7, -0.7, 0, 0, 0, 0])
    model, assessed = model_of(z, y)
    classwise = result_json(assessed.results[0])["report"]["classwise"]
    p = np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))
    rows = rows_of_table(page_of(model), "classes-0-0")
    significant = [part for part in model.versions[0].classes if part.is_significant]
    assert len(significant) == classwise["n_significant"] >= 2
    for called, n, observed, predicted, _, gap, interval, answers, sure, right in rows:
        c = int(called.removeprefix("class "))
        answered = p.argmax(axis=1) == c
        assert (n, answers) == (count(int((y == c).sum())), count(int(answered.sum())))
        assert observed == share((y == c).mean())
        assert predicted == share(p[:, c].mean())
        assert gap == signed(100 * (p[:, c].mean() - (y == c).mean()))
        assert sure == share(p.max(axis=1)[answered].mean())
        assert right == share((y == c)[answered].mean())
        assert " to " in interval


def test_classes_are_counted_up_to_the_error_of_the_fit_in_table_and_finding():
    """A temperature leaves the bias of the classes; the fit had as many rows."""
    z, y = truth(4000, 6, temperature=1.0)
    z = z + np.array([0.6, -0.5, 0.15, 0, 0, 0])
    candidates = [
        Candidate(None, "uncalibrated", None),
        Candidate("ts.json", "ts", fitted(z, y), fit_size=FitSize(4000)),
    ]
    model, assessed = gather(Subject(ArrayRows(z, y), "a"), candidates, PLAN)
    report = result_json(assessed.results[1])["report"]
    assert "classes" in report["findings"]
    off = [part for part in model.versions[1].classes if part.is_significant]
    assert len(off) == report["classwise"]["n_significant"]


def test_groups_of_two_classes_are_about_the_probability_of_class_one(
    tmp_path, monkeypatch, capsys
):
    """Log-odds .8 too low in the east and too high in the west, which the confidence hardly shows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    east, odds = np.arange(4000) % 2 == 0, rng.normal(size=4000) * 2
    with h5py.File("g.h5", "w") as file:
        file["logits"] = np.stack([np.zeros(4000), odds], axis=1)
        file["labels"] = (
            rng.random(4000) < 1 / (1 + np.exp(-odds - np.where(east, 0.8, -0.8)))
        ).astype(int)
        file["group"] = np.where(east, b"east", b"west")
    run = runner(monkeypatch, capsys)
    assert run("report", "g.h5", "-o", "g.html", "-q").code == 0
    source = (tmp_path / "g.html").read_text("utf-8")
    gaps = {row[0]: row[5] for row in rows_of_table(source, "groups-0-0")}
    assert re.fullmatch(r"\u22121\d\.\d", gaps["east"])
    assert re.fullmatch(r"\+1\d\.\d", gaps["west"])
    page = html.unescape(source)
    report = json.loads(re.search(r'id="calcli-evaluation">(.*?)</script>', page)[1])[
        "results"
    ][0]["report"]
    assert report["groups"]["of_positive"] and report["groups"]["n_significant"] == 2
    assert "Predicted" in re.search(r'<table id="groups-0-0".*?</thead>', page, re.S)[0]


def test_verdict_and_table_of_groups_count_alike(tmp_path):
    """Too extreme on both sides, right on average: the verdict counted 2 of 2, the table none."""
    rng = np.random.default_rng(2)
    odds, group = rng.normal(size=3000) * 2, np.arange(3000) % 2
    y = (rng.random(3000) < 1 / (1 + np.exp(-odds))).astype(int)
    scores = np.stack([np.zeros(3000), 2 * odds], axis=1)
    done = calcli.report(scores, y, groups=group, path=tmp_path / "g.html")
    groups = done.results[0].report.facts.groups
    text = Elements((tmp_path / "g.html").read_text("utf-8")).text()
    assert groups.n_significant == 0
    assert "None of 2 groups is significantly miscalibrated." in text
    assert "2 of 2 miscalibrated" not in text


def test_the_data_of_the_slider_are_those_of_curve_and_table():
    """For two classes of P(class 1) too; every percent, the curve as it is drawn."""
    z, y, _, _ = patients(3000)
    model, _ = model_of(z, y)
    source = page_of(model)
    data = json.loads(re.search(r'id="calcli-page">(.*?)</script>', source)[1])[0][0]
    version = model.versions[0]
    for quantity, curve in (("top", version.top), ("positive", version.positive)):
        reading = data["readings"][quantity]
        for percent in (60, 75, 90):
            drawn = np.interp(percent / 100, *curve.isotonic.knots)
            assert reading["curve"][percent] == pytest.approx(drawn, abs=1e-4)
        assert data["edges"][quantity] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0]  # fmt: skip
    p = 1 / (1 + np.exp(z[:, 0] - z[:, 1]))
    inside = (p > 0.2) & (p <= 0.3)
    rows = {row[0]: row for row in bin_rows(source, "ranges-class1-0-0")}
    assert rows["20–30%"][1:3] == [count(int(inside.sum())), share(p[inside].mean())]
    assert rows["20–30%"][3].startswith(share(y[inside].mean()))


def bin_rows(source, ident):
    table = re.search(rf'<table id="{ident}".*?</table>', source, re.S)[0]
    rows = re.findall(r"<tr data-bin.*?</tr>", table, re.S)
    return [
        [" ".join(re.sub(r"<[^>]*>", " ", c).split()) for c in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)]
        for row in rows
    ]  # fmt: skip


# ---- the state of calcli watch


@pytest.fixture
def watched(run, tmp_path, monkeypatch):
    """Six weeks, the last three overconfident, and a seventh after a reset. The state before that and after."""
    monkeypatch.chdir(tmp_path)
    for week in range(7):
        z, y = truth(400, 4, temperature=2.5 if 3 <= week < 6 else 1.0, seed=week)
        with h5py.File(f"w{week}.h5", "w") as file:
            file["logits"], file["labels"] = z, y
        if week == 6:
            (tmp_path / "alarmed.json").write_bytes((tmp_path / "s.json").read_bytes())
        run(
            "watch",
            f"w{week}.h5",
            "--state",
            "s.json",
            "-q",
            *["--reset"] * (week == 6),
        )
    return tmp_path


def test_a_page_draws_the_state_of_watch_alone(run, watched):
    done = run("report", "--state", "alarmed.json", "-o", "r.html")
    assert (done.code, done.out) == (0, "r.html\n")
    source = (watched / "r.html").read_text("utf-8")
    words = Elements(source).text()
    state = json.loads((watched / "alarmed.json").read_text())
    first = next(
        batch["name"] for batch in state["batches"] if batch["log_e"] >= math.log(20)
    )
    assert '<section id="verdict"' in source and f"✗ Alarm since {first}" in words
    assert (
        "calcli watch --state alarmed.json" in words
        and "evaluate" not in words.split("Words")[0]
    )
    listed = re.findall(r'<tr>\s*<th scope="row">(w\d.h5)</th>(.*?)</tr>', source, re.S)
    assert [name for name, _ in listed] == [batch["name"] for batch in state["batches"]]
    for batch, (_, rest) in zip(state["batches"], listed, strict=True):
        over, evidence = re.findall(r"<td>(.*?)</td>", rest)[2:4]
        e = np.exp(batch["log_e"])
        assert over == signed(100 * batch["overconfidence"])
        shown = "over 1\u202f000\u202f000" if e > 1e6 else f"{e:.3g}"
        assert evidence == shown + " ✗" * (batch["log_e"] >= math.log(20))
    dots = [
        (float(x), float(y))
        for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', source)
    ]
    level = float(re.search(r'd="M[\d.]+ ([\d.]+)H[\d.]+" class="diagonal"', source)[1])
    above = [y <= level for _, y in dots[:6]]  # of the evidence; heights grow downwards
    assert above == [batch["log_e"] >= math.log(20) for batch in state["batches"]]
    mark = float(re.search(r'd="M([\d.]+) [\d.]+V[\d.]+" class="mark"', source)[1])
    assert mark == dots[above.index(True)][0]
    assert "<title>Calibration watch: alarmed.json</title>" in source
    figure = re.search(r"<svg.*?</svg>", source, re.S)[0]
    texts = re.findall(r"<text[^>]*>(.*?)</text>", figure)
    assert [text for text in texts if re.fullmatch(r"\d", text)][-6:] == list("123456")
    assert "10⁶" in texts and not any("e+" in text for text in texts)
    assert run("report", "--state", "alarmed.json", "-o", "again.html", "-q").code == 0
    assert (watched / "again.html").read_text("utf-8").replace(
        "again.html", "r.html"
    ) == source


def test_a_page_draws_the_state_of_watch_beside_bundles(run, watched):
    assert (
        run(
            "report",
            "w6.h5",
            "--state",
            "s.json",
            "-o",
            "r.html",
            "--no-decomposition",
            "-q",
        ).code
        == 0
    )
    source = (watched / "r.html").read_text("utf-8")
    assert (
        source.index('<section id="verdict"')
        < source.index('<section id="watch"')
        < source.index("Where it is")
    )
    words = Elements(source).text()
    assert (
        "○ No alarm" in words
        and "calcli report w6.h5 --state s.json --no-decomposition -o r.html" in words
    )
    watch = re.search(r'<section id="watch".*?</section>', source, re.S)[0]
    assert watch.count("<polyline") == 4  # two lines, each in two episodes
    assert "w0.h5" in words  # what was before the reset is seen


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ((), 2, "no bundle is named"),
        (("--state", "s.json", "-c", "ts.json"), 2, "name one beside --state"),
        (("--state", "s.json", "--max", "ece=0.1"), 2, "name one beside --state"),
        (("--state", "absent.json"), 3, "absent.json"),
        (("--state", "w0.h5"), 3, "is no state of calcli watch"),
        (("--state", "edited.json"), 3, "edited or damaged"),
    ],
)
def test_a_state_that_cannot_be_drawn_is_one_line(run, watched, words, code, part):
    (watched / "edited.json").write_text(
        (watched / "s.json").read_text().replace('"n": 400', '"n": 401', 1)
    )
    done = run("report", *words, "-o", "r.html", "-q")
    assert done.code == code and part in done.line
    assert not (watched / "r.html").exists()


def test_a_doubt_names_the_versions_that_it_is_about():
    """One that all share is said once, without names."""
    z, y = truth(300, 3, seed=5)
    model, _ = model_of(z, y, fitted(z, y), fitted(z[:50], y[:50]))
    doubts = ["alike"], ["alike", "stored 0"], ["alike", "stored 0", "at its bound"]
    versions = []
    for version, words in zip(model.versions, doubts, strict=True):
        report = version.report.with_caveats(words)
        result = replace(version.result, report=report)
        versions.append(replace(version, result=result))
    model = replace(model, versions=tuple(versions))
    _, one, two = (version.name for version in versions)
    text = Elements(page_of(model)).text()
    said = f"Doubt. alike Doubt. {one}, {two}: stored 0 Doubt. {two}: at its bound"
    assert said in text
    assert answers_on(model).trust == Answer("With caution:", "Alike.")
    z, y = truth(3000, 3, temperature=3.0)
    sure, _ = model_of(z, y)
    result = sure.versions[0].result
    doubtful = result.report.with_caveats(["ids repeat", "and more"])
    version = replace(sure.versions[0], result=replace(result, report=doubtful))
    trusted = answers_on(replace(sure, versions=(version,))).trust
    assert trusted.lead == "No." and trusted.rest.endswith(" Doubt: ids repeat.")


def test_two_classes_have_decision_curves_and_slope_and_intercept(run, tmp_path):
    """The page shows what the diagrams draw: the same numbers, each once."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(400, 2)) * 2.0
    y = (0.5 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    path = tmp_path / "two.npz"
    np.savez(path, logits=z, labels=y)
    assert run("fit", path, "-m", "platt", "-o", tmp_path / "p.json", "-q").code == 0
    page = tmp_path / "r.html"
    done = run("report", path, "-c", tmp_path / "p.json", "-o", page)
    assert done.code == 0, done.err
    words = Elements(page.read_text("utf-8")).text()
    assert "Is it worth acting on?" in words
    assert "treat all" in words
    measured = ("slope", "intercept", "net_benefit(0.2)")
    asked = [word for metric in measured for word in ("--metric", metric)]
    metrics = json.loads(run("evaluate", path, *asked, "--json", "-q").out)
    metrics = metrics["results"][0]["metrics"]
    for metric in measured[:2]:
        value = f"{metrics[metric]['value']:.2f}".replace("-", "\u2212")
        assert f"{metric} {value} (" in words
    drawn = run("diagram", path, "--style", "decision", "-o", tmp_path / "d.json")
    assert drawn.code == 0
    curve = json.loads((tmp_path / "d.json").read_text("utf-8"))["curves"][0]
    threshold = curve["threshold"][15]
    benefit = f"{curve['benefit'][15]:.3f}".replace("-", "\u2212")
    assert f"{100 * threshold:.1f}% {benefit}" in words
    many = tmp_path / "many.npz"
    np.savez(many, logits=rng.normal(size=(400, 3)), labels=np.arange(400) % 3)
    assert run("report", many, "-o", page, "--force").code == 0
    assert "worth acting on" not in page.read_text("utf-8")
