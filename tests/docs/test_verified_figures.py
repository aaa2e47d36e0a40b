"""The measures behind reproductions/verified_calibration.py, against a float64 prototype written apart from it.

Its oracle values: Platt scaling on rows 0..999 of the file published with verified_calibration, bins of the
confidences of rows 1000..1999, error over rows 2000..9999; trial 0 draws 1000 rows with default_rng(0).
"""

import sys

import numpy as np
import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "reproductions"))

from verified import experiments, measures

L2 = {
    2: 0.006272,
    4: 0.008778,
    8: 0.010725,
    16: 0.022264,
    32: 0.025508,
    64: 0.026619,
    128: 0.030983,
}
L1 = {
    2: 0.006239,
    4: 0.007514,
    8: 0.008219,
    16: 0.014996,
    32: 0.015601,
    64: 0.016491,
    128: 0.018278,
}
SQUARE = {
    2: 2.60e-5,
    4: 5.23e-5,
    8: 7.20e-5,
    16: 4.13e-4,
    32: 4.90e-4,
    64: 3.88e-4,
    128: 3.13e-4,
    512: 5.45e-4,
}
PARTS = (slice(0, 1000), slice(1000, 2000), slice(2000, None))
BAR_128 = (0.0324, 0.0475)


@pytest.fixture(scope="module")
def rows(real):
    data = real("cifar10_vgg16_verified")
    return measures.Rows(
        np.log(np.maximum(data["probs"].astype(float), np.finfo(float).tiny)),
        data["labels"],
    )


def test_lower_bounds_and_bars(rows):
    sweep = (2, 4, 8, 16, 32, 64, 128, 512, 4096)
    row_of = {
        row["asked"]: row for row in experiments.lower_bound(rows, PARTS, 1, sweep)
    }
    for bins, value in (L2 | {512: 0.055031, 4096: 0.070480}).items():
        assert row_of[bins]["l2"] == pytest.approx(value, abs=6e-7)
    for bins, value in (L1 | {512: 0.027817, 4096: 0.033655}).items():
        assert row_of[bins]["l1"] == pytest.approx(value, abs=6e-7)
    for bins, value in SQUARE.items():
        assert row_of[bins]["debiased_square"] == pytest.approx(value, rel=3e-3)
    assert row_of[4096]["bins"] == 1000


def test_bars_of_a_thousand_resamples_may_lie_above_the_estimate(rows):
    (bound,) = experiments.lower_bound(rows, PARTS, 1000, (128,))
    assert bound["percentile"] == pytest.approx(BAR_128, abs=6e-5)
    assert bound["l2"] < bound["percentile"][0]


def test_a_trial_draws_a_thousand_rows_with_replacement_and_measures_on_all(rows):
    error, difference = experiments.one_trial(rows, None, 0, "platt, shared", 10, "top")
    assert (error, difference) == pytest.approx((3.920015e-4, 0.044469), rel=2e-5)
    error, difference = experiments.one_trial(
        rows, None, 0, "histogram binning", 10, "top"
    )
    assert (error, difference) == pytest.approx((5.060257e-5, 0.044130), rel=2e-5)


def test_own_values_are_those_that_the_division_has_not_touched(rows):
    few = rows.at(slice(0, 1000))
    for options in ({}, {"base": "temperature"}):
        calibrator = experiments.fitted(few, "sb", mode="marginal", bins=10, **options)
        our_values = measures.own_values(calibrator, few)
        assert calibrator.predict_proba(few.z) == pytest.approx(
            our_values / our_values.sum(axis=1, keepdims=True), abs=1e-9
        )
        assert np.ptp(our_values.sum(axis=1)) > 0.1


def test_multinomial_estimates_have_the_expectation_of_the_plugin(rows):
    """E plugin = truth + sum over values of their variance / n: 6.96e-4 with 15 bins and 2000 rows."""
    estimates = experiments.estimators(rows, 1000, sizes=(2000,))
    assert estimates[0]["truth"] == pytest.approx(3.826e-4, rel=2e-4)
    assert estimates[1]["truth_debiased"] == pytest.approx(5.071e-4, rel=2e-4)
    error = np.std(estimates[0]["plugin"]["values"]) / np.sqrt(1000)
    assert estimates[0]["plugin"]["mean"] == pytest.approx(6.96e-4, abs=3 * error)
