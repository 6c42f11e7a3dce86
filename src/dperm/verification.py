"""``dperm.verify``: whether the guarantee that a file claims follows from what the file states, whatever it is of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dperm.certificate.verdict import STRUCTURE, Examination, Requirements, Verdict
from dperm.certificate.verification import verify as verify_model
from dperm.errors import InvalidInput
from dperm.evaluation.verification import KINDS, examine
from dperm.models import format as models
from dperm.models.files import read_document as read_model_document
from dperm.strict_json import read_file

PathLike = str | os.PathLike[str]


def verify(
    file: PathLike | Mapping[str, Any],
    *,
    max_epsilon: float | None = None,
    max_delta: float | None = None,
    unit: str | None = None,
) -> Verdict:
    """Whether a file claims a guarantee that follows from what it states: a model, an evaluation or mean predictions.

    Parameters
    ----------
    file : path or mapping
        The file, or its content as JSON holds it.
    max_epsilon, max_delta : float, optional
        The largest guarantee that is ``ok``.
    unit : {"row", "person"}, optional
        Whom the guarantee must protect.

    See Also
    --------
    dperm.certificate.verify : what is checked of a model, and what cannot be.
    """
    document = file if isinstance(file, Mapping) else read_statement(file)
    kind = KINDS.get(str(document.get("format")))
    if kind is None:
        verdict = verify_model(document, max_epsilon=max_epsilon, max_delta=max_delta, unit=unit)
        return _if_it_loads(document, verdict) if verdict.accepted else verdict
    return examine(document, kind, Requirements(max_epsilon=max_epsilon, max_delta=max_delta, unit=unit))


def _if_it_loads(document: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """A file whose names, labels or schema nothing could be made of is not accepted either."""
    examination = Examination()
    examination.run(
        "the model itself", STRUCTURE, lambda: models.build(models.checked({**document})) and "it loads"
    )
    return replace(verdict, checks=(*verdict.checks, *examination.checks))


def read_statement(path: PathLike) -> Mapping[str, Any]:
    """The parsed file, of which nothing is believed; "format" says whose statement it is."""
    document: Mapping[str, Any] = read_file(path, _known, "file to verify", models.MAX_BYTES)
    return read_model_document(path) if document["format"] == models.FORMAT else document


def _known(document: object) -> Mapping[str, Any]:
    formats = (models.FORMAT, *KINDS)
    if not isinstance(document, dict) or document.get("format") not in formats:
        raise InvalidInput(f'a JSON object was expected whose "format" is {" or ".join(map(repr, formats))}.')
    return document
