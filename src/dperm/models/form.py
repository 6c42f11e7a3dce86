"""The form of a model file: its versions and keys, before anything in it is believed."""

from __future__ import annotations

from typing import Any

from dperm.errors import InvalidInput
from dperm.strict_json import check_object

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
_READ = {  # of each version that is read: its keys, and the version of the certificate in it
    6: (KEYS, 5),
    5: (KEYS, 4),
    4: (KEYS, 3),
    3: (tuple(key for key in KEYS if key not in ("row_map", "pipeline")), 2),
}


def version_for(certificate: int) -> int:
    """The version of a file that holds a certificate of this version."""
    return next(version for version, (_, held) in _READ.items() if held == certificate)


def checked(document: object) -> dict[str, Any]:
    """A parsed file whose format, version and keys are those that this library reads."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidInput(f'a JSON object with "format": "{FORMAT}" was expected.')
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version not in _READ:
        raise InvalidInput(
            f"this library reads versions {min(_READ)} to {max(_READ)} of the format; the file has another. "
            "Load it with the version of dperm that wrote it, or fit again: files before version 3 do not bind the "
            "schema and the order of releases."
        )
    keys, certificate = _READ[version]
    check_object("the file", document, (*keys, *(key for key in OPTIONAL if key in document)))
    stated = document["certificate"]
    if not isinstance(stated, dict) or stated.get("version") != certificate:
        raise InvalidInput(f"a file of version {version} holds a certificate of version {certificate}.")
    return document
