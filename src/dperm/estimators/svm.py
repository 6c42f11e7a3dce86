"""Private linear support vector classifier, with the huberised hinge loss."""

from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.settings import documented
from dperm.losses import HuberHinge


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
