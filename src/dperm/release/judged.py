"""The evaluation of a release, as ``dperm.evaluation`` wrote it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from dperm.errors import InvalidInput, Unsupported

NOT_PRIVATE = (
    "These figures are NOT private: they were computed from rows without noise that protects, for the eyes of the "
    "data's owner. Do not publish this page with them."
)


def is_private(evaluation: Any) -> bool:
    """Exact figures are not, nor are those with a seed."""
    return bool(evaluation.private) and not evaluation.local


def read_judged(path: str | os.PathLike[str]) -> Any:
    return _package().read_evaluation(path)


def judged_section(evaluation: Any) -> str:
    """A fragment of HTML; everything in it is escaped there."""
    return str(_package().evaluation_section(evaluation))


def check_about(evaluation: Any, statement: Mapping[str, Any], name: str) -> None:
    """Refuse the evaluation of another model."""
    if evaluation.model != statement["model"]["sha256"]:
        raise InvalidInput(
            f"the evaluation is not of {name}: it is about the model {evaluation.model[:12]}..., and this one is "
            f"{statement['model']['sha256'][:12]}... Evaluate this model, or leave --evaluation out."
        )


def _package() -> Any:
    try:
        return import_module("dperm.evaluation")
    except ModuleNotFoundError:
        raise Unsupported("this version of dperm has no evaluations; leave --evaluation out.") from None
