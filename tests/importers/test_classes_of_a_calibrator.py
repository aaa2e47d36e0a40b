"""New rows without labels, whose scores are named by the classes of a calibrator."""

import shlex

import numpy as np
import pytest
from drawn_tables import N, drawn, table

import calcli

CLASSES = ["cat", "dog", "eel"]
OTHERS = np.random.default_rng(1).random((N, 2))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def scores(p, names=CLASSES):
    return {name: p[:, place] for place, name in enumerate(names)}


def among_others(p, names=CLASSES):
    """The scores between two other columns of numbers in [0, 1]."""
    return {"blur": OTHERS[:, 0], **scores(p, names), "shade": OTHERS[:, 1]}


def fitted(p, y):
    """A file of a calibrator that was fitted to columns named by the classes."""
    calcli.fit(p, y, "vs", class_names=CLASSES).save("cal.json")
    return calcli.load("cal.json")


@pytest.mark.parametrize("around", ["{}", "p_{}", "{}.score"])
def test_columns_named_by_its_classes_are_read(run, around):
    """They were refused: the others might be the score as well."""
    p, y = drawn(3)
    calibrator = fitted(p, y)
    names = list(map(around.format, CLASSES))
    file = table("new.csv", among_others(p, names))
    done = run("apply", "cal.json", file, "-o", "out.npz")
    assert done.code == 0, done.err
    assert "3 classes" in done.err
    with np.load("out.npz") as out:
        assert out["class_names"].tolist() == CLASSES
        np.testing.assert_allclose(
            out["probs"], calibrator.predict_proba(p), atol=1e-12
        )
    assert np.array_equal(calibrator.predict_proba(file), out_of("out.npz"))


def out_of(file):
    with np.load(file) as arrays:
        return arrays["probs"]


def test_the_line_that_says_what_was_read_says_so(run):
    p, y = drawn(3)
    fitted(p, y)
    file = table("new.csv", among_others(p))
    done = run("apply", "cal.json", file, "-o", "out.csv")
    assert "'cat, dog, eel' as probs, named by the classes of the calibrator" in (
        done.err
    )
    assert "columns not used: blur, shade" in done.err


def test_another_order_is_refused(run):
    p, y = drawn(3)
    fitted(p, y)
    file = table("new.csv", among_others(p[:, [2, 0, 1]], ["eel", "cat", "dog"]))
    done = run("apply", "cal.json", file, "-o", "out.csv")
    assert done.code == 3
    assert "class 0 is 'eel', which is class 2 of cal.json" in done.err


def test_of_two_models_each_gets_a_command(run):
    """Which of them was fitted to?"""
    p, y = drawn(3)
    fitted(p, y)
    names = [f"b_{name}" for name in CLASSES]
    both = scores(p, [f"a_{name}" for name in CLASSES]) | scores(p[::-1], names)
    done = run("apply", "cal.json", table("new.csv", both), "-o", "out.csv")
    assert done.code != 0
    assert "scores of a model each" in done.err
    assert done.err.count("--labels none") == 2


def among_numbered(z):
    """The scores beside numbered columns, which may be those of another model."""
    rng = np.random.default_rng(1)
    return scores(z) | {f"aux{k}": rng.normal(size=len(z)) for k in range(1, 5)}


@pytest.mark.parametrize("beside", [among_others, among_numbered])
def test_logits_among_other_numbers_get_a_command_that_works(run, beside):
    """Another column may be the logit of one more class. No command was proposed.

    Beside numbered columns they were read, whatever they held.
    """
    p, y = drawn(3)
    z = np.log(p) + 1.0
    calcli.fit(z, y, "ts", class_names=CLASSES).save("cal.json")
    done = run("apply", "cal.json", table("new.csv", beside(z)), "-o", "out.npz")
    assert done.code != 0
    command = shlex.split(done.err.partition("to try: ")[2])
    assert command[3:9] == [
        *("--scores", "cat:eel", "--labels", "none", "--kind", "logits")
    ]
    assert run(*command[1:]).code == 0
    assert run("apply", "cal.json", "new.h5", "-o", "out.npz").code == 0
    expected = calcli.load("cal.json").predict_proba(z)
    np.testing.assert_allclose(out_of("out.npz"), expected, atol=1e-12)
