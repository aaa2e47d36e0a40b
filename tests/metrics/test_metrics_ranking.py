"""Metrics of order, the metrics of two classes, and what weights do to them."""

import numpy as np
import pytest
from metric_cases import draw_labels, softmax, top_label_table

from calcli.errors import UsageError
from calcli.metrics.catalog import measure, metric, report_metrics
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows
from calcli.statistics.areas import (
    area_under_roc,
    average_precision,
    best_risk_coverage,
    delong,
    risk_coverage,
    risk_spread,
)
from calcli.statistics.ties import Ranked

RNG = np.random.RandomState(0)
SCORES = RNG.randint(0, 30, 300) / 30  # many ties
OUTCOMES = (RNG.random_sample(300) < SCORES).astype(float)
WEIGHT = RNG.random_sample(300)


def binary(n=400, shift=0.0, weight=None, seed=1, **settings):
    """Rows of two classes whose log-odds carry a shift, as a context."""
    rng = np.random.RandomState(seed)
    z = rng.normal(size=n) * 2
    y = (rng.random_sample(n) < 1 / (1 + np.exp(-z))).astype(int)
    rows = ArrayRows(np.stack([np.zeros(n), z + shift], axis=1), y, weight=weight)
    s = MetricSettings(resamples=200, **settings)
    return MetricContext(collect(rows, class_bins=15), s, lambda: class_columns(rows))


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_areas_equal_scikit_learns(weight):
    metrics = pytest.importorskip("sklearn.metrics")
    assert area_under_roc(Ranked.of(SCORES, OUTCOMES, weight)) == pytest.approx(
        metrics.roc_auc_score(OUTCOMES, SCORES, sample_weight=weight), abs=1e-12
    )
    assert average_precision(Ranked.of(SCORES, OUTCOMES, weight)) == pytest.approx(
        metrics.average_precision_score(OUTCOMES, SCORES, sample_weight=weight),
        abs=1e-12,
    )


def test_several_classes_are_averaged_one_against_the_rest():
    metrics = pytest.importorskip("sklearn.metrics")
    z = RNG.normal(size=(300, 4)) * 2
    rows = ArrayRows(z, draw_labels(softmax(z), RNG))
    context = MetricContext(collect(rows), columns=lambda: class_columns(rows))
    assert measure("roc_auc", context).value == pytest.approx(
        metrics.roc_auc_score(rows.y, softmax(z), multi_class="ovr"), abs=1e-12
    )
    hot = np.eye(4)[rows.y]
    assert measure("average_precision", context).value == pytest.approx(
        metrics.average_precision_score(hot, softmax(z), average="macro"), abs=1e-12
    )
    assert measure("roc_auc", context).signature["label"] == "one-vs-rest"


def test_delong_by_hand():
    """Scores 1 3 | 0 2: a right row wins over 1, 2 of 2; a wrong one loses to 2, 1: variances 1/8 each, over 2."""
    ranked = Ranked.of(np.array([1.0, 3.0, 0.0, 2.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    se = delong(ranked, area_under_roc(ranked)).se
    assert se == pytest.approx(np.sqrt(0.125 / 2 + 0.125 / 2))
    assert np.isnan(
        delong(Ranked.of(np.array([1.0, 2.0]), np.array([1.0, 0.0])), 1.0).se
    )


def test_delong_interval_covers():
    """200000 rows hold the area; 200 repetitions of 80 rows, at most 20 misses of a 95 % interval (p < .002)."""
    whole = measure("roc_auc", binary(200_000)).value
    all_intervals = [
        measure("roc_auc", binary(80, seed=seed + 7)).interval for seed in range(200)
    ]
    intervals = [i for i in all_intervals if i is not None]
    assert (
        len(intervals) > 190
        and sum(not i.low <= whole <= i.high for i in intervals) <= 20
    )


def test_delong_interval_holds_where_few_rows_are_wrong():
    """Confidences of .91 on average, 60 rows: on its own scale DeLong's 95 % interval misses in 49 of 292 sets.

    With two rows in order in every pair there is no interval, not one of no length.
    """

    def context(n, seed):
        rng = np.random.default_rng([3, n, seed])
        c = rng.beta(12, 1.2, n)
        return MetricContext(top_label_table(c, (rng.random(n) < c).astype(float)))

    whole = measure("auroc", context(300_000, 0)).value
    intervals = [measure("auroc", context(60, seed)).interval for seed in range(300)]
    assert sum(i is not None and not i.low <= whole <= i.high for i in intervals) <= 24
    apart = measure(
        "auroc",
        MetricContext(top_label_table(np.linspace(0.4, 1, 60), np.arange(60) > 25)),
    )
    assert (
        apart.value == 1.0
        and apart.interval is None
        and "no interval" in apart.more["ci_reason"]
    )


def test_risk_coverage_by_hand():
    """Confidences .9 .8 .7, the second wrong: risks 0, 1/2, 1/3."""
    c, right = np.array([0.9, 0.8, 0.7]), np.array([1.0, 0.0, 1.0])
    assert risk_coverage(Ranked.of(c, right)) == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)
    assert best_risk_coverage(2.0, 1.0) == pytest.approx((0 + 0 + 1 / 3) / 3)
    context = MetricContext(top_label_table(c, right))
    assert measure("aurc", context).value == pytest.approx(5 / 18)
    assert measure("eaurc", context).value == pytest.approx(5 / 18 - 1 / 9)


@pytest.mark.parametrize("decimals", [12, 1])
def test_the_spread_of_risk_coverage_is_the_jackknifes(decimals):
    """Deleting each row in turn (Efron, Tibshirani 1993, section 11.5), ties and none; 1 % apart at 250 rows."""
    rng = np.random.default_rng(3)
    c = np.round(rng.beta(3, 1, 250), decimals)
    right = (rng.random(250) < c).astype(float)
    deviations = [left_out.se for left_out in risk_spread(Ranked.of(c, right))]

    def areas(rows):
        ranked = Ranked.of(c[rows], right[rows])
        area = risk_coverage(ranked)
        return area, area - best_risk_coverage(ranked.right, ranked.wrong)

    left_out = np.array(
        [areas(np.delete(np.arange(250), number)) for number in range(250)]
    )
    jackknife = np.sqrt(249 * left_out.var(axis=0))
    assert deviations == pytest.approx(jackknife, rel=0.01)
    drawn = np.array([areas(rng.integers(0, 250, 250)) for _ in range(500)])
    # its own noise is 3 %
    assert deviations == pytest.approx(drawn.std(axis=0), rel=0.1)


@pytest.mark.slow
def test_areas_have_an_interval_that_covers_where_enough_rows_carry_them():
    """Of 300 sets of 400 rows 3 to 26 miss at 95 % (p < .01 beyond); benchmarks/levels.json has more cells."""
    rng = np.random.default_rng(5)

    def context(n):
        c = rng.beta(4, 1, n) ** 2
        return MetricContext(
            top_label_table(
                np.round(0.2 + 0.8 * c, 2), (rng.random(n) < np.sqrt(c)).astype(float)
            )
        )

    whole, some = context(300_000), [context(400) for _ in range(300)]
    for name in ("aurc", "eaurc"):
        intervals = [measure(name, rows).interval for rows in some]
        assert {i.method for i in intervals} == {"influence function"}
        assert (
            3
            <= sum(not i.low <= measure(name, whole).value <= i.high for i in intervals)
            <= 26
        ), name


def test_an_area_without_an_interval_says_why():
    c, right = np.linspace(0.5, 1.0, 200), np.ones(200)
    right[[3, 60]] = 0.0
    few, weighted = (
        MetricContext(top_label_table(c, right)),
        MetricContext(top_label_table(c, right, weight=c)),
    )
    for name in ("aurc", "eaurc"):
        assert measure(name, few).interval is None
        assert (
            "of 200 rows carry this area: no interval"
            in measure(name, few).more["ci_reason"]
        )
    for name in ("auroc", "aurc", "eaurc"):
        assert (
            measure(name, weighted).more["ci_reason"]
            == "no interval is computed for weighted rows"
        )


def test_ties_enter_in_random_order():
    """The expectation over all orders of tied rows, by drawing many."""
    c, right = (
        np.round(RNG.random_sample(12) * 3) / 3,
        (RNG.random_sample(12) < 0.6).astype(float),
    )
    drawn = []
    for _ in range(20_000):
        order = np.lexsort((RNG.random_sample(12), -c))
        drawn.append((np.cumsum(1 - right[order]) / np.arange(1, 13)).mean())
    assert risk_coverage(Ranked.of(c, right)) == pytest.approx(
        np.mean(drawn), abs=4.5 * np.std(drawn) / np.sqrt(20_000)
    )


def test_weights_of_coverage_have_no_scale():
    """Weighted rows: an integral, which many repetitions of every row come near."""
    w = RNG.randint(1, 5, 300).astype(float)
    value = risk_coverage(Ranked.of(SCORES, OUTCOMES, w))
    assert risk_coverage(Ranked.of(SCORES, OUTCOMES, 1000 * w)) == pytest.approx(
        value, rel=1e-12
    )
    repeated = np.repeat(np.arange(300), 200 * w.astype(int))
    assert risk_coverage(
        Ranked.of(SCORES[repeated], OUTCOMES[repeated])
    ) == pytest.approx(value, rel=1e-4)
    assert best_risk_coverage(w @ OUTCOMES, w @ (1 - OUTCOMES), True) <= value


# ---- two classes


def test_binary_oracle(real):
    """papers.md section 16.1, uncalibrated: accuracy, NLL, Brier, ECE of class 1 by width and mass, top ECE, AUC."""
    data = real("cifar10_resnet20")
    keep = np.isin(data["labels"], (3, 5))
    z = np.asarray(data["logits"], float)[keep][:2000]
    y = (data["labels"][keep][:2000] == 5).astype(int)
    rows = ArrayRows(np.stack([z[1000:, 3], z[1000:, 5] + 1.5], axis=1), y[1000:])
    context = MetricContext(collect(rows), MetricSettings(resamples=20))
    expected = {
        "accuracy": 0.9110,
        "nll": 0.324539,
        "brier": 0.141851,
        "ece": 0.055943,
        "roc_auc": 0.975111,
    }
    for name, value in expected.items():
        assert measure(name, context).value == pytest.approx(value, abs=6e-7), name
    assert measure("ece_positive", context).value == pytest.approx(0.062706, abs=6e-7)
    assert measure("ece_mass", context.labelled("positive")).value == pytest.approx(
        0.058654, abs=6e-7
    )


def test_label_positive_is_about_class_one():
    context = binary(shift=1.5, label="positive")
    p, y = context.table.positive, context.table.y
    for name in ("ece", "ece_mass", "mce", "tce2", "smece", "ks", "kuiper"):
        value = measure(name, context)
        assert value.null.p_value < (0.05 if name == "mce" else 0.01), name
        top = measure(name, binary(shift=1.5))
        # the bias moves P(class 1) more than the confidence
        assert value.value > top.value, name
    assert measure("ks", context).value == pytest.approx(
        abs(p.mean() - y.mean()), rel=0.02
    )
    assert (
        measure("ece_positive", binary(shift=1.5)).value
        == measure("ece", context).value
    )
    three = MetricContext(
        collect(ArrayRows(RNG.normal(size=(20, 3)), np.arange(20) % 3))
    )
    with pytest.raises(UsageError, match="two classes"):
        measure("ece", three.labelled("positive"))
    assert "two classes" in measure("ece_positive", three).reason


def test_positive_errors_keep_their_level():
    """Calibrated P(class 1): at most 13 of 100 rejections at 5 % (binomial, p < 1e-3)."""
    p_values = [
        measure("ece", binary(150, seed=s, label="positive")).null.p_value
        for s in range(100)
    ]
    assert sum(p <= 0.05 for p in p_values) <= 13


def test_threshold_moves_decisions_only():
    usual, strict = binary(), binary(threshold=0.9)
    right = (strict.table.positive > 0.9) == (strict.table.y == 1)
    assert measure("accuracy", strict).value == pytest.approx(right.mean())
    assert measure("accuracy", strict).signature == {"threshold": "0.9"}
    assert measure("accuracy", usual).signature == {}
    assert measure("nll", strict).value == measure("nll", usual).value


def test_the_report_of_two_classes_has_their_metrics():
    assert set(report_metrics(k=2)) - set(report_metrics()) == {
        "roc_auc",
        "ece_positive",
        "slope",
    }
    assert measure("brier_mean", binary()).value == pytest.approx(
        measure("brier", binary()).value / 2
    )


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("ECE", "ece"),
        ("logloss", "nll"),
        ("AUC", "roc_auc"),
        ("acc", "accuracy"),
        ("overconfidence", "gap"),
    ],
)
def test_names_are_taken_as_people_write_them(alias, name):
    assert metric(alias).name == name


def test_weighted_class_tests_keep_their_level():
    """Weights of 0.2 to 5, calibrated: class-wise p-values; at most 22 of 200 at 5 % (binomial, p < 1e-3)."""
    rejected = {"cwece": 0, "cwece2": 0}
    for seed in range(200):
        rng = np.random.RandomState(seed)
        z = rng.normal(size=(300, 5)) * 2
        rows = ArrayRows(
            z, draw_labels(softmax(z), rng), weight=5 ** rng.uniform(-1, 1, 300)
        )
        context = MetricContext(
            collect(rows, class_bins=10),
            MetricSettings(resamples=59, bins=10, seed=seed),
        )
        rejected["cwece"] += measure("cwece", context).null.p_value <= 0.05
        rejected["cwece2"] += measure("cwece2", context).p_value <= 0.05
    assert rejected["cwece"] <= 22
    assert rejected["cwece2"] <= 26  # normal only for many cells, as without weights


@pytest.mark.parametrize(
    ("right", "reason"),
    [(0, "the area is 1, the end of its scale"), (1, "about 0 of 300 rows")],
)
def test_an_area_at_the_end_of_its_scale_says_so(right, reason):
    """Of rows that are all wrong it said that 150 of 300 carry the area, which is enough."""
    rng = np.random.RandomState(3)
    z = rng.normal(size=(300, 3))
    y = z.argmax(axis=1) if right else z.argmin(axis=1)
    context = MetricContext(collect(ArrayRows(z, y)), MetricSettings())
    assert (
        measure("aurc", context).more["ci_reason"]
        == f"{reason}{' carry this area' * right}: no interval"
    )
