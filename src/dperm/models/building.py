"""A fitted estimator from the content of a model file, none of which is believed before it is checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.certificate import check_statement
from dperm.certificate.inference import curvature_in
from dperm.certificate.released_map import row_map_in
from dperm.certificate.statement import check_digests
from dperm.certificate.threshold import check_thresholds, thresholds_in
from dperm.datasets import Schema, feature_names
from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel, restore
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.labels import holds_codes, label_set
from dperm.models.kinds import KINDS, parameters_of
from dperm.models.labels import labels_of
from dperm.models.pipelines import check_steps
from dperm.models.schemas import schema_of
from dperm.strict_json import is_finite_float, matches


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
