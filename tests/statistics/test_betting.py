"""The anytime-valid test: values done outside this code, expectations by enumeration, levels by simulation."""

import itertools
import math

import numpy as np
import pytest

from calcli.statistics.betting import (
    ALTERNATIVES,
    BENDS,
    Evidence,
    batch_log_factors,
    factors,
)
from calcli.statistics.units import Units

FIRST = np.array([0.9, 0.8, 0.7])
SECOND = np.array([0.95, 0.6])


def evidence(batches, tolerance):
    evidence_so_far = Evidence.none()
    for c, y in batches:
        evidence_so_far = evidence_so_far.after(
            batch_log_factors(np.array(c), np.array(y, dtype=float), tolerance)
        )
    return evidence_so_far


BOTH = [(FIRST, [1, 0, 1]), (SECOND, [0, 1])]


# Computed outside this code, by a loop over rows and alternatives in plain Python, from the formulas in the docstring
# of the module, with another least chance (hence 1e-9).
@pytest.mark.parametrize(
    ("tolerance", "expected"),
    [(0.0, (-0.0376671745, 0.3769911077)), (0.02, (-0.0417949566, 0.2060007333))],
)
def test_two_batches_by_formula(tolerance, expected):
    assert evidence(BOTH[:1], tolerance).log_e == pytest.approx(expected[0], abs=1e-10)
    assert evidence(BOTH, tolerance).log_e == pytest.approx(expected[1], abs=1e-9)


@pytest.mark.parametrize(
    ("tolerance", "expected"),
    [(0.0, (-0.0414191384, 0.4006586249)), (0.02, (-0.0459676171, 0.2184147383))],
)
def test_the_bends_alone_have_the_evidence_of_calcli_0_2(tolerance, expected):
    """The mean over the 41 alternatives that calcli 0.2 had, computed outside this code when they were specified."""
    for count in (1, 2):
        bends = evidence(BOTH[:count], tolerance).log_sums[: len(BENDS)]
        mean = np.exp(bends).mean() + 1.0 / (count + 1.0)
        assert math.log(mean) == pytest.approx(expected[count - 1], abs=1e-9)


def test_factors_of_a_cut_by_hand():
    """At tolerance .02 the score is cut at .95 and .9; below these the alternative is the score itself. The two other
    cuts leave the score as it is unless it is nearly certain."""
    c = np.array([0.8, 0.93, 0.99, 1.0, 1.0, 0.0, 0.0])
    y = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    by_hand = [
        (1.0, 1.0),
        (1.0, 0.9 / 0.91),
        (0.95 / 0.97, 0.9 / 0.97),
        (0.95 / 0.98, 0.9 / 0.98),
        (0.05 / 0.02, 0.1 / 0.02),
        (0.95 / 0.98, 0.9 / 0.98),
        (0.05 / 0.02, 0.1 / 0.02),
    ]
    log_factors = factors(c, y, 0.02)[:, len(BENDS) :]
    assert log_factors[:, :2] == pytest.approx(np.array(by_hand), rel=1e-9)
    assert log_factors[:3, 2:] == pytest.approx(np.ones((3, 2)), abs=1e-12)
    assert log_factors[3:, 2:] == pytest.approx(log_factors[3:, :2], rel=1e-12)


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.3, 0.45, 0.499])
def test_a_cut_lies_beyond_every_tolerance(tolerance):
    """Certain rows that are wrong half of the time, within the tolerance or beyond it."""
    c, y = np.ones(2000), np.arange(2000) % 2.0
    assert evidence([(c, y)], tolerance).log_e > (
        math.log(20) if tolerance < 0.45 else 0.0
    )


def test_evidence_with_fewer_alternatives_goes_on_without_a_jump():
    """A state of calcli 0.2 has 41 sums. E stays the same with all alternatives, and so does its mean after a row."""
    former = evidence(BOTH, 0.02)
    kept = slice(0, len(BENDS))
    former = Evidence(
        2, former.log_sums[kept], former.log_best[kept], former.best_start[kept]
    )
    of_former = math.log(np.exp(former.log_sums).mean() + 1.0 / 3.0)
    whole = former.extended()
    assert whole.log_e == pytest.approx(of_former, abs=1e-12) and whole.since == int(
        former.best_start[former.log_best.argmax()]
    )
    expected = 0.0  # over both outcomes of one more row, whose chance is its score
    for outcome, chance in ((1.0, 0.97), (0.0, 0.03)):
        factor = batch_log_factors(np.array([0.97]), np.array([outcome]), 0.0)
        expected += chance * math.exp(whole.after(factor).log_e)
    assert expected == pytest.approx(math.exp(of_former), abs=1e-12)
    assert whole.extended() is whole


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
    log_factors = factors(c, y, 0.02)
    by_hand = np.log((log_factors[0] + log_factors[2]) / 2) + np.log(
        (log_factors[1] + log_factors[3]) / 2
    )
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
    log_factors = factors(c, y, 0.02).reshape(-1, size, len(ALTERNATIVES)).mean(axis=1)
    assert whole == pytest.approx(np.log(log_factors).sum(axis=0), rel=1e-9)


@pytest.mark.slow
def test_false_alarms_within_the_tolerance_are_rare():
    """30 batches of 60 near-certain rows at the edge of the tolerance: alarms in at most 5 % of 300 streams.

    Ville's inequality; 28 alarms or more have a chance below .001 at a rate of .05 (binomial).
    """
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(300):
        evidence_so_far = Evidence.none()
        for _ in range(30):
            c = 1 - np.exp(rng.uniform(math.log(0.01), math.log(0.3), 60))
            y = (rng.uniform(size=60) < np.clip(c - 0.02, 0, 1)).astype(float)
            evidence_so_far = evidence_so_far.after(batch_log_factors(c, y, 0.02))
            if evidence_so_far.log_e >= math.log(20):
                alarms += 1
                break
    assert alarms < 28


def certain_at_the_edge(rng, tolerance, past):
    """Six in ten rows certain, right as seldom as the tolerance allows; votes of five among the others."""
    votes = (rng.binomial(5, 0.8, 80) + 0.5) / 6.0
    c = np.where(rng.random(80) < 0.6, 1.0, votes)
    return c, np.clip(c - tolerance, 0.0, 1.0)


def both_ends(rng, tolerance, past):
    """P(class 1) that is often exactly 0 or 1, truth nearer to one half by the tolerance."""
    c = np.clip(rng.normal(0.5, 0.6, 80), 0.0, 1.0)
    return c, c + np.clip(0.5 - c, -tolerance, tolerance)


def against_the_past(rng, tolerance, past):
    """The truth goes to the side on which the last batch was off, as far as it may."""
    c = rng.beta(8.0, 1.0, 80)
    side = 1.0 if past is None else np.sign(past[1].mean() - past[0].mean())
    return c, np.clip(c + side * tolerance, 0.0, 1.0)


def in_waves(rng, tolerance, past):
    """A truth that differs from row to row, of near-certain scores."""
    c = 1.0 - 10.0 ** -rng.uniform(1.0, 9.0, 80)
    return c, np.clip(c + tolerance * np.sin(np.arange(80) / 5.0), 0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream", [certain_at_the_edge, both_ends, against_the_past, in_waves]
)
@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.1])
def test_the_level_holds_in_streams_that_nobody_designed_for(stream, tolerance):
    """25 batches of 80 rows whose truth lies in the band: alarms in at most 5 % of 200 streams.

    Ville's inequality; 21 alarms or more have a chance below .001 at a rate of .05 (binomial).
    """
    alarms = 0
    for seed in range(200):
        rng, evidence_so_far, past = np.random.default_rng(seed), Evidence.none(), None
        for _ in range(25):
            c, truth = stream(rng, tolerance, past)
            y = (rng.random(len(c)) < truth).astype(float)
            past = c, y
            evidence_so_far = evidence_so_far.after(batch_log_factors(c, y, tolerance))
            if evidence_so_far.log_e >= math.log(20):
                alarms += 1
                break
    assert alarms < 21


@pytest.mark.parametrize(
    ("share", "truth", "delay"),
    [(0.12, 0.5, 3), (0.12, 0.8, 7), (0.12, 0.9, 20), (0.5, 0.95, 18), (0.9, 0.5, 1)],
)
def test_certain_rows_that_are_wrong_are_found(share, truth, delay):
    """Batches of 100 rows; the certain ones, so many, are right this often from batch 11 on, the others calibrated,
    many of them near-certain.

    The 41 alternatives of calcli 0.2 found none of these in 60 batches (benchmarks/watch.json).
    """
    delays = []
    for seed in range(20):
        rng, evidence_so_far = np.random.default_rng(seed), Evidence.none()
        for batch in range(11 + 3 * delay):
            c = np.where(
                rng.random(100) < share, 1.0, 1.0 - 10.0 ** -rng.uniform(0.3, 4.0, 100)
            )
            p = np.where((c == 1.0) & (batch >= 10), truth, c)
            evidence_so_far = evidence_so_far.after(
                batch_log_factors(c, (rng.random(100) < p).astype(float), 0.02)
            )
            if evidence_so_far.log_e >= math.log(20):
                delays.append(batch - 9)
                break
    assert len(delays) == 20 and min(delays) > 0
    assert np.median(delays) <= delay


def test_a_change_is_found_and_its_start_estimated():
    rng, evidence_so_far = np.random.default_rng(3), Evidence.none()
    for batch in range(1, 31):
        c = rng.uniform(0.6, 0.95, 200)
        y = (rng.uniform(size=200) < (c if batch <= 15 else c - 0.12)).astype(float)
        evidence_so_far = evidence_so_far.after(batch_log_factors(c, y, 0.02))
    assert evidence_so_far.log_e > math.log(20)
    assert abs(evidence_so_far.since - 16) <= 2


def test_certain_and_wrong_is_finite():
    log_e = evidence([(np.array([1.0, 0.0]), [0, 1])], 0.0)
    assert math.isfinite(log_e.log_e) and log_e.log_e > 5
