"""Sample weights: a constant factor changes nothing, and equal weights are no weights."""

import warnings

import numpy as np
import pytest
from synthetic import predict, rows_of, truth
from test_laws import QUICK

import calcli
from calcli.calibrator import Context
from calcli.diagrams.curve import CurveSettings, measure_curve
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.json_output import result_json
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.io.bundle import open_bundle
from calcli.metrics.catalog import metric_names
from calcli.metrics.collect import collect
from calcli.metrics.settings import MetricSettings
from calcli.registry import method, method_names, parse_options
from calcli.rows import ArrayRows
from calcli.statistics.units import Units
from calcli.statistics.weights import effective_weights

CONSTANTS = (1e-9, 1 / 400, 3.0, 1e6)
BY_GROUP = {"ts-by": "ts", "platt-by": "platt"}
METHODS = [name for name in method_names() if name not in BY_GROUP]
WEIGHTS = np.random.default_rng(0).exponential(size=400)

ROOTS = 1e-10
"""Searches end at a relative tolerance of 1e-10; another rounding may take a step more."""


def fitted(name, z, y, weight):
    rows = rows_of(z, y, weight=weight)
    options = parse_options(name, QUICK.get(name, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method(name).fit(rows, options, Context(seed=0)).calibrator


# ---- methods


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", METHODS)
def test_a_factor_of_the_weights_changes_no_fit(name, k):
    z, y = truth(400, k)
    new = rows_of(truth(200, k, seed=5)[0], None)
    expected = np.exp(predict(fitted(name, z, y, WEIGHTS), new)[0])
    for factor in CONSTANTS:
        p = np.exp(predict(fitted(name, z, y, factor * WEIGHTS), new)[0])
        np.testing.assert_allclose(p, expected, rtol=0, atol=ROOTS)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", METHODS)
def test_equal_weights_are_no_weights_in_a_fit(name, k):
    z, y = truth(400, k)
    new = rows_of(truth(200, k, seed=5)[0], None)
    expected = predict(fitted(name, z, y, None), new)[0]
    for factor in CONSTANTS:
        log_p = predict(fitted(name, z, y, np.full(400, factor)), new)[0]
        np.testing.assert_array_equal(log_p, expected)


@pytest.mark.parametrize("name", BY_GROUP)
def test_a_factor_of_the_weights_changes_no_fit_by_group(name):
    z, y = truth(1200, 2)
    group, rng = np.arange(1200) % 4, np.random.default_rng(1)
    z = z * np.array([0.5, 0.8, 1.2, 2.0])[group][:, None]
    weight = rng.exponential(size=1200) * np.array([1.0, 5.0, 1.0, 0.2])[group]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            calcli.fit(z, y, BY_GROUP[name], weights=c * weight, groups=group)
            for c in (1.0, *CONSTANTS)
        ]
    first = fits[0].params
    assert fits[0].method == name
    for other in fits[1:]:
        assert other.method == name
        for key, value in first["groups"].items():
            assert other.params["groups"][key] == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("name", ["platt", "ts", "beta", "hb", "mline", "auto"])
def test_weights_that_sum_to_one_do_not_hand_the_fit_to_its_prior(name):
    """150 rows that are all right with weights 1/n: platt gave .667 for .993."""
    rng = np.random.default_rng(0)
    c = 1.0 - 10.0 ** -rng.uniform(1, 3, 150)
    z = np.log(np.stack([1.0 - c, c], axis=1))
    y = np.ones(150, dtype=int)
    plain, weighted = (fitted(name, z, y, w) for w in (None, np.full(150, 1 / 150)))
    p, q = (
        np.exp(predict(calibrator, rows_of(z, None))[0])
        for calibrator in (plain, weighted)
    )
    np.testing.assert_array_equal(p, q)
    if name == "platt":
        assert p[0, 1] == pytest.approx(151 / 152)  # (n + 1) / (n + 2)


def test_groups_with_weights_of_a_population_are_told_apart():
    """A group's prior is held against its own effective rows, not its share of the weight."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(3), 600)
    s = rng.normal(size=1800) * 2
    slope = np.array([0.4, 1.0, 2.0])[group]
    y = (rng.random(1800) < 1 / (1 + np.exp(-slope * s))).astype(int)
    weight = np.array([5000.0, 50.0, 1.0])[group]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = calcli.fit(s, y, "platt", weights=weight, groups=group)
    slopes = [fit.params["slope"] + fit.params["groups"][str(g)][0] for g in range(3)]
    assert fit.method == "platt-by"
    assert slopes == pytest.approx([0.4, 1.0, 2.0], abs=0.25)


# ---- metrics, tests and verdicts

NAMES = [n for n in metric_names() if n not in ("marginal2_raw", "mse_raw")]
"""All but those of calibrators that divide rows by their sums."""


def flat(content, path=()):
    """Every number and word of a JSON object, with its place."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from flat(value, (*path, key))
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from flat(value, (*path, place))
    else:
        yield path, content


def measured(k, weight, units):
    z, y = truth(400, k)
    rng = np.random.default_rng(2)
    known = Units.of(rng.integers(0, 60, 400)) if units else None
    rows = ArrayRows(z, y, weight=weight, units=known)
    subject = Subject(rows, group=np.arange(400) % 3, unit="unit" if units else None)
    settings = MetricSettings(resamples=60)
    plan = Plan(NAMES, settings, per_class=True, per_group=True)
    assessment = assess(subject, [Candidate(None, "uncalibrated", None)], plan)
    return dict(flat(result_json(assessment.results[0])))


def assert_same(result, expected):
    assert result.keys() == expected.keys()
    for path, value in expected.items():
        if isinstance(value, float):
            near = 1e-12
            if "split" in path:
                near = ROOTS  # of fits
            if expected.get((*path[:-1], "kind")) == "by_group":
                near = 1e-8  # a difference of fits, and its p-value: over its error
            assert result[path] == pytest.approx(value, rel=near, abs=near), path
        else:
            assert result[path] == value, path


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("k", [2, 4])
def test_a_factor_of_the_weights_changes_no_metric_test_or_verdict(k, units):
    whole = np.random.default_rng(4).choice([0.5, 1.0, 2.0, 3.0], size=400)
    for weight in (WEIGHTS, whole):
        expected = measured(k, weight, units)
        for factor in CONSTANTS:
            assert_same(measured(k, factor * weight, units), expected)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("k", [2, 4])
def test_equal_weights_are_no_weights_in_any_metric(k, units):
    expected = measured(k, None, units)
    for factor in CONSTANTS:
        assert_same(measured(k, np.full(400, factor), units), expected)


def test_a_threshold_and_a_curve_take_equal_weights_for_none():
    c = np.random.default_rng(5).uniform(0.5, 1.0, 600)
    y = (np.random.default_rng(6).random(600) < c).astype(int)
    tables = [
        collect(ArrayRows(c[:, None], y, "confidence", weight=w))
        for w in (None, np.full(600, 7.0), WEIGHTS[np.arange(600) % 400])
    ]
    settings = CurveSettings(resamples=50)
    plain, equal, weighted = (measure_curve("", t, settings) for t in tables)
    assert plain.outside == equal.outside and plain.ece_p == equal.ece_p
    np.testing.assert_array_equal(plain.band.low, equal.band.low)
    again = collect(
        ArrayRows(
            c[:, None], y, "confidence", weight=1e6 * WEIGHTS[np.arange(600) % 400]
        )
    )
    curve = measure_curve("", again, settings)
    np.testing.assert_allclose(curve.band.high, weighted.band.high, rtol=1e-12)


def test_a_file_s_weights_are_scaled_over_all_its_rows_and_files(tmp_path):
    import h5py

    z, y = truth(300, 3)
    weight = WEIGHTS[:300]
    for name, rows in (
        ("all", slice(0, 300)),
        ("a", slice(0, 100)),
        ("b", slice(100, 300)),
    ):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = z[rows], y[rows]
            file["weights"] = 1e3 * weight[rows]
    with open_bundle(str(tmp_path / "all.h5")) as rows:
        np.testing.assert_allclose(rows.weights(), effective_weights(weight))
        np.testing.assert_allclose(rows.given_weights, 1e3 * weight)
        assert rows.weights().sum() == pytest.approx(rows.effective_n)
    whole, parts = (
        calcli.fit([str(tmp_path / f"{name}.h5") for name in names], method="svs")
        for names in (["all"], ["a", "b"])
    )
    assert whole.params["scale"] == pytest.approx(parts.params["scale"], rel=1e-9)


def test_effective_weights_by_hand():
    # (10 + 30)^2 / (100 + 900) = 1.6 rows: 10 and 30 times 40 / 1000
    np.testing.assert_allclose(effective_weights(np.array([10.0, 30.0])), [0.4, 1.2])
    np.testing.assert_array_equal(effective_weights(np.array([5.0, 0, 5])), [1, 0, 1])
    assert effective_weights(np.full(4, 1e-9)) is None
    huge = effective_weights(np.array([1e300, 2e300]))
    np.testing.assert_allclose(huge, effective_weights(np.array([1.0, 2.0])))
