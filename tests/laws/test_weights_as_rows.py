"""Whole weights stand for so many rows, and 0 for none: every metric and every method, with the exceptions and why."""

import warnings

import numpy as np
import pytest
from synthetic import predict, rows_of, truth
from test_laws import QUICK

from calcli.calibrator import Context
from calcli.metrics.catalog import measure, metric_names
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.registry import method, method_names, parse_options
from calcli.rows import ArrayRows

N = 300
TIMES = np.random.default_rng(3).integers(0, 4, N)

COUNTS_ROWS = "holds its sums against the number of rows, for which weights have the effective number"
METRICS_APART = {
    **dict.fromkeys(
        ["tce2", "cwece2", "ece_debiased"], f"subtracts the bias: {COUNTS_ROWS}"
    ),
    "spiegelhalter": "a z-statistic: of twice the rows it is sqrt(2) times as large",
    "tcal": "a test statistic of independent rows; weighted ones have none",
    "bound_printed": f"a bound that falls with the rows: {COUNTS_ROWS}",
    "bound_repaired": f"a bound that falls with the rows: {COUNTS_ROWS}",
    "aurc": "a mean over numbers of accepted rows; of weights it is the integral",
    "eaurc": "as aurc",
    "ici": "windows of the smoother hold a share of the rows",
    "e50": "as ici",
}
METHODS_APART = {
    **dict.fromkeys(
        ["dir-odir", "ms-odir", "ft", "svs", "sms", "mono", "mline", "prior"],
        f"a penalty or prior: {COUNTS_ROWS}",
    ),
    "logit-spline": f"a penalty: {COUNTS_ROWS}",
    "hoki": f"bins of few rows: {COUNTS_ROWS}",
    "venn-abers": "adds one more row, whose share is 1 / (effective rows + 1)",
    "auto": "cross-validates: copies of a row are held out together",
    "iop": "draws batches of rows",
}
WITHOUT_FIT = ("ts-by", "platt-by", "recal")
"""They need groups, or transforms of the rows; groups are held to a constant factor in test_weights.py."""


def measured(name, rows, ordered):
    context = MetricContext(
        collect(rows, class_bins=15),
        MetricSettings(resamples=20, ordered_levels=ordered),
    )
    return measure(name, context).value


def same(one, other):
    if one is None or other is None:
        return one is other
    return one == pytest.approx(other, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", [n for n in metric_names() if n not in METRICS_APART])
def test_a_weight_of_a_metric_is_so_many_rows(name, k):
    z, y = truth(N, k, seed=1)
    times = np.repeat(np.arange(N), TIMES)
    weighted = measured(name, ArrayRows(z, y, weight=TIMES), True)
    repeated = measured(name, ArrayRows(z[times], y[times]), True)
    assert same(weighted, repeated)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", metric_names())
def test_a_row_of_weight_0_is_no_row_of_a_metric(name, k):
    z, y = truth(N, k, seed=1)
    counted = TIMES > 0
    rows = ArrayRows(z, y, weight=TIMES).counted()  # as every command takes them
    alone = ArrayRows(z[counted], y[counted], weight=TIMES[counted])
    assert same(measured(name, rows, True), measured(name, alone, True))


def fitted(name, z, y, weight, new):
    """Probabilities of new rows under a fit."""
    rows = ArrayRows(z, y, weight=weight).counted()
    options = parse_options(name, QUICK.get(name, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = method(name).fit(rows, options, Context(seed=0)).calibrator
    return np.exp(predict(calibrator, rows_of(new, None))[0])


METHODS = [
    name
    for name in method_names()
    if method(name).laws.weights and name not in WITHOUT_FIT
]


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", [n for n in METHODS if n not in METHODS_APART])
def test_a_weight_of_a_fit_is_so_many_rows(name, k):
    z, y = truth(N, k, seed=1)
    new = truth(100, k, seed=5)[0]
    times = np.repeat(np.arange(N), TIMES)
    weighted = fitted(name, z, y, TIMES, new)
    repeated = fitted(name, z[times], y[times], None, new)
    # Searches end at a relative tolerance of 1e-10, at other sums of equal rows.
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-9)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", METHODS)
def test_a_row_of_weight_0_is_no_row_of_a_fit(name, k):
    z, y = truth(N, k, seed=1)
    new = truth(100, k, seed=5)[0]
    counted = TIMES > 0
    whole = fitted(name, z, y, TIMES, new)
    alone = fitted(name, z[counted], y[counted], TIMES[counted], new)
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-12)


def test_every_exception_is_one():
    """A metric or method that keeps the law after all leaves the list."""
    assert set(METRICS_APART) <= set(metric_names())
    assert set(METHODS_APART) <= set(METHODS)
    times = np.repeat(np.arange(N), TIMES)
    z, y = truth(N, 2, seed=1)
    for name in METRICS_APART:
        weighted = measured(name, ArrayRows(z, y, weight=TIMES), True)
        repeated = measured(name, ArrayRows(z[times], y[times]), True)
        assert not same(weighted, repeated), name
