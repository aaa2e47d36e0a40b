"""Classes that the scores expect and the calibration rows lack keep their probability."""

import json
import warnings

import numpy as np
import pytest

import calcli
from calcli.calibrator import Context
from calcli.errors import DataError
from calcli.exporting.exporting import export
from calcli.io.artifact import load
from calcli.methods._auto.candidates import lacking_classes
from calcli.numerics import softmax
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows
from calcli.statistics.units import Units

LAST = 3  # the class that is left out


def biased(n, seed, strength=1.0, spread=2.0):
    """Scores (n, 4) of a model that favours class 0 over class 1, too sharp by 1.5.

    Labels are drawn from the softmax of the scores without both faults.
    """
    rng = np.random.default_rng(seed)
    true = rng.standard_t(6, size=(n, 4)) * spread
    y = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
    offsets = strength * np.array([1.0, -1.0, 0.0, 0.0])
    return 1.5 * (true + offsets), y


def without_last(n, seed, **world):
    """The first n rows that are not of the last class."""
    z, y = biased(2 * n, seed, **world)
    kept = np.flatnonzero(y != LAST)[:n]
    assert len(kept) == n
    return z[kept], y[kept]


def fitted(z, y, name="auto", **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = calcli.fit(z, y, name, kind="logits", **options)
    return calibrator, [str(warning.message) for warning in caught]


def nll(calibrator, z, y):
    return -float(np.log(calibrator.predict_proba(z)[np.arange(len(y)), y]).mean())


# ---- the map


@pytest.mark.parametrize("name", ["svs", "sms"])
def test_a_held_class_keeps_the_probability_of_the_first_step(name):
    z, y = without_last(400, seed=3)
    rows = ArrayRows(z, y)
    options = parse_options(name, {})
    held = method(name).fit(rows, options, Context(held=(LAST,)))
    free = method(name).fit(rows, options, Context())
    assert not held.warnings
    assert "classes without calibration rows" in free.warnings[0]
    new, _ = biased(500, seed=4)
    block = next(iter(ArrayRows(new).blocks()))
    p = np.exp(held.calibrator.apply(block).log_probs)
    p_free = np.exp(free.calibrator.apply(block).log_probs)
    first_step = np.exp(held.calibrator.features(block))
    np.testing.assert_allclose(p[:, LAST], first_step[:, LAST], rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    # among themselves the others are as in the fit that holds nothing
    others = p[:, :LAST] / p[:, :LAST].sum(axis=1, keepdims=True)
    others_free = p_free[:, :LAST] / p_free[:, :LAST].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(others, others_free, rtol=1e-12)
    assert p_free[:, LAST].mean() < 0.5 * p[:, LAST].mean()


@pytest.mark.parametrize("held", [[4], [-1], [1, 1], [0, 1, 2, 3]])
def test_classes_that_cannot_be_held_are_refused(tmp_path, held):
    calibrator, _ = fitted(*without_last(300, seed=3), rule="best", candidates="svs")
    calibrator.save(tmp_path / "a.json")
    stored = json.loads((tmp_path / "a.json").read_text())
    stored["params"]["held"] = [LAST]
    (tmp_path / "good.json").write_text(json.dumps(stored))
    assert load(str(tmp_path / "good.json")).calibrator.held.tolist() == [LAST]
    stored["params"]["held"] = held
    (tmp_path / "bad.json").write_text(json.dumps(stored))
    with pytest.raises(DataError, match="held"):
        load(str(tmp_path / "bad.json"))


# ---- which classes lack


def lacking(z, y, units=None):
    return lacking_classes(ArrayRows(z, y, units=units))


def test_classes_lack_where_calibrated_scores_would_hardly_lack_them():
    """Ten classes of chance 1/10: one lacks from log(10 / .01) = 6.9 expected rows on, two of them from log(45 / .01) =
    8.4 on together; or from a share of .03 on."""
    z = np.zeros((60, 10))
    y = np.arange(60) % 10
    assert lacking(z, y) == []
    assert lacking(z, np.where(y == 9, 0, y)) == [9]  # .1 of all rows
    rare = z.copy()
    rare[:, 9] = -1.4  # .027 of all rows
    y = np.where(y == 9, 0, y)
    for copies, is_lacking in ((1, False), (4, False), (5, True)):
        expected = 60 * copies * softmax(rare)[0, 9]
        assert (expected > np.log(10 / 0.01)) == is_lacking
        many = np.tile(rare, (copies, 1)), np.tile(y, copies)
        assert lacking(*many) == ([9] if is_lacking else [])
    units = Units.of(np.tile(np.arange(60), 5))
    assert lacking(np.tile(rare, (5, 1)), np.tile(y, 5), units) == []


def test_several_classes_lack_together():
    z = np.zeros((420, 12))
    z[:, 9:] = -2.43  # .0095 each, 4.0 rows
    y = np.arange(420) % 9
    assert lacking(z, y) == [9, 10, 11]  # log(220 / .01) = 10.0 for 12.0 rows
    y[0] = 11
    assert lacking(z, y) == []  # log(66 / .01) = 8.8 for 8.0 rows


def test_no_class_of_two_lacks():
    assert lacking(np.zeros((50, 2)), np.zeros(50, dtype=int)) == []


# ---- auto


@pytest.mark.parametrize("n", [250, 1000, 2500])
def test_auto_corrects_the_others_and_loses_nothing_where_the_class_comes(n):
    """The bias among the others is corrected, in rows of all classes."""
    z, y = without_last(n, seed=n)
    auto, words = fitted(z, y)
    ts, _ = fitted(z, y, "ts")
    assert any("1 class has no row" in word and "(3)" in word for word in words)
    assert not any("predicted less" in word for word in words)
    new = biased(20_000, seed=1)
    assert nll(auto, *new) < nll(ts, *new) - 0.02


@pytest.mark.parametrize("n", [250, 1000, 2500])
def test_auto_of_a_good_model_is_no_worse_than_ts_where_the_class_comes(n):
    """In the mean over draws; learning that the class never comes costs some .2 nats."""
    new = biased(20_000, seed=2, strength=0.0, spread=3.0)
    gaps = []
    for seed in range(4):
        z, y = without_last(n, seed=100 + seed, strength=0.0, spread=3.0)
        gaps.append(nll(fitted(z, y)[0], *new) - nll(fitted(z, y, "ts")[0], *new))
    assert np.mean(gaps) < 0.002


def test_auto_gains_where_the_class_never_comes():
    z, y = without_last(1000, seed=5)
    new = without_last(10_000, seed=6)
    assert nll(fitted(z, y)[0], *new) < nll(fitted(z, y, "ts")[0], *new) - 0.05


def test_few_rows_do_not_show_that_a_class_never_comes():
    """Twelve rows: class biases would take the class for one that never comes."""
    new = biased(20_000, seed=7, strength=0.0, spread=3.0)
    gaps = []
    for seed in range(10):
        z, y = without_last(12, seed=200 + seed, strength=0.0, spread=3.0)
        auto, safe = fitted(z, y)[0], fitted(z, y, "ts", prior=0.25)[0]
        gaps.append(nll(auto, *new) - nll(safe, *new))
    assert np.mean(gaps) < 0.01


def test_named_candidates_are_fitted_as_they_are():
    z, y = without_last(600, seed=8)
    auto, words = fitted(z, y, candidates="ts, svs, ms")
    assert not any("move probability" in word for word in words)
    members = auto.to_dict()["params"]["members"]
    assert all("held" not in member["params"] for member in members)


@pytest.mark.parametrize("options", [{}, {"keep_argmax": False}, {"rule": "best"}])
def test_artifacts_and_exports_hold_the_class(tmp_path, options):
    z, y = without_last(700, seed=9)
    auto, _ = fitted(z, y, **options)
    auto.save(tmp_path / "a.json")
    new, _ = biased(300, seed=10)
    again = calcli.load(tmp_path / "a.json")
    np.testing.assert_array_equal(again.predict_proba(new), auto.predict_proba(new))
    text = (tmp_path / "a.json").read_text()
    assert '"held":[3]' in text.replace(" ", "")
    artifact = load(str(tmp_path / "a.json"))
    for target in ("python", "onnx"):
        assert export(artifact, target).agreement.holds


@pytest.mark.parametrize("name", ["auto+hb", "ft+auto"])
def test_auto_is_a_stage_all_the_same(name):
    z, y = without_last(600, seed=11)
    calibrator, words = fitted(z, y, name)
    assert any("move probability among the others only" in word for word in words)
    new, _ = biased(200, seed=12)
    np.testing.assert_allclose(calibrator.predict_proba(new).sum(axis=1), 1.0)
