"""Where a value falls among what the schema declares: its level, its bin, its place between the ends of a range."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import (
    MISSING,
    NUMBERS,
    UNKNOWN,
    arrow_columns,
    as_codes,
    as_numbers,
    check_kind,
    declared_kind,
)
from dperm.datasets.dates import Date
from dperm.datasets.features import Categorical, Cross, Leaf
from dperm.datasets.hashed import Hashed
from dperm.datasets.numeric import Numeric
from dperm.datasets.schema import Schema


def declared_columns(table: Any, schema: Schema) -> tuple[dict[str, Any], int]:
    """The columns of the blocks by their names, each of its declared kind, and how many rows they have."""
    columns = arrow_columns(table, [feature.name for feature in schema.features])
    n_rows = len(columns[schema.features[0].name])
    for feature in schema.features:
        if isinstance(feature, Date):
            columns.update(feature.columns(columns[feature.name]))
            continue
        if isinstance(feature, Hashed):
            feature.check_column(columns[feature.name])
            continue
        declared = NUMBERS if isinstance(feature, Numeric) else declared_kind(feature.categories)
        check_kind(feature.name, columns[feature.name], declared, feature.missing)
    return columns, n_rows


def level_codes(feature: Leaf, column: Any) -> NDArray[np.int64]:
    """The level of each value: its category or its bin; below 0 where it has none."""
    if isinstance(feature, Numeric):
        return bin_codes(feature, as_numbers(feature.name, column, feature.missing))
    assert isinstance(feature, Categorical)  # what is hashed has no levels
    codes = as_codes(feature.name, column, feature.categories, feature.missing, feature.fold)
    if feature.missing_as is not None:
        codes[codes == MISSING] = feature.categories.index(feature.missing_as)
    return codes


def bin_codes(feature: Numeric, values: NDArray[np.float64]) -> NDArray[np.int64]:
    codes = np.searchsorted(feature.bins, values, side="right")
    return np.where(np.isnan(values), MISSING, codes)


def pair_codes(block: Cross, columns: Mapping[str, Any]) -> NDArray[np.int64]:
    left, right = (level_codes(part, columns[part.name]) for part in (block.left, block.right))
    return np.where((left < 0) | (right < 0), UNKNOWN, left * len(block.right.levels) + right)


def moved_numbers(feature: Numeric, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clipped values as distances from the origin, at most ``feature.reach``; 0 where there is none."""
    clipped = np.clip(values, *feature.range)
    if feature.log:
        np.log1p(clipped, out=clipped)
    reach = feature.reach
    moved = np.clip(clipped - feature.origin, -reach, reach)  # the logarithm may round past the ends
    moved[np.isnan(values)] = 0.0
    return np.asarray(moved)


def hat_places(feature: Numeric, moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places among the knots, from 0 to ``n_hats`` - 1, of what ``moved_numbers`` gave."""
    last = feature.n_hats - 1
    low, high = feature.ends
    return np.asarray(np.clip((moved * (0.5 / feature.reach) - low) * (last / (high - low)), 0, last))
