"""Every option of every command, with numbers and words that nobody means; and options that would be ignored."""

import os
import shutil
import sys
from pathlib import Path
from zlib import crc32

import h5py
import numpy as np
import pytest
from children import run
from run_calcli import runner
from synthetic import truth

from calcli import evaluate
from calcli.cli.app import COMMANDS, load
from calcli.cli.commands.extract import ExtractArgs
from calcli.metrics.catalog import metric_names, settings_of

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "v01"
HOSTILE = [
    "nan",
    "-1",
    "0",
    "inf",
    "1e308",
    "1e20",
    "99999999999999999999",
    "999999999",
    "9" * 5000,
    "",
]
BASE = {
    "extract": ["s.npz", "-o", "o.h5", "--force"],
    "run": ["x.h5", "-o", "o", "--force"],
    "fit": ["-m", "hb", "x.h5", "-o", "o.json", "--force"],
    "adapt": ["svs.json", "x.h5", "--source", "x.h5", "-o", "o.json", "--force"],
    "apply": ["ts.json", "x.h5", "-o", "o.h5", "--force"],
    "evaluate": ["x.h5", "-m", "ece"],
    "diagram": ["x.h5", "--resamples", "100"],
    "inspect": ["x.h5"],
    "compare": ["x.h5", "-m", "identity", "--folds", "2"],
    "threshold": ["x.h5", "--accuracy", "0.5"],
    "watch": ["x.h5", "--state", "state.json", "--reset"],
    "export": ["ts.json", "--to", "python", "-o", "o.py", "--force"],
    "report": ["x.h5", "-o", "o.html", "--force", "--no-decomposition"],
    "methods": [],
    "metrics": [],
    "completion": [],
}
TEXTS = {  # options whose numbers are part of a text
    "extract": ["--split a=", "--split a=0:"],
    "fit": ["--set bins=", "--set mode=ova --set bins="],
    "evaluate": ["--max ece=", "--min ece.lo="],
    "diagram": ["--per-class --panels "],
    "compare": ["--methods hb(bins=", "--test "],
    "report": ["--max ece=", "-o o.html --bins "],
    "apply": ["--threshold ", "--as "],
}
FINDS_NONE = ("threshold", "adapt")
SECONDS = float(os.environ.get("CALCLI_FUZZ_SECONDS", 0))


def cases():
    """An option that several commands share is one declaration: it is tried with one of them, unless there is time."""
    shared = {}
    for command in COMMANDS:
        for option in load(command).params:
            if not getattr(option, "is_flag", False):
                shared.setdefault(
                    (option.opts[0], getattr(option, "help", None)), []
                ).append((command, option))
    for (name, _), places in shared.items():
        for command, option in (
            places if SECONDS else [places[crc32(name.encode()) % len(places)]]
        ):
            number = any(
                word in type(option.type).__name__.lower() for word in ("int", "float")
            )
            yield command, f"{name} " if name.startswith("-") else "", number
    for command, texts in TEXTS.items():
        yield from (
            (command, text, not text.startswith(("--max", "--min"))) for text in texts
        )


def values(command, option, number):
    """All of them for numbers; of words two, other ones for every option, unless there is time."""
    if number or SECONDS:
        return HOSTILE
    first = crc32(f"{command} {option}".encode())
    return [HOSTILE[first % len(HOSTILE)], HOSTILE[(first // 16) % len(HOSTILE)]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("options")
    z, y = truth(200, 4)
    with h5py.File(path / "x.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    np.savez(path / "s.npz", logits=z, labels=y)
    shutil.copy(GOLDEN / "rows4.ts.json", path / "ts.json")
    shutil.copy(GOLDEN / "rows4.svs.json", path / "svs.json")
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs_as_it_stands_in_base(folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    words = ["bash"] if command == "completion" else []
    code, _, said = run([command, *BASE[command], *words])
    assert code == (5 if command == "watch" else 0), said  # 5: these rows are an alarm


@pytest.mark.skipif(
    not hasattr(os, "fork") or sys.platform != "linux",
    reason="limits of children as Linux has them",
)
@pytest.mark.parametrize(
    ("command", "option", "number"),
    list(cases()),
    ids=lambda text: str(text).strip("- "),
)
def test_what_nobody_means_is_refused_or_done(
    folder, monkeypatch, capsys, command, option, number
):
    monkeypatch.chdir(folder)
    for value in values(command, option, number):
        words = [*option.split(), value]
        words = (
            [*words[:-2], words[-2] + words[-1]]
            if option[-1:] in ("=", ":", ",")
            else words
        )
        code, seconds, said = run(
            [command, *BASE[command], *(words if option else [value])]
        )
        description = f"{command} {option}{value[:40]}: exit {code}, {seconds:.1f} s: {said[-300:]}"
        limits = any(word in option for word in ("--max", "--min"))
        assert (
            code in (0, 2, 3)
            or (code == 5 and (limits or command == "watch"))
            or (code == 4 and command in FINDS_NONE)
        ), description
        assert "Traceback" not in said and "internal error" not in said, description
        assert (
            code != 2
            or sum(line.startswith("calcli: ") for line in said.splitlines()) == 1
        ), description
        assert not (value == "nan" and number) or code == 2, description


@pytest.fixture
def here(monkeypatch, capsys, folder):
    monkeypatch.chdir(folder)
    return runner(monkeypatch, capsys)


MODEL = ["extract", "--model", "m.pt2", "--inputs", "s.npz", "-o", "n.h5"]
IDLE = [
    *(["extract", "s.npz", "-o", "n.h5", *words.split()] for words in (
        "--normalize mean=0.5", "--normalize std=1", "--resize 32", "--grey", "--layout nhwc", "--normalize scale=255",
        "--transform zoom:0.1:0.5:3", "--batch 4",
        "--device cpu", "--dtype float32", "--dtype float16", "--weights w.pt", "--inputs s.npz",
        "--transform zoom:0.5", "--choices 4", "--filter none", "--normalize chars", "--no-shuffle", "--no-stratify",
        "--stratify",
    )),
    *([*MODEL, *words.split()] for words in (
        "--class-names a,b", "--normalize chars", "--choices 2", "--filter x", "--join", "--per-label",
        "--drop-duplicates", "--confidence a", "--correct b", "--scores *",
        "--part a", "--unit a", "--ignore-label 1", "--scores a",
    )),
    ["extract", "s.npz", "-o", "n.h5", "--scores", "*", "--scores", "logits"],
    ["extract", "s.npz", "-o", "n.h5", "--labels", "none", "--labels", "labels"],
    ["extract", "s.npz", "-o", "n.h5", "--confidence", "logits", "--correct", "labels", "--per-label"],
    ["fit", "-m", "ts", "x.h5", "-o", "-", "--json"], ["fit", "-m", "ts", "x.h5", "-o", "n.json", "--thorough"],
    *(["evaluate", "x.h5", *words.split()] for words in (
        "-m nll --full", "-m nll --decomposition", "-m nll --format value --per-class",
        "-m nll --format value --explain",
        "-m nll --format value --baseline ts.json", "--json --explain", "--format markdown --per-class",
        "--junit n.xml", "-m nll --bins 7", "-m nll -m brier --norm 2",
        "-m mce --norm 2", "-m ece_mass --scheme mass", "-m smece --scheme mass", "-m accuracy --format value --bins 7",
        "-m nll --label class", "-m nll --compat guo", "-m nll --format value --group-by g",
        "--format markdown --decomposition", "--format csv --group-by g",
    )),
    ["compare", "x.h5", "--test", "t", "--folds", "5"], ["compare", "x.h5", "--thorough"],
    *(["export", "ts.json", "--to", "python", "-o", "n.py", *words.split()] for words in (
        "--scores a", "--labels a", "--kind logits", "--ignore-label 1", "--allow-external", "--at y", "--onto m.onnx",
    )),
    *(["diagram", "x.h5", *words.split()] for words in (
        "--panels 3", "--match", "--theme light", "--width column", "--no-stats",
        *(f"--style {name}" for name in (
            "gaps --arrange overlay", "gaps --bins 9", "gaps --scheme mass", "risk --label top",
            "risk --arrange overlay", "risk --bins 9", "temperature --scheme mass", "temperature --level 0.9",
            "variance --arrange overlay", "variance --level 0.9",
        )),
        "-o n.svg --style gaps --no-stats", "-o n.csv --theme dark", "-o n.csv --ascii", "--json --ascii",
        "-o n.json --no-stats",
    )),
    *(["inspect", "ts.json", *words.split()] for words in ("--kind logits", "--scores a", "--ignore-label 3")),
]  # fmt: skip


@pytest.mark.parametrize("words", IDLE, ids=" ".join)
def test_what_would_be_ignored_is_refused(here, folder, words):
    done = here(*words)
    assert done.code == 2, done.err
    assert done.line
    assert not list(folder.glob("n.*"))


def test_options_of_groups_that_are_not_there_are_refused(here):
    assert (
        "no dataset 'g'"
        in here("report", "x.h5", "-o", "n.html", "--group-by", "g").line
    )
    assert "for two classes" in here("evaluate", "x.h5", "--threshold", "0.3").line
    assert "for two classes" in here("diagram", "x.h5", "--label", "positive").line


@pytest.mark.parametrize("command", COMMANDS)
def test_reasons_belong_to_options(command):
    """What ``unused_options`` names is a field, or it would never be looked up."""
    fields = {option.name for option in load(command).params}
    if command == "extract":
        args = [
            ExtractArgs(output="o.h5", sources=[Path("s.npz")]),
            ExtractArgs(output="o.h5", model="m"),
        ]
        assert all(set(parsed_args.unused_options) <= fields for parsed_args in args)
    assert BASE.keys() == set(COMMANDS)


@pytest.mark.parametrize(
    "setting",
    [{"bins": 7}, {"norm": 2.0}, {"scheme": "mass"}, {"label": "class"}],
    ids=str,
)
def test_a_setting_is_idle_where_no_number_depends_on_it(setting):
    """What --bins, --norm and --scheme are refused for, by the signatures, is what they change nothing of."""
    z, y = truth(400, 4)
    # of two classes
    names = [name for name in metric_names() if name != "ece_positive"]
    numbers = []
    for changed in ({}, setting):
        metrics = evaluate(
            z, y, kind="logits", metrics=names, resamples=50, **changed
        ).to_dict()["results"][0]["metrics"]
        numbers.append(
            {name: {**metric, "signature": None} for name, metric in metrics.items()}
        )
    for name in names:
        same, unused_options = (
            numbers[0][name] == numbers[1][name],
            not set(setting) & settings_of([name]),
        )
        # of some "positive" alone is another
        assert same == unused_options or (same and "label" in setting), name


@pytest.mark.parametrize("words", [
    ["export", "ts.json", "--to", "python", "-o", "n.py/"], ["threshold", "x.h5", "--accuracy", "0.1", "-o", "n.json/"],
    ["evaluate", "x.h5", "--max", "ece=1", "--junit", "n.xml/"], ["report", "x.h5", "-o", "n.html/"],
    ["diagram", "x.h5", "-o", "n.svg/"], ["compare", "x.h5", "-o", "n.json/"],
    ["compare", "x.h5", "--diagram", "n.svg/"], ["extract", "s.npz", "-o", "n.h5/"],
    ["fit", "-m", "ts", "x.h5", "-o", "n.json/"],
], ids=" ".join)  # fmt: skip
def test_a_folder_is_no_name_of_a_file(here, folder, words):
    done = here(*words)
    assert (done.code, words[-1] in done.line) == (2, True)
    assert not list(folder.glob("n.*"))
