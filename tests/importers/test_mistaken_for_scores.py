"""Probabilities under the name of logits: every command that reads them says so, and none says it of logits."""

import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from run_calcli import runner
from synthetic import truth

import calcli

SAID = "look like probabilities"

COMMANDS = {
    "fit": ("fit", "-m", "platt", "{}", "-o", "art.json", "--force"),
    "apply": ("apply", "known.json", "{}", "-o", "out.h5", "--force"),
    "evaluate": ("evaluate", "{}", "--metric", "ece"),
    "diagram": ("diagram", "{}", "-o", "d.json", "--force"),
    "temperature": (
        "diagram",
        "{}",
        "--style",
        "temperature",
        "-o",
        "t.json",
        "--force",
    ),
    "report": ("report", "{}", "-o", "r.html", "--force", "--no-decomposition"),
    "compare": ("compare", "{}", "--methods", "ts"),
    "threshold": ("threshold", "{}", "--accuracy", "0.6"),
    "inspect": ("inspect", "{}"),
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Scores of two classes in four forms, all of the same 300 rows."""
    monkeypatch.chdir(tmp_path)
    z, y = truth(300, 2, seed=1)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    forms = {
        "logits.h5": z,
        "one_logit.h5": z[:, 1] - z[:, 0],
        "probs.h5": p,
        "one_prob.h5": p[:, 1],
    }
    for name, scores in forms.items():
        with h5py.File(name, "w") as file:
            file["logits"], file["labels"] = scores, y
    calcli.fit(z, y).save("known.json")
    return forms, y


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_that_logits_look_like_probabilities(
    command, files, monkeypatch, capsys
):
    run = runner(monkeypatch, capsys)
    for name in files[0]:
        done = run(*(word.format(name) for word in COMMANDS[command]))
        assert done.code == 0, done.err
        assert (done.out + done.err).count(SAID) == ("prob" in name), (
            name,
            done.out,
            done.err,
        )


def test_python_says_so_too(files):
    forms, y = files
    known = calcli.load("known.json")
    doings = [
        lambda z: calcli.fit(z, y, kind="logits"),
        lambda z: calcli.evaluate(z, y, kind="logits", metrics=["ece"]),
        lambda z: calcli.diagram(z, y, kind="logits", resamples=100),
        known.predict_proba,
    ]
    for doing in doings:
        for name, scores in forms.items():
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                doing(scores)
            about = [warning for warning in warned if SAID in str(warning.message)]
            assert len(about) == ("prob" in name)
            assert all(warning.filename == __file__ for warning in about)


def test_few_rows_and_zeros_raise_no_doubt():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = calcli.fit(*truth(300, 2, seed=1), method="ts")
        known.predict_proba(np.full((19, 2), 0.5))
        known.predict_proba(np.zeros(40))


def test_masked_entries_are_refused():
    z, y = truth(300, 3, seed=1)
    with pytest.raises(
        calcli.errors.DataError, match="scores: some entries are masked"
    ):
        calcli.fit(np.ma.masked_greater(z, 2.0), y)
    with pytest.raises(
        calcli.errors.DataError, match="labels: some entries are masked"
    ):
        calcli.fit(z, np.ma.masked_equal(y, 1))
    whole = calcli.fit(np.ma.masked_array(z), np.ma.masked_array(y))
    assert whole.params == calcli.fit(z, y).params


def test_calibrators_are_what_fit_and_load_give():
    z, y = truth(300, 3, seed=1)
    for wrong in ("ts.json", Path("ts.json"), {"a": calcli.fit(z, y)}, [None]):
        for doing in (calcli.evaluate, calcli.diagram):
            with pytest.raises(
                calcli.errors.UsageError, match="expected what fit or load gives"
            ):
                doing(z, y, calibrators=wrong)


def test_a_picture_and_a_calibrator_replace_files_when_told_in_python(tmp_path):
    z, y = truth(300, 3, seed=1)
    for thing, name in (
        (calcli.fit(z, y), "a.json"),
        (calcli.diagram(z, y, kind="logits", resamples=100), "d.json"),
    ):
        thing.save(tmp_path / name)
        with pytest.raises(calcli.errors.UsageError, match="force=True"):
            thing.save(tmp_path / name)
        thing.save(tmp_path / name, force=True)
