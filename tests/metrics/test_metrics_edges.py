"""Ends, thresholds and factors that one slip of the pen would move, each by hand or by a formula."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
import scipy.stats
from metric_cases import draw_labels, measured, plain_scores, softmax, top_label_table

import calcli
from calcli.binning import BinStats, width_edges
from calcli.errors import UsageError
from calcli.evaluation.cross_validation import decomposed_loss, decomposition_is_cheap
from calcli.evaluation.evaluate_bundle import class_lines, differences
from calcli.evaluation.facts import Difference, Paired
from calcli.evaluation.json_output import score_json
from calcli.evaluation.metric_limits import check, limits
from calcli.evaluation.results import Result
from calcli.evaluation.scores import Score
from calcli.evaluation.term_meanings import explained
from calcli.metrics.binned_errors import gap_variance, monotone_mass_bins
from calcli.metrics.catalog import measure
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.generalisation_bound import generalisation_bound
from calcli.metrics.losses import group_gaps, paired_sums
from calcli.metrics.row_means import resampled
from calcli.metrics.rowtable import ClassStats
from calcli.metrics.settings import MetricSettings
from calcli.metrics.significance import class_p_values
from calcli.metrics.warnings import data_warnings
from calcli.rows import ArrayRows
from calcli.statistics.adaptive_test import adaptive_test
from calcli.statistics.corp import _draw_right, consistency_band, merge_cells
from calcli.statistics.cumulative_gaps import cumulative_gaps
from calcli.statistics.intervals import (
    Interval,
    bootstrap_interval,
    mean_of,
    normal_quantile,
    normal_tail,
    t_p_value,
    t_quantile,
)
from calcli.statistics.nulls import _successes_of_one_bin, expected_error, outcome_draws
from calcli.statistics.p_values import adjusted, spiegelhalter
from calcli.statistics.smooth_error import grid_cells, smooth_errors, smooth_residuals
from calcli.statistics.squared_errors import SquaredError, signed_square, squared_error
from calcli.statistics.ties import Ranked
from calcli.statistics.weighted_sums import JumpSums, jump_p_value


def test_the_studentised_interval_leans_to_the_long_tail():
    """Exponential losses: the upper end lies farther out than the lower, and than Student's."""
    x = np.random.default_rng(0).exponential(size=(60, 1))
    i = bootstrap_interval(x, 0.95, 999, np.random.default_rng(1))[0]
    mean = mean_of(x[:, 0])
    assert i.high - mean.value > 1.2 * (mean.value - i.low)
    assert mean.value - i.low == pytest.approx(
        t_quantile(0.975, 201) * mean.se, rel=0.01
    )


def test_equal_weights_have_the_standard_error_of_none():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert mean_of(x, np.full(4, 3.0)).se == pytest.approx(mean_of(x).se, rel=1e-12)
    assert mean_of(x).se == pytest.approx(x.std(ddof=1) / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("times", "low"), [(2.01, "two"), (1.99, "half"), (1.70, "half"), (1.60, "one")]
)
def test_three_rules_of_the_debiased_interval(times, low):
    """Sun et al. (2024): two-sided from 2 z_(a/2) se, half the value from 2 z_a se, else one-sided; se 1."""
    two, one = normal_quantile(0.975), normal_quantile(0.95)
    value = times * two  # 2 z_a = 1.678 z_(a/2)
    low_end = SquaredError(0.01 * value, 0.01, 0.0, 0.0).interval(0.95).low / 0.01
    assert low_end == pytest.approx(
        {"two": value - two, "half": value / 2, "one": value - one}[low]
    )


def test_zero_belongs_to_the_interval_where_calibration_is_not_rejected():
    one = normal_quantile(0.95)
    assert SquaredError(0.99 * one * 0.01, 1e-6, 0.01, 0.0).interval(0.95).low == 0.0
    assert SquaredError(1.01 * one * 0.01, 1e-6, 0.01, 0.0).interval(0.95).low > 0.0


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (3, 2 * (1 - math.exp(-0.5) * (1 + 0.5 + 0.125))),
        (0, 1.0),
        (1, 2 * (1 - math.exp(-0.5))),
    ],
)
def test_rare_classes_have_both_poisson_tails(labels, expected):
    """Mean 0.5: P(X >= 3) and P(X >= 1) in closed form, twice; P(X <= 0) = .61 gives 1."""
    cell = [np.array([[x]]) for x in (100, 0.5, float(labels), 100.0, 100.0, 0.49)]
    assert class_p_values(ClassStats(*cell))[0] == pytest.approx(
        min(expected, 1.0), rel=1e-12
    )


def test_the_adaptive_test_looks_at_fine_bins():
    """Too sure and not sure enough in turn, every 2^-11 of the confidence: no bin wider than that sees it."""
    c = np.repeat((np.arange(512, 1024) + 0.5) / 1024, 4)
    y = np.repeat(np.arange(512) % 2, 4).astype(float)
    _, p, levels = adaptive_test(
        c, y, 99, outcome_draws(np.sort(c), 99, np.random.default_rng(0))
    )
    assert levels == int(2 * math.log2(2048 / math.sqrt(math.log(2048)))) == 19
    assert p == pytest.approx(0.01)
    c = np.linspace(0.1, 0.9, 9000)
    assert (
        adaptive_test(
            c, np.ones(9000), 3, outcome_draws(c, 3, np.random.default_rng(0))
        )[2]
        == 20
    )


def test_kuiper_begins_at_zero():
    """Two rows at 0.5, both wrong: C = 0, -1/2 where ties count at once; at .4 and .5: 0, -.2, -.45."""
    assert cumulative_gaps(
        Ranked.of(np.array([0.5, 0.5]), np.zeros(2)), 0.5
    ).kuiper == pytest.approx(0.5)
    assert cumulative_gaps(
        Ranked.of(np.array([0.4, 0.5]), np.zeros(2)), 0.5
    ).kuiper == pytest.approx(0.45)
    assert cumulative_gaps(
        Ranked.of(np.array([0.4, 0.5]), np.ones(2)), 0.5
    ).kuiper == pytest.approx(0.55)


def test_the_grid_of_the_smooth_error_is_fine_against_its_kernel():
    """Two opposite residuals 0.02 apart: the fixed point of the exact integral 2 m (2 Phi(d / 2s) - 1).

    The grid of 1024 cells blurs each residual by at most a cell, (1/1024)^2/12 of variance: 4e-4 of the width here.
    """
    m, d = 0.004, 0.02
    residuals = smooth_residuals(
        np.array([0.5, 0.5 + d]), np.array([m, -m]), grid_cells(10), 1.0
    )
    s = 0.004
    for _ in range(200):
        s = 2 * m * math.erf(d / (2 * s) / math.sqrt(2))
    assert float(smooth_errors(residuals)[0]) == pytest.approx(s, rel=5e-4)
    assert (grid_cells(100_000), grid_cells(100_001)) == (1024, 4096)


@pytest.mark.parametrize("sign", [1, -1])
def test_both_kinds_of_miscalibration_raise_the_lower_end(sign):
    """300 rows at .6 with accuracy .4 or .8: the lower end of the ECE's interval is that of the mean gap."""
    c = np.full(300, 0.6) + np.linspace(-0.02, 0.02, 300)
    y = (np.arange(300) % 10 < (4 if sign > 0 else 8)).astype(float)
    gap = mean_of(sign * (c - y))
    interval = measure(
        "ece", MetricContext(top_label_table(c, y), MetricSettings(resamples=2))
    ).interval
    assert interval.low == pytest.approx(
        gap.value - t_quantile(0.975, 299) * gap.se, rel=1e-9
    )
    assert interval.low > 0.1


@pytest.mark.parametrize(
    ("limit", "reached"),
    [
        ("accuracy_drop.hi", 0.03),
        ("accuracy_drop.lo", -0.01),
        ("accuracy_increase.hi", 0.01),
        ("accuracy_increase.lo", -0.03),
        ("accuracy_drop", 0.01),
        ("accuracy_increase.p", 0.4),
        ("accuracy.hi", 0.8),
        ("accuracy.lo", 0.6),
        ("accuracy.se", 0.05),
        ("accuracy.abs", 0.7),
    ],
)
def test_ends_of_limits(limit, reached):
    """The difference to the baseline is -.01 [-.03, .01]: a drop of .01, at most .03."""
    score = Score(
        "accuracy",
        0.7,
        "accuracy",
        se=0.05,
        interval=Interval(0.6, 0.8, 0.95, "wilson"),
    )
    paired = Paired(
        None,
        {"accuracy": Difference(-0.01, 0.01, Interval(-0.03, 0.01, 0.95, "t"), 0.4)},
    )
    result = Result("b", "c", "ts", 10, 2, {"accuracy": score}, paired)
    baseline = Result(
        "b",
        None,
        "uncalibrated",
        10,
        2,
        {"accuracy": Score("accuracy", 0.71, "accuracy")},
    )
    [outcome] = check(limits([f"{limit}=1"], []), result, baseline)
    assert outcome.value == pytest.approx(reached)


@pytest.mark.parametrize(
    ("df", "t"), [(3.5, 10.0), (0.7, 2.0), (200.0, 2.5), (12.25, 0.3)]
)
def test_students_t_takes_fractional_degrees(df, t):
    stats = pytest.importorskip("scipy.stats")
    assert t_p_value(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-9)
    assert t_quantile(0.975, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-9)
    if df == 3.5:
        assert t_p_value(t, df) == pytest.approx(0.0011, abs=5e-5)


def test_simes_by_hand():
    # min(3 .01, 3/2 .04, .5)
    assert adjusted(np.array([0.5, 0.01, 0.04])).min() == pytest.approx(0.03)
    assert adjusted(np.array([0.9])).min() == 0.9


def test_debiasing_counts_effective_rows():
    """Scores of .5 with random weights: the debiased square is 0 in the mean, as it is not with plain counts."""
    rng = np.random.default_rng(3)
    signed_squares = []
    for _ in range(3000):
        w = rng.exponential(size=40)
        bins = BinStats.of(
            np.full(40, 0.5), (rng.random(40) < 0.5).astype(float), width_edges(1), w
        )
        signed_squares.append(float(signed_square(bins)))
    # Kish's number is right to 1/n: the noise term itself is .25/20 = .0125.
    assert (
        abs(np.mean(signed_squares))
        < 4.5 * np.std(signed_squares) / math.sqrt(3000) + 0.0125 / 20
    )


def test_the_variance_of_ten_parts_poisson_from_normal():
    """At 10 the normal law, (3 / sqrt 10) twice sided; just below, twice P(X >= 43) of a Poisson law of mean 40."""
    poisson = 2 * (
        1 - sum(math.exp(j * math.log(40) - 40 - math.lgamma(j + 1)) for j in range(43))
    )
    for variance, expected in ((10.0, math.erfc(3 / math.sqrt(20.0))), (9.99, poisson)):
        cell = [np.array([[x]]) for x in (100.0, 40.0, 43.0, 100.0, 100.0, variance)]
        assert class_p_values(ClassStats(*cell))[0] == pytest.approx(expected, rel=1e-9)


def test_the_spread_of_gaps_is_around_the_ece():
    """Two bins of two rows: gaps .2 and .1, ECE .15, spread .05 squared."""
    confidence, correct = np.array([0.3, 0.3, 0.6, 0.6]), np.array([0.0, 1.0, 0.0, 1.0])
    bins = BinStats.of(confidence, correct, width_edges(2))
    assert gap_variance(bins) == pytest.approx(0.05**2, rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_sweeping_bins_passes_over_empty_ones():
    """Scores .1 .1 .9 .9: cuts inside equal scores leave bins empty, the rest rise, so 4 bins hold."""
    assert (
        monotone_mass_bins(
            np.array([0.1, 0.1, 0.9, 0.9]), np.array([0.0, 0.0, 1.0, 1.0])
        )
        == 4
    )
    assert (
        monotone_mass_bins(
            np.array([0.1, 0.2, 0.8, 0.9]), np.array([1.0, 1.0, 0.0, 0.0])
        )
        == 1
    )


def test_two_even_rows_by_hand():
    """X ~ Bin(2, 1/2): E|X - 1| = 1/2, half of it per row. V = 1/2: sqrt(2 V^2 / (2 . 1)) / 2 = 1/4."""
    even = np.array([0.5, 0.5])
    assert expected_error(even, width_edges(1)) == pytest.approx(0.25, rel=1e-12)
    assert squared_error(
        even, np.array([0.0, 1.0]), width_edges(1)
    ).null_sd == pytest.approx(0.25, rel=1e-12)


def test_columns_that_need_several_walks_are_the_same(monkeypatch):
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=7)
    monkeypatch.setattr("calcli.metrics.class_columns.COLUMN_BYTES", 8 * 7 * 2)
    columns = {
        c: column.copy()
        for c, column in class_columns(ArrayRows(p, kind="probs", block_rows=3))
    }
    assert list(columns) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(np.stack(list(columns.values()), axis=1), p)


def test_precision_and_recall_of_classes_by_hand():
    """Predicted 0 0 0 1 1 2 for labels 0 0 1 1 2 2."""
    said, y = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 2, 2])
    table = collect(
        ArrayRows(np.full((6, 3), 0.1) + 0.7 * np.eye(3)[said], y, "probs"),
        class_bins=15,
    )
    lines = {line.index: line for line in class_lines(MetricContext(table), None)}
    assert [lines[c].precision for c in range(3)] == pytest.approx([2 / 3, 1 / 2, 1])
    assert [lines[c].recall for c in range(3)] == pytest.approx([1, 1 / 2, 1 / 2])


def test_what_a_temperature_removes_is_found_by_a_temperature():
    """A bias that no temperature mends: the split by vector scaling finds it, the one by ts does not."""
    rng = np.random.RandomState(5)
    z = rng.normal(size=(900, 3)) * 2
    y = draw_labels(softmax(z), rng)
    rows = ArrayRows(z + np.array([1.5, 0.0, 0.0]), y, "logits")
    split = decomposed_loss(rows, None, collect(rows), seed=0)
    assert split.nll.calibration > 0.05
    assert split.temperature_nll.calibration < 0.5 * split.nll.calibration


def test_a_threshold_is_to_be_exceeded():
    table = collect(
        ArrayRows(
            np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]),
            np.array([0, 1, 1]),
            "probs",
        )
    )
    assert MetricContext(table, MetricSettings(threshold=0.25)).predicted.tolist() == [
        0,
        1,
        1,
    ]
    assert MetricContext(table, MetricSettings(threshold=0.75)).right.tolist() == [
        1,
        0,
        0,
    ]


@pytest.mark.parametrize(
    "swaps",
    [
        (),
        ((19, 20),),
        ((2, 30), (5, 25), (10, 33), (15, 28), (8, 22), (12, 36), (17, 23)),
    ],
)
def test_the_area_has_an_interval_on_the_scale_of_its_log_odds(swaps):
    """DeLong's variance from the pairs themselves; no interval where fewer than five rows lose any."""
    p = np.linspace(0.05, 0.95, 40)
    y = (p > 0.5).astype(int)
    for a, b in swaps:
        y[[a, b]] = y[[b, a]]
    value = measure(
        "roc_auc",
        MetricContext(collect(ArrayRows(np.column_stack([1 - p, p]), y, "probs"))),
    )
    won = (p[y == 1][:, None] > p[y == 0]).astype(float)
    area, shares = won.mean(), (won.mean(axis=1), won.mean(axis=0))
    se = np.sqrt(sum(share.var(ddof=1) / len(share) for share in shares))
    assert (value.value, value.se) == pytest.approx((area, se))
    if len(swaps) < 2:
        assert value.interval is None
        assert value.more["ci_reason"].endswith(
            "of 40 rows carry this area: no interval"
        )
        return
    carrying = min(
        (1 - share).sum() ** 2 / ((1 - share) ** 2).sum() for share in shares
    )
    reach = scipy.stats.t.ppf(0.975, carrying - 1) * se / (area * (1 - area))
    wanted = scipy.special.expit(scipy.special.logit(area) + np.array([-reach, reach]))
    assert (value.interval.low, value.interval.high) == pytest.approx(
        tuple(wanted), rel=1e-9
    )


@pytest.mark.parametrize("power", [1.0, 0.2, 5.0])
def test_merged_cells_are_narrow_and_few(power):
    """At most 2 / cells wide and cells in number, the confidence 1 with its neighbours."""
    x = np.linspace(0, 1, 5001) ** power
    cells = merge_cells(x, np.zeros(5001, dtype=np.int64), cells=40)
    assert len(cells.first) <= 40
    assert max(np.ptp(part) for part in np.split(x, cells.first[1:])) < 2 / 40
    assert cells.weight[-1] > 1


def test_mean_miscalibration_by_enumeration():
    """Two cells of 3 rows at 1/2: all 16 pairs of sums; where the first is larger the fit pools them."""
    share = [1 / 8, 3 / 8, 3 / 8, 1 / 8]
    wanted = 0.0
    for a in range(4):
        for b in range(4):
            fit = (a / 3, b / 3) if a <= b else ((a + b) / 6,) * 2
            loss = ((0.5 - a / 3) ** 2 + (0.5 - b / 3) ** 2) / 2
            wanted += (
                share[a]
                * share[b]
                * (loss - ((fit[0] - a / 3) ** 2 + (fit[1] - b / 3) ** 2) / 2)
            )
    c = np.repeat([0.5, 0.5 + 1e-9], 3)
    band = consistency_band(
        c, np.zeros(6, dtype=np.int64), 1, np.random.default_rng(0), resamples=20000
    )
    assert band.mcb_mean == pytest.approx(wanted, rel=0.03)


def test_common_classes_are_tested_by_the_normal_law():
    """100 expected with variance 100: 130 and 70 are three standard deviations away, p = .0026998."""
    for observed in (130.0, 70.0):
        row = np.array([[100.0]])
        stats = ClassStats(
            np.array([[1000]]), row, np.array([[observed]]), row * 10, row * 10, row
        )
        assert class_p_values(stats)[0] == pytest.approx(0.0026997960632602, rel=1e-9)


def test_the_bound_begins_at_the_error():
    bound = generalisation_bound(0.1, 10000, 15)
    assert bound["printed"] == pytest.approx(
        0.1 + 15 * math.sqrt(2 * math.log(80) / 10000)
    )
    assert bound["repaired"] == pytest.approx(
        0.1 + 16 * math.sqrt(2 * math.log(1200) / 10000)
    )


def test_errors_of_calibrated_rows_by_hand():
    """One row of .3: E|Y - .3| = .42; .3 and .6 in a bin: .28 x .9 + .54 x .1 + .18 x 1.1 = .504, over two rows."""
    assert expected_error(np.array([0.3]), width_edges(1)) == pytest.approx(0.42)
    assert expected_error(np.array([0.3, 0.6]), width_edges(1)) == pytest.approx(
        0.504 / 2
    )
    error = squared_error(np.full(4, 0.5), np.array([1.0, 0, 1, 0]), width_edges(1))
    assert error.null_sd == pytest.approx(math.sqrt(2 * 1.0**2 / (4 * 3)) / 4), (
        "variance 4 x 1/4, 6 pairs twice"
    )


def test_bins_used_may_hold_one_row():
    table = top_label_table([0.1, 0.5, 0.9], [0, 1, 1])
    assert (
        measure("ece", MetricContext(table, MetricSettings(bins=5))).more["bins_used"]
        == 3
    )


def test_spiegelhalters_z_by_its_formula():
    """(y - c)(1 - 2c): -.1 x .8, .4 x -.2, .1 x -.8 sum to -.24; variances (1 - 2c)^2 c (1 - c) to .1248."""
    test = spiegelhalter(np.array([0.1, 0.6, 0.9]), np.array([0.0, 1.0, 1.0]))
    assert test.z == pytest.approx(
        -0.24 / math.sqrt(0.64 * 0.09 + 0.04 * 0.24 + 0.64 * 0.09)
    )


@pytest.mark.parametrize("text", ["ece", "ece=", "ece=nan", "ece=x"])
def test_a_limit_needs_a_number(text):
    with pytest.raises(UsageError, match="expected NAME=NUMBER"):
        limits([text], [])


def test_a_score_says_what_it_has():
    plain, known = Score("ece", 0.1, "s"), Score("ece", 0.1, "s", se=0.25)
    assert "se" not in score_json(plain)
    assert score_json(known)["se"] == 0.25


def test_rows_that_differ_and_are_many_need_no_warning():
    assert data_warnings(5000, 2, 0.5, 15) == []
    assert data_warnings(5000, 2, 0.0, 15) == [
        "all confidences are equal: calibration errors see one point only"
    ]
    assert data_warnings(1, 1, 0.0) == [
        "all labels are the same class: this says nothing about the others"
    ]


def test_single_parts_are_off_only_where_the_verdict_says_so():
    assert adjusted(np.array([1e-6, 0.5, 0.9])).tolist() == [
        3e-6,
        0.75,
        0.9,
    ]  # Benjamini and Hochberg by hand
    off, right = (
        MetricContext(
            collect(
                ArrayRows(np.full((100, 1), 0.8), np.arange(100) < count, "confidence")
            )
        )
        for count in (40, 80)
    )
    gaps = group_gaps([off, right], None)["top"]
    assert [gap.p_adjusted for gap in gaps] == pytest.approx([2 * gaps[0].p_value, 1.0])


def test_one_sided_p_values_have_both_sides():
    assert [normal_tail(z) for z in (1.0, 0.0, -1.0)] == pytest.approx(
        [0.158655254, 0.5, 0.841344746]
    )


def test_average_precision_of_class_one():
    """Scores .9 .6 .3 for labels 1 0 1: precision 1 at half the recall, 2/3 at the rest."""
    p = np.array([0.9, 0.6, 0.3])
    table = collect(
        ArrayRows(np.column_stack([1 - p, p]), np.array([1, 0, 1]), "probs")
    )
    assert measure("average_precision", MetricContext(table)).value == pytest.approx(
        0.5 * 1 + 0.5 * 2 / 3
    )
    none = collect(
        ArrayRows(np.column_stack([1 - p, p]), np.zeros(3, dtype=int), "probs")
    )
    assert (
        measure("average_precision", MetricContext(none)).reason == "no row of class 1"
    )


def test_weighted_accuracy_at_a_share_by_hand():
    """Half of the weight 4 lies within the first two rows, of weight 1 (right) and 2 (wrong)."""
    table = top_label_table(
        [0.9, 0.8, 0.7], [1, 0, 1], weight=np.array([1.0, 2.0, 1.0])
    )
    assert measure(
        "accuracy_at_coverage(0.5)", MetricContext(table)
    ).value == pytest.approx(1 / 3)
    assert measure("accuracy_at_coverage(0.2)", MetricContext(table)).value == 1.0


@pytest.mark.parametrize(
    ("n", "k", "cheap"),
    [(99, 2, False), (100, 2, True), (10**6, 2, True), (10**6 + 1, 2, False)],
)
def test_which_splits_are_cheap(n, k, cheap):
    assert decomposition_is_cheap(n, k) == cheap


@pytest.mark.parametrize(
    ("n", "settings", "wanted"),
    [(5000, {}, True), (5001, {}, False), (5001, {"interval": "bootstrap"}, True), (3, {}, True), (2, {}, False),
     (100, {"interval": "t"}, False), (100, {"resamples": 1}, False), (100, {"resamples": 2}, True)],
)  # fmt: skip
def test_what_is_resampled(n, settings, wanted):
    table = top_label_table(np.full(n, 0.5), np.zeros(n))
    assert resampled(MetricContext(table, MetricSettings(**settings))) == wanted


def test_rows_without_a_difference_do_not_hide_those_with_one():
    a = top_label_table([0.9] * 20 + [0.6] * 20, [1, 0] * 20)
    b = top_label_table([0.9] * 20 + [0.9] * 20, [1, 0] * 20)
    by_metric = differences(paired_sums(MetricContext(a), MetricContext(b)), 0.95)
    assert by_metric["brier"].p_value < 0.9
    assert by_metric["accuracy"].p_value == 1.0


def test_a_threshold_is_signed_where_it_is_not_the_usual_one():
    table = top_label_table([0.9], [1])
    assert MetricContext(table).threshold_signature == {}
    assert MetricContext(table, MetricSettings(threshold=0.3)).threshold_signature == {
        "threshold": "0.3"
    }


def test_weighted_errors_have_no_bracket():
    c, right = np.linspace(0.5, 0.9, 40), np.arange(40) % 2
    assert measure("ece", MetricContext(top_label_table(c, right))).interval is not None
    assert (
        measure(
            "ece", MetricContext(top_label_table(c, right, weight=np.full(40, 2.0)))
        ).interval
        is None
    )


def test_accuracies_that_rise_allow_a_bin_a_row():
    assert (
        monotone_mass_bins(np.arange(1, 11) / 11, (np.arange(10) >= 5).astype(float))
        == 10
    )


def test_weighted_classes_are_tested_by_the_law_of_few_jumps():
    p, y = (
        np.array([[0.9, 0.1]] * 12 + [[0.2, 0.8]] * 8),
        np.array([0] * 9 + [1] * 3 + [0, 0] + [1] * 6),
    )
    rows = ArrayRows(p, y, "probs", weight=np.arange(20) % 3 + 1.0)
    table = collect(rows, class_bins=5)
    lines = class_lines(MetricContext(table), None)
    w = rows.weights()
    for line in lines:
        chance, label = p[:, line.index], y == line.index
        expected = jump_p_value(float(w @ (label - chance)), JumpSums.of(chance, w))
        assert line.p_value == pytest.approx(expected, rel=1e-9)
    # equal weights say nothing
    same = collect(ArrayRows(p, y, "probs", weight=np.full(20, 1.5)), class_bins=5)
    plain = collect(ArrayRows(p, y, "probs"), class_bins=5)
    assert (
        class_p_values(same.classes).tolist() == class_p_values(plain.classes).tolist()
    )


def test_squared_differences_are_the_brier_score_where_rows_sum_to_one():
    p, y = plain_scores()
    assert measured(p, y, "mse_raw").value == pytest.approx(
        measured(p, y, "brier_mean").value, rel=1e-12
    )


def test_the_floor_of_the_ece_is_exact_and_not_drawn():
    """Its mean under calibration is that of the binomials, whatever the draws; other norms draw theirs."""
    rng = np.random.default_rng(0)
    table = top_label_table(
        rng.uniform(0.3, 1.0, 200), (rng.random(200) < 0.6).astype(float)
    )
    few, many = (
        measure("ece", MetricContext(table, MetricSettings(resamples=draws))).null.mean
        for draws in (3, 200)
    )
    assert (
        few
        == many
        == pytest.approx(expected_error(table.confidence, width_edges(15)), rel=1e-12)
    )


def test_confidences_that_rounding_has_left_above_one_can_be_drawn():
    above = np.nextafter(1.0, 2.0)
    cells = merge_cells(np.full(3, above), np.zeros(3, dtype=np.int64), None, 100)
    assert cells.confidence.max() > 1
    drawn = _draw_right(np.full(3, above), cells, None, 5, np.random.default_rng(0))
    assert (drawn == 3).all()
    many = _successes_of_one_bin(
        np.full(5000, above), None, 5, np.random.default_rng(0)
    )
    assert (many == 5000).all()


@pytest.mark.parametrize("k", [2, 3])
def test_class_one_is_explained_where_there_are_two(k):
    result = SimpleNamespace(scores={}, n_classes=k, per_class=None, per_group=None)
    assert ("P(class 1)" in dict(explained([result], True, MetricSettings()))) == (
        k == 2
    )


@pytest.mark.parametrize("n", [1, 2, 3, 15])
@pytest.mark.parametrize("name", ["marginal2", "marginal2_raw", "cwece2"])
def test_debiased_errors_need_two_rows_in_a_bin(n, name):
    """15 bins of at most one row have no spread to subtract; they gave 0, as of calibrated
    rows."""
    p = (np.arange(n) + 0.5) / n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = calcli.evaluate(
            np.stack([1 - p, p], axis=1), np.arange(n) % 2, kind="probs", metrics=[name]
        )
    score = evaluation.results[0].scores[name]
    assert score.value is None or math.isnan(score.value)
    assert "two rows" in score.reason


def test_a_squared_difference_needs_no_pairs():
    """mse_raw is a mean over rows: by hand (.1^2 + .2^2 + .7^2) / 3 in both columns."""
    p = np.array([0.1, 0.8, 0.7])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = calcli.evaluate(
            np.stack([1 - p, p], axis=1), [0, 1, 0], kind="probs", metrics=["mse_raw"]
        )
    assert evaluation.results[0].scores["mse_raw"].value == pytest.approx(0.54 / 3)


@pytest.mark.parametrize("name", ["marginal2", "marginal2_raw", "tce2", "cwece2"])
def test_debiased_errors_by_unit_need_two_units_in_a_bin(name):
    """Two rows of one unit in every bin: they share their luck, and show no bias."""
    p = (np.arange(30) + 0.5) / 30
    if name == "tce2":
        p = 0.5 + p / 2.0  # the confidence, in the same order
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = calcli.evaluate(
            np.stack([1 - p, p], axis=1),
            np.arange(30) % 2,
            kind="probs",
            metrics=[name],
            units=np.arange(30) // 2,  # as the bins of equal mass
        )
    assert "two units" in evaluation.results[0].scores[name].reason
