"""Fitted models as JSON files: exact, readable, and safe to load from a stranger."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dperm import __version__
from dperm.datasets import Schema
from dperm.errors import InvalidInput
from dperm.estimators._classifier import PrivateClassifier
from dperm.estimators.atomic import atomic_path
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.report import PrivacyReport
from dperm.estimators.svm import PrivateLinearSVC
from dperm.mechanisms import Mechanism, resolve
from dperm.neighbours import Neighbours

FORMAT = "dperm model"
VERSION = 1
MAX_BYTES = 64 << 20

_KINDS: dict[str, type[PrivateClassifier]] = {
    kind.__name__: kind for kind in (PrivateLogisticRegression, PrivateLinearSVC)
}
_LABEL_TYPES = ["str", "object", "bool", "float32", "float64"]
_LABEL_TYPES += [f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)]
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
    "privacy",
    "schema",
)


def save_model(
    estimator: PrivateClassifier, path: str | os.PathLike[str], schema: Schema | None = None
) -> None:
    """Write a fitted estimator to a JSON file, whole or not at all.

    The file holds what was released and public facts only: coefficients, parameters, the privacy report
    and, if given, the schema that turned records into features.

    Parameters
    ----------
    estimator : PrivateLogisticRegression or PrivateLinearSVC
        Fitted. A ``random_state`` that is a generator cannot be stored.
    path : path
        An existing file is replaced.
    schema : Schema, optional
        With it, ``dperm predict`` can read raw tables.
    """
    name = type(estimator).__name__
    if _KINDS.get(name) is not type(estimator):
        raise InvalidInput(f"only {' and '.join(_KINDS)} can be saved; got a {name}.")
    check_is_fitted(estimator)
    if schema is not None:
        _check_columns(schema, estimator.n_features_in_)
    labels = estimator.classes_
    label_type = "str" if labels.dtype.kind == "U" else labels.dtype.name
    if label_type not in _LABEL_TYPES:
        raise InvalidInput(
            f"classes_ of type {label_type} cannot be saved; use text, numbers or truth values."
        )
    names = getattr(estimator, "feature_names_in_", None)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "library": __version__,
        "estimator": name,
        "parameters": {key: _plain(key, value) for key, value in estimator.get_params(deep=False).items()},
        "label_type": label_type,
        "classes": _plain("classes_", labels),
        "feature_names": None if names is None else [str(column) for column in names],
        "coefficients": _per_class(estimator.coef_).tolist(),
        "intercept": _per_class(estimator.intercept_).tolist(),
        "privacy": _plain("privacy_", estimator.privacy_.to_dict()),
        "schema": None if schema is None else schema.to_dict(),
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with atomic_path(path) as file:
        file.write_text(text + "\n", encoding="utf-8")


def load_model(path: str | os.PathLike[str]) -> PrivateClassifier:
    """Read a fitted estimator; its predictions are bit for bit those of the one that was saved.

    Assumes
    -------
    Nothing of the file: its size, keys, types, shapes and numbers are checked and no code in it is run.
    But its privacy report is what its author wrote there; it cannot be checked against the coefficients.

    Raises
    ------
    InvalidInput
        If the file is not a model of this version, whole and consistent.
    """
    return read_model(path)[0]


def read_model(path: str | os.PathLike[str]) -> tuple[PrivateClassifier, Schema | None]:
    """As :func:`load_model`, with the schema stored beside the model, if any."""
    path = Path(path)
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    try:
        if len(raw) > MAX_BYTES:
            raise InvalidInput(f"the file is larger than {MAX_BYTES >> 20} MiB, the limit for a model.")
        return _build(_parse(raw))
    except InvalidInput as error:
        raise InvalidInput(f"{path.name} is not a usable model file: {error}") from None


def _parse(raw: bytes) -> dict[str, Any]:
    def constant(text: str) -> None:
        raise ValueError(text)

    try:
        document = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_without_repeats, parse_constant=constant
        )
    except InvalidInput:
        raise
    except (ValueError, RecursionError):
        raise InvalidInput("it is not valid JSON.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidInput(f'a JSON object with "format": "{FORMAT}" was expected.')
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        raise InvalidInput(
            f"this library reads version {VERSION} of the format; the file has another. Load it with the "
            "version of dperm that wrote it."
        )
    return _object("the file", document, _KEYS)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise InvalidInput("a key occurs twice in one object.")
    return table


def _build(document: dict[str, Any]) -> tuple[PrivateClassifier, Schema | None]:
    kind = document["estimator"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"estimator must be one of {', '.join(_KINDS)}.")
    estimator = _KINDS[kind](**_parameters(document["parameters"]))
    if not isinstance(document["library"], str):
        raise InvalidInput("library must be text.")
    classes = _labels(document["classes"], document["label_type"])
    if len(classes) > 2 and not estimator.multi_class:
        raise InvalidInput(f"{kind} is for two classes.")
    coefficients, intercept = _weights(document["coefficients"], document["intercept"], len(classes))
    if estimator.fit_intercept is False and intercept.any():
        raise InvalidInput("intercept must be 0 when fit_intercept is false.")
    estimator.classes_, estimator.coef_, estimator.intercept_ = classes, coefficients, intercept
    estimator.n_features_in_ = n_features = coefficients.shape[1]
    names = document["feature_names"]
    if names is not None:
        if not (isinstance(names, list) and all(isinstance(column, str) for column in names)):
            raise InvalidInput("feature_names must be null or a list of text.")
        if len(names) != n_features:
            raise InvalidInput(f"{len(names)} feature names for {n_features} coefficients.")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.privacy_ = _report(document["privacy"])
    schema = None if document["schema"] is None else Schema.from_dict(document["schema"])
    if schema is not None:
        _check_columns(schema, n_features)
    return estimator, schema


def _per_class(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the file holds: for two classes the one row itself, otherwise a row for each class."""
    row: NDArray[np.float64] = values[0] if len(values) == 1 else values
    return row


def _weights(coefficients: Any, intercept: Any, n_classes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """``coef_`` and ``intercept_`` from what the file holds."""
    if n_classes == 2:
        coefficients, intercept = [coefficients], [intercept]
    n_rows = 1 if n_classes == 2 else n_classes
    if not (
        isinstance(coefficients, list)
        and len(coefficients) == n_rows
        and all(isinstance(row, list) and row and all(map(_is_finite_float, row)) for row in coefficients)
        and len({len(row) for row in coefficients}) == 1
    ):
        raise InvalidInput(
            "coefficients must be a list of finite floats, or for more than two classes one for each of them."
        )
    if not (
        isinstance(intercept, list) and len(intercept) == n_rows and all(map(_is_finite_float, intercept))
    ):
        raise InvalidInput(
            "intercept must be a finite float, or for more than two classes a list with one for each of them."
        )
    return np.array(coefficients), np.array(intercept)


def _parameters(stored: object) -> dict[str, Any]:
    hints = get_type_hints(PrivateClassifier.__init__)
    del hints["return"]
    parameters = {**_object("parameters", stored, hints)}
    parameters["mechanism"] = _mechanism(parameters["mechanism"])
    for key, value in parameters.items():
        if not _matches(value, hints[key]):
            raise InvalidInput(f"parameter {key} has a value of a wrong type.")
    if not _matches(parameters["random_state"], int | None):
        raise InvalidInput("parameter random_state must be null or a whole number.")
    Neighbours.parse(parameters["neighbours"])
    return parameters


def _mechanism(stored: object) -> str | Mechanism:
    if isinstance(stored, str):
        resolve(stored)
        return stored
    described = _object("mechanism", stored, ("name", "settings"))
    if not isinstance(described["name"], str):
        raise InvalidInput("the mechanism's name must be text.")
    default = resolve(described["name"])
    settings = _object("the mechanism's settings", described["settings"], default.settings)
    hints = get_type_hints(type(default))
    for key, value in settings.items():
        if not _matches(value, hints[key]):
            raise InvalidInput(f"setting {key} of the mechanism has a value of a wrong type.")
    return replace(default, **settings)


def _labels(values: object, label_type: object) -> NDArray[Any]:
    if not isinstance(label_type, str) or label_type not in _LABEL_TYPES:
        raise InvalidInput(f"label_type must be one of {', '.join(_LABEL_TYPES)}.")
    if not (isinstance(values, list) and len(values) >= 2 and all(map(_is_label, values))):
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


def _report(stored: object) -> PrivacyReport:
    hints = get_type_hints(PrivacyReport)
    report = _object("privacy", stored, hints)
    for key, value in report.items():
        if not _matches(value, hints[key]):
            raise InvalidInput(f"privacy, {key}: the value is of a wrong type.")
    guarantee = report["guarantee"]
    if guarantee is None and report["reason"] is None:
        raise InvalidInput("privacy: without a guarantee there must be a reason.")
    if guarantee is not None and guarantee != {"epsilon": report["epsilon"], "delta": report["delta"]}:
        raise InvalidInput("privacy: the guarantee is not the stated epsilon and delta.")
    return PrivacyReport(**{**report, "assumptions": tuple(report["assumptions"])})


def _check_columns(schema: Schema, n_features: int) -> None:
    if schema.n_columns != n_features:
        raise InvalidInput(
            f"the schema has {schema.n_columns} columns and the model {n_features} coefficients."
        )


def _object(where: str, value: object, keys: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise InvalidInput(f"{where} must be an object with exactly the keys {', '.join(keys)}.")
    return value


def _is_finite_float(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _is_label(value: object) -> bool:
    return isinstance(value, str | bool | int) or _is_finite_float(value)


def _matches(value: object, hint: Any) -> bool:
    """Whether a JSON value fits a type annotation; a list fits any kind of sequence of scalars."""
    origin = get_origin(hint)
    if origin in (UnionType, Union):
        return any(_matches(value, option) for option in get_args(hint))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(_matches(v, get_args(hint)[1]) for v in value.values())
    if origin is not None and issubclass(origin, Sequence):
        return isinstance(value, list) and all(_matches(v, get_args(hint)[0]) for v in value)
    if hint is Any:
        return any(_matches(value, scalar) for scalar in (NoneType, bool, str, float))
    if hint in (int, float):
        small = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
        return small or (hint is float and _is_finite_float(value))
    return isinstance(value, hint)


def _plain(name: str, value: Any) -> Any:
    """The value as JSON writes it, or a clear refusal."""
    if isinstance(value, Mechanism):
        return {"name": value.name, "settings": _plain(name, value.settings)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(name, v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, v) for v in value]
    if value is None or _is_label(value):
        return value
    raise InvalidInput(f"{name} holds a {type(value).__name__}, which a model file cannot keep.")
