"""A fitted model as the content of a file, and back: nothing that a file holds is believed before it is checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dperm.certificate import check_statement
from dperm.certificate.assumptions import DECLARED
from dperm.certificate.released import curvature_in, row_map_in
from dperm.certificate.statement import check_digests, mechanism_of, plain
from dperm.certificate.threshold import check_thresholds, thresholds_in
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel, restore
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.labels import holds_codes, label_set, told_classes
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.linear_classifier import PrivateLinearClassifier, PrivateLinearSVC
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.report import HANDLES
from dperm.losses import Loss, rebuild_loss, resolve_loss
from dperm.mechanisms import Mechanism, resolve
from dperm.planning.rules import parse_l2
from dperm.schema import Schema, feature_names
from dperm.strict_json import check_format, check_object, is_finite_float, is_label, matches
from dperm.unit import Neighbours

FORMAT = "dperm model"
MAX_BYTES = 64 << 20
KEYS = (
    "format",
    "version",
    "library",
    "estimator",
    "parameters",
    "label_type",
    "classes",
    "feature_names",
    "coefficients",
    "intercept",
    "row_map",
    "certificate",
    "schema",
    "pipeline",
    "digest",
)
# Of a model whose threshold was tuned, all of them, or that has numbers for intervals.
OPTIONAL = ("thresholds", "inference")

KINDS: dict[str, type[PrivateLinearModel]] = {
    kind.__name__: kind
    for kind in (
        PrivateLogisticRegression,
        PrivateLinearSVC,
        PrivateLinearClassifier,
        PrivateLinearRegression,
    )
}
_TYPES = ["str", "object", "bool", "float32", "float64"]
_TYPES += [f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)]


def checked(document: object) -> dict[str, Any]:
    """A parsed file whose format, version and keys are those that this library reads."""
    held = check_format(document, FORMAT)
    return check_object("the file", held, (*KEYS, *(key for key in OPTIONAL if key in held)))


def stored_parameters(estimator: PrivateLinearModel) -> dict[str, Any]:
    """The parameters of the fit as a file holds them."""
    names = _hints(type(estimator))
    parameters = {name: value for name, value in estimator._record.parameters.items() if name in names}
    declared = estimator.privacy_.statement["targets"]["origin"] == DECLARED
    if declared and parameters.get("classes", ()) is None:
        parameters["classes"] = plain("classes", told_classes(estimator))  # by the shards
    return parameters


def parameters_of(kind: type[PrivateLinearModel], document: dict[str, Any]) -> dict[str, Any]:
    """The parameters in a file, each of its own type."""
    hints = _hints(kind)
    parameters = {**check_object("parameters", document["parameters"], hints)}
    if parameters.get("class_weight") is not None:
        parameters["class_weight"] = _class_weight(parameters["class_weight"])
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


def type_of(labels: NDArray[Any] | None) -> str | None:
    """The name under which the type of the labels is stored; None for a model without classes."""
    if labels is None:
        return None
    name = "str" if labels.dtype.kind == "U" else str(labels.dtype.name)
    if name not in _TYPES:
        raise InvalidInput(f"classes_ of type {name} cannot be saved; use text, numbers or truth values.")
    return name


def labels_of(values: object, label_type: object) -> NDArray[Any]:
    """The labels as the model had them."""
    if not isinstance(label_type, str) or label_type not in _TYPES:
        raise InvalidInput(f"label_type must be one of {', '.join(_TYPES)}.")
    if not (isinstance(values, list) and len(values) >= 2 and all(map(is_label, values))):
        raise InvalidInput("classes must be a list of at least two labels: text, numbers or truth values.")
    try:
        labels = np.array(values, dtype=label_type)
    except (ValueError, OverflowError):
        labels = np.array([])
    if labels.tolist() != values or [type(v) for v in labels.tolist()] != [type(v) for v in values]:
        raise InvalidInput("classes do not have the label_type that the file states.")
    if len(set(values)) < len(values):
        raise InvalidInput("classes must be different labels.")
    return labels


def stored_schema(schema: Schema) -> dict[str, Any]:
    return replace(schema.settled(), spline=None).to_dict()


def schema_of(stored: Any) -> Schema:
    schema = Schema.from_dict(stored)
    return replace(schema, spline=0) if schema.spline is None else schema


def build(document: dict[str, Any]) -> tuple[PrivateLinearModel, Schema | None]:
    """The estimator, and the schema stored beside it, if any."""
    kind = document["estimator"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"estimator must be one of {', '.join(KINDS)}.")
    estimator = KINDS[kind](**parameters_of(KINDS[kind], document))
    if not isinstance(document["library"], str):
        raise InvalidInput("library must be text.")
    if isinstance(estimator, PrivateClassifier):
        classes = labels_of(document["classes"], document["label_type"])
        if len(classes) > 2 and not estimator.fits_many_classes:
            raise InvalidInput(f"{kind} is for two classes.")
        coefficients, intercept = _weights(document["coefficients"], document["intercept"], len(classes))
        if estimator.fit_intercept is False and intercept.any():
            raise InvalidInput("intercept must be 0 when fit_intercept is false.")
        _give_labels(estimator, classes)
        estimator.coef_, estimator.intercept_, estimator.threshold_ = coefficients, intercept, None
    else:
        if document["classes"] is not None or document["label_type"] is not None:
            raise InvalidInput(f"{kind} has no classes.")
        coefficients, intercept = _weights(document["coefficients"], document["intercept"], 2)
        estimator.coef_, estimator.intercept_ = coefficients[0], float(intercept[0])
    estimator.n_features_in_ = n_features = coefficients.shape[1]
    names = document["feature_names"]
    if names is not None:
        if not matches(names, list[str]):
            raise InvalidInput("feature_names must be null or a list of text.")
        if len(names) != n_features:
            raise InvalidInput(f"{len(names)} feature names for {n_features} coefficients.")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    row_map = row_map_in(document, check_statement(document["certificate"]))
    check_digests(document)
    schema = None if document["schema"] is None else schema_of(document["schema"])
    if schema is not None:
        check_columns(schema, n_features)
    encoded = schema is not None and names == feature_names(schema)
    told = curvature_in(document, check_statement(document["certificate"])), document.get("inference")
    restore(estimator, document["certificate"], row_map, names_of_encoder=encoded, told=told)
    if "thresholds" in document:
        check_thresholds(document, check_statement(document["certificate"]))
        assert isinstance(estimator, PrivateClassifier)
        for threshold in thresholds_in(document):
            estimator.threshold_ = threshold
            estimator.privacy_ = estimator.privacy_.beside(threshold.to_dict())
    check_steps(document["pipeline"], has_schema=schema is not None)
    return estimator, schema


def _give_labels(estimator: PrivateClassifier, classes: NDArray[Any]) -> None:
    """The labels of the file, told in the order that its parameters declare."""
    declared = classes if estimator.classes is None else estimator.classes
    known = label_set(declared, estimator.positive, coded=holds_codes(classes))
    if known.classes.tolist() != classes.tolist():
        raise InvalidInput("classes must be the labels that the parameter classes declares, sorted.")
    same = known.classes.dtype.kind == classes.dtype.kind
    order = known.order if same else known.order.astype(classes.dtype)
    estimator._know(replace(known, classes=classes, order=order))


def check_columns(schema: Schema, n_features: int) -> None:
    """Refuse a schema that makes another number of columns than the model has coefficients."""
    if schema.n_columns != n_features:
        raise InvalidInput(
            f"the schema has {schema.n_columns} columns and the model {n_features} coefficients."
        )


def _weights(coefficients: Any, intercept: Any, n_classes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """``coef_`` and ``intercept_`` from what the file holds."""
    if n_classes == 2:
        coefficients, intercept = [coefficients], [intercept]
    n_rows = 1 if n_classes == 2 else n_classes
    if not (
        isinstance(coefficients, list)
        and len(coefficients) == n_rows
        and all(isinstance(row, list) and row and all(map(is_finite_float, row)) for row in coefficients)
        and len({len(row) for row in coefficients}) == 1
    ):
        raise InvalidInput(
            "coefficients must be a list of finite floats, or for more than two classes one for each of them."
        )
    if not (
        isinstance(intercept, list) and len(intercept) == n_rows and all(map(is_finite_float, intercept))
    ):
        raise InvalidInput(
            "intercept must be a finite float, or for more than two classes a list with one for each of them."
        )
    return np.array(coefficients), np.array(intercept)


def check_steps(steps: Any, has_schema: bool) -> None:
    """Refuse names of steps that no pipeline of two can have."""
    if steps is None:
        return
    named = isinstance(steps, list) and len(steps) == 2 and all(isinstance(name, str) for name in steps)
    if not named or not has_schema or len(set(steps)) != 2 or any("__" in name for name in steps):
        raise InvalidInput("pipeline must be null or, beside a schema, the names of two steps.")
