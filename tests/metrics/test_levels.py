"""Metrics of ordered classes: by their definitions, and only where classes are ordered."""

import json

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, softmax

import calcli
from calcli.errors import DataError
from calcli.io.bundle import open_bundle
from calcli.metrics.catalog import measure, report_metrics
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows
from calcli.statistics.units import Units

LEVELS = ("rps", "level_bias", "level_error", "within_one")


def rated(n=400, k=5, seed=0):
    """Probabilities of levels that lie near each other, and levels drawn from them."""
    rng = np.random.RandomState(seed)
    centre = rng.uniform(0, k - 1, n)[:, None]
    p = softmax(-((np.arange(k) - centre) ** 2))
    return p, draw_labels(p, rng)


def context(p, y, units=None, ordered=True):
    rows = ArrayRows(p, y, "probs", units=units)
    settings = MetricSettings(ordered_levels=ordered)
    return MetricContext(collect(rows), settings, lambda: class_columns(rows))


def test_values_are_their_definitions():
    p, y = rated()
    level = np.arange(5)
    expected = p @ level
    cumulative = np.cumsum(p, axis=1)[:, :4]
    reached = (y[:, None] <= level[:4]).astype(float)
    rows = context(p, y)
    values = {name: measure(name, rows).value for name in LEVELS}
    assert values["rps"] == pytest.approx(((cumulative - reached) ** 2).mean())
    assert values["level_bias"] == pytest.approx((expected - y).mean())
    assert values["level_error"] == pytest.approx(np.abs(expected - y).mean())
    near = np.abs(p.argmax(axis=1) - y) <= 1
    assert values["within_one"] == pytest.approx(near.mean())


def test_the_ranked_score_of_two_levels_is_the_brier_score_of_one():
    p, y = rated(k=2)
    value = measure("rps", context(p, y)).value
    assert value == pytest.approx(((p[:, 1] - y) ** 2).mean())


def test_the_bias_is_tested_and_has_an_interval():
    """Levels stated one half too high: rejected; as they are: not."""
    p, y = rated(1000)
    calibrated = measure("level_bias", context(p, y))
    assert calibrated.p_value > 0.01
    assert calibrated.interval.holds(0.0)
    shifted = np.concatenate([np.zeros((1000, 1)), p[:, :-1]], axis=1)
    shifted[:, -1] += p[:, -1]
    higher = 0.5 * (p + shifted)
    biased = measure("level_bias", context(higher, y))
    assert biased.value > 0.2
    assert biased.p_value < 1e-6
    assert biased.interval.low > 0.0


def test_the_level_of_the_test_of_the_bias():
    """Calibrated levels: at most 18 of 200 p-values below .05 (binomial, p < .005)."""
    below = sum(
        measure("level_bias", context(*rated(100, seed=seed))).p_value <= 0.05
        for seed in range(200)
    )
    assert 2 <= below <= 18


def test_units_widen_the_intervals():
    p, y = rated(300)
    twice = np.repeat(np.arange(300), 2)
    units = Units.of(twice)
    for name in LEVELS:
        once = measure(name, context(p, y))
        doubled = measure(name, context(p[twice], y[twice], units))
        assert doubled.value == pytest.approx(once.value)
        assert doubled.se == pytest.approx(once.se, rel=0.01)


def test_classes_without_order_say_so():
    value = measure("rps", context(*rated(), ordered=False))
    assert value.value is None
    assert "attribute ordered = 1" in value.reason


def test_the_report_of_ordered_classes_has_them():
    assert set(report_metrics(k=5, ordered=True)) - set(report_metrics(k=5)) == {
        *LEVELS
    }
    p, y = rated()
    scores = calcli.evaluate(p, y, kind="probs", ordered_levels=True).results[0].scores
    assert set(LEVELS) <= set(scores)
    assert not set(LEVELS) & set(calcli.evaluate(p, y, kind="probs").results[0].scores)


def write(path, ordered):
    p, y = rated()
    with h5py.File(path, "w") as file:
        file["probs"], file["labels"] = p, y
        if ordered is not None:
            file.attrs["ordered"] = ordered


@pytest.mark.parametrize(
    ("ordered", "expected"),
    [(1, True), (0, False), (None, False), ("1", True), (np.bool_(True), True)],
)
def test_a_bundle_says_whether_its_classes_are_ordered(tmp_path, ordered, expected):
    write(tmp_path / "rated.h5", ordered)
    with open_bundle(str(tmp_path / "rated.h5")) as rows:
        assert rows.ordered is expected


def test_an_attribute_that_says_neither_is_refused(tmp_path):
    write(tmp_path / "rated.h5", "low to high")
    opened = open_bundle(str(tmp_path / "rated.h5"))
    with pytest.raises(DataError, match="attribute ordered is 'low to high'"), opened:
        pass


def test_the_command_measures_applies_and_inspects(tmp_path, monkeypatch, capsys):
    from run_calcli import runner

    run = runner(monkeypatch, capsys)
    path, fitted, out = (tmp_path / name for name in ("r.h5", "ts.json", "out.h5"))
    write(path, 1)
    metrics = json.loads(run("evaluate", path, "--json").out)["results"][0]["metrics"]
    assert set(LEVELS) <= set(metrics)
    assert run("fit", "--method", "ts", path, "-o", fitted).code == 0
    assert run("apply", fitted, path, "-o", out).code == 0
    inspected = json.loads(run("inspect", out, "--json").out)["bundles"][0]
    assert inspected["ordered"] is True
