"""What people type and read: other names of methods, tables in several formats."""

import ast
import csv
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli
from calcli.calibrator import Context
from calcli.cli.app import COMMANDS, load
from calcli.cli.main import COMPLETION
from calcli.cli.manual_page import manual
from calcli.cli.print_fit import print_fit
from calcli.cli.render import TEXTS, Console, Table
from calcli.errors import UsageError
from calcli.evaluation.cross_validation import cross_validated_nll, folds_of
from calcli.fit_words import fitted_sentence
from calcli.methods.auto import Auto
from calcli.methods.compared.identity import Identity
from calcli.methods.ir import IsotonicRegression
from calcli.mixture import Member
from calcli.registry import canonical, method, method_names, parse_method, spelled
from calcli.rows import ArrayRows


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("TS", "ts"),
        ("temperature", "ts"),
        ("Temperature_Scaling", "ts"),
        ("isotonic", "ir"),
        ("TS+histogram", "ts+hb"),
        ("scaling-binning", "sb"),
        ("vector+Platt", "vs+platt"),
        ("MS_ODIR", "ms-odir"),
        ("nothing such", "nothing such"),
    ],
)
def test_methods_go_by_their_other_names(typed, name):
    assert canonical(typed) == name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("Temperature", "ts"),
        (" hb ( bins = 20 ; scheme=mass ) ", "hb(bins=20;scheme=mass)"),
        ("Histogram_Binning(bins=20)", "hb(bins=20)"),
        ("feature-temperature+SVS(lambda=0.1)", "ft+svs(lambda=0.1)"),
        ("auto(candidates=temperature,hb(bins=9;scheme=mass);folds=3)",
         "auto(candidates=temperature,hb(bins=9;scheme=mass);folds=3)"),
        ("uncalibrated", "identity"),
    ],
)  # fmt: skip
def test_a_method_with_options_is_written_in_one_way(typed, name):
    assert spelled(typed) == name
    assert parse_method(typed) == parse_method(name)


def test_methods_with_options_are_read_alike_wherever_they_are_typed(
    run, tmp_path, monkeypatch
):
    """As -m, as a candidate of auto, as an entrant of compare, from Python: the same calibrator, the same name."""
    monkeypatch.chdir(tmp_path)
    z, y = truth(300, 3)
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    assert run("fit", "-m", "Histogram(bins=7)", "a.h5", "-o", "-", "-q").out == (
        run("fit", "-m", "hb", "--set", "bins=7", "a.h5", "-o", "-", "-q").out
    )
    assert (
        calcli.fit(z, y, "Histogram (bins=7)").params
        == calcli.fit(z, y, "hb", bins=7).params
    )
    chosen = [
        calcli.fit(z, y, "auto", candidates=text, folds=2).to_dict()
        for text in ("Temperature,EC", "ts, ec")
    ]
    assert (
        chosen[0]["params"] == chosen[1]["params"]
        and chosen[0]["fit"] == chosen[1]["fit"]
    )
    asked = "Histogram(bins=7), auto(candidates=ts,EC;folds=2)"
    listed = json.loads(run("compare", "a.h5", "--methods", asked, "--json").out)
    assert [r["method"] for r in listed["results"]][1:] == [
        "hb(bins=7)",
        "auto(candidates=ts,EC;folds=2)",
    ]
    twice = run("fit", "-m", "hb(bins=7)", "--set", "bins=8", "a.h5")
    assert twice.code == 2 and "--set bins is given twice" in twice.err
    for text in ("hb(bins)", "hb(bins=3", "hb)bins=3("):
        assert run("fit", "-m", text, "a.h5").code == 2


def test_no_alias_names_two_methods():
    name_of_alias = {}
    for name in method_names():
        for alias in vars(method(name)).get("aliases", ()):
            assert alias == alias.lower() and "_" not in alias
            assert name_of_alias.setdefault(alias, name) == name
            assert canonical(alias) == name, f"{alias} is a method's own name"


TABLE = Table(
    ["method", "n", "ece"], [["a_b|c", 3, 0.123456], ["50%", None, float("nan")]]
)


def test_what_is_only_compared_with_lives_by_itself(run):
    """Both folders are found; the folder of those that say so is itself no method."""
    for name in method_names():
        aside = method(name).__module__.startswith("calcli.methods.compared.")
        assert aside == ("to compare with" in method(name).use), name
    assert "compared" not in method_names()
    refused = run("methods", "compared")
    assert refused.code == 2 and "no method is named 'compared'" in refused.err


def test_a_table_in_every_format():
    assert (
        TEXTS["table"](TABLE)
        == "method  n     ece\na_b|c   3  0.1235\n50%     -       -\n"
    )
    markdown = TEXTS["markdown"](TABLE).splitlines()
    assert markdown[1:3] == ["| --- | ---: | ---: |", r"| a_b\|c | 3 | 0.1235 |"]
    latex = TEXTS["latex"](TABLE).splitlines()
    assert latex[:2] == [r"\begin{tabular}{lrr}", r"\toprule"]
    assert latex[4:6] == [r"a\_b\textbar{}c & 3 & 0.1235 \\", r"50\% & - & - \\"]
    assert list(csv.reader(TEXTS["csv"](TABLE).splitlines()))[1:] == [
        ["a_b|c", "3", "0.123456"],
        ["50%", "", ""],
    ]


def test_no_name_steers_the_language_of_its_table():
    table = Table(["name"], [["[1] *b* `c` <d> $e$ _f_"], ["\x1b[1mg\n,h"]])
    assert (
        TEXTS["markdown"](table).splitlines()[2]
        == r"| \[1\] \*b\* \`c\` \<d\> \$e\$ \_f\_ |"
    )
    # a bracket or a star at the beginning of a row would belong to the end of the one before
    assert (
        TEXTS["latex"](table)
        .splitlines()[4]
        .startswith(r"{[}1] {*}b{*} `c` \textless{}d\textgreater{} \$e\$")
    )
    assert list(csv.reader(TEXTS["csv"](table).splitlines()))[2] == [r"\x1b[1mg\x0a,h"]


@pytest.mark.parametrize("command", ["methods", "metrics"])
def test_lists_come_in_every_format(run, command):
    whole = json.loads(run(command, "--json").out)[command]
    assert json.loads(run(command, "--format", "json").out)[command] == whole
    lines = [
        json.loads(line) for line in run(command, "--format", "jsonl").out.splitlines()
    ]
    assert [line["name"] for line in lines] == [
        line_of_whole["name"] for line_of_whole in whole
    ]
    assert len(run(command, "--format", "csv").out.splitlines()) == len(whole) + 1
    assert run(command, "--format", "html").code == 2
    assert run(command, "--json", "--format", "csv").code == 2


def test_equal_warnings_are_one_line_with_their_count(capsys):
    talk = Console()
    for i in range(40):
        talk.warn("3 classes without a row", about=f"b{i}.h5")
    talk.warn("few rows", about="b7.h5")
    talk.tell_warnings()
    assert capsys.readouterr().err.splitlines() == [
        "warning: b0.h5, b1.h5, b2.h5 and 37 more: 3 classes without a row",
        "warning: b7.h5: few rows",
    ]


def test_many_warnings_that_differ_in_numbers_alone_are_one_line(capsys):
    """26 models of one benchmark: a line each said that neighbouring rows are alike, with another z."""
    talk = Console()
    for i in range(26):
        talk.warn(f"neighbouring rows are alike (z = {4 + i / 10})", about=f"b{i}.h5")
    for i in range(3):
        talk.warn(f"{i} rows are blank", about=f"b{i}.h5")
    talk.tell_warnings()
    assert capsys.readouterr().err.splitlines() == [
        "warning: b0.h5, b1.h5, b2.h5 and 23 more: neighbouring rows are alike (z = 4.0) (numbers of the first)",
        *(f"warning: b{i}.h5: {i} rows are blank" for i in range(3)),
    ]


@pytest.mark.slow
def test_all_methods_are_ranked_by_held_out_rows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = truth(60, 8)
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = 3 * z, y
    done = run("fit", "-m", "ALL", "a.h5", "--json")
    results = json.loads(done.out)["results"]
    held_out = [result["cv_nll"] for result in results if result["status"] != "failed"]
    assert held_out == sorted(held_out) and len(held_out) > 15
    assert " ts …" not in done.err  # less than a minute, and no terminal
    assert "ms: left out, its 72 parameters outnumber the 60 rows" in done.err
    assert not any(result["method"] == "ms" for result in results)
    rows = ArrayRows(3 * z, y)
    result_of_ts = next(result for result in results if result["method"] == "ts")
    again = cross_validated_nll("ts", folds_of(rows, Context()), Context())
    assert result_of_ts["cv_nll"] == pytest.approx(again, rel=1e-12)
    quiet = run("fit", "-m", "all", "a.h5", "-o", "more", "-q", "--thorough")
    assert "more/a.ms.json" in quiet.out.split() and "left out" not in quiet.err


def completed(*words):
    """What a shell is told may stand in place of the last word."""
    asked = {
        COMPLETION: "complete_bash",
        "COMP_WORDS": shlex.join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "calcli"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_shell_completes_commands_options_and_names():
    assert completed("calcli", "ev") == ["evaluate"]
    assert completed("calcli", "fit", "--str") == ["--strict"]
    assert completed("calcli", "fit", "-m", "iro") == ["irova", "irova-ts"]
    assert completed("calcli", "metrics", "ece_m") == ["ece_mass"]
    assert completed("calcli", "fit", "-o", "x") == []  # files, which the shell adds


def test_there_are_completions_for_three_shells(run):
    for shell in ("bash", "zsh", "fish"):
        script = run("completion", shell)
        assert script.code == 0
        assert COMPLETION in script.out
    assert run("completion", "tcsh").code == 2


def test_the_manual_names_every_option():
    text = manual().replace("\\-", "-")
    for command in COMMANDS:
        for option in load(command).params:
            if option.param_type_name == "option" and not option.hidden:
                assert all(name in text for name in option.opts), f"{command} {option}"


def test_evaluate_explains_its_terms(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = truth(80, 3)
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    plain, explained = run("evaluate", "a.h5"), run("evaluate", "a.h5", "--explain")
    assert explained.out.startswith(plain.out)
    added = explained.out.removeprefix(plain.out)
    assert "refinement" in added and "Negative log-likelihood" in added


def test_forty_bundles_with_their_own_calibrators_give_one_line_of_a_kind(
    run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    for i in range(4):
        with h5py.File(f"b{i}.h5", "w") as file:
            file["logits"], file["labels"] = (
                rng.normal(size=(60, 3)),
                rng.randint(3, size=60),
            )
        assert run("fit", "-m", "ts", f"b{i}.h5", "-q").code == 0
    warned = run(
        "evaluate", "b*.h5", "-c", "{stem}.ts.json", "-m", "ece"
    ).err.splitlines()
    warnings_of_own_rows = [line for line in warned if "very rows" in line]
    assert len(warnings_of_own_rows) == 1 and not warnings_of_own_rows[0].endswith(
        "times)"
    )
    assert (
        "b0.h5 with b0.ts.json, b1.h5 with b1.ts.json, b2.h5 with b2.ts.json and 1 more"
        in warnings_of_own_rows[0]
    )


@pytest.mark.parametrize(
    "name",
    [
        "Brier Score",
        "brier-score",
        "LOGLOSS",
        "Log Loss",
        "Roc AUC",
        "ECE",
        "Smooth ECE",
    ],
)
def test_metrics_go_by_other_names_too(run, name):
    assert run("metrics", name).code == 0


def artifact_of(table, calibrator=None):
    """What people read of a choice among candidates: its artifact, as far as they see it."""
    fit = SimpleNamespace(
        details={"auto": {"table": table}},
        before={"nll": 0.5, "ece": 0.1},
        after={"nll": 0.4, "ece": 0.02},
        status="ok",
        warnings=[],
    )
    return SimpleNamespace(
        fit=fit,
        seconds={"vs": 1.5},
        calibrator=calibrator,
        method="auto",
        n_classes=10,
    )


def candidates(capsys, table):
    """The table of candidates, line by line."""
    print_fit(artifact_of(table), Console(), full=True)
    lines = capsys.readouterr().err.splitlines()
    end = next(
        place for place, line in enumerate(lines) if line.startswith("in-sample")
    )
    return lines[2:end]


def test_candidates_stand_best_first_and_failures_are_named(capsys):
    failed = {"method": "hb", "failed": "too few rows"}
    ts, vs = (
        {"method": m, "nll": nll, "error": 0.01, "weight": w}
        for m, nll, w in (("ts", 0.4, 0.25), ("vs", 0.3, 1))
    )
    head, *lines = candidates(capsys, [failed, ts, vs])
    columns = "candidate held-out nll standard error weight seconds"
    assert head.split() == columns.split()
    assert [line.split() for line in lines] == [
        ["vs", "0.3000", "0.0100", "1", "1.5000"],
        ["ts", "0.4000", "0.0100", "0.2500", "-"],
        ["hb", "failed"],
    ]
    assert candidates(capsys, [failed]) == []
    chosen = {"method": "ts", "brier": 0.2, "error": 0.01, "chosen": True}
    other = {**chosen, "method": "ec", "brier": 0.1, "chosen": False}
    head, *lines = candidates(capsys, [chosen, other])
    assert "held-out brier" in head
    assert [line.split()[0] for line in lines] == ["ec", "ts"]
    assert "chosen" in lines[1]
    assert "chosen" not in lines[0]


def test_a_fit_is_two_lines_and_all_else_is_full(capsys):
    ts, vs = (
        {"method": m, "nll": nll, "error": 0.01, "weight": w}
        for m, nll, w in (("ts", 0.4, 0.25), ("vs", 0.3, 0.75))
    )
    print_fit(artifact_of([ts, vs]), Console())
    assert capsys.readouterr().err.splitlines() == [
        "Fitted auto: 0.75 vs, 0.25 ts.",
        "In-sample: NLL 0.5000 -> 0.4000, ECE 0.1000 -> 0.0200; "
        "best candidate, held out: NLL 0.3000.",
    ]


def test_the_ece_of_a_fit_to_two_classes_is_named_apart_from_that_of_evaluate(run):
    """evaluate measures that of P(class 1), a fit records that of the confidence."""
    z = np.random.default_rng(0).normal(size=200)
    labels = np.arange(200) % 2
    np.savez("two.npz", logits=z, labels=labels)
    np.savez("three.npz", logits=np.stack([z, -z, 0 * z], axis=1), labels=labels)
    assert ", top-label ECE 0." in run("fit", "-m", "ts", "two.npz").err
    assert ", ECE 0." in run("fit", "-m", "ts", "three.npz").err


@pytest.mark.parametrize(
    ("cls", "is_kept"), [(Identity, True), (IsotonicRegression, False)]
)
def test_an_average_says_whether_it_keeps_predictions(cls, is_kept):
    members = tuple(
        Member(name, None, SimpleNamespace(laws=cls.laws), 0.5) for name in ("a", "b")
    )
    table = [{"method": "ts", "nll": 0.4, "error": 0.01, "weight": 1.0}]
    words = fitted_sentence(artifact_of(table, Auto(members, 0.0)))
    assert words.endswith("; predictions kept.") == is_kept


@pytest.fixture
def four(tmp_path, monkeypatch):
    """Four bundles of 300 overconfident rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    for i in range(4):
        z, y = truth(300, 3, temperature=2.0, seed=i)
        with h5py.File(f"b{i}.h5", "w") as file:
            file["logits"], file["labels"] = z, y
    return [f"b{i}.h5" for i in range(4)]


def test_evaluate_prints_less_where_nobody_asked_for_more(run, four):
    one = run("evaluate", four[0], "-c", fitted_to(run, four[0])).out
    assert len(one.splitlines()) <= 15
    assert "evidence: " not in one
    full = run("evaluate", four[0], "--full").out
    assert "evidence: b0.h5, uncalibrated" in full
    assert "entropy_gap" in full
    quiet = run("evaluate", four[0], "-q").out
    assert quiet == f"{full.splitlines()[0]}\n"
    assert quiet.startswith("b0.h5: overconfident: ")
    assert run("evaluate", four[0], "-q", "-m", "ece").out == ""


def test_more_than_three_bundles_are_a_line_each(run, four, monkeypatch):
    few = run("evaluate", *four[:3]).out
    assert few.count(": overconfident: ") == few.count("300 samples ") == 3
    text = run("evaluate", *four).out
    table, step = text.split("\n\n")
    head, *lines, legend = table.splitlines()
    assert head.split()[:2] == ["bundle", "verdict"]
    assert [line.split()[:2] for line in lines] == [
        [name, "overconfident"] for name in four
    ]
    assert "--full" in legend
    assert step == "next: calcli run b0.h5\n"
    assert run("evaluate", *four, "--full").out.count(": overconfident: ") == 4
    monkeypatch.setenv("COLUMNS", "60")
    head, *narrow = run("evaluate", *four).out.split("\n\n")[0].splitlines()
    assert max(map(len, [head, *narrow])) <= 60
    assert [line.split()[:2] for line in narrow[:-1]] == [
        line.split()[:2] for line in lines
    ]


def fitted_to(run, bundle):
    """The calibrator of a bundle."""
    assert run("fit", bundle, "-m", "ts", "-q", "--force").code == 0
    return bundle.replace(".h5", ".ts.json")


PIPED = {
    "npz": b"",
    "csv": b"logit,label\n1.5,1\n-0.5,0\n0.25,1\n",
    "json": b"""[{"logits": [1, 2], "label": 1}]""",
}


@pytest.mark.parametrize("kind", PIPED)
def test_readers_take_scores_from_standard_input(kind, tmp_path):
    """Whatever extract reads from a pipe, evaluate, fit and apply read too."""
    text = PIPED[kind] or buffer_of(logits=truth(50, 3)[0], labels=truth(50, 3)[1])
    commands = (
        ["evaluate", "-", "-m", "nll"],
        ["fit", "-m", "ts", "-"],
        ["apply", "stdin.ts.json", "-", "-o", "out.csv"],
    )
    for command in commands:
        words = [
            sys.executable,
            "-m",
            "calcli",
            *command,
            *(["--kind", "logits"] * (kind == "csv")),
        ]
        done = subprocess.run(
            words, input=text, cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "stdin.ts.json").exists() and (tmp_path / "out.csv").exists()


def test_a_command_that_reads_its_rows_more_than_once_takes_them_from_standard_input_too(
    tmp_path,
):
    z, y = truth(200, 3)
    words = [
        sys.executable,
        "-m",
        "calcli",
        "compare",
        "-",
        "--methods",
        "ts,vs",
        "--json",
        "-q",
    ]
    done = subprocess.run(
        words,
        input=buffer_of(logits=z, labels=y),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {entry["method"] for entry in json.loads(done.stdout)["results"]} >= {
        "ts",
        "vs",
    }


def buffer_of(**arrays):
    """The bytes of an npz."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_an_export_knows_its_target_by_its_ending(run, four):
    calibrator = fitted_to(run, four[0])
    assert run("export", calibrator, "-o", "c.py", "-q").code == 0
    assert (
        json.loads(run("export", calibrator, "-o", "d.py", "--json").out)["to"]
        == "python"
    )
    refused = run("export", calibrator, "-o", "c.bin")
    assert refused.code == 2 and ".onnx, .pt2, .py" in refused.line


@pytest.mark.parametrize("words", ["", " ", ",", [], [""]])
def test_no_method_to_compare_is_refused(run, tmp_path, monkeypatch, words):
    """Python, and a list of commas, compared the uncalibrated scores with nothing."""
    monkeypatch.chdir(tmp_path)
    z, y = truth(200, 3)
    with pytest.raises(UsageError, match="no method is named"):
        calcli.compare(z, y, methods=words)
    np.savez("a.npz", logits=z, labels=y)
    if isinstance(words, str):
        assert run("compare", "a.npz", "-m", words).code == 2


def test_a_limit_that_groups_do_not_have_says_so(run, tmp_path, monkeypatch):
    """It was held against all rows alone, without a word."""
    monkeypatch.chdir(tmp_path)
    z, y = truth(200, 3)
    np.savez("a.npz", logits=z, labels=y, group=np.arange(200) % 2)
    errors = run(
        "evaluate", "a.npz", "--per-group", "--max", "cwece=.9", "--max", "ece=.9"
    ).err
    assert (
        "--max cwece=0.9: held against all rows together only" in errors
        and "ece=0.9, " not in errors
    )
    assert (
        "all rows together only"
        not in run("evaluate", "a.npz", "--per-group", "--max", "ece=.9").err
    )
    assert (
        "all rows together only"
        not in run("evaluate", "a.npz", "--max", "cwece=.9").err
    )


def test_only_one_file_prints():
    """All that commands print goes through ``render``, which makes names harmless."""
    for path in sorted((Path(calcli.__file__).parent / "cli").rglob("*.py")):
        if path.name in ("render.py", "app.py"):  # the version needs no more than print
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            prints = isinstance(called, ast.Name) and called.id == "print"
            assert not prints, f"{path.name}, line {node.lineno}: print_line of render"


def test_watch_spells_out_the_name_of_a_batch(run):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 2000)
    name = "b\x1b[31ma\u202ed.npz"
    np.savez(name, logits=40.0 * rng.normal(size=(2000, 3)), labels=y)
    done = run("watch", name, "--state", "s.json")
    assert (
        done.code == 5
        and "estimated to start at b\\x1b[31ma\\u202ed.npz"
        in " ".join(done.out.split())
    )
    assert "\x1b" not in done.out and "\u202e" not in done.out
