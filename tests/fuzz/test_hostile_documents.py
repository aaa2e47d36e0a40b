"""Small files that commands read beside rows: results of compare, thresholds, lists of names."""

import io
import json
import os

import h5py
import pytest
from synthetic import truth

from calcli.io.inputs import PIECE, at_most

pytestmark = pytest.mark.slow

DEEP = "[" * 100_000


@pytest.fixture
def run(run):
    z, y = truth(200, 3)
    with h5py.File("x.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    assert run("fit", "-m", "ts", "x.h5", "-o", "ts.json", "-q").code == 0
    return run


@pytest.fixture
def result(run):
    assert run("compare", "x.h5", "-m", "ts", "-o", "r.json", "-q").code == 0
    with open("r.json") as file:
        return json.load(file)


def spoilt(content, *path, value):
    *way, last = path
    node = content
    for step in way:
        node = node[step]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return json.dumps(content)


@pytest.mark.parametrize(("path", "value"), [
    (["settings"], []), (["settings"], None), (["data"], 7), (["data"], None), (["data", "x.h5"], []),
    (["results"], {}), (["results", 0], 1), (["results", 0, "seconds"], "\x1b[31m"), (["results", 0, "metrics"], None),
    (["results", 0, "metrics"], [1]), (["results", 0, "metrics"], {}), (["results", 0, "metrics", "nll"], 7),
    (["results", 0, "metrics", "nll", "value"], "x"), (["results", 0, "metrics", "nll", "value"], None),
    (["results", 0, "metrics", "nll", "ci"], [1.0]), (["results", 0, "metrics", "ece", "null_q95"], True),
    (["results", 0, "bundle"], []), (["differences"], [[1]]), (["differences", 0, "metrics"], 7),
    (["differences", 0, "metrics", "nll"], None), (["differences", 0, "method"], {}),
])  # fmt: skip
def test_a_result_file_that_is_none_is_refused_and_kept(run, result, path, value):
    text = spoilt(result, *path, value=value)
    with open("r.json", "w") as file:
        file.write(text)
    done = run("compare", "x.h5", "-m", "ts", "-o", "r.json")
    assert (done.code, "is no result of compare" in done.line) == (2, True)
    with open("r.json") as file:
        assert file.read() == text


THRESHOLDS = (
    '{"threshold": 2, "calibrator_sha256": ""}',
    '{"threshold": true}',
    '{"threshold": [0]}',
)
TEXTS = [
    "",
    "[]",
    "{}",
    DEEP,
    '{"settings": ' + DEEP,
    "\xff",
    "null",
    '{"threshold": ' + DEEP,
    *THRESHOLDS,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts_that_are_no_document_are_a_sentence(run, text):
    with open("t.json", "w", encoding="latin-1") as file:
        file.write(text)
    assert run("compare", "x.h5", "-m", "ts", "-o", "t.json").line
    assert (
        run("apply", "ts.json", "x.h5", "--threshold", "t.json", "-o", "o.h5").code == 3
    )
    assert run("evaluate", "--files-from", "t.json").code == 3
    assert run("evaluate", "x.h5", "-c", "t.json").line


def test_pipes_that_nobody_opened_are_not_waited_for(run):
    for name in ("pipe", "pipe.json", "pipe.h5"):
        os.mkfifo(name)
    for words in (
        ["inspect", "pipe"], ["apply", "pipe", "x.h5", "-o", "o.h5"], ["apply", "ts.json", "pipe.h5", "-o", "o.h5"],
        ["apply", "ts.json", "x.h5", "--threshold", "pipe", "-o", "o.h5"], ["evaluate", "--files-from", "pipe"],
        ["evaluate", "x.h5", "-c", "pipe"], ["evaluate", "x.h5", "--baseline", "pipe"],
        ["diagram", "x.h5", "-c", "pipe"],
        ["report", "x.h5", "-c", "pipe", "-o", "o.html"], ["compare", "x.h5", "-o", "pipe.json"],
        ["compare", "x.h5", "-o", "pipe.json", "--force"], ["compare", "x.h5", "--baseline-bundle", "pipe.h5"],
        ["threshold", "pipe.h5", "--accuracy", "0.5"], ["threshold", "x.h5", "-c", "pipe", "--accuracy", "0.5"],
        ["export", "pipe", "--to", "python", "-o", "o.py"], ["fit", "-m", "ts", "pipe.h5"],
        ["export", "ts.json", "--to", "python", "--check", "pipe.h5", "-o", "o.py"], ["extract", "pipe", "-o", "o.h5"],
    ):  # fmt: skip
        done = run(*words)
        assert (done.code in (2, 3), "pipe" in done.line) == (True, True), words


def test_a_list_of_names_with_nul_is_refused(run):
    with open("list", "w") as file:
        file.write("x\0.h5\n")
    assert "NUL" in run("evaluate", "--files-from", "list").line


def test_names_too_long_for_any_file_are_a_sentence(run):
    long = "9" * 5000
    for words in (
        ["extract", "x.h5", "--gold", long, "-o", "o.h5"], ["extract", long, "-o", "o.h5"],
        ["apply", "ts.json", "x.h5", "-o", f"{long}.h5"], ["fit", "-m", "all", "x.h5", "-o", long],
        ["fit", "-m", "ts", long], ["evaluate", "x.h5", "-c", long], ["inspect", long],
    ):  # fmt: skip
        done = run(*words)
        assert (done.code in (2, 3), "9999" in done.line) == (True, True), done


def test_a_document_takes_memory_for_what_it_holds(run):
    """Not for the largest that would be read: a gibibyte is more than some jobs may ask for."""

    class Small(io.BytesIO):
        def read(self, size=-1):
            assert 0 < size <= PIECE
            return super().read(size)

    assert at_most(Small(b"x" * 3_000_000), 1 << 30) == b"x" * 3_000_000
    assert at_most(Small(b"x" * 3_000_000), 2_500_000) == b"x" * 2_500_000
