"""The estimator that a declared target asks for."""

from __future__ import annotations

from typing import Any

from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.linear_classifier import classifier_for
from dperm.losses import Logistic, Softmax
from dperm.losses.registry import AUTO_LOSS, fitting_loss
from dperm.schema.features import Target


def estimator_for(target: Target, loss: str = AUTO_LOSS, **settings: Any) -> PrivateLinearModel:
    """Of a number, with its declared range, or of classes; a loss for something else is refused."""
    if target.range is not None:
        return PrivateLinearRegression(loss=fitting_loss(loss, None), y_range=target.range, **settings)
    name = fitting_loss(loss, len(target.labels))
    if name == Softmax.name:  # what the logistic loss is of several classes
        name = Logistic.name
    return classifier_for(name, classes=list(target.labels), **settings)
