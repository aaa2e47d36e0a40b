"""The joint test of P(class 1): exact values of three small cases, the long path, and what it leaves alone."""

from itertools import product

import numpy as np
import pytest

from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.joint_test import POSITIVE_SHARES, joint_test, min_p
from calcli.metrics.settings import MetricSettings
from calcli.metrics.smooth import smooth_error
from calcli.rows import ArrayRows
from calcli.statistics.nulls import SAME
from calcli.statistics.smooth_error import smooth_errors, smooth_residuals

# p, y, z_gap, z_slope, smECE over 1024 cells, mean and standard deviation of smECE over the law, the joint p-value: by
# enumerating all 2^8 outcomes with their chances, in a program of its own (float64, no draws).
ORACLE = [
    (
        [0.9, 0.8, 0.7, 0.6, 0.3, 0.2, 0.2, 0.05], [0, 1, 0, 0, 1, 0, 0, 0],
        1.5483088432, 1.7358433991, 0.21875, 0.1701912294, 0.0547751394, 0.12666136,
    ),
    (
        [0.05, 0.05, 0.1, 0.1, 0.2, 0.3, 0.02, 0.4], [0, 0, 0, 1, 1, 1, 0, 1],
        -2.9229171416, -0.5790557748, 0.3475, 0.1320323279, 0.0460271982, 0.015018468,
    ),
    ([0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1], [1, 0, 1, 0, 1, 0, 0, 0],
     0.8451542547, 0.2713497270, None, None, None, 0.79608304),
]  # fmt: skip


def context_of(p, y, weight=None, **settings):
    p = np.asarray(p, dtype=float)
    rows = ArrayRows(
        np.stack([1 - p, p], axis=1), np.asarray(y), "probs", weight=weight
    )
    return MetricContext(collect(rows), MetricSettings(**settings))


@pytest.mark.parametrize("case", ORACLE)
def test_it_is_the_enumeration_of_small_cases(case):
    p, y, gap_z, slope_z, error, centre, spread, joint = case
    test = joint_test(context_of(p, y), positive=True)
    assert (test.gap.z, test.sharpness.z) == (
        pytest.approx(gap_z, abs=1e-9),
        pytest.approx(slope_z, abs=1e-9),
    )
    p, outcomes = np.array(p), np.array(list(product([0.0, 1.0], repeat=8)))
    chance = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    w, odds = p * (1 - p), np.log(p / (1 - p))
    lift = odds - w @ odds / w.sum()
    z = [(p - outcomes) @ a / np.sqrt(w @ a**2) for a in (np.ones(8), lift)]
    errors = smooth_errors(
        np.array([smooth_residuals(p, p - labels, 1024) for labels in outcomes])
    )
    mean = chance @ errors
    law = mean, np.sqrt(chance @ (errors - mean) ** 2)
    statistic = min_p(*z, (errors - law[0]) / law[1], POSITIVE_SHARES)
    statistic_of_labels = statistic[(outcomes == np.array(y)).all(axis=1)][0]
    assert chance @ (statistic <= statistic_of_labels * (1 + SAME)) == pytest.approx(
        joint, abs=1e-7
    )
    if error is not None:
        assert smooth_error(context_of(p, y).labelled("positive")) == pytest.approx(
            error, abs=1e-9
        )
        assert law == (pytest.approx(centre, abs=1e-9), pytest.approx(spread, abs=1e-9))
    # So many draws tell it to four standard errors; near the level there are more.
    assert test.draws in ((400, 1000) if joint < 0.15 else (200,))
    assert test.p_value == pytest.approx(
        joint, abs=4 * np.sqrt(joint * (1 - joint) / test.draws) + 1 / test.draws
    )


def test_weights_of_two_are_rows_twice_in_expectation_but_not_in_spread():
    """By hand: sum a r / sqrt(sum a^2 w), the same for r (l - m) with m weighed by a^2 w."""
    p, y, _, _, *_ = ORACLE[0]
    a = np.array([2.0, 1, 1, 1, 3, 1, 1, 0.5])
    test = joint_test(context_of(p, y, weight=a), positive=True)
    p, r = np.array(p), np.array(p) - y
    v, odds = a**2 * p * (1 - p), np.log(p / (1 - p))
    lift = odds - v @ odds / v.sum()
    assert test.gap.z == pytest.approx(a @ r / np.sqrt(v.sum()))
    assert test.sharpness.z == pytest.approx((a * lift) @ r / np.sqrt(v @ lift**2))


@pytest.mark.parametrize("k", [2, 3])
def test_rows_that_are_all_right_are_not_rejected_by_rounding(k):
    """300 rows, mean confidence 1 - 6.6e-7: nearly all label draws are the observed one, and differ by rounding."""
    rng = np.random.default_rng(0)
    rejected = 0
    for seed in range(20):
        z = np.zeros((300, k))
        z[np.arange(300), rng.integers(0, k, 300)] = rng.uniform(14, 18, 300)
        table = collect(ArrayRows(z, z.argmax(axis=1)))
        rejected += (
            joint_test(
                MetricContext(table, MetricSettings(seed=seed)), positive=k == 2
            ).p_value
            <= 0.045
        )
    assert rejected == 0


def test_equal_scores_have_no_slope():
    test = joint_test(context_of(np.full(200, 0.3), np.arange(200) % 2), positive=True)
    assert test.sharpness.z == 0.0 and test.gap.z == pytest.approx(
        -0.2 * np.sqrt(200 / 0.21)
    )


def test_a_bias_of_one_class_is_found_where_the_top_label_hides_it():
    """Bias .17 in the logit at 2000 balanced rows: .72 of sets in a simulation of 150, the top label's test .03."""
    rng = np.random.default_rng(1)
    n_rejected = np.zeros(2)
    for seed in range(40):
        odds = rng.normal(size=2000) * 2
        y = rng.random(2000) < 1 / (1 + np.exp(-odds))
        context = context_of(1 / (1 + np.exp(-odds - 0.17)), y.astype(int), seed=seed)
        n_rejected += [
            joint_test(context, positive=positive).p_value <= 0.045
            for positive in (True, False)
        ]
    # four standard errors from .72; a twentieth is 2
    assert n_rejected[0] >= 21 and n_rejected[1] <= 8
