"""The next command: which one, on which rows, and that it runs as printed."""

import json
import shlex
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, softmax
from synthetic import truth

import calcli
from calcli.io.score_files import names_of_new_scores


def rows(seed, k=3, n=400):
    z, y = truth(n, k, temperature=2.5, seed=seed)
    return {"logits": z.astype(np.float32), "labels": y}


def write(name, **groups):
    """A file of bundles: number of classes by group; ``__`` in a name is a folder."""
    with h5py.File(name, "w") as file:
        for place, (group, k) in enumerate(groups.items(), 1):
            for array, values in rows(place, k).items():
                file[f"{group.replace('__', '/')}/{array}"] = values


def write_parts(name, z, y, **parts):
    """A file of bundles that share one set of rows, a slice each."""
    with h5py.File(name, "w") as file:
        for group, part in parts.items():
            file[f"{group}/logits"], file[f"{group}/labels"] = z[part], y[part]


def report_of(run, *words):
    """The judgement on the first result, as JSON."""
    done = run("evaluate", *words, "--json", "-q")
    assert done.code == 0, done.err
    return json.loads(done.out)["results"][0]["report"]


def next_of(run, *words):
    """The next command after ``evaluate`` with these words, None for none."""
    command = report_of(run, *words)["next"]
    text = run("evaluate", *words).out
    lines = [line for line in text.splitlines() if line.startswith("next: ")]
    assert lines == ([] if command is None else [f"next: {command}"])
    return command


def runs(run, command):
    """Runs a command as printed."""
    assert run(*shlex.split(command)[1:]).code == 0


# ---- which rows it names


@pytest.mark.parametrize(
    ("groups", "group", "command"),
    [
        ({"cal": 3, "test": 3}, "", "run a.h5:cal a.h5:test"),
        # the part to fit on is evaluated, and may be all there is
        ({"cal": 3, "test": 3}, ":cal", "run a.h5:cal"),
        ({"holdout": 3, "val": 3}, ":holdout", "run a.h5:val a.h5:holdout"),
        # what a model was trained on says nothing of its confidence
        ({"train": 3, "test": 3}, "", "run a.h5:test"),
        # may be two models
        ({"one": 3, "other": 3}, ":one", "run a.h5:one"),
        # another model's
        ({"cal": 4, "test": 3}, "", "run a.h5:test"),
        (
            {"m__val": 3, "m__test": 3, "o__val": 3},
            ":m/test",
            "run a.h5:m/val a.h5:m/test",
        ),
    ],
)
def test_the_part_of_the_file_to_fit_on_is_named(run, groups, group, command):
    write("a.h5", **groups)
    assert next_of(run, f"a.h5{group}") == f"calcli {command}"


def test_a_calibrator_on_the_rows_of_its_fit_is_to_be_checked_on_others(run):
    write("a.h5", val=3, test=3)
    assert run("fit", "a.h5", "-m", "ts", "-q").code == 0
    command = next_of(run, "a.h5:val", "-c", "a.ts.json")
    assert command == "calcli evaluate a.h5:test --calibrator a.ts.json"
    runs(run, command)
    np.savez("b.npz", **rows(1))
    assert next_of(run, "b.npz", "-c", "a.ts.json") == "calcli run b.npz"


def test_a_name_that_begins_with_a_dash_is_typed_as_no_option(run):
    write("-a.h5", cal=3, test=3)
    assert next_of(run, "./-a.h5") == "calcli run ./-a.h5:cal ./-a.h5:test"
    assert run("fit", "./-a.h5:cal", "-m", "ts", "-q").code == 0
    command = next_of(run, "./-a.h5", "-c", "./-a.ts.json")
    assert command == "calcli apply ./-a.ts.json NEW.h5 -o calibrated.h5"
    shutil.copy("./-a.h5", "NEW.h5")
    runs(run, command)


def test_parts_without_labels_are_not_named(run):
    write("a.h5", cal=3, test=3)
    with h5py.File("a.h5", "a") as file:
        del file["cal/labels"]
    assert next_of(run, "a.h5") == "calcli run a.h5:test"


def test_what_a_calibrator_was_fitted_on_serves_another_fit(run):
    """A temperature of 1/2 makes overconfident rows worse; the rows of its fit are there to fit another."""
    Path("in").mkdir()
    np.savez("in/cal.npz", **rows(1))
    np.savez("test.npz", **rows(2))
    assert run("fit", "in/cal.npz", "-m", "ts", "-o", "in/ts.json", "-q").code == 0
    content = json.loads(Path("in/ts.json").read_text("utf-8"))
    content["params"]["temperature"] = 0.5
    Path("in/bad.json").write_text(json.dumps(content), "utf-8")
    words = "test.npz", "-c", "in/bad.json"
    assert next_of(run, *words) == "calcli run in/cal.npz test.npz"
    Path("in/cal.npz").unlink()
    assert next_of(run, *words) == "calcli run test.npz"


READ_BY = [
    "--group-by",
    "region",
    "--ids",
    "none",
    "--unit",
    "patient",
    "--scores",
    "u,v",
    "--labels",
    "truth",
]
READ_BY += ["--kind", "probs", "--ignore-label", "-1"]


def test_commands_read_other_samples_as_these_were_read(run):
    """Columns of a table by names of their own: without these options the next command could not read it."""
    z, y = truth(1200, 2, temperature=2.5, seed=4)
    p = softmax(z)[:, 0]
    lines = []
    for i, (a, b) in enumerate(zip(p, y, strict=True)):
        label = b if i else -1
        lines.append(f"{a:.9f},{1 - a:.9f},{label},{i // 3},{'ns'[i % 2]}")
    head = "u,v,truth,patient,region"
    for name, part in (("cal.csv", lines[:600]), ("test.csv", lines[600:])):
        Path(name).write_text("\n".join([head, *part]) + "\n", "utf-8")
    command = shlex.split(next_of(run, "test.csv", *READ_BY))
    assert command == ["calcli", "run", "test.csv", *READ_BY]
    words = "fit", "cal.csv", "-m", "platt", *READ_BY, "-o", "c.json", "-q"
    assert run(*words).code == 0
    command = next_of(run, "test.csv", *READ_BY, "-c", "c.json")
    assert shlex.split(command)[3] == "NEW.csv"
    shutil.copy("test.csv", "NEW.csv")
    runs(run, command)
    head, *lines = Path("calibrated.csv").read_text("utf-8").splitlines()
    assert len(lines) == 600
    assert "patient" in head.split(",")


@pytest.mark.parametrize(
    ("scores", "new", "calibrated"),
    [
        ("reviews.csv:test", "NEW.csv", "calibrated.csv"),
        ("a/net.v2.npz", "NEW.npz", "calibrated.npz"),
        ("logits.HDF5:test", "NEW.HDF5", "calibrated.HDF5"),
        # apply writes no .pt
        ("log.pt", "NEW.pt", "calibrated.h5"),
        ("scores", "NEW.h5", "calibrated.h5"),
    ],
)
def test_files_that_the_user_supplies_are_named_by_their_format(
    scores, new, calibrated
):
    assert names_of_new_scores(scores) == (new, calibrated)


# ---- which command


def biased(n=6000, k=3, seed=5):
    """Logits with a bias, which no temperature mends, and labels."""
    rng = np.random.RandomState(seed)
    z = 3.0 * rng.normal(size=(n, k))
    return 1.3 * z + np.linspace(1.0, -1.0, k), draw_labels(softmax(z), rng)


def test_after_what_another_method_left_a_run_is_next_and_after_auto_nothing(run):
    """What apply writes names its calibrator; ``run`` fits auto, after which no stronger one is known."""
    z, y = biased()
    write_parts("m.h5", z, y, cal=slice(0, 3000), test=slice(3000, None))
    auto = "auto(candidates=ts,ets;folds=2)"
    for method, file in (("ts", "ts.json"), (auto, "auto.json")):
        assert run("fit", "m.h5:cal", "-m", method, "-o", file, "-q").code == 0
        words = "apply", file, "m.h5:test", "-o", f"{file}.h5", "-q"
        assert run(*words).code == 0
    after_ts = report_of(run, "ts.json.h5")
    assert after_ts["findings"]
    assert after_ts["next"] == "calcli run ts.json.h5"
    after_auto = report_of(run, "auto.json.h5")
    assert after_auto["findings"]
    assert after_auto["next"] is None


def test_calibrated_rows_and_few_rows_need_no_command(run):
    z, y = truth(4000, 3, temperature=1.0)
    np.savez("right.npz", logits=z, labels=y)
    np.savez("few.npz", logits=z[:15], labels=y[:15])
    for name, kind in (("right.npz", "calibrated"), ("few.npz", "too_few")):
        report = report_of(run, name)
        assert (report["verdict_kind"], report["next"]) == (kind, None)


def test_doubtful_labels_are_to_be_inspected(run):
    z, y = truth(600, 3, temperature=1.0)
    np.savez("shifted.npz", logits=z, labels=(y + 1) % 3)
    command = next_of(run, "shifted.npz")
    assert command == "calcli inspect shifted.npz"
    runs(run, command)


def test_a_calibrator_that_helps_is_applied_though_it_loses_answers():
    """Logits six times too large; the labels of the fit have a bias that these do not: lower NLL, fewer right."""
    rng = np.random.RandomState(3)
    z, bias = rng.normal(size=(8000, 3)), np.array([0.4, 0.0, -0.4])
    y = draw_labels(softmax(z), rng)
    other_labels = draw_labels(softmax(z[:4000] + bias), rng)
    with_bias = calcli.fit(6 * z[:4000], other_labels, method="vs")
    plain = calcli.fit(6 * z[:4000], y[:4000], method="ts")
    before, after = calcli.evaluate(
        6 * z[4000:], y[4000:], calibrators=[with_bias]
    ).results
    assert before.report.next_step.calibrator == after.title
    effect = after.report.findings[-1]
    assert effect.kind == "effect"
    assert effect.numbers["change"] < 0
    assert -0.05 < effect.numbers["accuracy"] < -0.005
    assert "predictions change, accuracy -" in after.report.lines[-1]
    both = calcli.evaluate(6 * z[4000:], y[4000:], calibrators=[with_bias, plain])
    before, _, of_plain = both.results
    assert before.report.next_step.calibrator == of_plain.title


def test_a_calibrator_that_makes_it_worse_is_not_recommended():
    rng = np.random.RandomState(3)
    z = 2.0 * rng.normal(size=(3000, 3))
    y = draw_labels(softmax(z), rng)
    worse = calcli.fit(z, draw_labels(softmax(9 * z), rng), method="ts")
    before, after = calcli.evaluate(1.5 * z, y, calibrators=[worse]).results
    assert before.report.next_step.calibrator is None
    assert after.report.lines[-1].startswith("raises NLL by ")


def test_a_temperature_that_lowers_the_nll_and_raises_the_brier_score_is_not_applied(
    run,
):
    """6 % of the labels at random: 5 points overconfident, and 6 points underconfident with ts."""
    rng = np.random.RandomState(0)
    z = 5.0 * rng.normal(size=(6000, 10))
    y = draw_labels(softmax(z), rng)
    y = np.where(rng.random_sample(6000) < 0.06, rng.randint(10, size=6000), y)
    write_parts("m.h5", z, y, cal=slice(0, 3000), test=slice(3000, None))
    assert run("fit", "m.h5", "-m", "ts", "-o", "ts.json", "-q").code == 0
    done = run("evaluate", "m.h5", "-c", "ts.json", "--json", "-q")
    before, after = json.loads(done.out)["results"]
    change = after["paired"]["differences"]
    assert change["nll"]["ci"][1] < 0.0 < change["brier"]["ci"][0]
    assert before["report"]["recommended"] is None
    assert before["report"]["next"] == "calcli run m.h5:cal m.h5:test"


@pytest.mark.parametrize("is_long", [False, True])
def test_with_a_baseline_the_calibrator_that_helps_is_applied(
    run, monkeypatch, is_long
):
    """svs helps more than ts, and ts more than none."""
    z, y = biased(4000)
    write_parts("s.h5", 2.0 * z, y, cal=slice(0, 2000), test=slice(2000, None))
    for method in ("ts", "svs"):
        words = "fit", "s.h5:cal", "-m", method, "-o", f"{method}.json", "-q"
        assert run(*words).code == 0
    sharp_labels = draw_labels(softmax(9 * z), np.random.RandomState(1))
    calcli.fit(z, sharp_labels, method="ts").save("bad.json")
    split = "--decomposition"
    if is_long:
        monkeypatch.setattr("calcli.evaluation.evaluate_bundle.LONG", 1000)
        split = "--no-decomposition"
    for words, best in (
        (["--baseline", "ts.json"], "ts"),
        (["--baseline", "ts.json", "-c", "svs.json"], "svs"),
        (["--baseline", "svs.json", "-c", "ts.json"], "svs"),
        (["--baseline", "bad.json", "-c", "ts.json"], "ts"),
    ):
        report = report_of(run, "s.h5:test", *words, split)
        assert report["recommended"] == f"{best}.json", words
        expected = f"calcli apply {best}.json NEW.h5 -o calibrated.h5"
        assert report["next"] == expected
