"""A PublicEncoder and a model behind it, saved and loaded as one."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from dperm.errors import InvalidInput
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.encoder import PublicEncoder
from dperm.schema import Schema


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


def joined(schema: Schema, estimator: PrivateLinearModel, steps: list[str]) -> Pipeline:
    """The pipeline that was parted, which reads tables with the columns of the schema."""
    encoder = PublicEncoder(schema).fit({feature.name: [] for feature in schema.features})
    return Pipeline(list(zip(steps, (encoder, estimator), strict=True)))


def check_steps(steps: Any, has_schema: bool) -> None:
    """Refuse names of steps that no pipeline of two can have."""
    if steps is None:
        return
    named = isinstance(steps, list) and len(steps) == 2 and all(isinstance(name, str) for name in steps)
    if not named or not has_schema or len(set(steps)) != 2 or any("__" in name for name in steps):
        raise InvalidInput("pipeline must be null or, beside a schema, the names of two steps.")
