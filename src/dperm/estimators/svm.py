"""Private linear support vector classifier, with the huberised hinge loss."""

from dperm.estimators._classifier import PrivateClassifier
from dperm.losses import HuberHinge, Loss


class PrivateLinearSVC(PrivateClassifier):
    """Linear SVM of two classes with an (epsilon, delta) guarantee.

    The hinge is rounded over a width of 0.5 each side.
    """

    def _loss(self, n_classes: int) -> Loss:
        return HuberHinge()
