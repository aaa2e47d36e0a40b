"""Rows of which no table is kept: sums, and the scores in order, say what the table of all rows says."""

import math

import numpy as np
import pytest

from calcli import free_memory
from calcli.binning import mass_edges
from calcli.errors import FitError
from calcli.evaluation import evaluate_bundle as module
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.methods.ts import TemperatureScaling
from calcli.metrics import long_context, sorted_rows
from calcli.metrics.catalog import metric_names
from calcli.metrics.long_context import measured_long
from calcli.metrics.registry import Metric
from calcli.metrics.settings import MetricSettings
from calcli.metrics.sorted_rows import KeyCollector, keys_of
from calcli.metrics.values import Value
from calcli.rows import ArrayRows
from calcli.statistics.areas import HARMONIC, _inverses
from calcli.statistics.ties import Ranked

COUNTED = ("bins_used", "clipped", "right", "accepted")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many slabs of few rows."""
    monkeypatch.setattr(module, "LONG", 1000)
    monkeypatch.setattr(sorted_rows, "AT_ONCE", 1700)


def rows(n=30_000, k=10, ties=False, order=False):
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(n, k)) * 2, rng.integers(0, k, n)
    z[np.arange(n), y] += rng.gamma(4.0, 1.0, n)
    if ties:
        z = np.round(z)
    if order:
        z = z[np.argsort(z.max(axis=1))]
    return ArrayRows(z.astype(np.float32), y, block_rows=1000)


def candidates(k):
    return [
        Candidate(None, "uncalibrated", None),
        Candidate("ts", "ts", TemperatureScaling(1.4, 0.0)),
    ][:k]


def both(monkeypatch, data, names, who, report=False, **settings):
    plan = Plan(
        names,
        MetricSettings(interval="t", **settings),
        report=report,
        decomposition=False,
    )
    subject = Subject(data, "a", None, None)
    done = assess(subject, who, plan)
    assert not done.tables, "the table was made after all"
    with monkeypatch.context() as patch:
        patch.setattr(module, "LONG", 10**9)
        whole = assess(subject, who, plan)
    assert whole.tables
    return list(zip(whole.results, done.results, strict=True))


def names_for(k):
    return [
        name for name in metric_names() if measured_long([name], MetricSettings(), k)
    ]


@pytest.mark.parametrize(
    ("k", "ties", "order", "settings"),
    [
        (10, False, False, {}),
        (10, True, False, {"norm": 2.0}),
        (2, False, True, {"bins": 4}),
        (2, True, False, {"scheme": "mass", "label": "positive"}),
    ],
)
def test_values_are_those_of_the_table(monkeypatch, k, ties, order, settings):
    """Every metric that is measured so: 1e-12, counts and signatures exact."""
    data = rows(k=k, ties=ties, order=order)
    for table, sums in both(monkeypatch, data, names_for(k), candidates(2), **settings):
        assert len(table.scores) > 25
        for name, a in table.scores.items():
            b = sums.scores[name]
            assert a.signature == b.signature and a.reason == b.reason, name
            assert (a.value is None) == (b.value is None), name
            if a.value is None:
                continue
            assert math.isclose(a.value, b.value, rel_tol=1e-12, abs_tol=1e-14), (
                name,
                a.value,
                b.value,
            )
            for one, other in (
                (a.se, b.se),
                *(
                    (getattr(a.interval, e, 0), getattr(b.interval, e, 0))
                    for e in ("low", "high")
                ),
            ):
                assert (one is None) == (other is None), name
                assert one is None or math.isclose(
                    one, other, rel_tol=1e-8, abs_tol=1e-12
                ), (name, one, other)
            assert {n: a.more[n] for n in COUNTED if n in a.more} == {
                n: b.more[n] for n in COUNTED if n in b.more
            }


def test_paired_differences_and_baselines_agree(monkeypatch):
    (_, _), (table, sums) = both(monkeypatch, rows(), ["nll"], candidates(2))
    for name, a in table.paired.differences.items():
        b = sums.paired.differences[name]
        assert math.isclose(a.value, b.value, rel_tol=1e-10) and math.isclose(
            a.p_value, b.p_value, abs_tol=1e-12
        )
    plan = Plan(["nll", "ks"], MetricSettings(interval="t"), report=False)
    uncalibrated, ts = candidates(2)
    done = assess(Subject(rows(), "a", None, None), [uncalibrated], plan, baseline=ts)
    assert math.isclose(
        done.baseline["nll"].value, sums.scores["nll"].value, rel_tol=1e-12
    )
    assert done.results[0].paired.baseline == "ts"
    a, b = (
        done.results[0].paired.differences["nll"].value,
        sums.paired.differences["nll"].value,
    )
    assert math.isclose(a, -b, rel_tol=1e-10)


def test_nulls_agree(monkeypatch):
    """Exact where there is a formula; draws of the mass bins are the same, others to a few standard errors."""
    ((table, sums),) = both(monkeypatch, rows(), names_for(10), candidates(1))
    for name, a in table.scores.items():
        b = sums.scores[name]
        assert (a.null is None) == (b.null is None) and (a.p_value is None) == (
            b.p_value is None
        ), name
        if a.null is None:
            continue
        same = (
            name in ("nll", "ks", "kuiper", "ece_mass", "tce2_plugin")
            or a.null.resamples == 0
        )
        # Standard deviations of these errors under calibration are below half of their means.
        mean, q95 = (1e-9, 1e-9) if same else (0.15, 0.25)
        assert (
            abs(a.null.mean / b.null.mean - 1) < mean
            and abs(a.null.q95 / b.null.q95 - 1) < q95
        ), name


def calibrated(n, k, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return ArrayRows(
        z,
        (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1),
        block_rows=1000,
    )


def test_the_report_decides_as_the_tables_does(monkeypatch):
    """Directions and classes exactly, the joint test's p-value to the error of 200 draws, clean and not."""
    apart = []
    for seed in range(12):
        data = calibrated(4000, 5, seed)
        ((table, sums),) = both(
            monkeypatch, data, ["accuracy"], candidates(1), report=True, seed=seed
        )
        a, b = table.report.facts, sums.report.facts
        assert a.data == b.data
        gaps = a.overconfidence.value, b.overconfidence.value
        assert math.isclose(*gaps, rel_tol=1e-9)
        assert math.isclose(a.entropy.z, b.entropy.z, rel_tol=1e-9)
        squares = a.classes.signed_square, b.classes.signed_square
        assert math.isclose(*squares, rel_tol=1e-9)
        assert math.isclose(a.classes.p_value, b.classes.p_value, rel_tol=1e-9)
        apart.append(table.report.verdict.p_value - sums.report.verdict.p_value)
    # A p-value p has a standard error of sqrt(p (1 - p) / 200) <= .036 in either, a mean of 12 differences .015.
    assert abs(np.mean(apart)) < 0.05 and max(map(abs, apart)) < 0.2
    ((table, sums),) = both(
        monkeypatch, rows(), ["accuracy"], candidates(1), report=True
    )
    assert table.report.verdict.kind == sums.report.verdict.kind
    assert table.report.verdict.significant == sums.report.verdict.significant


def test_the_report_on_two_classes_says_what_the_tables_does(monkeypatch):
    for table, sums in both(
        monkeypatch, rows(k=2), ["accuracy", "slope"], candidates(2), report=True
    ):
        a, b = table.report.facts.class_one, sums.report.facts.class_one
        for name in ("predicted", "observed", "z"):
            assert math.isclose(getattr(a, name), getattr(b, name), rel_tol=1e-9)
        assert math.isclose(a.gap.value, b.gap.value, rel_tol=1e-9)
        assert math.isclose(a.slope.value, b.slope.value, rel_tol=1e-6)
        kinds = table.report.verdict.kind, sums.report.verdict.kind
        assert kinds[0] == kinds[1]


@pytest.mark.parametrize("values", [7, 600])
def test_few_values_are_bins_of_their_own(monkeypatch, values):
    """Confidences of a binning method, and more of them than are drawn one by one."""
    rng = np.random.default_rng(0)
    n = 20_000
    p = np.linspace(0.5, 1.0, values)[rng.integers(0, values, n)]
    data = ArrayRows(
        np.stack([1 - p, p], axis=1),
        (rng.random(n) < p).astype(int),
        "probs",
        block_rows=1000,
    )
    monkeypatch.setattr(long_context, "FEW_VALUES", 100)
    ((table, sums),) = both(monkeypatch, data, ["tce2", "tce2_plugin"], candidates(1))
    for name, a in table.scores.items():
        b = sums.scores[name]
        assert "values" in a.signature and a.signature == b.signature
        assert math.isclose(a.value, b.value, rel_tol=1e-11)
        assert a.more == b.more or a.more["bins_used"] == b.more["bins_used"] == values
        assert abs(a.null.q95 / b.null.q95 - 1) < 0.25
        assert a.interval is None or math.isclose(
            a.interval.high, b.interval.high, rel_tol=1e-9
        )


def test_what_needs_all_rows_keeps_the_table():
    assert measured_long(["ece", "auroc", "tce2", "aurc"], MetricSettings(), 10)
    for name in ("ece_sweep", "tcal", "marginal2", "coverage_at_accuracy(0.9)"):
        assert not measured_long([name], MetricSettings(), 10)
    assert measured_long(["roc_auc"], MetricSettings(), 2) and not measured_long(
        ["roc_auc"], MetricSettings(), 3
    )
    assert not measured_long(["ece"], MetricSettings(label="class"), 10)
    assert not measured_long(["nll"], MetricSettings(interval="bootstrap"), 10)
    # One that says nothing of what it reads gets the table: sums would answer it with nothing.
    assert (
        Metric("new", "a title", "a formula", lambda context: Value(0.0)).reads
        == "table"
    )


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", metric_names())
def test_each_metric_alone_is_the_same_on_either_side_of_the_limit(
    monkeypatch, name, k
):
    data, contexts = rows(1001, k), []
    for limit in (1000, 1001):
        monkeypatch.setattr(module, "LONG", limit)
        plan = Plan([name], report=False)
        contexts.append(
            assess(Subject(data), [Candidate(None, "uncalibrated", None)], plan)
            .results[0]
            .scores[name]
            .value
        )
    long, table = contexts
    assert (long is None and table is None) or long == pytest.approx(
        table, rel=1e-6, abs=1e-9
    )


# ---- scores in order


@pytest.mark.parametrize("shape", ["random", "sorted", "falling", "ties", "one"])
def test_rows_stand_in_order(shape):
    rng = np.random.default_rng(3)
    c = {"random": rng.random(20_011), "sorted": np.sort(rng.random(20_011)), "falling": -np.sort(-rng.random(20_011)),
         "ties": rng.integers(0, 4, 20_011) / 3.0, "one": np.ones(20_011)}[shape]  # fmt: skip
    y = (rng.random(len(c)) < c).astype(float)
    collector = KeyCollector(len(c), odds=False)
    for start in range(0, len(c), 999):
        collector.take(keys_of(c[start : start + 999], y[start : start + 999]))
    in_order = collector.in_order()
    assert in_order.n == len(c) and in_order.distinct == len(np.unique(c))
    assert np.array_equal(in_order.scores(0, len(c)), np.sort(c))
    (expected,), ranked = Ranked.of(c, y), in_order.ranked()
    blocks = list(ranked)
    for name in ("score", "right", "wrong"):
        together = np.concatenate([getattr(block, name) for block in blocks])
        assert np.array_equal(together, getattr(expected, name)), name
    assert (ranked.right, ranked.wrong) == (y.sum(), len(y) - y.sum())
    ordered = np.sort(c)
    parts = [ordered[:5].sum(), ordered[5:9000].sum(), ordered[9000:].sum()]
    sums = in_order.sums(np.array([0, 5, 9000, len(c)]))
    assert sums == pytest.approx(parts, rel=1e-12)


@pytest.mark.parametrize("bins", [4, 15, 300])
def test_edges_between_ranks_are_those_of_the_mass_bins(bins):
    """Also where ties are longer than the rows that are unpacked at once."""
    rng = np.random.default_rng(4)
    c = np.concatenate([rng.random(5000), np.full(6000, 0.75), np.full(3000, 1.0)])
    collector = KeyCollector(len(c), odds=False)
    collector.take(keys_of(c, np.zeros(len(c))))
    in_order = collector.in_order()
    size, longer = divmod(len(c), bins)
    ranks = np.cumsum([size + (part < longer) for part in range(bins)])[:-1]
    inner = [in_order.edge(rank) for rank in ranks.tolist()]
    edges = np.concatenate([[0.0], np.unique([*inner, 1.0])])
    assert np.array_equal(edges, mass_edges(c, bins))


def test_orders_that_memory_would_not_hold_are_refused(monkeypatch):
    """30000 rows in order take 240000 bytes, a calibrator's as many again."""
    monkeypatch.setattr(free_memory, "available_memory", lambda: 300_000)
    assess(Subject(rows()), candidates(1), Plan(["ks"], report=False))
    with pytest.raises(
        FitError, match=r"orders of 30000 rows need .* that need no order"
    ):
        assess(Subject(rows()), candidates(2), Plan(["ks"], report=False))
    assess(Subject(rows()), candidates(2), Plan(["ece"], report=False))


def test_sums_of_inverses_are_the_harmonic_numbers_differences():
    """Against sums of single terms."""
    low, high = (
        np.array([0.0, 0, 3, 63, 64, 65, 1000, 0]),
        np.array([1.0, 5, 70, 65, 66, 4000, 1001, 90_000]),
    )
    inverses = _inverses(low, high)
    for a, b, value in zip(low.astype(int), high.astype(int), inverses, strict=True):
        assert value == pytest.approx(
            math.fsum(1.0 / m for m in range(a + 1, b + 1)), rel=1e-14
        )
    assert HARMONIC[64] == pytest.approx(
        math.fsum(1.0 / m for m in range(1, 65)), rel=1e-15
    )
