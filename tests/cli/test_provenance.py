"""Calibrated twice: which calibrators rows have been through, and who minds."""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY
from synthetic import truth

import calcli
from calcli.io.artifact import load
from calcli.io.provenance import chain_of, identity

Z, Y = truth(400, 4)
GOLDEN = f"{REPOSITORY}/tests/golden/v01"


@pytest.fixture
def run(run):
    """A folder with raw.h5, ts.json fitted on it, and once.h5 = ts.json applied to it."""
    with h5py.File("raw.h5", "w") as file:
        file["logits"], file["labels"] = Z, Y
    assert run("fit", "-m", "ts", "raw.h5", "-o", "ts.json", "-q").code == 0
    assert run("apply", "ts.json", "raw.h5", "-o", "once.h5", "-q").code == 0
    return run


def chain(path):
    with h5py.File(path) as file:
        return [link.method for link in chain_of(file.attrs)]


@pytest.mark.parametrize("form", ["as written now", "as 0.1 wrote it"])
def test_calibrated_twice_is_refused_unless_asked_for(run, form):
    if form == "as 0.1 wrote it":
        with h5py.File("once.h5", "a") as file:
            del file.attrs["calibrated_by"]
    for words in (
        ["apply", "ts.json", "once.h5", "-o", "twice.h5"],
        ["evaluate", "once.h5", "-c", "ts.json"],
        ["evaluate", "once.h5", "--baseline", "ts.json"],
        ["diagram", "once.h5", "-c", "ts.json", "-o", "d.json"],
        [
            "diagram",
            "once.h5",
            "-c",
            "ts.json",
            "--style",
            "temperature",
            "-o",
            "t.json",
        ],
        ["run", "raw.h5", "once.h5", "-m", "ts", "-o", "run", "-q", "--force"],
    ):
        done = run(*words)
        assert done.code == 3
        assert "or pass --again" in done.line
        assert "once.h5: is already calibrated by ts (" in done.line
        assert "calibrated twice" in done.line
        assert run(*words, "--again", "-q").code == 0
    assert chain("twice.h5") == ["ts", "ts"]
    assert (
        run(
            "apply", "ts.json", "raw.h5", "--as", "logits", "-o", "logits.h5", "-q"
        ).code
        == 0
    )
    export = ("export", "ts.json", "-o", "ts.py", "--check", "logits.h5")
    assert "or pass --again" in run(*export).line
    assert run(*export, "--again", "-q").code == 0


@pytest.mark.parametrize("ending", ["h5", "csv", "jsonl", "npz", "parquet"])
def test_calibrated_scores_are_headed_by_what_made_them(run, ending):
    """They were headed "uncalibrated"."""
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    assert (
        run("apply", "ts.json", "raw.h5", "-o", f"once.{ending}", "-q", "--force").code
        == 0
    )
    done = run("evaluate", f"once.{ending}", "--max", "nll=9")
    table = done.out.split("\n\n")[1].splitlines()
    assert table[1].startswith("calibrated by ts  ")
    assert "uncalibrated" not in done.out
    assert f"limit holds: once.{ending}, calibrated by ts: nll is" in done.err
    both = run("evaluate", "once.h5", "-c", "ts.json", "--again", "-q").out
    assert "once.h5, calibrated by ts: " in both
    assert "once.h5, ts: " in both
    page = run("report", f"once.{ending}", "-o", "page.html", "-q")
    assert page.code == 0 and "calibrated by ts" in Path("page.html").read_text()
    assert run("diagram", f"once.{ending}", "-o", "d.json", "--force", "-q").code == 0
    assert "calibrated by ts" in Path("d.json").read_text()
    # JSON keeps its words: no calibrator was given
    result = json.loads(run("evaluate", f"once.{ending}", "--json").out)["results"][0]
    assert (result["calibrator"], result["method"]) == (None, "uncalibrated")


def test_of_two_bundles_the_good_one_is_written(run):
    done = run("apply", "ts.json", "once.h5", "raw.h5", "-o", "both", "-q")
    assert (done.code, "once.h5: is already calibrated" in done.line) == (3, True)
    assert [path.name for path in Path("both").iterdir()] == ["raw.h5"]


def test_a_calibrator_fitted_behind_another_belongs_there(run):
    assert run("fit", "-m", "vs", "once.h5", "-o", "vs.json", "-q").code == 0
    upstream = json.loads(Path("vs.json").read_text())["fit"]["upstream"]
    assert upstream == [
        {
            "sha256": identity(load("ts.json")),
            "method": "ts",
            "fitted_on": "raw.h5",
            "in_sample": "these very rows",
        }
    ]
    assert json.loads(Path("ts.json").read_text())["fit"]["upstream"] is None
    assert run("apply", "vs.json", "once.h5", "-o", "both.h5", "-q").code == 0
    assert chain("both.h5") == ["ts", "vs"]
    wrong = run("apply", "vs.json", "raw.h5", "-o", "wrong.h5")
    assert (wrong.code, "raw.h5: is uncalibrated" in wrong.line) == (3, True)
    assert run("apply", "vs.json", "both.h5", "-o", "wrong.h5").code == 3
    shown = json.loads(run("inspect", "both.h5", "--json").out)["bundles"][0][
        "calibrated_by"
    ]
    assert [link["method"] for link in shown] == ["ts", "vs"]
    assert shown[0] == upstream[0]
    assert run("inspect", "vs.json").out.splitlines().count("fit:") == 1
    assert re.search(r"\n  status +ok\n", run("inspect", "vs.json").out)


def test_the_chain_comes_through_extract(run):
    assert (
        run(
            "extract",
            "once.h5",
            "--split",
            "a=0.5",
            "--split",
            "b=0.5",
            "-o",
            "parts.h5",
            "-q",
        ).code
        == 0
    )
    assert (
        "already calibrated by ts"
        in run("apply", "ts.json", "parts.h5:a", "-o", "x.h5").line
    )


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_other_formats_carry_the_chain(run, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    once = f"once.{ending}"
    assert run("apply", "ts.json", "raw.h5", "-o", once, "-q").code == 0
    done = run("apply", "ts.json", once, "-o", "twice.h5")
    assert (done.code, f"{once}: is already calibrated by ts (" in done.err) == (
        3,
        True,
    )
    assert run("extract", once, "-o", "back.h5", "-q").code == 0
    assert chain("back.h5") == ["ts"]


def test_an_identity_is_that_of_what_is_computed(run):
    """The same rows under another name give the same parameters, and so the same calibrator."""
    with h5py.File("copy.h5", "w") as file:
        file["logits"], file["labels"] = Z, Y
    assert run("fit", "-m", "ts", "copy.h5", "-o", "copy.json", "-q").code == 0
    assert identity(load("copy.json")) == identity(load("ts.json"))
    assert run("fit", "-m", "ec", "copy.h5", "-o", "ec.json", "-q").code == 0
    assert identity(load("ec.json")) != identity(load("ts.json"))


def test_artifacts_of_0_1_have_no_upstream_and_load():
    assert load(f"{GOLDEN}/rows4.ts.json").fit.upstream is None


def test_attributes_that_cannot_be_read_are_no_missing_calibrator():
    assert (
        chain_of({})
        == chain_of({"calibrator": "Fluke 5520A"})
        == chain_of({"calibrator": np.float64(3)})
        == ()
    )
    for attributes in (
        {"calibrator": '{"calcli_artifact": 99}'},
        {"calibrated_by": "["},
        {"calibrated_by": b"\xff"},
    ):
        assert [link.method for link in chain_of(attributes)] == ["unknown"]


def test_other_kinds_are_said(run):
    with h5py.File("logs.h5", "w") as file:
        file["log_probs"] = Z - np.log(np.exp(Z).sum(axis=1, keepdims=True))
        file["labels"] = Y
    done = run("apply", "ts.json", "logs.h5", "-o", "x.h5")
    assert (done.code, done.err) == (
        0,
        "warning: logs.h5: holds log_probs, ts.json was fitted on logits\n",
    )
    assert "holds log_probs" in run("evaluate", "logs.h5", "-c", "ts.json").err


@pytest.mark.parametrize("form", ["csv", "jsonl", "npz", "parquet"])
def test_tables_carry_the_calibrators_of_their_rows(run, form):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    assert run("apply", "ts.json", "raw.h5", "-o", f"once.{form}", "-q").code == 0
    for words in (
        ["apply", "ts.json", f"once.{form}", "-o", "x.h5"],
        ["evaluate", f"once.{form}", "-c", "ts.json"],
    ):
        done = run(*words)
        assert (done.code, "is already calibrated by ts (" in done.err) == (3, True)
    assert run("fit", "-m", "hb", f"once.{form}", "-o", "hb.json", "-q").code == 0
    # the same calibrator, in another format
    assert run("apply", "hb.json", "once.h5", "-o", "both.csv", "-q").code == 0
    assert "is uncalibrated" in run("apply", "hb.json", "raw.h5", "-o", "x.h5").line
    assert run("extract", "both.csv", "-o", "both.h5", "-q").code == 0
    assert chain("both.h5") == ["ts", "hb"]


def test_rows_of_different_calibrators_in_one_table_are_refused(run):
    assert run("apply", "ts.json", "raw.h5", "-o", "once.csv", "-q").code == 0
    head, *lines = Path("once.csv").read_text().splitlines(keepends=True)
    cut = [line.rpartition(",")[0] for line in lines]
    mixed = [*lines[:9], *(f"{line},vs:0123456789abcdef\n" for line in cut[9:])]
    Path("some.csv").write_text("".join([head, *mixed]))
    assert "row 9 through 'vs:0123456789abcdef'" in run("evaluate", "some.csv").err
    Path("odd.csv").write_text("".join([head, *(f"{line},somebody\n" for line in cut)]))
    assert (
        "calibrated by unknown" in run("apply", "ts.json", "odd.csv", "-o", "x.h5").err
    )


def test_labels_corrupted_on_purpose_are_said_of_all_that_is_made_of_them(run):
    """Bundles of 0.1 may say so of themselves."""
    with h5py.File("raw.h5", "a") as file:
        file.attrs["corrupted_labels"] = json.dumps({"share": 0.1})
    for words in (
        ("fit", "-m", "ts", "raw.h5"),
        ("evaluate", "raw.h5"),
        ("diagram", "raw.h5", "--resamples", "100"),
    ):
        done = run(*words)
        assert "labels corrupted on purpose" in done.out + done.err, words
    assert run("apply", "ts.json", "raw.h5", "-o", "c.h5").code == 0
    assert "labels corrupted on purpose" in run("evaluate", "c.h5").out
    assert (
        json.loads(run("inspect", "raw.h5", "--json").out)["bundles"][0][
            "corrupted_labels"
        ]
        is not None
    )
    assert run("extract", "raw.h5", "-o", "again.h5").code == 0
    assert "labels corrupted on purpose" in run("evaluate", "again.h5").out


# ---- rows of the fit, after apply


IN_SAMPLE = "ts was fitted on these very rows: what it shows here is not what new data will show; use held-out rows"
SHORT = IN_SAMPLE.partition("; ")[0]


def calibrated(file, name, n=4000, seed=0):
    """Logits twice too large in a group of a file: ts mends them, and the verdict after it is clean."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    file[f"{name}/logits"] = 2.0 * z
    file[f"{name}/labels"] = (
        (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 3)
    )


@pytest.fixture
def two(run):
    """m.h5 with cal and test, c.json fitted on cal."""
    with h5py.File("m.h5", "w") as file:
        calibrated(file, "cal", seed=2)
        calibrated(file, "test", seed=1)
    assert run("fit", "-m", "ts", "m.h5:cal", "-o", "c.json", "-q").code == 0
    return run


@pytest.mark.parametrize("form", ["h5", "npz", "csv", "jsonl", "parquet"])
def test_rows_of_the_fit_are_known_after_apply_in_every_format(two, form):
    """What evaluate says with -c, it says of the output of apply, in the findings too."""
    if form == "parquet":
        pytest.importorskip("pyarrow")
    for part, is_in_fit in (("cal", True), ("test", False)):
        assert (
            two("apply", "c.json", f"m.h5:{part}", "-o", f"{part}.{form}", "-q").code
            == 0
        )
        done = two("evaluate", f"{part}.{form}", "--json")
        result = json.loads(done.out)["results"][0]
        assert (IN_SAMPLE in done.err, IN_SAMPLE in result["warnings"]) == (
            is_in_fit,
            is_in_fit,
        )
        assert result["report"]["verdict_kind"] == "calibrated"
        texts = [message["text"] for message in result["report"]["messages"]]
        assert (SHORT in texts) == is_in_fit
        assert result["report"]["next"] is None


def test_every_command_says_of_applied_rows_that_they_are_those_of_the_fit(two):
    assert two("apply", "c.json", "m.h5:cal", "-o", "cal.h5", "-q").code == 0
    for words in (
        ("fit", "-m", "hb", "cal.h5", "-o", "hb.json"),
        ("diagram", "cal.h5", "--resamples", "100"),
        ("threshold", "cal.h5", "--accuracy", "0.3"),
        ("report", "cal.h5", "-o", "r.html"),
        ("extract", "cal.h5", "--split", "a=0.5", "--split", "b=0.5", "-o", "parts.h5"),
        ("evaluate", "parts.h5:b"),
    ):
        done = two(*words)
        assert done.code == 0
        if words[0] == "evaluate":
            assert SHORT in done.out
        elif words[0] != "extract":
            assert IN_SAMPLE in done.err, words
    assert IN_SAMPLE in Path("r.html").read_text("utf-8")
    with pytest.warns(UserWarning, match="ts was fitted on these very rows"):
        calcli.evaluate("cal.h5", metrics=["nll"])
    watched = two("watch", "cal.h5", "--state", "w.json")
    assert (
        watched.code == 3
        and "ts was fitted on these very rows; watch rows that it has not seen"
        in watched.line
    )


def test_chains_parts_and_several_bundles_say_which_of_their_rows_a_calibrator_has_seen(
    two,
):
    with h5py.File("m.h5") as whole, h5py.File("p.h5", "w") as file:
        for name, parts in (("part", ["cal"]), ("mixed", ["cal", "test"])):
            for array in ("logits", "labels"):
                file[f"{name}/{array}"] = np.concatenate(
                    [whole[f"{part}/{array}"][:1000] for part in parts]
                )
        file["unlabelled/logits"] = whole["cal/logits"][:]
    in_sample = {}
    for name in ("p.h5:part", "p.h5:mixed", "p.h5:unlabelled", "m.h5:cal", "m.h5:test"):
        out = name.replace(".h5:", "_") + ".h5"
        assert two("apply", "c.json", name, "-o", out, "-q").code == 0
        with h5py.File(out) as file:
            in_sample[name] = [link.in_sample or None for link in chain_of(file.attrs)]
    about = in_sample.pop("p.h5:mixed")[0]
    # 1000 of 2000: 96 are compared, which tells no percentage
    assert about == "about half of these rows"
    assert in_sample == {
        "p.h5:part": ["these very rows, or copies of them"],
        "p.h5:unlabelled": [None],
        "m.h5:cal": ["these very rows"],
        "m.h5:test": [None],
    }
    pooled = two("evaluate", "m_cal.h5", "m_test.h5", "--pool", "--metric", "nll").err
    assert "ts was fitted on some of these rows: " in pooled
    assert two("fit", "-m", "hb", "m_test.h5", "-o", "hb.json", "-q").code == 0
    said = []
    for name in ("m_cal.h5", "m_test.h5"):
        assert two("apply", "hb.json", name, "-o", "both.h5", "-q", "--force").code == 0
        said.append(two("evaluate", "both.h5", "--metric", "nll").err)
    assert (
        "ts was fitted on these very rows: " in said[0]
        and "hb was fitted on these very rows: " in said[1]
    )
    assert two("fit", "-m", "hb", "m_cal.h5", "-o", "own.json", "-q").code == 0
    assert two("apply", "own.json", "m_cal.h5", "-o", "own.h5", "-q").code == 0
    assert (
        "ts and hb were fitted on these very rows: "
        in two("evaluate", "own.h5", "--metric", "nll").err
    )


def test_units_that_are_none_do_not_stop_apply(two):
    """All rows of one patient: no interval could be made of them, and apply asks for none."""
    with h5py.File("m.h5", "a") as file:
        for part in ("cal", "test"):
            file[f"{part}/unit"] = np.zeros(4000, int)
    assert two("apply", "c.json", "m.h5:test", "-o", "t.h5").code == 0


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet", "jsonl", "h5"])
def test_predictions_that_apply_kept_are_read_in_every_format(run, ending, named):
    """``hb`` calibrates the confidence: another class may have a larger probability."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(300, 5)) * 2
    labels = np.where(rng.random(300) < 0.3, z.argmax(axis=1), rng.integers(0, 5, 300))
    names = {"class_names": np.array(list("abcde"))} if named else {}
    np.savez("a.npz", logits=z, labels=labels, **names)
    assert run("fit", "a.npz", "-m", "hb", "-o", "hb.json", "-q").code == 0
    output = f"applied.{ending}"
    done = run("apply", "hb.json", "a.npz", "-o", output)
    assert "another class now has a larger probability" in done.err
    read = json.loads(run("evaluate", output, "--json").out)["results"][0]
    accuracy = float((z.argmax(axis=1) == labels).mean())
    assert read["metrics"]["accuracy"]["value"] == pytest.approx(accuracy, abs=1e-12)


def judgement_of(run, *words):
    """Verdict of the last version, up to the error of the fit and without it."""
    report = json.loads(run("evaluate", *words, "--json").out)["results"][-1]["report"]
    return report["verdict"], report["exact"]["kind"]


@pytest.mark.parametrize("ending", ["h5", "npz", "parquet", "csv"])
def test_applied_rows_are_judged_as_their_calibrator_is(run, ending):
    """A fit to 400 rows misses by more than 3000 new rows tell apart.

    The exact test rejects it. Judged up to the error of the fit it passes, also in the
    file that ``apply`` wrote, where that holds the calibrator (a CSV file does not).
    """
    scores, labels = truth(3400, 4)
    np.savez("cal.npz", logits=scores[:400], labels=labels[:400])
    np.savez("new.npz", logits=scores[400:], labels=labels[400:])
    assert run("fit", "-m", "ts", "cal.npz", "-o", "few.json", "-q").code == 0
    words = ("apply", "few.json", "new.npz", "-o", f"applied.{ending}", "-q")
    assert run(*words).code == 0
    verdict, exact = judgement_of(run, "new.npz", "-c", "few.json")
    assert verdict.startswith("calibrated as far as 400") and exact != "calibrated"
    applied, exact_of_applied = judgement_of(run, f"applied.{ending}")
    assert exact_of_applied == exact
    if ending == "csv":
        assert applied != verdict
        return
    assert applied == verdict
