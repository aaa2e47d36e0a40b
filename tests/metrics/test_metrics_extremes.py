"""Metrics of scores that are certain, tied, rounded or weighted with 0, against formulas written out directly."""

import bisect
from itertools import pairwise

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, measured, softmax, top_label_table

from calcli.binning import mass_edges
from calcli.block import Block
from calcli.calibrator import Context
from calcli.evaluation.evaluate_bundle import assess
from calcli.evaluation.json_output import result_json
from calcli.evaluation.requests import Candidate, Plan, Subject
from calcli.fitting.fit import fit_artifact
from calcli.importers.open_any_file import open_data
from calcli.io.artifact import dumps, loads
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.catalog import measure, metric_names
from calcli.metrics.collect import summarise
from calcli.metrics.context import MetricContext
from calcli.metrics.joint_test import joint_test
from calcli.metrics.settings import MetricSettings
from calcli.registry import method, method_names, parse_options
from calcli.rows import ArrayRows
from calcli.statistics.nulls import null_of


def scores(kind, n=500, k=10, seed=0):
    """Probabilities (n, k) of a family with many exact zeros or ties, and labels."""
    rng = np.random.default_rng(seed)
    p = softmax(1.5 * rng.normal(size=(n, k)))
    y = np.where(rng.random(n) < 0.5, p.argmax(1), rng.integers(0, k, n))
    if kind == "hard":
        p = np.eye(k)[p.argmax(1)]
    elif kind == "tree":  # the shares of a leaf: few rows, of few classes
        leaves = rng.multinomial(8, softmax(2.0 * rng.normal(size=(20, k)))) / 8
        p = leaves[rng.integers(0, 20, n)]
        y = draw_labels(0.7 * p + 0.3 / k, np.random.RandomState(seed))
    elif kind == "neighbours":
        p = np.array([rng.multinomial(5, row) for row in p]) / 5
    elif kind == "rounded":
        p = np.floor(10 * p)
        p[np.arange(n), p.argmax(1)] += 10 - p.sum(1)
        p /= 10
    elif kind == "top-3":
        p = np.where(p >= np.sort(p, axis=1)[:, -3:-2], p, 0.0)
        p /= p.sum(1, keepdims=True)
    elif kind == "float16":
        p = p.astype(np.float16)
    return p, y


FAMILIES = ("hard", "tree", "neighbours", "rounded", "top-3", "float16")


def squares_by_the_book(p, outcome, bins, by_value=False):
    """(debiased, plugin) square of one class: bins of Kumar, Liang, Ma (2019) as their program makes and finds them.

    get_equal_bins: midpoints between array_split's chunks, and 1, each once; get_discrete_bins: midpoints between
    values; get_bin: bisect_left. unbiased_square_ce and plugin_ce over them.
    """
    if by_value:
        values = np.unique(p)
        edges = [*(0.5 * (values[:-1] + values[1:])), 1.0]
    else:
        chunks = np.array_split(np.sort(p), min(bins, len(p)))
        edges = sorted({0.5 * (a[-1] + b[0]) for a, b in pairwise(chunks)} | {1.0})
    rows_of = {}
    for score, hit in zip(p.tolist(), outcome.tolist(), strict=True):
        rows_of.setdefault(bisect.bisect_left(edges, score), []).append((score, hit))
    debiased = plugin = 0.0
    for rows in rows_of.values():
        n, (s, y) = len(rows), np.mean(rows, axis=0)
        plugin += n * (s - y) ** 2 / len(p)
        if n > 1:
            debiased += n * ((s - y) ** 2 - y * (1 - y) / (n - 1)) / len(p)
    return debiased, plugin


@pytest.mark.parametrize("compat", [None, "verified"])
@pytest.mark.parametrize("family", FAMILIES)
def test_each_class_has_the_bins_of_the_authors_program(family, compat):
    p, y = scores(family)
    q = p.astype(float)
    q = q if family != "float16" else q / q.sum(1, keepdims=True)
    by_value = compat is not None and all(
        len(np.unique(column)) < len(q) / 4 for column in q.T
    )
    squares = np.array(
        [squares_by_the_book(q[:, c], y == c, 15, by_value) for c in range(10)]
    )
    squares = squares if compat is None else np.maximum(squares, 0)
    debiased, plugin = np.sqrt(np.maximum(squares.mean(0), 0))
    p = q if family == "float16" else p
    assert measured(p, y, "marginal2", compat=compat).value == pytest.approx(
        debiased, rel=1e-9, abs=1e-12
    )
    assert measured(p, y, "marginal2_plugin", compat=compat).value == pytest.approx(
        plugin, rel=1e-9
    )


def test_certain_scores_have_the_same_error_over_bins_of_any_kind():
    # By hand: probabilities of 0 and 1 alone fill two bins, whichever way edges are set.
    p, y = scores("hard")
    assert measured(p, y, "marginal2").value == pytest.approx(
        measured(p, y, "cwece2").value, rel=1e-12
    )
    assert measured(p, y, "ece_mass", label="class").value == pytest.approx(
        measured(p, y, "cwece").value, rel=1e-12
    )
    np.testing.assert_array_equal(mass_edges(p[:, 0], 15), [0.0, 0.0, 1.0])


def test_certain_and_wrong_is_never_calibrated():
    # By hand: with every probability 0 or 1 no row can be wrong, and some are.
    p, y = scores("hard")
    assert measured(p, y, "cwece2").p_value == 0.0
    assert (
        measured(p, y, "ks").null.p_value
        == measured(p, y, "kuiper").null.p_value
        == 0.0
    )
    assert measured(p, y, "nll").null.p_value == measured(p, y, "gap").p_value == 0.0
    for name in ("tcal", "spiegelhalter"):
        value = measured(p, y, name)
        assert value.value is None and "certain, and wrong" in value.reason
    for name in metric_names():
        value = measured(p, y, name)
        p_value = value.p_value if value.null is None else value.null.p_value
        assert p_value is None or p_value < 0.01, name
    right = measured(p, p.argmax(1), "cwece2")
    assert right.value == 0.0 and right.p_value == 1.0
    assert measured(p, p.argmax(1), "tcal").p_value == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 300, 1000])
@pytest.mark.parametrize("depth", [1e-4, 6.6e-7, 1e-9, 1e-13])
def test_rows_that_are_all_right_are_not_rejected_by_rounding(n, depth):
    # n rows, mean confidence 1 - depth: at most n depth = .1 of a wrong row is expected, so none is no surprise.
    for seed in range(8):
        rng = np.random.default_rng([seed, n])
        wrong = np.minimum(depth * rng.gamma(0.3, 1 / 0.3, n), 0.4)
        table = top_label_table(1 - wrong, np.ones(n))
        context = MetricContext(table, MetricSettings())
        assert joint_test(context).p_value > 0.05
        for name in metric_names():
            if name in (
                "roc_auc",
                "average_precision",
                "marginal2",
                "marginal2_plugin",
                "cwece",
                "cwece2",
            ):
                continue  # of classes, which this table has not
            value = measure(name, context)
            p_value = value.p_value if value.null is None else value.null.p_value
            assert p_value is None or p_value > 0.05, (name, seed)


def test_draws_that_differ_by_rounding_reach_the_observation():
    assert null_of(1.0, np.full(200, 1.0 - 1e-9)).p_value == 1.0
    assert null_of(1.0, np.full(200, 1.0 - 1e-5)).p_value == 1 / 201


OF_TIES = ("ks", "kuiper", "ece_mass", "ece_sweep", "tce2", "tce2_plugin", "ece_debiased", "auroc", "aurc", "eaurc",
           "accuracy_at_coverage", "coverage_at_accuracy", "roc_auc", "average_precision")  # fmt: skip


@pytest.mark.parametrize("name", OF_TIES)
@pytest.mark.parametrize("k", [2, 4])
def test_confidences_equal_but_for_the_last_bit_are_tied(name, k):
    # A constant per row changes no probability, but the last bits of all: integer logits stay tied.
    rng = np.random.default_rng(3)
    z = rng.integers(0, 4, size=(600, k)).astype(float)
    y = draw_labels(softmax(z), np.random.RandomState(3))
    moved = z + rng.normal(size=(600, 1))
    one, other = (
        measured(scores, y, name, kind="logits").value for scores in (z, moved)
    )
    assert other == pytest.approx(one, rel=1e-9, abs=1e-10)


def far_apart(n=2000, scale=50.0):
    """Logits of two classes, far beyond what probabilities resolve: (n, 2), labels."""
    rng = np.random.default_rng(5)
    s = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * s))).astype(int)
    return scale * np.stack([np.zeros(n), s], axis=1) + rng.normal(size=(n, 1)), y, s


@pytest.mark.parametrize("rows", [2000, 140_000])
@pytest.mark.parametrize("kind", ["logits", "log_probs", "ts"])
@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_two_classes_are_ranked_by_their_exact_log_odds(name, kind, rows):
    sklearn = pytest.importorskip("sklearn.metrics")
    z, y, s = far_apart(rows)
    scores = z - np.logaddexp(z[:, :1], z[:, 1:]) if kind == "log_probs" else z
    data = ArrayRows(scores, y, "log_probs" if kind == "log_probs" else "logits")
    other = ArrayRows(scores[:, ::-1].copy(), 1 - y, data.kind)
    calibrator = TemperatureScaling(37.0) if kind == "ts" else None
    original, swapped = (
        assess(
            Subject(each), [Candidate(None, "ts", calibrator)], Plan([name], report=False)
        ).results[0].scores[name].value
        for each in (data, other)
    )  # fmt: skip
    expected = {
        "roc_auc": sklearn.roc_auc_score,
        "average_precision": sklearn.average_precision_score,
    }[name]
    assert original == pytest.approx(expected(y, s), rel=1e-12)
    assert swapped == pytest.approx(expected(1 - y, -s), rel=1e-12)
    if name == "roc_auc":
        assert swapped == pytest.approx(original, rel=1e-14)


@pytest.mark.parametrize("j", [2, 3, 5])
def test_the_largest_classes_are_ranked_by_logits_where_probabilities_vanish(j):
    rng = np.random.default_rng(j)
    z, y = 2000.0 * rng.normal(size=(400, 8)), rng.integers(0, 8, 400)
    place = (z > z[np.arange(400), y][:, None]).sum(axis=1)
    value = measured(z, y, f"top{j}_gap", kind="logits")
    assert value.more["accuracy"] == pytest.approx((place < j).mean(), rel=1e-12)


def test_losses_of_logits_and_log_probabilities_are_exact():
    # -log p_y written out; probabilities vanish from 745 on, where a floor of 1e-12 would say 27.6.
    z, y, _ = far_apart(scale=400.0)
    exact = np.logaddexp(0, (1 - 2 * y) * (z[:, 1] - z[:, 0]))
    assert exact.max() > 1000
    log_p = z - np.logaddexp(z[:, :1], z[:, 1:])
    for scores, kind in ((z, "logits"), (log_p, "log_probs")):
        value = measured(scores, y, "nll", kind=kind)
        assert value.value == pytest.approx(exact.mean(), rel=1e-12)
        assert value.more["clipped"] == 0
        rows = ArrayRows(scores, y, kind)
        assert summarise(rows, None, Context().progress).values()[
            "nll"
        ] == pytest.approx(exact.mean(), rel=1e-12)
    p = np.exp(log_p)
    # Up to e times the smallest normal number: so small is what apply writes for a 0 that is shared among classes.
    zero = p[np.arange(len(y)), y] <= np.finfo(float).tiny * np.e
    value = measured(p, y, "nll")
    assert zero.sum() > 3 and value.more["clipped"] == zero.sum()
    # The one zero of a row counts as half of the smallest number of float64, 2^-1074, over 1 + 1.
    p_y = p[np.arange(len(y)), y]
    nll = np.where(p_y == 0, 1076 * np.log(2), -np.log(np.where(p_y == 0, 1, p_y)))
    assert (p_y == 0).any() and value.value == pytest.approx(nll.mean(), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_temperature_never_worsens_the_loss_that_is_shown(seed):
    # Labels that hardly follow very large logits: most of the loss lies far beyond -log 1e-12.
    rng = np.random.default_rng(seed)
    z, y = 60.0 * rng.normal(size=(3000, 5)), rng.integers(0, 5, 3000)
    y = np.where(rng.random(3000) < 0.9, z.argmax(1), y)
    rows = ArrayRows(z, y)
    fitted = method("ts").fit(rows, method("ts").Options(), Context()).calibrator
    before, after = (
        summarise(rows, calibrator, Context().progress).values()["nll"]
        for calibrator in (None, fitted)
    )
    assert after < before
    assert measured(z, y, "nll", kind="logits").value == pytest.approx(
        before, rel=1e-12
    )


def with_absent(n=400, k=4, weights="fractions"):
    """Rows some of which have a weight of 0, and the same rows without them: two (logits, labels, weight)."""
    rng = np.random.default_rng(8)
    z = rng.normal(size=(n, k)) * 2
    y = draw_labels(softmax(0.6 * z), np.random.RandomState(8))
    weight = rng.random(n) + 0.1 if weights == "fractions" else np.ones(n)
    gone = rng.random(n) < 0.3
    z[gone] += 40 * rng.normal(size=(gone.sum(), k))  # rows that would be seen
    is_kept = ~gone
    kept = weight[is_kept] if weights == "fractions" else None
    return (z, y, np.where(gone, 0.0, weight)), (z[is_kept], y[is_kept], kept)


@pytest.mark.parametrize("weights", ["fractions", "ones"])
@pytest.mark.parametrize("k", [2, 4])
def test_rows_of_weight_zero_are_absent_from_every_metric(k, weights):
    names = [
        name for name in metric_names() if name not in ("marginal2_raw", "mse_raw")
    ]
    results = []
    for z, y, weight in with_absent(k=k, weights=weights):
        rows = ArrayRows(z, y, weight=weight)
        group = np.arange(len(y)) * 0 if weight is None else (weight > 0) * 0
        plan = Plan(names, per_class=True, per_group=True)
        results.append(
            assess(
                Subject(rows, group=group),
                [Candidate(None, "uncalibrated", None)],
                plan,
            ).results[0]
        )
    shown, expected = (result_json(result) for result in results)
    assert shown == expected


@pytest.mark.parametrize("name", [name for name in method_names() if name != "recal"])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.slow
def test_rows_of_weight_zero_are_absent_from_every_fit(k, name, tmp_path):
    fits = []
    for i, (z, y, weight) in enumerate(with_absent(k=k)):
        with h5py.File(tmp_path / f"{i}.h5", "w") as h:
            h["logits"], h["labels"], h["weights"] = z, y, weight
        with open_data([str(tmp_path / f"{i}.h5")]) as rows:
            fits.append(fit_artifact(name, parse_options(name, {}), rows, Context()))
    one, other = fits
    assert one.fit.before == other.fit.before and one.fit.after == other.fit.after
    assert one.fit.n == other.fit.n and one.fit.label_counts == other.fit.label_counts
    z = with_absent(k=k)[1][0]
    block = Block(0, z, "logits")
    np.testing.assert_array_equal(
        one.calibrator.apply(block).log_probs, other.calibrator.apply(block).log_probs
    )


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("ts", "platt", "hb")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in method_names()
        if name != "recal"
    ],
)
def test_one_column_is_the_pair_of_nothing_and_it(name, tmp_path):
    # The bundle's rule: a score z of class 1 is the logits (0, z), however it is stored.
    rng = np.random.default_rng(9)
    z = 3 * rng.normal(size=400)
    y = (rng.random(400) < 1 / (1 + np.exp(-0.5 * z))).astype(int)
    outcomes = []
    for place, scores in enumerate((z, z[:, None], np.stack([0 * z, z], axis=1))):
        with h5py.File(tmp_path / f"{place}.h5", "w") as h:
            h["logits"], h["labels"] = scores, y
        with open_data([str(tmp_path / f"{place}.h5")]) as rows:
            fitted = fit_artifact(name, parse_options(name, {}), rows, Context())
            blocks = [
                fitted.calibrator.apply(block).log_probs for block in rows.blocks()
            ]
        outcomes.append((fitted.fit.before, fitted.fit.after, np.concatenate(blocks)))
    for before, after, log_probs in outcomes[:2]:
        assert (before, after) == outcomes[2][:2]
        np.testing.assert_array_equal(log_probs, outcomes[2][2])


SEARCHES = [
    ("cts", {}),
    ("iop", {"variant": "oi"}),
    ("iop", {"variant": "op"}),
    ("ts", {}),
    ("ec", {}),
    ("ets", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 6000])
@pytest.mark.parametrize(
    ("name", "options"),
    SEARCHES,
    ids=lambda words: words if isinstance(words, str) else "-".join(words),
)
def test_a_fit_of_any_size_can_be_written(name, options, n, tmp_path):
    # From 6000 rows on the search begins on a sample: what it records is JSON all the same.
    rng = np.random.default_rng(n)
    z = 3 * rng.normal(size=(n, 3))
    y = np.where(rng.random(n) < 0.8, z.argmax(axis=1), rng.integers(0, 3, n))
    with h5py.File(tmp_path / "d.h5", "w") as h:
        h["logits"], h["labels"] = z, y
    with open_data([str(tmp_path / "d.h5")]) as rows:
        fitted = fit_artifact(name, parse_options(name, options), rows, Context())
    assert loads(dumps(fitted), "again").method == name


def test_the_area_of_right_and_wrong_has_delongs_interval():
    # Coverage: 200 draws of 300 rows whose area is P(N(1, 1) > N(0, 1)) = Phi(1 / sqrt 2) = .7602.
    rng, inside = np.random.default_rng(4), 0
    for _ in range(200):
        right = (rng.random(300) < 0.7).astype(float)
        confidence = 1 / (1 + np.exp(-(rng.normal(size=300) + right)))
        value = measure(
            "auroc", MetricContext(top_label_table(confidence, right), MetricSettings())
        ).interval
        inside += value.low <= 0.76025 <= value.high
    assert inside >= 180  # 95 % of 200 less three standard errors
