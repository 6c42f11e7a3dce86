"""The fitted model that is evaluated, taken out of its pipeline, and what is public about its targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.statement import loss_of
from dperm.errors import Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.encoder import PublicEncoder
from dperm.estimators.hasher import PublicHasher
from dperm.estimators.labels import as_told, told_classes
from dperm.estimators.linear import PrivateLinearRegression
from dperm.losses import Loss

Vector = NDArray[np.float64]
TaskName = Literal["binary", "classes", "regression"]


@dataclass(frozen=True, eq=False)
class StatedModel:
    """What a file says of the model that it is about."""

    task: TaskName
    classes: tuple[Any, ...]
    y_range: tuple[float, float]
    has_probabilities: bool

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> StatedModel:
        low, high = document["y_range"] or (-math.inf, math.inf)
        probabilities = document["release"]["probabilities"]
        return cls(document["task"], tuple(document["classes"]), (float(low), float(high)), probabilities)


@dataclass(frozen=True, eq=False)
class EvaluatedModel:
    """A fitted model and the steps before it, none of which looks at more than one row."""

    model: PrivateLinearModel
    steps: tuple[Any, ...] = ()

    @property
    def digest(self) -> str:
        """Of the released numbers, as the model's certificate has it."""
        return str(self.model.certificate_["model"]["sha256"])

    @property
    def of_persons(self) -> bool:
        """Whether the model was trained by person, or the schema before it names persons."""
        schemas = (step.declared for step in self.steps if isinstance(step, PublicEncoder))
        stated = "persons" in self.model.privacy_.statement
        return stated or any(schema.person is not None for schema in schemas)

    @property
    def task(self) -> TaskName:
        if not isinstance(self.model, PrivateClassifier):
            return "regression"
        return "binary" if len(self.model.classes_) == 2 else "classes"

    @property
    def classes(self) -> NDArray[Any]:
        """In the order in which they are told; of two the positive one last."""
        return told_classes(self.model)

    def in_order(self, scores: Vector) -> Vector:
        """Scores in the order of ``classes``; of two the one of the positive class."""
        return np.asarray(as_told(self.model, scores))

    @property
    def loss(self) -> Loss:
        """The loss that was really trained with."""
        return loss_of(self.model.privacy_.statement["problem"])

    @property
    def has_probabilities(self) -> bool:
        return self.task != "regression" and hasattr(self.model, "predict_proba")

    @property
    def y_range(self) -> tuple[float, float]:
        targets = self.model.privacy_.statement["targets"]
        return float(targets["low"]), float(targets["high"])

    def transformed(self, X: Any) -> Any:
        for step in self.steps:
            X = step.transform(X)
        return X


def evaluated_model(model: Any) -> EvaluatedModel:
    """The private model in ``model``: itself, the best one of a search, or the last step of a pipeline."""
    steps: tuple[Any, ...] = ()
    if isinstance(model, Pipeline):
        steps = tuple(part for _, part in model.steps[:-1] if part not in (None, "passthrough"))
        for step in steps:
            if not isinstance(step, PublicEncoder | PublicHasher):
                raise Unsupported(
                    f"a {type(step).__name__} before the model may look at several rows at once, which the guarantee "
                    "does not cover. Evaluate the last step of the pipeline, on rows that you transformed."
                )
        model = model.steps[-1][1]
    model = getattr(model, "best_estimator_", model)
    if not isinstance(model, PrivateClassifier | PrivateLinearRegression):
        raise Unsupported(
            "model must be a fitted private model of dperm, or a pipeline of a PublicEncoder and one; got a "
            f"{type(model).__name__}."
        )
    check_is_fitted(model)
    return EvaluatedModel(model, steps)
