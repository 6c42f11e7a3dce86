"""The form of a model file: its keys, before anything in it is believed."""

from __future__ import annotations

from typing import Any

from dperm.strict_json import check_format, check_object

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
OPTIONAL = (
    "thresholds",
    "inference",
)  # of a model whose threshold was tuned, all of them, or that has numbers for intervals


def checked(document: object) -> dict[str, Any]:
    """A parsed file whose format, version and keys are those that this library reads."""
    held = check_format(document, FORMAT)
    return check_object("the file", held, (*KEYS, *(key for key in OPTIONAL if key in held)))
