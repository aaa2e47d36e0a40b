"""The same rows in any order, in any shards, under any names of their units: the same calibrator."""

import json

import h5py
import numpy as np
import pytest
from synthetic import fit, predict, rows_of, truth

import calcli
from calcli.block import Codes
from calcli.rows import ArrayRows
from calcli.statistics.units import Units

N = 600
FOLDED = {
    "auto": {},
    "auto+hb": {},
    "auto best": {"rule": "best"},
    "svs": {"lambda": "cv"},
    "sms": {"lambda": "cv"},
    "dir-odir": {"folds": "2"},
    "ms-odir": {"folds": "2", "final": "refit"},
    "iop": {"variant": "oi", "epochs": "3", "hidden": "8"},
    "iop op": {"variant": "op", "epochs": "3", "hidden": "8"},
    "sb": {},
    "hoki": {"select": "cv-nll"},
}
"""Methods that cut the rows into parts, with options that make them do so."""


def fitted(name, rows):
    return fit(name.split()[0], rows, **FOLDED[name]).calibrator


def biased(k, n=N, seed=3):
    """Logits of a model with one temperature, and of some classes too high."""
    z, y = truth(n, k, seed=seed)
    return z + np.linspace(-0.7, 0.7, k), y


def gap(one, other, z, kind="logits"):
    """Largest difference of a probability between two calibrators."""
    a, b = (np.exp(predict(c, ArrayRows(z, None, kind))[0]) for c in (one, other))
    return np.abs(a - b).max()


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", FOLDED)
def test_shuffled_rows_give_the_same_calibrator(name, k):
    z, y = biased(k)
    order = np.random.default_rng(5).permutation(N)
    one = fitted(name, rows_of(z, y))
    other = fitted(name, ArrayRows(z[order], y[order], block_rows=41))
    assert gap(one, other, z) < 1e-6


@pytest.mark.parametrize("name", ["auto", "svs", "sms", "iop", "sb", "hoki"])
def test_units_in_another_order_and_under_other_names_too(name):
    """Thirty units of twenty rows; their names decide neither folds nor fits."""
    z, y = biased(3)
    unit = np.arange(N) // 20
    rng = np.random.default_rng(6)
    one = fitted(name, ArrayRows(z, y, units=Units.of(unit)))
    for names in (rng.permutation(30), np.array([f"patient {i}" for i in range(30)])):
        order = rng.permutation(N)
        units = Units.of(names[unit][order])
        other = fitted(name, ArrayRows(z[order], y[order], units=units))
        assert gap(one, other, z) < 1e-6


def test_weights_go_with_their_rows():
    z, y = biased(3)
    weight = np.random.default_rng(7).exponential(size=N)
    order = np.random.default_rng(8).permutation(N)
    one = fitted("auto", ArrayRows(z, y, weight=weight))
    other = fitted("auto", ArrayRows(z[order], y[order], weight=weight[order]))
    assert gap(one, other, z) < 1e-6


def test_many_classes_too():
    """Beyond the size at which only some folds are held out and a sample comes first."""
    rng = np.random.default_rng(9)
    n, k = 12_000, 200
    z = 2.0 * rng.normal(size=(n, k))
    z[np.arange(n), rng.integers(0, k, n)] += 7.0
    y = (0.7 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    order = rng.permutation(n)
    names = "ts, mono, iop, ft+svs"
    one = fit("auto", ArrayRows(z, y), candidates=names)
    other = fit("auto", ArrayRows(z[order], y[order]), candidates=names)
    assert one.details["auto"]["predictions"]["rows"] < n
    assert gap(one.calibrator, other.calibrator, z[:500]) < 1e-6


def test_confidences_too():
    rng = np.random.default_rng(2)
    said = rng.beta(5, 2, N)
    right = (rng.random(N) < said**1.5).astype(int)
    order = rng.permutation(N)
    for values in (said, np.round(said, 1)):
        one = calcli.fit(values, right, kind="confidence")
        other = calcli.fit(values[order], right[order], kind="confidence")
        pair = [c.predict_proba(values)[:, 1] for c in (one, other)]
        np.testing.assert_allclose(*pair, atol=1e-6)


@pytest.mark.parametrize("method", ["ts", "platt"])
def test_by_group_too(method):
    """By group, the choice between one map and one per group rests on folds."""
    z, y = biased(2)
    group = np.random.default_rng(4).integers(0, 6, N)
    order = np.random.default_rng(5).permutation(N)
    one = calcli.fit(z, y, method, groups=group)
    other = calcli.fit(z[order], y[order], method, groups=group[order])
    assert one.method == other.method
    pair = [c.predict_proba(z, groups=group) for c in (one, other)]
    np.testing.assert_allclose(*pair, atol=1e-6)


def test_shards_and_one_file_give_the_same(run):
    z, y = biased(3)
    order = np.random.default_rng(1).permutation(N)
    for name, index in (
        ("whole", np.arange(N)),
        ("a", order[:170]),
        ("b", order[170:]),
    ):
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = z[index], y[index]
    assert run("fit", "whole.h5", "-o", "whole.json", "-q").code == 0
    assert run("fit", "b.h5", "a.h5", "-o", "parts.json", "-q").code == 0
    pair = [calcli.load(f"{name}.json").predict_proba(z) for name in ("whole", "parts")]
    np.testing.assert_allclose(*pair, atol=1e-6)


def test_figures_that_rest_on_folds_are_the_same_too(run):
    """``compare``, and the cross-fitted split of the report."""
    z, y = biased(3)
    order = np.random.default_rng(1).permutation(N)
    compared, split = [], []
    for name, index in (("one", np.arange(N)), ("two", order)):
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = z[index], y[index]
        done = run("compare", f"{name}.h5", "-m", "ts,svs,platt", "--json")
        results = json.loads(done.out)["results"]
        compared.append([result["metrics"]["nll"]["value"] for result in results])
        report = calcli.evaluate(z[index], y[index]).results[0].report
        split.append(report.facts.decomposition.nll.calibration)
    np.testing.assert_allclose(*compared, rtol=1e-7)
    assert split[0] == pytest.approx(split[1], rel=1e-7)


def test_two_models_of_the_same_rows_are_compared_in_the_same_folds(run):
    """Folds follow the baseline's rows: its own methods beside it differ in nothing."""
    z, y = biased(3)
    other = z + 0.5 * np.random.default_rng(2).normal(size=z.shape)
    for name, scores in (("one", z), ("two", other)):
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = scores, y
    done = run("compare", "two.h5", "-m", "ts", "--baseline-bundle", "one.h5", "--json")
    assert done.code == 0, done.err
    output = json.loads(done.out)
    alone = json.loads(run("compare", "one.h5", "-m", "ts", "--json").out)
    nll = {
        (result["bundle"], result["method"]): result["metrics"]["nll"]["value"]
        for result in (*output["results"], *alone["results"])
    }
    difference = output["differences"][-1]["metrics"]["nll"]["value"]
    expected = nll["two.h5", "ts"] - nll["one.h5", "ts"]
    assert difference == pytest.approx(expected, abs=1e-12)


def test_intervals_that_are_resampled_are_the_same_too():
    """Resamples were drawn by position, so that shuffled rows had other intervals."""
    z, y = biased(3)
    order = np.random.default_rng(1).permutation(N)
    pair = []
    for index in (np.arange(N), order):
        metrics = calcli.evaluate(z[index], y[index]).to_dict()["results"][0]["metrics"]
        assert metrics["nll"]["ci_method"] == "bootstrap-t"
        pair.append([metrics[name]["ci"] for name in ("nll", "brier", "brier_top")])
    np.testing.assert_allclose(*pair, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("method", ["ts-by", "platt-by"])
def test_small_units_with_tied_scores_too(method, weighted):
    """Units alike in scores and labels were dealt in the order of the file, whatever their groups and weights: in 4 of
    48 such fits another calibrator, by up to 0.14 in a probability."""
    differences = []
    for seed in (1, 3, 6):
        rng = np.random.default_rng(seed)
        z = np.round(rng.normal(size=(240, 2)) * 1.5)
        group = rng.integers(0, 4, 240)
        temperature = np.array([0.6, 1.0, 1.8, 3.0])[group]
        rng.gumbel(size=(240, 2))
        unit = np.sort(rng.integers(0, 120, 240))
        y = (z / temperature[:, None] + rng.gumbel(size=(240, 2))).argmax(axis=1)
        weight = np.round(rng.exponential(size=240)) + 0.5
        fits = []
        for order in (np.arange(240), *(rng.permutation(240) for _ in range(3))):
            rows = ArrayRows(
                z[order],
                y[order],
                weight=weight[order] if weighted else None,
                units=Units.of(rng.permutation(120)[unit][order]),
            )
            rows.columns = {"group": Codes.of(group[order])}
            fits.append(fit(method, rows, by="group").calibrator)
        test = ArrayRows(z, None, "logits")
        test.columns = {"group": Codes.of(group)}
        probs = [np.exp(predict(fitted, test)[0]) for fitted in fits]
        differences += [np.abs(p - probs[0]).max() for p in probs[1:]]
    # The variance between groups is found to 1e-4 of itself.
    assert max(differences) < 1e-5
