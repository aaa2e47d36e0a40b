"""Intervals of the gap of every class, against those of each class by itself."""

import numpy as np
import pytest
from synthetic import truth

from calcli.metrics.class_intervals import class_gap_intervals
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import gap_interval
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows
from calcli.statistics.units import Units


def probabilities(z):
    return np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_each_class_has_the_interval_of_two_classes(level):
    """One against the rest, as ``gap_interval`` has it; the last class has three rows."""
    z, y = truth(400, 6, temperature=1.7)
    rare = np.flatnonzero(y == 5)
    y[rare[3:]] = 0
    low, high = class_gap_intervals(collect(ArrayRows(z, y), class_bins=15), level)
    p = probabilities(z)
    methods = []
    for c in range(6):
        pair = np.log(np.stack([1.0 - p[:, c], p[:, c]], axis=1))
        table = collect(ArrayRows(pair, (y == c).astype(int)))
        context = MetricContext(table, MetricSettings(level=level))
        expected = gap_interval(context.labelled("positive"))
        methods.append(expected.method)
        assert low[c] == pytest.approx(expected.low, abs=1e-12)
        assert high[c] == pytest.approx(expected.high, abs=1e-12)
    assert methods == ["t"] * 5 + ["clopper-pearson"]


@pytest.mark.parametrize("case", ["weights", "units", "one row", "no class sums"])
def test_there_is_none_where_it_would_not_hold(case):
    z, y = truth(60, 4)
    weight = np.linspace(0.5, 1.5, 60) if case == "weights" else None
    n = 1 if case == "one row" else 60
    units = Units.of(np.arange(60) // 3) if case == "units" else None
    rows = ArrayRows(z[:n], y[:n], weight=weight, units=units)
    table = collect(rows, class_bins=0 if case == "no class sums" else 15)
    assert class_gap_intervals(table, 0.95) is None
