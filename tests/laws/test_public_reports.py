"""Faults that users of other programs reported, each on a small input with its cause.

Sources are the reports' repositories and numbers on GitHub. Expected values follow by hand.
"""

import warnings

import numpy as np
import pytest

import calcli


def fit(scores, labels, method, kind, **more):
    """A calibrator, without its warnings: ``status`` says how the fit went."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calcli.fit(np.asarray(scores), labels, method, kind, **more)


def measure(scores, labels, metrics, kind="probs", **settings):
    """Results by metric, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = calcli.evaluate(
            np.asarray(scores), labels, kind=kind, metrics=metrics, **settings
        )
    return evaluation.results[0].scores


def test_tied_scores_weigh_as_many_rows_as_they_are():
    """scikit-learn/scikit-learn 9432: the weights of tied rows were averaged, and the map
    was 1/4 where the mean of the pooled outcomes 0, 1, 0 is 1/3."""
    z, y = [0.0, 1.0, 1.0, 2.0, 3.0], [0, 0, 1, 0, 1]
    fitted = fit(z, y, "ir", "logits").predict_proba(np.array(z), kind="logits")
    assert fitted[:, 1] == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 1], abs=1e-12)


@pytest.mark.parametrize("method", ["irm", "irova"])
def test_isotonic_maps_rise_between_scores_a_denormal_apart(method):
    """scikit-learn/scikit-learn 17758 (its 10903): the slope between knots such as 1e-320
    and 1e-314 overflowed, and probabilities between them were infinite."""
    knots = np.tile([0.0, 1e-320, 1e-314, 1.0], 10)
    fitted = fit(knots, np.tile([0, 0, 1, 1], 10), method, "probs")
    between = np.array([1e-321, 1e-320, 1e-317, 5e-315, 1e-314, 1e-310])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrated = fitted.predict_proba(between, kind="probs")
    assert calibrated.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(calibrated[:, 1]) >= -1e-12).all()
    # A thousandth of the way between the knots: a thousandth of the rise, nearly.
    assert calibrated[2, 1] < 0.01 < 0.2 < calibrated[3, 1]


def test_large_scores_keep_their_ranking():
    """scikit-learn/scikit-learn 26766: sigmoid calibration of margins of 1e10 failed
    silently and gave every row the same probability, an AUC of 1/2."""
    rng = np.random.default_rng(42)
    y = np.repeat([1, 0], [67, 33])
    z = 1e5 * (1e5 * y + rng.normal(size=100))
    fitted = fit(z, y, "platt", "logits")
    p = fitted.predict_proba(z, kind="logits")[:, 1]
    assert p[y == 1].min() > 0.9 > 0.1 > p[y == 0].max()
    assert measure(p, y, ["roc_auc"])["roc_auc"].value == 1.0
    # One temperature cannot help scores that are all far above 0, and says so.
    assert fit(z, y, "ts", "logits").status == "at_bound"


@pytest.mark.parametrize("label", [0, 1])
def test_brier_score_of_one_class(label):
    """scikit-learn/scikit-learn 9300 and 8459: where all labels were 1 they were taken
    for 0, and the Brier score of perfect predictions was 1."""
    wrong = measure([0.4], [label], ["brier"])["brier"].value
    assert wrong == pytest.approx(2 * (label - 0.4) ** 2)  # both classes: twice
    right = measure([float(label)] * 3, [label] * 3, ["brier", "nll"])
    assert [one.value for one in right.values()] == [0.0, 0.0]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_log_loss_of_certain_rows_is_finite_in_every_type(dtype):
    """scikit-learn/scikit-learn 24315: 1 - 1e-15 is 1 in float32, so the log loss of a
    certain row that is wrong was NaN."""
    p = np.array([1.0, 1.0, 0.25], dtype)
    value = measure(p, [1, 0, 0], ["nll"])["nll"].value
    # The row that is wrong loses at least as much as one of half the type's last digit.
    least = -np.log(np.finfo(dtype).eps) / 3
    assert least < value < 750 / 3


@pytest.mark.parametrize("bins", [4, 5, 10, 20])
def test_decimals_on_edges_fill_bins_equally(bins):
    """numpy/numpy 20610: of 0.00 to 0.99 the bins of a histogram held 9, 10 or 11, as edges
    fell on either side of the decimals. Bins are closed on the right here."""
    p = np.arange(1, 101) / 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = calcli.diagram(p, np.zeros(100, int), kind="probs", bins=bins)
    curve = drawn.to_dict()["panels"][0]["curves"][0]
    assert curve["bins"]["count"] == [100 // bins] * bins


@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("method", ["beta", "platt", "ir", "venn-abers", "bbq"])
def test_identical_scores_get_the_share_of_their_class(method, score):
    """betacal/python 7: the fit to one score alone had a coefficient of 0, and predict
    failed. Ten of 40 rows are of class 1; priors of at most two rows move that by .012."""
    y = np.tile([0, 1, 0, 0], 10)
    fitted = fit([score] * 40, y, method, "probs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrated = fitted.predict_proba(np.array([score, 0.5]), kind="probs")
    assert calibrated[0, 1] == pytest.approx(0.25, abs=0.0121)
    assert np.isfinite(calibrated).all()


@pytest.mark.parametrize("method", ["platt", "beta", "ir", "hb", "ts"])
def test_weights_count_as_copies_of_rows(method):
    """cjlin1/libsvm 13: the sigmoid was fitted without the weights of the samples."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=80) * 3
    y = (rng.random(80) < 1 / (1 + np.exp(-z / 2))).astype(int)
    times = np.where(y == 1, 3, np.arange(80) % 3)
    weighted = fit(z, y, method, "logits", weights=times.astype(float))
    copied = fit(np.repeat(z, times), np.repeat(y, times), method, "logits")
    plain = fit(z, y, method, "logits")
    maps = [
        one.predict_proba(np.linspace(-4, 4, 9), kind="logits")[:, 1]
        for one in (weighted, copied, plain)
    ]
    assert maps[0] == pytest.approx(maps[1], abs=1e-9)
    assert np.abs(maps[0] - maps[2]).max() > 1e-3


def test_a_confidence_of_one_falls_into_the_last_bin():
    """Lightning-AI/torchmetrics 3510: a confidence of 1.0 had an extra bin to itself. Of
    .95 and 1.0 one is class 1: one bin, mean .975, half of them."""
    scores = measure([0.95, 1.0], [1, 0], ["ece", "mce"], label="positive")
    assert [one.value for one in scores.values()] == pytest.approx([0.475] * 2)


def test_a_confidence_of_zero_falls_into_the_first_bin():
    """NandhaKishorM/laya 39: bins (lo, hi] left out a confidence of 0. Of 0 and 1/2 the
    first is class 1: half the rows miss by 1, half by 1/2."""
    scores = measure([0.0, 0.5], [1, 1], ["ece"], label="positive")
    assert scores["ece"].value == pytest.approx(0.75)


def test_errors_compare_with_mean_scores_not_with_middles_of_bins():
    """JonathanWenger/pycalib 4: accuracies were compared with the middles of bins, so that
    right predictions of confidence 1 had an error."""
    p = np.tile([0.0, 1.0], (20, 1))
    scores = measure(p, np.ones(20, int), ["ece", "ece_mass", "mce", "cwece"])
    assert [one.value for one in scores.values()] == [0.0] * 4


@pytest.mark.parametrize("method", ["ts", "platt", "ir", "vs", "hb"])
def test_rows_of_weight_zero_are_no_rows(method):
    """scikit-learn/scikit-learn 21179: is a row of weight 0 the same as none?"""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(90, 2)) * 2
    y = (rng.random(90) < 0.4).astype(int)
    weight = np.r_[np.ones(60), np.zeros(30)]
    y[60:] = 1 - z[60:].argmax(axis=1)  # they would change any fit
    weighted = fit(z, y, method, "logits", weights=weight)
    plain = fit(z[:60], y[:60], method, "logits")
    expected = plain.predict_proba(z, kind="logits")
    assert weighted.predict_proba(z, kind="logits") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("k", [2, 5])
def test_no_temperature_is_negative(k):
    """gpleiss/temperature_scaling 31, autogluon/autogluon 4397: where the largest score is
    mostly wrong the optimiser ended at T < 0, which reverses every prediction."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(60, k)) * 3
    fitted = fit(z, z.argmin(axis=1), "ts", "logits")
    assert fitted.params["temperature"] > 0
    assert fitted.status != "ok"
    p = fitted.predict_proba(z, kind="logits")
    assert (p.argmax(axis=1) == z.argmax(axis=1)).all()


def test_a_temperature_without_an_optimum_stays_finite():
    """gpleiss/temperature_scaling 23: on two classes, labels without any relation to the
    scores, the temperature grew to 24413192 and on."""
    z = np.tile([[0.0, 4.0], [0.0, 4.0]], (100, 1))
    fitted = fit(z, np.tile([0, 1], 100), "ts", "logits")
    assert fitted.status == "at_bound"
    p = fitted.predict_proba(z, kind="logits")
    assert p == pytest.approx(0.5, abs=0.02) and np.isfinite(p).all()


@pytest.mark.parametrize("method", ["irova", "hb", "ir"])
def test_a_row_that_no_class_claims_has_probabilities(method):
    """scikit-learn/scikit-learn 31224 and 19334: where every one-vs-rest map gives 0 the
    row was divided by 0. EFS-OpenSource/calibration-framework 56: likewise NaN."""
    p = np.repeat(np.eye(3), 20, axis=0) * 0.7 + 0.1
    fitted = fit(p, np.repeat([0, 1, 2], 20), method, "probs", **MODES.get(method, {}))
    new = np.array([[0.34, 0.33, 0.33], [1 / 3] * 3, [0.1, 0.45, 0.45]])
    calibrated = fitted.predict_proba(new, kind="probs")
    assert np.isfinite(calibrated).all()
    assert calibrated.sum(axis=1) == pytest.approx(1.0, abs=1e-12)


MODES = {"hb": {"mode": "ova"}, "ir": {"mode": "ova"}}


@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
def test_bins_of_equal_mass_collapse_where_scores_are_the_same(score):
    """Khanz9664/TrustLens 144: quantile bins of equal scores had negative places."""
    y = np.tile([0, 1, 0, 0], 10)
    scores = measure([score] * 40, y, ["ece_mass"], label="positive")
    assert scores["ece_mass"].value == pytest.approx(abs(score - 0.25))


def test_tied_scores_are_in_one_bin_of_equal_mass():
    """lorenzofamiglini/CalFram 4: bins of equal mass cut a block of ties, and the error was
    that of the order of the rows."""
    p = np.repeat([0.2, 0.5, 0.9], [40, 35, 25])
    y = np.r_[np.zeros(35, int), np.ones(5, int), np.arange(35) % 2, np.ones(25, int)]
    expected = abs(8 - 5) / 100 + abs(17.5 - 17) / 100 + abs(22.5 - 25) / 100
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(100)
        scores = measure(p[order], y[order], ["ece_mass"], label="positive")
        assert scores["ece_mass"].value == pytest.approx(expected)


@pytest.mark.parametrize("size", [1e4, 1e30, 1e300])
@pytest.mark.parametrize("method", ["ts", "ec", "identity"])
def test_large_negative_scores_of_every_class_are_finite(method, size):
    """scikit-learn/scikit-learn 17978: with large coefficients every class had a
    probability of 0, and the row was divided by 0."""
    z = -size * np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [3.0, 2.0, 1.0]] * 10)
    fitted = fit(z, np.tile([0, 1, 2], 10), method, "logits")
    p = fitted.predict_proba(z, kind="logits")
    assert np.isfinite(p).all()
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert (p.argmax(axis=1) == np.tile([0, 1, 2], 10)).all()
