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


class Series(DataFrame):
    """Values with an index, as pandas has them."""

    def __init__(self, values, index=None, name=None):
        super().__init__(values, (), index)
        self.name = name
        self.dtype = self.values.dtype


# Columns that name the classes cat, dog, eel in another order.
OTHER_ORDERS = {
    "the same words": ["eel", "cat", "dog"],
    "text around": ["p_eel", "p_cat", "p_dog"],
    "capitals": ["EEL", "CAT", "DOG"],
}
CLASSES = ["cat", "dog", "eel"]


@pytest.mark.parametrize("columns", OTHER_ORDERS.values(), ids=list(OTHER_ORDERS))
def test_class_names_in_another_order_than_the_columns_are_refused(columns):
    """They were read by place, and the accuracy was .15 for .71."""
    p, y = drawn()
    scores = DataFrame(p[:, [2, 0, 1]], columns)
    in_order = f"scores\\[\\['{columns[1]}', '{columns[2]}', '{columns[0]}'\\]\\]"
    for labels in (y, np.array(CLASSES)[y]):
        with pytest.raises(DataError, match=in_order):
            calcli.evaluate(scores, labels, class_names=CLASSES)
    evaluation = calcli.evaluate(DataFrame(p, columns[1:] + columns[:1]), y)
    assert accuracy_of(evaluation) == (p.argmax(axis=1) == y).mean()


@pytest.mark.parametrize("columns", OTHER_ORDERS.values(), ids=list(OTHER_ORDERS))
@pytest.mark.parametrize("are_words", [True, False], ids=["words", "numbers"])
def test_columns_in_another_order_than_at_the_fit_are_refused(columns, are_words):
    """They were read by place where labels were numbers, or names had text around."""
    p, y = drawn()
    labels = np.array(CLASSES)[y] if are_words else y
    calibrator = calcli.fit(DataFrame(p, CLASSES), labels, "vs")
    with pytest.raises(DataError, match="in this order; reorder them"):
        calibrator.predict_proba(DataFrame(p[:, [2, 0, 1]], columns))
    with pytest.raises(DataError, match="pass the scores of these classes"):
        calibrator.predict_proba(DataFrame(p, ["eel", "fox", "dog"]))
    same = calibrator.predict_proba(DataFrame(p, columns[1:] + columns[:1]))
    assert np.array_equal(same.values, calibrator.predict_proba(p))


def test_columns_of_arrow_tables_are_named_by_the_classes():
    """They were read by place."""
    arrow = pytest.importorskip("pyarrow", reason="a table without iloc")
    p, y = drawn()
    words = np.array(CLASSES)[y]
    right = (p.argmax(axis=1) == y).mean()
    moved = arrow.table({"eel": p[:, 2], "cat": p[:, 0], "dog": p[:, 1]})
    for table in (moved, moved.to_batches()[0]):
        assert accuracy_of(calcli.evaluate(table, words)) == right
        with pytest.raises(DataError, match="class_names are cat, dog, eel"):
            calcli.evaluate(table, words, class_names=CLASSES)
    calibrator = calcli.fit(p, words, "vs", class_names=CLASSES)
    with pytest.raises(DataError, match="the calibrator was fitted to"):
        calibrator.predict_proba(moved)


ONE_HOT = {
    "names": (["dog", "eel", "cat"], CLASSES),
    "text around": (["is_dog", "is_eel", "is_cat"], CLASSES),
    "names of the columns": (["dog", "eel", "cat"], None),
}


@pytest.mark.parametrize(
    ("columns", "class_names"), ONE_HOT.values(), ids=list(ONE_HOT)
)
def test_columns_of_one_hot_labels_are_looked_up_by_name(columns, class_names):
    """They were read by place: accuracy .14."""
    p, y = drawn()
    right = (p.argmax(axis=1) == y).mean()
    scores = p if class_names else DataFrame(p, CLASSES)
    for dtype in (int, float, bool):
        labels = DataFrame(np.eye(3, dtype=dtype)[y][:, [1, 2, 0]], columns)
        evaluation = calcli.evaluate(scores, labels, class_names=class_names)
        assert accuracy_of(evaluation) == right


def test_one_hot_labels_of_other_classes_are_refused():
    p, y = drawn()
    labels = DataFrame(np.eye(3)[y], ["cat", "dog", "fox"])
    with pytest.raises(DataError, match="have a column 'fox', expected the classes"):
        calcli.evaluate(DataFrame(p, CLASSES), labels)


def test_one_hot_labels_of_whole_numbers_are_read_as_others():
    """Only those of real numbers were."""
    p, y = drawn()
    right = (p.argmax(axis=1) == y).mean()
    assert accuracy_of(calcli.evaluate(p, np.eye(3, dtype=int)[y])) == right
    assert accuracy_of(calcli.evaluate(p, y[:, None])) == right


def test_two_columns_in_the_order_yes_no_are_refused_beside_numbers():
    """Label 1 was read as "no"; of files this was refused."""
    p, y = drawn(2)
    for columns in (["yes", "no"], ["p_yes", "p_no"]):
        scores = DataFrame(p[:, ::-1], columns)
        for labels in (y, y == 1):
            with pytest.raises(DataError, match=r"label 1 would be '(p_)?no'"):
                calcli.evaluate(scores, labels)
    with pytest.raises(DataError, match="expected one of yes, no"):
        calcli.evaluate(DataFrame(p[:, ::-1], ["yes", "no"]), np.array(["n", "y"])[y])


def test_numbered_columns_in_another_order_are_refused_beside_numbers():
    """Label 0 was read as "p2"."""
    p, y = drawn()
    with pytest.raises(DataError, match="label 0 would be '3'"):
        calcli.evaluate(DataFrame(p[:, [2, 0, 1]], [3, 1, 2]), y)
    with pytest.raises(DataError, match=r"scores\[\['p0', 'p1', 'p2'\]\]"):
        calcli.evaluate(DataFrame(p[:, [2, 0, 1]], ["p2", "p0", "p1"]), y)


def test_a_column_named_by_a_class_is_that_of_class_1():
    """The later word in the alphabet was class 1, whatever the column was named."""
    p, y = drawn(2)
    right = (p.argmax(axis=1) == y).mean()
    words = np.array(["dog", "cat"])[y]
    for name in ("cat", "p_cat", "P(cat)"):
        for scores in (Series(p[:, 1], name=name), DataFrame(p[:, 1:], [name])):
            evaluation = calcli.evaluate(scores, words, kind="probs")
            assert accuracy_of(evaluation) == right


ARGUMENTS = ["labels", "weights", "units", "groups"]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_rows_of_one_index_in_another_order_are_refused(name):
    """They were read by place, where users of pandas expect them to be joined."""
    p, y = drawn()
    index = list(range(7, 7 + N))
    scores = DataFrame(p, CLASSES, index)
    values = {"labels": y, "weights": y + 1.0, "units": y, "groups": y}[name]
    arguments = {"labels": y, name: Series(values, index[::-1])}
    match = f"{name}: have the index of scores in another order"
    for function in (calcli.fit, calcli.evaluate, calcli.diagram):
        with pytest.raises(DataError, match=match):
            function(scores, **arguments)
    arguments[name] = Series(values, index)
    calcli.evaluate(scores, **arguments)


def test_rows_of_two_other_indexes_are_doubted():
    p, y = drawn()
    scores = DataFrame(p, CLASSES, [f"image {row}" for row in range(N)])
    labels = Series(y, [f"picture {row}" for row in range(N)])
    with pytest.warns(UserWarning, match="labels: have another index than scores"):
        calcli.evaluate(scores, labels)


def test_a_counter_among_the_columns_is_refused():
    """It was read as a class, and the probabilities as logits: accuracy .00."""
    p, y = drawn()
    scores = DataFrame(np.c_[np.arange(N), p], ["index", *CLASSES])
    with pytest.raises(DataError, match=r"drop\(columns=\['index'\]\)"):
        calcli.evaluate(scores, np.array(CLASSES)[y])


def test_the_estimator_refuses_names_with_text_around_in_another_order():
    """They were read by place."""
    arrow = pytest.importorskip("pyarrow", reason="a table that scikit-learn knows")
    p, y = drawn()
    words = np.array(CLASSES)[y]
    for columns in OTHER_ORDERS.values():
        table = arrow.table(dict(zip(columns, p[:, [2, 0, 1]].T, strict=True)))
        with pytest.raises(ValueError, match="expected the classes in sorted order"):
            ScoreCalibrator(kind="probs").fit(table, words)
    with pytest.raises(ValueError, match="y: have the index of X in another order"):
        ScoreCalibrator(kind="probs").fit(
            DataFrame(p, CLASSES), Series(words, range(N)[::-1])
        )
