"""The API inside other programs: axes, data frames, test suites, logging, kinds."""

import logging
import sys
import types

import numpy as np
import pytest

import calcli
import calcli.testing
from calcli.errors import DataError, UsageError


@pytest.fixture(scope="module")
def rows():
    """Logits that are twice too large, and labels of 3 classes."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 3)) * 2.0
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=row) for row in p])
    return 2.0 * z, y


def test_a_kind_that_all_values_prove_need_not_be_given(rows):
    z, y = rows
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    log_p = np.log(p)
    evaluations = [calcli.evaluate(x, y, metrics="nll") for x in (z, p, log_p)]
    values = [evaluation.results[0].scores["nll"].value for evaluation in evaluations]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    with pytest.raises(DataError, match="kind='logits'"):
        calcli.evaluate(np.round(np.abs(z)), y, metrics="nll")


def test_curves_are_drawn_into_axes(rows):
    plt = pytest.importorskip("matplotlib.figure")
    z, y = rows
    figure = plt.Figure()
    axes = figure.add_subplot()
    calibrator = calcli.fit(z, y, method="ts")
    picture = calcli.diagram(z, y, calibrator, ax=axes, resamples=100)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[:2] == ["uncalibrated", "ts"]
    assert axes.get_xlim() == (0.0, 1.0)
    assert picture.to_dict()["style"] == "corp"
    with pytest.raises(UsageError, match="ax="):
        calcli.diagram(z, y, style="risk", ax=axes)


def test_a_diagram_refuses_what_are_no_flat_axes(rows):
    """Lists and figures ended in an AttributeError; polar axes were drawn into."""
    z, y = rows
    plt = pytest.importorskip("matplotlib.pyplot", reason="axes to draw into")
    figure = plt.figure()
    polar = figure.add_subplot(projection="polar")
    for ax in ([polar], figure, "axes", polar):
        with pytest.raises(UsageError, match="ax: is of type .*, expected flat axes"):
            calcli.diagram(z, y, ax=ax, resamples=100)


def test_a_data_frame_of_scores_gives_one_of_probabilities(rows, monkeypatch):
    """Of pandas, or of a class that looks like it where it is not installed."""
    z, y = rows
    calibrator = calcli.fit(z, y, method="ts")
    plain = calibrator.predict_proba(z)
    names, index = ["a", "b", "c"], [f"row{i}" for i in range(len(z))]
    try:
        from pandas import DataFrame
    except ImportError:

        class DataFrame:
            iloc = None

            def __init__(self, values, index, columns):
                self.values, self.index, self.columns = values, index, columns
                self.shape = values.shape

            def __array__(self, dtype=None, copy=None):
                return np.asarray(self.values, dtype)

    frame = calibrator.predict_proba(DataFrame(z, index=index, columns=names))
    assert list(frame.columns) == names
    assert list(frame.index) == index
    np.testing.assert_array_equal(np.asarray(frame), plain)


def test_assert_calibrated_fails_with_headline_and_findings(rows):
    z, y = rows
    calcli.testing.assert_calibrated(z / 2.0, y)
    with pytest.raises(AssertionError, match=r"^overconfident: .*% sure"):
        calcli.testing.assert_calibrated(z, y)
    calcli.testing.assert_calibrated(z, y, calcli.fit(z, y, method="ts"))
    calcli.testing.assert_calibrated(z[:8], y[:8])  # too few samples show nothing
    with pytest.raises(AssertionError, match="^too few samples"):
        calcli.testing.assert_calibrated(z[:8], y[:8], fail_on=["too_few"])


def test_assert_calibrated_refuses_verdicts_that_do_not_exist(rows):
    """A misspelt one never failed; metrics alone failed without a word."""
    z, y = rows
    with pytest.raises(UsageError, match="did you mean overconfident"):
        calcli.testing.assert_calibrated(z, y, fail_on=["overconfidnt"])
    with pytest.raises(UsageError, match="without a verdict to assert"):
        calcli.testing.assert_calibrated(z, y, metrics=["ece"])
    with pytest.raises(AssertionError):
        calcli.testing.assert_calibrated(z, y, fail_on="overconfident")
    calcli.testing.assert_calibrated(z, y, fail_on=())


def test_what_the_command_line_says_is_logged(rows, caplog):
    z, y = rows
    with caplog.at_level(logging.INFO, logger="calcli"):
        calcli.evaluate(z, y, calcli.fit(z, y, method="ts"))
    assert caplog.messages[0].startswith("Fitted ts: T = 1.9")
    assert any("overconfident" in message for message in caplog.messages)
    assert isinstance(sys.modules["calcli.testing"], types.ModuleType)
