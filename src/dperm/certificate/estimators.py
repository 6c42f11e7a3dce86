"""Which loss an estimator may have trained with, by the name of its class in a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dperm.certificate.document import describe_loss
from dperm.certificate.statement import loss_of, problem_of
from dperm.errors import InvalidInput
from dperm.losses import (
    ClippedSquared,
    HuberHinge,
    Logistic,
    Loss,
    SoftClippedSquared,
    Weighted,
    rebuild_loss,
    resolve_loss,
)
from dperm.losses.weighted import BOUND_RANGE
from dperm.mechanisms import Auto
from dperm.mechanisms.auto import loss_for
from dperm.persons import PersonLoss, rows_kept
from dperm.privacy import Budget
from dperm.strict_json import is_label


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


_WEIGHTS = ("class_weight", "sample_weight_bound")


def check_loss(document: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Refuse a statement about another loss than the one that the estimator trains with."""
    kind, targets = KINDS.get(str(document["estimator"])), statement["targets"]
    stated = describe_loss(loss_of(statement["problem"]))
    if kind is None or kind.targets != targets["kind"]:
        raise InvalidInput("the targets are not those of the estimator.")
    parameters = document["parameters"]
    declared = parameters.get("classes")
    _check_class_weight(parameters.get("class_weight"), document["classes"] if declared is None else declared)
    asked = kind.loss or parameters["loss"]
    if isinstance(asked, str):
        loss = _of_persons(_weighted(_named(asked, parameters, targets), parameters, targets), statement)
        chosen = statement["mechanism"]["asked"]["name"] == Auto.name and "inference" not in statement
        asked = describe_loss(_by_rule(loss, statement) if chosen else loss)
    elif "persons" in statement or any(parameters.get(name) is not None for name in _WEIGHTS):
        own = rebuild_loss(asked["name"], asked["parameters"], asked["outputs"])
        asked = describe_loss(_of_persons(_weighted(own, parameters, targets), statement))
    if asked != stated:
        raise InvalidInput("the loss is not that of the estimator.")


def _check_class_weight(pairs: object, classes: object) -> None:
    """Refuse weights that no estimator takes, and labels that it has not or has twice."""
    if pairs is None:
        return
    formed = isinstance(pairs, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
    if not (isinstance(pairs, list) and formed and isinstance(classes, list)):
        raise InvalidInput("class_weight must be a list of pairs of label and weight.")
    low, high = BOUND_RANGE
    if not all(isinstance(weight, float) and low <= weight <= high for _, weight in pairs):
        raise InvalidInput(f"class_weight holds a weight outside {low:g} to {high:g}.")
    labels = [(type(label), label) for label, _ in pairs if is_label(label)]
    known = {(type(label), label) for label in classes}
    if not len(pairs) == len(set(labels)) == len(known.intersection(labels)):
        raise InvalidInput("class_weight must name classes of the model, each once.")


def _weighted(loss: Loss, parameters: Mapping[str, Any], targets: Mapping[str, Any]) -> Loss:
    """The loss for the weights that the parameters declare; a regression has no weights of classes."""
    of_classes, bound = parameters.get("class_weight"), parameters.get("sample_weight_bound")
    if of_classes is None and bound is None:
        return loss
    weights = [] if of_classes is None else [weight for _, weight in of_classes]
    if len(weights) < targets.get("count", 1):
        weights.append(1.0)
    return Weighted(loss, max(weights) * float(1.0 if bound is None else bound))


def _of_persons(loss: Loss, statement: Mapping[str, Any]) -> Loss:
    """The loss whose bound is that of a person, where one may have several rows."""
    stated = statement.get("persons")
    if stated is None or stated["rows_per_person"] == 1:
        return loss
    most = float(stated["rows_per_person"]) if stated["loss"] == PersonLoss.SUM else 1.0
    base, bound = (loss.base, loss.bound) if isinstance(loss, Weighted) else (loss, 1.0)
    return Weighted(base, bound * most)


def check_persons(parameters: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
    """Refuse parameters that tell another story of persons than the statement."""
    stated = statement.get("persons")
    loss, most = parameters["person_loss"], parameters["max_rows_per_person"]
    if stated is None:
        if loss != PersonLoss.MEAN or most is not None:
            raise InvalidInput("the parameters speak of persons and the certificate of rows.")
        return
    if most is None and loss == PersonLoss.MEAN:
        most = rows_kept(statement["problem"]["n_rows"])
    if (stated["loss"], stated["rows_per_person"]) != (loss, most):
        raise InvalidInput("person_loss or max_rows_per_person is not what the certificate states.")


def _by_rule(loss: Loss, statement: Mapping[str, Any]) -> Loss:
    """The loss that ``auto`` trains with in place of the one that was asked for, by its public rule."""
    return loss_for(replace(problem_of(statement), loss=loss), Budget(**statement["budget"]))


def _named(name: str, parameters: Mapping[str, Any], targets: Mapping[str, Any]) -> Loss:
    """The loss that an estimator makes of a name."""
    for kind in (ClippedSquared, SoftClippedSquared):
        if name == kind.name:
            return kind(parameters["residual_bound"])
    loss = resolve_loss(name)
    return loss.for_classes(targets["count"]) if targets["kind"] == "classes" else loss
