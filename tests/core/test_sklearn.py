"""``calcli.sklearn.ScoreCalibrator`` under scikit-learn's own checks."""

import sys
import types

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data
from synthetic import truth

import calcli
from calcli.sklearn import ScoreCalibrator


class OnFeatures(ScoreCalibrator):
    """A ``ScoreCalibrator`` that turns any features into one score per class before it works.

    scikit-learn's checks fit data with more, or fewer, columns than classes, which scores
    cannot have. The score of a class is minus the squared distance to its mean; all else is
    the estimator's own.
    """

    def fit(self, X, y, sample_weight=None):
        checked, labels = validate_data(self, X, y)
        names = np.unique(labels)
        if len(names) > 1 and checked.dtype.kind == "f" and labels.dtype.kind != "f":
            weight = (
                np.ones(len(labels))
                if sample_weight is None
                else np.asarray(sample_weight, dtype=float)
            )
            usable = weight.shape == labels.shape and all(
                weight[labels == name].sum() > 0 for name in names
            )
            weight = weight if usable else np.ones(len(labels))
            self.means_ = np.stack(
                [
                    np.average(
                        checked[labels == name], axis=0, weights=weight[labels == name]
                    )
                    for name in names
                ]
            )
        else:  # what the estimator itself refuses
            self.means_ = np.zeros((max(len(names), 2), checked.shape[1]))
        n_features, feature_names = (
            self.n_features_in_,
            getattr(self, "feature_names_in_", None),
        )
        super().fit(self._scores(checked), labels, sample_weight)
        self.n_features_in_ = n_features
        if feature_names is not None:
            self.feature_names_in_ = feature_names
        return self

    def _scores(self, X):
        return -0.5 * ((np.asarray(X, dtype=float)[:, None] - self.means_) ** 2).sum(
            axis=2
        )

    def _probabilities(self, X):
        return self._through("predict_proba", X)

    def predict(self, X):
        return self._through("predict", X)

    def _through(self, name, X):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        scores = self._scores(validate_data(self, X, reset=False))
        inner = getattr(self.calibrator_, name)(scores)
        return inner if name == "predict_proba" else self.classes_[inner]


OTHER_COLUMNS = dict.fromkeys(
    [
        "check_all_zero_sample_weights_error",
        "check_classifiers_classes",
        "check_classifiers_train",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_estimators_nan_inf",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_n_features_in_after_fitting",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
        "check_sample_weight_equivalence_on_dense_data",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_transformer_preserve_dtypes",
    ],
    "its data have another number of columns than classes, which is no table of scores",
)


@parametrize_with_checks(
    [ScoreCalibrator(), ScoreCalibrator(method="vs")],
    expected_failed_checks=lambda _: OTHER_COLUMNS,
)
def test_checks_whose_data_could_be_scores(estimator, check):
    check(estimator)  # those of the list must fail: xfail is strict here


@parametrize_with_checks([OnFeatures(), OnFeatures(method="vs")])
def test_every_check_on_scores_made_of_features(estimator, check):
    check(estimator)


def test_it_equals_the_api_and_keeps_class_names():
    z, y = truth(300, 4)
    names = np.array(["ant", "bee", "cat", "dog"])
    estimator = ScoreCalibrator("svs").fit(z, names[y])
    np.testing.assert_array_equal(
        estimator.predict_proba(z), calcli.fit(z, y, "svs").predict_proba(z)
    )
    np.testing.assert_array_equal(
        estimator.predict(z), names[calcli.fit(z, y, "svs").predict(z)]
    )
    assert estimator.classes_.tolist() == names.tolist()


def test_it_follows_a_classifier_in_a_pipeline():
    z, y = truth(400, 3)
    model = LogisticRegression().fit(z[:200], y[:200])
    pipe = make_pipeline(
        FunctionTransformer(model.decision_function), ScoreCalibrator()
    )
    probabilities = pipe.fit(z[200:], y[200:]).predict_proba(z[:5])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_weights_of_zero_are_rows_left_out():
    z, y = truth(300, 3)
    weight = (np.arange(300) < 200).astype(float)
    weighted = ScoreCalibrator().fit(z, y, sample_weight=weight)
    alone = ScoreCalibrator().fit(z[:200], y[:200])
    assert weighted.calibrator_.params["temperature"] == pytest.approx(
        alone.calibrator_.params["temperature"], rel=1e-9
    )


def test_another_number_of_columns_is_refused():
    z, y = truth(100, 3)
    with pytest.raises(ValueError, match="X has 4 columns but y has 3 classes"):
        ScoreCalibrator().fit(np.column_stack([z, z[:, 0]]), y)


class Frame:
    """What scikit-learn asks of a DataFrame of polars."""

    def __init__(self, values, schema, orient):
        self.values = values
        self.columns = list(schema)


def test_set_output_names_the_columns_by_the_classes(monkeypatch):
    polars = types.SimpleNamespace(DataFrame=Frame, Series=list)
    monkeypatch.setitem(sys.modules, "polars", polars)
    z, y = truth(300, 3)
    names = np.array(["ant", "bee", "cat"])[y]
    plain = ScoreCalibrator().fit(z, names).predict_proba(z)
    asked = ScoreCalibrator().set_output(transform="polars")
    pipeline = make_pipeline(FunctionTransformer(), ScoreCalibrator())
    for estimator in (asked, clone(asked), pipeline.set_output(transform="polars")):
        for method in ("predict_proba", "transform"):
            frame = getattr(estimator.fit(z, names), method)(z)
            assert isinstance(frame, Frame)
            assert frame.columns == ["ant", "bee", "cat"]
            np.testing.assert_array_equal(frame.values, plain)
    asked.set_output(transform="default")
    assert isinstance(asked.predict_proba(z), np.ndarray)


def test_the_global_output_leaves_probabilities_for_scorers(monkeypatch):
    """Scorers take columns of an array; scikit-learn's option is about ``transform``."""
    polars = types.SimpleNamespace(DataFrame=Frame, Series=list)
    monkeypatch.setitem(sys.modules, "polars", polars)
    z, y = truth(300, 3)
    estimator = ScoreCalibrator().fit(z, y)
    with config_context(transform_output="polars"):
        assert isinstance(estimator.predict_proba(z), np.ndarray)
        assert isinstance(estimator.transform(z), Frame)


def test_a_data_frame_keeps_its_index():
    pandas = pytest.importorskip("pandas")
    z, y = truth(300, 3)
    index = [f"row{i}" for i in range(300)]
    rows = pandas.DataFrame(z, index=index, columns=["a", "b", "c"])
    names = np.array(["ant", "bee", "cat"])[y]
    estimator = ScoreCalibrator().set_output(transform="pandas").fit(rows, names)
    frame = estimator.predict_proba(rows)
    assert list(frame.index) == index
    assert list(frame.columns) == ["ant", "bee", "cat"]
