"""Retention probabilities against integrals, closed forms, brute force and pinned bytes."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr, ndtri

from calcli.errors import FitError
from calcli.kernels.numpy.hoki_draws import (
    Races,
    digest,
    exact_log,
    gaussian_quantile,
    gumbel_quantile,
    sampled_retention,
    standard_noise,
)
from calcli.kernels.numpy.hoki_retention import (
    block_retention,
    gap_table,
    gaps_in_order,
    gaps_to_top,
    gaussian_retention,
    gumbel_retention,
    log_phi,
    products,
    retention_rates,
    uniform_retention,
)
from calcli.numerics import softmax, tile_rows
from calcli.rows import ArrayRows

RNG = np.random.default_rng(20)


def with_top(gaps):
    """One row of gaps (k - 1,), with the infinite gap of the top class before them."""
    return np.concatenate([[np.inf], gaps])[None]


def gaussian_by_quad(gaps, scale):
    """Adaptive quadrature of phi(u) prod Phi(u + d / s)."""

    def integrand(u):
        return np.exp(-u * u / 2 + log_ndtr(u + gaps / scale).sum()) / np.sqrt(
            2 * np.pi
        )

    return quad(
        integrand, -9, 9, epsabs=1e-13, epsrel=1e-12, limit=1000, points=[0, 1, 2, 3, 4]
    )[0]


def uniform_by_quad(gaps, width):
    """Adaptive quadrature, kink by kink, of prod min(u + d / w, 1)."""
    near = np.sort(gaps[gaps < width]) / width
    kinks = np.unique(np.concatenate([[0.0, 1.0], 1 - near]))
    return sum(
        quad(
            lambda u: np.minimum(u + near, 1).prod(),
            a,
            b,
            epsabs=1e-15,
            epsrel=1e-12,
            limit=200,
        )[0]
        for a, b in pairwise(kinks)
    )


SHAPES = {
    "two classes": np.array([1.3]),
    "two classes tied": np.array([0.0]),
    "ten": RNG.random(9) * 5,
    "ten, six tied": np.repeat([0.0, 2.0], [6, 3]),
    "trained net of 1000": np.abs(RNG.normal(12, 3, 999)),
    "1000 all tied": np.zeros(999),
    "1000 at the worst distance": np.full(999, 3.6),
    "1000 nearly tied": RNG.random(999) * 0.01,
    "ramp": np.linspace(0, 10, 999),
    "far": np.full(999, 1e4),
    "one near, others far": np.concatenate([[0.5], np.full(998, 300.0)]),
    "one tied, others at the edge": np.concatenate([[0.0], np.full(98, 4.9)]),
    "6000 classes": np.abs(RNG.normal(9, 2, 5999)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_gaussian_equals_adaptive_quadrature(name):
    gaps = SHAPES[name]
    for scales in ([1.0], [0.3], [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]):
        got = gaussian_retention(
            with_top(gaps), gap_table(tuple(scales), len(gaps) + 1)
        )[0]
        expected = [gaussian_by_quad(gaps, s) for s in scales]
        # 1e-8 is what is promised; the method reaches 1e-9 on these.
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("distance", np.linspace(2.8, 4.4, 9))
def test_gaussian_at_its_steepest(distance):
    # Many classes at one distance make the integrand's steepest side: the quadrature's worst case.
    for k in (64, 1000, 5000):
        gaps = np.full(k - 1, distance)
        got = gaussian_retention(with_top(gaps), gap_table((1.0,), k))[0, 0]
        assert got == pytest.approx(gaussian_by_quad(gaps, 1.0), rel=0, abs=3e-9)


@pytest.mark.parametrize("k", [2, 99, 100, 1000, 140_000])
def test_more_rows_than_are_worked_on_at_once(k):
    # Each row alone is the plain path: however many stand beside it, whole tiles and padding among them, same bytes.
    rows_at_once = tile_rows(k)
    z = np.random.default_rng(k).normal(scale=4, size=(2 * rows_at_once + 3, k))
    together = block_retention(z, "gaussian", [0.7, 3.0])
    for row in (0, rows_at_once - 1, rows_at_once, 2 * rows_at_once, len(z) - 1):
        np.testing.assert_array_equal(
            together[row : row + 1],
            block_retention(z[row : row + 1], "gaussian", [0.7, 3.0]),
        )


def test_the_logarithm_of_the_normal_distribution_function():
    # scipy.special.log_ndtr (SciPy 1.17)
    x = np.concatenate(
        [np.linspace(-36, 40, 7601), [8.3, np.nextafter(8.3, 0), np.inf]]
    )
    np.testing.assert_allclose(log_phi(x), log_ndtr(x), rtol=1e-13, atol=3e-16)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gaps_in_order_add_up_to_what_others_do(dtype):
    rng = np.random.default_rng(6)
    z = (
        (rng.normal(size=(300, 400)) * rng.choice([0.1, 1, 30], size=(300, 1)))
        .round(2)
        .astype(dtype)
    )
    z[:20, 5], z[20:40, :7], z[40:60, 3] = -np.inf, 50.0, z[40:60].max(axis=1) + 1e-3
    table = gap_table((0.3, 2.0), 400)
    plain = gaussian_retention(gaps_to_top(z.astype(float))[0], table)
    np.testing.assert_allclose(
        gaussian_retention(gaps_in_order(z), table, in_order=True),
        plain,
        rtol=0,
        atol=1e-13,
    )
    np.testing.assert_array_equal(
        block_retention(z, "gaussian", [0.3, 2.0]),
        block_retention(z.astype(float), "gaussian", [0.3, 2.0]),
    )


def test_two_classes_have_closed_forms():
    d = np.concatenate([np.linspace(0, 5, 301), [8.0, 40.0, 1e4]])
    z = np.stack([d, np.zeros_like(d)], axis=1)
    gaussian = block_retention(z, "gaussian", [0.7, 3.0])
    np.testing.assert_allclose(
        gaussian,
        ndtr(d[:, None] / (np.sqrt(2) * np.array([0.7, 3.0]))),
        rtol=0,
        atol=1e-11,
    )
    uniform = block_retention(z, "uniform", [2.0])[:, 0]
    np.testing.assert_allclose(
        uniform, 1 - np.maximum(1 - d / 2, 0) ** 2 / 2, rtol=0, atol=1e-15
    )


def test_k_tied_classes_share_alike():
    for k in (2, 3, 10, 100, 1000):
        z = np.zeros((1, k))
        for noise in ("gaussian", "uniform", "gumbel"):
            assert block_retention(z, noise, [2.0])[0, 0] == pytest.approx(
                1 / k, rel=0, abs=1e-11
            )


@pytest.mark.parametrize("name", [s for s in SHAPES if s != "6000 classes"])
def test_uniform_equals_adaptive_quadrature(name):
    gaps = SHAPES[name]
    for width in (0.5, 5.0, 12.0):
        got = uniform_retention(with_top(gaps), [width])[0, 0]
        assert got == pytest.approx(uniform_by_quad(gaps, width), rel=0, abs=1e-11)


def test_uniform_rows_do_not_see_each_other():
    d, _ = gaps_to_top(RNG.normal(size=(300, 40)) * 3)
    together = uniform_retention(d, [6.0])
    alone = np.concatenate([uniform_retention(row[None], [6.0]) for row in d])
    np.testing.assert_allclose(together, alone, rtol=1e-13)


def test_gumbel_is_the_softmax_confidence():
    z = RNG.normal(size=(200, 100)) * 4
    for s in (0.3, 1.5, 20.0):
        np.testing.assert_allclose(
            gumbel_retention(gaps_to_top(z)[0], s),
            softmax(z / s).max(axis=1),
            atol=1e-12,
        )


@pytest.mark.parametrize("noise", ["gaussian", "uniform", "gumbel"])
def test_exact_values_are_what_draws_converge_to(noise):
    z = RNG.normal(size=(400, 20)) * 2
    m = 4000
    exact = block_retention(z, noise, [2.5])[:, 0]
    drawn = block_retention(
        z, noise, [2.5], Races(standard_noise(noise, m, 20, seed=3))
    )[:, 0]
    error = (drawn - exact) / np.sqrt(np.maximum(exact * (1 - exact), 1e-4) / m)
    # Shared draws make the errors of rows agree in part; 5 standard errors are never reached by a right one.
    assert np.abs(error).max() < 5
    assert 0.5 < error.std() < 1.5


def test_draws_of_the_right_family_only():
    # The same check that passes above must fail for a wrong family: it has power.
    z = RNG.normal(size=(400, 20)) * 2
    exact = block_retention(z, "gaussian", [2.5])[:, 0]
    drawn = block_retention(
        z, "gumbel", [2.5], Races(standard_noise("gumbel", 4000, 20, seed=3))
    )[:, 0]
    assert (
        np.abs(
            (drawn - exact) / np.sqrt(np.maximum(exact * (1 - exact), 1e-4) / 4000)
        ).max()
        > 5
    )


def brute_force(d, top, scale, draws):
    """Every class races in every draw, in the same float32 arithmetic."""
    behind = np.minimum(d / scale, 1e30).astype(np.float32)
    return np.array(
        [
            np.mean((draws - row).max(axis=1) <= draws[:, c])
            for row, c in zip(behind, top, strict=True)
        ],
        dtype=float,
    )


@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 6.0, 1e4])
@pytest.mark.parametrize("k", [2, 30, 400])
def test_leaving_classes_out_changes_no_count(spread, k):
    z = RNG.normal(size=(60, k)) * spread
    draws = standard_noise("gaussian", 333, k, seed=1)
    d, top = gaps_to_top(z)
    np.testing.assert_array_equal(
        sampled_retention(d, top, 1.7, Races(draws)), brute_force(d, top, 1.7, draws)
    )


@pytest.mark.parametrize("stages", [(3, 20), (64,), (8, 400)])
def test_how_many_leaders_are_kept_changes_no_count(monkeypatch, stages):
    monkeypatch.setattr("calcli.kernels.numpy.hoki_draws.STAGES", stages)
    monkeypatch.setattr("calcli.kernels.numpy.hoki_draws.FIRST_FIELD", 5)
    for spread in (0.3, 3.0):
        d, top = gaps_to_top(RNG.normal(size=(50, 260)) * spread)
        draws = standard_noise("gumbel", 200, 260, seed=2)
        np.testing.assert_array_equal(
            sampled_retention(d, top, 1.0, Races(draws)),
            brute_force(d, top, 1.0, draws),
        )


@pytest.mark.parametrize("noise", ["gaussian", "uniform", "gumbel"])
def test_blocks_do_not_change_a_bit(noise):
    z = RNG.normal(size=(500, 37)) * 3
    whole = retention_rates(ArrayRows(z), noise, [0.5, 2.0])
    assert whole.shape == (500, 2)
    for block_rows in (1, 7, 128, 333):
        np.testing.assert_array_equal(
            retention_rates(ArrayRows(z, block_rows=block_rows), noise, [0.5, 2.0]),
            whole,
        )


def test_scales_of_one_search_do_not_disturb_each_other():
    z = RNG.normal(size=(100, 50)) * 3
    scales = [0.2 * 2 ** (i / 2) for i in range(13)]
    together = block_retention(z, "gaussian", scales)
    alone = np.concatenate(
        [block_retention(z, "gaussian", [s]) for s in scales], axis=1
    )
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-9)


def test_no_overflow_at_the_ends_of_everything():
    z = np.array([[1e38, -1e38, 0.0], [0.0, 0.0, 0.0], [1e-300, 0.0, -1e-300]])
    with np.errstate(all="raise", under="ignore"):
        for noise in ("gaussian", "uniform", "gumbel"):
            for scale in (1e-9, 1e9):
                got = block_retention(z, noise, [scale])
                assert ((got >= 0) & (got <= 1)).all()
            races = Races(standard_noise(noise, 50, 3, seed=0))
            assert (block_retention(z, noise, [1e-9], races) >= 0).all()


def test_gaps_of_ties_go_to_the_lowest_class():
    d, top = gaps_to_top(np.array([[1.0, 2.0, 2.0]]))
    assert top.tolist() == [1]
    np.testing.assert_array_equal(d, [[1.0, np.inf, 0.0]])


def test_stacked_products_equal_one_product():
    a, b = RNG.normal(size=(128, 700)), RNG.normal(size=(690, 85))
    np.testing.assert_allclose(
        products(a[:, :690], b), a[:, :690] @ b, rtol=1e-12, atol=1e-11
    )


# ---- the draws


def test_quantiles_against_scipy():
    p = np.concatenate(
        [
            np.linspace(1e-9, 1 - 1e-9, 20001),
            2.0 ** -np.arange(2, 54),
            1 - 2.0 ** -np.arange(2, 53),
        ]
    )
    # PPND7 promises about seven digits.
    np.testing.assert_allclose(gaussian_quantile(p), ndtri(p), rtol=2e-7, atol=1e-10)
    np.testing.assert_allclose(exact_log(p), np.log(p), rtol=1e-12)
    np.testing.assert_allclose(
        gumbel_quantile(p), -np.log(-np.log(p)), rtol=1e-11, atol=1e-11
    )


def test_draws_have_the_moments_of_their_family():
    euler = 0.5772156649015329
    for noise, mean, sd in (
        ("gaussian", 0, 1),
        ("uniform", 0, 12**-0.5),
        ("gumbel", euler, np.pi / 6**0.5),
    ):
        draws = standard_noise(noise, 1000, 200, seed=5).astype(float)
        assert draws.mean() == pytest.approx(mean, abs=5 * sd / 200000**0.5)
        assert draws.std() == pytest.approx(sd, rel=0.02)


DIGESTS = {
    "gaussian": "8b8b422385cd6c1de43eafa58e89d21b59094bff541998cf716717210e34c3c8",
    "uniform": "a8becb6e2468017755fc1805930be471a92ead18fe8d793da1c797f6ef2a22ba",
    "gumbel": "93e49ccaf172f134c1d582d787a8ce983c5f0958c364d033ba0db390f4b75e42",
}


@pytest.mark.parametrize("noise", DIGESTS)
def test_draws_have_pinned_bytes(noise):
    # Recorded with NumPy 2.4.6 on x86-64; artifacts of gamma=mc stand on these bytes staying.
    assert digest(standard_noise(noise, 37, 11, seed=7)) == DIGESTS[noise]


def test_draws_do_not_depend_on_how_many_are_made_at_a_time(monkeypatch):
    whole = standard_noise("gaussian", 50, 30, seed=4)
    monkeypatch.setattr("calcli.kernels.numpy.hoki_draws.CHUNK", 17)
    np.testing.assert_array_equal(standard_noise("gaussian", 50, 30, seed=4), whole)


def test_too_many_draws_are_refused_with_a_number_that_is_not():
    with pytest.raises(FitError, match="samples=536"):
        standard_noise("gaussian", 1_000_000, 1_000_000, seed=0)
