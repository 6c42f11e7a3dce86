"""Fitted models as JSON files: exact, readable, and safe to load from a stranger."""

import json
import os
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dperm import __version__
from dperm.certificate import check_statement, unbind
from dperm.certificate.document import (
    check_object,
    is_finite_float,
    is_label,
    matches,
    mechanism_of,
    parse,
    plain,
)
from dperm.certificate.statement import check_digests, file_digest, model_digest
from dperm.datasets import Schema
from dperm.errors import InvalidInput
from dperm.estimators._base import PrivateLinearModel, released_numbers
from dperm.estimators._classifier import PrivateClassifier
from dperm.estimators.atomic import atomic_path
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.report import PrivacyReport
from dperm.estimators.svm import PrivateLinearSVC
from dperm.mechanisms import Mechanism, resolve
from dperm.neighbours import Neighbours

FORMAT = "dperm model"
VERSION = 3
MAX_BYTES = 64 << 20

_KINDS: dict[str, type[PrivateLinearModel]] = {
    kind.__name__: kind for kind in (PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression)
}
_LABEL_TYPES = ["str", "object", "bool", "float32", "float64"]
_LABEL_TYPES += [f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)]
_NOT_STORED = ("ledger", "dataset")  # handles on another file, which a loaded model does not have
_KEYS = (
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
    "certificate",
    "schema",
    "digest",
)


def save_model(
    estimator: PrivateLinearModel, path: str | os.PathLike[str], schema: Schema | None = None
) -> None:
    """Write a fitted estimator to a JSON file, whole or not at all.

    The file holds what was released and public facts only: coefficients, parameters, the certificate
    and, if given, the schema that turned records into features.

    Parameters
    ----------
    estimator : PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression
        Fitted. A ``random_state`` that is a generator cannot be stored.
    path : path
        An existing file is replaced.
    schema : Schema, optional
        With it, ``dperm predict`` can read raw tables.

    Guarantee
    ---------
    What is saved is what ``fit`` released: a model whose coefficients, intercept, classes or feature names were changed
    afterwards is refused, because its certificate is not about them.
    """
    name = type(estimator).__name__
    if _KINDS.get(name) is not type(estimator):
        raise InvalidInput(f"only {', '.join(_KINDS)} can be saved; got a {name}.")
    check_is_fitted(estimator, "certificate_")
    if schema is not None:
        _check_columns(schema, estimator.n_features_in_)
    certificate, released = estimator.certificate_, released_numbers(estimator)
    if model_digest(released) != certificate["model"]["sha256"]:
        raise InvalidInput(
            "coef_, intercept_, classes_ or feature_names_in_ were changed after fit, so the certificate is not about "
            "them and nothing was saved. Save the model as fit left it, or fit again."
        )
    _check_storable(estimator)
    parameters = {
        key: plain(key, value)
        for key, value in estimator.get_params(deep=False).items()
        if key not in _NOT_STORED
    }
    document = {
        "format": FORMAT,
        "version": VERSION,
        "library": __version__,
        "estimator": name,
        "parameters": parameters,
        "label_type": _label_type(estimator),
        **released,
        "certificate": certificate,
        "schema": None if schema is None else schema.to_dict(),
    }
    document["digest"] = file_digest(document)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with atomic_path(path) as file:
        file.write_text(text + "\n", encoding="utf-8")


def load_model(path: str | os.PathLike[str]) -> PrivateLinearModel:
    """Read a fitted estimator; its predictions are bit for bit those of the one that was saved.

    Assumes
    -------
    Nothing of the file: its size, keys, types, shapes and numbers are checked and no code in it is run. That the
    certificate belongs to the coefficients is checked too; whether its guarantee follows from what it states is
    the business of ``dperm verify``.

    Raises
    ------
    InvalidInput
        If the file is not a model of this version, whole and consistent.
    """
    return read_model(path)[0]


def read_model(path: str | os.PathLike[str]) -> tuple[PrivateLinearModel, Schema | None]:
    """As :func:`load_model`, with the schema stored beside the model, if any."""
    document = read_document(path)
    try:
        return _build(document)
    except InvalidInput as error:
        raise InvalidInput(f"{Path(path).name} is not a usable model file: {error}") from None


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The parsed file, of which nothing but format, version and keys has been checked."""
    path = Path(path)
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    try:
        if len(raw) > MAX_BYTES:
            raise InvalidInput(f"the file is larger than {MAX_BYTES >> 20} MiB, the limit for a model.")
        return _checked(parse(raw))
    except InvalidInput as error:
        raise InvalidInput(f"{path.name} is not a usable model file: {error}") from None


def _checked(document: object) -> dict[str, Any]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidInput(f'a JSON object with "format": "{FORMAT}" was expected.')
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        raise InvalidInput(
            f"this library reads version {VERSION} of the format; the file has another. Load it with the version of "
            "dperm that wrote it, or fit again: older files do not bind the schema and the order of releases."
        )
    return check_object("the file", document, _KEYS)


def _build(document: dict[str, Any]) -> tuple[PrivateLinearModel, Schema | None]:
    kind = document["estimator"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"estimator must be one of {', '.join(_KINDS)}.")
    estimator = _KINDS[kind](**_parameters(_KINDS[kind], document["parameters"]))
    if not isinstance(document["library"], str):
        raise InvalidInput("library must be text.")
    if isinstance(estimator, PrivateClassifier):
        classes = _labels(document["classes"], document["label_type"])
        if len(classes) > 2 and not estimator.multi_class:
            raise InvalidInput(f"{kind} is for two classes.")
        coefficients, intercept = _weights(document["coefficients"], document["intercept"], len(classes))
        if estimator.fit_intercept is False and intercept.any():
            raise InvalidInput("intercept must be 0 when fit_intercept is false.")
        estimator.classes_, estimator.coef_, estimator.intercept_ = classes, coefficients, intercept
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
    statement = check_statement(document["certificate"])
    check_digests(document)
    estimator._certificate = statement
    estimator.privacy_ = PrivacyReport.of(unbind(statement))
    estimator.ledger_entry_ = statement["model"]["ledger_entry"]
    schema = None if document["schema"] is None else Schema.from_dict(document["schema"])
    if schema is not None:
        _check_columns(schema, n_features)
    return estimator, schema


def _check_storable(estimator: PrivateLinearModel) -> None:
    """Refuse what ``released_numbers`` could only give as text."""
    if not (np.isfinite(estimator.coef_).all() and np.isfinite(estimator.intercept_).all()):
        raise InvalidInput("coefficients or intercept are not finite, which a model file cannot hold.")
    plain("classes_", getattr(estimator, "classes_", None))


def _label_type(estimator: PrivateLinearModel) -> str | None:
    if not isinstance(estimator, PrivateClassifier):
        return None
    kind = estimator.classes_.dtype
    name = "str" if kind.kind == "U" else str(kind.name)
    if name not in _LABEL_TYPES:
        raise InvalidInput(f"classes_ of type {name} cannot be saved; use text, numbers or truth values.")
    return name


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


def _parameters(kind: type[PrivateLinearModel], stored: object) -> dict[str, Any]:
    hints = get_type_hints(kind.__init__)
    for name in ("return", *_NOT_STORED):
        hints.pop(name, None)
    parameters = {**check_object("parameters", stored, hints)}
    parameters["mechanism"] = _mechanism(parameters["mechanism"])
    for key, value in parameters.items():
        if not (isinstance(value, Mechanism) or matches(value, hints[key])):
            raise InvalidInput(f"parameter {key} has a value of a wrong type.")
    if not matches(parameters["random_state"], int | None):
        raise InvalidInput("parameter random_state must be null or a whole number.")
    if "y_range" in parameters:
        if parameters["y_range"] is None:
            raise InvalidInput("parameter y_range is missing, without which no model is fitted.")
        parameters["y_range"] = tuple(parameters["y_range"])
    Neighbours.parse(parameters["neighbours"])
    return parameters


def _mechanism(stored: object) -> str | Mechanism:
    if isinstance(stored, str):
        resolve(stored)
        return stored
    return mechanism_of(stored)


def _labels(values: object, label_type: object) -> NDArray[Any]:
    if not isinstance(label_type, str) or label_type not in _LABEL_TYPES:
        raise InvalidInput(f"label_type must be one of {', '.join(_LABEL_TYPES)}.")
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


def _check_columns(schema: Schema, n_features: int) -> None:
    if schema.n_columns != n_features:
        raise InvalidInput(
            f"the schema has {schema.n_columns} columns and the model {n_features} coefficients."
        )
