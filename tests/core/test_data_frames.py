"""Scores in a DataFrame: its columns may be named by the classes.

pandas need not be installed: a class with the parts that are used stands in for it, as
in ``pandas.DataFrame(model.predict_proba(X), columns=model.classes_)``.
"""

import numpy as np
import pytest

import calcli
from calcli.errors import DataError, UsageError
from calcli.sklearn import ScoreCalibrator

N = 300


class DataFrame:
    """Numbers with names of columns, as pandas has them."""

    iloc = None

    def __init__(self, values, columns, index=None):
        self.values = np.asarray(values)
        self.columns = list(columns)
        self.index = range(len(self.values)) if index is None else index
        self.shape = self.values.shape

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or self.values.dtype)


def drawn(k=3):
    """Probabilities (N, k) and classes (N,) drawn from them."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(N, k))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return p, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def accuracy_of(evaluation):
    (result,) = evaluation.results
    return result.scores["accuracy"].value


COLUMNS = {
    "letters": ["b", "a", "c"],
    "words": ["zebra", "ant", "mule"],
    "numbers": [0, 2, 1],
    "from 1": [1, 2, 3],
    "years": [2021, 2019, 2020],
}


@pytest.mark.parametrize("names", COLUMNS.values(), ids=list(COLUMNS))
def test_labels_are_looked_up_in_the_names_of_the_columns(names):
    """Letters were read as places in the alphabet, and numbers as places."""
    p, y = drawn()
    labels = np.array(names)[y]
    right = (p.argmax(axis=1) == y).mean()
    assert accuracy_of(calcli.evaluate(DataFrame(p, names), labels)) == right


SAME_VALUES = {
    "floats of whole numbers": ([1, 2, 3], [1.0, 2.0, 3.0]),
    "whole numbers of floats": ([1.0, 2.0, 3.0], [1, 2, 3]),
    "truth, reversed": ([True, False], [True, False]),
    "words of truth": ([True, False], ["true", "false"]),
    "numbers of truth": ([True, False], [1, 0]),
    "signs": ([1, -1], [1.0, -1.0]),
    "bytes": (["b", "a", "c"], [b"b", b"a", b"c"]),
}


@pytest.mark.parametrize(
    ("columns", "words"), SAME_VALUES.values(), ids=list(SAME_VALUES)
)
def test_labels_name_columns_by_their_value(columns, words):
    """Labels 1.0 and 2.0 beside columns 1, 2, 3 were read as places without a word."""
    p, y = drawn(len(columns))
    is_kept = y < 2  # of the third class there is no row
    p, y = p[is_kept], y[is_kept]
    right = (p.argmax(axis=1) == y).mean()
    evaluation = calcli.evaluate(DataFrame(p, columns), np.array(words)[y])
    assert accuracy_of(evaluation) == right


def test_columns_that_count_the_classes_are_places():
    p, y = drawn()
    right = (p.argmax(axis=1) == y).mean()
    assert accuracy_of(calcli.evaluate(DataFrame(p, range(3)), y)) == right


def test_names_that_are_no_labels_leave_the_labels_as_they_are():
    p, y = drawn()
    right = (p.argmax(axis=1) == y).mean()
    scores = DataFrame(p, ["p0", "p1", "p2"])
    assert accuracy_of(calcli.evaluate(scores, y)) == right


def test_another_order_of_columns_than_at_the_fit_is_refused():
    p, y = drawn()
    names = COLUMNS["words"]
    calibrator = calcli.fit(DataFrame(p, names), np.array(names)[y], "vs")
    other = DataFrame(p[:, ::-1], names[::-1])
    with pytest.raises(DataError, match="in this order; reorder them"):
        calibrator.predict_proba(other)
    with pytest.raises(DataError, match="in this order; reorder them"):
        calcli.evaluate(other, y, calibrator)
    calibrated = calibrator.predict_proba(DataFrame(p, names))
    assert calibrated.columns == names
    assert np.array_equal(calibrated.values, calibrator.predict_proba(p))


def test_a_method_that_is_no_name_is_a_usage_error():
    p, y = drawn()
    with pytest.raises(UsageError, match="method: is None, expected a name"):
        calcli.fit(p, y, None)


def test_the_estimator_refuses_columns_that_are_not_in_the_order_of_the_classes():
    """Its columns are the classes in sorted order, which is not that of a DataFrame."""
    p, y = drawn()
    arrow = pytest.importorskip("pyarrow", reason="a table that scikit-learn knows")
    labels = np.array(["ant", "mule", "zebra"])[y]
    estimator = ScoreCalibrator(kind="probs")
    for columns in (["ant", "mule", "zebra"], ["p0", "p1", "p2"]):
        estimator.fit(arrow.table(dict(zip(columns, p.T, strict=True))), labels)
        assert estimator.classes_.tolist() == ["ant", "mule", "zebra"]
    not_sorted = dict(zip(["zebra", "ant", "mule"], p.T, strict=True))
    with pytest.raises(ValueError, match="expected the classes in sorted order"):
        estimator.fit(arrow.table(not_sorted), labels)
