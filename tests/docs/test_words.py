"""One vocabulary: words that are not used any more, wherever somebody reads them."""

import ast
import html
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import REPOSITORY
from synthetic import truth

from calcli.cli.app import COMMANDS, load
from calcli.evaluation.term_meanings import BY_PART, REPORT
from calcli.metrics.catalog import metric, metric_names
from calcli.reporting.glossary import GLOSSARY

pytestmark = pytest.mark.slow

RETIRED = {
    r"too (sure|modest)\b": "overconfident, underconfident",
    r"not sure enough": "underconfident",
    r"\bhonest": "calibrated",
    r"beyond chance|by chance alone|chance level|noise floor": "significant; expected under calibration",
    r"times in 100": "95 %; 95th percentile",
    r"how often a calibrated model would": "p-value",
    r"\boverstates?\b|\bunderstates?\b": "overconfidence",
    r"\b(was|were|is) taken (as|for)\b": "read as",
    r"\bmend(s|ed|ing)?\b": "correct, remove",
    r"\bdealt\b|\bdeals? (out|the)\b": "split, distribute",
    r"keeps? (every (answer|prediction)|(the )?predictions)": "accuracy-preserving",
    r"class shares|share of (right|rows|cases|samples|class)": "frequency, proportion",
    r"promises? (accuracy|it)\b": "guarantees",
    r"people read": "for people",
    r"cannot be told|told apart": "significant",
    r"\bsurprise\b": "NLL",
    r"\bwould remove\b": "could reduce",
    r"scores as they are|\bnot as it is\b": "uncalibrated",
}
"""Pattern -> what is written in its place."""


def retired(text):
    """Which of these words a text has."""
    plain = " ".join(text.split())
    return [
        f"{match[0]!r}: write {instead}"
        for word, instead in RETIRED.items()
        if (match := re.search(word, plain, re.I))
    ]


def messages(path):
    """What a module says: its literals and docstrings, pieces of f-strings joined."""
    tree, silent = ast.parse(path.read_text("utf-8")), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in node.values}
            yield (
                node.lineno,
                "".join(
                    part.value for part in node.values if isinstance(part, ast.Constant)
                ),
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in silent
        ):
            yield node.lineno, node.value


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "calcli").rglob("*.py")), ids=lambda path: path.stem
)
def test_messages_use_the_words_of_the_field(path):
    faults = [
        f"{path.name}:{line}: {words}"
        for line, text in messages(path)
        if (words := retired(text))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_uses_the_words_of_the_field(command):
    parser = load(command)
    texts = [
        parser.help or "",
        parser.epilog or "",
        *(getattr(parameter, "help", None) or "" for parameter in parser.params),
    ]
    assert not retired(" ".join(texts))


PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_use_the_words_of_the_field(page):
    assert not retired(page.read_text("utf-8"))


def seen(path):
    """What a reader sees of an HTML page."""
    page = re.sub(r"<(style|script).*?</\1>", "", path.read_text("utf-8"), flags=re.S)
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What every command says on models of five and of two classes, overconfident and calibrated: command -> text."""
    folder = tmp_path_factory.mktemp("words")
    for name, k, temperature in (
        ("a", 5, 2.0),
        ("two", 2, 1.6),
        ("good", 4, 1.0),
        ("few", 3, 1.0),
    ):
        z, y = truth(
            {"few": 30, "good": 8000}.get(name, 900), k, temperature=temperature
        )
        np.savez(
            folder / f"{name}.npz", logits=z, labels=y, group=np.arange(len(y)) % 2
        )
    z, y = truth(4000, 4, temperature=1.0)
    group = np.arange(4000) % 2
    np.savez(
        folder / "both.npz",
        logits=z * np.where(group, 1.6, 0.7)[:, None],
        labels=y,
        group=group,
    )
    z, y = truth(900, 3)
    np.savez(folder / "odd.npz", logits=z, labels=np.roll(y, 1))
    said, wide = {}, {**os.environ, "COLUMNS": "160"}

    def run(line):
        done = subprocess.run(
            [sys.executable, "-m", "calcli", *line.split()],
            cwd=folder,
            capture_output=True,
            text=True,
            env=wide,
        )
        said[line] = done.stdout + done.stderr
        assert done.returncode in ENDS, f"{line}: {said[line]}"

    for line in LINES:
        run(line)
        assert "Traceback" not in said[line], said[line]
    return folder, said


ENDS = (0, 3, 4, 5)
"""Exit codes of what is said here: two classes are no five, no threshold holds, a limit is crossed."""

LINES = (
    "fit a.npz", "fit --method all two.npz -o all", "fit --method platt two.npz",
    *(f"evaluate {name}.npz --full --per-class --per-group" for name in ("two", "good", "few", "odd", "both")),
    "evaluate a.npz -c a.ts.json --full --per-class --per-group", "evaluate a.npz two.npz good.npz few.npz odd.npz",
    "evaluate a.npz --max ece=0.01", "compare a.npz --methods ts,vs,hb", "diagram a.npz -c a.ts.json",
    "threshold two.npz --accuracy 0.8", "threshold a.npz --accuracy 0.999", "inspect a.npz", "inspect a.ts.json",
    "apply a.ts.json two.npz -o no.csv", "apply a.ts.json a.npz -o a.csv", "export a.ts.json -o a.py",
    "extract a.npz -o a.h5 --split cal=0.5 --split test=0.5", "fit --method svs a.h5", "run a.h5 -o out",
    "adapt a.svs.json a.h5:test -o b.json", "watch a.npz -c a.ts.json --state w.json", "evaluate a.npz",
    "report a.npz two.npz good.npz few.npz odd.npz -o many.html",
    "report two.npz -c two.platt.json -o two.html", "methods", "methods auto", "metrics", "metrics ece", "--help",
)  # fmt: skip


def test_what_commands_say_uses_the_words_of_the_field(outputs):
    folder, said = outputs
    texts = {**said, **{page.name: seen(page) for page in folder.rglob("*.html")}}
    assert {"many.html", "two.html", "a.report.html"} <= set(texts)
    faults = [
        f"{name}: {words}" for name, text in texts.items() if (words := retired(text))
    ]
    assert not faults, "\n".join(faults)
    script = (REPOSITORY / "calcli" / "reporting" / "page.js").read_text("utf-8")
    assert not retired(" ".join(re.findall(r'"([^"]*)"', script)))


NOTATION = {
    "p": r"\bp [=<]",
    "[low, high]": r"\[-?\d+\.\d+, -?\d+\.\d+\]",
    "z": r"\bz\b",
    "±": "±",
}
"""How a term looks where it is no word."""


def test_every_term_that_is_explained_is_shown(outputs):
    """The glossary of an evaluation against the lines above that glossary, of all evaluations together."""
    evaluations = [
        text for line, text in outputs[1].items() if line.startswith("evaluate")
    ]
    shown = "\n".join(
        re.split(r"\nterms?\b", text, maxsplit=1)[0] for text in evaluations
    )
    for term in (*REPORT, *BY_PART):
        for word in term.split(", ") if term not in NOTATION else [term]:
            assert re.search(NOTATION.get(word, re.escape(word)), shown), (
                f"{term!r} is explained and never shown"
            )


FIELD = (
    "NLL", "calibrator", "overconfidence", "calibrated", "expected under calibration", "p-value", "refinement",
    "calibration loss", "significant", "bin", "coverage", "interval", "temperature", "points", "confidence",
)  # fmt: skip
"""The terms of the field that evaluations and pages print."""


@pytest.mark.parametrize("term", FIELD)
def test_every_term_of_the_field_that_is_shown_is_explained(outputs, term):
    folder, said = outputs
    shown = " ".join([*said.values(), *(seen(page) for page in folder.rglob("*.html"))])
    assert re.search(rf"\b{term}", shown, re.I), (
        f"{term} is not shown any more: take it out of this list"
    )
    explained = [
        *REPORT.items(),
        *BY_PART.items(),
        *((term.word, term.meaning) for term in GLOSSARY.values()),
        *((n, metric(n).title) for n in metric_names()),
    ]
    assert any(
        re.search(rf"\b{term}", " ".join(texts_of_term), re.I)
        for texts_of_term in explained
    )
