"""Laws of weighted sums of few rows, against SciPy, exact laws and simulation."""

import json
import math
from itertools import product

import numpy as np
import pytest
from conftest import REPOSITORY
from scipy.stats import skellam

from calcli.statistics.nulls import poisson_binomial
from calcli.statistics.p_values import poisson_p_value, sum_p_value
from calcli.statistics.units import Units
from calcli.statistics.weighted_sums import (
    JumpSums,
    expected_jumps,
    jump_p_value,
    skellam_tails,
)

RECORD = REPOSITORY / "benchmarks" / "levels.json"


@pytest.mark.parametrize(
    ("rise", "fall", "count"),
    [(3.0, 1.0, 4), (0.5, 7.0, -9), (10.0, 10.0, 3), (2, 0, 1)],
)
def test_tails_of_whole_numbers_are_scipy_s(rise, fall, count):
    below, above = skellam_tails(rise, fall, count)
    if fall:
        assert below == pytest.approx(skellam.cdf(count, rise, fall), rel=1e-9)
        assert above == pytest.approx(skellam.sf(count - 1, rise, fall), rel=1e-9)
    else:  # Poisson: e^-2 (1 + 2), 1 - e^-2
        assert below == pytest.approx(3 * math.exp(-2))
        assert above == pytest.approx(1 - math.exp(-2))


def test_tails_between_two_counts_are_interpolated():
    low, high, middle = (skellam_tails(2.0, 1.0, c) for c in (1, 2, 1.25))
    for side in (0, 1):
        assert middle[side] == pytest.approx(0.75 * low[side] + 0.25 * high[side])


def test_equal_weights_have_the_law_of_a_count():
    """Forty rows of chance .02: nearly Poisson's law of their number, whatever the weight."""
    chance, y = np.full(40, 0.02), np.zeros(40)
    y[:4] = 1.0
    exact = sum_p_value(chance, y)
    for weight in (1.0, 3.0, 1e6):
        w = np.full(40, weight)
        p_value = jump_p_value(float(w @ (y - chance)), JumpSums.of(chance, w))
        # Poisson's variance, .8, is wider than the binomial's, .784
        assert exact < p_value < 1.3 * exact


def test_the_size_of_a_jump_keeps_variance_and_fourth_cumulant():
    chance, w = np.array([0.1, 0.3, 0.9]), np.array([1.0, 2.0, 3.0])
    v = chance * (1 - chance)
    sums = JumpSums.of(chance, w)
    assert sums.variance == pytest.approx(v @ w**2)
    assert sums.fourth == pytest.approx(v @ w**4)
    assert sums.rising == pytest.approx((v * w**2)[:2].sum())
    assert expected_jumps(sums) == pytest.approx((v @ w**2) ** 2 / (v @ w**4))


@pytest.mark.parametrize("seed", range(4))
def test_p_values_of_weighted_rows_hold_their_level_exactly(seed):
    """All outcomes of nine rows: P(p-value <= level) never exceeds it by much."""
    rng = np.random.default_rng(seed)
    chance = rng.choice([0.02, 0.1, 0.5, 0.9, 0.99], size=9)
    w = rng.exponential(size=9)
    sums, total = JumpSums.of(chance, w), dict.fromkeys((0.05, 0.01, 0.001), 0.0)
    for outcome in product((0.0, 1.0), repeat=9):
        y = np.array(outcome)
        p = float(np.prod(np.where(y > 0, chance, 1 - chance)))
        value = jump_p_value(float(w @ (y - chance)), sums)
        for level in total:
            total[level] += p * (value <= level)
    assert all(share <= 1.3 * level for level, share in total.items())


def test_many_jumps_are_normal():
    rng = np.random.default_rng(0)
    chance, w = rng.uniform(0.2, 0.8, 2000), rng.exponential(size=2000)
    y = (rng.random(2000) < chance).astype(float)
    sums = JumpSums.of(chance, w)
    deviation = float(w @ (y - chance))
    z = deviation / math.sqrt(sums.variance)
    assert expected_jumps(sums) > 30
    assert jump_p_value(deviation, sums) == math.erfc(abs(z) / math.sqrt(2))


@pytest.mark.parametrize("chance", [1e-200, 1e-308, 5e-324])
def test_chances_whose_square_underflows_have_a_p_value(chance):
    # P(y = 1) is about the chance itself, and y = 0 all but certain
    one, weight = np.array([chance]), np.array([2.0])
    assert sum_p_value(one, np.zeros(1), weight) == pytest.approx(1.0)
    assert sum_p_value(one, np.ones(1), weight) <= 1e-15
    # steps of three rows: the number of jumps underflows too
    sums = JumpSums.of(one, weight)
    assert jump_p_value(0.0, sums, clustering=3.0) == pytest.approx(1.0)


def test_a_group_within_one_unit_has_a_p_value():
    """One unit has no degree of freedom; with weights its p-value was NaN."""
    rng = np.random.default_rng(0)
    c, w = rng.uniform(0.6, 0.99, 40), rng.exponential(size=40)
    one = Units.of(np.zeros(40, dtype=int))
    for y in (np.ones(40), np.zeros(40), (rng.random(40) < c).astype(float)):
        for weight in (None, w):
            p_value = sum_p_value(c, y, weight, one)
            assert 0.0 <= p_value <= 1.0


def test_small_tails_of_poisson_s_law_do_not_cancel():
    # P(N >= 60 | mean 5) by its series: the complement of the lower tail is rounding
    terms = [math.exp(j * math.log(5) - 5 - math.lgamma(j + 1)) for j in range(60, 200)]
    assert poisson_p_value(60, 5.0) == pytest.approx(2 * math.fsum(terms), rel=1e-12)
    assert poisson_p_value(0, 3.0) == pytest.approx(2 * math.exp(-3))


def test_exact_sums_agree_with_their_convolution():
    chance = np.array([0.1, 0.2, 0.7])
    law = poisson_binomial(chance)
    for count in range(4):
        y = (np.arange(3) < count).astype(float)
        expected = min(1.0, 2 * min(law[: count + 1].sum(), law[count:].sum()))
        assert sum_p_value(chance, y) == pytest.approx(expected)


# ---- levels by simulation, kept in benchmarks/levels.json


def stored(experiment):
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    cells = [entry for entry in record if entry["experiment"] == experiment]
    assert cells and all(entry["replicates"] >= 100 for entry in cells)
    return cells


def share(cell, name):
    return cell["sums"][name][0] / cell["replicates"]


@pytest.mark.parametrize(
    ("experiment", "name", "most"),
    [
        ("weighted", "not clean", 0.10),  # .48 with sums taken as normal
        ("weighted", "classes 0.05", 0.05),
        ("weighted", "classes 0.01", 0.02),
        ("weighted", "groups 0.05", 0.05),
        ("near", "ece misses", 0.06),  # .48 before
        ("near", "ece_mass misses", 0.06),
        ("near", "tce2 misses", 0.08),
        ("near", "nll 0.01", 0.03),  # .05 to .08 as normal
        ("near", "gap 0.01", 0.03),
        ("near", "ks 0.01", 0.03),
        ("near", "kuiper 0.01", 0.03),
        ("near", "spiegelhalter 0.01", 0.03),
        # .16 by rows; .09 by the factor of overlapping folds alone
        ("folds", "misses", 0.05),
        ("uneven", "nll misses", 0.10),  # .19 before
        ("uneven", "brier_top misses", 0.10),
        ("uneven", "auroc misses", 0.08),
        ("together", "frequencies differ", 0.01),  # 1.00 by rows
        ("together", "doubt", 0.01),  # .23 by rows
        ("band", "curve leaves", 0.10),  # .37 to .95 pointwise
        ("band", "bars leave", 0.10),
        # 120 sets a cell: .05 and two standard errors
        ("crossed", "not clean", 0.09),
        ("crossed", "exact", 0.09),
        ("crossed", "gap misses", 0.09),
        ("findings", "labels", 0.01),
        ("findings", "too_good", 0.01),
        ("findings", "lacking", 0.01),
        ("findings", "sampled", 0.01),
        ("findings", "not clean", 0.10),
        ("findings", "tce2 0.05", 0.10),  # .09 of bins of three rows before
        ("gain", "bound above", 0.05),  # the estimate: .79 to .87 of those said
        ("gain", "range misses", 0.06),  # .14 without regard to the choice
    ],
)
def test_stored_levels_hold(experiment, name, most):
    cells = [cell for cell in stored(experiment) if name in cell["sums"]]
    assert cells and max(share(cell, name) for cell in cells) <= most


def test_stored_power_is_kept():
    many = [c for c in stored("together") if c["cell"]["units"] == 100]
    assert min(share(c, "exchange found") for c in many) >= 0.4
    assert min(share(c, "other frequencies found") for c in many) >= 0.5
