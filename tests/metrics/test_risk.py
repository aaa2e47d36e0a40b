"""Metrics of two classes in the words of risk prediction: values, intervals, reasons."""

import json
import math

import numpy as np
import pytest
from metric_cases import draw_labels, measured, softmax
from r_random import RRandom

import calcli
from calcli.errors import UsageError
from calcli.metrics.catalog import describe_metric, measure, metric
from calcli.metrics.class_columns import class_columns
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.numerics import sigmoid
from calcli.rows import ArrayRows
from calcli.statistics.decisions import DecisionCurve, benefit_interval
from calcli.statistics.units import Units

RISKS = ("slope", "intercept", "oe_ratio", "ici", "e50", "e90", "emax", "net_benefit")


def example():
    """400 log-odds, outcomes, weights and units; those of test_recalibration."""
    rng = np.random.RandomState(20)
    log_odds = rng.normal(-1.0, 1.5, 400)
    unit = rng.randint(0, 45, 400)
    weight = rng.gamma(2.0, 0.5, 400)
    outcome = rng.random_sample(400) < sigmoid(0.4 + 0.7 * log_odds)
    return log_odds, outcome.astype(int), weight, unit


def context(log_odds, outcome, weight=None, unit=None, kind="logits", **settings):
    """Context of rows of two classes with these log-odds of class 1."""
    scores = np.stack([np.zeros(len(log_odds)), log_odds], axis=1)
    if kind == "probs":
        scores = np.stack([1.0 - log_odds, log_odds], axis=1)
    units = None if unit is None else Units.of(np.asarray(unit))
    rows = ArrayRows(scores, np.asarray(outcome), kind, weight=weight, units=units)
    return MetricContext(collect(rows), MetricSettings(**settings))


# ---- slope and intercept


def test_slope_and_intercept_are_those_of_both_fits():
    """statsmodels 0.15.0, as in test_recalibration; the interval by likelihood."""
    rows = context(*example()[:2])
    slope, intercept = measure("slope", rows), measure("intercept", rows)
    assert slope.value == pytest.approx(0.6061226388083546, abs=1e-8)
    assert slope.se == pytest.approx(math.sqrt(0.006979760537131006), abs=1e-8)
    assert slope.more["joint_intercept"] == pytest.approx(0.3059383848683762, abs=1e-8)
    assert slope.interval.method == "profile likelihood"
    assert intercept.value == pytest.approx(0.6094557780135093, abs=1e-8)
    assert intercept.se == pytest.approx(0.12038290964185011, abs=1e-8)


def test_the_joint_test_is_the_likelihood_ratio():
    """2 (-242.516 + 264.670) with two degrees of freedom, by statsmodels 0.15.0."""
    slope = measure("slope", context(*example()[:2]))
    deviance = 2.0 * (264.66994713312033 - 242.51606220853984)
    assert slope.more["joint_chi2"] == pytest.approx(deviance, abs=1e-7)
    expected = math.exp(-deviance / 2.0)
    assert slope.more["joint_p_value"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("name", ["slope", "intercept", "oe_ratio"])
def test_the_interval_holds_what_the_test_does_not_reject(name, level):
    """Every shift of the log-odds: 1, or 0, is inside exactly where p > 1 - level.

    The interval of oe_ratio is wider than its test's, which knows calibration, by the
    spread of P(class 1): near the border it may hold 1 although p is below.
    """
    neutral = 0.0 if name == "intercept" else 1.0
    log_odds, outcome, *_ = example()
    for shift in (-0.4, 0.0, 0.3, 0.55, 0.7, 0.9):
        value = measure(name, context(log_odds + shift, outcome, level=level))
        inside = value.interval.holds(neutral)
        near = abs(value.p_value - (1.0 - level)) < 0.03
        assert inside == (value.p_value > 1.0 - level) or (name == "oe_ratio" and near)


def test_weights_and_units_take_the_sandwich():
    log_odds, outcome, weight, unit = example()
    by_unit = measure("slope", context(log_odds, outcome, None, unit))
    expected = math.sqrt(0.008376582969055437 * 45 / 44)  # statsmodels, by cluster
    assert by_unit.se == pytest.approx(expected, abs=1e-8)
    assert by_unit.interval.method == "unit t"
    assert by_unit.more["joint_method"] == "Hotelling"
    weighted = measure("slope", context(log_odds, outcome, weight))
    assert weighted.value == pytest.approx(0.6630480340183835, abs=1e-8)
    expected = math.sqrt(0.012731065417454217 * 400 / 399)
    assert weighted.se == pytest.approx(expected, abs=1e-8)
    assert weighted.interval.method == "sandwich t"


def test_few_units_have_no_interval():
    """Six units, all of them with rows of class 1: too few to know their spread."""
    log_odds, outcome, *_ = example()
    unit = np.arange(400) % 6
    for name in ("slope", "intercept", "oe_ratio", "net_benefit"):
        value = measure(name, context(log_odds, outcome, None, unit))
        assert value.value is not None
        assert value.interval is None
        assert "of 6 units" in value.more["ci_reason"]


def test_stretched_log_odds_have_that_slope():
    log_odds, outcome, *_ = example()
    plain = measure("slope", context(log_odds, outcome))
    for factor in (0.5, 2.0):
        other = measure("slope", context(factor * log_odds, outcome))
        assert other.value == pytest.approx(plain.value / factor, rel=1e-9)
        assert other.interval.low == pytest.approx(
            plain.interval.low / factor, rel=1e-5
        )


def test_the_other_class_has_the_same_slope_and_the_opposite_intercept():
    log_odds, outcome, *_ = example()
    one, other = context(log_odds, outcome), context(-log_odds, 1 - outcome)
    assert measure("slope", other).value == pytest.approx(measure("slope", one).value)
    turned = -measure("intercept", other).value
    assert turned == pytest.approx(measure("intercept", one).value, abs=1e-10)


def test_logits_beyond_rounding_count_in_full():
    """P(class 1) of log-odds 60 and 90 rounds to 1; the slope is of the log-odds."""
    log_odds, outcome, *_ = example()
    plain = measure("slope", context(log_odds, outcome)).value
    far = measure("slope", context(60.0 * log_odds, outcome)).value
    assert far == pytest.approx(plain / 60.0, rel=1e-9)


def test_certain_rows_that_are_right_are_left_out_and_counted():
    """Log-odds of 800, whose probability no number below 1 can hold."""
    log_odds, outcome, *_ = example()
    more = np.concatenate([log_odds, [-800.0, 800.0, 800.0]])
    value = measure("slope", context(more, np.concatenate([outcome, [0, 1, 1]])))
    plain = measure("slope", context(log_odds, outcome))
    assert value.value == pytest.approx(plain.value, rel=1e-9)
    assert value.more["left_out"] == 3.0
    assert "left_out" not in plain.more


@pytest.mark.parametrize(
    ("risk", "labels", "name", "reason"),
    [
        ([0.1, 0.3, 0.6], [0, 0, 1], "slope", "separates the classes perfectly"),
        ([0.1, 0.3, 0.6], [0, 0, 0], "slope", "all labels are class 0"),
        ([0.1, 0.3, 0.6], [1, 1, 1], "intercept", "all labels are class 1"),
        ([0.4, 0.4, 0.4], [0, 1, 1], "slope", "the same in all rows"),
        ([0.4, 0.4, 0.4], [0, 1, 1], "ici", "nothing to smooth"),
        ([0.0, 0.3, 0.6], [1, 0, 1], "slope", "of exactly 0 or 1 are wrong"),
        ([0.0, 1.0, 1.0], [0, 1, 1], "slope", "exactly 0 or 1 in all rows"),
        ([0.0, 1.0, 0.2], [0, 1, 0], "intercept", "where P(class 1) is not exactly"),
        ([0.0, 0.0], [0, 1], "oe_ratio", "no row of class 1 is expected"),
    ],
)
def test_what_has_no_value_says_why(risk, labels, name, reason):
    value = measure(name, context(np.array(risk), labels, kind="probs"))
    assert value.value is None
    assert reason in value.reason


@pytest.mark.parametrize("name", RISKS)
def test_other_numbers_of_classes_say_so(name):
    rng = np.random.RandomState(0)
    z = rng.normal(size=(50, 3))
    value = measured(softmax(z), draw_labels(softmax(z), rng), name)
    if name == "slope":
        assert value.value is not None
    else:
        assert value.reason == "for two classes only, these rows have 3"


# ---- the slope of more classes


def many_classes(seed=0, n=600, k=5, slope=0.7):
    rng = np.random.RandomState(seed)
    z = rng.normal(size=(n, k)) * 2.0
    return z, draw_labels(softmax(slope * z), rng)


def test_the_slope_of_many_classes_is_the_inverse_of_the_temperature():
    z, y = many_classes()
    value = measured(z, y, "slope", "logits")
    temperature = calcli.fit(z, y, method="ts").params["temperature"]
    assert value.value == pytest.approx(1.0 / temperature, rel=1e-6)
    assert value.signature == {"model": "temperature", "label": "all"}
    assert value.interval.low < value.value < value.interval.high < 1.0
    assert value.p_value < 0.001


def test_the_temperature_of_two_classes_is_the_slope_through_zero():
    """Two classes as three, one of which never comes: no intercept is fitted."""
    log_odds, outcome, *_ = example()
    z = np.stack([np.zeros(400), log_odds, np.full(400, -600.0)], axis=1)
    value = measured(z, outcome, "slope", "logits").value
    score = outcome - sigmoid(value * log_odds)
    assert float(score @ log_odds) == pytest.approx(0.0, abs=1e-6)


def test_scores_without_a_temperature_say_why():
    z, _ = many_classes()
    right = measured(z, z.argmax(axis=1), "slope", "logits")
    assert "the slope is not finite" in right.reason
    sure = measured(
        100.0 * np.eye(5)[np.arange(50) % 5], np.arange(50) % 5, "slope", "logits"
    )
    assert "the slope is not finite" in sure.reason
    wrong = measured(z, z.argmin(axis=1), "slope", "logits")
    assert "no better than chance" in wrong.reason


def test_units_widen_the_slope_of_many_classes():
    """Every row twice: the same slope, and the error of the rows once."""
    z, y = many_classes()
    twice = np.repeat(np.arange(len(y)), 2)
    rows = ArrayRows(z[twice], y[twice], units=Units.of(twice))
    doubled = MetricContext(
        collect(rows), MetricSettings(), lambda: class_columns(rows)
    )
    one, two = measured(z, y, "slope", "logits"), measure("slope", doubled)
    assert two.value == pytest.approx(one.value, rel=1e-8)
    assert two.se == pytest.approx(one.se, rel=1e-6)


# ---- observed over expected, smoothed errors, net benefit


def test_observed_over_expected_by_hand():
    """5 rows of class 1 where 4 are expected; the test knows sum p (1 - p) = 1.28."""
    value = measure(
        "oe_ratio",
        context(
            np.array([0.2] * 4 + [0.8] * 4), [0, 0, 1, 1, 0, 1, 1, 1], kind="probs"
        ),
    )
    assert value.value == pytest.approx(1.25)
    assert value.more == {"observed": 5.0, "expected": pytest.approx(4.0)}
    assert value.p_value == pytest.approx(math.erfc(1.0 / math.sqrt(2.0 * 1.28)))


def test_no_event_has_an_upper_bound():
    """Wilson's interval of 0 of n over the mean probability, where that is constant."""
    value = measure("oe_ratio", context(np.full(50, 0.1), [0] * 50, kind="probs"))
    z2 = 3.841458820694124
    assert value.value == 0.0
    assert value.interval.low == 0.0
    assert value.interval.high == pytest.approx(z2 / (50 + z2) / 0.1)


def test_constant_probabilities_have_wilsons_interval():
    outcome = [1] * 12 + [0] * 38
    value = measure("oe_ratio", context(np.full(50, 0.3), outcome, kind="probs"))
    z2, rate = 3.841458820694124, 12 / 50
    centre = (rate + z2 / 100) / (1 + z2 / 50)
    reach = math.sqrt(z2 * (rate * (1 - rate) / 50 + z2 / 10000)) / (1 + z2 / 50)
    assert value.interval.low == pytest.approx((centre - reach) / 0.3)
    assert value.interval.high == pytest.approx((centre + reach) / 0.3)


def test_smoothed_errors_equal_those_of_val_prob():
    """statsmodels 0.15.0's lowess, as in test_lowess, in the summaries of val.prob."""
    rows = context(*example()[:2])
    expected = {
        "ici": 0.10622733358066347,
        "e50": 0.13144507262859947,
        "e90": 0.15342016109348408,
        "emax": 0.15988987570262303,
    }
    for name, value in expected.items():
        assert measure(name, rows).value == pytest.approx(value, abs=3e-7), name


def fitted_risk(x, y, new):
    """Risks of new rows by logistic regression on x (n, m) and y, with an intercept."""
    design = np.column_stack([np.ones(len(x)), x])
    beta = np.zeros(design.shape[1])
    for _ in range(30):
        p = sigmoid(design @ beta)
        information = (design.T * (p * (1.0 - p))) @ design
        beta += np.linalg.solve(information, design.T @ (y - p))
    return sigmoid(np.column_stack([np.ones(len(new)), new]) @ beta)


def test_the_example_of_val_prob():
    """The example on the help page of val.prob: values that rms 6.5-0 prints for it.

    val.prob(phat, y[101:200]) after set.seed(1). lrm stops early: its risks differ from
    those here by up to 2e-8.
    """
    random = RRandom(1)
    x = np.column_stack([random.runif(200) for _ in range(3)])
    y = (random.runif(200) <= sigmoid(2.0 * (x[:, 0] - 0.5))).astype(int)
    risk = fitted_risk(x[:100], y[:100], x[100:])
    rows = context(risk, y[100:], kind="probs")
    printed = {
        "ici": 0.0258382180056449,  # Eavg
        "e90": 0.0532408501112841,
        "emax": 0.0999208009612275,
        "roc_auc": 0.6602641056422569,  # C (ROC)
        "brier_mean": 0.2318963463175497,  # Brier
    }
    for name, value in printed.items():
        assert measure(name, rows).value == pytest.approx(value, abs=1e-7), name
    slope = measure("slope", rows)
    assert slope.value == pytest.approx(0.9565178129547541, abs=1e-7)
    assert slope.more["joint_intercept"] == pytest.approx(0.0522872139528348, abs=1e-7)
    assert slope.more["joint_chi2"] == pytest.approx(0.0871469814444197, abs=1e-7)
    assert slope.more["joint_p_value"] == pytest.approx(0.9573621942665284, abs=1e-7)


def test_ties_do_not_change_the_quantiles():
    """Rounded risks: NumPy's quantiles over rows, though points stand for many."""
    log_odds, outcome, *_ = example()
    risk = sigmoid(log_odds).round(1).clip(0.1, 0.9)
    rows = context(risk, outcome, kind="probs")
    errors = {name: measure(name, rows).value for name in ("ici", "e50", "e90", "emax")}
    points = np.unique(risk)
    assert len(points) == 9
    from calcli.statistics.lowess import Lowess

    place = np.searchsorted(points, risk)
    smoother = Lowess.of(points, np.bincount(place).astype(float))
    smoothed = smoother.smooth(np.bincount(place, outcome).astype(float))
    differences = np.abs(points - smoothed)[place]
    expected = [
        differences.mean(),
        np.median(differences),
        np.quantile(differences, 0.9),
        differences.max(),
    ]
    assert list(errors.values()) == pytest.approx(expected, abs=1e-12)


def test_the_null_of_smoothed_errors_keeps_its_level():
    """Calibrated risks, 300 rows: at most 18 of 200 p-values are below .05.

    Binomial(200, .05) is above 18 with probability .005; the p-values are exact.
    """
    below = {"ici": 0, "emax": 0}
    for seed in range(200):
        rng = np.random.RandomState(seed)
        risk = rng.beta(0.8, 3.0, 300)
        outcome = rng.random_sample(300) < risk
        rows = context(risk, outcome.astype(int), kind="probs", resamples=99, seed=seed)
        for name in below:
            below[name] += measure(name, rows).null.p_value <= 0.05
    assert max(below.values()) <= 18
    assert min(below.values()) >= 2


def test_net_benefit_equals_dcurves():
    """dcurves 1.1.7: dca(data, "y", ["p"], thresholds=[.1, .25, .5]), net_benefit."""
    rows = context(*example()[:2])
    expected = {
        0.1: (0.356111, 0.383333),
        0.25: (0.248333, 0.260000),
        0.5: (0.127500, -0.110000),
    }
    for threshold, (model, everyone) in expected.items():
        name = f"net_benefit({threshold})"
        value = metric(name).measure(rows)
        assert value.value == pytest.approx(model, abs=5e-7)
        assert value.more["treat_all"] == pytest.approx(everyone, abs=5e-7)
        assert value.interval.low < value.value < value.interval.high


def test_a_decision_curve_has_the_net_benefits():
    log_odds, outcome, weight, _ = example()
    risk, thresholds = sigmoid(log_odds), np.array([0.05, 0.2, 0.6])
    for used in (None, weight):
        curve = DecisionCurve.of(risk, outcome.astype(float), thresholds, used)
        rows = context(log_odds, outcome, used)
        for place, threshold in enumerate(thresholds):
            value = metric(f"net_benefit({threshold})").measure(rows)
            assert value.value == pytest.approx(curve.benefit[place], abs=1e-12)
            expected = pytest.approx(curve.treat_all[place], abs=1e-12)
            assert value.more["treat_all"] == expected


def test_a_decision_curve_of_weighted_rows_that_are_all_right_has_an_interval():
    """Without false alarms their share was -1e-16 by rounding, and the interval NaN."""
    rng = np.random.default_rng(0)
    thresholds = np.array([0.3, 0.5])
    for n in range(2, 40):
        outcome = (np.arange(n) % 2).astype(float)
        weight = rng.exponential(size=n)
        curve = DecisionCurve.of(outcome, outcome, thresholds, weight)
        assert (curve.false_positives == 0.0).all()
        n_rows = np.full(2, float(n))
        low, high = benefit_interval(
            curve.true_positives, curve.false_positives, curve.odds, n_rows, 0.95
        )
        assert (low < curve.benefit).all() and (curve.benefit < high).all()


def test_a_risk_at_the_threshold_is_acted_on():
    """As Vickers and Elkin (2006) and dcurves have it: at least the threshold."""
    rows = context(np.array([0.2, 0.2, 0.1]), [1, 0, 1], kind="probs")
    value = metric("net_benefit(0.2)").measure(rows)
    assert value.value == pytest.approx(1 / 3 - 1 / 3 * 0.25)


@pytest.mark.parametrize("threshold", ["0", "1", "1.5"])
def test_a_threshold_outside_0_to_1_is_refused(threshold):
    with pytest.raises(UsageError, match=r"expected a risk above 0 and below 1"):
        metric(f"net_benefit({threshold})").measure(context(*example()[:2]))


# ---- the command


def write(path, log_odds, outcome, **columns):
    scores = np.stack([np.zeros(len(log_odds)), log_odds], axis=1)
    np.savez(path, logits=scores, labels=outcome, **columns)


def test_the_command_measures_limits_and_explains(tmp_path, monkeypatch, capsys):
    from run_calcli import runner

    run = runner(monkeypatch, capsys)
    path = tmp_path / "risk.npz"
    write(path, *example()[:2])
    done = run("evaluate", path, "--metric", "citl", "--metric", "slope", "--json")
    metrics = json.loads(done.out)["results"][0]["metrics"]
    assert list(metrics) == ["intercept", "slope"]
    facts = {"value", "signature", "se", "ci", "ci_level", "ci_method", "p_value"}
    assert facts < set(metrics["slope"])
    assert run("evaluate", path, "--metric", "slope", "--min", "slope=0.9").code == 5
    assert run("evaluate", path, "--metric", "slope", "--max", "slope=0.9").code == 0
    assert "slope|model:logistic" in run("metrics", "calibration_slope").out


def test_the_report_of_two_classes_has_the_slope():
    log_odds, outcome, *_ = example()
    scores = np.stack([np.zeros(400), log_odds], axis=1)
    result = calcli.evaluate(scores, outcome).results[0]
    assert result.scores["slope"].value == pytest.approx(0.6061226388083546)
    z, y = many_classes()
    assert "slope" not in calcli.evaluate(z, y).results[0].scores


def test_a_slope_without_value_is_null_with_its_reason(tmp_path, monkeypatch, capsys):
    from run_calcli import runner

    run = runner(monkeypatch, capsys)
    path = tmp_path / "apart.npz"
    write(path, np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]))
    done = run("evaluate", path, "--metric", "slope", "--json")
    slope = json.loads(done.out)["results"][0]["metrics"]["slope"]
    assert slope["value"] is None
    assert "separates the classes perfectly" in slope["reason"]
    assert "inf" not in done.out.lower().replace("information", "")
    printed = run("evaluate", path, "--metric", "slope").out
    assert "slope: undefined for uncalibrated: P(class 1) separates" in printed


def test_groups_have_slopes_of_their_own(tmp_path, monkeypatch, capsys):
    from run_calcli import runner

    run = runner(monkeypatch, capsys)
    log_odds, outcome, *_ = example()
    site = np.where(np.arange(400) < 200, "north", "south")
    path = tmp_path / "sites.npz"
    write(path, log_odds, outcome, group=site)
    words = ("evaluate", path, "--metric", "slope", "--per-group", "--json")
    lines = json.loads(run(*words).out)["results"][0]["per_group"]
    slopes = {line["group"]: line["metrics"]["slope"]["value"] for line in lines}
    for name in ("north", "south"):
        rows = context(log_odds[site == name], outcome[site == name])
        expected = measure("slope", rows).value
        assert slopes[name] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", RISKS)
def test_every_one_is_described(name):
    facts = describe_metric(name)
    assert facts.reference != "-"
    assert "label:positive" in facts.signature
