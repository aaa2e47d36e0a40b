"""The public Python API: arrays, tensors and bundles through the same core as the command line."""

import doctest
import json
import re
import subprocess
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from run_calcli import runner
from synthetic import truth

import calcli
from calcli.errors import CalcliError, DataError, FitError, UsageError
from calcli.sklearn import ScoreCalibrator


@pytest.fixture
def bundle(tmp_path):
    z, y = truth(400, 5)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["logits"], file["labels"] = z.astype(np.float32), y
    return tmp_path / "b.h5", z.astype(np.float32), y


def test_everything_public_has_a_docstring_and_nothing_else_is_there():
    for name in set(calcli.__all__) - {"__version__"}:
        assert getattr(calcli, name).__doc__
    with pytest.raises(AttributeError, match="public names"):
        calcli.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "module",
    [
        "calcli",
        "calcli.api.calibrators",
        "calcli.api.comparisons",
        "calcli.api.deployment",
        "calcli.api.evaluations",
        "calcli.api.imports",
        "calcli.api.pictures",
        "calcli.sklearn",
    ],
)
def test_the_examples_of_the_docstrings_run(module):
    __import__(module)
    outcome = doctest.testmod(sys.modules[module])
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_importing_calcli_loads_no_package(tmp_path):
    code = "import sys, calcli; print(sorted({m.split('.')[0] for m in sys.modules} & {'numpy', 'h5py', 'typer'}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("method", ["ts", "svs", "ts+hb"])
def test_python_and_the_command_line_give_the_same_calibrator(run, bundle, method):
    path, z, y = bundle
    assert run("fit", "-m", method, "b.h5", "-o", "cli.json").code == 0
    typed = json.loads((path.parent / "cli.json").read_text())
    for scores, labels in ((z, y), (str(path), None), (path, None)):
        ours = calcli.fit(scores, labels, method=method).to_dict()
        ours["fit"]["source"] = typed["fit"]["source"]  # arrays have no file to name
        assert ours == typed


def test_probabilities_are_those_of_apply(run, bundle):
    path, z, _ = bundle
    calcli.fit(path, method="ec").save("ec.json")
    assert run("apply", "ec.json", "b.h5", "-o", "out.h5").code == 0
    loaded = calcli.load("ec.json")
    with h5py.File("out.h5") as file:
        np.testing.assert_allclose(
            loaded.predict_proba(z), file["probs"][()], atol=1e-7
        )  # stored as float32
        np.testing.assert_array_equal(loaded.predict(z), file["prediction"][()])
    np.testing.assert_array_equal(loaded.predict_proba(path), loaded.predict_proba(z))


def test_lists_integers_tensors_and_one_column_are_taken():
    torch = pytest.importorskip("torch")
    z, y = truth(200, 3)
    plain = calcli.fit(z, y)
    assert calcli.fit(z.tolist(), y.tolist()).params == plain.params
    assert (
        calcli.fit(torch.tensor(z, requires_grad=True), torch.tensor(y)).params
        == plain.params
    )
    half = torch.tensor(z).bfloat16()
    assert calcli.fit(half, y).params == calcli.fit(half.float().numpy(), y).params
    whole = np.round(4 * z).astype(int)  # some below 0, so that they are logits
    assert calcli.fit(whole, y).params == calcli.fit(whole.astype(float), y).params
    binary = calcli.fit(z[:, 0] - z[:, 1], (y == 0).astype(int))
    assert binary.predict_proba(z[:3, 0] - z[:3, 1]).shape == (3, 2)


def test_options_are_those_of_the_method():
    z, y = truth(200, 3)
    assert (
        calcli.fit(z, y, method="ts+hb", **{"hb.bins": 7}).options
        == calcli.fit(z, y, "ts+hb", bins=7).options
    )
    assert calcli.fit(z, y, "sms", lambda_=2.0).options["lambda"] == 2.0
    with pytest.raises(UsageError, match="bins"):
        calcli.fit(z, y, "hb", bins=-1)
    with pytest.raises(UsageError, match="did you mean"):
        calcli.fit(z, y, "tss")


@pytest.mark.parametrize(
    ("scores", "labels", "words"),
    [
        (np.zeros((3, 2)), None, "without labels"),
        (np.zeros((3, 2)), [0, 1], "has 2 rows|labels"),
        (np.full((3, 2), np.nan), [0, 1, 1], "row 0, class 0 is nan"),
        (np.zeros((3, 2)), [0, 1, 2], "label"),
        ([["a", "b"]], [0], "type"),
        (np.zeros((2, 2, 2)), [0, 1], "shape"),
    ],
)
def test_bad_rows_are_refused_with_a_sentence(scores, labels, words):
    with pytest.raises(DataError, match=words):
        calcli.fit(scores, labels, kind="logits")


def test_a_calibrator_refuses_other_classes():
    z, y = truth(200, 3)
    with pytest.raises(DataError, match="fitted for 3"):
        calcli.fit(z, y).predict_proba(np.zeros((2, 4)))


def test_notebooks_see_an_escaped_table():
    z, y = truth(200, 3)
    fitted = calcli.fit(z, y, class_names=["<b>", "b", "c"])
    page = fitted._repr_html_()
    assert "<td>" in page
    assert f"{fitted.before['nll']:.4f}" in page
    assert "auto" in repr(fitted)


def judgement(result):
    """The judgement without the name of a calibrator, which is its file's in the terminal, and commands with it."""
    return {
        name: value
        for name, value in result["report"].items()
        if name not in ("next", "recommended")
    }


def test_an_evaluation_is_that_of_the_command(run, bundle):
    path, z, y = bundle
    calibrator = calcli.fit(z, y)
    calibrator.save("c.json")
    done = run("evaluate", "b.h5", "-c", "c.json", "--json", "-q")
    typed = json.loads(done.out)["results"]
    ours = calcli.evaluate(z, y, calibrator).to_dict()["results"]
    for a, b in zip(ours, typed, strict=True):
        assert a["metrics"] == b["metrics"]
        assert judgement(a) == judgement(b)
    chosen = calcli.evaluate(path, calibrators=[calibrator], metrics=["ECE"], bins=10)
    assert [list(result.scores) for result in chosen.results] == [["ece"], ["ece"]]
    assert "|bins:10|" in chosen.results[0].scores["ece"].signature
    assert "uncalibrated" in chosen._repr_html_()


def test_an_evaluation_refuses_what_does_not_exist_or_fit(bundle):
    _, z, y = bundle
    with pytest.raises(UsageError, match="did you mean"):
        calcli.evaluate(z, y, metrics=["eec"])
    with pytest.raises(UsageError, match="bins"):
        calcli.evaluate(z, y, bin=3)
    with pytest.raises(DataError, match="fitted for 5 classes"):
        calcli.evaluate(z[:, :4], y % 4, calcli.fit(z, y))


def test_a_picture_is_that_of_the_command(run, bundle):
    pytest.importorskip("matplotlib")
    path, z, y = bundle
    calibrator = calcli.fit(z, y)
    calibrator.save("c.json")
    typed = json.loads(run("diagram", "b.h5", "-c", "c.json", "--json").out)
    ours = calcli.diagram(path, calibrators=calibrator)
    assert repr(ours) == "<calcli diagram: corp>"
    drawn = ours.to_dict()
    assert [panel["curves"] for panel in drawn["panels"]] == [
        panel["curves"] for panel in typed["panels"]
    ]
    assert ours._repr_svg_().lstrip().startswith("<?xml")
    ours.save("p.png")
    assert (path.parent / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "uncalibrated" in str(ours)
    with pytest.raises(UsageError, match="style"):
        calcli.diagram(z, y, style="nonsense")
    # the room has another name, or it would hide the function
    __import__("calcli.diagrams.style")
    assert callable(calcli.diagram)


@pytest.mark.parametrize("method", ["ir", "platt"])
def test_confidences_go_through_the_api_as_through_the_commands(run, method):
    rng = np.random.default_rng(0)
    confidence = rng.random(300) ** 0.4
    right = rng.random(300) < confidence**1.5
    with h5py.File("qa.h5", "w") as file:
        file["confidence"], file["correct"] = confidence, right
    assert run("fit", "-m", method, "qa.h5", "-o", "qa.json", "-q").code == 0
    assert run("apply", "qa.json", "qa.h5", "-o", "out.h5", "-q").code == 0
    fitted = calcli.fit(confidence, right, method, kind="confidence")
    with h5py.File("out.h5") as file:
        calibrated = file["confidence"][()]
    for scores in (confidence, confidence[:, None], "qa.h5"):
        p = fitted.predict_proba(scores)  # wrong, right
        np.testing.assert_array_equal(p[:, 1], calibrated)
        np.testing.assert_array_equal(p[:, 0], 1 - calibrated)
        np.testing.assert_array_equal(fitted.predict(scores), calibrated > 0.5)
    printed = json.loads(run("evaluate", "qa.h5", "-c", "qa.json", "--json").out)[
        "results"
    ]
    results = calcli.evaluate(confidence, right, fitted, kind="confidence").to_dict()[
        "results"
    ]
    for ours, theirs in zip(results, printed, strict=True):
        assert (ours["metrics"], judgement(ours)) == (
            theirs["metrics"],
            judgement(theirs),
        )
    assert calcli.diagram(
        confidence, right, fitted, kind="confidence", resamples=50
    ).to_dict()["panels"]
    model = ScoreCalibrator(method=method, kind="confidence").fit(
        confidence[:, None], right
    )
    np.testing.assert_array_equal(
        model.predict_proba(confidence[:, None])[:, 1], calibrated
    )


@pytest.mark.parametrize(
    ("scores", "labels", "options", "sentence"),
    [
        (
            [0.5, 0.7],
            [1, 0],
            {"method": "ts"},
            "method ts needs the scores of every class",
        ),
        ([50.0, 70.0], [1, 0], {}, "divide percentages by 100"),
        ([0.5, 0.7], [1, 2], {}, "row 1 is 2, expected 1 \\(right\\) or 0 \\(wrong\\)"),
        ([[0.5, 0.5], [0.7, 0.3]], [1, 0], {}, "expected \\(rows,\\): one a row"),
        ([0.5, 0.7], None, {}, "pass whether each answer was right"),
        ([0.5, 0.7], [1, 0], {"class_names": ["a", "b"]}, "of which no class is known"),
    ],
)
def test_what_are_no_confidences_is_refused(scores, labels, options, sentence):
    with pytest.raises(CalcliError, match=sentence):
        calcli.fit(scores, labels, **{"method": "ir", **options}, kind="confidence")


@pytest.mark.parametrize(
    ("labels", "warning"),
    [
        (lambda y: y.astype(float), None),
        (lambda y: y.astype(bool), "true was read as class 1"),
        (lambda y: 2 * y - 1, r"\+1 was read as class 1"),
        (lambda y: np.where(y, "spam", "ham"), "'spam' was read as class 1"),
        (
            lambda y: ["dog" if is_dog else "cat" for is_dog in y],
            "'dog' was read as class 1",
        ),
    ],
)
def test_labels_of_two_classes_are_taken_as_people_have_them(labels, warning):
    z, y = truth(200, 2)
    plain = calcli.fit(z, y, "platt")
    if warning is None:
        assert calcli.fit(z, labels(y), "platt").params == plain.params
        return
    with pytest.warns(UserWarning, match=warning):
        assert calcli.fit(z, labels(y), "platt").params == plain.params


def test_words_become_the_class_names_of_the_calibrator():
    scores = np.array([-1.0, 2.0, 3.0, -4.0, -0.5, 0.5])
    with pytest.warns(UserWarning, match="'pos' was read as class 1"):
        fitted = calcli.fit(scores, ["neg", "pos", "pos", "neg", "pos", "neg"])
    assert fitted.to_dict()["class_names"] == ["neg", "pos"]
    assert calcli.fit(scores, [0, 1, 1, 0, 1, 0]).to_dict()["class_names"] is None


@pytest.mark.parametrize(
    ("doing", "setting", "value", "said"),
    [
        ("evaluate", "bins", 0, "integer from 1 to 10000"),
        ("evaluate", "bins", 2.5, "integer from 1 to 10000"),
        ("evaluate", "norm", -1, ">= 1"),
        ("evaluate", "norm", 1e3, "from 1 to 100, or max"),
        ("evaluate", "scheme", "x", "width"),
        ("evaluate", "label", "x", "positive"),
        ("evaluate", "level", 2, "from 0.5 to 0.9999"),
        ("evaluate", "level", float("nan"), "from 0.5 to 0.9999"),
        ("evaluate", "resamples", 0, "from 1 to 1000000"),
        ("evaluate", "threshold", 4, "from 0 to 1"),
        ("evaluate", "seed", "x", "integer >= 0"),
        ("evaluate", "compat", "x", "torchmetrics"),
        (
            "evaluate",
            "unit",
            "none",
            "no setting is named 'unit'",
        ),  # units=, or no units: not one that is not heard
        ("diagram", "bins", 0, "integer from 1 to 10000"),
        ("diagram", "level", 7, "from 0.5 to 0.999"),
        ("diagram", "resamples", -4, "from 1 to 100000"),
        ("fit", "seed", -1, "integer >= 0"),
        ("fit", "seed", "x", "integer >= 0"),
    ],
)
def test_settings_are_held_to_the_bounds_of_the_command_line(
    doing, setting, value, said
):
    z, y = truth(50, 3, seed=1)
    with pytest.raises(UsageError, match=said):
        getattr(calcli, doing)(z, y, **{setting: value})


def test_numbers_of_numpy_are_numbers():
    z, y = truth(200, 3, seed=1)
    assert calcli.fit(z, y, "hb", bins=np.int64(7)).options["bins"] == 7
    evaluation = calcli.evaluate(
        z, y, metrics=["ece"], bins=np.int32(7), norm=np.float32(2)
    )
    assert "norm:2|bins:7|" in evaluation.results[0].scores["ece"].signature
    most = calcli.evaluate(z, y, metrics=["ece"], norm=np.inf)
    assert "norm:max|" in most.results[0].scores["ece"].signature


def inputs():
    """Scores as programs have them, and labels: name, scores, labels, what is said or None."""
    z, y = truth(60, 3)
    missing = z.astype(object)
    missing[3, 1] = None  # as pandas' Float64 and Arrow columns become with NA
    plain = [[Decimal(repr(float(v))) for v in row] for row in z]
    yield "Decimal", plain, y, None
    yield "Fraction", [[Fraction(float(v)) for v in row] for row in z], y, None
    yield "objects", z.astype(object), y.astype(object), None
    yield "Decimal labels", z, [Decimal(int(c)) for c in y], None
    yield "missing", missing, y, "scores: row 3 has None, expected numbers"
    yield "ragged", [[1.0, 2.0], [1.0]], [0, 1], "scores: are rows of different lengths"
    yield (
        "ragged labels",
        z,
        [[0], [1, 2]] * 30,
        "labels: are rows of different lengths",
    )
    yield "bool", z > 0, y, "scores: are true or false"
    yield "complex", z + 1j, y, "scores: have type complex128"
    yield "no array", object(), y, "scores: have type object"


@pytest.mark.parametrize(
    ("scores", "labels", "said"),
    [pytest.param(*values, id=name) for name, *values in inputs()],
)
def test_scores_as_programs_have_them(scores, labels, said):
    if said is None:
        assert calcli.fit(scores, labels).params == calcli.fit(*truth(60, 3)).params
        return
    with pytest.raises(DataError, match=said):
        calcli.fit(scores, labels)
    if said.startswith("scores"):
        with pytest.raises(DataError, match=said):
            calcli.fit(*truth(60, 3)).predict_proba(scores)


def test_tensors_that_are_views_or_empty_shells():
    torch = pytest.importorskip("torch")
    z, y = truth(60, 3)
    t = torch.tensor(z)
    assert (
        calcli.fit(torch.complex(t, -t).conj().imag, y).params
        == calcli.fit(z, y).params
    )  # its negative bit is set
    for scores, labels, what in (
        (t.to("meta"), y, "scores"),
        (z, torch.tensor(y).to("meta"), "labels"),
    ):
        with pytest.raises(DataError, match=f"{what}: are no array of numbers"):
            calcli.fit(scores, labels)
    with pytest.raises(DataError, match="weights: are no array of numbers"):
        calcli.fit(z, y, weights=torch.ones(len(y), device="meta"))


@pytest.mark.parametrize(
    ("package", "source"), [("sklearn", "import calcli.sklearn"), ("pyarrow", "read")]
)
def test_a_package_that_is_missing_is_named(package, source, tmp_path):
    requirement = {"sklearn": "scikit-learn", "pyarrow": "pyarrow"}[package]
    (tmp_path / "a.parquet").write_bytes(b"PAR1....PAR1")
    command = "from calcli.cli.main import main; sys.argv[1:] = ['extract', 'a.parquet', '-o', 'a.h5']; main()"
    code = f"import sys; sys.modules[{package!r}] = None; {source if 'import' in source else command}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"pip install {requirement}" in done.stderr
    # an ImportError; a usage error
    assert done.returncode == (1 if package == "sklearn" else 2)


def test_an_evaluation_says_its_verdict_in_a_few_lines(monkeypatch):
    z, y = truth(600, 4, temperature=1.8)
    evaluation = calcli.evaluate(z[300:], y[300:], calcli.fit(z[:300], y[:300], "ts"))
    one, other = (result.report.headline for result in evaluation.results)
    assert evaluation.verdict.splitlines() == [
        f"scores, uncalibrated: {one}",
        f"scores, ts: {other}",
    ]
    lines = repr(evaluation).splitlines()[1:]
    assert [line for line in lines if line[0] != " "] == evaluation.verdict.splitlines()
    findings = [line for result in evaluation.results for line in result.report.lines]
    assert [line[2:] for line in lines if line[0] == " "] == findings
    assert max(map(len, findings)) <= 100
    assert calcli.evaluate(z, y).verdict.startswith("overconfident: ")
    few = calcli.evaluate(z, y, metrics="accuracy")
    assert few.verdict == "" and "uncalibrated: accuracy 0." in repr(few)
    # what it is given is held instead
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    lines = evaluation.to_frame()
    assert [line["value"] for line in lines if line["metric"] == "nll"] == [
        r.scores["nll"].value for r in evaluation.results
    ]
    assert {line["version"] for line in lines} == {"uncalibrated", "ts"}
    assert all(
        line["expected"] > 0 and line["p_value"] is not None
        for line in lines
        if line["metric"] == "ece"
    )
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="^to_frame needs pandas: pip install pandas$"):
        evaluation.to_frame()


# ---- the functions of commands return what the commands print


@pytest.fixture
def files(tmp_path, monkeypatch, capsys):
    """val.npz and test.npz here, and a way to run the command line on them."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("val", 1), ("test", 2)):
        z, y = truth(400, 3, temperature=2.0, seed=seed)
        np.savez(f"{name}.npz", logits=z, labels=y)
    return runner(monkeypatch, capsys)


def printed(run, *words):
    done = run(*words, "--json", "-q")
    assert done.code == 0, done.err
    return json.loads(done.out)


def without_time(results):
    for result in results["results"]:
        result.pop("seconds")
    return results


@pytest.mark.parametrize("work", [calcli.fit, calcli.evaluate])
def test_warnings_are_of_the_line_that_calls(work):
    """What was read as class 1 is found two context managers deep in evaluate, one in fit."""
    rows = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.warns(UserWarning, match="'b' was read as class 1") as heard:
        work(rows, np.where(rows[:, 1] > 0, "b", "a"))
    assert {warning.filename for warning in heard} == {__file__}


def test_compare_returns_what_the_command_prints(files):
    comparison = calcli.compare("val.npz", methods=["ts", "ec", "vs"], folds=4, seed=3)
    theirs = printed(
        files,
        "compare",
        "val.npz",
        "--methods",
        "ts,ec,vs",
        "--folds",
        "4",
        "--seed",
        "3",
    )
    assert without_time(comparison) == without_time(theirs)
    assert (
        comparison["settings"]["baseline"] == "ts"
        and len(comparison["differences"]) == 3
    )
    data = np.load("val.npz")
    arrays = calcli.compare(data["logits"], data["labels"], "ts,ec,vs", folds=4, seed=3)
    assert [result["metrics"] for result in arrays["results"]] == [
        result["metrics"] for result in comparison["results"]
    ]
    with pytest.raises(UsageError, match="temprature"):
        calcli.compare("val.npz", methods="temprature")
    with pytest.raises(UsageError, match="setting folds=1"):
        calcli.compare("val.npz", folds=1)


def test_threshold_returns_what_the_command_prints(files):
    fitted = calcli.fit("val.npz")
    fitted.save("ts.json")
    ours = calcli.threshold("test.npz", calibrator=fitted, accuracy=0.7)
    theirs = printed(
        files, "threshold", "test.npz", "-c", "ts.json", "--accuracy", "0.7"
    )
    assert ours | {"calibrator": "ts.json"} == theirs
    assert ours["accuracy_lower"] >= 0.7
    with pytest.raises(
        FitError,
        match="no threshold guarantees accuracy >= 0.999 with probability 0.95",
    ):
        calcli.threshold("test.npz", accuracy=0.999)
    with pytest.warns(UserWarning, match="the guarantee does not hold"):
        calcli.threshold("val.npz", calibrator=fitted, accuracy=0.7)


def test_report_writes_the_page_of_the_command(files):
    fitted = calcli.fit("val.npz", method="ts")
    fitted.save("ts.json")
    our_page = calcli.report("test.npz", calibrators=fitted, path="own.html")
    assert (
        files("report", "test.npz", "-c", "ts.json", "-o", "theirs.html", "-q").code
        == 0
    )
    pages = [Path(name).read_text("utf-8") for name in ("own.html", "theirs.html")]
    evaluations = [
        json.loads(re.search(r'id="calcli-evaluation">(.*?)</script>', page)[1])
        for page in pages
    ]
    assert our_page.to_dict() == evaluations[0]
    ours, theirs = ([result["metrics"] for result in e["results"]] for e in evaluations)
    assert ours == theirs
    for one, other in zip(
        our_page.to_dict()["results"], evaluations[1]["results"], strict=True
    ):
        assert one["report"]["verdict"] == other["report"]["verdict"]
        assert one["report"]["messages"] == other["report"]["messages"]
    step = evaluations[1]["results"][0]["report"]["next"]
    assert step == "calcli apply ts.json NEW.npz -o calibrated.npz"
    assert our_page.results[0].report.next_step.command is None  # an object has no file
    with pytest.raises(UsageError, match="force=True"):
        calcli.report("test.npz", path="own.html")
    with pytest.raises(UsageError, match=r"\.html"):
        calcli.report("test.npz", path="own.pdf")


def test_export_writes_the_file_of_the_command(files):
    fitted = calcli.fit("val.npz")
    fitted.save("ts.json")
    ours = calcli.export(fitted, "own.py")
    theirs = printed(files, "export", "ts.json", "-o", "theirs.py")
    assert ours | {"output": "theirs.py"} == theirs
    assert Path("own.py").read_bytes() == Path("theirs.py").read_bytes()
    with pytest.raises(UsageError, match="force=True"):
        calcli.export(fitted, "own.py")
    with pytest.raises(UsageError, match="says no target"):
        calcli.export(fitted, "own.txt")


def test_functions_stay_where_packages_have_their_names():
    """calcli.report, export and extract are packages too, which an import puts in their place."""
    code = "import calcli, calcli.reporting.page, calcli.exporting.exporting, calcli.extracting.run"
    code += "; from calcli.reporting import page; print(*map(callable, (calcli.report, calcli.export, calcli.extract)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["True"] * 3, done.stderr


def test_extract_writes_the_bundles_of_the_command(files):
    ours = calcli.extract(
        "val.npz", "own.h5", split=["cal=0.5", "test=rest"], seed=4, scores="logits"
    )
    words = ["--split", "cal=0.5", "--split", "test=rest", "--seed", "4"]
    theirs = printed(files, "extract", "val.npz", "-o", "theirs.h5", *words)
    assert ours["bundles"] == theirs["bundles"] and ours["output"] == "own.h5"
    assert calcli.fit("own.h5:cal").params == calcli.fit("theirs.h5:cal").params
    with pytest.raises(UsageError, match="clasess"):
        calcli.extract("val.npz", "more.h5", clasess=3)
    assert not Path("more.h5").exists()


@pytest.mark.parametrize("names", [[10, 20, 30], ["10", "20", "30"]])
def test_labels_that_are_the_numbers_of_class_names_are_looked_up(names):
    """--ignore-label 30 was advised. Labels that can be places stay places."""
    z = np.random.default_rng(0).normal(size=(60, 3))
    y = (z + np.random.default_rng(1).gumbel(size=z.shape)).argmax(axis=1)
    with pytest.warns(
        UserWarning, match="looked up in the names of the classes, 10, 20, 30"
    ):
        evaluation = calcli.evaluate(
            z, np.array([10, 20, 30])[y], class_names=names, resamples=100
        )
    metrics = [
        one.to_dict()["results"][0]["metrics"]
        for one in (evaluation, calcli.evaluate(z, y, resamples=100))
    ]
    assert metrics[0]["nll"] == metrics[1]["nll"]
    places = [
        calcli.evaluate(z, y % 2 + 1, class_names=own, resamples=100).to_dict()
        for own in ([1, 2, 3], "abc")
    ]
    assert (
        places[0]["results"][0]["metrics"]["nll"]
        == places[1]["results"][0]["metrics"]["nll"]
    )


@pytest.mark.parametrize(
    ("names", "labels"), [([1, 2, 3], [1, 2]), ([2, 0, 1], [0, 1, 2])]
)
def test_labels_that_are_places_and_names_are_said(names, labels):
    """They were read as places without a word."""
    z, _ = truth(60, 3)
    with pytest.warns(UserWarning, match="read as the places of the classes"):
        calcli.evaluate(z, np.resize(labels, 60), class_names=names, metrics="ece")


@pytest.mark.parametrize(
    "names", [{0: "a", 1: "b", 2: "c"}, {"a": 0, "b": 1, "c": 2}, {"a", "b", "c"}]
)
def test_class_names_have_an_order(names):
    """The keys of id2label became the names, and those of a set came in any order."""
    z, y = truth(60, 3)
    with pytest.raises(DataError, match="class_names: are a (dict|set), expected"):
        calcli.fit(z, y, "ts", class_names=names)


class Missing:
    """The NA of pandas is an object of a class of this name."""


Missing.__name__ = "NAType"


@pytest.mark.parametrize("missing", [None, float("nan"), Missing()])
@pytest.mark.parametrize("word", ["yes", True, 1])
def test_a_missing_label_is_no_class(missing, word):
    """None beside yes was class 0, as 'None' is the earlier in the alphabet."""
    z, y = truth(60, 2)
    y[0] = 1
    labels = [word if one else missing for one in y]
    for values in (labels, np.array(labels, dtype=object)):
        with pytest.raises(DataError, match="labels: (is empty in )?row [0-9]"):
            calcli.fit(z, values, "ts")


def test_what_a_file_brings_is_not_taken_from_arguments(bundle):
    """weights, class_names and kind were left aside without a word."""
    path, z, y = bundle
    for name, value in {"weights": np.ones(400), "class_names": "abcde"}.items():
        with pytest.raises(DataError, match=f"brings its own {name}; leave {name} out"):
            calcli.fit(path, method="ts", **{name: value})
    with pytest.raises(DataError, match="row 0, class . is -"):
        calcli.fit(path, method="ts", kind="probs")
    with pytest.raises(DataError, match="holds logits, no confidences; leave kind out"):
        calcli.evaluate(path, kind="confidence", metrics="ece")
    fitted = calcli.fit(path, method="ts", kind="logits")
    assert fitted.params == calcli.fit(z, y, method="ts").params
    with pytest.raises(DataError, match="row 0, class . is -"):
        fitted.predict_proba(path, kind="probs")


def mistakes():
    """Arguments with a mistake of every kind, and what is said of it."""
    z, y = truth(60, 3)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    gap = np.where(y == 0, -100, y)
    words = np.array(["a b", "c d", "e f"])[y]
    yield "nan", calcli.fit, (np.where(z > 1, np.nan, z), y), {}, "model's output$"
    yield "marked", calcli.fit, (z, gap), {}, "^labels: .*leave such rows out$"
    yield "half", calcli.fit, (z, y / 2), {}, "leave such rows out, as draws$"
    yield "bool", calcli.fit, (z, y > 0), {}, "expected one of 3 classes$"
    yield "words", calcli.fit, (z, words), {}, "class_names takes their names"
    yield "several", calcli.fit, (z, np.sign(z) > 0), {}, "a single 1 per row$"
    yield "percent", calcli.fit, (100 * p, y), {"kind": "probs"}, "them by 100$"
    yield "sums", calcli.fit, (1.3 * p, y), {"kind": "probs"}, "divide by it$"
    yield "kind", calcli.fit, (z, y), {"kind": "probs"}, "logits, pass kind='logits'$"
    yield "empty", calcli.fit, (z[:0], y[:0]), {}, "expected one row or more$"
    yield "device", calcli.fit, (z, y), {"device": "tpu"}, "^device is 'tpu'"
    units = {"units": np.zeros(60)}
    yield "units", calcli.fit, (z, y), units, "pass others, or none$"
    positive = {"label": "positive"}
    yield "label", calcli.evaluate, (z, y), positive, "^label='positive' is for two"
    pooled = {"metrics": "ece", "label": "all", "scheme": "mass"}
    yield "scheme", calcli.evaluate, (z, y), pooled, "not scheme='mass' or"
    decision = {"style": "decision"}
    yield "style", calcli.diagram, (z, y), decision, "^style='decision' is for two"
    yield "folds", calcli.compare, (z[:4], y[:4]), {"folds": 9}, "^folds=9: "
    pair = np.concatenate([z, 9 * z])
    by_site = calcli.fit(pair, [*y, *y], "ts", groups=np.repeat(["a", "b"], 60))
    yield "groups", calcli.evaluate, (z, y, by_site), {}, "by 'group'; pass groups="
    yield "accuracy", calcli.threshold, (z, y), {"accuracy": 0.999}, "more samples"


@pytest.mark.parametrize(
    ("work", "rows", "settings", "said"),
    [pytest.param(*values, id=name) for name, *values in mistakes()],
)
def test_errors_speak_of_arguments(work, rows, settings, said):
    """They named options of the command line, and commands for a file called scores."""
    with pytest.raises(CalcliError) as caught:
        work(*rows, **settings)
    message = str(caught.value)
    assert re.search(said, message)
    assert not re.search(r"--[a-z]|-o |calcli (?!metrics)[a-z]+ ", message)


def test_a_setting_without_effect_is_warned_of():
    """It was left aside without a word; net_benefit(0.3) is what was meant."""
    z, y = truth(60, 2)
    with pytest.warns(UserWarning, match="^threshold has no effect here"):
        calcli.evaluate(z, y, metrics="net_benefit", threshold=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calcli.evaluate(z, y, metrics="ece", bins=9, label="positive")


def test_names_are_said_as_they_are(tmp_path, monkeypatch):
    """They were translated too: a file called method='ts', a class seed=3."""
    monkeypatch.chdir(tmp_path)
    z, y = truth(60, 3)
    for name in ("run --method ts.h5", "calcli fit --by 3.h5", "-o a.npz"):
        for group in ("", ":test"):
            with pytest.raises(CalcliError, match=f"^{re.escape(name)}: no such file"):
                calcli.fit(name + group)
    fitted = calcli.fit(z, y, "ts")
    fitted.save("x --force.json")
    said = r"^x --force\.json: exists already; .* pass force=True to replace it$"
    with pytest.raises(CalcliError, match=said):
        fitted.save("x --force.json")
    words = np.array(["a", "b", "--seed 3"])[y]
    names = ["a", "b", "(c|d)+"]
    for labels in (words, words.astype(object), words.tolist()):
        said = r"has label '--seed 3', expected one of a, b, \(c\|d\)\+$"
        with pytest.raises(CalcliError, match=said):
            calcli.fit(z, labels, "ts", class_names=names)
    with pytest.raises(CalcliError, match="named '--label x'; "):
        calcli.evaluate(z, y, metrics=["--label x"])


def test_labels_in_a_list_are_no_files():
    """A list of words after scores was taken for names of files."""
    z, y = truth(60, 3)
    words = np.array(["a b", "c d", "e f"])[y].tolist()
    with pytest.raises(CalcliError, match="class_names takes their names") as caught:
        calcli.fit(z, words)
    assert "calcli" not in str(caught.value)


def test_errors_about_files_keep_their_commands(tmp_path):
    """What settles a file is a command."""
    path = tmp_path / "scores.npz"
    z, y = truth(60, 3)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.savez(path, probs=100 * p, labels=y)
    with pytest.raises(DataError, match="calcli extract .*scores.npz --percent"):
        calcli.fit(path)


def test_what_becomes_an_array_is_said():
    """A sparse matrix and a LazyFrame were of "type object"."""
    sparse = pytest.importorskip("scipy.sparse")
    z, y = truth(60, 3)
    with pytest.raises(DataError, match=r"csr_array, .*pass scores\.toarray\(\)"):
        calcli.fit(sparse.csr_array(z), y)


@pytest.mark.parametrize("name", ["units", "groups"])
def test_names_of_rows_that_are_durations_or_none_at_all(name):
    """It ended in a TypeError of Python or HDF5."""
    z, y = truth(40, 3)
    no_names: list[str] = []
    with pytest.raises(DataError, match=r"shape \(0,\), expected \(40,\)"):
        calcli.evaluate(z, y, kind="logits", metrics="ece", **{name: no_names})
    days = np.arange(40).astype("m8[D]") // 4
    numbers = np.arange(40) // 4
    by_day, by_number = (
        calcli.evaluate(z, y, kind="logits", metrics="ece", **{name: values})
        for values in (days, numbers)
    )
    assert by_day.to_dict()["results"] == by_number.to_dict()["results"]
