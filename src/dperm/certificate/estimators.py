"""Which loss an estimator may have trained with, by the name of its class in a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dperm.certificate.document import describe_loss
from dperm.certificate.statement import loss_of
from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Softmax


@dataclass(frozen=True)
class Kind:
    """What is known of an estimator by its name: its kind of targets, and its loss if no parameter says it."""

    targets: str
    loss: str | None = None


KINDS = {
    "PrivateLogisticRegression": Kind("classes", Logistic.name),
    "PrivateLinearSVC": Kind("classes", HuberHinge.name),
    "PrivateLinearClassifier": Kind("classes"),
    "PrivateLinearRegression": Kind("range"),
}


def check_loss(document: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Refuse a statement about another loss than the one that the estimator trains with."""
    kind, problem, parameters = (
        KINDS.get(str(document["estimator"])),
        statement["problem"],
        document["parameters"],
    )
    stated = loss_of(problem)
    if kind is None or kind.targets != statement["targets"]["kind"]:
        raise InvalidInput("the loss is not that of the estimator.")
    asked = kind.loss or parameters.get("loss", ClippedSquared.name)  # older files have no such parameter
    if isinstance(asked, str):
        agrees = stated.name in ((Logistic.name, Softmax.name) if asked == Logistic.name else (asked,))
        own = (
            [parameters.get("residual_bound")] if asked == ClippedSquared.name else type(stated)().parameters
        )
        agrees = agrees and list(own) == list(problem["loss_parameters"])
    else:
        agrees = asked == describe_loss(stated)
    if not agrees:
        raise InvalidInput("the loss is not that of the estimator.")
