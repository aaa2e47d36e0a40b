"""Lowess: its definition written plainly, and what statsmodels computes."""

import numpy as np
import pytest

from calcli.statistics.lowess import Lowess


def smoothed(x, y, weight=None):
    """Smoothed outcomes of rows in any order, ties together."""
    w = np.ones(len(x)) if weight is None else weight
    points, place = np.unique(x, return_inverse=True)
    smoother = Lowess.of(points, np.bincount(place, w).astype(float))
    return smoother.smooth(np.bincount(place, w * y).astype(float))[place]


def plainly(x, y):
    """R's lowess(x, y, iter = 0, delta = 0): a weighted regression for every row."""
    nearest = max(2, int(2.0 / 3.0 * len(x) + 1e-7))
    fits = []
    for centre in x:
        distance = np.abs(x - centre)
        width = np.sort(distance)[nearest - 1]
        share = np.minimum(distance / width, 1.0)
        kernel = (1.0 - share**3) ** 3
        kernel[share <= 0.001] = 1.0
        kernel[share > 0.999] = 0.0
        root = np.sqrt(kernel)
        design = np.stack([root, root * (x - centre)], axis=1)
        fits.append(np.linalg.lstsq(design, root * y, rcond=None)[0][0])
    return np.array(fits)


@pytest.mark.parametrize("n", [8, 60, 150])
def test_every_point_is_a_local_regression(n, monkeypatch):
    """With no distance between fitted points, so that nothing is interpolated."""
    monkeypatch.setattr("calcli.statistics.lowess.STEP", 0.0)
    rng = np.random.RandomState(n)
    x = rng.beta(1.0, 3.0, n)
    y = (rng.random_sample(n) < x).astype(float)
    assert smoothed(x, y) == pytest.approx(plainly(x, y), abs=1e-11)


def test_summaries_equal_those_of_statsmodels():
    """statsmodels 0.15.0: lowess(y, p, frac=2/3, it=0, delta=.01 * range).

    Mean, median, 90 % quantile and maximum of |p - lowess|. Its regressions differ from
    the plain ones above by up to 2e-7, ours by 1e-15.
    """
    rng = np.random.RandomState(20)
    log_odds = rng.normal(-1.0, 1.5, 400)
    rng.randint(0, 45, 400)
    rng.gamma(2.0, 0.5, 400)
    chance = 1.0 / (1.0 + np.exp(-(0.4 + 0.7 * log_odds)))
    y = (rng.random_sample(400) < chance).astype(float)
    p = 1.0 / (1.0 + np.exp(-log_odds))
    errors = np.abs(p - smoothed(p, y))
    summary = [errors.mean(), np.median(errors), np.quantile(errors, 0.9), errors.max()]
    expected = [
        0.10622733358066347,
        0.13144507262859947,
        0.15342016109348408,
        0.15988987570262303,
    ]
    assert summary == pytest.approx(expected, abs=3e-7)


def test_many_outcomes_are_smoothed_at_once():
    rng = np.random.RandomState(1)
    x = np.sort(rng.random_sample(300))
    outcomes = (rng.random_sample((5, 300)) < x).astype(float)
    smoother = Lowess.of(x, np.ones(300))
    together = smoother.smooth(outcomes)
    for one, expected in zip(outcomes, together, strict=True):
        assert smoother.smooth(one) == pytest.approx(expected, abs=1e-14)


def test_a_line_is_reproduced():
    x = np.linspace(0.1, 0.9, 50) ** 2
    assert smoothed(x, 0.2 + 0.5 * x) == pytest.approx(0.2 + 0.5 * x, abs=1e-12)


def test_whole_weights_are_repeated_rows():
    rng = np.random.RandomState(2)
    x = rng.random_sample(80)
    y = (rng.random_sample(80) < x).astype(float)
    weight = rng.randint(1, 4, 80)
    repeated = np.repeat(np.arange(80), weight)
    first = np.concatenate([[0], np.cumsum(weight)[:-1]])
    expected = smoothed(x[repeated], y[repeated])[first]
    assert smoothed(x, y, weight.astype(float)) == pytest.approx(expected, abs=1e-12)
