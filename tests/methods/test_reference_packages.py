"""Numbers of other packages on rows that are drawn here, so that a clone without any data checks them.

400 rows of five classes to fit to, 200 to measure on. uncertainty-calibration 0.1.4 (calibrators of (400, 10)) and
betacal 1.1.0 (on the confidence) with NumPy 2.4.6 and scikit-learn 1.9.1, their LogisticRegression replaced by its
optimum (no penalty, newton-cholesky, tol 1e-12), as lbfgs at their tolerance stops 1e-5 short of it.
"""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression as SklearnIsotonic
from synthetic import fit, truth

from calcli.numerics import softmax
from calcli.rows import ArrayRows

Z, Y = truth(600, 5, seed=21)
FIT, TEST = ArrayRows(Z[:400], Y[:400]), ArrayRows(Z[400:], Y[400:])
HIT = Z.argmax(axis=1) == Y


def calibrated(name, **options):
    """The fitted calibrator, and the rows of the test through it."""
    fitted = fit(name, FIT, **options)
    return fitted.calibrator, fitted.calibrator.apply(next(iter(TEST.blocks())))


@pytest.mark.parametrize(
    ("name", "options", "mean", "squared"),
    [
        (
            "platt",
            {},
            0.5989178331361039,
            0.21613652154619595,
        ),  # PlattTopCalibrator; betacal's "am"
        (
            "sb",
            {"bins": 10},
            0.5967966843444114,
            0.21849177734786018,
        ),  # PlattBinnerTopCalibrator
        (
            "hb",
            {"bins": 10, "scheme": "mass"},
            0.598,
            0.22642500000000002,
        ),  # HistogramTopCalibrator
        ("beta", {}, 0.5997466510722185, 0.2165424863695041),  # BetaCalibration("abm")
        ("beta", {"variant": "am"}, 0.5989178331361039, 0.2161365215461959),
        ("beta", {"variant": "ab"}, 0.6454711460100719, 0.22354757949113202),
    ],
)
def test_confidences_equal_those_of_the_package(name, options, mean, squared):
    _, predictions = calibrated(name, **options)
    np.testing.assert_array_equal(predictions.label, Z[400:].argmax(axis=1))
    assert predictions.confidence.mean() == pytest.approx(mean, rel=1e-12)
    assert ((predictions.confidence - HIT[400:]) ** 2).mean() == pytest.approx(
        squared, rel=1e-12
    )


def test_beta_has_the_parameters_of_betacal():
    """BetaCalibration("abm").calibrator_.map_, whose third is the confidence m at which the map gives 1/2.

    betacal searches m with scipy's bounded minimiser, to 1e-5.
    """
    a, b, m = 0.6321961116341389, 0.8660103775841507, 0.6206007113173289
    fitted, _ = calibrated("beta")
    c = b * np.log(1 - m) - a * np.log(m)
    np.testing.assert_allclose([fitted.a[0], fitted.b[0]], [a, b], rtol=1e-9)
    np.testing.assert_allclose(fitted.c[0], c, rtol=1e-5)


def test_isotonic_regression_equals_scikit_learn():
    p = softmax(Z)
    oracle = SklearnIsotonic(out_of_bounds="clip").fit(p[:400].max(axis=1), HIT[:400])
    _, predictions = calibrated("ir")
    np.testing.assert_allclose(
        predictions.confidence, oracle.predict(p[400:].max(axis=1)), atol=1e-12
    )
    by_class, _ = calibrated("ir", mode="ova")
    classes = zip(p[:400].T, p[400:].T, np.eye(5)[Y[:400]].T, strict=True)
    expected = [
        SklearnIsotonic(out_of_bounds="clip").fit(p_of_class, hit).predict(new_p)
        for p_of_class, new_p, hit in classes
    ]
    np.testing.assert_allclose(
        by_class.marginals(next(iter(TEST.blocks()))), np.array(expected).T, atol=1e-12
    )
