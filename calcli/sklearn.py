"""An estimator for scikit-learn: calibrate the scores that another model gave."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calcli.api import fit
from calcli.api.tables import check_index, in_order_of
from calcli.errors import CalcliError, DataError
from calcli.numerics import AnyArray
from calcli.optional_packages import optional_import

with optional_import("sklearn", "calcli.sklearn", error=ImportError):
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["ScoreCalibrator"]


class ScoreCalibrator(
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Calibrate saved scores: X holds one column of scores per class.

    Parameters
    ----------
    method : str, default="ts"
        A method of ``calcli methods``, a composition such as ``"ts+hb"``, or ``"auto"``.
    kind : {"logits", "log_probs", "probs"}, default="logits"
        What the columns of X are.
    options : mapping, default=None
        Options of the method, ``{"bins": 20}``.
    seed : int, default=0
        Seed of every random draw.

    Attributes
    ----------
    classes_ : the classes in sorted order; column c of X is the score of ``classes_[c]``.
    calibrator_ : the fitted ``calcli.FittedCalibrator``.

    ``transform`` gives the probabilities of ``predict_proba``, so that a pipeline can go on
    from them. After ``set_output(transform="pandas")`` (or ``"polars"``) both give a
    DataFrame whose columns are named by the classes, with the index of X. The scorers of
    scikit-learn index arrays: leave the default for them.

    Raises ValueError when X has another number of columns than y has classes (two classes may come as one column, the
    score of the second). For that reason 17 of scikit-learn's own checks, whose data have other columns, cannot apply
    as they are: ``tests/core/test_sklearn.py`` names them, and holds a subclass that makes scores of any features to
    all of them.

    >>> import numpy as np
    >>> X = np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
    >>> ScoreCalibrator().fit(X, ["a", "b", "a", "b"]).predict(X).tolist()
    ['a', 'b', 'a', 'a']
    """

    def __init__(
        self,
        method: str = "ts",
        kind: str = "logits",
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.kind = kind
        self.options = options
        self.seed = seed

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to scores X (n, k) and the labels y (n,) of the same rows."""
        try:
            check_index(X=X, y=y, sample_weight=sample_weight)
        except DataError as problem:
            raise ValueError(str(problem)) from problem
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_ = unique_labels(y)
        if len(self.classes_) < 2:
            raise ValueError(
                "Classifier can't train when only one class is present, got"
                f" {self.classes_[0]!r}"
            )
        if X.shape[1] != len(self.classes_) and not (
            X.shape[1] == 1 and len(self.classes_) == 2
        ):
            raise ValueError(
                f"X has {X.shape[1]} columns but y has {len(self.classes_)} classes:"
                " expected one score per class"
            )
        self._refuse_other_order()
        labels = np.searchsorted(self.classes_, y)
        options = dict(self.options or {})
        try:
            self.calibrator_ = fit(
                X,
                labels,
                self.method,
                self.kind,
                weights=sample_weight,
                seed=self.seed,
                **options,
            )
        except CalcliError as problem:  # scikit-learn's callers look out for ValueError
            raise ValueError(str(problem)) from problem
        return self

    def _refuse_other_order(self) -> None:
        """Raise ValueError for columns that are named by the classes, not in order."""
        columns = [str(name) for name in getattr(self, "feature_names_in_", ())]
        classes = [str(name) for name in self.classes_]
        in_order = in_order_of(classes, columns)
        if in_order is not None and in_order != columns:
            raise ValueError(
                f"X has the columns {columns}, expected the classes in sorted order:"
                f" X[{in_order}]"
            )

    def predict_proba(self, X: Any) -> Any:
        """Calibrated probabilities, (n, k), a DataFrame after ``set_output``."""
        # scikit-learn's global ``transform_output`` is about ``transform`` alone
        if "_sklearn_output_config" in vars(self):
            return self.transform(X)
        return self._probabilities(X)

    def transform(self, X: Any) -> Any:
        """Calibrated probabilities, (n, k), as ``predict_proba`` gives them."""
        return self._probabilities(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of ``transform``: the classes, (k,)."""
        check_is_fitted(self)
        return np.array(list(map(str, self.classes_)), dtype=object)

    def predict(self, X: Any) -> AnyArray:
        """Predicted classes, (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return np.asarray(self.classes_[self.calibrator_.predict(X)])

    def _probabilities(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return np.asarray(self.calibrator_.predict_proba(X))
