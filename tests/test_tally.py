"""Sums say what the table of all rows says."""

import math

import numpy as np
import pytest

from calcli.evaluation import assess as module
from calcli.evaluation.assess import Candidate, Plan, Subject, assess
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.catalog import metric, metric_names
from calcli.metrics.context import MetricSettings
from calcli.metrics.tally import BY_SUMS, tallies_suffice
from calcli.rows import ArrayRows

NAMES = [name for name in metric_names() if name in BY_SUMS or metric(name).rows is not None]
CANDIDATES = [Candidate(None, "uncalibrated", None), Candidate("ts", "ts", TemperatureScaling(1.4, 0.0))]


def rows(n=70_000, k=10):
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(n, k)) * 2, rng.integers(0, k, n)
    z[np.arange(n), y] += rng.gamma(4.0, 1.0, n)
    return ArrayRows(z.astype(np.float32), y, block_rows=1000)


def both(monkeypatch, names, candidates):
    plan = Plan(names, MetricSettings(interval="t"), report=False)
    whole = assess(Subject(rows(), "a", None, None), candidates, plan).results
    monkeypatch.setattr(module, "LONG", 1000)
    done = assess(Subject(rows(), "a", None, None), candidates, plan)
    assert not done.tables, "the table was made after all"
    return whole, done.results


@pytest.mark.parametrize(
    ("names", "candidates"), [(NAMES, CANDIDATES[:1]), (NAMES, CANDIDATES), (["ece", "mce"], CANDIDATES[:1])]
)
def test_sums_say_what_the_table_says(monkeypatch, names, candidates):
    for table, sums in zip(*both(monkeypatch, names, candidates), strict=True):
        for name in names:
            a, b = table.scores[name].value, sums.scores[name].value
            assert math.isclose(a, b, rel_tol=1e-11, abs_tol=1e-13), (name, a, b)
            assert table.scores[name].signature == sums.scores[name].signature
    if len(candidates) > 1:
        for name, a in table.paired.differences.items():
            b = sums.paired.differences[name]
            assert math.isclose(a.value, b.value, rel_tol=1e-10) and math.isclose(a.p_value, b.p_value, abs_tol=1e-12)


def test_intervals_and_nulls_agree(monkeypatch):
    """Intervals to rounding; nulls are drawn otherwise, so to a few standard errors of a thousand draws."""
    (table, *_), (sums, *_) = both(monkeypatch, ["accuracy", "nll", "ece", "mce", "smece", "gap"], CANDIDATES[:1])
    for name in ("accuracy", "nll", "ece", "gap"):
        a, b = table.scores[name].interval, sums.scores[name].interval
        assert np.allclose([a.low, a.high], [b.low, b.high], rtol=1e-9) and a.method == b.method
    for name in ("ece", "mce", "smece"):
        a, b = table.scores[name].null, sums.scores[name].null
        # Standard deviations of these errors under calibration are below half of their means.
        assert abs(a.mean / b.mean - 1) < 0.15 and abs(a.q95 / b.q95 - 1) < 0.25


def test_what_sums_do_not_know_keeps_the_table():
    assert tallies_suffice(["ece", "nll"], MetricSettings())
    for name in ("ece_mass", "auroc", "ks", "tce2", "aurc"):
        assert not tallies_suffice([name], MetricSettings())
    assert not tallies_suffice(["ece"], MetricSettings(label="class"))
    assert not tallies_suffice(["ece"], MetricSettings(scheme="mass"))
    assert not tallies_suffice(["nll"], MetricSettings(interval="bootstrap"))
