"""Names of questions and options that mean something to a terminal or a browser."""

import json
from pathlib import Path

import pytest
from run_calcli import runner

from tests.decisions import logs

NAMES = ("\x1b[31mred", "<script>alert(1)</script>", "x" * 10_000)
QUESTION = "mood\x1b[0m<b>"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    p, y = logs.rows(n=120)
    records = [
        {
            "id": i,
            "answers": {QUESTION: dict(zip(NAMES, map(float, p[i]), strict=True))},
            "label": {QUESTION: NAMES[y[i]]},
        }
        for i in range(120)
    ]
    Path("log.jsonl").write_text(logs.lines(records), "utf-8")
    return runner(monkeypatch, capsys)


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "log.jsonl"),
        ("evaluate", "log.jsonl", "--per-class"),
        ("fit", "log.jsonl"),
        ("run", "log.jsonl", "-o", "out"),
        ("inspect", "log.jsonl"),
        ("extract", "log.jsonl", "-o", "d.h5"),
    ],
    ids=" ".join,
)
def test_no_escape_code_reaches_the_terminal(run, words):
    done = run(*words)
    assert done.code == 0, done.err
    assert "\x1b" not in done.out + done.err
    assert max(map(len, done.err.splitlines()), default=0) < 2000


def test_the_page_holds_no_script_of_a_name(run):
    run("run", "log.jsonl", "-o", "out")
    page = Path("out/log.report.html").read_text("utf-8")
    assert "<script>alert(1)" not in page
    assert "mood\x1b[0m<b>" not in page


def test_the_names_come_back_as_they_were(run):
    assert run("fit", "log.jsonl", "-o", "art.json").code == 0
    assert run("apply", "art.json", "log.jsonl", "-o", "out.jsonl").code == 0
    record = json.loads(Path("out.jsonl").read_text("utf-8").splitlines()[0])
    assert list(record["answers"][QUESTION]) == list(NAMES)


@pytest.mark.parametrize(
    "record",
    [
        {"answers": {"a": {"type": "noul", "noul": 1.5}}},
        {"answers": {"a": {"type": "noul", "noul": "high"}}},
        {"answers": {"a": {"type": "choice", "probabilities": {"x": 0.9, "y": 0.9}}}},
        {"answers": {"a": {"type": "choice", "probabilities": []}}},
        {"answers": {"a": None}, "label": {"a": True}},
        {"answers": []},
        {"answers": {"a": {"type": "score", "probabilities": {"0": float("nan")}}}},
    ],
)
def test_records_without_a_distribution_are_refused_or_left_out(run, record):
    good = {"answers": {"a": {"type": "noul", "noul": 0.5}}, "label": {"a": True}}
    Path("bad.jsonl").write_text(logs.lines([good, record] * 5), "utf-8")
    done = run("extract", "bad.jsonl", "-o", "bad.h5")
    assert done.code in (0, 3)
    assert "Traceback" not in done.err
    if done.code == 0:
        assert "5 rows" in done.err
