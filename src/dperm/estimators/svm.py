"""Private linear support vector classifier, with the huberised hinge loss."""

from dperm.estimators._base import PrivateBinaryClassifier
from dperm.losses import HuberHinge, Loss


class PrivateLinearSVC(PrivateBinaryClassifier):
    """Linear SVM with an (epsilon, delta) guarantee. The hinge is rounded over a width of 0.5 each side."""

    def _loss(self) -> Loss:
        return HuberHinge()
