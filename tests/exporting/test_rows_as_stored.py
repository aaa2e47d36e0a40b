"""Exports are compared with ``apply`` of rows as they are stored, and count zeros as it does."""

import json

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli
from calcli.exporting.exporting import TARGETS, export
from calcli.exporting.verify import compare
from calcli.io.artifact import load
from calcli.numerics import softmax

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def need(target):
    for package in {"onnx": ["onnx", "onnxruntime"], "torch": ["torch"]}.get(
        target, []
    ):
        pytest.importorskip(package)


def uniform(name, kind):
    """4000 uniform float64 probabilities of class 1, or such within 1e-9 of each other."""
    rng = np.random.default_rng(0)
    p = rng.random(4000)
    y = (rng.random(4000) < p).astype(int)
    if kind == "near":
        p = 0.3 + 1e-9 * p
    with h5py.File(name, "w") as file:
        file["probs"], file["labels"] = np.stack([1 - p, p], axis=1), y
    return np.stack([1 - p, p], axis=1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["apart", "near"])
@pytest.mark.parametrize("method", ["venn-abers", "hb", "ir"])
def test_steps_fall_where_apply_puts_them(run, method, kind, target):
    """Said: 3e-8. Against apply of the file: .063 in 9 rows of the first set, .91 and 1906 predictions in the second,
    as both sides were computed from rows rounded to float32."""
    need(target)
    p = uniform("u.h5", kind)
    assert run("fit", "-m", method, "u.h5", "-o", "a.json").code == 0
    out = f"a{TARGETS[target].ending}"
    done = run("export", "a.json", "-o", out, "--check", "u.h5", "--json")
    facts = json.loads(done.out)
    assert facts["input_type"] == "float64" and facts["labels_differ"] == 0
    assert run("apply", "a.json", "u.h5", "-o", "c.h5").code == 0
    made = export(load("a.json"), target)
    probs, label = made.run(p)
    with h5py.File("c.h5") as file:
        off = np.abs(probs - file["probs"][()]).max(axis=1)
        assert np.count_nonzero(off > 1e-6) <= facts["on_jumps"]
        assert np.count_nonzero(label != file["prediction"][()]) <= facts["on_jumps"]
    assert facts["on_jumps"] <= 46  # 1 % of the rows: knots are rows themselves


@pytest.mark.parametrize("target", ["onnx", "torch"])
def test_float32_is_left_where_it_would_tell_rows_apart_no_more(run, target):
    """Logits 1e-9 apart: in float32 they tie, and the first class wins."""
    need(target)
    rng = np.random.default_rng(1)
    z = np.stack([np.zeros(200), 1e-9 * rng.normal(size=200)], axis=1) + 8.0
    y = (rng.random(200) < 0.5).astype(int)
    with h5py.File("n.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    with h5py.File("f.h5", "w") as file:
        file["logits"], file["labels"] = truth(200, 2)
    assert run("fit", "-m", "ts", "f.h5", "-o", "a.json").code == 0
    out = ["-o", f"a{TARGETS[target].ending}", "--force", "--json"]
    plain = run("export", "a.json", *out, "--check", "f.h5")
    assert json.loads(plain.out)["input_type"] == "float32"
    done = run("export", "a.json", *out, "--check", "n.h5")
    assert json.loads(done.out)["input_type"] == "float64"
    assert "the export takes float64" in done.err


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("method", ["ts", "platt", "irova", "iop", "svs", "floor+ts"])
@pytest.mark.parametrize("k", [2, 5])
def test_an_export_counts_zeros_as_apply_does(target, method, k):
    need(target)
    z, y = truth(400, k, scale=3.0)
    p = np.round(softmax(z), 2)
    assert (p == 0).any() and (np.abs(p.sum(axis=1) - 1) > 1e-3).any() == (k > 2)
    fitted = calcli.fit(p, y, method, kind="probs")._artifact
    made = export(fitted, target)
    agreement = compare(made.run, fitted, p)
    assert made.agreement.holds and agreement.holds and agreement.rows == 400
    sure = np.eye(k)
    expected = calcli.api.FittedCalibrator(fitted).predict_proba(sure)
    np.testing.assert_allclose(made.run(sure)[0], expected, atol=1e-6)


def rounded_bundle(name, decimals, seed, k=3):
    """600 rows of k probabilities with so many decimals; None leaves them unrounded."""
    z, y = truth(600, k, seed=seed, scale=3.0)
    p = softmax(z)
    if decimals is not None:
        p = np.round(p, decimals)
    with h5py.File(name, "w") as file:
        file["probs"], file["labels"] = p, y
    return p


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fitted", [None, 2, 3])
@pytest.mark.parametrize("checked", [2, 3, 4])
@pytest.mark.parametrize("method", ["ts", "vs"])
def test_rows_may_be_rounded_otherwise_than_those_of_the_fit(
    run, method, checked, fitted, target
):
    """An export sees one row at a time, `apply` how a whole file was rounded. Ended in "please report this"."""
    need(target)
    rounded_bundle("f.h5", fitted, 1)
    p = rounded_bundle("c.h5", checked, 2)
    assert run("fit", "-m", method, "f.h5", "-o", "a.json").code == 0
    out = f"a{TARGETS[target].ending}"
    done = run("export", "a.json", "-o", out, "--check", "c.h5", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"] >= 600 + 289
    assert run("apply", "a.json", "c.h5", "-o", "d.h5").code == 0
    probs, _ = export(load("a.json"), target).run(p)
    with h5py.File("d.h5") as file:
        moves = np.abs(probs - file["probs"][()]).max(axis=1)
    others = np.count_nonzero(moves > 1e-6)
    assert (others > 0) == (fitted is None)
    assert (f"in {others:,} rows calcli apply differs" in done.err) == (fitted is None)


@pytest.mark.parametrize("method", ["vs", "iop", "cts", "ms"])
def test_sums_that_miss_one_by_a_last_digit_are_all_divided(method):
    """Sums of .999 and 1.001 lay on the edge of the rule: the order of the classes decided, in up to 1e-4 of p."""
    z, y = truth(600, 3, scale=3.0)
    p = np.round(softmax(z), 3)
    missed = (np.abs(p.sum(axis=1) - 1.0) > 1e-4) & (p.min(axis=1) > 0)
    assert np.count_nonzero(missed) > 50
    fitted = calcli.fit(p, y, method, kind="probs")
    exact = fitted.predict_proba(p)
    np.testing.assert_allclose(
        fitted.predict_proba(p.astype(np.float32)), exact, atol=1e-6
    )
    whole = fitted.predict_proba(p / p.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(exact[missed], whole[missed], rtol=0, atol=1e-12)
