"""A private linear classifier with any loss that is registered."""

from __future__ import annotations

from typing import Any

from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.labels import LossLike
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.settings import LinearClassifierSettings, documented
from dperm.estimators.svm import PrivateLinearSVC
from dperm.losses import resolve_loss


@documented()
class PrivateLinearClassifier(LinearClassifierSettings, PrivateClassifier):
    """A linear classifier with an (epsilon, delta) guarantee and a loss of your choice.

    ``loss="logistic"`` is PrivateLogisticRegression, ``loss="huber-hinge"`` is PrivateLinearSVC. ``predict_proba``
    is there where margins stand for probabilities: not for the hinge.

    {parameters}

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLinearClassifier
    >>> from dperm.losses import HuberHinge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 2))
    >>> model = PrivateLinearClassifier(loss=HuberHinge(width=0.25), epsilon=1.0, classes=[0, 1])
    >>> model.fit(X, (X[:, 0] > 0).astype(int)).privacy_.loss
    'huber-hinge'
    >>> model.predict([[0.5, 0.0], [-0.5, 0.0]])
    array([1, 0])
    >>> hasattr(model, "predict_proba")
    False
    """


def classifier_for(loss: LossLike, **settings: Any) -> PrivateClassifier:
    """The classifier that trains with this loss: the one that is named after it, if there is one."""
    for kind in (PrivateLogisticRegression, PrivateLinearSVC):
        if resolve_loss(loss) == resolve_loss(kind.loss):
            return kind(**settings)
    return PrivateLinearClassifier(loss=loss, **settings)
