"""The option ``mixture``: a share of 1/(n+1) of the uniform distribution, so that no row can cost without end."""

import numpy as np
import pytest
from synthetic import truth

from calcli.calibrator import Context
from calcli.io.artifact_params import decode_params, encode_params
from calcli.numerics import log_softmax, mixed_with_uniform
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

METHODS = ["ts", "ets", "mono", "iop"]


def fit(name, z, y, **options):
    return (
        method(name)
        .fit(ArrayRows(z, y), parse_options(name, options), Context())
        .calibrator
    )


def log_probs(calibrator, z):
    return calibrator.apply(next(ArrayRows(z, block_rows=len(z)).blocks())).log_probs


def test_a_mixture_by_hand():
    """Nine tenths of (.75, .25) and a tenth of (.5, .5): (.725, .275)."""
    mixed = mixed_with_uniform(np.log([[0.75, 0.25]]), 0.1)
    assert np.exp(mixed) == pytest.approx(np.array([[0.725, 0.275]]), rel=1e-14)


@pytest.mark.parametrize("name", METHODS)
def test_it_mixes_in_one_row_of_the_uniform_distribution(name):
    z, y = truth(300, 4)
    plain, mixed = fit(name, z, y), fit(name, z, y, mixture="true")
    expected = np.exp(log_probs(plain, z)) * 300 / 301 + 1 / 301 / 4
    assert np.exp(log_probs(mixed, z)) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(log_probs(mixed, z).argmax(axis=1), z.argmax(axis=1))


@pytest.mark.parametrize("name", METHODS)
def test_one_wrong_row_costs_no_more_than_the_mixture_allows(name):
    """100 rows that are all right drive T to its bound; a wrong one then costs at most log(101 * 3)."""
    y = np.arange(100) % 3
    calibrator = fit(name, 8.0 * np.eye(3)[y], y, mixture="true")
    wrong = -log_probs(calibrator, np.array([[8.0, 0.0, 0.0]]))[0, 1]
    assert 2.0 < wrong <= np.log(101 * 3) + 1e-9


@pytest.mark.parametrize("name", METHODS)
def test_the_artifact_records_it_only_where_it_is_used(name):
    z, y = truth(200, 3)
    for options, recorded in (({}, False), ({"mixture": "true"}, True)):
        calibrator = fit(name, z, y, **options)
        params = encode_params(calibrator)
        assert ("uniform" in params) == (recorded and name != "ets")
        again = decode_params(type(calibrator), params, 3)
        np.testing.assert_array_equal(log_probs(again, z), log_probs(calibrator, z))


def test_the_default_of_ts_is_the_plain_softmax():
    z, y = truth(200, 3)
    calibrator = fit("ts", z, y)
    np.testing.assert_array_equal(
        log_probs(calibrator, z), log_softmax(z / calibrator.temperature)
    )
