"""Paired differences: a law that keeps its level where few rows carry the loss, McNemar's test of the accuracy."""

import json

import h5py
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

import calcli
from calcli.calibrator import Prediction
from calcli.evaluation.evaluate_bundle import differences
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.catalog import measure
from calcli.metrics.collect import collect, collect_all
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import paired_sums
from calcli.metrics.settings import MetricSettings
from calcli.numerics import log_softmax
from calcli.rows import ArrayRows
from calcli.statistics.intervals import t_p_value
from calcli.statistics.paired import PairedSums, expected_powers, fair_signs, share_ends
from calcli.statistics.weights import effective_weights

ONE = [[98, 1, 1], [2, 95, 3], [90, 5, 5], [1, 1, 98], [60, 30, 10], [5, 90, 5]]
OTHER = [[90, 5, 5], [10, 80, 10], [70, 15, 15], [5, 5, 90], [50, 30, 20], [15, 70, 15]]
P, Q = np.array(ONE) / 100, np.array(OTHER) / 100
NLL = np.log(Q) - np.log(P)
BRIER = (
    (P**2).sum(axis=1, keepdims=True)
    - 2 * P
    - (Q**2).sum(axis=1, keepdims=True)
    + 2 * Q
)


def sums_of(by_label, y, weight=None):
    return PairedSums.of(
        by_label[np.arange(len(y)), y], weight, expected_powers(by_label, P, Q, weight)
    )


# Six rows by hand in a separate program that has no code in common with this one; P-values to its six digits.
CASES = [
    (NLL, [0, 1, 0, 2, 1, 1], 0.325030, 0.843877),
    (BRIER, [0, 1, 0, 2, 1, 1], 0.354428, 0.765035),
    (NLL, [0, 1, 0, 2, 0, 1], 0.265790, 0.876184),
    (NLL, [1, 1, 0, 2, 0, 1], 0.803238, 0.337805),
]


@pytest.mark.parametrize(("by_label", "y", "low", "high"), CASES)
def test_tails_of_six_rows(by_label, y, low, high):
    tails = sums_of(by_label, y).tails()
    assert tails.low == pytest.approx(low, abs=1e-6) and tails.high == pytest.approx(
        high, abs=1e-6
    )
    assert tails.both == pytest.approx(2 * min(low, high), abs=2e-6)


def test_sums_of_six_rows():
    sums = sums_of(NLL, [0, 1, 0, 2, 1, 1])
    assert sums.observed[0, 1:] == pytest.approx(
        [-0.844795, 0.170354, -0.038056, 0.008955], abs=1e-6
    )
    assert sums.expected[0, 0, 1:] == pytest.approx(
        [-0.470203, 0.664239, 0.562748, 0.788816], abs=1e-6
    )
    assert sums.expected[1, 0, 1:] == pytest.approx(
        [0.667260, 1.884025, 2.256958, 3.150133], abs=1e-6
    )


@pytest.mark.parametrize("by_label", [NLL, BRIER])
def test_laws_of_the_tails(by_label):
    """Parts add, a row of weight 0 is none, equal weights change nothing, the other way round the tails swap."""
    y = np.array([0, 1, 0, 2, 1, 1])
    whole = sums_of(by_label, y)
    d, half = by_label[np.arange(6), y], slice(0, 3)
    parts = [
        PairedSums.of(d[s], None, expected_powers(by_label[s], P[s], Q[s]))
        for s in (half, slice(3, 6))
    ]
    assert (parts[0] + parts[1]).tails() == pytest.approx(whole.tails(), rel=1e-12)
    assert sums_of(by_label, y, np.full(6, 3.0)).tails(0.1) == pytest.approx(
        whole.tails(0.1), rel=1e-10
    )
    kept = PairedSums.of(d[1:], None, expected_powers(by_label[1:], P[1:], Q[1:]))
    without = sums_of(by_label, y, np.array([0.0, 1, 1, 1, 1, 1]))
    assert without.tails(0.05) == pytest.approx(kept.tails(0.05), rel=1e-10)
    assert without.student() == pytest.approx(kept.student(), rel=1e-10)
    assert without.ends(0.95) == pytest.approx(kept.ends(0.95), rel=1e-9)
    turned = PairedSums.of(-d, None, expected_powers(-by_label, Q, P))
    assert turned.tails(-0.02) == pytest.approx(whole.tails(0.02)[::-1], rel=1e-10)
    low, high = whole.ends(0.95)
    assert turned.ends(0.95) == pytest.approx((-high, -low), rel=1e-9)
    assert (
        whole.tails(low).high == pytest.approx(0.025, abs=1e-9) == whole.tails(high).low
    )
    mean, se, n = whole.student()
    assert (mean, se, n) == pytest.approx((d.mean(), d.std(ddof=1) / np.sqrt(6), 6))


def test_an_end_beyond_all_that_the_rows_show_is_no_bound():
    """Of probabilities of which some are stored as 0: ets minus ts was +0.0003 [-1.3823, +0.0025] on 1000 rows."""
    rng = np.random.default_rng(0)
    z = 2.2 * rng.normal(size=(1000, 50))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(log_softmax(1.6 * z))
    comparison = calcli.compare(
        np.where(p < 1e-6, 0.0, p),
        y,
        ["ts", "ets", "svs"],
        kind="probs",
    )
    changes = [difference["metrics"]["nll"] for difference in comparison["differences"]]
    for change in changes:  # Student's is two standard errors to either side
        assert (
            change["ci"] is None
            or max(abs(end - change["value"]) for end in change["ci"])
            < 20 * change["se"]
        )
    assert (
        sum(change["ci"] is None for change in changes) == 2
        and "no bound" in changes[1]["ci_reason"]
    )


def test_rows_that_do_not_differ_have_an_interval_of_no_length():
    """Of five rows all differences are 0, whatever the label: so are both ends."""
    same = np.full((5, 3), 1.0 / 3.0)
    expected = expected_powers(np.zeros((5, 3)), same, same)
    sums = PairedSums.of(np.zeros(5), expected=expected)
    assert sums.ends(0.95) == (0.0, 0.0)
    assert sums.tails().both == 1.0


def test_rows_that_differ_by_labels_of_one_model_only_have_no_bound():
    """Losses differ by 1 at a label that the first gives no chance, and that did not occur."""
    by_label = np.array([[0.0, 1.0]] * 5)
    first = np.array([[1.0, 0.0]] * 5)
    second = np.array([[0.5, 0.5]] * 5)
    sums = PairedSums.of(np.zeros(5), expected=expected_powers(by_label, first, second))
    assert sums.ends(0.95) == (None, None)


def test_shifting_by_a_constant_moves_the_null_with_it():
    """A loss that one map has on top in every row, whatever the label, is the same as another null."""
    y, more = np.array([0, 1, 0, 2, 1, 1]), 0.01
    d = NLL[np.arange(6), y]
    moved = PairedSums.of(d + more, None, expected_powers(NLL + more, P, Q))
    # Between 0 and the mirror image of 0 moments are about the null itself, so that nothing else can change.
    assert moved.tails(-0.1) == pytest.approx(
        sums_of(NLL, y).tails(-0.1 - more), rel=1e-10
    )


def test_the_accuracy_has_mcnemars_test_and_tangos_interval():
    """Five rows better and none worse: 2 (1/2)^5 with half the mass at 5, 1/32. The interval by a search for q."""
    d = np.r_[np.ones(5), np.zeros(95)]
    assert fair_signs(PairedSums.of(d)) == pytest.approx(1 / 32)
    d = np.r_[np.ones(12), -np.ones(4), np.zeros(84)]
    exact = 2 * binom.cdf(4, 16, 0.5) - binom.pmf(4, 16, 0.5)
    assert (
        fair_signs(PairedSums.of(d))
        == pytest.approx(exact, rel=1e-12)
        == fair_signs(PairedSums.of(-d))
    )
    assert fair_signs(PairedSums.of(d, np.full(100, 7.0))) == pytest.approx(
        exact, rel=1e-12
    )
    assert (
        fair_signs(PairedSums.of(np.zeros(9)))
        == 1.0
        == fair_signs(PairedSums.of(np.array([1.0, -1.0])))
    )
    z, n = 1.959963984540054, 100

    def score(delta):
        """Tango's statistic, its nuisance by maximum likelihood: better q + delta, worse q, no change the rest."""

        def lost(q):
            rest = 84 * np.log(1 - 2 * q - delta)
            return -(12 * np.log(q + delta) + 4 * np.log(q) + rest)

        low, high = max(0.0, -delta) + 1e-12, (1 - delta) / 2 - 1e-12
        q = minimize_scalar(
            lost, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
        ).x
        return (12 - 4 - n * delta) / np.sqrt(n * (2 * q + delta - delta**2))

    low, high = share_ends(PairedSums.of(d), z)
    assert score(low) == pytest.approx(z, abs=1e-5) and score(high) == pytest.approx(
        -z, abs=1e-5
    )


# ---- of score files


def rows_of(n=400, k=4, seed=0, **more):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 3
    y = (np.exp(log_softmax(z)).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return ArrayRows(z, np.minimum(y, k - 1), **more)


def test_expectations_are_sums_over_the_labels():
    """For every row and label the loss of a table whose label is that one, weighted by either's probability."""
    rows, sharp, weight = (
        rows_of(40, 3),
        TemperatureScaling(0.5),
        np.random.default_rng(1).exponential(size=40),
    )
    for given_weight in (None, weight):
        weighted = ArrayRows(rows.scores, rows.labels(), weight=given_weight)
        table_of_sharp, other = collect_all(weighted, [sharp, None], against=1)
        w = weighted.weights()
        p, q = (np.exp(log_softmax(rows.scores / t)) for t in (0.5, 1.0))
        for name, column in (
            ("nll", "nll"),
            ("brier", "brier"),
            ("brier_top", "brier_top"),
        ):
            by_label = np.stack(
                [
                    getattr(a, column) - getattr(b, column)
                    for c in range(3)
                    for a, b in [
                        collect_all(
                            ArrayRows(rows.scores, np.full(40, c)), [sharp, None]
                        )
                    ]
                ],
                axis=1,
            )
            assert table_of_sharp.expected[name] == pytest.approx(
                expected_powers(by_label, p, q, w), rel=1e-9, abs=1e-12
            )
        assert not other.expected
        alone = Prediction.by_argmax(log_softmax(rows.scores))
        again = collect(
            ArrayRows(rows.scores, rows.labels(), weight=w), sharp, against=alone
        )
        assert again.expected["nll"] == pytest.approx(
            table_of_sharp.expected["nll"], rel=1e-12
        )


def test_confidences_have_two_outcomes():
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 1, 50)
    scores, right = c[:, None], (rng.random(50) < c).astype(int)
    table, _ = collect_all(
        ArrayRows(scores, right, "confidence"), [None, None], against=1
    )
    assert table.expected["brier_top"][:, 0] == pytest.approx(
        np.array([[50, 0, 0, 0, 0]] * 2)
    )


def test_equal_calibrators_do_not_differ():
    rows = rows_of()
    tables = collect_all(
        rows, [TemperatureScaling(1.3), TemperatureScaling(1.3)], against=1
    )
    # of 400 rows without a differing one, Tango's interval is +- z^2 / (n + z^2)
    z2 = 1.959963984540054**2
    reach = {"accuracy": z2 / (400 + z2)}
    by_metric = differences(paired_sums(*map(MetricContext, tables)), 0.95)
    for name, difference in by_metric.items():
        end = pytest.approx(reach.get(name, 0.0), abs=1e-12)
        assert (
            difference.value,
            difference.p_value,
            -difference.interval.low,
            difference.interval.high,
        ) == (
            0.0,
            1.0,
            end,
            end,
        )


# ---- level


def test_the_level_holds_where_few_rows_carry_the_loss():
    """Two maps of equal expected NLL, 1 % positives: the t test stars one in a third of the samples of 100.

    400 samples: more than 35 rejections at a level of 5 % have a chance below .001 (binomial).
    """
    rng, runs, n = np.random.default_rng(7), 400, 100

    def logits(size):
        return rng.normal(size=size) * 1.8 - 6.2

    def losses(z, slope):
        return np.stack(
            [np.logaddexp(0, slope * z), np.logaddexp(0, -slope * z)], axis=1
        )

    def chances(z, slope=1.0):
        return np.stack(
            [1 / (1 + np.exp(slope * z)), 1 / (1 + np.exp(-slope * z))], axis=1
        )

    many = logits(200_000)
    goal = (chances(many) * losses(many, 0.9)).sum(axis=1).mean()
    slopes = np.linspace(1.08, 1.16, 41)
    others = [
        (chances(many) * losses(many, slope)).sum(axis=1).mean() for slope in slopes
    ]
    slope = float(np.interp(goal, others, slopes))
    n_found, student = 0, 0
    for _ in range(runs):
        z = logits(n)
        y = (rng.random(n) < chances(z)[:, 1]).astype(int)
        by_label = losses(z, 0.9) - losses(z, slope)
        powers = expected_powers(by_label, chances(z, 0.9), chances(z, slope))
        sums = PairedSums.of(by_label[np.arange(n), y], None, powers)
        mean, se, _ = sums.student()
        n_found += sums.tails().both <= 0.05
        student += t_p_value(mean / se, n - 1) <= 0.05
    assert binom.sf(35, runs, 0.05) < 1e-3
    assert n_found <= 35 and student > 100


# ---- means of losses


def nll_of(z, y, **settings):
    both = np.stack([np.zeros(len(z)), z], axis=1)
    return measure(
        "nll", MetricContext(collect(ArrayRows(both, y)), MetricSettings(**settings))
    )


def test_a_mean_loss_that_few_rows_carry_has_no_interval():
    """Three of 300 rows have 10 nats each, the others .001: 30 of 30.3; and none of them where all are right."""
    z, y = np.full(300, -np.log(np.expm1(0.001))), np.ones(300, dtype=int)
    z[:3], y[:3] = 10.0, 0
    value = nll_of(z, y)
    assert value.interval is None and value.se > 0
    assert (
        value.more["ci_reason"] == "3 of 300 rows make 90 % of this loss: no interval"
    )
    right = nll_of(z, np.ones(300, dtype=int))
    assert (
        right.interval is None and "too few of the rare ones" in right.more["ci_reason"]
    )
    # 60 rows carry it
    assert nll_of(z, (np.arange(300) % 5 > 0).astype(int)).interval is not None


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_intervals"), [(100, 0), (3000, 60)])
def test_intervals_of_the_nll_that_are_given_cover(n, n_intervals):
    """1 % positives: at 100 rows a third of the intervals missed, always too low; at 3000 they cover.

    60 intervals that cover in 95 % each: 9 or more misses have a chance below .005 (binomial).
    """
    rng = np.random.default_rng(3)
    many = rng.normal(size=10**6) * 1.8 - 6.2
    truth = nll_of(
        many, (rng.random(10**6) < 1 / (1 + np.exp(-many))).astype(int), interval="t"
    )
    intervals = []
    for _ in range(60):
        z = rng.normal(size=n) * 1.8 - 6.2
        intervals.append(
            nll_of(
                z, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int), resamples=200
            ).interval
        )
    intervals = [interval for interval in intervals if interval is not None]
    assert len(intervals) == n_intervals
    assert (
        sum(not interval.low <= truth.value <= interval.high for interval in intervals)
        <= 8
    )


# ---- commands


def test_rows_that_are_all_right_star_no_method_as_worse(run):
    """The temperature runs into its bound; what is honest about its doubt is then not significantly worse."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 5)) + 4 * np.eye(5)[rng.integers(0, 5, 60)]
    with h5py.File("few.h5", "w") as file:
        file["logits"], file["labels"] = z, z.argmax(axis=1)
    stored = json.loads(
        run("compare", "few.h5", "-m", "ts,svs,uncalibrated,mono", "--json", "-q").out
    )
    fits = {r["method"]: r["fits"] for r in stored["results"]}
    assert fits["ts"] == {"at_bound": 5} and fits["uncalibrated"] == {}
    for pair in stored["differences"]:
        nll = pair["metrics"]["nll"]
        assert nll["value"] > 0 and nll["p_value"] > 0.05
        low, high = nll["ci"] or (0.0, 0.0)
        # a studentised bootstrap had ends of 1e7 here
        assert low <= nll["value"] and abs(high) < 50
        assert (nll["ci"] is None) == ("ci_reason" in nll)
    words = ("compare", "few.h5", "-m", "ts,svs,uncalibrated,mono", "-o", "kept.json")
    text = run(*words).out
    assert "*" not in text.split("[ ]")[0]
    assert (
        "ts (baseline, at_bound)" in text and "ts: 5 of 5 fits ended at_bound" in text
    )
    assert run(*words).out == text  # from the result file


def test_weighted_rows_have_no_counts_of_signs_whatever_their_scale():
    # effective weights sum to the sum of their squares, as those of 1 do
    rng = np.random.default_rng(0)
    d, weights = rng.integers(-1, 2, 200).astype(float), rng.exponential(size=200)
    for factor in (1.0, 7.3, 1e-3, 1.0 / weights.sum(), 1e6):
        weight = effective_weights(weights * factor)
        assert PairedSums.of(d, weight).signs is None
    counts = int((d > 0).sum()), int((d < 0).sum())
    assert PairedSums.of(d, None).signs == counts
    assert PairedSums.of(d, effective_weights(np.full(200, 0.1))).signs == counts
