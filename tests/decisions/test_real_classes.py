"""Logs made by the real classes of other packages (real/make.py names their versions)."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

REAL = Path(__file__).parent / "real"
FILES = {
    "typesafe": ("typesafe.jsonl", "--gold", REAL / "typesafe_labels.csv"),
    "openai": ("openai.jsonl",),
    "jevkit": ("jevkit.jevl",),
    "jev_eval": ("jev_eval.jsonl",),
}
LEFT_OUT = {
    "typesafe": {},
    "openai": {"team": range(3, 40, 20)},
    "jevkit": dict.fromkeys(("team", "level", "refund"), range(7, 40, 20)),
    "jev_eval": dict.fromkeys(("team", "level", "refund"), range(5, 40, 20)),
}
"""Records that were refused, rejected, or have no label."""


def bundles(run, name):
    """Scores and labels by question."""
    file, *words = FILES[name]
    done = run("extract", REAL / file, *words, "-o", f"{name}.h5", "--force")
    assert done.code == 0, done.err
    bundle_of_name = {}
    with h5py.File(f"{name}.h5") as h5:
        for question in h5:
            group = h5[question]
            bundle_of_name[question] = group["probs"][:], group["labels"][:]
            if question == "team":
                classes = [text.decode() for text in group["class_names"]]
                order = np.argsort(classes)
                place = np.argsort(order)
                bundle_of_name[question] = (
                    group["probs"][:][:, order],
                    place[group["labels"]],
                )
            assert group.attrs.get("ordered", "0") == str(int(question == "level"))
    return bundle_of_name


@pytest.mark.parametrize("name", FILES)
def test_the_answers_are_those_of_every_package(run, name):
    whole, found = bundles(run, "typesafe"), bundles(run, name)
    assert set(found) == {"team", "level", "refund"}
    for question, (scores, labels) in found.items():
        left_out = list(LEFT_OUT[name].get(question, ()))
        expected_scores, expected_labels = whole[question]
        expected_scores = np.delete(expected_scores, left_out, axis=0)
        assert scores == pytest.approx(expected_scores, abs=1e-12)
        assert (labels == np.delete(expected_labels, left_out)).all()


@pytest.mark.parametrize("name", ["openai", "jevkit", "jev_eval"])
def test_they_are_fitted_and_written_back(run, name):
    log = REAL / FILES[name][0]
    assert run("fit", log, "-o", "art.json").code == 0
    assert run("apply", "art.json", log, "-o", "out.jsonl").code == 0
    before = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    text = Path("out.jsonl").read_text("utf-8")
    after = [json.loads(line) for line in text.splitlines()]
    for old, new in zip(before, after, strict=True):
        assert list(old) == [key for key in new if key != "calibrated_by"]
    assert run("apply", "art.json", "out.jsonl", "-o", "twice.jsonl").code == 3
    assert not Path("twice.jsonl").exists()
