"""What one fit was: a record that nothing done to the estimator afterwards changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.certificate import bind
from dperm.certificate.statement import plain
from dperm.errors import InvalidInput
from dperm.ledger import Ledger

HANDLES = ("ledger", "dataset")  # on another file; a saved model does not have them


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """Parameters and certificate of one fit, as text, and the ledger that it was charged to.

    ``fit`` and ``load_model`` make it, and every later act reads it or the report that was made with it: parameters
    that are set afterwards are those of the next fit.

    Attributes
    ----------
    stored : str
        The parameters, as a model file holds them.
    unstorable : str or None
        Why a model file cannot hold them, if it cannot.
    bound : str
        The certificate, bound to the numbers that were released.
    """

    stored: str
    unstorable: str | None
    bound: str
    ledger: Ledger | None

    @classmethod
    def of(cls, estimator: Any, certificate: Mapping[str, Any] | None = None) -> FitRecord:
        """Of an estimator that was just fitted, or of one that was read with its ``certificate``."""
        if certificate is None:
            entry = getattr(estimator, "ledger_entry_", None)
            certificate = bind(estimator.privacy_.statement, released_numbers(estimator), entry)
        values = estimator.get_params(deep=False)
        parameters, unstorable = {}, None
        for name in (name for name in values if name not in HANDLES):
            try:
                parameters[name] = _as_stored(name, values[name])
            except InvalidInput as error:
                unstorable = unstorable or str(error)
        return cls(
            stored=json.dumps(parameters),
            unstorable=unstorable,
            bound=json.dumps(certificate),
            ledger=values["ledger"] if isinstance(values["ledger"], Ledger) else None,
        )

    @property
    def certificate(self) -> dict[str, Any]:
        return dict(json.loads(self.bound))

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the fit, in the form of a model file."""
        if self.unstorable is not None:
            raise InvalidInput(self.unstorable)
        return dict(json.loads(self.stored))


def released_numbers(estimator: Any) -> dict[str, Any]:
    """What a model file holds of a release: for one output a row of coefficients, otherwise rows.

    A number that is not finite, or a label that a file cannot hold, is given as text; ``save_model`` refuses both.
    """
    coefficients, intercept = np.asarray(estimator.coef_), np.atleast_1d(estimator.intercept_)
    if coefficients.ndim == 2 and len(coefficients) == 1:
        coefficients = coefficients[0]
    released = {
        "coefficients": coefficients,
        "intercept": intercept[0] if len(intercept) == 1 else intercept,
        "classes": getattr(estimator, "classes_", None),
        "feature_names": getattr(estimator, "feature_names_in_", None),
        "row_map": estimator.row_map_.to_dict(),
    }
    if estimator._told is not None:
        released["inference"] = estimator._told
    return {name: plain(name, value, strict=False) for name, value in released.items()}


def _as_stored(name: str, value: Any) -> Any:
    if name == "class_weight" and isinstance(value, Mapping):  # keys of an object would be text
        return [[plain(name, label), float(weight)] for label, weight in value.items()]
    return plain(name, value)
