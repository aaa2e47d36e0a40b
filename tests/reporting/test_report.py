"""The report page: its sentences, its numbers, and that nothing in it can do harm."""

import html
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from run_calcli import runner
from synthetic import truth

import calcli
from calcli.calibrator import Context
from calcli.diagrams.caption_text import distinct
from calcli.diagrams.styles.gaps import Gap
from calcli.evaluation.evaluate_bundle import Candidate, Plan, Subject
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.catalog import report_metrics
from calcli.metrics.collect import collect
from calcli.metrics.confidence_bins import confidence_bins
from calcli.metrics.context import MetricContext, MetricSettings
from calcli.reporting.components import GLOSSARY, Chapter, Room, drawn_of
from calcli.reporting.figures import pen
from calcli.reporting.gather import gather, thresholds_of
from calcli.reporting.markup import data_block, name, tag, text
from calcli.reporting.number_format import (
    count,
    in_words,
    per_cent,
    points,
    share,
    signed,
    span,
)
from calcli.reporting.page import page
from calcli.reporting.sections import parts
from calcli.reporting.verdicts import overall, verdict_of
from calcli.rows import ArrayRows

PLAN = Plan((*report_metrics(), "gap"), MetricSettings(resamples=200), split=False)
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
    candidates += [Candidate(f"{at}.json", "ts", c) for at, c in enumerate(calibrators)]
    return gather(Subject(rows, bundle, group, names), candidates, plan)


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
    assert [per_cent(v) for v in (0.0, 0.0004, 0.005, 0.5, 0.995, 0.9996, 1.0)] == [
        "0%", "under 0.1%", "0.5%", "50%", "99.5%", "over 99.9%", "100%",
    ]  # fmt: skip
    shares = [share(v) for v in (0.0, 0.0004, 0.1234, 0.99949, 0.99951, 1.0)]
    assert shares == ["0%", "under 0.1%", "12.3%", "99.9%", "over 99.9%", "100%"]
    assert count(12345) == "12\u202f345"
    assert (points(-0.131), signed(-0.04), signed(13.14)) == ("13.1", "0.0", "+13.1")
    assert span(-0.01, 0.02) == "−1.0 to 2.0"


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
    bins = re.search(r'<table id="ranges-0-0".*?</table>', source)[0]
    assert "Mean confidence" in bins and "20–30%" not in bins
    with_ts = model_of(
        *truth(900, 3, temperature=2.0), fitted(*truth(900, 3, temperature=2.0))
    )[0]
    assert "Change in NLL" in page_of(with_ts)


def test_several_models_are_advised_in_one_sentence():
    good, bad = (
        model_of(*binary_rows(9000, 0.9, 0.9))[0],
        model_of(*binary_rows(2000, 0.9, 0.7))[0],
    )
    lead = bad.versions[0].report.advice.lead.rstrip(".,: ")
    assert f"{lead}: 2 of 3" in Elements(page_of(good, bad, bad)).text()


def test_tables_are_named_by_their_captions():
    read = Elements(page_of(model_of(*truth(300, 3))[0]))
    idents = {a["id"] for _, a in read.found if "id" in a}
    regions = [a for _, a in read.found if a.get("role") == "region"]
    assert len(regions) > 4 and all(a["aria-labelledby"] in idents for a in regions)


def test_a_page_quotes_nothing_it_was_given_as_markup():
    assert (
        text(HOSTILE)
        == "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;⟨U+202E⟩&#x27;&quot;&amp;{{x}}"
    )
    assert tag("p", HOSTILE, title=HOSTILE).count("<") == 2
    assert tag("input", checked=True, disabled=False, value=None) == "<input checked>"
    assert "\\u003c/script\\u003e" in data_block("x", {HOSTILE: HOSTILE})
    assert data_block("x", {"a": float("nan")}).endswith('{"a":null}</script>')
    assert name("a\x00\ud800b") == "<bdi>a⟨U+0000⟩⟨U+D800⟩b</bdi>"
    assert 'title="xxx' in name("x" * 200)


def test_eight_versions_have_eight_lines():
    assert len({pen(at) for at in range(8)}) == 8
    style = files("calcli.reporting").joinpath("page.css").read_text("utf-8")
    for word in ("v1", "v2", "v3", "again"):
        assert re.search(rf"[\n}}]\.{word}\{{[^}}]*stroke-dasharray", style), word


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
    ("says", "right", "n", "sign", "headline"),
    [
        (
            0.9,
            0.70,
            2000,
            "▲",
            "Much overconfident: do not take its confidence at face value.",
        ),
        (
            0.9,
            0.85,
            2000,
            "▲",
            "Clearly overconfident: do not take its confidence at face value.",
        ),
        (0.9, 0.88, 8000, "▲", "A little overconfident."),
        (
            0.7,
            0.90,
            2000,
            "▼",
            "Much underconfident: it is right more often than it says.",
        ),
        (0.9, 0.90, 9000, "✓", "Its confidence can be taken at face value."),
        (0.9, 0.80, 20, "–", "Too few samples to test."),
        (0.6, 0.60, 400, "–", "No evidence of miscalibration."),
    ],
)
def test_the_verdict_is_the_first_rule_that_fits(says, right, n, sign, headline):
    model, _ = model_of(*binary_rows(n, says, right))
    assert (model.versions[0].report.sign, verdict_of(model).headline) == (
        sign,
        headline,
    )


def test_a_verdict_names_the_range_that_costs_most_and_the_remedy():
    z, y = truth(3000, 5, temperature=2.0)
    model, _ = model_of(z[1000:], y[1000:], fitted(z[:1000], y[:1000]))
    report, verdict = model.versions[0].report, verdict_of(model)
    assert re.match(
        r"When it says \d+ to \d+% \([\d\u202f]+ of 2\u202f000 samples\) it is right in",
        verdict.direction.rest,
    )
    assert report.advice.lead == "Apply the calibrator."
    assert report.advice.rest.startswith("0.json reduces NLL by ")
    assert "No answer becomes right or wrong." in report.advice.rest
    assert model.focus == 1


def test_right_on_average_and_wrong_in_places_is_said():
    sure, y1 = binary_rows(3000, 0.9, 0.8)
    shy, y2 = binary_rows(3000, 0.6, 0.7, seed=5)
    model, _ = model_of(np.vstack([sure, shy]), np.r_[y1, y2])
    report, verdict = model.versions[0].report, verdict_of(model)
    assert (report.sign, report.word) == ("▲▼", "miscalibrated in places")
    assert "Where P(class 1) is 0 to 10%" in verdict.direction.rest


def test_groups_that_differ_are_named_beside_an_overconfidence():
    """Right in .6 and .88 where it says .9, of one class throughout: too sure as a whole, much more so by night."""
    night, y1 = binary_rows(2000, 0.9, 0.6)
    day, y2 = binary_rows(2000, 0.9, 0.88, seed=3)
    group = np.repeat(["night", "day"], 2000)
    model, _ = model_of(np.vstack([night, day]), np.r_[y1, y2], group=group)
    report, verdict = model.versions[0].report, verdict_of(model)
    assert report.sign == "▲"
    assert (
        "Groups are miscalibrated: night (30.0 points too low)"
        in verdict.direction.rest
    )
    assert "Groups can have calibrators of their own" in report.advice.rest


def test_intervals_and_bins_of_the_page_are_those_asked_for():
    z, y = truth(300, 3)
    plan = Plan(
        (*report_metrics(), "gap"),
        MetricSettings(resamples=200, level=0.9, bins=7),
        split=False,
    )
    words = Elements(page_of(model_of(z, y, plan=plan)[0])).text()
    assert (
        "probability 95 %" not in words
        and "contain the true value with probability 90 %" in words
    )
    assert "over 7 bins of confidence" in words


def test_several_models_are_counted():
    good, bad = (
        model_of(*binary_rows(9000, 0.9, 0.9))[0],
        model_of(*binary_rows(2000, 0.9, 0.7))[0],
    )
    assert (
        overall([good, bad, bad]) == "Of 3 models 2 are overconfident, 1 is calibrated."
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
        limits=[(True, "ece is 0.2"), (False, "nll is 1")],
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
    assert verdict_of(model).headline in words
    assert "✗ crossed: ece is 0.2" in words and "✓ holds: nll is 1" in words
    assert "calcli 'a b'" in words
    for part in (
        "Where it is wrong",
        "Predicted classes",
        "Groups",
        "night",
        "Selective prediction",
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
    script = files("calcli.reporting").joinpath("page.js").read_text("utf-8")
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval(", "Function(", "document.write", "localStorage",
                 "sessionStorage", "fetch(", "XMLHttpRequest", "history."):  # fmt: skip
        assert word not in script, word
    assert not re.search(r"\.on[a-z]+\s*=", script)
    style = files("calcli.reporting").joinpath("page.css").read_text("utf-8")
    assert "url(" not in style and "@import" not in style
    assert "</" not in script + style


def test_colours_of_the_page_have_the_contrast_that_reading_needs():
    style = files("calcli.reporting").joinpath("page.css").read_text("utf-8")

    def bright(colour):
        v = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4) @ [
            0.2126,
            0.7152,
            0.0722,
        ]

    def contrast(a, b):
        low, high = sorted((bright(a), bright(b)))
        return (high + 0.05) / (low + 0.05)

    palettes = [
        dict(re.findall(r"--(\w+):(#\w{6})", rule))
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
        "--no-split",
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
        "calcli report logits.h5 -c logits.ts.json --max nll=9 --no-split -o r.html"
        in shown.text()
    )
    assert (
        "calcli apply logits.ts.json logits.h5:test -o logits.ts.h5" in shown.text()
    )  # the bundle as it was typed
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
        "--no-split",
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
        "results": [r.to_dict() for r in done.results] * 26,
    }
    text = page([model] * 26, evaluation)
    assert len(text.encode()) < 2_000_000
    assert text.count("Left out to keep a page") == 0
    assert text.count('data-file="reliability-') == 26


def test_a_shorter_page_gives_the_same_advice():
    """Where the recommended version is not the second one, it is listed second."""
    z, y = truth(1500, 5, temperature=2.5)
    model, _ = model_of(z, y, fitted(z / 4, y), fitted(z, y))
    model = replace(
        model, versions=(*model.versions[:2], replace(model.versions[2], name="good"))
    )
    assert model.versions[model.focus].name == "good"
    for listed in drawn_of(model, Room(20, short=True, tight=True)):
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
    assert [text.count(f'id="verdict-{at}"') for at in range(3)] == [1, 1, 1]
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
    """1.96 / 2 of a coin: 9604 samples for one point; Clopper-Pearson of one right of one is .025 to 1: 97.5 points."""
    z, y = truth(40, 6, temperature=1.6)
    model, _ = model_of(z[:1], y[:1])
    verdict, advice = verdict_of(model), model.versions[0].report.advice
    assert verdict.headline == "Too few samples to test."
    assert verdict.trusted.rest.startswith("With 1 sample it may be anywhere from ")
    low, high = (
        float(x)
        for x in re.findall(
            r"([\d.]+) points (?:under|over)confident", verdict.trusted.rest
        )
    )
    assert low + high == pytest.approx(97.5, abs=0.1)
    assert advice.lead == "Label about 9,700 samples,"
    assert "· 1 sample ·" in page_of(model_of(z[:1], y[:1])[0])


def test_nothing_that_is_missing_is_printed_as_none():
    model, _ = model_of(*truth(300, 3, temperature=1.6))
    shown = Elements(page_of(model)).text()
    assert "None" not in shown and "False" not in shown and "True" not in shown


def test_rows_left_out_by_their_label_are_told(run, bundle):
    done = run("report", "logits.h5", "-o", "r.html", "--ignore-label", "0")
    assert re.search(r"left out [1-9]\d* of \d+ rows by their label", done.err)
    assert "left out" not in run("report", "logits.h5", "-o", "r.html", "--force").err


def test_the_page_says_every_option_that_made_its_numbers(run, bundle):
    where = ["--scores", "cal/logits", "--labels", "cal/labels", "--kind", "logits"]
    more = [*where, "--ignore-label", "99", "--bins", "7", "--no-split", "--seed", "3"]
    assert run("report", "logits.h5", "-o", "r.html", *more, "-q").code == 0
    shown = Elements((bundle / "r.html").read_text("utf-8")).text()
    assert shown.count(" ".join(more)) == 2


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        (
            [0.1, -0.2, 0.05, 0.0],
            "2 of 4 predicted classes are significantly miscalibrated, 1 of them overconfident.",
        ),
        (
            [0.1, 0.2, 0.3, 0.0],
            "3 of 4 predicted classes are significantly miscalibrated, 3 of them overconfident. That is the"
            " whole model rather than single ones.",
        ),
        (
            [-0.1, 0.05, 0.0, 0.0],
            "1 of 4 predicted classes is significantly miscalibrated, 0 of them overconfident.",
        ),
        (
            [0.05, -0.05, 0.0, 0.0],
            "None of 4 predicted classes is significantly miscalibrated.",
        ),
    ],
)
def test_parts_are_counted_in_a_sentence(gaps, said):
    """Gaps of 0.1 and more are significant here."""
    found = tuple(
        Gap(f"c{at}", 10, 0.5, 0.5, g, g - 0.1, g + 0.1, 0.5, abs(g) >= 0.1)
        for at, g in enumerate(gaps)
    )
    model = SimpleNamespace(
        versions=(SimpleNamespace(name="ts", classes=found),), focus=0
    )
    for room, rest in (
        (Room(), ""),
        (Room(lines=2), " The 2 furthest off are listed."),
    ):
        seen = parts(Chapter(model, 0, room), "classes", "Class")
        whole = " rather than single ones." if said.endswith("model") else ""
        assert f'<span id="about-classes-0-0">ts: {said}{whole}{rest}</span>' in seen
    listed = re.findall(r'<th scope="row">(c\d)', seen)
    assert listed == [
        f"c{at}"
        for at in sorted(
            range(4), key=lambda at: (abs(gaps[at]) < 0.1, -abs(gaps[at]))
        )[:2]
    ]


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
    page = html.unescape((tmp_path / "g.html").read_text("utf-8"))
    assert "by how many points is P(class 1) too low or too high?" in page
    assert re.search(r"east\W+1\d\.\d points too low", page)
    report = json.loads(re.search(r'id="calcli-evaluation">(.*?)</script>', page)[1])[
        "results"
    ][0]["report"]
    assert report["groups"]["of_positive"] and report["groups"]["n_significant"] == 2


def test_groups_whose_confidence_alone_is_off_are_counted_beside_those_of_class_one(
    tmp_path,
):
    """The verdict said that 2 of 2 groups are miscalibrated, the table beneath it that none is."""
    rng = np.random.default_rng(2)
    odds, group = rng.normal(size=3000) * 2, np.arange(3000) % 2
    y = (rng.random(3000) < 1 / (1 + np.exp(-odds))).astype(
        int
    )  # too extreme on both sides, right on average
    scores = np.stack([np.zeros(3000), 2 * odds], axis=1)
    calcli.report(scores, y, groups=group, path=tmp_path / "g.html")
    page = html.unescape((tmp_path / "g.html").read_text("utf-8"))
    words = "None of 2 groups is significantly miscalibrated. With their confidence counted too, 2 of 2 are."
    assert (
        words in re.sub(r"<[^>]*>", "", page)
        and "2 of 2 groups are miscalibrated" in page
    )


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
    cells = re.findall(r'<tr><th scope="row">(w\d.h5)</th>(.*?)</tr>', source)
    assert [name for name, _ in cells] == [batch["name"] for batch in state["batches"]]
    for batch, (_, rest) in zip(state["batches"], cells, strict=True):
        over, evidence = re.findall(r"<td>(.*?)</td>", rest)[2:4]
        assert over == signed(100 * batch["overconfidence"])
        assert evidence == f"{np.exp(batch['log_e']):.3g}" + " ✗" * (
            batch["log_e"] >= math.log(20)
        )
    dots = [
        (float(x), float(y))
        for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', source)
    ]
    level = float(re.search(r'd="M78.0 ([\d.]+)h560.0" class="diagonal"', source)[1])
    above = [y <= level for _, y in dots[:6]]  # of the evidence; heights grow downwards
    assert above == [batch["log_e"] >= math.log(20) for batch in state["batches"]]
    mark = float(re.search(r'd="M([\d.]+) 46.0V430" class="mark"', source)[1])
    assert mark == dots[above.index(True)][0]
    assert run("report", "--state", "alarmed.json", "-o", "again.html", "-q").code == 0
    assert (watched / "again.html").read_text("utf-8").replace(
        "again.html", "r.html"
    ) == source


def test_a_page_draws_the_state_of_watch_beside_bundles(run, watched):
    assert (
        run(
            "report", "w6.h5", "--state", "s.json", "-o", "r.html", "--no-split", "-q"
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
        and "calcli report w6.h5 --state s.json --no-split -o r.html" in words
    )
    assert (
        source.count('class="curve v0" points') + source.count("<polyline") >= 4
    )  # two lines, each in two episodes
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


def test_a_note_names_the_versions_that_it_is_about():
    z, y = truth(300, 3, seed=5)
    model, _ = model_of(z, y, fitted(z, y), fitted(z[:50], y[:50]))
    noted = ["alike"], ["alike", "stored 0"], ["alike", "stored 0", "at its bound"]
    results = [
        replace(v.result, warnings=w)
        for v, w in zip(model.versions, noted, strict=True)
    ]
    versions = tuple(
        replace(v, result=result)
        for v, result in zip(model.versions, results, strict=True)
    )
    _, one, two = (v.name for v in versions)
    words = "".join(Elements(page_of(replace(model, versions=versions))).words)
    assert f"Note.alike{one}, {two}: stored 0{two}: at its bound" in words
