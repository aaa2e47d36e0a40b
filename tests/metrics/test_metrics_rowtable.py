"""The row table: columns, precision, blocks, kinds, merging."""

import numpy as np
import pytest
from metric_cases import draw_labels, softmax

from calcli.binning import BinStats, bin_index, width_edges
from calcli.calibrator import Prediction
from calcli.errors import DataError
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.catalog import gathering, measure, metric_names
from calcli.metrics.collect import collect, collect_all
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows

COLUMNS = ("confidence", "nll", "brier", "entropy", "varentropy")

RNG = np.random.RandomState(3)
Z = RNG.normal(size=(500, 7)) * 3
P = softmax(Z)
Y = draw_labels(P, RNG)
HERE = np.arange(500)


def test_columns_follow_their_definitions():
    t = collect(ArrayRows(Z, Y))
    hot = np.eye(7)[Y]
    expected = {
        "confidence": P.max(axis=1),
        "nll": -np.log(P[HERE, Y]),
        "brier": ((P - hot) ** 2).sum(axis=1),
        "entropy": -(P * np.log(P)).sum(axis=1),
        "varentropy": (P * np.log(P) ** 2).sum(axis=1)
        - (P * np.log(P)).sum(axis=1) ** 2,
        "correct": P.argmax(axis=1) == Y,
        "prediction": P.argmax(axis=1),
    }
    for name, column in expected.items():
        np.testing.assert_allclose(
            getattr(t, name), column, rtol=1e-12, atol=1e-13, err_msg=name
        )
    assert t.n == 500
    assert t.clipped == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_stored_precision_is_the_only_rounding(dtype):
    """Arithmetic is float64 whatever the storage: equal to float64 logits of the stored values."""
    stored = Z.astype(dtype)
    a, b = (
        collect(ArrayRows(stored, Y), class_bins=15),
        collect(ArrayRows(stored.astype(float), Y), class_bins=15),
    )
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.classes.score, b.classes.score)


@pytest.mark.parametrize("block_rows", [1, 3, 64, 499])
def test_rows_do_not_depend_on_blocks(block_rows):
    whole = collect(ArrayRows(Z, Y, block_rows=500), class_bins=15, tops=(2,))
    cut = collect(ArrayRows(Z, Y, block_rows=block_rows), class_bins=15, tops=(2,))
    for name in (*COLUMNS, "correct", "prediction", "y"):
        np.testing.assert_array_equal(
            getattr(whole, name), getattr(cut, name), err_msg=name
        )
    np.testing.assert_array_equal(whole.classes.count, cut.classes.count)
    # Column sums are added in another order: rounding only.
    np.testing.assert_allclose(
        whole.classes.score, cut.classes.score, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(whole.tops[2][0], cut.tops[2][0])


def test_merge_equals_whole():
    rows = ArrayRows(Z, Y, weight=RNG.rand(500))
    whole = collect(rows, class_bins=15, tops=(3,))
    parts = [
        collect(rows.take(index), class_bins=15, tops=(3,))
        for index in (np.arange(200), np.arange(200, 500))
    ]
    merged = parts[0] + parts[1]
    for name in (*COLUMNS, "correct", "prediction", "y", "weight"):
        np.testing.assert_array_equal(
            getattr(whole, name), getattr(merged, name), err_msg=name
        )
    np.testing.assert_array_equal(whole.classes.count, merged.classes.count)
    for name in ("score", "variance", "outcome", "weight", "weight_square"):
        np.testing.assert_allclose(
            getattr(whole.classes, name), getattr(merged.classes, name), atol=1e-11
        )
    np.testing.assert_array_equal(whole.tops[3][1], merged.tops[3][1])
    part = whole.take(np.arange(200))
    np.testing.assert_array_equal(part.nll, parts[0].nll)
    assert part.classes is None


@pytest.mark.parametrize("bins", [1, 2, 15, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_sums_equal_binning_each_column(bins, weighted):
    rows = ArrayRows(Z, Y, weight=RNG.rand(500) if weighted else None)
    weight = rows.weights()
    stats = collect(rows, class_bins=bins).classes
    for c in range(7):
        p, hit = P[:, c], (c == Y).astype(float)
        direct = BinStats.of(p, hit, width_edges(bins), weight)
        np.testing.assert_array_equal(stats.count[c], direct.count)
        np.testing.assert_allclose(stats.score[c], direct.score, atol=1e-11)
        np.testing.assert_allclose(stats.outcome[c], direct.outcome, atol=1e-11)
        np.testing.assert_allclose(stats.weight[c], direct.weight, atol=1e-11)
        w = np.ones(500) if weight is None else weight
        variance = BinStats.at(
            bin_index(p, width_edges(bins)), bins, w**2 * p * (1 - p), hit
        )
        np.testing.assert_allclose(stats.variance[c], variance.score, atol=1e-11)
        np.testing.assert_allclose(
            stats.weight_square[c], direct.weight_square, atol=1e-11
        )


def test_stored_probabilities_are_taken_as_they_are():
    """A stored 0.5 must stay on its bin edge: no logarithm, no division by 1 + rounding."""
    p = np.array([[0.5, 0.5], [0.45, 0.55], [0.1, 0.9], [1.0, 0.0]])
    t = collect(ArrayRows(p, np.array([0, 1, 1, 0]), "probs"))
    assert t.confidence.tolist() == [0.5, 0.55, 0.9, 1.0]
    assert t.entropy[3] == 0.0
    assert t.nll[3] == 0.0
    # As float32 they sum to 1 up to rounding only; they count as the decimals they were.
    tenths = np.full((3, 10), 0.1, np.float32)
    of_tenths = collect(ArrayRows(tenths, np.zeros(3, int), "probs"))
    assert of_tenths.confidence.tolist() == [0.1, 0.1, 0.1]
    # a real deviation is divided out
    off = collect(ArrayRows(p * 1.0005, np.array([0, 1, 1, 0]), "probs"))
    np.testing.assert_allclose(off.confidence, [0.5, 0.55, 0.9, 1.0], rtol=1e-12)


def test_log_probabilities_and_extreme_logits():
    t = collect(ArrayRows(np.log(P), Y, "log_probs"))
    np.testing.assert_allclose(t.confidence, P.max(axis=1), rtol=1e-13)
    z = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [1e4, 1e4, -1e4]])
    with np.errstate(all="raise", under="ignore"):
        t = collect(ArrayRows(z, np.array([1, 2, 0])), class_bins=15, tops=(2,))
    # by hand: what a logarithm says is known, however small its probability
    assert t.nll[0] == 20000.0
    assert t.clipped == 0
    assert t.prediction.tolist() == [0, 0, 0]  # ties to the lowest index
    np.testing.assert_allclose(t.confidence, [1, 1 / 3, 0.5])
    np.testing.assert_allclose(t.entropy, [0, np.log(3), np.log(2)], atol=1e-12)
    assert t.tops[2][1].tolist() == [
        0.0,
        0.0,
        1.0,
    ]  # e^-10000 is above e^-20000, though both are stored as 0


def test_top_masses_and_hits():
    t = collect(ArrayRows(Z, Y), tops=(2, 3, 5))
    order = np.argsort(-P, axis=1, kind="stable")
    for j in (2, 3, 5):
        np.testing.assert_allclose(
            t.tops[j][0], np.sort(P, axis=1)[:, -j:].sum(axis=1), rtol=1e-12
        )
        np.testing.assert_array_equal(
            t.tops[j][1], (order[:, :j] == Y[:, None]).any(axis=1)
        )


def test_through_calibrators_in_one_walk():
    class Walked(ArrayRows):
        walks = 0

        def blocks(self, transforms=(), at_once=1):
            Walked.walks += 1
            return super().blocks(transforms, at_once)

    both = collect_all(
        Walked(Z, Y), [None, TemperatureScaling(2.0), TemperatureScaling(1.0)]
    )
    assert Walked.walks == 1
    np.testing.assert_allclose(
        both[1].confidence, softmax(Z / 2).max(axis=1), rtol=1e-12
    )
    np.testing.assert_allclose(both[0].nll, both[2].nll, rtol=1e-10)


def test_prediction_of_the_calibrator_counts_not_the_argmax():
    class Odd:
        required_transforms = ()

        def reading(self, block):
            return block

        def apply(self, block):
            return Prediction(
                np.log(softmax(block.z)),
                np.zeros(len(block), dtype=np.int64),
                {"odd": len(block)},
            )

        calibrate = apply

    t = collect(ArrayRows(Z, Y, block_rows=100), Odd())
    assert t.counts == {"odd": 500}
    np.testing.assert_allclose(t.confidence, P[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(t.correct, Y == 0)


def test_missing_transform_is_an_input_error():
    class Needy:
        required_transforms = ("zoom:0.5",)

    with pytest.raises(DataError, match=r"zoom:0\.5.*none"):
        collect(ArrayRows(Z, Y), Needy())


@pytest.mark.parametrize("label", ["top", "positive"])
def test_metrics_of_the_prediction_need_no_other_column(label):
    k = 2 if label == "positive" else 6
    z, y = Z[:, :k], Y % k
    settings = MetricSettings(label=label, resamples=50)
    names = [
        name for name in metric_names() if gathering([name], settings, 10)["top_only"]
    ]
    assert {"ece", "ece_mass", "tce2", "smece", "auroc"} <= set(names)
    full, lean = (
        collect_all(ArrayRows(z, y), [None], top_only=top_only)[0]
        for top_only in (False, True)
    )
    for name in names:
        whole, short = (
            measure(name, MetricContext(table, settings)) for table in (full, lean)
        )
        assert (short.value, short.interval) == (whole.value, whole.interval), name


@pytest.mark.parametrize("weighted", [False, True])
def test_bytes_do_not_depend_on_threads(monkeypatch, weighted):
    weight = np.random.default_rng(2).exponential(size=len(Y)) if weighted else None
    rows = ArrayRows(Z, Y, weight=weight, block_rows=37)
    blocks = []
    for workers in (1, 4):
        monkeypatch.setattr("calcli.parallel.WORKERS", workers)
        table = collect(rows, class_bins=15, tops=(2,))
        blocks.append(
            [
                getattr(table, name).tobytes()
                for name in ("confidence", "nll", "varentropy", "prediction")
            ]
        )
        blocks[-1] += [
            getattr(table.classes, name).tobytes()
            for name in ("score", "outcome", "variance", "count")
        ]
        blocks[-1] += [table.tops[2][0].tobytes()]
    assert blocks[0] == blocks[1]
