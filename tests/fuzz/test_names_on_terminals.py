"""Names of files, groups and classes that would steer a terminal or break XML and JSON."""

import csv
import json
import os
import re
import unicodedata
import xml.dom.minidom

import h5py
import numpy as np
import pytest
from run_calcli import runner
from synthetic import truth

pytestmark = pytest.mark.slow

Z, Y = truth(300, 4)
NASTY = "e\x1b[31m\x9b1m\nx\u202e\u2028"
NAMES = ["\x1b[31ma", "b\nc", "\x9b2J", "d\x7f\u2066"]


@pytest.fixture
def run(run):
    with h5py.File(f"{NASTY}.h5", "w") as file:
        group = file.create_group("g\x1b[2J\x9b\n")
        group["logits"], group["labels"], group["class_names"] = (
            Z,
            Y,
            np.array(NAMES, dtype=object),
        )
        group["group"] = np.array([NASTY, "b"] * 150, dtype=object)
        group.attrs["source"] = json.dumps({NASTY: {NASTY: [NASTY]}})
    assert run("fit", "-m", "ts", f"{NASTY}.h5", "-o", f"{NASTY}.json", "-q").code == 0
    return run


def harmless(text):
    """No control characters, none that turn the direction of text around, no separators of lines."""
    return not any(
        unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")
        for c in text.replace("\n", "")
    )


@pytest.mark.parametrize("words", [
    ["inspect", "BUNDLE"], ["inspect", "BUNDLE", "--json"], ["inspect", "ART"],
    ["evaluate", "BUNDLE", "-c", "ART"], ["evaluate", "BUNDLE", "-c", "ART", "--json"],
    ["evaluate", "BUNDLE", "-c", "ART", "--per-class", "--per-group", "--max", "ece=0"],
    ["evaluate", "BUNDLE", "-c", "ART", "--format", "markdown"], ["evaluate", "BUNDLE", "-c", "ART", "--format", "csv"],
    ["diagram", "BUNDLE", "-c", "ART"], ["diagram", "BUNDLE", "--per-class"], ["diagram", "BUNDLE", "--per-group"],
    ["fit", "-m", "ts", "BUNDLE", "-o", "ART"], ["apply", "ART", "BUNDLE", "-o", "BUNDLE"],
    ["fit", "-m", "ts", "BUNDLE:gone"], ["inspect", "GONE"],
    ["evaluate", "BUNDLE", "-c", "ART", "--format", "latex"], ["evaluate", "BUNDLE", "--format", "model-index"],
    *(["compare", "BUNDLE", "-m", "identity", "--folds", "2", "--format", form] for form in ("table", "latex", "csv")),
    ["compare", "BUNDLE", "-m", "identity", "--folds", "2", "--json"], ["compare", "BUNDLE", "-m", "GONE"],
    ["threshold", "BUNDLE", "-c", "ART", "--accuracy", "0.1"], ["threshold", "BUNDLE", "--accuracy", "0.1", "--json"],
    ["threshold", "BUNDLE", "--accuracy", "0.9999"], ["export", "ART", "--to", "python", "-o", "ART"],
    ["export", "ART", "--to", "GONE", "-o", "x"], ["report", "BUNDLE", "-c", "ART", "-o", "GONE"],
    ["diagram", "BUNDLE", "--style", "GONE"], ["methods", "GONE"], ["metrics", "GONE"], ["GONE"],
])  # fmt: skip
def test_foreign_names_are_spelt_out(run, words):
    put = {
        "BUNDLE": f"{NASTY}.h5",
        "BUNDLE:gone": f"{NASTY}.h5:{NASTY}",
        "ART": f"{NASTY}.json",
        "GONE": NASTY,
    }
    done = run(*(put.get(word, word) for word in words))
    assert done.code in (0, 2, 3, 4, 5)
    assert harmless(done.out), ascii(done.out)
    assert harmless(done.err), ascii(done.err)
    if "--json" in words:
        assert NASTY in done.out.encode().decode("unicode_escape")
        json.loads(done.out)


@pytest.mark.parametrize("name", [NASTY, "<&\"'>", "é日本🙂", "\ufffe", "\udcff"])
def test_junit_is_xml_whatever_the_names(run, name):
    os.rename(f"{NASTY}.json", f"{name}.json")
    done = run(
        "evaluate",
        f"{NASTY}.h5",
        "-c",
        f"{name}.json",
        "-m",
        "ece",
        "--max",
        "ece=0",
        "--junit",
        "j.xml",
    )
    assert done.code == 5
    with open("j.xml", "rb") as file:
        (case,) = xml.dom.minidom.parse(file).getElementsByTagName("testcase")
    if name in ("<&\"'>", "é日本🙂"):
        assert case.getAttribute("classname").endswith(f"{name}.json")


MARKUP = [
    "<script>alert(1)</script>",
    "</script><b>",
    "\x1b[31m<img src=x onerror=alert(1)>",
    "\\input{x}$&%#_{}~^|`*[]",
]
FORMULA = "=1+1|cmd"


@pytest.fixture
def marked(monkeypatch, capsys, tmp_path):
    """Bundles whose classes, groups and files have names that mean something to a page, to LaTeX, to a spreadsheet."""
    monkeypatch.chdir(tmp_path)
    for name in (f"{FORMULA}.h5", "\\input{x}<b>&_$%.h5"):
        with h5py.File(name, "w") as file:
            file["logits"], file["labels"], file["class_names"] = (
                Z,
                Y,
                np.array([FORMULA, *MARKUP[:3]], dtype=object),
            )
            file["group"] = np.array([*MARKUP, FORMULA, "+x"] * 50, dtype=object)
    return runner(monkeypatch, capsys)


def test_a_page_and_pictures_hold_no_markup_of_others(marked):
    title = ["--title", MARKUP[0]]
    assert (
        marked(
            "report",
            f"{FORMULA}.h5",
            "-o",
            "o.html",
            "--no-decomposition",
            *title,
            "-q",
        ).code
        == 0
    )
    assert (
        marked(
            "diagram",
            f"{FORMULA}.h5",
            "--per-group",
            "-o",
            "o.svg",
            "--resamples",
            100,
            *title,
            "-q",
        ).code
        == 0
    )
    for name in ("o.html", "o.svg"):
        with open(name, encoding="utf-8") as file:
            text = file.read()
        assert not any(bad in text for bad in (*MARKUP[:2], "<img src=x", "\x1b"))
    xml.dom.minidom.parse("o.svg")


def test_tables_in_latex_markdown_and_csv_hold_words_only(marked):
    both = [f"{FORMULA}.h5", "\\input{x}<b>&_$%.h5"]
    for words in (
        ["evaluate", *both, "-m", "nll"],
        ["compare", *both, "-m", "identity", "--folds", "2"],
    ):
        latex = marked(*words, "--format", "latex").out
        assert "\\input" not in latex and "<b>" not in latex
        assert not set(re.sub(r"\\\\|\\[&_$%#{}]| & ", "", latex)) & {
            "&",
            "%",
            "#",
            "$",
        }
        markdown = marked(*words, "--format", "markdown").out
        assert "<b>" not in markdown.replace(r"\<", "")
        table = list(csv.reader(marked(*words, "--format", "csv").out.splitlines()))
        assert len({len(row) for row in table}) == 1
        assert not any(cell.startswith("=") for row in table for cell in row)
    assert (
        marked(
            "diagram", both[0], "--per-class", "-o", "o.csv", "--resamples", 100, "-q"
        ).code
        == 0
    )
    with open("o.csv", encoding="utf-8", newline="") as file:
        assert not any(cell.startswith("=") for row in csv.reader(file) for cell in row)
