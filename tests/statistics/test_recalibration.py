"""Logistic recalibration: other programs, published figures, and laws of the fits."""

import math

import numpy as np
import pytest
from r_random import RRandom

from calcli.numerics import sigmoid
from calcli.statistics.recalibration import (
    ClassRanges,
    OutcomeCounts,
    deviance_of_calibration,
    deviance_of_intercept,
    deviance_of_slope,
    fit_intercept,
    fit_recalibration,
    likelihood,
    profile_interval,
    sandwich_of_recalibration,
)
from calcli.statistics.sandwich import sandwich

CRITICAL = 3.841458820694124  # 95 % point of chi-squared with one degree of freedom


def example():
    """400 log-odds in 45 units with weights; slope about .7. RandomState never changes."""
    rng = np.random.RandomState(20)
    log_odds = rng.normal(-1.0, 1.5, 400)
    unit = rng.randint(0, 45, 400)
    weight = rng.gamma(2.0, 0.5, 400)
    chance = sigmoid(0.4 + 0.7 * log_odds)
    outcome = (rng.random_sample(400) < chance).astype(float)
    return log_odds, outcome, weight, unit


def fitted(log_odds, outcome, weight=None):
    sample = [OutcomeCounts.of_rows(log_odds, outcome, weight)]
    ranges = ClassRanges.of(sample)
    return sample, ranges, fit_recalibration(sample, ranges)


# statsmodels 0.15.0: GLM(y, [1, l], Binomial()).fit(tol=1e-15), with freq_weights=w
# where rows have weights: params, cov_params()
JOINT = {
    False: (
        [0.3059383848683762, 0.6061226388083546],
        [0.016396242776273683, 0.005579007354773166, 0.006979760537131006],
    ),
    True: (
        [0.4887271990036983, 0.6630480340183835],
        [0.01784095392655096, 0.006012569892668481, 0.007776351728105197],
    ),
}
# statsmodels 0.15.0: GLM(y, 1, Binomial(), offset=l).fit(tol=1e-15): params, bse
OFFSET = {
    False: (0.6094557780135093, 0.12038290964185011),
    True: (0.7430281695630566, 0.1253265126453399),
}
# the same with cov_type="cluster", cov_kwds={"groups": unit, "use_correction": False}
CLUSTER = {
    False: [0.015505259539556133, 0.005919180436668373, 0.008376582969055437],
    True: [0.022473608144278977, 0.010659234673766858, 0.014540880673331051],
}
OFFSET_CLUSTER = {False: 0.13245270539602194, True: 0.14729155708606256}
# and with groups=arange(400) and the weights: every row is a unit
ROWS = [0.0231227227852417, 0.008843734208290228, 0.012731065417454217]


def entries(covariance):
    return [covariance[0, 0], covariance[0, 1], covariance[1, 1]]


@pytest.mark.parametrize("weighted", [False, True])
def test_both_fits_equal_statsmodels(weighted):
    log_odds, outcome, weight, _ = example()
    sample, ranges, joint = fitted(log_odds, outcome, weight if weighted else None)
    params, covariance = JOINT[weighted]
    assert [joint.intercept, joint.slope] == pytest.approx(params, abs=1e-10)
    assert entries(joint.covariance) == pytest.approx(covariance, abs=1e-10)
    large = fit_intercept(sample, ranges)
    error = large.likelihood.information[0, 0] ** -0.5
    assert (large.intercept, error) == pytest.approx(OFFSET[weighted], abs=1e-10)
    assert large.slope == 1.0


def test_log_likelihoods_equal_statsmodels():
    """GLM(...).fit().llf, and loglike([0]) of the model of the offset alone."""
    sample, _, joint = fitted(*example()[:2])
    assert joint.likelihood.value == pytest.approx(-242.51606220853984, abs=1e-9)
    assert likelihood(sample, 0.0, 1.0).value == pytest.approx(-264.66994713312033)
    expected = 2.0 * (264.66994713312033 - 242.51606220853984)
    assert deviance_of_calibration(sample, joint) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_sandwich_equals_statsmodels(weighted):
    """Theirs without a correction; ours has the factor g / (g - 1) of 45 units."""
    log_odds, outcome, weight, unit = example()
    used = weight if weighted else np.ones(400)
    sample, ranges, joint = fitted(log_odds, outcome, used)
    arguments = (log_odds, outcome, used, unit)
    both = sandwich_of_recalibration(*arguments, joint, with_slope=True)
    expected = np.array(CLUSTER[weighted]) * 45 / 44
    assert entries(both.covariance) == pytest.approx(expected, abs=1e-10)
    large = fit_intercept(sample, ranges)
    alone = sandwich_of_recalibration(*arguments, large, with_slope=False)
    expected = OFFSET_CLUSTER[weighted] * math.sqrt(45 / 44)
    assert alone.standard_errors[0] == pytest.approx(expected, abs=1e-10)


def test_rows_with_weights_are_units_of_one():
    log_odds, outcome, weight, _ = example()
    _, _, joint = fitted(log_odds, outcome, weight)
    by_row = sandwich_of_recalibration(
        log_odds, outcome, weight, np.arange(400), joint, with_slope=True
    )
    expected = np.array(ROWS) * 400 / 399
    assert entries(by_row.covariance) == pytest.approx(expected, abs=1e-10)


def test_the_example_of_pmcalibration():
    """pmcalibration 0.1.0, vignette "external validation": logistic_cal(y, p) prints

    intercept -0.044 (0.12), z -0.36, p 0.7223, [-0.29, 0.19]; slope 1.336 (0.13),
    z 2.62 from 1, p 0.0088, [1.10, 1.60], both by profile likelihood. Its data are
    set.seed(2345); sim_dat(1000, a1 = -3, a3 = .3), of which it prints six rows.
    """
    random = RRandom(2345)
    x1, x2 = random.rnorm(1000), random.rnorm(1000)
    y = random.rbinom_once(sigmoid(-3.0 + x1 + x2 + 0.3 * x1 * x2))
    assert x1[:3] == pytest.approx([-1.19142464, 0.54930055, -0.06240514], abs=1e-8)
    assert x2[:3] == pytest.approx([-0.9245914, -1.0019698, 1.5438665], abs=1e-7)
    assert not y[:6].any()

    sample, ranges, joint = fitted(-3.0 + x1 + x2, y.astype(float))
    error = math.sqrt(joint.covariance[1, 1])
    assert (round(joint.slope, 3), round(error, 2)) == (1.336, 0.13)
    z = (joint.slope - 1.0) / error
    assert (round(z, 2), round(math.erfc(z / math.sqrt(2.0)), 4)) == (2.62, 0.0088)
    ends = profile_interval(
        lambda slope: deviance_of_slope(sample, ranges, joint, slope),
        joint.slope,
        error,
        CRITICAL,
    )
    assert [round(end, 2) for end in ends] == [1.10, 1.60]

    large = fit_intercept(sample, ranges)
    error = large.likelihood.information[0, 0] ** -0.5
    z = large.intercept / error
    assert (round(large.intercept, 3), round(error, 2)) == (-0.044, 0.12)
    assert (round(z, 2), round(math.erfc(-z / math.sqrt(2.0)), 4)) == (-0.36, 0.7223)
    ends = profile_interval(
        lambda intercept: deviance_of_intercept(sample, large, intercept),
        large.intercept,
        error,
        CRITICAL,
    )
    assert [round(end, 2) for end in ends] == [-0.29, 0.19]


def test_r_random_numbers():
    """set.seed(1); runif(3) in R prints 0.2655087 0.3721239 0.5728534."""
    assert RRandom(1).runif(3) == pytest.approx([0.2655087, 0.3721239, 0.5728534])


def test_two_risks_by_hand():
    """Four rows of .2, half of them 1, and four of .8, three of them 1.

    The slope joins two log-odds; the intercept solves 3 u^2 - 4.25 u - 5 = 0, u = e^a.
    """
    log_odds = np.log([0.25] * 4 + [4.0] * 4)
    outcome = np.array([0, 0, 1, 1, 0, 1, 1, 1], float)
    sample, ranges, joint = fitted(log_odds, outcome)
    assert joint.slope == pytest.approx(math.log(3.0) / math.log(16.0), abs=1e-12)
    assert joint.intercept == pytest.approx(0.5 * math.log(3.0), abs=1e-12)
    large = fit_intercept(sample, ranges).intercept
    u = (4.25 + math.sqrt(4.25**2 + 60.0)) / 6.0
    assert large == pytest.approx(math.log(u), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("shift", [-20.0, 0.0, 3.0])
def test_the_slope_undoes_any_map_of_the_log_odds(scale, shift):
    log_odds, outcome, *_ = example()
    _, _, plain = fitted(log_odds, outcome)
    _, _, mapped = fitted(shift + scale * log_odds, outcome)
    assert mapped.slope * scale == pytest.approx(plain.slope, rel=1e-9)
    back = mapped.intercept + mapped.slope * shift
    assert back == pytest.approx(plain.intercept, abs=1e-8)


def test_the_ends_of_a_profile_interval_have_the_critical_deviance():
    sample, ranges, joint = fitted(*example()[:2])

    def deviance(slope):
        return deviance_of_slope(sample, ranges, joint, slope)

    error = math.sqrt(joint.covariance[1, 1])
    low, high = profile_interval(deviance, joint.slope, error, CRITICAL)
    assert low < joint.slope < high
    for end in (low, high):
        assert deviance(end)[0] == pytest.approx(CRITICAL, abs=1e-5)
        rise = (deviance(end + 1e-5)[0] - deviance(end - 1e-5)[0]) / 2e-5
        assert deviance(end)[1] == pytest.approx(rise, rel=1e-4)


def test_counts_in_parts_are_rows_together():
    log_odds, outcome, weight, _ = example()
    whole = [OutcomeCounts.of_rows(log_odds, outcome, weight)]
    parts = [
        OutcomeCounts.of_rows(log_odds[part], outcome[part], weight[part])
        for part in np.array_split(np.arange(400), 7)
    ]
    one = fit_recalibration(whole, ClassRanges.of(whole))
    other = fit_recalibration(parts, ClassRanges.of(parts))
    assert other.slope == pytest.approx(one.slope, abs=1e-12)
    near = fit_recalibration(parts, ClassRanges.of(parts), start=one)
    assert near.slope == pytest.approx(one.slope, abs=1e-12)


@pytest.mark.parametrize(
    ("log_odds", "outcome", "reason"),
    [
        ([-1.0, 0.0, 1.0], [0, 0, 0], "all labels are class 0"),
        ([-1.0, 0.0, 1.0], [1, 1, 1], "all labels are class 1"),
        ([-1.0, 0.0, 1.0], [0, 0, 1], "separates the classes perfectly"),
        ([-1.0, 0.0, 1.0], [1, 0, 0], "separates the classes perfectly"),
        ([-1.0, 0.0, 0.0, 1.0], [0, 0, 1, 1], "separates the classes perfectly"),
        ([2.0, 2.0, 2.0], [0, 1, 1], "the same in all rows"),
        ([-1.0, 0.0, 0.5, 1.0], [0, 1, 0, 1], None),
    ],
)
def test_where_a_slope_is_finite(log_odds, outcome, reason):
    """Albert and Anderson (1984): exactly where the classes overlap."""
    sample = [OutcomeCounts.of_rows(np.array(log_odds), np.array(outcome, float))]
    ranges = ClassRanges.of(sample)
    if reason is None:
        assert ranges.why_no_slope is None
        assert fit_recalibration(sample, ranges).tells_slope(ranges)
    else:
        assert reason in ranges.why_no_slope


def test_classes_that_hardly_overlap_tell_no_slope():
    log_odds = np.array([-3.0, -2.0, 1e-9, 0.0, 2.0, 3.0])
    outcome = np.array([0, 0, 0, 1, 1, 1], float)
    _, ranges, joint = fitted(log_odds, outcome)
    assert ranges.why_no_slope is None
    assert not joint.tells_slope(ranges)


def test_the_jackknife_leaves_one_unit_out_at_a_time():
    """By its definition: from the scores and informations of all other units."""
    rng = np.random.RandomState(3)
    columns = np.stack([np.ones(60), rng.normal(size=60)], axis=1)
    code = np.repeat(np.arange(12), 5)
    scores = columns * rng.normal(size=(60, 1))
    scores -= scores.mean(axis=0)
    informations = columns[:, :, None] * columns[:, None, :]
    estimate = sandwich(scores, informations, code, np.zeros((2, 2)))
    total = informations.sum(axis=0)
    changes = []
    for unit in range(12):
        left = total - informations[code == unit].sum(axis=0)
        changes.append(np.linalg.solve(left, scores[code == unit].sum(axis=0)))
    changes = np.array(changes)
    expected = changes.T @ changes * 11 / 12
    assert estimate.jackknife == pytest.approx(expected, rel=1e-10)
    squares, fourths = (changes**2).sum(axis=0), (changes**4).sum(axis=0)
    degrees = 2.0 * squares**2 / (fourths - squares**2 / 12.0)
    assert estimate.degrees == pytest.approx(np.minimum(degrees, 12.0) - 1.0, rel=1e-10)


def test_degrees_of_freedom_are_those_of_equal_normal_units():
    """1000 units of one row, all alike: about 999, and never more."""
    rng = np.random.RandomState(4)
    scores = rng.normal(size=(1000, 1))
    estimate = sandwich(
        scores, np.ones((1000, 1, 1)), np.arange(1000), np.zeros((1, 1))
    )
    assert 850.0 < estimate.degrees[0] <= 999.0
    assert estimate.covariance[0, 0] == pytest.approx(1.0 / 1000.0, rel=0.15)


def test_one_unit_with_all_the_information_has_no_sandwich():
    scores = np.array([[1.0], [-1.0], [0.0]])
    informations = np.array([1.0, 0.0, 0.0])[:, None, None]
    assert sandwich(scores, informations, np.array([0, 1, 2]), np.eye(1)) is None
    assert sandwich(scores, informations, np.array([0, 0, 0]), np.eye(1)) is None


def test_the_errors_are_at_least_those_of_independent_rows():
    """Two rows a unit that cancel: the sums of units hardly vary, the rows do."""
    rng = np.random.RandomState(5)
    half = rng.normal(size=40)
    scores = np.stack([half, -half], axis=1).reshape(80, 1)
    estimate = sandwich(
        scores, np.ones((80, 1, 1)), np.repeat(np.arange(40), 2), np.array([[80.0]])
    )
    assert estimate.covariance[0, 0] == pytest.approx(0.0, abs=1e-20)
    assert estimate.cautious_errors[0] == pytest.approx(1.0 / math.sqrt(80.0))
