"""Another column of a schema as its target."""

from dataclasses import replace

from dperm.datasets.features import Categorical
from dperm.datasets.numeric import Numeric
from dperm.datasets.schema import Schema
from dperm.datasets.target import Target
from dperm.errors import InvalidInput


def predicting(schema: Schema, name: str) -> Schema:
    """The schema of a model that predicts the column ``name``.

    A declared feature becomes the target with its own categories or range, and is no feature any more; the column that
    was the target before is left out, since it may not be known when this one is asked for. A name that is no feature
    is another name for the declared target.
    """
    feature = next((feature for feature in schema.features if feature.name == name), None)
    if feature is None:
        return replace(schema, target=replace(schema.target, name=name))
    if isinstance(feature, Categorical):
        target = Target(name=name, classes=feature.categories, fold=feature.fold)
    elif isinstance(feature, Numeric):
        target = Target(name=name, range=feature.range)
    else:
        raise InvalidInput(f"{name!r} cannot be predicted: a target has categories or a range.")
    return replace(
        schema,
        target=target,
        features=tuple(other for other in schema.features if other is not feature),
        cross=tuple(pair for pair in schema.cross if name not in pair),
    )
