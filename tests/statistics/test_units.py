"""Rows that belong together: hand-sized cases, brute force, and the laws of the null by shared luck."""

import json
import math

import h5py
import numpy as np
import pytest
from run_calcli import runner

import calcli
from calcli.binning import bin_index, mass_edges
from calcli.calibrator import Context
from calcli.errors import FitError
from calcli.evaluation.cross_validation import folds_of
from calcli.folds import content_folds, sampled_folds
from calcli.metrics.catalog import measure
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.metrics.warnings import unit_warnings
from calcli.rows import ArrayRows
from calcli.statistics.accepted_units import AcceptedUnits
from calcli.statistics.areas import area_under_roc, delong, delong_of_units
from calcli.statistics.intervals import t_quantile
from calcli.statistics.p_values import luck_p_value, sum_p_value
from calcli.statistics.shared_luck import (
    SharedLuck,
    opposed_luck,
    pair_covariance,
    wrong_units,
)
from calcli.statistics.shared_outcomes import SharedOutcomes
from calcli.statistics.squared_errors import UnitPairs
from calcli.statistics.ties import Ranked
from calcli.statistics.units import (
    Units,
    design_effect,
    mean_skewness,
    numbered,
    unit_mean,
)

# Twelve rows in six units. By hand: sums of y - c by unit .2 -.8 .6 -1.2 .2 -.45.
C = np.array([0.9, 0.9, 0.8, 0.7, 0.7, 0.6, 0.6, 0.95, 0.85, 0.5, 0.4, 0.55])
Y = np.array([1.0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0])
UNIT = np.array([0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5])


def test_luck_of_a_case_done_by_hand():
    # products of pairs: .01*2 + .09*2 + .36*2 + .0075*2 + (-.2 - .275 + .22)*2 = .425; pairs of min(c, c') - c c':
    # (.09 + .21 + .24 + .0425 + .2 + .225 + .18) * 2 = 2.375
    luck = SharedLuck.of(C, Y, Units.of(UNIT))
    assert luck.estimate == pytest.approx(0.425 / 2.375, abs=1e-12)
    # 2.6 units are expected to have a wrong row, fewer than 12 and than half of six: all luck is taken as shared
    assert (
        luck.share == 1.0
        and luck.variance == pytest.approx(2.1525 + 2.375)
        and luck.independent_variance == pytest.approx(2.1525)
    )


def test_sums_of_residuals_by_hand():
    units = Units.of(UNIT)
    sums = units.sums(Y - C)
    assert sums == pytest.approx([0.2, -0.8, 0.6, -1.2, 0.2, -0.45])
    assert math.sqrt(float(sums @ sums)) / 12 == pytest.approx(0.1375)
    mean, se = unit_mean(C - Y, units)
    assert mean == pytest.approx(1.45 / 12)
    centred = -sums - units.count * mean
    assert se == pytest.approx(math.sqrt(6 / 5 * float(centred @ centred)) / 12)
    assert design_effect(Y - C, units) == pytest.approx(
        float(centred @ centred) / (2.2975 - 1.45**2 / 12)
    )


def test_a_bias_that_all_units_share_is_no_dependence_of_their_rows():
    rng = np.random.default_rng(8)
    # independent rows at a confidence of .9, 30 a unit: an effect of 1
    correct = rng.random(9000) < 0.55
    effect = design_effect(0.9 - correct, Units.of(np.repeat(np.arange(300), 30)))
    # 1 + 3 standard errors, sqrt(2 / 300) each; 10.7 by squares that are not centred
    assert 1.0 <= effect < 1.25


@pytest.mark.parametrize("weighted", [False, True])
def test_luck_equals_the_sum_over_pairs(weighted):
    rng = np.random.default_rng(3)
    unit = rng.integers(0, 40, size=150)
    c, shift = np.round(rng.uniform(0.2, 1, size=150), 1), rng.normal(size=40)
    r = 0.15 * shift[unit] + 0.1 * rng.normal(size=150)
    w = rng.uniform(size=150) if weighted else None
    v = np.ones(150) if w is None else w
    pair = (unit[:, None] == unit) & ~np.eye(150, dtype=bool)
    above = (pair * np.outer(v * r, v * r)).sum()
    below = (pair * np.outer(v, v) * (np.minimum(c[:, None], c) - np.outer(c, c))).sum()
    assert 0.1 < above / below < 1
    assert pair_covariance(c, Units.of(unit), w) == pytest.approx(below, rel=1e-12)
    assert SharedLuck.of(c, c + r, Units.of(unit), w).estimate == pytest.approx(
        above / below, rel=1e-11
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_luck_of_scores_near_0_and_1_is_no_rounding_error(weighted):
    """A design effect is at most the number of rows of a unit, here 7."""
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(6), 7)
    c = np.where(rng.random(42) < 0.7, 1.0, 1e-307)
    w = np.exp(rng.normal(size=42)) if weighted else None
    luck = SharedLuck.of(c, np.ones(42), Units.of(unit), w, both=True)
    assert 1.0 <= luck.effect <= 7.0
    p_value = sum_p_value(c, np.ones(42), w, Units.of(unit))
    # Outcomes of chance 1e-307 have occurred, at most 13 rows of them: the law of their
    # failures is Poisson's, 2 exp(-13).
    assert 0.0 <= p_value <= 1e-5


def test_units_of_one_row_share_no_luck():
    units = Units.of(np.arange(12))
    assert units.single
    luck = SharedLuck.of(C, Y, units)
    assert luck.estimate == 0.0 and luck.variance == pytest.approx(
        luck.independent_variance
    )
    assert wrong_units(C, units) == pytest.approx(float((1 - C).sum()))
    mean, se = unit_mean(C - Y, units)
    assert (mean, se) == pytest.approx(
        ((C - Y).mean(), (C - Y).std(ddof=1) / math.sqrt(12))
    )
    assert design_effect(Y - C, units) == pytest.approx(1.0)


def test_expected_wrong_units_by_hand():
    one = 1 - np.array([0.81, 0.8, 0.49, 0.36, 0.95 * 0.85, 0.5 * 0.4 * 0.55])
    assert wrong_units(C, Units.of(UNIT)) == pytest.approx(one.sum())


def test_shared_outcomes_keep_the_margin_and_have_the_covariance_of_shared_luck():
    c, unit = np.array([0.9, 0.6, 0.3, 0.8]), np.array([0, 0, 1, 1])
    share, n = 0.4, 200_000
    drawn = SharedOutcomes.drawn(c, Units.of(unit), share, n, np.random.default_rng(1))
    y = drawn.sums(np.eye(4))
    assert set(np.unique(y)) == {0.0, 1.0} and len(drawn) == n
    # six standard errors of a mean of 200 000 products, each at most 1/4 in variance
    assert y.mean(axis=0) == pytest.approx(c, abs=6 * 0.5 / math.sqrt(n))
    covariance = np.cov(y.T)
    for i, j in ((0, 1), (2, 3)):
        expected = share * (min(c[i], c[j]) - c[i] * c[j])
        assert covariance[i, j] == pytest.approx(expected, abs=6 * 0.25 / math.sqrt(n))
    assert covariance[0, 2] == pytest.approx(0, abs=6 * 0.25 / math.sqrt(n))
    index = np.array([1, 0, 0, 1])
    assert np.array_equal(
        drawn.by_bin(index, 3),
        y @ np.array([[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0]]),
    )


def test_luck_of_two_kinds_by_pairs_and_in_the_draws():
    """Rows of a unit share the luck to be of class 1, and that to be as predicted, which turns below one half."""
    rng = np.random.default_rng(6)
    unit, n = np.repeat(np.arange(200), 5), 1000
    p, luck_of_row, kind = rng.uniform(size=(3, n))
    first, second = rng.uniform(size=200)[unit], rng.uniform(size=200)[unit]
    turned = np.where(p < 0.5, 1 - second, second)
    y = (
        np.where(kind < 0.45, first, np.where(kind < 0.9, turned, luck_of_row)) < p
    ).astype(float)
    pair = np.triu((unit[:, None] == unit), 1)
    same = (p[:, None] >= 0.5) == (p >= 0.5)
    r, c = y - p, np.maximum(p, 1 - p)
    products, cov = np.outer(r, r), np.minimum(p[:, None], p) - np.outer(p, p)
    against = np.minimum(c[:, None], c) - np.outer(c, c)
    both = (products * (pair & same)).sum() / (cov * (pair & same)).sum()
    lhs = (products * (pair & ~same)).sum()
    a = (lhs + both * (against * (pair & ~same)).sum()) / (
        (cov + against) * (pair & ~same)
    ).sum()
    assert 0.0 < a < both and math.sqrt(a) + math.sqrt(both - a) < 1.0
    # each as much larger as the outcomes that show it are fewer than expected
    right = np.where(p < 0.5, 1 - y, y)
    rarer = [
        max(1.0, e.mean() * (1 - e.mean()) / (f.mean() * (1 - f.mean())))
        for e, f in ((p, y), (c, right))
    ]
    assert opposed_luck(p, y, Units.of(unit)) == pytest.approx(
        [a * rarer[0], (both - a) * rarer[1]], rel=1e-9
    )
    few, n = np.array([0.9, 0.8, 0.3]), 200_000
    drawn = SharedOutcomes.drawn(
        few, Units.of(np.zeros(3, int)), 0.09, n, rng, opposed=0.25
    ).sums(np.eye(3))
    covariance = np.cov(drawn.T)
    # a^2 + b^2 = .34 on one side; across a^2 (.3 - .27) - b^2 (min(.9, .7) - .63) = -.0148
    assert drawn.mean(axis=0) == pytest.approx(few, abs=6 * 0.5 / math.sqrt(n))
    assert covariance[0, 1] == pytest.approx(0.34 * 0.08, abs=6 * 0.25 / math.sqrt(n))
    assert covariance[0, 2] == pytest.approx(
        0.09 * 0.03 - 0.25 * 0.07, abs=6 * 0.25 / math.sqrt(n)
    )


def test_units_under_other_names_draw_the_same_outcomes():
    rng = np.random.default_rng(5)
    c, unit = rng.uniform(0.5, 1.0, 60), rng.integers(0, 20, 60)
    renamed = rng.permutation(20)[unit]
    drawn = [
        SharedOutcomes.drawn(c, Units.of(names), 0.4, 50, np.random.default_rng(1))
        for names in (unit, renamed)
    ]
    assert np.array_equal(drawn[0].bits, drawn[1].bits)


def test_neighbours_that_are_alike_are_said_where_no_unit_is_known(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    run, rng = runner(monkeypatch, capsys), np.random.default_rng(3)
    c, y, unit = alike(rng, 300, 5, 0.9, wide)
    order = rng.permutation(1500)
    for name, places in (("alike.h5", np.arange(1500)), ("shuffled.h5", order)):
        with h5py.File(name, "w") as file:
            file["confidence"], file["correct"], file["patient"] = (
                c[places],
                y[places],
                unit[places],
            )
    words = "neighbouring rows are alike (z = "
    assert words in run("evaluate", "alike.h5").out
    said = run("evaluate", "alike.h5", "--json").err
    assert words in said and "--unit NAME" in said
    assert words not in run("evaluate", "shuffled.h5", "--json").err
    for unit_name in ("patient", "none"):
        errors = run("evaluate", "alike.h5", "--unit", unit_name, "--json")
        assert words not in errors.err
    result = json.loads(run("evaluate", "alike.h5", "--unit", "patient", "--json").out)[
        "results"
    ][0]
    assert (
        result["units"]["name"] == "patient"
        and result["metrics"]["ece"]["signature"].count("|unit:patient|") == 1
    )
    out = run("evaluate", "alike.h5", "--unit", "none", "--json").out
    assert (
        json.loads(out)["results"][0]["units"] == {"name": "none"}
        and "|unit:none|" in out
    )
    assert (
        "300 units (patient) of up to 5 rows: for the overconfidence worth"
        in run("evaluate", "alike.h5", "--unit", "patient", "--full").out
    )


@pytest.mark.parametrize(
    "order",
    ["group", "prediction", "label", "group, label", "prediction, confidence", "right"],
)
def test_independent_rows_in_the_order_of_a_column_are_not_alike(order):
    """Up to .87 of such sets were said to have neighbours that are alike, all of those in order of what is right."""
    rng, said = np.random.default_rng(4), 0
    for _ in range(12):
        z, group = 2.0 * rng.normal(size=(3000, 10)), rng.integers(20, size=3000)
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        y = np.minimum((p.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1), 9)
        z = (
            1.3 * z * np.exp(0.5 * rng.normal(size=20))[group, None]
            + 0.7 * rng.normal(size=(20, 10))[group]
        )
        c, best = (
            np.max(np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), axis=1),
            z.argmax(axis=1),
        )
        keys = {
            "group": group,
            "prediction": best,
            "label": -y,
            "confidence": c,
            "right": best == y,
        }
        places = np.lexsort([keys[key] for key in reversed(order.split(", "))])
        said += bool(
            unit_warnings(collect(ArrayRows(z[places], y[places]), group=group[places]))
        )
    assert said == 0


# ---- what evaluate makes of it


def in_memory(c, y, unit=None, **settings):
    """The context of confidences."""
    units = None if unit is None else Units.of(np.asarray(unit))
    table = collect(
        ArrayRows(
            np.asarray(c)[:, None],
            np.asarray(y, dtype=np.int64),
            "confidence",
            units=units,
        )
    )
    return MetricContext(table, MetricSettings(**settings))


def alike(rng, units, rows, rho, score):
    """Calibrated confidences and outcomes of units whose luck is correlated by a Gaussian copula."""
    unit = np.repeat(np.arange(units), rows)
    n = len(unit)
    both = math.sqrt(rho) * rng.normal(size=units)[unit] + math.sqrt(
        1 - rho
    ) * rng.normal(size=n)
    c = score(n, rng)
    return (
        c,
        (np.array([0.5 * math.erfc(-b / math.sqrt(2)) for b in both]) < c).astype(int),
        unit,
    )


def wide(n, rng):
    return 0.5 + 0.5 * rng.beta(2, 1, n)


def near(n, rng):
    return 1 - np.exp(rng.uniform(math.log(0.001), math.log(0.05), n))


def test_errors_and_intervals_of_a_case_done_by_hand():
    context = in_memory(C, Y, UNIT, bins=1)
    gap, ece, tce2 = (measure(name, context) for name in ("gap", "ece", "tce2"))
    assert gap.value == pytest.approx(1.45 / 12)
    sums = np.array([0.2, -0.8, 0.6, -1.2, 0.2, -0.45])
    centred = -sums - np.array([2, 1, 2, 2, 2, 3]) * gap.value
    assert gap.se == pytest.approx(math.sqrt(6 / 5 * float(centred @ centred)) / 12)
    # z without units is (1.45 / 12) / (sqrt(2.1525) / 12); luck that is shared adds 2.375 to the variance
    assert gap.more["z"] == pytest.approx(1.45 / math.sqrt(2.1525 + 2.375))
    assert (
        gap.interval is None
        and "about 3 of 6 units hold all errors" in gap.more["ci_reason"]
    )
    assert (
        ece.value == pytest.approx(1.45 / 12)
        and ece.null.method == "shared luck"
        and ece.null.resamples == 999
    )
    # one bin: (1.45^2 - (.04 + .64 + .36 + 1.44 + .04 + .2025)) / (144 - (4 + 1 + 4 + 4 + 4 + 9)) = -.62 / 118
    assert tce2.more["signed_square"] == pytest.approx((1.45**2 - 2.7225) / 118)
    assert measure("ece", in_memory(C, Y, UNIT)).value == pytest.approx(
        0.3708333, abs=1e-7
    )


def test_the_squared_error_leaves_out_pairs_of_one_unit():
    rng = np.random.default_rng(4)
    c, y, unit = alike(rng, 40, 5, 0.5, wide)
    w = rng.uniform(size=200)
    index = bin_index(c, mass_edges(c, 7))
    for weight in (None, w):
        v = np.ones(200) if weight is None else weight
        r, expected = v * (y - c), 0.0
        for b in range(7):
            pairs = np.outer(index == b, index == b) & (unit[:, None] != unit)
            expected += (
                v[index == b].sum()
                / v.sum()
                * (pairs * np.outer(r, r)).sum()
                / (pairs * np.outer(v, v)).sum()
            )
        unit_pairs = UnitPairs.of(index, 7, Units.of(unit), weight)
        assert unit_pairs.square(r) == pytest.approx(expected, rel=1e-10)


def test_draws_of_the_squared_error_have_mean_zero_whatever_units_share():
    rng = np.random.default_rng(8)
    c, y, unit = alike(rng, 100, 10, 0.5, wide)
    null = measure("tce2", in_memory(c, y, unit, resamples=2000)).null
    assert (
        null.method == "shared luck"
        and null.mean < measure("tce2_plugin", in_memory(c, y, unit)).null.mean
    )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_units_of_one_row_give_the_bytes_of_rows(k):
    rng = np.random.default_rng(k)
    z = rng.normal(size=(300, k)) * 2
    scores, kind = (
        (1 / (1 + np.exp(-z[:, 0])), "confidence") if k == 1 else (z, "logits")
    )
    y = (rng.random(300) < 0.7).astype(int) if k < 3 else rng.integers(0, 3, 300)
    alone, with_units = (
        calcli.evaluate(scores, y, kind=kind, units=u).to_dict()
        for u in (None, np.arange(300)[::-1])
    )
    assert json.dumps(alone) == json.dumps(with_units)
    fits = [
        calcli.fit(z, y, "auto" if k == 3 else "svs", units=u)
        for u in (None, np.arange(300))
        if k > 1
    ]
    assert len({json.dumps(fit.to_dict()) for fit in fits}) <= 1


def test_what_evaluate_says_of_units():
    rng = np.random.default_rng(2)
    c, y, unit = alike(rng, 200, 10, 0.3, wide)
    names = np.array([f"patient {u}" for u in unit])
    result = calcli.evaluate(c, y, kind="confidence", units=names).to_dict()["results"][
        0
    ]
    alone = calcli.evaluate(c, y, kind="confidence").to_dict()["results"][0]
    assert "units" not in alone
    assert "unit" not in json.dumps(alone["metrics"])
    units = result["units"]
    assert (units["name"], units["n"], units["largest"]) == ("unit", 200, 10)
    assert units["design_effect"] == pytest.approx(design_effect(c - y, Units.of(unit)))
    assert (
        units["effective_rows"] == pytest.approx(2000 / units["design_effect"])
        and 0.0 < units["luck"] < 1.0
    )
    assert units["wrong_units"] == pytest.approx(wrong_units(c, Units.of(unit)))
    assert result["metrics"]["ece"]["signature"].split("|")[-2] == "unit:unit"
    assert (
        result["metrics"]["ece"]["null_method"] == "shared luck"
        and result["metrics"]["accuracy"]["ci_method"] == "unit t"
    )
    assert result["metrics"]["accuracy"]["se"] == pytest.approx(
        unit_mean(y.astype(float), Units.of(unit))[1]
    )
    assert result["report"]["overconfidence"]["ci_method"] == "unit t"
    assert result["metrics"]["ece"]["value"] == alone["metrics"]["ece"]["value"]
    assert (
        calcli.evaluate(c, y, kind="confidence", units=names).to_dict()["results"][0]
        == result
    )


def test_fewer_than_eight_units_have_no_verdict():
    rng = np.random.default_rng(0)
    c, y, unit = alike(rng, 7, 100, 0.0, lambda n, rng: np.full(n, 0.95))
    y = (rng.random(700) < 0.3).astype(int)
    report = calcli.evaluate(c, y, kind="confidence", units=unit).to_dict()["results"][
        0
    ]["report"]
    assert (
        report["verdict_kind"] == "too_few"
        and "too few units to test: 7 units" in report["verdict"]
    )
    assert (
        calcli.evaluate(c, y, kind="confidence").to_dict()["results"][0]["report"][
            "verdict_kind"
        ]
        == "overconfident"
    )


def test_where_few_units_hold_all_errors_there_is_no_interval():
    rng = np.random.default_rng(1)
    c, y, unit = alike(rng, 60, 4, 0.5, near)
    result = calcli.evaluate(c, y, kind="confidence", units=unit).to_dict()["results"][
        0
    ]
    assert result["units"]["wrong_units"] < 12
    for part in (result["metrics"]["accuracy"], result["report"]["overconfidence"]):
        assert part.get("ci") is None and "units hold all errors" in part["ci_reason"]


@pytest.mark.parametrize(
    ("score", "units", "rows", "rho"),
    [
        (wide, 30, 50, 0.3),
        (wide, 200, 5, 0.9),
        (near, 60, 4, 0.9),
        (near, 100, 50, 0.9),
    ],
)
def test_the_tests_keep_their_level_where_rows_are_alike(score, units, rows, rho):
    """Short form of benchmarks/levels.py units: of 60 calibrated sets each test may reject 9 (binomial at .08: .02).

    In the last cell, where some units hold all the wrong rows, 13 were rejected and 15 intervals missed.
    """
    names, n_rejected = (
        ("gap", "ece", "tce2"),
        dict.fromkeys(("gap", "ece", "tce2", "interval"), 0),
    )
    for r in range(60):
        context = in_memory(
            *alike(np.random.default_rng(r), units, rows, rho, score),
            resamples=100,
            seed=r,
        )
        for name in names:
            value = measure(name, context)
            n_rejected[name] += (
                value.p_value if value.null is None else value.null.p_value
            ) <= 0.05
        ends = measure("gap", context).interval
        n_rejected["interval"] += ends is not None and not ends.low <= 0.0 <= ends.high
    assert max(n_rejected.values()) <= 9, n_rejected


def test_rows_beyond_the_table_keep_their_units():
    rng = np.random.default_rng(3)
    n = 131_073
    c = wide(n, rng)
    y, unit = (rng.random(n) < c).astype(int), np.arange(n) // 9
    evaluation = calcli.evaluate(
        c, y, kind="confidence", units=unit, metrics=["accuracy", "ece", "gap"]
    )
    score = evaluation.results[0].scores["gap"]
    assert evaluation.results[0].units.n == 14_564
    assert evaluation.results[0].units.largest == 9
    assert score.se == pytest.approx(unit_mean(c - y, Units.of(unit))[1])
    assert evaluation.results[0].scores["ece"].null.method == "shared luck"


def test_the_law_of_a_rare_count_where_rows_are_alike():
    # ten units of two rows, chances .01, all luck shared: the count is twice a binomial of ten. P(at least one unit) =
    # 1 - .99^10 = .0956; the Poisson law of units says 1 - exp(-.1) = .0952 on that side.
    c, unit = np.full(20, 0.01), Units.of(np.arange(20) // 2)
    y = np.zeros(20)
    y[:2] = 1
    luck = SharedLuck.of(c, y, unit, both=True)
    assert luck.share == 1.0 and luck.variance == pytest.approx(
        2 * luck.independent_variance
    )
    assert luck_p_value(luck, c, y) == pytest.approx(2 * (1 - math.exp(-0.1)))


def test_the_error_of_a_roc_area_by_unit():
    rng = np.random.default_rng(5)
    score = np.round(rng.normal(size=300), 1)
    y = (rng.random(300) < 1 / (1 + np.exp(-score))).astype(float)
    ranked = Ranked.of(score, y)
    area = float(
        np.mean([(a > b) + 0.5 * (a == b) for a in score[y > 0] for b in score[y <= 0]])
    )
    alone, rows = (
        delong_of_units(score, y, area, Units.of(np.arange(300))),
        delong(ranked, area),
    )
    # G / (G - 1) for the two of DeLong
    assert alone.se == pytest.approx(rows.se, rel=0.01)
    assert alone.carrying == pytest.approx(rows.carrying)
    twice = delong_of_units(
        np.repeat(score, 2),
        np.repeat(y, 2),
        area,
        Units.of(np.repeat(np.arange(300), 2)),
    )
    assert (twice.se, twice.carrying) == pytest.approx(
        (alone.se, alone.carrying), rel=1e-9
    )


@pytest.mark.parametrize(
    ("score", "units", "rows", "rho"),
    [(wide, 30, 20, 0.3), (wide, 30, 20, 0.9), (near, 300, 5, 0.9)],
)
def test_a_roc_area_by_unit_is_covered_and_has_no_interval_where_few_units_carry_it(
    score, units, rows, rho
):
    """At most 20 of 200 sets miss (binomial at .065: .03); a symmetric t interval missed in .07, .12 and .19 of 400."""
    rng = np.random.default_rng(9)
    many = score(200_000, rng)
    true = area_under_roc(Ranked.of(many, (rng.random(200_000) < many).astype(float)))
    values_of_runs = [
        measure(
            "auroc",
            in_memory(
                *alike(np.random.default_rng([9, r]), units, rows, rho, score), seed=r
            ),
        )
        for r in range(200)
    ]
    known_intervals = [
        value.interval for value in values_of_runs if value.interval is not None
    ]
    assert sum(not i.low <= true <= i.high for i in known_intervals) <= 20
    assert all(
        "carry this area" in v.more["ci_reason"] or "hold all" in v.more["ci_reason"]
        for v in values_of_runs
        if not v.interval
    )
    assert rho == 0.9 or len(known_intervals) >= 190


def test_the_skewness_of_a_mean_by_unit_by_hand():
    """Sums of units -3, -3, 6; a third of the rows each, so that each counts 3/2 as much:
    (-27 - 27 + 216) / (9 + 9 + 36)^1.5, whatever the factor."""
    influence = np.array([-1.0, -2.0, -2.0, -1.0, 3.0, 3.0])
    units = Units.of(np.repeat([0, 1, 2], 2))
    expected = 162.0 / 54.0**1.5
    assert mean_skewness(influence, units) == pytest.approx(expected, rel=1e-12)
    assert mean_skewness(np.zeros(6), units) == 0.0


def test_the_interval_of_a_loss_by_unit_reaches_further_on_the_side_of_its_skewness():
    """Hall's s (2 t^2 + 1) / 6 standard errors beyond Student's, of units of one size."""
    c, y, unit = alike(np.random.default_rng(3), 60, 10, 0.5, wide)
    context = in_memory(c, y, unit)
    score = measure("brier_top", context)
    rows = (c - y) ** 2
    units = Units.of(unit)
    value, se = unit_mean(rows, units)
    t = t_quantile(0.975, 59)
    further = mean_skewness(rows - value, units) * (2.0 * t**2 + 1.0) / 6.0
    assert further > 0.0
    ends = score.interval.low, score.interval.high
    expected = value - t * se, value + (t + further) * se
    assert ends == pytest.approx(expected, rel=1e-9)
    assert score.interval.method == "unit t"


# ---- folds


def test_no_unit_is_cut_by_folds():
    rng = np.random.default_rng(0)
    unit = rng.permutation(np.repeat(np.arange(50), rng.integers(1, 9, 50)))
    units, n = Units.of(unit), len(unit)
    y = rng.integers(0, 3, n)
    rows = ArrayRows(rng.normal(size=(n, 3)), y, units=units)
    for fold in (content_folds(rows, 5, 0), sampled_folds(rows, 5, 0)):
        assert all(len(set(fold[unit == u])) == 1 for u in range(50))
        assert set(fold) == set(range(5)) and np.bincount(fold).max() < 1.5 * n / 5
    for learn, held_out, places in folds_of(rows, Context(0)):
        assert (
            not set(unit[places]) & set(np.delete(unit, places))
            and learn.n + held_out.n == n
        )
    # a unit that holds nearly all rows leaves the other folds their share of units
    large = Units.of(np.repeat([0, 1, 2, 3, 4, 5], [90, 1, 1, 1, 1, 1]))
    few = ArrayRows(rng.normal(size=(95, 3)), np.arange(95) % 3, units=large)
    assert set(content_folds(few, 5, 0)) == set(range(5))


def test_folds_of_units_choose_what_holds_for_new_units():
    """100 answers x 5 near-copies: random folds see each question on both sides and choose a map that learns them.

    Ten sets of questions, of which two or three are too few to tell the maps apart.
    """
    options = {"candidates": "platt,ir", "rule": "best", "criterion": "brier"}
    units = np.repeat(np.arange(100), 5)
    by_row, by_unit = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        z = np.repeat(rng.normal(size=100) * 1.5, 5) + 0.01 * rng.normal(size=500)
        y = (rng.random(100) < 1 / (1 + np.exp(-z[::5]))).astype(int).repeat(5)
        by_row.append(calcli.fit(z, y, "auto", **options).method)
        by_unit.append(calcli.fit(z, y, "auto", units=units, **options).method)
    assert by_row == ["ir"] * 10
    assert by_unit.count("platt") >= 7


# 40 units of three rows in the order of confidence, these rows wrong. Design effects, effective rows and p-values
# at accuracy .8: derived with SciPy's betainc and stdtrit outside this code.
WRONG = [50, 70, 71, 80, 90, 91, 92, 100, 105, 106, 110, 111, 115, 117, 118, 119]


@pytest.mark.parametrize(
    ("m", "alpha", "effect", "effective", "p"),
    [
        (67, 0.00625, 2.365854, 23.87741, 0.0109036301),
        (75, 0.00625, 2.166667, 29.617547, 0.0153420359),
        (90, 0.00625, 2.0, 39.581185, 0.0059640636),
        (97, 0.0125, 2.247525, 39.200651, 0.0265771520),
        (120, 0.00625, 1.888889, 57.787178, 0.1329708289),
    ],
)
def test_the_binomial_at_the_effective_number_of_rows(m, alpha, effect, effective, p):
    correct = np.ones(120)
    correct[WRONG] = 0
    accepted = AcceptedUnits.among(np.arange(120) // 3, correct)(m)
    assert accepted.design_effect(0.8) == pytest.approx(effect, abs=1e-6)
    assert accepted.effective(0.8, alpha) == pytest.approx(effective, abs=1e-5)
    assert accepted.tail(0.8, alpha) == pytest.approx(p, abs=1e-9)
    lower = accepted.lower(alpha)
    assert accepted.tail(lower, alpha) == pytest.approx(alpha, rel=1e-4)
    assert (lower >= 0.8) == (p <= alpha)


def test_a_set_without_a_wrong_row_counts_units_as_draws():
    accepted = AcceptedUnits.among(np.repeat(np.arange(30), 4), np.ones(120))(120)
    assert accepted.design_effect(0.95) == pytest.approx(4.0)
    # .95^30 = .215: 120 rows that are all right prove no more than 30 would
    assert accepted.tail(0.95, 0.05) >= 0.95**30


def test_each_row_twice_in_its_unit_proves_no_more():
    correct = np.ones(120)
    correct[WRONG] = 0
    once = AcceptedUnits.among(np.arange(90) // 3, correct[:90])(90)
    twice = AcceptedUnits.among(
        np.repeat(np.arange(90) // 3, 2), np.repeat(correct[:90], 2)
    )(180)
    assert twice.tail(0.8, 0.01) == pytest.approx(once.tail(0.8, 0.01), rel=1e-12)


# ---- where units come from


@pytest.fixture
def bundle(tmp_path, monkeypatch, capsys):
    """A folder with u.h5, 40 questions of five rows each in dataset unit and again in question, and the command."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3)) * 3
    with h5py.File("u.h5", "w") as file:
        file["logits"], file["labels"] = z, z.argmax(axis=1)
        file["unit"] = np.repeat(np.arange(40), 5)
        file["question"] = np.array([f"q{i // 10}" for i in range(200)], dtype=object)
        file["missing"] = np.where(np.arange(200) == 7, np.nan, 1.0)
        file["alone"] = np.zeros(200, int)
        file["short"] = np.arange(7)
    return runner(monkeypatch, capsys)


def test_the_unit_is_what_the_option_names(bundle):
    def units(*words):
        return json.loads(
            bundle("threshold", "u.h5", "--accuracy", "0.6", "--json", *words).out
        ).get("units")

    assert units()["name"] == "unit" and units()["n"] == 40
    assert (
        units("--unit", "question")["name"] == "question"
        and units("--unit", "question")["n"] == 20
    )
    assert units("--unit", "none") == {"name": "none"}


def test_inspect_counts_units_and_groups(bundle):
    def facts(*words):
        return json.loads(bundle("inspect", "u.h5", "--json", *words).out)["bundles"][0]

    assert (
        facts()["units"] == {"name": "unit", "n": 40, "largest": 5}
        and "groups" not in facts()
    )
    # one unit is shown too; nothing can be told from it
    named = facts("--unit", "alone", "--group-by", "question")
    assert named["units"] == {"name": "alone", "n": 1, "largest": 200}
    assert named["groups"] == {"name": "question", "n": 20, "largest": 10}
    assert "n 40, largest 5" in bundle("inspect", "u.h5").out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "has no dataset 'absent'"),
        ("missing", "missing: row 7 is NaN"),
        ("alone", "all 200 rows are of one alone (0)"),
        ("short", "shape (7,), expected (200,)"),
    ],
)
def test_what_is_no_unit_is_refused_in_a_sentence(bundle, name, said):
    done = bundle("threshold", "u.h5", "--accuracy", "0.6", "--unit", name)
    assert done.code == 3 and said in done.line


def test_a_unit_that_is_cut_by_files_is_refused(bundle):
    with h5py.File("u.h5") as whole:
        for name, part in (("a.h5", slice(0, 103)), ("b.h5", slice(103, 200))):
            with h5py.File(name, "w") as file:
                for column in ("logits", "labels", "unit"):
                    file[column] = whole[column][part]
    done = bundle("threshold", "a.h5", "b.h5", "--accuracy", "0.6")
    assert done.code == 3 and "unit 20 is cut: a.h5 and b.h5" in done.line
    assert (
        bundle("threshold", "a.h5", "b.h5", "--accuracy", "0.6", "--unit", "none").code
        == 0
    )


def test_extract_deals_out_whole_units(bundle):
    """40 questions of five rows; with --no-shuffle as the file has them, sizes to the rows of a unit."""
    assert (
        bundle(
            "extract",
            "u.h5",
            "-o",
            "s.h5",
            "--split",
            "cal=0.4",
            "--split",
            "test=rest",
            "-q",
        ).code
        == 0
    )
    assert (
        bundle(
            "extract",
            "u.h5",
            "-o",
            "o.h5",
            "--split",
            "a=13",
            "--split",
            "b=rest",
            "--no-shuffle",
            "-q",
        ).code
        == 0
    )
    with h5py.File("s.h5") as file, h5py.File("o.h5") as ordered:
        cal, test = (set(file[f"{name}/unit"][:]) for name in ("cal", "test"))
        assert not cal & test and len(cal) == 16 and len(test) == 24
        assert json.loads(file["cal"].attrs["source"])["split"]["method"] == "by unit"
        assert ordered["a/unit"][:].tolist() == np.repeat([0, 1, 2], 5).tolist()


def test_units_that_memory_would_not_hold_are_refused_in_advance(monkeypatch):
    monkeypatch.setattr("calcli.free_memory.available_memory", lambda: 2**20)
    z, y = np.zeros((5000, 3)), np.arange(5000) % 3  # of 210 + 130 bytes each
    with pytest.raises(
        FitError,
        match=r"5000 rows in units need 2 MiB .*; calcli extract --sample N takes N",
    ):
        calcli.evaluate(z, y, kind="logits", units=np.arange(5000) // 10)
    evaluation = calcli.evaluate(z, y, kind="logits", metrics=["accuracy"])
    assert evaluation.to_dict()["results"]


def test_nulls_of_units_are_drawn_once_for_contexts_of_the_same_rows():
    rng = np.random.default_rng(5)
    table = in_memory(*alike(rng, 40, 5, 0.5, wide)).table
    first, second, other = (
        MetricContext(table, MetricSettings(seed=seed)) for seed in (0, 0, 1)
    )
    assert second.null_outcomes("width") is first.null_outcomes("width")
    assert not np.array_equal(
        other.null_outcomes("width"), first.null_outcomes("width")
    )


@pytest.mark.parametrize("n", [8, 37, 400])
def test_outcomes_of_units_are_counted_by_bin(n):
    rng = np.random.default_rng(n)
    c, units, bins = (
        rng.uniform(size=n),
        Units.of(rng.integers(0, 8, n)),
        30,
    )  # some of them empty
    index = bin_index(c, np.linspace(0.0, 1.0, bins + 1))
    drawn = SharedOutcomes.drawn(c, units, 0.3, 20, rng)
    outcomes = np.concatenate([some for _, some in drawn.some()])
    by_hand = [
        [one[index[drawn.order] == b].sum() for b in range(bins)] for one in outcomes
    ]
    assert drawn.by_bin(index, bins).tolist() == by_hand


@pytest.mark.parametrize(
    "names",
    [
        np.array([3, -5, 3, 7, -5]),
        np.array([2**63 - 1, -(2**63), 0, 0]),
        np.array([2**64 - 1, 2**64 - 3, 2**64 - 1, 2**64 - 3], dtype=np.uint64),
        np.tile(np.array([-128, 127, 0], dtype=np.int8), 30),
        np.array(["b", "a", "b"]),
    ],
)
def test_units_are_numbered_in_the_order_of_their_names(names):
    known, code, count = np.unique(names, return_inverse=True, return_counts=True)
    known_units = Units.of(names)
    assert numbered(names)[0].tolist() == known.tolist()
    assert (
        known_units.code.tolist() == code.tolist()
        and known_units.count.tolist() == count.tolist()
        and known_units.n == len(known)
    )
