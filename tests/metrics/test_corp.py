"""CORP reliability: isotonic fits, the split of a score, and what calibrated rows look like."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcli import isotonic
from calcli.binning import bin_index, width_edges
from calcli.isotonic import fit_isotonic, pool_adjacent_violators
from calcli.statistics import corp
from calcli.statistics.corp import consistency_band, decompose, merge_cells
from calcli.statistics.intervals import wilson_interval

EDGES = width_edges(15)

# Few distinct values, so that ties and blocks of all sizes occur.
ROWS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(1, 4)),
    min_size=1,
    max_size=60,
)


def columns(rows):
    c, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return c / 12, y, w


def calibrated(n, seed, low=0.1):
    rng = np.random.default_rng(seed)
    c = low + (1 - low) * rng.beta(2, 1, n)
    return c, (rng.random(n) < c).astype(float)


# ---- pooling


def test_pooling_by_hand():
    # 1 2 0.5 3: 2 and 0.5 pool to 1.25, which stays above 1.
    assert pool_adjacent_violators(np.array([1, 2, 0.5, 3]), np.ones(4)).tolist() == [
        0,
        1,
        3,
    ]
    # Equal neighbours are one block; weights decide: (2*1 + 1*3)/3 = 5/3 > 1.5 pools again.
    assert pool_adjacent_violators(
        np.array([6.0, 1.0, 1.5]), np.array([2.0, 1.0, 1.0])
    ).tolist() == [0]
    assert pool_adjacent_violators(np.array([0.7]), np.ones(1)).tolist() == [0]


@settings(deadline=None, max_examples=150)
@given(ROWS, st.booleans())
def test_the_fit_is_scikit_learns(rows, weighted):
    isotonic = pytest.importorskip("sklearn.isotonic")
    c, y, w = columns(rows)
    weight = w if weighted else None
    fit = fit_isotonic(c, y, weight)
    reference = isotonic.IsotonicRegression().fit(c, y, sample_weight=weight).predict(c)
    np.testing.assert_allclose(fit.at(c), reference, atol=1e-12)
    assert (np.diff(fit.value) > 0).all()
    assert fit.weight.sum() == pytest.approx(w.sum() if weighted else len(c))


def test_a_long_cascade_is_finished_in_linear_time(monkeypatch):
    # Each vectorised pass pools one pair only: 0 pulls down n, then n - 1, ...
    ramp = np.append(np.arange(1.0, 3001.0), 0.0)
    fast = pool_adjacent_violators(ramp, np.ones(3001))
    monkeypatch.setattr(isotonic, "_PASSES", 10_000)
    assert fast.tolist() == pool_adjacent_violators(ramp, np.ones(3001)).tolist()


@pytest.mark.parametrize("passes", [0, 2, 60])
def test_many_sequences_in_one_call_are_fitted_apart(monkeypatch, passes):
    monkeypatch.setattr(isotonic, "_PASSES", passes)
    rng = np.random.default_rng(5)
    total, mass = rng.normal(size=(40, 30)), rng.integers(1, 4, (40, 30)).astype(float)
    begins = np.zeros(1200, dtype=bool)
    begins[::30] = True
    together = pool_adjacent_violators(total.ravel(), mass.ravel(), begins)
    apart = [
        30 * i + pool_adjacent_violators(t, m)
        for i, (t, m) in enumerate(zip(total, mass, strict=True))
    ]
    assert together.tolist() == np.concatenate(apart).tolist()


def test_the_curve_is_flat_on_blocks_and_straight_between():
    fit = fit_isotonic(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.0, 1.0, 0.0, 1.0]))
    x, y = fit.knots
    assert x.tolist() == [0.2, 0.4, 0.6, 0.8]
    assert y.tolist() == [0.0, 0.5, 0.5, 1.0]
    assert fit.at(np.array([0.0, 0.3, 0.5, 0.7, 1.0])).tolist() == pytest.approx(
        [0.0, 0.25, 0.5, 0.75, 1.0]
    )


def test_rows_of_weight_zero_do_not_count():
    c, y, w = (
        np.array([0.1, 0.5, 0.9]),
        np.array([1.0, 0.0, 1.0]),
        np.array([0.0, 1.0, 2.0]),
    )
    assert fit_isotonic(c, y, w).low.tolist() == [0.5, 0.9]
    assert decompose(c, y, w).score == pytest.approx((0.25 + 2 * 0.01) / 3)


# ---- the split of a score


def test_split_by_hand():
    # PAV is 0, 1/2, 1/2, 1. Brier: (.04 + .36 + .36 + .04)/4 = .2; recalibrated 2(.25)/4 = .125; UNC = .25.
    c, y = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.0, 1.0, 0.0, 1.0])
    split = decompose(c, y)
    assert split.score == pytest.approx(0.2)
    assert split.miscalibration == pytest.approx(0.075)
    assert split.discrimination == pytest.approx(0.125)
    assert split.uncertainty == pytest.approx(0.25)
    # Log score: -(ln .8 + ln .4 + ln .4 + ln .8)/4; recalibrated (ln 2)/2; UNC ln 2.
    split = decompose(c, y, kind="log")
    assert split.score == pytest.approx(-0.5 * np.log(0.32))
    assert split.discrimination == pytest.approx(0.5 * np.log(2))
    assert split.uncertainty == pytest.approx(np.log(2))


# model-diagnostics 1.5.0 (2026-11-21): with the rows below,
# decompose(y, c, weights=w, scoring_function=SquaredError() or LogLoss()) gives
# miscalibration, discrimination, uncertainty, score.
PEER = {
    ("brier", False): (
        0.02717886865639843,
        0.07690066865639844,
        0.23700400000000002,
        0.1872822,
    ),
    ("brier", True): (
        0.026624484488846828,
        0.07794444738978784,
        0.23744353322551598,
        0.18612357032457497,
    ),
    ("log", False): (
        0.07915956531121254,
        0.19229681941561755,
        0.6669251684863668,
        0.5537879143819618,
    ),
    ("log", True): (
        0.078922907702687,
        0.19561211758333236,
        0.6678196864964925,
        0.5511304766158471,
    ),
}


@pytest.mark.parametrize(("kind", "weighted"), PEER)
def test_split_equals_model_diagnostics(kind, weighted):
    rng = np.random.default_rng(7)
    c = np.round(rng.uniform(0.05, 0.99, 500), 2)
    y = (rng.random(500) < c**1.7).astype(float)
    w = rng.integers(1, 5, 500).astype(float)
    split = decompose(c, y, w if weighted else None, kind=kind)
    got = (split.miscalibration, split.discrimination, split.uncertainty, split.score)
    assert got == pytest.approx(PEER[kind, weighted], abs=1e-14)


@settings(deadline=None, max_examples=150)
@given(ROWS, st.booleans(), st.sampled_from(["brier", "log"]))
def test_the_parts_add_up_and_are_not_negative(rows, weighted, kind):
    c, y, w = columns(rows)
    split = decompose(c, y, w if weighted else None, kind=kind)
    assert split.score == pytest.approx(
        split.miscalibration - split.discrimination + split.uncertainty, abs=1e-12
    )
    assert np.isfinite(split.score)
    # Floored at 1e-12, so a perfectly sorted log score may be off by that much.
    assert min(split.miscalibration, split.discrimination, split.uncertainty) >= -1e-10


# ---- under calibration


def test_merging_keeps_ties_bins_and_totals():
    rng = np.random.default_rng(0)
    c = np.concatenate(
        [
            rng.random(30_000),
            np.repeat(rng.random(40), 200),
            np.ones(500),
            1 - 1e-5 * rng.random(2000),
        ]
    )
    cells = merge_cells(c, bin_index(c, EDGES))
    assert len(cells.weight) <= 1000 + 15
    assert cells.weight.sum() == len(c)
    assert cells.weight @ cells.confidence == pytest.approx(c.sum())
    assert (np.diff(cells.confidence) > 0).all()
    parts = np.split(c[cells.order], cells.first[1:])
    assert max(p[-1] - p[0] for p in parts) <= 0.002 + 1e-12
    assert all(a[-1] < b[0] for a, b in pairwise(parts))
    assert all(len(np.unique(bin_index(p, EDGES))) == 1 for p in parts)


def test_merging_changes_the_band_by_less_than_its_own_noise():
    c, _ = calibrated(4000, 1)
    index = bin_index(c, EDGES)

    def band(cells, seed):
        null = consistency_band(
            c, index, 15, np.random.default_rng(seed), resamples=700, cells=cells
        )
        grid = np.linspace(0.2, 0.98, 50)
        return np.interp(grid, null.x, null.low), np.interp(grid, null.x, null.high)

    exact, again, merged = band(10**6, 2), band(10**6, 3), band(1000, 4)
    for side in (0, 1):
        noise = np.abs(exact[side] - again[side]).mean()
        assert np.abs(exact[side] - merged[side]).mean() < 3 * noise + 1e-3


def test_the_mean_miscalibration_is_that_of_full_resamples():
    c, _ = calibrated(2000, 11)
    rng = np.random.default_rng(0)
    slow = [
        decompose(c, (rng.random(2000) < c).astype(float)).miscalibration
        for _ in range(400)
    ]
    null = consistency_band(c, bin_index(c, EDGES), 15, np.random.default_rng(1))
    error = np.std(slow) * np.sqrt(1 / 400 + 2000 / corp.FINE_DRAWS)
    assert null.mcb_mean == pytest.approx(np.mean(slow), abs=4 * error)


@pytest.mark.slow
@pytest.mark.parametrize("n", [400, 3000])
def test_a_calibrated_curve_stays_in_the_whole_band_at_the_stated_rate(n):
    """Of 150 calibrated samples at most 16 curves leave the simultaneous 95 % band
    anywhere (binomial at .055: p < .005 beyond; benchmarks/levels.json has more)."""
    left = 0
    for seed in range(150):
        c, y = calibrated(n, 100 + seed)
        null = consistency_band(
            c, bin_index(c, EDGES), 15, np.random.default_rng(seed), resamples=199
        )
        left += not null.contains(c, fit_isotonic(c, y).at(c)).all()
    assert 0 < left <= 16


def test_equal_weights_are_no_weights_and_zero_weights_are_no_rows():
    c, _ = calibrated(600, 3)
    index = bin_index(c, EDGES)
    plain = consistency_band(c, index, 15, np.random.default_rng(1), resamples=2000)
    equal = consistency_band(
        c, index, 15, np.random.default_rng(2), np.full(600, 2.5), resamples=2000
    )
    # Two draws of 2000: quantiles differ by their sampling error only.
    assert np.abs(plain.low - equal.low).mean() < 0.01
    assert np.abs(plain.high - equal.high).mean() < 0.01
    half = np.r_[np.ones(300), np.zeros(300)]
    fewer = consistency_band(
        c[:300], index[:300], 15, np.random.default_rng(3), np.ones(300), resamples=100
    )
    zeros = consistency_band(
        c, index, 15, np.random.default_rng(3), half, resamples=100
    )
    np.testing.assert_array_equal(fewer.low, zeros.low)


def test_the_same_seed_gives_the_same_band():
    c, _ = calibrated(500, 4)
    a, b = (
        consistency_band(c, bin_index(c, EDGES), 15, np.random.default_rng(0))
        for _ in range(2)
    )
    np.testing.assert_array_equal(a.low, b.low)


# ---- intervals


@pytest.mark.parametrize(
    ("hits", "n"), [(0, 10), (5, 10), (10, 10), (1, 1), (137, 1000)]
)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson_equals_scipy(hits, n, level):
    stats = pytest.importorskip("scipy.stats")
    low, high = wilson_interval(np.array([hits / n]), np.array([n]), level)
    expected = stats.binomtest(hits, n).proportion_ci(level, method="wilson")
    assert low[0] == pytest.approx(expected.low, abs=1e-12)
    assert high[0] == pytest.approx(expected.high, abs=1e-12)


def test_wilson_of_no_rows_is_no_interval():
    low, high = wilson_interval(np.array([np.nan]), np.array([0.0]))
    assert np.isnan(low[0])
    assert np.isnan(high[0])
