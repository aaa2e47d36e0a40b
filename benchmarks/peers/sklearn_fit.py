"""Temperature scaling by scikit-learn (1.8 and later)."""

import sys

import h5py
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator


class Scores(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its logits."""

    def fit(self, X, y):
        self.classes_ = np.arange(X.shape[1])
        return self

    def decision_function(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)


with h5py.File(sys.argv[1]) as file:
    z = file["logits"][()].astype(np.float64)
    y = file["labels"][()]
scores = FrozenEstimator(Scores().fit(z, y))
fitted = CalibratedClassifierCV(scores, method="temperature").fit(z, y)
print(1.0 / fitted.calibrated_classifiers_[0].calibrators[0].beta_)
