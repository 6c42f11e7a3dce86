"""The evaluation of a release, as ``dperm.evaluation`` wrote it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.evaluation import Evaluation, read_evaluation
from dperm.evaluation.model import evaluated_model
from dperm.evaluation.report import evaluation_html
from dperm.evaluation.verification import alike, model_facts, stated_facts

NOT_PRIVATE = (
    "These figures are NOT private: they were computed from rows without noise that protects, for the eyes of the "
    "data's owner. Do not publish this page with them."
)


def is_private(evaluation: Evaluation) -> bool:
    """Exact figures are not, nor are those with a seed."""
    return bool(evaluation.private) and not evaluation.local


def read_judged(path: str | os.PathLike[str]) -> Evaluation:
    return read_evaluation(path)


def judged_section(evaluation: Evaluation) -> str:
    """A fragment of HTML; everything in it is escaped there."""
    return evaluation_html(evaluation)


def check_about(
    evaluation: Evaluation, statement: Mapping[str, Any], estimator: PrivateLinearModel, name: str
) -> None:
    """Refuse the evaluation of another model, and one that says other things of this one than it does itself."""
    if evaluation.model != statement["model"]["sha256"]:
        raise InvalidInput(
            f"the evaluation is not of {name}: it is about the model {evaluation.model[:12]}..., and this one is "
            f"{statement['model']['sha256'][:12]}... Evaluate this model, or leave --evaluation out."
        )
    stated = stated_facts(evaluation.to_dict())
    held = model_facts(evaluated_model(estimator))
    others = [key for key, value in stated.items() if not alike(value, held[key])]
    if others:
        raise InvalidInput(
            f"the evaluation says of {name} what is not true of it ({others[0]}). If the threshold was tuned since, "
            "evaluate the model again, or leave --evaluation out."
        )
