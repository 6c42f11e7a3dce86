"""Which estimators have a file form, and their parameters in it."""

from __future__ import annotations

from typing import Any, get_type_hints

from dperm.certificate.document import mechanism_of, plain
from dperm.certificate.estimators import WHERE_SET
from dperm.certificate.older import mechanism_then, mechanism_today
from dperm.certificate.statement import DECLARED
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.fit_record import HANDLES
from dperm.estimators.labels import told_classes
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.linear_classifier import PrivateLinearClassifier
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.svm import PrivateLinearSVC
from dperm.losses import Loss, rebuild_loss, resolve_loss
from dperm.mechanisms import Mechanism, resolve
from dperm.neighbours import Neighbours
from dperm.planning.rules import parse_l2
from dperm.strict_json import check_object, is_finite_float, is_label, matches

KINDS: dict[str, type[PrivateLinearModel]] = {
    kind.__name__: kind
    for kind in (
        PrivateLogisticRegression,
        PrivateLinearSVC,
        PrivateLinearClassifier,
        PrivateLinearRegression,
    )
}
_STANDARDISING = 5  # the first version whose mechanisms standardise


def stored_parameters(estimator: PrivateLinearModel, version: int) -> dict[str, Any]:
    """The parameters of the fit as a file of this version holds them."""
    names = _names(type(estimator), version)
    parameters = {
        name: value
        for name, value in estimator._record.parameters.items()
        if name in names and not (name in WHERE_SET and value == WHERE_SET[name])
    }
    declared = estimator.privacy_.statement["targets"]["origin"] == DECLARED
    if declared and parameters.get("classes", ()) is None:
        parameters["classes"] = plain("classes", told_classes(estimator))  # by the shards
    if version < _STANDARDISING and isinstance(parameters["mechanism"], dict):
        parameters["mechanism"] = mechanism_then(parameters["mechanism"])
    return parameters


def parameters_of(kind: type[PrivateLinearModel], document: dict[str, Any]) -> dict[str, Any]:
    """The parameters in a file, each of its own type."""
    hints = _hints(kind)
    names = _names(kind, document["version"])
    stored = document["parameters"]
    unset = set(WHERE_SET).intersection(names).difference(stored) if isinstance(stored, dict) else ()
    parameters = {**check_object("parameters", stored, [name for name in names if name not in unset])}
    if "class_weight" in parameters:
        parameters["class_weight"] = _class_weight(parameters["class_weight"])
    if document["version"] < _STANDARDISING:
        parameters["mechanism"] = mechanism_today(parameters["mechanism"])
    parameters["mechanism"] = _mechanism(parameters["mechanism"])
    if "loss" in parameters:
        parameters["loss"] = _loss(parameters["loss"])
    for name, value in parameters.items():
        if not (isinstance(value, Mechanism | Loss) or matches(value, hints[name])):
            raise InvalidInput(f"parameter {name} has a value of a wrong type.")
    if not matches(parameters["random_state"], int | None):
        raise InvalidInput("parameter random_state must be null or a whole number.")
    if "y_range" in parameters:
        if parameters["y_range"] is None:
            raise InvalidInput("parameter y_range is missing, without which no model is fitted.")
        parameters["y_range"] = tuple(parameters["y_range"])
    Neighbours.parse(parameters["neighbours"])
    parse_l2(parameters["l2"])
    return parameters


def _hints(kind: type[PrivateLinearModel]) -> dict[str, Any]:
    hints = get_type_hints(kind.__init__)
    return {name: hint for name, hint in hints.items() if name not in ("return", *HANDLES)}


def _names(kind: type[PrivateLinearModel], version: int) -> list[str]:
    """Before version 4 no estimator had a choice of losses."""
    return [name for name in _hints(kind) if name != "loss" or version >= 4]


def _mechanism(stored: object) -> str | Mechanism:
    if isinstance(stored, str):
        resolve(stored)
        return stored
    return mechanism_of(stored)


def _class_weight(stored: object) -> dict[Any, Any]:
    """From pairs of label and weight."""
    if not (isinstance(stored, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in stored)):
        raise InvalidInput("class_weight must be a list of pairs of label and weight.")
    if not all(is_label(label) and is_finite_float(weight) and weight > 0 for label, weight in stored):
        raise InvalidInput("class_weight must pair labels with positive numbers.")
    return dict(stored)


def _loss(stored: object) -> str | Loss:
    if isinstance(stored, str):
        resolve_loss(stored)
        return stored
    described = check_object("loss", stored, ("name", "parameters", "outputs"))
    if not (
        matches(described["name"], str)
        and matches(described["parameters"], list[float])
        and matches(described["outputs"], int)
    ):
        raise InvalidInput("the loss must have a name, parameters and a number of outputs.")
    return rebuild_loss(described["name"], described["parameters"], described["outputs"])
