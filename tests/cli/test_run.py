"""calcli run: what the three commands do, in one; and fit without a method."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import REPOSITORY
from synthetic import truth

import calcli
from calcli.cli.print_fit import warn_of_fit
from calcli.cli.render import Console
from calcli.errors import FitError, UsageError
from calcli.io.atomic import write_together


@pytest.fixture
def run(run):
    for name, seed in (("val", 1), ("test", 2)):
        z, y = truth(300, 4, seed=seed)
        np.savez(f"{name}.npz", logits=z.astype(np.float32), labels=y)
    return run


def test_it_equals_the_three_commands(run):
    done = run("run", "val.npz", "test.npz", "-o", "all")
    assert done.code == 0
    assert run("fit", "--method", "auto", "val.npz", "-o", "auto.json", "-q").code == 0
    assert Path("all/val.auto.json").read_bytes() == Path("auto.json").read_bytes()
    evaluation = run("evaluate", "test.npz", "-c", "all/val.auto.json").out
    files = "calibrator: all/val.auto.json\npage: all/test.report.html\n"
    assert done.out == evaluation + files
    page = Path("all/test.report.html").read_text("utf-8")
    assert 'id="verdict"' in page


def test_warnings_of_the_fit_are_printed_as_fit_prints_them(run):
    """A class that the scores expect, rows that are all right, and three at once: of
    eight classes one has no sample, and there are more parameters than samples.
    """
    z, y = truth(600, 4, seed=1)
    np.savez("lacking.npz", logits=z[y != 3], labels=y[y != 3])
    np.savez("right.npz", logits=z, labels=z.argmax(axis=1))
    few, classes = truth(60, 8, seed=0)
    np.savez("few.npz", logits=few, labels=np.minimum(classes, 6))
    for name, method, n_warnings, words in (
        ("lacking", "ts", None, "1 of 4 classes has no row in the calibration data: 3"),
        ("right", "ts", None, "T ran into its lower bound 0.01"),
        ("few", "ms-odir", 3, "1 of 8 classes has no row in the calibration data: 7"),
    ):
        command = ["run", f"{name}.npz", "-m", method, "-o", name]
        fitted = run("fit", "-m", method, f"{name}.npz")
        done = run(*command)
        warnings = [line for line in fitted.err.splitlines() if "warning: " in line]
        printed = [line for line in done.err.splitlines() if "warning: " in line]
        assert done.code == 0 and any(words in line for line in warnings), warnings
        assert printed == warnings
        assert n_warnings in (None, len(warnings)), warnings
        assert run(*command, "-q", "--force").err == ""


def test_json_names_the_files_and_holds_the_evaluation(run):
    done = run(
        "run",
        "val.npz",
        "test.npz",
        "--method",
        "svs",
        "--set",
        "lambda=2",
        "--json",
        "-q",
    )
    output = json.loads(done.out)
    assert done.code == 0 and done.err == ""
    assert (
        output["calibrator"] == "val.svs.json"
        and json.loads(Path("val.svs.json").read_text())["options"]["lambda"] == 2
    )
    alone = json.loads(
        run("evaluate", "test.npz", "-c", "val.svs.json", "--json", "-q").out
    )
    # a page shows some metrics that evaluate leaves to --metric
    for result, expected in zip(
        output["evaluation"]["results"], alone["results"], strict=True
    ):
        metrics = result["metrics"]
        result["metrics"] = {name: metrics[name] for name in expected["metrics"]}
    assert output["evaluation"] == alone
    assert Path(output["report"]).exists()


def test_one_file_with_both_groups_may_stand_alone(run):
    shutil.copy(REPOSITORY / "sample_data" / "digits.h5", ".")
    assert run("run", "digits.h5", "-q").code == 0
    assert Path("digits.auto.json").exists() and Path("digits.report.html").exists()


def test_arrays_that_can_only_be_logits_are_read(run):
    """It said that they cannot be probabilities, and had them named."""
    arrays = dict(np.load("val.npz")) | {
        f"test_{name}": array for name, array in np.load("test.npz").items()
    }
    np.savez("both.npz", out_val=arrays["logits"], target_val=arrays["labels"], out_test=arrays["test_logits"],
             target_test=arrays["test_labels"])  # fmt: skip
    done = run("run", "both.npz")
    assert done.code == 0 and "'out_val' as logits" in done.err
    assert Path("both.report.html").exists()
    # numbers of which the largest is the label no more often than by chance
    np.savez("logs.npz", out=-np.abs(arrays["logits"]), target=arrays["labels"])
    refused = run("run", "logs.npz")
    assert refused.code == 2 and "say what 'out' holds with --kind" in refused.line


def test_one_labelled_set_is_judged_by_cross_fitting(run):
    """The calibrator is that of fit, of all rows; its figures are of fits that did not see the rows."""
    z, y = truth(400, 2, seed=3)
    lines = [
        f"{1 / (1 + np.exp(a - b)):.6f},{['no', 'yes'][label]}"
        for (a, b), label in zip(z, y, strict=True)
    ]
    Path("rows.csv").write_text("chance,came\n" + "\n".join(lines) + "\n")
    named = ["--scores", "chance", "--labels", "came", "--kind", "probs", "-m", "beta"]
    done = run("run", "rows.csv", *named, "-o", "all")
    assert done.code == 0, done.err
    assert "beta: cross-fitted, 5 folds." in done.out
    assert sorted(path.name for path in Path("all").iterdir()) == [
        "rows.beta.json",
        "rows.beta.report.html",
    ]
    assert run("fit", "rows.csv", *named, "-o", "beta.json", "-q").code == 0
    assert Path("all/rows.beta.json").read_bytes() == Path("beta.json").read_bytes()
    again = run("run", "rows.csv", *named, "-o", "more", "--json", "-q")
    before, after = json.loads(again.out)["evaluation"]["results"]
    assert "cross_fitted_folds" not in before and after["cross_fitted_folds"] == 5
    evaluation = run(
        "evaluate", "rows.csv", "-c", "beta.json", *named[:-2], "--json", "-q"
    )
    in_sample = json.loads(evaluation.out)["results"][1]
    assert after["metrics"]["nll"]["value"] > in_sample["metrics"]["nll"]["value"]


def test_one_error_is_not_blamed_on_the_temperature(run):
    """Four of five fits have seen it, and the fifth claims certainty: "overconfident: 99.7% sure, 99.7% right"."""
    z = np.zeros((300, 3))
    y = np.arange(300) % 3
    z[np.arange(300), y] = np.linspace(0.5, 9.0, 300)
    y[10] = (y[10] + 1) % 3
    np.savez("one.npz", logits=z, labels=y)
    done = run("run", "one.npz", "-m", "ts")
    assert done.code == 0, done.err
    words = "ts: too few errors to cross-fit: 1 in 300 samples; "
    assert done.out.startswith(f"one.npz, {words}")


@pytest.mark.parametrize("fault", ["one row", "NaN", "weights of 0", "fit"])
def test_one_bad_set_leaves_nothing(run, fault, monkeypatch):
    z, y = truth(300, 4, seed=2)
    if fault == "NaN":
        z[200, 1] = np.nan
    n = 1 if fault == "one row" else 300
    arrays = {"logits": z[:n], "labels": y[:n]}
    if fault == "weights of 0":
        arrays["weights"] = np.zeros(300)
    np.savez("bad.npz", **arrays)
    before = sorted(Path().iterdir())

    def fail(*_):
        raise FitError("a fault made by this test")

    with monkeypatch.context() as patched:
        if fault == "fit":
            patched.setattr("calcli.evaluation.cross_fitting.fitted_part", fail)
        done = run("run", "bad.npz", "-o", "new/folder", "-q")
    assert done.code == (4 if fault == "fit" else 3), done.err
    assert "bad.npz" in done.line and done.out == ""
    assert sorted(Path().iterdir()) == before
    if "calcli fit" in done.line:
        file = done.line.partition("calcli fit ")[2].split()[0]
        assert run("fit", file, "-q").code == 0


def test_options_about_predictions_reach_the_fit_and_its_judgement(run):
    z, y = truth(400, 4, seed=5)
    z[:, 1] += 2.0
    np.savez("off.npz", logits=z, labels=y)
    free = run("run", "off.npz", "-m", "svs", "-o", "free", "--json", "-q")
    kept = run(
        "run",
        "off.npz",
        "-m",
        "svs",
        "--keep-predictions",
        "-o",
        "kept",
        "--json",
        "-q",
    )
    assert Path("kept/off.svs.json").exists()
    accuracies = []
    for done in (free, kept):
        results = json.loads(done.out)["evaluation"]["results"]
        accuracies.append([r["metrics"]["accuracy"]["value"] for r in results])
    (before, moved), (same, unmoved) = accuracies
    assert before == same == unmoved != moved
    assert calcli.load("kept/off.svs.json").method == "svs+keep"


@pytest.mark.parametrize("blank", [False, True])
def test_visits_of_one_patient_share_a_fold(run, blank):
    """Visits of one patient lay in both halves of a proposed split, unless --unit was typed."""
    z, y = truth(400, 2, seed=3)
    chance = [f"{1 / (1 + np.exp(a - b)):.6f}" for a, b in z]
    if blank:
        chance[7] = ""
    lines = [f"P{i // 4},{chance[i]},{['no', 'yes'][y[i]]}" for i in range(400)]
    Path("visits.csv").write_text("patient,chance,came\n" + "\n".join(lines) + "\n")
    named = ["--scores", "chance", "--labels", "came", "--kind", "probs"]
    done = run("run", "visits.csv", *named)
    if blank:  # two commands: one that leaves the blank row out, then this one
        assert done.code == 3 and "--unit patient" in done.line
        for command in done.line.partition("to try: ")[2].split(" && "):
            assert run(*shlex.split(command)[1:]).code == 0, command
        return
    assert done.code == 0 and "pass --unit patient" in done.err
    done = run(
        "run", "visits.csv", *named, "--unit", "patient", "--force", "--json", "-q"
    )
    units = json.loads(done.out)["evaluation"]["results"][1]["units"]
    assert (done.code, units["name"], units["n"]) == (0, "patient", 100)


def test_a_calibration_part_that_is_named_is_judged_on_the_part_test(run):
    shutil.copy(REPOSITORY / "sample_data" / "digits.h5", ".")
    assert "digits.h5:test" in run("run", "digits.h5:cal", "-q").out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("val.npz", "test.npz", "--method", "nope"), 2),
        (("val.npz", "test.npz", "--set", "nope=1"), 2),
        (("none.npz", "test.npz"), 3),
    ],
)
def test_what_is_refused_writes_nothing(run, words, code):
    done = run("run", *words, "-o", "all", "-q")
    assert done.code == code and done.err.count("\n") == 1
    assert not Path("all").exists() or not list(Path("all").iterdir())


def bad_tests():
    """Test sets by what is wrong with them: (arrays, exit code)."""
    good = dict(np.load("test.npz"))
    missing = good["logits"].copy()
    missing[200, 1] = np.nan
    return {
        "no file": (None, 3),
        "unknown names": (
            {"aa": good["logits"], "bb": good["labels"], "cc": 2 * good["logits"]},
            3,
        ),
        "fewer classes": (
            {"logits": good["logits"][:, :3], "labels": good["labels"] % 3},
            3,
        ),
        "confidences": (
            {"confidence": np.full(300, 0.5), "correct": good["labels"] > 1},
            3,
        ),
        "NaN in row 200": ({"logits": missing, "labels": good["labels"]}, 3),
        "no labels": ({"logits": good["logits"]}, 3),
        "weights of 0": ({**good, "weights": np.zeros(300)}, 3),
    }


@pytest.mark.parametrize(
    "fault",
    [
        "no file",
        "unknown names",
        "fewer classes",
        "confidences",
        "NaN in row 200",
        "no labels",
        "weights of 0",
    ],
)
def test_a_bad_test_set_is_found_before_the_fit_and_leaves_nothing(
    run, fault, monkeypatch
):
    """It left a calibrator and a folder, and refused the right command for them."""
    arrays, code = bad_tests()[fault]
    if arrays is not None:
        np.savez("bad.npz", **arrays)
    before = sorted(Path().iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(
            "calcli.cli.commands.fit.fit_artifact",
            lambda *_: pytest.fail("it was fitted"),
        )
        done = run("run", "val.npz", "bad.npz", "-o", "new/folder", "-q")
    assert done.code == code, done.err
    assert "bad.npz" in done.line
    assert sorted(Path().iterdir()) == before
    assert run("run", "val.npz", "test.npz", "-o", "new/folder", "-q").code == 0
    assert sorted(path.name for path in Path("new/folder").iterdir()) == [
        "test.report.html",
        "val.auto.json",
    ]


@pytest.mark.parametrize("fault", ["fit", "evaluation", "page", "writing"])
def test_what_fails_later_leaves_nothing(run, fault, monkeypatch):
    """An error in any step: no calibrator, no page, no folder; with --force both files stay as they were."""
    assert run("run", "val.npz", "test.npz", "-o", "old", "-q").code == 0
    old = {path: path.read_bytes() for path in Path("old").iterdir()}
    before = sorted(Path().iterdir())

    def fail(*_, **__):
        raise FitError("a fault made by this test")

    places = {
        "fit": "calcli.cli.commands.fit.fit_with_cross_fits",
        "evaluation": "calcli.reporting.gather.assess",
        "page": "calcli.cli.commands.run.report_page",
        "writing": "calcli.io.atomic.NewFile.read_back",
    }
    with monkeypatch.context() as patched:
        patched.setattr(places[fault], fail)
        for folder, words in (("new/folder", ()), ("old", ("--force",))):
            done = run("run", "val.npz", "test.npz", "-o", folder, "-q", *words)
            assert done.code == 4, done.err
            assert "a fault made by this test" in done.line and done.out == ""
    assert sorted(Path().iterdir()) == before
    assert {path: path.read_bytes() for path in Path("old").iterdir()} == old


def test_a_page_that_cannot_be_written_takes_the_calibrator_with_it(tmp_path):
    """Two files are there together or not at all, also where one cannot take its name."""
    first, second = tmp_path / "first.json", tmp_path / "second.html"

    class Taken(str):
        """Text of the first file; another program takes its name while it is written."""

        def encode(self):
            first.write_text("of another program")
            return b"calibrator"

    with pytest.raises(UsageError, match="appeared while"):
        write_together({first: Taken(), second: "page"})
    assert [path.name for path in tmp_path.iterdir()] == ["first.json"]
    assert first.read_text() == "of another program"


@pytest.mark.parametrize("folder", ["val.npz/folder", "val.npz"])
def test_a_folder_that_cannot_be_made_is_refused_before_the_fit(
    run, folder, monkeypatch
):
    monkeypatch.setattr(
        "calcli.cli.commands.fit.fit_artifact", lambda *_: pytest.fail("it was fitted")
    )
    done = run("run", "val.npz", "test.npz", "-o", folder, "-q")
    assert done.code == 2 and "folder cannot be made" in done.line


def test_no_output_is_replaced_without_force(run):
    assert run("run", "val.npz", "test.npz", "-q").code == 0
    before = Path("val.auto.json").read_bytes()
    Path("test.report.html").unlink()
    assert run("run", "val.npz", "test.npz", "-q").code == 2
    assert (
        Path("val.auto.json").read_bytes() == before
        and not Path("test.report.html").exists()
    )
    assert run("run", "val.npz", "test.npz", "--force", "-q").code == 0


def test_a_second_method_writes_beside_the_first(run):
    """Both wrote test.report.html, and the second was refused after its fit had been asked for."""
    assert run("run", "val.npz", "test.npz", "-q").code == 0
    before = Path("test.report.html").read_bytes()
    for method in ("svs", "ts+hb"):
        done = run("run", "val.npz", "test.npz", "-m", method, "-q")
        assert done.code == 0
        assert f"val.{method}.json" in Path(f"test.{method}.report.html").read_text(
            "utf-8"
        )
    assert Path("test.report.html").read_bytes() == before


def test_fit_without_a_method_fits_auto_and_says_so(run):
    done = run("fit", "val.npz")
    assert done.code == 0 and done.out == "val.auto.json\n"
    assert "method auto" in done.err and "predictions kept" in done.err
    assert "method ts" not in run("fit", "val.npz", "--method", "ts", "--force").err


@pytest.fixture
def answers(tmp_path):
    """Confidences and whether each answer was right, half as often as said above one half; some say 1."""

    def write(name, ends):
        rng = np.random.default_rng(len(name))
        c = rng.uniform(0.5, 0.99, 400).round(3)
        c[: 40 * ends] = 1.0
        lines = [
            f"{said},{int(hit)}"
            for said, hit in zip(c, rng.random(400) < 0.25 + c / 2, strict=True)
        ]
        (tmp_path / name).write_text("\n".join(["confidence,correct", *lines]) + "\n")

    return write


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_two_classes_get_auto_too(run, kind):
    """The default is one for any number of classes; it says how many predictions change."""
    z, y = truth(400, 2, seed=4)
    z = z + np.array([0.0, 1.0])
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    scores = z if kind == "logits" else np.log(p) if kind == "log_probs" else p
    np.savez("two.npz", **{kind: scores}, labels=y)
    done = run("fit", "two.npz")
    assert (done.code, done.out) == (0, "two.auto.json\n")
    assert "predictions change, accuracy +" in done.err
    assert " points (held out)" in done.err
    fitted = calcli.fit(scores, y, kind=kind)
    assert fitted.method == "auto"
    assert fitted.params == calcli.load("two.auto.json").params


def test_two_classes_in_groups_have_the_method_by_group(run):
    z, y = truth(400, 2, seed=4)
    np.savez("two.npz", logits=z, labels=y, site=np.arange(400) % 3)
    assert run("fit", "two.npz", "--by", "site").out == "two.ts-by.json\n"
    assert calcli.fit(z, y, groups=np.arange(400) % 3).method == "ts-by"
    assert calcli.load("two.ts-by.json").options["by"] == "site"


@pytest.mark.parametrize("ends", [False, True])
def test_confidences_get_auto_too(run, answers, ends):
    """Also where some are exactly 1, whose log-odds are infinite."""
    answers("cal.csv", ends)
    answers("held.csv", ends)
    done = run("run", "cal.csv", "held.csv")
    assert (done.code, Path("cal.auto.json").exists()) == (0, True)
    assert run("fit", "cal.csv", "-o", "other.json", "-q").code == 0
    assert Path("other.json").read_bytes() == Path("cal.auto.json").read_bytes()
    table = np.genfromtxt("cal.csv", delimiter=",", skip_header=1)
    fitted = calcli.fit(table[:, 0], table[:, 1].astype(int), kind="confidence")
    assert fitted.method == "auto"
    assert fitted.params == calcli.load("other.json").params
    # asked for by name it is refused
    assert run("fit", "cal.csv", "--method", "ts", "--force").code == 4


def test_groups_of_which_the_verdict_speaks_have_a_table(run):
    """They had none without --group-by, whatever the verdict said of them; too many would fill the screen."""
    z, y = truth(300, 4, seed=2)
    for groups in (2, 60):
        np.savez("groups.npz", logits=z, labels=y, group=np.arange(300) % groups)
        done = run("run", "val.npz", "groups.npz", "--force")
        assert done.code == 0 and done.out.count("by group (p adjusted") == (
            groups == 2
        )
    assert run("run", "val.npz", "groups.npz", "--force", "--json").code == 0


@pytest.mark.parametrize(
    "inputs",
    [
        ("split.h5",),
        ("split.h5:cal",),
        ("split.h5:cal", "split.h5:test"),
        ("val.npz",),
        ("val.npz", "test.npz"),
        ("log.jsonl",),
        ("log.jsonl:team",),
    ],
    ids=" ".join,
)
def test_run_with_force_replaces_what_it_wrote(run, inputs):
    """The calibrator that lay there was read for one of the same name, and then an input."""
    shutil.copy(REPOSITORY / "sample_data" / "decisions.jsonl", "log.jsonl")
    splits = ("--split", "cal=0.5", "--split", "test=0.5")
    assert run("extract", "val.npz", *splits, "-o", "split.h5").code == 0
    written = []
    for temperature in (1.0, 3.0, 1.0):
        z, y = truth(300, 4, temperature=temperature, seed=1)
        np.savez("val.npz", logits=z.astype(np.float32), labels=y)
        made = run("extract", "val.npz", *splits, "-o", "split.h5", "--force")
        assert made.code == 0
        done = run("run", *inputs, "-o", "out", "--force", "--json")
        assert done.code == 0, done.err
        facts = json.loads(done.out)
        written.append(Path(facts["calibrator"]).read_bytes())
    assert written[0] == written[2]
    assert (written[0] != written[1]) == (not inputs[0].startswith("log"))


def test_of_many_warnings_the_first_are_printed(capsys):
    console = Console()
    warn_of_fit(["a", "b", "c", "d"], console, most=3)
    printed = capsys.readouterr().err.splitlines()
    assert printed == [
        "warning: a",
        "warning: b",
        "warning: c",
        "1 more warning of the fit with --full",
    ]
