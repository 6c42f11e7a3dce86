"""Private linear classifiers with other losses than the logistic one, and the estimator that a target asks for."""

from __future__ import annotations

from typing import Any

from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.labels import LossLike
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.settings import LinearClassifierSettings, documented
from dperm.losses import HuberHinge, Logistic, Softmax, resolve_loss
from dperm.losses.registry import AUTO_LOSS, fitting_loss
from dperm.schema.features import Target


@documented()
class PrivateLinearSVC(PrivateClassifier):
    """Linear SVM of two classes with an (epsilon, delta) guarantee.

    The hinge is rounded over a width of 0.5 each side.

    {parameters}

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 2))
    >>> model = PrivateLinearSVC(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
    >>> model.privacy_.guarantee
    {'epsilon': 1.0, 'delta': 1e-06}
    >>> model.predict([[0.5, 0.0], [-0.5, 0.0]])
    array([1, 0])
    """

    loss = HuberHinge.name


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


def estimator_for(target: Target, loss: str = AUTO_LOSS, **settings: Any) -> PrivateLinearModel:
    """Of a number, with its declared range, or of classes; a loss for something else is refused."""
    if target.range is not None:
        return PrivateLinearRegression(loss=fitting_loss(loss, None), y_range=target.range, **settings)
    name = fitting_loss(loss, len(target.labels))
    if name == Softmax.name:  # what the logistic loss is of several classes
        name = Logistic.name
    return classifier_for(name, classes=list(target.labels), **settings)
