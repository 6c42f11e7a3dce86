"""Groups of records by a column: those that the schema declares, or values that the command line does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.cli.suggest import did_you_mean
from dperm.errors import InvalidInput
from dperm.schema import Schema
from dperm.schema.columns import NUMBERS, TEXT, arrow_columns, kind_of
from dperm.schema.encoding import level_codes
from dperm.schema.features import Categorical, Hashed, Numeric
from dperm.schema.schema import Feature


@dataclass(frozen=True)
class Grouping:
    """The column ``name``, the ``values`` that make a group, and what is to be read ``beside`` the schema for it."""

    name: str
    values: tuple[str, ...]
    feature: Numeric | Categorical | None = None
    beside: Feature | None = None

    def of_records(self, table: Any) -> NDArray[Any]:
        """The value of each record in words, None where it has none."""
        column = arrow_columns(table, [self.name])[self.name]
        if self.feature is None:
            return _texts(column)
        levels = np.array([*self.feature.levels, None], object)
        codes = level_codes(self.feature, column)
        return np.asarray(levels[np.where(codes < 0, len(levels) - 1, codes)])


def grouping(schema: Schema, by: str, values: Sequence[str]) -> Grouping:
    """By a feature with categories or bins, all of them or those given; by another column as given."""
    if by == schema.target.name:
        raise InvalidInput(f"--by must name another column than {by!r}, the one that is predicted.")
    feature = next((item for item in schema.features if item.name == by), None)
    if isinstance(feature, Numeric | Categorical) and feature.levels:
        unknown = [value for value in values if value not in feature.levels]
        if unknown:
            raise InvalidInput(
                f"--value {unknown[0]!r} is no category or bin of {by!r} in the schema of the model."
                f"{did_you_mean(unknown[0], feature.levels)}"
            )
        return Grouping(by, tuple(values) or tuple(feature.levels), feature)
    if feature is not None and not isinstance(feature, Hashed):
        raise InvalidInput(
            f"--by {by!r} is a number or a date without bins in the schema; groups need bins there."
        )
    if not values:
        known = [item.name for item in schema.features if isinstance(item, Categorical)]
        raise InvalidInput(
            f"the schema of the model declares no categories or bins for {by!r}: give --value for each value that "
            f"makes a group.{did_you_mean(by, known)}"
        )
    return Grouping(by, tuple(values), None, Hashed(name=by, hashed=2) if feature is None else None)


def _texts(column: Any) -> NDArray[Any]:
    """Whole numbers as text is how the command line writes them."""
    import pyarrow as pa

    if kind_of(column) == NUMBERS and pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if kind_of(column) not in (None, TEXT):
        raise InvalidInput("the column that --by names must hold text or whole numbers.")
    return np.array(column.to_pylist(), object)
