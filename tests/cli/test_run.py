"""calcli run: what the three commands do, in one; and fit without a method."""

import json
import shlex
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from synthetic import truth

import calcli
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
    assert run("fit", "--method", "ts", "val.npz", "-o", "ts.json", "-q").code == 0
    assert Path("all/val.ts.json").read_bytes() == Path("ts.json").read_bytes()
    table = run("evaluate", "test.npz", "-c", "all/val.ts.json").out
    assert table in done.out
    assert (
        done.out.splitlines()[0] == "all/val.ts.json"
        and done.out.splitlines()[-1] == "all/test.report.html"
    )
    page = Path("all/test.report.html").read_text("utf-8")
    assert 'id="verdict"' in page


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
    found = json.loads(done.out)
    assert done.code == 0 and done.err == ""
    assert (
        found["calibrator"] == "val.svs.json"
        and json.loads(Path("val.svs.json").read_text())["options"]["lambda"] == 2
    )
    alone = json.loads(
        run("evaluate", "test.npz", "-c", "val.svs.json", "--json", "-q").out
    )
    assert found["evaluation"] == alone
    assert Path(found["report"]).exists()


def test_one_file_with_both_groups_may_stand_alone(run):
    shutil.copy(REPOSITORY / "sample_data" / "digits.h5", ".")
    assert run("run", "digits.h5", "-q").code == 0
    assert Path("digits.ts.json").exists() and Path("digits.report.html").exists()


def test_arrays_that_can_only_be_logits_are_read(run):
    """It said that they cannot be probabilities, and had them named."""
    arrays = dict(np.load("val.npz")) | {
        f"test_{name}": array for name, array in np.load("test.npz").items()
    }
    np.savez("both.npz", out_val=arrays["logits"], target_val=arrays["labels"], out_test=arrays["test_logits"],
             target_test=arrays["test_labels"])  # fmt: skip
    done = run("run", "both.npz")
    assert done.code == 0 and "(logits: rows are no probabilities)" in done.err
    assert Path("both.report.html").exists()
    # numbers of which the largest is the label no more often than by chance
    np.savez("logs.npz", out=-np.abs(arrays["logits"]), target=arrays["labels"])
    refused = run("run", "logs.npz")
    assert refused.code == 2 and "say what 'out' holds with --kind" in refused.line


def test_rows_of_one_kind_alone_are_refused_with_commands_that_work(run):
    """What was fitted and evaluated on the same rows looked like a verdict."""
    z, y = truth(400, 2, seed=3)
    lines = [
        f"{1 / (1 + np.exp(a - b)):.6f},{['no', 'yes'][label]}"
        for (a, b), label in zip(z, y, strict=True)
    ]
    Path("rows.csv").write_text("chance,came\n" + "\n".join(lines) + "\n")
    done = run(
        "run", "rows.csv", "--scores", "chance", "--labels", "came", "--kind", "probs"
    )
    assert done.code == 2 and not list(Path().glob("rows.*.*"))
    assert done.line.endswith("&& calcli run rows.halves.h5 -m platt")
    done = run(
        "run",
        "rows.csv",
        "--scores",
        "chance",
        "--labels",
        "came",
        "--kind",
        "probs",
        "-m",
        "beta",
        "-o",
        "all",
    )
    for command in done.line.partition("to try: ")[2].split(" && "):
        done = run(*shlex.split(command)[1:])
        assert done.code == 0, done.err
    assert (
        Path("all/rows.halves.beta.json").exists()
        and Path("all/rows.halves.beta.report.html").exists()
    )


@pytest.mark.parametrize("blank", [False, True])
def test_a_proposed_split_keeps_visits_of_one_patient_together(run, blank):
    """The commands forgot --unit where scores and labels were named: the visits of one patient lay in both halves."""
    z, y = truth(400, 2, seed=3)
    chance = [f"{1 / (1 + np.exp(a - b)):.6f}" for a, b in z]
    if blank:
        chance[7] = ""
    lines = [f"P{i // 4},{chance[i]},{['no', 'yes'][y[i]]}" for i in range(400)]
    Path("visits.csv").write_text("patient,chance,came\n" + "\n".join(lines) + "\n")
    named = ["--scores", "chance", "--labels", "came", "--kind", "probs"]
    done = run("run", "visits.csv", *named)
    assert "--unit patient" in done.line
    for command in done.line.partition("to try: ")[2].split(" && "):
        assert run(*shlex.split(command)[1:]).code == 0, command
    (bundles,) = Path().glob("*.h5")
    with h5py.File(bundles) as file:
        patients = [set(file[part]["unit"].asstr()[:]) for part in ("cal", "test")]
    assert not patients[0] & patients[1] and len(patients[0] | patients[1]) == 100
    declined = run("run", "visits.csv", *named, "--unit", "none")
    assert "--unit patient" not in declined.line


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
        "unknown names": ({"aa": good["logits"], "bb": good["labels"]}, 2),
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
        "val.ts.json",
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
        "fit": "calcli.cli.commands.fit.fit_artifact",
        "evaluation": "calcli.cli.commands.evaluate.assess",
        "page": "calcli.cli.commands.report.page",
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
    """Two files are there together or not at all, also where the second takes its name and the first cannot."""
    first, second = tmp_path / "first.json", tmp_path / "second.html"

    class Taken(str):
        """Text of the second file; another program takes the first name while it is written."""

        def encode(self):
            first.write_text("of another program")
            return b"page"

    with pytest.raises(UsageError, match="appeared while"):
        write_together({first: "calibrator", second: Taken()})
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
    before = Path("val.ts.json").read_bytes()
    Path("test.report.html").unlink()
    assert run("run", "val.npz", "test.npz", "-q").code == 2
    assert (
        Path("val.ts.json").read_bytes() == before
        and not Path("test.report.html").exists()
    )
    assert run("run", "val.npz", "test.npz", "--force", "-q").code == 0


def test_a_second_method_writes_beside_the_first(run):
    """Both wrote test.report.html, and the second was refused after its fit had been asked for."""
    assert run("run", "val.npz", "test.npz", "-q").code == 0
    before = Path("test.report.html").read_bytes()
    for method in ("svs", "ts+hb"):
        done = run("run", "val.npz", "test.npz", "-m", method, "-q")
        assert (
            done.code == 0 and done.out.splitlines()[-1] == f"test.{method}.report.html"
        )
        assert f"val.{method}.json" in Path(f"test.{method}.report.html").read_text(
            "utf-8"
        )
    assert Path("test.report.html").read_bytes() == before


def test_fit_without_a_method_fits_ts_and_says_so(run):
    done = run("fit", "val.npz")
    assert done.code == 0 and done.out == "val.ts.json\n"
    assert "method ts" in done.err
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
def test_two_classes_get_ts_and_are_told_of_platt(run, kind):
    """The default is one for any number of classes; a temperature cannot correct a bias (benchmarks/two_classes.py)."""
    z, y = truth(400, 2, seed=4)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    scores = z if kind == "logits" else np.log(p) if kind == "log_probs" else p
    np.savez("two.npz", **{kind: scores}, labels=y)
    done = run("fit", "two.npz")
    assert (done.code, done.out) == (
        0,
        "two.ts.json\n",
    ) and "of two classes platt corrects a bias too" in done.err
    assert calcli.fit(scores, y, kind=kind).method == "ts"


def test_two_classes_in_groups_have_the_method_by_group(run):
    z, y = truth(400, 2, seed=4)
    np.savez("two.npz", logits=z, labels=y, site=np.arange(400) % 3)
    assert run("fit", "two.npz", "--by", "site").out == "two.ts-by.json\n"
    assert calcli.fit(z, y, groups=np.arange(400) % 3).method == "ts-by"
    assert calcli.load("two.ts-by.json").options["by"] == "site"


@pytest.mark.parametrize(("ends", "method"), [(False, "platt"), (True, "venn-abers")])
def test_confidences_have_a_default_of_their_own(run, answers, ends, method):
    """Temperature scaling needs the scores of every class, and log-odds of 1 are infinite."""
    answers("cal.csv", ends)
    answers("held.csv", ends)
    done = run("run", "cal.csv", "held.csv")
    assert (done.code, Path(f"cal.{method}.json").exists()) == (0, True)
    assert (
        done.out.splitlines()[0] == f"cal.{method}.json"
        and f"method {method}, " in done.err
    )
    assert ", the default for confidences (--method chooses another" in done.err
    assert run("fit", "cal.csv", "-o", "other.json", "-q").code == 0
    assert Path("other.json").read_bytes() == Path(f"cal.{method}.json").read_bytes()
    table = np.genfromtxt("cal.csv", delimiter=",", skip_header=1)
    fitted = calcli.fit(table[:, 0], table[:, 1].astype(int), kind="confidence")
    assert (fitted.method, fitted.params) == (method, calcli.load("other.json").params)
    assert (
        run("fit", "cal.csv", "--method", "ts", "--force").code == 4
    )  # asked for by name it is refused


def test_groups_of_which_the_verdict_speaks_have_a_table(run):
    """They had none without --group-by, whatever the verdict said of them; too many would fill the screen."""
    z, y = truth(300, 4, seed=2)
    for groups in (2, 60):
        np.savez("groups.npz", logits=z, labels=y, group=np.arange(300) % groups)
        done = run("run", "val.npz", "groups.npz", "--force")
        assert done.code == 0 and done.out.count(", by group (p: ") == 2 * (groups == 2)
    assert run("run", "val.npz", "groups.npz", "--force", "--json").code == 0
