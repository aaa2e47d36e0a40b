"""The anytime-valid test: values done outside this code, expectations by enumeration, levels by simulation."""

import itertools
import math

import numpy as np
import pytest

from calcli.statistics.betting import ALTERNATIVES, Evidence, batch_log_factors, factors
from calcli.statistics.units import Units

FIRST = np.array([0.9, 0.8, 0.7])
SECOND = np.array([0.95, 0.6])


def evidence(batches, tolerance):
    found = Evidence.none()
    for c, y in batches:
        found = found.after(
            batch_log_factors(np.array(c), np.array(y, dtype=float), tolerance)
        )
    return found


# Computed outside this code from the formulas in the docstring of the module, with another least chance (hence 1e-9).
@pytest.mark.parametrize(
    ("tolerance", "expected"),
    [(0.0, (-0.0414191384, 0.4006586249)), (0.02, (-0.0459676171, 0.2184147383))],
)
def test_two_batches_by_formula(tolerance, expected):
    both = [(FIRST, [1, 0, 1]), (SECOND, [0, 1])]
    assert evidence(both[:1], tolerance).log_e == pytest.approx(expected[0], abs=1e-10)
    assert evidence(both, tolerance).log_e == pytest.approx(expected[1], abs=1e-9)


@pytest.mark.parametrize(
    ("tolerance", "expected"),
    [
        (
            0.0,
            (-0.1317494659, 0.4163046310, -0.1142469774, 1.0712942608, -0.0680619400),
        ),
        (
            0.02,
            (-0.1092766100, 0.3209944512, -0.0852594405, 0.7348220241, -0.0341603884),
        ),
    ],
)
def test_factors_of_one_alternative_by_formula(tolerance, expected):
    which = [tuple(pair) for pair in ALTERNATIVES].index((0.0, 0.6))
    c, y = np.concatenate([FIRST, SECOND]), np.array([1.0, 0, 1, 0, 1])
    assert np.log(factors(c, y, tolerance)[:, which]) == pytest.approx(
        expected, abs=1e-10
    )


@pytest.mark.parametrize(
    ("tolerance", "shift"),
    [(0.0, 0.0), (0.02, -0.02), (0.02, 0.0), (0.02, 0.01), (0.02, 0.02)],
)
def test_the_expected_evidence_is_at_most_one(tolerance, shift):
    """All 32 outcomes of five rows, weighted by their chance where the truth lies within the tolerance."""
    c = np.concatenate([FIRST, SECOND])
    total = 0.0
    for y in itertools.product([0, 1], repeat=5):
        chance = float(np.prod(np.where(y, c + shift, 1 - c - shift)))
        total += chance * math.exp(
            evidence([(FIRST, y[:3]), (SECOND, y[3:])], tolerance).log_e
        )
    assert total <= 1 + 1e-12
    if tolerance == 0.0:
        assert total == pytest.approx(1, abs=1e-12)


def test_the_factor_of_a_unit_is_the_mean_of_its_rows():
    c, y = np.array([0.9, 0.8, 0.7, 0.6]), np.array([1.0, 0, 1, 0])
    units = Units.of(np.array(["b", "a", "b", "a"]))
    each = factors(c, y, 0.02)
    by_hand = np.log((each[0] + each[2]) / 2) + np.log((each[1] + each[3]) / 2)
    assert batch_log_factors(c, y, 0.02, units) == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.parametrize("size", [1, 7, 3000])
def test_many_units_equal_one_at_a_time(size):
    rng = np.random.default_rng(2)
    code = np.repeat(np.arange(40_000 // size), size)
    c, y = (
        rng.uniform(0.5, 1, len(code)),
        (rng.uniform(size=len(code)) < 0.7).astype(float),
    )
    shuffled = rng.permutation(len(code))
    whole = batch_log_factors(c[shuffled], y[shuffled], 0.02, Units.of(code[shuffled]))
    each = factors(c, y, 0.02).reshape(-1, size, len(ALTERNATIVES)).mean(axis=1)
    assert whole == pytest.approx(np.log(each).sum(axis=0), rel=1e-9)


@pytest.mark.slow
def test_false_alarms_within_the_tolerance_are_rare():
    """30 batches of 60 near-certain rows at the edge of the tolerance: alarms in at most 5 % of 300 streams.

    Ville's inequality; 28 alarms or more have a chance below .001 at a rate of .05 (binomial).
    """
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(300):
        found = Evidence.none()
        for _ in range(30):
            c = 1 - np.exp(rng.uniform(math.log(0.01), math.log(0.3), 60))
            y = (rng.uniform(size=60) < np.clip(c - 0.02, 0, 1)).astype(float)
            found = found.after(batch_log_factors(c, y, 0.02))
            if found.log_e >= math.log(20):
                alarms += 1
                break
    assert alarms < 28


def test_a_change_is_found_and_its_start_estimated():
    rng, found = np.random.default_rng(3), Evidence.none()
    for batch in range(1, 31):
        c = rng.uniform(0.6, 0.95, 200)
        y = (rng.uniform(size=200) < (c if batch <= 15 else c - 0.12)).astype(float)
        found = found.after(batch_log_factors(c, y, 0.02))
    assert found.log_e > math.log(20)
    assert abs(found.since - 16) <= 2


def test_certain_and_wrong_is_finite():
    found = evidence([(np.array([1.0, 0.0]), [0, 1])], 0.0)
    assert math.isfinite(found.log_e) and found.log_e > 5
