"""Private logistic regression."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from dperm.estimators._base import PrivateBinaryClassifier
from dperm.losses import Logistic, Loss


class PrivateLogisticRegression(PrivateBinaryClassifier):
    """Logistic regression with an (epsilon, delta) guarantee."""

    def _loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of ``classes_[0]`` and ``classes_[1]``, one row each."""
        margin = self.decision_function(X)
        return np.column_stack([expit(-margin), expit(margin)])

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of ``predict_proba``."""
        margin: Any = self.decision_function(X)
        return np.column_stack([log_expit(-margin), log_expit(margin)])
