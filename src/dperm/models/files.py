"""Save and load: what a user does with a model file."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm import __version__
from dperm.certificate.statement import file_digest, model_digest, plain, released_parts
from dperm.errors import DpermError, InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.encoder import PublicEncoder
from dperm.estimators.report import released_numbers
from dperm.ledger.history import Anchor
from dperm.models.atomic import atomic_path
from dperm.models.format import (
    FORMAT,
    KINDS,
    MAX_BYTES,
    build,
    check_columns,
    checked,
    stored_parameters,
    stored_schema,
    type_of,
)
from dperm.schema import Schema
from dperm.strict_json import header, read_file

PathLike = str | os.PathLike[str]


def save_model(model: PrivateLinearModel | Pipeline, path: PathLike, schema: Schema | None = None) -> None:
    """Write a fitted model to a JSON file, whole or not at all.

    The file holds what was released and public facts only: coefficients, the map of rows, parameters, the certificate
    and, if given, the schema that turned records into features. A ledger that the model was fitted with notes the
    name of the file and the digest of the model beside the charge.

    Parameters
    ----------
    model : private linear estimator, or a Pipeline of a PublicEncoder and one
        Fitted. A ``random_state`` that is a generator cannot be stored.
    path : path
        An existing file is replaced.
    schema : Schema, optional
        With it, ``dperm predict`` can read raw tables. A pipeline brings its own. The file holds the number of hats
        of each number, so that it keeps its meaning should the default change.

    Guarantee
    ---------
    What is saved is what ``fit`` released: a model whose coefficients, intercept, classes, feature names or map of
    rows were changed afterwards is refused, because its certificate is not about them.
    """
    estimator, schema, steps = parted(model, schema)
    name = type(estimator).__name__
    if KINDS.get(name) is not type(estimator):
        raise InvalidInput(
            f"only {', '.join(KINDS)}, or a Pipeline of a PublicEncoder and one of these, can be saved; got a {name}."
        )
    check_is_fitted(estimator, "certificate_")
    if schema is not None:
        check_columns(schema, estimator.n_features_in_)
    certificate, released = estimator.certificate_, released_numbers(estimator)
    if model_digest(released) != certificate["model"]["sha256"]:
        raise InvalidInput(
            "coef_, intercept_, classes_, feature_names_in_ or row_map_ were changed after fit, so the certificate is "
            "not about them and nothing was saved. Save the model as fit left it, or fit again."
        )
    thresholds, line = estimator.privacy_.thresholds, getattr(estimator, "threshold_", None)
    if (thresholds[-1] if thresholds else None) != (None if line is None else line.to_dict()):
        raise InvalidInput(
            "threshold_ is not what tune_threshold left, so nothing was saved: what was tuned was paid for, and the "
            "last one is in force. Tune again, fit again, or put a line of your own on decision_function."
        )
    if not (np.isfinite(estimator.coef_).all() and np.isfinite(estimator.intercept_).all()):
        raise InvalidInput("coefficients or intercept are not finite, which a model file cannot hold.")
    plain("classes_", getattr(estimator, "classes_", None))  # which released_numbers could give as text only
    document = {
        **header(FORMAT),
        "library": __version__,
        "estimator": name,
        "parameters": stored_parameters(estimator),
        "label_type": type_of(getattr(estimator, "classes_", None)),
        **released_parts(released),
        "certificate": certificate,
        "schema": None if schema is None else stored_schema(schema),
        "pipeline": steps,
    }
    if thresholds:
        document["thresholds"] = list(thresholds)
    document["digest"] = file_digest(document)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with atomic_path(path) as file:
        file.write_text(text + "\n", encoding="utf-8")
    note_file(estimator, path)


def load_model(path: PathLike) -> Any:
    """Read a fitted estimator, or the pipeline that was saved; it predicts bit for bit what the saved one did.

    Assumes
    -------
    Nothing of the file: its size, keys, types, shapes and numbers are checked and no code in it is run. That the
    certificate belongs to the coefficients is checked too; whether its guarantee follows from what it states is
    the business of ``dperm.verify``.

    Raises
    ------
    InvalidInput
        If the file is not a model that this version reads, whole and consistent.
    """
    document, (estimator, schema) = _read(path)
    steps = document["pipeline"]
    if steps is None or schema is None:
        return estimator
    encoder = PublicEncoder(schema).fit({feature.name: [] for feature in schema.features})
    return Pipeline(list(zip(steps, (encoder, estimator), strict=True)))


def read_model(path: PathLike) -> tuple[PrivateLinearModel, Schema | None]:
    """The estimator alone, and the schema stored beside it, if any."""
    return _read(path)[1]


def parts_of(
    model: PrivateLinearModel | Pipeline | PathLike, schema: Schema | PathLike | Mapping[str, Any] | None
) -> tuple[Any, Schema | None]:
    """The estimator and its schema; a saved model and a pipeline may bring their own."""
    estimator, own = read_model(model) if isinstance(model, str | os.PathLike) else parted(model, None)[:2]
    if own is not None and schema is not None:
        raise InvalidInput("the model brings a schema of its own; leave the other one out.")
    return estimator, own if schema is None else Schema.parse(schema)


def read_document(path: PathLike) -> dict[str, Any]:
    """The parsed file, of which nothing but format, version and keys has been checked."""
    return read_file(path, checked, "model file", MAX_BYTES)


def _read(path: PathLike) -> tuple[dict[str, Any], tuple[PrivateLinearModel, Schema | None]]:
    document = read_document(path)
    try:
        return document, build(document)
    except InvalidInput as error:
        raise InvalidInput(f"{Path(path).name} is not a usable model file: {error}") from None


def parted(model: Any, schema: Schema | None) -> tuple[Any, Schema | None, list[str] | None]:
    """The model, its schema and, of a pipeline, the names of its steps."""
    if not isinstance(model, Pipeline):
        return model, schema, None
    if schema is not None:
        raise InvalidInput("a pipeline has the schema of its encoder; give schema= with a model alone.")
    parts = [part for _, part in model.steps]
    if len(parts) != 2 or not isinstance(parts[0], PublicEncoder):
        raise InvalidInput(
            "a pipeline can be saved if it is a PublicEncoder and a private model, and nothing else; of any other save "
            "its last step, and keep the steps before it."
        )
    encoder, estimator = parts
    if hasattr(estimator, "best_estimator_"):
        raise InvalidInput(
            "a search is not saved; put its best_estimator_ behind the encoder, in a pipeline of their own."
        )
    return estimator, encoder.declared, [name for name, _ in model.steps]


def note_file(model: PrivateLinearModel, path: str | os.PathLike[str]) -> None:
    """Call it once the file is written. What fails here is warned of: model and charge are what they were."""
    ledger, citation = model._record.ledger, model.ledger_entry_
    if ledger is None or citation is None or Anchor.of(citation).ledger != ledger.id:
        return
    try:
        ledger.note(model, path)
    except (DpermError, OSError) as error:
        warnings.warn(
            f"the model was saved, and the ledger does not name its file: {error}",
            RuntimeWarning,
            stacklevel=3,
        )
