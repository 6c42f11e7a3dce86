"""A private linear classifier with any loss that is registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dperm.estimators._documented import documented
from dperm.estimators._losses import LossLike
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.svm import PrivateLinearSVC
from dperm.estimators.weights import ClassWeight
from dperm.ledger import Ledger
from dperm.losses import Logistic, resolve_loss
from dperm.mechanisms import Mechanism
from dperm.planning.penalty import AUTO, L2
from dperm.unit import PersonLoss


@documented()
class PrivateLinearClassifier(PrivateClassifier):
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

    def __init__(
        self,
        *,
        loss: LossLike = Logistic.name,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        mechanism: str | Mechanism = "auto",
        l2: L2 = AUTO,
        x_norm: float = 1.0,
        classes: Sequence[Any] | None = None,
        positive: Any = None,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        max_rows: int | None = None,
        class_weight: ClassWeight = None,
        sample_weight_bound: float | None = None,
        person_loss: str = PersonLoss.MEAN.value,
        max_rows_per_person: int | None = None,
        inference: bool = False,
        random_state: Any = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            l2=l2,
            x_norm=x_norm,
            classes=classes,
            positive=positive,
            fit_intercept=fit_intercept,
            neighbours=neighbours,
            max_rows=max_rows,
            class_weight=class_weight,
            sample_weight_bound=sample_weight_bound,
            person_loss=person_loss,
            max_rows_per_person=max_rows_per_person,
            inference=inference,
            random_state=random_state,
            ledger=ledger,
            dataset=dataset,
        )
        self.loss = loss


def classifier_for(loss: LossLike, **settings: Any) -> PrivateClassifier:
    """The classifier that trains with this loss: the one that is named after it, if there is one."""
    for kind in (PrivateLogisticRegression, PrivateLinearSVC):
        if resolve_loss(loss) == resolve_loss(kind.loss):
            return kind(**settings)
    return PrivateLinearClassifier(loss=loss, **settings)
