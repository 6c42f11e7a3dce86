"""Private logistic regression."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, softmax

from dperm.estimators._classifier import PrivateClassifier
from dperm.losses import Logistic, Loss, Softmax


class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression with an (epsilon, delta) guarantee.

    Two classes take the logistic loss. More take the softmax loss: one fit and one budget for all of them, and
    not one for each class.
    """

    multi_class: ClassVar[bool] = True

    def _loss(self, n_classes: int) -> Loss:
        return Logistic() if n_classes == 2 else Softmax(n_classes)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities, one column per class in the order of ``classes_``."""
        margin = self.decision_function(X)
        if margin.ndim == 2:
            return np.asarray(softmax(margin, axis=1))
        return np.column_stack([expit(-margin), expit(margin)])

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of ``predict_proba``."""
        margin: Any = self.decision_function(X)
        if margin.ndim == 2:
            return np.asarray(log_softmax(margin, axis=1))
        return np.column_stack([log_expit(-margin), log_expit(margin)])
