"""Private logistic regression."""

from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.settings import documented
from dperm.losses import Logistic


@documented()
class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression with an (epsilon, delta) guarantee.

    Two classes take the logistic loss. More take the softmax loss: one fit and one budget for all of them, and
    not one for each class.

    {parameters}

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=["no", "yes"]).fit(X, y)
    >>> model.privacy_.guarantee
    {'epsilon': 1.0, 'delta': 1e-06}
    >>> model.predict([[0.5, 0.0], [-0.5, 0.0]])
    array(['yes', 'no'], dtype='<U3')
    >>> model.predict_proba([[0.5, 0.0]]).shape
    (1, 2)
    """

    loss = Logistic.name
