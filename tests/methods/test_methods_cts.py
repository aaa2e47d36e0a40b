"""Class-based temperature scaling: the incremental search against a plain one."""

import numpy as np
import pytest
from synthetic import predict, truth

from calcli.binning import BinStats, width_edges
from calcli.calibrator import Context
from calcli.methods.compared import cts
from calcli.methods.compared.cts import (
    GRID,
    ClassTemperatureOptions,
    ClassTemperatureScaling,
)
from calcli.numerics import softmax
from calcli.parallel import in_order
from calcli.rows import ArrayRows

EDGES = width_edges(15)


def fit(rows, **options):
    return ClassTemperatureScaling.fit(
        rows, ClassTemperatureOptions(**options), Context()
    )


def ece_and_accuracy(z, y, temperature):
    p = softmax(z / temperature)
    hit = (p.argmax(axis=1) == y).astype(float)
    stats = BinStats.of(p.max(axis=1), hit, EDGES)
    return np.abs(stats.gaps) @ stats.share, hit.mean()


def plain_search(z, y, start, passes, guard):
    """The algorithm as specified, with a whole softmax per candidate."""
    temperature = np.full(z.shape[1], start)
    best, floor = ece_and_accuracy(z, y, temperature)
    for _ in range(passes):
        moved = False
        for c in range(z.shape[1]):
            trials = []
            for t in GRID:
                trial = temperature.copy()
                trial[c] = t
                ece, accuracy = ece_and_accuracy(z, y, trial)
                trials.append(ece if not guard or accuracy >= floor - 1e-12 else np.inf)
            i = int(np.argmin(trials))
            if trials[i] < best - 1e-12:
                temperature[c], best, moved = GRID[i], trials[i], True
        if not moved:
            break
    return temperature, best


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_search_is_the_plain_one(seed, guard, monkeypatch):
    monkeypatch.setattr(cts, "STRIPE", 2)  # several stripes for five classes
    z, y = truth(150, 5, seed=seed)
    z = z + np.linspace(0, 2, 5)
    fitted = fit(ArrayRows(z, y), passes=3, guard=guard)
    expected, ece = plain_search(z, y, fitted.details["start"], 3, guard)
    np.testing.assert_allclose(fitted.calibrator.temperature, expected, rtol=1e-12)
    assert fitted.details["ece"]["after"] == pytest.approx(ece, abs=1e-12)


def test_recorded_ece_is_that_of_the_calibrator_and_never_rises():
    z, y = truth(400, 6, seed=7)
    fitted = fit(ArrayRows(z, y))
    log_p, label = predict(fitted.calibrator, ArrayRows(z, None))
    stats = BinStats.of(np.exp(log_p.max(axis=1)), (label == y).astype(float), EDGES)
    assert fitted.details["ece"]["after"] == pytest.approx(
        np.abs(stats.gaps) @ stats.share, abs=1e-12
    )
    assert fitted.details["ece"]["after"] <= fitted.details["ece"]["before"]


def test_guard_keeps_the_accuracy():
    rng = np.random.default_rng(0)
    z, y = truth(300, 4, seed=8)
    y = np.where(rng.random(300) < 0.3, 0, y)
    assert (
        predict(fit(ArrayRows(z, y)).calibrator, ArrayRows(z, None))[1] == y
    ).mean() >= (z.argmax(1) == y).mean()


def test_a_class_without_rows_keeps_the_common_temperature_and_is_told():
    z, y = truth(200, 4, seed=9)
    y[y == 2] = 1
    fitted = fit(ArrayRows(z, y))
    assert fitted.calibrator.temperature[2] == fitted.details["start"]
    words = "classes without calibration rows (1 of 4): each keeps the temperature"
    assert any(words in warning for warning in fitted.warnings)


def test_too_few_passes_are_told():
    z, y = truth(300, 5, seed=1)
    fitted = fit(ArrayRows(z, y), passes=1)
    assert fitted.status == "not_converged"
    assert any("raise passes" in warning for warning in fitted.warnings)


@pytest.mark.parametrize("confidence", [0.2, 1 / 3, 0.6, 1.0, 0.0])
def test_confidences_on_an_edge_fall_into_the_bin_below(confidence):
    search = cts.ClassSearch(ArrayRows(*truth(5, 3)), 1.0, EDGES)
    gaps = search._gaps(np.array([[confidence]]), np.array([[-1.0]]), np.ones(1))
    expected = BinStats.of(np.array([confidence]), np.zeros(1), EDGES).count
    np.testing.assert_array_equal(gaps[0] != 0, expected > 0)


def test_weights_count_like_repeated_rows():
    z, y = truth(200, 3, seed=4)
    times = np.random.default_rng(4).integers(0, 3, 200)
    a = fit(ArrayRows(z, y, weight=times.astype(float)), passes=2).calibrator
    b = fit(
        ArrayRows(np.repeat(z, times, axis=0), np.repeat(y, times)), passes=2
    ).calibrator
    # The start is T of temperature scaling (equal to 1e-10); grid values are exact.
    np.testing.assert_allclose(a.temperature, b.temperature, rtol=1e-8)


@pytest.mark.data
def test_cifar10_improves_validation_ece(real):
    data = real("cifar10_resnet20")
    z, y = data["logits"][:2000], data["labels"][:2000]
    fitted = fit(ArrayRows(z, y), passes=1)
    assert fitted.details["ece"]["after"] < 0.9 * fitted.details["ece"]["before"]


def test_the_rows_of_a_candidate_are_shared_by_threads_to_the_same_bits(monkeypatch):
    z, y = truth(3000, 4, seed=3)
    # a hundred rows at once
    monkeypatch.setattr(cts, "BLOCK_BYTES", 32 * len(GRID) * 100)
    calls, fits = [], []

    def counted(work, items):
        calls.append(len(items))
        return in_order(work, items)

    monkeypatch.setattr(cts, "in_order", counted)
    for workers in (1, 2, 4):
        monkeypatch.setattr("calcli.parallel.WORKERS", workers)
        fits.append(fit(ArrayRows(2 * z, y), passes=1))
    assert set(calls) == {8}  # of 3000 rows, 400 a thread
    assert len({one_fit.calibrator.temperature.tobytes() for one_fit in fits}) == 1
    assert len({one_fit.details["ece"]["after"] for one_fit in fits}) == 1
