"""Ensemble temperature scaling: oracle row, exact weights, certificates, degenerate data."""

import numpy as np
import pytest
from synthetic import predict, truth

from calcli.binning import BinStats, width_edges
from calcli.calibrator import Context
from calcli.methods.ets import (
    LEAST_ORDER,
    EnsembleTemperatureOptions,
    EnsembleTemperatureScaling,
    brier_moments,
    label_shares,
    likeliest_weights,
    simplex_minimum,
)
from calcli.numerics import softmax
from calcli.rows import ArrayRows


def fit(rows, loss="brier"):  # the published loss; ours is the NLL unless asked
    return EnsembleTemperatureScaling.fit(
        rows, EnsembleTemperatureOptions(loss=loss), Context()
    )


@pytest.mark.data
def test_cifar100_resnet20_matches_the_official_program(resnet20):
    # Weights: Mix-n-Match's ensemble_scaling (SLSQP, squared error, scipy 1.17) at the MSE temperature,
    # run on these rows: .95799 .03466 .00735. Scores on the test half from the same run.
    z, y, z_test, y_test = resnet20
    fitted = fit(ArrayRows(z, y))
    assert fitted.status == "ok"
    assert fitted.calibrator.temperature == pytest.approx(1.437967, abs=5e-7)
    np.testing.assert_allclose(
        fitted.calibrator.weights, [0.95799, 0.03466, 0.00735], atol=5e-6
    )
    log_p, label = predict(fitted.calibrator, ArrayRows(z_test, y_test))
    p, here = np.exp(log_p), np.arange(len(y_test))
    assert (label != y_test).mean() == pytest.approx(0.3154, abs=5e-5)
    assert -log_p[here, y_test].mean() == pytest.approx(1.12772, abs=5e-6)
    assert ((p - np.eye(100)[y_test]) ** 2).sum(axis=1).mean() == pytest.approx(
        0.42769, abs=5e-6
    )
    stats = BinStats.of(p.max(axis=1), (label == y_test).astype(float), width_edges(15))
    assert np.abs(stats.gaps) @ stats.share == pytest.approx(0.01742, abs=5e-6)
    assert np.abs(stats.gaps).max() == pytest.approx(0.10559, abs=5e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_quadratic_programme_is_solved_exactly(seed):
    # The Karush-Kuhn-Tucker conditions of a convex problem are sufficient: no outside solver needed.
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(3, rng.integers(1, 4)))
    gram, hits = (
        half @ half.T,
        half @ rng.normal(size=half.shape[1]) * rng.choice([0.1, 1.0, 5.0]),
    )
    w = simplex_minimum(gram, hits)
    slope = 2 * (gram @ w - hits)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1, abs=1e-14)
    assert w @ slope - slope.min() <= 1e-12 * max(1, np.abs(slope).max())


def test_scipy_agrees_on_the_quadratic_programme():
    from scipy.optimize import minimize

    z, y = truth(800, 5, seed=1)
    gram, hits = brier_moments(ArrayRows(z * 3, y), 2.0)

    def loss(w):
        return w @ gram @ w - 2 * hits @ w + 1

    optimum = minimize(
        loss,
        [1.0, 0.0, 0.0],
        jac=lambda w: 2 * (gram @ w - hits),
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15},
    )
    assert loss(simplex_minimum(gram, hits)) == pytest.approx(optimum.fun, rel=1e-10)


def test_moments_are_those_of_the_mixture():
    z, y = truth(300, 4, seed=2)
    gram, hits = brier_moments(ArrayRows(z, y, block_rows=37), 1.7)
    w = np.array([0.5, 0.2, 0.3])
    q = w[0] * softmax(z / 1.7) + w[1] * softmax(z) + w[2] / 4
    direct = ((q - np.eye(4)[y]) ** 2).sum(axis=1).mean()
    assert w @ gram @ w - 2 * hits @ w + 1 == pytest.approx(direct, rel=1e-13)


@pytest.mark.parametrize("seed", range(6))
def test_likelihood_weights_are_certified_and_agree_with_em(seed):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([0.4, 0.4, 0.4], size=400) * rng.uniform(0.01, 1, (400, 1))
    weight = rng.dirichlet(np.ones(400))
    w, gap, _ = likeliest_weights(shares, weight)
    assert gap <= 1e-12
    # the EM iteration for mixture weights (Dempster, Laird, Rubin 1977)
    slow = np.full(3, 1 / 3)
    for _ in range(20_000):
        slow = slow * (weight @ (shares / (shares @ slow)[:, None]))
    # The gap bounds how far the likelihood is from the best one, whatever EM has reached.
    best, em = weight @ np.log(shares @ w), weight @ np.log(shares @ slow)
    assert best >= em - 1e-14
    assert best == pytest.approx(em, abs=1e-8)


def test_likelihood_weights_with_rows_that_one_part_owns():
    shares = np.array([[1e-300, 1e-300, 0.25], [1.0, 0.9, 0.25], [1.0, 0.9, 0.25]])
    w, gap, _ = likeliest_weights(shares, np.full(3, 1 / 3))
    # w2 = 0 (dominated), then d/dw3 [log(w3/4) + 2 log(1 - 3 w3/4)] = 0 at w3 = 4/9.
    np.testing.assert_allclose(w, [5 / 9, 0, 4 / 9], atol=1e-9)
    assert gap <= 1e-10


def test_nll_loss_never_worsens_nll_and_beats_temperature_scaling(resnet20):
    from calcli.methods.ts import TemperatureOptions, TemperatureScaling

    z, y, *_ = resnet20
    rows = ArrayRows(z, y)
    fitted = fit(rows, "nll")
    assert fitted.details["kkt_gap"] <= 1e-12
    plain = TemperatureScaling.fit(rows, TemperatureOptions(), Context()).calibrator
    nll = [
        -predict(c, rows)[0][np.arange(len(y)), y].mean()
        for c in (fitted.calibrator, plain)
    ]
    assert nll[0] <= nll[1]
    # 200000 EM iterations from (1/3, 1/3, 1/3), NumPy 2.4: w = .968014 .031078 .000909.
    np.testing.assert_allclose(
        fitted.calibrator.weights, [0.968014, 0.031078, 0.000909], atol=1e-6
    )


@pytest.mark.parametrize("loss", ["brier", "nll"])
def test_scores_worse_than_none_keep_the_order_and_say_so(loss):
    z, _ = truth(300, 4, seed=3)
    fitted = fit(ArrayRows(z * 10, z.argmin(axis=1)), loss)
    assert fitted.status == "degenerate"
    assert any("uniform" in warning for warning in fitted.warnings)
    assert fitted.calibrator.weights[0] == LEAST_ORDER
    log_p, label = predict(fitted.calibrator, ArrayRows(z, None))
    np.testing.assert_array_equal(label, z.argmax(axis=1))
    np.testing.assert_array_equal(log_p.argmax(axis=1), label)


@pytest.mark.parametrize("loss", ["brier", "nll"])
def test_weights_count_like_repeated_rows(loss):
    z, y = truth(200, 3, seed=4)
    times = np.random.default_rng(4).integers(0, 4, 200)
    a = fit(ArrayRows(z, y, weight=times.astype(float)), loss).calibrator
    b = fit(
        ArrayRows(np.repeat(z, times, axis=0), np.repeat(y, times)), loss
    ).calibrator
    assert a.temperature == pytest.approx(b.temperature, rel=1e-8)
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-6)


def test_shares_are_the_labels_probabilities():
    z, y = truth(50, 3, seed=5)
    shares, weight = label_shares(ArrayRows(z, y, block_rows=7), 2.0)
    here = np.arange(50)
    expected = np.stack(
        [softmax(z / 2)[here, y], softmax(z)[here, y], np.full(50, 1 / 3)], axis=1
    )
    np.testing.assert_allclose(shares, expected, rtol=1e-13)
    assert weight.sum() == pytest.approx(1)


def test_far_classes_keep_their_order_below_the_smallest_float():
    calibrator = EnsembleTemperatureScaling(1.5, np.array([0.9, 0.1, 0.0]))
    log_p, _ = predict(calibrator, ArrayRows(np.array([[0.0, -2000.0, -3000.0]]), None))
    assert log_p[0, 1] > log_p[0, 2] > -2100
