"""Every method again by a few lines of NumPy, SciPy and scikit-learn, on rows that are drawn here.

The real logits have their own tests, which need the files; these hold the same formulas in every clone. 1000 rows of
six classes to fit to, 500 to calibrate.
"""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import logit, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from synthetic import fit, predict, truth

from calcli.calibrator import Context
from calcli.methods.sb import ScalingBinning, ScalingBinningOptions
from calcli.rows import ArrayRows

N, K = 1000, 6
Z, Y = truth(1500, K, seed=31)
FIT, TEST = ArrayRows(Z[:N], Y[:N]), ArrayRows(Z[N:], Y[N:])
P, HOT, HIT = softmax(Z, axis=1), np.eye(K)[Y], Z.argmax(axis=1) == Y


def calibrated(name, **options):
    """The fitted calibrator and its probabilities of the test rows, (500, 6)."""
    calibrator = fit(name, FIT, **options).calibrator
    return calibrator, np.exp(predict(calibrator, TEST)[0])


def squared_error(log_t, z=Z[:N], y=Y[:N]):
    p = softmax(z / np.exp(log_t), axis=1)
    return float(np.mean((p**2).sum(axis=1) - 2 * p[np.arange(len(y)), y]))


def temperature(loss, z, y):
    """Of least squared error, or of least NLL: the root of mean(E_p[z] - z_y) in 1/T."""
    if loss == "brier":
        best = minimize_scalar(
            partial(squared_error, z=z, y=y),
            bounds=(-2, 2),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return np.exp(best.x)
    z_label = z[np.arange(len(y)), y]
    return 1 / brentq(
        lambda b: np.mean((softmax(b * z, axis=1) * z).sum(axis=1) - z_label),
        0.01,
        100,
        xtol=1e-15,
    )


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_temperature_scaling(loss):
    fitted, q = calibrated("ts", loss={"log": "nll"}.get(loss, loss))
    expected = temperature(loss, Z[:N], Y[:N])
    # A minimum is known to the square root of the precision of its value.
    assert fitted.temperature == pytest.approx(
        expected, rel=1e-10 if loss == "log" else 1e-7
    )
    np.testing.assert_allclose(
        q, softmax(Z[N:] / expected, axis=1), rtol=1e-9 if loss == "log" else 1e-5
    )


def test_ensemble_temperature_scaling():
    """Weights of softmax(z / T), softmax(z) and 1/k by SLSQP on the squared error, as the authors search them."""
    fitted, q = calibrated("ets", loss="brier")
    t = temperature("brier", Z[:N], Y[:N])
    parts = [
        np.stack([softmax(z / t, axis=1), softmax(z, axis=1), np.full(z.shape, 1 / K)])
        for z in (Z[:N], Z[N:])
    ]
    error = lambda w: ((np.tensordot(w, parts[0], 1) - HOT[:N]) ** 2).sum(axis=1).mean()  # noqa: E731
    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1}
    best = minimize(
        error,
        [1.0, 0.0, 0.0],
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints=[simplex],
        tol=1e-14,
    )
    assert error(fitted.weights) <= best.fun + 1e-12
    np.testing.assert_allclose(q, np.tensordot(best.x, parts[1], 1), atol=1e-4)


def each_class(fit_one, p, points):
    """A map of its own for every class, divided by the rows' sums."""
    q = np.stack([fit_one(p[:, c], HOT[:N, c], points[:, c]) for c in range(K)], axis=1)
    return q / q.sum(axis=1, keepdims=True)


def binned(p, hit, points, *, scheme):
    """Means of the outcomes in 15 right-closed bins; an empty one gives its midpoint."""
    edges = np.linspace(0, 1, 16) if scheme == "width" else mass_edges(p, 15)
    where, to = (
        np.clip(np.searchsorted(edges, x, side="left") - 1, 0, len(edges) - 2)
        for x in (p, points)
    )
    count, hits = (
        np.bincount(where, minlength=len(edges) - 1),
        np.bincount(where, hit, len(edges) - 1),
    )
    return np.where(
        count > 0, hits / np.maximum(count, 1), (edges[:-1] + edges[1:]) / 2
    )[to]


def mass_edges(p, bins):
    """Half way between the last of one part and the first of the next, of parts as even as can be."""
    parts = np.array_split(np.sort(p), bins)
    return np.array([0.0, *((a[-1] + b[0]) / 2 for a, b in pairwise(parts)), 1.0])


@pytest.mark.parametrize("scheme", ["width", "mass"])
def test_histogram_binning_of_every_class(scheme):
    _, q = calibrated("hb", mode="ova", scheme=scheme)
    np.testing.assert_allclose(
        q, each_class(partial(binned, scheme=scheme), P[:N], P[N:]), atol=1e-12
    )


@pytest.mark.parametrize("scheme", ["width", "mass"])
def test_histogram_binning_of_the_confidence(scheme):
    _, q = calibrated("hb", scheme=scheme)
    expected = binned(P[:N].max(axis=1), HIT[:N], P[N:].max(axis=1), scheme=scheme)
    np.testing.assert_allclose(
        q[np.arange(500), Z[N:].argmax(axis=1)], expected, atol=1e-12
    )


def isotonic(p, hit, points):
    """scikit-learn's, with the share of the old score that breaks ties."""
    return (
        IsotonicRegression(out_of_bounds="clip").fit(p, hit).predict(points)
        + 1e-9 * points
    )


def test_isotonic_regression_of_every_class():
    _, q = calibrated("irova")
    np.testing.assert_allclose(q, each_class(isotonic, P[:N], P[N:]), atol=1e-12)


def test_isotonic_regression_of_every_class_after_a_temperature():
    fitted, q = calibrated("irova-ts")
    t = fitted.temperature
    assert (
        squared_error(np.log(t))
        <= squared_error(np.log(temperature("brier", Z[:N], Y[:N]))) + 1e-12
    )
    tempered = softmax(Z / t, axis=1)
    np.testing.assert_allclose(
        q, each_class(isotonic, tempered[:N], tempered[N:]), atol=1e-12
    )


def smooth_map(base, p, hit):
    """Platt's map of the log-odds, or the beta map, at its optimum."""
    features = {
        "platt": lambda x: logit(x)[:, None],
        "beta": lambda x: np.stack([np.log(x), -np.log1p(-x)], axis=1),
    }[base]
    regression = LogisticRegression(
        C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(features(p), hit)
    assert (regression.coef_ > 0).all()  # else the beta map would have another optimum
    return lambda x: regression.predict_proba(features(x))[:, 1]


@pytest.mark.parametrize("base", ["platt", "beta", "temperature"])
def test_scaling_binning_of_the_confidence(base):
    """Thirds: g is fitted to the first 400 rows, cut into bins on the next 300, averaged over the last 300."""
    thirds = tuple(np.split(np.arange(N), [400, 700]))
    options = ScalingBinningOptions(base=base, bins=10)
    calibrator = ScalingBinning.fit_parts(FIT, options, Context(), thirds).calibrator
    first, second, third = thirds
    top = P.max(axis=1)
    if base == "temperature":
        g = softmax(Z / temperature("log", Z[first], Y[first]), axis=1).max(axis=1)
    else:
        g = smooth_map(base, top[first], HIT[first])(top)
    edges = mass_edges(g[second], 10)
    bin_of_row = np.clip(np.searchsorted(edges, g, side="left") - 1, 0, 9)
    expected = np.bincount(bin_of_row[third], g[third], 10) / np.bincount(
        bin_of_row[third], minlength=10
    )
    log_q, label = predict(calibrator, TEST)
    np.testing.assert_allclose(
        np.exp(log_q[np.arange(500), label]), expected[bin_of_row[N:]], atol=1e-6
    )


@pytest.mark.parametrize("scale", [0.8, 2.5])
def test_hoki_under_gumbel_noise(scale):
    """Its rounds written out. A prediction survives Gumbel noise with probability max softmax(z / scale)."""
    fitted, q = calibrated("hoki", noise="gumbel", scale=scale)
    gamma, confidence = (
        softmax(Z / scale, axis=1).max(axis=1),
        np.full(len(Z), HIT[:N].mean()),
    )
    bin_of = lambda x: np.clip(np.ceil((x - 1e-12) * 15) - 1, 0, 14).astype(int)  # noqa: E731
    for _ in range(len(fitted.alpha)):
        bin_of_row, new = bin_of(confidence), confidence.copy()
        for b in np.unique(bin_of_row[:N]):
            mine, g = bin_of_row[:N] == b, gamma[:N]
            alpha = (HIT[:N] * g)[mine].sum() / g[mine].sum()
            beta = (HIT[:N] * (1 - g))[mine].sum() / (1 - g)[mine].sum()
            new[bin_of_row == b] = np.clip(
                beta + (alpha - beta) * gamma[bin_of_row == b], 0, 1
            )
        if confidence.std() == 0:  # one bin, whose line serves all rows
            new = np.clip(beta + (alpha - beta) * gamma, 0, 1)
        confidence = new
    # the rounds have ended
    np.testing.assert_array_equal(bin_of(confidence[:N]), bin_of_row[:N])
    np.testing.assert_allclose(
        q[np.arange(500), Z[N:].argmax(axis=1)], confidence[N:], atol=1e-12
    )
