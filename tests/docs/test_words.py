"""One vocabulary: words that are not used any more, wherever somebody reads them."""

import ast
import html
import re

import numpy as np
import pytest
from conftest import REPOSITORY
from run_calcli import runner
from synthetic import truth

from calcli.cli.app import load, summaries
from calcli.evaluation.term_meanings import BY_PART, REPORT

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
        f"{found[0]!r}: write {instead}" for word, instead in RETIRED.items() if (found := re.search(word, plain, re.I))
    ]


def messages(path):
    """What a module may print: its literals that are no docstrings, pieces of f-strings joined."""
    tree = ast.parse(path.read_text("utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in node.values}
            yield node.lineno, "".join(part.value for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


@pytest.mark.parametrize("path", sorted((REPOSITORY / "calcli").rglob("*.py")), ids=lambda path: path.stem)
def test_messages_use_the_words_of_the_field(path):
    found = [f"{path.name}:{line}: {words}" for line, text in messages(path) if (words := retired(text))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("command", summaries())
def test_help_uses_the_words_of_the_field(command):
    parser = load(command)
    texts = [parser.help or "", parser.epilog or "", *(getattr(each, "help", None) or "" for each in parser.params)]
    assert not retired(" ".join(texts))


PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_use_the_words_of_the_field(page):
    assert not retired(page.read_text("utf-8"))


def test_what_commands_print_uses_the_words_of_the_field(tmp_path, monkeypatch, capsys):
    """An overconfident model with classes and groups: terminal and page; and every term that is explained is shown."""
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    z, y = truth(900, 5, temperature=2.0)
    np.savez("a.npz", logits=z, labels=y, group=np.arange(900) % 2)
    assert run("fit", "a.npz", "-q").code == 0
    done = run("evaluate", "a.npz", "-c", "a.ts.json", "--full", "--per-class", "--per-group")
    assert done.code == 0 and not retired(done.out + done.err)
    assert run("report", "a.npz", "-c", "a.ts.json", "-o", "a.html", "-q").code == 0
    page = re.sub(r"<(style|script).*?</\1>", "", (tmp_path / "a.html").read_text("utf-8"), flags=re.S)
    assert not retired(html.unescape(re.sub(r"<[^>]+>", " ", page)))
    script = (REPOSITORY / "calcli" / "report" / "page.js").read_text("utf-8")
    assert not retired(" ".join(re.findall(r'"([^"]*)"', script)))
    shown = done.out
    absent = [term for term in (*REPORT, *BY_PART) if not any(word in shown for word in term.split(", "))]
    assert (
        absent
        == ["no significant miscalibration", "mixed", "P(class 1)", "[low, high]", "root-mean-square gap"][
            : len(absent)
        ]
        or absent == []
    )
